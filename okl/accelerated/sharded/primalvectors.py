"""The margins of a shard for an l1 problem, which stay beside it, and the commands that move them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.sharded.messages import Verdict
from okl.accelerated.sharded.regions import spread
from okl.accelerated.sharded.rows import MappedRows
from okl.accelerated.sharded.signs import groups_of_class, signs_of_class
from okl.accelerated.sparsity import SparseProblem
from okl.compiled.steps import extrapolate, inner
from okl.store.dataset import Shard
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class OpenPrimal:
    """Makes the vectors of a shard.

    rows : of all shards; prototype : of the model; positive : class, None for +1; n_groups : of rows of one weight
    """

    rows: MappedRows
    prototype: SparseProblem
    positive: int | None
    n_groups: int = 2

    def __call__(self, shard: Shard) -> PrimalVectors:
        """Of w = 0."""
        return PrimalVectors(self, shard)


class PrimalVectors:
    """Margins of a shard's rows, (m,) float64 each, in private buffers."""

    def __init__(self, opening: OpenPrimal, shard: Shard) -> None:
        self.shard, self.rows = shard, opening.rows
        targets, self.longest = self.rows.targets(shard)
        self.loss = opening.prototype.loss
        self.signs = signs_of_class(targets, opening.positive)
        self.weights = spread(opening.prototype.weights, groups_of_class(targets, opening.positive, opening.n_groups))
        self.current, self.previous, self.there, self.new = (np.zeros(shard.rows) for _ in range(4))

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

    def slopes_summed(self, margins: FloatArray) -> FloatArray:
        """Gradient of the losses over w, (n_columns,)."""
        return self.rows.image(self.shard, self.signs, self.weights * self.loss.derivative(margins))


class Costs(NamedTuple):
    """Sums of losses, and of their excesses (NaN unless asked for)."""

    losses: float
    excess: float


@dataclass(frozen=True, eq=False)
class Lengths:
    """The largest weight times squared length of a row."""

    def run(self, vectors: PrimalVectors) -> float:
        """It, or a little more: of the longest row and the heaviest one."""
        return vectors.longest * float(vectors.weights.max())

    def redo(self, vectors: PrimalVectors) -> None:
        """Nothing changes."""


@dataclass(frozen=True, eq=False)
class Gradient:
    """Go to the extrapolated margins."""

    momentum: float

    def run(self, vectors: PrimalVectors) -> FloatArray:
        """The gradient there."""
        self.redo(vectors)
        return vectors.slopes_summed(vectors.there)

    def redo(self, vectors: PrimalVectors) -> None:
        """Go there."""
        extrapolate(vectors.there, vectors.current, vectors.previous, self.momentum)


@dataclass(frozen=True, eq=False)
class Try:
    """The margins of another w."""

    weights: FloatArray
    with_excess: bool

    def run(self, vectors: PrimalVectors) -> Costs:
        """What they cost."""
        self.redo(vectors)
        losses = float(inner(vectors.weights, vectors.loss.value(vectors.new)))
        if not self.with_excess:
            return Costs(losses, math.nan)
        return Costs(losses, float(inner(vectors.weights, vectors.loss.excess(vectors.new, vectors.there))))

    def redo(self, vectors: PrimalVectors) -> None:
        """Compute them."""
        vectors.rows.pull(vectors.new, vectors.shard, vectors.signs, self.weights)


@dataclass(frozen=True, eq=False)
class Inspect:
    """The current margins."""

    def run(self, vectors: PrimalVectors) -> tuple[FloatArray, float]:
        """Their gradient and losses."""
        losses = float(inner(vectors.weights, vectors.loss.value(vectors.current)))
        return vectors.slopes_summed(vectors.current), losses

    def redo(self, vectors: PrimalVectors) -> None:
        """Nothing changes."""


@dataclass(frozen=True, eq=False)
class Conjugate:
    """The dual objective of the slopes at the current margins, made feasible by a factor in (0, 1]."""

    factor: float

    def run(self, vectors: PrimalVectors) -> float:
        """Minus the dual objective."""
        slopes = -self.factor * vectors.loss.derivative(vectors.current)
        return float(inner(vectors.weights, vectors.loss.conjugate(slopes)))

    def redo(self, vectors: PrimalVectors) -> None:
        """Nothing changes."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Current and previous w: the margins follow."""

    current: FloatArray
    previous: FloatArray

    def redo(self, vectors: PrimalVectors) -> None:
        """Compute both."""
        vectors.rows.pull(vectors.current, vectors.shard, vectors.signs, self.current)
        vectors.rows.pull(vectors.previous, vectors.shard, vectors.signs, self.previous)
