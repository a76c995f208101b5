"""Fuzzing of ingest, of model loading and of resuming: every input ends in a sound result or in one clear sentence.

    python -m tests.benchmarks.fuzz ingest|models|checkpoints|all [--minutes 30] [--seed 0] [--out DIR] [--only N]

Cases are numbered, each is drawn from the seed and its number only, and --only N repeats one in this process. They
run in a separate process, whose address space may grow by 3 GiB at most, and a case may take 30 seconds (300 by the
clock). A finding is an exception other than OklError, a message that is not a sentence, a process that dies or hangs, a
data set that is invalid when it is read back, or a damaged model that has other predictions without an error. The input
of one finding of each kind is kept in --out (by default okl-fuzz in the folder of temporary files). At the end: cases,
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
CASES_A_PROCESS = 4000  # then a new process, because cases of all sizes fragment the address space
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
            report: dict[str, Any] = {"outcome": case(kind, seed, number, out / "case")}
        except BaseException as error:  # any exception is a finding
            report = {"sort": sort_of(error), "trace": traceback.format_exc()}
            shutil.copytree(out / "case", out / f"finding-{seed}-{number}", symlinks=True, dirs_exist_ok=True)
        print(json.dumps({"end": number} | report), flush=True)


def sort_of(error: BaseException) -> str:
    """Return the exception and where in okl it was raised: findings of one sort are counted, the first is stored."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/okl/" in frame.filename]
    location = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "the check"
    return f"{type(error).__name__} in {location}: {re.sub(r'[0-9]+', 'N', str(error))[:60]}"


class _Clock:
    """A limit on the processor time and the waiting time of a process."""

    def __init__(self, pid: int, seconds: float) -> None:
        self._process, self._seconds = psutil.Process(pid), seconds
        self._begun, self._used = time.monotonic(), self._used_seconds()

    def over(self) -> bool:
        """Return whether the process has used its seconds, or ten times as many have passed."""
        waited = time.monotonic() - self._begun
        return self._used_seconds() - self._used > self._seconds or waited > 10.0 * self._seconds

    def _used_seconds(self) -> float:
        try:
            times = self._process.cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return float(times.user + times.system)


class Fuzzing:
    """A run of one kind of cases in child processes, which stores their findings."""

    def __init__(self, kind: str, seed: int, out: Path) -> None:
        self.kind, self.seed, self.out = kind, seed, out / kind
        self.outcomes: Counter[str] = Counter()
        self.findings: Counter[str] = Counter()
        self.out.mkdir(parents=True, exist_ok=True)
        self._log = (self.out / "outcomes.jsonl").open("a")

    def run(self, seconds: float) -> None:
        """Run cases for a number of seconds."""
        number, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            number = self._child(number, until)

    def _child(self, number: int, deadline: float) -> int:
        """Run cases from a number on in one child, until it dies, hangs or the time is over; return the next number."""
        command = [
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
            child = subprocess.Popen(
                [*command, "--out", str(self.out)], stdout=subprocess.PIPE, stderr=stderr, bufsize=0
            )
        assert child.stdout is not None
        current, clock = number - 1, _Clock(child.pid, START_SECONDS)
        try:
            while time.monotonic() < deadline:
                ready, _, _ = select.select([child.stdout], [], [], 1.0)
                if not ready:
                    if clock.over():
                        self._record_finding(current, "hangs", "")
                        return current + 1
                    continue
                line = child.stdout.readline()
                if not line:
                    output = (self.out / "stderr.txt").read_text(errors="replace")[-2000:]
                    if current < number:
                        raise SystemExit(f"No case could be run: {output}")
                    self._record_finding(current, f"the process died ({child.wait()})", output)
                    return current + 1
                report = json.loads(line)
                clock = _Clock(child.pid, CASE_SECONDS)
                if "begin" in report:
                    current = report["begin"]
                elif "sort" in report:
                    self._record_finding(current, report["sort"], report["trace"])
                else:
                    self._log.write(json.dumps([current, report["outcome"]]) + "\n")
                    self.outcomes[report["outcome"].partition(":")[0]] += 1
                if "end" in report and current + 1 - number >= CASES_A_PROCESS:
                    return current + 1
        finally:
            child.kill()
            child.wait()
        return current + 1

    def _record_finding(self, number: int, sort: str, trace: str) -> None:
        self.findings[sort] += 1
        folder = self.out / f"finding-{self.seed}-{number}"
        if self.findings[sort] > 1:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            if not folder.exists():  # the child could not store it
                shutil.copytree(self.out / "case", folder, symlinks=True, dirs_exist_ok=True)
            (folder / "trace.txt").write_text(f"{sort}\n{trace}")
            print(f"{self.kind} case {number}: {sort}\n  kept in {folder}", flush=True)

    def print_summary(self) -> None:
        """Print the outcomes of all cases."""
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
    options = parser.parse_args()
    if options.child is not None:
        run_cases(options.kind, options.seed, options.child, options.out)
        return
    if options.only is not None:
        print(case(options.kind, options.seed, options.only, options.out / options.kind / "only"))
        return
    kinds = KINDS if options.kind == "all" else (options.kind,)
    for kind in kinds:
        fuzzing = Fuzzing(kind, options.seed, options.out)
        fuzzing.run(60.0 * options.minutes / len(kinds))
        fuzzing.print_summary()


if __name__ == "__main__":
    main()
