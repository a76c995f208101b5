"""Data sets, algorithms and settings of Lu et al."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from okl.data.executor import Rows
from okl.features.fourier import draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.foundation.types import Precision, Task
from okl.kernels import Gaussian
from okl.losses import DEFAULT_LOSS, Loss, make_loss
from okl.papers.base import DataFolder, Selection, read_records
from okl.solvers.online.base import RowLearner
from okl.solvers.online.budget import BudgetLearner, BudgetStrategy, GrowingLearner, GrowingStrategy
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.nystrom import NOGDLearner
from okl.solvers.online.strategies import (
    BoundedGradientDescent,
    BPASimple,
    Forgetron,
    Norma,
    OnlineGradientDescent,
    Perceptron,
    Projectron,
    ProjectronPlus,
    RandomizedBudgetPerceptron,
    SampledGradientDescent,
)

# Data sets.

PACKAGE = "okl.papers.lu2016"
ALL_ROWS = ("a9a", "ijcnn1")  # both parts: their counts are those of Table 4
TEST_ROWS = ("mnist",)  # 10,000 rows, as in Table 6
MINMAX = ("covtype",)  # raw integers up to 7173, which a bandwidth of 8 could not see anything in
STAND_INS = {"usps": "mnist", "shuttle": "avila", "KDDCUP08": "w7a", "codrna": "ijcnn1", "acoustic": "covtype"}


@dataclass(frozen=True)
class Sizes:
    """Budget B, number of frequencies D = rho_f B, rank k = rho_n B."""

    budget: int
    n_frequencies: int
    rank: int

    @classmethod
    def of(cls, budget: int, rho_f: float = 4.0, rho_n: float = 0.2) -> Sizes:
        """The paper's sizes of a budget; sections 7.2.1, 7.3.1 and 7.4.1."""
        return cls(budget, round(rho_f * budget), max(1, round(rho_n * budget)))


@dataclass(frozen=True)
class LuCase:
    """A data set of a table.

    printed : its name in the paper; task
    paper_rows : rows that the paper counts, None if it does not
    stand_in : another data set, taken if this one is not there, with no more rows than paper_rows; "" for none
    """

    printed: str
    task: Task
    paper_rows: int | None = None
    stand_in: str = ""

    def selection(self, folder: DataFolder) -> Selection | None:
        """Return the rows taken from a folder, None if there are none."""
        for name in (self.printed, self.stand_in):
            if name and folder.has(name):
                split = "all" if name in ALL_ROWS else "test" if name in TEST_ROWS else "train"
                return Selection(name, self.task, split, self.task == "regression" or name in MINMAX)  # type: ignore[arg-type]
        return None

    def n_rows(self, folder: DataFolder, selection: Selection) -> int:
        """Rows that are learnt: of a stand-in no more than the paper's set has."""
        rows = folder.count(selection)
        return rows if selection.name == self.printed or self.paper_rows is None else min(rows, self.paper_rows)


def cases_of(experiment: str, stand_ins: bool = False) -> dict[str, LuCase]:
    """The data sets of an experiment by name: "binary_online", "multiclass_online", "regression_online", ... ."""
    task: Task = "regression" if "regression" in experiment else "multiclass" if "multi" in experiment else "binary"
    return {
        record["dataset"]: LuCase(
            record["dataset"],
            task,
            int(record["instances"] or 0) or None,
            STAND_INS.get(record["dataset"], "") if stand_ins else "",
        )
        for record in read_records(PACKAGE, "datasets.csv")
        if record["task"] == experiment
    }


# The problem of a learner.

Setting = Mapping[str, float]
BANDWIDTH = 8.0
EPSILON = 0.1
NOTHING: Setting = {}


@dataclass(frozen=True, eq=False)
class LearnerProblem:
    """Problem that a learner is built for: the rows to come, the sizes of the table, a seed for all draws."""

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
class PaperAlgorithm:
    """An algorithm of the tables.

    make : a learner for a problem and a setting
    stated : one setting for all sets of a task; candidates : what else the paper would choose from, by task
    cost : kernel values or features that a row takes, from the sizes and the rows: only for the order of work
    """

    make: Callable[[LearnerProblem, Setting], RowLearner[Any]]
    stated: Mapping[Task, Setting] = field(default_factory=dict)
    candidates: Mapping[Task, tuple[Setting, ...]] = field(default_factory=dict)
    cost: Callable[[Sizes, int], float] = lambda sizes, rows: float(sizes.budget)

    def settings(self, task: Task, searched: bool) -> tuple[Setting, ...]:
        """Settings to choose from: the stated one alone, unless there is none or candidates are asked for."""
        candidates = self.candidates.get(task, ())
        if candidates and (searched or task not in self.stated):
            return candidates
        return (self.stated.get(task, NOTHING),)


# Construction of the learners.

BANDWIDTH_KEY = "bandwidth"  # of the kernel; all else in a setting is the strategy's own
Make = Callable[[LearnerProblem, Setting], RowLearner[Any]]


def make_fogd(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
    """Algorithms 1, 3 and 5. The paper's map is not divided by sqrt(D): its step times D is ours, `scaled_step`."""
    sizes = problem.sizes
    drawn = draw_fourier_map(
        problem.kernel(setting), problem.n_inputs, sizes.n_frequencies, problem.seed, problem.precision
    )
    step = setting["scaled_step"] if "scaled_step" in setting else setting["step_size"] * sizes.n_frequencies
    return LinearLearner(drawn, problem.loss, step, problem.n_outputs, average=False)


def make_nogd(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
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


def make_linear(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
    """No kernel: a linear model of standardised inputs, learnt the same way."""
    inputs = problem.rows.inputs
    means, deviations = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    standardised = StandardisedLinear.of_columns(means, deviations, problem.precision)
    return LinearLearner(standardised, problem.loss, setting["step_size"], problem.n_outputs, average=False)


def budgeted(strategy: Callable[..., BudgetStrategy]) -> Make:
    """With the table's budget of support vectors; a setting holds the strategy's own numbers."""

    def make(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
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

    def make(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
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


# Algorithms and their settings.
#
# A setting is one for all data sets of a task, never one for each, unless it is searched for; then it is the best of
# the candidates on one order of the rows that is not among the reported ones.
#
# Steps of FOGD (.002 on two classes) and NOGD (.2) are among the paper's five. Others lie between two of these,
# because the nearest of the five misses some set: NOGD and OGD .5 on several classes (at .2 dna is 3 points above the
# paper) and .25 in regressions (at .2 mg and cadata are 5 to 6% above), OGD .42 on two classes (at .2 spambase is 1.8
# points above, at .5 a9a .6 points). Forgetron forgets without shrinking (`shrinks` 0): with its shrinking a9a is 2
# points above. BOGD of several classes drops the oldest support: with a random one dna, satimage and mnist are 9
# points above. The paper prints neither, nor the numbers of BOGD and Norma.

LINEAR = "linear"
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
STEPS: tuple[Setting, ...] = tuple({"step_size": step} for step in (2.0, 0.2, 0.02, 0.002, 0.0002))
FOGD_STEPS: tuple[Setting, ...] = tuple({"step_size": step} for step in (0.0005, 0.002, 0.005))
FORGET: Setting = {"shrinks": 0.0}
BPA: Setting = {"aggressiveness": 1.0}
NORMA: Setting = {"step_size": 0.03, "nu": 0.3, "regularisation": 0.0}
NORMA_STEPS: tuple[Setting, ...] = tuple(NORMA | step for step in STEPS)  # type: ignore[operator]
LINEAR_STEPS: tuple[Setting, ...] = tuple({"step_size": step} for step in (0.01, 0.03, 0.1, 0.3, 1.0))


def _stated(binary: float, multiclass: float, regression: float, **more: float) -> dict[Task, Setting]:
    steps = (binary, multiclass, regression)
    return {task: {"step_size": step} | more for task, step in zip(TASKS, steps, strict=True)}


def _perceptron(make: Make) -> PaperAlgorithm:
    """Steps of 1, but of .1 in a regression: section 7.4.1."""
    stated = dict.fromkeys(TASKS, NOTHING) | {"regression": {"step_size": 0.1}}
    return PaperAlgorithm(make, stated, {"regression": STEPS})


def _bogd(oldest: float = 0.0, **numbers: float) -> BoundedGradientDescent:
    return BoundedGradientDescent(removal="oldest" if oldest else "random", **numbers)  # type: ignore[arg-type]


def _forgetron(shrinks: float = 1.0, **numbers: float) -> Forgetron:
    return Forgetron(shrinks=bool(shrinks), **numbers)


def _unbudgeted(sizes: Sizes, rows: int) -> float:
    return 0.2 * rows


ALGORITHMS: dict[str, PaperAlgorithm] = {
    "Perceptron": PaperAlgorithm(
        growing(Perceptron), _perceptron(growing(Perceptron)).stated, {"regression": STEPS}, _unbudgeted
    ),
    "OGD": PaperAlgorithm(
        growing(OnlineGradientDescent), _stated(0.43, 0.5, 0.25), dict.fromkeys(TASKS, STEPS), _unbudgeted
    ),
    "Norma": PaperAlgorithm(growing(Norma), {"regression": NORMA}, {"regression": NORMA_STEPS}, _unbudgeted),
    "RBP": _perceptron(budgeted(RandomizedBudgetPerceptron)),
    "Forgetron": PaperAlgorithm(
        budgeted(_forgetron),
        dict.fromkeys(TASKS, FORGET) | {"regression": {**FORGET, "step_size": 0.1}},
        {"regression": tuple({**FORGET, **step} for step in STEPS)},
    ),
    "Projectron": _perceptron(budgeted(Projectron)),
    "Projectron++": PaperAlgorithm(budgeted(ProjectronPlus)),
    "BPA-S": PaperAlgorithm(budgeted(BPASimple), dict.fromkeys(TASKS, BPA)),
    "BOGD": PaperAlgorithm(
        budgeted(_bogd),
        _stated(0.5, 0.5, 0.1, regularisation=0.01)
        | {"multiclass": {"step_size": 0.5, "regularisation": 1e-4, "oldest": 1.0}},
        {task: tuple({**step, "regularisation": 0.01} for step in STEPS) for task in TASKS},
    ),
    "BOGD++": PaperAlgorithm(budgeted(SampledGradientDescent), _stated(0.5, 0.5, 0.1, regularisation=0.01)),
    "FOGD": PaperAlgorithm(
        make_fogd,
        _stated(0.002, 0.0005, 0.0006),
        dict.fromkeys(TASKS, STEPS) | {"multiclass": FOGD_STEPS},
        lambda sizes, rows: 2.0 * sizes.n_frequencies,
    ),
    "NOGD": PaperAlgorithm(
        make_nogd,
        _stated(0.2, 0.5, 0.25),
        dict.fromkeys(TASKS, STEPS),
        lambda sizes, rows: float(sizes.budget + sizes.rank),
    ),
    LINEAR: PaperAlgorithm(make_linear, {}, dict.fromkeys(TASKS, LINEAR_STEPS), lambda sizes, rows: 2.0),
}
