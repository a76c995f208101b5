"""svmlight files.

Rows are dense from here on. Text of more columns than fit is folded into fewer by a signed hash: see `fold`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okl.data.dataset import SvmlightColumns
from okl.data.ingest.files import first_line, open_text
from okl.data.order import MOST_INPUTS, mixed
from okl.foundation.errors import DataError
from okl.foundation.locations import Place

CHUNK_BYTES = 2**20
TARGET = "y"


class Scan(NamedTuple):
    """Rows of a file, its largest index, and whether its indices begin at 0."""

    rows: int
    last_index: int
    zero_based: bool


def scan(file: Place) -> Scan:
    """Read a file once to learn its size."""
    rows, last, zero_based = 0, -1, False
    for inputs, _ in _parsed(file):
        rows += inputs.shape[0]
        if inputs.indices.size:
            last = max(last, int(inputs.indices.max()))
            zero_based |= bool(inputs.indices.min() == 0)
    return Scan(rows, last, zero_based)


class Columns(NamedTuple):
    """Columns of the table that text becomes, and how its indices are these."""

    schema: pa.Schema
    indices: SvmlightColumns


def plan_columns(
    files: Sequence[Place], scans: Sequence[Scan], at_least: int, first_index: Literal[0, 1] | None, hashed: int
) -> Columns:
    """Lay out columns f0, f1, ... (the first index is f0) and y, all float64; or h0, h1, ... that they are folded into.

    Parameters
    ----------
    at_least : columns f0, f1, ..., whatever the text holds
    first_index : of the first column; None: 0 if it occurs in a file, else 1
    hashed : columns to fold into; 0: none are

    Raises
    ------
    DataError : too many columns to be dense, or none; an index 0 where the first is 1
    """
    zero = next((i for i, scan in enumerate(scans) if scan.zero_based), None)
    first: Literal[0, 1] = (1 if zero is None else 0) if first_index is None else first_index
    if zero is not None and first == 1:
        raise DataError(
            f"{files[zero]} holds the index 0, but its first index was said or learnt to be 1. Use --svmlight-index 0, "
            "or a model of such rows."
        )
    widest = max(range(len(scans)), key=lambda i: scans[i].last_index)
    last = scans[widest].last_index
    if last < 0:
        raise DataError(f"{files[0]} holds no index:value pair; expected lines like '1 3:0.5 7:1'.")
    n_columns, letter = (hashed, "h") if hashed else (max(last + 1 - first, at_least), "f")
    if n_columns > MOST_INPUTS:
        told = f"{hashed} columns were asked for" if hashed else f"{files[widest]} has column index {last}"
        raise DataError(
            f"{told}, but okl holds rows dense and takes at most {MOST_INPUTS} columns. Fold them into fewer by "
            "a hash, --hash-columns 1024, or select columns first."
        )
    names = [f"{letter}{index}" for index in range(n_columns)]
    return Columns(pa.schema([(name, pa.float64()) for name in [*names, TARGET]]), SvmlightColumns(first, hashed))


def read_svmlight(
    file: Place, schema: pa.Schema, indices: SvmlightColumns, columns: list[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Rows in order as dense batches of the columns in the given order."""
    n_columns = len(schema) - 1
    chosen = [n_columns if name == TARGET else int(name[1:]) for name in columns]
    for inputs, targets in _parsed(file):
        for start in range(0, inputs.shape[0], batch_rows):
            part = inputs[start : start + batch_rows]
            dense = np.zeros((n_columns + 1, part.shape[0]))
            row, column = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), part.indices - indices.first_index
            if indices.hashed:
                column, sign = fold(column, indices.hashed)
                np.add.at(dense, (column, row), sign * part.data)
            else:
                dense[column, row] = part.data
            dense[n_columns] = targets[start : start + batch_rows]
            yield pa.RecordBatch.from_arrays([pa.array(dense[i]) for i in chosen], names=columns)


def fold(columns: NDArray[Any], n_columns: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The column, below n_columns, that each of very many is folded into, and the sign that its values get there.

    Values that meet are added up; for their signs, inner products of rows stay what they were on average.

    Source: Weinberger, Dasgupta, Langford, Smola & Attenberg, ICML 2009, definition 1; the hash is SplitMix64.
    """
    hashed = mixed(np.asarray(columns).astype(np.uint64))
    sign = 1.0 - 2.0 * (hashed >> np.uint64(63)).astype(np.float64)
    return (hashed % np.uint64(n_columns)).astype(np.int64), sign


def _parsed(file: Place) -> Iterator[tuple[Any, np.ndarray[Any, np.dtype[np.float64]]]]:
    """Sparse rows and labels, chunk by chunk; indices as written in the file."""
    from sklearn.datasets import load_svmlight_file  # heavy: only those who read such text pay for it

    first = 0
    for chunk in _chunks(file):
        try:
            inputs, targets = load_svmlight_file(BytesIO(chunk), zero_based=True)
        except (ValueError, OverflowError, IndexError) as error:
            raise DataError(
                f"{file} is not svmlight text, after row {first}: {first_line(error)}; "
                "expected lines like '1 3:0.5 7:1'."
            ) from None
        yield inputs, targets
        first += inputs.shape[0]


def _chunks(file: Place) -> Iterator[bytes]:
    """The bytes of a file, cut at line ends."""
    rest = b""
    with open_text(file) as stream:
        while block := stream.read(CHUNK_BYTES):
            whole, newline, tail = (rest + block).rpartition(b"\n")
            if newline:
                yield whole + newline
            rest = tail
    if rest.strip():
        yield rest
