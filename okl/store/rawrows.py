"""Raw rows made ready for a model: columns by name, missing values settled, scaled; as in a data set, bit for bit.

Under the policy "drop" no row is lost here: a row that misses a value keeps its place and is marked, so that whoever
writes predictions can leave them empty and keep the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okl.errors import DataError
from okl.store.columns import values_hint
from okl.store.dataset import Schema
from okl.store.encoder import check_kinds, encoder_of
from okl.store.piecereading import SourceBatch
from okl.store.targets import stored_index
from okl.store.values import Mask, is_number, is_text, missing_target, numbers, settle_inputs
from okl.types import FloatArray, Precision


class RawRows(NamedTuple):
    """Inputs (rows, n_features), scaled; targets (rows,) as in `Rows`, or None where none were asked for.

    complete : which rows hold all their values, (rows,); None for all. The others have inputs and targets of 0.
    """

    inputs: FloatArray
    targets: NDArray[np.float64] | None
    complete: Mask | None


def check_columns(schema: Schema, columns: pa.Schema, where: str, with_targets: bool = False) -> None:
    """Find what is wrong with raw columns before rows are read; their order and further columns do not matter.

    Raises
    ------
    DataError : columns that the model needs are missing (with similar names that are there), or are of another kind
    """
    needed = [*schema.source_columns, *([schema.target] if with_targets else [])]
    if missing := [name for name in needed if name not in columns.names]:
        shown = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        close = [match for name in missing[:5] for match in get_close_matches(name, set(columns.names), 1, 0.75)]
        hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
        if missing == [schema.target]:
            raise DataError(
                f"{where} has no target column {schema.target!r}: measuring needs the true value of each row.{hint} "
                f"The model's {len(needed) - 1} other columns are there: okl predict takes the rows as they are."
            )
        told = values_hint(columns.names)
        unnamed = f" Its columns are {', '.join(columns.names[:5])}.{told}" if told else ""
        raise DataError(
            f"{where}: the model needs {len(needed)} columns, and {len(missing)} of them "
            f"{'is' if len(missing) == 1 else 'are'} missing: {shown}.{hint}{unnamed}"
        )
    check_kinds(schema, columns, where)
    if with_targets:
        _check_target(schema, columns.field(schema.target).type, where)


def _check_target(schema: Schema, kind: pa.DataType, where: str) -> None:
    text = bool(schema.labels) and isinstance(schema.labels[0], str)
    if text != is_text(kind) or not (text or is_number(kind)):
        raise DataError(
            f"{where}: target {schema.target!r} is of type {kind}, but the model learnt "
            f"{'text labels' if text else 'numbers'}."
        )


def prepare_rows(schema: Schema, rows: SourceBatch, precision: Precision, with_targets: bool = False) -> RawRows:
    """Inputs, and targets if asked for, from a batch that passed `check_columns`.

    Values become float32 as in a data set, then are scaled. A missing input is an error, 0, or makes its row
    incomplete, as the schema's policy says; a missing target is an error unless the policy is "drop".

    Raises
    ------
    DataError : a missing value, an infinity, or a label never seen in training: names file, column and first row
    """
    from okl.compiled.transpose import scatter_columns  # numba: not needed to look at columns

    n = rows.batch.num_rows
    values = np.empty((schema.n_features, n), dtype=np.float32)
    encoder = encoder_of(schema)
    encoder.fill(values, rows.batch, schema.missing)
    complete = settle_inputs(values, encoder.origins, schema.missing, rows.file, rows.first_row)
    targets = None
    if with_targets:
        targets, present = _targets(schema, rows)
        complete = present if complete is None else complete if present is None else complete & present
    inputs = np.empty((n, schema.n_features), dtype=precision)
    addresses = values.ctypes.data + np.arange(schema.n_features, dtype=np.int64) * values.strides[0]
    scatter_columns(inputs, addresses, np.arange(n), *schema.shift_and_factor)
    if complete is not None:
        inputs[~complete] = 0.0
        if targets is not None:
            targets[~complete] = 0.0
    return RawRows(inputs, targets, complete)


def _targets(schema: Schema, rows: SourceBatch) -> tuple[NDArray[np.float64], Mask | None]:
    """Targets (rows,), and which rows have one (None: all)."""
    column = rows.batch.column(schema.target)
    if is_text(column.type):
        index = _text_index(column, schema.labels)
        absent = pc.or_kleene(pc.is_null(column), pc.equal(column.cast(pa.string()), "")).to_numpy(zero_copy_only=False)
        absent = absent.astype(bool)
    else:
        values = numbers(column).astype(np.float64)
        absent = np.isnan(values)
        index = stored_index(values, schema.stored_labels) if schema.labels else np.zeros(len(values), dtype=np.int64)
    if absent.any() and schema.missing != "drop":
        raise DataError(missing_target(rows.file, schema.target, absent, rows.first_row))
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        targets = (values - shift) * factor
        unusable = np.isinf(values)
    else:
        targets = np.where(index == 1, 1.0, -1.0) if schema.task == "binary" else index.astype(np.float64)
        unusable = (index < 0) & ~absent
    if unusable.any():
        raise _unknown(schema, rows, int(unusable.argmax()))
    return targets, ~absent if absent.any() else None


def _text_index(column: pa.Array, labels: Sequence[object]) -> NDArray[np.int64]:
    """Class index (rows,) of text labels; -1 for one that is none of them."""
    found = pc.index_in(column.cast(pa.string()), value_set=pa.array(labels, pa.string()))
    index: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return index


def _unknown(schema: Schema, rows: SourceBatch, row: int) -> DataError:
    value = rows.batch.column(schema.target)[row].as_py()
    if schema.task == "regression":
        expected = "expected a finite number."
    else:
        shown = ", ".join([repr(label) for label in schema.labels[:8]] + ["..."] * (len(schema.labels) > 8))
        expected = f"a label never seen in training, which had {shown}. Leave the row out, or train again with it."
    where = f"{rows.file}: target {schema.target!r} is {value!r} in row {rows.first_row + row} (counted from 0)"
    return DataError(f"{where}, {expected}")
