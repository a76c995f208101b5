"""The rows of largest loss of a model, with their targets, predictions and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from okl.data.dataset import Dataset, Encoding, Shard
from okl.data.reading import read_columns, read_rows, targets_of
from okl.data.values import DAYS_TO_2000, YEAR_DAYS
from okl.features.predictors import CalibratedPredictor, Predictor
from okl.foundation.types import Precision
from okl.metrics.counts import LargestLosses
from okl.models.inputs import class_indices, predictions
from okl.models.quality import in_target_unit

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def largest_errors(
    data: Dataset, predictor: Predictor, largest: LargestLosses, columns: Sequence[str], precision: Precision
) -> list[dict[str, Any]]:
    """Return the rows of largest loss as JSON values, the largest first; one row group is in memory at a time.

    Parameters
    ----------
    largest : positions and losses of the rows
    columns : source columns whose values are returned

    Returns
    -------
    for each row loss, target, prediction, score (of several classes, that of the predicted one), probability of the
    true class if there are probabilities, keys and values by column, shard (its path) and row (position in it)

    Raises
    ------
    DataError : a shard is missing or damaged
    """
    shards = {shard.index: shard for shard in data.shards}
    places = zip(largest.losses.tolist(), largest.shards.tolist(), largest.rows.tolist(), strict=True)
    return [
        {"loss": _finite(loss)} | _row(data, predictor, shards[index], row, columns, precision)
        for loss, index, row in places
    ]


def _row(
    data: Dataset, predictor: Predictor, shard: Shard, row: int, columns: Sequence[str], precision: Precision
) -> dict[str, Any]:
    schema = data.schema
    ends = np.cumsum(shard.row_groups)
    group = int(np.searchsorted(ends, row, side="right"))
    inside = row - int(ends[group]) + shard.row_groups[group]
    table = read_columns(data, shard, group, [*schema.features, schema.target, *schema.keys]).slice(inside, 1)
    stored = np.array([table.column(name)[0].as_py() for name in schema.features], dtype=np.float64)
    shift, factor = schema.shift_and_factor
    inputs: Any = np.ascontiguousarray((stored - shift) * factor, dtype=precision)[np.newaxis]
    if schema.sparse is not None:
        inputs = read_rows(data, shard, (group,), precision).inputs[[inside]]
    targets = targets_of(schema, table.column(schema.target).to_numpy().astype(np.float64))
    scores = predictor.scores(inputs)
    shown, score = predictions(schema, scores)[0], float(scores.max())
    target: Any
    if schema.task == "regression":
        target, score = float(in_target_unit(schema, targets)[0]), float(in_target_unit(schema, scores)[0])
    else:
        target = schema.labels[int(class_indices(schema, targets)[0])]
    entry = {"target": target, "prediction": shown.item() if isinstance(shown, np.generic) else shown}
    entry["score"] = _finite(score)
    if isinstance(predictor, CalibratedPredictor):
        entry["probability"] = float(predictor.probabilities(scores)[0, class_indices(schema, targets)[0]])
    encodings = {encoding.column: encoding for encoding in schema.encodings}
    columns = [name for name in columns if name in encodings or name in schema.features]  # sparse rows have no columns
    by_input = dict(zip(schema.features, stored.tolist(), strict=True))
    return entry | {
        "keys": {name: _plain(table.column(name)[0]) for name in schema.keys},
        "values": {name: _value(encodings.get(name), name, by_input) for name in columns},
        "shard": shard.path,
        "row": row,
    }


def _value(encoding: Encoding | None, column: str, stored: dict[str, float]) -> Any:
    """Return the value of a source column from stored inputs; None where it is missing."""
    if encoding is None:
        return _shortest(stored[column])
    if encoding.missing and stored.get(encoding.inputs[-1]) == 1.0:
        return None
    if encoding.kind == "category":
        named = [*encoding.categories, *(["(other)"] if encoding.other else [])]
        return next((word for word, name in zip(named, encoding.inputs, strict=False) if stored.get(name) == 1.0), None)
    first = stored.get(encoding.inputs[0])
    if first is None or encoding.kind == "number":
        return None if first is None else _shortest(first)
    moment = EPOCH + timedelta(days=DAYS_TO_2000 + first * YEAR_DAYS)
    if encoding.kind == "date":
        return f"{moment + timedelta(hours=12):%Y-%m-%d}"
    return f"{moment + timedelta(seconds=30):%Y-%m-%d %H:%M}"


def _shortest(value: float) -> float | int | None:
    """Return the shortest number that float32 rounds to the value, as inputs are stored."""
    if not math.isfinite(value):
        return None
    short = float(str(np.float32(value)))
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def _plain(value: pa.Scalar) -> Any:
    plain = value.as_py()
    return plain if plain is None or isinstance(plain, str | int | bool) else str(plain)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
