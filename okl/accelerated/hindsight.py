"""The best weights of a ball in hindsight: what an online learner is measured against, with a proof how good they are.

Minimise sum_i c_i loss(y_i <w, z_i>) over ||w|| <= radius. Its dual is that of the model with 1/2 ||w||^2 and C = 1
but for the outer function, radius ||A a|| in place of 1/2 ||A a||^2: the same box, conjugates and method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from okl.accelerated.dual import DualProblem
from okl.accelerated.fapg import Fapg
from okl.accelerated.fapgstate import FapgState
from okl.accelerated.models.csvm import CSVM
from okl.accelerated.models.logistic import LogisticRegression
from okl.accelerated.operators import RowOperator
from okl.accelerated.outer import EuclideanNorm
from okl.accelerated.protocol import Certificate
from okl.checks import check_positive
from okl.compiled.door import one_blas_thread
from okl.types import FloatArray

MarginLossName = Literal["hinge", "logistic"]

METHOD = Fapg("proven", tolerance=1e-6, max_iterations=20_000)  # the norm is steep where A a is short: prove each step
TOLERANCE = 0.01

_SHARE = 0.1  # of the first length of A a, up to which its norm is smoothed at first
_KINK = (
    0.25  # width of margins about the kink of the hinge, in which a guess at the dual goes from one end to the other
)


@dataclass(frozen=True)
class BallNorm:
    """radius ||v||, from ||w|| <= radius in the primal problem, smoothed where ||v|| <= width.

    Parameters
    ----------
    radius : > 0, in units of w; width : > 0, in units of v

    Source: Ito et al., 2017, (8) and (10) with p = 2 and lambda = radius; see EuclideanNorm.
    """

    radius: float
    width: float

    @property
    def _unit(self) -> EuclideanNorm:
        return EuclideanNorm(self.width)

    def value(self, squared_norm: float) -> float:
        """That of the unit ball, radius times."""
        return self.radius * self._unit.value(squared_norm)

    def slope(self, squared_norm: float) -> float:
        """radius / max(||v||, width): the gradient is no longer than the radius."""
        return self.radius * self._unit.slope(squared_norm)

    def excess(self, squared_norm: float, at_squared_norm: float, squared_gap: float) -> float:
        """That of the unit ball, radius times."""
        return self.radius * self._unit.excess(squared_norm, at_squared_norm, squared_gap)

    def regulariser(self, squared_norm: float) -> float:
        """0: w lies in the ball."""
        return 0.0

    def exact(self, squared_norm: float) -> float:
        """radius ||v||."""
        return self.radius * self._unit.exact(squared_norm)

    def floor(self, squared_norm: float) -> float:
        """What smoothing adds to the gap."""
        return self.radius * self._unit.floor(squared_norm)


@dataclass(frozen=True, eq=False)
class Hindsight:
    """The best weights of a ball that were found, and how good they are at worst.

    weights : (n_columns,), ||w|| <= radius
    certificate : loss of the weights, and a bound that no weights of the ball fall below
    point : (m,), the dual point; l1_norm : sum of |alpha_i|, where w = sum_i alpha_i z_i
    iterations : of the method; reason : why it stopped
    """

    weights: FloatArray
    certificate: Certificate
    point: FloatArray
    l1_norm: float
    iterations: int
    reason: str


def in_ball(problem: DualProblem, radius: float, first: FloatArray) -> DualProblem:
    """The dual over ||w|| <= radius of a problem with 1/2 ||w||^2, to be started at `first` (m,), a feasible point.

    Raises
    ------
    ConfigError : the radius is not a positive finite number
    """
    check_positive("radius", radius)
    image = np.empty(problem.n_image)
    problem.image(image, first)
    longest = float(np.sqrt(problem.rows.squared_lengths().max())) * float(first.max())
    # never below what one row adds: where the sum happens to vanish, the norm would have no slope
    width = _SHARE * max(np.sqrt(problem.rows.squared_norm(first, image)), longest, float(np.finfo(np.float32).tiny))
    ball = replace(problem, outer=BallNorm(radius, float(width)), first=first, levels=None)
    return replace(ball, levels=lambda level: replace(ball, outer=BallNorm(radius, float(width) * 0.1**level)))


@one_blas_thread()  # bits depend on the number of threads
def solve_in_ball(
    rows: RowOperator,
    loss: MarginLossName,
    radius: float,
    sample_weight: FloatArray | None = None,
    near: Hindsight | None = None,
    enough: Callable[[Certificate, int], bool] | None = None,
) -> Hindsight:
    """Minimise sum_i sample_weight_i loss(y_i <w, z_i>) over ||w|| <= radius.

    Parameters
    ----------
    rows : signed rows y_i z_i, m of them; sample_weight : (m,) >= 0, None for 1
    near : the solution of fewer of these rows, the first ones: where to start from
    enough : whether a certificate is good enough after so many iterations; None for a relative gap of 1%

    Raises
    ------
    ConfigError : the radius is not a positive finite number
    """
    model = CSVM(1.0, fit_intercept=False) if loss == "hinge" else LogisticRegression(1.0, fit_intercept=False)
    problem = model.problem(rows, sample_weight)
    weights = np.ones(rows.n_points) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    first = weights * _dual_guess(loss, _margins(rows, near))
    if near is not None:
        first[: len(near.point)] = near.point
    problem = in_ball(problem, radius, first)
    state, reason = _solve(problem, first, enough or (lambda certificate, _: certificate.relative_gap <= TOLERANCE))
    solution = METHOD.solution(state, problem)
    slope = problem.at_level(state.best_record.level).outer.slope(rows.squared_norm(state.best.point, state.best.image))
    return Hindsight(
        weights=solution.weights,
        certificate=solution.certificate,
        point=state.best.point,
        l1_norm=slope * float(np.abs(state.best.point).sum()),
        iterations=state.history[-1].iteration,
        reason=reason,
    )


def _solve(
    problem: DualProblem, first: FloatArray, enough: Callable[[Certificate, int], bool]
) -> tuple[FapgState, str]:
    state = METHOD.start(problem, first)
    while not enough(state.best_record.certificate, state.history[-1].iteration):
        if (outcome := METHOD.finished(state)) is not None:
            return state, outcome.reason
        state = METHOD.advance(state, problem)
    return state, f"relative duality gap {state.best_record.certificate.relative_gap:.2g}"


def _margins(rows: RowOperator, near: Hindsight | None) -> FloatArray:
    margins = np.zeros(rows.n_points)
    if near is not None:
        rows.pull(margins, near.weights)
    return margins


def _dual_guess(loss: MarginLossName, margins: FloatArray) -> FloatArray:
    """What the dual point would be if margins were optimal: minus the loss's slope, the hinge's kink made wide."""
    if loss == "hinge":
        guess: FloatArray = np.clip(0.5 + (1.0 - margins) / _KINK, 0.0, 1.0)
        return guess
    shares: FloatArray = 0.5 * (1.0 - np.tanh(0.5 * margins))
    return shares
