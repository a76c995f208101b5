"""The kernel Perceptron, without a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from okl.checks import check_positive
from okl.compiled.budgetgrowing import PERCEPTRON, Growth
from okl.types import Task


@dataclass(frozen=True)
class Perceptron:
    """Every mistake becomes a support: f <- f + step_size y k(x, .); memory grows with the mistakes.

    With several classes the true class takes +step_size and the best wrong one -step_size; in a regression a mistake is
    |y - f| > epsilon, and the step has the sign of y - f.

    Parameters
    ----------
    step_size : > 0; its size matters to a regression only

    Source: Freund & Schapire, Machine Learning 37, 1999, Figure 1 (one pass); several classes after Crammer & Singer,
    JMLR 3, 2003, section 3; regression as Lu et al., JMLR 17(47), 2016, section 7.4.1.
    """

    step_size: float = 1.0
    name: ClassVar[str] = "perceptron"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    def growth(self, code: int, epsilon: float) -> Growth:
        """As compiled code takes it."""
        return Growth(PERCEPTRON, code, float(epsilon), float(self.step_size), 1.0, -1.0)

    def first_margin(self, task: Task, epsilon: float) -> float:
        """0: it has none."""
        return 0.0
