"""Samples of a run over shards, in feature maps and exact kernels."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.data.dataset import Dataset
from okl.data.executor import Execution, Rows
from okl.foundation.errors import DataError
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.kernels import KnownKernel
from okl.solvers.rounds import CommandLog, WorkerState
from okl.solvers.subgradient.certificate import FullBound, Replicate, ReplicateWork, draw_of_shard, joined
from okl.solvers.subgradient.drawing import GapEstimate, SampledRows, SamplePlan
from okl.solvers.subgradient.method import KernelDescent, Scs, solve_sample
from okl.solvers.subgradient.sharded import OpenSample, SampleTotals, ShardedDescent, begin, place_sample
from okl.solvers.subgradient.spaces import KernelInputs, KernelRows, KernelValues

# State.


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
        """Return the share of all rows in the sample."""
        return self.descent.shares[-1]

    @property
    def n_all(self) -> int:
        """Return the number of training rows."""
        return self.rows.data.rows("train")


# Samples in a feature map.


@dataclass(frozen=True)
class Sampler:
    """Draws samples and takes the first cut of each. method : of the problem; plan : how samples grow."""

    method: Scs
    plan: SamplePlan

    def room(self, rows: int) -> bool:
        """Return whether a sample of so many rows can be solved: wherever shards can be read."""
        return True

    def start(
        self,
        rows: SampledRows,
        chosen: dict[str, Any],
        share: float,
        bytes_read: int,
        execution: Execution,
        weights: FloatArray | None = None,
    ) -> SubgradientState:
        """Return the first sample with one cut, at 0 or at given weights. bytes_read : before the sample."""
        n_outputs = rows.data.schema.n_outputs
        if weights is None:
            weights = np.zeros(rows.n_columns if n_outputs == 1 else (n_outputs, rows.n_columns))
        sample, descent, one_class = self.placed(rows, (share,), weights, 0, self.worker_state(rows), execution)
        sampled = sample.old_rows + sample.new_rows
        read = bytes_read + sample.bytes_read
        return SubgradientState(rows, chosen, (sampled,), descent, None, None, 0, sampled, read, one_class)

    def worker_state(self, rows: SampledRows) -> tuple[WorkerState, CommandLog]:
        """Return the worker state of a run before any shard has been read."""
        work = OpenSample(rows, self.method.loss, rows.data.schema.n_outputs)
        return WorkerState(secrets.token_hex(8), work), CommandLog()

    def placed(
        self,
        rows: SampledRows,
        shares: tuple[float, ...],
        weights: FloatArray,
        iterations: int,
        placed: tuple[WorkerState, CommandLog],
        execution: Execution,
    ) -> tuple[SampleTotals, ShardedDescent, int]:
        """Draw the sample of the last share, enlarged until it has two classes, and add one cut; count the redraws."""
        work, log = placed
        one_class, bytes_read, first = 0, 0, None
        while True:
            sample, log = place_sample(work, log, shares, weights, execution)
            first = first or sample
            alike = alike_targets(sample.targets, self.method)
            bytes_read += sample.bytes_read
            if shares[-1] >= 1.0 or not alike:
                break
            one_class += 1
            shares = (*shares, self.plan.next_share(shares[-1]))
        if one_class:  # of rows and losses that were new when this began
            new_rows = sample.old_rows + sample.new_rows - first.old_rows
            new_losses = sample.old_losses + sample.new_losses - first.old_losses
            sample = first._replace(new_rows=new_rows, new_losses=new_losses, bytes_read=bytes_read)
        return sample, begin(self.method, shares, weights, sample, iterations, (work, log), execution), one_class

    def grown(self, state: SubgradientState, share: float, execution: Execution) -> SubgradientState:
        """Return a larger sample that starts from the last point."""
        at = placed_descent(state)
        shares = (*at.shares, share)
        sample, descent, one_class = self.placed(
            state.rows, shares, at.weights, at.iterations, (at.work, at.log), execution
        )
        return replace(
            state,
            samples=(*state.samples, descent.n_rows),
            descent=descent,
            proof=None,
            drawn_rows=state.drawn_rows + sample.new_rows,
            bytes_read=state.bytes_read + sample.bytes_read,
            one_class=state.one_class + one_class,
        )

    def arrived(self, state: SubgradientState, data: Dataset, execution: Execution) -> SubgradientState:
        """Return the same point on a sample of the same size that includes new shards.

        Raises
        ------
        DataError : the data do not begin with the shards that there were, or are scaled otherwise
        """
        check_arrived(state.rows.data, data)
        at = placed_descent(state)
        rows = replace(state.rows, data=data)
        share = min(1.0, at.n_rows / data.rows("train"))
        sample, descent, one_class = self.placed(
            rows, (share,), at.weights, at.iterations, self.worker_state(rows), execution
        )
        return replace(
            state,
            rows=rows,
            samples=(*state.samples, descent.n_rows),
            descent=descent,
            seen=None,
            proof=None,
            drawn_rows=state.drawn_rows + descent.n_rows,
            bytes_read=state.bytes_read + sample.bytes_read,
            one_class=state.one_class + one_class,
        )


def placed_descent(state: SubgradientState) -> ShardedDescent:
    """Return the descent of a state whose sample is held by the shards."""
    assert isinstance(state.descent, ShardedDescent)
    return state.descent


def alike_targets(targets: tuple[float, float], method: Scs) -> bool:
    """Return whether the least and the largest target show that all rows are of one class."""
    return targets[0] >= targets[1] and method.loss.task != "regression"


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


@dataclass(frozen=True)
class KernelSampler:
    """Draws samples and solves each as far as it is worth, in one go. method : of the problem; plan : of growth

    max_iterations : of all samples
    """

    method: Scs
    plan: SamplePlan
    max_iterations: int

    def room(self, rows: int) -> bool:
        """Return whether a sample of so many rows can be solved: whether its kernel values fit."""
        return rows <= most_rows()

    def start(
        self, rows: SampledRows, chosen: dict[str, Any], share: float, bytes_read: int, execution: Execution
    ) -> SubgradientState:
        """Return the first sample, solved. bytes_read : before the sample."""
        descent, read, one_class = self._solved(rows, (share,), None, execution)
        sampled = descent.n_rows
        return SubgradientState(rows, chosen, (sampled,), descent, None, None, 0, sampled, bytes_read + read, one_class)

    def grown(self, state: SubgradientState, share: float, execution: Execution) -> SubgradientState:
        """Return a larger sample that starts from the last point."""
        at = kernel_descent(state)
        descent, read, one_class = self._solved(state.rows, (*at.shares, share), at, execution)
        return self._followed(state, descent, descent.n_rows - at.n_rows, read, one_class)

    def arrived(self, state: SubgradientState, data: Dataset, execution: Execution) -> SubgradientState:
        """Return a sample of the same size that includes new shards, solved from 0, as its rows differ.

        Raises
        ------
        DataError : the data do not begin with the shards that there were, or are scaled otherwise
        """
        check_arrived(state.rows.data, data)
        rows, at = replace(state.rows, data=data), kernel_descent(state)
        share = min(1.0, at.n_rows / data.rows("train"))
        descent, read, one_class = self._solved(rows, (share,), None, execution)
        descent = replace(descent, iterations=descent.iterations + at.iterations)
        return replace(self._followed(state, descent, descent.n_rows, read, one_class), rows=rows, seen=None)

    def _followed(
        self, state: SubgradientState, descent: KernelDescent, sample: int, read: int, one_class: int
    ) -> SubgradientState:
        return replace(
            state,
            samples=(*state.samples, descent.n_rows),
            descent=descent,
            proof=None,
            drawn_rows=state.drawn_rows + sample,
            bytes_read=state.bytes_read + read,
            one_class=state.one_class + one_class,
        )

    def _solved(
        self, rows: SampledRows, shares: tuple[float, ...], before: KernelDescent | None, execution: Execution
    ) -> tuple[KernelDescent, int, int]:
        """Solve the sample of the last share, enlarged until it has two classes.

        Also return the bytes read, and the number of samples with one class.
        """
        parts, shards = [] if before is None else [before.sample], rows.data.split("train")
        beyond, bytes_read, one_class = 0.0 if before is None else before.shares[-1], 0, 0
        while True:
            for part, read in execution.map(ShardDraw(rows, shares[-1], beyond), range(len(shards))):
                parts += [part] if len(part.targets) else []
                bytes_read += read
            sample = joined(parts, rows.n_columns)
            targets = sample.targets
            ends = (float(targets.min()), float(targets.max())) if len(targets) else (math.inf, -math.inf)
            if shares[-1] >= 1.0 or not alike_targets(ends, self.method):
                break
            one_class, beyond = one_class + 1, shares[-1]
            shares = (*shares, self.plan.next_share(beyond))
        return self._descent(rows, shares, sample, before), bytes_read, one_class

    def _descent(
        self, rows: SampledRows, shares: tuple[float, ...], sample: Rows, before: KernelDescent | None
    ) -> KernelDescent:
        n_rows, done = len(sample.targets), 0 if before is None else before.iterations
        space = kernel_space(rows, sample.inputs)
        method = replace(self.method, max_iterations=max(1, self.max_iterations - done))
        start = None if before is None else space.lifted(before.vector)
        solved = solve_sample(space, sample.targets, method, start, self.plan.tolerance(shares[-1], n_rows))
        exhausted = solved.reason in ("rounding", "stalled")
        ends = solved.objective, solved.lower_bound
        return KernelDescent(shares, sample, solved.point.vector, *ends, done + solved.iterations, exhausted)


@dataclass(frozen=True, eq=False)
class ShardDraw:
    """Work for `execution.map`: rows of the shard of an index in the sample of a share and not in a smaller one."""

    rows: SampledRows
    share: float
    beyond: float

    def __call__(self, index: int) -> tuple[Rows, int]:
        """Return the rows and the bytes read."""
        shard = self.rows.data.split("train")[index]
        parts, read = draw_of_shard(self.rows, shard, self.share, self.beyond)
        return joined(parts, self.rows.n_columns), read


@dataclass(frozen=True, eq=False)
class KernelReplicateWork(ReplicateWork):
    """The same for a point that is a sum over supports: (n_supports, n_inputs), weights (n_outputs, n_supports).

    Both ends are in the whole space of the kernel: the optimum of a sample lies in the span of its own rows.
    """

    supports: FloatArray
    squared_length: float

    def bracket(self, sample: Rows, total: float, bytes_read: int) -> Replicate:
        """Bracket the optimum of a sample, and evaluate the point; total : sum of the row weights, about 1."""
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
    """Whose kernel values fit."""
    return math.isqrt(MEMORY_BYTES // 8)


def kernel_of(rows: SampledRows) -> KnownKernel:
    """Return the kernel that replaces a feature map."""
    assert isinstance(rows.feature_map, KernelInputs)
    return rows.feature_map.kernel


def kernel_descent(state: SubgradientState) -> KernelDescent:
    """Return the descent of a state whose sample is held by the caller."""
    assert isinstance(state.descent, KernelDescent)
    return state.descent


def kernel_space(rows: SampledRows, inputs: FloatArray) -> KernelRows:
    """Return the space of a sample's rows, (n, n_inputs)."""
    values = KernelValues(kernel_of(rows), inputs, 0.0, 2 * MEMORY_BYTES)  # a sample may be larger than its share
    return KernelRows(values, len(inputs), rows.data.schema.n_outputs)
