"""A table of online learning: every order of every data set is learnt once by every algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

from okl.reproduction.cells import (
    DIVERGED,
    NO_DATA,
    NO_LEARNER,
    Cell,
    Tolerance,
    relative_to,
)
from okl.reproduction.folder import Whose
from okl.reproduction.lu2016.algorithms import ALGORITHMS, LINEAR
from okl.reproduction.lu2016.cases import Case, Sizes
from okl.reproduction.lu2016.learning import EXTRA_ORDER, LearnItem, mean_curve
from okl.reproduction.lu2016.problems import BANDWIDTH
from okl.reproduction.pictures import draw_lines
from okl.reproduction.printed import Printed
from okl.reproduction.tables import ORDERS_REMARK, Known, Picture, Request

CODE = ("compiled", "features", "online", "kernels", "losses", "reproduction.folder", "reproduction.lu2016.algorithms",
        "reproduction.lu2016.cases", "reproduction.lu2016.learning", "reproduction.lu2016.makers",
        "reproduction.lu2016.problems")  # fmt: skip
REFERENCE = "FOGD"
Point = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Line:
    """A line of a table: an algorithm on a data set at some sizes, and where in a study that is."""

    case: Case
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
    lines: tuple[Line, ...]
    printed: tuple[Printed, ...] = ()
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
        """When a cell is a match."""
        return f"better, or worse by at most {self.tolerance.describe()}" if self.printed else ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """How the numbers came about."""
        return (ORDERS_REMARK,)

    def trials(self, request: Request) -> list[LearnItem]:
        """Candidates of what has several, on the extra order."""
        found = []
        for line in self._all_lines(request):
            settings = ALGORITHMS[line.algorithm].settings(line.case.task, request.searched)
            if len(settings) > 1:
                found += [self._item(request, line, setting, EXTRA_ORDER) for setting in settings]
        return found

    def items(self, request: Request, known: Known) -> list[LearnItem]:
        """Every order with the setting that was stated or did best."""
        return [
            self._item(request, line, self._setting(request, known, line)[0], order)
            for line in self._all_lines(request)
            for order in range(request.repeats)
        ]

    def cells(self, request: Request, known: Known) -> list[Cell]:
        """One for each line asked for."""
        cells = [self._cell(request, known, line) for line in self._lines(request)]
        return relative_to(REFERENCE, cells)

    def beside(self, request: Request, known: Known) -> list[dict[str, Any]]:
        """What is known of each data set and of the predictors that use no kernel."""
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

    def curves(self, request: Request, known: Known) -> dict[str, Any]:
        """For each data set and algorithm the mean curve: rows, error, seconds, constant predictor's error."""
        found: dict[str, Any] = {}
        for line in self._all_lines(request):
            outcomes, _ = self._outcomes(request, known, line)
            if outcomes:
                found.setdefault(line.case.printed, {})[line.algorithm] = mean_curve(outcomes)
        return found

    def pictures(self, curves: Mapping[str, Any]) -> list[Picture]:
        """Error and time while learning, a picture a data set: figures 1, 2, 5 and 6."""
        return [
            Picture(f"{dataset}: while learning", partial(draw_lines, lines, dataset, "rows seen", self.metric))
            for dataset, lines in curves.items()
        ]

    def _cell(self, request: Request, known: Known, line: Line) -> Cell:
        case, algorithm = line.case, line.algorithm
        paper, paper_seconds = (self._printed(case.printed, algorithm, name) for name in (self.metric, "time_seconds"))
        cell = Cell(
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

    def _lines(self, request: Request) -> list[Line]:
        return [
            line
            for line in self.lines
            if line.case.printed in request.datasets and line.algorithm in request.algorithms
        ]

    def _cases(self, request: Request) -> list[Case]:
        return list({line.case.printed: line.case for line in self._lines(request)}.values())

    def _all_lines(self, request: Request) -> Iterator[Line]:
        """The lines that can be run, and those of the linear model beside them."""
        for line in (*self._lines(request), *(_linear(case) for case in self._cases(request))):
            if line.algorithm in ALGORITHMS and line.case.selection(request.data) is not None:
                yield line

    def _item(self, request: Request, line: Line, setting: Mapping[str, float], order: int) -> LearnItem:
        selection = line.case.selection(request.data)
        assert selection is not None
        orders: Whose = "seeded" if order == EXTRA_ORDER else whose(request, selection.name)
        return LearnItem(
            line.case.printed, selection, line.algorithm, tuple(sorted(setting.items())), line.sizes, order,
            line.case.n_rows(request.data, selection), orders, request.precision, line.point,
        )  # fmt: skip

    def _setting(self, request: Request, known: Known, line: Line) -> tuple[Mapping[str, float], dict[str, Any]]:
        """The setting of a line, and how it came about: the errors of all candidates if there were several."""
        settings = ALGORITHMS[line.algorithm].settings(line.case.task, request.searched)
        if len(settings) == 1:
            return settings[0], {"choice": "stated"}
        errors = [known[self._item(request, line, setting, EXTRA_ORDER)]["error"] for setting in settings]
        best = min(range(len(settings)), key=lambda k: float("inf") if errors[k] is None else errors[k])
        tried = {_words(setting): error for setting, error in zip(settings, errors, strict=True)}
        return settings[best], {"choice": "least error on an order that is not reported", "tried": tried}

    def _described(self, request: Request, known: Known, line: Line) -> dict[str, Any]:
        setting, how = self._setting(request, known, line)
        selection = line.case.selection(request.data)
        assert selection is not None
        sizes = {"budget": line.sizes.budget, "frequencies": line.sizes.n_frequencies, "rank": line.sizes.rank}
        return {"bandwidth": BANDWIDTH, **setting, **how, **sizes, "orders": whose(request, selection.name)}

    def _outcomes(self, request: Request, known: Known, line: Line) -> tuple[list[dict[str, Any]], list[str]]:
        """Outcomes of all orders, and what those say that diverged."""
        setting, _ = self._setting(request, known, line)
        outcomes = [known[self._item(request, line, setting, order)] for order in range(request.repeats)]
        return [o for o in outcomes if o["error"] is not None], [o["diverged"] for o in outcomes if o["error"] is None]

    def _baselines(self, request: Request, known: Known, case: Case) -> tuple[float | None, float | None]:
        """Mean error of the constant predictor and of the linear model."""
        outcomes, _ = self._outcomes(request, known, _linear(case))
        if not outcomes:
            return None, None
        return fmean(o["constant_error"] for o in outcomes), fmean(o["error"] for o in outcomes)

    def _printed(self, dataset: str, algorithm: str, metric: str) -> Printed | None:
        wanted = (dataset, algorithm, metric)
        return next((p for p in self.printed if (p.dataset, p.algorithm, p.metric) == wanted), None)


def whose(request: Request, name: str) -> Whose:
    """Whose orders of a data set are taken."""
    return "authors" if request.orders == "authors" and request.data.has_orders(name) else "seeded"


def _linear(case: Case) -> Line:
    return Line(case, LINEAR, Sizes(1, 1, 1))


def _words(setting: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())
