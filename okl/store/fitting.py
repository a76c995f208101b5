"""How each column becomes inputs, learnt from the TRAIN rows in one pass of its own, before any row is written.

Only columns that need it are read: text, and under missing = mean numbers and dates, too. What is counted of a piece
of the source does not depend on who reads it, and pieces are added up in their order: so the records are the same from
one process and from any workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okl.configuration import IngestSettings
from okl.execution.protocol import Execution
from okl.store.columns import Roles
from okl.store.dateparts import DATE_PARTS, PARTS, date_parts, has_time, is_date, zone_of
from okl.store.encoder import words_and_index
from okl.store.encodings import EncodingKind
from okl.store.piecereading import read_piece
from okl.store.rowcopying import Passed
from okl.store.shardwork import Seat
from okl.store.sources import Source
from okl.store.splitting import held_out
from okl.store.values import is_number, numbers

MOST_VALUES = 50_000  # of a text column; beyond that they are no longer counted

NUMBER = r"^\s*[-+]?[$€£]?\s?(\d+\.?\d*|\.\d+|\d[\d.']*(,\d+)+(\.\d+)?)([eE][-+]?\d+)?\s?[%$€£]?\s*$"
"""What reads like a number, as spreadsheets write them, too: 1,5 and 1.234,5 and $1,234.5 and 7%."""
DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}([-/.])\d{1,2}[-/.]\d{4}|\d{1,2}/\d{1,2}/\d{2})([ T]\s?\d{1,2}:.*)?\s*$"
)
"""What reads like a date, of whose parts nobody says which is the month, or which is kept as text."""

Sums = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnPlan:
    """A source column and what it is read as."""

    name: str
    kind: EncodingKind
    time_zone: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of what a column of numbers or dates is made into, missing values apart."""
        return {"number": (self.name,), "category": ()}.get(
            self.kind, tuple(f"{self.name}:{part}" for part in (PARTS if self.kind == "timestamp" else DATE_PARTS))
        )


@dataclass(frozen=True, eq=False)
class Found:
    """What TRAIN rows hold of one column.

    rows : with a value; missing : without one; values : rows by value, None where there are more than MOST_VALUES
    sums : of the parts of a number or date, float64
    numeric, dated : of a text column, rows whose value reads like a number or a date, as far as values are counted
    """

    rows: int = 0
    missing: int = 0
    values: Counter[str] | None = None
    sums: Sums | None = None
    numeric: int = 0
    dated: int = 0

    def plus(self, later: Found) -> Found:
        """Of both, later rows last; the values of the later ones are counted in this one's counter."""
        values: Counter[str] | None = None
        if self.values is not None and later.values is not None:
            self.values.update(later.values)
            values = None if len(self.values) > MOST_VALUES else self.values
        sums = None if self.sums is None or later.sums is None else self.sums + later.sums
        rows, missing = self.rows + later.rows, self.missing + later.missing
        return Found(rows, missing, values, sums, self.numeric + later.numeric, self.dated + later.dated)


def column_plans(roles: Roles, schema: pa.Schema, settings: IngestSettings) -> list[ColumnPlan]:
    """What each input column is read as, in order."""
    plans = []
    for name in roles.features:
        kind = schema.field(name).type
        if name in settings.categories or not (is_number(kind) or is_date(kind)):
            plans.append(ColumnPlan(name, "category"))
        elif is_date(kind):
            plans.append(ColumnPlan(name, "timestamp" if has_time(kind) else "date", zone_of(kind)))
        else:
            plans.append(ColumnPlan(name, "number"))
    return plans


@dataclass(frozen=True)
class LookAtColumns:
    """Work on a piece: what its TRAIN rows hold of some columns."""

    roles: Roles
    plans: tuple[ColumnPlan, ...]
    seed: int

    def __call__(self, seat: Seat) -> tuple[int, list[Found]]:
        """Rows of the piece, and what was found of each column."""
        beside = [name for name in (self.roles.split, self.roles.holdout) if name is not None]
        columns = list(dict.fromkeys([*(plan.name for plan in self.plans), *beside]))
        found = [self._nothing(plan) for plan in self.plans]
        n_rows = 0
        for rows in read_piece(seat.piece, columns):
            test = held_out(self.roles, rows, seat.at.rows + n_rows, self.seed)
            n_rows += rows.batch.num_rows
            batch = rows.batch if test is None else rows.batch.filter(pa.array(~test))
            found = [
                so_far if _over(so_far) else so_far.plus(_look(plan, batch.column(plan.name)))
                for plan, so_far in zip(self.plans, found, strict=True)
            ]
        return n_rows, found

    def _nothing(self, plan: ColumnPlan) -> Found:
        return Found(values=Counter()) if plan.kind == "category" else Found(sums=np.zeros(len(plan.parts)))


def _over(found: Found) -> bool:
    """Whether a text column has too many values to go on counting."""
    return found.values is None and found.sums is None


def _look(plan: ColumnPlan, column: pa.Array) -> Found:
    n = len(column)
    if plan.kind == "category":
        return count_words(column)
    if plan.kind == "number":
        with np.errstate(over="ignore", invalid="ignore"):
            parts = numbers(column).astype(np.float32).astype(np.float64)[np.newaxis]
    else:
        parts = date_parts(column, plan.kind == "timestamp", plan.time_zone)
    present = ~np.isnan(parts[0])
    rows = int(present.sum())
    return Found(rows, n - rows, sums=parts[:, present].sum(axis=1))


def count_words(column: pa.Array) -> Found:
    """What a column holds that is taken for text."""
    words, index = words_and_index(column)
    counts = np.bincount(index % len(words), minlength=len(words))  # -1 is the last one
    named = Counter[str]()
    for word, count in zip(words.to_pylist(), counts.tolist(), strict=True):
        if word is not None and count:
            named[word] += count
    numeric, dated = (
        int(counts[pc.fill_null(pc.match_substring_regex(words, like), False).to_numpy(zero_copy_only=False)].sum())
        for like in (NUMBER, DATE)
    )
    rows = named.total()
    values = None if len(named) > MOST_VALUES else named
    return Found(rows, len(column) - rows, values, numeric=numeric, dated=dated)


def look_at_columns(
    source: Source, roles: Roles, plans: Sequence[ColumnPlan], settings: IngestSettings, execution: Execution | None
) -> list[Found]:
    """What the TRAIN rows of a source hold of some columns.

    source : one whose pieces know their rows, where workers read it

    Raises
    ------
    DataError : rows that cannot be read, or whose split is none
    """
    if not plans:
        return []
    work = LookAtColumns(replace(roles, keys=()), tuple(plans), settings.seed)
    parts = _in_turn(work, source) if execution is None else execution.map(work, seats_of(source))
    return reduce(_plus, (found for _, found in parts))


def _plus(one: list[Found], other: list[Found]) -> list[Found]:
    return [a.plus(b) for a, b in zip(one, other, strict=True)]


def _in_turn(work: LookAtColumns, source: Source) -> Iterable[tuple[int, list[Found]]]:
    rows = 0
    for piece in source.pieces():
        n_rows, found = work(Seat(piece, Passed(rows)))
        rows += n_rows
        yield n_rows, found


def seats_of(source: Source) -> list[Seat]:
    """Pieces that know their rows, with what comes before each."""
    seats, rows = [], 0
    for piece in source.pieces():
        seats.append(Seat(piece, Passed(rows)))
        rows += piece.rows or 0
    return seats
