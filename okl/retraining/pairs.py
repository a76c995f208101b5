"""Two predictors on the same rows: sums that merge, over all rows and over slices of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.errors import ConfigError, DataError
from okl.evaluation import EVALUATION_WINDOW_BYTES, in_own_unit
from okl.execution.protocol import Execution
from okl.metrics import predicted_classes
from okl.predictors import Predictor
from okl.store.dataset import Dataset, Schema, Shard
from okl.store.numbernames import number_of_word
from okl.store.opening import readable
from okl.store.order import plan_windows
from okl.store.reading import load_window
from okl.store.values import codes_of, is_number, numbers
from okl.types import FloatArray, Precision

ALL, NEWEST, BEFORE, SHARD = "", "newest", "before", "shard "  # names of slices
MOST_VALUES = 20  # of a column that rows are told apart by; a column of more is cut at its mean and one spread about it
Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sums over rows; a loss is 1 for a wrong class, or the squared error in the target's unit.

    rows; first, second : sums of the losses; differences : sum of the squares of first minus second, row by row
    agreement : (K, K) of the first, rows of true class i predicted as j; for regression (2, 3) sums of x, x^2, x t and
        of t, t^2, 1, where x and t are its prediction and the target, from the reference's mean
    beyond : rows whose loss by the first is above a limit
    """

    rows: int
    first: float
    second: float
    differences: float
    agreement: Doubles
    beyond: int = 0

    def plus(self, other: Pairs) -> Pairs:
        """Over the rows of both."""
        return Pairs(
            self.rows + other.rows,
            self.first + other.first,
            self.second + other.second,
            self.differences + other.differences,
            self.agreement + other.agreement,
            self.beyond + other.beyond,
        )

    @property
    def only_first(self) -> int:
        """Rows of classes that the first alone gets wrong."""
        return round((self.differences + self.first - self.second) / 2)

    @property
    def only_second(self) -> int:
        """Rows of classes that the second alone gets wrong."""
        return round((self.differences - self.first + self.second) / 2)


@dataclass(frozen=True, eq=False)
class PairWork:
    """Work on a shard: score its rows with two predictors.

    slices : columns by whose values rows are told apart; limit : of the loss, above which rows are counted
    Called with a shard, it tells sums by slice, ALL for all rows.
    """

    data: Dataset
    first: Predictor
    second: Predictor
    precision: Precision
    slices: tuple[str, ...] = ()
    limit: float = 0.5

    def __call__(self, shard: Shard) -> dict[str, Pairs]:
        """Sums of one shard by slice."""
        schema = self.data.schema
        names = {column: self._values(shard, column) for column in self.slices}
        found: dict[str, Pairs] = {}
        done = 0
        for window in plan_windows((shard,), schema.n_features, "stored", (), EVALUATION_WINDOW_BYTES):
            rows = load_window(self.data, window, self.precision)
            targets = np.asarray(in_own_unit(schema, rows.targets), dtype=np.float64)
            scores = [in_own_unit(schema, one.scores(rows.inputs)) for one in (self.first, self.second)]
            lost = [_losses(schema, score, targets) for score in scores]
            here = slice(done, done + len(targets))
            done = here.stop
            masks = {ALL: np.ones(len(targets), dtype=bool)}
            for column, values in names.items():
                part = values[here]
                masks |= {f"{column} = {value}": part == value for value in np.unique(part)}
            for name, mask in masks.items():
                pairs = _pairs(schema, scores[0][mask], targets[mask], lost[0][mask], lost[1][mask], self.limit)
                found[name] = found[name].plus(pairs) if name in found else pairs
        return found

    def _values(self, shard: Shard, column: str) -> NDArray[Any]:
        """What a row's slice is called, (rows,), in the shard's order."""
        with readable(self.data.path(shard), shard.size_bytes, shard.sha256) as file:
            values = pq.read_table(file, columns=[column]).column(column).combine_chunks()
        return _names(self.data.schema, column, values)


def compare(
    data: Dataset,
    shards: Sequence[Shard],
    first: Predictor,
    second: Predictor,
    precision: Precision,
    execution: Execution,
    slices: tuple[str, ...] = (),
    limit: float = 0.5,
) -> dict[str, Pairs]:
    """Sums of two predictors over some shards, by slice; added up in the order of the shards.

    Raises
    ------
    ConfigError : a slice by a column that the data set has not
    """
    check_slices(data.schema, slices)
    total: dict[str, Pairs] = {}
    for part in execution.map(PairWork(data, first, second, precision, slices, limit), shards):
        total |= merged(total, part)
    return total


def merged(one: Mapping[str, Pairs], other: Mapping[str, Pairs]) -> dict[str, Pairs]:
    """Sums of both, by slice."""
    return dict(one) | {name: one[name].plus(pairs) if name in one else pairs for name, pairs in other.items()}


def check_slices(schema: Schema, slices: Sequence[str]) -> None:
    """Raise ConfigError for a column that is neither an input nor a key."""
    for name in slices:
        if name not in (*schema.features, *schema.keys):
            raise ConfigError(
                f"slices names the column {name!r}, which is no input and no key. Name one of these, or make it a key "
                "when the model is begun: ingest.keys."
            )


def _losses(schema: Schema, scores: FloatArray, targets: Doubles) -> Doubles:
    if schema.task == "regression":
        return np.asarray(np.square(scores - targets), dtype=np.float64)
    true = targets > 0 if schema.task == "binary" else targets
    return np.asarray(predicted_classes(scores) != true.astype(np.int64), dtype=np.float64)


def _pairs(
    schema: Schema, scores: FloatArray, targets: Doubles, first: Doubles, second: Doubles, limit: float
) -> Pairs:
    sums = float(first.sum()), float(second.sum()), float(np.square(first - second).sum())
    return Pairs(len(targets), *sums, _agreement(schema, scores, targets), int((first > limit).sum()))


def _agreement(schema: Schema, scores: FloatArray, targets: Doubles) -> Doubles:
    if schema.task == "regression":
        mean = schema.target_statistics.mean if schema.target_statistics else 0.0
        x, t = np.asarray(scores, dtype=np.float64) - mean, targets - mean
        return np.array([[x.sum(), (x * x).sum(), (x * t).sum()], [t.sum(), (t * t).sum(), float(len(t))]])
    n = len(schema.labels)
    true = (targets > 0 if schema.task == "binary" else targets).astype(np.int64)
    counts = np.bincount(true * n + predicted_classes(scores), minlength=n * n)
    return counts.reshape(n, n).astype(np.float64)


def _names(schema: Schema, column: str, values: pa.Array) -> NDArray[Any]:
    if not is_number(values.type):
        words = pc.dictionary_encode(pc.fill_null(values.cast(pa.string()), "none"))
        _check_few(column, len(words.dictionary))
        return np.array([_group_name(word) for word in words.dictionary.to_pylist()], dtype=str)[codes_of(words)]
    raw = numbers(values).astype(np.float64)
    if column in schema.features:
        told = schema.feature_statistics[schema.features.index(column)]
        whole = told.maximum - told.minimum < MOST_VALUES and bool((raw == np.rint(raw)).all())
        if not whole:
            edges = told.mean + told.standard_deviation * np.array([-1.0, 0.0, 1.0])
            names = [
                f"below {edges[0]:.4g}",
                *(f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)),
            ]
            return np.array([*names, f"above {edges[2]:.4g}"])[np.searchsorted(edges, raw)]
    each, index = np.unique(raw, return_inverse=True)
    _check_few(column, len(each))
    return np.array([_number_name(value) for value in each])[index]


def _group_name(word: str) -> str:
    """A value in text; digits are the number, so that 01 of one shard and 1 of another are one group."""
    value = number_of_word(word)
    return word if value is None else _number_name(value)


def _number_name(value: float) -> str:
    """Whole numbers by all their digits; others by as many as float32 tells apart."""
    return f"{value:.0f}" if value == np.rint(value) and abs(value) < 2.0**53 else f"{value:.7g}"


def _check_few(column: str, n_values: int) -> None:
    if n_values > MOST_VALUES**2:
        raise DataError(
            f"The key {column!r} has {n_values:,} values in a shard, but slices are told by {MOST_VALUES**2} at most. "
            "Name one of few values."
        )
