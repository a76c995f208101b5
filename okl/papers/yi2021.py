"""Yi et al., ICML 2021: the simulations of section 4."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import fmean
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from okl.papers.base import (
    BRIGHT,
    COLOURS,
    DataFolder,
    KnownOutcomes,
    Outcome,
    PaperPicture,
    TableCell,
    TableRequest,
    Tolerance,
)
from okl.report.figures import DARK, Theme, add_axes, empty_figure, png
from okl.solvers.oco.methods import Algorithm1, Algorithm2, Method
from okl.solvers.oco.problem import LinearConstraints, Problem, QuadraticLosses
from okl.solvers.oco.rivals import Jenatton, Mahdavi, Recoo, SinhaVaze, YuanLamperski, YuNeely
from okl.solvers.oco.runs import growth_exponent, losses_at, run_many, static_optimum
from okl.solvers.oco.schedules import KnownHorizon, StronglyConvex
from okl.solvers.oco.sets import Box

# Problems of section 4.

Doubles = NDArray[np.float64]

ROUNDS = 5000
STARTS = {"x1=0": (0.0, 0.0), "x1=1": (1.0, 1.0)}
SEED = 2021
_DOWN = ((1, 1500), (2000, 3500), (4000, 5000))  # rounds of 5000 in which theta_2 is negative


def draw_coefficients(rng: np.random.Generator, n_rounds: int) -> Doubles:
    """Draw theta_t = theta_{1,t} + theta_{2,t} + theta_{3,t} of all rounds, (n_rounds, 2).

    Rounds in which theta_2 changes its sign are moved in proportion where there are not 5000.

    Source: section 4.1.
    """
    rounds = np.arange(1, n_rounds + 1)
    wide = rng.uniform(-1.0, 1.0, (n_rounds, 2)) * (rounds**0.1)[:, None]
    scaled = rounds * (ROUNDS / n_rounds)
    down = np.any([(first <= scaled) & (scaled <= last) for first, last in _DOWN], axis=0)
    biased = rng.uniform(0.0, 1.0, (n_rounds, 2)) - down[:, None]
    signs = np.where(rng.permutation(rounds) % 2 == 0, 1.0, -1.0)
    drawn: Doubles = wide + biased + signs[:, None]
    return drawn


def draw_problem(repetition: int, n_rounds: int, quadratic: bool) -> tuple[Problem, QuadraticLosses]:
    """Draw one experiment: constraints A x <= b in the box [-1, 1]^2, and losses.

    f_t(x) = <theta_t, x>, or ||x - theta_t||^2 + 20 <theta_t, x>

    Parameters
    ----------
    repetition : number of the experiment, which decides all that is random together with n_rounds

    Source: sections 4.1 and 4.2.
    """
    rng = np.random.default_rng([SEED, n_rounds, repetition])
    rows: dict[str, Any] = {"matrix": rng.uniform(0.0, 2.0, (3, 2)), "bounds": rng.uniform(0.0, 5.0, 3)}
    theta = draw_coefficients(rng, n_rounds)
    problem = Problem(Box(-np.ones(2), np.ones(2)), LinearConstraints(**rows))
    if quadratic:
        return problem, QuadraticLosses(1.0, 18.0 * theta, (theta**2).sum(axis=1))
    return problem, QuadraticLosses(0.0, theta)


# Algorithms and their parameters.
#
# Table 2's step size of Algorithm 2 carries the factor 2^(i-1) of equation (36), without which all experts are the
# same; its gamma is the one printed, the same for all experts, where (36) has 2^(-(i-1)/2). gamma_0 is beyond 1 /
# (sqrt(2) G): no bound is claimed.

Metric = Literal["cumulative_loss", "cumulative_violation"]
METRICS: tuple[Metric, ...] = ("cumulative_loss", "cumulative_violation")
STEEPEST = 2.0**0.5 * (ROUNDS**0.1 + 2.0)  # ||theta_t||, at most: G of section 4.1
_TABLE2 = KnownHorizon(step_scale=2.0, penalty_scale=2.0**0.5)

LINEAR: dict[str, Method[Any]] = {
    "Algorithm 1": Algorithm1(_TABLE2),
    "Algorithm 2": Algorithm2(_TABLE2, weight_scale=3.0, shared_penalties=True),
    "Yu & Neely": YuNeely(proximal_scale=0.25, first_queued=False),
    "Yuan & Lamperski": YuanLamperski(step_scale=1.5, ratio=0.25),
    "Jenatton": Jenatton(step_scale=0.7, damping_scale=0.01),
    "Mahdavi": Mahdavi(step_scale=0.8, damping=0.5),
    "RECOO": Recoo(step_scale=2.0),
    "Sinha & Vaze": SinhaVaze(STEEPEST),
}
QUADRATIC: dict[str, Method[Any]] = {
    "Algorithm 1": Algorithm1(StronglyConvex(1.0 / 6.0, penalty_scale=6.0**0.5)),
    "Yuan & Lamperski": YuanLamperski(step_scale=3.0, ratio=1.5, strongly_convex=True),
    "Jenatton": Jenatton(step_scale=2.5, damping_scale=0.001, step_exponent=1.0, damping_exponent=0.01),
}
QUADRATIC |= {  # other readings of theta_t = 4.5 / (t + 1)
    f"Yuan & Lamperski (theta {round(3 * ratio)})": YuanLamperski(step_scale=3.0, ratio=ratio, strongly_convex=True)
    for ratio in (1.0, 2.0, 3.0)
}


@dataclass(frozen=True)
class Order:
    """A sentence of the paper on the means of two algorithms.

    lower : has the smaller mean, than higher
    within : where this is above 0 both are nearly the same: apart by at most this share of the mean of `of`
    """

    metric: Metric
    lower: str
    higher: str
    within: float = 0.0
    of: str = ""

    def holds(self, means: dict[str, float]) -> bool:
        """Return whether the claim holds for means by algorithm."""
        if self.within:
            return abs(means[self.lower] - means[self.higher]) <= self.within * abs(means[self.of or self.lower])
        return means[self.lower] < means[self.higher]

    @property
    def names(self) -> set[str]:
        """All algorithms it speaks of."""
        return {self.lower, self.higher} | ({self.of} if self.of else set())


_LOSS, _VIOLATION = METRICS
_RIVALS = ("Yu & Neely", "Yuan & Lamperski", "Jenatton", "Mahdavi")
LINEAR_ORDERS = (
    Order(_LOSS, "Algorithm 2", "Algorithm 1"),
    *(Order(_LOSS, "Algorithm 1", rival) for rival in _RIVALS),
    Order(_VIOLATION, "Algorithm 1", "Algorithm 2", within=0.05, of="Yu & Neely"),
    Order(_VIOLATION, "Algorithm 1", "Yu & Neely"),
    Order(_VIOLATION, "Algorithm 2", "Yu & Neely"),
    Order(_VIOLATION, "Algorithm 1", "Yuan & Lamperski"),
    *(Order(_VIOLATION, "Yuan & Lamperski", rival) for rival in ("Jenatton", "Mahdavi")),
)
QUADRATIC_ORDERS = (
    Order(_LOSS, "Algorithm 1", "Yuan & Lamperski", within=0.02),
    Order(_LOSS, "Yuan & Lamperski", "Jenatton"),
    Order(_LOSS, "Algorithm 1", "Jenatton"),
    Order(_VIOLATION, "Algorithm 1", "Yuan & Lamperski"),
    Order(_VIOLATION, "Algorithm 1", "Jenatton"),
)


# Work items.

POINTS = 101  # of a curve
_warm = Lock()


def marks(n_rounds: int) -> list[int]:
    """Rounds at which curves are kept, from 1 to the last."""
    return sorted({int(at) for at in np.linspace(1, n_rounds, POINTS).round()})


@dataclass(frozen=True)
class BlockItem:
    """Experiments first .. first + count - 1.

    quadratic : whether the losses are those of section 4.2
    start : name of the first point; n_rounds : the horizon
    """

    quadratic: bool
    start: str
    n_rounds: int
    first: int
    count: int

    @property
    def name(self) -> str:
        """Readable and unique."""
        kind = "oqp" if self.quadratic else "olp"
        return f"{kind}--{self.start}--T{self.n_rounds}--{self.first}+{self.count}"

    @property
    def dataset(self) -> str:
        """None: it draws what it reads."""
        return ""

    @property
    def rows(self) -> int:
        """Rounds, of all experiments."""
        return self.count * self.n_rounds

    @property
    def cost(self) -> float:
        """Rounds."""
        return float(self.rows)

    def describe(self) -> dict[str, Any]:
        """All fields: the name says them."""
        return {"item": self.name}

    def run(self, folder: DataFolder, check: Callable[[], None]) -> Outcome:
        """For each algorithm final losses, violations and regrets, the seconds of all, and sums for the curves."""
        drawn = [draw_problem(at, self.n_rounds, self.quadratic) for at in range(self.first, self.first + self.count)]
        problems, losses = [problem for problem, _ in drawn], [loss for _, loss in drawn]
        best = np.array([losses_at(loss, static_optimum(problem, loss)[None, :]).sum() for problem, loss in drawn])
        with _warm:
            self._warm_up(check)
        found: Outcome = {}
        for name, method in self._methods.items():
            check()
            begun = time.perf_counter()
            traces = run_many(method, problems, losses, np.array(STARTS[self.start]))
            seconds = time.perf_counter() - begun
            found[name] = {"seconds": seconds / self.count}
            found[name] |= _kept(traces.cumulative_losses, traces.cumulative_violations, best)
        return {"algorithms": found}

    @property
    def _methods(self) -> Mapping[str, Method[Any]]:
        return QUADRATIC if self.quadratic else LINEAR

    def _warm_up(self, check: Callable[[], None]) -> None:
        """Compile, so that no clock runs meanwhile."""
        problem, few = draw_problem(0, 3, self.quadratic)
        for method in self._methods.values():
            check()
            method.run(problem, few)


def _kept(losses: Doubles, violations: Doubles, best: Doubles) -> dict[str, Any]:
    """Finals of every experiment, and sums and sums of squares over the experiments at the marks."""
    at = np.array(marks(losses.shape[1])) - 1
    return {
        "cumulative_loss": losses[:, -1].tolist(),
        "cumulative_violation": violations[:, -1].tolist(),
        "regret": (losses[:, -1] - best).tolist(),
        "loss_sums": losses[:, at].sum(axis=0).tolist(),
        "loss_squares": (losses[:, at] ** 2).sum(axis=0).tolist(),
        "violation_sums": violations[:, at].sum(axis=0).tolist(),
        "violation_squares": (violations[:, at] ** 2).sum(axis=0).tolist(),
    }


# Figures 1 to 4: cumulative loss and violation by round, bands of two standard errors about the means.

TITLES = ("cumulative loss", "cumulative violation, logarithmic")


def draw_evolutions(lines: Mapping[str, Sequence[Sequence[float]]], title: str, theme: Theme) -> bytes:
    """Draw both figures beside each other.

    Parameters
    ----------
    lines : for each algorithm points [round, mean loss, its standard error, mean violation, its standard error]
    title : of the picture
    """
    figure = empty_figure(11.5, 4.2, theme)
    panels = [add_axes(figure, theme, (1, 2, place)) for place in (1, 2)]
    for (name, points), colour in zip(lines.items(), BRIGHT if theme is DARK else COLOURS, strict=False):
        values = np.array(points, dtype=np.float64)
        for axes, column in zip(panels, (1, 3), strict=True):
            mean, error = values[:, column], 2.0 * values[:, column + 1]
            axes.plot(values[:, 0], mean, label=name, color=colour, linewidth=1.5)
            axes.fill_between(values[:, 0], mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    panels[1].set_yscale("symlog", linthresh=0.01)
    for axes, words in zip(panels, TITLES, strict=True):
        axes.set_title(f"{title}: {words}", loc="left", fontsize=10, color=theme.ink)
        axes.set_xlabel("round")
        axes.tick_params(which="both", colors=theme.ink, labelsize=9)
        axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    legend = figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    for text in legend.get_texts():
        text.set_color(theme.ink)
        text.set_fontsize(8.5)
    return png(figure)


# Figures 1 and 2 (online linear programming), and 3 and 4 (online quadratic programming), as means with errors.

BLOCK = 50
HORIZONS = (500, 1000, 2000)  # of the growth exponents, beside the paper's rounds
FEW = 100  # experiments at these
REFERENCE = "Algorithm 1"
CODE = ("compiled", "solvers.oco", "papers.yi2021")
GENERAL = (
    "Experiments are drawn from seeds; the paper prints curves and no numbers. A growth exponent is the slope of the "
    f"mean violation, and of the mean regret against the best fixed point, over horizons {HORIZONS} and {ROUNDS}; none "
    "where a mean regret is negative, as the losses drift. Differences to Algorithm 1 are paired, with standard errors."
)


@dataclass(frozen=True)
class SimulationTable:
    """Cells of cumulative loss and violation, for each first point and algorithm.

    quadratic : whether section 4.2 or 4.1; orders : what the paper says of the means
    """

    name: str
    title: str
    quadratic: bool
    algorithms: tuple[str, ...]
    orders: tuple[Order, ...]
    remark: str
    datasets: tuple[str, ...] = tuple(STARTS)
    repeats: int = 1000
    code: tuple[str, ...] = CODE
    generated: bool = True
    rule: str = "the orders that the paper states hold for the means of all experiments"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return remarks on how the figures were measured."""
        return (GENERAL, self.remark)

    def trials(self, request: TableRequest) -> list[BlockItem]:
        """None: all is settled."""
        return []

    def items(self, request: TableRequest, known: KnownOutcomes) -> list[BlockItem]:
        """Blocks of experiments, for each first point and horizon."""
        return [
            item
            for start in request.datasets
            for horizon in (*HORIZONS, ROUNDS)
            for item in self._blocks(request, start, horizon)
        ]

    def cells(self, request: TableRequest, known: KnownOutcomes) -> list[TableCell]:
        """One for each first point, metric and algorithm."""
        return [
            cell
            for start in request.datasets
            for metric in METRICS
            for cell in self._cells(request, known, start, metric)
        ]

    def beside(self, request: TableRequest, known: KnownOutcomes) -> list[dict[str, Any]]:
        """Rounds of each first point, and the paper's sentences on orders, each with whether it holds."""
        rows = []
        for start in request.datasets:
            means = {metric: self._means(request, known, start, metric) for metric in METRICS}
            told = [order for order in self.orders if order.names <= means[order.metric].keys()]
            said = [{**asdict(order), "holds": order.holds(means[order.metric])} for order in told]
            rows.append({"dataset": start, "read": start, "rows": ROUNDS * request.repeats, "orders_of_means": said})
        return rows

    def curves(self, request: TableRequest, known: KnownOutcomes) -> dict[str, Any]:
        """For each first point and algorithm points [round, mean loss, its error, mean violation, its error]."""
        return {
            start: {name: self._curve(request, known, start, name) for name in request.algorithms}
            for start in request.datasets
        }

    def pictures(self, curves: Mapping[str, Any]) -> list[PaperPicture]:
        """One for each first point."""
        return [
            PaperPicture(f"{self.title}, {start}", partial(draw_evolutions, lines, start))
            for start, lines in curves.items()
        ]

    def _blocks(self, request: TableRequest, start: str, horizon: int) -> list[BlockItem]:
        count = request.repeats if horizon == ROUNDS else min(FEW, request.repeats)
        return [
            BlockItem(self.quadratic, start, horizon, first, min(BLOCK, count - first))
            for first in range(0, count, BLOCK)
        ]

    def _finals(
        self, request: TableRequest, known: KnownOutcomes, start: str, name: str, what: str, horizon: int = ROUNDS
    ) -> list[float]:
        blocks = self._blocks(request, start, horizon)
        return [value for item in blocks for value in known[item]["algorithms"][name][what]]

    def _means(self, request: TableRequest, known: KnownOutcomes, start: str, metric: Metric) -> dict[str, float]:
        return {name: fmean(self._finals(request, known, start, name, metric)) for name in request.algorithms}

    def _cells(self, request: TableRequest, known: KnownOutcomes, start: str, metric: Metric) -> list[TableCell]:
        means = self._means(request, known, start, metric)
        reference = np.array(self._finals(request, known, start, REFERENCE, metric))
        cells = []
        for name in request.algorithms:
            values = np.array(self._finals(request, known, start, name, metric))
            blocks = [known[item]["algorithms"][name]["seconds"] for item in self._blocks(request, start, ROUNDS)]
            more: dict[str, float | None] = {"standard_error": _error(values)}
            more["growth_exponent"] = self._exponent(request, known, start, name, metric)
            if name != REFERENCE:
                more |= {"to_algorithm_1": float((values - reference).mean()), "its_error": _error(values - reference)}
            cell = TableCell(start, name, metric, more=more).measured(values.tolist(), blocks, Tolerance())
            said = [order for order in self.orders if order.metric == metric and name in order.names]
            known_all = [order.holds(means) for order in said if order.names <= means.keys()]
            verdict = ("within" if all(known_all) else "worse") if known_all else None
            cells.append(replace(cell, verdict=verdict))
        return cells

    def _exponent(
        self, request: TableRequest, known: KnownOutcomes, start: str, name: str, metric: Metric
    ) -> float | None:
        what = "regret" if metric == "cumulative_loss" else metric
        horizons = (*HORIZONS, ROUNDS)
        means = [fmean(self._finals(request, known, start, name, what, horizon)) for horizon in horizons]
        return growth_exponent(horizons, means) if min(means) > 0.0 else None

    def _curve(self, request: TableRequest, known: KnownOutcomes, start: str, name: str) -> list[list[float]]:
        outcomes = [known[item]["algorithms"][name] for item in self._blocks(request, start, ROUNDS)]
        columns: list[Sequence[float]] = [[float(at) for at in marks(ROUNDS)]]
        for what in ("loss", "violation"):
            sums, squares = (np.sum([o[f"{what}_{kind}"] for o in outcomes], axis=0) for kind in ("sums", "squares"))
            mean, spread = sums / request.repeats, np.zeros(len(sums))
            if request.repeats > 1:
                spread = np.maximum(squares - request.repeats * mean**2, 0.0) / (request.repeats - 1)
            columns += [mean.tolist(), np.sqrt(spread / request.repeats).tolist()]
        return [list(point) for point in zip(*columns, strict=True)]


def _error(values: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    """The standard error of the mean, None of a single value."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None


OLP = SimulationTable(
    "yi2021-olp",
    "Online linear programming: figures 1 and 2",
    False,
    tuple(LINEAR),
    LINEAR_ORDERS,
    "Algorithm 2's step sizes carry the factor 2^(i-1) of (36), which Table 2 leaves out; gamma is the printed one, "
    "where (36) divides it by the root of that factor and the violation from x_1 = 0 is .08. Yu & Neely have "
    "alpha = sqrt(T) / 4 as in Table 2, and a queue that begins at 0 after the first round: what is published counts "
    "the first round, which from x_1 = 0 brings their violation from 2.5 down to 1.4. RECOO and Sinha & Vaze are newer "
    "than the paper.",
)
OQP = SimulationTable(
    "yi2021-oqp",
    "Online quadratic programming: figures 3 and 4",
    True,
    tuple(QUADRATIC),
    QUADRATIC_ORDERS,
    "Parameters as in Table 3, theta_t = c / t^0.01 for Jenatton included. 'Almost the same loss' of Algorithm 1 and "
    "Yuan & Lamperski is taken as 2% apart. As printed, it does not come out: with theta_t = 1.5 eta_t a step "
    "overshoots every row with ||a||^2 > 3 and lands inside. Readings tried are shown beside it: 3, 6 and 9 in place "
    "of 4.5. It comes out with theta_t = 2 eta_t, 6 / (t + 1), alone.",
)
