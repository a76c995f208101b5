"""What evolves while rows are learnt under constraints: weights, and how far limits were overstepped on the way."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from okl.compiled.constrained import Watched
from okl.online.weights import Weights, average_weights


@dataclass(frozen=True, eq=False)
class ConstrainedWeights(Weights):
    """Weights, and the queues of Algorithm 1; never written into.

    queues : (2, m) float64, of lower and upper limits
    exceeded : (m + 1,), as in okl.compiled.constrained.Watched
    """

    queues: NDArray[np.float64]
    exceeded: NDArray[np.float64]

    @classmethod
    def of(cls, weights: Weights, queues: NDArray[np.float64], exceeded: NDArray[np.float64]) -> ConstrainedWeights:
        """Weights, with what was exceeded counted in their progress."""
        values = {field.name: getattr(weights, field.name) for field in fields(Weights)}
        values["progress"] = replace(weights.progress, violation=float(exceeded[-1]))
        return cls(**values, queues=queues, exceeded=exceeded)


def watched_from(weights: ConstrainedWeights) -> Watched:
    """Copies of all that learning writes into, beside the weights."""
    return Watched(weights.queues.copy(), np.zeros(len(weights.exceeded) - 1), weights.exceeded.copy())


def average_constrained(base: ConstrainedWeights, parts: list[ConstrainedWeights]) -> ConstrainedWeights:
    """Average by rows what shards learnt from the same weights, queues among it; what was exceeded adds up.

    Weights within convex limits average to weights within them.
    """
    average = average_weights(base, list(parts))
    grown = [part.progress.rows - base.progress.rows for part in parts]
    if not sum(grown):
        return base
    queues, exceeded = np.zeros_like(base.queues), base.exceeded.copy()
    for part, rows in zip(parts, grown, strict=True):
        queues += rows / sum(grown) * part.queues
        exceeded += part.exceeded - base.exceeded
    return ConstrainedWeights.of(average, queues, exceeded)
