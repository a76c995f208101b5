"""Missing values in the first rows of a source, where none may be: told before all rows are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from okl.configuration import IngestSettings
from okl.errors import DataError
from okl.store.columns import Roles
from okl.store.dateparts import is_date
from okl.store.piecereading import read_piece
from okl.store.sources import Source
from okl.store.values import Mask, is_number, missing_in_rows, numbers


def check_first_rows(source: Source, roles: Roles, settings: IngestSettings) -> None:
    """Look at the first batch of rows where the policy for missing values is that there be none.

    Text does not matter: for a word that is missing there is an input.

    Raises
    ------
    DataError : a number or date is missing, or these rows cannot be read: as when all rows are
    """
    schema = source.schema
    kept = [name for name in roles.features if name not in settings.categories]
    columns = [name for name in kept if is_number(schema.field(name).type) or is_date(schema.field(name).type)]
    if settings.missing != "error" or source.kind == "svmlight" or not columns:
        return
    for rows in read_piece(source.pieces()[0], columns):
        absent = np.array([_absent(array) for array in rows.batch.columns])
        if absent.any():
            raise DataError(missing_in_rows(rows.file, columns, absent, rows.first_row))
        return


def _absent(column: pa.Array) -> Mask:
    """Which values of a column of numbers or dates are missing, (rows,)."""
    found: Mask = np.isnan(numbers(column)) if is_number(column.type) else column.is_null().to_numpy(False)
    return found
