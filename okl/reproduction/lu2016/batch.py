"""Table 3: the batch setting. Settings by cross validation on training rows, one pass, accuracy on the test rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any

from okl.reproduction.cells import DIVERGED, NO_DATA, NO_LEARNER, Cell, Tolerance, relative_to
from okl.reproduction.folder import Selection
from okl.reproduction.lu2016.batchlearning import BATCH, FOLDS, BatchItem
from okl.reproduction.lu2016.cases import PACKAGE, Sizes
from okl.reproduction.lu2016.onlinetable import CODE, REFERENCE
from okl.reproduction.lu2016.problems import Setting
from okl.reproduction.printed import Printed, read_printed, read_records
from okl.reproduction.tables import ORDERS_REMARK, Known, Picture, Request


@dataclass(frozen=True)
class BatchTable:
    """A cell is the mean accuracy on the test rows over orders of the training rows.

    sizes : of each data set; counts : training and test rows of each in the paper
    """

    name: str
    title: str
    printed: tuple[Printed, ...]
    sizes: Mapping[str, Sizes]
    counts: Mapping[str, tuple[int, int]]
    tolerance: Tolerance
    repeats: int = 5
    code: tuple[str, ...] = (*CODE, "predictors", "expansions", "reproduction.lu2016.batchlearning")

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
        """When a cell is a match."""
        return f"better, or worse by at most {self.tolerance.describe()}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """How the numbers came about."""
        return (ORDERS_REMARK,)

    def trials(self, request: Request) -> list[BatchItem]:
        """Every candidate on every fold."""
        return [
            item
            for dataset, algorithm in self._runnable(request)
            for setting in BATCH[algorithm].candidates
            for item in self._folds(request, dataset, algorithm, setting)
        ]

    def items(self, request: Request, known: Known) -> list[BatchItem]:
        """Every order, with the candidate that did best on the folds; one order for what does not depend on it."""
        return [item for pair in self._runnable(request) for item in self._orders(request, known, *pair)]

    def cells(self, request: Request, known: Known) -> list[Cell]:
        """One for each data set and algorithm asked for."""
        cells = [self._cell(request, known, d, a) for d in request.datasets for a in request.algorithms]
        return relative_to(REFERENCE, cells)

    def beside(self, request: Request, known: Known) -> list[dict[str, Any]]:
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

    def curves(self, request: Request, known: Known) -> dict[str, Any]:
        """None: nothing is counted while learning."""
        return {}

    def pictures(self, curves: Mapping[str, Any]) -> list[Picture]:
        """None."""
        return []

    def _cell(self, request: Request, known: Known, dataset: str, algorithm: str) -> Cell:
        paper = {p.metric: p for p in self.printed if (p.dataset, p.algorithm) == (dataset, algorithm)}
        printed = paper["accuracy"]
        cell = Cell(
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

    def _runnable(self, request: Request) -> list[tuple[str, str]]:
        return [(d, a) for d in request.datasets if _has_parts(request, d) for a in request.algorithms if a in BATCH]

    def _folds(self, request: Request, dataset: str, algorithm: str, setting: Setting) -> list[BatchItem]:
        rows = _validation_rows(request, dataset, algorithm)
        return [
            BatchItem(
                _train(dataset), algorithm, tuple(sorted(setting.items())), self.sizes[dataset], order,
                rows - rows // FOLDS, fold, rows, request.precision,
            )
            for fold in range(FOLDS)
            for order in range(BATCH[algorithm].fold_orders)
        ]  # fmt: skip

    def _orders(self, request: Request, known: Known, dataset: str, algorithm: str) -> list[BatchItem]:
        setting, _ = self._chosen(request, known, dataset, algorithm)
        return [
            BatchItem(
                _train(dataset), algorithm, tuple(sorted(setting.items())), self.sizes[dataset], order,
                request.data.count(_train(dataset)), precision=request.precision,
            )
            for order in range(request.repeats if BATCH[algorithm].ordered else 1)
        ]  # fmt: skip

    def _chosen(
        self, request: Request, known: Known, dataset: str, algorithm: str
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


def _has_parts(request: Request, dataset: str) -> bool:
    """Whether a data set is there, with training and test rows."""
    return request.data.has(dataset) and request.data.has_split(dataset)


def _validation_rows(request: Request, dataset: str, algorithm: str) -> int:
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
