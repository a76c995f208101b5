"""The best weights of a ball within limits, in hindsight: what a learner under constraints is measured against.

Minimise sum_i c_i loss(y_i <w, z_i>) over ||w|| <= radius and S w <= h. Its dual has the variables a of the losses in
their box and one p_j >= 0 for each row of S, which joins the rows of the data as one more:

    minimise radius ||A a - S'p|| + sum of conjugates(a) + h'p
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.dual import DualProblem
from okl.accelerated.hindsight import METHOD, TOLERANCE, Hindsight, MarginLossName, in_ball, solve_in_ball
from okl.accelerated.models.csvm import CSVM
from okl.accelerated.models.logistic import LogisticRegression
from okl.accelerated.operators import RowOperator
from okl.accelerated.protocol import Certificate, Solution
from okl.accelerated.regions import Box
from okl.accelerated.risks import Risk
from okl.accelerated.separable import Separable
from okl.compiled.door import one_blas_thread
from okl.online.constraints.limits import LinearLimits
from okl.types import FloatArray

_SHARE = 0.3  # of the square root of the rows: how long rows of limits are made, so that p is of the size of a


@dataclass(frozen=True, eq=False)
class RowsAndSides:
    """Signed rows of data, then rows -S of limits, as one operator; a point is (m + k,).

    data : m rows; sides : S (k, n_columns) float64
    """

    data: RowOperator
    sides: NDArray[np.float64]

    @property
    def signs(self) -> FloatArray:
        """Of the data's rows, and 1 for limits, (m + k,)."""
        return np.concatenate([self.data.signs, np.ones(len(self.sides))])

    @property
    def n_points(self) -> int:
        """m + k."""
        return self.data.n_points + len(self.sides)

    @property
    def n_image(self) -> int:
        """Columns."""
        return self.data.n_image

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out (n_columns,) by A a - S'p."""
        self.data.image(out, point[: self.data.n_points])
        out -= point[self.data.n_points :] @ self.sides

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (m + k,) by A'v, -S v."""
        self.data.pull(out[: self.data.n_points], image)
        out[self.data.n_points :] = -(self.sides @ image)

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """||v||^2."""
        return float(image @ image)

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """||v - v'||^2."""
        apart = image - other_image
        return float(apart @ apart)

    def squared_lengths(self) -> NDArray[np.float64]:
        """||z_i||^2 and ||S_j||^2, (m + k,)."""
        return np.concatenate([self.data.squared_lengths(), np.einsum("ij,ij->i", self.sides, self.sides)])

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """w = scale v, (n_columns,)."""
        return scale * image


@dataclass(frozen=True, eq=False)
class _WithLimits:
    """A sum over the data's entries, and h'p."""

    data: Separable
    count: int
    limits: NDArray[np.float64]

    def value(self, point: FloatArray) -> float:
        return self.data.value(point[: self.count]) + float(self.limits @ point[self.count :])

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        self.data.add_slopes(gradient[: self.count], point[: self.count])
        gradient[self.count :] += self.limits

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        return self.data.excess(point[: self.count], at[: self.count])


@dataclass(frozen=True, eq=False)
class LimitedProblem(DualProblem):
    """The dual above; a certificate is about the nearest weights to w = slope v that are within all limits.

    within : the limits, with the radius
    """

    within: LinearLimits | None = None

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        """Loss of feasible weights, and the dual objective: no feasible weights lose less than that."""
        of_dual = super().certificate(point, image, pulled)
        rows = self.rows
        assert isinstance(rows, RowsAndSides)
        margins = np.empty(rows.data.n_points)
        rows.data.pull(margins, self.weights(point, image))
        return replace(of_dual, primal=self.risk.value(margins, 0.0))

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        """The feasible weights of the certificate."""
        return Solution(self.weights(point, image), 0.0, certificate)

    def weights(self, point: FloatArray, image: FloatArray) -> NDArray[np.float64]:
        """The nearest feasible weights to slope v, (n_columns,)."""
        assert self.within is not None
        return self.within.nearest(self.outer.slope(self.rows.squared_norm(point, image)) * image)


@dataclass(frozen=True, eq=False)
class _DataRisk:
    """The risk of the data's margins, whatever follows them."""

    data: Risk
    count: int

    def value(self, margins: FloatArray, bias: float) -> float:
        return self.data.value(margins[: self.count], bias)

    def best_bias(self, margins: FloatArray) -> float:
        return 0.0


@one_blas_thread()  # bits depend on the number of threads
def solve_within(
    rows: RowOperator,
    loss: MarginLossName,
    limits: LinearLimits,
    sample_weight: FloatArray | None = None,
    near: Hindsight | None = None,
    enough: Callable[[Certificate, int], bool] | None = None,
) -> Hindsight:
    """Minimise sum_i sample_weight_i loss(y_i <w, z_i>) over weights within limits, less their margins, in their ball.

    Parameters
    ----------
    rows : signed rows y_i z_i, m of them; sample_weight : (m,) >= 0, None for 1
    near : the solution of fewer of these rows, the first ones; enough : as in solve_in_ball

    Returns
    -------
    the weights, which are feasible; the point (m + k,) ends with the multipliers of the limits
    """
    enough = enough or (lambda certificate, _: certificate.relative_gap <= TOLERANCE)
    problem, size = _problem(rows, loss, limits, sample_weight)
    if near is None:
        free = solve_in_ball(rows, loss, limits.radius, sample_weight)
        first = np.concatenate([free.point, np.zeros(size)])
    else:
        old = len(near.point) - size
        first = np.concatenate([np.zeros(rows.n_points), near.point[old:]])
        margins = np.empty(rows.n_points)
        rows.pull(margins, near.weights)
        upper = np.ones(rows.n_points) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        first[: rows.n_points] = upper * np.clip(0.5 + 4.0 * (1.0 - margins), 0.0, 1.0)
        first[:old] = near.point[:old]
    made = in_ball(problem, limits.radius, first)
    state, reason = METHOD.start(made, first), ""
    while not enough(state.best_record.certificate, state.history[-1].iteration):
        if (outcome := METHOD.finished(state)) is not None:
            reason = outcome.reason
            break
        state = METHOD.advance(state, made)
    solution = METHOD.solution(state, made)
    gap = solution.certificate.relative_gap
    slope = made.at_level(state.best_record.level).outer.slope(float(state.best.image @ state.best.image))
    return Hindsight(
        weights=solution.weights,
        certificate=solution.certificate,
        point=state.best.point,
        l1_norm=slope * float(np.abs(state.best.point[: rows.n_points]).sum()),
        iterations=state.history[-1].iteration,
        reason=reason or f"relative duality gap {gap:.2g}",
    )


def _problem(
    rows: RowOperator, loss: MarginLossName, limits: LinearLimits, sample_weight: FloatArray | None
) -> tuple[LimitedProblem, int]:
    model = CSVM(1.0, fit_intercept=False) if loss == "hinge" else LogisticRegression(1.0, fit_intercept=False)
    plain = model.problem(rows, sample_weight)
    scaled, (low, high) = limits.rows / limits.lengths[:, None], limits.inner
    above, below = np.isfinite(high), np.isfinite(low)
    longer = max(1.0, _SHARE * np.sqrt(rows.n_points))
    sides = longer * np.concatenate([scaled[above], -scaled[below]])
    bounds = longer * np.concatenate([high[above], -low[below]])
    upper = np.ones(rows.n_points) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    both = RowsAndSides(rows, sides)
    problem = LimitedProblem(
        rows=both,
        outer=plain.outer,
        separable=_WithLimits(plain.separable, rows.n_points, bounds),
        region=Box(0.0, np.concatenate([upper, np.full(len(sides), np.inf)])),
        risk=_DataRisk(plain.risk, rows.n_points),
        first=np.zeros(both.n_points),
        intercept=False,
        curvature=plain.curvature,
        within=limits,
    )
    return problem, len(sides)
