"""BOGD and BOGD++: bounded online gradient descent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_choice, check_positive
from okl.compiled.budget import BudgetRule, Kept
from okl.compiled.budgetgradient import drop_bounded, learn_bounded_gradient
from okl.compiled.budgetsampled import drop_sampled, learn_sampled_gradient, remember_norms
from okl.errors import ConfigError
from okl.online.budget.strategy import BudgetStrategy
from okl.types import FloatArray


@dataclass(frozen=True)
class BoundedGradientDescent(BudgetStrategy):
    """BOGD: gradient descent on the regularised hinge loss; when the budget is full, a support drawn uniformly goes.

    f <- (1 - step_size regularisation) f every row; where y f < 1, f <- f - a_r k(x_r, .) with r uniform, if the budget
    is full, and f <- f + step_size y k(x, .). Several classes and a regression step as OGD does. Shards are joined by
    dropping supports of the union in the same way.

    Parameters
    ----------
    step_size : > 0; regularisation : >= 0, step_size * regularisation < 1
    rescale : whether those who stay are multiplied by B / (B - 1), so that f stays right on average, as in the paper
    largest : coefficients are brought into [-largest step_size, largest step_size] after a step; None for no bound
    removal : "random" as the paper, or "oldest", as the tables of Lu et al. for several classes and regressions have it

    Source: Zhao, Wang, Wu, Jin & Hoi, ICML 2012 (arXiv 1206.4633), BOGD by uniform sampling; several classes and
    regression as Lu et al., JMLR 17(47), 2016, sections 5.3 and 7.4.1.
    """

    step_size: float = 0.5
    regularisation: float = 0.01
    rescale: bool = False
    largest: float | None = None
    removal: Literal["random", "oldest"] = "random"
    name: ClassVar[str] = "bogd"

    def __post_init__(self) -> None:
        check_decay(self.step_size, self.regularisation, self.largest)
        check_choice("removal", self.removal, ("random", "oldest"))

    @property
    def parameters(self) -> tuple[float, ...]:
        """Step size, decay, whether others grow, largest coefficient, whether the oldest goes."""
        largest = math.inf if self.largest is None else self.largest * self.step_size
        decay = 1.0 - self.step_size * self.regularisation
        return (self.step_size, decay, float(self.rescale), largest, float(self.removal == "oldest"))

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_bounded_gradient(kept, inputs, targets, rule)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Drop supports until the budget is met; kept changes in place."""
        drop_bounded(kept, rule)


@dataclass(frozen=True)
class SampledGradientDescent(BudgetStrategy):
    """BOGD++: BOGD that draws the support to remove by its weight, small ones more often.

    Support i goes with the chance p_i = 1 - (B - 1) w_i / sum_j w_j, w_i = ||a_i|| k(x_i, x_i)^(1/2), and those who
    stay are divided by their chance to stay, 1 - p_i: f stays right on average. A negative p_i counts as 0, and all
    are divided by their sum. The rest is as in BOGD.

    Parameters
    ----------
    step_size : > 0; regularisation : >= 0, step_size * regularisation < 1
    largest : coefficients are brought into [-largest step_size, largest step_size] after a step; None for no bound,
        with which few supports can carry most of f, and a regression's errors grow

    Source: Zhao, Wang, Wu, Jin & Hoi, ICML 2012 (arXiv 1206.4633), BOGD++ by non-uniform sampling.
    """

    step_size: float = 0.5
    regularisation: float = 0.01
    largest: float | None = 1.0
    name: ClassVar[str] = "bogd++"

    def __post_init__(self) -> None:
        check_decay(self.step_size, self.regularisation, self.largest)

    @property
    def parameters(self) -> tuple[float, ...]:
        """Step size, decay, nothing, largest coefficient."""
        largest = math.inf if self.largest is None else self.largest * self.step_size
        return (self.step_size, 1.0 - self.step_size * self.regularisation, 0.0, largest)

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """Norms of the supports, and a buffer for chances."""
        return (2, capacity)

    def learn(self, kept: Kept, inputs: FloatArray, targets: NDArray[np.float64], rule: BudgetRule) -> None:
        """Learn rows in their order; kept changes in place."""
        learn_sampled_gradient(kept, inputs, targets, rule)

    def remember(self, kept: Kept, rule: BudgetRule) -> None:
        """Compute the norms of the supports; kept changes in place."""
        remember_norms(kept, rule)

    def reduce(self, kept: Kept, rule: BudgetRule) -> None:
        """Draw and drop supports until the budget is met; kept changes in place."""
        drop_sampled(kept, rule)


def check_decay(step_size: float, regularisation: float, largest: float | None) -> None:
    """Raise ConfigError unless the numbers of BOGD make sense together."""
    check_positive("step_size", step_size)
    if not (regularisation >= 0 and step_size * regularisation < 1):
        raise ConfigError(
            f"regularisation = {regularisation!r}, but it takes a number of at least 0 whose product with "
            f"step_size = {step_size:g} is below 1."
        )
    if largest is not None:
        check_positive("largest", largest)
