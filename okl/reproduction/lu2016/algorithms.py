"""The algorithms of the tables, each with its one stated setting a task, and candidates where the paper names some.

A setting is one for all data sets of a task, never one for each, unless it is searched for; then it is the best of the
candidates on one order of the rows that is not among the reported ones.

Steps of FOGD (.002 on two classes) and NOGD (.2) are among the paper's five. Others lie between two of these, because
the nearest of the five misses some set: NOGD and OGD .5 on several classes (at .2 dna is 3 points above the paper) and
.25 in regressions (at .2 mg and cadata are 5 to 6% above), OGD .42 on two classes (at .2 spambase is 1.8 points above,
at .5 a9a .6 points). Forgetron forgets without shrinking (`shrinks` 0): with its shrinking a9a is 2 points above. BOGD
of several classes drops the oldest support: with a random one dna, satimage and mnist are 9 points above. The paper
prints neither, nor the numbers of BOGD and Norma.
"""

from __future__ import annotations

from okl.online.budget import (
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
from okl.reproduction.lu2016.cases import Sizes
from okl.reproduction.lu2016.makers import Make, budgeted, growing, make_fogd, make_linear, make_nogd
from okl.reproduction.lu2016.problems import NOTHING, Algorithm, Setting
from okl.types import Task

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


def _perceptron(make: Make) -> Algorithm:
    """Steps of 1, but of .1 in a regression: section 7.4.1."""
    stated = dict.fromkeys(TASKS, NOTHING) | {"regression": {"step_size": 0.1}}
    return Algorithm(make, stated, {"regression": STEPS})


def _bogd(oldest: float = 0.0, **numbers: float) -> BoundedGradientDescent:
    return BoundedGradientDescent(removal="oldest" if oldest else "random", **numbers)  # type: ignore[arg-type]


def _forgetron(shrinks: float = 1.0, **numbers: float) -> Forgetron:
    return Forgetron(shrinks=bool(shrinks), **numbers)


def _unbudgeted(sizes: Sizes, rows: int) -> float:
    return 0.2 * rows


ALGORITHMS: dict[str, Algorithm] = {
    "Perceptron": Algorithm(
        growing(Perceptron), _perceptron(growing(Perceptron)).stated, {"regression": STEPS}, _unbudgeted
    ),
    "OGD": Algorithm(
        growing(OnlineGradientDescent), _stated(0.43, 0.5, 0.25), dict.fromkeys(TASKS, STEPS), _unbudgeted
    ),
    "Norma": Algorithm(growing(Norma), {"regression": NORMA}, {"regression": NORMA_STEPS}, _unbudgeted),
    "RBP": _perceptron(budgeted(RandomizedBudgetPerceptron)),
    "Forgetron": Algorithm(
        budgeted(_forgetron),
        dict.fromkeys(TASKS, FORGET) | {"regression": {**FORGET, "step_size": 0.1}},
        {"regression": tuple({**FORGET, **step} for step in STEPS)},
    ),
    "Projectron": _perceptron(budgeted(Projectron)),
    "Projectron++": Algorithm(budgeted(ProjectronPlus)),
    "BPA-S": Algorithm(budgeted(BPASimple), dict.fromkeys(TASKS, BPA)),
    "BOGD": Algorithm(
        budgeted(_bogd),
        _stated(0.5, 0.5, 0.1, regularisation=0.01)
        | {"multiclass": {"step_size": 0.5, "regularisation": 1e-4, "oldest": 1.0}},
        {task: tuple({**step, "regularisation": 0.01} for step in STEPS) for task in TASKS},
    ),
    "BOGD++": Algorithm(budgeted(SampledGradientDescent), _stated(0.5, 0.5, 0.1, regularisation=0.01)),
    "FOGD": Algorithm(
        make_fogd,
        _stated(0.002, 0.0005, 0.0006),
        dict.fromkeys(TASKS, STEPS) | {"multiclass": FOGD_STEPS},
        lambda sizes, rows: 2.0 * sizes.n_frequencies,
    ),
    "NOGD": Algorithm(
        make_nogd,
        _stated(0.2, 0.5, 0.25),
        dict.fromkeys(TASKS, STEPS),
        lambda sizes, rows: float(sizes.budget + sizes.rank),
    ),
    LINEAR: Algorithm(make_linear, {}, dict.fromkeys(TASKS, LINEAR_STEPS), lambda sizes, rows: 2.0),
}
