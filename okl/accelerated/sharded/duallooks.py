"""What shards do for a check of a dual problem: the commands that look at the current point and lose the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.sharded.dualvectors import DualVectors
from okl.accelerated.sharded.regions import Sums
from okl.compiled.steps import descend, squared_distance
from okl.types import FloatArray


class LookPart(NamedTuple):
    """A shard's part of a check: sums over its rows at the current point.

    margin : the largest absolute one; largest : dual entry; sums : at the candidate multipliers
    """

    separable: float
    penalty: float
    margin: float
    sums: Sums


@dataclass(frozen=True, eq=False)
class Look:
    """Look at the current point: its margins, and where a step from there would end."""

    image: FloatArray
    slope: float
    lipschitz: float
    candidates: FloatArray

    def run(self, vectors: DualVectors) -> LookPart:
        """Sums over the rows."""
        self.redo(vectors)
        current = vectors.current
        return LookPart(
            vectors.separable.value(current),
            vectors.region.value(current),
            float(np.abs(vectors.margins).max()),
            vectors.region.sums(vectors.target, self.lipschitz, self.candidates)
            if len(self.candidates)
            else np.empty((0, 0, 3)),
        )

    def redo(self, vectors: DualVectors) -> None:
        """Margins and target."""
        vectors.rows.pull(vectors.margins, vectors.shard, vectors.signs, self.image)
        np.multiply(vectors.margins, self.slope, out=vectors.margins)
        vectors.gradient[:] = vectors.margins
        vectors.separable.add_slopes(vectors.gradient, vectors.current)
        descend(vectors.target, vectors.current, vectors.gradient, 1.0 / self.lipschitz)


@dataclass(frozen=True, eq=False)
class Slopes:
    """How steep the risk is at candidate thresholds, (n_thresholds, K)."""

    candidates: FloatArray

    def run(self, vectors: DualVectors) -> NDArray[np.float64]:
        """(n_thresholds, K, 3)."""
        return vectors.risk.slopes(vectors.margins, self.candidates)

    def redo(self, vectors: DualVectors) -> None:
        """Nothing changes."""


@dataclass(frozen=True, eq=False)
class Value:
    """The risk at thresholds, and how far the prox of the target is from the current point."""

    thresholds: FloatArray
    lipschitz: float
    multipliers: FloatArray

    def run(self, vectors: DualVectors) -> tuple[float, float]:
        """Risk and squared distance."""
        self.redo(vectors)
        risk = vectors.risk.value(vectors.margins, self.thresholds)
        return risk, float(squared_distance(vectors.new, vectors.current))

    def redo(self, vectors: DualVectors) -> None:
        """The step is lost."""
        vectors.region.prox(vectors.new, vectors.target, self.lipschitz, self.multipliers)
