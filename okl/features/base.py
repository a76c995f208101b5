"""The interface of feature maps."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

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
        """Features (rows, n_columns), C-contiguous, in the map's precision; each row depends on its own input only."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that make the map, by name: with `describe()`, all that is stored."""
        ...

    def describe(self) -> dict[str, Any]:
        """The rest of the map as JSON; "kind" names it."""
        ...


def precision_of(array: NDArray[Any]) -> Precision:
    """The precision of an array of floats, or ConfigError."""
    if array.dtype.name == "float32":
        return "float32"
    if array.dtype.name == "float64":
        return "float64"
    raise ConfigError(f"A feature map holds {array.dtype} values, but it takes float32 or float64. Convert them first.")


def check_weights(feature_map: FeatureMap, weights: NDArray[Any]) -> None:
    """Raise ConfigError unless weights are (n_outputs, n_columns); compiled code does not look."""
    if weights.ndim != 2 or weights.shape[1] != feature_map.n_columns:
        raise ConfigError(
            f"Weights of shape {weights.shape} do not fit a feature map of {feature_map.n_columns} columns. "
            "Use the weights that were learnt with this map."
        )


def check_inputs(feature_map: FeatureMap, inputs: NDArray[Any]) -> None:
    """Raise DataError unless inputs are (rows, n_inputs)."""
    if inputs.ndim != 2 or inputs.shape[1] != feature_map.n_inputs:
        raise DataError(
            f"The feature map takes inputs of shape (rows, {feature_map.n_inputs}), but {inputs.shape} came. "
            "Give it the columns it was drawn for."
        )
