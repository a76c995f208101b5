"""Random Fourier features of a shift-invariant kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least
from okl.compiled.blocks import as_compiled, borrowed_block, rows_per_block
from okl.compiled.fourier import Waves, as_waves, fourier_transform
from okl.errors import ConfigError
from okl.features.protocol import check_inputs, precision_of
from okl.kernels import Kernel, describe_kernel, shift_invariant
from okl.types import FloatArray, Precision


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """The map z(x) = n_frequencies^(-1/2) (sin(x @ frequencies), cos(x @ frequencies)); ||z(x)|| = 1.

    Parameters
    ----------
    kernel : whose inner products are approximated
    frequencies : (n_inputs, n_frequencies), float32 or float64, per unit of input; their precision is the map's

    Raises
    ------
    ConfigError : the frequencies are not a non-empty matrix of floats

    Source: Rahimi & Recht, NIPS 2007, Algorithm 1; as used by Lu et al., JMLR 17(47), 2016, section 3.2, scaled.
    """

    kernel: Kernel
    frequencies: FloatArray

    def __post_init__(self) -> None:
        precision_of(self.frequencies)
        if self.frequencies.ndim != 2 or 0 in self.frequencies.shape:
            raise ConfigError(
                f"Frequencies have the shape {self.frequencies.shape}, but the map takes (n_inputs, n_frequencies), "
                "both at least 1."
            )

    def __getstate__(self) -> dict[str, Any]:
        # without what `waves` keeps: it would double the bytes that go to a worker
        return {"kernel": self.kernel, "frequencies": self.frequencies}

    @property
    def n_inputs(self) -> int:
        """Columns of the inputs."""
        return int(self.frequencies.shape[0])

    @property
    def n_frequencies(self) -> int:
        """Frequencies, each of which gives a sine and a cosine."""
        return int(self.frequencies.shape[1])

    @property
    def n_columns(self) -> int:
        """Columns of the features: all sines, then all cosines."""
        return 2 * self.n_frequencies

    @property
    def precision(self) -> Precision:
        """Of frequencies and features."""
        return precision_of(self.frequencies)

    @cached_property
    def waves(self) -> Waves:
        """The map as compiled code takes it: packed once, kept."""
        return as_waves(self.frequencies)

    @property
    def widths(self) -> tuple[int, int]:
        """Columns of the two halves of a block: sines and cosines."""
        return self.n_frequencies, self.n_frequencies

    @property
    def rows_per_block(self) -> int:
        """Rows that are mapped together: by the sizes of the map only."""
        return rows_per_block(self.n_columns, self.frequencies.dtype.itemsize)

    def transform(self, inputs: FloatArray) -> FloatArray:
        """Features (rows, n_columns) of inputs (rows, n_inputs), or DataError if they have other columns."""
        inputs = as_compiled(inputs, self.frequencies.dtype)
        check_inputs(self, inputs)
        features = np.empty((len(inputs), self.n_columns), dtype=self.frequencies.dtype)
        with borrowed_block(self.rows_per_block, self.widths, inputs.dtype) as block:
            fourier_transform(features, block, inputs, self.waves, 0, 1)
        return features

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The frequencies: data, not a seed to draw them from again."""
        return {"frequencies": self.frequencies}

    def describe(self) -> dict[str, Any]:
        """Kind and kernel."""
        return {"kind": "fourier", "kernel": describe_kernel(self.kernel)}


def draw_fourier_map(
    kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> FourierFeatures:
    """Draw a random Fourier map whose inner products approximate a kernel.

    z(x) = n_frequencies^(-1/2) (sin(x @ frequencies), cos(x @ frequencies)),  E[z(x)'z(x')] = k(x, x')

    Parameters
    ----------
    kernel : shift-invariant kernel; supplies the spectral density
    n_inputs, n_frequencies : int >= 1; the map has 2 n_frequencies columns
    seed : int >= 0; the same seed gives the same frequencies on every machine
    precision : of frequencies and features; both precisions draw the same frequencies, up to rounding

    Returns
    -------
    FourierFeatures with frequencies (n_inputs, n_frequencies), per unit of input

    Raises
    ------
    ConfigError : a size is below 1, or the kernel is not shift-invariant

    Source: Rahimi & Recht, NIPS 2007, Algorithm 1; as used by Lu et al., JMLR 17(47), 2016, section 3.2.
    """
    kernel = shift_invariant(kernel, "a Fourier map")
    n_inputs = check_at_least("n_inputs", n_inputs, 1)
    n_frequencies = check_at_least("n_frequencies", n_frequencies, 1)
    frequencies = kernel.draw_frequencies(n_inputs, n_frequencies, np.random.default_rng(seed))
    return FourierFeatures(kernel, frequencies.astype(precision))
