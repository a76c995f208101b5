"""What shards do for a dual problem: the commands that move their dual vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from okl.accelerated.sharded.dualvectors import DualVectors
from okl.accelerated.sharded.regions import Sums, spread
from okl.compiled.steps import descend, extrapolate, step_sums
from okl.types import FloatArray


class Extrapolation(NamedTuple):
    """Where the next step starts: the momentum, the image there, and the slope of the outer function."""

    momentum: float
    image: FloatArray
    slope: float


class StepPart(NamedTuple):
    """A shard's part of a step: its image (n_columns,), and sums over its rows; see StepOutcome.

    separable, penalty : of the new point; excess : of the separable part, NaN unless asked for
    """

    image: FloatArray
    squared_step: float
    turn: float
    separable: float
    penalty: float
    excess: float


@dataclass(frozen=True, eq=False)
class Measure:
    """The longest row's squared length, and the largest entry of the current point."""

    def run(self, vectors: DualVectors) -> tuple[float, float]:
        """Both."""
        return vectors.longest, float(vectors.current.max())

    def redo(self, vectors: DualVectors) -> None:
        """Nothing changes."""


@dataclass(frozen=True, eq=False)
class Begin:
    """Aim at one number for each group (n_groups,), or for all (1,): the first point is the prox there."""

    aim: FloatArray
    lipschitz: float
    candidates: FloatArray

    def run(self, vectors: DualVectors) -> Sums:
        """Sums at the candidates."""
        self.redo(vectors)
        return vectors.region.sums(vectors.target, self.lipschitz, self.candidates)

    def redo(self, vectors: DualVectors) -> None:
        """Aim."""
        vectors.target[:] = spread(self.aim, vectors.groups)


@dataclass(frozen=True, eq=False)
class Aim:
    """Go to the extrapolated point (None: stay there), compute the gradient and where a step without a set would end.

    candidates : (n_multipliers, K), to look at on the way; with no multipliers the step is taken at once
    """

    extrapolation: Extrapolation | None
    lipschitz: float
    candidates: FloatArray
    with_excess: bool

    def run(self, vectors: DualVectors) -> Sums | StepPart:
        """Sums at the candidates, or the step."""
        self._aim(vectors)
        if len(self.candidates):
            return vectors.region.sums(vectors.target, self.lipschitz, self.candidates)
        return Take(self.lipschitz, np.empty(0), self.with_excess).run(vectors)

    def redo(self, vectors: DualVectors) -> None:
        """Aim, and step where it is taken at once."""
        self._aim(vectors)
        if not len(self.candidates):
            Take(self.lipschitz, np.empty(0), self.with_excess).redo(vectors)

    def _aim(self, vectors: DualVectors) -> None:
        there, gradient = vectors.there, vectors.gradient
        if self.extrapolation is not None:
            momentum, image, slope = self.extrapolation
            extrapolate(there, vectors.current, vectors.previous, momentum)
            vectors.rows.pull(gradient, vectors.shard, vectors.signs, image)
            np.multiply(gradient, slope, out=gradient)
            vectors.separable.add_slopes(gradient, there)
        descend(vectors.target, there, gradient, 1.0 / self.lipschitz)


@dataclass(frozen=True, eq=False)
class Seek:
    """Sums of the set at candidate multipliers, at the target aimed at last."""

    lipschitz: float
    candidates: FloatArray

    def run(self, vectors: DualVectors) -> Sums:
        """The sums."""
        return vectors.region.sums(vectors.target, self.lipschitz, self.candidates)

    def redo(self, vectors: DualVectors) -> None:
        """Nothing changes."""


@dataclass(frozen=True, eq=False)
class Take:
    """Take the step to the prox of the target, at these multipliers."""

    lipschitz: float
    multipliers: FloatArray
    with_excess: bool

    def run(self, vectors: DualVectors) -> StepPart:
        """Its image and sums."""
        self.redo(vectors)
        new, there = vectors.new, vectors.there
        squared, turn = step_sums(new, there, vectors.gradient, vectors.current)
        return StepPart(
            vectors.rows.image(vectors.shard, vectors.signs, new),
            float(squared),
            float(turn),
            vectors.separable.value(new),
            vectors.region.value(new),
            vectors.separable.excess(new, there) if self.with_excess else np.nan,
        )

    def redo(self, vectors: DualVectors) -> None:
        """Step."""
        vectors.region.prox(vectors.new, vectors.target, self.lipschitz, self.multipliers)


@dataclass(frozen=True, eq=False)
class Stepped:
    """A step that was kept, with all it takes to go it again."""

    extrapolation: Extrapolation
    lipschitz: float
    multipliers: FloatArray

    def redo(self, vectors: DualVectors) -> None:
        """Go it."""
        Aim(self.extrapolation, self.lipschitz, np.empty((1, 0)), False).redo(vectors)
        Take(self.lipschitz, self.multipliers, False).redo(vectors)
        vectors.settle("keep")


@dataclass(frozen=True, eq=False)
class Begun:
    """The first point, with all it takes to find it again."""

    aim: FloatArray
    lipschitz: float
    multipliers: FloatArray

    def redo(self, vectors: DualVectors) -> None:
        """Go there."""
        Begin(self.aim, self.lipschitz, np.empty((1, 0))).redo(vectors)
        Take(self.lipschitz, self.multipliers, False).redo(vectors)
        vectors.settle("begin")


@dataclass(frozen=True, eq=False)
class Dropped:
    """A step that was dropped."""

    def redo(self, vectors: DualVectors) -> None:
        """Forget the momentum."""
        vectors.settle("drop")
