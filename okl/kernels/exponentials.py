"""The Gaussian and the Laplacian kernel: independent coordinates, in the kernel as in its density."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from okl.compiled.kernelrule import GAUSSIAN, LAPLACIAN, KernelRule
from okl.kernels.scaled import Scaled, as_frequencies, distances
from okl.types import FloatArray


@dataclass(frozen=True)
class Gaussian(Scaled):
    """The Gaussian kernel k(x, x') = exp(-||x - x'||^2 / (2 bandwidth^2)).

    Parameters
    ----------
    bandwidth : float > 0, in units of the input; the paper's sigma

    Raises
    ------
    ConfigError : the bandwidth is not a positive finite number

    Source: Lu et al., JMLR 17(47), 2016, section 3.2; its density is N(0, I / bandwidth^2).
    """

    name: str = "gaussian"

    @property
    def rule(self) -> KernelRule:
        """exp(-scale r^2)."""
        return KernelRule(GAUSSIAN, 0.5 / self.bandwidth**2, 0.0, 0)

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Kernel values of every row of left (m, d) with every row of right (n, d): (m, n), float64."""
        left = np.asarray(left, dtype=np.float64)
        right = np.asarray(right, dtype=np.float64)
        squares = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)[None, :] - 2.0 * (left @ right.T)
        values: FloatArray = np.exp(-np.maximum(squares, 0.0) / (2.0 * self.bandwidth**2))
        return values

    def draw_frequencies(self, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray:
        """Frequencies from N(0, I / bandwidth^2): (n_inputs, n_frequencies), float64, per unit of input."""
        return rng.standard_normal((n_inputs, n_frequencies)) / self.bandwidth

    def draw_radii(self, n_inputs: int, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Lengths of frequencies: chi with n_inputs degrees of freedom, over the bandwidth."""
        return np.sqrt(rng.chisquare(n_inputs, shape)) / self.bandwidth

    def n_uniforms(self, n_inputs: int) -> int:
        """One for each input."""
        return n_inputs

    def frequencies_at(self, points: FloatArray) -> FloatArray:
        """Frequencies (n_inputs, points) by the normal quantile of points (points, n_inputs)."""
        return as_frequencies(ndtri(points) / self.bandwidth)


@dataclass(frozen=True)
class Laplacian(Scaled):
    """The Laplacian kernel k(x, x') = exp(-||x - x'||_1 / bandwidth); ||.||_1 is the sum of absolute values.

    Parameters
    ----------
    bandwidth : float > 0, in units of the input

    Raises
    ------
    ConfigError : the bandwidth is not a positive finite number

    Source: Rahimi & Recht, NIPS 2007, Figure 1: its density is a product of Cauchy densities of scale 1 / bandwidth.
    """

    name: str = "laplacian"

    @property
    def rule(self) -> KernelRule:
        """exp(-scale ||x - x'||_1)."""
        return KernelRule(LAPLACIAN, 1.0 / self.bandwidth, 0.0, 0)

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Kernel values of every row of left (m, d) with every row of right (n, d): (m, n), float64."""
        values: FloatArray = np.exp(-distances(left, right, "cityblock") / self.bandwidth)
        return values

    def draw_frequencies(self, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray:
        """Frequencies with independent Cauchy coordinates: (n_inputs, n_frequencies), float64, per unit of input."""
        return rng.standard_cauchy((n_inputs, n_frequencies)) / self.bandwidth

    def n_uniforms(self, n_inputs: int) -> int:
        """One for each input."""
        return n_inputs

    def frequencies_at(self, points: FloatArray) -> FloatArray:
        """Frequencies (n_inputs, points) by the Cauchy quantile of points (points, n_inputs)."""
        return as_frequencies(np.tan(np.pi * (points - 0.5)) / self.bandwidth)
