# File: okl/rational.py
# KERNELS: "rational": "okl.rational:RationalQuadratic",
"""The rational quadratic kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray
from okl.kernels import Profiled, as_frequencies


@stored("rational-quadratic-kernel")
@dataclass(frozen=True)
class RationalQuadratic(Profiled):
    """k(x, x') = 1 / (1 + r^2 / 2), r = ||x - x'|| / bandwidth: a mixture of Gaussian kernels of all widths.

    With t from the exponential distribution of mean 1, E exp(-t r^2 / 2) = k: frequencies are normal, times t^(1/2).

    Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, equation (4.19) with alpha = 1.
    """

    name: ClassVar[str] = "rational"
    title: ClassVar[str] = "rational quadratic"
    factors: ClassVar[tuple[float, ...]] = (0.25, 0.5, 1.0)

    @staticmethod
    def profile(s: Any) -> Any:
        """Return the kernel at r = s, a number or an array."""
        return 1.0 / (1.0 + 0.5 * s * s)

    def draw_frequencies(self, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray:
        """Return frequencies (n_inputs, n_frequencies), float64, per unit of input."""
        widths = np.sqrt(rng.standard_exponential(n_frequencies)) / self.bandwidth
        return rng.standard_normal((n_inputs, n_frequencies)) * widths

    def n_uniforms(self, n_inputs: int) -> int:
        """Return the number of inputs, plus one for the width."""
        return n_inputs + 1

    def frequencies_at(self, points: FloatArray) -> FloatArray:
        """Return frequencies (n_inputs, points) of points (points, n_inputs + 1) of the unit cube."""
        widths = np.sqrt(-np.log1p(-points[:, -1])) / self.bandwidth
        return as_frequencies(ndtri(points[:, :-1])) * widths
