"""Feature maps from what a model file holds; no stored code is run."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from okl.errors import ModelError, OklError
from okl.features.extension import KIND, extension_map_from_stored
from okl.features.fourier import FourierFeatures
from okl.features.linear import StandardisedLinear
from okl.features.nystrom import NystromFeatures
from okl.features.protocol import FeatureMap
from okl.features.structured import StructuredFeatures
from okl.kernels import kernel_from_description


def map_from_stored(description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FeatureMap:
    """Rebuild a map from its `describe()` and `arrays()`.

    Raises
    ------
    ModelError : the kind or kernel is unknown, an extension is not here, or an array or a value is missing or unfit
    """
    kind = description.get("kind")
    try:
        if kind == KIND:
            return extension_map_from_stored(description, arrays)
        if kind == "fourier":
            return FourierFeatures(kernel_from_description(description["kernel"]), arrays["frequencies"])
        if kind == "nystrom":
            kernel = kernel_from_description(description["kernel"])
            return NystromFeatures(kernel, arrays["landmarks"], arrays["projection"])
        if kind == "structured":
            kernel = kernel_from_description(description["kernel"])
            return StructuredFeatures(kernel, int(description["n_inputs"]), arrays["signs"], arrays["radii"])
        if kind == "standardised-linear":
            return StandardisedLinear(arrays["shift"], arrays["factor"], float(description["constant"]))
    except ModelError:
        raise
    except (OklError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"The stored {kind} map cannot be rebuilt ({error!r}). The model is damaged; train it again."
        ) from None
    raise ModelError(f"A feature map of kind {kind!r} is not one this okl knows. Use the okl that wrote the model.")
