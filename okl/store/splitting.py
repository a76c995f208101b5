"""Which rows are test rows: by a seeded hash of the row number, by a column of train and test, or by a 0/1 column."""

from __future__ import annotations

from shlex import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okl.errors import DataError
from okl.store.columns import Roles
from okl.store.hashing import mixed
from okl.store.piecereading import SourceBatch
from okl.store.values import Mask, is_number, numbers


def held_out(roles: Roles, rows: SourceBatch, first_row: int, seed: int) -> Mask | None:
    """Which rows of a batch are test rows, (rows,); None if the source has none.

    first_row : number of the batch's first row in the whole source, which the hash goes by

    Raises
    ------
    DataError : a split that is neither train nor test, or a holdout column that is neither 0 nor 1
    """
    if roles.split is not None:
        return _by_name(rows, roles.split)
    if roles.holdout is not None:
        return _by_flag(rows, roles.holdout)
    if roles.share > 0:
        return hash_share(first_row, rows.batch.num_rows, seed) < roles.share
    return None


def hash_share(first_row: int, rows: int, seed: int) -> NDArray[np.float64]:
    """Hash row numbers to numbers in [0, 1): rows below a share are that share of all rows, whatever the batches."""
    start = mixed(np.array([seed % 2**64], dtype=np.uint64))
    row = np.arange(first_row, first_row + rows, dtype=np.uint64)
    share: NDArray[np.float64] = (mixed(row + start) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return share


def _by_name(rows: SourceBatch, name: str) -> Mask:
    column = rows.batch.column(name).cast(pa.string())
    test, train = (
        pc.fill_null(pc.equal(column, word), False).to_numpy(zero_copy_only=False) for word in ("test", "train")
    )
    if not (test | train).all():
        row = int((test | train).argmin())
        raise DataError(
            f"{rows.file}: column {name!r} is {column[row].as_py()!r} in row {rows.first_row + row} (counted from 0), "
            f"but a split is train or test. Mend it, or use --drop {quote(name)}."
        )
    mask: Mask = test
    return mask


def _by_flag(rows: SourceBatch, name: str) -> Mask:
    column = rows.batch.column(name)
    if not is_number(column.type):
        raise DataError(
            f"{rows.file}: holdout column {name!r} is of type {column.type}; expected 0 (train) and 1 (test)."
        )
    values = numbers(column)
    known = (values == 0) | (values == 1)
    if not known.all():
        row = int(known.argmin())
        raise DataError(
            f"{rows.file}: holdout column {name!r} is {values[row]} in row {rows.first_row + row} (counted from 0); "
            "expected 0 (train) or 1 (test)."
        )
    mask: Mask = values == 1
    return mask
