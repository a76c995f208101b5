"""The dual vectors of a shard, which stay beside it from round to round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.dual import DualProblem
from okl.accelerated.separable import Quadratic, Separable
from okl.accelerated.sharded.messages import Verdict
from okl.accelerated.sharded.regions import part_of, spread
from okl.accelerated.sharded.risks import risk_part_of
from okl.accelerated.sharded.rows import MappedRows
from okl.accelerated.sharded.signs import groups_of_class, signs_of_class
from okl.store.dataset import Shard
from okl.types import IntArray


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
        """Before the first step."""
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

    def settle(self, verdict: Verdict) -> None:
        """Turn the buffers round, or forget the momentum."""
        if verdict != "drop":
            self.previous, self.current, self.new = self.current, self.new, self.previous
        if verdict != "keep":
            self.previous[:] = self.current

    def saved(self) -> NDArray[np.float64]:
        """(2, m)."""
        return np.stack([self.current, self.previous])

    def restore(self, saved: NDArray[np.float64]) -> None:
        """From what was saved."""
        self.current[:], self.previous[:] = saved


def _spread(separable: Separable, groups: IntArray) -> Separable:
    if isinstance(separable, Quadratic):
        return Quadratic(spread(separable.curvatures, groups))
    return separable
