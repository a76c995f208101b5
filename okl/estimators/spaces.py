"""Spaces of the weights of an estimator: input columns, feature maps and exact kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from okl.compiled.jit import as_compiled
from okl.compiled.products import multiply_rows
from okl.compiled.threads import MOST_ROWS, run_threads
from okl.data.dataset import Schema
from okl.estimators.base import Auto, RandomState, ScoringEstimator, options_of, threads_of
from okl.features.bandwidth import kernel_with_bandwidth
from okl.features.base import FeatureMap, precision_of, transform_rows
from okl.features.predictors import KernelExpansion
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray, IntArray, Precision
from okl.foundation.validation import check_at_least, check_choice
from okl.kernels import Kernel
from okl.solvers.accelerated.base import RowOperator
from okl.solvers.accelerated.operators import DenseRows, KernelTiles, SparseRows, TiledKernel
from okl.solvers.online.maps import FourierChoice, LinearChoice, NystromChoice
from okl.solvers.options import number_of

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

    def scores(self, inputs: Inputs, supports: Inputs, weights: FloatArray, n_threads: int) -> Doubles:
        """Return scores (rows, n_outputs) of weights (n_outputs, n_columns), row by row, summed in float64."""
        weights = as_compiled(weights, np.float64)
        scores = np.empty((len(weights), inputs.shape[0]))
        n_threads = max(1, min(n_threads, -(-inputs.shape[0] // _CHUNK_ROWS)))

        def score(thread: int) -> None:
            for first in range(thread * _CHUNK_ROWS, inputs.shape[0], n_threads * _CHUNK_ROWS):
                part = slice(first, first + _CHUNK_ROWS)
                if sparse.issparse(inputs):
                    scores[:, part] = (inputs[part] @ weights.T).T
                    continue
                mapped = inputs[part] if self.feature_map is None else transform_rows(self.feature_map, inputs[part])
                rows, ones = as_compiled(mapped, mapped.dtype), np.ones(len(mapped))
                for output, vector in zip(scores[:, part], weights, strict=True):
                    multiply_rows(output, rows, ones, vector)

        run_threads(n_threads, score)
        return np.ascontiguousarray(scores.T)


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """A coefficient a row of the training set, by an exact kernel.

    budget_bytes : what kernel values may take in memory; those beyond are computed again in every iteration
    """

    kernel: Kernel
    budget_bytes: int

    def operator(self, inputs: Inputs, labels: FloatArray, n_threads: int) -> RowOperator:
        tiles = KernelTiles(self.kernel, inputs, precision_of(inputs), self.budget_bytes, n_threads)
        return TiledKernel(tiles, labels)

    def scores(self, inputs: Inputs, supports: Inputs, weights: FloatArray, n_threads: int) -> Doubles:
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


# An estimator with a space.

# names of maps, and of how a Fourier map is drawn
_DRAWS = {name: name for name in ("independent", "orthogonal", "quasi", "structured")} | {"fourier": "independent"}
MAP_NAMES = (*_DRAWS, "nystrom")
MapGiven = str | FeatureMap | FourierChoice | NystromChoice | LinearChoice | None
_WEIGHTS = ("coef_", "support_", "support_vectors_", "dual_coef_", "calibration_")


@dataclass(kw_only=True, eq=False, repr=False)
class SpaceEstimator(ScoringEstimator):
    """An estimator with weights of columns, of a map's features, or of rows through an exact kernel."""

    kernel: str | Kernel = "linear"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    feature_map: MapGiven = None
    n_columns: int = 800
    n_jobs: int | None = None
    random_state: RandomState = None

    @property
    def _is_plain(self) -> bool:
        """Return whether inputs stay as they are, which may then be sparse."""
        return isinstance(self.kernel, str) and self.kernel == "linear" and self.feature_map is None

    def _options(self, **changes: Any) -> Any:
        """Return the settings of the solver; a kernel object has no name that the settings accept."""
        named = {} if isinstance(self.kernel, str) else {"kernel": "gaussian"}
        return options_of(self, **named, **changes)

    def _build_space(
        self, options: Any, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[ColumnSpace | KernelSpace, dict[str, Any]]:
        """Return the space, and the parameters chosen from a sample of the inputs (rows, n_features), with reasons.

        Raises
        ------
        ConfigError : an unknown name, a parameter out of range or without effect, a map that does not take the kernel
        """
        bandwidth, shape = number_of(options.bandwidth), (self.degree, self.offset)
        if self._is_plain:
            self._refuse_settings_with("the linear kernel", bandwidth is not None)
            return ColumnSpace(), {}
        if self.feature_map is None:
            chosen: dict[str, Any] = {}
            kernel: Kernel
            if isinstance(self.kernel, str):
                kernel, chosen = kernel_with_bandwidth(self.kernel, bandwidth, sample, *shape)
            else:
                own = f"the kernel {self.kernel.name!r}, which has its own bandwidth"
                self._refuse_settings_with(own, bandwidth is not None)
                kernel = self.kernel
            budget: Any = getattr(self, "memory_budget", 1)
            return KernelSpace(kernel, check_at_least("memory_budget", budget, 1)), chosen
        choice = self._map_choice(bandwidth, len(sample))
        if not isinstance(choice, FourierChoice | NystromChoice | LinearChoice):
            return ColumnSpace(_checked_map(choice, sample.shape[1])), {}
        features = tuple(f"x{index}" for index in range(sample.shape[1]))
        feature_map, chosen = choice.draw(Schema(features, "y", "binary", (0, 1)), sample, seed, precision)
        return ColumnSpace(feature_map), chosen

    def _map_choice(self, bandwidth: float | None, n_sampled: int) -> Any:
        if not isinstance(self.feature_map, str):
            other = self.kernel not in ("linear", type(self).kernel) or bandwidth is not None
            self._refuse_settings_with("a feature map that has a kernel of its own", other)
            return self.feature_map
        name = check_choice("feature_map", self.feature_map, MAP_NAMES)
        n_columns = check_at_least("n_columns", self.n_columns, 1)
        if name == "nystrom":
            n_landmarks = min(n_columns, n_sampled)  # fewer rows than landmarks: as many as there are
            shape: dict[str, Any] = {"degree": self.degree, "offset": self.offset, "landmarks": "kmeans"}
            return NystromChoice(self.kernel, bandwidth, n_landmarks=n_landmarks, rank=n_landmarks, **shape)
        if not isinstance(self.kernel, str):
            raise ConfigError(
                f'feature_map = {name!r} requires the name of a kernel. Use feature_map = "nystrom" for a kernel '
                "object."
            )
        # a frequency makes two columns
        return FourierChoice(self.kernel, bandwidth, max(1, n_columns // 2), _DRAWS[name])

    def _refuse_settings_with(self, what: str, given: bool) -> None:
        if given:
            raise ConfigError(
                f"kernel = {self.kernel!r} and bandwidth = {self.bandwidth!r} have no effect with {what}. Leave "
                "out the parameter that has no effect."
            )

    def _valid(self, *data: Any, reset: bool, **options: Any) -> Any:
        """Return inputs, and y if it is given, both finite; float32 stays: half the memory, while sums are float64."""
        return super()._valid(*data, dtype=[np.float64, np.float32], order="C", reset=reset, **options)

    def _keep_weights(
        self, weights: FloatArray, inputs: Inputs, numbers: IntArray, rows: IntArray | None = None
    ) -> None:
        """Keep weights (n_outputs, columns), or of an exact kernel those of the support.

        numbers : of the weighted rows in X; rows : their places in the inputs, None for 0, 1, ...
        """
        for name in _WEIGHTS:  # of an earlier fit in another space
            self.__dict__.pop(name, None)
        if not isinstance(self.space_, KernelSpace):
            self.coef_ = np.ascontiguousarray(weights)
            return
        support = np.flatnonzero((weights != 0.0).any(axis=0))
        self.support_ = numbers[support]
        self.support_vectors_ = np.ascontiguousarray(inputs[support if rows is None else rows[support]])
        self.dual_coef_ = np.ascontiguousarray(weights[:, support])

    def _scores(self, X: ArrayLike) -> Doubles:
        check_is_fitted(self)
        inputs = self._valid(X, reset=False)
        exact = isinstance(self.space_, KernelSpace)
        supports, weights = (self.support_vectors_, self.dual_coef_) if exact else (None, self.coef_)
        scores: Doubles = self.space_.scores(inputs, supports, weights, threads_of(self.n_jobs))
        scores += self.intercept_
        return scores if len(self.intercept_) > 1 else np.ascontiguousarray(scores[:, 0])


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
