"""Random Fourier feature maps: independent, orthogonal, quasi-random and structured frequencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import hadamard

from okl.compiled.fourier import LANES, Structured, Waves, as_waves, fourier_transform, structured_transform
from okl.compiled.jit import aligned_empty, as_compiled, one_blas_thread
from okl.compiled.math import sines_and_cosines
from okl.compiled.threads import borrowed_block, rows_per_block
from okl.features.base import as_inputs, check_inputs, precision_of
from okl.foundation.class_tags import lasting_attributes, stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision
from okl.foundation.validation import check_at_least, check_choice
from okl.kernels import Kernel, RadialKernel, ShiftInvariantKernel, describe_kernel, shift_invariant


class WaveMap:
    """Base of maps of sines and cosines. numbers : (.., n_frequencies), numbers that define each frequency"""

    @property
    def numbers(self) -> FloatArray:
        raise NotImplementedError

    @property
    def n_frequencies(self) -> int:
        """Return the number of frequencies, each of which gives a sine and a cosine."""
        return int(self.numbers.shape[-1])

    @property
    def n_columns(self) -> int:
        """Return the number of columns of the features: all sines, then all cosines."""
        return 2 * self.n_frequencies

    @property
    def precision(self) -> Precision:
        return precision_of(self.numbers)

    @property
    def widths(self) -> tuple[int, int]:
        """Return columns of the two halves of a block: sines and cosines."""
        return self.n_frequencies, self.n_frequencies

    @property
    def rows_per_block(self) -> int:
        """Return the number of rows that are mapped together: by the sizes of the map only."""
        return rows_per_block(self.n_columns, self.numbers.dtype.itemsize)


@stored("fourier-features")
@dataclass(frozen=True, eq=False)
class FourierFeatures(WaveMap):
    """The map z(x) = n_frequencies^(-1/2) (sin(x @ frequencies), cos(x @ frequencies)); ||z(x)|| = 1.

    kernel : whose inner products are approximated
    frequencies : (n_inputs, n_frequencies), float32 or float64, per unit of input; their precision is the map's
    Raises ConfigError : the frequencies are not a non-empty matrix of floats

    Source: Rahimi & Recht, NIPS 2007, Algorithm 1; as used by Lu et al., JMLR 17(47), 2016, section 3.2, scaled.
    """

    kernel: Kernel
    frequencies: FloatArray

    def __post_init__(self) -> None:
        precision_of(self.frequencies)
        if self.frequencies.ndim != 2 or 0 in self.frequencies.shape:
            raise ConfigError(
                f"Frequencies have shape {self.frequencies.shape}; expected (n_inputs, n_frequencies), both at least 1."
            )

    __getstate__ = lasting_attributes

    @property
    def n_inputs(self) -> int:
        return int(self.frequencies.shape[0])

    @property
    def numbers(self) -> FloatArray:
        return self.frequencies

    @cached_property
    def waves(self) -> Waves:
        """Return the map as compiled code takes it: packed once, kept."""
        return as_waves(self.frequencies)

    def transform(self, inputs: Any) -> FloatArray:
        """Return features of dense rows, or of sparse ones at the cost of their values."""
        inputs = as_inputs(inputs, self.precision)
        check_inputs(self, inputs)
        features = np.empty((inputs.shape[0], self.n_columns), dtype=self.frequencies.dtype)
        if sparse.issparse(inputs):
            sines = (inputs @ self.frequencies) * self.frequencies.dtype.type(1.0 / np.pi)  # in half turns
            cosines = np.empty_like(sines)
            sines_and_cosines(sines, cosines, self.frequencies.dtype.type(self.n_frequencies**-0.5))
            features[:, : self.n_frequencies], features[:, self.n_frequencies :] = sines, cosines
            return features
        with borrowed_block(self.rows_per_block, self.widths, inputs.dtype) as block:
            fourier_transform(features, block, inputs, self.waves, 0, 1)
        return features

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the frequencies: data, not a seed to draw them from again."""
        return {"frequencies": self.frequencies}

    def describe(self) -> dict[str, Any]:
        return {"kind": "fourier", "kernel": describe_kernel(self.kernel)}


def draw_fourier_map(
    kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> FourierFeatures:
    """Draw a random Fourier map whose inner products approximate a kernel.

    z(x) = n_frequencies^(-1/2) (sin(x @ frequencies), cos(x @ frequencies)),  E[z(x)'z(x')] = k(x, x')

    kernel : shift-invariant kernel; supplies the spectral density
    n_inputs, n_frequencies : int >= 1; the map has 2 n_frequencies columns
    seed : int >= 0; the same seed gives the same frequencies on every machine
    precision : of frequencies and features; both precisions draw the same frequencies, up to rounding
    Returns FourierFeatures with frequencies (n_inputs, n_frequencies), per unit of input
    Raises ConfigError : a size is below 1, or the kernel is not shift-invariant
    Source: Rahimi & Recht, NIPS 2007, Algorithm 1; as used by Lu et al., JMLR 17(47), 2016, section 3.2.
    """
    kernel = shift_invariant(kernel, "a Fourier map")
    n_inputs = check_at_least("n_inputs", n_inputs, 1)
    n_frequencies = check_at_least("n_frequencies", n_frequencies, 1)
    frequencies = kernel.draw_frequencies(n_inputs, n_frequencies, np.random.default_rng(seed))
    return FourierFeatures(kernel, frequencies.astype(precision))


# Fourier maps whose frequencies are orthogonal, block by block: less error than independent ones, at no cost later.


def draw_orthogonal_map(
    kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> FourierFeatures:
    """Draw a Fourier map whose frequencies are orthogonal in blocks of n_inputs.

    A block is a random rotation, uniform among all, whose columns are stretched to lengths from the kernel's own law:
    chi for the Gaussian kernel, that of a multivariate t for Matern kernels. Each frequency by itself has the kernel's
    density, so inner products are unbiased; the last block is cut.

    kernel : of ||x - x'||: gaussian, matern32, matern52; others as of `draw_fourier_map`
    Raises ConfigError : a size is below 1; the kernel is not shift-invariant, or its density is not the same in all
        directions

    Source: Yu et al., Orthogonal Random Features, NIPS 2016, section 3.
    """
    radial = radial_kernel(kernel, "orthogonal")
    n_inputs = check_at_least("n_inputs", n_inputs, 1)
    n_frequencies = check_at_least("n_frequencies", n_frequencies, 1)
    rng = np.random.default_rng(seed)
    n_blocks = -(-n_frequencies // n_inputs)
    with one_blas_thread():  # bits depend on the number of threads
        rotations = draw_rotations(n_blocks, n_inputs, rng)
    directions = rotations.transpose(1, 0, 2).reshape(n_inputs, n_blocks * n_inputs)[:, :n_frequencies]
    frequencies = directions * radial.draw_radii(n_inputs, (n_frequencies,), rng)
    return FourierFeatures(kernel, np.ascontiguousarray(frequencies, dtype=precision))


def radial_kernel(kernel: Kernel, what: str) -> RadialKernel:
    """Return the kernel, if it depends on ||x - x'|| alone; otherwise ConfigError. what : the map that needs it."""
    kernel = shift_invariant(kernel, f"the {what} map")
    if not isinstance(kernel, RadialKernel):
        raise ConfigError(
            f"The kernel {kernel.name!r} is not a function of the Euclidean distance, so the {what} map "
            f"cannot draw its frequencies. Use the map independent or quasi, or the kernel gaussian."
        )
    return kernel


def draw_rotations(number: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Draw orthogonal matrices (number, size, size), float64, each uniform among all.

    Source: Mezzadri, Notices of the AMS 54(5), 2007, section 5: QR made unique by the signs of the diagonal of R.
    """
    rotations, triangles = np.linalg.qr(rng.standard_normal((number, size, size)))
    turned: FloatArray = rotations * np.sign(np.diagonal(triangles, axis1=1, axis2=2))[:, None, :]
    return turned


# Fourier maps whose frequencies fill the kernel's density more evenly than chance: quasi-Monte Carlo.

MOST_COORDINATES = 21_201  # of Sobol's sequence, as scipy has it
_BITS = 30


def draw_quasi_map(
    kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> FourierFeatures:
    """Draw a Fourier map whose frequencies are scrambled Sobol points, taken through the quantiles of the density.

    Scrambling makes every point uniform, so inner products are unbiased. Points come by powers of two; of a number in
    between, the first ones of the next power are taken. A Matern kernel takes one coordinate more than there are
    inputs, for the chi-square under the multivariate t.

    Parameters as of `draw_fourier_map`.

    Raises ConfigError : a size is below 1; the kernel is not shift-invariant; or there are more inputs than Sobol's
        sequence has coordinates, 21,201

    Source: Avron, Sindhwani, Yang & Mahoney, Quasi-Monte Carlo Feature Maps for Shift-Invariant Kernels, JMLR 17(120),
    2016, Algorithm 1.
    """
    invariant = shift_invariant(kernel, "the quasi map")
    n_inputs = check_at_least("n_inputs", n_inputs, 1)
    n_frequencies = check_at_least("n_frequencies", n_frequencies, 1)
    points = _sobol_points(n_frequencies, invariant.n_uniforms(n_inputs), seed)
    return FourierFeatures(kernel, np.ascontiguousarray(invariant.frequencies_at(points), dtype=precision))


def _sobol_points(n_points: int, n_coordinates: int, seed: int) -> FloatArray:
    """Return scrambled Sobol points (n_points, n_coordinates) of the open unit cube, float64."""
    from scipy.stats import qmc  # takes half a second, and few need it

    if n_coordinates > MOST_COORDINATES:
        raise ConfigError(
            f"The quasi map requires {n_coordinates:,} coordinates, but Sobol's sequence has {MOST_COORDINATES:,}. Use "
            "the map structured or independent."
        )
    sobol = qmc.Sobol(n_coordinates, scramble=True, bits=_BITS, rng=np.random.default_rng(seed))
    points: FloatArray = sobol.random_base2((n_points - 1).bit_length())[:n_points]
    return points + 2.0 ** -(_BITS + 1)  # the middle of each cell: 0 has no quantile


# Fourier maps that hold no frequencies: products with Hadamard matrices, for inputs of many columns.


@stored("structured-fourier-features")
@dataclass(frozen=True, eq=False)
class StructuredFeatures(WaveMap):
    """The map z(x) = n_frequencies^(-1/2) (sin(a), cos(a)) with a = radii * (R x), R rows of random rotations.

    x is filled with zeros to p columns, the next power of two. Each p rows of R are H D1 H D2 H D3 / p^(3/2), with H
    the Hadamard matrix and D diagonals of random signs. Mapping a row takes O(n_frequencies log p) operations, and the
    map holds four numbers a frequency, however many inputs there are.

    kernel : whose inner products are approximated; n_inputs : int >= 1; signs : (n_blocks, 3, p), +1 or -1
    radii : (n_frequencies,), lengths of the frequencies per unit of input; n_blocks = n_frequencies / p, rounded up
    Raises ConfigError : the arrays do not fit one another, or p is not the next power of two
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

    __getstate__ = lasting_attributes

    @property
    def numbers(self) -> FloatArray:
        return self.radii

    def transform(self, inputs: FloatArray) -> FloatArray:
        inputs = as_compiled(inputs, self.radii.dtype)
        check_inputs(self, inputs)
        features = np.empty((len(inputs), self.n_columns), dtype=inputs.dtype)
        size = self.signs.shape[2]
        buffers = aligned_empty((2 * size, LANES), inputs.dtype).reshape(2, size, LANES)
        with borrowed_block(self.rows_per_block, self.widths, inputs.dtype) as block:
            structured_transform(features, block, buffers, inputs, self._compiled)
        return features

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return signs and radii: data, not a seed to draw them from again."""
        return {"signs": self.signs, "radii": self.radii}

    def describe(self) -> dict[str, Any]:
        return {"kind": "structured", "kernel": describe_kernel(self.kernel), "n_inputs": self.n_inputs}

    @cached_property
    def _compiled(self) -> Structured:
        dtype = self.radii.dtype
        half_turns = self.radii.astype(np.float64) / (np.pi * self.signs.shape[2] ** 1.5)
        signs = np.ascontiguousarray(self.signs)
        return Structured(signs, half_turns.astype(dtype), dtype.type(self.n_frequencies**-0.5))


def dense_frequencies(structured: StructuredFeatures) -> FloatArray:
    """Return the frequencies (n_inputs, n_frequencies) that the rotations of a structured map amount to."""
    size = structured.signs.shape[2]
    turns = hadamard(size, dtype=np.float64)
    blocks = []
    for first, second, third in structured.signs.astype(np.float64):
        turned = turns * first @ (turns * second) @ (turns * third)  # H D1 H D2 H D3: rows are directions
        blocks.append(turned / size**1.5)
    directions = np.concatenate(blocks)[: structured.n_frequencies, : structured.n_inputs]
    radii = structured.radii.astype(np.float64)
    return np.ascontiguousarray((directions * radii[:, None]).T, dtype=structured.radii.dtype)


def draw_structured_map(
    kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> StructuredFeatures:
    """Draw a structured map: random signs, and lengths from the kernel's distribution for the padded number of inputs.

    The directions of a product of three such rotations are not quite uniform: inner products have a bias, which falls
    with p. With up to about 10 inputs it is as large as the error of a few hundred frequencies.

    Parameters, errors : as of `draw_orthogonal_map`

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
    """Return the next power of two."""
    return 1 << (n_inputs - 1).bit_length()


# The draws of Fourier maps by name.

STRUCTURED_FROM = 256  # inputs: with that many the structured map takes half the time of frequencies, with 64 more


DRAWS: dict[str, Callable[..., FourierFeatures | StructuredFeatures]] = {
    "independent": draw_fourier_map,
    "orthogonal": draw_orthogonal_map,
    "quasi": draw_quasi_map,
    "structured": draw_structured_map,
}


def draw_map(
    name: str, kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> FourierFeatures | StructuredFeatures:
    """Draw a map of DRAWS by name, or the one that suits ("auto"); ConfigError if name, kernel or sizes do not fit."""
    check_choice("map", name, {"auto", *DRAWS})
    chosen = suitable_draw(kernel, n_inputs, n_frequencies) if name == "auto" else name
    return DRAWS[chosen](kernel, n_inputs, n_frequencies, seed, precision)


def suitable_draw(kernel: Kernel, n_inputs: int, n_frequencies: int) -> str:
    """Return "structured" where it is faster than frequencies, else "orthogonal"; "quasi" if the kernel takes neither.

    Structured from 256 inputs on, unless the frequencies are few: rotations are computed whole, and of one of 1024
    inputs a quarter at least should be used. Independent for kernels that take none of them.
    """
    if isinstance(kernel, RadialKernel):
        worth = n_inputs >= STRUCTURED_FROM and 4 * n_frequencies >= padded(n_inputs)
        return "structured" if worth else "orthogonal"
    if isinstance(kernel, ShiftInvariantKernel) and kernel.n_uniforms(n_inputs) <= MOST_COORDINATES:
        return "quasi"
    return "independent"
