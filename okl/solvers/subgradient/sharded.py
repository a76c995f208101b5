"""Samples of a run over shards: cutting planes in a feature map, and exact kernels."""

from __future__ import annotations

import math
import secrets
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from okl.compiled.bundle import add_sloped_rows, add_sloped_rows_of_classes, score_rows, score_rows_of_classes
from okl.data.dataset import Dataset, Shard
from okl.data.execution import Execution, Rows
from okl.foundation.class_tags import stored
from okl.foundation.errors import DataError
from okl.foundation.types import Doubles, FloatArray
from okl.kernels import NamedKernel
from okl.losses import PiecewiseLinear
from okl.solvers.subgradient.sampling import (
    FullBound,
    GapEstimate,
    Replicate,
    ReplicateWork,
    SampledRows,
    SamplePlan,
    Segment,
    draw_of_shard,
    joined,
)
from okl.solvers.subgradient.scs import (
    Cut,
    Descent,
    Direction,
    Directions,
    KernelDescent,
    Point,
    Scs,
    exhausted,
    solve_sample,
)
from okl.solvers.subgradient.spaces import KernelInputs, KernelRows, KernelValues, Vector
from okl.solvers.worker_rounds import Command, CommandLog, Rounds, Verdict, WorkerState, added

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
        return sum(segment.rows for segment in self.segments)

    def draw(self, shares: tuple[float, ...]) -> list[Segment]:
        """Draw the rows of a sample that grew through these shares; return the segments that are new here."""
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

    def move(self, step: float) -> None:
        """Take a step along the direction."""
        if step:
            self.scores = self.scores + step * self.along

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

    def saved(self) -> Doubles:
        """Return the state that files do not hold: number of shares, shares and scores."""
        return np.concatenate([[len(self.shares)], self.shares, self.scores.ravel()])

    def restore(self, saved: Doubles) -> None:
        stages = int(saved[0])
        self.draw(tuple(saved[1 : 1 + stages].tolist()))
        self.scores, self.along = self._zeros(), self._zeros()
        self.scores.ravel()[:] = saved[1 + stages :]

    def _zeros(self) -> FloatArray:
        outputs = self.opening.n_outputs
        return np.zeros(self.n_rows if outputs == 1 else (self.n_rows, outputs))


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
    """Draw the rows of a sample that grew through these shares, and compute the scores of a point."""

    shares: tuple[float, ...]
    weights: FloatArray

    def run(self, vectors: SampleVectors) -> SampleTotals:
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
    """Take a step along the direction, and compute slopes further on."""

    step: float
    further: float

    def run(self, vectors: SampleVectors) -> LineSlopes:
        self.redo(vectors)
        loss, targets, along = vectors.opening.loss, vectors.targets, vectors.along
        scores = vectors.scores + self.further * along if self.further else vectors.scores
        slopes = np.empty_like(scores)
        losses, intercepts = loss.slopes_into(slopes, scores, along, targets)
        if self.further:
            losses, _ = loss.line(vectors.scores, along, targets, 0.0)
        return LineSlopes(vectors.gathered(slopes), intercepts, losses)

    def redo(self, vectors: SampleVectors) -> None:
        vectors.move(self.step)


@stored("sample-try-command")
@dataclass(frozen=True, eq=False)
class StepCommand:
    """Another direction, and steps along it."""

    direction: FloatArray
    steps: tuple[float, ...]

    def run(self, vectors: SampleVectors) -> Doubles:
        self.redo(vectors)
        return RepeatCommand(self.steps).run(vectors)

    def redo(self, vectors: SampleVectors) -> None:
        vectors.along = vectors.scores_of(self.direction)


@stored("sample-restart-command")
@dataclass(frozen=True, eq=False)
class RepeatCommand:
    """Other steps along the same direction."""

    steps: tuple[float, ...]

    def run(self, vectors: SampleVectors) -> Doubles:
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
        vectors.along = vectors.scores_of(self.direction)
        vectors.move(self.step)


# Line searches over shards.

N_STEPS = 24
_NARROW = 0.02  # of its upper end: a bracket that need not be looked into
_EVEN = np.arange(1, N_STEPS + 1) / N_STEPS


@stored("line-search")
@dataclass(frozen=True)
class ShardedLineSearch:
    """The step of least objective in [0, longest], by the secant of the slopes between two trials where they turn.

    Trials are denser towards 0, with the cube of their number. looks : how often the two trials that the least one is
    between are looked in between: a round each, without a vector
    """

    longest: float
    looks: int


def _turning(
    steps: Doubles, values: Doubles, slopes: Doubles, losses: float, start: float
) -> tuple[float, float, float]:
    """Return two steps that the least objective is between, and the step to take.

    values, slopes : of the objective at the steps, less what is the same for all; losses : at 0; start : below the
        first step
    """
    least = int(np.argmin(values))
    fallback = float(steps[least]) if start > 0.0 or values[least] < losses else 0.0
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
    """Rows of a sample on shards, which hold the scores of the point and of the last direction of search."""

    def __init__(
        self, search: ShardedLineSearch, lam: float, n_rows: int, rounds: Rounds, direction: FloatArray
    ) -> None:
        self.search, self.lam, self.n_rows, self.rounds, self.direction = search, lam, n_rows, rounds, direction

    def scores(self, vector: Vector) -> FloatArray:
        return np.zeros((1, *vector.coefficients.shape[:-1]))

    def point(self, vector: Vector, scores: FloatArray) -> Point:
        return Point(vector, scores, squared(vector.coefficients))

    def step(self, point: Point, direction: Direction, losses: float) -> float:
        """Return the step of least objective along a direction, from trials: a round or some."""
        self.direction, search = direction.vector.coefficients, self.search
        slope = self.lam * float(np.vdot(point.vector.coefficients, self.direction))
        curvature = self.lam * squared(self.direction)

        def turning(command: Command, start: float = 0.0) -> tuple[float, float, float]:
            line = added(self.rounds.request(command)) / self.n_rows
            values = line[:, 0] + slope * steps + 0.5 * curvature * steps**2
            return _turning(steps, values, line[:, 1] + slope + curvature * steps, losses, start)

        steps = search.longest * _EVEN**3
        low, high, best = turning(StepCommand(self.direction, tuple(steps.tolist())))
        for _ in range(search.looks):
            if high - low <= _NARROW * high:
                break
            steps = low + (high - low) * (_EVEN if low > 0.0 else _EVEN**3)
            low, high, best = turning(RepeatCommand(tuple(steps.tolist())), low)
        return best

    def cut(self, point: Point, direction: Direction | None, step: float, further: float) -> Cut:
        """Send the step to the shards, and return the cut further on: a round."""
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
    search: ShardedLineSearch
    direction: FloatArray
    steps: int
    iterations: int
    idle: int
    log: CommandLog
    work: WorkerState

    @property
    def objective(self) -> float:
        return self.losses + 0.5 * self.lam * squared(self.weights)

    @property
    def gap(self) -> float:
        return max(0.0, self.objective - self.lower_bound)

    @property
    def exhausted(self) -> bool:
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
    """Draw the sample on all shards, and compute the scores of a point there: one read."""
    rounds = Rounds(execution, shards_of(work), work, log)
    command = PlaceCommand(shares, weights)
    parts: list[SampleTotals] = rounds.request(command)
    rounds.finish_step("keep", command, last_only=True)
    rows, losses, new_rows, bytes_read, targets = zip(*parts, strict=True)
    least, largest = min(ends[0] for ends in targets), max(ends[1] for ends in targets)
    return SampleTotals(sum(rows), sum(losses), sum(new_rows), sum(bytes_read), (least, largest)), rounds.log


def iterate(at: ShardedDescent, execution: Execution) -> ShardedDescent:
    """Take a direction, a step and a cut: two rounds, two reads of the rows."""
    if at.steps >= MOST_STEPS:
        _, log = place_sample(at.work, at.log, at.shares, at.weights, execution)
        at = replace(at, log=log, steps=0)
    descent = at.descent(execution)
    descent.iterate()
    return at.after(descent, at.steps + 1)


@stored("subgradient-state")
@dataclass(frozen=True, eq=False)
class SubgradientState:
    """Everything that evolves; never written into.

    rows : of all shards; chosen : the map's choices
    samples : rows of each sample so far; descent : state of the last one
    seen : last result of fresh samples at a point; None before the first
    proof : over all rows, of the current point; None before the first attempt; attempts : so far
    drawn_rows, bytes_read : of all samples, those of proofs among them
    one_class : samples whose rows were all of one class
    """

    rows: SampledRows
    chosen: dict[str, Any]
    samples: tuple[int, ...]
    descent: ShardedDescent | KernelDescent
    seen: GapEstimate | None
    proof: FullBound | None
    attempts: int
    drawn_rows: int
    bytes_read: int
    one_class: int

    @property
    def share(self) -> float:
        return self.descent.shares[-1]

    @property
    def n_all(self) -> int:
        return self.rows.data.rows("train")


class ShardedSample:
    """Rows in a feature map, which stay on the shards; one call takes the first cut.

    before : the descent to continue, None at 0 or at given weights; larger : whether its rows are among these
    """

    def __init__(
        self,
        method: Scs,
        rows: SampledRows,
        before: ShardedDescent | None,
        larger: bool = False,
        weights: FloatArray | None = None,
    ) -> None:
        n_outputs = rows.data.schema.n_outputs
        self._method, self._iterations = method, 0 if before is None else before.iterations
        if before is not None:
            weights = before.weights
        elif weights is None:
            weights = np.zeros(rows.n_columns if n_outputs == 1 else (n_outputs, rows.n_columns))
        self._weights, self._rows = weights, 0
        if larger and before is not None:
            self._work, self._log = before.work, before.log
        else:
            opening = OpenSample(rows, method.loss, n_outputs)
            self._work, self._log = WorkerState(secrets.token_hex(8), opening), CommandLog()

    def draw(self, shares: tuple[float, ...], execution: Execution) -> SampleTotals:
        """Draw the rows of a sample that grew through these shares, on the shards: one read."""
        totals, self._log = place_sample(self._work, self._log, shares, self._weights, execution)
        self._rows = totals.rows
        return totals

    def descent(self, shares: tuple[float, ...], execution: Execution) -> ShardedDescent:
        """Return the sample with one cut. shares : of all rows that were drawn"""
        method, bundled = self._method, self._method.directions == "bundle"
        at = ShardedDescent(
            lam=method.lam,
            shares=shares,
            n_rows=self._rows,
            weights=self._weights,
            losses=np.inf,
            lower_bound=-np.inf,
            directions=method.new_directions(),
            search=ShardedLineSearch(LONGEST if bundled else 1.0 / method.lam, 0 if bundled else MOST_LOOKS),
            direction=np.zeros_like(self._weights),
            steps=0,
            iterations=self._iterations,
            idle=0,
            log=self._log,
            work=self._work,
        )
        descent = at.descent(execution)
        descent.cut()
        return at.after(descent, 0)


def check_arrived(before: Dataset, data: Dataset) -> None:
    """Raise DataError unless data start with the earlier shards, with the same scaling."""
    old, new = before.split("train"), data.split("train")
    same = new[: len(old)] == old and data.schema.features == before.schema.features
    if not same or any((a != b).any() for a, b in zip(_scaling(before), _scaling(data), strict=True)):
        raise DataError(
            f"{data.folder} does not start with the shards of {before.folder} in the same scaling. A run "
            "resumes only with its data and appended shards. Train afresh."
        )


def _scaling(data: Dataset) -> tuple[FloatArray, FloatArray, FloatArray]:
    return (*data.schema.shift_and_factor, np.array(data.schema.target_shift_and_factor))


# Samples for exact kernels.

MEMORY_BYTES = 2**30  # of kernel values, in float64
_BLOCK = 1024


class KernelSample:
    """Rows of an exact kernel, which the caller holds; one call solves them to the tolerance of the sample's size.

    before : the descent to continue; larger : whether its rows are among these: otherwise only its iterations count
    """

    def __init__(
        self, method: Scs, plan: SamplePlan, rows: SampledRows, before: KernelDescent | None, larger: bool = False
    ) -> None:
        self._method, self._plan, self._rows = method, plan, rows
        self._iterations = 0 if before is None else before.iterations
        self._before = before if larger else None
        self._parts = [] if self._before is None else [self._before.sample]
        self._beyond = 0.0 if self._before is None else self._before.shares[-1]

    def draw(self, shares: tuple[float, ...], execution: Execution) -> SampleTotals:
        shards, bytes_read, new_rows = self._rows.data.split("train"), 0, 0
        work = partial(draw_of_shard, self._rows, share=shares[-1], beyond=self._beyond)
        for part, read in execution.map(work, shards):
            self._parts.append(part)
            bytes_read, new_rows = bytes_read + read, new_rows + len(part.targets)
        self._beyond, targets = shares[-1], [part.targets for part in self._parts if len(part.targets)]
        ends = min(map(np.min, targets), default=np.inf), max(map(np.max, targets), default=-np.inf)
        return SampleTotals(sum(map(len, targets)), np.nan, new_rows, bytes_read, ends)

    def descent(self, shares: tuple[float, ...], execution: Execution) -> KernelDescent:
        """Return the sample, solved to the tolerance of its size."""
        sample, before = joined(self._parts, self._rows.n_columns), self._before
        space = kernel_space(self._rows, sample.inputs)
        done = 0 if before is None else self._iterations
        method = replace(self._method, max_iterations=max(1, self._method.max_iterations - done))
        start = None if before is None else space.lifted(before.vector)
        until = self._plan.tolerance(shares[-1], len(sample.targets))
        solved = solve_sample(space, sample.targets, method, start, until)
        ends, iterations = (solved.objective, solved.lower_bound), self._iterations + solved.iterations
        exhausted = solved.reason in ("rounding", "stalled")
        return KernelDescent(shares, sample, solved.point.vector, *ends, iterations, exhausted)


Sample = ShardedSample | KernelSample
"""The rows of a sample that is about to be solved: drawn until they have two classes."""


@dataclass(frozen=True, eq=False)
class KernelReplicateWork(ReplicateWork):
    """The same for a point that is a sum over supports: (n_supports, n_inputs), weights (n_outputs, n_supports).

    Both ends are in the whole space of the kernel: the optimum of a sample lies in the span of its own rows.
    """

    supports: FloatArray
    squared_length: float

    def bracket(self, sample: Rows, total: float, bytes_read: int) -> Replicate:
        space, lam = kernel_space(self.rows, sample.inputs), self.method.lam
        losses = self.method.loss.value(self._scores(sample.inputs), sample.targets)
        objective = total * float(losses.mean()) + 0.5 * lam * self.squared_length
        solved = solve_sample(space, sample.targets, replace(self.method, lam=lam / total))
        return Replicate(objective, total * solved.lower_bound, space.n_rows, bytes_read)

    def _scores(self, inputs: FloatArray) -> FloatArray:
        kernel, supports = kernel_of(self.rows), self.supports.astype(np.float64)
        parts = [
            kernel.matrix(inputs[first : first + _BLOCK].astype(np.float64), supports) @ self.weights.T
            for first in range(0, len(inputs), _BLOCK)
        ]
        scores: FloatArray = np.concatenate(parts)
        return scores[:, 0] if self.n_outputs == 1 else scores


def most_rows() -> int:
    """Return the number of rows whose kernel values fit in memory."""
    return math.isqrt(MEMORY_BYTES // 8)


def kernel_of(rows: SampledRows) -> NamedKernel:
    """Return the kernel that replaces a feature map."""
    assert isinstance(rows.feature_map, KernelInputs)
    return rows.feature_map.kernel


def kernel_space(rows: SampledRows, inputs: FloatArray) -> KernelRows:
    """Return the space of a sample's rows, (n, n_inputs)."""
    values = KernelValues(kernel_of(rows), inputs, 0.0, 2 * MEMORY_BYTES)  # a sample may be larger than its share
    return KernelRows(values, len(inputs), rows.data.schema.n_outputs)
