"""Fourier maps whose frequencies are orthogonal, block by block: less error than independent ones, at no cost later."""

from __future__ import annotations

import numpy as np

from okl.checks import check_at_least
from okl.compiled.door import one_blas_thread
from okl.errors import ConfigError
from okl.features.fourier import FourierFeatures
from okl.kernels import Kernel, RadialKernel, shift_invariant
from okl.types import FloatArray, Precision


def draw_orthogonal_map(
    kernel: Kernel, n_inputs: int, n_frequencies: int, seed: int, precision: Precision = "float32"
) -> FourierFeatures:
    """Draw a Fourier map whose frequencies are orthogonal in blocks of n_inputs.

    A block is a random rotation, uniform among all, whose columns are stretched to lengths from the kernel's own law:
    chi for the Gaussian kernel, that of a multivariate t for Matern kernels. Each frequency by itself has the kernel's
    density, so inner products are unbiased; the last block is cut.

    Parameters
    ----------
    kernel : of ||x - x'||: gaussian, matern32, matern52
    n_inputs, n_frequencies : int >= 1; the map has 2 n_frequencies columns
    seed : int >= 0; precision : of frequencies and features

    Raises
    ------
    ConfigError : a size is below 1; the kernel is not shift-invariant, or its density is not the same in all directions

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
    """The kernel, if it depends on ||x - x'|| alone; otherwise ConfigError. what : the map that needs it."""
    kernel = shift_invariant(kernel, f"the {what} map")
    if not isinstance(kernel, RadialKernel):
        raise ConfigError(
            f"The kernel {kernel.name!r} is not one of the Euclidean distance, so its frequencies have no law of "
            f"lengths that the {what} map could use. Use the map independent or quasi, or the kernel gaussian."
        )
    return kernel


def draw_rotations(number: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Orthogonal matrices (number, size, size), float64, each uniform among all.

    Source: Mezzadri, Notices of the AMS 54(5), 2007, section 5: QR made unique by the signs of the diagonal of R.
    """
    rotations, triangles = np.linalg.qr(rng.standard_normal((number, size, size)))
    turned: FloatArray = rotations * np.sign(np.diagonal(triangles, axis1=1, axis2=2))[:, None, :]
    return turned
