"""The algorithms of section 4 with the parameters of Tables 2 and 3, and what the paper says of their order.

Table 2's step size of Algorithm 2 carries the factor 2^(i-1) of equation (36), without which all experts are the same;
its gamma is the one printed, the same for all experts, where (36) has 2^(-(i-1)/2). gamma_0 is beyond 1 / (sqrt(2) G):
no bound is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from okl.oco import KnownHorizon, StronglyConvex
from okl.oco.methods.algorithm1 import Algorithm1
from okl.oco.methods.algorithm2 import Algorithm2
from okl.oco.methods.face import Method
from okl.oco.methods.jenatton import Jenatton
from okl.oco.methods.mahdavi import Mahdavi
from okl.oco.methods.recoo import Recoo
from okl.oco.methods.sinhavaze import SinhaVaze
from okl.oco.methods.yuanlamperski import YuanLamperski
from okl.oco.methods.yuneely import YuNeely
from okl.reproduction.yi2021.problems import ROUNDS

Metric = Literal["cumulative_loss", "cumulative_violation"]
METRICS: tuple[Metric, ...] = ("cumulative_loss", "cumulative_violation")
STEEPEST = 2.0**0.5 * (ROUNDS**0.1 + 2.0)  # ||theta_t||, at most: G of section 4.1
_TABLE2 = KnownHorizon(step_scale=2.0, penalty_scale=2.0**0.5)

LINEAR: dict[str, Method[Any]] = {
    "Algorithm 1": Algorithm1(_TABLE2),
    "Algorithm 2": Algorithm2(_TABLE2, weight_scale=3.0, shared_penalties=True),
    "Yu & Neely": YuNeely(proximal_scale=0.25, first_queued=False),
    "Yuan & Lamperski": YuanLamperski(step_scale=1.5, ratio=0.25),
    "Jenatton": Jenatton(step_scale=0.7, damping_scale=0.01),
    "Mahdavi": Mahdavi(step_scale=0.8, damping=0.5),
    "RECOO": Recoo(step_scale=2.0),
    "Sinha & Vaze": SinhaVaze(STEEPEST),
}
QUADRATIC: dict[str, Method[Any]] = {
    "Algorithm 1": Algorithm1(StronglyConvex(1.0 / 6.0, penalty_scale=6.0**0.5)),
    "Yuan & Lamperski": YuanLamperski(step_scale=3.0, ratio=1.5, strongly_convex=True),
    "Jenatton": Jenatton(step_scale=2.5, damping_scale=0.001, step_exponent=1.0, damping_exponent=0.01),
}
QUADRATIC |= {  # other readings of theta_t = 4.5 / (t + 1)
    f"Yuan & Lamperski (theta {round(3 * ratio)})": YuanLamperski(step_scale=3.0, ratio=ratio, strongly_convex=True)
    for ratio in (1.0, 2.0, 3.0)
}


@dataclass(frozen=True)
class Order:
    """A sentence of the paper on the means of two algorithms.

    lower : has the smaller mean, than higher
    within : where this is above 0 both are nearly the same: apart by at most this share of the mean of `of`
    """

    metric: Metric
    lower: str
    higher: str
    within: float = 0.0
    of: str = ""

    def holds(self, means: dict[str, float]) -> bool:
        """Whether it is so, for means by algorithm."""
        if self.within:
            return abs(means[self.lower] - means[self.higher]) <= self.within * abs(means[self.of or self.lower])
        return means[self.lower] < means[self.higher]

    @property
    def names(self) -> set[str]:
        """All algorithms it speaks of."""
        return {self.lower, self.higher} | ({self.of} if self.of else set())


_LOSS, _VIOLATION = METRICS
_RIVALS = ("Yu & Neely", "Yuan & Lamperski", "Jenatton", "Mahdavi")
LINEAR_ORDERS = (
    Order(_LOSS, "Algorithm 2", "Algorithm 1"),
    *(Order(_LOSS, "Algorithm 1", rival) for rival in _RIVALS),
    Order(_VIOLATION, "Algorithm 1", "Algorithm 2", within=0.05, of="Yu & Neely"),
    Order(_VIOLATION, "Algorithm 1", "Yu & Neely"),
    Order(_VIOLATION, "Algorithm 2", "Yu & Neely"),
    Order(_VIOLATION, "Algorithm 1", "Yuan & Lamperski"),
    *(Order(_VIOLATION, "Yuan & Lamperski", rival) for rival in ("Jenatton", "Mahdavi")),
)
QUADRATIC_ORDERS = (
    Order(_LOSS, "Algorithm 1", "Yuan & Lamperski", within=0.02),
    Order(_LOSS, "Yuan & Lamperski", "Jenatton"),
    Order(_LOSS, "Algorithm 1", "Jenatton"),
    Order(_VIOLATION, "Algorithm 1", "Yuan & Lamperski"),
    Order(_VIOLATION, "Algorithm 1", "Jenatton"),
)
