"""What is left of a solver after learning: something that scores blocks of inputs and knows how to be stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from okl.errors import ModelError
from okl.expansions import expansion_from_stored
from okl.features.protocol import FeatureMap, precision_of
from okl.features.scoring import score_rows
from okl.features.stored import map_from_stored
from okl.types import FloatArray, Precision


class Predictor(Protocol):
    """Scores blocks of inputs; how raw rows become inputs stands in the schema of the model that holds it."""

    @property
    def n_inputs(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    @property
    def precision(self) -> Precision: ...

    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray: ...

    def arrays(self) -> dict[str, NDArray[Any]]: ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """Scores z(x) @ weights' + offsets for an explicit feature map z.

    Parameters
    ----------
    feature_map : z, with n_columns columns
    weights : (n_outputs, n_columns); one output for two classes and for regression
    offsets : (n_outputs,) of the same precision; None: 0
    """

    feature_map: FeatureMap
    weights: FloatArray
    offsets: FloatArray | None = None

    @property
    def n_inputs(self) -> int:
        """Columns of the inputs."""
        return self.feature_map.n_inputs

    @property
    def n_outputs(self) -> int:
        """Scores a row."""
        return int(self.weights.shape[0])

    @property
    def precision(self) -> Precision:
        """Of its weights, and so of its inputs."""
        return precision_of(self.weights)

    def scores(self, inputs: FloatArray, n_threads: int = 1) -> FloatArray:
        """Scores before any link, (rows,) for one output, (rows, n_outputs) for several, of inputs (rows, n_inputs)."""
        scores = score_rows(self.feature_map, self.weights, inputs, n_threads)
        if self.offsets is not None:
            scores += self.offsets
        return scores[:, 0] if self.n_outputs == 1 else scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to store, by name."""
        offsets = {} if self.offsets is None else {"offsets": self.offsets}
        mapped = {f"map.{name}": array for name, array in self.feature_map.arrays().items()}
        return {"weights": self.weights, **offsets, **mapped}

    def describe(self) -> dict[str, Any]:
        """The rest of it, as JSON."""
        return {"kind": "linear", "map": self.feature_map.describe()}


def predictor_from_stored(description: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str) -> Predictor:
    """Rebuild a predictor from `describe()` and `arrays()`, or raise ModelError; runs no stored code."""
    if description.get("kind") == "expansion":
        return expansion_from_stored(description, arrays, where)
    if description.get("kind") != "linear" or "weights" not in arrays:
        raise ModelError(f"{where}: a predictor of kind {description.get('kind')!r} is not one this okl knows.")
    if not isinstance(description.get("map"), dict):
        raise ModelError(f"{where}: it does not say what map its weights are for. The model is damaged; train again.")
    map_arrays = {name.removeprefix("map."): array for name, array in arrays.items() if name.startswith("map.")}
    feature_map = map_from_stored(description["map"], map_arrays)
    predictor = LinearPredictor(feature_map, arrays["weights"], arrays.get("offsets"))
    if predictor.weights.ndim != 2 or predictor.weights.shape[1] != predictor.feature_map.n_columns:
        raise ModelError(
            f"{where}: weights of shape {predictor.weights.shape} do not fit a map of "
            f"{predictor.feature_map.n_columns} columns. The model is damaged; train it again."
        )
    held = {array.dtype.name for array in (predictor.weights, predictor.offsets) if array is not None}
    if held != {feature_map.precision}:
        raise ModelError(
            f"{where}: weights of type {' and '.join(sorted(held))} do not fit a map of {feature_map.precision}. The "
            "model is damaged; train it again."
        )
    if predictor.offsets is not None and predictor.offsets.shape != (predictor.n_outputs,):
        raise ModelError(
            f"{where}: offsets of shape {predictor.offsets.shape} do not fit {predictor.n_outputs} outputs. The model "
            "is damaged; train it again."
        )
    return predictor
