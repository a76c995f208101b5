"""The training loop that advances any solver until it has finished."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset
from okl.data.executor import Execution
from okl.features.predictors import Predictor
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.settings import TrainSettings
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Task
from okl.runs.checkpoint import LoopKeeper, NoKeeper, Position, RunKeeper
from okl.solvers.base import Convergence, ConvergenceCurve, DriftWatch, LearningCurve, Solver, Standing
from okl.solvers.factory import Certified, linear_alternative, linear_baseline
from okl.solvers.online.solver import OnlineSolver, OnlineState, with_model_kept

LINEAR_STEP_FACTORS = (1.0, 0.1, 0.01)


@dataclass(eq=False)
class Learnt:
    """A solver that has finished: its state, the seconds of the loop alone, and its curve.

    watch : windows of a stream whose rows came in their own order, once; None for others
    """

    solver: Solver[Any]
    state: Any
    seconds: float
    curve: LearningCurve | ConvergenceCurve
    watch: DriftWatch | None = None

    @property
    def predictor(self) -> Predictor:
        """What it learnt."""
        return self.solver.predictor(self.state)

    @property
    def standing(self) -> Standing | Convergence:
        """Where it ended."""
        return self.solver.standing(self.state)


@one_blas_thread()  # bits depend on the number of threads
def learn(
    solver: Solver[Any],
    begin: Any,
    data: Dataset,
    execution: Execution,
    observer: Observer | None = None,
    keeper: LoopKeeper | None = None,
) -> Learnt:
    """Advance until the solver has finished.

    Parameters
    ----------
    begin : the state to begin with, or the Position in which a loop was broken off
    keeper : writes down where the loop stands, now and then

    Raises
    ------
    DivergedError : what is learnt is no longer finite
    """
    observer, keeper = observer or NullObserver(), keeper or NoKeeper()
    at = begin if isinstance(begin, Position) else Position(begin, drift_watch(solver, begin))
    begun = time.perf_counter() - at.seconds
    while (outcome := solver.finished(at.state)) is None:
        at.state = solver.advance(at.state, data, execution)
        _note(at, solver.standing(at.state), data.schema.task, observer)
        at.seconds = time.perf_counter() - begun
        keeper.offer(at, execution)
    if outcome.kind == "diverged":
        raise DivergedError(
            f"The solver diverged: {outcome.reason}. Scale the columns of the data set (okl ingest --scale standard), "
            "or let it fit less closely (a smaller C, a larger penalty)."
        )
    seconds = time.perf_counter() - begun
    return Learnt(solver, at.state, seconds, at.converging if at.converging.standings else at.learning, at.watch)


def _note(at: Position, standing: Standing | Convergence, task: Task, observer: Observer) -> None:
    """Take a step into the curves, and tell the observer."""
    if isinstance(standing, Convergence):
        at.converging.add(standing)
        sampled = {"sample_rows": float(standing.sample_rows)} if standing.sample_rows else {}
        observer.advance(standing.iterations, 0, {"relative_gap": standing.relative_gap, **sampled})
        return
    at.learning.add(standing)
    if at.watch is not None and at.watch.add(standing):
        at.state = with_model_kept(at.state)
    metrics = {progressive_metric(task): standing.error}
    if standing.violation is not None:
        metrics["violation_a_row"] = standing.violation / max(1, standing.done_rows)
    observer.advance(standing.done_rows, standing.total_rows, metrics)


def drift_watch(solver: Solver[Any], state: Any) -> DriftWatch | None:
    """Who watches for change, where rows come one after the other in their own order, once."""
    if not isinstance(solver, OnlineSolver) or not solver.follows:
        return None
    assert isinstance(state, OnlineState)
    longest = max(part.stop - part.start for _, part in state.segments)
    return DriftWatch(state.learner.task, longest)


def progressive_metric(task: Task) -> str:
    """Name of the error of online learners while they learn."""
    return "squared_loss" if task == "regression" else "mistake_rate"


def learn_linear(
    settings: TrainSettings,
    solver: Solver[Any],
    data: Dataset,
    execution: Execution,
    keeper: RunKeeper | None = None,
) -> Learnt | None:
    """A linear model learnt the same way, what a kernel must beat; None where there is none to compare with."""
    if isinstance(solver, OnlineSolver):
        other_recipe = linear_baseline(settings, data.schema)
        try:
            return _learn_linear_online(replace(solver, recipe=other_recipe), data, execution, keeper)
        except ConfigError:  # limits that no weights of a line keep to
            return None
    other = linear_alternative(solver) if isinstance(solver, Certified) else None
    if other is None:
        return None
    loop = keeper.of("linear") if keeper else NoKeeper()
    try:
        return learn(other, loop.kept() or other.start(data, execution), data, execution, keeper=loop)
    except (ConfigError, DivergedError):  # a kappa that the inputs themselves do not allow
        return None


def _learn_linear_online(
    solver: OnlineSolver, data: Dataset, execution: Execution, keeper: RunKeeper | None
) -> Learnt | None:
    """Long rows can make the step too large, so smaller ones follow."""
    start = solver.start(data, execution)
    for number, factor in enumerate(LINEAR_STEP_FACTORS):
        learner = replace(start.learner, step_size=start.learner.step_size * factor)
        loop = keeper.of(f"linear{number}") if keeper else NoKeeper()
        try:
            begin = loop.kept() or replace(start, learner=learner)
            return learn(solver, begin, data, execution, keeper=loop)
        except DivergedError:
            continue
    return None
