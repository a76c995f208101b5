"""What a model in memory takes: a table with its columns, by name, or an array of its inputs, in their order."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from okl.errors import ModelError
from okl.store.dataset import Schema
from okl.store.piecereading import SourceBatch
from okl.store.rawrows import check_columns, prepare_rows
from okl.types import FloatArray, Precision

RawValues: TypeAlias = Any
"""A table (pandas, Arrow, whatever hands out an Arrow stream), or an array or list of rows."""


def inputs_of(schema: Schema, values: RawValues, precision: Precision) -> FloatArray:
    """Inputs (rows, n_features), rounded to float32 as in a data set, then scaled; raises as `Model.prepare` says."""
    if isinstance(values, np.ndarray | list | tuple):
        try:
            array = np.asarray(values)
        except ValueError as error:
            raise ModelError(f"The model takes rows of {schema.n_features} columns each: {error}") from None
        return _of_array(schema, array, precision)
    return _of_table(schema, values, precision)


def _of_table(schema: Schema, values: Any, precision: Precision) -> FloatArray:
    """By the code that prepares the rows of a file."""
    try:
        table = pa.table(values)
    except (pa.ArrowException, TypeError, ValueError) as error:
        why = (str(error).splitlines() or [""])[0].rstrip(". ")
        raise ModelError(f"The model takes a table or an array, but {type(values).__name__} came: {why}.") from None
    check_columns(schema, table.schema, "table")
    columns = list(schema.source_columns)
    batch = pa.RecordBatch.from_arrays([_joined(table.column(name)) for name in columns], names=columns)
    raw = prepare_rows(schema, SourceBatch("table", 0, batch), precision)
    if raw.complete is not None:
        row = int(raw.complete.argmin())
        raise ModelError(f"Row {row} of the table misses a value, but the model takes whole rows. Drop such rows.")
    return raw.inputs


def _joined(column: pa.ChunkedArray) -> pa.Array:
    """One array of a column; dictionaries that differ between chunks become one."""
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _of_array(schema: Schema, values: np.ndarray[Any, Any], precision: Precision) -> FloatArray:
    n = schema.n_features
    if values.ndim != 2 or values.shape[1] != n or values.dtype.kind not in "fiub":
        shown = ", ".join([*schema.source_columns[:8], *(["..."] if len(schema.source_columns) > 8 else [])])
        what = f"shape {values.shape}" if values.dtype.kind in "fiub" else f"type {values.dtype}"
        raise ModelError(
            f"The model takes rows of {n} columns, but values of {what} came. Give an array (rows, {n}) in the order "
            f"of model.schema.features, or a table, such as a pandas DataFrame, with the columns {shown}."
        )
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is found right after
        rounded = values.astype(np.float32)  # as data sets hold inputs: the model learnt from these
    if schema.missing == "zero":
        rounded[np.isnan(rounded)] = 0.0
    if not np.isfinite(rounded).all():
        row, column = np.argwhere(~np.isfinite(rounded))[0]
        raise ModelError(
            f"Column {schema.features[column]!r} holds {values[row, column]} in row {row}, but the model takes finite "
            "numbers within float32 (3.4e38) only. Fill or drop such rows."
        )
    shift, factor = schema.shift_and_factor  # of float64, as the arithmetic with them is
    return np.ascontiguousarray((rounded - shift) * factor, dtype=precision)
