"""Which dual problems take a whole step in one read of their rows: explicit rows, and a prox row by row.

A hyperplane binds all rows, but the set without it does not: the step is taken at the last multipliers, and corrected.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.barriers import EntropyBarrier
from okl.accelerated.operators import DenseRows, RowOperator
from okl.accelerated.protocol import SweepArguments, Swept
from okl.accelerated.regions import Box, BoxHyperplane, Region, SimplexPair
from okl.accelerated.separable import Linear, Quadratic, Separable
from okl.compiled.guessedsweeps import settle_points, sweep_guessed_segments
from okl.compiled.rowpasses import add_listed_rows
from okl.compiled.sweeps import sweep_box_segments, sweep_entropy_segments
from okl.types import FloatArray

_NONE = (0.0, 0.0)
_MOST_AGAIN = 0.25  # of the rows: reading so many here and there takes as long as reading all in order


class Sweep(Protocol):
    """Gradient at a point, prox of the step from there, and its image, in one read.

    image : that of the point, times the slope of the outer function there: its gradient
    """

    def run(self, given: SweepArguments) -> Swept: ...


@dataclass(frozen=True, eq=False)
class BoxSweep:
    """Over 0 <= a_i <= upper_i, with slopes curvature_i a_i + offset; curvatures, upper (m,)."""

    rows: DenseRows
    curvatures: FloatArray
    upper: FloatArray
    offset: float

    def run(self, given: SweepArguments) -> Swept:
        """Overwrite what is given for it."""
        rows, parts, out, gradient = self.rows, self._parts, given.out, given.gradient
        bounds = (self.curvatures, self.upper, self.offset, given.lipschitz)
        inputs = (rows.rows, rows.signs, given.image, given.point, *bounds)
        rows.in_threads(lambda claims: sweep_box_segments(parts, out, gradient, claims, *inputs, rows.segment_rows))
        rows.add_parts(given.out_image, parts)
        return Swept(_NONE, 1.0)

    @cached_property
    def _parts(self) -> FloatArray:
        return np.empty((self.rows.n_segments, self.rows.n_image))


@dataclass(frozen=True, eq=False)
class EntropySweep:
    """With the entropy barrier of bounds upper (m,), and slopes that are the offset."""

    rows: DenseRows
    upper: FloatArray
    offset: float

    def run(self, given: SweepArguments) -> Swept:
        """Overwrite what is given for it."""
        rows, (parts, logits), out, gradient = self.rows, self._room, given.out, given.gradient
        bounds = (logits, self.upper, self.offset, given.lipschitz)
        inputs = (rows.rows, rows.signs, given.image, given.point, *bounds)
        rows.in_threads(lambda claims: sweep_entropy_segments(parts, out, gradient, claims, *inputs, rows.segment_rows))
        rows.add_parts(given.out_image, parts)
        return Swept(_NONE, 1.0)

    @cached_property
    def _room(self) -> tuple[FloatArray, FloatArray]:
        return np.empty((self.rows.n_segments, self.rows.n_image)), np.empty(self.rows.n_points)


@dataclass(frozen=True, eq=False)
class GuessedSweep:
    """Over a box and hyperplanes, by a guess at their multipliers; see `okl.compiled.guessedsweeps`.

    curvatures, lower, upper : (m,); normals : (m,) int8, the class of a row by its sign
    """

    rows: DenseRows
    region: BoxHyperplane | SimplexPair
    curvatures: FloatArray
    normals: NDArray[np.int8]
    lower: FloatArray
    upper: FloatArray
    offset: float

    def run(self, given: SweepArguments) -> Swept:
        """Overwrite what is given for it."""
        rows, targets, out, lipschitz = self.rows, self._targets, given.out, given.lipschitz
        guesses = (given.multipliers[0] / lipschitz, given.multipliers[1] / lipschitz)
        self._sweep(targets, given, guesses)
        projected = self.region.prepared.multipliers(targets, guesses, rows.n_threads)
        found = (projected.plus_theta, projected.minus_theta)
        listed, changes = self._lists
        bounds = (rows.signs, self.normals, self.lower, self.upper)
        again = settle_points(out, listed, changes, targets, *bounds, guesses, found)
        multipliers = (lipschitz * found[0], lipschitz * found[1])
        if again > _MOST_AGAIN * rows.n_points:
            rows.image(given.out_image, out)
            return Swept(multipliers, 2.0)
        self._correct(given.out_image, listed[:again], changes[:again], guesses, found)
        return Swept(multipliers, 1.0 + again / rows.n_points)

    def _sweep(self, targets: FloatArray, given: SweepArguments, guesses: tuple[float, float]) -> None:
        rows, parts, gradient = self.rows, self._parts, given.gradient
        bounds = (self.curvatures, self.normals, self.lower, self.upper)
        inputs = (rows.rows, rows.signs, given.image, given.point, *bounds)
        numbers = (*guesses, self.offset, given.lipschitz, rows.segment_rows)
        rows.in_threads(lambda claims: sweep_guessed_segments(parts, targets, gradient, claims, *inputs, *numbers))

    def _correct(
        self,
        out_image: FloatArray,
        listed: NDArray[np.int64],
        changes: FloatArray,
        guesses: tuple[float, float],
        found: tuple[float, float],
    ) -> None:
        """The image at the guesses, less what free rows moved by, and what the other rows changed by."""
        parts = self._parts
        parts[:, 0] -= (found[0] - guesses[0]) * parts[:, 1]
        parts[:, 0] -= (found[1] - guesses[1]) * parts[:, 2]
        self.rows.add_parts(out_image, parts[:, 0])
        add_listed_rows(out_image, self.rows.rows, listed, changes)

    @cached_property
    def _parts(self) -> FloatArray:
        return np.empty((self.rows.n_segments, 3, self.rows.n_image))

    @cached_property
    def _targets(self) -> FloatArray:
        return np.empty(self.rows.n_points)

    @cached_property
    def _lists(self) -> tuple[NDArray[np.int64], FloatArray]:
        return np.empty(self.rows.n_points, dtype=np.int64), np.empty(self.rows.n_points)


def sweep_of(rows: RowOperator, separable: Separable, region: Region) -> Sweep | None:
    """The sweep of a dual problem, or None where the prox takes all of the gradient, or rows are not at hand."""
    if not (isinstance(rows, DenseRows) and isinstance(separable, Linear | Quadratic)):
        return None
    if isinstance(region, EntropyBarrier) and isinstance(separable, Linear) and not region.hyperplane:
        return EntropySweep(rows, region.upper, separable.slope)
    if not isinstance(region, Box | BoxHyperplane | SimplexPair):
        return None
    curvatures = np.zeros(rows.n_points) if isinstance(separable, Linear) else separable.curvatures
    offset = separable.slope if isinstance(separable, Linear) else -1.0
    lower, upper = (
        np.array(np.broadcast_to(bound, rows.n_points), dtype=np.float64) for bound in (region.lower, region.upper)
    )
    if isinstance(region, Box):
        return None if np.any(lower) else BoxSweep(rows, curvatures, upper, offset)
    return GuessedSweep(rows, region, curvatures, region.signs.astype(np.int8), lower, upper, offset)
