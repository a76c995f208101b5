"""Sparse rows: compressed rows of Arrow lists, of texts, and with dense columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from okl.data.dataset import INDICES, VALUES, SparseColumns, TextColumn
from okl.foundation.errors import DataError
from okl.foundation.types import Doubles, FloatArray, Precision

MOST_COLUMNS = 1_000_000
LISTS = {INDICES: pa.list_(pa.int32()), VALUES: pa.list_(pa.float32())}
"""Types of the columns of shards that hold sparse rows."""

_ROWS_AT_ONCE = 1024  # whose numbers of double precision are few next to the rows

Csr = Any
"""A scipy.sparse.csr_array (rows, columns) with sorted int32 indices, none twice in a row."""


def n_rows(inputs: Any) -> int:
    """Return the number of rows of inputs, dense or sparse."""
    return int(inputs.shape[0])


def stacked(blocks: Sequence[Any]) -> Any:
    """Return blocks of rows, all dense or all sparse, one after the other."""
    if sparse.issparse(blocks[0]):
        return sparse.vstack(blocks, format="csr") if len(blocks) > 1 else blocks[0]
    return np.concatenate(blocks)


def rows_of_lists(indices: pa.ListArray, values: pa.ListArray, n_columns: int, precision: Precision) -> Csr:
    """Return rows of columns of Arrow lists; indices of n_columns or more are left out."""
    starts = indices.offsets.to_numpy() - indices.offsets[0].as_py()
    columns = indices.flatten().to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    numbers = values.flatten().to_numpy(zero_copy_only=False).astype(precision, copy=False)
    if len(columns) and int(columns.max()) >= n_columns:
        kept = columns < n_columns
        starts = np.concatenate([[0], np.cumsum(kept)])[starts]
        columns, numbers = columns[kept], numbers[kept]
    return sparse.csr_array((numbers, columns, starts.astype(np.int32)), shape=(len(indices), n_columns))


def lists_of(rows: Csr) -> tuple[pa.Array, pa.Array]:
    """Return rows as two columns of Arrow lists, of indices and of values."""
    starts = pa.array(rows.indptr.astype(np.int32))
    lists = (rows.indices.astype(np.int32), rows.data.astype(np.float32))
    indices, values = (pa.ListArray.from_arrays(starts, pa.array(flat)) for flat in lists)
    return indices, values


def of_unit_length(rows: Csr) -> Csr:
    """Return rows divided by their lengths; an empty row stays empty."""
    data = np.empty_like(rows.data)
    for first in range(0, rows.shape[0], _ROWS_AT_ONCE):
        starts = rows.indptr[first : first + _ROWS_AT_ONCE + 1]
        cut, shape = slice(starts[0], starts[-1]), (len(starts) - 1, rows.shape[1])
        squares = np.square(rows.data[cut], dtype=np.float64)
        sums = sparse.csr_array((squares, rows.indices[cut], starts - starts[0]), shape=shape).sum(axis=1)
        lengths = np.sqrt(np.asarray(sums, dtype=np.float64))
        factors = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0.0)
        data[cut] = rows.data[cut] * np.repeat(factors, np.diff(starts))
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def with_dense_columns(dense: FloatArray, rows: Csr, columns: SparseColumns) -> Csr:
    """Return inputs (rows, n_dense + n_columns): scaled dense columns, and sparse rows as they are read."""
    rows = of_unit_length(rows) if columns.unit_length else rows
    if not dense.shape[1]:
        return rows
    return sparse.hstack([sparse.csr_array(dense), rows], format="csr")  # without the zeros of categories


def finite_sparse_rows(batch: pa.RecordBatch, columns: SparseColumns, file: str, first_row: int) -> Csr:
    """Return the sparse rows of a batch of a source, (rows, n_columns) float32, before they are divided by lengths.

    Raises DataError : a value that is not finite: names file, column and row
    """
    if columns.texts:
        parts = [weighted_terms(batch.column(text.column), text).astype(np.float32) for text in columns.texts]
        return parts[0] if len(parts) == 1 else sparse.hstack(parts, format="csr")
    rows = rows_of_lists(batch.column(INDICES), batch.column(VALUES), columns.n_columns, "float32")
    if not np.isfinite(rows.data).all():
        place = int(np.flatnonzero(~np.isfinite(rows.data))[0])
        row = first_row + int(np.searchsorted(rows.indptr, place, side="right")) - 1
        raise DataError(
            f"{file}: column {columns.name(int(rows.indices[place]))!r} is not finite within float32 (3.4e38) in row "
            f"{row} (counted from 0). Correct the value, or leave the row out."
        )
    return rows


# Texts: words and pairs of words, as scikit-learn's vectorisers find them.

MOST_COUNTED = 2_000_000  # terms of a count; of more, those in most documents are kept
PAIRS = (1, 2)


def texts_of(column: pa.Array) -> list[str]:
    """Return the documents of a column of text, "" where there is none."""
    return [text or "" for text in column.cast(pa.string()).to_pylist()]


def count_terms(documents: Iterable[str]) -> Counter[str]:
    """Return the number of documents that hold each word and each pair of words in a row."""
    from sklearn.feature_extraction.text import CountVectorizer  # heavy: only those with texts pay for it

    analyse = CountVectorizer(ngram_range=PAIRS).build_analyzer()
    counts = Counter[str]()
    for document in documents:
        counts.update(set(analyse(document)))
    return most_frequent(counts, MOST_COUNTED)


def most_frequent(counts: Counter[str], most: int) -> Counter[str]:
    """Return the counts of the terms in most documents, of equally frequent ones the first in the alphabet."""
    if len(counts) <= most:
        return counts
    return Counter(dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]))


def fitted_text(column: str, counts: Counter[str], documents: int, least: int, most: int) -> TextColumn:
    """Return terms in at least `least` documents, at most `most`, with log((1 + documents) / (1 + count)) + 1."""
    kept = most_frequent(Counter({term: count for term, count in counts.items() if count >= least}), most)
    terms = tuple(sorted(kept))
    frequencies = np.array([kept[term] for term in terms], dtype=np.float64)
    weights = np.log((1.0 + documents) / (1.0 + frequencies)) + 1.0
    return TextColumn(column, terms, tuple(weights.tolist()))


@lru_cache(maxsize=8)
def _vectoriser(terms: tuple[str, ...]) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(ngram_range=PAIRS, vocabulary={term: index for index, term in enumerate(terms)})


def weighted_terms(column: pa.Array, text: TextColumn) -> Csr:
    """Return (1 + log count) times weight of each term of each document, divided by the length of the row.

    A document without any known term has an empty row. Source: Salton & Buckley, 1988, as in scikit-learn's
    TfidfVectorizer(sublinear_tf=True).
    """
    counts = sparse.csr_array(_vectoriser(text.terms).transform(texts_of(column)))
    counts.sort_indices()
    weights: Doubles = np.array(text.weights, dtype=np.float64)
    data = (1.0 + np.log(counts.data.astype(np.float64))) * weights[counts.indices]
    rows = sparse.csr_array((data, counts.indices.astype(np.int32), counts.indptr.astype(np.int32)), counts.shape)
    return of_unit_length(rows)
