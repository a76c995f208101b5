"""BPA-S: budgeted passive-aggressive learning that replaces one support by the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_positive
from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.budgetpassive import drop_lightest, learn_bpa_simple, remember_selves
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class BPASimple(BudgetStrategy):
    """Passive-aggressive steps; when the budget is full, the row takes the place of one support.

    For a row of hinge loss l > 0: tau = min(aggressiveness, l / k(x, x)), f <- f + y tau k(x, .), and when the budget
    is full f <- f - a_r k(x_r, .) + a_r k(x_r, x) / k(x, x) k(x, .), r of least a_r^2 (k(x_r, x_r) - k(x_r, x)^2 /
    k(x, x)), the oldest on a tie: what is best among all such replacements, by the objective of the paper. O(budget).

    Several classes: tau = min(aggressiveness, l / (2 k(x, x))) for the true class, -tau for the best wrong one, and the
    replacement touches every class, with sums of squares over classes in place of a_r^2: O(n_classes budget).

    A row of k(x, x) = 0 changes nothing. Shards are joined by dropping the supports of least |a|^2 k(s, s).

    Parameters
    ----------
    aggressiveness : C > 0, the longest step

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-S); several classes as Lu et al., JMLR 17(47), 2016, section
    7.3.2, with the step of Crammer et al., JMLR 7, 2006, section 8.
    """

    aggressiveness: float = 1.0
    name: ClassVar[str] = "bpa-s"
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")

    def __post_init__(self) -> None:
        check_positive("aggressiveness", self.aggressiveness)

    @property
    def parameters(self) -> tuple[float, ...]:
        """C."""
        return (self.aggressiveness,)

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """k(s, s) of the supports, and a buffer."""
        return (2, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_bpa_simple(kept, inputs, targets, rule)

    def remember(self, kept: Kept, rule: BudgetRule) -> None:
        """Compute k(s, s) of all supports; kept changes in place."""
        remember_selves(kept, rule)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Drop the supports of least |a|^2 k(s, s) until the budget is met; kept changes in place."""
        drop_lightest(kept, rule)
