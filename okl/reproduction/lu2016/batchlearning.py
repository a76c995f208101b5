"""One item of table 3: an algorithm learns training rows in one order, and scores rows that it has not seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.errors import DivergedError
from okl.execution.protocol import Rows
from okl.online.budget import BSGDMerging, BSGDRemoval
from okl.online.llsvm import LowRankLinearSVM
from okl.reproduction.folder import Folder, Selection
from okl.reproduction.items import Outcome
from okl.reproduction.lu2016.cases import Sizes
from okl.reproduction.lu2016.learning import EXTRA_ORDER, segments
from okl.reproduction.lu2016.makers import Make, budgeted, make_fogd, make_nogd
from okl.reproduction.lu2016.problems import Problem, Setting
from okl.types import FloatArray, Precision

FOLDS = 5
Scorer = Callable[[FloatArray], FloatArray]
Fit = Callable[[Problem, Setting, Callable[[], None]], Scorer]


def one_pass(make: Make) -> Fit:
    """Learn the rows once by an online algorithm."""

    def fit(problem: Problem, setting: Setting, check: Callable[[], None]) -> Scorer:
        learner = make(problem, setting)
        state, rows = learner.start(), problem.rows
        for start, stop in segments(len(rows.targets)):
            check()
            state = learner.learn(state, Rows(rows.inputs[start:stop], rows.targets[start:stop]))
        return learner.predictor(state).scores

    return fit


def fit_libsvm(problem: Problem, setting: Setting, check: Callable[[], None]) -> Scorer:
    """The exact kernel SVM, by LIBSVM itself as scikit-learn ships it."""
    from sklearn.svm import SVC

    machine = SVC(C=setting["C"], gamma=0.5 / setting["bandwidth"] ** 2, cache_size=500)
    machine.fit(problem.rows.inputs, problem.rows.targets)

    def scores(inputs: FloatArray) -> FloatArray:
        found: FloatArray = machine.decision_function(inputs)
        return found

    return scores


def fit_llsvm(problem: Problem, setting: Setting, check: Callable[[], None]) -> Scorer:
    """A linear machine in a Nystrom map of as many landmarks as the budget."""
    kernel, sizes = problem.kernel(setting), problem.sizes
    machine = LowRankLinearSVM(kernel, sizes.budget, setting["C"], precision=problem.precision, seed=problem.seed)
    return machine.fit(problem.rows).scores


@dataclass(frozen=True)
class BatchAlgorithm:
    """How an algorithm of table 3 is fitted, what cross validation chooses from, and on how many rows.

    validation_rows : a seeded sample of the training rows, None for all; ordered : whether the order of rows matters
    fold_orders : orders in which cross validation learns each fold: removal lets the last iterate swing so much with
        the last rows that one order says little of what to expect
    """

    fit: Fit
    candidates: tuple[Setting, ...]
    validation_rows: int | None = None
    ordered: bool = True
    fold_orders: int = 1
    cost: float = 1.0


def grid(**values: tuple[float, ...]) -> tuple[Setting, ...]:
    """All combinations of values, by name.

    >>> grid(C=(1.0, 10.0), bandwidth=(4.0,))
    ({'C': 1.0, 'bandwidth': 4.0}, {'C': 10.0, 'bandwidth': 4.0})
    """
    found: list[dict[str, float]] = [{}]
    for name, choices in values.items():
        found = [{**setting, name: choice} for setting in found for choice in choices]
    return tuple(found)


BANDWIDTHS = (2.0, 4.0, 8.0)
STEPS = (0.03, 0.1, 0.3, 1.0)
PENALTIES = (0.1, 1.0, 10.0, 100.0)
PEGASOS = grid(regularisation=(1e-3, 1e-4, 1e-5, 1e-6), bandwidth=BANDWIDTHS)
SAMPLE = 10_000  # a fit of all rows takes the exact machines as long as everything else together
BATCH: dict[str, BatchAlgorithm] = {
    "LIBSVM": BatchAlgorithm(fit_libsvm, grid(C=PENALTIES, bandwidth=BANDWIDTHS), SAMPLE, ordered=False, cost=20.0),
    "LLSVM": BatchAlgorithm(fit_llsvm, grid(C=PENALTIES, bandwidth=BANDWIDTHS), SAMPLE, ordered=False, cost=10.0),
    "BSGD-M": BatchAlgorithm(one_pass(budgeted(BSGDMerging)), PEGASOS, fold_orders=4, cost=8.0),
    "BSGD-R": BatchAlgorithm(one_pass(budgeted(BSGDRemoval)), PEGASOS, fold_orders=32),
    "FOGD": BatchAlgorithm(one_pass(make_fogd), grid(scaled_step=STEPS, bandwidth=BANDWIDTHS), cost=4.0),
    "NOGD": BatchAlgorithm(one_pass(make_nogd), grid(step_size=STEPS, bandwidth=BANDWIDTHS), cost=2.0),
}


@dataclass(frozen=True)
class BatchItem:
    """An algorithm with a setting, trained on the training rows and tested on the others.

    order : of the rows that are learnt; fold : None to test on the test rows, else the part of a seeded sample of the
        training rows, of most_rows rows, to test on, while the other four are learnt
    """

    selection: Selection
    algorithm: str
    setting: tuple[tuple[str, float], ...]
    sizes: Sizes
    order: int
    n_rows: int
    fold: int | None = None
    most_rows: int | None = None
    precision: Precision = "float32"

    @property
    def name(self) -> str:
        """Readable and unique."""
        part = f"order{self.order}" if self.fold is None else f"fold{self.fold}-order{self.order}"
        return "--".join([self.dataset, self.algorithm, part, *(f"{name}={value:g}" for name, value in self.setting)])

    @property
    def dataset(self) -> str:
        """The file it reads."""
        return self.selection.name

    @property
    def rows(self) -> int:
        """Rows that it learns."""
        return self.n_rows

    @property
    def cost(self) -> float:
        """Rows times what one takes."""
        return self.n_rows * self.sizes.budget * BATCH[self.algorithm].cost

    def describe(self) -> dict[str, Any]:
        """All fields: each decides something."""
        return {
            "algorithm": self.algorithm,
            "setting": dict(self.setting),
            "sizes": [self.sizes.budget, self.sizes.n_frequencies, self.sizes.rank],
            "rows": [self.order, self.n_rows, self.fold, self.most_rows],
            "precision": self.precision,
        }

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Train and test; "error" is None where the learner diverged."""
        train, test = self._parts(folder)
        problem = Problem("binary", train, self.sizes, self.order, self.precision)
        try:
            begun = time.perf_counter()
            scorer = BATCH[self.algorithm].fit(problem, dict(self.setting), check)
            learnt = time.perf_counter()
            scores = scorer(test.inputs)
            scored = time.perf_counter()
        except DivergedError as error:
            return {"error": None, "diverged": str(error)}
        majority = 1.0 if (train.targets > 0).mean() >= 0.5 else -1.0
        return {
            "error": accuracy(scores, test.targets),
            "constant_error": float((test.targets == majority).mean()),
            "seconds": learnt - begun,
            "test_seconds": scored - learnt,
        }

    def _parts(self, folder: Folder) -> tuple[Rows, Rows]:
        """Rows to learn, in their order, and rows to test on."""
        stored = folder.rows(self.selection, self.precision)
        if self.fold is not None:
            sample = np.random.default_rng(EXTRA_ORDER).permutation(len(stored.targets))[: self.most_rows]
            parts = np.array_split(sample, FOLDS)
            learnt = np.concatenate([part for k, part in enumerate(parts) if k != self.fold])
            learnt = np.random.default_rng((EXTRA_ORDER, self.order)).permutation(learnt)
            return _taken(stored, learnt), _taken(stored, parts[self.fold])
        order = np.random.default_rng(self.order).permutation(len(stored.targets))
        tested = folder.rows(Selection(self.dataset, "binary", "test"), self.precision)
        return _taken(stored, order), tested


def accuracy(scores: FloatArray, targets: NDArray[np.float64]) -> float:
    """Share of rows whose class is right; a score of 0 is the class +1."""
    return float(((scores >= 0) == (targets > 0)).mean())


def _taken(rows: Rows, positions: NDArray[np.int64]) -> Rows:
    return Rows(rows.inputs[positions], rows.targets[positions])
