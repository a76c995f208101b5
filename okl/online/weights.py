"""What evolves while a linear learner sees rows one by one: weights, their average, and how the predictions did."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import aligned_empty
from okl.compiled.counting import SAMPLED
from okl.compiled.updates import Learnt
from okl.online.progress import Progress, progress_arrays, progress_from
from okl.types import FloatArray, Task

SAMPLE_EVERY = 16  # rows between two samples of the weights for their average; each costs as much as a step


@dataclass(frozen=True, eq=False)
class Weights:
    """The state of a linear learner: a value that no method writes into.

    last : (n_outputs, n_columns), in the map's precision, after the last row
    total : the same in float64, the sum of the weights after every 16th row since learning began, the t-th t times;
        None for zero, which need not travel
    n_sampled : how many weights total adds up, 1 + 2 + ...; progress : how the predictions did
    """

    last: FloatArray
    total: NDArray[np.float64] | None
    n_sampled: int
    progress: Progress

    @property
    def averaged(self) -> FloatArray:
        """Mean of the sampled weights, later ones counting more, (n_outputs, n_columns); last before 16 rows.

        Source: Lacoste-Julien, Schmidt & Bach, arXiv 1212.2002, 2012, equation (5).
        """
        if self.n_sampled == 0 or self.total is None:
            return self.last
        return (self.total / self.n_sampled).astype(self.last.dtype)

    @property
    def summed(self) -> NDArray[np.float64]:
        """A copy of total, zeros for None."""
        return np.zeros(self.last.shape) if self.total is None else self.total.copy()

    def without_average(self) -> Weights:
        """The same weights, with an average that begins afresh."""
        return replace(self, total=None, n_sampled=0)


def learnt_from(weights: Weights) -> Learnt:
    """Copies of everything that learning writes into."""
    last = aligned_empty(weights.last.shape, weights.last.dtype)
    last[...] = weights.last
    counts, sums, class_counts = progress_arrays(weights.progress)
    counts[SAMPLED] = weights.n_sampled
    return Learnt(last, weights.summed, counts, sums, class_counts)


def weights_from(learnt: Learnt, task: Task) -> Weights:
    """The value that learnt, which is not written into any more, has become."""
    progress = progress_from(task, learnt.counts, learnt.sums, learnt.class_counts)
    return Weights(learnt.weights, learnt.total, int(learnt.counts[SAMPLED]), progress)


def average_weights(base: Weights, parts: list[Weights]) -> Weights:
    """Average by rows what shards learnt from the same weights, in the order given.

    The average of the weights takes in what every shard sampled on its way.

    Source: McDonald, Hall & Mann, NAACL 2010, Figure 3 (iterative parameter mixing).
    """
    grown = [part.progress.since(base.progress) for part in parts]
    rows = sum(progress.rows for progress in grown)
    if rows == 0:
        return base
    last, total = np.zeros(base.last.shape), base.summed
    progress, n_sampled = base.progress, base.n_sampled
    for part, growth in zip(parts, grown, strict=True):
        last += (growth.rows / rows) * part.last
        total += part.summed
        n_sampled += part.n_sampled
        progress = progress.plus(growth)
    return Weights(last.astype(base.last.dtype), total, n_sampled, progress)
