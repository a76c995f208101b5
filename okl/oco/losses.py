"""Losses that arrive round after round: quadratic ones as arrays, convex ones by value and subgradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from okl.checks import check_at_least
from okl.compiled.ocolosses import quadratic_subgradient, quadratic_values
from okl.errors import ConfigError
from okl.oco.constraints import Matrix
from okl.oco.sets import Vector, as_vector


class Losses(Protocol):
    """Convex losses f_t, rounds t = 0 .. n_rounds - 1."""

    @property
    def n_rounds(self) -> int: ...

    @property
    def strong_convexity(self) -> float: ...

    def value(self, at: int, point: Vector) -> float: ...

    def subgradient(self, at: int, point: Vector) -> Vector: ...


@dataclass(frozen=True, eq=False)
class QuadraticLosses:
    """f_t(x) = curvature ||x||^2 + <linear_t, x> + constant_t; curvature 0 is online linear programming.

    Parameters
    ----------
    curvature : float >= 0
    linear : (n_rounds, p), finite
    constant : (n_rounds,), zeros if None

    Raises
    ------
    ConfigError : shapes that do not fit, numbers that are not finite, a negative curvature
    """

    curvature: float
    linear: Matrix
    constant: Vector | None = None

    def __post_init__(self) -> None:
        linear = np.array(self.linear, dtype=np.float64, order="C")
        if linear.ndim != 2 or linear.size == 0 or not np.isfinite(linear).all():
            raise ConfigError(f"linear has the shape {linear.shape}, but it takes finite numbers, a row a round.")
        constant = as_vector("constant", np.zeros(linear.shape[0]) if self.constant is None else self.constant)
        if constant.size != linear.shape[0]:
            raise ConfigError(
                f"constant has {constant.size} numbers for {linear.shape[0]} rounds: it takes one a round."
            )
        if not 0.0 <= self.curvature < np.inf:
            raise ConfigError(f"curvature = {self.curvature!r}, but a convex loss takes a finite number from 0 on.")
        linear.setflags(write=False)
        object.__setattr__(self, "curvature", float(self.curvature))
        object.__setattr__(self, "linear", linear)
        object.__setattr__(self, "constant", constant)

    @property
    def n_rounds(self) -> int:
        """Number of losses."""
        return int(self.linear.shape[0])

    @property
    def dimension(self) -> int:
        """Length of a point."""
        return int(self.linear.shape[1])

    @property
    def constants(self) -> Vector:
        """The constant of every round, (n_rounds,)."""
        assert self.constant is not None  # filled in at the start
        return self.constant

    @property
    def strong_convexity(self) -> float:
        """The mu of equation (19), which has no 1/2: the curvature."""
        return self.curvature

    def value(self, at: int, point: Vector) -> float:
        """Return f_t(point) of round t = at."""
        return float(self.curvature * (point @ point) + self.linear[at] @ point + self.constants[at])

    def subgradient(self, at: int, point: Vector) -> Vector:
        """Return the gradient of round t = at, (p,), with the bits that whole runs see."""
        out = np.empty(self.dimension)
        quadratic_subgradient(out, point, self.linear[at], self.curvature)
        return out

    def values(self, points: Matrix) -> Vector:
        """Return f_t(points_t), (n_rounds,)."""
        out = np.empty(self.n_rounds)
        quadratic_values(out, points, self.linear, self.constants, self.curvature)
        return out


@dataclass(frozen=True, eq=False)
class ConvexLosses:
    """Losses by two functions of round and point.

    Parameters
    ----------
    loss : t, x (p,) -> f_t(x)
    loss_subgradient : t, x (p,) -> (p,)
    n_rounds : int >= 1
    strong_convexity : the mu of equation (19), 0 if there is none
    """

    loss: Callable[[int, Vector], float]
    loss_subgradient: Callable[[int, Vector], Vector]
    n_rounds: int
    strong_convexity: float = 0.0

    def __post_init__(self) -> None:
        check_at_least("n_rounds", self.n_rounds, 1)

    def value(self, at: int, point: Vector) -> float:
        """Return f_t(point) of round t = at."""
        return float(self.loss(at, point))

    def subgradient(self, at: int, point: Vector) -> Vector:
        """Return a subgradient of round t = at, (p,)."""
        subgradient = np.asarray(self.loss_subgradient(at, point), dtype=np.float64)
        if subgradient.shape != point.shape:
            raise ConfigError(f"the loss of round {at} gives a subgradient {subgradient.shape} for {point.shape}.")
        return subgradient
