"""Automatic choice on sparse rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Rows
from okl.data.reading import sample_rows
from okl.foundation.types import Criterion, FloatArray, IntArray
from okl.metrics.calibration import ScoreCalibration, fit_calibration
from okl.metrics.criterion import OF_PROBABILITIES, criterion_error
from okl.models.inputs import class_indices
from okl.report.format import named_error
from okl.runs.calibrate import LEAST_OF_CLASS
from okl.runs.loop import learner_of, passes_over
from okl.solvers.accelerated.base import Solution
from okl.solvers.accelerated.choice import solve
from okl.solvers.accelerated.fitting import relabelled
from okl.solvers.accelerated.models import make_model
from okl.solvers.accelerated.newton import Newton
from okl.solvers.accelerated.operators import SparseRows
from okl.solvers.ridge.gram import Outputs
from okl.solvers.settings import AutoSettings, TrainSettings

# Sparse rows: a linear model, whose C has the least error on held-out rows; of a regression, the passes of fogd

SPARSE_COSTS, LOWER_COSTS = (0.1, 0.3, 1.0, 3.0, 10.0), (0.03, 0.01, 0.003, 0.001)
"""Weights of the losses, up from the first, and down if that is the best; each ends with one worse than one before."""
SPARSE_MODELS = {"l2-svm": "linear l2-svm", "logistic": "linear logistic model"}
"""Models of classes by solver; the logistic one is tried only if the criterion is of probabilities."""
SPARSE_PASSES = (1, 3, 10, 30)
"""Passes of a regression: likewise, of those that the budget allows."""
SPARSE_SPEED = 4e6  # values that are not 0, read and learned in a second
MOST_SPARSE, LEAST_SPARSE, HELD_OUT = 131_072, 16_384, 4  # of the sample, by scores a row; every fourth is held out
SPARSE_TOLERANCE = 1e-3  # relative gap of the model


def choose_sparse(
    settings: TrainSettings, data: Dataset, outputs: Outputs
) -> tuple[TrainSettings, dict[str, Any], ScoreCalibration | None]:
    """Return settings of a linear model of classes, or of fogd for a regression, its record, and a calibration."""
    assert isinstance(settings.options, AutoSettings), "the solver is auto"
    schema, criterion, budget_seconds = data.schema, outputs.criterion, settings.options.budget_seconds
    # the best C falls with the rows: many, where they are cheap
    n_rows = max(LEAST_SPARSE, MOST_SPARSE // schema.n_outputs)
    sample = sample_rows(data, "train", n_rows, settings.seed, "float32", n_rows)
    order = np.random.default_rng((settings.seed, 0x5CA1)).permutation(len(sample.targets))
    inputs, targets = sample.inputs[order], sample.targets[order]
    best: Any
    errors: dict[Any, float]
    calibration: ScoreCalibration | None = None
    if schema.task == "regression":
        seconds = cast(Any, inputs).nnz / len(order) * data.rows("train") / SPARSE_SPEED
        affordable = tuple(passes for passes in SPARSE_PASSES if passes * seconds <= budget_seconds)
        settings = settings.replaced(solver="fogd", kernel="linear", mode="stream")  # the same bits with workers
        best, errors = best_sparse_passes(settings, schema, Rows(inputs, targets), affordable or SPARSE_PASSES[:1])
        settings = settings.replaced(passes=best)
    else:
        classes = class_indices(schema, targets)
        weights, n_outputs = outputs.class_weights, schema.n_outputs
        best, errors, calibration = best_sparse_model(inputs, classes, criterion, weights, n_outputs)
        settings = settings.replaced(solver=best[0], kernel="linear", C=best[1], tol=SPARSE_TOLERANCE)
    names = {one: _named(one) for one in errors}
    candidates = [
        {"name": names[one], "score": 1.0 - error, "rows": len(order), "landmarks": 0, "seconds": 0.0,
         "kept": one == best}
        for one, error in errors.items()
    ]  # fmt: skip
    why = (
        f"Rows are sparse, {schema.n_features:,} columns: {names[best]}, of {len(errors)} candidates: "
        f"{named_error(criterion, errors[best])} on {-(-len(order) // HELD_OUT):,} held-out rows."
    )
    record = {
        "validation": "rows",
        "criterion": criterion,
        "rows": len(order),
        "budget_seconds": budget_seconds,
        "candidates": candidates,
        "why": [why],
    }
    return settings, record, calibration


def _named(candidate: Any) -> str:
    """Return the name of a number of passes, or of a solver and its C."""
    if isinstance(candidate, int):
        return f"linear fogd, passes = {candidate}"
    return f"{SPARSE_MODELS[candidate[0]]}, C = {candidate[1]:g}"


def best_sparse_passes(
    settings: TrainSettings, schema: Schema, rows: Rows, numbers: Sequence[int] = SPARSE_PASSES
) -> tuple[int, dict[int, float]]:
    """Return the passes of least squared error on every fourth of shuffled rows, and the error of each number tried.

    numbers : of passes to try, in ascending order; the error is a share of the variance of these rows' targets
    """
    held = np.arange(len(rows.targets)) % HELD_OUT == 0
    learner, _ = learner_of(settings, schema, train := Rows(rows.inputs[~held], rows.targets[~held]))
    wanted = rows.targets[held]
    errors: dict[int, float] = {}
    for passes, predictor in zip(numbers, passes_over(learner, train, numbers, settings.seed), strict=True):
        missed = np.square(predictor.scores(rows.inputs[held]) - wanted).mean()
        errors[passes] = float(missed / max(float(wanted.var()), np.finfo(np.float64).tiny))
        if errors[passes] > min(errors.values()):
            break
    return min(errors, key=lambda passes: (errors[passes], passes)), errors


def best_sparse_model(
    inputs: Any, classes: IntArray, criterion: Criterion, weights: tuple[float, ...] | None, n_outputs: int
) -> tuple[tuple[str, float], dict[tuple[str, float], float], ScoreCalibration | None]:
    """Return the solver and C of least error on held-out rows, every fourth of shuffled ones, and all errors.

    The third value is the calibration of their held-out scores; None if a class has no row in the others, or all
    classes but one have few.
    """
    held = np.arange(len(classes)) % HELD_OUT == 0
    own = None if weights is None else np.array(weights)[classes[~held]]
    errors: dict[tuple[str, float], float] = {}
    scores_of: dict[tuple[str, float], Any] = {}

    def scores_with(solver: str, cost: float) -> FloatArray:
        scores = np.full((int(held.sum()), n_outputs), -1e30)
        for output, solution in sparse_solutions(solver, cost, inputs[~held], classes[~held], own, n_outputs):
            found = inputs[held] @ solution.weights - solution.certificate.bias
            scores[:, output] = np.where(np.isfinite(found), found, -1e30)
        return scores[:, 0] if n_outputs == 1 else scores

    for solver in SPARSE_MODELS if criterion in OF_PROBABILITIES else ("l2-svm",):
        least, best_cost = np.inf, SPARSE_COSTS[0]
        for costs in (SPARSE_COSTS, LOWER_COSTS):
            for cost in costs if best_cost == SPARSE_COSTS[0] else ():
                scores_of[solver, cost] = scores_with(solver, cost)
                error = errors[solver, cost] = criterion_error(criterion, scores_of[solver, cost], classes[held])
                if error > least:
                    break
                if error < least:
                    least, best_cost = error, cost
    best = min(errors, key=lambda one: (errors[one], one))
    scores, counts = scores_of[best], np.bincount(classes[held], minlength=max(2, n_outputs))
    calibrates = scores.min(initial=0.0) > -1e30 and np.sort(counts)[-2] >= LEAST_OF_CLASS
    return best, errors, fit_calibration(scores, classes[held]) if calibrates else None


def sparse_solutions(
    solver: str,
    cost: float,
    inputs: Any,
    classes: IntArray,
    weights: FloatArray | None,
    n_outputs: int,
    tolerance: float = 1e-2,
) -> Iterator[tuple[int, Solution]]:
    """Yield each output and its model, trained on sparse rows; none of a class without a row."""
    rows: SparseRows | None = None
    for output in range(n_outputs):
        signs = np.where(classes == (1 if n_outputs == 1 else output), 1.0, -1.0)
        if len(np.unique(signs)) < 2:  # a class so rare that no row of it is in the sample
            continue
        rows = SparseRows(inputs, signs) if rows is None else relabelled(rows, signs)
        with one_blas_thread():  # bits depend on the number of threads
            state, _, method = solve(make_model(solver, C=cost).problem(rows, weights), Newton(tolerance, 100))
        yield output, method.solution(state, None)
