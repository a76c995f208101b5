"""Points, cuts and directions: numbers, and what their inner products are taken with."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from okl.compiled.steps import inner
from okl.types import FloatArray


class Vector(NamedTuple):
    """An element of the space of functions.

    coefficients : of the columns, (n_columns,) or (n_outputs, n_columns); or of the rows' kernels, (n_rows,) or
        (n_rows, n_outputs)
    dual : <v, v'> = sum coefficients * dual': the coefficients themselves for columns, K coefficients for kernels
    """

    coefficients: FloatArray
    dual: FloatArray

    def moved(self, step: float, direction: Vector) -> Vector:
        """This + step * direction."""
        coefficients = self.coefficients + step * direction.coefficients
        if self.dual is self.coefficients:
            return Vector(coefficients, coefficients)
        return Vector(coefficients, self.dual + step * direction.dual)

    def scaled(self, factor: float) -> Vector:
        """Factor * this."""
        coefficients = factor * self.coefficients
        return Vector(coefficients, coefficients if self.dual is self.coefficients else factor * self.dual)


def inner_product(left: Vector, right: Vector) -> float:
    """<left, right>."""
    return float(inner(left.coefficients.ravel(), right.dual.ravel()))


class Space(Protocol):
    """Where points live, with the rows of a sample in it."""

    @property
    def n_rows(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    def zero(self) -> Vector:
        """The point 0."""

    def vector(self, coefficients: FloatArray) -> Vector:
        """The vector of these coefficients."""

    def gather(self, slopes: FloatArray) -> Vector:
        """mean_i slope_i (x) phi(x_i)."""

    def scores(self, vector: Vector, first: int = 0) -> FloatArray:
        """<v, phi(x_i)> of all rows from the first one on, (rows,) or (rows, n_outputs)."""

    def lifted(self, vector: Vector) -> Vector:
        """A vector of a space of the first of these rows as one of this."""

    def first(self, n_rows: int) -> Space:
        """The first rows alone."""
