"""The penalty of Yuan & Lamperski."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from okl.checks import check_positive
from okl.compiled.ocorivals import PENALTY
from okl.oco.constraints import Matrix
from okl.oco.methods.weighted import Weighted
from okl.oco.roundsteps import round_numbers


@dataclass(frozen=True)
class YuanLamperski(Weighted):
    """Multipliers that maximise the damped Lagrangian of clipped constraints in every round.

    lambda_t = [g(x_t)]_+ / theta_t,  x_{t+1} = Pi_X(x_t - eta_t (df_t(x_t) + sum_i lambda_{t,i} d[g_i(x_t)]_+))

    with theta_t = ratio eta_t, and eta_t = eta_0 / T^c, or eta_0 / (t + 1) for strongly convex losses. Regret grows as
    T^max(c, 1 - c), the violation (4) as T^(1 - c/2); as log T and (T log T)^(1/2) for strongly convex losses.

    Parameters
    ----------
    step_scale : eta_0 > 0
    ratio : > 0, sigma for convex losses; a step overshoots a constraint where ratio < ||dg||^2 / 2
    exponent : c in (0, 1)
    strongly_convex : whether steps shrink as 1 / (t + 1)

    Source: Yuan & Lamperski, NeurIPS 2018, Algorithms 1 and 2.
    """

    step_scale: float = 1.0
    ratio: float = 1.0
    exponent: float = 0.5
    strongly_convex: bool = False

    rule = PENALTY
    name = "Yuan & Lamperski"

    def __post_init__(self) -> None:
        check_positive("step_scale", self.step_scale)
        check_positive("ratio", self.ratio)
        check_positive("exponent", self.exponent)

    @property
    def needs_horizon(self) -> bool:
        """Whether the number of rounds must be known."""
        return not self.strongly_convex

    def schedule(self, first: int, last: int, horizon: int | None) -> Matrix:
        """Return step, damping and dual step of rounds first .. last, (3, last - first + 1)."""
        rounds = round_numbers(first, last)
        if self.strongly_convex:
            steps = self.step_scale / (rounds + 1.0)
        else:
            assert horizon is not None  # start saw to it
            steps = np.full(len(rounds), self.step_scale / float(horizon) ** self.exponent)
        return np.array([steps, self.ratio * steps, np.zeros(len(rounds))])
