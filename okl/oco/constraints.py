"""Long-term constraints g(x) <= 0: linear ones, and convex ones by value and subgradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least
from okl.errors import ConfigError
from okl.oco.sets import Vector, as_vector

Matrix = NDArray[np.float64]


class Constraints(Protocol):
    """Convex functions that are to be at most 0 in the long run."""

    @property
    def n_constraints(self) -> int: ...

    @property
    def names(self) -> Sequence[str]: ...

    def values(self, point: Vector) -> Vector: ...

    def subgradients(self, point: Vector) -> Matrix: ...


def _names(names: Sequence[str], number: int) -> tuple[str, ...]:
    if names and len(names) != number:
        raise ConfigError(f"there are {len(names)} names for {number} constraints: give one a constraint, or none.")
    return tuple(names) or tuple(f"row {at}" for at in range(number))


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """Constraints matrix @ x <= bounds.

    Parameters
    ----------
    matrix : (m, p), finite
    bounds : (m,), finite
    names : what errors and reports call the rows; "row 0", "row 1", ... if none are given

    Raises
    ------
    ConfigError : shapes that do not fit, numbers that are not finite
    """

    matrix: Matrix
    bounds: Vector
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float64, order="C")
        bounds = as_vector("bounds", self.bounds)
        if matrix.ndim != 2 or matrix.shape[0] != bounds.size:
            raise ConfigError(f"a matrix of shape {matrix.shape} with {bounds.size} bounds: it takes one bound a row.")
        if not (np.isfinite(matrix).all() and np.isfinite(bounds).all()):
            raise ConfigError(
                "matrix and bounds of linear constraints take finite numbers: leave out a row without bound."
            )
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "names", _names(self.names, bounds.size))

    @property
    def n_constraints(self) -> int:
        """Number of rows."""
        return int(self.bounds.size)

    @property
    def dimension(self) -> int:
        """Length of a point."""
        return int(self.matrix.shape[1])

    def values(self, point: Vector) -> Vector:
        """Return matrix @ point - bounds, (m,)."""
        values: Vector = self.matrix @ point - self.bounds
        return values

    def subgradients(self, point: Vector) -> Matrix:
        """Return the matrix, (m, p)."""
        return self.matrix


@dataclass(frozen=True, eq=False)
class ConvexConstraints:
    """Constraints g(x) <= 0 by two functions.

    Parameters
    ----------
    value : x (p,) -> g(x) (m,)
    subgradient : x (p,) -> (m, p), row i a subgradient of g_i at x
    n_constraints : int >= 1, m
    names : as for linear constraints
    """

    value: Callable[[Vector], Vector]
    subgradient: Callable[[Vector], Matrix]
    n_constraints: int
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_at_least("n_constraints", self.n_constraints, 1)
        object.__setattr__(self, "names", _names(self.names, self.n_constraints))

    def values(self, point: Vector) -> Vector:
        """Return g(point), (m,)."""
        values = np.asarray(self.value(point), dtype=np.float64)
        if values.shape != (self.n_constraints,):
            raise ConfigError(
                f"the constraints' values have the shape {values.shape}, expected ({self.n_constraints},)."
            )
        return values

    def subgradients(self, point: Vector) -> Matrix:
        """Return one subgradient a constraint, (m, p)."""
        rows = np.asarray(self.subgradient(point), dtype=np.float64)
        if rows.shape != (self.n_constraints, point.size):
            shape = (self.n_constraints, point.size)
            raise ConfigError(f"the constraints' subgradients have the shape {rows.shape}, expected {shape}.")
        return rows
