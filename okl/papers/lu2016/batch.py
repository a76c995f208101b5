"""Table 3: the batch setting."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.data.executor import Rows
from okl.foundation.errors import DivergedError
from okl.foundation.types import FloatArray, Precision
from okl.papers.base import (
    DIVERGED,
    NO_DATA,
    NO_LEARNER,
    ORDERS_REMARK,
    DataFolder,
    KnownOutcomes,
    Outcome,
    PaperPicture,
    PrintedCell,
    Selection,
    TableCell,
    TableRequest,
    Tolerance,
    read_printed,
    read_records,
    relative_to,
)
from okl.papers.lu2016.algorithms import PACKAGE, LearnerProblem, Make, Setting, Sizes, budgeted, make_fogd, make_nogd
from okl.papers.lu2016.online import CODE, EXTRA_ORDER, REFERENCE, segments
from okl.solvers.online.nystrom import LowRankLinearSVM
from okl.solvers.online.strategies import BSGDMerging, BSGDRemoval

# Work items.

FOLDS = 5
Scorer = Callable[[FloatArray], FloatArray]
Fit = Callable[[LearnerProblem, Setting, Callable[[], None]], Scorer]


def one_pass(make: Make) -> Fit:
    """Learn the rows once by an online algorithm."""

    def fit(problem: LearnerProblem, setting: Setting, check: Callable[[], None]) -> Scorer:
        learner = make(problem, setting)
        state, rows = learner.start(), problem.rows
        for start, stop in segments(len(rows.targets)):
            check()
            state = learner.learn(state, Rows(rows.inputs[start:stop], rows.targets[start:stop]))
        return learner.predictor(state).scores

    return fit


def fit_libsvm(problem: LearnerProblem, setting: Setting, check: Callable[[], None]) -> Scorer:
    """The exact kernel SVM, by LIBSVM itself as scikit-learn ships it."""
    from sklearn.svm import SVC

    machine = SVC(C=setting["C"], gamma=0.5 / setting["bandwidth"] ** 2, cache_size=500)
    machine.fit(problem.rows.inputs, problem.rows.targets)

    def scores(inputs: FloatArray) -> FloatArray:
        found: FloatArray = machine.decision_function(inputs)
        return found

    return scores


def fit_llsvm(problem: LearnerProblem, setting: Setting, check: Callable[[], None]) -> Scorer:
    """A linear machine in a Nystrom map of as many landmarks as the budget."""
    kernel, sizes = problem.kernel(setting), problem.sizes
    machine = LowRankLinearSVM(kernel, sizes.budget, setting["C"], precision=problem.precision, seed=problem.seed)
    return machine.fit(problem.rows).scores


@dataclass(frozen=True)
class BatchAlgorithm:
    """Algorithm of table 3: its fit, the candidates of cross validation, and the rows used for it.

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

    def run(self, folder: DataFolder, check: Callable[[], None]) -> Outcome:
        """Train and test; "error" is None where the learner diverged."""
        train, test = self._parts(folder)
        problem = LearnerProblem("binary", train, self.sizes, self.order, self.precision)
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

    def _parts(self, folder: DataFolder) -> tuple[Rows, Rows]:
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


# Table 3: the batch setting. Settings by cross validation on training rows, one pass, accuracy on the test rows.


@dataclass(frozen=True)
class BatchTable:
    """A cell is the mean accuracy on the test rows over orders of the training rows.

    sizes : of each data set; counts : training and test rows of each in the paper
    """

    name: str
    title: str
    printed: tuple[PrintedCell, ...]
    sizes: Mapping[str, Sizes]
    counts: Mapping[str, tuple[int, int]]
    tolerance: Tolerance
    repeats: int = 5
    code: tuple[str, ...] = (*CODE, "features.predictors", "papers.lu2016.batch")

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names as printed."""
        return tuple(self.counts)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Names as printed."""
        return tuple(dict.fromkeys(printed.algorithm for printed in self.printed))

    @property
    def rule(self) -> str:
        """Return the criterion of a match."""
        return f"better, or worse by at most {self.tolerance.describe()}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return remarks on how the figures were measured."""
        return (ORDERS_REMARK,)

    def trials(self, request: TableRequest) -> list[BatchItem]:
        """Every candidate on every fold."""
        return [
            item
            for dataset, algorithm in self._runnable(request)
            for setting in BATCH[algorithm].candidates
            for item in self._folds(request, dataset, algorithm, setting)
        ]

    def items(self, request: TableRequest, known: KnownOutcomes) -> list[BatchItem]:
        """Every order, with the candidate that did best on the folds; one order for what does not depend on it."""
        return [item for pair in self._runnable(request) for item in self._orders(request, known, *pair)]

    def cells(self, request: TableRequest, known: KnownOutcomes) -> list[TableCell]:
        """One for each data set and algorithm asked for."""
        cells = [self._cell(request, known, d, a) for d in request.datasets for a in request.algorithms]
        return relative_to(REFERENCE, cells)

    def beside(self, request: TableRequest, known: KnownOutcomes) -> list[dict[str, Any]]:
        """Rows of each data set, and the accuracy of its majority class."""
        rows = []
        for dataset in request.datasets:
            row: dict[str, Any] = {"dataset": dataset, "paper_rows": self.counts[dataset][0]}
            if _has_parts(request, dataset):
                algorithm = next((a for d, a in self._runnable(request) if d == dataset), None)
                outcome = None if algorithm is None else known[self._orders(request, known, dataset, algorithm)[0]]
                row |= {"read": dataset, "rows": request.data.count(_train(dataset)), "orders": "seeded"}
                row |= {"constant": outcome and outcome.get("constant_error"), "linear": None}
            rows.append(row)
        return rows

    def curves(self, request: TableRequest, known: KnownOutcomes) -> dict[str, Any]:
        """None: nothing is counted while learning."""
        return {}

    def pictures(self, curves: Mapping[str, Any]) -> list[PaperPicture]:
        """None."""
        return []

    def _cell(self, request: TableRequest, known: KnownOutcomes, dataset: str, algorithm: str) -> TableCell:
        paper = {p.metric: p for p in self.printed if (p.dataset, p.algorithm) == (dataset, algorithm)}
        printed = paper["accuracy"]
        cell = TableCell(
            dataset, algorithm, "accuracy", printed.mean, printed.sd, paper["train_seconds"].mean,
            more={"paper_test_seconds": paper["test_seconds"].mean},
        )  # fmt: skip
        if not _has_parts(request, dataset):
            note = "has no column split" if request.data.has(dataset) else "is not in --data"
            return replace(cell, status=NO_DATA, note=f"{dataset}.parquet {note}")
        if algorithm not in BATCH:
            return replace(cell, status=NO_LEARNER, note=f"okl has no learner {algorithm}")
        setting, tried = self._chosen(request, known, dataset, algorithm)
        sizes = self.sizes[dataset]
        rows = _validation_rows(request, dataset, algorithm)
        validated = f"mean less standard deviation, {FOLDS}-fold cross validation on {rows:,} rows"
        cell = replace(
            cell,
            setting={
                **setting, "choice": validated,
                "tried": tried, "budget": sizes.budget, "frequencies": sizes.n_frequencies, "rank": sizes.rank,
                "orders": "seeded",
            },
        )  # fmt: skip
        outcomes = [known[item] for item in self._orders(request, known, dataset, algorithm)]
        if failed := [outcome["diverged"] for outcome in outcomes if outcome["error"] is None]:
            return replace(cell, status=DIVERGED, note=f"diverged in {len(failed)} of {len(outcomes)}: {failed[0]}")
        cell = cell.measured([o["error"] for o in outcomes], [o["seconds"] for o in outcomes], self.tolerance)
        tested: dict[str, float | None] = {"test_seconds": fmean(outcome["test_seconds"] for outcome in outcomes)}
        return replace(cell, more=cell.more | tested).beside(outcomes[0]["constant_error"], None)

    def _runnable(self, request: TableRequest) -> list[tuple[str, str]]:
        return [(d, a) for d in request.datasets if _has_parts(request, d) for a in request.algorithms if a in BATCH]

    def _folds(self, request: TableRequest, dataset: str, algorithm: str, setting: Setting) -> list[BatchItem]:
        rows = _validation_rows(request, dataset, algorithm)
        return [
            BatchItem(
                _train(dataset), algorithm, tuple(sorted(setting.items())), self.sizes[dataset], order,
                rows - rows // FOLDS, fold, rows, request.precision,
            )
            for fold in range(FOLDS)
            for order in range(BATCH[algorithm].fold_orders)
        ]  # fmt: skip

    def _orders(self, request: TableRequest, known: KnownOutcomes, dataset: str, algorithm: str) -> list[BatchItem]:
        setting, _ = self._chosen(request, known, dataset, algorithm)
        return [
            BatchItem(
                _train(dataset), algorithm, tuple(sorted(setting.items())), self.sizes[dataset], order,
                request.data.count(_train(dataset)), precision=request.precision,
            )
            for order in range(request.repeats if BATCH[algorithm].ordered else 1)
        ]  # fmt: skip

    def _chosen(
        self, request: TableRequest, known: KnownOutcomes, dataset: str, algorithm: str
    ) -> tuple[Setting, dict[str, float | None]]:
        """The candidate that does best on the folds, and mean accuracies of all; None where one diverged.

        Best is the mean less one standard deviation: the last iterate of removal does well in most orders and collapses
        in some, which a mean of few orders does not show and a user would not forgive.
        """
        means: dict[str, float | None] = {}
        best, highest = BATCH[algorithm].candidates[0], -math.inf
        for setting in BATCH[algorithm].candidates:
            folds = [known[item]["error"] for item in self._folds(request, dataset, algorithm, setting)]
            mean = None if None in folds else fmean(folds)
            means[", ".join(f"{name} {value:g}" for name, value in setting.items())] = mean
            if mean is not None and mean - pstdev(folds) > highest:
                best, highest = setting, mean - pstdev(folds)
        return best, means


def _has_parts(request: TableRequest, dataset: str) -> bool:
    """Return whether a data set has training and test rows."""
    return request.data.has(dataset) and request.data.has_split(dataset)


def _validation_rows(request: TableRequest, dataset: str, algorithm: str) -> int:
    rows = request.data.count(_train(dataset))
    return min(rows, BATCH[algorithm].validation_rows or rows)


def _train(dataset: str) -> Selection:
    return Selection(dataset, "binary", "train")


def _table3() -> BatchTable:
    printed = read_printed(PACKAGE, "table3.csv")
    sizes = {
        record["dataset"]: Sizes(int(record["B"]), int(record["D"]), round(0.2 * int(record["B"])))
        for record in read_records(PACKAGE, "table3.csv")
    }
    counts = {
        record["dataset"]: (int(record["train_instances"]), int(record["test_instances"]))
        for record in read_records(PACKAGE, "datasets.csv")
        if record["task"] == "binary_batch"
    }
    title = "Batch learning of two classes: accuracy on the test rows after one pass"
    return BatchTable("lu2016-table3", title, printed, sizes, counts, Tolerance(absolute=0.003))


TABLE3 = _table3()
