"""A map of an extension: the extension draws and evaluates it, okl stores its arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.features.base import check_inputs
from okl.foundation import plugins
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, ModelError, OklError
from okl.foundation.types import FloatArray, Precision
from okl.foundation.validation import check_at_least
from okl.kernels import Kernel

KIND = "extension"
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class DeclaredMap:
    """Feature map as an extension declares it.

    draw : of (kernel, n_inputs, n_columns, random generator), the arrays that make the map, by name
    transform : of (arrays, inputs (rows, n_inputs)), the features (rows, n_columns), each row by its own input only
    version : of what transform does; a model is scored only with the version that it was learned with
    """

    draw: Callable[[Kernel, int, int, np.random.Generator], dict[str, NDArray[Any]]]
    transform: Callable[[Arrays, FloatArray], FloatArray]
    version: int = 1


@stored("extension-features")
@dataclass(frozen=True, eq=False)
class ExtensionFeatures:
    """A map of an extension, identified by its name and origin, and the arrays that make it.

    name, origin : see okl.foundation.plugins; version : as declared
    n_inputs, n_columns, precision : of inputs and features; stored : its arrays, in that precision if they are floats
    """

    name: str
    origin: str
    version: int
    n_inputs: int
    n_columns: int
    precision: Precision
    stored: dict[str, NDArray[Any]]

    def transform(self, inputs: FloatArray) -> FloatArray:
        """Return features (rows, n_columns), or ConfigError if the extension fails, or makes something else."""
        inputs = np.asarray(inputs, dtype=self.precision).view()
        check_inputs(self, inputs)
        inputs.flags.writeable = False  # they are the caller's, and may be read again
        own: DeclaredMap = plugins.exactly("map", self.name, self.origin)
        made = _called(self.name, self.origin, own.transform, self.stored, inputs)
        if not isinstance(made, np.ndarray) or made.dtype.kind not in "bif":
            result_type = f"{made.dtype} numbers" if isinstance(made, np.ndarray) else f"a {type(made).__name__}"
            raise ConfigError(
                f"The map {self.name!r} of {self.origin} returns {result_type}; expected an array of floats."
            )
        features: FloatArray = np.ascontiguousarray(made, dtype=self.precision)
        if np.may_share_memory(features, inputs):
            features = features.copy()  # as of every map, the caller may write into them
        if features.shape != (len(inputs), self.n_columns):
            raise ConfigError(
                f"The map {self.name!r} of {self.origin} returns features of shape {features.shape}; expected "
                f"({len(inputs)}, {self.n_columns})."
            )
        return features

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that it was drawn with."""
        return dict(self.stored)

    def describe(self) -> dict[str, Any]:
        """Return name, version and sizes, and the origin of the extension as information."""
        sizes = {"n_inputs": self.n_inputs, "n_columns": self.n_columns, "precision": self.precision}
        return {"kind": KIND, "name": self.name, "version": self.version, "origin": self.origin, **sizes}


def draw_extension_map(
    name: str, kernel: Kernel, n_inputs: int, n_columns: int, seed: int, precision: Precision = "float32"
) -> ExtensionFeatures:
    """Draw a map of an extension; ConfigError if it is not declared or fails, or gives no arrays or other shapes."""
    declared = plugins.find("map", name)
    if declared is None:
        raise ConfigError(f"map = {name!r} is unknown: okl does not have it, and no loaded extension declares it.")
    check_at_least("n_columns", n_columns, 1)
    own: DeclaredMap = declared.thing
    random = np.random.default_rng((seed, 0xE87))
    drawn = _called(name, declared.origin, own.draw, kernel, n_inputs, n_columns, random)
    if not isinstance(drawn, dict) or not all(isinstance(key, str) for key in drawn):
        kind = f"{type(drawn).__name__}" if not isinstance(drawn, dict) else "dict with keys that are not strings"
        raise ConfigError(
            f"The map {name!r} of {declared.origin} draws a {kind}; expected a dict of NumPy arrays by name."
        )
    if bad := [
        key for key, array in drawn.items() if not isinstance(array, np.ndarray) or array.dtype.kind not in "bif"
    ]:
        raise ConfigError(f"The map {name!r} of {declared.origin} draws {bad}; expected NumPy arrays of numbers.")
    in_precision = {key: array.astype(precision) if array.dtype.kind == "f" else array for key, array in drawn.items()}
    stored = {key: np.ascontiguousarray(array) for key, array in in_precision.items()}
    made = ExtensionFeatures(name, declared.origin, own.version, n_inputs, n_columns, precision, stored)
    made.transform(np.zeros((1, n_inputs), dtype=precision))  # before a row is read
    return made


def extension_map_from_stored(description: Mapping[str, Any], arrays: dict[str, NDArray[Any]]) -> ExtensionFeatures:
    """Rebuild a map from `describe()` and `arrays()`; ModelError without its extension in that version."""
    name, version = str(description["name"]), int(description["version"])
    declared = plugins.find("map", name)
    if declared is None:
        raise ModelError(
            f"The model's map {name!r} belongs to the extension {description.get('origin')}, which is not loaded. Give "
            f"its file, as okl --extension FILE or in {plugins.VARIABLE}, or install its package."
        )
    if declared.thing.version != version:
        raise ModelError(
            f"The model's map {name!r} was drawn by version {version}, but {declared.origin} declares version "
            f"{declared.thing.version}. Use the version that the model was trained with, or train again."
        )
    sizes = int(description["n_inputs"]), int(description["n_columns"])
    precision: Precision = "float64" if description["precision"] == "float64" else "float32"
    return ExtensionFeatures(name, declared.origin, version, *sizes, precision, arrays)


def _called(name: str, origin: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return what a function of an extension returns, or ConfigError with its own words."""
    try:
        return function(*given)
    except OklError:
        raise
    except Exception as error:  # whatever a user's function does wrong
        raise ConfigError(f"The map {name!r} of {origin} fails: {type(error).__name__}: {error}.") from error
