"""Dual problems of margin, minimax, norm-constrained and sparse models."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from okl.compiled.dual_steps import inner, squared_distance
from okl.compiled.dual_sweep import project_at_multipliers, sweep_segments, sweep_warm_started_segments
from okl.compiled.jit import one_blas_thread
from okl.compiled.products import add_listed_rows, add_rows, multiply_rows
from okl.foundation.class_tags import stored
from okl.foundation.types import Doubles, FloatArray, IntArray, Integers
from okl.solvers.accelerated.base import (
    EPSILON,
    ActiveRows,
    Certificate,
    Checked,
    CompositeProblem,
    CostClassifier,
    Iterate,
    MemoryIterates,
    RowOperator,
    Solution,
    StepOutcome,
    Swept,
    Vectors,
    weights_of,
)
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import (
    BoxHyperplane,
    BoxRegion,
    BoxSet,
    EntropyBarrier,
    HalfSquare,
    LinearTerm,
    MarginLoss,
    Outer,
    Quadratic,
    Region,
    Risk,
    Separable,
    SimplexPair,
    SumOfLosses,
    Take,
    filled,
)
from okl.solvers.accelerated.projections import project_ball, soft_threshold

# Problems whose step takes one read of the rows.
#
# A hyperplane binds all rows, but the set without it does not: the step is taken at the last multipliers, and
# corrected.

_MOST_AGAIN = 0.25  # of the rows: reading so many here and there takes as long as reading all in order


@stored("box-sweep", former=("entropy-sweep",))
@dataclass(frozen=True, eq=False)
class BoxSweep:
    """Gradient at the extrapolated point, prox of the step from there, and its image, in one read.

    Over 0 <= a_i <= upper_i, with slopes curvature_i a_i + offset, or with the entropy barrier and slopes offset.

    upper : (m,); curvatures : (m,), with a barrier a buffer
    """

    rows: DenseRows
    upper: FloatArray
    offset: float
    curvatures: FloatArray
    barrier: bool = False

    def run(self, at: Vectors, image: FloatArray, lipschitz: float, multipliers: tuple[float, float]) -> Swept:
        """Overwrite the gradient, the new point and its image; image : the gradient of the outer function.

        There are no multipliers.
        """
        rows, parts, out, gradient = self.rows, self._parts, at.new.point, at.gradient
        numbers = (self.curvatures, self.upper, self.offset, lipschitz, self.barrier, rows.segment_rows)
        inputs = (rows.rows, rows.signs, image, at.extrapolated.point, *numbers)
        rows.in_threads(lambda claims: sweep_segments(parts, out, gradient, claims, *inputs))
        rows.add_parts(at.new.image, parts)
        return (0.0, 0.0), 1.0

    @cached_property
    def _parts(self) -> FloatArray:
        return np.empty((self.rows.n_segments, self.rows.n_image))


@stored("warm-started-sweep")
@dataclass(frozen=True, eq=False)
class WarmStartedSweep:
    """The same over a box and hyperplanes, by a guess at their multipliers; see `okl.compiled.dual_sweep`.

    lower : (m,); normals : (m,) int8, the class of a row by its sign
    """

    rows: DenseRows
    upper: FloatArray
    offset: float
    region: BoxHyperplane | SimplexPair
    curvatures: FloatArray
    normals: NDArray[np.int8]
    lower: FloatArray

    def run(self, at: Vectors, image: FloatArray, lipschitz: float, multipliers: tuple[float, float]) -> Swept:
        """Sweep at the guess, find the multipliers, and correct the image by what has changed between them."""
        rows, (parts, targets, listed, changes), gradient = self.rows, self._room, at.gradient
        guesses = (multipliers[0] / lipschitz, multipliers[1] / lipschitz)
        bounds = (self.normals, self.lower, self.upper)
        inputs = (rows.rows, rows.signs, image, at.extrapolated.point, self.curvatures, *bounds, *guesses, self.offset)
        rows.in_threads(
            lambda claims: sweep_warm_started_segments(
                parts, targets, gradient, claims, *inputs, lipschitz, rows.segment_rows
            )
        )
        projected = self.region.prepared.multipliers(targets, guesses, rows.n_threads)
        thetas = (projected.plus_theta, projected.minus_theta)
        again = project_at_multipliers(at.new.point, listed, changes, targets, rows.signs, *bounds, guesses, thetas)
        found = (lipschitz * thetas[0], lipschitz * thetas[1])
        if again > _MOST_AGAIN * rows.n_points:
            rows.apply(at.new.image, at.new.point)
            return found, 2.0
        parts[:, 0] -= (thetas[0] - guesses[0]) * parts[:, 1]
        parts[:, 0] -= (thetas[1] - guesses[1]) * parts[:, 2]
        rows.add_parts(at.new.image, parts[:, 0])
        add_listed_rows(at.new.image, rows.rows, listed[:again], changes[:again])
        return found, 1.0 + again / rows.n_points

    @cached_property
    def _room(self) -> tuple[FloatArray, FloatArray, Integers, FloatArray]:
        m = self.rows.n_points
        parts = np.empty((self.rows.n_segments, 3, self.rows.n_image))
        return parts, np.empty(m), np.empty(m, dtype=np.int64), np.empty(m)


Sweep = BoxSweep | WarmStartedSweep


def sweep_of(rows: RowOperator, separable: Separable, region: Region) -> Sweep | None:
    """Return the sweep of a dual problem, or None where the prox needs the full gradient or rows are not explicit."""
    if not (isinstance(rows, DenseRows) and isinstance(separable, LinearTerm | Quadratic)):
        return None
    if isinstance(region, EntropyBarrier) and isinstance(separable, LinearTerm) and not region.hyperplane:
        return BoxSweep(rows, region.upper, separable.slope, np.empty(rows.n_points), barrier=True)
    if not isinstance(region, BoxSet):
        return None
    offset = separable.slope if isinstance(separable, LinearTerm) else -separable.targets
    curvatures = np.zeros(rows.n_points) if isinstance(separable, LinearTerm) else separable.curvatures
    if not isinstance(offset, float):
        return None
    lower, upper = (filled(bound, rows.n_points) for bound in (region.lower, region.upper))
    if isinstance(region, BoxRegion):
        return None if np.any(lower) else BoxSweep(rows, upper, offset, curvatures)
    assert isinstance(region, BoxHyperplane | SimplexPair)
    return WarmStartedSweep(rows, upper, offset, region, curvatures, region.signs.astype(np.int8), lower)


_CANCELLED = 1e-11  # of the size of its terms: a sum that small is 0 but for rounding


@stored("dual-problem", renamed={"levels": None})
@dataclass(frozen=True, eq=False)
class DualProblem(CompositeProblem):
    """Minimise outer(||A a||) + separable(a) + region(a): the negated dual of (7), times C, or of (8).

    rows : the signed rows A
    outer, separable, region : the dual objective
    risk : the loss part of the primal one
    first : (m,), a feasible point
    intercept : whether the primal problem has a bias
    curvature : added to the longest row's squared length, the first guess at the Lipschitz constant

    Source: Ito et al., 2017, (9), (10) and section 4.4.
    """

    rows: RowOperator
    outer: Outer
    separable: Separable
    region: Region
    risk: Risk
    first: FloatArray
    intercept: bool
    curvature: float = 0.0

    @property
    def n_points(self) -> int:
        return self.rows.n_points

    @property
    def n_image(self) -> int:
        return self.rows.n_image

    @cached_property
    def first_lipschitz(self) -> float:
        """Return the largest diagonal element of A'A, plus the curvature. Source: Ito et al., 2017, section 5.2."""
        return self.lipschitz_of(float(self.rows.squared_lengths().max()))

    def lipschitz_of(self, longest: float) -> float:
        """Return the first guess at the Lipschitz constant for the squared length of the longest row."""
        return max(longest * max(1e-3, self.outer.slope(longest)), float(np.finfo(np.float32).tiny)) + self.curvature

    def start(self) -> FloatArray:
        return self.first.copy()

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        self.rows.apply(out, point)

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        self.rows.adjoint(out, image)

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        return self.outer.value(self.rows.squared_norm(point, image)) + self.separable.value(point)

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        np.multiply(pulled, self.outer.slope(self.rows.squared_norm(point, image)), out=out)
        self.separable.add_slopes(out, point)

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        outer = self.outer.excess(
            self.rows.squared_norm(point, image),
            self.rows.squared_norm(at, at_image),
            self.rows.squared_gap(point, image, at, at_image),
        )
        return outer + self.separable.excess(point, at)

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        self.region.prox(out, point, lipschitz)

    def penalty(self, point: FloatArray) -> float:
        return self.region.value(point)

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        squared_norm = self.rows.squared_norm(point, image)
        margins = self.outer.slope(squared_norm) * pulled
        bias = self.risk.best_bias(margins) if self.intercept else 0.0
        penalties = self.separable.value(point) + self.region.value(point)
        terms = float(np.abs(point) @ self._lengths)
        certificate = self.certificate_from_sums(squared_norm, self.risk.value(margins, bias), penalties, bias, terms)
        missed = self._missed(point) * (float(np.abs(margins).max()) if self._is_homogeneous else abs(bias))
        if missed > certificate.rounding:  # short rows take steps that are far longer than the set is wide
            certificate = replace(certificate, dual=certificate.dual - missed)
        return certificate

    def _missed(self, point: FloatArray) -> float:
        """Return by how much the sums of a point miss the hyperplanes of the region, because of rounding."""
        region: Any = self.region
        if not len(region.normals):
            return 0.0
        total, signed = float(point.sum()), float(inner(region.signs, point))
        sums = 0.5 * np.array([total + signed, total - signed])
        return float(np.abs(region.normals @ sums - region.totals).sum())

    @cached_property
    def _lengths(self) -> Doubles:
        return np.sqrt(self.rows.squared_lengths())

    def certificate_from_sums(
        self,
        squared_norm: float,
        risk: float,
        penalties: float,
        bias: float,
        terms: float,
        weights: FloatArray | None = None,
    ) -> Certificate:
        """Return the certificate of a point a and weights w.

        squared_norm : of A a; risk : of the margins of w with the bias; penalties : separable part and region of a
        terms : sum_i |a_i| ||z_i||, whose rounding A a has, and every sum of margins times a_i
        weights : w (n_columns,), or None for slope A a
        """
        slope, exact = self.outer.slope(squared_norm), self.outer.exact(squared_norm)
        length = slope * slope * squared_norm if weights is None else float(weights @ weights)
        regulariser = self.outer.regulariser(length)
        primal, dual = risk + regulariser, -(exact + penalties)
        sizes = abs(risk) + regulariser + exact + abs(penalties) + math.sqrt(length) * terms
        rounding = 8.0 * EPSILON * sizes + 0.5 * (_CANCELLED * terms) * (_CANCELLED * terms)
        if self._is_homogeneous and not isinstance(self.rows, DenseRows | SparseRows):
            rounding += 8.0 * EPSILON * terms * terms  # a'K a may cancel, where A a is not known
        if self._is_homogeneous and 0.0 <= -dual <= rounding:
            primal = min(primal, 0.0)  # that of w = 0
        floor = self.outer.floor(squared_norm) if weights is None else 0.0
        return Certificate(primal=primal, dual=dual, floor=floor, bias=bias, rounding=rounding)

    @property
    def _is_homogeneous(self) -> bool:
        """Return whether the primal objective is 0 at w = 0: the dual one is 1/2 ||A a||^2."""
        linear = isinstance(self.separable, LinearTerm) and self.separable.slope == 0.0
        return linear and isinstance(self.outer, HalfSquare) and isinstance(self.region, BoxSet)

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        slope = self.outer.slope(self.rows.squared_norm(point, image))
        return Solution(self.rows.weights(point, image, slope), certificate.bias, certificate)

    def sweep(self, at: Vectors, lipschitz: float, multipliers: tuple[float, float]) -> Swept | None:
        """Take a whole step in one read, or return None."""
        if self._sweep is None:
            return None
        image = at.extrapolated.image
        slope = self.outer.slope(self.rows.squared_norm(at.extrapolated.point, image))
        return self._sweep.run(at, image if slope == 1.0 else slope * image, lipschitz, multipliers)

    @cached_property
    def _sweep(self) -> Sweep | None:
        return sweep_of(self.rows, self.separable, self.region)

    def at_level(self, level: int) -> Self:
        outer = self.outer.at_level(level) if level else self.outer
        return self if outer is self.outer else replace(self, outer=outer)

    def iterates(
        self, current: Iterate, previous: Iterate, active: IntArray | None, multipliers: tuple[float, float]
    ) -> MemoryIterates:
        if active is None:
            return MemoryIterates(self, current, previous, multipliers)
        return ShrunkIterates(self, current, previous, active, multipliers)

    def active_rows(self, at: Vectors, lipschitz: float) -> ActiveRows | None:
        """Return how firmly dense rows of a set are at their bounds at the current point, from the step of a check."""
        region, current, target, stepped = self.region, at.current.point, at.target, at.new.point
        if type(self.rows) is not DenseRows or not isinstance(region, BoxSet):
            return None
        lower = region.lower
        free = (stepped > lower) & (stepped < region.upper)
        shifted = target.copy()
        for sign in (-1.0, 1.0):
            members = self.rows.signs == sign
            active = np.flatnonzero(free & members)
            if not len(active):  # the multiplier may be anywhere in an interval
                return None
            shifted[members] -= target[active[0]] - stepped[active[0]]
        slopes = lipschitz * (current - shifted)
        firm = np.where((current == lower) & (stepped == lower), slopes, 0.0)
        at_upper = (current == region.upper) & (stepped == region.upper)
        firm[at_upper] = np.maximum(firm, -slopes)[at_upper]
        return ActiveRows(slopes, firm)

    def part(self, rows: RowOperator, take: Take) -> DualProblem:
        """Return the terms of some rows, as a partition of the problem holds them; it has no first point."""
        return replace(
            self,
            rows=rows,
            separable=self.separable.part(take),
            region=self.region.part(take, rows.signs),
            risk=self.risk.part(take, rows.signs),
            first=np.empty(0),
        )


# Rows that stay at a bound are inactive between two checks: steps change the others, and read only these.
#
# At a check the gradient of all rows is known. A row at a bound has slack: what its gradient, less the multiplier of
# its hyperplane, would have to change before it left. Where that is far more than it changed since the last check,
# the row is inactive until the next one, which reads all rows again: certificates are those of the whole problem.
#
# Source: shrinking as in Joachims, Making large-scale SVM learning practical, 1999, section 11.4, for a gradient
# method.


@dataclass(frozen=True, eq=False)
class PartRows(DenseRows):
    """Some rows in memory, which were checked with the others; offset (n_columns,) is what those add up to."""

    offset: FloatArray = field(default_factory=lambda: np.zeros(1))

    def __post_init__(self) -> None:
        pass

    def add_parts(self, out: FloatArray, parts: FloatArray) -> None:
        """Add the parts and the offset."""
        super().add_parts(out, parts)
        out += self.offset


def restricted(problem: DualProblem, chosen: IntArray, point: FloatArray, image: FloatArray) -> DualProblem:
    """Return the problem of some dense rows (b,), given their point (b,) and the image (n,) of all rows."""
    whole = problem.rows
    assert isinstance(whole, DenseRows), "rows of no other operator are shrunk"
    rows, signs, offset = np.ascontiguousarray(whole.rows[chosen]), whole.signs[chosen], image.copy()
    add_rows(offset, rows, -signs, point)

    def take(values: Any) -> Any:
        return values[chosen] if isinstance(values, np.ndarray) else values

    return replace(
        problem,
        rows=PartRows(rows, signs, whole.n_threads, offset),
        separable=problem.separable.part(take),
        region=problem.region.part(take, signs, point),
        first=point,
    )


class ShrunkIterates(MemoryIterates):
    """The vectors of the active rows, and those of all rows for a check."""

    def __init__(
        self,
        problem: DualProblem,
        current: Iterate,
        previous: Iterate,
        active: IntArray,
        multipliers: tuple[float, float],
    ) -> None:
        gathered = Iterate(current.point[active], current.image)
        part = restricted(problem, active, gathered.point, current.image)
        last = Iterate(previous.point[active], np.empty(problem.n_image))
        part.apply(last.image, last.point)  # shrunk rows have their current values in both
        super().__init__(part, gathered, last, multipliers)
        self._whole, self._active, self._start = problem, active, current
        self._rest = problem.smooth(current.point, current.image) - part.smooth(gathered.point, gathered.image)
        self._all: MemoryIterates | None = None

    @property
    def reads(self) -> int:
        return super().reads + (1 + self._all.reads if self._all else 0)

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Step the active part; the objective is that of all rows."""
        outcome = super().step(lipschitz, with_excess)
        return outcome._replace(objective=outcome.objective + self._rest)

    def check(self, lipschitz: float) -> Checked:
        current, previous = (self._with_shrunk(iterate) for iterate in (self.current, self.previous))
        # afresh: what rounding adds to an offset, check after check, would get into the certificate
        self._whole.apply(current.image, current.point)
        self._all = MemoryIterates(self._whole, current, previous)
        return self._all.check(lipschitz)

    def active_rows(self, lipschitz: float) -> ActiveRows | None:
        assert self._all is not None, "a check was made"
        return self._all.active_rows(lipschitz)

    def recent(self) -> tuple[Iterate, Iterate]:
        assert self._all is not None, "a check was made"
        return self._all.recent()

    def _with_shrunk(self, iterate: Iterate) -> Iterate:
        point = self._start.point.copy()
        point[self._active] = iterate.point
        return Iterate(point, iterate.image)


# Minimax models: the point of least norm in a sum of ellipsoids.
#
# Minimise 1/2 ||d + S u||^2 over u = (u_1, ..., u_k), ||u_j|| <= kappa, with S = [S_1, ..., S_k] and d the difference
# of the means; w = d + S u. Primal: -<w, d> + kappa sum_j ||S_j' w|| + 1/2 ||w||^2.


@stored("minimax-problem", renamed={"note": None})
@dataclass(frozen=True, eq=False)
class MinimaxProblem(CompositeProblem):
    """Balls mapped to ellipsoids.

    difference : d (n,)
    roots : S (n, k n), C-contiguous
    n_balls : k
    kappa : radius of the balls, > 0
    centre : (n,), where w is to give 0 but for the spreads; own bias = <w, centre> + kappa / 2 (last - first spread)
        for two balls, <w, centre> for one
    intercept : whether there is a bias
    basis : (columns, n), orthonormal, in which w is solved for; None where that is the columns

    Source: Ito et al., 2017, sections 3.2.6 and 3.2.7, (16) and (17), times 1/2 as in (9) with C = 1.
    """

    difference: FloatArray
    roots: FloatArray
    n_balls: int
    kappa: float
    centre: FloatArray
    intercept: bool = True
    basis: FloatArray | None = None

    @property
    def n_points(self) -> int:
        return int(self.roots.shape[1])

    @property
    def n_image(self) -> int:
        return len(self.difference)

    @cached_property
    def covariances(self) -> list[FloatArray]:
        """Return S S' of each ball, (n, n)."""
        return [self.roots[:, ball] @ self.roots[:, ball].T for ball in self.balls]

    @property
    def first_lipschitz(self) -> float:
        """Return the largest diagonal element of S'S. Source: Ito et al., 2017, section 5.4."""
        return max(float(np.einsum("ij,ij->j", self.roots, self.roots).max()), float(np.finfo(np.float32).tiny))

    def start(self) -> FloatArray:
        return np.zeros(self.n_points)

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        multiply_rows(out, self.roots, np.ones(self.n_image), point)
        out += self.difference

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        out[:] = 0.0
        add_rows(out, self.roots, np.ones(self.n_image), image)

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        return 0.5 * float(inner(image, image))

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        return 0.5 * float(squared_distance(image, at_image))

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        for ball in self.balls:
            project_ball(out[ball], point[ball], self.kappa)

    def penalty(self, point: FloatArray) -> float:
        return 0.0

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        spreads = [float(np.linalg.norm(pulled[ball])) for ball in self.balls]
        along = float(inner(image, self.difference))
        risk = self.kappa * sum(spreads) - along
        half_square = 0.5 * float(inner(image, image))
        tilt = 0.5 * self.kappa * (spreads[-1] - spreads[0])
        rounding = 8.0 * EPSILON * (self.kappa * sum(spreads) + abs(along) + 2.0 * half_square)
        return Certificate(
            # w = 0 has an objective of 0, and no other one has less but for rounding
            primal=min(risk + half_square, 0.0) if half_square <= rounding else risk + half_square,
            dual=-half_square,
            floor=0.0,
            bias=float(inner(image, self.centre)) + tilt if self.intercept else 0.0,
            rounding=rounding,
        )

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        weights = image.copy()
        if self.basis is not None:
            with one_blas_thread():
                weights = self.basis @ image
        return Solution(weights, certificate.bias, certificate)

    @property
    def balls(self) -> list[slice]:
        """Return the places of each ball in a point."""
        return [slice(ball * self.n_image, (ball + 1) * self.n_image) for ball in range(self.n_balls)]


# Bounds on a p-norm of the weights.
#
# Minimise radius ||A a||_q + separable(a) + region(a), 1 / p + 1 / q = 1. The norm has no derivative at 0, and for q
# < 2 an unbounded second one wherever an entry of A a is 0. It is smoothed as the largest <A a, w> - width / 2
# ||w||^2 over ||w||_p <= radius, whose gradient is that w, a projection; `width` falls level by level as the gap
# takes.

_MOST_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class NormBallProblem(DualProblem):
    """The smoothed dual of a margin model under a norm's bound.

    rows : explicit; the image of a point is A a (n_columns,)
    outer : without effect; separable, region, risk, first, intercept : as of the model's own dual
    power : p; radius : lambda > 0
    width : > 0, of the smoothing, in units of A a over those of w

    Source: Ito et al., 2017, (8), (10) and (25), which gives the w of radius 1; smoothing as in Nesterov, Mathematical
    Programming 103, 2005, section 2.
    """

    power: float = 2.0
    radius: float = 1.0
    width: float = 1.0

    def lipschitz_of(self, longest: float) -> float:
        """Return the longest row's squared length over the width: usually too large, and reduced later."""
        return max(longest / self.width * 1e-3, float(np.finfo(np.float32).tiny))

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        self.rows.adjoint(out, self.weights_of(image))

    def weights_of(self, image: FloatArray) -> Doubles:
        """Return the maximiser w of the smoothed norm, its gradient at A a."""
        return project_norm_ball(image / self.width, self.power, self.radius)

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        weights = self.weights_of(image)
        return float(image @ weights) - 0.5 * self.width * float(weights @ weights) + self.separable.value(point)

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        """Return the gradient that was pulled back."""
        out[:] = pulled
        self.separable.add_slopes(out, point)

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        weights, at_weights = self.weights_of(image), self.weights_of(at_image)
        middle = image - 0.5 * self.width * (weights + at_weights)
        return max(0.0, float(middle @ (weights - at_weights))) + self.separable.excess(point, at)

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        bias = self.risk.best_bias(pulled) if self.intercept else 0.0
        risk = self.risk.value(pulled, bias)
        norm = self.radius * norm_of(image, dual_power(self.power))
        separable = self.separable.value(point) + self.region.value(point)
        return Certificate(
            primal=risk,
            dual=-(norm + separable),
            floor=max(0.0, norm - float(image @ self.weights_of(image))),
            bias=bias,
            rounding=8.0 * EPSILON * (abs(risk) + norm + abs(separable)),
        )

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        return Solution(self.weights_of(image), certificate.bias, certificate)

    def sweep(self, at: Vectors, lipschitz: float, multipliers: tuple[float, float]) -> None:
        """Return None: w depends on all rows."""

    def at_level(self, level: int) -> Self:
        return replace(self, width=self.width * 0.1**level)


def dual_power(power: float) -> float:
    """Return q with 1 / p + 1 / q = 1."""
    return math.inf if power == 1.0 else 1.0 if power == math.inf else power / (power - 1.0)


def norm_of(vector: FloatArray, power: float) -> float:
    """Return ||v||_power, without overflow."""
    largest = float(np.abs(vector).max())
    if power == math.inf:
        return largest
    return largest * float(np.sum((np.abs(vector) / largest) ** power)) ** (1.0 / power) if largest > 0.0 else 0.0


def project_norm_ball(vector: FloatArray, power: float, radius: float) -> Doubles:
    """Return the nearest point w of ||w||_p <= radius, for p in [1, infinity].

    Where the vector z is outside, |w_j| + theta |w_j|^(p - 1) = |z_j|, with the one theta that gives w the radius; with
    the radius as unit it lies between ||z||_q - max(1, n^(1/q - 1/p)) and ||z||_q. For p = 1 all sizes fall by theta,
    for p = infinity they are clipped.

    vector : (n,); power : p; radius : > 0
    """
    sizes = np.abs(np.asarray(vector, dtype=np.float64)) / radius
    if norm_of(sizes, power) <= 1.0:
        return np.array(vector, dtype=np.float64)
    if power in (1.0, math.inf):
        falling = np.sort(sizes)[::-1]
        thetas = (np.cumsum(falling) - 1.0) / np.arange(1, len(sizes) + 1)
        theta = thetas[np.flatnonzero(falling > thetas)[-1]]
        shrunk = np.minimum(sizes, 1.0) if power == math.inf else np.maximum(sizes - theta, 0.0)
        return radius * np.copysign(shrunk / max(norm_of(shrunk, power), 1.0), vector)
    dual = dual_power(power)
    high = norm_of(sizes, dual)
    low = max(0.0, high - max(1.0, len(sizes) ** (1.0 / dual - 1.0 / power)))
    theta = high
    projected = _shrunk(sizes, power, theta)
    for _ in range(_MOST_ROUNDS):
        powers = projected ** (power - 1.0)
        value = float(powers @ projected) - 1.0
        low, high = (theta, high) if value > 0.0 else (low, theta)
        # of each w_j by theta: -w^(p - 1) / (1 + theta (p - 1) w^(p - 2)), times w to be finite at 0
        falls = power * powers * (powers * projected) / np.maximum(projected + theta * (power - 1.0) * powers, _TINY)
        fall = float(falls.sum())
        following = theta + value / fall if fall > 0.0 else low
        following = following if low < following < high else 0.5 * (low + high)
        if abs(following - theta) <= 2.0 * EPSILON * theta or abs(value) <= 4.0 * EPSILON:
            break
        theta = following
        projected = _shrunk(sizes, power, theta)
    # onto the ball: what is left is rounding
    projected /= max(norm_of(projected, power), 1.0)
    return radius * np.copysign(projected, vector)


_TINY = float(np.finfo(np.float64).tiny)


def _shrunk(sizes: FloatArray, power: float, theta: float) -> Doubles:
    """Return roots w of w + theta w^(p - 1) = size, entry by entry.

    With x = w for p >= 2 and x = w^(p - 1) below, both terms are convex in x; Newton's method falls onto the root from
    where one term alone is the size, at most twice too far.
    """
    steep = power - 1.0 if power >= 2.0 else 1.0 / (power - 1.0)
    linear, other = (1.0, theta) if power >= 2.0 else (theta, 1.0)  # one x + other x^steep = size
    roots = np.minimum(sizes / max(linear, _TINY), (sizes / max(other, _TINY)) ** (1.0 / steep))
    for _ in range(_MOST_ROUNDS):
        powers = other * roots ** (steep - 1.0)
        steps = (linear * roots + powers * roots - sizes) / np.maximum(linear + steep * powers, _TINY)
        roots = np.maximum(roots - steps, 0.0)
        if np.all(np.abs(steps) <= 4.0 * EPSILON * roots + _TINY):
            break
    shrunk: Doubles = roots if power >= 2.0 else roots**steep
    return shrunk


# l1 penalties, minimised over w.


class SmoothLoss(MarginLoss, Protocol):
    """A smooth loss.

    curvature : its largest second derivative
    has_kinks : whether the derivative has kinks; second_derivative : a generalised one, at a kink
    excess : value(z) - value(z') - derivative(z') (z - z'), without its cancellation
    conjugate : value of the conjugate at -a, for the a = -derivative that occur and their multiples by [0, 1]
    """

    curvature: float
    has_kinks: bool

    def second_derivative(self, margins: FloatArray) -> FloatArray: ...

    def excess(self, margins: FloatArray, at: FloatArray) -> FloatArray: ...

    def conjugate(self, duals: FloatArray) -> FloatArray: ...


@stored("l1-problem")
@dataclass(frozen=True, eq=False)
class SparseProblem(CompositeProblem):
    """Minimise ||w||_1 + sum_i weight_i loss(s_i <w, z_i>); the image of w are its margins.

    rows : explicit; weights : (m,) >= 0; curvature : the loss's largest second derivative

    Source: Ito et al., 2017, appendix D, (27) and (28); the threshold of the prox is 1 / L.
    """

    rows: RowOperator
    loss: SmoothLoss
    weights: FloatArray
    curvature: float

    @property
    def n_points(self) -> int:
        return self.rows.n_image

    @property
    def n_image(self) -> int:
        return self.rows.n_points

    @property
    def first_lipschitz(self) -> float:
        """Return the largest contribution of a row to the Hessian, a lower bound of the Lipschitz constant."""
        return self.lipschitz_of(float((self.weights * self.rows.squared_lengths()).max()))

    @property
    def risk(self) -> SumOfLosses:
        return SumOfLosses(self.loss, self.rows.signs, self.weights)

    def lipschitz_of(self, longest: float) -> float:
        """Return the first guess at the Lipschitz constant for the largest weight times squared length of a row."""
        return max(self.curvature * longest, float(np.finfo(np.float32).tiny))

    def start(self) -> FloatArray:
        return np.zeros(self.n_points)

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        self.rows.adjoint(out, point)

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        self.rows.apply(out, self.weights * self.loss.derivative(image))

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        return float(inner(self.weights, self.loss.value(image)))

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        return float(inner(self.weights, self.loss.excess(image, at_image)))

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        soft_threshold(out, point, 1.0 / lipschitz)

    def penalty(self, point: FloatArray) -> float:
        return float(np.abs(point).sum())

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        steepest = float(np.abs(pulled).max())
        dual = self.conjugate(image, 1.0 / max(1.0, steepest))
        return self.certificate_from_sums(self.smooth(point, image), self.penalty(point), dual)

    def conjugate(self, image: FloatArray, factor: float) -> float:
        """Return minus the dual objective of the slopes at margins, made feasible by a factor in (0, 1]."""
        return float(inner(self.weights, self.loss.conjugate(-factor * self.loss.derivative(image))))

    def certificate_from_sums(self, risk: float, norm: float, dual: float) -> Certificate:
        """Return the certificate of a w: its losses, its norm, and minus the dual objective."""
        rounding = 8.0 * EPSILON * (risk + norm + abs(dual))
        return Certificate(primal=risk + norm, dual=-dual, floor=0.0, bias=0.0, rounding=rounding)

    def part(self, rows: RowOperator, take: Take) -> Self:
        return replace(self, rows=rows, weights=np.asarray(take(self.weights)))

    def point_of(self, weights: FloatArray, bias: float) -> FloatArray:
        """Return the point of weights and a bias."""
        return weights

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        return Solution(point.copy(), 0.0, certificate)


@stored("norm-ball-problem")
@dataclass(frozen=True, eq=False)
class PrimalBallProblem(SparseProblem):
    """Minimise sum_i weight_i loss(s_i (<w, z_i> - b)) over ||w||_p <= radius; b is the last entry of a point.

    With g the gradient at w and its best b, no w of the ball has a risk lower by more than <g, w> + radius ||g||_q:
    that is the gap to (10) at the duals of these margins.

    power : p in [1, infinity]; radius : > 0; intercept : whether there is a b; curvature : any guess

    Source: Ito et al., 2017, (8), whose smooth losses are minimised over w for p = 1 and p = infinity.
    """

    power: float = 1.0
    radius: float = 1.0
    intercept: bool = True

    @property
    def n_points(self) -> int:
        return self.rows.n_image + self.intercept

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        weights, bias = self.split(point)
        self.rows.adjoint(out, weights)
        out -= bias * self.rows.signs

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        slopes = self.weights * self.loss.derivative(image)
        self.rows.apply(out[: self.rows.n_image], slopes)
        out[self.rows.n_image :] = -float(inner(self.rows.signs, slopes))

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        linear = self.loss.value(at_image) + self.loss.derivative(at_image) * (image - at_image)
        return float(inner(self.weights, np.maximum(self.loss.value(image) - linear, 0.0)))

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        out[:] = self.point_of(*self.split(point))

    def penalty(self, point: FloatArray) -> float:
        return 0.0

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        risk, gradient, shift = self.risk, np.array(pulled), 0.0
        if self.intercept:
            shift = risk.best_bias(image)
            self.adjoint(gradient, image - shift * self.rows.signs)
        return self.ball_proof(point, gradient, risk.value(image, shift), shift)

    def ball_proof(self, point: FloatArray, gradient: FloatArray, risk: float, shift: float) -> Certificate:
        """Return the certificate of a point whose bias is moved by a shift to the best; gradient, risk : there."""
        (weights, bias), (slopes, _) = self.split(point), self.split(gradient)
        norm = self.radius * norm_of(slopes, dual_power(self.power))
        gap = max(0.0, norm + float(slopes @ weights))
        return Certificate(risk, risk - gap, 0.0, bias + shift, 8.0 * EPSILON * (abs(risk) + 2.0 * norm))

    def split(self, point: FloatArray) -> tuple[FloatArray, float]:
        """Return weights (n_columns,) and bias of a point."""
        return (point[:-1], float(point[-1])) if self.intercept else (point, 0.0)

    def point_of(self, weights: FloatArray, bias: float) -> FloatArray:
        inside = project_norm_ball(weights, self.power, self.radius)
        return np.append(inside, bias) if self.intercept else inside

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        return Solution(self.split(point)[0].copy(), certificate.bias, certificate)


@dataclass(frozen=True)
class SparseClassifier(CostClassifier):
    """Base of models with an l1 penalty, of explicit rows without a bias. LOSS : of a margin"""

    LOSS: ClassVar[SmoothLoss]
    TAKES_KERNEL: ClassVar[bool] = False
    HAS_OWN_BIAS: ClassVar[bool] = False

    def problem(self, rows: DenseRows | SparseRows, sample_weight: FloatArray | None = None) -> SparseProblem:
        return SparseProblem(rows, self.LOSS, self.C * weights_of(rows, sample_weight), self.LOSS.curvature)
