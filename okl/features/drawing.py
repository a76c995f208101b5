"""The draws of Fourier maps by name."""

from __future__ import annotations

from typing import Protocol

from okl.checks import check_choice
from okl.features.fourier import FourierFeatures, draw_fourier_map
from okl.features.orthogonal import draw_orthogonal_map
from okl.features.quasi import MOST_COORDINATES, draw_quasi_map
from okl.features.structured import StructuredFeatures, draw_structured_map, padded
from okl.kernels import Kernel, RadialKernel, ShiftInvariantKernel
from okl.types import Precision

STRUCTURED_FROM = 256  # inputs: with that many the structured map takes half the time of frequencies, with 64 more


class Draw(Protocol):
    """Draws a map of 2 n_frequencies columns from a seed."""

    def __call__(
        self, kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
    ) -> FourierFeatures | StructuredFeatures: ...


DRAWS: dict[str, Draw] = {
    "independent": draw_fourier_map,
    "orthogonal": draw_orthogonal_map,
    "quasi": draw_quasi_map,
    "structured": draw_structured_map,
}


def draw_map(
    name: str, kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> FourierFeatures | StructuredFeatures:
    """Draw a map of DRAWS by name, or by "auto" the one that suits the kernel and the number of inputs.

    Raises
    ------
    ConfigError : the name is unknown, or the map does not take the kernel or the sizes
    """
    check_choice("map", name, {"auto", *DRAWS})
    chosen = suitable_draw(kernel, n_inputs, n_frequencies) if name == "auto" else name
    return DRAWS[chosen](kernel, n_inputs, n_frequencies, seed, precision)


def suitable_draw(kernel: Kernel, n_inputs: int, n_frequencies: int) -> str:
    """Structured where it is faster than frequencies, otherwise orthogonal; quasi where the kernel takes neither.

    Structured from 256 inputs on, unless the frequencies are few: rotations are computed whole, and of one of 1024
    inputs a quarter at least should be used. Independent for kernels that take none of them.
    """
    if isinstance(kernel, RadialKernel):
        worth = n_inputs >= STRUCTURED_FROM and 4 * n_frequencies >= padded(n_inputs)
        return "structured" if worth else "orthogonal"
    if isinstance(kernel, ShiftInvariantKernel) and kernel.n_uniforms(n_inputs) <= MOST_COORDINATES:
        return "quasi"
    return "independent"
