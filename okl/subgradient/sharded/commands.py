"""What the caller tells shards while it solves a sample, and what they add up: messages of the length of a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.subgradient.sharded.beside import SampleVectors
from okl.types import FloatArray


class Drawn(NamedTuple):
    """Of one shard, or of all: rows and losses of the rows that were there before, and of the new ones.

    bytes_read : of the files, for the new ones; targets : the least and the largest one of all rows
    """

    old_rows: int
    old_losses: float
    new_rows: int
    new_losses: float
    bytes_read: int
    targets: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Place:
    """Have the rows of a sample that grew through these shares, with the scores of a point."""

    shares: tuple[float, ...]
    weights: FloatArray

    def run(self, vectors: SampleVectors) -> Drawn:
        """What came, and what the point costs there."""
        before = vectors.n_rows
        grown = vectors.draw(self.shares)
        self.redo(vectors)
        if not vectors.n_rows:
            return Drawn(0, 0.0, 0, 0.0, 0, (np.inf, -np.inf))
        losses = vectors.opening.loss.value(vectors.scores, vectors.targets)
        old = vectors.n_rows - sum(segment.rows for segment in grown)
        assert old in (before, 0), "a sample that is another one has no old rows"
        targets = float(vectors.targets.min()), float(vectors.targets.max())
        read = vectors.opening.rows.bytes_of(vectors.shard, grown, old == 0)
        return Drawn(old, float(losses[:old].sum()), len(losses) - old, float(losses[old:].sum()), read, targets)

    def redo(self, vectors: SampleVectors) -> None:
        """Read them, and compute the scores."""
        vectors.draw(self.shares)
        vectors.scores = vectors.scores_of(self.weights)
        vectors.along = np.zeros_like(vectors.scores)


class Slopes(NamedTuple):
    """Sums over rows: of slope_i (x) z_i, of the intercepts of these slopes, and of the losses at the point."""

    gathered: FloatArray
    intercepts: float
    losses: float


@dataclass(frozen=True, eq=False)
class Cut:
    """Go a step along the direction, and take slopes further on."""

    step: float
    further: float

    def run(self, vectors: SampleVectors) -> Slopes:
        """The sums: slopes of where `further` leads from the point, losses of the point."""
        self.redo(vectors)
        loss, targets, along = vectors.opening.loss, vectors.targets, vectors.along
        there = vectors.scores + self.further * along if self.further else vectors.scores
        slopes = np.empty_like(there)
        losses, intercepts = loss.slopes_into(slopes, there, along, targets)
        if self.further:
            losses, _ = loss.line(vectors.scores, along, targets, 0.0)
        return Slopes(vectors.gathered(slopes), intercepts, losses)

    def redo(self, vectors: SampleVectors) -> None:
        """Go there."""
        if self.step:
            vectors.scores = vectors.scores + self.step * vectors.along


@dataclass(frozen=True, eq=False)
class Try:
    """Another direction, and steps along it."""

    direction: FloatArray
    steps: tuple[float, ...]

    def run(self, vectors: SampleVectors) -> NDArray[np.float64]:
        """Sums of losses, and of their right-hand derivatives, at each step: (steps, 2)."""
        self.redo(vectors)
        return Again(self.steps).run(vectors)

    def redo(self, vectors: SampleVectors) -> None:
        """Compute the scores of the direction."""
        vectors.along = vectors.scores_of(self.direction)


@dataclass(frozen=True, eq=False)
class Again:
    """Other steps along the same direction."""

    steps: tuple[float, ...]

    def run(self, vectors: SampleVectors) -> NDArray[np.float64]:
        """The same sums at these."""
        loss, scores, along = vectors.opening.loss, vectors.scores, vectors.along
        return np.array([loss.line(scores, along, vectors.targets, step) for step in self.steps])

    def redo(self, vectors: SampleVectors) -> None:
        """Nothing changes."""


@dataclass(frozen=True, eq=False)
class Moved:
    """A step that was taken along a direction."""

    direction: FloatArray
    step: float

    def redo(self, vectors: SampleVectors) -> None:
        """Take it."""
        vectors.along = vectors.scores_of(self.direction)
        if self.step:
            vectors.scores = vectors.scores + self.step * vectors.along
