"""A look through CSV files before their rows are used: types that fit all values, and how many rows there are."""

from __future__ import annotations

import os
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce

import pyarrow as pa

from okl.execution.protocol import Execution
from okl.store import csvblocks, csvtypes
from okl.store.piecereading import Piece, count_rows
from okl.store.places import place_of
from okl.store.sources import Source, in_stretches

MOST_THREADS = 4


def looked_through(source: Source, execution: Execution | None, types: Collection[str] = ()) -> Source:
    """A CSV source with the types that fit all its values, cut into pieces that know their rows; others as they are.

    types : names of columns whose type stands already

    A file of a single block has been seen whole, and is left as it is unless there are workers to share it.
    """
    if source.kind != "csv":
        return source
    if execution is None and all(csvblocks.of_one_block(file) for file in source.files):
        return source
    pieces = in_stretches(source)
    looks = _in_threads(pieces) if execution is None else list(execution.map(_look_through, pieces))
    schema = source.schema
    if all(look is not None for look in looks):
        found = csvtypes.settled(reduce(csvtypes.merged_types, (look.schema for look in looks if look is not None)))
        schema = pa.schema([old if old.name in types else new for old, new in zip(schema, found, strict=True)])
        numbered = zip(pieces, looks, strict=True)
        pieces = [replace(piece, rows=look.rows) for piece, look in numbered if look is not None]
    elif execution is None:  # read as it is: then the error names the row
        return source
    else:  # such as a line end in quotes, just where a block ends
        counted = zip(pieces, execution.map(count_rows, pieces), strict=True)
        pieces = [replace(piece, rows=rows) for piece, rows in counted]
    firsts: dict[str, int] = {}
    parts = []
    for piece in pieces:
        parts.append(replace(piece, schema=schema, first_row=firsts.get(piece.path, 0)))
        firsts[piece.path] = firsts.get(piece.path, 0) + (piece.rows or 0)
    return replace(source, schema=schema, parts=tuple(parts))


def _in_threads(pieces: list[Piece]) -> list[csvtypes.Looked | None]:
    """Looks at all pieces, in order, several at once: Arrow lets go of Python's lock while it parses."""
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as threads:
        return list(threads.map(_look_through, pieces))


def _look_through(piece: Piece) -> csvtypes.Looked | None:
    assert piece.span is not None
    return csvtypes.look_through(place_of(piece.path), piece.schema.names, piece.span, piece.dialect)
