"""Data sets, algorithms and settings of Lu et al."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from okl.compiled.budget import Forgetting, Replacement
from okl.data.executor import Rows
from okl.features.fourier import draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.foundation.types import FloatArray, Precision, Task
from okl.kernels import Gaussian
from okl.losses import DEFAULT_LOSS, Loss, make_loss
from okl.papers.base import Check, DataFolder, RowSelection, frozen, read_records
from okl.solvers.online.base import RowLearner
from okl.solvers.online.budget import BudgetLearner, BudgetStrategy, GrowingLearner, GrowingStrategy
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.nystrom import LowRankLinearSVM, NOGDLearner
from okl.solvers.online.strategies import (
    BoundedGradientDescent,
    BPASimple,
    BSGDMerging,
    BSGDRemoval,
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
FROZEN: Mapping[str, Any] = frozen()["lu2016"]
STAND_INS = {"usps": "mnist", "shuttle": "avila", "KDDCUP08": "w7a", "codrna": "ijcnn1", "acoustic": "covtype"}


@dataclass(frozen=True)
class Sizes:
    """Budget B, number of frequencies D = rho_f B, rank k = rho_n B."""

    budget: int
    n_frequencies: int
    rank: int

    @classmethod
    def of(cls, budget: int, rho_f: float = 4.0, rho_n: float = 0.2) -> Sizes:
        """Return the paper's sizes of a budget; sections 7.2.1, 7.3.1 and 7.4.1."""
        return cls(budget, round(rho_f * budget), max(1, round(rho_n * budget)))


@dataclass(frozen=True)
class LuDataset:
    """A data set of the paper.

    printed : its name in the paper; paper_rows : rows that the paper counts, None if it does not
    stand_in : data set used if this one is missing, with at most paper_rows rows; "" for none
    """

    printed: str
    task: Task
    paper_rows: int | None = None
    stand_in: str = ""

    def selection(self, folder: DataFolder) -> RowSelection | None:
        """Return the rows taken from a folder, None if the data set is missing."""
        for name in (self.printed, self.stand_in):
            if name and folder.has(name):
                split = "all" if name in FROZEN["all_rows"] else "test" if name in FROZEN["test_rows"] else "train"
                minmax = self.task == "regression" or name in FROZEN["minmax"]
                return RowSelection(name, self.task, split, minmax)  # type: ignore[arg-type]
        return None

    def n_rows(self, folder: DataFolder, selection: RowSelection) -> int:
        """Return the number of training rows: of a stand-in at most as many as the paper's data set has."""
        rows = folder.count(selection)
        return rows if selection.name == self.printed or self.paper_rows is None else min(rows, self.paper_rows)


def datasets_of(experiment: str, stand_ins: bool = False) -> dict[str, LuDataset]:
    """Return the data sets of an experiment by name: "binary_online", "multiclass_online", "regression_online"."""
    task: Task = "regression" if "regression" in experiment else "multiclass" if "multi" in experiment else "binary"
    names = STAND_INS if stand_ins else {}
    return {
        r["dataset"]: LuDataset(r["dataset"], task, int(r["instances"] or 0) or None, names.get(r["dataset"], ""))
        for r in read_records(PACKAGE, "datasets.csv")
        if r["task"] == experiment
    }


# Learners.

Setting = Mapping[str, float]
BANDWIDTH = 8.0
EPSILON = 0.1
EMPTY: Setting = {}


@dataclass(frozen=True, eq=False)
class LearnerProblem:
    """Input of a learner's construction: its training rows, the sizes of the table, the seed of all draws."""

    task: Task
    rows: Rows
    sizes: Sizes
    seed: int
    precision: Precision

    @property
    def n_inputs(self) -> int:
        return int(self.rows.inputs.shape[1])

    @property
    def n_outputs(self) -> int:
        return int(self.rows.targets.max()) + 1 if self.task == "multiclass" else 1

    @property
    def loss(self) -> Loss:
        return make_loss(DEFAULT_LOSS[self.task], EPSILON)

    def kernel(self, setting: Setting) -> Gaussian:
        return Gaussian(float(setting.get("bandwidth", BANDWIDTH)))


Make = Callable[[LearnerProblem, Setting], RowLearner[Any]]


def make_fogd(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
    """Build FOGD, Algorithms 1, 3 and 5.

    The paper's map is not divided by sqrt(D): its step size times D is ours, `scaled_step`.
    """
    n_frequencies = problem.sizes.n_frequencies
    drawn = draw_fourier_map(problem.kernel(setting), problem.n_inputs, n_frequencies, problem.seed, problem.precision)
    step = setting["scaled_step"] if "scaled_step" in setting else setting["step_size"] * n_frequencies
    return LinearLearner(drawn, problem.loss, step, problem.n_outputs, average=False)


def make_nogd(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
    """Build NOGD, Algorithms 2, 4 and 6."""
    return NOGDLearner(
        problem.kernel(setting), problem.n_inputs, problem.loss, setting["step_size"], problem.sizes.budget,
        problem.sizes.rank, problem.n_outputs, average=False, precision=problem.precision,
    )  # fmt: skip


def make_linear(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
    """Build a linear model of standardised inputs, trained in the same way."""
    inputs = problem.rows.inputs
    means, deviations = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    standardised = StandardisedLinear.of_columns(means, deviations, problem.precision)
    return LinearLearner(standardised, problem.loss, setting["step_size"], problem.n_outputs, average=False)


def budgeted(strategy: Callable[..., BudgetStrategy]) -> Make:
    """Return the construction of a learner with the table's budget; a setting holds the strategy's parameters."""

    def make(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
        return BudgetLearner(
            problem.kernel(setting), strategy(**_without_bandwidth(setting)), problem.task, problem.n_inputs,
            problem.sizes.budget, problem.n_outputs, EPSILON, problem.precision, problem.seed,
        )  # fmt: skip

    return make


def growing(strategy: Callable[..., GrowingStrategy]) -> Make:
    """Return the construction of a learner without a budget; a setting holds the strategy's parameters."""

    def make(problem: LearnerProblem, setting: Setting) -> RowLearner[Any]:
        return GrowingLearner(
            problem.kernel(setting), strategy(**_without_bandwidth(setting)), problem.task, problem.n_inputs,
            problem.n_outputs, EPSILON, problem.precision,
        )  # fmt: skip

    return make


def _without_bandwidth(setting: Setting) -> dict[str, Any]:
    return {name: value for name, value in setting.items() if name != "bandwidth"}


# Algorithms of online learning and their settings.
#
# A setting is one for all data sets of a task, never one for each, unless it is searched for; then it is the best of
# the candidates on one order of the rows that is not reported.

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


@dataclass(frozen=True)
class PaperAlgorithm:
    """An algorithm of tables 5, 7 and 9.

    make : builds the learner of a setting; candidates : settings to choose from, by task
    cost : kernel values or features for each row, from the sizes and the number of rows; only for scheduling
    """

    make: Make
    candidates: Mapping[Task, tuple[Setting, ...]] = field(default_factory=dict)
    cost: Callable[[Sizes, int], float] = lambda sizes, rows: float(sizes.budget)


def settings_of(name: str, task: Task, searched: bool) -> tuple[Setting, ...]:
    """Return the settings of an algorithm to choose from: the frozen ones, unless there are none or `searched`."""
    candidates = ALGORITHMS[name].candidates.get(task, ())
    if candidates and (searched or name not in FROZEN["settings"]):
        return candidates
    stated = FROZEN["settings"].get(name, {}).get(task, EMPTY)
    return grid(**{key: tuple(value) if isinstance(value, list) else (value,) for key, value in stated.items()})


def is_blind(name: str, dataset: str) -> bool:
    """Return whether no reading of an algorithm was chosen on the printed numbers of a data set."""
    return dataset not in FROZEN["settings"].get(name, {}).get("chosen_on", ())


def grid(**values: tuple[float, ...]) -> tuple[Setting, ...]:
    """Return all combinations of values, by name.

    >>> grid(C=(1.0, 10.0), bandwidth=(4.0,))
    ({'C': 1.0, 'bandwidth': 4.0}, {'C': 10.0, 'bandwidth': 4.0})
    """
    settings: list[dict[str, float]] = [{}]
    for name, choices in values.items():
        settings = [{**setting, name: choice} for setting in settings for choice in choices]
    return tuple(settings)


@dataclass(frozen=True)
class _LuForgetron(Forgetron):
    """The Forgetron of the paper's runs: where the smaller root is due, phi is the larger one, so that f grows.

    The sign slip is in the first author's published code, and the printed mistakes follow from it.
    """

    @property
    def numbers(self) -> Forgetting:
        """Return the numbers of the compiled step."""
        return Forgetting(self.step_size, 2.0)


@dataclass(frozen=True)
class _LuBOGD(BoundedGradientDescent):
    """BOGD of the paper's runs: with a full budget, all coefficients shrink together until none is beyond the bound.

    The published BOGD projects each coefficient by itself.
    """

    @property
    def numbers(self) -> Replacement:
        """Return the numbers of the compiled step."""
        return super().numbers._replace(scales=1.0)


def _bogd(
    step_size: float, regularisation: float, oldest: float = 0.0, global_scale: float = 0.0
) -> BoundedGradientDescent:
    if global_scale:
        return _LuBOGD(step_size, regularisation, rescale=True, largest=global_scale)
    return BoundedGradientDescent(step_size, regularisation, removal="oldest" if oldest else "random")


def _cost_without_budget(sizes: Sizes, rows: int) -> float:
    return 0.2 * rows


LINEAR = "linear"
_STEP_SIZES = (2.0, 0.2, 0.02, 0.002, 0.0002)
_STEPS = grid(step_size=_STEP_SIZES)
_REGRESSION: Mapping[Task, tuple[Setting, ...]] = {"regression": _STEPS}
_ALL = dict.fromkeys(TASKS, _STEPS)

ALGORITHMS: dict[str, PaperAlgorithm] = {
    "Perceptron": PaperAlgorithm(growing(Perceptron), _REGRESSION, _cost_without_budget),
    "OGD": PaperAlgorithm(growing(OnlineGradientDescent), _ALL, _cost_without_budget),
    "Norma": PaperAlgorithm(
        growing(Norma), {"regression": grid(step_size=_STEP_SIZES, nu=(0.4,), regularisation=(0.03,))},
        _cost_without_budget,
    ),
    "RBP": PaperAlgorithm(budgeted(RandomizedBudgetPerceptron), _REGRESSION),
    "Forgetron": PaperAlgorithm(budgeted(_LuForgetron), _REGRESSION),
    "Projectron": PaperAlgorithm(budgeted(Projectron), _REGRESSION),
    "Projectron++": PaperAlgorithm(budgeted(ProjectronPlus)),
    "BPA-S": PaperAlgorithm(budgeted(BPASimple)),
    "BOGD": PaperAlgorithm(budgeted(_bogd), dict.fromkeys(TASKS, grid(step_size=_STEP_SIZES, regularisation=(0.01,)))),
    "BOGD++": PaperAlgorithm(budgeted(SampledGradientDescent)),
    "FOGD": PaperAlgorithm(
        make_fogd,
        _ALL | {"multiclass": grid(step_size=(0.0005, 0.002, 0.005))},
        lambda sizes, rows: 2.0 * sizes.n_frequencies,
    ),
    "NOGD": PaperAlgorithm(make_nogd, _ALL, lambda sizes, rows: float(sizes.budget + sizes.rank)),
    LINEAR: PaperAlgorithm(
        make_linear, dict.fromkeys(TASKS, grid(step_size=(0.01, 0.03, 0.1, 0.3, 1.0))), lambda sizes, rows: 2.0
    ),
}  # fmt: skip


# Algorithms of batch learning, table 3, and their candidates.

POINTS = 40
BLOCK_ROWS = 256
Scorer = Callable[[FloatArray], FloatArray]
Fit = Callable[[LearnerProblem, Setting, Check], Scorer]


def segments(n_rows: int) -> list[tuple[int, int]]:
    """Cut rows into about 40 parts, each but the last a multiple of a block; few rows, in at most half-block parts.

    >>> segments(30000)[:2], len(segments(30000))
    ([(0, 768), (768, 1536)], 40)
    """
    size = -(-n_rows // POINTS)
    if size > BLOCK_ROWS // 2:
        size = -(-size // BLOCK_ROWS) * BLOCK_ROWS
    return [(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def one_pass(make: Make) -> Fit:
    """Return the fit of an online algorithm by one pass over the rows."""

    def fit(problem: LearnerProblem, setting: Setting, check: Check) -> Scorer:
        learner = make(problem, setting)
        state, rows = learner.start(), problem.rows
        for start, stop in segments(len(rows.targets)):
            check()
            state = learner.learn(state, Rows(rows.inputs[start:stop], rows.targets[start:stop]))
        return learner.predictor(state).scores

    return fit


def fit_libsvm(problem: LearnerProblem, setting: Setting, check: Check) -> Scorer:
    """Fit the exact kernel SVM by scikit-learn's LIBSVM."""
    from sklearn.svm import SVC

    machine = SVC(C=setting["C"], gamma=0.5 / setting["bandwidth"] ** 2, cache_size=500)
    machine.fit(problem.rows.inputs, problem.rows.targets)
    scores: Scorer = machine.decision_function
    return scores


def fit_llsvm(problem: LearnerProblem, setting: Setting, check: Check) -> Scorer:
    """Fit a linear SVM in a Nystrom map with as many landmarks as the budget."""
    kernel, sizes = problem.kernel(setting), problem.sizes
    machine = LowRankLinearSVM(kernel, sizes.budget, setting["C"], precision=problem.precision, seed=problem.seed)
    return machine.fit(problem.rows).scores


@dataclass(frozen=True)
class BatchAlgorithm:
    """An algorithm of table 3.

    candidates : settings of the cross validation
    validation_rows : size of the seeded sample of training rows for it, None for all
    ordered : whether the order of rows matters
    fold_orders : orders in which each fold is trained; the last iterate of removal varies too much for a single one
    """

    fit: Fit
    candidates: tuple[Setting, ...]
    validation_rows: int | None = None
    ordered: bool = True
    fold_orders: int = 1
    cost: float = 1.0


SAMPLE = 10_000  # a fit of all rows takes the exact machines as long as everything else together
_BANDWIDTHS = (2.0, 4.0, 8.0)
_EXACT = grid(C=(0.1, 1.0, 10.0, 100.0), bandwidth=_BANDWIDTHS)
_BSGD = grid(regularisation=(1e-3, 1e-4, 1e-5, 1e-6), bandwidth=_BANDWIDTHS)
_BATCH_STEPS = (0.03, 0.1, 0.3, 1.0)
BATCH: dict[str, BatchAlgorithm] = {
    "LIBSVM": BatchAlgorithm(fit_libsvm, _EXACT, SAMPLE, ordered=False, cost=20.0),
    "LLSVM": BatchAlgorithm(fit_llsvm, _EXACT, SAMPLE, ordered=False, cost=10.0),
    "BSGD-M": BatchAlgorithm(one_pass(budgeted(BSGDMerging)), _BSGD, fold_orders=4, cost=8.0),
    "BSGD-R": BatchAlgorithm(one_pass(budgeted(BSGDRemoval)), _BSGD, fold_orders=32),
    "FOGD": BatchAlgorithm(one_pass(make_fogd), grid(scaled_step=_BATCH_STEPS, bandwidth=_BANDWIDTHS), cost=4.0),
    "NOGD": BatchAlgorithm(one_pass(make_nogd), grid(step_size=_BATCH_STEPS, bandwidth=_BANDWIDTHS), cost=2.0),
}
