"""A look through CSV files before their rows are used: types that fit all values, and how many rows there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from okl.execution.protocol import Execution
from okl.store import csvblocks, csvtypes
from okl.store.piecereading import Piece, count_rows, read_piece
from okl.store.places import place_of
from okl.store.sources import Source, in_stretches

T = TypeVar("T")

MOST_THREADS = 4
LEADING_ZEROS = r"^\s*[-+]?0\d"  # a number does not keep them
MANY_DIGITS = r"^\s*[-+]?\d{16,}\s*$"  # of whole numbers beyond 2^53 float64 keeps the first ones only


def looked_through(
    source: Source, execution: Execution | None, types: Collection[str] = (), exact: Collection[str] = ()
) -> Source:
    """A CSV source with the types that fit all its values, cut into pieces that know their rows; others as they are.

    types : names of columns whose type stands already
    exact : names of columns that are to come back as they are written, such as keys: numbers that would not become text

    A file of a single block has been seen whole, and is left as it is unless there are workers to share it.
    """
    if source.kind != "csv":
        return source
    looked = _settled(source, execution, types)
    changed = rewritten(looked.parts, exact, execution)
    if not changed:
        return looked
    schema = _as_text(looked.schema, changed)
    return replace(looked, schema=schema, parts=tuple(replace(piece, schema=schema) for piece in looked.parts))


def _settled(source: Source, execution: Execution | None, types: Collection[str]) -> Source:
    """The same with types by all values, and pieces; `types` : see `looked_through`."""
    if execution is None and all(csvblocks.of_one_block(file) for file in source.files):
        return source
    pieces = in_stretches(source)
    looks = _in_threads(_look_through, pieces) if execution is None else list(execution.map(_look_through, pieces))
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


def rewritten(pieces: Sequence[Piece], names: Collection[str], execution: Execution | None = None) -> set[str]:
    """Those columns of CSV files that are read as numbers, but hold values that a number would write otherwise.

    Such values are digits with leading zeros, as 00501, and whole numbers of more digits than float64 keeps, where
    int64 does not take them all. Only these columns are read, and none where none of them is of numbers.

    Raises
    ------
    DataError : rows that cannot be read
    """
    kinds = {field.name: field.type for field in pieces[0].schema if field.name in names}
    zeros = [name for name, kind in kinds.items() if pa.types.is_integer(kind) or pa.types.is_floating(kind)]
    if pieces[0].kind != "csv" or not zeros:
        return set()
    work = FindRewritten(tuple(zeros), tuple(name for name in zeros if pa.types.is_floating(kinds[name])))
    found = _in_threads(work, pieces) if execution is None else execution.map(work, pieces)
    return set().union(*found)


@dataclass(frozen=True)
class FindRewritten:
    """Work on a piece: which columns hold leading zeros, or, if they are among `floating`, too many digits."""

    names: tuple[str, ...]
    floating: tuple[str, ...]

    def __call__(self, piece: Piece) -> set[str]:
        """Names of such columns."""
        found, text = set[str](), replace(piece, schema=_as_text(piece.schema, self.names))
        for rows in read_piece(text, self.names, csvblocks.BLOCK_BYTES):
            for name in {*self.names} - found:
                pattern = f"{LEADING_ZEROS}|{MANY_DIGITS}" if name in self.floating else LEADING_ZEROS
                if pc.any(pc.match_substring_regex(rows.batch.column(name), pattern)).as_py():
                    found.add(name)
            if len(found) == len(self.names):
                break
        return found


def _as_text(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    return pa.schema([field.with_type(pa.string()) if field.name in names else field for field in schema])


def _in_threads(work: Callable[[Piece], T], pieces: Sequence[Piece]) -> list[T]:
    """Work on all pieces, in order, several at once: Arrow lets go of Python's lock while it parses."""
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as threads:
        return list(threads.map(work, pieces))


def _look_through(piece: Piece) -> csvtypes.Looked | None:
    assert piece.span is not None
    return csvtypes.look_through(place_of(piece.path), piece.schema.names, piece.span, piece.dialect)
