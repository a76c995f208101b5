"""Which dual problems take a whole step in one read of their rows: explicit rows, and a prox without a hyperplane."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from okl.accelerated.barriers import EntropyBarrier
from okl.accelerated.operators import DenseRows, RowOperator
from okl.accelerated.regions import Box, Region
from okl.accelerated.separable import Linear, Quadratic, Separable
from okl.compiled.sweeps import sweep_box, sweep_entropy
from okl.types import FloatArray


class Sweep(Protocol):
    """Gradient at a point, prox of the step from there, and its image, in one read.

    image : that of the point, times the slope of the outer function there: its gradient
    """

    def run(
        self,
        out: FloatArray,
        out_image: FloatArray,
        gradient: FloatArray,
        point: FloatArray,
        image: FloatArray,
        lipschitz: float,
    ) -> None: ...


@dataclass(frozen=True, eq=False)
class BoxSweep:
    """Over 0 <= a_i <= upper_i, with slopes curvature_i a_i + offset; curvatures, upper (m,)."""

    rows: DenseRows
    curvatures: FloatArray
    upper: FloatArray
    offset: float

    def run(
        self,
        out: FloatArray,
        out_image: FloatArray,
        gradient: FloatArray,
        point: FloatArray,
        image: FloatArray,
        lipschitz: float,
    ) -> None:
        """Overwrite out, out_image and gradient."""
        rows = self.rows

        def work(part: FloatArray, cut: slice) -> None:
            given = (rows.rows[cut], rows.signs[cut], image, point[cut], self.curvatures[cut], self.upper[cut])
            sweep_box(part, out[cut], gradient[cut], *given, self.offset, lipschitz)

        rows.sum_segments(out_image, work)


@dataclass(frozen=True, eq=False)
class EntropySweep:
    """With the entropy barrier of bounds upper (m,), and slopes that are the offset."""

    rows: DenseRows
    upper: FloatArray
    offset: float

    def run(
        self,
        out: FloatArray,
        out_image: FloatArray,
        gradient: FloatArray,
        point: FloatArray,
        image: FloatArray,
        lipschitz: float,
    ) -> None:
        """Overwrite out, out_image and gradient."""
        rows = self.rows

        def work(part: FloatArray, cut: slice) -> None:
            given = (rows.rows[cut], rows.signs[cut], image, point[cut], self._logits[cut], self.upper[cut])
            sweep_entropy(part, out[cut], gradient[cut], *given, self.offset, lipschitz)

        rows.sum_segments(out_image, work)

    @cached_property
    def _logits(self) -> FloatArray:
        return np.empty(self.rows.n_points)


def sweep_of(rows: RowOperator, separable: Separable, region: Region) -> Sweep | None:
    """The sweep of a dual problem, or None where the prox takes all of the gradient, or rows are not at hand."""
    if not (isinstance(rows, DenseRows) and isinstance(separable, Linear | Quadratic)):
        return None
    if isinstance(region, EntropyBarrier) and isinstance(separable, Linear) and not region.hyperplane:
        return EntropySweep(rows, region.upper, separable.slope)
    if not isinstance(region, Box) or np.any(region.lower):
        return None
    upper = np.array(np.broadcast_to(region.upper, rows.n_points), dtype=np.float64)
    if isinstance(separable, Linear):
        return BoxSweep(rows, np.zeros(rows.n_points), upper, separable.slope)
    return BoxSweep(rows, separable.curvatures, upper, -1.0)
