"""Made-up raw rows that look like those a model was trained on, to hold an exported file against okl itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okl.store.dataset import Schema
from okl.store.dateparts import date_parts
from okl.store.encodings import Encoding

MATRIX = "rows"  # what a graph calls the raw values of columns of numbers
UNSEEN = "a value that was never seen in training"
DAY_SECONDS = 86_400


def made_up(schema: Schema, n_rows: int, seed: int = 0) -> pa.RecordBatch:
    """Raw rows: numbers of double precision, normal about the training mean and within the training range.

    They are no float32 numbers, so that an export that does not round as okl does is found. Text has every category,
    one never seen, and none; dates are of four decades; where the model settles missing values, one in eight numbers
    is missing.
    """
    random = np.random.default_rng(seed)
    statistics = dict(zip(schema.features, schema.feature_statistics, strict=True))
    by_column = {encoding.column: encoding for encoding in schema.encodings}
    arrays = {}
    for column in schema.source_columns:
        encoding = by_column.get(column)
        if encoding is not None and encoding.kind == "category":
            words = pa.array([*encoding.categories, UNSEEN, *([None] if schema.missing != "drop" else [])], pa.string())
            arrays[column] = words.take(pa.array(random.integers(len(words), size=n_rows)))
        elif encoding is not None and encoding.kind != "number":
            arrays[column] = _dates(encoding, n_rows, random)
        else:
            one = statistics[column if encoding is None else encoding.inputs[0]]
            drawn = one.mean + one.standard_deviation * random.standard_normal(n_rows)
            values = np.clip(drawn, one.minimum, one.maximum)
            settled = schema.missing == "zero" or (encoding is not None and encoding.fills)
            absent = random.random(n_rows) < 0.125 if settled else np.zeros(n_rows, dtype=bool)
            arrays[column] = pa.array(values, mask=absent)
    return pa.record_batch(arrays)


def feeds_of(schema: Schema, batch: pa.RecordBatch) -> dict[str, NDArray[Any]]:
    """What a graph of `input_nodes` takes, of raw rows: a matrix, or a tensor for each column or part of a date."""
    if not schema.encodings:
        columns = [_numbers(batch.column(name)) for name in schema.features]
        return {MATRIX: np.stack(columns, axis=1)}
    by_column = {encoding.column: encoding for encoding in schema.encodings}
    feeds: dict[str, NDArray[Any]] = {}
    for name in schema.source_columns:
        encoding, column = by_column.get(name), batch.column(name)
        if encoding is None or encoding.kind == "number":
            feeds[name] = _numbers(column)
        elif encoding.kind == "category":
            feeds[name] = column.fill_null("").to_numpy(zero_copy_only=False)
        else:
            parts = date_parts(column, encoding.kind == "timestamp", encoding.time_zone)
            feeds |= dict(zip(encoding.inputs, parts, strict=False))  # the input of missing dates is made in the graph
    return feeds


def _numbers(column: pa.Array) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values


def _dates(encoding: Encoding, n_rows: int, random: np.random.Generator) -> pa.Array:
    seconds = random.integers(0, 40 * 365 * DAY_SECONDS, size=n_rows)
    if encoding.kind == "date":
        return pa.array((seconds // DAY_SECONDS).astype(np.int32)).cast(pa.date32())
    return pa.array(seconds).cast(pa.timestamp("s", encoding.time_zone or None))
