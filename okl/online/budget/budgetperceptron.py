"""The Budget Perceptron of Crammer, Kandola and Singer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_positive
from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.budgetredundant import drop_redundant, learn_budget_perceptron, remember_scores
from okl.errors import ConfigError
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class BudgetPerceptron(BudgetStrategy):
    """A Perceptron that, when the budget is full, drops the support that the others classify best without it.

    Where y f <= margin: drop r = argmax_i y_i (f(x_i) - a_i k(x_i, x_i)), if the budget is full, then
    f <- f + step_size y k(x, .). With several classes y f is the lead of the true class over the best wrong one, of the
    row and of the supports. The scores of all supports are kept and moved along: O(B) kernel values an update, not the
    paper's O(B^2). Shards are joined by dropping the most redundant supports of the union.

    Parameters
    ----------
    step_size : > 0; margin : >= 0, rows at or below which are learnt

    Source: Crammer, Kandola & Singer, NIPS 2003, Figures 1 and 2; several classes as Lu et al., JMLR 17(47), 2016,
    section 5.3.
    """

    step_size: float = 1.0
    margin: float = 0.0
    name: ClassVar[str] = "budget-perceptron"
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        if not (np.isfinite(self.margin) and self.margin >= 0):
            raise ConfigError(f"margin = {self.margin!r}, but it takes a finite number of at least 0.")

    @property
    def parameters(self) -> tuple[float, ...]:
        """Step size and margin."""
        return (self.step_size, self.margin)

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """Scores of the supports, and their kernel values with themselves."""
        return (n_outputs + 1, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_budget_perceptron(kept, inputs, targets, rule)

    def remember(self, kept: Kept, rule: BudgetRule) -> None:
        """Compute the scores of the supports; kept changes in place."""
        remember_scores(kept, rule)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Drop the most redundant supports until the budget is met; kept changes in place."""
        drop_redundant(kept, rule)
