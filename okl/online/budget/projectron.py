"""Projectron: a Perceptron that projects onto the span of its supports when the budget is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_positive
from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.budgetprojection import learn_projectron, project_excess
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray

DEPENDENCE = {"float32": 1e-5, "float64": 1e-10}
NO_MARGIN = -1.0


@dataclass(frozen=True)
class Projectron(BudgetStrategy):
    """A Perceptron that adds the projection of a row onto the span of the supports when the budget is full.

    After a mistake: f <- f + step_size y k(x, .) while there is room, then f <- f + step_size y sum_s d_s k(s, .) with
    d = K^(-1) k(supports, x): O(budget^2) for a mistake, O(budget) for other rows, O(budget^2) memory. Several classes
    share the supports: the true class takes +step_size, the best wrong one -step_size. In a regression a mistake is
    |y - f| > epsilon, and the step has the sign of y - f.

    A row whose squared distance to the span is at most 1e-10 of k(x, x) (1e-5 in float32) is projected before the
    budget is full, too: duplicates of a support would make K singular. The original projects by such a threshold alone
    and has no budget; here only the budget decides, as in Lu et al.

    Shards are joined by keeping supports in their order, up to the budget, and projecting the others.

    Parameters
    ----------
    step_size : > 0; its size matters to a regression only

    Source: Orabona, Keshet & Caputo, JMLR 10, 2009, section 3 (Projectron); a budget, several classes and regression as
    Lu et al., JMLR 17(47), 2016, sections 5.3, 7.2.1 and 7.4.1.
    """

    step_size: float = 1.0
    name: ClassVar[str] = "projectron"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The step size, and that rows without a mistake are left alone."""
        return (self.step_size, NO_MARGIN)

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """A buffer and the inverse of the kernel matrix."""
        return (1 + capacity, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_projectron(kept, inputs, targets, rule, DEPENDENCE[inputs.dtype.name])

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Project supports beyond the budget onto those within; kept changes in place."""
        project_excess(kept, rule, DEPENDENCE[kept.supports.dtype.name])
