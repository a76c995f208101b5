"""Training loop that advances any solver until it has finished; online learners on rows in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution, Rows
from okl.features.predictors import Predictor
from okl.foundation.errors import DivergedError
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Task
from okl.runs.checkpoint import LoopCheckpoints, Position
from okl.solvers.base import Convergence, ConvergenceCurve, DriftWatch, LearningCurve, Solver, SolverProgress
from okl.solvers.online.base import BuildContext, LearnerFactory, RowLearner
from okl.solvers.online.settings import OnlineSettings
from okl.solvers.online.solver import SAMPLE_ROWS, OnlineSolver, OnlineState, with_current_snapshot
from okl.solvers.ridge.cells import LocalState
from okl.solvers.settings import TrainSettings


@dataclass(eq=False)
class TrainedSolver:
    """Finished solver with its state, loop seconds, learning curve, and drift windows of a single pass if any."""

    solver: Solver[Any]
    state: Any
    seconds: float
    curve: LearningCurve | ConvergenceCurve
    watch: DriftWatch | None = None

    @property
    def predictor(self) -> Predictor:
        return self.solver.predictor(self.state)

    @property
    def progress(self) -> SolverProgress | Convergence:
        return self.solver.progress(self.state)


@one_blas_thread()  # bits depend on the number of threads
def run_loop(
    solver: Solver[Any],
    begin: Any,
    data: Dataset,
    execution: Execution,
    observer: Observer | None = None,
    checkpoints: LoopCheckpoints | None = None,
    passed: Callable[[Any], None] | None = None,
) -> TrainedSolver:
    """Advance from a first state, or the Position of an interrupted loop, until the solver ends; or DivergedError.

    passed : called with the state after each pass of an online solver, and each solved partition, but the last
    """
    observer, checkpoints = observer or NullObserver(), checkpoints or LoopCheckpoints()
    at = begin if isinstance(begin, Position) else Position(begin, drift_watch(solver, begin))
    started_at = time.perf_counter() - at.seconds
    while (outcome := solver.finished(at.state)) is None:
        before = passes_of(solver, at.state, data)
        at.state = solver.advance(at.state, data, execution)
        _note(at, solver.progress(at.state), data.schema.task, observer)
        if passed is not None and passes_of(solver, at.state, data) > before and solver.finished(at.state) is None:
            passed(at.state)
        at.seconds = time.perf_counter() - started_at
        checkpoints.offer(at, execution)
    if outcome.kind == "diverged":
        raise DivergedError(
            f"The solver diverged: {outcome.reason}. Scale the columns of the data set (okl ingest --scale standard), "
            "or regularise more (a smaller C, a larger penalty)."
        )
    seconds = time.perf_counter() - started_at
    return TrainedSolver(solver, at.state, seconds, at.converging if at.converging.standings else at.learning, at.watch)


def passes_of(solver: Solver[Any], state: Any, data: Dataset) -> int:
    """Return the number of complete passes of an online solver, or of solved partitions; 0 for others."""
    if isinstance(state, LocalState):
        return len(state.partitions)
    return solver.progress(state).done_rows // max(1, data.rows("train")) if isinstance(solver, OnlineSolver) else 0


def _note(at: Position, progress: SolverProgress | Convergence, task: Task, observer: Observer) -> None:
    """Add a step to the curves, and report it to the observer."""
    if isinstance(progress, Convergence):
        at.converging.add(progress)
        sampled = {"sample_rows": float(progress.sample_rows)} if progress.sample_rows else {}
        observer.advance(progress.iterations, 0, {"relative_gap": progress.relative_gap, **sampled})
        return
    at.learning.add(progress)
    if at.watch is not None and at.watch.add(progress):
        at.state = with_current_snapshot(at.state)
    metrics = {progressive_metric(task): progress.error}
    if progress.violation is not None:
        metrics["violation_a_row"] = progress.violation / max(1, progress.done_rows)
    observer.advance(progress.done_rows, progress.total_rows, metrics)


def drift_watch(solver: Solver[Any], state: Any) -> DriftWatch | None:
    """Return a drift detector for a single pass in stored order; None for other runs."""
    if not isinstance(solver, OnlineSolver) or not solver.follows:
        return None
    assert isinstance(state, OnlineState)
    longest = max(part.stop - part.start for _, part in state.segments)
    return DriftWatch(state.learner.task, longest)


def progressive_metric(task: Task) -> str:
    """Return the name of the progressive error of online solvers."""
    return "squared_loss" if task == "regression" else "mistake_rate"


# Online learners on rows in memory.


def learner_of(settings: TrainSettings, schema: Schema, rows: Rows) -> tuple[RowLearner[Any], dict[str, Any]]:
    """Return an online learner, built from the first of these rows, and what it chose; ConfigError if it cannot be."""
    few = Rows(rows.inputs[:SAMPLE_ROWS], rows.targets[:SAMPLE_ROWS])
    context = BuildContext(schema, few, len(rows.targets), 1, "stream", settings.seed, settings.precision)
    learner, chosen, *_ = factory_of(settings, schema).build(context)
    return learner, chosen


def factory_of(settings: TrainSettings, schema: Schema) -> LearnerFactory:
    """Return the factory of the online learner of the settings; raise ConfigError as `learner_of` does."""
    assert isinstance(settings.options, OnlineSettings), "the others are certified models"
    settings.check_options()
    return settings.options.factory(schema)


def passes_over(learner: RowLearner[Any], rows: Rows, ends: Sequence[int], seed: int) -> Iterator[Predictor]:
    """Yield the predictor at the end of each of these passes, in ascending order, each pass in an order of its own."""
    state, rng = learner.start(), np.random.default_rng((seed, 0x9A55))
    for index in range(max(ends)):
        order = rng.permutation(len(rows.targets))
        state = learner.learn(state, Rows(rows.inputs[order], rows.targets[order]))
        if index + 1 in ends:
            yield learner.predictor(state)
