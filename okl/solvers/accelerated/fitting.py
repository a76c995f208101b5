"""Fits of one model: one against the rest, parameter paths and calibrated probabilities."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.compiled.jit import one_blas_thread
from okl.foundation.errors import DataError, DivergedError
from okl.foundation.types import Doubles, FloatArray
from okl.foundation.validation import check_at_least
from okl.solvers.accelerated.base import Classifier, CompositeProblem, ParameterName, Solution, signs_of, weights_of
from okl.solvers.accelerated.certified_steps import NO_WEIGHTS
from okl.solvers.accelerated.choice import Chooser, solve
from okl.solvers.accelerated.models import make_model, model_class, parameter_of
from okl.solvers.accelerated.models.normconstrained import NormConstrained
from okl.solvers.base import Outcome

# One class against the rest.

Rows = TypeVar("Rows")


def signs_by_class(labels: NDArray[Any]) -> tuple[NDArray[Any], list[Doubles]]:
    """Return sorted classes, and signs (m,) for each against the rest; one for two classes, + for the second."""
    classes = np.unique(labels)
    if len(classes) < 2:
        shown = ", ".join(map(str, classes))
        raise DataError(
            f"Labels hold {{{shown}}}, but a classifier requires at least two classes. Add rows of another class."
        )
    positives = classes[1:] if len(classes) == 2 else classes
    return classes, [np.where(labels == positive, 1.0, -1.0) for positive in positives]


def relabelled(rows: Rows, labels: FloatArray) -> Rows:
    """Return the operator with other labels (m,), -1 and +1. The arrays are shared; nothing is computed."""
    again: Any = copy.copy(rows)
    names = {field.name for field in fields(again)}
    for name in set(vars(again)) - names:  # scratch space, which another thread may be writing into
        del vars(again)[name]
    object.__setattr__(again, "labels", signs_of(labels))
    relabelled_rows: Rows = again
    return relabelled_rows


class ProblemMaker(Protocol):
    """A classification or regression model: configuration that makes a problem of rows."""

    def problem(self, rows: Any, sample_weight: FloatArray | None = None) -> CompositeProblem: ...


@dataclass(frozen=True, eq=False)
class Fitted(Solution):
    """A solution and how it was found.

    point : of the problem, to start another from; objective : of the problem at the last point, which for a dual model
        is the negated dual objective
    iterations, reads : of the method, and of the data
    outcome : why the method stopped; "done" where the gap is within the tolerance
    note : what the user should know of the problem, such as that no nu gives weights; mostly empty
    """

    point: FloatArray
    objective: float
    iterations: int
    reads: int
    outcome: Outcome
    note: str = ""

    @property
    def converged(self) -> bool:
        """Return whether the gap is within the tolerance of the method."""
        return self.outcome.converged


@one_blas_thread()  # bits depend on the number of threads
def fit_binary(
    model: ProblemMaker,
    rows: Any,
    method: Chooser,
    sample_weight: FloatArray | None = None,
    start: FloatArray | None = None,
) -> Fitted:
    """Solve a model's problem to the method's tolerance.

    model : of `okl.solvers.accelerated.models`; rows : operator; the minimax and l1 models take explicit rows
    method : one of them, or a MethodChoice; sample_weight : (m,) or None
    start : point of the problem (n_points,) to start from, projected onto its set; None: the
        start of the problem
    Returns the solution of least certified gap; `converged` is False where that is above the tolerance
    Raises ConfigError : a parameter outside its valid range for these rows
    Raises DataError : rows or weights that do not fit
    Raises DivergedError : the objective is no longer finite
    """
    problem = model.problem(rows, sample_weight)
    solution = solve_problem(problem, method, start)
    if isinstance(model, Classifier):
        model.check(solution, rows, sample_weight)
    return solution


def solve_problem(problem: CompositeProblem, method: Chooser, start: FloatArray | None = None) -> Fitted:
    """Solve an existing problem to the method's tolerance, as `fit_binary` does."""
    state, outcome, solver = solve(problem, method, start)
    if outcome.kind == "diverged":
        raise DivergedError(f"The solver diverged: {outcome.reason}. Scale the columns, or reduce C.")
    solution = solver.solution(state, problem)
    record = state.history[-1]
    return Fitted(
        weights=solution.weights,
        bias=solution.bias,
        certificate=solution.certificate,
        point=state.best.point,
        objective=state.best_record.objective,
        iterations=record.iteration,
        reads=state.reads,
        outcome=outcome,
    )


# A model by name, whose parameter is chosen where none is given.

_SHARES = (0.5, 0.75, 0.875, 0.9375, 1.0)  # of the largest valid parameter; all but the first are nu-SVM's
_PROBE_ITERATIONS = 200
_NEXT = 1.0 + 1e-9


@dataclass(frozen=True)
class ModelTask:
    """A model by name.

    value : of its one parameter, None to choose it; fit_intercept : whether there is a bias
    norm, radius : p and the bound of ||w||_p in place of the penalty; None for the model itself
    """

    name: str
    value: float | None = None
    fit_intercept: bool = True
    norm: float | None = None
    radius: float = 1.0

    @property
    def parameter(self) -> ParameterName:
        return parameter_of(self.name)

    @property
    def kind(self) -> type[Classifier]:
        return model_class(self.name)

    def highest(self, signs: FloatArray, weights: FloatArray) -> float:
        return self.kind.highest(signs, weights, self.fit_intercept)

    @property
    def reason(self) -> str:
        """Return the reason of the parameter's value."""
        return self.kind.DEFAULT if self.value is None else "as given"

    def model(self, default: Callable[[], float | None] = lambda: None) -> Classifier | NormConstrained:
        """Build the model with the parameter, its default, or that of the class; ConfigError if none can be valid."""
        value = default() if self.value is None else self.value
        model = make_model(self.name, **{self.parameter: value}, fit_intercept=self.fit_intercept)
        return model if self.norm is None else NormConstrained(model, self.norm, self.radius)

    def larger(self, value: float, highest: float, iterations: int, over: bool, has_weights: bool) -> ModelTask | None:
        """Return nu-SVM with a larger nu if nu is automatic and the weights are 0; None to continue with this one.

        The least nu that has weights takes a linear program over all rows; a few are tried instead.

        value, highest : nu so far, and the largest valid one
        iterations, over : done so far, and whether the method has ended
        has_weights : whether a primal objective far enough below 0 has proved that there are some
        """
        if self.value is not None or has_weights:
            return None
        larger = [share * highest for share in _SHARES if share * highest > _NEXT * value]
        if not larger or not (over or iterations >= _PROBE_ITERATIONS):
            return None
        # rounding may not push it beyond the largest
        return replace(self, value=min(larger[0], highest))


def fit_task(
    task: ModelTask, rows: Any, method: Chooser, sample_weight: FloatArray | None = None
) -> tuple[float, Fitted]:
    """Fit a model by name; return its parameter and the solution.

    Where no nu that is tried for nu-SVM has weights, the result is the largest one and weights of 0, which are within
    the gap.
    """
    kind, weights = task.kind, weights_of(rows, sample_weight)

    def default() -> float | None:
        highest = task.highest(rows.signs, weights)
        if kind.OF_MOMENTS:
            highest = kind.valid_range(rows, sample_weight, task.fit_intercept)[1]
        return kind.default_value(highest, float(weights.sum()), lambda: distance_of_classes(rows))

    model = task.model(default)
    if kind.GROWS and task.value is None:
        return _fit_growing(task, model, rows, method, sample_weight)
    return model.parameter, fit_binary(model, rows, method, sample_weight)


def _fit_growing(
    task: ModelTask, model: Classifier | NormConstrained, rows: Any, method: Chooser, sample_weight: FloatArray | None
) -> tuple[float, Fitted]:
    highest = task.highest(rows.signs, weights_of(rows, sample_weight))
    probing = replace(method, max_iterations=min(_PROBE_ITERATIONS, method.max_iterations))
    while True:
        problem: Any = model.problem(rows, sample_weight)
        problem.apply(image := np.empty(problem.n_image), problem.first)
        unit = 0.5 * float(problem.rows.squared_norm(problem.first, image))
        value, probe = model.parameter, solve_problem(problem, probing)
        # a primal objective below 0, that of no weights, proves that there are some
        if probe.certificate.primal < -NO_WEIGHTS * unit:
            done = probe.certificate.relative_gap <= method.tolerance
            return value, probe if done else fit_binary(model, rows, method, sample_weight, probe.point)
        following = task.larger(value, highest, probe.iterations, over=True, has_weights=False)
        if following is None:
            # iterations of a probe prove nothing: the largest nu is solved until it has weights, or provably none
            found = probe if probe.converged else solve_problem(problem, method, probe.point)
            return value, found if found.certificate.primal < 0.0 else _without_weights(found)
        model = following.model()


def _without_weights(found: Fitted) -> Fitted:
    """Return the solution w = 0, whose objective is 0."""
    certificate = replace(found.certificate, primal=0.0, bias=0.0)
    note = "no tried nu gives weights other than 0: the model always predicts the larger class"
    note = note if found.converged else ""
    return replace(found, weights=np.zeros_like(found.weights), bias=0.0, certificate=certificate, note=note)


def distance_of_classes(rows: Any) -> float:
    """Return the median distance of rows of one class from rows of the other, of up to 500 evenly spaced ones each."""
    members = [np.flatnonzero(rows.signs * sign > 0.0) for sign in (1.0, -1.0)]
    left, right = (some[np.linspace(0, len(some) - 1, min(len(some), 500)).astype(int)] for some in members)
    with one_blas_thread():
        products = rows.products(left, right)
    shared, lengths = products.toarray() if sparse.issparse(products) else products, rows.squared_lengths()
    squared = lengths[left][:, np.newaxis] + lengths[right] - 2.0 * shared
    return float(np.sqrt(np.median(np.maximum(squared, 0.0))))


class PathPoint(NamedTuple):
    """A parameter, its solution, and the seconds and iterations of the method."""

    parameter: float
    solution: Fitted
    seconds: float
    iterations: int


def path(name: str, rows: Any, grid: Sequence[float], method: Chooser, fit_intercept: bool = True) -> list[PathPoint]:
    """Solve a model for every parameter of a grid, in its order, each warm-started from the one before.

    The point of the one before is taken as it is or, where that is better, scaled by the ratio of the parameters,
    which brings points of one box or ball into the next. The first is solved from the problem's own start.

    name : one of MODEL_NAMES; grid : values of C, nu or kappa; neighbours that are close together save most
    method : one of them, or a MethodChoice
    Raises ConfigError : a value outside the valid range for these rows
    """
    points: list[PathPoint] = []
    for value in grid:
        started = time.perf_counter()
        problem = ModelTask(name, value, fit_intercept).model().problem(rows)
        first = _warm(name, problem, points[-1], value) if points else None
        solution = solve_problem(problem, method, first)
        points.append(PathPoint(value, solution, time.perf_counter() - started, solution.iterations))
    return points


def _warm(name: str, problem: CompositeProblem, before: PathPoint, value: float) -> FloatArray:
    ratio = before.parameter / value if parameter_of(name) == "nu" else value / before.parameter
    lipschitz = problem.first_lipschitz
    candidates = [problem.first_iterate(scale * before.solution.point, lipschitz) for scale in (1.0, ratio)]
    best = min(candidates, key=lambda at: problem.smooth(at.point, at.image) + problem.penalty(at.point))
    return best.point


def cross_validated_scores(
    scores_of: Callable[[NDArray[np.intp], NDArray[np.intp]], FloatArray],
    labels: NDArray[Any],
    n_folds: int = 5,
    seed: int = 0,
) -> Doubles:
    """Return out-of-fold scores of every row.

    scores_of : (rows to learn from, rows to score) -> scores of the latter, (rows,) or (rows, classes)
    labels : (m,), whose classes every fold holds in proportion
    n_folds : int >= 2; no more than the rarest class has rows; seed : int; the same folds for the same seed
    Raises DataError : a class has a single row
    """
    rarest = int(np.unique(labels, return_counts=True)[1].min())
    if rarest < 2:
        raise DataError(
            "Calibration requires two rows of each class, but one class has a single row. Add rows, or do "
            "not calibrate."
        )
    folds = stratified_folds(labels, min(check_at_least("n_folds", n_folds, 2), rarest), seed)
    parts = [scores_of(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(folds.max() + 1)]
    scores = np.empty((len(labels), *parts[0].shape[1:]))
    for fold, part in enumerate(parts):
        scores[folds == fold] = part
    return scores


def stratified_folds(labels: NDArray[Any], n_folds: int, seed: int) -> NDArray[np.intp]:
    """Return the fold of every row (m,), from 0: the shuffled rows of each class are dealt where those before ended."""
    rng, folds, dealt = np.random.default_rng(seed), np.empty(len(labels), dtype=np.intp), 0
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        folds[rows] = (dealt + np.arange(len(rows))) % n_folds
        dealt += len(rows)
    return folds
