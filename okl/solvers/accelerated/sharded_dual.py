"""Dual problems over shards."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from okl.compiled.dual_steps import descend, extrapolate, inner, squared_distance, step_sums
from okl.data.dataset import Shard
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray, IntArray
from okl.solvers.accelerated.base import Certificate
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.method import Checked, Iterate, StepOutcome
from okl.solvers.accelerated.problem import EntropyBarrier, Outer, Quadratic, Risk, RootsBarrier, Separable, SumOfLosses
from okl.solvers.accelerated.shards import (
    MappedRows,
    RootSearch,
    Sums,
    find_roots,
    groups_of_class,
    normals_of,
    outer_at,
    part_of,
    signs_of_class,
    spread,
    upper_of,
)
from okl.solvers.rounds import Rounds, Verdict, added

# The loss part of a primal objective, spread over the rows of a shard, and the search for the best bias.


class ShardRisk(Protocol):
    """The part of a risk that the rows of a shard are, as a function of thresholds: the bias, or quantiles.

    slopes : (n_thresholds, K, 3) at candidates (n_thresholds, K): minus the derivative, 0, and the size of its terms
    value : at thresholds (n_thresholds,)
    """

    def slopes(self, margins: FloatArray, candidates: FloatArray) -> NDArray[np.float64]: ...

    def value(self, margins: FloatArray, thresholds: FloatArray) -> float: ...


@dataclass(frozen=True, eq=False)
class LossPart:
    """sum_i weight_i loss(margin_i - s_i bias); the one threshold is the bias."""

    sum: SumOfLosses

    def slopes(self, margins: FloatArray, candidates: FloatArray) -> NDArray[np.float64]:
        """Return the slopes of the bias."""
        size = float(self.sum.weights.sum())
        slopes = [(-self.sum.slope(margins, float(bias)), 0.0, size) for bias in candidates.ravel()]
        return np.array(slopes).reshape(*candidates.shape, 3)

    def value(self, margins: FloatArray, thresholds: FloatArray) -> float:
        """Return the sum."""
        return self.sum.value(margins, float(thresholds[0]) if len(thresholds) else 0.0)


@dataclass(frozen=True, eq=False)
class TailPart:
    """sum_i steepest_i max(0, t - margin_i), t the threshold of the row's class, or of all rows.

    thresholds : 2 for one a class, +1 first, or 1
    """

    signs: FloatArray
    steepest: FloatArray
    thresholds: int

    def slopes(self, margins: FloatArray, candidates: FloatArray) -> NDArray[np.float64]:
        """Return minus the weight of the margins below each candidate."""
        slopes = np.zeros((*candidates.shape, 3))
        for k, chosen in enumerate(self._groups()):
            order = np.argsort(margins[chosen], kind="stable")
            reached = np.concatenate([[0.0], np.cumsum(self.steepest[chosen][order])])
            places = np.searchsorted(margins[chosen][order], candidates[k])
            slopes[k, :, 0], slopes[k, :, 2] = -reached[places], reached[-1]
        return slopes

    def value(self, margins: FloatArray, thresholds: FloatArray) -> float:
        """Return the sum over both classes."""
        return sum(
            float(self.steepest[chosen] @ np.maximum(0.0, threshold - margins[chosen]))
            for chosen, threshold in zip(self._groups(), thresholds, strict=True)
        )

    def _groups(self) -> list[NDArray[np.bool_]]:
        if self.thresholds == 1:
            return [np.ones(len(self.signs), dtype=np.bool_)]
        return [self.signs > 0.0, self.signs < 0.0]


@dataclass(frozen=True)
class Thresholds:
    """Search for the thresholds of a risk, and their meaning.

    totals : (n_thresholds,), added to minus the derivatives; linear : what totals add to the risk, per threshold
    """

    totals: tuple[float, ...]
    tail: bool

    def bias(self, thresholds: FloatArray) -> float:
        """Return the model's own bias."""
        if not len(thresholds):
            return 0.0
        if self.tail:
            return 0.5 * float(thresholds[0] - thresholds[1]) if len(thresholds) == 2 else 0.0
        return float(thresholds[0])

    def risk(self, summed: float, thresholds: FloatArray) -> float:
        """Return the risk, given the sum of the shards' values."""
        return summed - float(np.asarray(self.totals) @ thresholds) if self.tail else summed


def thresholds_of(risk: Risk, intercept: bool) -> Thresholds:
    """Return the thresholds of a model with or without a bias."""
    if isinstance(risk, SumOfLosses):
        return Thresholds((0.0,) if intercept else (), tail=False)
    return Thresholds((0.5, 0.5) if intercept else (1.0,), tail=True)


def risk_part_of(risk: Risk, intercept: bool, signs: FloatArray, groups: IntArray) -> ShardRisk:
    """Return a prototype's risk for rows of the given signs and groups."""
    if isinstance(risk, SumOfLosses):
        return LossPart(SumOfLosses(risk.loss, signs, spread(risk.weights, groups)))
    steepest = risk.steepest  # type: ignore[attr-defined]  # the tail mean of nu-SVM
    return TailPart(signs, spread(steepest, groups), 2 if intercept else 1)


# The search for the multipliers of a step over shards: which candidates go out, how their sums are put together.

_CANDIDATES, _BARRIER_CANDIDATES = 16, 3


def find_shard_multipliers(
    searches: list[RootSearch], totals: FloatArray, answers: list[FloatArray], seek: Callable[[FloatArray], Any]
) -> FloatArray:
    """Return multipliers at which the shards' sums meet the totals, from the first answers of another command."""
    first: list[FloatArray] | None = answers

    def evaluate(candidates: FloatArray) -> FloatArray:
        nonlocal first
        parts, first = first, None
        sums = added(parts if parts is not None else seek(candidates))
        sums[:, :, 0] -= totals[:, np.newaxis]
        sums[:, :, 2] += np.abs(totals)[:, np.newaxis]
        return sums

    return find_roots(searches, evaluate) if searches else np.empty(0)


def candidates_a_round(prototype: DualProblem) -> int:
    """Return the number of candidates of each multiplier in a round."""
    # a barrier's prox takes exponentials or roots an entry and candidate, a set's next to nothing
    return _BARRIER_CANDIDATES if isinstance(prototype.region, EntropyBarrier | RootsBarrier) else _CANDIDATES


def candidates_of(searches: list[RootSearch]) -> FloatArray:
    """Return the candidates of all searches, (n_multipliers, K)."""
    return np.array([search.candidates for search in searches]) if searches else np.empty((0, 0))


# The dual vectors of a shard, which stay on its worker from round to round.


@stored("dual-opening")
@dataclass(frozen=True, eq=False)
class OpenDual:
    """Makes the vectors of a shard.

    rows : of all shards; prototype : of the model; positive : class, None for +1; n_groups : of rows of one weight
    """

    rows: MappedRows
    prototype: DualProblem
    positive: int | None
    n_groups: int = 2

    def __call__(self, shard: Shard) -> DualVectors:
        """Return the problem before the first step."""
        return DualVectors(self, shard)


class DualVectors:
    """A shard's part of the dual points, (m,) float64 each, in private buffers."""

    def __init__(self, opening: OpenDual, shard: Shard) -> None:
        self.shard, self.rows = shard, opening.rows
        targets, self.longest = self.rows.targets(shard)
        self.prototype = prototype = opening.prototype
        self.signs = signs_of_class(targets, opening.positive)
        self.groups = groups_of_class(targets, opening.positive, opening.n_groups)
        self.region = part_of(prototype.region, self.signs, self.groups)
        self.risk = risk_part_of(prototype.risk, prototype.intercept, self.signs, self.groups)
        self.separable = _spread(prototype.separable, self.groups)
        self.current, self.previous, self.there, self.new = (np.zeros(shard.rows) for _ in range(4))
        self.gradient, self.target, self.margins = (np.zeros(shard.rows) for _ in range(3))

    def finish_step(self, verdict: Verdict) -> None:
        """Turn the buffers round, or forget the momentum."""
        if verdict != "drop":
            self.previous, self.current, self.new = self.current, self.new, self.previous
        if verdict != "keep":
            self.previous[:] = self.current

    def saved(self) -> NDArray[np.float64]:
        """Return (2, m)."""
        return np.stack([self.current, self.previous])

    def restore(self, saved: NDArray[np.float64]) -> None:
        """Restore the saved vectors."""
        self.current[:], self.previous[:] = saved


def _spread(separable: Separable, groups: IntArray) -> Separable:
    if isinstance(separable, Quadratic):
        return Quadratic(spread(separable.curvatures, groups))
    return separable


# What shards do for a dual problem: the commands that move their dual vectors.


@stored("dual-extrapolation")
class Extrapolation(NamedTuple):
    """Start of the next step: the momentum, the image there, and the slope of the outer function."""

    momentum: float
    image: FloatArray
    slope: float


class StepPart(NamedTuple):
    """A shard's part of a step: its image (n_columns,), and sums over its rows; see StepOutcome.

    separable, penalty : of the new point; excess : of the separable part, NaN unless requested
    """

    image: FloatArray
    squared_step: float
    turn: float
    separable: float
    penalty: float
    excess: float


@stored("dual-measure-command")
@dataclass(frozen=True, eq=False)
class Measure:
    """The longest row's squared length, and the largest entry of the current point."""

    def run(self, vectors: DualVectors) -> tuple[float, float]:
        """Return both."""
        return vectors.longest, float(vectors.current.max())

    def redo(self, vectors: DualVectors) -> None:
        """Change nothing."""


@stored("dual-begin-command")
@dataclass(frozen=True, eq=False)
class BeginCommand:
    """Aim at one number for each group (n_groups,), or for all (1,): the first point is the prox there."""

    aim: FloatArray
    lipschitz: float
    candidates: FloatArray

    def run(self, vectors: DualVectors) -> Sums:
        """Return sums at the candidates."""
        self.redo(vectors)
        return vectors.region.sums(vectors.target, self.lipschitz, self.candidates)

    def redo(self, vectors: DualVectors) -> None:
        """Aim at the target again."""
        vectors.target[:] = spread(self.aim, vectors.groups)


@stored("dual-aim-command")
@dataclass(frozen=True, eq=False)
class AimCommand:
    """Go to the extrapolated point (None: stay there), compute the gradient and where a step without a set would end.

    candidates : (n_multipliers, K), to evaluate on the way; with no multipliers the step is taken at once
    """

    extrapolation: Extrapolation | None
    lipschitz: float
    candidates: FloatArray
    with_excess: bool

    def run(self, vectors: DualVectors) -> Sums | StepPart:
        """Return sums at the candidates, or the step."""
        self._aim(vectors)
        if len(self.candidates):
            return vectors.region.sums(vectors.target, self.lipschitz, self.candidates)
        return TakeCommand(self.lipschitz, np.empty(0), self.with_excess).run(vectors)

    def redo(self, vectors: DualVectors) -> None:
        """Aim at the target again, and step if the command steps."""
        self._aim(vectors)
        if not len(self.candidates):
            TakeCommand(self.lipschitz, np.empty(0), self.with_excess).redo(vectors)

    def _aim(self, vectors: DualVectors) -> None:
        extrapolated, gradient = vectors.there, vectors.gradient
        if self.extrapolation is not None:
            momentum, image, slope = self.extrapolation
            extrapolate(extrapolated, vectors.current, vectors.previous, momentum)
            vectors.rows.pull(gradient, vectors.shard, vectors.signs, image)
            np.multiply(gradient, slope, out=gradient)
            vectors.separable.add_slopes(gradient, extrapolated)
        descend(vectors.target, extrapolated, gradient, 1.0 / self.lipschitz)


@stored("dual-seek-command")
@dataclass(frozen=True, eq=False)
class SeekCommand:
    """Sums of the set at candidate multipliers, at the target aimed at last."""

    lipschitz: float
    candidates: FloatArray

    def run(self, vectors: DualVectors) -> Sums:
        """Return the sums."""
        return vectors.region.sums(vectors.target, self.lipschitz, self.candidates)

    def redo(self, vectors: DualVectors) -> None:
        """Change nothing."""


@stored("dual-take-command")
@dataclass(frozen=True, eq=False)
class TakeCommand:
    """Take the step to the prox of the target, at these multipliers."""

    lipschitz: float
    multipliers: FloatArray
    with_excess: bool

    def run(self, vectors: DualVectors) -> StepPart:
        """Return the image of the new point and sums over the rows."""
        self.redo(vectors)
        new, extrapolated = vectors.new, vectors.there
        squared, turn = step_sums(new, extrapolated, vectors.gradient, vectors.current)
        return StepPart(
            vectors.rows.image(vectors.shard, vectors.signs, new),
            float(squared),
            float(turn),
            vectors.separable.value(new),
            vectors.region.value(new),
            vectors.separable.excess(new, extrapolated) if self.with_excess else np.nan,
        )

    def redo(self, vectors: DualVectors) -> None:
        """Step again."""
        vectors.region.prox(vectors.new, vectors.target, self.lipschitz, self.multipliers)


@stored("dual-stepped")
@dataclass(frozen=True, eq=False)
class StepSums:
    """A step that was kept, with all it takes to go it again."""

    extrapolation: Extrapolation
    lipschitz: float
    multipliers: FloatArray

    def redo(self, vectors: DualVectors) -> None:
        """Go it."""
        AimCommand(self.extrapolation, self.lipschitz, np.empty((1, 0)), False).redo(vectors)
        TakeCommand(self.lipschitz, self.multipliers, False).redo(vectors)
        vectors.finish_step("keep")


@stored("dual-begun")
@dataclass(frozen=True, eq=False)
class BeginSums:
    """The first point, with all it takes to find it again."""

    aim: FloatArray
    lipschitz: float
    multipliers: FloatArray

    def redo(self, vectors: DualVectors) -> None:
        """Go there."""
        BeginCommand(self.aim, self.lipschitz, np.empty((1, 0))).redo(vectors)
        TakeCommand(self.lipschitz, self.multipliers, False).redo(vectors)
        vectors.finish_step("begin")


@stored("dual-dropped")
@dataclass(frozen=True, eq=False)
class RestSums:
    """A step that was dropped."""

    def redo(self, vectors: DualVectors) -> None:
        """Forget the momentum."""
        vectors.finish_step("drop")


# Start of a run over shards for a dual problem, and its state between checks.


@stored("dual-carried-sums")
@dataclass(frozen=True, eq=False)
class RunMemory:
    """Memory of a run from check to check, in addition to points and step-size state.

    penalty : of the current point; first_length, longest_first : of the first point, which smoothing goes by
    multipliers, reaches : of the last step, and how far they moved; thresholds, bias_reaches : of the last check
    """

    penalty: float
    first_length: float
    longest_first: float
    multipliers: FloatArray
    reaches: FloatArray
    thresholds: FloatArray
    threshold_reaches: FloatArray


def begin_dual(prototype: DualProblem, rounds: Rounds) -> tuple[float, Iterate, RunMemory]:
    """Bring the shards to the model's first point.

    Returns
    -------
    the first guess at the Lipschitz constant, the image of the first point, and what to carry on
    """
    upper = upper_of(prototype.region)
    widest = float(upper.max()) if np.isfinite(upper).all() else 1.0
    totals = normals_of(prototype.region)[1]
    # the roots of DWD have no finite slope at 0: its first point is the prox at the other end, as in memory
    aim = upper if isinstance(prototype.region, RootsBarrier) else np.zeros(1)
    n_candidates = candidates_a_round(prototype)
    searches = [RootSearch(0.0, widest, n_candidates) for _ in totals]
    begin = BeginCommand(aim, 1.0 / widest, candidates_of(searches))
    multipliers = find_shard_multipliers(
        searches, totals, rounds.request(begin), lambda tried: rounds.request(SeekCommand(1.0 / widest, tried))
    )
    parts: list[StepPart] = rounds.request(TakeCommand(1.0 / widest, multipliers, False))
    rounds.finish_step("begin", BeginSums(aim, 1.0 / widest, multipliers))
    measured: list[tuple[float, float]] = rounds.request(Measure())
    rounds.forget_pending()
    longest, largest = (max(measures) for measures in zip(*measured, strict=True))
    image = added([part.image for part in parts])
    n_thresholds = len(thresholds_of(prototype.risk, prototype.intercept).totals)
    carried = RunMemory(
        penalty=sum(part.penalty for part in parts),
        first_length=math.sqrt(inner(image, image)),
        longest_first=math.sqrt(longest) * largest,
        multipliers=multipliers,
        reaches=np.full(len(totals), widest),
        thresholds=np.zeros(n_thresholds),
        threshold_reaches=np.full(n_thresholds, np.inf),
    )
    outer = outer_at(prototype, 0, carried.first_length, carried.longest_first)
    lipschitz = max(longest * max(1e-3, outer.slope(longest)), float(np.finfo(np.float32).tiny)) + prototype.curvature
    return lipschitz, Iterate(np.empty(0), image), carried


# Commands of shards for a check of a dual problem, which evaluate the current point and drop the step.


class LookPart(NamedTuple):
    """A shard's part of a check: sums over its rows at the current point.

    margin : the largest absolute one; largest : dual entry; sums : at the candidate multipliers
    """

    separable: float
    penalty: float
    margin: float
    sums: Sums


@stored("dual-look-command")
@dataclass(frozen=True, eq=False)
class LookCommand:
    """Evaluate the current point: its margins, and the end of a step from there."""

    image: FloatArray
    slope: float
    lipschitz: float
    candidates: FloatArray

    def run(self, vectors: DualVectors) -> LookPart:
        """Return sums over the rows."""
        self.redo(vectors)
        current = vectors.current
        return LookPart(
            vectors.separable.value(current),
            vectors.region.value(current),
            float(np.abs(vectors.margins).max()),
            vectors.region.sums(vectors.target, self.lipschitz, self.candidates)
            if len(self.candidates)
            else np.empty((0, 0, 3)),
        )

    def redo(self, vectors: DualVectors) -> None:
        """Compute margins and target again."""
        vectors.rows.pull(vectors.margins, vectors.shard, vectors.signs, self.image)
        np.multiply(vectors.margins, self.slope, out=vectors.margins)
        vectors.gradient[:] = vectors.margins
        vectors.separable.add_slopes(vectors.gradient, vectors.current)
        descend(vectors.target, vectors.current, vectors.gradient, 1.0 / self.lipschitz)


@stored("dual-slopes-command")
@dataclass(frozen=True, eq=False)
class RiskSlopes:
    """Slopes of the risk at candidate thresholds, (n_thresholds, K)."""

    candidates: FloatArray

    def run(self, vectors: DualVectors) -> NDArray[np.float64]:
        """Return (n_thresholds, K, 3)."""
        return vectors.risk.slopes(vectors.margins, self.candidates)

    def redo(self, vectors: DualVectors) -> None:
        """Change nothing."""


@stored("dual-value-command")
@dataclass(frozen=True, eq=False)
class Value:
    """The risk at thresholds, and how far the prox of the target is from the current point."""

    thresholds: FloatArray
    lipschitz: float
    multipliers: FloatArray

    def run(self, vectors: DualVectors) -> tuple[float, float]:
        """Risk and squared distance."""
        self.redo(vectors)
        risk = vectors.risk.value(vectors.margins, self.thresholds)
        return risk, float(squared_distance(vectors.new, vectors.current))

    def redo(self, vectors: DualVectors) -> None:
        """Drop the step."""
        vectors.region.prox(vectors.new, vectors.target, self.lipschitz, self.multipliers)


# The verbs of the accelerated method for a dual problem whose vectors are with their shards.

_EPSILON = float(np.finfo(np.float64).eps)
_BIAS_CANDIDATES = 16
_NOTHING = np.empty(0)
Vector = FloatArray


class ShardedDual:
    """Vectors of a run with their shards; the images, which are short, in this process.

    Parameters
    ----------
    prototype : the model on one row of either class, see okl.solvers.accelerated.shards
    outer : of the whole data, at the level in force
    rounds : of messages; current, previous : whose images are those of the vectors there, and which hold no points
    carried : from the check before
    """

    def __init__(
        self,
        prototype: DualProblem,
        outer: Outer,
        rounds: Rounds,
        current: Iterate,
        previous: Iterate,
        carried: RunMemory,
    ) -> None:
        self._prototype, self._outer, self._rounds = prototype, outer, rounds
        self._current, self._previous = current.image, previous.image
        self._totals = normals_of(prototype.region)[1]
        self._kept = carried
        self._extrapolated, self._new = current.image, current.image
        self._extrapolation: Extrapolation | None = None
        self._untold, self._new_penalty, self._new_separable = False, carried.penalty, 0.0
        self._last: tuple[float, Vector] = (math.nan, _NOTHING)
        self.reads = 0

    @property
    def carried(self) -> RunMemory:
        """Return the warm start of the next problem."""
        return self._kept

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous); shards follow with the next step, which reads twice."""
        extrapolated = self._current + momentum * (self._current - self._previous)
        self._extrapolated = extrapolated
        self._extrapolation = Extrapolation(momentum, extrapolated, self._outer.slope(_squared_norm(extrapolated)))
        self._untold = True
        self.reads += 1

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Compute a = prox(b - gradient / lipschitz) and its image."""
        extrapolation = self._extrapolation if self._untold else None
        self._untold = False
        searches = self._searches()
        aim = AimCommand(extrapolation, lipschitz, candidates_of(searches), with_excess)
        if searches:
            multipliers = self._multipliers(searches, lipschitz, self._rounds.request(aim))
            parts: list[StepPart] = self._rounds.request(TakeCommand(lipschitz, multipliers, with_excess))
        else:
            multipliers, parts = _NOTHING, self._rounds.request(aim)
        self._last = (lipschitz, multipliers)
        self.reads += 1
        return self._outcome(parts)

    def accept(self) -> None:
        """Make the step the current point."""
        assert self._extrapolation is not None, "a step was taken"
        self._rounds.finish_step("keep", StepSums(self._extrapolation, *self._last))
        self._previous, self._current = self._current, self._new
        self._kept = replace(self._kept, penalty=self._new_penalty)

    def restart(self) -> None:
        """Throw the step away, and the momentum with it."""
        self._rounds.finish_step("drop", RestSums())
        self._previous = self._current

    def check(self, lipschitz: float) -> Checked:
        """Return F, the certificate and ||T(x) - x|| of the current point; the step is lost."""
        current = self._current
        squared_norm = _squared_norm(current)
        slope = self._outer.slope(squared_norm)
        searches = self._searches()
        parts: list[LookPart] = self._rounds.request(LookCommand(current, slope, lipschitz, candidates_of(searches)))
        multipliers = self._multipliers(searches, lipschitz, [part.sums for part in parts], remember=False)
        thresholds = self._thresholds(max(part.margin for part in parts))
        values: list[tuple[float, float]] = self._rounds.request(Value(thresholds, lipschitz, multipliers))
        self._rounds.forget_pending()
        self.reads += 1
        separable, penalty = sum(part.separable for part in parts), sum(part.penalty for part in parts)
        meaning = thresholds_of(self._prototype.risk, self._prototype.intercept)
        risk = meaning.risk(sum(value[0] for value in values), thresholds)
        certificate = self._certificate(squared_norm, risk, separable + penalty, meaning.bias(thresholds))
        objective = self._outer.value(squared_norm) + separable + penalty
        return Checked(objective, certificate, math.sqrt(sum(value[1] for value in values)))

    def recent(self) -> tuple[Iterate, Iterate]:
        """Return images of current and previous; their points stay where they are."""
        return Iterate(_NOTHING, self._current), Iterate(_NOTHING, self._previous)

    def _outcome(self, parts: list[StepPart]) -> StepOutcome:
        outer, new, extrapolated = self._outer, added([part.image for part in parts]), self._extrapolated
        self._new = new
        penalty = sum(part.penalty for part in parts)
        excess = outer.excess(
            _squared_norm(new), _squared_norm(extrapolated), float(squared_distance(new, extrapolated))
        )
        self._new_penalty = penalty
        return StepOutcome(
            excess=excess + sum(part.excess for part in parts),
            squared_step=sum(part.squared_step for part in parts),
            uphill=sum(part.turn for part in parts) + penalty - self._kept.penalty,
            objective=outer.value(_squared_norm(new)) + sum(part.separable for part in parts) + penalty,
        )

    def _searches(self) -> list[RootSearch]:
        previous = zip(self._kept.multipliers, self._kept.reaches, strict=True)
        n_candidates = candidates_a_round(self._prototype)
        return [RootSearch(float(guess), float(reach), n_candidates) for guess, reach in previous]

    def _multipliers(
        self, searches: list[RootSearch], lipschitz: float, answers: list[Vector], remember: bool = True
    ) -> Vector:
        multipliers = find_shard_multipliers(
            searches, self._totals, answers, lambda tried: self._rounds.request(SeekCommand(lipschitz, tried))
        )
        if remember and len(multipliers):
            moved = np.abs(multipliers - self._kept.multipliers)
            reaches = np.maximum(moved, 1e-3 * self._kept.reaches)
            self._kept = replace(
                self._kept, multipliers=multipliers, reaches=np.maximum(reaches, 1e-14 * np.abs(multipliers))
            )
        return multipliers

    def _thresholds(self, largest_margin: float) -> Vector:
        previous, scale = self._kept, 1.0 + largest_margin
        meaning = thresholds_of(self._prototype.risk, self._prototype.intercept)
        totals = np.asarray(meaning.totals)
        searches = [
            RootSearch(float(guess), float(min(reach, scale)), _BIAS_CANDIDATES, 1e-14 * scale)
            for guess, reach in zip(previous.thresholds, previous.threshold_reaches, strict=True)
        ]

        def evaluate(candidates: Vector) -> Vector:
            slopes = added(self._rounds.request(RiskSlopes(candidates)))
            slopes[:, :, 0] += totals[:, np.newaxis]
            return slopes

        roots = find_roots(searches, evaluate)
        moved = np.maximum(np.abs(roots - previous.thresholds), 1e-12 * scale)
        self._kept = replace(previous, thresholds=roots, threshold_reaches=moved)
        return roots

    def _certificate(self, squared_norm: float, risk: float, rest: float, bias: float) -> Certificate:
        outer = self._outer
        slope, exact = outer.slope(squared_norm), outer.exact(squared_norm)
        regulariser = outer.regulariser(slope * slope * squared_norm)
        return Certificate(
            primal=risk + regulariser,
            dual=-(exact + rest),
            floor=outer.floor(squared_norm),
            bias=bias,
            rounding=8.0 * _EPSILON * (abs(risk) + regulariser + exact + abs(rest)),
        )


def _squared_norm(vector: Vector) -> float:
    return float(inner(vector, vector))
