"""RBP: the Randomized Budget Perceptron."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_positive
from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.budgetrandom import drop_random, learn_random_perceptron
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray


@dataclass(frozen=True)
class RandomizedBudgetPerceptron(BudgetStrategy):
    """A Perceptron that, when the budget is full, replaces a support drawn uniformly.

    After a mistake: f <- f - a_r k(x_r, .) with r uniform, if the budget is full, and f <- f + step_size y k(x, .).
    With several classes the true class takes +step_size and the best wrong one -step_size; in a regression a mistake is
    |y - f| > epsilon, and the step has the sign of y - f. Shards are joined by dropping random supports of the union.

    Parameters
    ----------
    step_size : > 0; its size matters to a regression only

    Source: Cavallanti, Cesa-Bianchi & Gentile, Machine Learning 69, 2007, Figure 3; several classes and regression as
    Lu et al., JMLR 17(47), 2016, sections 5.3 and 7.4.1.
    """

    step_size: float = 1.0
    name: ClassVar[str] = "rbp"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The step size."""
        return (self.step_size,)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_random_perceptron(kept, inputs, targets, rule)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Drop random supports until the budget is met; kept changes in place."""
        drop_random(kept, rule)
