"""Samples of a run over shards, in feature maps and exact kernels."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from okl.data.dataset import Dataset
from okl.data.executor import Execution, Rows
from okl.foundation.errors import DataError
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.kernels import KnownKernel
from okl.losses import PiecewiseLinear
from okl.solvers.rounds import CommandLog, WorkerState
from okl.solvers.subgradient.certificate import FullBound, Replicate, ReplicateWork, draw_of_shard, joined
from okl.solvers.subgradient.drawing import GapEstimate, SampledRows, SamplePlan
from okl.solvers.subgradient.method import KernelDescent, Scs, solve_sample
from okl.solvers.subgradient.sharded import OpenSample, SampleTotals, ShardedDescent, begin, place_sample
from okl.solvers.subgradient.spaces import KernelInputs, KernelRows, KernelValues

# The state of a run, and its samples on shards.


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


class Sample(Protocol):
    """The rows of a sample that is about to be solved: drawn until they have two classes."""

    def draw(self, shares: tuple[float, ...], execution: Execution) -> SampleTotals:
        """Have the rows of a sample that grew through these shares."""

    def descent(self, shares: tuple[float, ...], execution: Execution) -> ShardedDescent | KernelDescent:
        """Return the sample, solved as far as one call goes. shares : of all rows that were drawn"""


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
            self._work, self._log = worker_state(rows, method.loss), CommandLog()

    def draw(self, shares: tuple[float, ...], execution: Execution) -> SampleTotals:
        """Have the shards draw the rows: one read."""
        totals, self._log = place_sample(self._work, self._log, shares, self._weights, execution)
        self._rows = totals.rows
        return totals

    def descent(self, shares: tuple[float, ...], execution: Execution) -> ShardedDescent:
        """Return the sample with one cut."""
        placed = (self._work, self._log)
        return begin(self._method, shares, self._weights, self._rows, self._iterations, placed, execution)


def worker_state(rows: SampledRows, loss: PiecewiseLinear) -> WorkerState:
    """Return the worker state of a run before any shard has been read."""
    return WorkerState(secrets.token_hex(8), OpenSample(rows, loss, rows.data.schema.n_outputs))


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
    """Rows of an exact kernel, which the caller holds; one call solves them as far as it is worth.

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
        """Read the rows that are not here yet."""
        shards, bytes_read, new_rows = self._rows.data.split("train"), 0, 0
        for part, read in execution.map(ShardDraw(self._rows, shares[-1], self._beyond), range(len(shards))):
            self._parts += [part] if len(part.targets) else []
            bytes_read, new_rows = bytes_read + read, new_rows + len(part.targets)
        self._beyond, targets = shares[-1], [part.targets for part in self._parts]
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


def kernel_space(rows: SampledRows, inputs: FloatArray) -> KernelRows:
    """Return the space of a sample's rows, (n, n_inputs)."""
    values = KernelValues(kernel_of(rows), inputs, 0.0, 2 * MEMORY_BYTES)  # a sample may be larger than its share
    return KernelRows(values, len(inputs), rows.data.schema.n_outputs)
