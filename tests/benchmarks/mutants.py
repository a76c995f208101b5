"""Mutation testing of projections, losses and budget steps: how many small changes of the code do its tests notice?

    python -m tests.benchmarks.mutants [FILE ...] [--each 12] [--seed 0]

Mutants of each file are drawn by a seed: another comparison, operator, constant or sign, and / or, min / max, a call
left out. Each runs the tests of its file in a forked process, with numba switched off: compiling anew for every mutant
takes a minute, Python a second or two. That is also why this is neither mutmut nor cosmic-ray, which start Python and
import everything for each of them; numba's few intrinsics have stand-ins here. First the tests run with nothing
changed, and those that fail without numba, or take more than some seconds, are left out; a mutant that takes ten times
as long as all of them counts as killed. The tree is never touched: a mutant exists in memory only. A line a file:
mutants, and how many were killed; and every survivor.
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
from pathlib import Path
from typing import NamedTuple

os.environ["NUMBA_DISABLE_JIT"] = "1"

import numpy as np
import pytest

from tests.benchmarks.mutants_made import Mutant, drawn_mutants, install
from tests.benchmarks.mutants_without_numba import stand_in

LONGEST_TEST_SECONDS = 6.0
PROJECTIONS = (
    "tests/compiled/test_projections.py",
    "tests/accelerated/test_projections.py",
    "tests/accelerated/test_projections_norms.py",
    "tests/accelerated/test_projections_sharded.py",
)
BUDGET = (
    "tests/compiled/test_budget.py",
    "tests/online/budget/test_simple_strategies.py",
    "tests/online/budget/test_costly_strategies.py",
    "tests/online/budget/test_growing.py",
    "tests/online/budget/test_joining.py",
    "tests/online/budget/test_tvm.py",
)
TARGETS: dict[str, tuple[str, ...]] = {
    "okl/losses.py": ("tests/test_losses.py",),
    "okl/compiled/gradients.py": ("tests/compiled/test_gradients.py",),
    "okl/compiled/updates.py": ("tests/compiled/test_updates.py", "tests/compiled/test_ball.py"),
    "okl/compiled/proximal.py": ("tests/compiled/test_proximal.py",),
    "okl/compiled/conjugates.py": ("tests/compiled/test_conjugates.py",),
    **{
        f"okl/accelerated/projections/{name}.py": PROJECTIONS
        for name in (
            "balls",
            "checked",
            "hyperplane",
            "lines",
            "multiplier",
            "prepared",
            "sharded",
            "threshold",
            "window",
        )
    },
    **{
        f"okl/compiled/projections{name}.py": (*PROJECTIONS, "tests/compiled/test_projectionsnewton.py")
        for name in ("", "bends", "checks", "newton", "root", "sample", "threshold")
    },
    **{
        f"okl/compiled/budget{name}.py": BUDGET
        for name in (
            *("", "descent", "forgetron", "gradient", "growing", "neighbours", "passive", "projection", "random"),
            *("redundant", "sampled", "span", "twin"),
        )
    },
}


class Baseline(NamedTuple):
    """Tests that pass without numba, the quick ones first, and the seconds of all of them."""

    tests: list[str]
    left_out: int
    seconds: float


class _Outcomes:
    """Collects outcome and duration of each test."""

    def __init__(self) -> None:
        self.passed: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed[report.nodeid] = report.duration


def run_tests(asked: list[str], *more: str) -> tuple[int, _Outcomes]:
    """Run tests in this process."""
    outcomes = _Outcomes()
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:timeout", "-o", "addopts=", "-o", "timeout=0"]
    code = pytest.main([*options, "-W", "ignore", *more, *asked], plugins=[outcomes])
    return int(code), outcomes


def forked(work: object, seconds: float) -> bytes | None:
    """What a function in a forked process returns as bytes; None if it takes longer than that, b"" if it dies."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.write(write, work())  # type: ignore[operator]
        finally:
            os._exit(0)
    os.close(write)
    said, until = b"", time.monotonic() + seconds
    try:
        while select.select([read], [], [], max(0.0, until - time.monotonic()))[0]:
            some = os.read(read, 65536)
            if not some:
                return said
            said += some
        return None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)


def baseline(file: str) -> Baseline:
    """Run the tests of a file with nothing changed."""

    def work() -> bytes:
        install({})
        _, outcomes = run_tests(list(TARGETS[file]))
        kept = {name: took for name, took in outcomes.passed.items() if took < LONGEST_TEST_SECONDS}
        kept = {name: took for name, took in kept.items() if name not in outcomes.failed}
        left_out = len(outcomes.passed) + len(outcomes.failed) - len(kept)
        lines = [f"{took}\t{name}" for name, took in sorted(kept.items(), key=lambda pair: pair[1])]
        return "\n".join([str(left_out), *lines]).encode()

    said = forked(work, 3600.0)
    assert said, f"the tests of {file} died"
    left_out, *lines = said.decode().split("\n")
    took, tests = zip(*(line.split("\t") for line in lines), strict=True)
    return Baseline(list(tests), int(left_out), float(np.sum([float(one) for one in took])))


def killed(file: str, mutant: Mutant, tests: list[str], seconds: float) -> bool:
    """Whether a test notices the mutant."""

    def work() -> bytes:
        install({module_of(file): mutant.tree})
        code, _ = run_tests(tests, "-x")
        return b"survived" if code == 0 else b"killed"

    return forked(work, 20.0 + 10.0 * seconds) != b"survived"


def module_of(file: str) -> str:
    """The name of a module by its path."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mutants")
    parser.add_argument("files", nargs="*", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--each", type=int, default=12, help="mutants a file, at most")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    stand_in()
    for name in ("scipy.optimize", "sklearn.base", "pyarrow.parquet", "pandas", "clarabel", "safetensors.numpy"):
        importlib.import_module(name)  # once, not in every fork
    baselines: dict[tuple[str, ...], Baseline] = {}
    total = found = 0
    for file in asked.files or TARGETS:
        tests = TARGETS[file]
        if tests not in baselines:
            baselines[tests] = baseline(file)
            known = baselines[tests]
            print(f"{len(known.tests)} tests, {known.left_out} left out, {known.seconds:.1f} s: {' '.join(tests)}")
        known = baselines[tests]
        mutants = drawn_mutants(Path(file), asked.each, random.Random(f"{asked.seed} {file}"))
        alive = [one for one in mutants if not killed(file, one, known.tests, known.seconds)]
        total, found = total + len(mutants), found + len(mutants) - len(alive)
        print(f"{file}: {len(mutants) - len(alive)} of {len(mutants)} killed")
        for one in alive:
            print(f"  survived: line {one.line}: {one.told}")
        sys.stdout.flush()
    print(f"all: {found} of {total} killed, {100 * found / max(1, total):.1f}%")


if __name__ == "__main__":
    main()
