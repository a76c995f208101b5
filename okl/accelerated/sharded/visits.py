"""The stochastic start of a dual problem over shards: each is visited from one point, and their moves are averaged.

A mean of feasible dual points is feasible, and by convexity no worse than the mean of what each shard reached alone.
Randomness comes from (seed, shard, round, segment), so that no bit depends on who visits a shard, or how often.

Source: averaging as in Jaggi et al., NIPS 2014 (CoCoA); see okl.accelerated.stochastic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from okl.accelerated.blockparts import resting
from okl.accelerated.blocksteps import go_down
from okl.accelerated.iterates import Iterate
from okl.accelerated.outer import Outer
from okl.accelerated.sharded.dualbegin import Carried
from okl.accelerated.sharded.dualcommands import Dropped
from okl.accelerated.sharded.dualvectors import DualVectors
from okl.accelerated.sharded.regions import spread
from okl.accelerated.sharded.rounds import Rounds
from okl.accelerated.stochastic import StochasticStart
from okl.compiled.steps import inner
from okl.types import FloatArray


class VisitPart(NamedTuple):
    """A shard's part of a visit: its image (n_columns,), and sums over its rows.

    penalty : of the new point; before, after : all of the dual objective but the outer function's value
    """

    image: FloatArray
    penalty: float
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Visit:
    """Visit every row once, in random blocks of the segments that are mapped together, and go a share of the way.

    start : how; outer : of the whole data; image : of all shards' points; number : of the round; share : in (0, 1]
    """

    start: StochasticStart
    outer: Outer
    image: FloatArray
    number: int
    share: float

    def run(self, vectors: DualVectors) -> VisitPart:
        """The new point's image and sums."""
        self.redo(vectors)
        current, new, region, separable = vectors.current, vectors.new, vectors.region, vectors.separable
        penalty = region.value(new)
        return VisitPart(
            vectors.rows.image(vectors.shard, vectors.signs, new),
            penalty,
            region.value(current) + separable.value(current),
            penalty + separable.value(new),
        )

    def redo(self, vectors: DualVectors) -> None:
        """Go there."""
        problem, image = replace(vectors.prototype, outer=self.outer), self.image
        found, shard = vectors.current.copy(), vectors.shard
        for segment, (cut, block) in enumerate(vectors.rows.blocks(shard)):
            points, signs_here, groups_here = found[cut], vectors.signs[cut], vectors.groups[cut]
            for rows in self.start.blocks(len(points), self.number, shard.index, segment):
                signs, groups = np.ascontiguousarray(signs_here[rows]), groups_here[rows]
                inputs = np.ascontiguousarray(block.inputs[rows])
                part = resting(problem, inputs, signs, points[rows], image, lambda values: spread(values, groups))  # noqa: B023  (called at once)
                points[rows], image = go_down(part, points[rows], image, self.start.steps)
        np.subtract(found, vectors.current, out=found)
        np.add(vectors.current, self.share * found, out=vectors.new)


@dataclass(frozen=True, eq=False)
class Visited:
    """A visit that was kept."""

    visit: Visit

    def redo(self, vectors: DualVectors) -> None:
        """Go there."""
        self.visit.redo(vectors)
        vectors.settle("begin")


def visit_dual(
    start: StochasticStart, outer: Outer, rounds: Rounds, here: Iterate, carried: Carried, n_shards: int
) -> tuple[Iterate, Carried]:
    """Visit all shards as often as the start says; a round that leads uphill, by rounding, is dropped.

    Returns
    -------
    the image where the shards stand then, and what to carry on
    """
    for number in range(start.rounds):
        visit = Visit(start, outer, here.image, number, 1.0 / n_shards)
        parts: list[VisitPart] = rounds.ask(visit)
        image = sum((part.image for part in parts[1:]), parts[0].image)
        before = outer.value(_square(here.image)) + sum(part.before for part in parts)
        if not outer.value(_square(image)) + sum(part.after for part in parts) <= before:
            rounds.settle("drop", Dropped())
            break
        rounds.settle("begin", Visited(visit))
        here, carried = Iterate(here.point, image), replace(carried, penalty=sum(part.penalty for part in parts))
    return here, carried


def _square(vector: FloatArray) -> float:
    return float(inner(vector, vector))
