"""Mutation testing of projections, losses and budget steps: how many small changes of the code do its tests notice?

    python -m tests.benchmarks.code_mutants [FILE ...] [--each 12] [--seed 0] [--longest 1.5]

Mutants of each file are drawn by a seed: another comparison, operator, constant or sign, and / or, min / max, a
removed call. The tests of a file are collected once, with numba switched off, and run for each of its mutants in a
forked process where the changed function has the mutant's code: compiling again would take a minute per mutant, and a
new Python with all imports, as in mutmut and cosmic-ray, some seconds. numba's few intrinsics have stand-ins here.
First the tests run with nothing changed, and those that fail without numba, or take longer than `--longest` seconds,
are left out (6 keeps all that know `budgetgrowing`); a mutant with which a test takes ten times as long, and a second
more, counts as killed. The tree is never touched. Prints a line per file with the numbers of mutants and of killed
ones, and every survivor.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

os.environ["NUMBA_DISABLE_JIT"] = "1"

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

from tests.benchmarks.code_mutants_made import Mutant, drawn_mutants, put_in_place, read_whole_numbers
from tests.benchmarks.code_mutants_without_numba import stand_in

PROJECTIONS = (
    "tests/compiled/test_projections.py",
    "tests/solvers/accelerated/test_projections.py",
    "tests/solvers/accelerated/test_projections_norms.py",
)
BUDGET = (
    "tests/compiled/test_budget.py",
    "tests/solvers/online/test_simple_strategies.py",
    "tests/solvers/online/test_costly_strategies.py",
    "tests/solvers/online/test_budget.py",
    "tests/solvers/online/test_strategies.py",
)
TARGETS: dict[str, tuple[str, ...]] = {
    "okl/losses.py": ("tests/test_losses.py",),
    "okl/compiled/sgd.py": ("tests/compiled/test_sgd.py", "tests/compiled/test_ball.py"),
    "okl/compiled/dual_steps.py": ("tests/compiled/test_dual_steps.py",),
    "okl/compiled/projections.py": PROJECTIONS,
    "okl/solvers/accelerated/projections.py": PROJECTIONS,
    "okl/compiled/budget.py": BUDGET,
    "okl/compiled/budget_maintenance.py": BUDGET,
}


class Kept(NamedTuple):
    """Tests that pass without numba, fastest first; the number of others; seconds of each usable test."""

    tests: list[pytest.Item]
    left_out: int
    seconds: list[float]


class Loop:
    """A plugin that runs the collected tests for each mutant of some files instead of once."""

    def __init__(self, files: list[str], each: int, seed: int, longest_test: float) -> None:
        self.files, self.each, self.seed, self.longest_test = files, each, seed, longest_test
        self.total = self.killed = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Mutate and run."""
        usable = _kept(session.items, self.longest_test)
        print(f"\n{len(usable.tests)} tests, {usable.left_out} left out, {sum(usable.seconds):.1f} s", flush=True)
        for file in self.files:
            importlib.import_module(module_of(file))
            mutants = drawn_mutants(Path(file), self.each, random.Random(f"{self.seed} {file}"))
            longest = 20.0 + 10.0 * sum(usable.seconds)
            outcomes = [forked(_attempt(mutant, module_of(file), usable), longest) for mutant in mutants]
            attempts = [
                (mutant, outcome) for mutant, outcome in zip(mutants, outcomes, strict=True) if outcome != b"impossible"
            ]
            survivors = [mutant for mutant, outcome in attempts if outcome == b"survived"]
            self.total, self.killed = self.total + len(attempts), self.killed + len(attempts) - len(survivors)
            print(f"{file}: {len(attempts) - len(survivors)} of {len(attempts)} killed")
            for mutant in survivors:
                print(f"  survived: {mutant.function}, line {mutant.line}: {mutant.change}")
            sys.stdout.flush()
        return True


def _kept(items: list[pytest.Item], longest: float) -> Kept:
    """Return the tests that pass in unchanged code within `longest` seconds each."""

    def work() -> bytes:
        lines = []
        for item, following in pairwise([*items, None]):
            start = time.process_time()
            if _passes(item, following, longest):
                assert item is not None
                lines.append(f"{time.process_time() - start}\t{item.nodeid}")
        return "\n".join(lines).encode()

    output = forked(work, 3600.0)
    assert output, "the tests died, or all failed"
    seconds_of = {
        name: float(seconds) for seconds, name in (line.split("\t", 1) for line in output.decode().split("\n"))
    }
    usable = [item for item in items if seconds_of.get(item.nodeid, np.inf) < longest]
    tests = sorted(usable, key=lambda item: seconds_of[item.nodeid])
    return Kept(tests, len(items) - len(tests), [seconds_of[item.nodeid] for item in tests])


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError


def _attempt(mutant: Mutant, module: str, kept: Kept) -> Callable[[], bytes]:
    def work() -> bytes:
        if not put_in_place(mutant, module):
            return b"impossible"
        tests = zip(pairwise([*kept.tests, None]), kept.seconds, strict=True)
        return b"survived" if all(_passes(*pair, 1.0 + 10.0 * usual) for pair, usual in tests) else b"killed"

    return work


def _passes(item: pytest.Item | None, following: pytest.Item | None, seconds: float) -> bool:
    """Return whether a test passes within a number of processor seconds."""
    assert item is not None
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        reports = runtestprotocol(item, nextitem=following, log=False)
    except Exception:  # pytest fails to report a signal that arrives between two lines
        item.session._setupstate.teardown_exact(None)
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return not any(report.failed for report in reports)


def forked(work: Callable[[], bytes], seconds: float) -> bytes | None:
    """Return the value of a function in a forked process; None if it takes longer than that, b"" if it dies."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.write(write, work())
        finally:
            os._exit(0)
    os.close(write)
    output, deadline = b"", time.monotonic() + seconds
    try:
        while select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = os.read(read, 65536)
            if not chunk:
                return output
            output += chunk
        return None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)


def module_of(file: str) -> str:
    """Return the name of a module from its path."""
    return file.removesuffix(".py").replace("/", ".")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.code_mutants")
    parser.add_argument("files", nargs="*", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--each", type=int, default=12, help="mutants a file, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=1.5, help="seconds that a test takes at most without numba")
    options = parser.parse_args()
    stand_in()
    read_whole_numbers()
    sharing: dict[tuple[str, ...], list[str]] = {}
    for file in options.files or TARGETS:
        sharing.setdefault(TARGETS[file], []).append(file)
    loops = [(tests, Loop(files, options.each, options.seed, options.longest)) for tests, files in sharing.items()]
    for tests, loop in loops:
        pytest_options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:timeout",
            "-o",
            "addopts=",
            "-W",
            "ignore",
            "--capture=no",
        ]
        pytest.main([*pytest_options, *tests], plugins=[loop])
    total, killed = sum(loop.total for _, loop in loops), sum(loop.killed for _, loop in loops)
    print(f"all: {killed} of {total} killed, {100 * killed / max(1, total):.1f}%")


if __name__ == "__main__":
    main()
