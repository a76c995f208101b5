"""Fourier maps that hold no frequencies: products with Hadamard matrices, for inputs of many columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least
from okl.compiled.blocks import aligned_empty, as_compiled, borrowed_block, rows_per_block
from okl.compiled.hadamard import LANES, Structured, structured_transform
from okl.errors import ConfigError
from okl.features.orthogonal import radial_kernel
from okl.features.protocol import check_inputs, precision_of
from okl.kernels import Kernel, describe_kernel
from okl.types import FloatArray, Precision


@dataclass(frozen=True, eq=False)
class StructuredFeatures:
    """The map z(x) = n_frequencies^(-1/2) (sin(a), cos(a)) with a = radii * (R x), R rows of random rotations.

    x is filled with zeros to p columns, the next power of two. Each p rows of R are H D1 H D2 H D3 / p^(3/2), with H
    the Hadamard matrix and D diagonals of random signs. Mapping a row takes O(n_frequencies log p) operations, and the
    map holds four numbers a frequency, however many inputs there are.

    Parameters
    ----------
    kernel : whose inner products are approximated
    n_inputs : int >= 1
    signs : (n_blocks, 3, p), +1 or -1
    radii : (n_frequencies,), lengths of the frequencies per unit of input; n_blocks = n_frequencies / p, rounded up

    Raises
    ------
    ConfigError : the arrays do not fit one another, or p is not the next power of two

    Source: Yu et al., Orthogonal Random Features, NIPS 2016, section 4; three blocks of HD as in Andoni et al., NIPS
    2015, section 3.
    """

    kernel: Kernel
    n_inputs: int
    signs: FloatArray
    radii: FloatArray

    def __post_init__(self) -> None:
        precision_of(self.radii)
        size = padded(self.n_inputs)
        expected = (-(-len(self.radii) // size), 3, size)
        if self.radii.ndim != 1 or self.signs.shape != expected or self.signs.dtype != self.radii.dtype:
            raise ConfigError(
                f"signs {self.signs.shape} {self.signs.dtype} and radii {self.radii.shape} {self.radii.dtype} of "
                f"{self.n_inputs} inputs must be {expected} and a vector, none of them empty, in one precision."
            )

    def __getstate__(self) -> dict[str, Any]:
        # without what `_compiled` keeps
        return {"kernel": self.kernel, "n_inputs": self.n_inputs, "signs": self.signs, "radii": self.radii}

    @property
    def n_frequencies(self) -> int:
        """Frequencies, each of which gives a sine and a cosine."""
        return int(self.radii.shape[0])

    @property
    def n_columns(self) -> int:
        """Columns of the features: all sines, then all cosines."""
        return 2 * self.n_frequencies

    @property
    def precision(self) -> Precision:
        """Of the features."""
        return precision_of(self.radii)

    def transform(self, inputs: FloatArray) -> FloatArray:
        """Features (rows, n_columns) of inputs (rows, n_inputs), or DataError if they have other columns."""
        inputs = as_compiled(inputs, self.radii.dtype)
        check_inputs(self, inputs)
        features = np.empty((len(inputs), self.n_columns), dtype=inputs.dtype)
        size = self.signs.shape[2]
        buffers = aligned_empty((2 * size, LANES), inputs.dtype).reshape(2, size, LANES)
        rows = rows_per_block(self.n_columns, inputs.dtype.itemsize)
        with borrowed_block(rows, (self.n_frequencies, self.n_frequencies), inputs.dtype) as block:
            structured_transform(features, block, buffers, inputs, self._compiled)
        return features

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Signs and radii: data, not a seed to draw them from again."""
        return {"signs": self.signs, "radii": self.radii}

    def describe(self) -> dict[str, Any]:
        """Kind, kernel and the number of inputs."""
        return {"kind": "structured", "kernel": describe_kernel(self.kernel), "n_inputs": self.n_inputs}

    @cached_property
    def _compiled(self) -> Structured:
        dtype = self.radii.dtype
        half_turns = self.radii.astype(np.float64) / (np.pi * self.signs.shape[2] ** 1.5)
        signs = np.ascontiguousarray(self.signs)
        return Structured(signs, half_turns.astype(dtype), dtype.type(self.n_frequencies**-0.5))


def draw_structured_map(
    kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> StructuredFeatures:
    """Draw a structured map: random signs, and lengths from the kernel's own law for the padded number of inputs.

    The directions of a product of three such rotations are not quite uniform: inner products have a bias, which falls
    with p. With up to about 10 inputs it is as large as the error of a few hundred frequencies.

    Parameters
    ----------
    kernel : of ||x - x'||: gaussian, matern32, matern52
    n_inputs, n_frequencies : int >= 1; the map has 2 n_frequencies columns
    seed : int >= 0; precision : of the features

    Raises
    ------
    ConfigError : a size is below 1; the kernel is not shift-invariant, or its density is not the same in all directions

    Source: as for `StructuredFeatures`.
    """
    radial = radial_kernel(kernel, "structured")
    n_inputs = check_at_least("n_inputs", n_inputs, 1)
    n_frequencies = check_at_least("n_frequencies", n_frequencies, 1)
    rng = np.random.default_rng(seed)
    size = padded(n_inputs)
    signs = rng.choice([-1.0, 1.0], size=(-(-n_frequencies // size), 3, size))
    radii = radial.draw_radii(size, (n_frequencies,), rng)
    return StructuredFeatures(kernel, n_inputs, signs.astype(precision), radii.astype(precision))


def padded(n_inputs: int) -> int:
    """The next power of two."""
    return 1 << (n_inputs - 1).bit_length()
