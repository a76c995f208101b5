"""Kernels k(x, x') and the spectral density of each shift-invariant one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from okl.checks import check_positive
from okl.types import FloatArray


@runtime_checkable
class Kernel(Protocol):
    """A positive definite function of two inputs."""

    @property
    def name(self) -> str: ...

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray: ...


@runtime_checkable
class ShiftInvariantKernel(Kernel, Protocol):
    """A kernel of x - x', whose spectral density can be drawn from (Bochner's theorem)."""

    def draw_frequencies(self, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> FloatArray: ...


@dataclass(frozen=True)
class Gaussian:
    """The Gaussian kernel k(x, x') = exp(-||x - x'||^2 / (2 bandwidth^2)).

    Parameters
    ----------
    bandwidth : float > 0, in units of the input; the paper's sigma

    Raises
    ------
    ConfigError : the bandwidth is not a positive finite number

    Source: Lu et al., JMLR 17(47), 2016, section 3.2; its density is N(0, I / bandwidth^2).
    """

    bandwidth: float
    name: str = "gaussian"

    def __post_init__(self) -> None:
        check_positive("bandwidth", self.bandwidth)

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


KERNELS: dict[str, type[Gaussian]] = {"gaussian": Gaussian}
