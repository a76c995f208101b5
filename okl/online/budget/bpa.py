"""BPA-S, BPA-NN and BPA-P: budgeted passive-aggressive learning that makes up for a removed support by others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_positive
from okl.compiled.budget import COUNT, BudgetRule, Kept
from okl.compiled.budgetneighbours import learn_bpa_nearest, remember_neighbours, remove_to_neighbours
from okl.compiled.budgetpassive import drop_lightest, learn_bpa_simple, remember_selves
from okl.compiled.budgetprojection import project_excess
from okl.compiled.budgetspan import learn_bpa_projection, remove_from_span
from okl.online.budget.projectron import DEPENDENCE
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray, Task


@dataclass(frozen=True)
class _PassiveAggressive(BudgetStrategy):
    """What the three have in common; aggressiveness : C > 0, the longest step."""

    aggressiveness: float = 1.0
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")

    def __post_init__(self) -> None:
        check_positive("aggressiveness", self.aggressiveness)

    @property
    def parameters(self) -> tuple[float, ...]:
        """C."""
        return (self.aggressiveness,)


@dataclass(frozen=True)
class BPASimple(_PassiveAggressive):
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

    name: ClassVar[str] = "bpa-s"

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


@dataclass(frozen=True)
class BPANearest(_PassiveAggressive):
    """BPA-S whose removed support is made up for by the row and by its own nearest neighbour among the supports.

    a_r k(x_r, .) is projected onto the span of k(x, .) and k(x_n, .); r is the support where that changes f least, the
    oldest on a tie. O(n_classes budget), but for supports that lose their nearest neighbour, of which there is about
    one a step. Shards are joined by projecting the cheapest supports onto their nearest neighbours.

    Parameters
    ----------
    aggressiveness : C > 0, the longest step

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-NN); the rest as `BPASimple`.
    """

    name: ClassVar[str] = "bpa-nn"

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """k(s, s), the nearest neighbour, the distance to it and the kernel value with it, and a buffer."""
        return (5, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_bpa_nearest(kept, inputs, targets, rule)

    def remember(self, kept: Kept, rule: BudgetRule) -> None:
        """Find the nearest neighbours of all supports; kept changes in place."""
        remember_neighbours(kept, rule)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Project supports onto their nearest neighbours until the budget is met; kept changes in place."""
        remove_to_neighbours(kept, rule)


@dataclass(frozen=True)
class BPAProjection(_PassiveAggressive):
    """BPA-S whose removed support is made up for by all others: projected onto the span of row and supports.

    r is the support where that changes f least, the oldest on a tie: O(n_classes budget + budget^2) for a row with
    loss, by the inverse of the kernel matrix, where the paper solves budget systems in O(budget^3). A row in the span
    of the supports, by the threshold of `Projectron`, is spread over them. Shards are joined in the same way.

    Parameters
    ----------
    aggressiveness : C > 0, the longest step

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-P); the rest as `BPASimple`.
    """

    name: ClassVar[str] = "bpa-p"

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """The inverse of the kernel matrix, and three buffers."""
        return (3 + capacity, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_bpa_projection(kept, inputs, targets, rule, DEPENDENCE[inputs.dtype.name])

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Compute the inverse, and project the cheapest supports until the budget is met; kept changes in place."""
        everything = rule._replace(budget=int(kept.integers[COUNT]))
        project_excess(kept, everything, DEPENDENCE[kept.supports.dtype.name])
        remove_from_span(kept, rule)
