"""Columns that constraints look at, beside the inputs: keys of a data set, or inputs that are then not learnt from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okl.errors import ConfigError, DataError
from okl.online.constraints.quantities import Constraint, Covariance, Group, columns_of
from okl.store.arrowreading import read_columns
from okl.store.columns import absent
from okl.store.dataset import Dataset, Schema, Shard
from okl.store.numbernames import number_of_word, plain_number
from okl.store.reading import sampled_places
from okl.types import Split

Columns = Mapping[str, NDArray[Any]]
"""Values (rows,) of columns by name: float32 where stored so, float64 for other numbers, objects for text."""

_FLOAT32_TOLD_APART = 2.0**24  # whole numbers up to here
_TRUTH = {"true": 1.0, "false": 0.0}


def check_columns(schema: Schema, constraints: tuple[Constraint, ...], where: str) -> None:
    """Raise DataError if a constraint looks at a column that is neither an input nor a key."""
    there = (*schema.features, *schema.keys)
    for name in columns_of(constraints):
        if name in schema.source_columns and name not in there:
            raise DataError(
                f"{where}: the constrained column {name!r} was made into inputs of its values, not stored itself. "
                f"Ingest the source with --key {name}: constraints look at keys."
            )
        if name not in there:
            raise absent(name, there, where, "constrained")


def without_features(data: Dataset, names: Sequence[str]) -> Dataset:
    """The same shards, some of whose inputs are only carried along, as keys are.

    Raises
    ------
    ConfigError : no input would be left
    """
    schema, apart = data.schema, set(names)
    kept = [index for index, name in enumerate(schema.features) if name not in apart]
    if len(kept) == schema.n_features:
        return data
    if not kept:
        raise ConfigError(
            f"{data.folder}: every input column is looked at by a constraint, so that none is left to learn from. Set "
            "--learn-sensitive to learn from them all the same."
        )
    statistics = schema.feature_statistics
    moved = tuple(name for name in schema.features if name in apart)
    return replace(
        data,
        schema=replace(
            schema,
            features=tuple(schema.features[index] for index in kept),
            feature_statistics=tuple(statistics[index] for index in kept) if statistics else (),
            keys=(*schema.keys, *moved),
        ),
    )


def read_side(data: Dataset, shard: Shard, group: int, names: Sequence[str]) -> Columns:
    """Values of columns in a row group, as stored and in its order; numbers are not scaled.

    Raises
    ------
    DataError : a shard that is missing or damaged, or whole numbers too large for float64
    """
    if not names:
        return {}
    table = read_columns(data, shard, group, names)
    return {name: values_of(table.column(name), name) for name in names}


def sample_side(data: Dataset, split: Split, n: int, seed: int, names: Sequence[str]) -> Columns:
    """Values of columns beside the rows that `sample_rows` gives, in their order."""
    parts = [
        {name: values[inside] for name, values in read_side(data, shard, group, names).items()}
        for shard, group, inside in sampled_places(data, split, n, seed)
    ]
    return {name: _joined([part[name] for part in parts]) for name in names} if parts else {}


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Values of several shards: as text if some hold text, such as 01, where others hold numbers."""
    if len({part.dtype == object for part in parts}) == 2:
        parts = [part if part.dtype == object else _as_text(part) for part in parts]
    return np.concatenate(parts)


def _as_text(values: NDArray[Any]) -> NDArray[Any]:
    each, index = np.unique(values, return_inverse=True)
    return np.array([plain_number(float(value)) for value in each], dtype=object)[index]


def values_of(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Values (rows,) of a column: float32 or float64 for numbers, NaN where one is missing; objects for text.

    Raises
    ------
    DataError : whole numbers beyond 2^53, which float64 does not tell apart
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        filled = pc.fill_null(pc.cast(column, pa.float32()), float("nan"))
        return np.asarray(filled.to_numpy(), dtype=np.float32)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            filled = pc.fill_null(pc.cast(column, pa.float64()), float("nan"))
        except pa.ArrowInvalid:
            raise DataError(
                f"Column {name!r}, which a constraint looks at, holds whole numbers beyond 2^53, which are told apart "
                "as text only. Make it text, or smaller numbers, before ingest."
            ) from None
        return np.asarray(filled.to_numpy(), dtype=np.float64)
    return np.array(column.cast(pa.string()).to_pylist(), dtype=object)


def members(group: Group, columns: Columns) -> NDArray[np.float64]:
    """1 for the rows of a group and 0 for others, (rows,); a missing value is in no group.

    Raises
    ------
    DataError : a whole number beyond 2^24 of a column stored as float32, where its neighbours are the same number
    """
    values = columns[group.column]
    if values.dtype == object:
        return _of_word(values, group.value)
    try:
        wanted = _TRUTH[group.value.lower()] if group.value.lower() in _TRUTH else float(group.value)
    except ValueError:
        return np.zeros(len(values))
    if values.dtype == np.float32:
        if abs(wanted) > _FLOAT32_TOLD_APART:
            raise DataError(
                f"{group}: column {group.column!r} is stored as float32, which does not tell whole numbers beyond "
                f"2^24 from their neighbours. Ingest the source with --key {group.column}: keys keep them."
            )
        wanted = float(np.float32(wanted))  # inputs are stored so: 0.1 is meant there, too
    equal: NDArray[np.float64] = (values == wanted).astype(np.float64)
    return equal


def _of_word(values: NDArray[Any], wanted: str) -> NDArray[np.float64]:
    """1 for text (rows,) that is a word, or the same number in other digits: keys are stored as they are written."""
    words = pa.array(values, pa.string()).dictionary_encode()
    number = number_of_word(wanted)
    alike = [
        word == wanted or (number is not None and number_of_word(word) == number)
        for word in words.dictionary.to_pylist()
    ]
    found = pa.array(alike, pa.bool_()).take(words.indices)
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.float64)


def numbers(quantity: Covariance, columns: Columns, where: str) -> NDArray[np.float64]:
    """Values (rows,) of a column of numbers, or of text that is nothing else, such as 01.

    Raises
    ------
    DataError : it holds text, or misses a value
    """
    values = columns[quantity.column]
    if values.dtype == object:
        values = _in_digits(values)
    if values.dtype == object:
        raise DataError(
            f"{where}: column {quantity.column!r} holds text, but a covariance takes numbers. Use "
            f"difference({quantity.column}=..., {quantity.column}=...) between two of its values."
        )
    if not np.isfinite(values).all():
        raise DataError(
            f"{where}: column {quantity.column!r} misses a value, but a covariance takes all of them. Fill it, or "
            "drop such rows before ingest."
        )
    return np.asarray(values, dtype=np.float64)


def _in_digits(values: NDArray[Any]) -> NDArray[Any]:
    """Text (rows,) as float64, NaN where one is missing; as it is where a word is no number."""
    words = pa.array(values, pa.string()).dictionary_encode()
    told = [number_of_word(word) for word in words.dictionary.to_pylist()]
    if None in told or not told:
        return values
    read = pa.array(told, pa.float64()).take(words.indices)
    return np.asarray(read.fill_null(float("nan")).to_numpy(zero_copy_only=False))
