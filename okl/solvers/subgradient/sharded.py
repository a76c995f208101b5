"""Cutting planes on the sampled rows of shards."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.bundle import add_sloped_rows, add_sloped_rows_of_classes, score_rows, score_rows_of_classes
from okl.data.dataset import Shard
from okl.data.executor import Execution
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.losses import PiecewiseLinear
from okl.solvers.rounds import Command, CommandLog, Rounds, Verdict, WorkerState, added
from okl.solvers.subgradient.bundle import Direction, Directions, Point
from okl.solvers.subgradient.drawing import SampledRows, Segment
from okl.solvers.subgradient.method import Cut, Descent, Scs, exhausted
from okl.solvers.subgradient.spaces import Vector

# Worker state: rows, and scores of a point and a direction.


@stored("sample-opening")
@dataclass(frozen=True, eq=False)
class OpenSample:
    """Opening of the state of a shard. rows : of all shards; loss : of a row; n_outputs : scores of a row."""

    rows: SampledRows
    loss: PiecewiseLinear
    n_outputs: int

    def __call__(self, shard: Shard) -> SampleVectors:
        """Return the totals of no rows."""
        return SampleVectors(self, shard)


class SampleVectors:
    """The sampled rows of a shard, with scores (n,) or (n, n_outputs) float64, in private buffers."""

    def __init__(self, opening: OpenSample, shard: Shard) -> None:
        self.opening, self.shard = opening, shard
        self.shares: tuple[float, ...] = ()
        self.segments: list[Segment] = []
        self.targets = np.empty(0)
        self.scores = self.along = self._zeros()

    @property
    def n_rows(self) -> int:
        """Return the number of sampled rows of this shard."""
        return sum(segment.rows for segment in self.segments)

    def draw(self, shares: tuple[float, ...]) -> list[Segment]:
        """Have the rows of a sample that grew through these shares; the segments that are new here."""
        if shares == self.shares:
            return []
        if shares[: len(self.shares)] != self.shares:
            self.segments, self.shares = [], ()
        n_known, rows = len(self.segments), self.opening.rows
        for stage in range(len(self.shares), len(shares)):
            beyond = shares[stage - 1] if stage else 0.0
            self.segments = [*self.segments, *rows.segments(self.shard, shares[stage], beyond)]
        self.shares = shares
        self.targets = np.empty(self.n_rows)
        for cut, block in rows.blocks(self.shard, self.segments):
            self.targets[cut] = block.targets
        return self.segments[n_known:]

    def scores_of(self, weights: FloatArray) -> FloatArray:
        """Return <w, z_i> of all rows: one read."""
        out = self._zeros()
        score = score_rows if self.opening.n_outputs == 1 else score_rows_of_classes
        for cut, block in self.opening.rows.blocks(self.shard, self.segments):
            score(out[cut], block.inputs, weights)
        return out

    def gathered(self, slopes: FloatArray) -> FloatArray:
        """Return the sum of slope_i (x) z_i, (n_columns,) or (n_outputs, n_columns), segment by segment: one read."""
        columns, outputs = self.opening.rows.n_columns, self.opening.n_outputs
        total = np.zeros(columns if outputs == 1 else (outputs, columns))
        add = add_sloped_rows if outputs == 1 else add_sloped_rows_of_classes
        part = np.empty_like(total)
        for cut, block in self.opening.rows.blocks(self.shard, self.segments):
            part[:] = 0.0
            add(part, block.inputs, slopes[cut])
            total += part
        return total

    def finish_step(self, verdict: Verdict) -> None:
        """Do nothing: commands have moved the scores already."""

    def saved(self) -> NDArray[np.float64]:
        """Return the state that files do not hold: number of shares, shares and scores."""
        return np.concatenate([[len(self.shares)], self.shares, self.scores.ravel()])

    def restore(self, saved: NDArray[np.float64]) -> None:
        """Restore the saved state."""
        stages = int(saved[0])
        self.draw(tuple(saved[1 : 1 + stages].tolist()))
        self.scores, self.along = self._zeros(), self._zeros()
        self.scores.ravel()[:] = saved[1 + stages :]

    def _zeros(self) -> FloatArray:
        outputs = self.opening.n_outputs
        return np.zeros(self.n_rows if outputs == 1 else (self.n_rows, outputs))


# Commands and their sums.


class SampleTotals(NamedTuple):
    """Totals of the rows of one shard or of all.

    rows, losses : of all rows; new_rows : that were not in the sample before; bytes_read : of the files, for these
    targets : the least and the largest one
    """

    rows: int
    losses: float
    new_rows: int
    bytes_read: int
    targets: tuple[float, float]


@stored("sample-place-command")
@dataclass(frozen=True, eq=False)
class PlaceCommand:
    """Have the rows of a sample that grew through these shares, with the scores of a point."""

    shares: tuple[float, ...]
    weights: FloatArray

    def run(self, vectors: SampleVectors) -> SampleTotals:
        """Return the new rows and the cost of the point there."""
        before = vectors.n_rows
        grown = vectors.draw(self.shares)
        self.redo(vectors)
        if not vectors.n_rows:
            return SampleTotals(0, 0.0, 0, 0, (np.inf, -np.inf))
        losses = vectors.opening.loss.value(vectors.scores, vectors.targets)
        new_rows = sum(segment.rows for segment in grown)
        assert vectors.n_rows - new_rows in (before, 0), "another sample has no previous rows"
        targets = float(vectors.targets.min()), float(vectors.targets.max())
        read = vectors.opening.rows.bytes_of(vectors.shard, grown, new_rows == vectors.n_rows)
        return SampleTotals(vectors.n_rows, float(losses.sum()), new_rows, read, targets)

    def redo(self, vectors: SampleVectors) -> None:
        """Read them, and compute the scores."""
        vectors.draw(self.shares)
        vectors.scores = vectors.scores_of(self.weights)
        vectors.along = np.zeros_like(vectors.scores)


class LineSlopes(NamedTuple):
    """Sums over rows: of slope_i (x) z_i, of the intercepts of these slopes, and of the losses at the point."""

    gathered: FloatArray
    intercepts: float
    losses: float


@stored("sample-cut-command")
@dataclass(frozen=True, eq=False)
class CutCommand:
    """Go a step along the direction, and take slopes further on."""

    step: float
    further: float

    def run(self, vectors: SampleVectors) -> LineSlopes:
        """Return the new rows and the cost of the point there."""
        self.redo(vectors)
        loss, targets, along = vectors.opening.loss, vectors.targets, vectors.along
        scores = vectors.scores + self.further * along if self.further else vectors.scores
        slopes = np.empty_like(scores)
        losses, intercepts = loss.slopes_into(slopes, scores, along, targets)
        if self.further:
            losses, _ = loss.line(vectors.scores, along, targets, 0.0)
        return LineSlopes(vectors.gathered(slopes), intercepts, losses)

    def redo(self, vectors: SampleVectors) -> None:
        """Go there."""
        if self.step:
            vectors.scores = vectors.scores + self.step * vectors.along


@stored("sample-try-command")
@dataclass(frozen=True, eq=False)
class StepCommand:
    """Another direction, and steps along it."""

    direction: FloatArray
    steps: tuple[float, ...]

    def run(self, vectors: SampleVectors) -> NDArray[np.float64]:
        """Return the new rows and the cost of the point there."""
        self.redo(vectors)
        return RepeatCommand(self.steps).run(vectors)

    def redo(self, vectors: SampleVectors) -> None:
        """Compute the scores of the direction."""
        vectors.along = vectors.scores_of(self.direction)


@stored("sample-restart-command")
@dataclass(frozen=True, eq=False)
class RepeatCommand:
    """Other steps along the same direction."""

    steps: tuple[float, ...]

    def run(self, vectors: SampleVectors) -> NDArray[np.float64]:
        """Return the new rows and the cost of the point there."""
        loss, scores, along = vectors.opening.loss, vectors.scores, vectors.along
        return np.array([loss.line(scores, along, vectors.targets, step) for step in self.steps])

    def redo(self, vectors: SampleVectors) -> None:
        """Change nothing."""


@stored("sample-moved")
@dataclass(frozen=True, eq=False)
class MovedSums:
    """A step that was taken along a direction."""

    direction: FloatArray
    step: float

    def redo(self, vectors: SampleVectors) -> None:
        """Take it."""
        vectors.along = vectors.scores_of(self.direction)
        if self.step:
            vectors.scores = vectors.scores + self.step * vectors.along


# Line searches over shards.

N_STEPS = 24
_NARROW = 0.02  # of its upper end: a bracket that need not be looked into
_EVEN = np.arange(1, N_STEPS + 1) / N_STEPS


@dataclass(frozen=True)
class LineQuadratic:
    """The objective along a direction less the losses: slope t + curvature t^2 / 2, and the mean losses at 0."""

    losses: float
    slope: float
    curvature: float
    n_rows: int


@stored("line-search")
@dataclass(frozen=True)
class StepSearch:
    """The step of least objective in [0, longest], by the secant of the slopes between two trials where they turn.

    Trials are denser towards 0, with the cube of their number. looks : how often the two trials that the least one is
    between are looked in between: a round each, without a vector
    """

    longest: float
    looks: int

    def step(self, direction: FloatArray, around: LineQuadratic, rounds: Rounds) -> float:
        """Return the step, and leave the direction on the shards."""
        steps = self.longest * _EVEN**3
        low, high, best = _turning(
            steps, _mean_losses(rounds, StepCommand(direction, tuple(steps.tolist())), around), around
        )
        for _ in range(self.looks):
            if high - low <= _NARROW * high:
                break
            steps = low + (high - low) * (_EVEN if low > 0.0 else _EVEN**3)
            low, high, best = _turning(
                steps, _mean_losses(rounds, RepeatCommand(tuple(steps.tolist())), around), around, low
            )
        return best


def _mean_losses(rounds: Rounds, command: Command, around: LineQuadratic) -> NDArray[np.float64]:
    """Return mean losses and slopes at the steps of a command, (steps, 2)."""
    return added(rounds.request(command)) / around.n_rows


def _turning(
    steps: NDArray[np.float64], line: NDArray[np.float64], around: LineQuadratic, start: float = 0.0
) -> tuple[float, float, float]:
    """Return two steps that the least objective is between, and the step to take; start : below the first step."""
    values = line[:, 0] + around.slope * steps + 0.5 * around.curvature * steps**2
    slopes = line[:, 1] + around.slope + around.curvature * steps
    least = int(np.argmin(values))
    fallback = float(steps[least]) if start > 0.0 or values[least] < around.losses else 0.0
    turned = np.flatnonzero(slopes >= 0.0)
    if not len(turned):
        return float(steps[-1]), float(steps[-1]), fallback
    upper = int(turned[0])
    if upper == 0:  # the slope below the first step is not known
        return start, float(steps[0]), fallback
    low, high = float(steps[upper - 1]), float(steps[upper])
    fall, rise = float(-slopes[upper - 1]), float(slopes[upper])
    return low, high, low + (high - low) * fall / (fall + rise)


# The caller's side: a point, cuts, and two rounds per iteration.
#
# One round goes down with a direction and some steps, and comes up with the losses and their slopes at these steps;
# the other goes down with the step that is taken, and comes up with a cut. The square of the norm is known here.

LONGEST = 1.5  # step, of the way to the minimum of a bundle's model
MOST_LOOKS = 4  # between trial steps along a direction of unknown length
MOST_STEPS = 32  # taken one after the other; then scores are recomputed, and a lost shard restarts there


class RowsOnShards:
    """The rows of a sample on shards, which hold the scores of the point and of the last direction.

    search : where steps are tried; direction : the last one, whose scores the shards hold
    """

    def __init__(self, search: StepSearch, lam: float, n_rows: int, rounds: Rounds, direction: FloatArray) -> None:
        self.search, self.lam, self.n_rows, self.rounds, self.direction = search, lam, n_rows, rounds, direction

    def scores(self, vector: Vector) -> FloatArray:
        """Return one row of zeros for the scores that stay on the shards."""
        return np.zeros((1, *vector.coefficients.shape[:-1]))

    def point(self, vector: Vector, scores: FloatArray) -> Point:
        """Return a vector as a point, with its squared length."""
        return Point(vector, scores, squared(vector.coefficients))

    def step(self, point: Point, direction: Direction, losses: float) -> float:
        """Return the step of least objective along a direction, from trials: a round or some."""
        self.direction = direction.vector.coefficients
        slope = self.lam * float(np.vdot(point.vector.coefficients, self.direction))
        line = LineQuadratic(losses, slope, self.lam * squared(self.direction), self.n_rows)
        return self.search.step(self.direction, line, self.rounds)

    def cut(self, point: Point, direction: Direction | None, step: float, further: float) -> Cut:
        """Have the shards take the step, and return the cut further on: a round."""
        parts: list[LineSlopes] = self.rounds.request(CutCommand(step, further))
        if self.direction.any():
            self.rounds.finish_step("keep", MovedSums(self.direction, step))
        else:
            self.rounds.forget_pending()
        gathered = added([part.gathered for part in parts]) / self.n_rows
        intercept = sum(part.intercepts for part in parts) / self.n_rows
        return Cut(Vector(gathered, gathered), intercept, sum(part.losses for part in parts) / self.n_rows)


@stored("descent-state")
@dataclass(frozen=True, eq=False)
class ShardedDescent:
    """State of the solution of a sample; a value. Losses are means over the rows of the sample.

    shares : through which the sample grew; n_rows : in it
    weights : the best point, (n_columns,) or (n_outputs, n_columns) float64; losses : there
    lower_bound : of the sampled objective, -inf before the first cut
    directions : cuts of this sample, and where to search next; search : how far
    direction : that the shards hold last; steps : taken since scores were computed
    iterations : of all samples; idle : in which nothing changed, up to now
    """

    lam: float
    shares: tuple[float, ...]
    n_rows: int
    weights: FloatArray
    losses: float
    lower_bound: float
    directions: Directions
    search: StepSearch
    direction: FloatArray
    steps: int
    iterations: int
    idle: int
    log: CommandLog
    work: WorkerState

    @property
    def objective(self) -> float:
        """Return the objective of the best point on the sample."""
        return self.losses + 0.5 * self.lam * squared(self.weights)

    @property
    def gap(self) -> float:
        """Return the gap of the sampled problem, >= 0."""
        return max(0.0, self.objective - self.lower_bound)

    @property
    def exhausted(self) -> bool:
        """Return whether objective and bound are as close as float64 resolves, or nothing changes any more."""
        return exhausted(self.objective, self.lower_bound, self.idle) is not None

    def descent(self, execution: Execution) -> Descent:
        """Return the iterations that continue from here; they change nothing of this state."""
        rounds = Rounds(execution, shards_of(self.work), self.work, self.log)
        rows = RowsOnShards(self.search, self.lam, self.n_rows, rounds, self.direction)
        vector = Vector(self.weights, self.weights)
        point, directions = rows.point(vector, rows.scores(vector)), deepcopy(self.directions)
        return Descent(rows, self.lam, directions, point, self.losses, self.lower_bound, self.iterations, self.idle)

    def after(self, descent: Descent, steps: int) -> ShardedDescent:
        """Return the state that the iterations have reached."""
        rows = descent.rows
        assert isinstance(rows, RowsOnShards)
        return replace(
            self,
            weights=descent.point.vector.coefficients,
            losses=descent.losses,
            lower_bound=descent.lower_bound,
            directions=descent.directions,
            direction=rows.direction,
            steps=steps,
            iterations=descent.iterations,
            idle=descent.idle,
            log=rows.rounds.log,
        )


def shards_of(work: WorkerState) -> tuple[Shard, ...]:
    """Return the shards whose rows are drawn."""
    opening: Any = work.opened
    assert isinstance(opening, OpenSample)
    return opening.rows.data.split("train")


def squared(weights: FloatArray) -> float:
    """Return the squared length of a vector."""
    return float(np.vdot(weights, weights))


def place_sample(
    work: WorkerState, log: CommandLog, shares: tuple[float, ...], weights: FloatArray, execution: Execution
) -> tuple[SampleTotals, CommandLog]:
    """Have all shards draw the sample, and compute the scores of a point there: one read."""
    rounds = Rounds(execution, shards_of(work), work, log)
    command = PlaceCommand(shares, weights)
    parts: list[SampleTotals] = rounds.request(command)
    rounds.finish_step("keep", command, last_only=True)
    rows, losses, new_rows, bytes_read, targets = zip(*parts, strict=True)
    least, largest = min(ends[0] for ends in targets), max(ends[1] for ends in targets)
    return SampleTotals(sum(rows), sum(losses), sum(new_rows), sum(bytes_read), (least, largest)), rounds.log


def begin(
    method: Scs,
    shares: tuple[float, ...],
    weights: FloatArray,
    n_rows: int,
    iterations: int,
    placed: tuple[WorkerState, CommandLog],
    execution: Execution,
) -> ShardedDescent:
    """Return the first cut of a sample, at a point that was placed there."""
    bundled, (work, log) = method.directions == "bundle", placed
    search = StepSearch(LONGEST if bundled else 1.0 / method.lam, 0 if bundled else MOST_LOOKS)
    nothing, directions = np.zeros_like(weights), method.new_directions()
    at = ShardedDescent(
        method.lam, shares, n_rows, weights, np.inf, -np.inf, directions, search, nothing, 0, iterations, 0, log, work
    )
    descent = at.descent(execution)
    descent.cut()
    return at.after(descent, 0)


def iterate(at: ShardedDescent, execution: Execution) -> ShardedDescent:
    """Take a direction, a step and a cut: two rounds, two reads of the rows."""
    if at.steps >= MOST_STEPS:
        _, log = place_sample(at.work, at.log, at.shares, at.weights, execution)
        at = replace(at, log=log, steps=0)
    descent = at.descent(execution)
    descent.iterate()
    return at.after(descent, at.steps + 1)
