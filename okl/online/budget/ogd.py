"""OGD: kernel online gradient descent, without a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from okl.checks import check_positive
from okl.compiled.budgetgrowing import GRADIENT, Growth
from okl.types import Task


@dataclass(frozen=True)
class OnlineGradientDescent:
    """Gradient descent on the hinge loss in the kernel's space: f <- f + step_size y k(x, .) where y f < 1.

    With several classes, where the true class leads by less than 1: +step_size for it, -step_size for the best wrong
    one. In a regression f <- f + step_size (y - f) k(x, .) where |y - f| > epsilon. Memory grows with the updates.

    Parameters
    ----------
    step_size : > 0

    Source: Kivinen, Smola & Williamson, NIPS 2001, without regularisation; as Lu et al., JMLR 17(47), 2016, equations
    (12) and (13) and sections 7.2.1 and 7.4.1, has it.
    """

    step_size: float = 0.4
    name: ClassVar[str] = "ogd"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    def growth(self, code: int, epsilon: float) -> Growth:
        """As compiled code takes it."""
        return Growth(GRADIENT, code, float(epsilon), float(self.step_size), 1.0, -1.0)

    def first_margin(self, task: Task, epsilon: float) -> float:
        """0: it has none."""
        return 0.0
