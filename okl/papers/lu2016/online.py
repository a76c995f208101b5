"""Tables 5, 7 and 9: online learning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from threading import Lock
from typing import Any

import numpy as np

from okl.data.executor import Rows
from okl.foundation.errors import DivergedError
from okl.foundation.types import Precision
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
    Whose,
    draw_lines,
    read_printed,
    relative_to,
)
from okl.papers.lu2016.algorithms import ALGORITHMS, BANDWIDTH, LINEAR, PACKAGE, LearnerProblem, LuCase, Sizes, cases_of
from okl.solvers.online.base import RowLearner

# Work items.

EXTRA_ORDER = 1000  # seed of the order on which settings are chosen; reported orders count from 0
POINTS = 40
BLOCK_ROWS = 256
WARM_ROWS = 1024
_warm: set[tuple[object, ...]] = set()
_warm_lock = Lock()


@dataclass(frozen=True)
class LearnItem:
    """An algorithm with a setting on the rows of a selection in one order.

    printed : the data set's name in the paper; n_rows : the first ones of the order take part
    setting : (name, value) pairs; point : where in a study
    order : number of the order, and seed of all that the learner draws; whose : orders these are
    """

    printed: str
    selection: Selection
    algorithm: str
    setting: tuple[tuple[str, float], ...]
    sizes: Sizes
    order: int
    n_rows: int
    whose: Whose = "seeded"
    precision: Precision = "float32"
    point: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """Readable and unique."""
        order = "extra" if self.order == EXTRA_ORDER else f"order{self.order}"
        words = [self.printed, self.algorithm, order]
        words += [f"{name}={value:g}" for name, value in (*self.point, *self.setting)]
        return "--".join(words)

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
        return self.n_rows * ALGORITHMS[self.algorithm].cost(self.sizes, self.n_rows)

    def describe(self) -> dict[str, Any]:
        """All fields: each decides something."""
        chosen = self.selection
        return {
            "selection": [chosen.name, chosen.task, chosen.split, chosen.minmax],
            "algorithm": self.algorithm,
            "setting": dict(self.setting),
            "sizes": [self.sizes.budget, self.sizes.n_frequencies, self.sizes.rank],
            "order": [self.order, self.n_rows, self.whose],
            "precision": self.precision,
        }

    def run(self, folder: DataFolder, check: Callable[[], None]) -> Outcome:
        """Learn the rows once; "error" is None where the learner diverged."""
        rows = self.ordered(folder)
        learner = self.learner(rows)
        self._warm_up(learner, rows)
        try:
            return learn_once(learner, rows, check)
        except DivergedError as error:
            return {"error": None, "diverged": str(error)}

    def ordered(self, folder: DataFolder) -> Rows:
        """The rows in their order."""
        stored = folder.rows(self.selection, self.precision)
        order = folder.order(self.dataset, len(stored.targets), self.order, self.whose)[: self.n_rows]
        return Rows(stored.inputs[order], stored.targets[order])

    def learner(self, rows: Rows) -> RowLearner[Any]:
        """Return the learner."""
        problem = LearnerProblem(self.selection.task, rows, self.sizes, self.order, self.precision)
        return ALGORITHMS[self.algorithm].make(problem, dict(self.setting))

    def _warm_up(self, learner: RowLearner[Any], rows: Rows) -> None:
        """Learn some rows for nothing, once a process: machine code is loaded or made outside the measured time."""
        key = (self.algorithm, self.selection.task, self.precision)
        with _warm_lock:  # others wait: they would wait for the same machine code, in their measured time
            if key not in _warm:
                some = Rows(rows.inputs[:WARM_ROWS], rows.targets[:WARM_ROWS])
                with suppress(DivergedError):  # it will say so again
                    learner.learn(learner.start(), some)
                _warm.add(key)


def learn_once(learner: RowLearner[Any], rows: Rows, check: Callable[[], None]) -> Outcome:
    """Learn rows in their order, and note on the way how it goes.

    Returns
    -------
    error and constant_error over all rows; updates; seconds of learning alone; curve: points of [rows, error so far,
    seconds so far, constant predictor's error so far]
    """
    state, seconds, curve = learner.start(), 0.0, []
    for start, stop in segments(len(rows.targets)):
        check()
        part = Rows(rows.inputs[start:stop], rows.targets[start:stop])
        begun = time.perf_counter()
        state = learner.learn(state, part)
        seconds += time.perf_counter() - begun
        progress = state.progress
        if not np.isfinite(progress.error):
            raise DivergedError(f"Rows {start:,} to {stop - 1:,}: the error is no longer finite. Use a smaller step.")
        curve.append([progress.rows, progress.error, seconds, progress.baseline_error])
    return {
        "error": progress.error,
        "constant_error": progress.baseline_error,
        "updates": progress.updates,
        "seconds": seconds,
        "curve": curve,
    }


def segments(n_rows: int) -> list[tuple[int, int]]:
    """About 40 parts of the rows, each but the last a multiple of a block; of few rows, parts of half a block or less.

    >>> segments(30000)[:2], len(segments(30000))
    ([(0, 768), (768, 1536)], 40)
    """
    size = -(-n_rows // POINTS)
    if size > BLOCK_ROWS // 2:
        size = -(-size // BLOCK_ROWS) * BLOCK_ROWS
    return [(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def mean_curve(outcomes: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Point by point the mean of several orders' curves."""
    curves = np.array([outcome["curve"] for outcome in outcomes], dtype=np.float64)
    points: list[list[float]] = curves.mean(axis=0).tolist()
    return points


# A table of online learning: every order of every data set is learnt once by every algorithm.

CODE = (
    "compiled",
    "features",
    "solvers.online",
    "kernels",
    "losses",
    "papers.base",
    "papers.lu2016.algorithms",
    "papers.lu2016.online",
)
REFERENCE = "FOGD"
Point = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class TableLine:
    """A line of a table: an algorithm on a data set at some sizes, and where in a study that is."""

    case: LuCase
    algorithm: str
    sizes: Sizes
    point: Point = ()


@dataclass(frozen=True)
class OnlineTable:
    """A cell is the mean error over the orders.

    lines : in the order of the paper; printed : its numbers, none for a study that has only curves
    """

    name: str
    title: str
    metric: str
    lines: tuple[TableLine, ...]
    printed: tuple[PrintedCell, ...] = ()
    tolerance: Tolerance = field(default_factory=Tolerance)
    repeats: int = 20
    code: tuple[str, ...] = CODE

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names as printed."""
        return tuple(dict.fromkeys(line.case.printed for line in self.lines))

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Names as printed."""
        return tuple(dict.fromkeys(line.algorithm for line in self.lines))

    @property
    def rule(self) -> str:
        """Return the criterion of a match."""
        return f"better, or worse by at most {self.tolerance.describe()}" if self.printed else ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return remarks on how the figures were measured."""
        return (ORDERS_REMARK,)

    def trials(self, request: TableRequest) -> list[LearnItem]:
        """Candidates of what has several, on the extra order."""
        found = []
        for line in self._all_lines(request):
            settings = ALGORITHMS[line.algorithm].settings(line.case.task, request.searched)
            if len(settings) > 1:
                found += [self._item(request, line, setting, EXTRA_ORDER) for setting in settings]
        return found

    def items(self, request: TableRequest, known: KnownOutcomes) -> list[LearnItem]:
        """Every order with the setting that was stated or did best."""
        return [
            self._item(request, line, self._setting(request, known, line)[0], order)
            for line in self._all_lines(request)
            for order in range(request.repeats)
        ]

    def cells(self, request: TableRequest, known: KnownOutcomes) -> list[TableCell]:
        """One for each line asked for."""
        cells = [self._cell(request, known, line) for line in self._lines(request)]
        return relative_to(REFERENCE, cells)

    def beside(self, request: TableRequest, known: KnownOutcomes) -> list[dict[str, Any]]:
        """Return facts about each data set and the predictors without a kernel."""
        rows = []
        for case in self._cases(request):
            selection = case.selection(request.data)
            row: dict[str, Any] = {"dataset": case.printed, "paper_rows": case.paper_rows}
            if selection is not None:
                constant, linear = self._baselines(request, known, case)
                row |= {"read": selection.name, "rows": case.n_rows(request.data, selection)}
                row |= {"orders": whose(request, selection.name), "constant": constant, "linear": linear}
                row |= {"linear_setting": dict(self._setting(request, known, _linear(case))[0])}
            rows.append(row)
        return rows

    def curves(self, request: TableRequest, known: KnownOutcomes) -> dict[str, Any]:
        """For each data set and algorithm the mean curve: rows, error, seconds, constant predictor's error."""
        found: dict[str, Any] = {}
        for line in self._all_lines(request):
            outcomes, _ = self._outcomes(request, known, line)
            if outcomes:
                found.setdefault(line.case.printed, {})[line.algorithm] = mean_curve(outcomes)
        return found

    def pictures(self, curves: Mapping[str, Any]) -> list[PaperPicture]:
        """Error and time while learning, a picture a data set: figures 1, 2, 5 and 6."""
        return [
            PaperPicture(f"{dataset}: while learning", partial(draw_lines, lines, dataset, "rows seen", self.metric))
            for dataset, lines in curves.items()
        ]

    def _cell(self, request: TableRequest, known: KnownOutcomes, line: TableLine) -> TableCell:
        case, algorithm = line.case, line.algorithm
        paper, paper_seconds = (self._printed(case.printed, algorithm, name) for name in (self.metric, "time_seconds"))
        cell = TableCell(
            case.printed,
            algorithm,
            self.metric,
            paper_mean=paper.mean if paper else None,
            paper_sd=paper.sd if paper else None,
            paper_seconds=paper_seconds.mean if paper_seconds else None,
            point=dict(line.point),
        )
        selection = case.selection(request.data)
        if selection is None:
            return replace(cell, status=NO_DATA, note=f"{request.data.file(case.printed).name} is not in --data")
        if algorithm not in ALGORITHMS:
            return replace(cell, status=NO_LEARNER, note=f"okl has no learner {algorithm}")
        cell = replace(cell, setting=self._described(request, known, line))
        outcomes, failed = self._outcomes(request, known, line)
        if failed:
            note = f"diverged in {len(failed)} of {request.repeats} orders: {failed[0]}"
            return replace(cell, status=DIVERGED, note=note)
        constant, linear = self._baselines(request, known, case)
        note = "" if selection.name == case.printed else f"{selection.name} stands in for it"
        measured = cell.measured([o["error"] for o in outcomes], [o["seconds"] for o in outcomes], self.tolerance)
        return replace(measured, note=note).beside(constant, linear)

    def _lines(self, request: TableRequest) -> list[TableLine]:
        return [
            line
            for line in self.lines
            if line.case.printed in request.datasets and line.algorithm in request.algorithms
        ]

    def _cases(self, request: TableRequest) -> list[LuCase]:
        return list({line.case.printed: line.case for line in self._lines(request)}.values())

    def _all_lines(self, request: TableRequest) -> Iterator[TableLine]:
        """The lines that can be run, and those of the linear model beside them."""
        for line in (*self._lines(request), *(_linear(case) for case in self._cases(request))):
            if line.algorithm in ALGORITHMS and line.case.selection(request.data) is not None:
                yield line

    def _item(self, request: TableRequest, line: TableLine, setting: Mapping[str, float], order: int) -> LearnItem:
        selection = line.case.selection(request.data)
        assert selection is not None
        orders: Whose = "seeded" if order == EXTRA_ORDER else whose(request, selection.name)
        return LearnItem(
            line.case.printed, selection, line.algorithm, tuple(sorted(setting.items())), line.sizes, order,
            line.case.n_rows(request.data, selection), orders, request.precision, line.point,
        )  # fmt: skip

    def _setting(
        self, request: TableRequest, known: KnownOutcomes, line: TableLine
    ) -> tuple[Mapping[str, float], dict[str, Any]]:
        """The setting of a line, and how it came about: the errors of all candidates if there were several."""
        settings = ALGORITHMS[line.algorithm].settings(line.case.task, request.searched)
        if len(settings) == 1:
            return settings[0], {"choice": "stated"}
        errors = [known[self._item(request, line, setting, EXTRA_ORDER)]["error"] for setting in settings]
        best = min(range(len(settings)), key=lambda k: float("inf") if errors[k] is None else errors[k])
        tried = {_words(setting): error for setting, error in zip(settings, errors, strict=True)}
        return settings[best], {"choice": "least error on an order that is not reported", "tried": tried}

    def _described(self, request: TableRequest, known: KnownOutcomes, line: TableLine) -> dict[str, Any]:
        setting, how = self._setting(request, known, line)
        selection = line.case.selection(request.data)
        assert selection is not None
        sizes = {"budget": line.sizes.budget, "frequencies": line.sizes.n_frequencies, "rank": line.sizes.rank}
        return {"bandwidth": BANDWIDTH, **setting, **how, **sizes, "orders": whose(request, selection.name)}

    def _outcomes(
        self, request: TableRequest, known: KnownOutcomes, line: TableLine
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Outcomes of all orders, and what those say that diverged."""
        setting, _ = self._setting(request, known, line)
        outcomes = [known[self._item(request, line, setting, order)] for order in range(request.repeats)]
        return [o for o in outcomes if o["error"] is not None], [o["diverged"] for o in outcomes if o["error"] is None]

    def _baselines(
        self, request: TableRequest, known: KnownOutcomes, case: LuCase
    ) -> tuple[float | None, float | None]:
        """Mean error of the constant predictor and of the linear model."""
        outcomes, _ = self._outcomes(request, known, _linear(case))
        if not outcomes:
            return None, None
        return fmean(o["constant_error"] for o in outcomes), fmean(o["error"] for o in outcomes)

    def _printed(self, dataset: str, algorithm: str, metric: str) -> PrintedCell | None:
        wanted = (dataset, algorithm, metric)
        return next((p for p in self.printed if (p.dataset, p.algorithm, p.metric) == wanted), None)


def whose(request: TableRequest, name: str) -> Whose:
    """Whose orders of a data set are taken."""
    return "authors" if request.orders == "authors" and request.data.has_orders(name) else "seeded"


def _linear(case: LuCase) -> TableLine:
    return TableLine(case, LINEAR, Sizes(1, 1, 1))


def _words(setting: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())


# Tables 5, 7 and 9: ten online algorithms on data sets of two classes, of several classes, and of regression.


def printed_table(
    number: int, title: str, metric: str, experiment: str, sizes: Mapping[str, Sizes], tolerance: Tolerance
) -> OnlineTable:
    """A table with a line for each cell that the paper prints; sizes : by data set, "" for all others."""
    printed, cases = read_printed(PACKAGE, f"table{number}.csv"), cases_of(experiment)
    pairs: Sequence[tuple[str, str]] = [(p.dataset, p.algorithm) for p in printed if p.metric == metric]
    lines = [TableLine(cases[d], algorithm, sizes.get(d, sizes[""])) for d, algorithm in pairs]
    lines.sort(key=lambda line: list(cases).index(line.case.printed))
    return OnlineTable(f"lu2016-table{number}", title, metric, tuple(lines), printed, tolerance)


CLASSES = Tolerance(deviations=2.0, absolute=0.005)
TABLE5 = printed_table(
    5, "Online learning of two classes", "mistake_rate", "binary_online", {"": Sizes.of(100)}, CLASSES
)
TABLE7 = printed_table(
    7, "Online learning of several classes", "mistake_rate", "multiclass_online",
    dict.fromkeys(("dna", "mnist", "satimage"), Sizes.of(200)) | {"": Sizes.of(100)}, CLASSES,
)  # fmt: skip
TABLE9 = printed_table(
    9,
    "Online regression",
    "squared_loss",
    "regression_online",
    {"": Sizes.of(30, rho_f=15.0)},
    Tolerance(relative=0.05),
)
