"""A folder of data sets as NAME.parquet: which rows a table takes of each, how they are scaled, in which orders."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.errors import ConfigError, DataError
from okl.execution.protocol import Rows
from okl.types import FloatArray, Precision, Task

Whose = Literal["authors", "seeded"]
APART = ("y", "split")
MOST_HELD = 2
_held: OrderedDict[tuple[str, int, Selection, str], Rows] = OrderedDict()
_held_lock = Lock()


@dataclass(frozen=True)
class Selection:
    """Which rows of NAME.parquet take part, and how they are scaled.

    split : of a file that has one; "all" takes every row
    minmax : inputs, and the target of a regression, to [0, 1]; constant columns to 0
    """

    name: str
    task: Task
    split: Literal["all", "train", "test"] = "all"
    minmax: bool = False


@dataclass(frozen=True)
class Folder:
    """A folder of NAME.parquet (float columns, label y, perhaps a text column split) and perms/NAME_perms.parquet."""

    path: str

    def file(self, name: str) -> Path:
        """Where a data set is, whether it is there or not."""
        return Path(self.path) / f"{name}.parquet"

    def orders_file(self, name: str) -> Path:
        """Where the authors' orders are, whether they are there or not."""
        return Path(self.path) / "perms" / f"{name}_perms.parquet"

    def has(self, name: str) -> bool:
        """Whether the data set is there."""
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
        """Whether a data set that is there tells training from test rows."""
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
        """Whether the authors' own orders are there."""
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
