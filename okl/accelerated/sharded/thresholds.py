"""The bias of fewest training errors over shards: by counts of scores in bins, in two rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from okl.accelerated.sharded.regions import spread
from okl.accelerated.sharded.rounds import added
from okl.accelerated.sharded.rows import MappedRows
from okl.accelerated.sharded.signs import groups_of_class, signs_of_class
from okl.execution.protocol import Execution
from okl.store.dataset import Shard
from okl.types import FloatArray

_BINS = 4096


@dataclass(frozen=True, eq=False)
class CountScores:
    """Work on a shard: rows of either class by bin of their score; or, without edges, the range of the scores.

    counted : what an error on a row of each group counts, see okl.accelerated.sharded.prototype.Classes
    """

    rows: MappedRows
    weights: FloatArray
    positive: int | None
    counted: tuple[float, ...]

    def __call__(self, shard: Shard, edges: FloatArray | None) -> FloatArray:
        """Weight of positives less that of negatives in each bin, (n_edges + 1,); or lowest and highest score, (2,)."""
        scores, counts = np.empty(shard.rows), np.empty(shard.rows)
        for cut, block in self.rows.blocks(shard):
            groups = groups_of_class(block.targets, self.positive, len(self.counted))
            counts[cut] = signs_of_class(block.targets, self.positive) * spread(np.array(self.counted), groups)
        self.rows.pull(scores, shard, np.ones(shard.rows), self.weights)
        if edges is None:
            return np.array([scores.min(), scores.max()])
        places = np.searchsorted(edges, scores)
        return np.bincount(places, weights=counts, minlength=len(edges) + 1).astype(np.float64)


def error_minimising_threshold(
    execution: Execution, rows: MappedRows, weights: FloatArray, positive: int | None, counted: tuple[float, ...]
) -> float:
    """A bias b whose errors of sign(<w, z> - b) weigh least, among 4096^2 candidates over the range of the scores.

    The best edge of 4096 bins is found first, then the best of 4096 between its neighbours; no row's score travels.

    Source: Ito et al., 2017, (26), to the resolution of the bins.
    """
    shards, work = rows.data.split("train"), CountScores(rows, weights, positive, counted)
    ends = execution.sum(work, shards, None, _extremes)
    low, high = float(ends[0]), float(ends[1])
    margin = 1e-3 * (high - low) + 1e-12
    low, high = low - margin, high + margin
    best = low
    for _ in range(2):
        edges = np.linspace(low, high, _BINS)
        counts = execution.sum(work, shards, edges, added)
        # with the threshold at an edge, rows below it are predicted -1: positives there are errors, negatives are not
        errors = np.cumsum(counts)[:-1]
        # in the middle of the best run: no score is as near to its edge as to its middle
        least = np.flatnonzero(errors == errors.min())
        first = int(least[0])
        last = first + int(np.argmin(np.append(np.diff(least) == 1, False)))
        best = 0.5 * float(edges[first] + edges[last])
        low, high = float(edges[max(first - 1, 0)]), float(edges[min(last + 1, _BINS - 1)])
    return best


def _extremes(parts: list[FloatArray]) -> FloatArray:
    return np.array([min(part[0] for part in parts), max(part[1] for part in parts)])
