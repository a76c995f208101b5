"""No map: sampled rows are compared by the kernel itself, and the model is a sum over those of the sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.features.bandwidth import kernel_of_bandwidth, suit_kernel
from okl.features.protocol import FeatureMap, check_inputs
from okl.kernels import KnownKernel
from okl.store.dataset import Schema
from okl.types import FloatArray, Precision


@dataclass(frozen=True, eq=False)
class KernelInputs:
    """Inputs as they are, beside the kernel that compares them: in the place of a map, where there is none.

    kernel : k; n_inputs : columns of the inputs; precision : that they are read in
    """

    kernel: KnownKernel
    n_inputs: int
    precision: Precision

    @property
    def n_columns(self) -> int:
        """Those of the inputs."""
        return self.n_inputs

    def transform(self, inputs: FloatArray) -> FloatArray:
        """The inputs, copied.

        Raises
        ------
        DataError : the inputs have other columns
        """
        check_inputs(self, inputs)
        return np.array(inputs, dtype=self.precision, order="C")  # copy: what was read may be a buffer that is lent

    def arrays(self) -> dict[str, NDArray[Any]]:
        """None."""
        return {}

    def describe(self) -> dict[str, Any]:
        """That it is no map."""
        return {"kind": "inputs"}


@dataclass(frozen=True)
class ExactChoice:
    """The exact kernel.

    Parameters
    ----------
    kernel : a name of okl.kernels; bandwidth : in units of the scaled inputs, None for the median distance of a sample
    degree, offset : of the polynomial kernel

    Raises
    ------
    ConfigError : an unknown name, a parameter out of range
    """

    kernel: str = "gaussian"
    bandwidth: float | None = None
    degree: int = 3
    offset: float = 1.0

    def __post_init__(self) -> None:
        kernel_of_bandwidth(self.kernel, 1.0, self.degree, self.offset)

    def draw(
        self, schema: Schema, sample: FloatArray, seed: int, precision: Precision
    ) -> tuple[FeatureMap, dict[str, Any]]:
        """The inputs beside the kernel, and the bandwidth with its reason."""
        kernel, chosen = suit_kernel(self.kernel, self.bandwidth, sample, self.degree, self.offset)
        return KernelInputs(kernel, schema.n_features, precision), chosen
