"""TVM: a support vector machine on a budget of twin vectors, each of which stands for many rows of both classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least, check_positive
from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.budgettwin import learn_twins, reduce_twins, remember_twins
from okl.errors import ConfigError
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class TwinVectors(BudgetStrategy):
    """A support vector machine on twin vectors: places with counts of the positive and negative rows they stand for.

    f minimises 1/2 |f|^2 + aggressiveness sum_i (s+_i max(0, 1 - f(x_i)) + s-_i max(0, 1 + f(x_i))) over the twins. A
    row within the margin becomes a twin with a count of 1. When the budget is full, the twin farthest outside of the
    margin goes, if it has rows of its own side only, so that f needs it no more; if there is none, two near twins
    become one: the mean of their places, weighted by counts, with summed counts. Then f is solved for again.
    O(budget^2) time and memory, as Table 1 of Lu et al. says; two classes only; any kernel.

    Of the paper: twins and their counts, that f is kept optimal for them, who enters, the three steps of an update, and
    merging by means and sums; removal of the farthest is of its second version. A reading of it, where only summaries
    could be looked up: f has no constant term, as no learner here has, and is optimal up to `tolerance` or `sweeps`
    of dual descent, where the paper follows the optimum by incremental and decremental learning (a duality gap of at
    most .3% on german, spambase, a9a and ijcnn1; a tenth of it does not lower their errors); the margin is 1 for
    entering and for removal; of several ways to choose a pair this one is the variance that a merge adds, see
    okl.compiled.twinroom.

    Rows of k(x, x) = 0 are not learnt. Shards are joined by the union of their twins; counts are scaled to sum to those
    before and what each shard added, as each has what was there before. Then f is solved for, and room made as above.

    Parameters
    ----------
    aggressiveness : C > 0, the largest coefficient that one row gives its twin
    unlike : > 0, how often a pair of rows of unlike classes counts against merging their twins
    tolerance : in (0, 1), of scores: a row nearer to the margin does not enter, and descent ends at smaller steps
    sweeps : >= 1, over all twins, at most, after every change

    Source: Wang & Vucetic, Twin Vector Machines for Online Learning on a Budget, SDM 2009, and Online Training on a
    Budget of Support Vector Machines Using Twin Prototypes, Statistical Analysis and Data Mining 3, 2010.
    """

    aggressiveness: float = 1.0
    unlike: float = 10.0
    tolerance: float = 1e-2
    sweeps: int = 10
    name: ClassVar[str] = "tvm"
    tasks: ClassVar[tuple[Task, ...]] = ("binary",)
    spare_slots: ClassVar[int] = 1
    count_rows: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_positive("aggressiveness", self.aggressiveness)
        check_positive("unlike", self.unlike)
        if check_positive("tolerance", self.tolerance) >= 1.0:
            raise ConfigError(f"tolerance = {self.tolerance!r}, but it is a share of the margin, in (0, 1).")
        check_at_least("sweeps", self.sweeps, 1)

    @property
    def parameters(self) -> tuple[float, ...]:
        """C, the tolerance, sweeps, and the weight of unlike pairs."""
        return (self.aggressiveness, self.tolerance, float(self.sweeps), self.unlike)

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """Counts, coefficients, scores, a buffer, and the kernel matrix."""
        return (5 + capacity, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_twins(kept, inputs, targets, rule)

    def remember(self, kept: Kept, rule: BudgetRule) -> None:
        """Compute the kernel matrix and coefficients that counts allow; kept changes in place."""
        remember_twins(kept, rule)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Solve for f, and make room until the budget is met; kept changes in place."""
        reduce_twins(kept, rule)
