"""Losses with an l1 penalty, minimised over w itself: sparse weights, no bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from okl.accelerated.operators import DenseRows, SparseRows
from okl.accelerated.projections import soft_threshold
from okl.accelerated.protocol import Certificate, Solution, SweepArguments, Swept
from okl.compiled.steps import inner
from okl.types import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)


class SmoothLoss(Protocol):
    """A convex, falling, smooth function of the margin, entry by entry.

    excess : value(z) - value(z') - derivative(z') (z - z'), without its cancellation
    conjugate : value of the conjugate at -a, for the a = -derivative that occur and their multiples by [0, 1]
    """

    def value(self, margins: FloatArray) -> FloatArray: ...

    def derivative(self, margins: FloatArray) -> FloatArray: ...

    def excess(self, margins: FloatArray, at: FloatArray) -> FloatArray: ...

    def conjugate(self, duals: FloatArray) -> FloatArray: ...


@dataclass(frozen=True, eq=False)
class SparseProblem:
    """Minimise ||w||_1 + sum_i weight_i loss(s_i <w, z_i>); the image of w are its margins.

    rows : explicit; weights : (m,) >= 0; curvature : the loss's largest second derivative

    Source: Ito et al., 2017, appendix D, (27) and (28); the threshold of the prox is 1 / L.
    """

    rows: DenseRows | SparseRows
    loss: SmoothLoss
    weights: FloatArray
    curvature: float

    @property
    def n_points(self) -> int:
        """Columns."""
        return self.rows.n_image

    @property
    def n_image(self) -> int:
        """Rows."""
        return self.rows.n_points

    @property
    def first_lipschitz(self) -> float:
        """The longest row's share of the Hessian: below the Lipschitz constant of the whole."""
        longest = self.curvature * float((self.weights * self.rows.squared_lengths()).max())
        return max(longest, float(np.finfo(np.float32).tiny))

    def start(self) -> FloatArray:
        """0."""
        return np.zeros(self.n_points)

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out (m,) by the margins of w."""
        self.rows.pull(out, point)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (n,) by the gradient of the losses over w."""
        self.rows.image(out, self.weights * self.loss.derivative(image))

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        """The sum of the losses."""
        return float(inner(self.weights, self.loss.value(image)))

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        """What was pulled."""
        out[:] = pulled

    def excess(self, point: FloatArray, image: FloatArray, at: FloatArray, at_image: FloatArray) -> float:
        """The sum of the losses' excesses."""
        return float(inner(self.weights, self.loss.excess(image, at_image)))

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Move every weight 1 / lipschitz towards 0, and no further."""
        soft_threshold(out, point, 1.0 / lipschitz)

    def penalty(self, point: FloatArray) -> float:
        """||w||_1."""
        return float(np.abs(point).sum())

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        """Gap between w and the slopes of its losses, shrunk until no column is steeper than the penalty."""
        slopes = -self.loss.derivative(image)
        steepest = float(np.abs(pulled).max())
        feasible = slopes / max(1.0, steepest)
        dual = float(inner(self.weights, self.loss.conjugate(feasible)))
        risk, norm = self.smooth(point, image), self.penalty(point)
        return Certificate(
            primal=risk + norm, dual=-dual, floor=0.0, bias=0.0, rounding=8.0 * _EPSILON * (risk + norm + abs(dual))
        )

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        """The w of the certificate."""
        return Solution(point.copy(), 0.0, certificate)

    def sweep(self, given: SweepArguments) -> Swept | None:
        """None: two reads."""
        return None

    def at_level(self, level: int) -> SparseProblem:
        """Itself."""
        return self
