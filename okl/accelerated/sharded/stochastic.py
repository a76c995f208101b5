"""A stochastic start over shards from samples of their rows: of an l1 problem, and of a minimax one.

Randomness comes from (seed, shard, round), so that no bit depends on who samples a shard, or how often.

Source: averaging as in Jaggi et al., NIPS 2014 (CoCoA); see okl.accelerated.stochastic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.blocksteps import go_down
from okl.accelerated.iterates import Iterate
from okl.accelerated.minimax import MinimaxProblem
from okl.accelerated.moments import ClassMoments, Moments, moments_of
from okl.accelerated.sharded.classmoments import merged_moments
from okl.accelerated.sharded.primalvectors import Placed, Try
from okl.accelerated.sharded.regions import spread
from okl.accelerated.sharded.rounds import Rounds
from okl.accelerated.sharded.rows import MappedRows
from okl.accelerated.sharded.signs import groups_of_class, signs_of_class
from okl.accelerated.sparsity import SparseProblem
from okl.accelerated.stochastic import StochasticStart, sampled
from okl.execution.protocol import Execution
from okl.store.dataset import Shard
from okl.types import FloatArray, IntArray


class _Sample(NamedTuple):
    """Random rows of a shard: inputs (b, n_columns), signs (b,), groups (b,)."""

    inputs: FloatArray
    signs: NDArray[np.float64]
    groups: IntArray


@dataclass(frozen=True, eq=False)
class _Samples:
    """What draws samples of shards. positive : class, None for +1; n_groups : of rows of one weight."""

    start: StochasticStart
    rows: MappedRows
    positive: int | None
    n_groups: int

    def drawn(self, shard: Shard, number: int) -> _Sample:
        """Sample `number` of a shard: one read."""
        chosen = self.start.sample(shard.rows, number, shard.index)
        inputs, targets = [], []
        for cut, block in self.rows.blocks(shard):
            here = chosen[(chosen >= cut.start) & (chosen < cut.stop)] - cut.start
            inputs.append(block.inputs[here])
            targets.append(block.targets[here])
        labels = np.concatenate(targets)
        signs, groups = signs_of_class(labels, self.positive), groups_of_class(labels, self.positive, self.n_groups)
        return _Sample(np.ascontiguousarray(np.concatenate(inputs)), signs, groups)


class _Share(NamedTuple):
    """A shard's w, and the number of its rows."""

    point: FloatArray
    rows: int


@dataclass(frozen=True, eq=False)
class DescentWork:
    """Work on a shard: steps from w on a sample of its rows, which weighs as much as all rows of all shards.

    prototype : of the l1 model; total : what the losses of all rows weigh
    """

    samples: _Samples
    prototype: SparseProblem
    total: float

    def __call__(self, shard: Shard, value: tuple[FloatArray, int]) -> _Share:
        """Where the steps lead from w in the round of this number."""
        point, number = value
        sample = self.samples.drawn(shard, number)
        weights = spread(self.prototype.weights, sample.groups)
        part = sampled(self.prototype, sample.inputs, sample.signs, weights, self.total)
        margins = np.empty(part.n_image)
        part.image(margins, point)
        return _Share(go_down(part, point, margins, self.samples.start.steps)[0], shard.rows)


def descend_primal(
    start: StochasticStart,
    prototype: SparseProblem,
    rounds: Rounds,
    execution: Execution,
    shards: Sequence[Shard],
    opening: tuple[MappedRows, int | None, float],
) -> Iterate:
    """The w that shards' samples lead to, or 0 where that is no lower; the shards' margins are those of it.

    opening : the mapped rows, the class that is +1, and what the losses of all rows weigh
    """
    rows, positive, total = opening
    work = DescentWork(_Samples(start, rows, positive, len(prototype.weights)), prototype, total)
    point: Any = np.zeros(rows.n_columns)
    for number in range(start.rounds):
        point = execution.mix(work, shards, (point, number), _averaged).point
    values = []
    for tried in (np.zeros(rows.n_columns), point):
        losses = sum(part.losses for part in rounds.ask(Try(tried, False)))
        values.append(losses + float(np.abs(tried).sum()))
    if not values[1] <= values[0]:
        rounds.forget_pending()
        return Iterate(np.zeros(rows.n_columns), np.empty(0))
    rounds.settle("begin", Placed(point, point), last_only=True)
    return Iterate(point, np.empty(0))


def _averaged(parts: list[_Share]) -> _Share:
    total = sum(part.rows for part in parts)
    return _Share(sum((part.rows / total) * part.point for part in parts), total)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class SampledMoments:
    """Work on a shard: moments of a sample of its rows of either class, each weighing its group's weight."""

    samples: _Samples

    def __call__(self, shard: Shard, weights: tuple[float, ...]) -> tuple[Moments, Moments]:
        """+1 first."""
        inputs, signs, groups = self.samples.drawn(shard, self.samples.start.rounds - 1)
        counted = spread(np.array(weights), groups)
        positive, negative = (moments_of(inputs[signs == sign], counted[signs == sign]) for sign in (1.0, -1.0))
        return positive, negative


def minimax_start(
    start: StochasticStart,
    problem: MinimaxProblem,
    execution: Execution,
    rows: MappedRows,
    positive: int | None,
    weights: tuple[float, ...],
) -> FloatArray:
    """The point of a minimax problem from the moments of a sample of every shard, or its own start."""
    work = SampledMoments(_Samples(start, rows, positive, len(weights)))
    plus, minus = execution.sum(work, rows.data.split("train"), weights, merged_moments)
    if min(plus.count, minus.count) <= 0.0:
        return problem.start()
    return start.minimax_point_of(problem, ClassMoments(plus, minus))
