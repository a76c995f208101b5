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
from okl.store.targets import TargetReader
from okl.store.values import Mask, is_number, missing_in_rows, missing_target, numbers


def check_first_rows(source: Source, roles: Roles, settings: IngestSettings, targets: TargetReader) -> None:
    """Look at the first batch of rows, of svmlight text at none.

    targets : reads the target; not to be used again, as it has seen these rows then

    Raises
    ------
    DataError : text that is rather dates or numbers; a number, a date or a target that is missing where none may be
        (for a word that is missing there is an input); rows that cannot be read: each as when all rows are read
    """
    plans = column_plans(roles, source.schema, settings)
    names = [*(plan.name for plan in plans), roles.target]
    if source.kind == "svmlight" or (rows := next(source.batches(names), None)) is None:
        return
    columns = {plan: rows.batch.column(plan.name) for plan in plans}
    for plan, column in columns.items():
        if plan.kind == "category":
            check_words(source, plan.name, count_words(column), settings)
    filled = {plan.name: _absent(column) for plan, column in columns.items() if plan.kind != "category"}
    if settings.missing == "error" and any(absent.any() for absent in filled.values()):
        raise DataError(missing_in_rows(rows.file, list(filled), np.array([*filled.values()]), rows.first_row))
    if settings.missing != "drop" and (absent := np.isnan(targets.values(rows))).any():
        raise DataError(missing_target(rows.file, roles.target, absent, rows.first_row))


def _absent(column: pa.Array) -> Mask:
    """Which values of a column of numbers or dates are missing, (rows,)."""
    found: Mask = np.isnan(numbers(column)) if is_number(column.type) else column.is_null().to_numpy(False)
    return found
