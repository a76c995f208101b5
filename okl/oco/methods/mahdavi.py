"""The first method with long-term constraints, of Mahdavi, Jin & Yang."""

from __future__ import annotations

from dataclasses import dataclass

from okl.checks import check_positive
from okl.compiled.ocorivals import ASCENT
from okl.oco.constraints import Matrix
from okl.oco.methods.weighted import Weighted, constant_rows


@dataclass(frozen=True)
class Mahdavi(Weighted):
    """Gradient descent in x and ascent in lambda on the damped Lagrangian, both with the same step.

    x_{t+1} = Pi_X(x_t - eta (df_t(x_t) + sum_i lambda_{t,i} dg_i(x_t)))
    lambda_{t+1} = [lambda_t + eta (g(x_t) - delta eta lambda_t)]_+

    with eta = eta_0 / sqrt(T). Regret grows as T^(1/2), the violation (3) as T^(3/4).

    Parameters
    ----------
    step_scale : eta_0 > 0
    damping : delta > 0

    Source: Mahdavi, Jin & Yang, JMLR 13, 2012, Algorithm 1.
    """

    step_scale: float = 1.0
    damping: float = 1.0

    rule = ASCENT
    needs_horizon = True
    name = "Mahdavi"

    def __post_init__(self) -> None:
        check_positive("step_scale", self.step_scale)
        check_positive("damping", self.damping)

    def schedule(self, first: int, last: int, horizon: int | None) -> Matrix:
        """Return step, damping and dual step of rounds first .. last, (3, last - first + 1)."""
        assert horizon is not None  # start saw to it
        step = self.step_scale / float(horizon) ** 0.5
        return constant_rows(first, last, step, self.damping * step, step)
