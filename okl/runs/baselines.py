"""Baselines of a classifier or regressor: a constant, a tuned linear model, and gradient boosting on request."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution, Rows
from okl.data.reading import MANY_GROUPS, sample_rows
from okl.data.sparse import n_rows
from okl.features.linear import StandardisedLinear
from okl.features.predictors import CalibratedPredictor, LinearPredictor, Predictor
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.telemetry import run_logger
from okl.foundation.types import Doubles, FloatArray, Integers, Precision
from okl.metrics.calibration import ScoreCalibration, log_losses, probabilities_of
from okl.models.inputs import class_indices
from okl.models.quality import logits_of
from okl.runs.calibrate import shifts_of
from okl.runs.loop import run_loop
from okl.solvers.base import Solver
from okl.solvers.ridge.solver import RidgeSolver
from okl.solvers.settings import TrainSettings

_LOG = run_logger()

MOST_NUMBERS = 20_000_000  # of the inputs of a sample: rows times columns
MOST_ROWS, TUNED_ROWS = 50_000, 10_000
BOOSTED_ROWS = 500_000
COSTS = tuple(10.0**power for power in range(-2, 4))
"""Weights of the losses against the penalty, in units of inputs whose rows have a mean squared norm of 1."""
_HELD_OUT = 5  # every fifth row of the tuning sample chooses the penalty


@dataclass(frozen=True, eq=False)
class Baseline:
    """Predictor to compare a model with, which is never stored."""

    schema: Schema

    @property
    def n_inputs(self) -> int:
        return self.schema.n_features

    @property
    def n_outputs(self) -> int:
        return self.schema.n_outputs

    @property
    def precision(self) -> Precision:
        return "float64"

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}

    def describe(self) -> dict[str, str]:
        return {"kind": type(self).__name__}


def constant_scores(schema: Schema, rows: int) -> FloatArray:
    """Return scores of the constant baseline: the majority class (the first on a tie) or mean; or raise DataError.

    Returns (rows,), or (rows, K) for several classes, float64; for regression in the target's units.
    """
    if schema.task == "regression":
        if schema.target_statistics is None:
            raise DataError(f"The schema has no statistics of the target {schema.target!r}. Ingest the data again.")
        return np.full(rows, schema.target_statistics.mean)
    if not schema.class_counts:
        raise DataError(f"The schema has no class counts of the target {schema.target!r}. Ingest the data again.")
    majority = int(np.argmax(schema.class_counts))
    if schema.task == "binary":
        return np.full(rows, 1.0 if majority == 1 else -1.0)
    scores = np.zeros((rows, schema.n_outputs))
    scores[:, majority] = 1.0
    return scores


@dataclass(frozen=True, eq=False)
class ConstantPredictor(Baseline):
    """Baseline that predicts the majority class or the mean of the training rows."""

    @property
    def name(self) -> str:
        return "mean" if self.schema.task == "regression" else "majority"

    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
        """Return the same scores for every row, (rows,) or (rows, n_classes)."""
        scores = constant_scores(self.schema, n_rows(inputs))
        shift, factor = self.schema.target_shift_and_factor
        return (scores - shift) * factor if self.schema.task == "regression" else scores

    def logits(self, scores: FloatArray) -> FloatArray | None:
        """Return log-odds or logits of the shares of the training rows, in the shape of scores; None for regression."""
        if self.schema.task == "regression":
            return None
        counts = np.array(self.schema.class_counts, dtype=np.float64) + 1.0  # no share is 0
        if self.schema.task == "binary":
            return np.full(len(scores), float(np.log(counts[1] / counts[0])))
        return np.tile(np.log(counts / counts.sum()), (len(scores), 1))


@dataclass(frozen=True, eq=False)
class WithoutWords(Baseline):
    """Baseline on the columns of sparse rows that are not words; dense : takes these columns alone."""

    dense: Predictor

    def scores(self, inputs: Any, n_threads: int = 1) -> FloatArray:
        """Return the scores of sparse rows (rows, n_inputs), as the dense predictor makes them."""
        return self.dense.scores(inputs[:, : self.dense.n_inputs].toarray(), n_threads)

    def logits(self, scores: FloatArray) -> FloatArray | None:
        return logits_of(self.dense, scores)


def train_baselines(
    settings: TrainSettings, solver: Solver[Any], data: Dataset, execution: Execution
) -> dict[str, Predictor]:
    """Return the linear baseline and, on request, boosting, by name; with texts, both use the other columns."""
    schema = data.schema
    is_beside = bool(schema.texts and schema.features)
    data = replace(data, schema=schema.dense) if is_beside else data
    found: dict[str, Predictor | None] = {"linear": train_linear(settings, solver, data, execution)}
    if settings.beside == "boosting":
        found["boosting"] = train_boosting(settings, data)
    trained = {name: predictor for name, predictor in found.items() if predictor is not None}
    if not is_beside:
        return trained
    return {f"{name}-without-words": WithoutWords(schema, predictor) for name, predictor in trained.items()}


def train_linear(settings: TrainSettings, solver: Solver[Any], data: Dataset, execution: Execution) -> Predictor | None:
    """Return the linear baseline: logistic regression, or ridge regression, with the penalty of the least error.

    None if the model is the same ridge regression (a lasso is not), if no linear model can be fitted, or if rows are
    sparse: these have linear models only.
    """
    if data.schema.sparse is not None:
        return None
    if data.schema.task != "regression":
        return train_logistic(settings, data)
    if isinstance(solver, RidgeSolver) and solver.kernel == "linear" and not data.schema.metric:
        return None
    linear = RidgeSolver(kernel="linear", standardise=True, seed=settings.seed)
    try:
        return run_loop(linear, linear.start(data, execution), data, execution).predictor
    except (ConfigError, DataError, DivergedError):
        return None


def train_logistic(settings: TrainSettings, data: Dataset) -> Predictor | None:
    """Fit a logistic regression of standardised inputs to a sample of the training rows; None if it has one class."""
    schema = data.schema
    inputs, classes = _sample(settings, data, MOST_ROWS)
    features = StandardisedLinear.of_schema(schema, "float64")
    if len(np.unique(classes)) < len(schema.labels):
        return None
    columns: Doubles = np.asarray(features.transform(inputs)[:, :-1], dtype=np.float64)
    cost = _tuned_cost(columns[:TUNED_ROWS], classes[:TUNED_ROWS])
    weights, offsets = fit_logistic(columns, classes, cost)
    predictor = LinearPredictor(
        features, np.ascontiguousarray(np.column_stack([weights, np.zeros(len(weights))])), offsets
    )
    return CalibratedPredictor(predictor, ScoreCalibration(1.0, (0.0,) * len(offsets)), shifts_of(settings, schema))


def _tuned_cost(columns: Doubles, classes: Integers) -> float:
    """Return the cost of the least log loss on every fifth row; the middle one if a class is missing elsewhere."""
    held = np.arange(len(classes)) % _HELD_OUT == 0
    if len(np.unique(classes[~held])) < len(np.unique(classes)) or not held.any():
        return COSTS[len(COSTS) // 2]
    losses = {}
    for cost in COSTS:
        weights, offsets = fit_logistic(columns[~held], classes[~held], cost)
        logits = columns[held] @ weights.T + offsets
        losses[cost] = float(log_losses(logits[:, 0] if len(offsets) == 1 else logits, classes[held]).mean())
    return min(losses, key=lambda cost: (losses[cost], cost))


@one_blas_thread()  # bits depend on the number of threads
def fit_logistic(
    columns: Doubles,
    classes: Integers,
    cost: float,
    weights: Doubles | None = None,
    start: tuple[Doubles, Doubles] | None = None,
) -> tuple[Doubles, Doubles]:
    """Return weights (n_outputs, n_columns) and offsets (n_outputs,) of a logistic regression.

    cost : of the sum of losses against half the squared weights; weights : of the rows (rows,); None for all 1
    start : weights and offsets to start from, such as those of another cost; None for 0
    """
    n_classes, counted = int(classes.max()) + 1, np.ones(len(classes)) if weights is None else weights
    n_outputs, n_columns = 1 if n_classes == 2 else n_classes, columns.shape[1]
    hits = np.zeros((len(classes), n_classes))
    hits[np.arange(len(classes)), classes] = 1.0
    scale = 1.0 / (cost * counted.sum())

    def value_and_slopes(parameters: Doubles) -> tuple[float, Doubles]:
        table = parameters.reshape(n_outputs, n_columns + 1)
        logits = columns @ table[:, :-1].T + table[:, -1]
        logits = logits[:, 0] if n_outputs == 1 else logits
        excess = ((probabilities_of(logits) - hits) * counted[:, np.newaxis])[:, -n_outputs:]
        slopes = np.column_stack([cost * (excess.T @ columns) + table[:, :-1], cost * excess.sum(axis=0)])
        value = cost * float(counted @ log_losses(logits, classes)) + 0.5 * float((table[:, :-1] ** 2).sum())
        return scale * value, scale * slopes.ravel()

    first = np.zeros(n_outputs * (n_columns + 1)) if start is None else np.column_stack(start).ravel()
    found = minimize(value_and_slopes, first, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    table = found.x.reshape(n_outputs, n_columns + 1)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()


_SUREST = -math.log(np.finfo(np.float64).eps)  # log-odds: beyond, scikit-learn's log loss clips probabilities, too


@dataclass(frozen=True, eq=False)
class BoostingPredictor(Baseline):
    """Histogram gradient boosting of scikit-learn as a predictor; shifts : log-odds from which on a class wins."""

    fitted: Any
    shifts: tuple[float, ...]

    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
        """Return scores (rows,) or (rows, n_classes): log-odds less the shifts, or predictions of a regression."""
        if self.schema.task == "regression":
            return np.asarray(self.fitted.predict(inputs), dtype=np.float64)
        scores: Doubles = np.asarray(self.fitted.decision_function(inputs), dtype=np.float64) - self._shift
        return scores

    def logits(self, scores: FloatArray) -> FloatArray | None:
        """Return log-odds or logits of its scores; None for a regression."""
        if self.schema.task == "regression":
            return None
        logits: FloatArray = scores + self._shift
        if self.n_outputs == 1:
            return np.asarray(np.clip(logits, -_SUREST, _SUREST))
        return np.asarray(np.maximum(logits - logits.max(axis=1, keepdims=True), -_SUREST))

    @property
    def _shift(self) -> Any:
        return np.array(self.shifts) if self.n_outputs > 1 else self.shifts[0]


def train_boosting(settings: TrainSettings, data: Dataset) -> BoostingPredictor | None:
    """Fit gradient boosting with the defaults of scikit-learn to sampled training rows; None for sparse rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    schema = data.schema
    if schema.sparse is not None:
        _LOG.warning("Gradient boosting takes dense rows and these are sparse, so there is none to compare with.")
        return None
    inputs, targets = _sample(settings, data, BOOSTED_ROWS)
    if schema.task == "regression":
        return BoostingPredictor(
            schema, HistGradientBoostingRegressor(random_state=settings.seed).fit(inputs, targets), ()
        )
    counts = np.bincount(targets, minlength=len(schema.labels))
    if not counts.all():
        rare = schema.labels[int(counts.argmin())]
        _LOG.warning("Sampled training rows lack the class %r, so there is no gradient boosting to compare with.", rare)
        return None
    alone = np.flatnonzero(counts[targets] == 1)  # again, as a row of each class is held out to stop early
    inputs, targets = np.concatenate([inputs, inputs[alone]]), np.concatenate([targets, targets[alone]])
    boosting = HistGradientBoostingClassifier(random_state=settings.seed)
    return BoostingPredictor(schema, boosting.fit(inputs, targets), shifts_of(settings, schema))


def _sample(settings: TrainSettings, data: Dataset, most: int) -> tuple[Doubles, NDArray[Any]]:
    """Return shuffled inputs (rows, n_inputs) and classes or targets (rows,) of a sample of the training rows."""
    n_rows = max(2, min(most, MOST_NUMBERS // max(1, data.schema.n_features)))
    rows: Rows = sample_rows(data, "train", n_rows, settings.seed, "float64", MANY_GROUPS)
    order = np.random.default_rng((settings.seed, 0xBA5E)).permutation(len(rows.targets))
    targets: NDArray[Any] = rows.targets[order]
    if data.schema.task != "regression":
        targets = class_indices(data.schema, targets)
    return np.asarray(rows.inputs[order], dtype=np.float64), targets
