"""Zhang & Sen, 2024: Table 1 and figures 1 and 2."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from statistics import fmean
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.jit import one_blas_thread
from okl.features.bandwidth import median_distance
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian
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
    read_records,
)
from okl.report.figures import DARK, Theme, add_axes, empty_figure, png
from okl.solvers.subgradient.coordinate import DualDescent
from okl.solvers.subgradient.fitting import GeometricGrowth
from okl.solvers.subgradient.method import Scs, Wolfe
from okl.solvers.subgradient.paper import PaperGrowth
from okl.solvers.subgradient.pegasos import Pegasos
from okl.solvers.subgradient.spaces import KernelRows, KernelSource

# Data sets of Table 1.
#
# The paper states none of these. Rows to learn are as many as it counts, drawn by the seed; the others are the test
# rows. Inputs are standardised by the rows to learn. Bandwidth and lam are those of the best mean accuracy of exact
# solutions in five-fold cross validation, over an eighth to the whole of the median distance and lam of 1e-2 to 1e-4,
# on at most 2,000 rows of an order (seed 1000) that is not among the reported ones. Sets that the project does not
# have were given half the median distance of the rows to learn, lam = 1e-3, and no more rows than a kernel matrix in
# memory allows.

PACKAGE = "okl.papers.zhang2024"
SEEDS = tuple(range(20))
MOST_ROWS = 7_500  # to learn: 450 MB of kernel values
MOST_TESTED = 20_000
_SAMPLE = 2_048

Doubles = NDArray[np.float64]


class Split(NamedTuple):
    """Standardised inputs (rows, n_inputs) and targets -1, +1 of the rows to learn and of the test rows."""

    learnt: Doubles
    learnt_targets: Doubles
    tested: Doubles
    tested_targets: Doubles


@dataclass(frozen=True)
class ZhangCase:
    """A data set of the paper.

    printed : its name there; file : NAME of NAME.parquet
    n_rows : rows to learn; paper_rows, paper_columns : as printed
    positive : labels of the file that are the class +1, all others being -1
    first : so many rows of the file, as stored; None: all
    lam : of lam / 2 |w|^2 + mean hinge; bandwidth : of the Gaussian kernel; None: half the median distance
    """

    printed: str
    file: str
    n_rows: int
    paper_rows: int
    paper_columns: int
    positive: tuple[int, ...] = (1,)
    first: int | None = None
    lam: float = 1e-3
    bandwidth: float | None = None

    def describe(self) -> dict[str, Any]:
        """All that decides which rows are read and what is solved."""
        return asdict(self)

    def split(self, folder: DataFolder, seed: int) -> Split:
        """The rows of a seed."""
        task = "binary" if self.positive == (1,) else "multiclass"
        stored = folder.rows(Selection(self.file, task), "float64")  # type: ignore[arg-type]
        inputs, labels = stored.inputs[: self.first], stored.targets[: self.first]
        order = np.random.default_rng(seed).permutation(len(labels))
        learnt, tested = order[: self.n_rows], order[self.n_rows : self.n_rows + MOST_TESTED]
        targets = np.where(np.isin(labels, self.positive), 1.0, -1.0)
        mean, spread = inputs[learnt].mean(axis=0), inputs[learnt].std(axis=0)
        scaled = (inputs - mean) / np.where(spread > 0, spread, 1.0)
        return Split(scaled[learnt], targets[learnt], scaled[tested], targets[tested])

    def kernel(self, split: Split) -> Gaussian:
        """The kernel."""
        return Gaussian(self.bandwidth or 0.5 * median_distance(split.learnt[:_SAMPLE]))


_KNOWN: dict[str, dict[str, Any]] = {
    "heart failure": {"file": "heart_failure"},
    "breast cancer": {"file": "wdbc", "lam": 1e-4, "bandwidth": 6.34},
    "wine quality": {"file": "wine_quality", "first": 1599, "positive": (4, 5, 6), "lam": 1e-3, "bandwidth": 2.08},
    "avila Bible": {"file": "avila", "positive": (0,), "lam": 1e-4, "bandwidth": 0.814},
    "magic telescope": {"file": "magic", "lam": 1e-4, "bandwidth": 3.59},
    "room occupancy": {"file": "room_occupancy", "positive": (1, 2, 3), "lam": 1e-3, "bandwidth": 1.61},
    "swarm behavious": {"file": "swarm_behaviour"},
    "mini-BooNE": {"file": "miniboone"},
    "skin-nonskin": {"file": "skin_nonskin"},
    "Hepmass": {"file": "hepmass"},
}


def cases() -> dict[str, ZhangCase]:
    """All data sets of Table 1, in its order, by their names there."""
    found = {}
    for record in read_records(PACKAGE, "table1.csv"):
        rows = int(record["samples"])
        known = {"n_rows": min(rows, MOST_ROWS), "paper_rows": rows, "paper_columns": int(record["features"])}
        found[record["dataset"]] = ZhangCase(record["dataset"], **(known | _KNOWN[record["dataset"]]))
    return found


# Methods on the same kernel matrix.

WOLFE, PEGASOS, EQUAL_SAMPLES, SCS = "Wolfe", "Pegasos", "Pegasos, equal samples", "SCS"
PRINTED_GROWTH, ABLATION, EXACT = "SCS, paper's growth", "SCS, lambda* = 0", "dual coordinate descent"
ALGORITHMS = (WOLFE, PEGASOS, EQUAL_SAMPLES, SCS, PRINTED_GROWTH, ABLATION, EXACT)
GAP = 1e-4  # of the objective, certified, at which a method stops that knows it
EXACT_GAP = 1e-7  # relative
STEP_ROWS, MOST_ITERATIONS = 16, 500


@dataclass(eq=False)
class MethodTrack:
    """Points of a run, and when each was there: the clock stands still while one is kept.

    kept : number of the iteration, rows drawn, seconds, coefficients of the first rows; all, or the last one only
    """

    everything: bool
    kept: list[tuple[int, int, float, Doubles]] = field(default_factory=list)
    _spent: float = 0.0
    _number: int = 0
    _since: float = field(default_factory=time.perf_counter)

    def note(self, coefficients: FloatArray, drawn: int, number: int | None = None) -> None:
        """Keep a point; number : of its iteration, None for the next one."""
        self._spent += time.perf_counter() - self._since
        self._number = self._number + 1 if number is None else number
        if not self.everything:
            self.kept.clear()
        self.kept.append((self._number, drawn, self._spent, np.array(coefficients, dtype=np.float64)))
        self._since = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Return the seconds of the last point."""
        return self.kept[-1][2]

    @property
    def drawn(self) -> int:
        """Rows drawn up to the last point."""
        return self.kept[-1][1]


@dataclass(frozen=True, eq=False)
class MethodRace:
    """Rows to learn with their kernel values, which are computed before any clock begins.

    Each method returns the track of its run; everything : whether all its points are kept.
    """

    split: Split
    kernel: Gaussian
    lam: float
    seed: int
    everything: bool = False
    source: KernelSource = field(init=False)
    kernel_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        begun, rows = time.perf_counter(), self.split.learnt
        source = KernelSource(self.kernel, rows, np.arange(len(rows)))
        source.space(len(rows))
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "kernel_seconds", time.perf_counter() - begun)

    @property
    def space(self) -> KernelRows:
        """All rows."""
        return self.source.space(self.source.n_rows)

    @property
    def matrix(self) -> FloatArray:
        """Kernel values of all rows, (m, m) float64."""
        return self.space.values.among(self.source.n_rows)

    def exact(self) -> tuple[MethodTrack, float]:
        """Dual coordinate descent; and its lower bound."""
        track = MethodTrack(everything=False)
        found = DualDescent(self.lam, relative_gap=EXACT_GAP, seed=self.seed).solve_matrix(self.matrix, self._targets)
        track.note(found.coefficients / (self.lam * len(found.coefficients)), found.history[-1].visits)
        return track, found.bound

    def scs(self) -> MethodTrack:
        """Samples that grow fourfold, a bundle of cuts on each; to the gap on all rows."""
        track = MethodTrack(self.everything)
        GeometricGrowth(confidence=None).fit(
            self.source,
            self._targets,
            Scs(self.lam, gap=GAP),
            lambda run: track.note(run.point.vector.coefficients, run.space.n_rows),
        )
        return track

    def paper(self, directions: str) -> MethodTrack:
        """The paper's growth by its own directions, "conjugate", or by subgradients alone, "subgradient"."""
        track = MethodTrack(self.everything)
        method = Scs(self.lam, gap=GAP, directions=directions, max_iterations=self._iterations)  # type: ignore[arg-type]
        PaperGrowth(step_rows=STEP_ROWS).fit(
            self.source, self._targets, method, lambda point, drawn: track.note(point.vector.coefficients, drawn)
        )
        return track

    def wolfe(self) -> MethodTrack:
        """All rows in every iteration."""
        track = MethodTrack(self.everything)
        rows = self.source.n_rows
        Wolfe(self.lam, gap=GAP, max_iterations=MOST_ITERATIONS).solve(
            self.space,
            self._targets,
            lambda run: track.note(run.point.vector.coefficients, rows * (1 + run.iterations)),
        )
        return track

    def pegasos_for(self, seconds: float) -> MethodTrack:
        """Single rows for a time; points are kept at ever larger distances."""
        track, method = MethodTrack(self.everything), Pegasos(self.lam, seed=self.seed)
        for state in method.run_kernel(self.matrix, self._targets):
            track.note(method.weights(state)[0], state.progress.rows, state.progress.rows)
            if track.seconds >= seconds:
                break
        return track

    def pegasos_rows(self, rows: int) -> MethodTrack:
        """As many rows as are drawn elsewhere, as many a step as the paper's growth draws."""
        track, method = MethodTrack(self.everything), Pegasos(self.lam, batch=STEP_ROWS, seed=self.seed)
        states = method.run_kernel(self.matrix, self._targets, STEP_ROWS if self.everything else max(STEP_ROWS, rows))
        for state in islice(states, max(1, rows // STEP_ROWS) if self.everything else 1):
            track.note(method.weights(state)[0], state.progress.rows)
        return track

    def objectives(self, points: list[Doubles]) -> list[float]:
        """lam / 2 |w|^2 + mean hinge on all rows to learn, of coefficients of their first rows."""
        found, many = [], 50
        for first in range(0, len(points), many):
            columns = self._columns(points[first : first + many])
            scores = self.matrix @ columns
            lost = np.maximum(0.0, 1.0 - self._targets[:, None] * scores).mean(axis=0)
            found += [float(value) for value in 0.5 * self.lam * (columns * scores).sum(axis=0) + lost]
        return found

    def accuracies(self, points: list[Doubles]) -> list[float]:
        """Shares of the test rows whose class is right; a score of 0 is the class +1."""
        columns, right, rows = self._columns(points), np.zeros(len(points)), self.split.tested
        for first in range(0, len(rows), 512):
            part = slice(first, first + 512)
            scores = self.kernel.matrix(rows[part], self.split.learnt) @ columns
            right += ((scores >= 0) == (self.split.tested_targets[part] > 0)[:, None]).sum(axis=0)
        return [float(share) for share in right / len(rows)]

    def _columns(self, points: list[Doubles]) -> Doubles:
        columns = np.zeros((self.source.n_rows, len(points)))
        for column, point in enumerate(points):
            columns[: len(point), column] = point
        return columns

    @property
    def _targets(self) -> Doubles:
        return self.split.learnt_targets

    @property
    def _iterations(self) -> int:
        return self.source.n_rows // STEP_ROWS + MOST_ITERATIONS


def run_all(race: MethodRace, check: Callable[[], None]) -> tuple[dict[str, MethodTrack], float]:
    """Every method once, and the lower bound of the exact one; check raises if nobody waits any more."""
    exact, bound = race.exact()
    tracks = {EXACT: exact}
    runs: dict[str, Callable[[], MethodTrack]] = {
        SCS: race.scs,
        PRINTED_GROWTH: lambda: race.paper("conjugate"),
        ABLATION: lambda: race.paper("subgradient"),
        WOLFE: race.wolfe,
        PEGASOS: lambda: race.pegasos_for(tracks[SCS].seconds),
        EQUAL_SAMPLES: lambda: race.pegasos_rows(tracks[PRINTED_GROWTH].drawn),
    }
    for name, run in runs.items():
        check()
        tracks[name] = run()
    return {name: tracks[name] for name in ALGORITHMS}, bound


# Work items.

SHOWN = 50  # iterations, first and last
_WARM_ROWS = 64
_warm = Lock()


@dataclass(frozen=True)
class RaceItem:
    """All methods once.

    pictured : whether objectives on the way are kept, of the first and the last 50 iterations
    """

    case: ZhangCase
    seed: int
    pictured: bool = False

    @property
    def name(self) -> str:
        """Readable and unique."""
        return "--".join([self.case.printed, f"seed{self.seed}", *(["curves"] if self.pictured else [])])

    @property
    def dataset(self) -> str:
        """The file it reads."""
        return self.case.file

    @property
    def rows(self) -> int:
        """Rows that it learns."""
        return self.case.n_rows

    @property
    def cost(self) -> float:
        """Kernel values."""
        return float(self.rows) ** 2

    def describe(self) -> dict[str, Any]:
        """All fields: each decides something."""
        return {**self.case.describe(), "seed": self.seed, "pictured": self.pictured}

    def run(self, folder: DataFolder, check: Callable[[], None]) -> Outcome:
        """For each method accuracy, seconds, objective on all rows to learn, its excess, rows drawn; or curves."""
        split = self.case.split(folder, self.seed)
        with one_blas_thread():
            with _warm:
                run_all(self._race(_first_rows(split)), check)  # compiles
            race = self._race(split)
            tracks, bound = run_all(race, check)
            last = [track.kept[-1][3] for track in tracks.values()]
            objectives = race.objectives(last)
            accuracies = race.accuracies(last)
        optimum = min(objectives)
        runs = {
            name: {
                "accuracy": accuracy,
                "objective": objective,
                "excess": objective - optimum,
                "drawn": track.drawn,
                "seconds": track.seconds,
            }
            for (name, track), accuracy, objective in zip(tracks.items(), accuracies, objectives, strict=True)
        }
        positive = float((split.tested_targets > 0).mean())
        found: Outcome = {"runs": runs, "optimum": optimum, "bound": bound, "seconds": race.kernel_seconds}
        found |= {"constant": max(positive, 1.0 - positive), "learnt": len(split.learnt), "tested": len(split.tested)}
        if self.pictured:
            found["curves"] = {name: _curve(race, track) for name, track in tracks.items()}
        return found

    def _race(self, split: Split) -> MethodRace:
        return MethodRace(split, self.case.kernel(split), self.case.lam, self.seed, self.pictured)


def _curve(race: MethodRace, track: MethodTrack) -> dict[str, list[list[float]]]:
    """Return the first and the last iterations: number, rows drawn, seconds, objective."""
    found = {}
    for name, points in (("first", track.kept[:SHOWN]), ("last", track.kept[-SHOWN:])):
        objectives = race.objectives([coefficients for *_, coefficients in points])
        found[name] = [
            [float(number), float(drawn), seconds, objective]
            for (number, drawn, seconds, _), objective in zip(points, objectives, strict=True)
        ]
    return found


def _first_rows(split: Split) -> Split:
    few = Split(*(array[:_WARM_ROWS] for array in split))
    return few if len(set(few.learnt_targets.tolist())) == 2 else split


# Figures.

COLUMNS = ("iterations", "rows drawn", "seconds")
OPTIMUM = "optimum"
_LEAST = 1e-8


def draw_race(lines: Mapping[str, Sequence[Sequence[float]]], title: str, theme: Theme) -> bytes:
    """Draw the excess over the optimum against each of COLUMNS, logarithmic.

    Parameters
    ----------
    lines : for each method points [iteration, rows drawn, seconds, objective]; OPTIMUM has one, of the exact solution
    title : of the picture
    """
    figure = empty_figure(11.5, 3.8, theme)
    panels = [add_axes(figure, theme, (1, 3, place)) for place in (1, 2, 3)]
    optimum = lines[OPTIMUM][0][3]
    shown = [(name, np.array(points, dtype=np.float64)) for name, points in lines.items() if name != OPTIMUM]
    for column, (axes, words) in enumerate(zip(panels, COLUMNS, strict=True)):
        for (name, points), colour in zip(shown, BRIGHT if theme is DARK else COLOURS, strict=False):
            if column == 0 and (np.diff(points[:, 0]) > 1).any():
                continue  # kept at ever larger distances, of steps on single rows: they would hide the others
            excess = np.maximum(points[:, 3] - optimum, _LEAST)
            axes.plot(points[:, column], excess, label=name, color=colour, linewidth=1.5)
        axes.set_yscale("log")
        if column > 0:
            axes.set_xscale("log")
        axes.set_xlabel(words)
        axes.tick_params(which="both", colors=theme.ink, labelsize=9)
        axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    panels[0].set_title(f"{title}: above the optimum {optimum:.5g}", loc="left", fontsize=10, color=theme.ink)
    legend = figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    for text in legend.get_texts():
        text.set_color(theme.ink)
        text.set_fontsize(8.5)
    return png(figure)


# The table.

CODE = ("compiled", "kernels", "solvers.subgradient", "features.bandwidth", "papers.base", "papers.zhang2024")
TOLERANCE = Tolerance(absolute=0.01)
PICTURED = ("breast cancer", "heart failure", "wine quality", "avila Bible", "magic telescope", "room occupancy")
PROBLEM = (
    "lam / 2 |w|^2 + mean hinge with an exact Gaussian kernel and no bias. The paper prints lam = 1, with which "
    "nothing is left to learn, and states neither lam nor bandwidth, split or settings: they were fixed before "
    "anything was run."
)
METHODS = (
    f"SCS has samples that grow fourfold and a bundle of cuts, and stops at a certified gap of {GAP:g}. "
    f"'{PRINTED_GROWTH}' draws {STEP_ROWS} rows an iteration and accepts steps on others, as Algorithm 1; lambda* = 0 "
    f"is the same without conjugacy. Wolfe's method reads all rows in each of at most {MOST_ITERATIONS} iterations. "
    "Pegasos runs for as long as SCS, and a second time for as many rows as SCS draws. Kernel values are computed "
    "before any clock begins."
)


@dataclass(frozen=True)
class RaceTable:
    """Cells of accuracies, or of objectives after the first or last iterations where part says so.

    part : "" for the table, otherwise the iterations that a figure shows
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    part: Literal["", "first", "last"] = ""
    repeats: int = len(SEEDS)
    algorithms: tuple[str, ...] = ALGORITHMS
    code: tuple[str, ...] = CODE

    @property
    def files(self) -> dict[str, str]:
        """NAME of NAME.parquet of each data set."""
        return {name: case.file for name, case in cases().items()}

    @property
    def rule(self) -> str:
        """Return the criterion of a match."""
        return "" if self.part else f"better, or worse by at most {TOLERANCE.describe()}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return remarks on how the figures were measured."""
        return (PROBLEM, METHODS)

    def trials(self, request: TableRequest) -> list[RaceItem]:
        """None: all is settled."""
        return []

    def items(self, request: TableRequest, known: KnownOutcomes) -> list[RaceItem]:
        """One for each data set that is there and seed."""
        there = [case for case in self._cases(request) if request.data.has(case.file)]
        return [item for case in there for item in self._items(request, case)]

    def cells(self, request: TableRequest, known: KnownOutcomes) -> list[TableCell]:
        """One for each data set and algorithm."""
        return [self._cell(request, known, case, name) for case in self._cases(request) for name in request.algorithms]

    def beside(self, request: TableRequest, known: KnownOutcomes) -> list[dict[str, Any]]:
        """Rows to learn, and the accuracy of the majority class on the test rows."""
        rows = []
        for case in self._cases(request):
            row: dict[str, Any] = {"dataset": case.printed, "paper_rows": case.paper_rows}
            if request.data.has(case.file):
                outcomes = [known[item] for item in self._items(request, case)]
                row |= {"read": case.printed, "file": case.file, "rows": outcomes[0]["learnt"]}
                if not self.part:
                    row["constant"] = fmean(outcome["constant"] for outcome in outcomes)
            rows.append(row)
        return rows

    def curves(self, request: TableRequest, known: KnownOutcomes) -> dict[str, Any]:
        """Return the curves of a figure: for each data set and method [iteration, rows drawn, seconds, objective]."""
        found: dict[str, Any] = {}
        for case in self._cases(request) if self.part else ():
            if request.data.has(case.file):
                outcome = known[self._items(request, case)[0]]
                lines = {name: outcome["curves"][name][self.part] for name in request.algorithms if name != EXACT}
                found[case.printed] = {**lines, OPTIMUM: [[0.0, 0.0, 0.0, outcome["optimum"]]]}
        return found

    def pictures(self, curves: Mapping[str, Any]) -> list[PaperPicture]:
        """One for each data set."""
        return [PaperPicture(f"{name}, {self.part}", partial(draw_race, lines, name)) for name, lines in curves.items()]

    def _cases(self, request: TableRequest) -> list[ZhangCase]:
        return [cases()[name] for name in request.datasets]

    def _items(self, request: TableRequest, case: ZhangCase) -> list[RaceItem]:
        return [RaceItem(case, seed, bool(self.part)) for seed in range(request.repeats)]

    def _cell(self, request: TableRequest, known: KnownOutcomes, case: ZhangCase, algorithm: str) -> TableCell:
        metric = "objective" if self.part else "accuracy"
        accuracy, seconds = (None, None) if self.part else _printed(case.printed, algorithm)
        cell = TableCell(case.printed, algorithm, metric, accuracy, paper_seconds=seconds)
        if not request.data.has(case.file):
            return replace(cell, status=NO_DATA, note=f"{case.file}.parquet is not in --data")
        outcomes = [known[item] for item in self._items(request, case)]
        runs = [outcome["runs"][algorithm] for outcome in outcomes]
        more: dict[str, float | None] = {
            name: fmean(run[name] for run in runs) for name in ("objective", "excess", "drawn") if name != metric
        }
        note = "" if case.paper_rows <= MOST_ROWS else f"{case.n_rows:,} rows learnt, what a kernel matrix allows"
        cell = replace(cell, setting=_setting(case), more=more, note=note)
        taken = [run["seconds"] for run in runs]
        if self.part:
            values = [self._end(outcome, algorithm) for outcome in outcomes]
            return replace(cell.measured(values, taken, TOLERANCE), verdict=None, tolerance=None)
        measured = cell.measured([run["accuracy"] for run in runs], taken, TOLERANCE)
        return measured.beside(fmean(outcome["constant"] for outcome in outcomes), None)

    def _end(self, outcome: Outcome, algorithm: str) -> float:
        """The objective at the end of what the figure shows."""
        return float(outcome["curves"][algorithm][self.part][-1][3])


def _setting(case: ZhangCase) -> dict[str, Any]:
    return {"lam": case.lam, "bandwidth": "half the median distance" if case.bandwidth is None else case.bandwidth}


def _printed(dataset: str, algorithm: str) -> tuple[float | None, float | None]:
    """Accuracy and seconds; what is printed of SCS stands beside the paper's growth, too."""
    name = SCS if algorithm == PRINTED_GROWTH else algorithm
    found: dict[str, float | None] = {"accuracy": None, "time_seconds": None}
    for record in read_records(PACKAGE, "table1.csv"):
        if (record["dataset"], record["algorithm"]) == (dataset, name) and record["value"]:
            found[record["metric"]] = float(record["value"])
    return found["accuracy"], found["time_seconds"]


TABLE1 = RaceTable("zhang2024-table1", "Kernel SVM: accuracy and seconds of three methods", tuple(cases()))
FIGURE1 = RaceTable(
    "zhang2024-figure1", f"Kernel SVM: the objective in the first {SHOWN} iterations", PICTURED, "first", 1
)
FIGURE2 = RaceTable(
    "zhang2024-figure2", f"Kernel SVM: the objective in the last {SHOWN} iterations", PICTURED, "last", 1
)
