"""Fits of the accelerated estimators: spaces, weights, calibration and parameter choice."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

from okl.compiled.jit import as_compiled
from okl.compiled.products import multiply_rows, multiply_sparse_rows
from okl.compiled.threads import MOST_ROWS, run_tasks, run_threads
from okl.data.dataset import Schema
from okl.estimators.base import whole_number
from okl.features.bandwidth import suit_kernel
from okl.features.base import FeatureMap, transform_rows
from okl.features.predictors import KernelExpansion
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, IntArray, Precision
from okl.foundation.validation import check_choice
from okl.kernels import Kernel
from okl.solvers.accelerated.base import RowOperator
from okl.solvers.accelerated.fitting import (
    LOG_ODDS,
    Fitted,
    ModelTask,
    Sigmoid,
    cross_validated_scores,
    fit_sigmoid,
    fit_task,
    normalised,
    relabelled,
    signs_by_class,
)
from okl.solvers.accelerated.method import Fapg
from okl.solvers.accelerated.models import (
    model_class,
    parameter_of,
)
from okl.solvers.accelerated.operators import DenseRows, KernelTiles, SparseRows, TiledKernel
from okl.solvers.accelerated.problem import error_minimising_bias
from okl.solvers.online.maps import FourierChoice, LinearChoice, NystromChoice

# Deduplication: equal rows become one row with their total weight.

_SEED = 20170418  # any fixed number: equal rows have equal keys in every run


class DistinctRows(NamedTuple):
    """Indices of the distinct rows (kept,), and their weights (kept,)."""

    rows: IntArray
    weights: FloatArray


def merge_repeats(inputs: Any, labels: IntArray, weights: FloatArray | None) -> DistinctRows | None:
    """Find the rows that differ, leaving out those without weight; their order depends on their values only.

    A weight of 3 and a row that occurs three times give the same bits, in any order of the rows.

    Parameters
    ----------
    inputs : (rows, n_features), C-contiguous array or CSR matrix of floats
    labels : (rows,), rows of two classes are never one
    weights : (rows,), or None for 1 each

    Returns
    -------
    Merged, or None where every row is there once and weighs 1
    """
    if weights is not None and (weights == 1.0).all():
        weights = None
    keys = _keys(inputs)
    order = np.lexsort((labels, keys))
    if weights is not None:
        order = order[weights[order] > 0.0]
    repeats = np.zeros(len(order), dtype=bool)
    repeats[1:] = (np.diff(keys[order]) == 0.0) & (np.diff(labels[order]) == 0)
    candidates = np.flatnonzero(repeats)
    repeats[candidates] = _equal(inputs, order[candidates], order[candidates - 1])
    if weights is None and not repeats.any():
        return None
    first = np.flatnonzero(~repeats)
    ordered = np.ones(len(order)) if weights is None else weights[order]
    summed = np.add.reduceat(ordered, first) if len(first) else ordered
    return DistinctRows(order[first], summed)


def _keys(inputs: Any) -> NDArray[np.float64]:
    """Return a random projection of every row (rows,), with the same bits for equal rows at any position."""
    direction = np.random.default_rng(_SEED).standard_normal(inputs.shape[1])
    keys = np.empty(inputs.shape[0])
    ones = np.ones(inputs.shape[0])
    if sparse.issparse(inputs):
        data = as_compiled(inputs.data, inputs.data.dtype)
        multiply_sparse_rows(keys, data, inputs.indices, inputs.indptr, ones, direction)
    else:
        multiply_rows(keys, as_compiled(inputs, inputs.dtype), ones, direction)
    return keys


def _equal(inputs: Any, left: IntArray, right: IntArray) -> NDArray[np.bool_]:
    """Return whether rows of two lists are equal, pair by pair."""
    if sparse.issparse(inputs):
        same = np.asarray(abs(inputs[left] - inputs[right]).sum(axis=1)).ravel() == 0.0
    else:
        same = (inputs[left] == inputs[right]).all(axis=1)
    equal: NDArray[np.bool_] = same
    return equal


# Spaces of weights: input columns, feature maps and kernel matrices.

Inputs = Any  # (rows, n_features), an array of floats or a CSR matrix of them
_CHUNK_ROWS = 16 * MOST_ROWS  # mapped and scored at once


@dataclass(frozen=True, eq=False)
class ColumnSpace:
    """A weight a column: of the inputs, dense or sparse, or of a feature map of dense ones."""

    feature_map: FeatureMap | None = None

    def operator(self, inputs: Inputs, labels: FloatArray, n_threads: int) -> RowOperator:
        """Return an operator of rows with labels (rows,), -1 and +1, mapped once; relabelled copies share arrays."""
        if sparse.issparse(inputs):
            return SparseRows(inputs, labels)
        rows = inputs if self.feature_map is None else transform_rows(self.feature_map, inputs, n_threads)
        return DenseRows(rows, labels, n_threads)

    def scores(self, inputs: Inputs, supports: Inputs, weights: FloatArray, n_threads: int) -> NDArray[np.float64]:
        """Return scores (rows, n_outputs) of weights (n_outputs, n_columns), row by row, summed in float64."""
        weights = as_compiled(weights, np.float64)
        scores = np.empty((len(weights), inputs.shape[0]))
        n_threads = max(1, min(n_threads, -(-inputs.shape[0] // _CHUNK_ROWS)))

        def score(thread: int) -> None:
            for first in range(thread * _CHUNK_ROWS, inputs.shape[0], n_threads * _CHUNK_ROWS):
                part = slice(first, first + _CHUNK_ROWS)
                self._score_chunk(scores[:, part], inputs[part], weights)

        run_threads(n_threads, score)
        return np.ascontiguousarray(scores.T)

    def _score_chunk(self, scores: FloatArray, inputs: Inputs, weights: FloatArray) -> None:
        if sparse.issparse(inputs):
            scores[:] = (inputs @ weights.T).T
            return
        mapped = inputs if self.feature_map is None else transform_rows(self.feature_map, inputs)
        rows, ones = as_compiled(mapped, mapped.dtype), np.ones(len(mapped))
        for output, vector in zip(scores, weights, strict=True):
            multiply_rows(output, rows, ones, vector)


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """A coefficient a row of the training set, by an exact kernel.

    budget_bytes : what kernel values may take in memory; those beyond are computed again in every iteration
    """

    kernel: Kernel
    budget_bytes: int

    def operator(self, inputs: Inputs, labels: FloatArray, n_threads: int) -> RowOperator:
        """Return kernel values in the precision of the inputs."""
        precision: Precision = "float32" if inputs.dtype == np.float32 else "float64"
        return TiledKernel(KernelTiles(self.kernel, inputs, precision, self.budget_bytes, n_threads), labels)

    def scores(self, inputs: Inputs, supports: Inputs, weights: FloatArray, n_threads: int) -> NDArray[np.float64]:
        """Return sums of kernel values with the supports, the rows that weights (n_outputs, n_supports) belong to."""
        if self.kernel.rule is None:
            parts = [
                self.kernel.matrix(inputs[first : first + MOST_ROWS], supports) @ weights.T
                for first in range(0, len(inputs), MOST_ROWS)
            ]
            return np.concatenate(parts)
        expansion = KernelExpansion(self.kernel, supports, as_compiled(weights, supports.dtype))
        scores = expansion.scores(inputs, n_threads).astype(np.float64)
        return scores.reshape(len(inputs), len(weights))


Space = ColumnSpace | KernelSpace


# Labels as class numbers, and sample weights.


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows to learn.

    inputs : (rows, n_features), array or CSR; codes : (rows,), numbers of their classes
    weights : (rows,) > 0, or None for 1 each; numbers : (rows,), indices of the rows in the input
    """

    inputs: Inputs
    codes: IntArray
    weights: FloatArray | None
    numbers: IntArray

    @property
    def n_rows(self) -> int:
        """Return the number of distinct rows."""
        return int(self.inputs.shape[0])

    @property
    def n_features(self) -> int:
        """Return the number of columns."""
        return int(self.inputs.shape[1])

    @property
    def precision(self) -> Precision:
        """Return the precision of the inputs."""
        return "float32" if self.inputs.dtype == np.float32 else "float64"

    def part(self, numbers: IntArray) -> LabelledRows:
        """Return a subset of the rows."""
        weights = None if self.weights is None else self.weights[numbers]
        return LabelledRows(self.inputs[numbers], self.codes[numbers], weights, self.numbers[numbers])


def label_rows(
    inputs: Inputs, labels: NDArray[Any], classes: NDArray[Any], sample_weight: ArrayLike | None, class_weight: Any
) -> LabelledRows:
    """Weigh rows and merge those that are equal.

    Parameters
    ----------
    inputs : (rows, n_features), array or CSR, validated; labels : (rows,), all among classes, which are sorted
    sample_weight : (rows,) or None; class_weight : None, "balanced", or by label

    Raises
    ------
    DataError : a class has no weight; ValueError of scikit-learn : weights that are negative, or of other rows
    """
    codes = np.searchsorted(classes, labels)
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
    if class_weight is not None:
        given = np.ones(len(labels)) if weights is None else weights
        by_class = compute_class_weight(class_weight, classes=classes, y=labels, sample_weight=given)
        weights = given * by_class[codes]
    if sparse.issparse(inputs) and not inputs.has_canonical_format:
        inputs = inputs.copy()  # the user's own, perhaps
        inputs.sum_duplicates()
    merged = merge_repeats(inputs, codes, weights)
    if merged is None:
        return LabelledRows(inputs, codes, None, np.arange(len(codes)))
    labelled = LabelledRows(inputs[merged.rows], codes[merged.rows], merged.weights, merged.rows)
    missing = np.setdiff1d(np.arange(len(classes)), labelled.codes)
    if len(missing):
        raise DataError(
            f"Every row of class {classes[missing[0]].item()!r} has sample_weight 0. Give at least one row of "
            "each class a weight above 0."
        )
    return labelled


# Fits of two classes, and of one class against the rest.

Bias = Literal["own", "errors"]


@dataclass(frozen=True, eq=False)
class ClassFit:
    """Weights of columns, or coefficients of rows, and intercept: h(x) = f(x) + intercept; the solution behind them.

    parameter : C, nu or kappa as used
    """

    weights: FloatArray
    intercept: float
    parameter: float
    fitted: Fitted


@dataclass(frozen=True)
class TwoClassFit:
    """Solution that separates two classes.

    task : which model, with which parameter; method : Fapg
    bias : the model's own, or "errors" for that of fewest training errors, which is also used where all weights are 0
    """

    task: ModelTask
    bias: Bias
    method: Fapg

    def fit(
        self, space: Space, inputs: Inputs, codes: IntArray, weights: FloatArray | None, n_threads: int
    ) -> list[ClassFit]:
        """Fit codes (rows,) of two classes, the higher being positive; or each of several against the rest.

        Classes are fitted in parallel; no result depends on n_threads.

        Raises
        ------
        ConfigError, DataError : a parameter outside its range for these rows; rows that the model cannot learn
        """
        _, signs = signs_by_class(codes)
        n_workers = min(n_threads, len(signs))
        rows = space.operator(inputs, signs[0], n_threads // n_workers)
        return run_tasks(lambda index: self._fit_two(relabelled(rows, signs[index]), weights), len(signs), n_workers)

    def _fit_two(self, rows: Any, weights: FloatArray | None) -> ClassFit:
        parameter, fitted = fit_task(self.task, rows, self.method, weights)
        bias = fitted.bias if self.task.fit_intercept else 0.0
        if self.task.fit_intercept and (self.bias == "errors" or not fitted.weights.any()):
            bias = error_minimising_bias(rows.scores(fitted.weights), rows.signs, weights)
        # an intercept of -0.0 would confuse readers
        return ClassFit(fitted.weights, 0.0 - bias, parameter, fitted)


def scores_of(
    fits: list[ClassFit], space: Space, rows: Inputs, fit_inputs: Inputs, n_threads: int
) -> NDArray[np.float64]:
    """Return scores (rows, outputs) by the fits of the given training rows."""
    weights = np.stack([fit.weights for fit in fits])
    intercepts = np.array([fit.intercept for fit in fits])
    scores: NDArray[np.float64] = space.scores(rows, fit_inputs, weights, n_threads) + intercepts
    return scores


# Calibration of scores by sigmoids on held-out scores.

_FOLDS = 5
_LEAST = 1e-300  # of a probability, so that there is a class for scores that exclude all


@dataclass(frozen=True, eq=False)
class Calibration:
    """A sigmoid a class, or one for two; probabilities never fall where scores rise."""

    sigmoids: tuple[Sigmoid, ...]

    def probabilities(self, scores: FloatArray) -> NDArray[np.float64]:
        """Return probabilities (rows, n_classes) of scores (rows,) of two classes, or (rows, n_classes)."""
        if len(self.sigmoids) == 1:
            return normalised(self.sigmoids[0].probabilities(scores))
        columns = [sigmoid.probabilities(column) for sigmoid, column in zip(self.sigmoids, scores.T, strict=True)]
        return normalised(np.maximum(np.stack(columns, axis=1), _LEAST))


def of_log_odds(n_scores: int) -> Calibration:
    """Return probabilities that read each score as the log-odds of its class, as logistic models mean it."""
    return Calibration((LOG_ODDS,) * n_scores)


def calibrate(fitting: TwoClassFit, space: Space, labelled: LabelledRows, seed: int, n_threads: int) -> Calibration:
    """Fit sigmoids to the scores of every fold of rows, as learned from the other folds.

    Raises
    ------
    DataError : a class has one row only

    Source: Platt, Advances in Large Margin Classifiers, 1999, with five folds as in LIBSVM.
    """

    def scores_by(learn: IntArray, judge: IntArray) -> NDArray[np.float64]:
        part = labelled.part(learn)
        fits = fitting.fit(space, part.inputs, part.codes, part.weights, n_threads)
        return scores_of(fits, space, labelled.inputs[judge], part.inputs, n_threads)

    scores = cross_validated_scores(scores_by, labelled.codes, _FOLDS, seed)
    _, signs = signs_by_class(labelled.codes)
    pairs = zip(scores.T, signs, strict=True)
    return Calibration(
        tuple(_rising(fit_sigmoid(*pair, labelled.weights), pair[1], labelled.weights) for pair in pairs)
    )


def _rising(sigmoid: Sigmoid, signs: FloatArray, weights: FloatArray | None) -> Sigmoid:
    """Return the sigmoid, or the class's share of the rows where the sigmoid does not rise with the scores."""
    if sigmoid.slope <= 0.0:
        return sigmoid
    counts = np.ones(len(signs)) if weights is None else weights
    return Sigmoid(0.0, float(np.log((counts[signs < 0].sum() + 1.0) / (counts[signs > 0].sum() + 1.0))))


# Choice of the space by the user's parameters.

# names of maps, and of how a Fourier map is drawn
_DRAWS = {"fourier": "independent", "orthogonal": "orthogonal", "quasi": "quasi", "structured": "structured"}
MAP_NAMES = (*_DRAWS, "nystrom")
MapGiven = str | FeatureMap | FourierChoice | NystromChoice | LinearChoice | None


@dataclass(frozen=True)
class SpaceChoice:
    """Requested kernel and map, either of which may be none; parameters as in UnifiedClassifier."""

    kernel: str | Kernel
    bandwidth: float | None
    degree: int
    offset: float
    feature_map: MapGiven
    n_columns: int
    memory_budget: int

    @property
    def is_plain(self) -> bool:
        """Return whether inputs stay as they are, which may then be sparse."""
        return isinstance(self.kernel, str) and self.kernel == "linear" and self.feature_map is None

    @property
    def is_exact_kernel(self) -> bool:
        """Return whether rows are known by a kernel matrix alone."""
        return self.feature_map is None and not self.is_plain

    def build(
        self, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[ColumnSpace | KernelSpace, dict[str, Any]]:
        """Return the space, and the parameters chosen from a sample of the inputs (rows, n_features), with reasons.

        Raises
        ------
        ConfigError : an unknown name, a parameter out of range or without effect, a map that does not take the kernel
        """
        if self.is_plain:
            self._refuse_settings_with("the linear kernel", self.bandwidth is not None)
            return ColumnSpace(), {}
        if self.feature_map is None:
            kernel, chosen = self._kernel(sample)
            return KernelSpace(kernel, whole_number("memory_budget", self.memory_budget)), chosen
        choice = self._map_choice(len(sample))
        if not isinstance(choice, FourierChoice | NystromChoice | LinearChoice):
            return ColumnSpace(_checked_map(choice, sample.shape[1])), {}
        features = tuple(f"x{index}" for index in range(sample.shape[1]))
        feature_map, chosen = choice.draw(Schema(features, "y", "binary", (0, 1)), sample, seed, precision)
        return ColumnSpace(feature_map), chosen

    def _kernel(self, sample: FloatArray) -> tuple[Kernel, dict[str, Any]]:
        if isinstance(self.kernel, str):
            return suit_kernel(self.kernel, self.bandwidth, sample, self.degree, self.offset)
        self._refuse_settings_with(
            f"the kernel {self.kernel.name!r}, which has its own bandwidth", self.bandwidth is not None
        )
        return self.kernel, {}

    def _map_choice(self, n_sampled: int) -> Any:
        if not isinstance(self.feature_map, str):
            other = self.kernel != "linear" or self.bandwidth is not None
            self._refuse_settings_with("a feature map that has a kernel of its own", other)
            return self.feature_map
        name = check_choice("feature_map", self.feature_map, MAP_NAMES)
        n_columns = whole_number("n_columns", self.n_columns)
        if name == "nystrom":
            n_landmarks = min(n_columns, n_sampled)  # fewer rows than landmarks: as many as there are
            shape: dict[str, Any] = {"degree": self.degree, "offset": self.offset, "landmarks": "kmeans"}
            return NystromChoice(self.kernel, self.bandwidth, n_landmarks=n_landmarks, rank=n_landmarks, **shape)
        if not isinstance(self.kernel, str):
            raise ConfigError(
                f'feature_map = {name!r} requires the name of a kernel. Use feature_map = "nystrom" for a kernel '
                "object."
            )
        # a frequency makes two columns
        return FourierChoice(self.kernel, self.bandwidth, max(1, n_columns // 2), _DRAWS[name])

    def _refuse_settings_with(self, what: str, given: bool) -> None:
        if given:
            raise ConfigError(
                f"kernel = {self.kernel!r} and bandwidth = {self.bandwidth!r} have no effect with {what}. Leave "
                "out the parameter that has no effect."
            )


def _checked_map(given: Any, n_features: int) -> FeatureMap:
    n_inputs = getattr(given, "n_inputs", None)
    if n_inputs is None or not callable(getattr(given, "transform", None)):
        raise ConfigError(f"feature_map = {given!r}; expected a map of okl.features, or one of {', '.join(MAP_NAMES)}.")
    if n_inputs != n_features:
        raise ConfigError(
            f"The feature map takes {n_inputs} inputs, but X has {n_features} columns. Draw the map for "
            f"{n_features} inputs."
        )
    feature_map: FeatureMap = given
    return feature_map


# Refusals of parameter combinations.


def float_or_auto(name: str, value: Any) -> float | None:
    """Convert a numeric parameter to float, "auto" to None; raise ConfigError for other types.

    The range is not checked.
    """
    if value is None or (isinstance(value, str) and value == "auto"):
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigError(f"{name} = {value!r}; expected a number.")
    return float(value)


def refuse_two_intercepts(model: str, bias: str, fit_intercept: bool) -> None:
    """Raise ConfigError for a bias of fewest errors where no intercept is wanted of a model that has one."""
    if bias == "errors" and not fit_intercept and model_class(model).HAS_OWN_BIAS:
        raise ConfigError('bias = "errors" is an intercept, but fit_intercept = False. Leave one of them out.')


def refuse_without_columns(model: str, kernel: str | Kernel) -> None:
    """Raise ConfigError for an exact kernel where explicit columns are required."""
    if not model_class(model).TAKES_KERNEL:
        raise ConfigError(
            f"kernel = {kernel!r} is not available for model = {model!r}, which takes explicit columns. Set "
            'feature_map, such as "orthogonal", or kernel = "linear".'
        )


def refuse_idle_weights(model: str, weighting: Any) -> None:
    """Raise ConfigError for weights of two classes that a model of their moments does not see."""
    if weighting is not None and parameter_of(model) == "kappa":
        raise ConfigError(
            f"class_weight does not change the class means and covariances of model = {model!r}. Leave it "
            'out, or set bias = "errors", which weighs the errors.'
        )


# Messages about a fit.

_TO_THE_USER = 4  # frames from here to the call of fit


def one_or_all(values: list[Any]) -> Any:
    """Return the value of a single fit, or an array with one value for each class."""
    return values[0] if len(values) == 1 else np.array(values)


def warn_of(name: str, fits: list[ClassFit], tolerance: float) -> None:
    """Warn of what was changed to have a solution at all, and of a gap above the tolerance."""
    for note in sorted({fit.fitted.note for fit in fits} - {""}):
        warnings.warn(f"{name}: {note}.", UserWarning, stacklevel=_TO_THE_USER)
    # weights of 0 have their note
    worst = max((fit.fitted for fit in fits if fit.weights.any()), default=None, key=_gap)
    if worst is not None and _gap(worst) > tolerance:
        advice = "Scale the inputs" if worst.outcome.kind == "done" else "Raise max_iter, scale the inputs"
        warnings.warn(
            f"{name}: {worst.outcome.reason}. The certified relative duality gap is {_gap(worst):.2g}, above "
            f"tol = {tolerance:g}. {advice}, or raise tol.",
            ConvergenceWarning,
            stacklevel=_TO_THE_USER,
        )


def _gap(fitted: Fitted) -> float:
    return fitted.certificate.relative_gap
