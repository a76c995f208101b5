"""The self-tuned Forgetron."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_positive
from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.budgetforgetron import forget_oldest, learn_forgetron
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray


@dataclass(frozen=True)
class Forgetron(BudgetStrategy):
    """A Perceptron that, when the budget is full, shrinks f and forgets the oldest support.

    After a mistake, y f <= 0: f' = f + step_size y k(x, .); with a full budget f'' = phi f' without its oldest
    support x_r. phi is the largest number of (0, 1] for which the sum of all costs of forgetting,
    (a phi)^2 + 2 a phi (1 - phi mu) with a the size of x_r's coefficient and mu = y_r f'(x_r), stays at or below 15/32
    of the mistakes; its bounds take k(x, x) <= 1. With several classes the true class takes +step_size and the best
    wrong one -step_size, and mu is the score of x_r's own class; in a regression a mistake is |y - f| > epsilon, and
    the step and y_r have the sign of y - f. Shards are joined by shrinking and forgetting the oldest supports of the
    union in the same way.

    Parameters
    ----------
    step_size : > 0; the paper's is 1
    shrinks : False forgets the oldest support without shrinking f: less than the paper, and mostly fewer mistakes

    Source: Dekel, Shalev-Shwartz & Singer, SIAM J. Comput. 37, 2008, section 5; several classes and regression as Lu et
    al., JMLR 17(47), 2016, sections 5.3, 7.3.2 and 7.4.1.
    """

    step_size: float = 1.0
    shrinks: bool = True
    name: ClassVar[str] = "forgetron"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    @property
    def parameters(self) -> tuple[float, ...]:
        """The step size, and whether f shrinks."""
        return (self.step_size, float(self.shrinks))

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_forgetron(kept, inputs, targets, rule)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Shrink and forget the oldest supports until the budget is met; kept changes in place."""
        forget_oldest(kept, rule)
