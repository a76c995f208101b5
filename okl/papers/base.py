"""Tables, cells, work items, printed numbers and data folders of a reproduction."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from itertools import cycle
from pathlib import Path
from statistics import fmean, stdev
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.data.executor import Rows
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, Precision, Task
from okl.report.figures import DARK, Theme, add_axes, empty_figure, png
from okl.report.format import metric_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Cells: printed and measured figures.

HIGHER_IS_BETTER = frozenset({"accuracy"})
EXACT = frozenset({"kappa_max", "lipschitz"})  # quantities of the data: another value is wrong on either side
MEASURED, NO_DATA, NO_LEARNER, DIVERGED = "measured", "no data", "no learner", "diverged"
HAIR = 0.02


@dataclass(frozen=True)
class Tolerance:
    """Largest accepted difference from the printed mean: the largest of the given terms.

    deviations : in units of the root of both variances; absolute : in the metric's unit; relative : of the printed mean
    """

    deviations: float = 0.0
    absolute: float = 0.0
    relative: float = 0.0

    def of(self, paper_mean: float, paper_sd: float | None, sd: float | None) -> float:
        """The tolerance, in the metric's unit."""
        spread = math.hypot(paper_sd or 0.0, sd or 0.0)
        return max(self.deviations * spread, self.absolute, self.relative * abs(paper_mean))

    def describe(self) -> str:
        """In words."""
        said = []
        if self.deviations:
            said.append(f"{self.deviations:g} sqrt(sd_paper^2 + sd_okl^2)")
        if self.absolute:
            said.append(f"{100 * self.absolute:g} points")
        if self.relative:
            said.append(f"{100 * self.relative:g}% of the paper's mean")
        return said[0] if len(said) == 1 else f"the larger of {' and '.join(said)}"


@dataclass(frozen=True)
class TableCell:
    """Printed and measured figure of one algorithm on one data set (at one point of a study).

    mean, sd : over repeats orders; sd with repeats - 1 in the denominator, None for one order; None if not measured
    seconds : mean seconds of learning alone, an order; relative_seconds : of FOGD's on the same set, in the same run
    difference : okl minus paper, in the metric's unit; deviations : the same in units of the root of both variances
    verdict : "within", "better" (by more than the tolerance), "worse", None where there is nothing to compare; a
        quantity of the data is never better
    constant, linear : the metric of the majority class or mean, and of a linear model; None if not known
    like_constant : the mean is a hair from that of the constant predictor: nothing was learnt, whatever the verdict
    setting : all that was set, and how it was chosen; point : where in a study, such as {"budget": 100}
    more : other figures, by name; status : "measured", or why not; note : what else a reader must know
    """

    dataset: str
    algorithm: str
    metric: str
    paper_mean: float | None = None
    paper_sd: float | None = None
    paper_seconds: float | None = None
    mean: float | None = None
    sd: float | None = None
    repeats: int = 0
    seconds: float | None = None
    relative_seconds: float | None = None
    difference: float | None = None
    deviations: float | None = None
    tolerance: float | None = None
    verdict: str | None = None
    constant: float | None = None
    linear: float | None = None
    like_constant: bool = False
    setting: dict[str, Any] = field(default_factory=dict)
    point: dict[str, float] = field(default_factory=dict)
    more: dict[str, float | None] = field(default_factory=dict)
    status: str = MEASURED
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """All fields, by name."""
        return asdict(self)

    def measured(self, values: Sequence[float], seconds: Sequence[float], tolerance: Tolerance) -> TableCell:
        """The cell with the metric and the seconds of each order, and its verdict if the paper prints a number."""
        mean, sd = fmean(values), stdev(values) if len(values) > 1 else None
        cell = replace(self, mean=mean, sd=sd, repeats=len(values), seconds=fmean(seconds))
        if self.paper_mean is None:
            return cell
        difference, allowed = mean - self.paper_mean, tolerance.of(self.paper_mean, self.paper_sd, sd)
        spread = math.hypot(self.paper_sd or 0.0, sd or 0.0)
        worse = -difference if self.metric in HIGHER_IS_BETTER else difference
        if self.metric in EXACT:
            worse = abs(difference)
        return replace(
            cell,
            difference=difference,
            deviations=difference / spread if spread > 0 else None,
            tolerance=allowed,
            verdict="worse" if worse > allowed else "better" if -worse > allowed else "within",
        )

    def beside(self, constant: float | None, linear: float | None) -> TableCell:
        """The cell with the predictors that use no kernel, and whether it is a hair from the constant one."""
        mean = self.mean
        hair = mean is not None and constant is not None and _is_hair(self.metric, mean, constant)
        return replace(self, constant=constant, linear=linear, like_constant=hair)


def relative_to(algorithm: str, cells: Sequence[TableCell]) -> list[TableCell]:
    """The cells, each with its seconds in units of those of an algorithm on the same data set and point, if known."""
    reference = {(c.dataset, tuple(c.point.items())): c.seconds for c in cells if c.algorithm == algorithm}
    found = []
    for cell in cells:
        unit = reference.get((cell.dataset, tuple(cell.point.items())))
        known = cell.seconds is not None and unit
        found.append(replace(cell, relative_seconds=cell.seconds / unit) if known else cell)  # type: ignore[operator]
    return found


def _is_hair(metric: str, mean: float, constant: float) -> bool:
    """Return whether an error is within 2% of that of the predictor that ignores the inputs."""
    if metric in HIGHER_IS_BETTER:
        mean, constant = 1.0 - mean, 1.0 - constant
    return abs(mean - constant) <= HAIR * constant


# Printed numbers from CSV files.


@dataclass(frozen=True)
class PrintedCell:
    """A cell of a table as printed; mean and sd as fractions or in the unit of the metric, None where not printed."""

    dataset: str
    algorithm: str
    metric: str
    mean: float
    sd: float | None


@cache
def read_records(package: str, file: str) -> tuple[dict[str, str], ...]:
    """Lines of a CSV file of a package, each by the names in the header."""
    with (resources.files(package) / file).open("r", encoding="utf-8") as stream:
        return tuple(csv.DictReader(stream))


def read_printed(package: str, file: str) -> tuple[PrintedCell, ...]:
    """Cells of a file with the columns dataset, algorithm, metric, mean and std; those without a mean are left out."""
    return tuple(
        PrintedCell(
            record["dataset"],
            record["algorithm"],
            record["metric"],
            float(record["mean"]),
            float(record["std"]) if record["std"] else None,
        )
        for record in read_records(package, file)
        if record["mean"]
    )


# Data folders.

Whose = Literal["authors", "seeded"]
APART = ("y", "split")
MOST_HELD = 2
_held: OrderedDict[tuple[str, int, Selection, str], Rows] = OrderedDict()
_held_lock = Lock()


@dataclass(frozen=True)
class Selection:
    """Rows of NAME.parquet that take part, and their scaling.

    split : of a file that has one; "all" takes every row
    minmax : inputs, and the target of a regression, to [0, 1]; constant columns to 0
    """

    name: str
    task: Task
    split: Literal["all", "train", "test"] = "all"
    minmax: bool = False


@dataclass(frozen=True)
class DataFolder:
    """A folder of NAME.parquet (float columns, label y, perhaps a text column split) and perms/NAME_perms.parquet."""

    path: str

    def file(self, name: str) -> Path:
        """Return where a data set is, whether it is there or not."""
        return Path(self.path) / f"{name}.parquet"

    def orders_file(self, name: str) -> Path:
        """Return where the authors' orders are, whether they are there or not."""
        return Path(self.path) / "perms" / f"{name}_perms.parquet"

    def has(self, name: str) -> bool:
        """Return whether the data set is there."""
        return self.file(name).is_file()

    def check(self) -> None:
        """Raise ConfigError unless the folder is there."""
        if not self.path:
            raise ConfigError("--data is missing. Give the folder that holds NAME.parquet.")
        if not Path(self.path).is_dir():
            raise ConfigError(f"--data {self.path} is not a folder. Give the one that holds NAME.parquet.")

    def digest(self, name: str) -> str:
        """The sha256 of a data set's bytes and of the authors' orders of its rows; kept, as every item asks for it."""
        if name not in self._digests:
            digest = hashlib.sha256()
            for path in (self.file(name), self.orders_file(name)):
                if path.is_file():
                    with path.open("rb") as stream:
                        digest.update(hashlib.file_digest(stream, "sha256").digest())
            self._digests[name] = digest.hexdigest()
        return self._digests[name]

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {}

    def has_split(self, name: str) -> bool:
        """Return whether a data set that is there tells training from test rows."""
        with _readable(self.file(name)) as path:
            return "split" in pq.read_schema(path).names

    def count(self, selection: Selection) -> int:
        """Rows of a selection, without reading its inputs."""
        key = (selection.name, selection.split)
        if key not in self._counts:
            with _readable(self.file(selection.name)) as path:
                file = pq.ParquetFile(path)
                if selection.split == "all" or "split" not in file.schema_arrow.names:
                    self._counts[key] = int(file.metadata.num_rows)
                else:
                    split = file.read(["split"])["split"].to_numpy(zero_copy_only=False)
                    self._counts[key] = int((split == selection.split).sum())
        return self._counts[key]

    @cached_property
    def _counts(self) -> dict[tuple[str, str], int]:
        return {}

    def rows(self, selection: Selection, precision: Precision) -> Rows:
        """The rows of a selection, as stored; the last two selections stay in memory, and must not be written into.

        Raises
        ------
        DataError : the file cannot be read, or does not hold what the task takes
        """
        path = self.file(selection.name)
        if not path.is_file():
            raise DataError(f"{path} is not there. Put the data set there, or leave it out of --datasets.")
        key = (str(path), path.stat().st_mtime_ns, selection, precision)
        with _held_lock:  # two threads that need the same rows read them once
            if key not in _held:
                _held[key] = _read(path, selection, precision)
            _held.move_to_end(key)
            while len(_held) > MOST_HELD:
                _held.popitem(last=False)
            return _held[key]

    def has_orders(self, name: str) -> bool:
        """Return whether the authors' own orders are there."""
        return self.orders_file(name).is_file()

    def order(self, name: str, n_rows: int, number: int, whose: Whose) -> NDArray[np.int64]:
        """One order of the rows of a set: the authors' by its number where they are asked for and there, else seeded.

        Raises
        ------
        DataError : the authors' file has no order of this number, or not of these rows
        """
        path = self.orders_file(name)
        if whose == "seeded" or not path.is_file():
            drawn: NDArray[np.int64] = np.random.default_rng(number).permutation(n_rows)
            return drawn
        table = pq.read_table(path)
        column = f"run{number}"
        if column not in table.column_names:
            raise DataError(
                f"{path} holds {table.num_columns} orders, but one more was asked for. Use fewer --repeats, or "
                "--orders seeded."
            )
        order: NDArray[np.int64] = table[column].to_numpy().astype(np.int64)
        if len(order) != n_rows or (np.sort(order) != np.arange(n_rows)).any():
            raise DataError(f"{path}, column {column}: not an order of the {n_rows:,} rows. Use --orders seeded.")
        return order


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    """Turn what Arrow says of a bad file into one sentence."""
    try:
        yield path
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read as a data set ({error}). Make it anew.") from None


def _read(path: Path, selection: Selection, precision: Precision) -> Rows:
    with _readable(path):
        table = pq.read_table(path)
        names = [name for name in table.column_names if name not in APART]
        if "y" not in table.column_names or not names:
            raise DataError(f"{path} holds {table.column_names}, but it takes inputs and a column y.")
        if selection.split != "all" and "split" in table.column_names:
            table = table.filter(pa.array(table["split"].to_numpy(zero_copy_only=False) == selection.split))
        inputs = np.empty((table.num_rows, len(names)), dtype=precision)
        for position, name in enumerate(names):  # one column at a time: no second copy of a large set in float64
            column = table[name].to_numpy().astype(np.float64)
            inputs[:, position] = _to_unit(column) if selection.minmax else column
        targets = table["y"].to_numpy().astype(np.float64)
    _check(path, selection, inputs, targets)
    scaled = _to_unit(targets) if selection.minmax and selection.task == "regression" else targets
    return Rows(inputs, scaled)


def _check(path: Path, selection: Selection, inputs: FloatArray, targets: NDArray[np.float64]) -> None:
    if not len(targets):
        raise DataError(f"{path} has no rows of the split {selection.split!r}.")
    if not (np.isfinite(inputs).all() and np.isfinite(targets).all()):
        raise DataError(f"{path} holds values that are missing or infinite. Drop or mend these rows.")
    if selection.task == "binary" and not (np.abs(targets) == 1.0).all():
        raise DataError(f"{path}, column y: two classes are -1 and +1, but other labels came.")
    if selection.task == "multiclass" and not ((targets >= 0) & (targets == np.floor(targets))).all():
        raise DataError(f"{path}, column y: classes are 0, 1, 2, ..., but other labels came.")


def _to_unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A column to [0, 1]; a constant one to 0."""
    low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
    scaled: NDArray[np.float64] = (values - low) / (high - low if high > low else 1.0)
    return scaled


# Work items, each with a result file.

Outcome = dict[str, Any]
"""What came of an item, as JSON; "error" is the metric, None if the learner diverged."""


class WorkItem(Protocol):
    """A frozen, picklable piece of work that depends on no other one."""

    @property
    def name(self) -> str:
        """Readable, and different from that of every other item of its table."""
        ...

    @property
    def dataset(self) -> str:
        """The data set it reads, "" for none."""
        ...

    @property
    def rows(self) -> int:
        """Rows that it learns."""
        ...

    @property
    def cost(self) -> float:
        """About how long it takes, in any unit: the longest begin first."""
        ...

    def describe(self) -> dict[str, Any]:
        """All that decides the outcome, but for the data and the code, as JSON."""
        ...

    def run(self, folder: DataFolder, check: Callable[[], None]) -> Outcome:
        """Do the work; check raises if nobody wants the outcome any more, and is called every second or so."""
        ...


class Stopped(Exception):  # noqa: N818  (no error: nobody wants the outcome any more)
    """The run was stopped while the item was worked on."""


class Stop:
    """Tells the threads of this process to stop; in another process nobody can, and it ends with its process."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def __reduce__(self) -> tuple[type[Stop], tuple[()]]:
        return Stop, ()

    def ask(self) -> None:
        """From now on `check` raises."""
        self._asked.set()

    def check(self) -> None:
        """Raise Stopped if that was asked for."""
        if self._asked.is_set():
            raise Stopped


@dataclass(frozen=True)
class Archive:
    """Outcomes as files of a folder, named by the item and a digest of all that decides them.

    place : folder of the files; data : where items read; code : digest of the sources that decide outcomes
    """

    place: str
    data: DataFolder
    code: str

    def path(self, item: WorkItem) -> Path:
        """The file of an item: another one if its settings, its data or the code change."""
        described = json.dumps([item.name, item.describe(), self.code, self.data.digest(item.dataset)], sort_keys=True)
        digest = hashlib.sha256(described.encode()).hexdigest()[:16]
        return Path(self.place) / f"{re.sub(r'[^A-Za-z0-9.+=-]+', '_', item.name)}.{digest}.json"

    def read(self, item: WorkItem) -> Outcome | None:
        """The outcome of an item that is done, else None."""
        try:
            outcome: Outcome = json.loads(self.path(item).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.path(item)} cannot be read ({error}). Remove it, and run again.") from None
        return outcome

    def write(self, item: WorkItem, outcome: Outcome) -> None:
        """Keep an outcome: the file is whole or not there."""
        path = self.path(item)
        beside = path.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            beside.write_text(json.dumps(outcome, allow_nan=False), encoding="utf-8")
            os.replace(beside, path)
        finally:
            with suppress(FileNotFoundError):
                beside.unlink()


@dataclass(frozen=True)
class ItemWork:
    """Works on an item wherever it is called, and keeps the outcome before it hands it out."""

    archive: Archive
    stop: Stop = field(default_factory=Stop)

    def __call__(self, item: WorkItem) -> Outcome:
        """The outcome of an item."""
        self.stop.check()
        outcome = item.run(self.archive.data, self.stop.check)
        self.archive.write(item, outcome)
        return outcome


@cache
def code_digest(parts: tuple[str, ...]) -> str:
    """A digest of the sources of some modules and packages of okl, by their names below it."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for part in parts:
        path = root / part.replace(".", "/")
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            digest.update(source.relative_to(root).as_posix().encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


# The interface of tables.


@dataclass(frozen=True)
class TableRequest:
    """Request to a table: names are checked, in the order of the table.

    searched : candidates for every setting that has some, even where one is stated
    """

    data: DataFolder
    datasets: tuple[str, ...]
    algorithms: tuple[str, ...]
    repeats: int
    orders: Whose = "authors"
    searched: bool = False
    precision: Precision = "float32"


@dataclass(frozen=True)
class KnownOutcomes:
    """Outcomes of the items that are done, by name."""

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    def __getitem__(self, item: WorkItem) -> Outcome:
        return self.outcomes[item.name]


ORDERS_REMARK = (
    "Mean and standard deviation over orders of the rows; seconds of learning alone, an order on one thread, measured "
    "beside each other."
)


class PaperPicture(NamedTuple):
    """A picture to draw in a theme."""

    title: str
    draw: Callable[[Theme], bytes]


class PaperTable(Protocol):
    """A table or a study of a paper: what to run, and what its numbers are called."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names as printed, in the order of the paper."""
        ...

    @property
    def algorithms(self) -> tuple[str, ...]: ...

    @property
    def repeats(self) -> int:
        """As many orders as the paper took."""
        ...

    @property
    def code(self) -> tuple[str, ...]:
        """Modules and packages, by their names below okl, whose sources decide the outcome of an item."""
        ...

    @property
    def rule(self) -> str:
        """Return the criterion of a match as a sentence; "" where there is nothing to compare."""
        ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on how the numbers came about."""
        ...

    def trials(self, request: TableRequest) -> Sequence[WorkItem]:
        """Items that must be known before `items` can say which settings are taken; none if all is settled."""
        ...

    def items(self, request: TableRequest, known: KnownOutcomes) -> Sequence[WorkItem]:
        """Items whose outcomes are reported."""
        ...

    def cells(self, request: TableRequest, known: KnownOutcomes) -> list[TableCell]:
        """A cell for each data set and algorithm asked for, those that could not be measured too."""
        ...

    def beside(self, request: TableRequest, known: KnownOutcomes) -> list[dict[str, Any]]:
        """Flat rows about each data set: rows, what stands in for it, the constant predictor, the linear model."""
        ...

    def curves(self, request: TableRequest, known: KnownOutcomes) -> dict[str, Any]:
        """The figures behind the pictures, as JSON."""
        ...

    def pictures(self, curves: Mapping[str, Any]) -> list[PaperPicture]:
        """Pictures of these figures."""
        ...


# Figures.

Lines = Mapping[str, Sequence[Sequence[float]]]
COLOURS = ("#1f6fb2", "#b4572a", "#2e8b57", "#8e5ea2", "#c2a100", "#c0392b", "#17a2b8", "#7f8c8d", "#e377c2", "#5b6b1f")
BRIGHT = ("#6cb2ee", "#e99a6c", "#6fcf97", "#c39bd3", "#f2d24b", "#f1948a", "#76d7ea", "#bdc3c7", "#f5b7d8", "#b5c76b")
FEW_POINTS = 12
CONSTANT = "constant"
PANEL_GAP = {"linear": "--", CONSTANT: ":"}


def draw_lines(lines: Lines, title: str, x: str, metric: str, theme: Theme) -> bytes:
    """Draw error and seconds against x.

    Parameters
    ----------
    lines : for each name points [x, error, seconds] and, where there is one, the constant predictor's error
    title : of the picture; x : what x is; metric : what the error is
    """
    figure = empty_figure(9.2, 3.6, theme)
    left, right = (add_axes(figure, theme, (1, 2, place)) for place in (1, 2))
    left.set_title(f"{title}: {metric_name(metric).lower()}", loc="left", fontsize=10, color=theme.ink)
    right.set_title("seconds of learning", loc="left", fontsize=10, color=theme.ink)
    colours = cycle(BRIGHT if theme is DARK else COLOURS)
    constant: np.ndarray[Any, np.dtype[np.float64]] | None = None
    shown = []
    for name, values in lines.items():
        points = np.array(values, dtype=np.float64)
        dash = PANEL_GAP.get(name, "-")
        colour = theme.ink if name in PANEL_GAP else next(colours)
        style: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.5}
        style["marker"] = "o" if len(points) < FEW_POINTS else ""
        left.plot(points[:, 0], points[:, 1], label=name, **style)
        if name not in PANEL_GAP:
            right.plot(points[:, 0], np.maximum(points[:, 2], 1e-6), **style)
        if points.shape[1] > 3:
            constant = points
        shown.append(points[:, 1])
    if constant is not None:
        left.plot(constant[:, 0], constant[:, 3], label=CONSTANT, color=theme.ink, linestyle=":", linewidth=1.2)
        shown.append(constant[:, 3])
    _frame(left, x, theme, _range(shown))
    right.set_yscale("log")
    _frame(right, x, theme, None)
    legend = figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    for text in legend.get_texts():
        text.set_color(theme.ink)
        text.set_fontsize(8.5)
    return png(figure)


def _frame(axes: Axes, x: str, theme: Theme, limits: tuple[float, float] | None) -> None:
    axes.set_xlabel(x)
    axes.tick_params(which="both", colors=theme.ink, labelsize=9)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    if limits is not None:
        axes.set_ylim(*limits)


def _range(errors: Sequence[np.ndarray[Any, np.dtype[np.float64]]]) -> tuple[float, float] | None:
    """Limits that show the later part of every line: the first rows' errors are large and say little."""
    later = np.concatenate([error[len(error) // 8 :] for error in errors])
    low, high = float(later.min()), float(later.max())
    room = 0.06 * (high - low) or 0.05 * max(high, 1e-6)
    return max(0.0, low - room), high + room
