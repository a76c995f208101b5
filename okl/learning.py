"""The only loop in the house: any solver, advanced until it has finished; and the linear model beside it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from okl.accelerated.solver import AcceleratedSolver
from okl.configuration import TrainSettings
from okl.curve import ConvergenceCurve, LearningCurve
from okl.drift import DriftWatch
from okl.errors import ConfigError, DivergedError
from okl.execution.protocol import Execution
from okl.online.solver import OnlineSolver, OnlineState, with_model_kept
from okl.predictors import Predictor
from okl.progress import NullObserver, Observer
from okl.recipes import linear_alternative, linear_baseline
from okl.solvers import Convergence, Solver, Standing
from okl.store.dataset import Dataset
from okl.subgradient.solver import SubgradientSolver
from okl.types import Task

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


def learn(
    solver: Solver[Any], state: Any, data: Dataset, execution: Execution, observer: Observer | None = None
) -> Learnt:
    """Advance until the solver has finished.

    Raises
    ------
    DivergedError : what is learnt is no longer finite
    """
    observer = observer or NullObserver()
    learning, converging, watch = LearningCurve(), ConvergenceCurve(), drift_watch(solver, state)
    begun = time.perf_counter()
    while (outcome := solver.finished(state)) is None:
        state = solver.advance(state, data, execution)
        standing = solver.standing(state)
        if isinstance(standing, Convergence):
            converging.add(standing)
            sampled = {"sample_rows": float(standing.sample_rows)} if standing.sample_rows else {}
            observer.advance(standing.iterations, 0, {"relative_gap": standing.relative_gap, **sampled})
        else:
            learning.add(standing)
            if watch is not None and watch.add(standing):
                state = with_model_kept(state)
            metrics = {progressive_metric(data.schema.task): standing.error}
            if standing.violation is not None:
                metrics["violation_a_row"] = standing.violation / max(1, standing.done_rows)
            observer.advance(standing.done_rows, standing.total_rows, metrics)
    if outcome.kind == "diverged":
        raise DivergedError(
            f"The solver diverged: {outcome.reason}. Scale the columns of the data set (okl ingest --scale standard), "
            "or take a smaller C."
        )
    seconds = time.perf_counter() - begun
    return Learnt(solver, state, seconds, converging if converging.standings else learning, watch)


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


def learn_linear(settings: TrainSettings, solver: Solver[Any], data: Dataset, execution: Execution) -> Learnt | None:
    """A linear model learnt the same way, what a kernel must beat; None where there is none to compare with."""
    if isinstance(solver, OnlineSolver):
        other_recipe = linear_baseline(settings, data.schema)
        try:
            return _learn_linear_online(replace(solver, recipe=other_recipe), data, execution)
        except ConfigError:  # limits that no weights of a line keep to
            return None
    other = linear_alternative(solver) if isinstance(solver, AcceleratedSolver | SubgradientSolver) else None
    if other is None:
        return None
    try:
        return learn(other, other.start(data, execution), data, execution)
    except (ConfigError, DivergedError):  # a kappa that the inputs themselves do not allow
        return None


def _learn_linear_online(solver: OnlineSolver, data: Dataset, execution: Execution) -> Learnt | None:
    """Long rows can make the step too large, so smaller ones follow."""
    start = solver.start(data, execution)
    for factor in LINEAR_STEP_FACTORS:
        learner = replace(start.learner, step_size=start.learner.step_size * factor)
        try:
            return learn(solver, replace(start, learner=learner), data, execution)
        except DivergedError:
            continue
    return None
