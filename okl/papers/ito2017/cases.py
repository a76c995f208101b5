"""Data sets, parameter grids and run settings of Ito et al."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from itertools import pairwise
from statistics import fmean
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from okl.data.executor import Rows
from okl.foundation.types import FloatArray, Precision
from okl.papers.base import (
    BRIGHT,
    COLOURS,
    NO_DATA,
    DataFolder,
    KnownOutcomes,
    Outcome,
    PaperPicture,
    Selection,
    TableCell,
    TableRequest,
    Tolerance,
    WorkItem,
    read_records,
)
from okl.report.figures import DARK, Theme, add_axes, empty_figure, png
from okl.report.format import metric_name
from okl.solvers.accelerated.base import CompositeProblem, RowOperator, Solution, weights_of
from okl.solvers.accelerated.dual import MinimaxProblem
from okl.solvers.accelerated.method import Fapg, FapgState, solve
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.mmfda import MMFDA, fda_kappa_max
from okl.solvers.accelerated.models.mmmpm import MMMPM, mpm_kappa_max
from okl.solvers.accelerated.models.nusvm import NuSVM, nu_max
from okl.solvers.accelerated.problem import ClassMoments

# Data sets.
#
# The scaling was found from the largest eigenvalues and kappa_max that Tables 5 and 10 print. Four sets come with the
# labels of their files, such as 1 and 2, and Table 5 was computed with these in place of -1 and +1.

PACKAGE = "okl.papers.ito2017"


@dataclass(frozen=True)
class ItoCase:
    """A data set of the paper.

    printed : its name there; file : NAME of NAME.parquet; split : of a file that has one
    paper_rows, paper_columns : as printed in Table 1
    interval : columns are scaled to it, one by one; None: as stored
    first : so many rows, as stored; None: all
    codes : labels of the positive and the negative class in the file that the paper read
    kernel_coded : whether Table 5 has these labels with a kernel, too
    """

    printed: str
    file: str
    paper_rows: int
    paper_columns: int
    split: Literal["all", "train"] = "all"
    interval: tuple[float, float] | None = None
    first: int | None = None
    codes: tuple[float, float] = (1.0, -1.0)
    kernel_coded: bool = True

    def describe(self) -> dict[str, Any]:
        """Describe which rows are read and how they are scaled."""
        return {"file": self.file, "split": self.split, "interval": self.interval, "first": self.first}

    @property
    def selection(self) -> Selection:
        """Return the rows read from the file."""
        return Selection(self.file, "binary", self.split)

    def n_rows(self, folder: DataFolder) -> int:
        """Rows that take part, without reading inputs."""
        stored = folder.count(self.selection)
        return stored if self.first is None else min(stored, self.first)

    def rows(self, folder: DataFolder, precision: Precision) -> Rows:
        """The rows in stored order, scaled."""
        stored = folder.rows(self.selection, precision)
        inputs, targets = stored.inputs[: self.first], stored.targets[: self.first]
        return Rows(inputs if self.interval is None else _scaled(inputs, *self.interval), targets)

    def coded(self, targets: NDArray[np.float64], kernel: bool = False) -> NDArray[np.float64]:
        """The labels that Table 5 goes by, of explicit rows or with a kernel."""
        return targets if kernel and not self.kernel_coded else np.where(targets > 0, *self.codes)


_UNIT, _SYMMETRIC = (0.0, 1.0), (-1.0, 1.0)
_KNOWN: dict[str, dict[str, object]] = {
    "a9a": {"split": "train"},
    "breast-cancer": {"file": "breast_cancer_libsvm", "codes": (4.0, 2.0), "kernel_coded": False},
    "covtype": {"file": "covtype_binary", "codes": (2.0, 1.0)},
    "german.numer": {"file": "german", "interval": _SYMMETRIC},
    "ijcnn1": {"split": "train", "first": 35_000},
    "ionosphere": {"interval": _SYMMETRIC},
    "liver-disorders": {"file": "liver_disorders", "codes": (1.0, 2.0)},
    "madelon": {"split": "train", "interval": _UNIT},
    "mushrooms": {"codes": (2.0, 1.0)},
    "svmguide3": {"interval": _UNIT},
    "w7a": {"split": "train"},
    "w8a": {"file": "w7a"},
}


@cache
def cases() -> dict[str, ItoCase]:
    """All data sets of Table 1, in its order, by their names there."""
    return {
        record["data"]: ItoCase(
            record["data"],
            paper_rows=int(record["m"]),
            paper_columns=int(record["n"]),
            **({"file": record["data"]} | _KNOWN.get(record["data"], {})),  # type: ignore[arg-type]
        )
        for record in read_records(PACKAGE, "table1.csv")
    }


def _scaled(inputs: FloatArray, low: float, high: float) -> FloatArray:
    """Columns to [low, high]; a constant one to 0."""
    least, most = inputs.min(axis=0).astype(np.float64), inputs.max(axis=0).astype(np.float64)
    wide = most > least
    spread = np.where(wide, most - least, 1.0)
    scaled = low + (high - low) * ((inputs - least) / spread)
    found: FloatArray = np.where(wide, scaled, 0.0).astype(inputs.dtype)
    return found


# Generated data of section 5.


@lru_cache(maxsize=1)
def artificial_rows(n_rows: int, n_columns: int, seed: int) -> Rows:
    """Draw rows; float32 inputs, which must not be written into.

    Positives are N(0, I), negatives N(10 / sqrt(n) e, S S') with entries of S from N(0, 1); either class with
    probability 1/2; columns are scaled to [-1, 1]. Source: Ito et al., 2017, section 5.
    """
    draw = np.random.default_rng(seed)
    positive = draw.random(n_rows) < 0.5
    inputs = draw.standard_normal((n_rows, n_columns))
    mixing = draw.standard_normal((n_columns, n_columns))
    inputs[~positive] = inputs[~positive] @ mixing.T + 10.0 / np.sqrt(n_columns)
    least, most = inputs.min(axis=0), inputs.max(axis=0)
    scaled = -1.0 + 2.0 * ((inputs - least) / (most - least))
    return Rows(scaled.astype(np.float32), np.where(positive, 1.0, -1.0))


# Parameter grids and solutions along them.
#
# The paper states no grid. Parameters that have a largest value are fractions of it, for the rows that are learnt.

NOTHING_LEFT = 1e-5  # of the first squared length of w: nearly 0, which has no direction


@dataclass(frozen=True)
class ParameterGrid:
    """Values of a model's parameter in the order in which they are solved.

    parameter : its name; values : of it, or fractions of its largest value; of_largest : which of the two
    """

    parameter: str
    values: tuple[float, ...]
    of_largest: bool = True

    @property
    def falls(self) -> bool:
        """Return whether values decrease."""
        return self.values[0] > self.values[-1]

    def describe(self) -> str:
        """Describe which rows are read and how they are scaled."""
        low, high = min(self.values), max(self.values)
        unit = f" times {self.parameter}_max of the rows learnt" if self.of_largest else ""
        return f"{self.parameter}: {len(self.values)} values from {low:g} to {high:g}{unit}"


def _fractions(*values: int) -> tuple[float, ...]:
    return tuple(value / 100 for value in values)


_KAPPAS = _fractions(1, *range(5, 100, 5), 98)
GRIDS: dict[str, ParameterGrid] = {
    # from the largest, whose solution is nearly known, down to where classes overlap too much for w other than 0
    "nu_svm": ParameterGrid("nu", _fractions(*range(99, 0, -2))),
    "logistic": ParameterGrid("C", tuple(10.0 ** (k / 5) for k in range(-10, 6)), of_largest=False),
    "mm_mpm": ParameterGrid("kappa", _KAPPAS),
    "mm_fda": ParameterGrid("kappa", _KAPPAS),
}


class GridSolution(NamedTuple):
    """A value of the grid, the parameter that it comes to, its solution, and the iterations that it took."""

    value: float
    parameter: float
    solution: Solution
    iterations: int


def margin_solutions(name: str, rows: RowOperator, method: Fapg) -> Iterator[GridSolution]:
    """Solutions of nu-SVM or logistic regression over their grid; they end before w is 0.

    Where nu comes close to its least value, below which w = 0 is best, w shrinks and iterations grow without end.
    """
    grid = GRIDS[name]
    largest = nu_max(rows.signs, weights_of(rows, None)) if grid.of_largest else 1.0
    parameters = [value * largest for value in grid.values]
    problems = (
        (NuSVM(parameter) if name == "nu_svm" else LogisticRegression(parameter)).problem(rows)
        for parameter in parameters
    )
    # a logistic dual grows with C, that of nu-SVM does not with nu
    scales = _growth(parameters) if name == "logistic" else [1.0] * len(parameters)
    return _solutions(grid, parameters, problems, scales, method)


def minimax_solutions(name: str, moments: ClassMoments, method: Fapg) -> Iterator[GridSolution]:
    """Solutions of MM-MPM or MM-FDA over their grid from the moments of the classes."""
    moments = moments.mended()
    largest = mpm_kappa_max(moments) if name == "mm_mpm" else fda_kappa_max(moments)
    parameters = [value * largest for value in GRIDS[name].values]
    first: MinimaxProblem = (MMMPM if name == "mm_mpm" else MMFDA)(parameters[0]).problem_of(moments)
    problems = (replace(first, kappa=parameter) for parameter in parameters)  # the roots of covariances are the same
    return _solutions(GRIDS[name], parameters, problems, _growth(parameters), method)


def _growth(parameters: Sequence[float]) -> list[float]:
    """Each over the one before, and 1 for the first."""
    return [1.0, *(after / before for before, after in pairwise(parameters))]


def _solutions(
    grid: ParameterGrid,
    parameters: Sequence[float],
    problems: Iterator[CompositeProblem],
    scales: Sequence[float],
    method: Fapg,
) -> Iterator[GridSolution]:
    point: FloatArray | None = None
    longest = 0.0
    for value, parameter, problem, scale in zip(grid.values, parameters, problems, scales, strict=True):
        state, outcome = solve(problem, method, None if point is None else scale * point)
        solution = method.solution(state, problem)
        squared = float(solution.weights @ solution.weights)
        longest = max(longest, squared)
        if squared <= NOTHING_LEFT * longest or (grid.falls and outcome.kind != "done"):
            return
        yield GridSolution(value, parameter, solution, state.history[-1].iteration)
        point = state.best.point
        method = replace(method, first_lipschitz=state.pace.lipschitz)


# Runs of the method.

RESIDUAL = 1e-6
MOST_SECONDS = 600.0
# the gap is not to stop it: the paper asks for the residual alone; steps are looked at every ten iterations
METHOD = Fapg(tolerance=1e-14, residual_tolerance=RESIDUAL, check_every=10)


@dataclass(frozen=True)
class MethodRun:
    """A run and what it took."""

    state: FapgState
    seconds: float
    in_time: bool

    def outcome(self) -> Outcome:
        """Seconds, iterations, the Lipschitz estimates, the certified gap, or why there is no answer."""
        records = self.state.history
        found: Outcome = {"seconds": self.seconds, "iterations": None}
        if not self.in_time:
            return found | {"note": f"not done within {MOST_SECONDS:g} seconds, {records[-1].iteration} iterations"}
        estimates = [record.lipschitz for record in records]
        return found | {
            "iterations": records[-1].iteration,
            "mean_estimate": fmean(estimates),
            "largest_estimate": max(estimates),
            "residual": records[-1].residual,
            "relative_gap": records[-1].certificate.relative_gap,
            "objective": records[-1].certificate.primal,
        }


def run(problem: CompositeProblem, check: Callable[[], None], method: Fapg = METHOD) -> MethodRun:
    """Solve a problem, but for no longer than the limit; check raises if nobody waits any more."""
    begun = time.perf_counter()
    state = method.start(problem)
    while method.finished(state) is None:
        check()
        if time.perf_counter() - begun > MOST_SECONDS:
            return MethodRun(state, time.perf_counter() - begun, in_time=False)
        state = method.advance(state, problem)
    return MethodRun(state, time.perf_counter() - begun, in_time=True)


def compile_parts(problem: CompositeProblem) -> None:
    """Ten iterations that nobody times: the first ones compile."""
    METHOD.advance(METHOD.start(problem), problem)


@dataclass(eq=False)
class Stopwatch:
    """A problem that counts and times what it is asked for: gradients, function values, projections.

    An image is part of a function value, a pull part of a gradient, as in the paper's breakdown.
    """

    problem: CompositeProblem
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("gradient", "function", "projection"), 0.0)
    )
    evaluations: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("gradient", "function", "projection"), 0)
    )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def pull(self, out: FloatArray, image: FloatArray) -> None:
        """Part of a gradient."""
        with self._timed("gradient", 0):
            self.problem.pull(out, image)

    def gradient(self, out: FloatArray, point: FloatArray, image: FloatArray, pulled: FloatArray) -> None:
        """The rest of a gradient."""
        with self._timed("gradient"):
            self.problem.gradient(out, point, image, pulled)

    def image(self, out: FloatArray, point: FloatArray) -> None:
        """Part of a function value."""
        with self._timed("function", 0):
            self.problem.image(out, point)

    def smooth(self, point: FloatArray, image: FloatArray) -> float:
        """The rest of a function value."""
        with self._timed("function"):
            return self.problem.smooth(point, image)

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """A projection."""
        with self._timed("projection"):
            self.problem.prox(out, point, lipschitz)

    def sweep(self, *_: object) -> None:
        """None: a step in one read cannot be told apart into its parts."""

    def at_level(self, level: int) -> CompositeProblem:
        """Itself: nothing is smoothed in what is timed."""
        return cast(CompositeProblem, self)

    @contextmanager
    def _timed(self, part: str, count: int = 1) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - begun
        self.evaluations[part] += count


# LIBLINEAR without a bias.


class Fit(NamedTuple):
    """Weights (n_columns,), and what they took."""

    weights: NDArray[np.float64]
    seconds: float


def fit_liblinear(model: Literal["logistic", "l1-logistic", "l1-l2-svm"], rows: Rows, C: float) -> Fit:
    """Fit to the tolerance of the paper."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if model == "l1-l2-svm":
        machine = LinearSVC(penalty="l1", loss="squared_hinge", dual=False, C=C, tol=RESIDUAL, fit_intercept=False)
    else:
        ratio = 1.0 if model == "l1-logistic" else 0.0
        machine = LogisticRegression(l1_ratio=ratio, solver="liblinear", C=C, tol=RESIDUAL, fit_intercept=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own limit of iterations: the objective tells what it reached
        begun = time.perf_counter()
        machine.fit(rows.inputs, rows.targets)
        seconds = time.perf_counter() - begun
    return Fit(machine.coef_.ravel().astype(np.float64), seconds)


# Figures.


def draw_growth(
    lines: Mapping[str, Sequence[Sequence[float]]], title: str, size: str, metric: str, theme: Theme
) -> bytes:
    """Draw a figure and seconds against a size.

    Parameters
    ----------
    lines : for each name points [size, figure, seconds], all above 0
    title : of the picture; size : what the sizes are; metric : what the figure is
    """
    figure = empty_figure(9.2, 3.6, theme)
    panels = [add_axes(figure, theme, (1, 2, place)) for place in (1, 2)]
    for column, (axes, words) in enumerate(zip(panels, (f"{title}: {metric_name(metric)}", "seconds"), strict=True)):
        axes.set_title(words, loc="left", fontsize=10, color=theme.ink)
        for (name, points), colour in zip(lines.items(), BRIGHT if theme is DARK else COLOURS, strict=False):
            values = np.array(points, dtype=np.float64)
            axes.plot(values[:, 0], values[:, column + 1], label=name, color=colour, marker="o", linewidth=1.5)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(size)
        axes.tick_params(which="both", colors=theme.ink, labelsize=9)
        axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    legend = figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    for text in legend.get_texts():
        text.set_color(theme.ink)
        text.set_fontsize(8.5)
    return png(figure)


# Tables of measured figures.

CODE = ("compiled", "solvers.accelerated", "kernels", "papers.base", "papers.ito2017")
NOT_MEASURED = "not measured"
Make = Callable[[TableRequest, int], "WorkItem | str"]


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
        """Return the largest accepted distance from the printed number."""
        if self.digits is None or self.paper is None:
            return self.tolerance
        # numbers are printed as mantissa and exponent: half of the last digit, and a hair for its rounding
        exponent = int(f"{self.paper:e}".split("e")[1])
        return Tolerance(absolute=0.5001 * 10.0 ** (exponent - self.digits + 1))


@dataclass(frozen=True)
class MeasuredLine:
    """Measured quantity of an algorithm on a data set.

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
    lines: tuple[MeasuredLine, ...]
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
        """Return the quantities measured on each data set."""
        return tuple(dict.fromkeys(line.algorithm for line in self.lines))

    def trials(self, request: TableRequest) -> list[WorkItem]:
        """None."""
        return []

    def items(self, request: TableRequest, known: KnownOutcomes) -> list[WorkItem]:
        """Each piece of work once, though several lines may report of it."""
        made = (line.make(request, k) for line in self._lines(request) for k in range(request.repeats))
        return list({item.name: item for item in made if not isinstance(item, str)}.values())

    def cells(self, request: TableRequest, known: KnownOutcomes) -> list[TableCell]:
        """One for each figure of the lines asked for."""
        return [self._cell(request, known, line, figure) for line in self._lines(request) for figure in line.figures]

    def beside(self, request: TableRequest, known: KnownOutcomes) -> list[dict[str, Any]]:
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

    def curves(self, request: TableRequest, known: KnownOutcomes) -> dict[str, Any]:
        """Return the curves of a study: for each data set and size [size, figure, seconds] of each algorithm."""
        found: dict[str, Any] = {}
        for cell in self.cells(request, known) if self.curve else ():
            if cell.metric == self.curve and cell.mean is not None:
                for size, value in cell.point.items():
                    lines = found.setdefault(f"{cell.dataset}, {size}", {})
                    lines.setdefault(cell.algorithm, []).append([value, cell.mean, cell.seconds])
        return found

    def pictures(self, curves: Mapping[str, Any]) -> list[PaperPicture]:
        """The figure and seconds against the size, both axes logarithmic."""
        return [
            PaperPicture(
                title, partial(draw_growth, lines, title.rpartition(", ")[0], title.rpartition(", ")[2], self.curve)
            )
            for title, lines in curves.items()
        ]

    def _lines(self, request: TableRequest) -> list[MeasuredLine]:
        return [
            line for line in self.lines if line.dataset in request.datasets and line.algorithm in request.algorithms
        ]

    def _cell(self, request: TableRequest, known: KnownOutcomes, line: MeasuredLine, figure: Figure) -> TableCell:
        cell = TableCell(
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
