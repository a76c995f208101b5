"""Matern kernels: between the Laplacian and the Gaussian in smoothness."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri

from okl.compiled.kernelrule import MATERN32, MATERN52, KernelRule
from okl.kernels.scaled import Scaled, as_frequencies, distances
from okl.types import FloatArray


@dataclass(frozen=True)
class _Matern(Scaled):
    """A Matern kernel of smoothness nu; its spectral density is a multivariate t with 2 nu degrees of freedom."""

    @property
    def _degrees(self) -> int:
        raise NotImplementedError

    def draw_frequencies(self, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray:
        """Frequencies from a t of scale 1 / bandwidth: (n_inputs, n_frequencies), float64, per unit of input."""
        normal = rng.standard_normal((n_inputs, n_frequencies))
        return normal * self._stretch(rng.chisquare(self._degrees, n_frequencies))

    def draw_radii(self, n_inputs: int, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Lengths of frequencies: those of the t."""
        normal = np.sqrt(rng.chisquare(n_inputs, shape))
        return normal * self._stretch(rng.chisquare(self._degrees, shape))

    def n_uniforms(self, n_inputs: int) -> int:
        """One for each input, and one for the chi-square that divides them."""
        return n_inputs + 1

    def frequencies_at(self, points: FloatArray) -> FloatArray:
        """Frequencies (n_inputs, points) of points (points, n_inputs + 1): normal over the root of a chi-square."""
        chi_square = 2.0 * gammaincinv(0.5 * self._degrees, points[:, -1])
        return as_frequencies(ndtri(points[:, :-1])) * self._stretch(chi_square)

    def _stretch(self, chi_square: FloatArray) -> FloatArray:
        stretch: FloatArray = np.sqrt(self._degrees / chi_square) / self.bandwidth
        return stretch

    def _scaled_distances(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return distances(left, right, "euclidean") * (math.sqrt(self._degrees) / self.bandwidth)


@dataclass(frozen=True)
class Matern32(_Matern):
    """The Matern kernel of smoothness 3/2: k = (1 + s) exp(-s) with s = sqrt(3) ||x - x'|| / bandwidth.

    Parameters
    ----------
    bandwidth : float > 0, the length scale in units of the input

    Raises
    ------
    ConfigError : the bandwidth is not a positive finite number

    Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, equations (4.15) and (4.17).
    """

    name: str = "matern32"

    @property
    def rule(self) -> KernelRule:
        """(1 + scale r) exp(-scale r)."""
        return KernelRule(MATERN32, math.sqrt(3.0) / self.bandwidth, 0.0, 0)

    @property
    def _degrees(self) -> int:
        return 3

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Kernel values of every row of left (m, d) with every row of right (n, d): (m, n), float64."""
        s = self._scaled_distances(left, right)
        values: FloatArray = (1.0 + s) * np.exp(-s)
        return values


@dataclass(frozen=True)
class Matern52(_Matern):
    """The Matern kernel of smoothness 5/2: k = (1 + s + s^2 / 3) exp(-s) with s = sqrt(5) ||x - x'|| / bandwidth.

    Parameters
    ----------
    bandwidth : float > 0, the length scale in units of the input

    Raises
    ------
    ConfigError : the bandwidth is not a positive finite number

    Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, equations (4.15) and (4.17).
    """

    name: str = "matern52"

    @property
    def rule(self) -> KernelRule:
        """(1 + scale r + (scale r)^2 / 3) exp(-scale r)."""
        return KernelRule(MATERN52, math.sqrt(5.0) / self.bandwidth, 0.0, 0)

    @property
    def _degrees(self) -> int:
        return 5

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Kernel values of every row of left (m, d) with every row of right (n, d): (m, n), float64."""
        s = self._scaled_distances(left, right)
        values: FloatArray = (1.0 + s + s * s / 3.0) * np.exp(-s)
        return values
