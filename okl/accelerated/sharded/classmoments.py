"""Moments of the two classes from shards: all that the minimax models know of the rows, in one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from okl.accelerated.moments import ClassMoments, Moments, moments_of
from okl.accelerated.sharded.regions import spread
from okl.accelerated.sharded.rows import MappedRows
from okl.accelerated.sharded.signs import groups_of_class, signs_of_class
from okl.execution.protocol import Execution
from okl.store.dataset import Shard

_Pair = tuple[Moments, Moments]


@dataclass(frozen=True, eq=False)
class MomentsWork:
    """Work on a shard: the moments of its rows of either class, +1 first. positive : class, None for +1."""

    rows: MappedRows
    positive: int | None

    def __call__(self, shard: Shard, weights: tuple[float, ...]) -> _Pair:
        """Merged segment by segment; each row weighs its group's weight, +1 first."""
        nothing = moments_of(np.empty((0, self.rows.n_columns)))
        totals = [nothing, nothing]
        for _, block in self.rows.blocks(shard):
            signs = signs_of_class(block.targets, self.positive)
            counted = spread(np.array(weights), groups_of_class(block.targets, self.positive, len(weights)))
            for k, sign in enumerate((1.0, -1.0)):
                plain = set(weights[:1] if k == 0 else weights[1:]) == {1.0}
                chosen = signs == sign
                totals[k] = totals[k].merged(moments_of(block.inputs[chosen], None if plain else counted[chosen]))
        return totals[0], totals[1]


def sharded_moments(
    execution: Execution,
    rows: MappedRows,
    shards: Sequence[Shard],
    positive: int | None,
    weights: tuple[float, ...] = (1.0, 1.0),
) -> ClassMoments:
    """Moments of the rows of all shards, merged in their order: O(n_columns^2) numbers a shard, once.

    Raises
    ------
    DataError : a class has no rows
    """
    return ClassMoments(*execution.sum(MomentsWork(rows, positive), shards, weights, merged_moments))


def merged_moments(parts: list[_Pair]) -> _Pair:
    """Moments of all shards' rows, merged in the order of the shards."""
    positive, negative = parts[0]
    for part in parts[1:]:
        positive, negative = positive.merged(part[0]), negative.merged(part[1])
    return positive, negative
