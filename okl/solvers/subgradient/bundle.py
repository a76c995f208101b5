"""Bundles of cuts, search directions, the exact line search and the free bias."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from okl.compiled.bundle import add_sloped_rows, least_step, score_rows, solve_master
from okl.compiled.dual_steps import inner
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_at_least, check_positive
from okl.losses import PiecewiseLinear
from okl.solvers.subgradient.spaces import SampleSpace, Vector, inner_product

# A bundle of cuts: the lower model of the objective, its best bound, and the point that attains it.

_CHANGES_OF_CUT = 20


class Master(NamedTuple):
    """weights : (n_cuts,), of the simplex; bound : no point has an objective below it."""

    weights: FloatArray
    bound: float


@stored("cutting-plane-bundle")
@dataclass(eq=False)
class Bundle:
    """Cuts <G_k, v> + b_k <= mean loss(v), and the best bound that their convex combinations give.

        maximise  sum gamma_k b_k - ||sum gamma_k G_k||^2 / (2 lam)   over the simplex

    The point w = -(1 / lam) sum gamma_k G_k is where the model, the largest cut plus lam/2 ||.||^2, is least. When the
    bundle is full, the cut that has gone unused for longest makes room; if all are in use, the weighted ones are first
    replaced by their sum, which is a cut and keeps the bound.

    Parameters
    ----------
    lam : float > 0
    size : int >= 2, the most cuts kept

    Source: the averaged dual of the paper's pair is the aggregate of two cuts; the bundle of several is Kiwiel, Methods
    of Descent for Nondifferentiable Optimization, 1985, chapter 2.
    """

    lam: float
    size: int = 100
    n_cuts: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_at_least("bundle_size", self.size, 2)
        self._weights, self._intercepts = np.zeros(self.size), np.zeros(self.size)
        self._products = np.zeros((self.size, self.size))
        self._unused = np.zeros(self.size, dtype=np.int64)
        self._factor, self._solved = np.zeros((self.size, self.size)), np.zeros((2, self.size))
        self._support = np.zeros(self.size, dtype=np.int64)
        self._coefficients: FloatArray | None = None
        self._duals: FloatArray | None = None

    @property
    def weights(self) -> FloatArray:
        """Return gamma of the cuts, (n_cuts,)."""
        return self._weights[: self.n_cuts]

    def add(self, cut: Vector, intercept: float) -> None:
        """Take in a cut; the weights of the others stay, so that the bound can only rise."""
        if self._coefficients is None or self._duals is None:
            self._shape = cut.coefficients.shape
            self._coefficients = np.zeros((self.size, cut.coefficients.size))
            self._duals = self._coefficients
            if cut.dual is not cut.coefficients:
                self._duals = np.zeros((self.size, cut.dual.size))
        slot = self._free_slot()
        self._coefficients[slot], self._duals[slot] = cut.coefficients.ravel(), cut.dual.ravel()
        self._set(slot, intercept, 1.0 if self.n_cuts == 1 else 0.0)

    def master(self) -> Master:
        """Return the best lower bound and the weights that attain it."""
        n, most = self.n_cuts, _CHANGES_OF_CUT * self.n_cuts
        bound = solve_master(
            self.weights,
            self._factor,
            self._solved,
            self._support,
            self._products,
            self._intercepts[:n],
            self.lam,
            most,
        )
        used = self.weights > 0.0
        self._unused[:n] = np.where(used, 0, self._unused[:n] + 1)
        return Master(self.weights.copy(), float(bound))

    def point(self) -> Vector:
        """Return w = -(1 / lam) sum gamma_k G_k."""
        return self.aggregate()[0].scaled(-1.0 / self.lam)

    def aggregate(self) -> tuple[Vector, float]:
        """Return sum gamma_k G_k and sum gamma_k b_k: a cut."""
        if self._coefficients is None or self._duals is None:
            raise ValueError("A bundle without cuts has no aggregate.")
        coefficients = self._combined(self._coefficients)
        dual = coefficients if self._duals is self._coefficients else self._combined(self._duals)
        return Vector(coefficients, dual), float(inner(self.weights, self._intercepts[: self.n_cuts]))

    def carried(self, share: float, cut: Vector, intercept: float) -> Bundle:
        """These cuts as cuts of more rows, of which those here are a share: each takes in one of the new rows.

        cut, intercept : of the new rows, already times one less the share; vectors whose dual they are themselves
        """
        other = Bundle(self.lam, self.size)
        if self._coefficients is None:
            return other
        other.n_cuts, other._shape, n = self.n_cuts, self._shape, self.n_cuts
        other._coefficients = share * self._coefficients + cut.coefficients.ravel()
        other._duals = other._coefficients
        other._intercepts = share * self._intercepts + intercept
        other._weights, other._unused = self._weights.copy(), self._unused.copy()
        for slot in range(n):
            score_rows(other._products[slot, :n], other._coefficients[:n], other._coefficients[slot])
        return other

    def _combined(self, rows: FloatArray) -> FloatArray:
        total = np.zeros(rows.shape[1])
        add_sloped_rows(total, rows[: self.n_cuts], self.weights)  # a BLAS's bits depend on its threads
        return total.reshape(self._shape)

    def _free_slot(self) -> int:
        if self.n_cuts < self.size:
            self.n_cuts += 1
            return self.n_cuts - 1
        if not (self.weights == 0.0).any():
            self._merge()
        return int(np.argmax(np.where(self.weights > 0.0, -1, self._unused)))

    def _merge(self) -> None:
        """Replace the cut of least weight by the aggregate of all, which alone is as good as they are."""
        cut, intercept = self.aggregate()
        slot = int(np.argmin(self.weights))
        assert self._coefficients is not None
        assert self._duals is not None
        self._coefficients[slot], self._duals[slot] = cut.coefficients.ravel(), cut.dual.ravel()
        self._weights[:] = 0.0
        self._set(slot, intercept, 1.0)

    def _set(self, slot: int, intercept: float, weight: float) -> None:
        assert self._coefficients is not None
        assert self._duals is not None
        n = self.n_cuts
        products = np.empty(n)
        score_rows(products, self._coefficients[:n], self._duals[slot])
        self._products[slot, :n], self._products[:n, slot] = products, products
        self._intercepts[slot], self._weights[slot], self._unused[slot] = intercept, weight, 0


# Search directions.


@dataclass(frozen=True)
class Point:
    """A point, its scores on the sample, (n_rows,) or (n_rows, n_outputs), its squared length, its bias if free."""

    vector: Vector
    scores: FloatArray
    squared_length: float
    bias: float = 0.0


@stored("search-direction")
@dataclass(frozen=True)
class Direction:
    """A direction and its scores on the sample."""

    vector: Vector
    scores: FloatArray


class Scores(Protocol):
    """Rows of a sample that score vectors."""

    def scores(self, vector: Vector) -> FloatArray: ...


class Directions(Protocol):
    """Learns cuts, gives lower bounds and directions; lives as long as its sample."""

    @property
    def ahead(self) -> float:
        """Return how far beyond the new point, in shares of the remaining way, the next cut is taken."""

    def add(self, cut: Vector, intercept: float, point: Point) -> float:
        """Take in a cut at the point; the lower bound of the sampled problem that is now known."""

    def propose(self, point: Point, rows: Scores) -> Direction:
        """Return the next direction from the point."""


@stored("bundle-directions")
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

    def propose(self, point: Point, rows: Scores) -> Direction:
        """Propose the minimum of the model; one read of the rows."""
        target = self.bundle.point()
        return Direction(target.moved(-1.0, point.vector), rows.scores(target) - point.scores)


@stored("conjugate-directions")
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

    def propose(self, point: Point, rows: Scores) -> Direction:
        """Return the conjugate direction; one read of the rows."""
        assert self._gradient is not None
        vector = self._gradient.scaled(self._share - 1.0)
        scores = (self._share - 1.0) * rows.scores(self._gradient)
        if self.last is not None:
            vector = vector.moved(self._share, self.last.vector)
            scores += self._share * self.last.scores
        self.last = Direction(vector, scores)
        return self.last

    def grow(self, space: SampleSpace, last: Direction, fresh: Vector, intercept: float, share: float) -> None:
        """Continue in a larger sample: the averaged cut is extended by a cut of its new rows.

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


# The exact line search.


@dataclass(frozen=True)
class Ray:
    """The objective along a direction, less its value at 0: mean loss(scores + t along) + slope t + curvature t^2 / 2.

    slope, curvature : of the regulariser
    """

    scores: FloatArray
    along: FloatArray
    targets: FloatArray
    slope: float
    curvature: float


@dataclass(eq=False)
class ExactSearch:
    """The minimum itself, by selection over the kinks in time proportional to the rows.

    Source: it is what Zhang & Sen's Algorithm 2 looks for by halving; the objective is piecewise quadratic.
    """

    _positions: FloatArray = field(default_factory=lambda: np.empty(0), init=False, repr=False)
    _jumps: FloatArray = field(default_factory=lambda: np.empty(0), init=False, repr=False)

    def step(self, ray: Ray, loss: PiecewiseLinear, longest: float) -> float:
        """Return the step with the least objective in [0, longest]."""
        n_outputs = 1 if ray.scores.ndim == 1 else ray.scores.shape[1]
        most = len(ray.scores) * loss.kinks_of_row(n_outputs)
        if len(self._positions) < most:
            self._positions, self._jumps = np.empty(most), np.empty(most)
        parabola, scale = (ray.slope, ray.curvature), 1.0 / len(ray.scores)
        count, slope = loss.kinks_into(
            self._positions, self._jumps, ray.scores, ray.along, ray.targets, parabola, longest, scale
        )
        return float(least_step(self._positions, self._jumps, count, slope, ray.curvature, longest))


# The free bias, minimised out exactly.


class FreeBias:
    """The best bias of scores (n,) by selection, and slopes of mean 0 there.

    The slopes at the best bias, from its right and from its left, have sums of opposite signs; the mixture whose sum is
    0 is a subgradient in scores and bias at once, whose cut holds for every bias.
    """

    def __init__(self, loss: PiecewiseLinear, targets: FloatArray) -> None:
        self._loss, self._targets = loss, targets
        self._search, self._ones = ExactSearch(), np.ones(len(targets))
        self._left = np.empty(len(targets))

    def best(self, scores: FloatArray) -> float:
        """Return the b of least mean loss(y, scores + b); of several, the closest to 0."""
        right = self._step(scores, self._ones)
        return right if right > 0.0 else -self._step(scores, -self._ones)

    def slopes_into(self, out: FloatArray, scores: FloatArray) -> tuple[float, float]:
        """Overwrite out (n,) by slopes of sum 0 at scores with their best bias; sums of losses and intercepts."""
        losses, of_right = self._loss.slopes_into(out, scores, self._ones, self._targets)
        _, of_left = self._loss.slopes_into(self._left, scores, -self._ones, self._targets)
        right, left = float(out.sum()), float(self._left.sum())
        share = right / (right - left) if right > left else 0.0
        share = min(1.0, max(0.0, share))
        out += share * (self._left - out)
        return losses, of_right + share * (of_left - of_right)

    def _step(self, scores: FloatArray, along: FloatArray) -> float:
        ray = Ray(scores, along, self._targets, 0.0, 0.0)
        step = self._search.step(ray, self._loss, math.inf)
        return step if math.isfinite(step) else 0.0
