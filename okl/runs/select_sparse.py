"""Automatic choice for sparse rows: a linear l2-svm, whose C has the least error on held-out rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset
from okl.data.reading import sample_rows
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.metrics.criterion import criterion_error, criterion_of
from okl.models.inputs import class_indices
from okl.solvers.accelerated.choice import solve
from okl.solvers.accelerated.fitting import relabelled
from okl.solvers.accelerated.models import make_model
from okl.solvers.accelerated.newton import Newton
from okl.solvers.accelerated.operators import SparseRows
from okl.solvers.settings import AutoSettings, TrainSettings

COSTS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Weights of the losses, in ascending order; the search ends with the first that is worse than one before."""
MOST_ROWS, LEAST_ROWS, HELD_OUT = 131_072, 16_384, 4  # of the sample, by scores a row; every fourth is held out
TOLERANCE = 1e-3  # relative gap of the model


def choose_sparse(settings: TrainSettings, data: Dataset) -> tuple[TrainSettings, dict[str, Any]]:
    """Return settings of a linear l2-svm and the record of the choice of its C.

    Raises
    ------
    ConfigError : a regression; a class of the training rows is not in the sample
    """
    schema, options, started_at = data.schema, settings.options, time.perf_counter()
    assert isinstance(options, AutoSettings), "the solver is auto"
    if schema.task == "regression":
        raise ConfigError(
            f"Target {schema.target!r} makes this a regression, but sparse rows have models of classes only. Drop text "
            "columns, or ingest svmlight text with --storage dense or --hash-columns 1024."
        )
    criterion = criterion_of(settings.optimise, schema.task, schema.class_counts, schema.target)
    if criterion == "balanced-accuracy" and options.class_weights == "none":
        settings = settings.replaced(class_weights="balanced")
        options = settings.options
        assert isinstance(options, AutoSettings), "another option leaves the solver as it is"
    weights = options.weights_of_classes(schema)
    n_rows = max(
        LEAST_ROWS, MOST_ROWS // schema.n_outputs
    )  # the best C falls with the rows: many, where they are cheap
    sample = sample_rows(data, "train", n_rows, settings.seed, "float32", n_rows)
    order = np.random.default_rng((settings.seed, 0x5CA1)).permutation(len(sample.targets))
    inputs, classes = sample.inputs[order], class_indices(schema, sample.targets)[order]
    held = np.arange(len(order)) % HELD_OUT == 0
    errors: dict[float, float] = {}
    for cost in COSTS:
        own = None if weights is None else np.array(weights)[classes[~held]]
        scores = _scores(cost, inputs[~held], classes[~held], inputs[held], own, schema.n_outputs)
        errors[cost] = criterion_error(criterion, scores, classes[held])
        if errors[cost] > min(errors.values()):
            break
    best = min(errors, key=lambda cost: (errors[cost], cost))
    update = {"solver": "l2-svm", "kernel": "linear", "C": best, "tol": TOLERANCE}
    candidates = [
        {"name": f"linear l2-svm, C = {cost:g}", "score": 1.0 - error, "rows": len(order), "landmarks": 0,
         "seconds": 0.0, "kept": cost == best}
        for cost, error in errors.items()
    ]  # fmt: skip
    why = (
        f"Rows are sparse, {schema.n_features:,} columns: a linear l2-svm. C = {best:g} has the least error of "
        f"{len(errors)} values, {errors[best]:.2%} on {int(held.sum()):,} held-out rows."
    )
    record = {
        "validation": "rows",
        "criterion": criterion,
        "rows": len(order),
        "budget_seconds": options.budget_seconds,
        "seconds": time.perf_counter() - started_at,
        "candidates": candidates,
        "why": [why],
    }
    return settings.replaced(**update), record


@one_blas_thread()  # bits depend on the number of threads
def _scores(
    cost: float,
    inputs: Any,
    classes: NDArray[np.int64],
    held: Any,
    weights: FloatArray | None,
    n_outputs: int,
) -> NDArray[np.float64]:
    """Return scores of held-out rows, (rows,) or (rows, n_outputs), of models of a cost trained on the others."""
    scores = np.full((held.shape[0], n_outputs), -np.inf)
    rows: SparseRows | None = None
    for output in range(n_outputs):
        signs = np.where(classes == (1 if n_outputs == 1 else output), 1.0, -1.0)
        if len(np.unique(signs)) < 2:  # a class so rare that no row of it is in the sample
            continue
        rows = SparseRows(inputs, signs) if rows is None else relabelled(rows, signs)
        state, _, method = solve(make_model("l2-svm", C=cost).problem(rows, weights), Newton(1e-2, 100))
        solution = method.solution(state, None)
        scores[:, output] = held @ solution.weights - solution.certificate.bias
    scores[~np.isfinite(scores)] = -1e30
    return scores[:, 0] if n_outputs == 1 else scores
