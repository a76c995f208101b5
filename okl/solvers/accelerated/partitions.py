"""Problems over partitions of the rows: what a partition computes, and the verbs of a method by rounds of commands.

The vectors that are as long as the rows stay with their partition, from round to round. Those as long as the columns
are in this process: of a margin model the images of its dual points, of an l1 model its weights. Commands carry these,
and bring back sums. Rows in memory are one partition, whose sums are those of all rows: there a method calls the
problem itself, see `okl.solvers.accelerated.base.MemoryIterates`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from okl.compiled.dual_steps import descend, inner, squared_distance, step_sums
from okl.data.dataset import Shard
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.solvers.accelerated import base
from okl.solvers.accelerated.dual import DualProblem, PrimalBallProblem, SparseProblem
from okl.solvers.accelerated.problem import HalfSquare, Outer, Region, SumOfLosses, Sums
from okl.solvers.accelerated.shards import MappedRows, RootSearch, WarmStart, find_roots, part_of_shard, spread
from okl.solvers.worker_rounds import Rounds, Verdict, added

_NOTHING = np.empty(0)

# A partition: the vectors of the rows of a shard, and what it computes of them.
#
# Moves change the vectors, results do not. A command is some moves and a result, so that a lost partition repeats the
# moves alone.


@stored("dual-opening", former=("primal-opening",))
@dataclass(frozen=True, eq=False)
class OpenPartition:
    """Makes the partition of a shard.

    rows : of all shards; prototype : of the model, see Classifier.prototype
    positive : class, None for +1; n_groups : of rows of one weight
    """

    rows: MappedRows
    prototype: Any
    positive: int | None
    n_groups: int = 2

    def __call__(self, shard: Shard) -> Partition:
        """Return the partition before the first command, at 0."""
        targets, longest = self.rows.targets(shard)
        problem, groups = part_of_shard(self.prototype, self.rows, shard, targets, self.positive, self.n_groups)
        partition = DualPartition if isinstance(problem, DualProblem) else PrimalPartition
        return partition(problem, groups, longest)


class Partition(base.Vectors):
    """Vectors (m,) float64 of a shard's rows, with their problem, groups, and longest squared length."""

    def __init__(self, problem: Any, groups: IntArray, longest: float, first: base.Iterate) -> None:
        super().__init__(first, first)
        self.problem, self.groups, self.longest = problem, groups, longest

    def finish_step(self, verdict: Verdict) -> None:
        """Make the step the current point, or drop the momentum."""
        if verdict != "drop":
            self.accept()
        if verdict != "keep":
            self.restart()

    def saved(self) -> Doubles:
        """Return (2, m)."""
        return np.stack([np.concatenate([some.point, some.image]) for some in (self.current, self.previous)])

    def restore(self, saved: Doubles) -> None:
        """Restore the saved vectors."""
        for some, values in zip((self.current, self.previous), saved, strict=True):
            some.point[:], some.image[:] = np.split(values, [len(some.point)])


@dataclass(frozen=True, eq=False)
class Command:
    """Methods of a partition with what they are given: moves, then the one that returns its part of the result."""

    moves: tuple[tuple[Any, ...], ...]
    result: tuple[Any, ...]

    def run(self, part: Partition) -> Any:
        """Move, and return the result."""
        self.redo(part)
        method, *given = self.result
        return method(part, *given)

    def redo(self, part: Partition) -> None:
        """Move again."""
        for method, *given in self.moves:
            method(part, *given)


@stored("dual-extrapolation")
class Extrapolation(NamedTuple):
    """Start of the next step: the momentum, the image there, and the slope of the outer function."""

    momentum: float
    image: FloatArray
    slope: float


class StepPart(NamedTuple):
    """A partition's part of a step: its image (n_columns,), and sums over its rows; see StepOutcome.

    separable, penalty : of the new point; excess : of the separable part, NaN unless requested
    """

    image: FloatArray
    squared_step: float
    turn: float
    separable: float
    penalty: float
    excess: float


class CheckPart(NamedTuple):
    """A partition's part of a check: sums over its rows at the current point.

    margin : the largest absolute one; sums : at the candidate multipliers
    terms : sum of entries times lengths of rows, at most
    """

    separable: float
    penalty: float
    margin: float
    sums: Sums
    terms: float


class DualPartition(Partition):
    """Dual points of the rows of a shard; images are sums over all shards, and not here."""

    problem: DualProblem

    def __init__(self, problem: DualProblem, groups: IntArray, longest: float) -> None:
        super().__init__(problem, groups, longest, base.Iterate(np.zeros(len(groups)), _NOTHING))

    @cached_property
    def margins(self) -> Doubles:
        """Return the margins of the weights of a dual point."""
        return np.zeros(len(self.groups))

    def aim_first(self, aim: FloatArray | WarmStart) -> None:
        """Aim at one number for each group (n_groups,), or for all (1,); or at the dual entries that weights imply."""
        if isinstance(aim, WarmStart):
            rows, risk = self.problem.rows, self.problem.risk
            assert isinstance(risk, SumOfLosses), "other risks start at their own points"
            rows.adjoint(self.target, aim.weights)
            self.target[:] = risk.duals_at(self.target - aim.bias * rows.signs)
        else:
            self.target[:] = spread(aim, self.groups)

    def aim(self, extrapolation: Extrapolation | None, lipschitz: float) -> None:
        """Go to the extrapolated point or stay there, and compute where a step that ignores the set would end."""
        if extrapolation is not None:
            momentum, image, slope = extrapolation
            self.extrapolate(momentum)
            self.problem.rows.adjoint(self.gradient, image)
            np.multiply(self.gradient, slope, out=self.gradient)
            self.problem.separable.add_slopes(self.gradient, self.extrapolated.point)
        descend(self.target, self.extrapolated.point, self.gradient, 1.0 / lipschitz)

    def take(self, lipschitz: float, multipliers: FloatArray) -> None:
        """Step to the prox of the target, at these multipliers."""
        self.problem.region.prox_at(self.new.point, self.target, lipschitz, multipliers)

    def look(self, image: FloatArray, slope: float, lipschitz: float) -> None:
        """Compute the margins of the current point, and the end of a step from there."""
        problem, margins, gradient = self.problem, self.margins, self.gradient
        problem.rows.adjoint(margins, image)
        np.multiply(margins, slope, out=margins)
        gradient[:] = margins
        problem.separable.add_slopes(gradient, self.current.point)
        descend(self.target, self.current.point, gradient, 1.0 / lipschitz)

    def measured(self) -> tuple[float, float]:
        """Return the longest row's squared length, and the largest entry of the current point."""
        return self.longest, float(self.current.point.max())

    def sums(self, lipschitz: float, candidates: FloatArray) -> Sums:
        """Return the sums of the region at candidate multipliers (n_multipliers, K), at the target."""
        return self.problem.region.sums(self.target, lipschitz, candidates)

    def stepped(self, with_excess: bool) -> StepPart:
        """Return the image of the new point and sums over the rows."""
        problem, new, extrapolated = self.problem, self.new.point, self.extrapolated.point
        squared, turn = step_sums(new, extrapolated, self.gradient, self.current.point)
        rows: Any = problem.rows
        excess = problem.separable.excess(new, extrapolated) if with_excess else np.nan
        penalty = problem.region.value(new)
        return StepPart(rows.image(new), float(squared), float(turn), problem.separable.value(new), penalty, excess)

    def looked(self, lipschitz: float, candidates: FloatArray) -> CheckPart:
        """Return sums over the rows at the current point."""
        problem, point = self.problem, self.current.point
        sums, largest = self.sums(lipschitz, candidates), float(np.abs(self.margins).max())
        terms = math.sqrt(self.longest) * float(np.abs(point).sum())
        return CheckPart(problem.separable.value(point), problem.region.value(point), largest, sums, terms)

    def risk_slopes(self, candidates: FloatArray) -> Sums:
        """Return slopes (n_thresholds, K, 3) of the risk at candidate thresholds (n_thresholds, K)."""
        return self.problem.risk.slopes(self.margins, candidates)

    def valued(self, thresholds: FloatArray) -> tuple[float, float]:
        """Return the risk at thresholds, and the squared distance of the new point from the current one."""
        risk = self.problem.risk.sum_at(self.margins, thresholds)
        return risk, float(squared_distance(self.new.point, self.current.point))


class PrimalPartition(Partition):
    """Margins of the rows of a shard, the image of weights that are not here."""

    problem: SparseProblem

    def __init__(self, problem: SparseProblem, groups: IntArray, longest: float) -> None:
        super().__init__(problem, groups, longest, base.Iterate(_NOTHING, np.zeros(len(groups))))

    def try_weights(self, weights: FloatArray) -> None:
        """Compute the margins of other weights."""
        self.problem.apply(self.new.image, weights)

    def lengths(self) -> float:
        """Return an upper bound of the largest weight times squared length of a row."""
        return self.longest * float(self.problem.weights.max())

    def slopes(self) -> FloatArray:
        """Return the gradient of the losses over w at the extrapolated point, (n_columns,)."""
        return self._slopes_at(self.extrapolated.image)

    def costs(self, with_excess: bool) -> tuple[float, float]:
        """Return the losses of the weights that are tried, and their excess, NaN unless requested."""
        new, problem = self.new.image, self.problem
        losses = problem.smooth(_NOTHING, new)
        return losses, problem.excess(_NOTHING, new, _NOTHING, self.extrapolated.image) if with_excess else math.nan

    def looked(self) -> tuple[FloatArray, float]:
        """Return gradient and losses at the current margins."""
        return self._slopes_at(self.current.image), self.problem.smooth(_NOTHING, self.current.image)

    def conjugate(self, factor: float) -> float:
        """Return minus the dual objective of the current slopes, made feasible by a factor in (0, 1]."""
        return self.problem.conjugate(self.current.image, factor)

    def risk_slopes(self, candidates: FloatArray) -> Sums:
        """Return slopes (1, K, 3) of the risk at shifts of the bias (1, K)."""
        return self.problem.risk.slopes(self.current.image, candidates)

    def shifted(self, shift: float) -> tuple[FloatArray, float]:
        """Return gradient and losses at the current margins with the bias shifted."""
        margins = self.current.image - shift * self.problem.rows.signs
        return self._slopes_at(margins), self.problem.smooth(_NOTHING, margins)

    def _slopes_at(self, margins: FloatArray) -> FloatArray:
        gradient = np.empty(self.problem.n_points)
        self.problem.adjoint(gradient, margins)
        return gradient


@stored("dual-stepped")
@dataclass(frozen=True, eq=False)
class StepSums:
    """A step that was accepted, with all that repeating it requires."""

    extrapolation: Extrapolation
    lipschitz: float
    multipliers: FloatArray

    def redo(self, part: DualPartition) -> None:
        part.aim(self.extrapolation, self.lipschitz)
        part.take(self.lipschitz, self.multipliers)
        part.finish_step("keep")


@stored("dual-begun", renamed={"warm": "aim"}, former=("warm-started",))
@dataclass(frozen=True, eq=False)
class BeginSums:
    """A first point, with all that finding it again requires."""

    aim: FloatArray | WarmStart
    lipschitz: float
    multipliers: FloatArray

    def redo(self, part: DualPartition) -> None:
        part.aim_first(self.aim)
        part.take(self.lipschitz, self.multipliers)
        part.finish_step("begin")


@stored("dual-dropped")
@dataclass(frozen=True, eq=False)
class DroppedStep:
    """A step that was dropped."""

    def redo(self, part: DualPartition) -> None:
        part.finish_step("drop")


@stored("primal-placed")
@dataclass(frozen=True, eq=False)
class PlacedMargins:
    """Current and previous w: the margins follow."""

    current: FloatArray
    previous: FloatArray

    def redo(self, part: PrimalPartition) -> None:
        part.problem.apply(part.current.image, self.current)
        part.problem.apply(part.previous.image, self.previous)


# A problem over partitions, and what this process holds of its vectors.


@dataclass(frozen=True, eq=False)
class PartitionedProblem(base.Problem):
    """A problem whose rows are in partitions: what methods see of it.

    prototype : the model on one row of each group; rounds : of messages, with what a run remembers from check to check
    first, first_lipschitz : where to start, of a problem that was begun; level : of smoothing
    """

    prototype: Any
    rounds: Rounds
    first: base.Iterate = field(default_factory=lambda: base.Iterate(_NOTHING, _NOTHING))
    first_lipschitz: float = math.nan
    level: int = 0

    @abstractmethod
    def begun(self, n_columns: int, warm: WarmStart | None) -> Self:
        """Bring the partitions to the first point, or to a warm one where its objective is lower."""

    def first_iterate(self, point: FloatArray | None, lipschitz: float) -> base.Iterate:
        """Return the first point, where the partitions are."""
        assert point is None, "the points are with the partitions"
        return self.first

    def at_level(self, level: int) -> Self:
        return replace(self, level=level)


class RoundIterates:
    """The short vectors of a run, as values: partitions hold the long ones, and learn of each step by rounds."""

    multipliers: tuple[float, float] = (0.0, 0.0)
    reads: int

    def __init__(self, problem: PartitionedProblem, current: base.Iterate, previous: base.Iterate) -> None:
        self._rounds = problem.rounds
        self.current, self.previous, self.extrapolated, self.new = current, previous, current, current
        self._new_penalty = math.nan
        self.reads = 0

    def request(self, *result: Any, moves: tuple[tuple[Any, ...], ...] = ()) -> list[Any]:
        """Return the results of all partitions after some moves."""
        return self._rounds.request(Command(moves, result))

    def accept(self) -> None:
        self.previous, self.current = self.current, self.new

    def restart(self) -> None:
        self.previous = self.current

    def active_rows(self, lipschitz: float) -> None:
        """Return None: rows of partitions are not shrunk."""

    def recent(self) -> tuple[base.Iterate, base.Iterate]:
        return self.current, self.previous


# Dual problems: points with the partitions, images here.

_BIAS_CANDIDATES = 16
_FIRM = 1e6  # so that a prox only brings a point into the set, where a barrier would move it on


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


class PartitionedDual(PartitionedProblem):
    """The dual of a margin model over partitions."""

    @property
    def outer(self) -> Outer:
        carried: RunMemory = self.rounds.carried
        outer: Outer = self.prototype.outer.of_length(carried.first_length, carried.longest_first)
        return outer.at_level(self.level)

    def begun(self, n_columns: int, warm: WarmStart | None) -> Self:
        """Bring the partitions to the model's first point, or to the warm one where that is lower.

        At an optimum the dual entry of a row is its weight times minus the slope of its loss at its margin, so that
        weights alone give dual points, also of rows that they were not trained on. The point is projected onto the
        model's set. The optimum is the same, and its certificate knows nothing of where the run began. nu-SVM and DWD
        begin at their own points, which are near already.
        """
        rounds, region, risk = self.rounds, self.prototype.region, self.prototype.risk
        upper = np.ravel(np.asarray(region.upper))
        widest = float(upper.max()) if np.isfinite(upper).all() else 1.0
        multipliers, parts = _first_point(rounds, region, widest, region.aim, 1.0 / widest)
        rounds.finish_step("begin", BeginSums(region.aim, 1.0 / widest, multipliers))
        measured: list[tuple[float, float]] = rounds.request(Command((), (DualPartition.measured,)))
        rounds.forget_pending()
        longest, largest = (max(measures) for measures in zip(*measured, strict=True))
        image = added([part.image for part in parts])
        n_thresholds = len(risk.totals(self.prototype.intercept))
        rounds.carried = RunMemory(
            penalty=sum(part.penalty for part in parts),
            first_length=math.sqrt(_squared_norm(image)),
            longest_first=math.sqrt(longest) * largest,
            multipliers=multipliers,
            reaches=np.full(len(region.totals), widest),
            thresholds=np.zeros(n_thresholds),
            threshold_reaches=np.full(n_thresholds, np.inf),
        )
        outer = self.outer
        if warm is not None and isinstance(risk, SumOfLosses) and isinstance(outer, HalfSquare):
            multipliers, others = _first_point(rounds, region, widest, warm, _FIRM / widest)
            other = added([part.image for part in others])
            if _value(outer, other, others) < _value(outer, image, parts):
                rounds.finish_step("begin", BeginSums(warm, _FIRM / widest, multipliers))
                image = other
                rounds.carried = replace(rounds.carried, penalty=sum(part.penalty for part in others))
            else:
                rounds.finish_step("drop", DroppedStep())
        lipschitz = replace(self.prototype, outer=outer).lipschitz_of(longest)
        return replace(self, first=base.Iterate(_NOTHING, image), first_lipschitz=lipschitz)

    def iterates(
        self, current: base.Iterate, previous: base.Iterate, active: IntArray | None, multipliers: tuple[float, float]
    ) -> base.Iterates:
        return DualRounds(self, current, previous)

    def solution(self, point: FloatArray, image: FloatArray, certificate: base.Certificate) -> base.Solution:
        return base.Solution(self.outer.slope(float(image @ image)) * image, certificate.bias, certificate)


class DualRounds(RoundIterates):
    """The images of a dual problem's points."""

    def __init__(self, problem: PartitionedDual, current: base.Iterate, previous: base.Iterate) -> None:
        super().__init__(problem, current, previous)
        self._outer = problem.outer
        self._problem: DualProblem = replace(problem.prototype, outer=self._outer)
        self._extrapolation: Extrapolation | None = None
        self._untold = False
        self._last: tuple[float, FloatArray] = (math.nan, _NOTHING)

    @property
    def carried(self) -> RunMemory:
        return self._rounds.carried  # type: ignore[no-any-return]

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous); shards follow with the next step, which reads twice."""
        image = self.current.image + momentum * (self.current.image - self.previous.image)
        self.extrapolated = base.Iterate(_NOTHING, image)
        self._extrapolation = Extrapolation(momentum, image, self._outer.slope(_squared_norm(image)))
        self._untold = True
        self.reads += 1

    def step(self, lipschitz: float, with_excess: bool) -> base.StepOutcome:
        aim = (DualPartition.aim, self._extrapolation if self._untold else None, lipschitz)
        self._untold = False
        searches, multipliers = self._searches(), np.empty(0)
        moves: tuple[tuple[Any, ...], ...] = (aim,)
        if searches:
            results = self.request(DualPartition.sums, lipschitz, _candidates_of(searches), moves=moves)
            multipliers = np.asarray(self._multipliers(searches, lipschitz, results))
            moves = ()
        moves = (*moves, (DualPartition.take, lipschitz, multipliers))
        parts: list[StepPart] = self.request(DualPartition.stepped, with_excess, moves=moves)
        self._last = (lipschitz, multipliers)
        self.reads += 1
        return self._outcome(parts)

    def accept(self) -> None:
        assert self._extrapolation is not None, "a step was taken"
        self._rounds.finish_step("keep", StepSums(self._extrapolation, *self._last))
        super().accept()
        self._rounds.carried = replace(self.carried, penalty=self._new_penalty)

    def restart(self) -> None:
        self._rounds.finish_step("drop", DroppedStep())
        super().restart()

    def check(self, lipschitz: float) -> base.Checked:
        image, searches = self.current.image, self._searches()
        squared_norm = _squared_norm(image)
        look = (DualPartition.look, image, self._outer.slope(squared_norm), lipschitz)
        parts: list[CheckPart] = self.request(DualPartition.looked, lipschitz, _candidates_of(searches), moves=(look,))
        multipliers = self._multipliers(searches, lipschitz, [part.sums for part in parts], remember=False)
        thresholds = self._thresholds(max(part.margin for part in parts))
        take = (DualPartition.take, lipschitz, multipliers)
        values: list[tuple[float, float]] = self.request(DualPartition.valued, thresholds, moves=(take,))
        self._rounds.forget_pending()
        self.reads += 1
        separable, penalty = sum(part.separable for part in parts), sum(part.penalty for part in parts)
        summed = sum(value[0] for value in values) - float(self._threshold_totals @ thresholds)
        bias = self._problem.risk.bias_at(thresholds)
        terms = sum(part.terms for part in parts)
        certificate = self._problem.certificate_from_sums(squared_norm, summed, separable + penalty, bias, terms)
        objective = self._outer.value(squared_norm) + separable + penalty
        return base.Checked(objective, certificate, math.sqrt(sum(value[1] for value in values)))

    def _outcome(self, parts: list[StepPart]) -> base.StepOutcome:
        outer, new, extrapolated = self._outer, added([part.image for part in parts]), self.extrapolated.image
        self.new = base.Iterate(_NOTHING, new)
        penalty = sum(part.penalty for part in parts)
        excess = outer.excess(
            _squared_norm(new), _squared_norm(extrapolated), float(squared_distance(new, extrapolated))
        )
        self._new_penalty = penalty
        return base.StepOutcome(
            excess=excess + sum(part.excess for part in parts),
            squared_step=sum(part.squared_step for part in parts),
            uphill=sum(part.turn for part in parts) + penalty - self.carried.penalty,
            objective=outer.value(_squared_norm(new)) + sum(part.separable for part in parts) + penalty,
        )

    def _searches(self) -> list[RootSearch]:
        previous = zip(self.carried.multipliers, self.carried.reaches, strict=True)
        n_candidates = self._problem.region.candidates_a_round
        return [RootSearch(float(guess), float(reach), n_candidates) for guess, reach in previous]

    def _multipliers(
        self, searches: list[RootSearch], lipschitz: float, results: list[FloatArray], remember: bool = True
    ) -> FloatArray:
        multipliers = _find_multipliers(self._rounds, self._problem.region, lipschitz, searches, results)
        if remember and len(multipliers):
            carried = self.carried
            reaches = np.maximum(np.abs(multipliers - carried.multipliers), 1e-3 * carried.reaches)
            reaches = np.maximum(reaches, 1e-14 * np.abs(multipliers))
            self._rounds.carried = replace(carried, multipliers=multipliers, reaches=reaches)
        return multipliers

    def _thresholds(self, largest_margin: float) -> FloatArray:
        previous, scale = self.carried, 1.0 + largest_margin
        totals = self._threshold_totals
        searches = [
            RootSearch(float(guess), float(min(reach, scale)), _BIAS_CANDIDATES, 1e-14 * scale)
            for guess, reach in zip(previous.thresholds, previous.threshold_reaches, strict=True)
        ]

        def evaluate(candidates: FloatArray) -> FloatArray:
            slopes = added(self.request(DualPartition.risk_slopes, candidates))
            slopes[:, :, 0] += totals[:, np.newaxis]
            return slopes

        roots = find_roots(searches, evaluate)
        moved = np.maximum(np.abs(roots - previous.thresholds), 1e-12 * scale)
        self._rounds.carried = replace(previous, thresholds=roots, threshold_reaches=moved)
        return roots

    @property
    def _threshold_totals(self) -> FloatArray:
        return self._problem.risk.totals(self._problem.intercept)


def _candidates_of(searches: list[RootSearch]) -> FloatArray:
    """Return the candidates of all searches, (n_multipliers, K)."""
    return np.array([search.candidates for search in searches]) if searches else np.empty((0, 0))


def _find_multipliers(
    rounds: Rounds, region: Region, lipschitz: float, searches: list[RootSearch], results: list[FloatArray]
) -> FloatArray:
    """Return multipliers at which the partitions' sums meet the totals, from the first results of another command."""
    first: list[FloatArray] | None = results
    totals = region.totals

    def evaluate(candidates: FloatArray) -> FloatArray:
        nonlocal first
        parts, first = first, None
        if parts is None:
            parts = rounds.request(Command((), (DualPartition.sums, lipschitz, candidates)))
        sums = added(parts)
        sums[:, :, 0] -= totals[:, np.newaxis]
        sums[:, :, 2] += np.abs(totals)[:, np.newaxis]
        return sums

    return find_roots(searches, evaluate) if searches else _NOTHING


def _first_point(
    rounds: Rounds, region: Region, widest: float, aim: FloatArray | WarmStart, lipschitz: float
) -> tuple[FloatArray, list[StepPart]]:
    """Go to the prox of a point; return the multipliers, and the partitions' parts."""
    searches = [RootSearch(0.0, widest, region.candidates_a_round) for _ in region.totals]
    sums = (DualPartition.sums, lipschitz, _candidates_of(searches))
    results: list[FloatArray] = rounds.request(Command(((DualPartition.aim_first, aim),), sums))
    multipliers = _find_multipliers(rounds, region, lipschitz, searches, results)
    take = (DualPartition.take, lipschitz, multipliers)
    return multipliers, rounds.request(Command((take,), (DualPartition.stepped, False)))


def _value(outer: Outer, image: FloatArray, parts: list[StepPart]) -> float:
    return outer.value(_squared_norm(image)) + sum(part.separable + part.penalty for part in parts)


def _squared_norm(vector: FloatArray) -> float:
    return float(inner(vector, vector))


# l1 problems: weights here, their margins with the partitions.
#
# Vectors of a partition follow from w alone, so the log of a run is one entry long and needs no checkpoint.


class PartitionedPrimal(PartitionedProblem):
    """An l1 model over partitions."""

    def begun(self, n_columns: int, warm: WarmStart | None) -> Self:
        """Start at w = 0, or at warm weights of lower objective, with a lower bound of the Lipschitz constant."""
        rounds = self.rounds
        lipschitz = self.prototype.lipschitz_of(max(rounds.request(Command((), (PrimalPartition.lengths,)))))
        rounds.forget_pending()
        first: FloatArray = self.prototype.point_of(np.zeros(n_columns), 0.0)
        if warm is not None:
            values, other = [], self.prototype.point_of(warm.weights, warm.bias)
            for tried in (first, other):
                command = Command(((PrimalPartition.try_weights, tried),), (PrimalPartition.costs, False))
                losses = sum(part[0] for part in rounds.request(command))
                values.append(losses + self.prototype.penalty(tried))
            if values[1] < values[0]:
                first = other
                rounds.finish_step("begin", PlacedMargins(first, first), last_only=True)
            else:
                rounds.forget_pending()
        return replace(self, first=base.Iterate(first, _NOTHING), first_lipschitz=lipschitz)

    def iterates(
        self, current: base.Iterate, previous: base.Iterate, active: IntArray | None, multipliers: tuple[float, float]
    ) -> base.Iterates:
        return (BallRounds if isinstance(self.prototype, PrimalBallProblem) else PrimalRounds)(self, current, previous)

    def solution(self, point: FloatArray, image: FloatArray, certificate: base.Certificate) -> base.Solution:
        found: base.Solution = self.prototype.solution(point, image, certificate)
        return found


class PrimalRounds(RoundIterates):
    """The weights of an l1 problem, and the gradient over them."""

    def __init__(self, problem: PartitionedPrimal, current: base.Iterate, previous: base.Iterate) -> None:
        super().__init__(problem, current, previous)
        self._problem: SparseProblem = problem.prototype
        self._gradient = current.point
        self._penalty = self._problem.penalty(current.point)

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous), and compute the gradient there: one read."""
        point = self.current.point + momentum * (self.current.point - self.previous.point)
        self.extrapolated = base.Iterate(point, _NOTHING)
        self._gradient = added(self.request(PrimalPartition.slopes, moves=((PrimalPartition.extrapolate, momentum),)))
        self.reads += 1

    def step(self, lipschitz: float, with_excess: bool) -> base.StepOutcome:
        """Compute a = prox(b - gradient / lipschitz), and its margins: one read."""
        new, extrapolated = self._proxed(self.extrapolated.point, lipschitz), self.extrapolated.point
        self.new = base.Iterate(new, _NOTHING)
        moves = ((PrimalPartition.try_weights, new),)
        parts: list[tuple[float, float]] = self.request(PrimalPartition.costs, with_excess, moves=moves)
        self.reads += 1
        squared, turn = step_sums(new, extrapolated, self._gradient, self.current.point)
        self._new_penalty = self._problem.penalty(new)
        return base.StepOutcome(
            excess=sum(part[1] for part in parts),
            squared_step=float(squared),
            uphill=float(turn) + self._new_penalty - self._penalty,
            objective=sum(part[0] for part in parts) + self._new_penalty,
        )

    def accept(self) -> None:
        self._place(self.new.point, self.current.point, "keep")
        super().accept()
        self._penalty = self._new_penalty

    def restart(self) -> None:
        self._place(self.current.point, self.current.point, "drop")
        super().restart()

    def check(self, lipschitz: float) -> base.Checked:
        parts: list[tuple[FloatArray, float]] = self.request(PrimalPartition.looked)
        self.reads += 1
        self._gradient = added([part[0] for part in parts])
        risk, norm = sum(part[1] for part in parts), self._penalty
        factor = 1.0 / max(1.0, float(np.abs(self._gradient).max()))
        dual = sum(self.request(PrimalPartition.conjugate, factor))
        self._rounds.forget_pending()
        certificate = self._problem.certificate_from_sums(risk, norm, dual)
        return base.Checked(risk + norm, certificate, self._movement(lipschitz))

    def _movement(self, lipschitz: float) -> float:
        return float(np.linalg.norm(self._proxed(self.current.point, lipschitz) - self.current.point))

    def _place(self, current: FloatArray, previous: FloatArray, verdict: Verdict) -> None:
        self._rounds.finish_step(verdict, PlacedMargins(current, previous), last_only=True)

    def _proxed(self, point: FloatArray, lipschitz: float) -> FloatArray:
        target, out = np.empty(len(point)), np.empty(len(point))
        descend(target, point, self._gradient, 1.0 / lipschitz)
        self._problem.prox(out, target, lipschitz)
        return out


class BallRounds(PrimalRounds):
    """The same over a ball of a norm, with a bias."""

    def check(self, lipschitz: float) -> base.Checked:
        problem, point = self._problem, self.current.point
        assert isinstance(problem, PrimalBallProblem)
        parts: list[tuple[FloatArray, float]] = self.request(PrimalPartition.looked)
        self.reads += 1
        self._gradient, risk, shift = added([part[0] for part in parts]), sum(part[1] for part in parts), 0.0
        gradient, objective = self._gradient, risk
        if problem.intercept:
            scale = 1.0 + abs(float(point[-1]))
            search = RootSearch(0.0, scale, _BIAS_CANDIDATES, 1e-14 * scale)
            shift = float(find_roots([search], lambda c: added(self.request(PrimalPartition.risk_slopes, c)))[0])
            parts = self.request(PrimalPartition.shifted, shift)
            self.reads += 1
            gradient, risk = added([part[0] for part in parts]), sum(part[1] for part in parts)
        self._rounds.forget_pending()
        return base.Checked(objective, problem.ball_proof(point, gradient, risk, shift), self._movement(lipschitz))


# Which problems have a run over partitions.


def partitioned(prototype: base.CompositeProblem) -> type[PartitionedProblem]:
    """Return the class of a problem over partitions. Raises ConfigError (there is none)."""
    if isinstance(prototype, DualProblem):
        return PartitionedDual
    if isinstance(prototype, SparseProblem):
        return PartitionedPrimal
    raise ConfigError(
        f"The model builds a {type(prototype).__name__}, but shards require a DualProblem or a SparseProblem. Train in "
        "memory with okl.solvers.accelerated.fapg.Fapg."
    )
