"""A seeded simulation of weeks with many faults, on the real retraining.

    python -m tests.benchmarks.faultweek [WEEKS [SEED [NIGHTS [FOLDER]]]]

Each week (20 by default) has its own registry and inbox, and NIGHTS (7) nights. In a night shards arrive, and with them
odd files (`tests.lifecycle.odd_arrivals`), shards that are too small or have flipped labels; the retraining is
undisturbed, killed (SIGKILL) at a random instant, starved of disk space at a random size of a file, runs with the clock
set back or forward by an hour, or runs at the same time as a second one; then the operator may promote, roll back,
prune, release a shard, clear the inbox, or damage the cache of digests; some of these operations are killed at a random
instant.

FOLDER has the package of an earlier okl (`git archive COMMIT okl | tar -x -C FOLDER`; for a module that was renamed
since, add one of the new name that replaces itself by the old one in sys.modules). Then okl is upgraded or rolled back
between some nights: retraining, checks and operations of a night all use the same okl. A retraining of the earlier okl
may end with an error that has been fixed since; the checks are the same.

After each night: the champion loads, its files have the digests of the log, and its scores are those at publication; no
shard is twice in its lineage, and each has its rows; each retraining that was not killed ended with one sentence. After
each week exactly the accepted shards are in the champion's lineage, and after two prunings only named versions are on
the disk. Each violation is printed with the seed of its week.

Retrainings run in forked processes, so that modules are imported only once.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import numpy as np

import okl.data.manifest
import okl.lifecycle.versions
import okl.models.registry_log
from okl.foundation.errors import OklError
from okl.lifecycle.retrain import retrain
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.models.registry import Registry
from tests.lifecycle.odd_arrivals import GOOD, QUICK
from tests.lifecycle.shards import content, land

ROWS, FEW, KEEP = 300, 10, 3
MOST_SECONDS = 1200.0  # time limit of a process; on a busy machine, one with low priority took 123
HOUR = 3600.0
Report = dict[str, Any]


class Forked:
    """A task in a forked process, which returns a value that JSON can represent."""

    def __init__(self, task: Callable[[], Report]) -> None:
        self.start = time.monotonic()
        self.reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reading)
            code = 1
            try:
                with os.fdopen(writing, "w") as out:
                    json.dump(task(), out)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writing)

    def end(self, seconds: float) -> Report | None:
        """Wait for its end, and kill it after some seconds; return what the task returned, None if it was killed.

        Raises RuntimeError if the task raised.
        """
        while (ended := os.waitpid(self.pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() > self.start + seconds:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.002)
        with os.fdopen(self.reading) as out:
            text = out.read()
        if os.WIFEXITED(ended[1]) and ended[1]:
            raise RuntimeError("a process failed; its traceback is above")
        report: Report | None = json.loads(text) if ended[1] == 0 else None
        return report

    def result(self) -> Report:
        """Return what the task returned; raise RuntimeError if it failed or hung."""
        report = self.end(MOST_SECONDS)
        if report is None:
            raise RuntimeError(f"a process failed after {time.monotonic() - self.start:.1f} s")
        return report


def set_clock(seconds: float) -> None:
    """Shift the clock of this process, as okl reads it."""
    now, now_ns = time.time, time.time_ns

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + timedelta(seconds=seconds)

    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + int(seconds * 1e9)
    for module in (okl.data.manifest, okl.lifecycle.versions, okl.models.registry_log):
        setattr(module, "datetime", Shifted)  # noqa: B010


class Earlier:
    """Nights of an earlier okl, in a process that imports it once. folder : of its package"""

    def __init__(self, folder: str) -> None:
        path = os.pathsep.join((str(Path(folder).absolute()), str(Path(__file__).parents[2])))
        command = [sys.executable, "-P", "-m", "tests.benchmarks.faultweek", "serve"]
        self.process = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        home = Path(self.process.stdout.readline().strip())
        if Path(folder).absolute() not in home.parents:
            raise RuntimeError(f"{folder} is not the folder of an earlier okl: {home} was imported")

    def night(self, week: Week) -> None:
        """Run a night of a week and record its events in the week."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {name: getattr(week, name) for name in ("first", "usual_seconds", "scores")}
        request |= {"place": str(week.place), "draw": week.random.random()}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        report = json.loads(self.process.stdout.readline() or "{}")
        if not report:
            raise RuntimeError("the process of the earlier okl has ended; its traceback is above")
        week.usual_seconds, week.scores = report["usual_seconds"], report["scores"]
        week.happened += Counter({"with the earlier okl": 1, **report["happened"]})
        week.wrong += [f"with the earlier okl: {line}" for line in report["wrong"]]

    def end(self) -> None:
        self.process.communicate()


def serve() -> int:
    """Run the nights that `Earlier` requests with the okl of this process."""
    warm_up()
    print(okl.data.manifest.__file__, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        one = Week(Path(request["place"]), request["first"] // 1000, earlier=True)
        one.random = random.Random(request["draw"])
        one.usual_seconds, one.scores = request["usual_seconds"], request["scores"]
        try:
            one.night()
        except RuntimeError as error:
            one.wrong.append(str(error))
        report = {name: getattr(one, name) for name in ("usual_seconds", "scores", "happened", "wrong")}
        print(json.dumps(report), flush=True)
    return 0


class Week:
    """One registry, its inbox and its invariants.

    seed : of all events; earlier : this process has an earlier okl, whose retraining may fail in any way
    """

    def __init__(self, place: Path, seed: int, earlier: bool = False) -> None:
        self.earlier = earlier
        self.place, self.inbox, self.random = place, place / "in", random.Random(seed)
        self.settings = RetrainSettings.model_validate({
            "name": "m", "source": str(self.inbox), "registry": str(place / "registry"), "settle_seconds": 0,
            "publish_if": "not worse", "ingest": {"scale": "standard", "keys": ["hour"]},
            "contract": {"min_rows": 50},
            "train": {"frequencies": 30, "bandwidth": 1.0, "seed": 1, "step_size": 0.3, "threads": 1},
        })  # fmt: skip
        self.first = 1000 * seed
        self.day = 0
        self.scores: dict[str, list[float]] = {}
        self.happened, self.wrong = Counter[str](), list[str]()
        self.usual_seconds = 1.0

    def model(self) -> Any:
        return Registry(self.place / "registry").model("m")

    # Events

    def arrive(self) -> None:
        """Add a valid shard, rarely none or two, and in half of the nights something odd."""
        for _ in range(self.random.choice((0, 1, 1, 1, 2))):
            self.day += 1
            name = GOOD if self.day == 1 else f"day-{self.day:04}.parquet"
            land(self.inbox, name, content(self.first + self.day, ROWS))
        if self.random.random() < 0.5:
            self.odd()

    def odd(self) -> None:
        """Add one odd file to the inbox."""
        kind = self.random.choice([*QUICK, "few", "flipped"])
        if kind == "flipped" and not self.scores:
            kind = "few"  # a first version trained on flipped labels would correctly disagree with all later shards
        self.happened[kind] += 1
        number = self.first + 500 + sum(self.happened.values())
        if kind in QUICK and (kind != "same_bytes" or (self.inbox / GOOD).exists()):
            QUICK[kind](self.inbox, number)
        elif kind == "flipped":
            land(self.inbox, f"flipped-{number}.parquet", content(number, ROWS, flipped=True))
        else:
            land(self.inbox, f"few-{number}.parquet", content(number, FEW))

    def night(self) -> None:
        """Retrain, then perform an operation by hand; check after each."""
        self.retrain()
        self.check()
        self.by_hand()
        self.check()

    def retrain(self) -> None:
        """Retrain, with or without a disturbance."""
        disturbance = self.random.choices(("alone", "killed", "starved", "clock", "two"), (5, 4, 2, 1, 1))[0]
        self.happened[disturbance] += 1
        if disturbance == "killed":
            killed = Forked(lambda: self.retrained(0)).end(self.random.uniform(0.0, 1.1 * self.usual_seconds))
            self.happened["killed too late"] += killed is not None
            return
        limit = int(2 ** self.random.uniform(6, 17)) if disturbance == "starved" else 0
        clock = self.random.choice((-HOUR, HOUR)) if disturbance == "clock" else 0.0
        runs = [Forked(lambda: self.retrained(limit, clock)) for _ in range(2 if disturbance == "two" else 1)]
        for run in runs:
            report = run.result()
            self.happened[report["outcome"]] += 1
            sentence = report["reason"].strip()
            if not sentence or not sentence.endswith((".", "!", "?", ")")) or "Traceback" in sentence:
                self.wrong.append(f"no sentence: {report}")
        if disturbance == "alone":
            self.usual_seconds = 0.7 * self.usual_seconds + 0.3 * (time.monotonic() - runs[0].start)

    def retrained(self, most_bytes: int = 0, clock: float = 0.0, **changes: Any) -> Report:
        """Retrain in this process; most_bytes : of any file that it writes, 0: no limit; clock : its error, seconds."""
        if clock:
            set_clock(clock)
        if most_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        try:
            result = retrain(self.settings.model_copy(update=changes))
        except OklError as error:
            return {"outcome": type(error).__name__, "reason": str(error)}
        except OSError as error:
            if error.strerror is None or not (most_bytes or self.earlier):
                raise
            # the message of the command
            return {"outcome": "OSError", "reason": f"file access of {error.filename!r} failed: {error.strerror}."}
        except Exception as error:
            if not self.earlier:
                raise
            return {"outcome": f"{type(error).__name__} of the earlier okl", "reason": "Its defect, mended since."}
        return {"outcome": result["outcome"], "reason": result["reason"] or result["outcome"] + "."}

    def by_hand(self) -> None:
        """Perform an operation of an operator, or none."""
        operation_name = self.random.choice(
            ("promote", "roll back", "prune", "release", "clear", "damage", "", "", "", "")
        )
        if operation_name:
            self.happened[operation_name] += 1
            draw = self.random.random()
            operation = Forked(lambda: self.operated(operation_name, draw))
            if operation_name not in {"clear", "damage"} and self.random.random() < 0.3:
                self.happened["by hand, killed"] += operation.end(self.random.uniform(0.0, 0.1)) is None
                return
            report = operation.result()
            if "\n" in report["message"]:
                self.wrong.append(f"{operation_name}: {report}")

    def operated(self, operation_name: str, draw: float) -> Report:
        """Perform the operation in this process; a refusal in one sentence is allowed."""
        model = self.model()
        try:
            match operation_name:
                case "promote":
                    model.promote(1 + int(draw * model.state().latest), why="by hand")
                case "roll back":
                    model.rollback(why="by hand")
                case "prune":
                    model.prune(KEEP)
                case "release":
                    records = ShardStore(model.folder / "data").records().values()
                    quarantined = sorted(record.key for record in records if record.status == "quarantined")
                    if quarantined:
                        return {
                            "message": self.retrained(release=(quarantined[int(draw * len(quarantined))],))["reason"]
                        }
                case "clear":
                    shutil.rmtree(self.inbox)
                    self.inbox.mkdir()
                case "damage":
                    if (cache := model.folder / "data" / "seen.json").exists():
                        cache.write_bytes(cache.read_bytes()[: int(draw * cache.stat().st_size)])
        except OklError as error:
            return {"message": str(error)}
        return {"message": ""}

    # Invariants

    def check(self) -> None:
        """Record violated invariants."""
        report = Forked(self.inspect).result()
        for version, scores in report["scores"].items():
            if self.scores.setdefault(version, scores) != scores:
                self.wrong.append(f"version {version} scores otherwise than when it was published")
        self.wrong += report["wrong"]

    def inspect(self) -> Report:
        """Return the scores of the champion and the violations in the registry."""
        model, wrong = self.model(), list[str]()
        state = model.state()
        if state.champion is None:
            return {"scores": {}, "wrong": []}
        model.entries()
        champion = model.version()
        champion.verify()
        rows = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
        scores = {champion.published.folder: champion.load().scores(rows).tolist()}
        lineage = [shard for one in model.ancestry(champion) for shard in one.lineage.shards]
        records = ShardStore(model.folder / "data").records()
        twice = [digest for digest, number in Counter(shard["sha256"] for shard in lineage).items() if number > 1]
        wrong += [f"{digest[:16]} was learnt twice" for digest in twice]
        for shard in lineage:
            record = records.get(shard["sha256"])
            if record is None or record.train_rows != shard["rows"]:
                wrong.append(f"{shard['name']} in the lineage is not the shard of its record")
        return {"scores": scores, "wrong": wrong}

    def finish(self) -> None:
        """Retrain undisturbed until all shards are used, prune twice, and compare lineage, records and disk."""
        for _ in range(10):
            self.day += 1
            land(self.inbox, f"day-{self.day:04}.parquet", content(self.first + self.day, ROWS))
            report = Forked(self.retrained).result()
            if report["outcome"] == "published":
                break
        else:
            self.wrong.append(f"the retrainings after the week did not publish: {report['reason']}")
        self.check()
        leftovers = Forked(self.left_over).result()
        self.wrong += leftovers["wrong"]

    def left_over(self) -> Report:
        model, wrong = self.model(), list[str]()
        for _ in range(2):
            model.prune(KEEP)
        state = model.state()
        used = {shard["sha256"] for one in model.ancestry(model.version()) for shard in one.lineage.shards}
        accepted = {one.sha256 for one in ShardStore(model.folder / "data").accepted()}
        wrong += [f"{digest[:16]} was accepted and not learnt" for digest in sorted(accepted - used)]
        named = {one.published.folder for one in model.versions() if not one.pruned}
        wrong += [f"{path} is left over" for path in (model.folder / "versions").iterdir() if path.name not in named]
        unfinished = (path for path in model.folder.rglob("*") if path.name.startswith(".") or ".partial" in path.name)
        wrong += [f"{path} is half-written" for path in unfinished]
        if len(named) > KEEP + len(set(state.aliases.values())):
            wrong.append(f"{len(named)} versions are kept")
        return {"wrong": wrong}


def week(seed: int, nights: int, earlier: Earlier | None = None) -> tuple[list[str], Counter[str], int]:
    """Return the violations of a week, its events, and the final size of its registry in bytes."""
    with tempfile.TemporaryDirectory(prefix="okl-week-") as folder:
        one = Week(Path(folder), seed)
        one.inbox.mkdir()
        try:
            back = earlier is not None and one.random.random() < 0.5
            for _ in range(nights):
                one.arrive()
                if earlier is not None and back:
                    earlier.night(one)
                    one.check()
                else:
                    one.night()
                if earlier is not None and one.random.random() < 0.4:
                    one.happened["upgraded" if back else "back to the earlier okl"] += 1
                    back = not back
            one.finish()
        except RuntimeError as error:
            one.wrong.append(str(error))
        size = sum(path.stat().st_size for path in (one.place / "registry").rglob("*") if path.is_file())
    return one.wrong, one.happened, size


def warm_up() -> None:
    """Retrain once in this process, so that forked processes have imports and machine code in memory."""
    with tempfile.TemporaryDirectory(prefix="okl-week-") as folder:
        one = Week(Path(folder), 0)
        for day in (1, 2):
            land(one.inbox, f"{day}.parquet", content(day, ROWS))
            one.retrained()


def main(weeks: str = "20", seed: str = "1", nights: str = "7", folder: str = "") -> int:
    """Print the events and each violation with its seed; return the number of violations."""
    os.environ["OKL_HOME"] = tempfile.mkdtemp(prefix="okl-week-home-")
    warm_up()
    earlier = Earlier(folder) if folder else None
    happened, violations, start, sizes = Counter[str](), 0, time.monotonic(), list[int]()
    for number in range(int(seed), int(seed) + int(weeks)):
        wrong, more, size = week(number, int(nights), earlier)
        happened += more
        sizes.append(size)
        violations += len(wrong)
        for line in wrong:
            print(f"seed {number}: {line}", flush=True)
    if earlier is not None:
        earlier.end()
    shutil.rmtree(os.environ["OKL_HOME"])
    total, last, seconds = int(weeks) * int(nights), int(seed) + int(weeks) - 1, time.monotonic() - start
    print(
        f"{total} nights in {weeks} weeks, seeds {seed} to {last}, {seconds:.0f} s: {violations} violations; "
        f"largest registry {max(sizes) / 2**20:.1f} MiB"
    )
    print(", ".join(f"{name} {number}" for name, number in sorted(happened.items())))
    return violations


if __name__ == "__main__":
    sys.exit(serve() if sys.argv[1:] == ["serve"] else min(1, main(*sys.argv[1:])))
