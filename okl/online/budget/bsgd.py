"""BSGD: stochastic gradient descent on a support vector machine's objective, with removal or merging of supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_positive
from okl.compiled.budget import SCALE, BudgetRule, Kept
from okl.compiled.budgetdescent import learn_bsgd_merging, learn_bsgd_removal, merge_excess
from okl.compiled.budgetpassive import drop_lightest, remember_selves
from okl.compiled.counting import ROWS
from okl.compiled.kernelrule import GAUSSIAN, KernelRule
from okl.errors import ConfigError
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class BSGDRemoval(BudgetStrategy):
    """Pegasos in a kernel expansion; when the budget is full, the least support goes.

    Row t = 1, 2, ..: f <- (1 - 1 / t) f, and where the hinge loss was positive f <- f + y k(x, .) / (regularisation t).
    Then the support of least |a|^2 k(s, s) goes, the oldest on a tie; with k(s, s) = 1 all tie, and the oldest goes.
    With several classes the true class takes the step, and the best wrong one its negative. O(n_classes budget).

    Parameters
    ----------
    regularisation : lambda > 0 of regularisation / 2 |f|^2 + mean hinge loss

    Source: Wang, Crammer & Vucetic, JMLR 13, 2012, Algorithms 1 and 2, budget maintenance by removal.
    """

    regularisation: float = 1e-4
    name: ClassVar[str] = "bsgd-removal"
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")
    spare_slots: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("regularisation", self.regularisation)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Lambda."""
        return (self.regularisation,)

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """k(s, s) of the supports, and a buffer."""
        return (2, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_bsgd_removal(kept, inputs, targets, rule)

    def remember(self, kept: Kept, rule: BudgetRule) -> None:
        """Compute k(s, s), and count coefficients in steps of the rows learnt so far; kept changes in place."""
        remember_selves(kept, rule)
        count_in_steps(kept, self.regularisation)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Drop the supports of least |a|^2 k(s, s) until the budget is met; kept changes in place."""
        drop_lightest(kept, rule)


@dataclass(frozen=True)
class BSGDMerging(BudgetStrategy):
    """Pegasos in a kernel expansion; when the budget is full, two supports become one between them.

    Steps as in `BSGDRemoval`. Then the support m of least |a|, the newest on a tie, is merged with the one j where that
    changes f least: z = h x_m + (1 - h) x_j, a_z = k^((1-h)^2) a_m + k^(h^2) a_j with k = k(x_m, x_j), for the best h
    in [0, 1/2] (where it is, as |a_m| <= |a_j|). Supports of opposite signs may meet; then j just takes over what it
    can. O(n_classes budget). The Gaussian kernel only: for others no such z is known.

    Parameters
    ----------
    regularisation : lambda > 0 of regularisation / 2 |f|^2 + mean hinge loss

    Source: Wang, Crammer & Vucetic, JMLR 13, 2012, Algorithms 1 and 2, budget maintenance by merging.
    """

    regularisation: float = 1e-4
    name: ClassVar[str] = "bsgd-merging"
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")
    spare_slots: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("regularisation", self.regularisation)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Lambda."""
        return (self.regularisation,)

    def check_kernel(self, kernel: KernelRule) -> None:
        """Raise ConfigError unless the kernel is Gaussian."""
        if kernel.code != GAUSSIAN:
            raise ConfigError(
                "bsgd-merging puts supports on the line between two, which is known to be best for the Gaussian kernel "
                "only. Use that kernel, or bsgd-removal."
            )

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """Buffers of one number a support."""
        return (6, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_bsgd_merging(kept, inputs, targets, rule)

    def remember(self, kept: Kept, rule: BudgetRule) -> None:
        """Count coefficients in steps of the rows learnt so far; kept changes in place."""
        count_in_steps(kept, self.regularisation)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Merge until the budget is met; kept changes in place."""
        merge_excess(kept, rule)


def count_in_steps(kept: Kept, regularisation: float) -> None:
    """Divide the coefficients by the scale 1 / (regularisation t), t rows learnt: kept changes in place."""
    scale = 1.0 / (regularisation * max(1, int(kept.counts[ROWS])))
    kept.coefficients[:] = kept.coefficients * (kept.floats[SCALE] / scale)
    kept.floats[SCALE] = scale
