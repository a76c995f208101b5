"""Problems over partitions of the rows: what a partition holds, the commands it answers, and the method's verbs.

The vectors that are as long as the rows stay with their partition, from round to round. Those as long as the columns
are in this process: of a margin model the images of its dual points, of an l1 model its weights. Commands carry these,
and bring back sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.dual_steps import descend, extrapolate, inner, squared_distance, step_sums
from okl.data.dataset import Shard
from okl.foundation.errors import ConfigError
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray, IntArray
from okl.solvers.accelerated.base import CompositeProblem
from okl.solvers.accelerated.dual import DualProblem, SparseProblem
from okl.solvers.accelerated.method import Checked, Iterate, StepOutcome
from okl.solvers.accelerated.problem import HalfSquare, Outer, Region, SumOfLosses, Sums
from okl.solvers.accelerated.shards import (
    MappedRows,
    RootSearch,
    ShardRows,
    find_roots,
    groups_of_class,
    signs_of_class,
    spread,
)
from okl.solvers.rounds import Rounds, Verdict, added

_NOTHING = np.empty(0)

# A partition: the vectors of the rows of a shard.


@stored("dual-opening")
@stored("primal-opening")  # that of an l1 problem
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
        groups = groups_of_class(targets, self.positive, self.n_groups)
        rows = ShardRows(self.rows, shard, signs_of_class(targets, self.positive))
        return Partition(self.prototype.part(rows, lambda values: spread(values, groups)), groups, longest)


class Partition:
    """Vectors of the rows of a shard, (m,) float64 each, in private buffers: dual points, or margins of l1 weights.

    problem : a DualProblem or SparseProblem of these rows; groups : (m,), of the rows
    longest : squared length of the longest row
    """

    def __init__(self, problem: Any, groups: IntArray, longest: float) -> None:
        self.problem, self.groups, self.longest = problem, groups, longest
        self.current, self.previous, self.there, self.new = (np.zeros(len(groups)) for _ in range(4))

    @cached_property
    def gradient(self) -> NDArray[np.float64]:
        """Gradient of a dual problem where the step starts."""
        return np.zeros(len(self.groups))

    @cached_property
    def target(self) -> NDArray[np.float64]:
        """Return the end of a step that ignores the region."""
        return np.zeros(len(self.groups))

    @cached_property
    def margins(self) -> NDArray[np.float64]:
        """Margins of the weights of a dual point."""
        return np.zeros(len(self.groups))

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


class Reading:
    """Base of commands that leave the vectors as they are."""

    def redo(self, part: Partition) -> None:
        """Change nothing."""


# Commands that move the dual vectors of a partition.


@stored("warm-start")
@dataclass(frozen=True, eq=False)
class WarmStart:
    """Weights (n_columns,) and bias of a solution: a row's margin is s_i (<w, z_i> - bias)."""

    weights: FloatArray
    bias: float


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


@stored("dual-measure-command")
@dataclass(frozen=True, eq=False)
class Measure(Reading):
    """The longest row's squared length, and the largest entry of the current point."""

    def run(self, part: Partition) -> tuple[float, float]:
        """Return both."""
        return part.longest, float(part.current.max())


@stored("dual-begin-command", renamed={"warm": "aim"})
@stored("warm-start-aim-command")  # that of a WarmStart
@dataclass(frozen=True, eq=False)
class BeginCommand:
    """Aim at one number for each group (n_groups,), or for all (1,); or at the dual entries that weights imply."""

    aim: FloatArray | WarmStart
    lipschitz: float
    candidates: FloatArray

    def run(self, part: Partition) -> Sums:
        """Return sums at the candidates."""
        self.redo(part)
        sums: Sums = part.problem.region.sums(part.target, self.lipschitz, self.candidates)
        return sums

    def redo(self, part: Partition) -> None:
        """Aim at the target again."""
        if isinstance(self.aim, WarmStart):
            rows = part.problem.rows
            rows.pull(part.target, self.aim.weights)
            part.target[:] = part.problem.risk.duals_at(part.target - self.aim.bias * rows.signs)
        else:
            part.target[:] = spread(self.aim, part.groups)


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

    def run(self, part: Partition) -> Sums | StepPart:
        """Return sums at the candidates, or the step."""
        self._aim(part)
        if len(self.candidates):
            sums: Sums = part.problem.region.sums(part.target, self.lipschitz, self.candidates)
            return sums
        return TakeCommand(self.lipschitz, _NOTHING, self.with_excess).run(part)

    def redo(self, part: Partition) -> None:
        """Aim at the target again, and step if the command steps."""
        self._aim(part)
        if not len(self.candidates):
            TakeCommand(self.lipschitz, _NOTHING, self.with_excess).redo(part)

    def _aim(self, part: Partition) -> None:
        extrapolated, gradient, problem = part.there, part.gradient, part.problem
        if self.extrapolation is not None:
            momentum, image, slope = self.extrapolation
            extrapolate(extrapolated, part.current, part.previous, momentum)
            problem.rows.pull(gradient, image)
            np.multiply(gradient, slope, out=gradient)
            problem.separable.add_slopes(gradient, extrapolated)
        descend(part.target, extrapolated, gradient, 1.0 / self.lipschitz)


@stored("dual-seek-command")
@dataclass(frozen=True, eq=False)
class SeekCommand(Reading):
    """Sums of the region at candidate multipliers, at the target aimed at last."""

    lipschitz: float
    candidates: FloatArray

    def run(self, part: Partition) -> Sums:
        """Return the sums."""
        sums: Sums = part.problem.region.sums(part.target, self.lipschitz, self.candidates)
        return sums


@stored("dual-take-command")
@stored("warm-start-take-command")
@dataclass(frozen=True, eq=False)
class TakeCommand:
    """Take the step to the prox of the target, at these multipliers."""

    lipschitz: float
    multipliers: FloatArray
    with_excess: bool

    def run(self, part: Partition) -> StepPart:
        """Return the image of the new point and sums over the rows."""
        self.redo(part)
        problem, new, extrapolated = part.problem, part.new, part.there
        squared, turn = step_sums(new, extrapolated, part.gradient, part.current)
        image = np.empty(problem.rows.n_image)
        problem.rows.image(image, new)
        return StepPart(
            image,
            float(squared),
            float(turn),
            problem.separable.value(new),
            problem.region.value(new),
            problem.separable.excess(new, extrapolated) if self.with_excess else np.nan,
        )

    def redo(self, part: Partition) -> None:
        """Step again."""
        part.problem.region.prox_at(part.new, part.target, self.lipschitz, self.multipliers)


@stored("dual-stepped")
@dataclass(frozen=True, eq=False)
class StepSums:
    """A step that was kept, with all it takes to go it again."""

    extrapolation: Extrapolation
    lipschitz: float
    multipliers: FloatArray

    def redo(self, part: Partition) -> None:
        """Go it."""
        AimCommand(self.extrapolation, self.lipschitz, np.empty((1, 0)), False).redo(part)
        TakeCommand(self.lipschitz, self.multipliers, False).redo(part)
        part.finish_step("keep")


@stored("dual-begun", renamed={"warm": "aim"})
@stored("warm-started")  # that of a WarmStart
@dataclass(frozen=True, eq=False)
class BeginSums:
    """A first point, with all it takes to find it again."""

    aim: FloatArray | WarmStart
    lipschitz: float
    multipliers: FloatArray

    def redo(self, part: Partition) -> None:
        """Go there."""
        BeginCommand(self.aim, self.lipschitz, np.empty((1, 0))).redo(part)
        TakeCommand(self.lipschitz, self.multipliers, False).redo(part)
        part.finish_step("begin")


@stored("dual-dropped")
@dataclass(frozen=True, eq=False)
class RestSums:
    """A step that was dropped."""

    def redo(self, part: Partition) -> None:
        """Forget the momentum."""
        part.finish_step("drop")


# Commands for a check of a dual problem, which evaluate the current point and drop the step.


class LookPart(NamedTuple):
    """A partition's part of a check: sums over its rows at the current point.

    margin : the largest absolute one; sums : at the candidate multipliers
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

    def run(self, part: Partition) -> LookPart:
        """Return sums over the rows."""
        self.redo(part)
        separable, region = part.problem.separable, part.problem.region
        sums = region.sums(part.target, self.lipschitz, self.candidates)
        largest = float(np.abs(part.margins).max())
        return LookPart(separable.value(part.current), region.value(part.current), largest, sums)

    def redo(self, part: Partition) -> None:
        """Compute margins and target again."""
        part.problem.rows.pull(part.margins, self.image)
        np.multiply(part.margins, self.slope, out=part.margins)
        part.gradient[:] = part.margins
        part.problem.separable.add_slopes(part.gradient, part.current)
        descend(part.target, part.current, part.gradient, 1.0 / self.lipschitz)


@stored("dual-slopes-command")
@dataclass(frozen=True, eq=False)
class RiskSlopes(Reading):
    """Slopes of the risk at candidate thresholds, (n_thresholds, K)."""

    candidates: FloatArray

    def run(self, part: Partition) -> NDArray[np.float64]:
        """Return (n_thresholds, K, 3)."""
        slopes: NDArray[np.float64] = part.problem.risk.slopes(part.margins, self.candidates)
        return slopes


@stored("dual-value-command")
@dataclass(frozen=True, eq=False)
class Value:
    """The risk at thresholds, and how far the prox of the target is from the current point."""

    thresholds: FloatArray
    lipschitz: float
    multipliers: FloatArray

    def run(self, part: Partition) -> tuple[float, float]:
        """Risk and squared distance."""
        self.redo(part)
        risk = part.problem.risk.sum_at(part.margins, self.thresholds)
        return risk, float(squared_distance(part.new, part.current))

    def redo(self, part: Partition) -> None:
        """Drop the step."""
        part.problem.region.prox_at(part.new, part.target, self.lipschitz, self.multipliers)


# The search for the multipliers of a step: which candidates go out, how their sums are put together.


def _candidates_of(searches: list[RootSearch]) -> FloatArray:
    """Return the candidates of all searches, (n_multipliers, K)."""
    return np.array([search.candidates for search in searches]) if searches else np.empty((0, 0))


def find_shard_multipliers(
    rounds: Rounds, region: Region, lipschitz: float, searches: list[RootSearch], answers: list[FloatArray]
) -> FloatArray:
    """Return multipliers at which the partitions' sums meet the totals, from the first answers of another command."""
    first: list[FloatArray] | None = answers
    totals = region.totals

    def evaluate(candidates: FloatArray) -> FloatArray:
        nonlocal first
        parts, first = first, None
        sums = added(parts if parts is not None else rounds.request(SeekCommand(lipschitz, candidates)))
        sums[:, :, 0] -= totals[:, np.newaxis]
        sums[:, :, 2] += np.abs(totals)[:, np.newaxis]
        return sums

    return find_roots(searches, evaluate) if searches else _NOTHING


# The verbs of the accelerated method for a dual problem over partitions.

_BIAS_CANDIDATES = 16


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


class ShardedDual:
    """Vectors of a run with their partitions; the images, which are short, in this process.

    Parameters
    ----------
    prototype : the model on one row of each group; level : of smoothing
    rounds : of messages; current, previous : whose images are those of the vectors there, and which hold no points
    carried : from the check before
    """

    def __init__(
        self,
        prototype: DualProblem,
        level: int,
        rounds: Rounds,
        current: Iterate,
        previous: Iterate,
        carried: RunMemory,
    ) -> None:
        self._outer = _outer_at(prototype, level, carried)
        self._problem = replace(prototype, outer=self._outer)
        self._rounds, self.carried = rounds, carried
        self._current, self._previous = current.image, previous.image
        self._extrapolated, self._new = current.image, current.image
        self._extrapolation: Extrapolation | None = None
        self._untold, self._new_penalty = False, carried.penalty
        self._last: tuple[float, FloatArray] = (math.nan, _NOTHING)
        self.reads = 0

    @classmethod
    def begin(
        cls, prototype: DualProblem, rounds: Rounds, n_columns: int, warm: WarmStart | None
    ) -> tuple[float, ShardedDual]:
        """Bring the partitions to the model's first point, or to the warm one where that is lower.

        At an optimum the dual entry of a row is its weight times minus the slope of its loss at its margin, so that
        weights alone give dual points, also of rows that they were not trained on. The point is projected onto the
        model's set. The optimum is the same, and its certificate knows nothing of where the run began. nu-SVM and DWD
        begin at their own points, which are near already.

        Returns
        -------
        the first guess at the Lipschitz constant, and the run
        """
        region = prototype.region
        upper = np.ravel(np.asarray(region.upper))
        widest = float(upper.max()) if np.isfinite(upper).all() else 1.0
        multipliers, parts = _first_point(rounds, region, widest, region.aim, 1.0 / widest)
        rounds.finish_step("begin", BeginSums(region.aim, 1.0 / widest, multipliers))
        measured: list[tuple[float, float]] = rounds.request(Measure())
        rounds.forget_pending()
        longest, largest = (max(measures) for measures in zip(*measured, strict=True))
        image = added([part.image for part in parts])
        n_thresholds = len(prototype.risk.totals(prototype.intercept))
        carried = RunMemory(
            penalty=sum(part.penalty for part in parts),
            first_length=math.sqrt(_squared_norm(image)),
            longest_first=math.sqrt(longest) * largest,
            multipliers=multipliers,
            reaches=np.full(len(region.totals), widest),
            thresholds=np.zeros(n_thresholds),
            threshold_reaches=np.full(n_thresholds, np.inf),
        )
        outer = _outer_at(prototype, 0, carried)
        if warm is not None and isinstance(prototype.risk, SumOfLosses) and isinstance(outer, HalfSquare):
            multipliers, others = _first_point(rounds, region, widest, warm, _FIRM / widest)
            other = added([part.image for part in others])
            if _value(outer, other, others) < _value(outer, image, parts):
                rounds.finish_step("begin", BeginSums(warm, _FIRM / widest, multipliers))
                image, carried = other, replace(carried, penalty=sum(part.penalty for part in others))
            else:
                rounds.finish_step("drop", RestSums())
        first = Iterate(_NOTHING, image)
        lipschitz = replace(prototype, outer=outer).lipschitz_of(longest)
        return lipschitz, cls(prototype, 0, rounds, first, first, carried)

    @staticmethod
    def weights(prototype: DualProblem, level: int, best: Iterate, carried: RunMemory) -> FloatArray:
        """Return the weights (n_columns,) of a point."""
        slope = _outer_at(prototype, level, carried).slope(float(best.image @ best.image))
        return slope * best.image

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
        aim = AimCommand(extrapolation, lipschitz, _candidates_of(searches), with_excess)
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
        self.carried = replace(self.carried, penalty=self._new_penalty)

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
        parts: list[LookPart] = self._rounds.request(LookCommand(current, slope, lipschitz, _candidates_of(searches)))
        multipliers = self._multipliers(searches, lipschitz, [part.sums for part in parts], remember=False)
        thresholds = self._thresholds(max(part.margin for part in parts))
        values: list[tuple[float, float]] = self._rounds.request(Value(thresholds, lipschitz, multipliers))
        self._rounds.forget_pending()
        self.reads += 1
        separable, penalty = sum(part.separable for part in parts), sum(part.penalty for part in parts)
        risk = self._problem.risk
        summed = sum(value[0] for value in values) - float(self._threshold_totals @ thresholds)
        certificate = self._problem.proof(squared_norm, summed, separable + penalty, risk.bias_at(thresholds))
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
            uphill=sum(part.turn for part in parts) + penalty - self.carried.penalty,
            objective=outer.value(_squared_norm(new)) + sum(part.separable for part in parts) + penalty,
        )

    def _searches(self) -> list[RootSearch]:
        previous = zip(self.carried.multipliers, self.carried.reaches, strict=True)
        n_candidates = self._problem.region.candidates_a_round
        return [RootSearch(float(guess), float(reach), n_candidates) for guess, reach in previous]

    def _multipliers(
        self, searches: list[RootSearch], lipschitz: float, answers: list[FloatArray], remember: bool = True
    ) -> FloatArray:
        multipliers = find_shard_multipliers(self._rounds, self._problem.region, lipschitz, searches, answers)
        if remember and len(multipliers):
            moved = np.abs(multipliers - self.carried.multipliers)
            reaches = np.maximum(moved, 1e-3 * self.carried.reaches)
            self.carried = replace(
                self.carried, multipliers=multipliers, reaches=np.maximum(reaches, 1e-14 * np.abs(multipliers))
            )
        return multipliers

    def _thresholds(self, largest_margin: float) -> FloatArray:
        previous, scale = self.carried, 1.0 + largest_margin
        totals = self._threshold_totals
        searches = [
            RootSearch(float(guess), float(min(reach, scale)), _BIAS_CANDIDATES, 1e-14 * scale)
            for guess, reach in zip(previous.thresholds, previous.threshold_reaches, strict=True)
        ]

        def evaluate(candidates: FloatArray) -> FloatArray:
            slopes = added(self._rounds.request(RiskSlopes(candidates)))
            slopes[:, :, 0] += totals[:, np.newaxis]
            return slopes

        roots = find_roots(searches, evaluate)
        moved = np.maximum(np.abs(roots - previous.thresholds), 1e-12 * scale)
        self.carried = replace(previous, thresholds=roots, threshold_reaches=moved)
        return roots

    @property
    def _threshold_totals(self) -> FloatArray:
        return self._problem.risk.totals(self._problem.intercept)


_FIRM = 1e6  # so that a prox only brings a point into the set, where a barrier would move it on


def _first_point(
    rounds: Rounds, region: Region, widest: float, aim: FloatArray | WarmStart, lipschitz: float
) -> tuple[FloatArray, list[StepPart]]:
    """Go to the prox of a point; return the multipliers, and the partitions' parts."""
    searches = [RootSearch(0.0, widest, region.candidates_a_round) for _ in region.totals]
    answers: list[FloatArray] = rounds.request(BeginCommand(aim, lipschitz, _candidates_of(searches)))
    multipliers = find_shard_multipliers(rounds, region, lipschitz, searches, answers)
    return multipliers, rounds.request(TakeCommand(lipschitz, multipliers, False))


def _value(outer: Outer, image: FloatArray, parts: list[StepPart]) -> float:
    return outer.value(_squared_norm(image)) + sum(part.separable + part.penalty for part in parts)


def _outer_at(prototype: DualProblem, level: int, carried: RunMemory) -> Outer:
    return prototype.outer.of_length(carried.first_length, carried.longest_first).at_level(level)


def _squared_norm(vector: FloatArray) -> float:
    return float(inner(vector, vector))


# Commands of an l1 problem, which move margins.


def _slopes_summed(part: Partition, margins: FloatArray) -> FloatArray:
    """Return the gradient of the losses over w, (n_columns,)."""
    gradient = np.empty(part.problem.n_points)
    part.problem.pull(gradient, margins)
    return gradient


class Costs(NamedTuple):
    """Sums of losses, and of their excesses (NaN unless requested)."""

    losses: float
    excess: float


@stored("primal-lengths-command")
@dataclass(frozen=True, eq=False)
class Lengths(Reading):
    """The largest weight times squared length of a row."""

    def run(self, part: Partition) -> float:
        """Return an upper bound, from the longest and the heaviest row."""
        return part.longest * float(part.problem.weights.max())


@stored("primal-gradient-command")
@dataclass(frozen=True, eq=False)
class GradientCommand:
    """Go to the extrapolated margins."""

    momentum: float

    def run(self, part: Partition) -> FloatArray:
        """Return the gradient at the extrapolated point."""
        self.redo(part)
        return _slopes_summed(part, part.there)

    def redo(self, part: Partition) -> None:
        """Go there."""
        extrapolate(part.there, part.current, part.previous, self.momentum)


@stored("primal-try-command")
@dataclass(frozen=True, eq=False)
class TryCommand:
    """The margins of another w."""

    weights: FloatArray
    with_excess: bool

    def run(self, part: Partition) -> Costs:
        """Return what they cost."""
        self.redo(part)
        losses = part.problem.smooth(_NOTHING, part.new)
        if not self.with_excess:
            return Costs(losses, math.nan)
        return Costs(losses, part.problem.excess(_NOTHING, part.new, _NOTHING, part.there))

    def redo(self, part: Partition) -> None:
        """Compute them."""
        part.problem.rows.pull(part.new, self.weights)


@stored("primal-inspect-command")
@dataclass(frozen=True, eq=False)
class InspectCommand(Reading):
    """The current margins."""

    def run(self, part: Partition) -> tuple[FloatArray, float]:
        """Their gradient and losses."""
        losses = part.problem.smooth(_NOTHING, part.current)
        return _slopes_summed(part, part.current), losses


@stored("primal-conjugate-command")
@dataclass(frozen=True, eq=False)
class Conjugate(Reading):
    """The dual objective of the slopes at the current margins, made feasible by a factor in (0, 1]."""

    factor: float

    def run(self, part: Partition) -> float:
        """Return minus the dual objective."""
        conjugate: float = part.problem.conjugate(part.current, self.factor)
        return conjugate


@stored("primal-placed")
@dataclass(frozen=True, eq=False)
class PlacedMargins:
    """Current and previous w: the margins follow."""

    current: FloatArray
    previous: FloatArray

    def redo(self, part: Partition) -> None:
        """Compute both."""
        part.problem.rows.pull(part.current, self.current)
        part.problem.rows.pull(part.previous, self.previous)


# The iterates of an l1 problem over shards.
#
# Vectors of a shard follow from w alone, so the log of a run is one entry long and needs no checkpoint.


class ShardedPrimal:
    """w and its gradient in this process, margins with the shards. current, previous : hold points only."""

    carried = None

    def __init__(
        self, prototype: SparseProblem, level: int, rounds: Rounds, current: Iterate, previous: Iterate, carried: None
    ) -> None:
        self._problem, self._rounds = prototype, rounds
        self._current, self._previous = current.point, previous.point
        self._there, self._gradient, self._new = current.point, current.point, current.point
        self._penalty = float(np.abs(self._current).sum())
        self._new_penalty = self._penalty
        self.reads = 0

    @classmethod
    def begin(
        cls, prototype: SparseProblem, rounds: Rounds, n_columns: int, warm: WarmStart | None
    ) -> tuple[float, ShardedPrimal]:
        """Start at w = 0, or at the warm weights where their objective is lower: two reads.

        Returns
        -------
        a lower bound of the Lipschitz constant as the first guess, and the run
        """
        lipschitz = prototype.lipschitz_of(max(rounds.request(Lengths())))
        rounds.forget_pending()
        first: FloatArray = np.zeros(n_columns)
        if warm is not None:
            values = []
            for tried in (first, warm.weights):
                losses = sum(part.losses for part in rounds.request(TryCommand(tried, False)))
                values.append(losses + float(np.abs(tried).sum()))
            if values[1] < values[0]:
                first = warm.weights
                rounds.finish_step("begin", PlacedMargins(first, first), last_only=True)
            else:
                rounds.forget_pending()
        return lipschitz, cls(prototype, 0, rounds, Iterate(first, _NOTHING), Iterate(first, _NOTHING), None)

    @staticmethod
    def weights(prototype: SparseProblem, level: int, best: Iterate, carried: None) -> FloatArray:
        """Return the weights (n_columns,) of a point."""
        return best.point.copy()

    def extrapolate(self, momentum: float) -> None:
        """Go to b = current + momentum (current - previous), and compute the gradient there: one read."""
        self._there = self._current + momentum * (self._current - self._previous)
        self._gradient = added(self._rounds.request(GradientCommand(momentum)))
        self.reads += 1

    def step(self, lipschitz: float, with_excess: bool) -> StepOutcome:
        """Compute a = prox(b - gradient / lipschitz), and its margins: one read."""
        self._new = self._proxed(self._there, lipschitz)
        parts: list[Costs] = self._rounds.request(TryCommand(self._new, with_excess))
        self.reads += 1
        squared, turn = step_sums(self._new, self._there, self._gradient, self._current)
        self._new_penalty = float(np.abs(self._new).sum())
        return StepOutcome(
            excess=sum(part.excess for part in parts),
            squared_step=float(squared),
            uphill=float(turn) + self._new_penalty - self._penalty,
            objective=sum(part.losses for part in parts) + self._new_penalty,
        )

    def accept(self) -> None:
        """Make the step the current point."""
        self._rounds.finish_step("keep", PlacedMargins(self._new, self._current), last_only=True)
        self._previous, self._current, self._penalty = self._current, self._new, self._new_penalty

    def restart(self) -> None:
        """Throw the step away, and the momentum with it."""
        self._rounds.finish_step("drop", PlacedMargins(self._current, self._current), last_only=True)
        self._previous = self._current

    def check(self, lipschitz: float) -> Checked:
        """Return F, the certificate and ||T(x) - x|| of the current point: one read; the step is lost."""
        parts: list[tuple[FloatArray, float]] = self._rounds.request(InspectCommand())
        self.reads += 1
        self._gradient = added([part[0] for part in parts])
        risk, norm = sum(part[1] for part in parts), self._penalty
        factor = 1.0 / max(1.0, float(np.abs(self._gradient).max()))
        dual = sum(self._rounds.request(Conjugate(factor)))
        self._rounds.forget_pending()
        certificate = self._problem.proof(risk, norm, dual)
        moved = self._proxed(self._current, lipschitz) - self._current
        return Checked(risk + norm, certificate, float(np.linalg.norm(moved)))

    def recent(self) -> tuple[Iterate, Iterate]:
        """Current and previous w; their margins stay where they are."""
        return Iterate(self._current, _NOTHING), Iterate(self._previous, _NOTHING)

    def _proxed(self, point: FloatArray, lipschitz: float) -> FloatArray:
        target, out = np.empty(len(point)), np.empty(len(point))
        descend(target, point, self._gradient, 1.0 / lipschitz)
        self._problem.prox(out, target, lipschitz)
        return out


# Which problems have a run over partitions.

_RUNS: dict[type[Any], Any] = {DualProblem: ShardedDual, SparseProblem: ShardedPrimal}


def run_over(prototype: CompositeProblem) -> Any:
    """Return the class of the run over partitions of a problem.

    Raises
    ------
    ConfigError : the problem has none
    """
    for kind, run in _RUNS.items():
        if isinstance(prototype, kind):
            return run
    raise ConfigError(
        f"The model builds a {type(prototype).__name__}, but shards require a DualProblem or a SparseProblem. Train in "
        "memory with okl.solvers.accelerated.method.Fapg."
    )
