"""How the learners of the tables are made for a problem and a setting; settings are in `algorithms.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from okl.features.fourier import draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.online.budget import BudgetLearner, BudgetStrategy, GrowingLearner, GrowingStrategy
from okl.online.learner import LinearLearner
from okl.online.nogd import NOGDLearner
from okl.online.protocol import RowLearner
from okl.reproduction.lu2016.problems import EPSILON, Problem, Setting

BANDWIDTH_KEY = "bandwidth"  # of the kernel; all else in a setting is the strategy's own
Make = Callable[[Problem, Setting], RowLearner[Any]]


def make_fogd(problem: Problem, setting: Setting) -> RowLearner[Any]:
    """Algorithms 1, 3 and 5. The paper's map is not divided by sqrt(D): its step times D is ours, `scaled_step`."""
    sizes = problem.sizes
    drawn = draw_fourier_map(
        problem.kernel(setting), problem.n_inputs, sizes.n_frequencies, problem.seed, problem.precision
    )
    step = setting["scaled_step"] if "scaled_step" in setting else setting["step_size"] * sizes.n_frequencies
    return LinearLearner(drawn, problem.loss, step, problem.n_outputs, average=False)


def make_nogd(problem: Problem, setting: Setting) -> RowLearner[Any]:
    """Algorithms 2, 4 and 6."""
    return NOGDLearner(
        problem.kernel(setting),
        problem.n_inputs,
        problem.loss,
        setting["step_size"],
        problem.sizes.budget,
        problem.sizes.rank,
        problem.n_outputs,
        average=False,
        precision=problem.precision,
    )


def make_linear(problem: Problem, setting: Setting) -> RowLearner[Any]:
    """No kernel: a linear model of standardised inputs, learnt the same way."""
    inputs = problem.rows.inputs
    means, deviations = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    standardised = StandardisedLinear.of_columns(means, deviations, problem.precision)
    return LinearLearner(standardised, problem.loss, setting["step_size"], problem.n_outputs, average=False)


def budgeted(strategy: Callable[..., BudgetStrategy]) -> Make:
    """With the table's budget of support vectors; a setting holds the strategy's own numbers."""

    def make(problem: Problem, setting: Setting) -> RowLearner[Any]:
        return BudgetLearner(
            problem.kernel(setting),
            strategy(**_own(setting)),
            problem.task,
            problem.n_inputs,
            problem.sizes.budget,
            problem.n_outputs,
            EPSILON,
            problem.precision,
            problem.seed,
        )

    return make


def growing(strategy: Callable[..., GrowingStrategy]) -> Make:
    """Without a budget; a setting holds the strategy's own numbers."""

    def make(problem: Problem, setting: Setting) -> RowLearner[Any]:
        return GrowingLearner(
            problem.kernel(setting),
            strategy(**_own(setting)),
            problem.task,
            problem.n_inputs,
            problem.n_outputs,
            EPSILON,
            problem.precision,
        )

    return make


def _own(setting: Setting) -> dict[str, Any]:
    return {name: value for name, value in setting.items() if name != BANDWIDTH_KEY}
