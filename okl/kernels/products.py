"""Kernels of the inner product, which are not shift-invariant."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from okl.checks import check_at_least, check_positive
from okl.compiled.kernelrule import LINEAR, POLYNOMIAL, KernelRule
from okl.errors import ConfigError
from okl.types import FloatArray

MOST_DEGREE = 1000  # beyond, powers of anything but 1 leave the range of floats


@dataclass(frozen=True)
class Polynomial:
    """The polynomial kernel k(x, x') = (scale <x, x'> + offset)^degree.

    Parameters
    ----------
    degree : int >= 1; scale : float > 0, per squared unit of input; offset : float >= 0, or it is not positive definite

    Raises
    ------
    ConfigError : a parameter is outside its range

    Source: Lu et al., JMLR 17(47), 2016, section 3.3: a kernel that is not shift-invariant, for NOGD.
    """

    degree: int = 3
    scale: float = 1.0
    offset: float = 1.0
    name: str = "polynomial"

    def __post_init__(self) -> None:
        if check_at_least("degree", self.degree, 1) > MOST_DEGREE:
            raise ConfigError(f"degree = {self.degree:g}, but it takes a whole number up to {MOST_DEGREE:,}.")
        check_positive("scale", self.scale)
        if not (math.isfinite(self.offset) and self.offset >= 0):
            raise ConfigError(f"offset = {self.offset!r}, but it takes a finite number of at least 0.")

    @property
    def rule(self) -> KernelRule:
        """(scale <x, x'> + offset)^degree."""
        return KernelRule(POLYNOMIAL, float(self.scale), float(self.offset), int(self.degree))

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Kernel values of every row of left (m, d) with every row of right (n, d): (m, n), float64."""
        with np.errstate(over="ignore"):  # infinity says it, and whoever asked looks at it
            values: FloatArray = (self.scale * _products(left, right) + self.offset) ** self.degree
        return values


@dataclass(frozen=True)
class Linear:
    """The linear kernel k(x, x') = <x, x'>."""

    name: str = "linear"

    @property
    def rule(self) -> KernelRule:
        """<x, x'>."""
        return KernelRule(LINEAR, 1.0, 0.0, 0)

    def matrix(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Kernel values of every row of left (m, d) with every row of right (n, d): (m, n), float64."""
        return _products(left, right)


def _products(left: FloatArray, right: FloatArray) -> FloatArray:
    values: FloatArray = np.asarray(left, dtype=np.float64) @ np.asarray(right, dtype=np.float64).T
    return values
