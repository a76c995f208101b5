"""Profiles of raw files, read without trusting their content."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okl.data.dataset import ColumnStatistics, Schema, TextColumn
from okl.data.encoder import absent, encoder_of
from okl.data.ingest.reference import csv_types, open_by, text_labels
from okl.data.ingest.sources import Source, SourceBatch, scan_source
from okl.data.ingest.targets import plain_label
from okl.data.sparse import finite_sparse_rows
from okl.data.values import has_time, is_date, is_text, numbers, value_type
from okl.foundation.errors import DataError
from okl.foundation.locations import Place
from okl.foundation.types import Doubles, Integers
from okl.lifecycle.shard_store import Time

# Streaming column statistics.

Vector = NDArray[np.float64]


class ColumnTally:
    """Figures of n columns over the finite values of all rows so far.

    lowest, highest : (n,) beyond which values are counted

    rows : seen; missing, infinite, beyond : (n,) int64, values that are NaN, infinite, outside lowest to highest
    """

    def __init__(self, lowest: Vector, highest: Vector) -> None:
        n = len(lowest)
        self.rows = 0
        self.missing, self.infinite, self.beyond = (np.zeros(n, dtype=np.int64) for _ in range(3))
        self._lowest, self._highest = lowest[:, None], highest[:, None]
        self._count, self._mean, self._squares = np.zeros(n), np.zeros(n), np.zeros(n)
        self._minimum, self._maximum = np.full(n, np.inf), np.full(n, -np.inf)
        self._digests = [hashlib.sha256() for _ in range(n)]

    def add(self, values: NDArray[Any]) -> None:
        """Add a block of columns (n, rows), of any precision."""
        rows = values.shape[1]
        if rows == 0:
            return
        self.rows += rows
        for digest, column in zip(self._digests, values, strict=True):
            digest.update(np.ascontiguousarray(column).data)
        absent, infinite = np.isnan(values), np.isinf(values)
        finite = ~(absent | infinite)
        self.missing += absent.sum(axis=1)
        self.infinite += infinite.sum(axis=1)
        self.beyond += (finite & ((values < self._lowest) | (values > self._highest))).sum(axis=1)
        self._merge(values.astype(np.float64), finite)

    def statistics(self) -> tuple[ColumnStatistics, ...]:
        """Return the statistics of the finite values; a column without any has the mean 0 and a count of 0."""
        empty = self._count == 0
        deviation = np.sqrt(self._squares / np.maximum(1.0, self._count))
        deviation[self._minimum == self._maximum] = 0.0
        minimum, maximum = np.where(empty, 0.0, self._minimum), np.where(empty, 0.0, self._maximum)
        return tuple(
            ColumnStatistics(int(count), float(mean), float(spread), float(low), float(high))
            for count, mean, spread, low, high in zip(self._count, self._mean, deviation, minimum, maximum, strict=True)
        )

    def digest(self) -> bytes:
        """Return the digest of all values, column by column, independent of how they are cut into blocks."""
        return hashlib.sha256(b"".join(digest.digest() for digest in self._digests)).digest()

    def _merge(self, values: Vector, finite: NDArray[np.bool_]) -> None:
        """Merge two moments. Source: Chan, Golub & LeVeque, The American Statistician 37(3), 1983, equations 2.1."""
        count = finite.sum(axis=1).astype(np.float64)
        filled = np.where(finite, values, 0.0)
        mean = filled.sum(axis=1) / np.maximum(1.0, count)
        squares = np.where(finite, np.square(filled - mean[:, None]), 0.0).sum(axis=1)
        total = self._count + count
        delta, share = mean - self._mean, count / np.maximum(1.0, total)
        self._squares = self._squares + squares + np.square(delta) * self._count * share
        self._mean = self._mean + delta * share
        self._count = total
        self._minimum = np.minimum(self._minimum, np.where(finite, values, np.inf).min(axis=1))
        self._maximum = np.maximum(self._maximum, np.where(finite, values, -np.inf).max(axis=1))


def merged_statistics(parts: Sequence[tuple[ColumnStatistics, ...]]) -> tuple[ColumnStatistics, ...]:
    """Return statistics of columns over the rows of several parts, which each have one record a column."""
    statistics = []
    for columns in zip(*parts, strict=True):
        counted = [column for column in columns if column.count] or [columns[0]]
        total = sum(column.count for column in counted)
        mean = sum(column.count * column.mean for column in counted) / max(1, total)
        squares = sum(column.count * (column.standard_deviation**2 + (column.mean - mean) ** 2) for column in counted)
        lowest, highest = min(c.minimum for c in counted), max(c.maximum for c in counted)
        spread = 0.0 if lowest == highest else float(np.sqrt(squares / max(1, total)))
        statistics.append(ColumnStatistics(total, mean, spread, lowest, highest))
    return tuple(statistics)


# Sparse rows: a few figures of each row in place of one for each of very many columns.

OF_ROW = ("values of a row", "rows without a value", "lengths of rows")


def of_text(text: TextColumn) -> tuple[str, str, str]:
    """Return the names of the figures of a document: its known terms, whether it has none, whether it is empty."""
    return f"{text.column}: known terms", f"{text.column}: no known term", f"{text.column}: no text"


def measured(schema: Schema) -> tuple[str, ...]:
    """Return the names of all figures of a row: the features, then those of sparse rows."""
    if schema.sparse is None:
        return schema.features
    texts = tuple(name for text in schema.sparse.texts for name in of_text(text))
    return (*schema.features, *(texts or OF_ROW))


def _is_empty(column: pa.Array) -> NDArray[np.bool_]:
    """Return which documents are missing or hold white space only, (rows,)."""
    texts = pc.utf8_trim_whitespace(pc.fill_null(column.cast(pa.string()), ""))
    return np.asarray(pc.equal(texts, ""), dtype=np.bool_)


# The profile of a raw file.

MOST_LABELS = 1000
DAY = re.compile(r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})(?!\d)")


@dataclass(frozen=True)
class Range:
    """Valid ranges of the values of columns: (n,) each; of the target, one number each."""

    lowest: Doubles
    highest: Doubles
    target_lowest: float = -np.inf
    target_highest: float = np.inf


# Hashes of rows, by which rows of earlier files are recognised.

MOST_HASHES = 65_536  # of a file


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return well-distributed hashes of whole numbers: the mixer of SplitMix64.

    Source: Steele, Lea & Flood, Fast splittable pseudorandom number generators, OOPSLA 2014, figure 17.
    """
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class RowHashes:
    """The smallest different hashes of the rows so far: all, or a sample in which equal rows of two files meet.

    values, counts : (n,), the hashes, ascending, and the rows of each

    Source: Beyer, Haas, Reinwald, Sismanis & Gemulla, SIGMOD 2007 (synopses of the k smallest hashes).
    """

    def __init__(self) -> None:
        self.values, self.counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Add the hashes of some rows, (rows,)."""
        counts = np.concatenate([self.counts, np.ones(len(hashes), dtype=np.int64)])
        values, places = np.unique(np.concatenate([self.values, hashes]), return_inverse=True)
        self.values = values[:MOST_HASHES]
        self.counts = np.bincount(places, counts, len(values)).astype(np.int64)[:MOST_HASHES]

    @property
    def repeated(self) -> float:
        """Return the share of rows that have an equal row in the file."""
        return float(self.counts[self.counts > 1].sum() / max(1, self.counts.sum()))

    def shared(self, earlier: NDArray[np.uint64]) -> tuple[float, int]:
        """Return the share of rows that an earlier file has, and of how many rows it is."""
        both = [values[-1] for values in (self.values, earlier) if len(values) == MOST_HASHES]
        n = len(self.values) if not both else int(np.searchsorted(self.values, min(both), side="right"))
        rows = int(self.counts[:n].sum())
        seen = int(self.counts[:n][np.isin(self.values[:n], earlier)].sum())
        return seen / max(1, rows), rows


@dataclass(frozen=True, eq=False)
class Profile:
    """Figures of a file's rows.

    columns : of the finite values of each figure, see `measured`; infinite, beyond : values of each, (n_figures,)
    missing : rows without a value in each source column, however it is encoded, (n_source_columns,)
    target : of the finite targets (numbers only); target_missing, target_infinite, target_beyond : rows
    labels : rows by label, as a person would write it; empty for regression; first_time, last_time : of the time column
    rows_sha256 : of inputs and targets, whatever the file's format and compression; hashes : of single rows
    """

    rows: int
    columns: tuple[ColumnStatistics, ...]
    missing: Integers
    infinite: Integers
    beyond: Integers
    target: ColumnStatistics | None
    target_missing: int
    target_infinite: int
    target_beyond: int
    labels: Mapping[Any, int]
    first_time: Time | None
    last_time: Time | None
    rows_sha256: str
    hashes: RowHashes


def open_shard(location: Place, reference: Schema) -> Source:
    """Open a file as a source with at least the reference's inputs (svmlight); DataError if that is impossible."""
    return scan_source(open_by(reference, location), None, csv_types(reference))


def profile_of(source: Source, reference: Schema, limits: Range, time_column: str | None = None) -> Profile:
    """Read all rows of a source whose columns fit the reference. Raises DataError (rows that cannot be read)."""
    reading = _Reading(reference, limits, time_column)
    names = [*reference.source_columns, reference.target]
    if time_column is not None and time_column not in names:
        names.append(time_column)
    for batch in source.batches(names, exact=() if time_column is None else (time_column,)):
        reading.add(batch)
    return reading.profile()


class _Reading:
    """A profile while rows stream by."""

    def __init__(self, reference: Schema, limits: Range, time_column: str | None) -> None:
        self._reference, self._time_column = reference, time_column
        self._inputs = ColumnTally(limits.lowest, limits.highest)
        self._target = ColumnTally(np.array([limits.target_lowest]), np.array([limits.target_highest]))
        self._words, self._hashes = hashlib.sha256(), RowHashes()
        # of row lengths, indices and values
        self._sparse = [] if reference.sparse is None else [hashlib.sha256() for _ in range(3)]
        self._absent = Counter({encoding.column: 0 for encoding in reference.encodings})
        self._labels: Counter[Any] = Counter()
        self._no_label = 0
        self._times: list[Time] = []

    def add(self, rows: SourceBatch) -> None:
        schema, n = self._reference, rows.batch.num_rows
        values = np.empty((len(measured(schema)), n), dtype=np.float32)
        encoder_of(schema).fill(values, rows.batch, schema.missing)
        hashes = np.zeros(n, dtype=np.uint64)
        if schema.sparse is not None:
            hashes = self._add_sparse(values[len(schema.features) :], rows)
        self._inputs.add(values)
        for encoding in schema.encodings:
            self._absent[encoding.column] += int(absent(encoding, rows.batch.column(encoding.column)).sum())
        column = rows.batch.column(schema.target)
        if text_labels(schema):
            hashes ^= self._add_texts(column)
        else:
            target = numbers(column).astype(np.float64)
            hashes ^= target.view(np.uint64)
            self._target.add(target[np.newaxis])
            if schema.labels and len(self._labels) <= MOST_LABELS:
                different, counts = np.unique(target[np.isfinite(target)], return_counts=True)
                labels = [plain_label(float(value), column.type) for value in different]
                self._labels.update(dict(zip(labels, counts.tolist(), strict=True)))
        for figure in values:
            hashes = mixed(hashes ^ figure.view(np.uint32))
        self._hashes.add(hashes)
        if self._time_column is not None and n:
            self._times = times_of([*self._times], rows.batch.column(self._time_column))

    def profile(self) -> Profile:
        text, target = text_labels(self._reference), self._target
        counts = dict(zip(measured(self._reference), self._inputs.missing.tolist(), strict=True)) | self._absent
        of_target = self._words.digest() if text else target.digest()
        digests = [self._inputs.digest(), of_target, *(digest.digest() for digest in self._sparse)]
        return Profile(
            rows=self._inputs.rows,
            columns=self._inputs.statistics(),
            missing=np.array([counts.get(name, 0) for name in self._reference.source_columns], dtype=np.int64),
            infinite=self._inputs.infinite,
            beyond=self._inputs.beyond,
            target=None if text else target.statistics()[0],
            target_missing=self._no_label if text else int(target.missing[0]),
            target_infinite=0 if text else int(target.infinite[0]),
            target_beyond=0 if text else int(target.beyond[0]),
            labels=dict(self._labels),
            first_time=self._times[0] if self._times else None,
            last_time=self._times[-1] if self._times else None,
            rows_sha256=hashlib.sha256(b"".join(digests)).hexdigest(),
            hashes=self._hashes,
        )

    def _add_sparse(self, figures: NDArray[np.float32], rows: SourceBatch) -> NDArray[np.uint64]:
        """Write the figures of sparse rows, (n_figures, rows), digest the rows, and return a hash of each."""
        columns = self._reference.sparse
        assert columns is not None, "the caller has checked"
        found = finite_sparse_rows(rows.batch, columns, rows.file, rows.first_row)
        for digest, part in zip(self._sparse, (np.diff(found.indptr), found.indices, found.data), strict=True):
            digest.update(np.ascontiguousarray(part).data)
        if not columns.texts:
            counts = np.diff(found.indptr)
            figures[:] = counts, counts == 0, np.sqrt(found.power(2).sum(axis=1))
        first = 0
        for text, out in zip(columns.texts, np.split(figures, max(1, len(columns.texts))), strict=False):
            counts = np.diff(found[:, first : first + len(text.terms)].indptr)
            empty = _is_empty(rows.batch.column(text.column))
            out[:], first = (counts, counts == 0, empty), first + len(text.terms)
            self._absent[text.column] += int(empty.sum())
        numbered = (found.indices.astype(np.uint64) << np.uint64(32)) | found.data.astype(np.float32).view(np.uint32)
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed(numbered))])
        row_sums: NDArray[np.uint64] = np.diff(sums[found.indptr])
        return row_sums

    def _add_texts(self, column: pa.Array) -> NDArray[np.uint64]:
        texts = pc.fill_null(column.cast(pa.string()), "")
        if not len(texts):
            return np.empty(0, dtype=np.uint64)
        texts_list = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
        self._words.update(f"{pc.binary_join(texts_list, chr(0))[0]}\0".encode())  # each word, and what ends it
        for counted in pc.value_counts(texts).to_pylist():
            if counted["values"]:
                self._labels[counted["values"]] += counted["counts"]
            else:
                self._no_label += counted["counts"]
        labels = texts.dictionary_encode()
        hashes = [hashlib.sha256(label.encode()).digest()[:8] for label in labels.dictionary.to_pylist()]
        of_rows: NDArray[np.uint64] = np.frombuffer(b"".join(hashes), dtype=np.uint64)[labels.indices.to_numpy()]
        return of_rows


def times_of(before: list[Time], column: pa.Array) -> list[Time]:
    """Return first and last of earlier times and of a column, numbers or texts (UTC); DataError for another type."""
    kind = value_type(column.type)
    if not (is_date(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or is_text(kind)):
        raise DataError(
            f"The time column has the type {kind}. Expected times, dates, numbers, or text such as 2026-11-22."
        )
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    elif has_time(kind):  # Python's times hold no nanoseconds
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_floating(column.type):  # NaN and infinity are no times
        column = column.filter(pc.is_finite(column))
    ends = pc.min_max(column).as_py()
    times = [_plain_time(value) for value in (ends["min"], ends["max"]) if value is not None]
    both = sorted([*before, *times], key=lambda value: (isinstance(value, str), value))
    return both[:: max(1, len(both) - 1)] if both else []


def time_in_name(name: str) -> Time | None:
    """Return the last date in a name, such as 2026-11-22 or 20261122, None if there is none."""
    days = []
    for year, month, day in DAY.findall(name):
        try:
            days.append(date(int(year), int(month), int(day)).isoformat())
        except ValueError:
            continue
    return days[-1] if days else None


def _plain_time(value: Any) -> Time:
    if isinstance(value, datetime):
        return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, str) else float(value)
