"""Feasible sets: box, ball and simplex."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.oco import BALL, BOX, SIMPLEX, CompiledSet, project
from okl.foundation.errors import ConfigError
from okl.foundation.validation import check_at_least, check_positive

Vector = NDArray[np.float64]


def as_vector(name: str, values: object) -> Vector:
    """Copy numbers into a read-only vector of float64, or raise ConfigError.

    name : what an error calls them; values : (n,) numbers, none of them NaN
    Returns (n,) float64, read-only.
    """
    vector = np.array(values, dtype=np.float64)
    if vector.ndim != 1 or vector.size == 0:
        raise ConfigError(f"{name} has the shape {vector.shape}; expected a list of at least one number.")
    refuse_first(name, vector, np.isnan(vector))
    vector.setflags(write=False)
    return vector


def refuse_first(name: str, values: NDArray[np.float64], odd: NDArray[np.bool_]) -> None:
    """Raise ConfigError that names the place of the first odd value, if there is one."""
    if odd.any():
        place = np.argwhere(odd)[0].tolist()
        raise ConfigError(f"{name}{place} = {values[odd][0]}; expected a finite number. Replace it.")


def set_fields(record: object, **values: object) -> None:
    """Set fields of a frozen record while it is made; arrays become read-only."""
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        object.__setattr__(record, name, value)


@dataclass(frozen=True, eq=False)
class _Projecting:
    """Base of the three sets: projection and membership by their region."""

    @property
    def region(self) -> CompiledSet:
        raise NotImplementedError

    def project(self, point: Vector) -> Vector:
        nearest = np.array(point, dtype=np.float64)
        project(nearest, self.region)
        return nearest

    def contains(self, point: Vector, tolerance: float = 1e-9) -> bool:
        return bool(np.linalg.norm(self.project(point) - point) <= tolerance)


@dataclass(frozen=True, eq=False)
class Box(_Projecting):
    """All points with low <= x <= high.

    Parameters
    ----------
    low, high : (p,), low <= high; infinite where there is no bound
    """

    low: Vector
    high: Vector

    def __post_init__(self) -> None:
        set_fields(self, low=as_vector("low", self.low), high=as_vector("high", self.high))
        if self.low.shape != self.high.shape:
            raise ConfigError(
                f"low has {self.low.size} numbers and high {self.high.size}; expected the same number of both."
            )
        wrong = np.flatnonzero((self.low > self.high) | (self.low == np.inf) | (self.high == -np.inf))
        if wrong.size:
            at = int(wrong[0])
            raise ConfigError(
                f"coordinate {at} of the box has bounds [{self.low[at]}, {self.high[at]}], which contain no number."
            )

    @property
    def dimension(self) -> int:
        return int(self.low.size)

    @property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(self.high - self.low))

    @property
    def region(self) -> CompiledSet:
        return CompiledSet(BOX, self.low, self.high, 0.0)

    def support(self, direction: Vector) -> float:
        far = np.where(direction > 0.0, self.high, np.where(direction < 0.0, self.low, 0.0))
        return float(direction @ far)


@dataclass(frozen=True, eq=False)
class Ball(_Projecting):
    """All points within radius of the centre.

    Parameters
    ----------
    centre : (p,), finite
    radius : float > 0
    """

    centre: Vector
    radius: float

    bounded = True

    def __post_init__(self) -> None:
        set_fields(self, centre=as_vector("centre", self.centre), radius=check_positive("radius", self.radius))
        if not np.isfinite(self.centre).all():
            raise ConfigError("the centre of a ball must be finite numbers.")

    @property
    def dimension(self) -> int:
        return int(self.centre.size)

    @property
    def diameter(self) -> float:
        return 2.0 * self.radius

    @property
    def region(self) -> CompiledSet:
        return CompiledSet(BALL, self.centre, self.centre, self.radius)

    def support(self, direction: Vector) -> float:
        return float(direction @ self.centre + self.radius * np.linalg.norm(direction))


@dataclass(frozen=True, eq=False)
class Simplex(_Projecting):
    """All points x >= 0 whose coordinates add up to total.

    Parameters
    ----------
    size : int >= 1, the length of a point
    total : float > 0
    """

    size: int
    total: float = 1.0

    bounded = True

    def __post_init__(self) -> None:
        check_at_least("size", self.size, 1)
        set_fields(self, total=check_positive("total", self.total))

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def diameter(self) -> float:
        """Return the distance of two corners; 0 for a single point."""
        return self.total * math.sqrt(2.0) if self.size > 1 else 0.0

    @property
    def region(self) -> CompiledSet:
        zeros = np.zeros(self.size)
        zeros.setflags(write=False)  # as the arrays of the other sets: compiled code is made once for all
        return CompiledSet(SIMPLEX, zeros, zeros, self.total)

    def support(self, direction: Vector) -> float:
        return float(self.total * np.max(direction))


ConvexSet = Box | Ball | Simplex
"""A closed convex set that points can be projected onto."""
