"""The virtual queues of Yu & Neely."""

from __future__ import annotations

from dataclasses import dataclass

from okl.checks import check_positive
from okl.compiled.ocorivals import QUEUE
from okl.oco.constraints import Matrix
from okl.oco.methods.weighted import Weighted, constant_rows


@dataclass(frozen=True)
class YuNeely(Weighted):
    """Queues that pay out for slack: a violation may be made good by later rounds.

    q_t = max(-gamma g(x_t), q_{t-1} + gamma g(x_t))
    x_{t+1} = argmin over X of <df_t(x_t), x> + <q_t + gamma g(x_t), gamma g(x)> + alpha ||x - x_t||^2

    with alpha = alpha_0 sqrt(T) and gamma = gamma_0 T^(1/4). Regret grows as T^(1/2), the violation (3) as T^(1/4), and
    not at all where a point satisfies all constraints strictly.

    Parameters
    ----------
    proximal_scale : alpha_0 > 0
    penalty_scale : gamma_0 > 0
    first_queued : whether the first round enters the queue, as published; if not q_1 = 0, and slack of the first point
        pulls the second one out of the constraints: with this the reference figures of section 4.1 come out

    Source: Yu & Neely, JMLR 21(1), 2020, Algorithm 1.
    """

    proximal_scale: float = 0.5
    penalty_scale: float = 1.0
    first_queued: bool = True

    rule = QUEUE
    needs_horizon = True
    name = "Yu & Neely"

    def __post_init__(self) -> None:
        check_positive("proximal_scale", self.proximal_scale)
        check_positive("penalty_scale", self.penalty_scale)

    def schedule(self, first: int, last: int, horizon: int | None) -> Matrix:
        """Return step, damping and dual step of rounds first .. last, (3, last - first + 1)."""
        assert horizon is not None  # start saw to it
        step = 0.5 / (self.proximal_scale * float(horizon) ** 0.5)
        rows = constant_rows(first, last, step, 1.0, self.penalty_scale * float(horizon) ** 0.25)
        if first == 1 and not self.first_queued:
            rows[1, 0] = 0.0
        return rows
