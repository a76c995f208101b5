"""A learner with support vectors settled on the data at hand: bandwidth and step size from a sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.errors import DivergedError
from okl.execution.protocol import Rows
from okl.features.bandwidth import suit_kernel
from okl.kernels import Kernel
from okl.losses import Loss
from okl.online.budget.growing import GrowingLearner
from okl.online.budget.learner import BudgetLearner, check_budget
from okl.online.budget.strategies import Strategy
from okl.online.budget.strategy import BudgetStrategy
from okl.online.recipe import Mode, Settled, Situation, check_loss
from okl.online.stepsize import PLAIN_STEPS

Learner = BudgetLearner | GrowingLearner


@dataclass(frozen=True)
class BudgetRecipe:
    """Predict, suffer, then learn, one row at a time, with support vectors: at most a budget of them, or all.

    Parameters
    ----------
    strategy : what is learnt from a row, and what makes room
    loss : of the table: its task, and the threshold of a regression
    kernel : a name; bandwidth : None for the median distance of the sample
    budget : most support vectors; a strategy that keeps all has none
    race : choose the strategy's step size on the sample, rather than take it as it is
    degree, offset : of the polynomial kernel

    Source: Lu et al., JMLR 17(47), 2016, sections 5.3 and 7; each strategy names its own paper.
    """

    strategy: Strategy
    loss: Loss
    kernel: str = "gaussian"
    bandwidth: float | None = None
    budget: int = 100
    race: bool = False
    degree: int = 3
    offset: float = 1.0
    modes: tuple[Mode, ...] = ("stream", "mix")

    @property
    def name(self) -> str:
        """The strategy's."""
        return self.strategy.name

    def settle(self, situation: Situation) -> Settled:
        """Choose the kernel's bandwidth and, if it is to be chosen, the step size on the sample.

        Raises
        ------
        ConfigError : the loss, the budget, the kernel or the task does not fit the data
        """
        check_loss(self.loss, situation.schema)
        kernel, chosen = suit_kernel(self.kernel, self.bandwidth, situation.sample.inputs, self.degree, self.offset)
        strategy = self.strategy
        if isinstance(strategy, BudgetStrategy):
            if situation.rows is not None:
                check_budget(self.budget, situation.rows)
            chosen = chosen | {"budget": self.budget}
        learner = _learner(strategy, kernel, self.loss, self.budget, situation)
        if "step_size" in vars(strategy):
            reason = "the solver's own" if strategy == type(strategy)() else "as given"
            if self.race:
                learner, reason = _raced(learner, situation.sample)
            chosen = chosen | {"step_size": _step_size(learner), "step_size_reason": reason}
        return Settled(learner, chosen)


def _learner(strategy: Strategy, kernel: Kernel, loss: Loss, budget: int, situation: Situation) -> Learner:
    schema = situation.schema
    sizes: dict[str, Any] = {
        "task": loss.task,
        "n_inputs": schema.n_features,
        "n_outputs": schema.n_outputs,
        "epsilon": float(getattr(loss, "epsilon", 0.0)),
        "precision": situation.precision,
    }
    if isinstance(strategy, BudgetStrategy):
        return BudgetLearner(kernel, strategy, budget=budget, seed=situation.seed, **sizes)
    return GrowingLearner(kernel, strategy, **sizes)


def _raced(learner: Learner, sample: Rows) -> tuple[Learner, str]:
    """The learner with the step size whose progressive error on the sample is least; its own on a tie; and why."""
    steps = [_step_size(learner), *(step for step in PLAIN_STEPS if step != _step_size(learner))]
    errors = [_error(_stepping(learner, step), sample) for step in steps]
    best = int(np.argmin(errors))
    if not np.isfinite(errors[best]):
        raise DivergedError(
            f"Every step size down to {min(steps):g} diverges on a sample of {len(sample.targets):,} rows. Scale the "
            "inputs and the target, or give a smaller step size."
        )
    reason = f"least progressive error of {len(steps)} step sizes on {len(sample.targets):,} sampled rows"
    return _stepping(learner, steps[best]), reason


def _step_size(learner: Learner) -> float:
    return float(vars(learner.strategy)["step_size"])


def _stepping(learner: Learner, step_size: float) -> Learner:
    strategy: Any = replace(learner.strategy, step_size=step_size)  # type: ignore[type-var]
    return replace(learner, strategy=strategy)


def _error(learner: Learner, sample: Rows) -> float:
    state: Any = learner.start()
    try:
        return float(learner.learn(state, sample).progress.error)
    except DivergedError:
        return np.inf
