"""A run rehearsed on a handful of rows: the very solver is run, and what grows with what is read off.

Work is timed at two sizes, with rows held in memory and without, so that what a shard costs, what a row costs and what
reading and mapping a row again costs come apart. Rounds are counted as the solver asks for them, and bytes as they
would be sent: neither depends on the number of rows, but where the state grows with them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from okl.accelerated.catalogue import MODEL_NAMES, parameter_of
from okl.accelerated.solver import AcceleratedSolver
from okl.configuration import TrainSettings
from okl.errors import DivergedError
from okl.execution.local import default_threads
from okl.execution.resident import process_cache
from okl.online.solver import OnlineSolver
from okl.planning.beforehand import learnt_columns, make_solver, mode_of
from okl.planning.laws import law_of
from okl.planning.recorder import Asked, Recorder
from okl.planning.standin import N_SHARDS, Scene, rows_like, write_standin
from okl.solvers import Convergence
from okl.store.dataset import Dataset
from okl.subgradient.catalogue import CUTTING_NAMES
from okl.subgradient.solver import SubgradientSolver

ROUNDS = 4  # of a rehearsed pass
SMALL, LARGE = 128, 2048  # rows of a shard in a round
UNREACHED = 1e-14  # a gap that no rehearsal comes to
LONG, SHORT = 60, 10  # iterations
MOST_HARDER = 100.0

Solver = OnlineSolver | AcceleratedSolver | SubgradientSolver


@dataclass(frozen=True)
class Log:
    """What was asked for in one run; iterations (or rounds) and steps of the loop, each of which ends with a check.

    begin_seconds, own_seconds : of the caller alone, before the loop and in it
    """

    asked: tuple[Asked, ...]
    iterations: int
    checks: int
    begin_seconds: float
    own_seconds: float

    def of(self, label: str) -> list[Asked]:
        """Rounds of a label."""
        return [one for one in self.asked if one.label == label]

    @property
    def labels(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(one.label for one in self.asked))


@dataclass(frozen=True)
class Kind:
    """What rounds of one label have in common.

    begun, each, checked : rounds in the beginning, in each round or iteration, and at each check of a gap
    reply_bytes : of a worker's reply without the parts of its shards
    grown : (rows learnt, bytes down to each worker, bytes of each shard's part), as the state grows
    shard_seconds, row_seconds : of work on a shard, and on each row in it that takes part
    load_seconds : of a row of the shard that is not held in memory, and is read and mapped again
    merge_seconds : of the caller, for a shard's part
    """

    label: str
    begun: float
    each: float
    checked: float
    reply_bytes: float
    grown: tuple[tuple[float, float, float], ...]
    shard_seconds: float
    row_seconds: float
    load_seconds: float
    merge_seconds: float


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal told.

    work_bytes : of all work, which each worker gets once; row_seconds : of a row of a stream
    begin_seconds, own_seconds : of the caller, before the first round, and in each round or iteration
    """

    kinds: tuple[Kind, ...]
    work_bytes: int = 0
    row_seconds: float = 0.0
    begin_seconds: float = 0.0
    own_seconds: float = 0.0


def rehearse(settings: TrainSettings, scene: Scene, data: Dataset | None) -> Rehearsed:
    """Rehearse what the settings mean.

    Parameters
    ----------
    scene : of the data set, or of rows on paper; data : the data set, of which a sample is read; None on paper

    Raises
    ------
    ConfigError, DataError : what the solver says to such settings and rows
    """
    mode = mode_of(settings)
    online = mode != "sum" or settings.solver in ("fogd", "nogd")
    parts = ROUNDS if online else 1
    given: dict[str, Any] = {"workers": 0, "scheduler": None, "cluster": None, "mode": mode, "passes": 1}
    given |= {"rounds": ROUNDS} if online and mode != "stream" else {}
    if settings.solver in MODEL_NAMES and parameter_of(settings.solver) == "C":
        given["C"] = _as_hard(settings.C, scene.rows)
    settings = settings.model_copy(update=given | {"certify": False})
    with tempfile.TemporaryDirectory(prefix="okl-rehearsal-") as folder:
        rows = rows_like(scene, data, N_SHARDS * LARGE * parts)
        small, large = (
            learnt_columns(settings, write_standin(Path(folder), scene, rows, size * parts)) for size in (SMALL, LARGE)
        )
        run = _Runs(settings, small, large, default_threads() if mode == "stream" else 1)
        if mode == "stream":
            return run.streamed()
        return run.in_rounds() if online else run.in_iterations()


@dataclass
class _Runs:
    settings: TrainSettings
    small: Dataset
    large: Dataset
    threads: int = 1

    def streamed(self) -> Rehearsed:
        """Seconds a row, as rows are learnt one after the other."""
        self._log(self.small, _as_it_is)  # compiles
        short, long = self._log(self.small, _as_it_is), self._log(self.large, _as_it_is)
        more = self.large.rows("train") - self.small.rows("train")
        row_seconds = max(0.0, long.own_seconds - short.own_seconds) / more
        return Rehearsed((), 0, row_seconds, max(0.0, short.begin_seconds))

    def in_rounds(self) -> Rehearsed:
        """Rounds of an online learner: as many a pass as are asked for."""
        self._log(self.small, _as_it_is)  # compiles
        held = self._log(self.small, _as_it_is), self._log(self.large, _as_it_is)
        with _nothing_held():
            unheld = self._log(self.small, _as_it_is), self._log(self.large, _as_it_is)
        counts = {}
        for label in held[0].labels:
            begun = sum(one.at < 0 for one in held[0].of(label))
            counts[label] = (float(begun), (len(held[0].of(label)) - begun) / ROUNDS, 0.0)
        return _rehearsed(counts, held, unheld, ROUNDS)

    def in_iterations(self) -> Rehearsed:
        """Iterations of a method that goes on until a gap is reached."""
        change = _cut if self.settings.solver in CUTTING_NAMES else _paced
        first = self._log(self.small, change(SHORT, SHORT))  # compiles
        if law_of(self.settings.solver).unit == "moment":
            held = self._log(self.small, change(SHORT, SHORT)), self._log(self.large, change(SHORT, SHORT))
            return _rehearsed(_counted((held[0],)), held, held, 1)
        # on the larger data: how many rounds a search takes is a matter of rows, too
        logs = [self._log(self.large, change(*pace)) for pace in ((LONG, SHORT), (LONG, LONG), (SHORT, SHORT))]
        held = self._log(self.small, change(LONG, LONG)), logs[1]
        with _nothing_held():
            unheld = self._log(self.small, change(SHORT, SHORT)), self._log(self.large, change(SHORT, SHORT))
        del first
        return _rehearsed(_counted(logs), held, unheld, 1)

    def _log(self, data: Dataset, change: Callable[[Solver], Solver]) -> Log:
        solver: Any = change(make_solver(self.settings, data))
        with Recorder(self.threads) as recorder:
            entered, before, steps, at = perf_counter(), 0.0, 0, 0
            try:
                state = solver.start(data, recorder)
                begin_seconds, before = perf_counter() - entered - recorder.inside_seconds, recorder.inside_seconds
                entered = perf_counter()
                while solver.finished(state) is None:
                    standing = solver.standing(state)
                    at = recorder.at = standing.iterations if isinstance(standing, Convergence) else standing.done_rows
                    state = solver.advance(state, data, recorder)
                    steps += 1
                at = standing.iterations if isinstance(standing := solver.standing(state), Convergence) else steps
            except DivergedError:
                begin_seconds = 0.0  # a handful of rows may; what was counted until then is as good
            own = perf_counter() - entered - (recorder.inside_seconds - before)
            checks = steps if isinstance(solver, AcceleratedSolver) else 0
            return Log(tuple(recorder.asked), at, checks, begin_seconds, max(0.0, own))


def _as_hard(cost: float | str, rows: int) -> float:
    """C for a handful of rows that leaves the losses about the weight that those of all rows have."""
    given = cost if isinstance(cost, float) else 1.0
    return given * min(MOST_HARDER, max(1.0, rows / (N_SHARDS * LARGE)))


def _as_it_is(solver: Solver) -> Solver:
    return solver


def _paced(iterations: int, check_every: int) -> Callable[[Solver], Solver]:
    def change(solver: Solver) -> Solver:
        assert isinstance(solver, AcceleratedSolver)
        method = replace(solver.method, tolerance=UNREACHED, max_iterations=iterations, check_every=check_every)
        return replace(solver, method=method)

    return change


def _cut(iterations: int, check_every: int) -> Callable[[Solver], Solver]:
    """Iterations of a method of cuts, each of which is a step of the loop."""

    def change(solver: Solver) -> Solver:
        assert isinstance(solver, SubgradientSolver)
        return replace(solver, gap=UNREACHED, max_iterations=iterations)

    return change


@contextmanager
def _nothing_held() -> Iterator[None]:
    cache = process_cache()
    limit = cache.limit_bytes
    cache.limit(0)
    try:
        yield
    finally:
        cache.limit(limit)


def _counted(logs: Sequence[Log]) -> dict[str, tuple[float, float, float]]:
    """Rounds of each label in the beginning, an iteration and a check, from runs that differ in one of them each."""
    told = np.array([(1.0, log.iterations, log.checks) for log in logs])
    counts = {}
    for label in dict.fromkeys(label for log in logs for label in log.labels):
        if len(logs) == 1:  # of a method that asks before it iterates, or never
            counts[label] = (float(len(logs[0].of(label))), 0.0, 0.0)
            continue
        seen = np.array([len(log.of(label)) for log in logs], dtype=float)
        begun, each, checked = np.maximum(np.linalg.lstsq(told, seen, rcond=1e-9)[0], 0.0)
        counts[label] = (float(begun), float(each), float(checked))
    return counts


def _rehearsed(
    counts: dict[str, tuple[float, float, float]], held: tuple[Log, Log], unheld: tuple[Log, Log], parts: int
) -> Rehearsed:
    kinds = tuple(
        _kind(label, count, [log.of(label) for log in (*held, *unheld)], parts) for label, count in counts.items()
    )
    small = held[0]
    work = {one.digest: one.work_bytes for one in small.asked}
    own = small.own_seconds / max(1, small.iterations)
    return Rehearsed(kinds, sum(work.values()), 0.0, small.begin_seconds, own)


def _kind(
    label: str,
    count: tuple[float, float, float],
    logs: Sequence[list[Asked]],
    parts: int,
) -> Kind:
    """logs : of the label, small and large, with rows held and without"""
    small, large, bare, large_bare = logs
    known = small or large or bare or large_bare
    wide = large or known
    short, long, again, long_again = (
        _seconds(log) for log in (small or known, wide, bare or small or known, large_bare or wide)
    )
    row = max(0.0, long - short) / (LARGE - SMALL)
    loading = max(0.0, (long_again - again) - (long - short)) / (parts * (LARGE - SMALL))
    grown = tuple((float(max(one.at, 0)), float(one.value_bytes), one.part_bytes) for one in wide)
    if parts == 1:  # of iterations: what is asked for is as long in each
        grown = ((0.0, *(sum(entry[i] for entry in grown) / len(grown) for i in (1, 2))),)  # type: ignore[assignment]
    return Kind(
        label, *count, median(one.reply_bytes for one in known), grown, max(0.0, short - row * SMALL), row, loading,
        median(one.merge_seconds / len(one.seconds) for one in known),
    )  # fmt: skip


def _seconds(log: list[Asked]) -> float:
    """Of a shard: the median of later rounds, as the first one reads the rows."""
    return median(min(one.seconds) for one in (log[1:] or log))
