"""Columns of whole numbers that seem to name rows rather than measure something: told of, never left out."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import pyarrow as pa
import pyarrow.compute as pc

from okl.errors import DataError
from okl.store.columns import Roles
from okl.store.sources import Source
from okl.store.values import value_type

FIRST_ROWS = 16_384  # by a count of rows: batches are cut otherwise on workers, and warnings must be the same
FEW_ROWS = 100  # in so few, measures too may all differ


def identifier_notes(source: Source, roles: Roles, categories: Sequence[str] = ()) -> list[str]:
    """A sentence for each input column of whole numbers all of which differ in the first rows, such as an id.

    Only the first FIRST_ROWS rows are read, and only of such columns.

    roles : before encodings are learnt; categories : columns whose numbers are names, as was said
    """
    kinds = {name: value_type(source.schema.field(name).type) for name in roles.features if name not in categories}
    names = [name for name, kind in kinds.items() if pa.types.is_integer(kind)]
    if not names:
        return []
    try:
        found, rows = _differing(source, names)
    except DataError:  # such as a word among numbers: the reading of all rows finds it, and tells better
        return []
    return [_sentence(name, rows) for name in found]


def _differing(source: Source, names: Sequence[str]) -> tuple[list[str], int]:
    """Columns all of whose first values differ, and how many rows were looked at."""
    columns, rows = {name: list[pa.Array]() for name in names}, 0
    for read in source.batches(names, exact=names):
        batch = read.batch.slice(0, FIRST_ROWS - rows)
        rows += batch.num_rows
        for name in list(columns):
            columns[name].append(batch.column(name))
            if not _all_differ(columns[name]):
                del columns[name]
        if rows == FIRST_ROWS or not columns:
            break
    present = {name: sum(len(part) - part.null_count for part in parts) for name, parts in columns.items()}
    return [name for name, count in present.items() if count > FEW_ROWS], rows


def _all_differ(parts: list[pa.Array]) -> bool:
    values = pa.chunked_array(parts).drop_null()
    return bool(pc.count_distinct(values).as_py() == len(values))


def _sentence(name: str, rows: int) -> str:
    where = f"the first {rows:,} rows" if rows == FIRST_ROWS else f"its {rows:,} rows"
    return (
        f"Column {name!r} holds whole numbers that all differ in {where}, as those of an id do; it is learnt from all "
        f"the same (--key {quote(name)} carries it along, --drop {quote(name)} leaves it out)."
    )
