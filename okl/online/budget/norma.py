"""NORMA: stochastic gradient descent in the kernel's space, with forgetting and a margin that adapts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_positive
from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.budgetgradient import drop_oldest, learn_norma
from okl.compiled.budgetgrowing import NORMA, Growth
from okl.errors import ConfigError
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class Norma(BudgetStrategy):
    """f <- (1 - step_size regularisation) f every row, and + step_size y k(x, .) for a row beyond the margin.

    A row is beyond when y f < margin, or the true class leads by less than margin, or |y - f| > epsilon in a
    regression, where the step has the sign of y - f. With nu the margin adapts until a share nu of the rows is beyond:
    margin -= step_size (1 - nu) for a row beyond it and += step_size nu for others; epsilon of a regression moves the
    other way. With a budget the oldest support is dropped, which is the paper's truncation; without, all stay.

    Parameters
    ----------
    step_size : > 0; regularisation : >= 0, step_size * regularisation <= 0.9
    nu : share in (0, 1), or None for a margin that stays
    margin : at first, for classes; a regression begins with the learner's epsilon

    Source: Kivinen, Smola & Williamson, IEEE Trans. Signal Processing 52(8), 2004, Figure 1 and section III; Lu et al.,
    JMLR 17(47), 2016, section 7.4.1 (a regression whose epsilon adapts).
    """

    step_size: float = 0.03
    regularisation: float = 0.01
    nu: float | None = 0.4
    margin: float = 1.0
    name: ClassVar[str] = "norma"

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        decay = self.step_size * self.regularisation
        if not (self.regularisation >= 0 and decay <= 0.9):
            raise ConfigError(
                f"regularisation = {self.regularisation!r}, but it takes a number of at least 0 whose product with "
                f"step_size = {self.step_size:g} is at most 0.9."
            )
        if self.nu is not None and not 0 < self.nu < 1:
            raise ConfigError(f"nu = {self.nu!r}, but it is a share of the rows, in (0, 1); None keeps the margin.")
        if not np.isfinite(self.margin):
            raise ConfigError(f"margin = {self.margin!r}, but it takes a finite number.")

    @property
    def parameters(self) -> tuple[float, ...]:
        """Step size, decay and nu."""
        return (self.step_size, 1.0 - self.step_size * self.regularisation, -1.0 if self.nu is None else self.nu)

    def growth(self, code: int, epsilon: float) -> Growth:
        """As compiled code without a budget takes it."""
        step_size, decay, share = self.parameters
        return Growth(NORMA, code, float(epsilon), step_size, decay, share)

    def first_margin(self, task: Task, epsilon: float) -> float:
        """The margin, or the threshold of a regression."""
        return float(epsilon if task == "regression" else self.margin)

    def own_floats(self, task: Task, epsilon: float) -> tuple[float, ...]:
        """The first margin."""
        return (self.first_margin(task, epsilon),)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_norma(kept, inputs, targets, rule)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Drop the oldest supports until the budget is met; kept changes in place."""
        drop_oldest(kept, rule)
