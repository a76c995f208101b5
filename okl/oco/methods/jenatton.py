"""The adaptive dual ascent of Jenatton, Huang & Archambeau."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from okl.checks import check_positive
from okl.compiled.ocorivals import ASCENT
from okl.oco.constraints import Matrix
from okl.oco.methods.weighted import Weighted
from okl.oco.roundsteps import round_numbers


@dataclass(frozen=True)
class Jenatton(Weighted):
    """Dual ascent on the damped Lagrangian with steps that shrink; the number of rounds need not be known.

    x_{t+1} = Pi_X(x_t - eta_t (df_t(x_t) + sum_i lambda_{t,i} dg_i(x_t)))
    lambda_{t+1} = [lambda_t + mu_t (g(x_t) - theta_t lambda_t)]_+

    with eta_t = eta_0 / t^c, theta_t = theta_0 / t^d and mu_t = 1 / ((t + 1) theta_t). Regret grows as T^max(c, 1 - c),
    the violation (3) as T^(1 - c/2), for d = c.

    Parameters
    ----------
    step_scale : eta_0 > 0
    damping_scale : theta_0 > 0
    step_exponent : c in (0, 1]
    damping_exponent : d in [0, 1]

    Source: Jenatton, Huang & Archambeau, ICML 2016, section 3.
    """

    step_scale: float = 1.0
    damping_scale: float = 1.0
    step_exponent: float = 0.5
    damping_exponent: float = 0.5

    rule = ASCENT
    name = "Jenatton"

    def __post_init__(self) -> None:
        check_positive("step_scale", self.step_scale)
        check_positive("damping_scale", self.damping_scale)

    def schedule(self, first: int, last: int, horizon: int | None) -> Matrix:
        """Return step, damping and dual step of rounds first .. last, (3, last - first + 1)."""
        rounds = round_numbers(first, last)
        damping = self.damping_scale / rounds**self.damping_exponent
        return np.array([self.step_scale / rounds**self.step_exponent, damping, 1.0 / ((rounds + 1.0) * damping)])
