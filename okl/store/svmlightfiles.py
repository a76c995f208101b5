"""Raw svmlight text ("label index:value ..."): read twice, in chunks, into dense columns f0, f1, ... and y."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from okl.errors import DataError
from okl.store.opening import open_binary
from okl.store.parquetfiles import first_line
from okl.store.places import Place

CHUNK_BYTES = 2**20
MAX_COLUMNS = 4096
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


def count_columns(files: Sequence[Place], scans: Sequence[Scan], zero_based: bool, at_least: int = 0) -> int:
    """Columns that hold every index of every file; raises DataError where they are too many to be dense, or none."""
    widest = max(range(len(scans)), key=lambda i: scans[i].last_index)
    n_columns = max(scans[widest].last_index + (1 if zero_based else 0), at_least)
    if n_columns > MAX_COLUMNS:
        raise DataError(
            f"{files[widest]} has column index {scans[widest].last_index}, but okl holds rows dense and takes at most "
            f"{MAX_COLUMNS} columns. Select or hash columns first."
        )
    if n_columns < 1:
        raise DataError(f"{files[0]} holds no index:value pair; expected lines like '1 3:0.5 7:1'.")
    return n_columns


def schema_of(n_columns: int) -> pa.Schema:
    """Columns f0, f1, ... (the first index of the file is f0) and y, all float64."""
    return pa.schema([(name, pa.float64()) for name in [*(f"f{i}" for i in range(n_columns)), TARGET]])


def read(
    file: Place, schema: pa.Schema, zero_based: bool, columns: list[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Rows in order as dense batches of the columns in the given order."""
    n_columns, base = len(schema) - 1, 0 if zero_based else 1
    chosen = [n_columns if name == TARGET else int(name[1:]) for name in columns]
    for inputs, targets in _parsed(file):
        for start in range(0, inputs.shape[0], batch_rows):
            part = inputs[start : start + batch_rows]
            dense = np.zeros((n_columns + 1, part.shape[0]))
            row = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            dense[part.indices - base, row] = part.data
            dense[n_columns] = targets[start : start + batch_rows]
            yield pa.RecordBatch.from_arrays([pa.array(dense[i]) for i in chosen], names=columns)


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
    with open_binary(file) as stream:
        while block := stream.read(CHUNK_BYTES):
            whole, newline, tail = (rest + block).rpartition(b"\n")
            if newline:
                yield whole + newline
            rest = tail
    if rest.strip():
        yield rest
