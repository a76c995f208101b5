"""What a run of the accelerated method has recorded: the numbers that its figures plot."""

from __future__ import annotations

from dataclasses import dataclass

from okl.accelerated.protocol import Certificate


@dataclass(frozen=True)
class Record:
    """The method at one of its checks.

    iteration : iterations done; objective : F there; certificate : its gap
    residual : lipschitz * ||T(x) - x||, the violation of the optimality condition
    lipschitz : the estimate in use; restarts : so far
    reads : of the data so far, by images and pulls; level : of smoothing
    """

    iteration: int
    objective: float
    certificate: Certificate
    residual: float
    lipschitz: float
    restarts: int
    reads: int
    level: int
