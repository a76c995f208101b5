"""Throughput on one core against frequencies, inputs, classes and budget, as a picture of four panels.

Rows are made to size and can be learnt, so that learners update as rarely as on real rows; rows are timed once others
have filled the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.ticker import EngFormatter, NullFormatter

from okl.data.execution import Rows
from okl.features.fourier import draw_fourier_map
from okl.kernels import Gaussian
from okl.losses import DEFAULT_LOSS, make_loss
from okl.report.figures import LIGHT, add_axes, empty_figure, svg
from okl.solvers.online.budget import BudgetLearner, BudgetStrategy
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.nystrom import NOGDLearner
from okl.solvers.online.strategies import STRATEGIES
from tests.benchmarks.online_data import learnable_rows
from tests.benchmarks.online_lines import Contestant, Line, time_in_turns

ROWS_BEFORE, N_ROWS, REPEATS = 8192, 16384, 3
COLOURS = {
    "fogd": "#1f6fb2",
    "nogd": "#b4572a",
    "rbp": "#2b8a57",
    "bogd": "#7a4fa3",
    "bpa-s": "#c29a1e",
    "projectron": "#c2417c",
    "bsgd-merging": "#3d4a5c",
}
LEARNERS = tuple(COLOURS)


class Size(NamedTuple):
    """D frequencies, d inputs, classes, budget: one of them varies in a panel."""

    n_frequencies: int = 400
    n_inputs: int = 54
    n_classes: int = 2
    budget: int = 100


class Panel(NamedTuple):
    """A panel and its axis, which is a field of Size."""

    title: str
    field: str
    values: tuple[int, ...]
    learners: tuple[str, ...]


PANELS = (
    Panel("frequencies D", "n_frequencies", (25, 50, 100, 200, 400, 800, 1600, 3200), ("fogd",)),
    Panel("inputs d", "n_inputs", (8, 16, 32, 64, 128, 256, 512), LEARNERS),
    Panel("classes", "n_classes", (2, 4, 8, 16, 32), LEARNERS),
    Panel("budget B", "budget", (25, 50, 100, 200, 400, 800), LEARNERS[1:]),
)


def measure_throughput(patience: float) -> list[Line]:
    """Return one line per point, in thousands of rows per second, without required values."""
    points = [(panel, value) for panel in PANELS for value in panel.values]
    groups = [
        [Contestant(name, _learning(name, Size()._replace(**{panel.field: value})), N_ROWS) for name in panel.learners]
        for panel, value in points
    ]
    return [
        Line("throughput", name, _setting(panel, value), timing.ns, 0.0, "ns a row", 1e6 / timing.ns, "")
        for (panel, value), timings in zip(points, time_in_turns(groups, REPEATS, patience), strict=True)
        for name, timing in timings.items()
    ]


def _setting(panel: Panel, value: int) -> str:
    return f"{panel.field} = {value}"


def _learning(name: str, size: Size) -> Callable[[], object]:
    """Return a call that trains on further rows of this size, with full budgets and drawn maps."""
    rows, task = learnable_rows(ROWS_BEFORE + N_ROWS, size.n_inputs, size.n_classes)
    n_outputs = size.n_classes if task == "multiclass" else 1
    kernel, loss = Gaussian(size.n_inputs**0.5), make_loss(DEFAULT_LOSS[task])
    learner: Any
    if name == "fogd":
        drawn = draw_fourier_map(kernel, size.n_inputs, size.n_frequencies, 0)
        learner = LinearLearner(drawn, loss, 0.1, n_outputs)
    elif name == "nogd":
        rank = max(1, size.budget // 5)
        learner = NOGDLearner(kernel, size.n_inputs, loss, 0.1, size.budget, rank, n_outputs)
    else:
        strategy = STRATEGIES[name]()
        assert isinstance(strategy, BudgetStrategy)
        learner = BudgetLearner(kernel, strategy, task, size.n_inputs, size.budget, n_outputs)
    state = learner.learn(learner.start(), Rows(rows.inputs[:ROWS_BEFORE], rows.targets[:ROWS_BEFORE]))
    return partial(learner.learn, state, Rows(rows.inputs[ROWS_BEFORE:], rows.targets[ROWS_BEFORE:]))


def draw_throughput(lines: list[Line], file: Path) -> None:
    """Write the picture: rows a second against each size, both in logarithms."""
    figure = empty_figure(10.0, 7.4)
    rates = {(line.name, line.setting): 1e9 / line.mine for line in lines}
    for number, panel in enumerate(PANELS):
        axes = add_axes(figure, (2, 2, number + 1))
        for name, colour in COLOURS.items():
            if name in panel.learners:
                reached = [rates[name, _setting(panel, value)] for value in panel.values]
                axes.plot(panel.values, reached, label=name, color=colour, marker="o", markersize=3, linewidth=1.4)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(panel.values, [str(value) for value in panel.values])
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(min(rates.values()) / 1.3, max(rates.values()) * 1.3)  # the same scale for all panels
        axes.set_xlabel(panel.title)
        axes.set_ylabel("rows a second, one core")
        axes.grid(color=LIGHT.faint, linewidth=0.5)
    handles = figure.axes[1].get_lines()
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=9)
    file.write_text(svg(figure), encoding="utf-8")
