"""The strategies of simple removal with their naive twins, and functions that make learners of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from okl.compiled.budget import RANDOM
from okl.data.execution import Rows
from okl.foundation.types import FloatArray, Precision
from okl.solvers.online.budget import BudgetLearner, BudgetState, BudgetStrategy, GrowingLearner, GrowingState
from okl.solvers.online.strategies import (
    BoundedGradientDescent,
    BudgetPerceptron,
    Forgetron,
    Norma,
    OnlineGradientDescent,
    Perceptron,
    RandomizedBudgetPerceptron,
    SampledGradientDescent,
)
from tests.naive import budget as naive
from tests.naive.expansion import RowResult
from tests.solvers.online.budget_streams import N_OUTPUTS, Stream

BUDGET = 13
EPSILON = 0.25
TOLERANCE = {"float32": 1e-4, "float64": 1e-10}
Twin = Callable[[naive.Slots, FloatArray, FloatArray], list[RowResult]]


class Case(NamedTuple):
    strategy: Any
    twin: Twin


def _bogd(rescale: bool, largest: float | None, oldest: bool) -> Case:
    strategy = BoundedGradientDescent(0.3, 0.02, rescale, largest, "oldest" if oldest else "random")
    bound = np.inf if largest is None else largest
    return Case(strategy, _shrinking(bound, partial(naive.remove_one, rescale=rescale, oldest=oldest)))


def _shrinking(largest: float, make_room: Callable[[naive.Slots], int]) -> Twin:
    return lambda s, x, y: naive.shrinking_gradient(s, x, y, EPSILON, 0.3, 0.02, largest, make_room)


CASES: dict[str, Case] = {
    "rbp": Case(RandomizedBudgetPerceptron(0.3), lambda s, x, y: naive.random_perceptron(s, x, y, EPSILON, 0.3)),
    "forgetron": Case(Forgetron(0.9), lambda s, x, y: naive.forgetron(s, x, y, EPSILON, 0.9, True)),
    "forgetron-plain": Case(
        Forgetron(0.3, shrinks=False), lambda s, x, y: naive.forgetron(s, x, y, EPSILON, 0.3, False)
    ),
    "bogd": _bogd(False, None, False),
    "bogd-oldest": _bogd(False, None, True),
    "bogd-unbiased": _bogd(True, 2.0, False),
    "bogd++": Case(SampledGradientDescent(0.3, 0.02, 2.0), _shrinking(2.0, naive.remove_sampled)),
    "norma": Case(Norma(0.3, 0.02, 0.4, 0.7), lambda s, x, y: naive.norma(s, x, y, _margin(s), 0.3, 0.02, 0.4)),
    "norma-fixed": Case(Norma(0.3, 0.02, None, 0.7), lambda s, x, y: naive.norma(s, x, y, _margin(s), 0.3, 0.02, None)),
    "budget-perceptron": Case(BudgetPerceptron(0.7, 0.1), lambda s, x, y: naive.budget_perceptron(s, x, y, 0.7, 0.1)),
}
GROWING: dict[str, Case] = {
    "perceptron": Case(Perceptron(0.3), lambda s, x, y: naive.growing(s, x, y, EPSILON, 0.3, False)),
    "ogd": Case(OnlineGradientDescent(0.3), lambda s, x, y: naive.growing(s, x, y, EPSILON, 0.3, True)),
    "norma-growing": CASES["norma"],
}


def _margin(slots: naive.Slots) -> float:
    return EPSILON if slots.task == "regression" else 0.7


def precision_of(name: str) -> Precision:
    """Return float64 for one learner without a budget, else that of solvers by default.

    Strategies with a root learn in float64, too, and cover the code that all share.
    """
    return "float64" if name == "norma-growing" else "float32"


def budget_learner(
    strategy: BudgetStrategy, stream: Stream, budget: int = BUDGET, precision: Precision = "float32"
) -> BudgetLearner:
    return BudgetLearner(
        stream.kernel,
        strategy,
        stream.task,
        stream.inputs.shape[1],
        budget,
        N_OUTPUTS[stream.task],
        EPSILON,
        precision,
    )


def growing_learner(strategy: Any, stream: Stream, precision: Precision = "float32") -> GrowingLearner:
    return GrowingLearner(
        stream.kernel, strategy, stream.task, stream.inputs.shape[1], N_OUTPUTS[stream.task], EPSILON, precision
    )


def slots_of(stream: Stream, budget: int, start: BudgetState | None = None) -> naive.Slots:
    slots = naive.Slots(stream.kernel, stream.task, N_OUTPUTS[stream.task], budget)
    slots.state = int(start.integers[RANDOM]) if start is not None else 0
    return slots


def rows_of(stream: Stream, first: int = 0, last: int | None = None) -> Rows:
    return Rows(stream.inputs[first:last], stream.targets[first:last])


def bits(state: BudgetState | GrowingState) -> tuple[object, ...]:
    """Return all values of a state, arrays as bytes."""
    values = (getattr(state, field.name) for field in fields(state))
    return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in values)
