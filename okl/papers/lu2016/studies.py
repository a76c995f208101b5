"""Figures 3 and 4: what the sizes of the map, the rank and the budget do to errors and times.

The text of the paper has no numbers of these figures; what it says of them is that a larger size gives fewer mistakes
at a higher cost, and that rho_f of 4 to 6 and rho_n of 0.2 to 0.4 are a good bargain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from okl.papers.base import KnownOutcomes, PaperPicture, TableRequest, draw_lines
from okl.papers.lu2016.algorithms import LuCase, Sizes, cases_of
from okl.papers.lu2016.online import TABLE5, OnlineTable, TableLine

RHO_F = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
RHO_N = (0.05, 0.1, 0.2, 0.3, 0.4)
BUDGETS = {"KDDCUP08": (100, 200, 300, 400, 500), "codrna": (100, 200, 300, 400, 500), "usps": (50, 100, 150, 200),
           "acoustic": (100, 200, 300, 400, 500)}  # fmt: skip
UNBUDGETED = ("Perceptron", "OGD")


@dataclass(frozen=True)
class Study(OnlineTable):
    """The same learners at several sizes; the mean error and the seconds of each are points of a curve.

    by_dataset : whether a picture has a line for each algorithm on one data set, or one for each data set
    """

    repeats: int = 5
    by_dataset: bool = True

    def curves(self, request: TableRequest, known: KnownOutcomes) -> dict[str, Any]:
        """For each picture and line of it the points [size, error, seconds]."""
        found: dict[str, Any] = {}
        read = {case.printed: case.selection(request.data) for case in self._cases(request)}
        shown = {
            name: name if selection is None or selection.name == name else f"{selection.name} for {name}"
            for name, selection in read.items()
        }
        for cell in self.cells(request, known):
            if cell.mean is not None and cell.seconds is not None:
                for size, value in cell.point.items():
                    picture, line = shown[cell.dataset], cell.algorithm
                    if not self.by_dataset:
                        picture, line = cell.algorithm, shown[cell.dataset]
                    lines = found.setdefault(f"{picture}, {size}", {})
                    lines.setdefault(line, []).append([value, cell.mean, cell.seconds])
        return found

    def pictures(self, curves: Mapping[str, Any]) -> list[PaperPicture]:
        """Error and seconds against the size."""
        return [
            PaperPicture(title, partial(draw_lines, lines, title.split(", ")[0], title.split(", ")[1], self.metric))
            for title, lines in curves.items()
        ]


def _figure3() -> Study:
    cases = cases_of("multiclass_online", stand_ins=True)
    lines = []
    for name in ("dna", "satimage", "usps", "letter", "shuttle"):
        lines += [TableLine(cases[name], "FOGD", Sizes.of(200, rho_f=rho), (("rho_f", rho),)) for rho in RHO_F]
        lines += [TableLine(cases[name], "NOGD", Sizes.of(200, rho_n=rho), (("rho_n", rho),)) for rho in RHO_N]
    title = "The effect of rho_f on FOGD and of rho_n on NOGD, several classes, budget 200"
    return Study("lu2016-figure3", title, "mistake_rate", tuple(lines), by_dataset=False)


def _figure4() -> Study:
    cases: dict[str, LuCase] = cases_of("binary_online", stand_ins=True) | cases_of("multiclass_online", stand_ins=True)
    algorithms = [name for name in TABLE5.algorithms if name not in UNBUDGETED]
    algorithms.insert(algorithms.index("BOGD") + 1, "BOGD++")
    lines = [
        TableLine(cases[name], algorithm, Sizes.of(budget), (("budget", float(budget)),))
        for name, budgets in BUDGETS.items()
        for algorithm in algorithms
        for budget in budgets
    ]
    return Study("lu2016-figure4", "The effect of the budget", "mistake_rate", tuple(lines))


FIGURE3 = _figure3()
FIGURE4 = _figure4()
