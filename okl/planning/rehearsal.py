"""A run rehearsed on a handful of rows: the very solver is run, and what grows with what is read off.

Work is timed at two sizes, with rows held in memory and without, so that what a shard costs, what a row costs and what
reading and mapping a row again costs come apart. Rounds are counted as the solver asks for them, and bytes as they
would be sent: neither depends on the number of rows, but where the state grows with them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from okl.accelerated.catalogue import is_model, parameter_of
from okl.accelerated.solver import AcceleratedSolver
from okl.configuration import TrainSettings
from okl.errors import DivergedError
from okl.execution.local import default_threads
from okl.execution.resident import process_cache
from okl.online.solver import OnlineSolver
from okl.planning.kinds import LARGE, SMALL, Counts, Log, Rehearsed, counted, told
from okl.planning.laws import law_of
from okl.planning.machine import read_row_seconds
from okl.planning.meaning import learnt_columns, make_solver, mode_of
from okl.planning.recorder import Asked, HurriedRecorder, HurryError, Recorder
from okl.planning.standin import N_SHARDS, Scene, rows_like, write_standin
from okl.recipes import Certified
from okl.ridge.solver import RidgeSolver
from okl.solvers import Convergence
from okl.store.dataset import Dataset
from okl.subgradient.catalogue import CUTTING_NAMES
from okl.subgradient.solver import SubgradientSolver

ROUNDS = 4  # of a rehearsed pass
UNREACHED = 1e-14  # a gap that no rehearsal comes to
LONG, SHORT = 60, 10  # iterations
MOST_HARDER = 100.0
WARM_BYTES = 64 * 2**20

Solver = OnlineSolver | Certified


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
    if is_model(settings.solver) and parameter_of(settings.solver) == "C":
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
        counts: Counts = {}
        for label in held[0].labels:
            begun = sum(one.at < 0 for one in held[0].of(label))
            counts[label] = (float(begun), (len(held[0].of(label)) - begun) / ROUNDS, 0.0)
        return told(counts, held, unheld, ROUNDS, read_row_seconds(self.large))

    def in_iterations(self) -> Rehearsed:
        """Iterations of a method that goes on until a gap is reached."""
        change = _cut if self.settings.solver in CUTTING_NAMES else _paced
        if self.settings.solver == "ridge":
            change = _whole
        self._log(self.small, change(SHORT, SHORT), hurried=self._of_moments)  # compiles
        if self._of_moments:  # what the caller makes of them takes long, and is as long for few rows
            hasty = self._log(self.small, change(SHORT, SHORT), hurried=True)
            held = hasty, self._log(self.large, change(SHORT, SHORT))
            return told(counted((held[1],)), held, held, 1, read_row_seconds(self.large))
        # on the larger data: how many rounds a search takes is a matter of rows, too
        logs = [self._log(self.large, change(*pace)) for pace in ((LONG, SHORT), (LONG, LONG), (SHORT, SHORT))]
        held = self._log(self.small, change(LONG, LONG)), logs[1]
        with _nothing_held():
            unheld = self._log(self.small, change(SHORT, SHORT)), self._log(self.large, change(SHORT, SHORT))
        return told(counted(logs), held, unheld, 1, read_row_seconds(self.large))

    @property
    def _of_moments(self) -> bool:
        return law_of(self.settings.solver).unit == "moment"

    def _log(self, data: Dataset, change: Callable[[Solver], Solver], hurried: bool = False) -> Log:
        solver: Any = change(make_solver(_fewer_landmarks(self.settings, data), data))
        process_cache().clear()  # rows are read and mapped in the first round, as in a run
        np.ones(WARM_BYTES, np.uint8)  # what the system takes to find memory is a constant of the machine
        with (HurriedRecorder if hurried else Recorder)(self.threads) as recorder:
            entered, begin_seconds, before, steps, at = perf_counter(), 0.0, 0.0, 0, 0
            # a handful of rows may diverge; what was counted until then is as good
            with suppress(DivergedError, HurryError):
                state = solver.start(data, recorder)
                begin_seconds, before = perf_counter() - entered - recorder.inside_seconds, recorder.inside_seconds
                entered = perf_counter()
                while solver.finished(state) is None:
                    standing = solver.standing(state)
                    at = recorder.at = standing.iterations if isinstance(standing, Convergence) else standing.done_rows
                    state = solver.advance(state, data, recorder)
                    steps += 1
                at = standing.iterations if isinstance(standing := solver.standing(state), Convergence) else steps
            own = perf_counter() - entered - (recorder.inside_seconds - before)
            if isinstance(solver, RidgeSolver):
                return Log(tuple(map(_by_shard, recorder.asked)), min(at, 1), 0, begin_seconds, max(0.0, own))
            checks = steps if isinstance(solver, AcceleratedSolver) else 0
            return Log(tuple(recorder.asked), at, checks, begin_seconds, max(0.0, own))


def _as_hard(cost: float | str, rows: int) -> float:
    """C for a handful of rows that leaves the losses about the weight that those of all rows have."""
    given = cost if isinstance(cost, float) else 1.0
    return given * min(MOST_HARDER, max(1.0, rows / (N_SHARDS * LARGE)))


def _fewer_landmarks(settings: TrainSettings, data: Dataset) -> TrainSettings:
    """No more of them than there are rows to rehearse with."""
    asked = settings.n_landmarks
    return settings if asked == "auto" else settings.model_copy(update={"n_landmarks": min(asked, data.rows("train"))})


def _by_shard(asked: Asked) -> Asked:
    """With the seconds of each shard's rows, where the work was cut finer."""
    seconds = tuple(float(part.sum()) for part in np.array_split(np.array(asked.seconds), N_SHARDS))
    return replace(asked, seconds=seconds)


def _as_it_is(solver: Solver) -> Solver:
    return solver


def _whole(iterations: int, check_every: int) -> Callable[[Solver], Solver]:
    """One that ends by itself."""
    return _as_it_is


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
