"""What one way of keeping a budget of support vectors tells the learner that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.kernelrule import KernelRule
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class BudgetStrategy:
    """Base of all strategies: frozen numbers, and the compiled functions that use them.

    A strategy is a subclass with numbers as fields, in a file of its own, and a driver in okl/compiled.

    name : as tables and options have it; tasks : that it is defined for
    least_budget : below which it makes no sense; spare_slots : columns that it needs beyond the budget
    count_rows : so many first rows of memory count the rows that each support stands for; joined shards keep them
    """

    name: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass", "regression")
    least_budget: ClassVar[int] = 1
    spare_slots: ClassVar[int] = 0
    count_rows: ClassVar[int] = 0

    @property
    def parameters(self) -> tuple[float, ...]:
        """What the compiled driver finds in rule.parameters, in the order that it says."""
        raise NotImplementedError

    def check_kernel(self, kernel: KernelRule) -> None:
        """Raise ConfigError for a kernel that the strategy cannot take; none unless overridden."""

    def own_floats(self, task: Task, epsilon: float) -> tuple[float, ...]:
        """First values of floats from FIRST_FLOAT on; none unless overridden."""
        return ()

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """Shape of memory, whose columns, and perhaps rows, are those of supports; none unless overridden."""
        return (0, 0)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        raise NotImplementedError

    def remember(self, kept: Kept, rule: BudgetRule) -> None:
        """Compute memory from the supports, after supports of several shards were put together; kept changes."""

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Bring supports down to the budget as the strategy does it row by row; kept changes in place."""
        raise NotImplementedError
