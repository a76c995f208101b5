"""Tables, cases, cells, work items and data folders of a reproduction."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, lru_cache, partial
from importlib import resources
from pathlib import Path
from statistics import fmean, stdev
from threading import Event, Lock
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.data.execution import Rows
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.folders import write_durably
from okl.foundation.types import Precision, Task
from okl.report.blocks import Figure
from okl.report.figures import BASELINES, Panel, side_by_side
from okl.report.format import metric_name
from okl.solvers.oco.runs import growth_interval

# Cells: printed and measured numbers, and the verdict.

HIGHER_IS_BETTER = frozenset({"accuracy"})
EXACT = frozenset({"kappa_max", "lipschitz"})  # properties of the data: a deviation in either direction is an error
MEASURED, NO_DATA, DIVERGED, NOT_MEASURED = "measured", "no data", "diverged", "not measured"
REPRODUCED, BETTER, WORSE = "reproduced", "better", "worse"
REFERENCE = "FOGD"  # the algorithm whose seconds are the unit of relative seconds
WIDEST = 3.0  # times the printed standard deviation: by chance 3e-5 for 10 and 20 orders of the same spread
CONSTANT_SHARE = 0.1  # of the printed mean's distance from the constant predictor: the most that points may allow


@cache
def frozen_settings() -> dict[str, Any]:
    """Return the frozen settings, margins and causes of all papers, from the file whose digest a report prints."""
    return tomllib.loads((resources.files("okl.papers") / "frozen.toml").read_text(encoding="utf-8"))


@cache
def frozen_digest() -> str:
    """Return the first 16 digits of the sha256 of frozen.toml."""
    return hashlib.sha256((resources.files("okl.papers") / "frozen.toml").read_bytes()).hexdigest()[:16]


GROWTH_MARGIN: float = frozen_settings()["growth"]["margin"]
GROWTH_RULE = f"the 95% interval of each exponent reaches down to the published one and at most {GROWTH_MARGIN:g} above"


@dataclass(frozen=True)
class Margin:
    """Largest difference between two true means that counts as none, fixed for a table before it is run.

    relative : share of the printed mean, and at least half of its last digit
    points : in the metric's unit, and at most a tenth of the printed mean's distance from the constant predictor's
    """

    relative: float = 0.0
    points: float = 0.0

    @classmethod
    def of_table(cls, name: str) -> Margin:
        return cls(**frozen_settings()["margins"][name])

    def of(self, printed: float, unit: float, constant: float | None) -> float:
        """Return the margin of a cell; unit : of its last digit; constant : metric of the constant predictor."""
        if self.points:
            return self.points if constant is None else min(self.points, CONSTANT_SHARE * abs(printed - constant))
        return max(self.relative * abs(printed), 0.5 * unit) if self.relative else 0.0

    @property
    def rule(self) -> str:
        """Return the criterion of a reproduced cell."""
        size = f"{100 * self.relative:g}% of the printed mean" if self.relative else "0"
        points = f"{100 * self.points:g} points, or a tenth of the printed mean's distance from the constant predictor"
        size = points if self.points else size
        return (
            f"a difference of at most {size}, and 2 standard errors of both and the rounding, in either direction, and "
            f"at most {WIDEST:g} times the printed standard deviation"
        )


@dataclass(frozen=True)
class TableCell:
    """Printed and measured value of one metric of one algorithm on one data set (at one point of a study).

    paper_mean, paper_sd : printed, over paper_repeats orders; paper_unit : of the last printed digit
    mean, sd : over `repeats` orders; sd with repeats - 1 in the denominator, None for one order; None if not measured
    seconds : mean training seconds of an order; relative_seconds : in units of FOGD's on the same data set and point
    difference : okl minus paper, in the metric's unit; standard_error : of the difference
    margin : largest difference that counts as none; two standard errors are added to it
    verdict : "reproduced" within both, else "better" or "worse"; None without a printed number; a property of the
        data is never better; a spread beyond 3 times the printed one is worse
    no_information : the constant predictor of the same rows, or the printed rival, has the same verdict "reproduced";
        of a growth, there is no exponent, or its interval includes both the published one and more
    not_told_apart : reproduced, but a planted bug of the same algorithm is, too: see [not_told_apart] of frozen.toml
    blind : no setting was chosen on this data set
    constant, linear : the metric of the majority class or mean, and of a linear model; None if not measured
    rival : printed mean of the simplest algorithm of the same kind, None if there is none
    setting : all parameters, and how they were chosen; point : position in a study, such as {"budget": 100}
    more : further values by name; status : "measured", or why not; note : remark
    claim : a statement in place of a printed number: the metric is 0 within the margin or, without one, below 0
    """

    dataset: str
    algorithm: str
    metric: str
    paper_mean: float | None = None
    paper_sd: float | None = None
    paper_seconds: float | None = None
    paper_unit: float = 0.0
    paper_repeats: int = 1
    mean: float | None = None
    sd: float | None = None
    repeats: int = 0
    seconds: float | None = None
    relative_seconds: float | None = None
    difference: float | None = None
    standard_error: float | None = None
    margin: float | None = None
    verdict: str | None = None
    no_information: bool = False
    not_told_apart: bool = False
    blind: bool = False
    constant: float | None = None
    linear: float | None = None
    rival: float | None = None
    setting: Mapping[str, Any] = field(default_factory=dict)
    point: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, float | None] = field(default_factory=dict)
    status: str = MEASURED
    note: str = ""
    claim: str = ""

    def measured(self, values: Sequence[float], seconds: Sequence[float]) -> TableCell:
        """Return the cell with the metric and the seconds of each order, and its difference from the printed mean."""
        sd = stdev(values) if len(values) > 1 else None
        return replace(self, mean=fmean(values), sd=sd, repeats=len(values), seconds=fmean(seconds)).compared()

    def compared(self) -> TableCell:
        """Return a measured cell with its difference from the printed mean, and the standard error of both.

        (s^2 / R + min(s, t)^2 / r + u^2 / 12)^(1/2), with s, R the printed standard deviation and repeats, t, r the
        measured ones, u the unit of the last digit: a wrong algorithm that varies more is not allowed more.
        """
        if self.paper_mean is None or self.mean is None:
            return self
        printed = self.paper_sd or 0.0
        # a single order has no spread of its own: the printed one stands for it
        own = (
            printed
            if self.sd is None
            else self.sd
            if self.paper_sd is None
            else min(self.sd, printed + 0.5 * self.paper_unit)
        )
        error = math.sqrt(printed**2 / self.paper_repeats + own**2 / self.repeats + self.paper_unit**2 / 12.0)
        return replace(self, difference=self.mean - self.paper_mean, standard_error=error)

    def judged(self, margin: Margin | None) -> TableCell:
        """Return a measured cell with its verdict, if it has a printed number and a margin.

        |okl - paper| <= margin + 2 standard errors

        is the usual two-sided equivalence of means, with a margin that no spread can widen. A standard deviation beyond
        3 times the printed one is worse, whatever the mean.
        """
        if self.difference is None or self.paper_mean is None or self.standard_error is None:
            return self
        if margin is None:
            holds = self.difference < -2.0 * self.standard_error
            return replace(self, verdict=REPRODUCED if holds else WORSE) if self.claim else self
        size = margin.of(self.paper_mean, self.paper_unit, self.constant)
        allowed = size + 2.0 * self.standard_error
        worse = -self.difference if self.metric in HIGHER_IS_BETTER else self.difference
        verdict = REPRODUCED if abs(worse) <= allowed else WORSE if worse > 0 or self.metric in EXACT else BETTER
        if self.sd is not None and self.paper_sd is not None:
            verdict = WORSE if self.sd > WIDEST * (self.paper_sd + 0.5 * self.paper_unit) else verdict
        trivial = [value for value in (self.constant, self.rival) if value is not None]
        passes = any(abs(value - self.paper_mean) <= allowed for value in trivial)
        return replace(self, margin=size, verdict=verdict, no_information=passes)


def judged_growth(cell: TableCell, points: Mapping[str, float], values: NDArray[np.float64]) -> TableCell:
    """Return the cell with the exponent of growth of the mean values (sizes, repeats), and its 95% interval.

    It is worse if the interval lies above the published exponent, and has no information if its upper end is more than
    the frozen margin above it; a mean that is not above 0 has no exponent, and the cell no information, either.
    points : sizes by name, under which the means are shown
    """
    means = {name: float(mean) for name, mean in zip(points, values.mean(axis=1), strict=True)}
    cell = replace(cell, repeats=values.shape[1], more=means)
    if min(means.values()) <= 1e-9:
        return replace(cell, verdict=REPRODUCED, no_information=True)
    exponent, low, high = (round(value, 9) + 0.0 for value in growth_interval(list(points.values()), values))
    published = cell.paper_mean or 0.0
    verdict, wide = REPRODUCED if low <= published else WORSE, high > published + GROWTH_MARGIN
    more = {"low": low, "high": high, **means}
    return replace(cell, mean=exponent, more=more, verdict=verdict, no_information=verdict == REPRODUCED and wide)


def counts_of(cells: Iterable[TableCell]) -> dict[str, int]:
    """Return how many cells are reproduced, better, worse, without information, and no different from a bug."""
    judged = [cell for cell in cells if cell.verdict]
    counted = [cell for cell in judged if not (cell.no_information or cell.not_told_apart)]
    counts = {verdict: sum(cell.verdict == verdict for cell in counted) for verdict in (REPRODUCED, BETTER, WORSE)}
    nothing = sum(cell.no_information for cell in judged)
    return counts | {"no information": nothing, "not told apart": len(judged) - len(counted) - nothing}


def relative_to(algorithm: str, cells: Sequence[TableCell]) -> list[TableCell]:
    """Return the cells with their seconds in units of an algorithm's seconds on the same data set and point."""
    units = {(c.dataset, tuple(c.point.items())): c.seconds for c in cells if c.algorithm == algorithm}
    paired = [(cell, units.get((cell.dataset, tuple(cell.point.items())))) for cell in cells]
    return [replace(c, relative_seconds=c.seconds / u) if c.seconds is not None and u else c for c, u in paired]


# Printed numbers from CSV files.

Record = Mapping[str, str]


@dataclass(frozen=True)
class Quantity:
    """Reported metric of a case, with the printed numbers.

    margin : None to report without a verdict; paper_unit : of the last printed digit; more : further printed numbers
    claim : a statement of the paper, with 0 for paper_mean: see TableCell
    rival : printed mean of the simplest algorithm of the same kind: see TableCell
    """

    metric: str
    paper_mean: float | None = None
    paper_sd: float | None = None
    paper_seconds: float | None = None
    paper_unit: float = 0.0
    margin: Margin | None = None
    more: Mapping[str, float | None] = field(default_factory=dict)
    claim: str = ""
    rival: float | None = None


@cache
def read_records(package: str, file: str) -> tuple[dict[str, str], ...]:
    """Return the lines of a CSV file of a package by the names in the header."""
    with (resources.files(package) / file).open("r", encoding="utf-8") as stream:
        return tuple(csv.DictReader(stream))


def printed_number(record: Record, name: str) -> float | None:
    """Return a number of a record, None if the field is missing or empty."""
    return float(record[name]) if record.get(name) else None


def printed_unit(number: str) -> float:
    """Return the unit of the last digit of a printed number, 0 of none.

    >>> printed_unit("0.352"), printed_unit("1.43E+05"), printed_unit("25")
    (0.001, 1000.0, 1.0)
    """
    return 10.0 ** Decimal(number).as_tuple().exponent if number else 0.0  # type: ignore[operator]


def read_printed(package: str, file: str) -> dict[tuple[str, str, str], Quantity]:
    """Return the printed numbers of a file by its columns dataset, algorithm and metric; without a mean: left out."""
    return {
        (r["dataset"], r["algorithm"], r["metric"]): Quantity(
            r["metric"], float(r["mean"]), printed_number(r, "std"), paper_unit=printed_unit(r["mean"])
        )
        for r in read_records(package, file)
        if r["mean"]
    }


# Data folders.

OrderSource = Literal["authors", "seeded"]
NOT_INPUTS = ("y", "split")
_read_lock = Lock()


@dataclass(frozen=True)
class RowSelection:
    """Rows of NAME.parquet that take part, and their scaling.

    split : part of a file that has a column split; "all" takes every row
    minmax : scale inputs, and the target of a regression, to [0, 1]; constant columns to 0
    """

    name: str
    task: Task
    split: Literal["all", "train", "test"] = "all"
    minmax: bool = False


@dataclass(frozen=True)
class DataFolder:
    """A folder of NAME.parquet (float columns, label y, optional text column split) and perms/NAME_perms.parquet."""

    path: str
    _digests: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _counts: dict[tuple[str, str], int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def file(self, name: str) -> Path:
        return Path(self.path) / f"{name}.parquet"

    def orders_file(self, name: str) -> Path:
        return Path(self.path) / "perms" / f"{name}_perms.parquet"

    def has(self, name: str) -> bool:
        return self.file(name).is_file()

    def check(self) -> None:
        if not self.path:
            raise ConfigError("--data is missing. Give the folder that holds NAME.parquet.")
        if not Path(self.path).is_dir():
            raise ConfigError(f"--data {self.path} is not a folder. Give the one that holds NAME.parquet.")

    def digest(self, name: str) -> str:
        """Return the sha256 of a data set and of the authors' orders of its rows; cached, as every item needs it."""
        if name not in self._digests:
            digest = hashlib.sha256()
            for path in (self.file(name), self.orders_file(name)):
                if path.is_file():
                    with path.open("rb") as stream:
                        digest.update(hashlib.file_digest(stream, "sha256").digest())
            self._digests[name] = digest.hexdigest()
        return self._digests[name]

    def has_split(self, name: str) -> bool:
        with _readable(self.file(name)) as path:
            return "split" in pq.read_schema(path).names

    def task(self, name: str) -> Task:
        """Return the task of a data set by its column y, or DataError if a column is missing or holds no numbers."""
        path = self.file(name)
        with _readable(path):
            schema = pq.read_schema(path)
            if "y" not in schema.names:
                raise DataError(f"{path} has no column y. Expected inputs, y and, if there are test rows, split.")
            for column in schema:
                if column.name != "split" and not pa.types.is_primitive(column.type):
                    raise DataError(f"{path}, column {column.name} is {column.type}, not numbers. Encode it.")
            values = np.unique(pq.read_table(path, columns=["y"])["y"].to_numpy().astype(np.float64))
        values = values[np.isfinite(values)]
        if np.isin(values, (-1.0, 1.0)).all():
            return "binary"
        return "multiclass" if ((values >= 0) & (values == np.floor(values))).all() else "regression"

    def count(self, selection: RowSelection) -> int:
        """Return the number of rows of a selection without reading the inputs."""
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

    def rows(self, selection: RowSelection, precision: Precision) -> Rows:
        """Read the rows in stored order, or raise DataError; two selections are cached: do not write into them."""
        path = self.file(selection.name)
        if not path.is_file():
            raise DataError(f"{path} does not exist. Add the data set, or leave it out of --datasets.")
        with _read_lock:  # two threads that need the same rows read them once
            return _read(path, path.stat().st_mtime_ns, selection, precision)

    def order(self, name: str, n_rows: int, number: int, source: OrderSource) -> NDArray[np.int64]:
        """Return the authors' order of this number if requested and available, else a seeded one; or DataError."""
        path = self.orders_file(name)
        if source == "seeded" or not path.is_file():
            drawn: NDArray[np.int64] = np.random.default_rng(number).permutation(n_rows)
            return drawn
        table = pq.read_table(path)
        column = f"run{number}"
        if column not in table.column_names:
            raise DataError(
                f"{path} holds {table.num_columns} orders, but order {number} was requested. Use fewer --repeats, or "
                "--orders seeded."
            )
        order: NDArray[np.int64] = table[column].to_numpy().astype(np.int64)
        if len(order) != n_rows or (np.sort(order) != np.arange(n_rows)).any():
            raise DataError(f"{path}, column {column}: not an order of the {n_rows:,} rows. Use --orders seeded.")
        return order


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    """Turn Arrow's errors on a bad file into a DataError."""
    try:
        yield path
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} cannot be read as a data set ({error}). Create it again.") from None


@lru_cache(maxsize=2)
def _read(path: Path, _modified: int, selection: RowSelection, precision: Precision) -> Rows:
    with _readable(path):
        table = pq.read_table(path)
        names = [name for name in table.column_names if name not in NOT_INPUTS]
        if "y" not in table.column_names or not names:
            raise DataError(f"{path} holds the columns {table.column_names}. Expected inputs and a column y.")
        chosen: Any = slice(None)
        if selection.split != "all" and "split" in table.column_names:
            chosen = table["split"].to_numpy(zero_copy_only=False) == selection.split
        targets = table["y"].to_numpy().astype(np.float64)[chosen]
        inputs = np.empty((len(targets), len(names)), dtype=precision)
        for position, name in enumerate(names):  # one column at a time: no second copy of a large set in float64
            column = table[name].to_numpy().astype(np.float64)
            # scaled by all rows of the file: training and test rows share the scale
            inputs[:, position] = (_to_unit(column) if selection.minmax else column)[chosen]
    if not len(targets):
        raise DataError(f"{path} has no rows of the split {selection.split!r}.")
    if not (np.isfinite(inputs).all() and np.isfinite(targets).all()):
        raise DataError(f"{path} holds missing or infinite values. Remove or repair these rows.")
    if selection.task == "binary" and not (np.abs(targets) == 1.0).all():
        raise DataError(f"{path}, column y: two classes must be -1 and +1.")
    if selection.task == "multiclass" and not ((targets >= 0) & (targets == np.floor(targets))).all():
        raise DataError(f"{path}, column y: classes must be 0, 1, 2, ....")
    return Rows(inputs, _to_unit(targets) if selection.minmax and selection.task == "regression" else targets)


def _to_unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale a column to [0, 1]; a constant one to 0."""
    low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
    scaled: NDArray[np.float64] = (values - low) / (high - low if high > low else 1.0)
    return scaled


# Work items, each with a file of its outcome.

Outcome = dict[str, Any]
"""Result of an item as JSON."""
Check = Callable[[], None]
"""Function that raises if the run was stopped; called about every second."""


@dataclass(frozen=True)
class WorkItem:
    """An independent, picklable piece of work.

    name : readable and unique within its table
    dataset : NAME of the file that is read, "" for none; rows : training rows
    cost : estimated duration in any unit: the longest items start first
    description : everything that decides the outcome, except data and code, as JSON
    compute : the work: takes the data folder and a `Check`
    """

    name: str
    dataset: str
    rows: int
    cost: float
    description: Mapping[str, Any]
    compute: Callable[[DataFolder, Check], Outcome]


class Stopped(Exception):  # noqa: N818  (no error: the outcome is no longer needed)
    """The run was stopped while the item was computed."""


class Stop(Event):
    """Stop signal for the threads of this process; a worker process ends with its items."""

    def __reduce__(self) -> tuple[type[Stop], tuple[()]]:
        return Stop, ()

    def check(self) -> None:
        """Raise Stopped after `set`."""
        if self.is_set():
            raise Stopped


@dataclass(frozen=True)
class Archive:
    """Outcomes as files of a folder, named by the item and a digest of everything that decides them.

    folder : of the files; data : folder that items read; code : digest of the sources that decide outcomes
    stop : of the items that this process computes
    """

    folder: str
    data: DataFolder
    code: str
    stop: Stop = field(default_factory=Stop)

    def compute(self, item: WorkItem) -> Outcome:
        """Compute an item in any process and write the outcome before it is returned."""
        self.stop.check()
        outcome = item.compute(self.data, self.stop.check)
        self.write(item, outcome)
        return outcome

    def path(self, item: WorkItem) -> Path:
        """Return the file of an item; it changes with the settings, the data and the code."""
        parts = [item.name, dict(item.description), self.code, self.data.digest(item.dataset)]
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
        return Path(self.folder) / f"{re.sub(r'[^A-Za-z0-9.+=-]+', '_', item.name)}.{digest}.json"

    def read(self, item: WorkItem) -> Outcome | None:
        """Return the outcome of a finished item, else None."""
        try:
            outcome: Outcome = json.loads(self.path(item).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.path(item)} cannot be read ({error}). Remove it, and run again.") from None
        return outcome

    def write(self, item: WorkItem, outcome: Outcome) -> None:
        write_durably(self.path(item), json.dumps(outcome, allow_nan=False))


@cache
def code_digest(parts: tuple[str, ...]) -> str:
    """Return a digest of the sources of modules and packages of okl, given by their names below it."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for part in parts:
        path = root / part.replace(".", "/")
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
            digest.update(source.relative_to(root).as_posix().encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


# Tables: cases as data, and the experiment that runs them.


@dataclass(frozen=True)
class Request:
    """Validated names in table order, and outcomes by item; searched : try all candidates, also of stated settings."""

    data: DataFolder
    datasets: tuple[str, ...]
    algorithms: tuple[str, ...]
    repeats: int
    orders: OrderSource = "authors"
    searched: bool = False
    precision: Precision = "float32"
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def outcomes_of(self, items: Iterable[WorkItem]) -> list[Outcome]:
        return [self.outcomes[item.name] for item in items]


@dataclass(frozen=True)
class Case:
    """One algorithm on one data set, at one point of a study.

    dataset, algorithm : names as printed; quantities : what is reported, a cell each
    file : NAME of NAME.parquet, "" if no file is read; paper_rows : rows of the data set in the paper
    parameters : of the experiment; point : position in a study
    paper_repeats : orders or seeds of a printed number; blind : no setting was chosen on this data set
    """

    dataset: str
    algorithm: str
    quantities: tuple[Quantity, ...]
    file: str = ""
    paper_rows: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    point: Mapping[str, float] = field(default_factory=dict)
    paper_repeats: int = 1
    blind: bool = False

    def cell(self, quantity: Quantity) -> TableCell:
        """Return the cell with the printed numbers alone."""
        q = quantity
        return TableCell(
            self.dataset, self.algorithm, q.metric, q.paper_mean, q.paper_sd, q.paper_seconds, q.paper_unit,
            self.paper_repeats, blind=self.blind, point=dict(self.point), more=dict(q.more), claim=q.claim,
            rival=q.rival,
        )  # fmt: skip


class Experiment:
    """Experiment of a table, which runs its cases; one subclass for each kind of experiment."""

    picture_title: str = "{}"  # format of the titles of pictures

    def extended(self, table: PaperTable, names: Sequence[str], folder: DataFolder, precision: Precision) -> PaperTable:
        """Return the table with cases of data sets that the paper does not have; by default it takes none."""
        return table

    def unavailable(self, request: Request, case: Case) -> tuple[str, str] | None:
        """Return status and note of a case that cannot be run, else None."""
        if case.file and not request.data.has(case.file):
            return NO_DATA, f"{case.file}.parquet is not in --data"
        return None

    def baselines(self, request: Request, cases: Sequence[Case]) -> list[Case]:
        """Return further cases to run, which have no cell."""
        return []

    def trials(self, request: Request, case: Case) -> list[WorkItem]:
        """Return the items whose outcomes decide the setting of a case."""
        return []

    def items(self, request: Request, case: Case) -> list[WorkItem]:
        """Return the items whose outcomes are reported; their trials are done."""
        raise NotImplementedError

    def measure(self, request: Request, case: Case, quantity: Quantity) -> TableCell:
        raise NotImplementedError

    def dataset_facts(self, request: Request, case: Case) -> dict[str, Any]:
        """Return facts on the data set of a case that can be run: rows, stand-in, constant predictor, linear model."""
        raise NotImplementedError

    def outcomes(self, request: Request, case: Case) -> list[Outcome]:
        return request.outcomes_of(self.items(request, case))

    def curves(self, request: Request, table: PaperTable) -> dict[str, Any]:
        """Return the data of the pictures as JSON, by picture and line; by default a picture for each data set."""
        curves: dict[str, Any] = {}
        for case in table.runnable(request):
            if lines := self.lines(request, case):
                curves.setdefault(case.dataset, {}).update(lines)
        return curves

    def lines(self, request: Request, case: Case) -> dict[str, Any]:
        """Return the lines of a case in the picture of its data set: points by name."""
        return {}

    def panels(self, title: str, lines: Lines) -> list[Panel]:
        """Return the panels of a picture; none to draw nothing."""
        return []


@dataclass(frozen=True)
class PaperTable:
    """A table or a study of a paper.

    repeats : orders or seeds, as many as in the paper
    code : modules and packages, by their names below okl, whose sources decide outcomes
    rule : criterion of a match, "" if nothing is compared; remarks : how the numbers were measured
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    experiment: Experiment
    code: tuple[str, ...]
    repeats: int = 1
    rule: str = ""
    remarks: tuple[str, ...] = ()
    reads_data: bool = True

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(case.dataset for case in self.cases))

    @property
    def algorithms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(case.algorithm for case in self.cases))

    @property
    def files(self) -> dict[str, str]:
        """Return NAME of NAME.parquet for each data set."""
        return {case.dataset: case.file for case in self.cases}

    def requested(self, request: Request) -> list[Case]:
        return [c for c in self.cases if c.dataset in request.datasets and c.algorithm in request.algorithms]

    def runnable(self, request: Request) -> list[Case]:
        cases = self.requested(request)
        cases += self.experiment.baselines(request, cases)
        return [case for case in cases if self.experiment.unavailable(request, case) is None]

    def missing(self, request: Request) -> dict[str, str]:
        """Return the requested data sets without data, and why."""
        found = {case.dataset: self.experiment.unavailable(request, case) for case in self.requested(request)}
        return {name: state[1] for name, state in found.items() if state is not None and state[0] == NO_DATA}

    def trials(self, request: Request) -> list[WorkItem]:
        """Return the items that decide settings; their outcomes are needed by `items`."""
        return _unique(item for case in self.runnable(request) for item in self.experiment.trials(request, case))

    def items(self, request: Request) -> list[WorkItem]:
        """Return the items whose outcomes are reported."""
        return _unique(item for case in self.runnable(request) for item in self.experiment.items(request, case))

    def cells(self, request: Request) -> list[TableCell]:
        """Return a cell for each quantity of each requested case, also of those that could not be run."""
        cells = []
        causes = frozen_settings()["causes"].get(self.name, {})
        passed = frozen_settings()["not_told_apart"].get(self.name, ())
        for case in self.requested(request):
            missing = self.experiment.unavailable(request, case)
            cause = causes.get(f"{case.dataset}, {case.algorithm}")
            for quantity in case.quantities:
                if missing is not None:
                    cell = replace(case.cell(quantity), status=missing[0], note=missing[1])
                else:
                    cell = self.experiment.measure(request, case, quantity)
                if cause and cell.verdict in (BETTER, WORSE):
                    cell = replace(cell, note="; ".join(filter(None, [cell.note, cause])))
                if cell.verdict == REPRODUCED and f"{cell.dataset}, {cell.algorithm}, {cell.metric}" in passed:
                    cell = replace(cell, not_told_apart=True)
                cells.append(cell)
        return relative_to(REFERENCE, cells)

    def dataset_rows(self, request: Request) -> list[dict[str, Any]]:
        """Return a flat row for each requested data set."""
        rows = {
            case.dataset: {"dataset": case.dataset, "paper_rows": case.paper_rows} for case in self.requested(request)
        }
        for case in {case.dataset: case for case in reversed(self.runnable(request))}.values():
            rows[case.dataset] |= {"read": case.dataset} | self.experiment.dataset_facts(request, case)
        return list(rows.values())

    def curves(self, request: Request) -> dict[str, Any]:
        return self.experiment.curves(request, self)

    def figures(self, curves: Mapping[str, Any]) -> list[Figure]:
        form = self.experiment.picture_title
        drawn = [(form.format(name), self.experiment.panels(name, lines)) for name, lines in curves.items()]
        return [Figure(title, partial(side_by_side, panels), wide=True) for title, panels in drawn if panels]


def _unique(items: Iterable[WorkItem]) -> list[WorkItem]:
    return list({item.name: item for item in items}.values())


# Pictures.

Lines = Mapping[str, Sequence[Sequence[float]]]
Points = NDArray[np.float64]


def as_points(lines: Lines) -> dict[str, Points]:
    """Return lines as arrays."""
    return {name: np.array(values, dtype=np.float64) for name, values in lines.items()}


def study_curves(cells: Iterable[TableCell], names: Callable[[TableCell], tuple[str, str]]) -> dict[str, Any]:
    """Return for each picture and line the points [size, mean, seconds]; names : picture and line of a cell."""
    curves: dict[str, Any] = {}
    for cell in cells:
        if cell.mean is not None:
            picture, line = names(cell)
            for size, value in cell.point.items():
                lines = curves.setdefault(f"{picture}, {size}", {})
                lines.setdefault(line, []).append([value, cell.mean, cell.seconds])
    return curves


def error_panels(title: str, x: str, metric: str, lines: Lines) -> list[Panel]:
    """Return panels of error and training seconds against x.

    lines : for each name points [x, error, seconds] and, optionally, the constant predictor's error
    """
    points = as_points(lines)
    errors = {name: values[:, :2] for name, values in points.items()}
    for values in points.values():
        if values.shape[1] > 3:
            errors["constant"] = values[:, [0, 3]]
    later = np.concatenate([values[len(values) // 8 :, 1] for values in errors.values()])  # the first rows say little
    low, high = float(later.min()), float(later.max())
    room = 0.06 * (high - low) or 0.05 * max(high, 1e-6)
    seconds = {
        name: np.column_stack([values[:, 0], np.maximum(values[:, 2], 1e-6)])
        for name, values in points.items()
        if name not in BASELINES
    }
    return [
        Panel(f"{title}: {metric_name(metric).lower()}", x, errors, limits=(max(0.0, low - room), high + room)),
        Panel("training seconds", x, seconds, y_scale="log"),
    ]
