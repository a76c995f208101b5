"""A look at the first rows of a source: what would be an error once all are read is told before, where it shows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from okl.configuration import IngestSettings
from okl.errors import DataError
from okl.store.columns import Roles
from okl.store.fitting import column_plans, count_words
from okl.store.learning import check_words
from okl.store.sources import Source
from okl.store.values import Mask, is_number, missing_in_rows, numbers


def check_first_rows(source: Source, roles: Roles, settings: IngestSettings) -> None:
    """Look at the first batch of rows, of svmlight text at none.

    Raises
    ------
    DataError : text that is rather dates or numbers; a number or date that is missing where none may be (for a word
        that is missing there is an input); rows that cannot be read: each as when all rows are read
    """
    plans = column_plans(roles, source.schema, settings)
    if source.kind == "svmlight" or (rows := next(source.batches([plan.name for plan in plans]), None)) is None:
        return
    columns = dict(zip(plans, rows.batch.columns, strict=True))
    for plan, column in columns.items():
        if plan.kind == "category":
            check_words(source, plan.name, count_words(column), settings)
    filled = {plan.name: _absent(column) for plan, column in columns.items() if plan.kind != "category"}
    if settings.missing == "error" and any(absent.any() for absent in filled.values()):
        raise DataError(missing_in_rows(rows.file, list(filled), np.array([*filled.values()]), rows.first_row))


def _absent(column: pa.Array) -> Mask:
    """Which values of a column of numbers or dates are missing, (rows,)."""
    found: Mask = np.isnan(numbers(column)) if is_number(column.type) else column.is_null().to_numpy(False)
    return found
