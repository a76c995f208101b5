"""The parts of dual objectives that are sums over rows: conjugates of losses, within their boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from okl.compiled.conjugates import (
    add_entropy_slopes,
    add_quadratic_slopes,
    add_root_slopes,
    entropy_excess,
    entropy_value,
    quadratic_excess,
    quadratic_value,
    roots_excess,
    roots_value,
)
from okl.types import FloatArray


class Separable(Protocol):
    """A smooth convex sum over the entries of a point (m,).

    excess : value(a) - value(b) - <slopes at b, a - b>, without its cancellation; a inside the box
    """

    def value(self, point: FloatArray) -> float: ...

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None: ...

    def excess(self, point: FloatArray, at: FloatArray) -> float: ...


@dataclass(frozen=True)
class Linear:
    """sum_i slope a_i."""

    slope: float

    def value(self, point: FloatArray) -> float:
        """The sum."""
        return self.slope * float(point.sum())

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        """Add the slope to every entry."""
        if self.slope:
            gradient += self.slope

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        """0."""
        return 0.0


@dataclass(frozen=True, eq=False)
class Quadratic:
    """sum_i curvature_i a_i^2 / 2 - a_i; curvatures (m,) >= 0."""

    curvatures: FloatArray

    def value(self, point: FloatArray) -> float:
        """The sum."""
        return float(quadratic_value(point, self.curvatures))

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        """Add curvature_i a_i - 1."""
        add_quadratic_slopes(gradient, point, self.curvatures)

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        """sum_i curvature_i (a_i - b_i)^2 / 2."""
        return float(quadratic_excess(point, at, self.curvatures))


@dataclass(frozen=True, eq=False)
class Entropy:
    """sum_i a_i log(a_i / u_i) + (u_i - a_i) log((u_i - a_i) / u_i), continued as parabolas beyond [c u, u - c u].

    upper : u (m,) >= 0; cut : c, 0 < c < 1/2
    """

    upper: FloatArray
    cut: float

    def value(self, point: FloatArray) -> float:
        """The sum."""
        return float(entropy_value(point, self.upper, self.cut))

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        """Add log(a_i / (u_i - a_i))."""
        add_entropy_slopes(gradient, point, self.upper, self.cut)

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        """Sum of the relative entropies of a_i and b_i, and of u_i - a_i and u_i - b_i."""
        return float(entropy_excess(point, at, self.upper, self.cut))


@dataclass(frozen=True, eq=False)
class Roots:
    """sum_i -2 sqrt(s_i a_i), continued as parabolas below lower_i.

    scales : s (m,) >= 0; lower : (m,) > 0 where s_i > 0
    """

    scales: FloatArray
    lower: FloatArray

    def value(self, point: FloatArray) -> float:
        """The sum."""
        return float(roots_value(point, self.scales, self.lower))

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        """Subtract sqrt(s_i / a_i)."""
        add_root_slopes(gradient, point, self.scales, self.lower)

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        """sum_i sqrt(s_i / b_i) (sqrt(a_i) - sqrt(b_i))^2."""
        return float(roots_excess(point, at, self.scales, self.lower))
