"""The interface of feature maps, and the transform of rows in threads."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.compiled.jit import as_compiled, one_blas_thread
from okl.compiled.threads import MOST_ROWS, run_threads
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, Precision


class FeatureMap(Protocol):
    """A frozen map from inputs (rows, n_inputs) to features (rows, n_columns) in one precision."""

    @property
    def n_inputs(self) -> int: ...
    @property
    def n_columns(self) -> int: ...
    @property
    def precision(self) -> Precision: ...

    def transform(self, inputs: FloatArray) -> FloatArray:
        """Return features (rows, n_columns), C-contiguous, in the map's precision, each row from its input alone."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that make the map, by name: with `describe()`, all that is stored."""

    def describe(self) -> dict[str, Any]:
        """Return the rest of the map as JSON; "kind" names it."""


def precision_of(array: NDArray[Any]) -> Precision:
    """Return the precision of an array of floats, or ConfigError."""
    if array.dtype.name == "float32":
        return "float32"
    if array.dtype.name == "float64":
        return "float64"
    raise ConfigError(f"A feature map holds {array.dtype} values; expected float32 or float64. Convert them first.")


def check_weights(feature_map: FeatureMap, weights: NDArray[Any]) -> None:
    """Raise ConfigError unless weights are (n_outputs, n_columns); compiled code does not look."""
    if weights.ndim != 2 or weights.shape[1] != feature_map.n_columns:
        raise ConfigError(
            f"Weights of shape {weights.shape} do not fit a feature map of {feature_map.n_columns} columns. "
            "Use the weights that were trained with this map."
        )


def as_inputs(inputs: Any, precision: Precision) -> Any:
    """Return inputs as compiled code takes them; sparse ones stay sparse."""
    return inputs.astype(precision, copy=False) if sparse.issparse(inputs) else as_compiled(inputs, precision)


def check_inputs(feature_map: FeatureMap, inputs: NDArray[Any]) -> None:
    """Raise DataError unless inputs are (rows, n_inputs)."""
    if inputs.ndim != 2 or inputs.shape[1] != feature_map.n_inputs:
        raise DataError(
            f"The feature map takes inputs of shape (rows, {feature_map.n_inputs}), but got {inputs.shape}. "
            "Pass the columns that it was drawn for."
        )


def transform_rows(feature_map: FeatureMap, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
    """Return features (rows, n_columns) of inputs (rows, n_inputs), by threads; DataError for other columns."""
    inputs, rows = as_inputs(inputs, feature_map.precision), inputs.shape[0]
    check_inputs(feature_map, inputs)
    features = np.empty((rows, feature_map.n_columns), dtype=feature_map.precision)
    n_threads = max(1, min(n_threads, -(-rows // MOST_ROWS)))
    edges = np.linspace(0, rows, n_threads + 1).astype(int)

    def transform(thread: int) -> None:
        part = slice(edges[thread], edges[thread + 1])
        features[part] = feature_map.transform(inputs[part])

    with one_blas_thread():
        run_threads(n_threads, transform)
    return features
