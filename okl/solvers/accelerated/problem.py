"""Parts of dual problems: outer functions, separable terms, barriers, sets, losses, biases and moments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from okl.compiled import dual_steps
from okl.compiled.jit import one_blas_thread
from okl.compiled.projections import clip_by_sign, clipped_sums
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray
from okl.solvers.accelerated.base import weights_of
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.projections import PreparedSet, hyperplane_set, pair_set

# Outer functions of ||A a||.
#
# Its conjugate is what the primal problem does to ||w||: a penalty 1/2 ||w||^2, or the constraint ||w|| <= 1.


class Outer(Protocol):
    """Function of v = A a, known by ||v||^2; w = slope v is the primal solution. Nothing is smoothed by default."""

    def value(self, squared_norm: float) -> float:
        """Return the function."""

    def slope(self, squared_norm: float) -> float:
        """Return the factor of v that is the gradient over v."""

    def excess(self, squared_norm: float, at_squared_norm: float, squared_gap: float) -> float:
        """Return value(a) - value(b) - <gradient at b, v_a - v_b>, of ||v_a||^2, ||v_b||^2 and ||v_a - v_b||^2."""

    def regulariser(self, squared_norm: float) -> float:
        """Return the regulariser of the primal objective at w = slope v, of ||w||^2."""

    def exact(self, squared_norm: float) -> float:
        """Return the function without any smoothing, which the gap goes by."""
        return self.value(squared_norm)

    def floor(self, squared_norm: float) -> float:
        """Return what smoothing adds to the gap."""
        return 0.0

    def at_level(self, level: int) -> Outer:
        """Return the function less smoothed."""
        return self

    def of_length(self, first: float, longest: float) -> Outer:
        """Return the function smoothed by the lengths that occur first.

        first : ||A a|| of the first point; longest : the longest row times the largest entry of that point
        """
        return self


@stored("half-squared-norm")
@dataclass(frozen=True)
class HalfSquare(Outer):
    """1/2 ||v||^2, from 1/2 ||w||^2 in the primal problem. Source: Ito et al., 2017, (7) and (9), times C."""

    def value(self, squared_norm: float) -> float:
        return 0.5 * squared_norm

    def slope(self, squared_norm: float) -> float:
        """Return 1: the gradient is v."""
        return 1.0

    def excess(self, squared_norm: float, at_squared_norm: float, squared_gap: float) -> float:
        return 0.5 * squared_gap

    def regulariser(self, squared_norm: float) -> float:
        return 0.5 * squared_norm


@stored("euclidean-norm", former=("norm-plus-ball",))
@dataclass(frozen=True)
class EuclideanNorm(Outer):
    """radius ||v||, from ||w|| <= radius in the primal problem, smoothed where v is not longer than `width`.

    There it is radius ||v||^2 / (2 width), and radius width / 2 less beyond: the primal problem has a multiple of
    ||w||^2 on top. Where the optimal v is longer, its place is that of the norm itself.

    width : > 0, in units of v; radius : > 0, in units of w

    Source: Ito et al., 2017, (8), (10) and (25) with p = 2, lambda = radius, whose norm has no derivative at 0;
    smoothing as in Nesterov, Mathematical Programming 103, 2005, section 2.
    """

    width: float
    radius: float = 1.0

    def value(self, squared_norm: float) -> float:
        norm = math.sqrt(squared_norm)
        return self.radius * (norm - 0.5 * self.width if norm >= self.width else 0.5 * squared_norm / self.width)

    def slope(self, squared_norm: float) -> float:
        """Return radius / max(||v||, width): the gradient is no longer than the radius."""
        return self.radius * (1.0 / max(math.sqrt(squared_norm), self.width))

    def excess(self, squared_norm: float, at_squared_norm: float, squared_gap: float) -> float:
        """Return the excess of the norm, (||v_a - v_b||^2 - (||v_a|| - ||v_b||)^2) / (2 ||v_b||), plus what smoothing
        adds.
        """
        norm, at_norm = math.sqrt(squared_norm), math.sqrt(at_squared_norm)
        sideways = 0.5 * (1.0 / max(at_norm, self.width)) * max(0.0, squared_gap - (norm - at_norm) ** 2)
        # the Bregman distance of two parallel vectors, as a function of their lengths
        short, at_short = min(norm, self.width), min(at_norm, self.width)
        along = 0.5 * (short - at_short) ** 2 / self.width + (norm - short) * (1.0 - at_short / self.width)
        return self.radius * (sideways + along)

    def regulariser(self, squared_norm: float) -> float:
        """Return 0: w is no longer than the radius."""
        return 0.0

    def exact(self, squared_norm: float) -> float:
        return self.radius * math.sqrt(squared_norm)

    def floor(self, squared_norm: float) -> float:
        """Return what smoothing adds to the gap: ||v|| - ||v||^2 / width where ||v|| <= width, at most width / 4."""
        return self.radius * max(0.0, math.sqrt(squared_norm) - squared_norm / self.width)

    def at_level(self, level: int) -> EuclideanNorm:
        return replace(self, width=self.width * 0.1**level)

    def of_length(self, first: float, longest: float) -> EuclideanNorm:
        return replace(self, width=max(0.1 * first, 0.1 * longest, float(np.finfo(np.float32).tiny)))


# Separable terms: conjugates of losses within their boxes.


Bound: TypeAlias = "float | FloatArray"
Take = Callable[[Any], Any]
"""Function from numbers of all rows to those of some rows."""


class Separable:
    """A smooth convex sum over the entries of a point (m,)."""

    def value(self, point: FloatArray) -> float:
        """Return the sum."""
        raise NotImplementedError

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        """Add the slopes at a point to a gradient (m,)."""
        raise NotImplementedError

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        """Return value(a) - value(b) - <slopes at b, a - b>, without its cancellation; a inside the box."""
        raise NotImplementedError

    def part(self, take: Take) -> Self:
        """Return the terms of some rows."""
        raise NotImplementedError


@stored("linear-term")
@dataclass(frozen=True)
class LinearTerm(Separable):
    """sum_i slope a_i."""

    slope: float

    def value(self, point: FloatArray) -> float:
        return self.slope * float(point.sum())

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        if self.slope:
            gradient += self.slope

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        return 0.0

    def part(self, take: Take) -> LinearTerm:
        return self


@stored("quadratic-term", former=("target-quadratic-term",))
@dataclass(frozen=True, eq=False)
class Quadratic(Separable):
    """sum_i curvature_i a_i^2 / 2 - t_i a_i; curvatures (m,) >= 0, targets t a number or (m,)."""

    curvatures: FloatArray
    targets: Bound = 1.0

    def value(self, point: FloatArray) -> float:
        return float(dual_steps.quadratic_value(point, self.curvatures, self.targets))

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        dual_steps.add_quadratic_slopes(gradient, point, self.curvatures, self.targets)

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        return float(dual_steps.quadratic_excess(point, at, self.curvatures))

    def part(self, take: Take) -> Quadratic:
        return Quadratic(take(self.curvatures), _some(self.targets, take))


@stored("entropy-term")
@dataclass(frozen=True, eq=False)
class Entropy(Separable):
    """sum_i a_i log(a_i / u_i) + (u_i - a_i) log((u_i - a_i) / u_i), parabolas beyond [c u, u - c u]; 0 < c < 1/2."""

    upper: FloatArray
    cut: float

    def value(self, point: FloatArray) -> float:
        return float(dual_steps.entropy_value(point, self.upper, self.cut))

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        dual_steps.add_entropy_slopes(gradient, point, self.upper, self.cut)

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        return float(dual_steps.entropy_excess(point, at, self.upper, self.cut))

    def part(self, take: Take) -> Entropy:
        return replace(self, upper=take(self.upper))


# Regions of dual points: sets, and barriers on them.
#
# A region knows two ways to its prox. In memory `prox` finds the multipliers of the hyperplanes itself. Where rows lie
# in several partitions, a region holds the bounds of one of them: it returns sums at candidate multipliers, which
# are added up elsewhere, and takes the prox at those that were found.

Sums = NDArray[np.float64]
_MOST_ROUNDS = 200
_LEAST_ERROR, _ROUNDING = 1e-16, 1e-13  # of a sum, in its size


class Region:
    """A convex function of points (m,) with a cheap prox: the indicator of a set, or a barrier on one.

    upper : bound of the entries, a number or (m,); lower is 0 where rows lie in several partitions
    candidates_a_round : of each multiplier that partitions evaluate at once
    """

    upper: Bound
    candidates_a_round = 16

    @property
    def aim(self) -> FloatArray:
        """Return what the first point is the prox of, (n_groups,) or (1,)."""
        return np.zeros(1)

    def value(self, point: FloatArray) -> float:
        """Return the value of a feasible point, 0 for a set."""
        return 0.0

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Overwrite out, not `point` itself, by the minimiser of the function plus lipschitz / 2 ||a - point||^2."""
        raise NotImplementedError

    @property
    def normals(self) -> FloatArray:
        """Return the normals (n_multipliers, 2) of the hyperplanes, one number a sign, +1 first."""
        return np.empty((0, 2))

    @property
    def totals(self) -> FloatArray:
        """Return the sums (n_multipliers,) that the hyperplanes prescribe.

        Raises ConfigError : rows of such a region cannot lie in several partitions
        """
        raise ConfigError(f"Shards cannot project onto {type(self).__name__}. Train this model in memory.")

    def part(self, take: Take, signs: FloatArray, point: FloatArray | None = None) -> Self:
        """Return the region of some rows of these signs; prescribed sums are those of their point, if it is given."""
        raise NotImplementedError

    def sums(self, point: FloatArray, lipschitz: float, candidates: FloatArray) -> Sums:
        """Return the hyperplanes' sums at candidates (n_multipliers, K), how fast they fall, and their terms' size.

        (n_multipliers, K, 3)
        """
        raise NotImplementedError

    def prox_at(self, out: FloatArray, point: FloatArray, lipschitz: float, multipliers: FloatArray) -> None:
        """Overwrite out (m,) by the prox at multipliers (n_multipliers,)."""
        raise NotImplementedError


# Barriers: conjugates with infinite slopes at the bounds of their box.
#
# The paper keeps away from the border by a small margin xi and takes gradients, which grow as 1 / xi: the gap cannot
# close, or iterations grow. Their prox costs a few exponentials or roots an entry, knows no margin, and leaves the
# Lipschitz constant to the data.


@dataclass(frozen=True, eq=False)
class _Barrier(Region):
    """A barrier on 0 <= a_i <= u_i, with sum_i s_i a_i = 0 if there is a hyperplane."""

    # a prox takes exponentials or roots an entry and candidate, that of a set next to nothing
    candidates_a_round = 3

    signs: FloatArray
    upper: FloatArray
    hyperplane: bool

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Overwrite out; the point is read once a round of the search for the multiplier.

        That is the root of a falling function, by Newton's method, guarded by a bracket; the last round is there.
        """
        low, high, multiplier, reach = -np.inf, np.inf, 0.0, 1e-3
        value, fall, size = self._at(out, point, lipschitz, multiplier, True)
        for _ in range(_MOST_ROUNDS if self.hyperplane else 0):
            if abs(value) <= _LEAST_ERROR * size:
                break
            low, high = (multiplier, high) if value > 0.0 else (low, multiplier)
            following = multiplier + value / fall if fall > 0.0 else np.inf
            if not low < following < high or abs(following - multiplier) > 1e3 * reach:
                # flat where all entries are at a bound: double the interval until the root is passed
                inside = np.isfinite(low) and np.isfinite(high)
                following = 0.5 * (low + high) if inside else multiplier + np.copysign(reach, value)
                reach *= 8.0
            if following == multiplier:
                break
            before, multiplier = abs(value), following
            value, fall, size = self._at(out, point, lipschitz, multiplier, False)
            if before <= _ROUNDING * size and abs(value) > 0.5 * before:  # what is left is rounding
                break

    @property
    def normals(self) -> FloatArray:
        return np.array([[1.0, -1.0]])[: int(self.hyperplane)]

    @property
    def totals(self) -> FloatArray:
        return np.zeros(int(self.hyperplane))

    def part(self, take: Take, signs: FloatArray, point: FloatArray | None = None) -> Self:
        assert point is None, "rows of a barrier are not shrunk"
        return replace(self, signs=signs, upper=take(self.upper))

    def sums(self, point: FloatArray, lipschitz: float, candidates: FloatArray) -> Sums:
        # afresh: what comes out must not depend on which multipliers were tried before
        tried = [self._at(self._room, point, lipschitz, float(tried), True) for tried in candidates.ravel()]
        return np.array(tried).reshape(*candidates.shape, 3)

    def prox_at(self, out: FloatArray, point: FloatArray, lipschitz: float, multipliers: FloatArray) -> None:
        self._at(out, point, lipschitz, float(multipliers[0]) if len(multipliers) else 0.0, True)

    def _at(
        self, out: FloatArray, point: FloatArray, lipschitz: float, multiplier: float, first: bool
    ) -> tuple[float, float, float]:
        """Overwrite out by the prox at a multiplier; return its signed sum, how fast that falls, and its size."""
        raise NotImplementedError

    @cached_property
    def _room(self) -> FloatArray:
        return np.empty(len(self.signs))


@stored("entropy-barrier-region", renamed={"total": None})
@stored("entropy-barrier-shard-region")  # its tag where it held the rows of a shard
@dataclass(frozen=True, eq=False)
class EntropyBarrier(_Barrier):
    """sum_i a_i log(a_i / u_i) + (u_i - a_i) log((u_i - a_i) / u_i) over 0 <= a_i <= u_i, with sum_i s_i a_i = 0.

    signs : s (m,); upper : u (m,) >= 0; hyperplane : whether the sum is bound
    """

    def value(self, point: FloatArray) -> float:
        return float(dual_steps.entropy_sum(point, self.upper))

    def _at(
        self, out: FloatArray, point: FloatArray, lipschitz: float, multiplier: float, first: bool
    ) -> tuple[float, float, float]:
        return dual_steps.entropy_prox(out, self._logits, point, self.signs, self.upper, lipschitz, multiplier, first)

    @cached_property
    def _logits(self) -> FloatArray:
        return np.empty(len(self.signs))


@stored("square-root-barrier-region", renamed={"total": None})
@stored("square-root-barrier-shard-region")  # its tag where it held the rows of a shard
@dataclass(frozen=True, eq=False)
class SquareRootBarrier(_Barrier):
    """sum_i -2 sqrt(c_i a_i) over 0 <= a_i <= u_i, with sum_i s_i a_i = 0.

    signs, upper, hyperplane : as of EntropyBarrier; scales : c (m,) >= 0
    """

    scales: FloatArray

    @property
    def aim(self) -> FloatArray:
        """Return the upper bounds: roots have no finite slope at 0."""
        return np.asarray(self.upper)

    def value(self, point: FloatArray) -> float:
        return float(dual_steps.square_root_sum(point, self.scales))

    def part(self, take: Take, signs: FloatArray, point: FloatArray | None = None) -> SquareRootBarrier:
        return replace(super().part(take, signs, point), scales=take(self.scales))

    def _at(
        self, out: FloatArray, point: FloatArray, lipschitz: float, multiplier: float, first: bool
    ) -> tuple[float, float, float]:
        return dual_steps.square_root_prox(out, point, self.signs, self.scales, self.upper, lipschitz, multiplier)


class BoxSet(Region):
    """Base of sets lower <= a_i <= upper with hyperplanes by the sign of a row; signs (m,), -1 or +1."""

    signs: FloatArray
    lower: Bound

    @property
    def totals(self) -> FloatArray:
        """Return nothing: there is no hyperplane."""
        return np.empty(0)

    def sums(self, point: FloatArray, lipschitz: float, candidates: FloatArray) -> Sums:
        """Return the sum for each normal, whose two numbers multiply the entries of sign +1 and -1."""
        totals = np.zeros((len(self.normals), candidates.shape[1], 3))
        for k, normal in enumerate(self.normals):
            sums = np.zeros((2, candidates.shape[1], 2))
            thresholds = np.ascontiguousarray(normal[:, np.newaxis] * candidates[k])
            clipped_sums(sums, point, self.signs, np.asarray(self.upper), thresholds)
            totals[k, :, 0] = normal @ sums[:, :, 0]
            totals[k, :, 1] = np.square(normal) @ sums[:, :, 1]
            totals[k, :, 2] = np.abs(normal) @ sums[:, :, 0]
        return totals

    def prox_at(self, out: FloatArray, point: FloatArray, lipschitz: float, multipliers: FloatArray) -> None:
        plus, minus = multipliers @ self.normals if len(self.normals) else (0.0, 0.0)
        clip_by_sign(out, point, self.signs, np.asarray(self.upper), float(plus), float(minus))


def filled(bound: Bound, size: int) -> Doubles:
    """Return the bounds of `size` entries, (size,)."""
    return np.array(np.broadcast_to(bound, size), dtype=np.float64)


def _some(bound: Bound, take: Take) -> Bound:
    """Return the bounds of some rows; a number is that of all."""
    return take(bound) if isinstance(bound, np.ndarray) else bound


@stored("box-region")
@dataclass(frozen=True, eq=False)
class BoxRegion(BoxSet):
    """lower <= a_i <= upper: of a model without a bias; bounds are numbers or (m,), upper may be infinite."""

    lower: Bound
    upper: Bound

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        np.clip(point, self.lower, self.upper, out=out)

    def part(self, take: Take, signs: FloatArray, point: FloatArray | None = None) -> BoxRegion:
        return BoxRegion(_some(self.lower, take), take(self.upper))

    def prox_at(self, out: FloatArray, point: FloatArray, lipschitz: float, multipliers: FloatArray) -> None:
        self.prox(out, point, lipschitz)


@stored("box-hyperplane-region")
@stored("clipped-region")  # the tag of all sets where they held the rows of a shard
@dataclass(frozen=True, eq=False)
class BoxHyperplane(BoxSet):
    """lower <= a_i <= upper and sum_i s_i a_i = total; signs (m,) -1 or +1.

    Source: Ito et al., 2017, (20).
    """

    signs: FloatArray
    lower: Bound
    upper: Bound
    total: float = 0.0

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        self.prepared.project(out, point)

    @property
    def normals(self) -> FloatArray:
        return np.array([[1.0, -1.0]])

    @property
    def totals(self) -> FloatArray:
        return np.array([self.total])

    def part(self, take: Take, signs: FloatArray, point: FloatArray | None = None) -> BoxHyperplane:
        normal = np.asarray(take(self.signs))
        normal = signs if np.array_equal(normal, signs) else normal  # one array for both, as large as the rows
        total = self.total if point is None else float(normal @ point)
        return BoxHyperplane(normal, _some(self.lower, take), take(self.upper), total)

    @cached_property
    def prepared(self) -> PreparedSet:
        """Prepare the set for repeated projections."""
        return hyperplane_set(self.signs.astype(np.int8), self.lower, self.upper, self.total)


def box(signs: FloatArray, lower: Bound, upper: Bound, hyperplane: bool) -> BoxRegion | BoxHyperplane:
    """Return lower <= a_i <= upper, with sum_i s_i a_i = 0 for a model with a bias."""
    return BoxHyperplane(signs, lower, upper) if hyperplane else BoxRegion(lower, upper)


@stored("simplex-pair-region")
@dataclass(frozen=True, eq=False)
class SimplexPair(BoxSet):
    """0 <= a_i <= upper, the entries of sign +1 summing to plus and those of sign -1 to minus; signs (m,) -1 or +1.

    Source: Ito et al., 2017, (21) and (22), where both sum to 1/2; other totals are those of a part of the rows.
    """

    signs: FloatArray
    upper: Bound
    plus: float = 0.5
    minus: float = 0.5

    lower = 0.0

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        self.prepared.project(out, point)

    @property
    def normals(self) -> FloatArray:
        return np.eye(2)

    @property
    def totals(self) -> FloatArray:
        return np.array([self.plus, self.minus])

    def part(self, take: Take, signs: FloatArray, point: FloatArray | None = None) -> SimplexPair:
        if point is None:
            return replace(self, signs=signs, upper=take(self.upper))
        return SimplexPair(signs, take(self.upper), float(point[signs > 0].sum()), float(point[signs < 0].sum()))

    @cached_property
    def prepared(self) -> PreparedSet:
        """Prepare the set for repeated projections."""
        return pair_set(self.signs.astype(np.int8), 0.0, self.upper, self.plus, self.minus)


# Losses as functions of margins and bias.
#
# Margins are s_i <w, z_i>, (m,); with a bias the loss of row i is that of margin_i - s_i bias.

_Slope = Callable[[float], float]
_KINK = 0.05  # of margins, to either side of a kink


class Risk:
    """The loss part of a primal objective.

    Where rows lie in several partitions, a risk holds the rows of one of them. It is then a function of thresholds, the
    bias or quantiles of the margins, at which the slopes of all partitions sum to 0.
    """

    def value(self, margins: FloatArray, bias: float) -> float:
        """Return the risk of margins (m,) with a bias."""
        raise NotImplementedError

    def best_bias(self, margins: FloatArray) -> float:
        """Return the bias of least risk, the model's own."""
        raise NotImplementedError

    def part(self, take: Take, signs: FloatArray) -> Self:
        """Return the risk of some rows of these signs."""
        raise NotImplementedError

    def totals(self, intercept: bool) -> FloatArray:
        """Return what the whole risk adds to the sum of the slopes at each threshold, (n_thresholds,)."""
        raise NotImplementedError

    def slopes(self, margins: FloatArray, candidates: FloatArray) -> Sums:
        """Return minus the derivative, 0, and the size of its terms at candidates (n_thresholds, K): (.., K, 3)."""
        raise NotImplementedError

    def sum_at(self, margins: FloatArray, thresholds: FloatArray) -> float:
        """Return the sum over the rows at thresholds (n_thresholds,)."""
        raise NotImplementedError

    def bias_at(self, thresholds: FloatArray) -> float:
        """Return the bias that thresholds (n_thresholds,) imply."""
        raise NotImplementedError


class MarginLoss(Protocol):
    """A convex, falling function of the margin, entry by entry."""

    def value(self, margins: FloatArray) -> FloatArray: ...

    def derivative(self, margins: FloatArray) -> FloatArray: ...


@stored("sum-of-losses-risk")
@dataclass(frozen=True, eq=False)
class SumOfLosses(Risk):
    """sum_i weight_i loss(margin_i - s_i bias).

    signs : s (m,), -1 or +1; weights : (m,) >= 0
    """

    loss: MarginLoss
    signs: FloatArray
    weights: FloatArray

    def value(self, margins: FloatArray, bias: float) -> float:
        return float(self.weights @ self.loss.value(margins - bias * self.signs))

    def slope(self, margins: FloatArray, bias: float) -> float:
        """Return the derivative of the sum by the bias, which never decreases."""
        return -float((self.weights * self.signs) @ self.loss.derivative(margins - bias * self.signs))

    def best_bias(self, margins: FloatArray) -> float:
        """Return the root of the slope; losses with a kink have theirs where the slope jumps past 0."""
        low, high = _bracket(lambda bias: self.slope(margins, bias), 1.0 + float(np.abs(margins).max()))
        if low == high:
            return low
        # any bias has a valid certificate: that of the last step, where margins are so large that 300 are too few
        accuracy: Any = {"xtol": 1e-15, "rtol": 9e-16, "maxiter": 300, "disp": False}
        return float(brentq(lambda bias: self.slope(margins, bias), low, high, **accuracy))

    def duals_at(self, margins: FloatArray) -> FloatArray:
        """Return the dual entries that margins imply: weights times minus the slopes of the loss.

        A loss has no slope at a kink, where entries may be anything: it is taken to change evenly over a small stretch.
        """
        slopes = 0.5 * (self.loss.derivative(margins - _KINK) + self.loss.derivative(margins + _KINK))
        return -self.weights * slopes

    def part(self, take: Take, signs: FloatArray) -> SumOfLosses:
        return SumOfLosses(self.loss, signs, np.asarray(take(self.weights)))

    def totals(self, intercept: bool) -> FloatArray:
        return np.zeros(int(intercept))

    def slopes(self, margins: FloatArray, candidates: FloatArray) -> Sums:
        size = float(self.weights.sum())
        slopes = [(-self.slope(margins, float(bias)), 0.0, size) for bias in candidates.ravel()]
        return np.array(slopes).reshape(*candidates.shape, 3)

    def sum_at(self, margins: FloatArray, thresholds: FloatArray) -> float:
        return self.value(margins, self.bias_at(thresholds))

    def bias_at(self, thresholds: FloatArray) -> float:
        return float(thresholds[0]) if len(thresholds) else 0.0


def _bracket(slope: _Slope, reach: float) -> tuple[float, float]:
    """Return biases where a growing slope is below 0 and above, both the same where it is 0."""
    for _ in range(60):
        below, above = slope(-reach), slope(reach)
        if below < 0.0 < above:
            return -reach, reach
        if below == 0.0 == above:  # no row weighs anything there
            return 0.0, 0.0
        reach *= 2.0
    return 0.0, 0.0


def error_minimising_bias(scores: FloatArray, labels: FloatArray, sample_weight: FloatArray | None = None) -> float:
    """Find a bias b with the fewest errors of the sign of score - b, half way between two scores.

    scores : (m,), <w, x_i> without any bias; labels : (m,), -1 or +1
    sample_weight : (m,) or None, what an error on a row counts
    Returns the first of the best biases; one beyond all scores where one answer for all rows is best.

    Source: Ito et al., 2017, (26) and its four steps; equal scores are never separated.
    """
    order = np.argsort(scores, kind="stable")
    ordered = np.asarray(scores, dtype=np.float64)[order]
    counted = np.asarray(labels, dtype=np.float64)
    if sample_weight is not None:
        counted = counted * sample_weight
    # errors less those of predicting +1 everywhere, with the first k rows predicted -1
    errors = np.concatenate([[0.0], np.cumsum(counted[order])])
    edges = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    errors[edges[:-1] == edges[1:]] = np.inf
    best = int(np.argmin(errors))
    return float(0.5 * (edges[best] + edges[best + 1]))


# Means and covariances of two classes.

_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight (count), mean (n,) and scatter (n, n), the sum of outer products of deviations, of weighted rows."""

    count: float
    mean: Doubles
    scatter: Doubles

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows together. Source: Chan, Golub & LeVeque, COMPSTAT 1982, (2.1)."""
        if self.count == 0 or other.count == 0:
            return other if self.count == 0 else self
        count = self.count + other.count
        apart = other.mean - self.mean
        outer = (self.count * other.count / count) * np.outer(apart, apart)
        return Moments(count, self.mean + (other.count / count) * apart, self.scatter + other.scatter + outer)

    @property
    def covariance(self) -> Doubles:
        """Return scatter over count, (n, n): with count - 1 Table 10 of Ito et al., 2017, is met to two digits only."""
        return self.scatter / self.count


def moments_of(rows: FloatArray, weights: Doubles | None = None) -> Moments:
    """Return the float64 moments of a block of rows (m, n) with weights (m,), or 1."""
    block = np.asarray(rows, dtype=np.float64)
    weights = None if weights is None or (weights == 1.0).all() else weights
    count = float(len(block) if weights is None else weights.sum())
    if count == 0.0:
        return Moments(0.0, np.zeros(block.shape[1]), np.zeros((block.shape[1], block.shape[1])))
    with one_blas_thread():
        mean = block.mean(axis=0) if weights is None else np.asarray(weights @ block / count, dtype=np.float64)
        deviations = block - mean
        weighted = deviations if weights is None else deviations * weights[:, np.newaxis]
        scatter: Doubles = weighted.T @ deviations
    return Moments(count, mean, scatter)


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Moments of the rows of either class. Raises DataError (a class has no rows, or none of any weight)."""

    positive: Moments
    negative: Moments

    def __post_init__(self) -> None:
        if min(self.positive.count, self.negative.count) <= 0.0:
            raise DataError(
                f"A covariance requires rows of both classes, but their total weights are {self.positive.count:g} "
                f"and {self.negative.count:g}. Give some rows of each class weights above 0."
            )

    @property
    def difference(self) -> Doubles:
        """Return the mean of the positives minus the mean of the negatives, (n,)."""
        return self.positive.mean - self.negative.mean

    @property
    def total_covariance(self) -> Doubles:
        """Return the sum of both covariances, (n, n)."""
        return self.positive.covariance + self.negative.covariance


def moments_by_class(
    blocks: Iterable[tuple[FloatArray, FloatArray, FloatArray | None]], n_columns: int
) -> tuple[Moments, Moments]:
    """Return the moments of rows of +1 and of -1, merged in order from blocks (rows, signs, weights or None)."""
    totals = [moments_of(np.empty((0, n_columns)))] * 2
    for rows, signs, weights in blocks:
        for k, sign in enumerate((1.0, -1.0)):
            chosen = signs == sign
            totals[k] = totals[k].merged(moments_of(rows[chosen], None if weights is None else weights[chosen]))
    return totals[0], totals[1]


def class_moments(rows: DenseRows, sample_weight: FloatArray | None = None) -> ClassMoments:
    """Return the moments of each class with sample_weight (m,), or 1."""
    weights = None if sample_weight is None else weights_of(rows, sample_weight)
    cuts = [slice(first, first + _BLOCK) for first in range(0, rows.n_points, _BLOCK)]
    blocks = ((rows.rows[cut], rows.signs[cut], None if weights is None else weights[cut]) for cut in cuts)
    return ClassMoments(*moments_by_class(blocks, rows.n_image))


_ALIKE = 1e6  # ratio of variances up to which eigenvalues are exact enough as they are


def square_root(covariance: FloatArray) -> Doubles:
    """Return a square root S (n, n) of a positive semidefinite matrix S S', by its eigenvalues.

    It is symmetric, unless columns are of very different size: then it is that of their correlations, times these
    sizes, as an eigenvalue is rounded by the size of the largest.
    """
    variances = np.diagonal(covariance)
    positive = variances[variances > 0.0]
    sizes = np.ones(len(variances))
    if len(positive) and positive.max() > _ALIKE * positive.min():
        sizes = np.sqrt(np.where(variances > 0.0, variances, 1.0))
    with one_blas_thread():
        values, vectors = np.linalg.eigh(covariance / sizes / sizes[:, np.newaxis])
        root: Doubles = sizes[:, np.newaxis] * ((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
    return np.ascontiguousarray(root)


def _spectrum(matrix: FloatArray) -> tuple[Doubles, Doubles, NDArray[np.bool_]]:
    """Return eigenvalues (n,) and their vectors (n, n) of a symmetric matrix, and which values are above rounding."""
    with one_blas_thread():
        values, vectors = np.linalg.eigh(matrix)
    return values, vectors, values > len(values) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)


def range_of(matrix: FloatArray) -> Doubles:
    """Return an orthonormal basis (n, r) of the range of a positive semidefinite matrix (n, n)."""
    _, vectors, positive = _spectrum(matrix)
    return vectors[:, positive]


def inverse_form(matrix: FloatArray, vector: FloatArray) -> float:
    """Return v'M^+ v of a positive semidefinite matrix and its pseudoinverse: what v has outside its range is left."""
    values, vectors, positive = _spectrum(matrix)
    with one_blas_thread():
        parts = vectors.T @ vector
    return float(np.sum(parts[positive] ** 2 / values[positive]))
