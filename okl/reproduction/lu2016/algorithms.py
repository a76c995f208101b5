"""The algorithms of the tables: how each is made, its one stated setting, and the candidates where none is stated.

A setting is one for all data sets of a table, never one for each, unless it is searched for; then it is the best of the
paper's candidates on one order of the rows that is not among the reported ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from okl.execution.protocol import Rows
from okl.features.fourier import draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.kernels import Gaussian
from okl.losses import DEFAULT_LOSS, Loss, make_loss
from okl.online.learner import LinearLearner
from okl.online.nogd import NOGDLearner
from okl.online.protocol import RowLearner
from okl.reproduction.lu2016.cases import Sizes
from okl.types import Precision, Task

Setting = Mapping[str, float]
BANDWIDTH = 8.0
EPSILON = 0.1
STEPS = (2.0, 0.2, 0.02, 0.002, 0.0002)
MULTICLASS_FOGD_STEPS = (0.0005, 0.002, 0.005)
LINEAR_STEPS = (0.01, 0.03, 0.1, 0.3, 1.0)
LINEAR = "linear"
NOTHING: Setting = {}


@dataclass(frozen=True, eq=False)
class Problem:
    """What a learner is made for: the rows to come, the sizes of the table, a seed for all that it draws."""

    task: Task
    rows: Rows
    sizes: Sizes
    seed: int
    precision: Precision

    @property
    def n_inputs(self) -> int:
        """Columns of the inputs."""
        return int(self.rows.inputs.shape[1])

    @property
    def n_outputs(self) -> int:
        """Scores a row."""
        return int(self.rows.targets.max()) + 1 if self.task == "multiclass" else 1

    @property
    def loss(self) -> Loss:
        """The paper's loss for the task."""
        return make_loss(DEFAULT_LOSS[self.task], EPSILON)

    def kernel(self, setting: Setting) -> Gaussian:
        """The Gaussian kernel of the paper, at its bandwidth of 8 unless the setting has another."""
        return Gaussian(float(setting.get("bandwidth", BANDWIDTH)))


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of the tables.

    make : a learner for a problem and a setting
    stated : one setting for all sets of a task; candidates : what else the paper would choose from, by task
    cost : kernel values or features that a row takes, from the sizes and the rows: only for the order of work
    """

    make: Callable[[Problem, Setting], RowLearner[Any]]
    stated: Mapping[Task, Setting] = field(default_factory=dict)
    candidates: Mapping[Task, tuple[Setting, ...]] = field(default_factory=dict)
    cost: Callable[[Sizes, int], float] = lambda sizes, rows: float(sizes.budget)

    def settings(self, task: Task, searched: bool) -> tuple[Setting, ...]:
        """Settings to choose from: the stated one alone, unless there is none or candidates are asked for."""
        candidates = self.candidates.get(task, ())
        if candidates and (searched or task not in self.stated):
            return candidates
        return (self.stated.get(task, NOTHING),)


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


def _steps(sizes: tuple[float, ...]) -> tuple[Setting, ...]:
    return tuple({"step_size": size} for size in sizes)


TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")

ALGORITHMS: dict[str, Algorithm] = {
    "FOGD": Algorithm(
        make_fogd,
        stated={"binary": {"step_size": 0.002}, "regression": {"step_size": 0.0006}},
        candidates={"binary": _steps(STEPS), "multiclass": _steps(MULTICLASS_FOGD_STEPS), "regression": _steps(STEPS)},
        cost=lambda sizes, rows: 2.0 * sizes.n_frequencies,
    ),
    "NOGD": Algorithm(
        make_nogd,
        stated={"binary": {"step_size": 0.2}, "regression": {"step_size": 0.1}},
        candidates=dict.fromkeys(TASKS, _steps(STEPS)),
        cost=lambda sizes, rows: float(sizes.budget + sizes.rank),
    ),
    LINEAR: Algorithm(make_linear, candidates=dict.fromkeys(TASKS, _steps(LINEAR_STEPS)), cost=lambda sizes, rows: 2.0),
}
