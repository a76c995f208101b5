# File: okl/solvers/online/stoptron.py
# STRATEGIES: "stoptron": "okl.solvers.online.stoptron:Stoptron",
"""The Stoptron: a perceptron that stops adding support vectors when its budget is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from okl.compiled.budget import COUNT, SCALE, BudgetRule, SupportArrays, count_row, drop_support, put_support, score_row
from okl.compiled.jit import compiled_row
from okl.compiled.sgd import UPDATES
from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray, Task
from okl.solvers.online.budget import BudgetStrategy, Change, doubles


class Numbers(NamedTuple):
    """Numbers of the compiled step."""

    step_size: float


@compiled_row
def learn_until_full(
    kept: SupportArrays, inputs: FloatArray, targets: NDArray[Any], rule: BudgetRule, numbers: Numbers
) -> None:
    """Score, count and learn rows in order; kept changes in place."""
    for index in range(inputs.shape[0]):
        x = inputs[index]
        score_row(kept, kept.row, x, rule.kernel, kept.floats[SCALE])
        seen = count_row(kept, targets[index], rule.code)
        if seen.margin <= 0.0 and kept.integers[COUNT] < rule.budget:
            step = numbers.step_size * (seen.y if seen.wrong < 0 else 1.0)
            put_support(kept, x, kept.integers[COUNT], seen, step / kept.floats[SCALE])
            kept.counts[UPDATES] += 1


@compiled_row
def drop_last(kept: SupportArrays, rule: BudgetRule, numbers: Numbers) -> None:
    """Drop the supports beyond the budget, the last first; kept changes in place."""
    while kept.integers[COUNT] > rule.budget:
        drop_support(kept, kept.integers[COUNT] - 1)


@stored("stoptron")
@dataclass(frozen=True)
class Stoptron(BudgetStrategy):
    """A perceptron that stops adding support vectors when its budget is full.

    After a mistake, y f <= 0, while there is room: f <- f + step_size y k(x, .); with several classes the true class
    takes +step_size and the best wrong one -step_size. Shards are joined by the first supports of the union.

    Parameters
    ----------
    step_size : > 0; it changes no decision

    Source: Orabona, Keshet & Caputo, JMLR 10, 2009 (the baseline of the experiments).
    """

    step_size: float = 1.0
    name: ClassVar[str] = "stoptron"
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")
    positive: ClassVar[tuple[str, ...]] = ("step_size",)
    size_free: ClassVar[bool] = True
    compiled: ClassVar[type[tuple[Any, ...]]] = Numbers
    reduced: ClassVar[Change] = staticmethod(drop_last)

    def learn(self, supports: SupportArrays, inputs: FloatArray, targets: NDArray[Any], rule: BudgetRule) -> None:
        """Learn rows in their order; modify `supports` in place."""
        learn_until_full(supports, inputs, targets, rule, doubles(Numbers(self.step_size)))
