"""Fuzzing of ingest, of model loading and of resuming: every input ends in a sound result or in one clear sentence.

    python -m tests.benchmarks.fuzz ingest|models|checkpoints|all [--minutes 30] [--seed 0] [--out DIR] [--only N]

Cases are numbered, each is drawn from the seed and its number alone, and --only N runs one again in this process. They
run in a process of their own, whose address space may grow by 3 GiB only, and a case may take 30 seconds (300 by the
clock). What is found is an exception that is no OklError, a message that is no sentence, a process that dies or hangs,
a data set that is not sound when it is read back, or a damaged model that predicts something else without a word.
Its input is kept in --out (okl-fuzz among temporary files unless said otherwise), one of each sort. At the end: cases,
how many were accepted and refused, findings.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]

CASE_SECONDS = 30.0  # 60 shards of 4,096 hashed columns took 9
START_SECONDS = 600.0  # compiling, and training the models to damage
ROOM_BYTES = 3 * 2**30
CASES_A_PROCESS = 4000  # of all shapes and sizes: what each leaves of the address space is in pieces
KINDS = ("ingest", "models", "checkpoints")


def case(kind: str, seed: int, number: int, folder: Path) -> str:
    """Run one case in a fresh folder."""
    from tests.benchmarks.fuzz_checkpoints import checkpoint_case
    from tests.benchmarks.fuzz_ingest import ingest_case
    from tests.benchmarks.fuzz_models import model_case

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng((seed, KINDS.index(kind), number))
    if kind == "ingest":
        return ingest_case(rng, folder)
    if kind == "checkpoints":
        return checkpoint_case(rng, folder, folder.parent / "unfinished")
    return model_case(rng, folder, folder.parent / "models")


def run_cases(kind: str, seed: int, first: int, out: Path) -> None:
    """Run cases until killed; a line of JSON before and after each."""
    if kind == "models":
        from tests.benchmarks.fuzz_models import make_models

        make_models(out / "models")
    if kind == "checkpoints":
        from tests.benchmarks.fuzz_checkpoints import make_unfinished

        make_unfinished(out / "unfinished")
    case(kind, seed, 0, out / "case")  # imports and compiles
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES, used + ROOM_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in count(first):
        print(json.dumps({"begin": number}), flush=True)
        try:
            told: dict[str, Any] = {"outcome": case(kind, seed, number, out / "case")}
        except BaseException as error:  # whatever it is, it is what we look for
            told = {"sort": sort_of(error), "trace": traceback.format_exc()}
            shutil.copytree(out / "case", out / f"finding-{seed}-{number}", symlinks=True, dirs_exist_ok=True)
        print(json.dumps({"end": number} | told), flush=True)


def sort_of(error: BaseException) -> str:
    """Exception and where in okl it was raised: findings of one sort are counted, and the first is kept."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/okl/" in frame.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "the check"
    return f"{type(error).__name__} in {where}: {re.sub(r'[0-9]+', 'N', str(error))[:60]}"


class _Clock:
    """Tells when a process has taken too long, since this was made."""

    def __init__(self, pid: int, seconds: float) -> None:
        self._process, self._seconds = psutil.Process(pid), seconds
        self._begun, self._used = time.monotonic(), self._used_seconds()

    def over(self) -> bool:
        """Whether it has used its seconds, or done nothing for ten times as many."""
        waited = time.monotonic() - self._begun
        return self._used_seconds() - self._used > self._seconds or waited > 10.0 * self._seconds

    def _used_seconds(self) -> float:
        try:
            times = self._process.cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return float(times.user + times.system)


class Fuzzing:
    """Runs one kind of cases in child processes and keeps what they find."""

    def __init__(self, kind: str, seed: int, out: Path) -> None:
        self.kind, self.seed, self.out = kind, seed, out / kind
        self.outcomes: Counter[str] = Counter()
        self.findings: Counter[str] = Counter()
        self.out.mkdir(parents=True, exist_ok=True)
        self._log = (self.out / "outcomes.jsonl").open("a")

    def run(self, seconds: float) -> None:
        """For so many seconds."""
        number, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            number = self._child(number, until)

    def _child(self, number: int, until: float) -> int:
        """Run cases from a number on in one child, until it dies, hangs or time is over; the next number."""
        asked = [
            sys.executable,
            "-m",
            "tests.benchmarks.fuzz",
            self.kind,
            "--seed",
            str(self.seed),
            "--child",
            str(number),
        ]
        with (self.out / "stderr.txt").open("wb") as stderr:
            child = subprocess.Popen([*asked, "--out", str(self.out)], stdout=subprocess.PIPE, stderr=stderr, bufsize=0)
        assert child.stdout is not None
        begun, clock = number - 1, _Clock(child.pid, START_SECONDS)
        try:
            while time.monotonic() < until:
                ready, _, _ = select.select([child.stdout], [], [], 1.0)
                if not ready:
                    if clock.over():
                        self._found(begun, "hangs", "")
                        return begun + 1
                    continue
                line = child.stdout.readline()
                if not line:
                    said = (self.out / "stderr.txt").read_text(errors="replace")[-2000:]
                    if begun < number:
                        raise SystemExit(f"No case could be run: {said}")
                    self._found(begun, f"the process died ({child.wait()})", said)
                    return begun + 1
                told = json.loads(line)
                clock = _Clock(child.pid, CASE_SECONDS)
                if "begin" in told:
                    begun = told["begin"]
                elif "sort" in told:
                    self._found(begun, told["sort"], told["trace"])
                else:
                    self._log.write(json.dumps([begun, told["outcome"]]) + "\n")
                    self.outcomes[told["outcome"].partition(":")[0]] += 1
                if "end" in told and begun + 1 - number >= CASES_A_PROCESS:
                    return begun + 1
        finally:
            child.kill()
            child.wait()
        return begun + 1

    def _found(self, number: int, sort: str, trace: str) -> None:
        self.findings[sort] += 1
        kept = self.out / f"finding-{self.seed}-{number}"
        if self.findings[sort] > 1:
            shutil.rmtree(kept, ignore_errors=True)
        else:
            if not kept.exists():  # the child could not keep it
                shutil.copytree(self.out / "case", kept, symlinks=True, dirs_exist_ok=True)
            (kept / "trace.txt").write_text(f"{sort}\n{trace}")
            print(f"{self.kind} case {number}: {sort}\n  kept in {kept}", flush=True)

    def tell(self) -> None:
        """Print what came of all cases."""
        self._log.flush()
        total = self.outcomes.total() + self.findings.total()
        print(f"{self.kind}: {total} cases, {self.findings.total()} findings of {len(self.findings)} sorts", flush=True)
        for name, number in [*self.outcomes.most_common(), *self.findings.most_common()]:
            print(f"  {number:7d}  {name}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fuzz")
    parser.add_argument("kind", choices=[*KINDS, "all"])
    parser.add_argument("--minutes", type=float, default=30.0, help="all: a third of them each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "okl-fuzz")
    parser.add_argument("--only", type=int, help="run this case again, here")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        run_cases(asked.kind, asked.seed, asked.child, asked.out)
        return
    if asked.only is not None:
        print(case(asked.kind, asked.seed, asked.only, asked.out / asked.kind / "only"))
        return
    kinds = KINDS if asked.kind == "all" else (asked.kind,)
    for kind in kinds:
        fuzzing = Fuzzing(kind, asked.seed, asked.out)
        fuzzing.run(60.0 * asked.minutes / len(kinds))
        fuzzing.tell()


if __name__ == "__main__":
    main()
