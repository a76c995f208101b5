"""Projectron++: Projectron that also learns, by projections only, from rows whose margin is too small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.budgetprojection import learn_projectron, project_excess
from okl.online.budget.projectron import DEPENDENCE
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class ProjectronPlus(BudgetStrategy):
    """Projectron, and a step towards the projection of a row that was right with a margin below 1.

    l = 1 - y f (or 1 minus the lead of the true class), P = |projection of k(x, .)|^2, delta its distance to k(x, .):
    f <- f + y tau sum_s d_s k(s, .), tau = min(l / P, 1), where 2 l - tau P >= 2 U delta: there the bound on the
    distance to every function of norm U falls. U = sqrt((budget + 1) / log(budget + 1)) / 4 is the norm up to which
    the Forgetron and this algorithm compete. O(budget^2) for a row with loss.

    With several classes P is that of one class, as in the runs of Lu et al.: the lead in the span becomes 1 + l.

    Source: Orabona, Keshet & Caputo, JMLR 10, 2009, section 4 (Projectron++); the rest as `Projectron`. U by Dekel,
    Shalev-Shwartz & Singer, NIPS 2005, Theorem 1.
    """

    name: ClassVar[str] = "projectron++"
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")

    @property
    def parameters(self) -> tuple[float, ...]:
        """Steps of 1 after mistakes, and that rows with a small margin are learnt."""
        return (1.0, 1.0)

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """A buffer and the inverse of the kernel matrix."""
        return (1 + capacity, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_projectron(kept, inputs, targets, rule, DEPENDENCE[inputs.dtype.name])

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Project supports beyond the budget onto those within; kept changes in place."""
        project_excess(kept, rule, DEPENDENCE[kept.supports.dtype.name])
