"""Data sets, and the split and scaling of their rows, the same for every system."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.foundation.errors import DataError
from okl.foundation.types import FloatArray, Task
from okl.foundation.validation import check_choice

TEST_SHARE = 0.25
MOST_TEST_ROWS = 20_000
ENOUGH_TEST_ROWS = 5_000  # in all: smaller test sets are drawn and fitted several times
MOST_SPLITS = 20
SAMPLE_ROWS = 4_000  # of the training rows: values of parameters are tried on these
SAMPLE_SHARE = 0.75  # of the sample is learnt, the rest is for scoring
NOT_INPUTS = ("y", "split")


@dataclass(frozen=True)
class BenchSet:
    """A file NAME.parquet of float columns, a target y and perhaps a text column split of train and test.

    scaling : "standard" by the training rows, or "none" for inputs that are all in [0, 1] already
    sparse : whether most values are zero, so that systems which take sparse rows get them
    """

    name: str
    task: Task
    scaling: Literal["standard", "none"] = "standard"
    sparse: bool = False


SETS = {
    bench_set.name: bench_set
    for bench_set in (
        BenchSet("german", "binary"),
        BenchSet("spambase", "binary"),
        BenchSet("a9a", "binary", "none", sparse=True),
        BenchSet("w7a", "binary", "none", sparse=True),
        BenchSet("ijcnn1", "binary"),
        BenchSet("covtype", "multiclass"),
        BenchSet("covtype_binary", "binary"),
        BenchSet("magic", "binary"),
        BenchSet("letter", "multiclass"),
        BenchSet("mnist", "multiclass", "none"),
        BenchSet("electricity", "binary"),
        BenchSet("cadata", "regression"),
        BenchSet("parkinsons", "regression"),
    )
}


@dataclass(frozen=True)
class Part:
    """Rows to learn, and rows to be scored.

    inputs, test_inputs : (rows, columns), float32, scaled
    targets, test_targets : (rows,), classes from 0 as int64, or a regression's target in units of its spread over the
        training rows, float64
    gamma : 1 / (columns * variance of the inputs): scikit-learn's "scale", the start of searches for a width
    """

    bench_set: BenchSet
    inputs: FloatArray
    targets: NDArray[Any]
    test_inputs: FloatArray
    test_targets: NDArray[Any]
    gamma: float

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers."""
        return self.bench_set.task == "regression"

    def first(self, rows: int) -> Part:
        """Return the part with fewer training rows, which are in random order, and the same test rows."""
        return self if rows >= len(self.targets) else self._with(np.arange(rows), self.test_inputs, self.test_targets)

    def sample(self) -> Part:
        """Return some training rows with a split of their own, for trying values of parameters."""
        rows = min(SAMPLE_ROWS, len(self.targets))
        cut = int(SAMPLE_SHARE * rows)
        return self._with(np.arange(cut), self.inputs[cut:rows], self.targets[cut:rows])

    def warming(self, rows: int = 400, each: int = 5) -> Part:
        """Return a few training rows with some of every class, and a few test rows."""
        chosen = np.arange(min(rows, len(self.targets)))
        if not self.is_regression:
            rows_of_classes = [np.flatnonzero(self.targets == label)[:each] for label in np.unique(self.targets)]
            chosen = np.unique(np.concatenate([chosen, *rows_of_classes]))
        return self._with(chosen, self.test_inputs[:rows], self.test_targets[:rows])

    def _with(self, chosen: NDArray[np.int64], test_inputs: FloatArray, test_targets: NDArray[Any]) -> Part:
        return Part(self.bench_set, self.inputs[chosen], self.targets[chosen], test_inputs, test_targets, self.gamma)


@dataclass(frozen=True)
class Table:
    """All rows of a set, unchanged from its file."""

    bench_set: BenchSet
    inputs: FloatArray
    targets: NDArray[Any]
    is_test: NDArray[np.bool_] | None

    @property
    def n_splits(self) -> int:
        """Return the number of splits that are fitted: one if there are many test rows, or the set has a split."""
        test_rows = max(1, int(TEST_SHARE * len(self.targets)))
        return 1 if self.is_test is not None else min(MOST_SPLITS, -(-ENOUGH_TEST_ROWS // test_rows))

    def split(self, seed: int) -> Part:
        """Return training rows in a random order, and at most 20,000 test rows."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.targets))
        if self.is_test is None:
            cut = int(TEST_SHARE * len(order))
            test, train = order[:cut], order[cut:]
        else:
            test, train = order[self.is_test[order]], order[~self.is_test[order]]
        return self._scaled(train, test[:MOST_TEST_ROWS])

    def _scaled(self, train: NDArray[np.int64], test: NDArray[np.int64]) -> Part:
        inputs, test_inputs = self.inputs[train], self.inputs[test]
        if self.bench_set.scaling == "standard":
            mean, spread = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
            spread[spread == 0.0] = 1.0
            inputs, test_inputs = ((rows - mean) / spread for rows in (inputs, test_inputs))
        targets, test_targets = self.targets[train], self.targets[test]
        if self.bench_set.task == "regression":
            mean, spread = targets.mean(), targets.std()
            targets, test_targets = (targets - mean) / spread, (test_targets - mean) / spread
        inputs, test_inputs = (np.ascontiguousarray(rows, dtype=np.float32) for rows in (inputs, test_inputs))
        gamma = 1.0 / (inputs.shape[1] * float(inputs.var(dtype=np.float64)) or 1.0)
        return Part(self.bench_set, inputs, targets, test_inputs, test_targets, gamma)


def read_set(name: str, folder: str | Path) -> Table:
    """Read NAME.parquet of a folder.

    Raises
    ------
    ConfigError : no set of this name; DataError : the folder has no such file
    """
    bench_set = SETS[check_choice("sets", name, tuple(SETS))]
    path = Path(folder) / f"{name}.parquet"
    if not path.is_file():
        raise DataError(
            f"{path} is not there. Give the folder of NAME.parquet by --data, or leave {name} out of --sets."
        )
    table = pq.read_table(path)
    names = [column for column in table.column_names if column not in NOT_INPUTS]
    inputs = np.empty((table.num_rows, len(names)), dtype=np.float32)
    for index, column in enumerate(names):
        inputs[:, index] = table[column].to_numpy()
    target = table["y"].to_numpy()
    if bench_set.task != "regression":
        target = np.unique(target, return_inverse=True)[1].astype(np.int64)
    is_test = np.array(table["split"].to_pylist()) == "test" if "split" in table.column_names else None
    return Table(bench_set, inputs, target, is_test)


def available_sets(names: Iterable[str], folder: str | Path) -> list[str]:
    """Return the sets of these names, whose files must be in the folder; all available ones if no name is given.

    Raises
    ------
    DataError : a named set, or every set, is missing; a file is not a table of numbers with a y
    """
    wanted = list(names)
    for name in wanted:
        check_choice("sets", name, tuple(SETS))
        if not (Path(folder) / f"{name}.parquet").is_file():
            raise DataError(f"{folder} holds no {name}.parquet. Give the folder that does by --data.")
    available = wanted or [name for name in SETS if (Path(folder) / f"{name}.parquet").is_file()]
    if not available:
        raise DataError(
            f"{folder} holds none of {', '.join(SETS)} as NAME.parquet. Give the folder that does by --data."
        )
    for name in available:
        _refuse_other_tables(Path(folder) / f"{name}.parquet")
    return available


def _refuse_other_tables(path: Path) -> None:
    """Raise DataError before every configuration fails on the table, and is recorded as failed."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({error}). Put the whole file there.") from None
    kinds = {field.name: field.type for field in schema}
    inputs = {name: kind for name, kind in kinds.items() if name not in NOT_INPUTS}
    others = [name for name, kind in inputs.items() if not (pa.types.is_floating(kind) or pa.types.is_integer(kind))]
    if "y" not in kinds or not inputs or others:
        description = f"{others[0]!r} of {kinds[others[0]]}" if others else ", ".join(kinds)
        raise DataError(
            f"{path} holds {description}, but a set takes columns of numbers, a target y and perhaps split."
        )
