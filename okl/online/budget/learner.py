"""The learner of all strategies with a budget: predict, suffer, learn, one row after the other, on support vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from okl.checks import check_at_least, check_choice
from okl.compiled.budget import BudgetRule
from okl.compiled.kernelrule import KernelRule
from okl.compiled.steplosses import HINGE, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED
from okl.errors import ConfigError, DivergedError
from okl.execution.protocol import Rows
from okl.expansions import KernelExpansion
from okl.kernels import Kernel
from okl.online.budget.joining import join_states
from okl.online.budget.state import BudgetState, capacity_of, empty_state, kept_from, state_from
from okl.online.budget.strategy import BudgetStrategy
from okl.online.checked import checked_rows
from okl.types import FloatArray, Precision, Task

LOSS_CODES: dict[Task, int] = {
    "binary": HINGE,
    "multiclass": MULTICLASS_HINGE,
    "regression": THRESHOLDED_HALF_SQUARED,
}


@dataclass(frozen=True, eq=False)
class BudgetLearner:
    """Settings of learning row by row with at most `budget` support vectors: f = sum_s a_s k(s, x).

    A MixableLearner: shards are joined by the union of their supports, coefficients weighted by the rows that each
    shard learnt, and the strategy's own reduction down to the budget.

    Parameters
    ----------
    kernel : with a rule for compiled code; strategy : what is learnt from a row, and what makes room
    task, n_inputs : of the data; n_outputs : the number of classes for several classes, otherwise 1
    budget : most support vectors, >= 1; epsilon : threshold of a regression, in units of the scaled target
    precision : of supports and coefficients; seed : of what the strategy draws

    Raises
    ------
    ConfigError : a size is out of range, the kernel has no rule, or the strategy is for other kernels or tasks
    """

    kernel: Kernel
    strategy: BudgetStrategy
    task: Task
    n_inputs: int
    budget: int
    n_outputs: int = 1
    epsilon: float = 0.1
    precision: Precision = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        check_sizes(self.task, self.n_inputs, self.n_outputs, self.epsilon)
        check_at_least("budget", self.budget, self.strategy.least_budget)
        self.strategy.check_kernel(rule_of(self.kernel))
        if self.task not in self.strategy.tasks:
            raise ConfigError(
                f"{self.strategy.name} is not defined for a {self.task} task, but for {', '.join(self.strategy.tasks)}."
            )

    def start(self) -> BudgetState:
        """No supports, before any row."""
        return self._empty(self.budget)

    def learn(self, state: BudgetState, rows: Rows, n_threads: int = 1) -> BudgetState:
        """Learn rows in their order; the state that came stays as it is.

        One row depends on the one before: one thread learns. Any split of the rows into calls gives the same bits.

        Raises
        ------
        DataError : inputs or targets do not fit; DivergedError : coefficients are no longer finite
        """
        inputs, targets = checked_rows(rows, self.task, self.n_inputs, self.n_outputs, self.precision)
        self._check_state(state)
        kept = kept_from(state)
        self.strategy.learn(kept, inputs, targets, self.rule)
        after = state_from(kept, self.task)
        check_finite(self.strategy, state.progress.rows, after.progress.rows, after.coefficients, after.progress.error)
        return after

    def predictor(self, state: BudgetState) -> KernelExpansion:
        """The expansion in the supports."""
        return KernelExpansion(self.kernel, state.rows, state.scaled_coefficients.astype(self.precision))

    def chosen(self, state: BudgetState) -> dict[str, Any]:
        """How many support vectors there are."""
        return {"support_vectors": state.n_supports}

    def fork(self, state: BudgetState) -> BudgetState:
        """A shard starts from the state itself."""
        return state

    def join(self, base: BudgetState, parts: list[BudgetState]) -> BudgetState:
        """The union of the shards' supports, brought down to the budget by the strategy; see `join_states`."""
        return join_states(self.strategy, self.rule, base, parts, self._empty)

    @property
    def rule(self) -> BudgetRule:
        """The settings as compiled code takes them."""
        parameters = np.array(self.strategy.parameters, dtype=np.float64)
        return BudgetRule(
            rule_of(self.kernel), LOSS_CODES[self.task], float(self.epsilon), int(self.budget), parameters
        )

    def _check_state(self, state: BudgetState) -> None:
        """Compiled code writes where the budget says and does not look."""
        wanted = self.start().supports.shape
        if state.supports.shape != wanted or len(state.coefficients) != self.n_outputs:
            raise ConfigError(
                f"A state of {len(state.coefficients)} outputs and supports of shape {state.supports.shape} came to a "
                f"learner of {self.n_outputs} and {wanted}. Use the state that this learner started."
            )

    def _empty(self, n_supports: int) -> BudgetState:
        capacity = capacity_of(n_supports + self.strategy.spare_slots)
        shape = (self.n_inputs, self.n_outputs, capacity)
        memory_shape = self.strategy.memory_shape(self.n_outputs, capacity)
        own_floats = self.strategy.own_floats(self.task, self.epsilon)
        return empty_state(shape, memory_shape, own_floats, self.task, self.precision, self.seed)


def rule_of(kernel: Kernel) -> KernelRule:
    """The kernel's rule for compiled code, or ConfigError for one that has none."""
    if kernel.rule is None:
        raise ConfigError(
            f"The kernel {kernel.name!r} is a function of your own, but learners with support vectors take kernels "
            "that compiled code knows. Use NOGD, which takes any positive definite kernel, or another kernel."
        )
    return kernel.rule


def check_sizes(task: Task, n_inputs: int, n_outputs: int, epsilon: float) -> None:
    """Raise ConfigError unless the sizes fit the task."""
    check_choice("task", task, LOSS_CODES)
    check_at_least("n_inputs", n_inputs, 1)
    check_at_least("n_outputs", n_outputs, 2 if task == "multiclass" else 1)
    if task != "multiclass" and n_outputs != 1:
        raise ConfigError(f"n_outputs = {n_outputs}, but a {task} task takes one output.")
    if not (np.isfinite(epsilon) and epsilon >= 0):
        raise ConfigError(f"epsilon = {epsilon!r}, but it takes a finite number of at least 0.")


def check_budget(budget: int, n_rows: int) -> None:
    """Raise ConfigError if the budget is larger than the rows to learn: it would never be met."""
    if budget > n_rows:
        raise ConfigError(
            f"budget = {budget:,}, but there are {n_rows:,} rows to learn from, so that it can never be full. Use a "
            "budget of at most the rows, or a learner without a budget: perceptron or ogd."
        )


def check_finite(strategy: object, first: int, last: int, coefficients: FloatArray, error: float) -> None:
    """Raise DivergedError unless coefficients and errors are finite; rows first to last - 1 were learnt."""
    if not (np.isfinite(coefficients).all() and (np.isfinite(error) or last == 0)):
        raise DivergedError(
            f"Rows {first:,} to {last - 1:,}: coefficients or scores are no longer finite with {strategy}. Use a "
            "smaller step_size, or a kernel with smaller values."
        )
