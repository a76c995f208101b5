"""Where to search next: towards the minimum of a bundle's model, or along the paper's conjugate subgradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from okl.subgradient.bundle import Bundle
from okl.subgradient.vectors import Space, Vector, inner_product
from okl.types import FloatArray


@dataclass(frozen=True)
class Point:
    """A point, its scores on the sample, (n_rows,) or (n_rows, n_outputs), its squared length, its bias if free."""

    vector: Vector
    scores: FloatArray
    squared_length: float
    bias: float = 0.0


@dataclass(frozen=True)
class Direction:
    """A direction and its scores on the sample."""

    vector: Vector
    scores: FloatArray


class Directions(Protocol):
    """Learns cuts, gives lower bounds and directions; lives as long as its sample."""

    @property
    def ahead(self) -> float:
        """How far beyond the new point, in shares of the rest of the way, the next cut is taken."""

    def add(self, cut: Vector, intercept: float, point: Point) -> float:
        """Take in a cut at the point; the lower bound of the sampled problem that is now known."""

    def propose(self, point: Point, space: Space) -> Direction:
        """A direction from the point."""


@dataclass(eq=False)
class BundleDirections:
    """Towards the minimum of the model of all cuts kept.

    Source: the search from the best point, and the cut beyond it, are those of Franc & Sonnenburg, "Optimized cutting
    plane algorithm for large-scale risk minimization", JMLR 10, 2009, Algorithm 3.
    """

    lam: float
    size: int
    ahead: float = 0.1
    bundle: Bundle = field(init=False)

    def __post_init__(self) -> None:
        self.bundle = Bundle(self.lam, self.size)

    def add(self, cut: Vector, intercept: float, point: Point) -> float:
        """Best bound of the bundle with the cut."""
        self.bundle.add(cut, intercept)
        return self.bundle.master().bound

    def propose(self, point: Point, space: Space) -> Direction:
        """From the point to the model's minimum; one read of the rows."""
        target = self.bundle.point()
        return Direction(target.moved(-1.0, point.vector), space.scores(target) - point.scores)


@dataclass(eq=False)
class ConjugateDirections:
    """d = -(lambda* (-d_before) + (1 - lambda*) g), the shortest such; lambda* = 0 is the plain subgradient method.

    The same weights average the cuts, whose mean is a cut and bounds the sampled problem from below.

    Parameters
    ----------
    lam : float > 0
    conjugate : False for lambda* = 0

    Source: Zhang & Sen, (5) and Algorithm 1; lambda* = clip(<g, g + d> / ||g + d||^2, 0, 1) for the appendix's
    opposite weight, and d_0 = -g_0 for the printed +g_0, with which nothing moves.
    """

    lam: float
    conjugate: bool = True
    ahead: float = field(default=0.0, init=False)
    last: Direction | None = field(default=None, init=False)
    _gradient: Vector | None = field(default=None, init=False)
    _cut: tuple[Vector, float] | None = field(default=None, init=False)
    _share: float = field(default=0.0, init=False)

    def add(self, cut: Vector, intercept: float, point: Point) -> float:
        """Bound of the averaged cut."""
        self._gradient = cut.moved(self.lam, point.vector)
        self._share = self._weight_of_last(self._gradient)
        mean, height = cut, intercept
        if self._cut is not None:
            mean = cut.moved(self._share, self._cut[0].moved(-1.0, cut))
            height = intercept + self._share * (self._cut[1] - intercept)
        self._cut = (mean, height)
        single = intercept - 0.5 * inner_product(cut, cut) / self.lam
        return max(single, height - 0.5 * inner_product(mean, mean) / self.lam)

    def propose(self, point: Point, space: Space) -> Direction:
        """The conjugate direction; one read of the rows."""
        assert self._gradient is not None
        vector = self._gradient.scaled(self._share - 1.0)
        scores = (self._share - 1.0) * space.scores(self._gradient)
        if self.last is not None:
            vector = vector.moved(self._share, self.last.vector)
            scores += self._share * self.last.scores
        self.last = Direction(vector, scores)
        return self.last

    def grow(self, space: Space, last: Direction, fresh: Vector, intercept: float, share: float) -> None:
        """Go on in a larger sample: the averaged cut takes in what its new rows alone say.

        last : the last direction there; fresh, intercept : a cut of the new rows; share : of the old ones
        """
        self.last = last
        if self._cut is not None:
            old = space.lifted(self._cut[0])
            mean = fresh.moved(share, old.moved(-1.0, fresh))
            self._cut = (mean, intercept + share * (self._cut[1] - intercept))

    def _weight_of_last(self, gradient: Vector) -> float:
        if self.last is None or not self.conjugate:
            return 0.0
        total = gradient.moved(1.0, self.last.vector)
        length = inner_product(total, total)
        return min(1.0, max(0.0, inner_product(gradient, total) / length)) if length > 0.0 else 0.0
