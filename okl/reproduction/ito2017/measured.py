"""A table whose lines are measured, and whose figures are set beside printed ones: all but that of accuracies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

from okl.reproduction.cells import NO_DATA, Cell, Tolerance
from okl.reproduction.items import Item, Outcome
from okl.reproduction.ito2017.cases import cases
from okl.reproduction.ito2017.pictures import draw_growth
from okl.reproduction.tables import Known, Picture, Request

CODE = ("compiled", "accelerated", "kernels", "reproduction.folder", "reproduction.ito2017")
NOT_MEASURED = "not measured"
Make = Callable[[Request, int], "Item | str"]


@dataclass(frozen=True)
class Figure:
    """A number of a line.

    metric : its name, also in the outcome; paper, paper_sd, paper_seconds : as printed, None where they are not
    tolerance : None: shown, not judged; digits : judged by the digits printed, so many
    """

    metric: str
    paper: float | None = None
    paper_sd: float | None = None
    paper_seconds: float | None = None
    tolerance: Tolerance | None = None
    digits: int | None = None

    def allowed(self) -> Tolerance | None:
        """How far from the printed number is still a match."""
        if self.digits is None or self.paper is None:
            return self.tolerance
        # numbers are printed as mantissa and exponent: half of the last digit, and a hair for its rounding
        exponent = int(f"{self.paper:e}".split("e")[1])
        return Tolerance(absolute=0.5001 * 10.0 ** (exponent - self.digits + 1))


@dataclass(frozen=True)
class Line:
    """What is measured for an algorithm on a data set.

    make : the work of a repeat, or why there is none; figures : what is reported of it; point : where in a study
    """

    dataset: str
    algorithm: str
    make: Make
    figures: tuple[Figure, ...]
    point: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class MeasuredTable:
    """A cell is the mean of a figure over the repeats.

    curve : metric of the left panel of the pictures of a study, "" for none; more : metrics that stand beside each cell
    """

    name: str
    title: str
    lines: tuple[Line, ...]
    rule: str = ""
    remarks: tuple[str, ...] = ()
    repeats: int = 1
    code: tuple[str, ...] = CODE
    curve: str = ""
    more: tuple[str, ...] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names as printed."""
        return tuple(dict.fromkeys(line.dataset for line in self.lines))

    @property
    def algorithms(self) -> tuple[str, ...]:
        """What is measured on each."""
        return tuple(dict.fromkeys(line.algorithm for line in self.lines))

    def trials(self, request: Request) -> list[Item]:
        """None."""
        return []

    def items(self, request: Request, known: Known) -> list[Item]:
        """Each piece of work once, though several lines may report of it."""
        made = (line.make(request, k) for line in self._lines(request) for k in range(request.repeats))
        return list({item.name: item for item in made if not isinstance(item, str)}.values())

    def cells(self, request: Request, known: Known) -> list[Cell]:
        """One for each figure of the lines asked for."""
        return [self._cell(request, known, line, figure) for line in self._lines(request) for figure in line.figures]

    def beside(self, request: Request, known: Known) -> list[dict[str, Any]]:
        """Rows of each data set."""
        rows = []
        for name in request.datasets:
            case = cases().get(name)
            row: dict[str, Any] = {"dataset": name, "paper_rows": case.paper_rows if case else None}
            if case is None:
                row |= {"read": name}
            elif request.data.has(case.file):
                row |= {"read": name, "rows": case.n_rows(request.data)}
            rows.append(row)
        return rows

    def curves(self, request: Request, known: Known) -> dict[str, Any]:
        """Of a study: for each data set and size the points [size, figure, seconds] of each algorithm."""
        found: dict[str, Any] = {}
        for cell in self.cells(request, known) if self.curve else ():
            if cell.metric == self.curve and cell.mean is not None:
                for size, value in cell.point.items():
                    lines = found.setdefault(f"{cell.dataset}, {size}", {})
                    lines.setdefault(cell.algorithm, []).append([value, cell.mean, cell.seconds])
        return found

    def pictures(self, curves: Mapping[str, Any]) -> list[Picture]:
        """The figure and seconds against the size, both axes logarithmic."""
        return [
            Picture(
                title, partial(draw_growth, lines, title.rpartition(", ")[0], title.rpartition(", ")[2], self.curve)
            )
            for title, lines in curves.items()
        ]

    def _lines(self, request: Request) -> list[Line]:
        return [
            line for line in self.lines if line.dataset in request.datasets and line.algorithm in request.algorithms
        ]

    def _cell(self, request: Request, known: Known, line: Line, figure: Figure) -> Cell:
        cell = Cell(
            line.dataset, line.algorithm, figure.metric, figure.paper, figure.paper_sd, figure.paper_seconds,
            point=dict(line.point),
        )  # fmt: skip
        made = [line.make(request, repeat) for repeat in range(request.repeats)]
        if reasons := [item for item in made if isinstance(item, str)]:
            return replace(cell, status=NO_DATA if "is not in --data" in reasons[0] else NOT_MEASURED, note=reasons[0])
        outcomes = [known[item] for item in made if not isinstance(item, str)]
        values = [outcome.get(figure.metric) for outcome in outcomes]
        if None in values:
            note = next((outcome["note"] for outcome in outcomes if outcome.get("note")), f"no {figure.metric}")
            return replace(cell, status=NOT_MEASURED, note=note)
        judged = figure.allowed()
        more = {name: _mean_of(outcomes, name) for name in self.more if name != figure.metric}
        measured = replace(cell, more=more).measured(
            [float(value) for value in values if value is not None],
            [outcome["seconds"] for outcome in outcomes], judged or Tolerance(),
        )  # fmt: skip
        return measured if judged else replace(measured, verdict=None, tolerance=None)


def _mean_of(outcomes: Sequence[Outcome], name: str) -> float | None:
    values = [outcome[name] for outcome in outcomes if outcome.get(name) is not None]
    return fmean(values) if values else None
