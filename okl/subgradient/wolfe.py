"""Wolfe's conjugate subgradient method on all rows: deterministic, and each iteration reads them twice."""

from __future__ import annotations

from dataclasses import dataclass, field

from okl.subgradient.descent import Watch
from okl.subgradient.directions import ConjugateDirections, Direction, Directions, Point
from okl.subgradient.scs import Sampled, Scs, solve_sample
from okl.subgradient.vectors import Space, inner_product
from okl.types import FloatArray


@dataclass(eq=False)
class RestartedDirections(ConjugateDirections):
    """The pair's shortest direction, begun afresh from the subgradient when it has become short.

    A short direction says that 0 is nearly among subgradients of points on the way, not of the last one: those of far
    back have to go. What is short is halved each time.

    Parameters
    ----------
    short : > 0, of the length of the first subgradient
    """

    short: float = 0.5
    _limit: float | None = field(default=None, init=False)

    def propose(self, point: Point, space: Space) -> Direction:
        """The conjugate direction, or minus the subgradient; one read of the rows."""
        direction = super().propose(point, space)
        length = inner_product(direction.vector, direction.vector) ** 0.5
        if self._limit is None:
            self._limit = self.short * length
        elif length <= self._limit:
            self._limit *= 0.5
            # the next direction knows only the subgradient that it begins with
            self.last = None
        return direction


@dataclass(frozen=True)
class Wolfe(Scs):
    """Minimise lam/2 ||w||^2 + mean_i loss(y_i, <w, phi(x_i)>) along the shortest convex combinations of subgradients.

    Parameters
    ----------
    lam, loss, gap, max_iterations : as in Scs; a search is exact
    short : > 0, below 1: a direction that is shorter, in units of the first subgradient, is the last before a restart

    Raises
    ------
    ConfigError : a number outside its range

    Source: Wolfe, "A method of conjugate subgradients for minimizing nondifferentiable functions", Mathematical
    Programming Study 3, 1975, with two subgradients kept, as Zhang & Sen do; the certified gap in place of ||d||.
    """

    short: float = 0.5

    def new_directions(self) -> Directions:
        """Directions of a run."""
        return RestartedDirections(self.lam, short=self.short)

    def solve(self, space: Space, targets: FloatArray, watch: Watch | None = None) -> Sampled:
        """The solution on the rows of a space, with targets (n_rows,)."""
        return solve_sample(space, targets, self, watch=watch)
