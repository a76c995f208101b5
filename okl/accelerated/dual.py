"""The dual of a margin model, put together of its parts: the outer function, the separable one, the set, the risk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from okl.accelerated.operators import RowOperator
from okl.accelerated.outer import Outer
from okl.accelerated.protocol import Certificate, Solution, SweepArguments, Swept
from okl.accelerated.regions import Region
from okl.accelerated.risks import Risk
from okl.accelerated.separable import Separable
from okl.accelerated.sweeps import Sweep, sweep_of
from okl.types import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class DualProblem:
    """Minimise outer(||A a||) + separable(a) + region(a): the negated dual of (7), times C, or of (8).

    Parameters
    ----------
    rows : the signed rows A
    outer, separable, region : the dual objective
    risk : the loss part of the primal one
    first : (m,), a feasible point
    intercept : whether the primal problem has a bias
    curvature : added to the longest row's squared length, the first guess at the Lipschitz constant
    levels : the same problem less smoothed, by level from 1; None where nothing is smoothed

    Source: Ito et al., 2017, (9), (10) and section 4.4.
    """

    rows: RowOperator
    outer: Outer
    separable: Separable
    region: Region
    risk: Risk
    first: FloatArray
    intercept: bool
    curvature: float = 0.0
    levels: Callable[[int], DualProblem] | None = None

    @property
    def n_points(self) -> int:
        """Rows."""
        return self.rows.n_points

    @property
    def n_image(self) -> int:
        """Numbers that shards add up."""
        return self.rows.n_image

    @cached_property
    def first_lipschitz(self) -> float:
        """The largest diagonal element of A'A, as the paper starts, and the curvature.

        Source: Ito et al., 2017, section 5.2.
        """
        longest = float(self.rows.squared_lengths().max())
        return max(longest * max(1e-3, self.outer.slope(longest)), float(np.finfo(np.float32).tiny)) + self.curvature

    def start(self) -> FloatArray:
        """The first point, (m,)."""
        return self.first.copy()

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out (n_image,)."""
        self.rows.image(out, point)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (m,) by A'A a."""
        self.rows.pull(out, image)

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        """The smooth part of the negated dual objective."""
        return self.outer.value(self.rows.squared_norm(point, image)) + self.separable.value(point)

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        """Overwrite out (m,), which may be `pulled`."""
        np.multiply(pulled, self.outer.slope(self.rows.squared_norm(point, image)), out=out)
        self.separable.add_slopes(out, point)

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        """Bregman distance of a feasible point from any other."""
        outer = self.outer.excess(
            self.rows.squared_norm(point, image),
            self.rows.squared_norm(at, at_image),
            self.rows.squared_gap(point, image, at, at_image),
        )
        return outer + self.separable.excess(point, at)

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """The prox of the region."""
        self.region.prox(out, point, lipschitz)

    def penalty(self, point: FloatArray) -> float:
        """What the region adds to a feasible point, 0 for a set."""
        return self.region.value(point)

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        """Gap between the point and w = slope A a with the model's own bias."""
        squared_norm = self.rows.squared_norm(point, image)
        slope = self.outer.slope(squared_norm)
        margins = slope * pulled
        bias = self.risk.best_bias(margins) if self.intercept else 0.0
        risk = self.risk.value(margins, bias)
        regulariser = self.outer.regulariser(slope * slope * squared_norm)
        outer, separable = self.outer.exact(squared_norm), self.separable.value(point) + self.region.value(point)
        return Certificate(
            primal=risk + regulariser,
            dual=-(outer + separable),
            floor=self.outer.floor(squared_norm),
            bias=bias,
            rounding=8.0 * _EPSILON * (abs(risk) + regulariser + outer + abs(separable)),
        )

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        """The w = slope A a of the certificate."""
        slope = self.outer.slope(self.rows.squared_norm(point, image))
        return Solution(self.rows.weights(point, image, slope), certificate.bias, certificate)

    def sweep(self, given: SweepArguments) -> Swept | None:
        """A whole step in one read, or None."""
        if self._sweep is None:
            return None
        slope = self.outer.slope(self.rows.squared_norm(given.point, given.image))
        return self._sweep.run(given if slope == 1.0 else given._replace(image=slope * given.image))

    @cached_property
    def _sweep(self) -> Sweep | None:
        return sweep_of(self.rows, self.separable, self.region)

    def at_level(self, level: int) -> DualProblem:
        """Less smoothed."""
        return self if self.levels is None or level == 0 else self.levels(level)
