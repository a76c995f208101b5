"""Fourier maps whose frequencies fill the kernel's density more evenly than chance: quasi-Monte Carlo."""

from __future__ import annotations

import numpy as np

from okl.checks import check_at_least
from okl.errors import ConfigError
from okl.features.fourier import FourierFeatures
from okl.kernels import Kernel, shift_invariant
from okl.types import FloatArray, Precision

MOST_COORDINATES = 21_201  # of Sobol's sequence, as scipy has it
_BITS = 30


def draw_quasi_map(
    kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> FourierFeatures:
    """Draw a Fourier map whose frequencies are scrambled Sobol points, taken through the quantiles of the density.

    Scrambling makes every point uniform, so inner products are unbiased. Points come by powers of two; of a number in
    between, the first ones of the next power are taken. A Matern kernel takes one coordinate more than there are
    inputs, for the chi-square under the multivariate t.

    Parameters
    ----------
    kernel : shift-invariant
    n_inputs, n_frequencies : int >= 1; the map has 2 n_frequencies columns
    seed : int >= 0; precision : of frequencies and features

    Raises
    ------
    ConfigError : a size is below 1; the kernel is not shift-invariant; or there are more inputs than Sobol's sequence
        has coordinates, 21,201

    Source: Avron, Sindhwani, Yang & Mahoney, Quasi-Monte Carlo Feature Maps for Shift-Invariant Kernels, JMLR 17(120),
    2016, Algorithm 1.
    """
    invariant = shift_invariant(kernel, "the quasi map")
    n_inputs = check_at_least("n_inputs", n_inputs, 1)
    n_frequencies = check_at_least("n_frequencies", n_frequencies, 1)
    points = _sobol_points(n_frequencies, invariant.n_uniforms(n_inputs), seed)
    return FourierFeatures(kernel, np.ascontiguousarray(invariant.frequencies_at(points), dtype=precision))


def _sobol_points(n_points: int, n_coordinates: int, seed: int) -> FloatArray:
    """Scrambled Sobol points (n_points, n_coordinates) of the open unit cube, float64."""
    from scipy.stats import qmc  # takes half a second, and few need it

    if n_coordinates > MOST_COORDINATES:
        raise ConfigError(
            f"The quasi map needs {n_coordinates:,} coordinates, but Sobol's sequence has {MOST_COORDINATES:,}. Use "
            "the map structured or independent."
        )
    sobol = qmc.Sobol(n_coordinates, scramble=True, bits=_BITS, rng=np.random.default_rng(seed))
    points: FloatArray = sobol.random_base2((n_points - 1).bit_length())[:n_points]
    return points + 2.0 ** -(_BITS + 1)  # the middle of each cell: 0 has no quantile
