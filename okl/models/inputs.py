"""Raw rows prepared for a model: columns matched by name, missing values, scaling, predictions."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from shlex import quote
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from okl.data.dataset import Dataset, Encoding, Schema
from okl.data.encoder import category_codes, check_kinds, encoder_of, texts_and_index, unfit
from okl.data.ingest.columns import label_remedy, near_names
from okl.data.ingest.reference import text_labels
from okl.data.ingest.sources import SourceBatch, list_files, without_view_types
from okl.data.ingest.targets import stored_index
from okl.data.ingest.value_formats import convert_table
from okl.data.reading import scaled_inputs
from okl.data.sparse import finite_sparse_rows, with_dense_columns
from okl.data.values import (
    Mask,
    apply_missing_policy,
    is_number,
    is_text,
    missing_in,
    numbers,
    numbers_among,
    one_array,
    values_hint,
)
from okl.foundation.errors import DataError, DivergedError, ModelError, first_of, listed
from okl.foundation.locations import combined_digest, file_sha256, place_of
from okl.foundation.types import FloatArray, IntArray, Precision
from okl.metrics.definitions import predicted_classes

MATRIX = "rows"  # name of the raw values of columns of numbers in exported models
WORDS = r"(?u)\b\w\w+\b"  # of a text in lower case, as scikit-learn's vectorisers find them

# Data sets and models: agreement of schemas, and whether the rows were learned.


def read_as(data: Dataset, schema: Schema) -> Dataset:
    """Return the same shards, to be read with the schema of a model that was trained on other rows.

    Raises DataError : a column of the model is no input here, the target is another one, or has an unknown label
    """
    check_encodings(data, schema)
    missing = [name for name in schema.features if name not in data.schema.features]
    if missing:
        shown = listed([*map(repr, missing)])
        raise DataError(f"{data.folder}: the data set lacks input columns of the model: {shown}.")
    if data.schema.target != schema.target or (data.schema.task == "regression") != (schema.task == "regression"):
        raise DataError(
            f"{data.folder}: the target {data.schema.target!r} ({data.schema.task}) differs from the model's target "
            f"{schema.target!r} ({schema.task}). Ingest the rows with --target {schema.target} --task {schema.task}."
        )
    stored = dict(zip(data.schema.labels, data.schema.stored_labels, strict=True))
    if unknown := [label for label in stored if label not in schema.labels]:
        shown = ", ".join(map(repr, schema.labels[:8]))
        raise DataError(
            f"{data.folder}: target {schema.target!r} has the label {unknown[0]!r}, which is not a label of training: "
            f"{shown}. {label_remedy(unknown[0], schema.labels)}"
        )
    # not a number: it equals no stored value, as no row here has such a label
    values = tuple(stored.get(label, float("nan")) for label in schema.labels)
    return replace(data, schema=replace(schema, stored_labels=values))


def check_encodings(data: Dataset, schema: Schema) -> None:
    """Raise DataError if encodings of a data set (inputs of values, filling means) differ from the model's."""
    here, own = data.schema.sparse, schema.sparse
    if (here is None) != (own is None) or (here is not None and own is not None and here.texts != own.texts):
        raise DataError(
            f"{data.folder}: rows are {'dense' if here is None else 'sparse'}, or their texts have other terms than "
            "the model's. Give the original source instead: the model encodes its own inputs."
        )
    if schema.encodings and data.schema.encodings != schema.encodings:
        raise DataError(
            f"{data.folder}: text, dates or missing values are encoded differently from the model's inputs. "
            "Give the original source instead: the model encodes its own inputs."
        )


def count_training_rows(
    provenance: Mapping[str, Any], source: str, data: Dataset | None = None, split: str = "all"
) -> int:
    """Return the number of these rows that a model was trained on, by its provenance: all of its source, or 0."""
    if split == "test":
        return 0
    files = list_files(place_of(source)) if data is None else []
    digest = combined_digest(files, map(file_sha256, files)) if data is None else data.sha256
    trained_digest = provenance.get("source_sha256" if data is None else "data_sha256")
    return int(provenance.get("train_rows") or 0) if digest == trained_digest else 0


# Raw rows: columns by name, missing values and scaling, as in ingest.
#
# Under the policy "drop" no row is lost here: a row that misses a value keeps its place and is marked, so that
# predictions of these rows can be left empty, which keeps the order of rows.


class RawRows(NamedTuple):
    """Inputs (rows, n_features), scaled; targets (rows,) as in `Rows`, or None if none were requested.

    complete : which rows hold all their values, (rows,); None for all. The others have inputs and targets of 0.
    replaced : see `Replaced`
    """

    inputs: FloatArray
    targets: NDArray[np.float64] | None
    complete: Mask | None
    replaced: Replaced

    @property
    def kept(self) -> Mask | slice:
        return slice(None) if self.complete is None else self.complete


Replaced: TypeAlias = Counter[str]
"""Rows in which a number is missing and replaced by the mean, by its column, of columns without missing values in
training; rows without a target, which are incomplete, by NO_TARGET; and rows by LATER, MISSING and UNSEEN."""

NO_TARGET = ""


def replaced_sentences(replaced: Mapping[str, int], schema: Schema) -> list[str]:
    """Return a sentence for rows without a target, and one for missing values that training did not have.

    >>> schema = Schema(("a",), "y", "regression")
    >>> for sentence in replaced_sentences({"": 2, "a": 30}, schema):
    ...     print(sentence)
    2 rows were left out, because the target 'y' has no value.
    Missing values were replaced by training means in columns that had none missing in training: 'a' (30 rows).
    """
    columns = [name for name in schema.source_columns if replaced.get(name)]
    shown = listed([f"{name!r} ({n:,} row{'s' * (n != 1)})" for name in columns if (n := replaced[name])])
    missing = replaced.get(NO_TARGET, 0)
    lines = []
    if missing:
        rows = "1 row was" if missing == 1 else f"{missing:,} rows were"
        lines.append(f"{rows} left out, because the target {schema.target!r} has no value.")
    if columns:
        lines.append(
            f"Missing values were replaced by training means in columns that had none missing in training: {shown}."
        )
    return [
        *lines,
        *later_sentences(replaced, schema),
        *missing_sentences(replaced, schema),
        *unseen_sentences(replaced, schema),
    ]


LATER = "later than in training: "
"""Start of the key of a date column in `Replaced`, before its name."""
DATED_ROWS = f"{LATER}\n"
BY_CHANCE = 0.01  # probability of as many later rows in a random split, below which they are named


def later_sentences(replaced: Mapping[str, int], schema: Schema, kind: str = "") -> list[str]:
    """Return a sentence that names columns whose dates are later than in training; kind : of the rows, as "test "."""
    n_dated = replaced.get(DATED_ROWS, 0)
    trained = max((column.count for column in schema.feature_statistics), default=0)
    # of rows in random order, the share of new ones is the probability that a new one is the latest of those left
    by_chance = n_dated / max(1, n_dated + trained)
    later = [name for name in schema.source_columns if by_chance ** replaced.get(LATER + name, 0) < BY_CHANCE]
    if not later:
        return []
    shown = listed([f"{name!r} ({n:,} {kind}row{'s' * (n != 1)})" for name in later if (n := replaced[LATER + name])])
    check = "" if kind else ", so check its error on labelled new rows"
    return [
        f"Dates are later than all training dates: {shown}. The model has not learned from such dates{check}. "
        f"Ages (days since) instead of dates, or no dates (--drop {quote(later[0])}), may predict better."
    ]


def later_dates(schema: Schema, values: FloatArray) -> Replaced:
    """Return the rows of dates later than all training dates by column; values : (n_features, rows), before scaling."""
    place = {name: index for index, name in enumerate(schema.features)}
    found: Replaced = Counter()
    for encoding in schema.encodings:
        index = place.get(encoding.inputs[0]) if encoding.is_date else None
        if index is not None and index < len(schema.feature_statistics):
            last = np.float32(schema.feature_statistics[index].maximum)
            found[LATER + encoding.column], found[DATED_ROWS] = int((values[index] > last).sum()), values.shape[1]
    return found


MISSING = "missing: "
"""Start of the key in `Replaced` of a column with missing values in training, before its name."""


def missing_values(schema: Schema, values: FloatArray) -> Replaced:
    """Return the rows with a missing value of columns that had some in training; values : (n_features, rows)."""
    place = {name: index for index, name in enumerate(schema.features)}
    found: Replaced = Counter()
    for encoding in schema.encodings:
        if encoding.missing and encoding.inputs[-1] in place:
            found[MISSING + encoding.column] = int((values[place[encoding.inputs[-1]]] == 1.0).sum())
    return found


def missing_sentences(replaced: Mapping[str, int], schema: Schema) -> list[str]:
    """Return a sentence that names columns whose values are missing far more often than in training; not of few rows.

    >>> from okl.data.dataset import ColumnStatistics, Encoding
    >>> usual = ColumnStatistics(400, 0.08, 0.27, 0.0, 1.0)
    >>> ages = Encoding("age", "number", ("age", "age (missing)"), missing=True)
    >>> schema = Schema(ages.inputs, "y", "regression", encodings=(ages,), feature_statistics=(usual, usual))
    >>> missing_sentences({ALL_ROWS: 500, "missing: age": 500}, schema)
    ["Values are missing far more often than in training: 'age' in 100% of 500 rows, in training 8%."]
    >>> missing_sentences({ALL_ROWS: 500, "missing: age": 120}, schema)
    []
    """
    shown, rows = [], replaced.get(ALL_ROWS, 0)
    for encoding in schema.encodings if rows >= FEW_ROWS and schema.feature_statistics else ():
        if count := replaced.get(MISSING + encoding.column, 0):
            usual = schema.feature_statistics[schema.features.index(encoding.inputs[-1])].mean
            if count / rows - usual > UNSEEN_SHARE:
                shown.append(f"{encoding.column!r} in {count / rows:.0%} of {rows:,} rows, in training {usual:.0%}")
    return [f"Values are missing far more often than in training: {'; '.join(shown)}."] if shown else []


UNSEEN = "unseen in training: "
"""Start of the keys in `Replaced` of a text column and, after its name and a line end, of its unseen values."""
ALL_ROWS = f"{UNSEEN}\n"

UNSEEN_SHARE, UNSEEN_OF_FEW = 0.2, 0.5  # of the rows, above that of training, from which on a column is named
FEW_ROWS = 100
MOST_EXAMPLES = 3


def unseen_values(schema: Schema, batch: pa.RecordBatch, values: FloatArray) -> Replaced:
    """Return the rows with values of text columns that have no input of their own, by column and by value.

    values : inputs (n_features, rows) of the batch; of the values of a column, a few frequent ones are named
    """
    place = {name: index for index, name in enumerate(schema.features)}
    found: Replaced = Counter()
    for encoding in schema.encodings:
        own = [place[name] for name in encoding.inputs if name in place]
        if encoding.kind != "category" or len(own) < len(encoding.inputs):
            continue
        n = len(encoding.categories)
        if encoding.means:
            known = category_codes(encoding, batch.column(encoding.column)) != n
        else:
            known = values[own[:n] + own[n + encoding.other :]].any(axis=0)
        if known.all():
            continue
        texts, index = texts_and_index(batch.column(encoding.column).filter(pa.array(~known)))
        pairs = pc.value_counts(texts.take(pa.array(index % len(texts))).drop_null())  # -1 is the last one: null
        counts = dict(zip(*(pairs.field(part).to_pylist() for part in ("values", "counts")), strict=True))
        found[UNSEEN + encoding.column] = sum(counts.values())
        ranked = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_EXAMPLES]
        found.update({f"{UNSEEN}{encoding.column}\n{word}": counts[word] for word in ranked})
    return found


def unseen_sentences(replaced: Mapping[str, int], schema: Schema) -> list[str]:
    """Return a sentence that names the text columns with values that have no input.

    A column of rare values, which has an input for all others or means, is named for many more such rows than in
    training; another one for more than its values in a single training row let expect, beyond chance.
    """
    shown, rows = [], replaced.get(ALL_ROWS, 0)
    limit = UNSEEN_SHARE if rows >= FEW_ROWS else UNSEEN_OF_FEW
    for encoding in schema.encodings if rows else ():
        key = UNSEEN + encoding.column
        if not (count := replaced.get(key, 0)):
            continue
        if encoding.other or encoding.means:
            is_expected = count / rows - share_of_other(schema, encoding) <= limit
        else:
            single = rows * share_of_single(schema, encoding)
            is_expected = count <= single + 4.0 * single**0.5  # the share is an estimate itself
        if is_expected:
            continue
        words = [name for name in replaced if name.startswith(f"{key}\n")]
        words = sorted(words, key=lambda name: (-replaced[name], name))[:MOST_EXAMPLES]
        examples = ", ".join(repr(name[len(key) + 1 :]) for name in words)
        shown.append(f"{encoding.column!r} in {count:,} of {rows:,} rows, such as {examples}")
    if not shown:
        return []
    return [
        f"Values of text columns are unknown to the model: {'; '.join(shown)}. Such rows are scored without them; "
        "check the spelling."
    ]


def share_of_other(schema: Schema, encoding: Encoding) -> float:
    """Return the share of training rows with a category that has no input of its own."""
    if encoding.kind != "category" or not encoding.other or not schema.feature_statistics:
        return 0.0
    return schema.feature_statistics[schema.features.index(encoding.inputs[encoding.n_own])].mean


def share_of_single(schema: Schema, encoding: Encoding) -> float:
    """Return the share of training rows whose category no other one has, which estimates that of new values.

    Source: Good, Biometrika 40, 1953.
    """
    if not encoding.categories or encoding.means or not schema.feature_statistics:
        return 0.0
    columns = [schema.feature_statistics[schema.features.index(name)] for name in encoding.inputs[: encoding.n_own]]
    return sum(round(column.count * column.mean) == 1 for column in columns) / max(1, columns[0].count)


def warn_of_replaced(replaced: Mapping[str, int], schema: Schema) -> None:
    """Warn of rows in memory as the command does, once for a sentence; of rows without a target, nothing is scored."""
    for sentence in replaced_sentences({**replaced, NO_TARGET: 0}, schema):
        warnings.warn(sentence, UserWarning, stacklevel=6)  # the caller of Model.predict


def newly_missing(schema: Schema, batch: pa.RecordBatch) -> Replaced:
    """Return the rows of missing numbers and dates by column, of those that had none missing in training."""
    other = {encoding.column for encoding in schema.encodings if encoding.missing or encoding.kind == "category"}
    found: Replaced = Counter()
    for name in encoder_of(schema).columns if schema.missing == "mean" else ():
        if name in other:
            continue
        if absent := int(missing_in(batch.column(name)).sum()):
            found[name] = absent
    return found


def check_columns(schema: Schema, columns: pa.Schema, where: str, with_targets: bool = False) -> None:
    """Check raw columns before rows are read; their order and further columns do not matter.

    Raises DataError : columns that the model needs are missing (with similar names that are there), or of another kind
    """
    needed = [*schema.source_columns, *([schema.target] if with_targets else [])]
    if missing := [name for name in needed if name not in columns.names]:
        shown = listed([*map(repr, missing)])
        close = [match for name in missing[:5] for match in near_names(name, dict.fromkeys(columns.names))]
        hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
        if missing == [schema.target]:
            raise DataError(
                f"{where} has no target column {schema.target!r}, which an evaluation requires.{hint} "
                f"The other {len(needed) - 1} columns exist: okl predict accepts these rows."
            )
        hint_on_values = values_hint(columns.names)
        unnamed = f" Its columns are {', '.join(columns.names[:5])}.{hint_on_values}" if hint_on_values else ""
        raise DataError(
            f"{where}: the model requires {len(needed)} columns, and {len(missing)} of them "
            f"{'is' if len(missing) == 1 else 'are'} missing: {shown}.{hint}{unnamed}"
        )
    check_kinds(schema, columns, where)
    for text in schema.texts:
        if fault := unfit(schema, text.column, kind := columns.field(text.column).type):
            raise DataError(f"{where}: column {text.column!r} is of type {kind}, but the model requires {fault}.")
    if with_targets:
        kind, named = columns.field(schema.target).type, text_labels(schema)
        if named != is_text(kind) or not (named or is_number(kind)):
            trained = (
                "text labels" if named else "booleans" if any(label is True for label in schema.labels) else "numbers"
            )
            raise DataError(
                f"{where}: target {schema.target!r} is of type {kind}, but the model was trained on {trained}."
            )


def prepare_rows(schema: Schema, rows: SourceBatch, precision: Precision, with_targets: bool = False) -> RawRows:
    """Return inputs, and targets if requested, from a batch that passed `check_columns`, in float32, scaled.

    A missing input is an error, 0, or makes its row incomplete, by the schema's policy; so does a missing target.
    Raises DataError : a missing value, an infinity, or a label never seen in training: names file, column and first row
    """
    n, n_dense = rows.batch.num_rows, len(schema.features)
    values = np.empty((n_dense, n), dtype=np.float32)
    encoder = encoder_of(schema)
    encoder.fill(values, rows.batch, schema.missing)
    means = plain_means(schema)
    complete = apply_missing_policy(values, encoder.origins, schema.missing, rows.file, rows.first_row, means)
    targets, replaced = None, newly_missing(schema, rows.batch) + later_dates(schema, values)
    replaced += missing_values(schema, values) + unseen_values(schema, rows.batch, values)
    replaced += Counter({ALL_ROWS: n} if schema.encodings else {})
    if with_targets:
        targets, present = _targets(schema, rows)
        if present is not None:
            replaced[NO_TARGET] = int((~present).sum())
        complete = present if complete is None else complete if present is None else complete & present
    inputs: Any = scaled_inputs(schema, values.T, precision)
    if complete is not None:
        inputs[~complete] = 0.0
        if targets is not None:
            targets[~complete] = 0.0
    if schema.sparse is not None:
        sparse = finite_sparse_rows(rows.batch, schema.sparse, rows.file, rows.first_row)
        inputs = with_dense_columns(inputs, sparse.astype(precision), schema.sparse)
    return RawRows(inputs, targets, complete, replaced)


def plain_means(schema: Schema) -> NDArray[np.float64] | None:
    """Return the training means (n_features,) that replace missing numbers of a table without encodings, or None."""
    if schema.missing != "mean" or schema.encodings:
        return None
    return np.array([column.mean for column in schema.feature_statistics])


def _targets(schema: Schema, rows: SourceBatch) -> tuple[NDArray[np.float64], Mask | None]:
    """Return targets (rows,), and which rows have one (None: all)."""
    column = rows.batch.column(schema.target)
    if is_text(column.type):
        texts = column.cast(pa.string())
        position = pc.fill_null(pc.index_in(texts, value_set=pa.array(schema.labels, pa.string())), -1)
        index = position.to_numpy(zero_copy_only=False).astype(np.int64)
        absent = pc.or_kleene(pc.is_null(column), pc.equal(texts, "")).to_numpy(zero_copy_only=False).astype(bool)
    else:
        values = numbers(column).astype(np.float64)
        absent = np.isnan(values)
        index = stored_index(values, schema.stored_labels) if schema.labels else np.zeros(len(values), dtype=np.int64)
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        targets = (values - shift) * factor
        unusable = np.isinf(values)
    else:
        targets = np.where(index == 1, 1.0, -1.0) if schema.task == "binary" else index.astype(np.float64)
        unusable = (index < 0) & ~absent
    if unusable.any():
        raise _unknown(schema, rows, int(unusable.argmax()))
    return targets, ~absent if absent.any() else None


def _unknown(schema: Schema, rows: SourceBatch, row: int) -> DataError:
    value = rows.batch.column(schema.target)[row].as_py()
    if schema.task == "regression":
        expected = "expected a finite number."
    else:
        shown = first_of([*map(repr, schema.labels)], 8)
        expected = f"which is not a label of training: {shown}. {label_remedy(value, schema.labels)}"
    position = f"{rows.file}: target {schema.target!r} is {value!r} in row {rows.first_row + row} (counted from 0)"
    return DataError(f"{position}, {expected}")


# Tables and arrays in memory.

RawValues: TypeAlias = Any
"""A table (pandas, Arrow, or any object with an Arrow stream), rows as dicts, or an array or list of rows."""


def is_array(values: RawValues) -> bool:
    """Return whether values are an array, or a list of rows without names."""
    return isinstance(values, np.ndarray | list | tuple) and not _are_dicts(values)


def _are_dicts(values: RawValues) -> bool:
    return isinstance(values, list | tuple) and bool(values) and all(isinstance(row, Mapping) for row in values)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bytes) or not hasattr(value, "__len__")


def inputs_of(schema: Schema, values: RawValues, precision: Precision) -> Any:
    """Return inputs (rows, n_features), rounded to float32 as in data sets, then scaled. See `Model.prepare`."""
    if issparse(values):
        return _of_sparse(schema, values, precision)
    if is_array(values):
        return _of_array(schema, checked_array(schema, values), precision)
    table = convert_table(table_of(values), schema)
    check_columns(schema, table.schema, "table")
    raw = prepare_rows(schema, batch_of(table, list(schema.source_columns)), precision)
    if raw.complete is not None:
        row = int(raw.complete.argmin())
        raise ModelError(
            f"Row {row} of the table has a missing value, but the model requires complete rows. Drop such rows."
        )
    warn_of_replaced(raw.replaced, schema)
    return raw.inputs


def _of_sparse(schema: Schema, values: Any, precision: Precision) -> Any:
    """Return sparse inputs (rows, n_features) of a scipy.sparse matrix, as the rows of svmlight text."""
    if schema.sparse is None or schema.features:
        takes = "a table with its columns" if schema.sparse else "dense rows: use rows.toarray()"
        raise ModelError(f"Got a sparse matrix, but the model takes {takes}.")
    if values.shape[1] != schema.n_features:
        raise ModelError(f"The model takes rows of {schema.n_features} columns, but got shape {values.shape}.")
    rows = csr_array(values, dtype=np.float32, copy=True)
    rows.sum_duplicates()
    if not np.isfinite(rows.data).all():
        raise ModelError("The sparse matrix holds values that are not finite within float32 (3.4e38). Correct them.")
    return with_dense_columns(np.empty((rows.shape[0], 0)), rows.astype(precision), schema.sparse)


def check_names(names: Iterable[Any]) -> None:
    """Raise DataError for two columns of one name."""
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(f"The table has {count} columns named {name!r}; expected different names.")


def table_of(values: Any) -> pa.Table:
    """Return a table (pandas, polars, Arrow) as an Arrow table, or rows: a dict of one, or a list of dicts.

    Raises
    ------
    ModelError : no table, or mixed types; DataError : two columns of one name in pandas
    """
    if hasattr(values, "collect"):
        raise ModelError(f"Expected a table or an array, but got {type(values).__name__}. Call its method collect.")
    if isinstance(values, Mapping) and all(map(_is_scalar, values.values())):
        values = [values]
    if _are_dicts(values):
        values = {name: [row.get(name) for row in values] for name in dict.fromkeys(chain(*values))}
    of_pandas = hasattr(values, "iloc") and hasattr(values, "columns")
    if of_pandas:
        check_names(values.columns)
        if sparse := [name for name, kind in values.dtypes.items() if str(kind).startswith("Sparse[")]:
            raise DataError(
                f"Column {str(sparse[0])!r} is sparse; expected dense columns. Use .sparse.to_dense(), or for many "
                "columns .sparse.to_coo(), which okl.KernelClassifier and okl.KernelRegressor take."
            )
    try:
        if of_pandas:  # whose index is no column
            return pa.Table.from_pandas(_with_text_intervals(values), preserve_index=False)
        table = pa.table(values)
        columns = dict(zip(table.column_names, map(_without_viewed_names, table.columns), strict=True))
        table = pa.table(columns) if len(columns) == table.num_columns else table
        return table.cast(without_view_types(table.schema))
    except OverflowError:
        named = values.items() if of_pandas else ()
        large = [repr(name) for name, column in named if any(map(_is_large, column))]
        raise DataError(
            f"Column {large[0] if large else ''} holds whole numbers beyond 64 bits. Convert it to float64 or text."
        ) from None
    except (pa.ArrowException, TypeError, ValueError) as error:
        why = ". ".join(str(part).partition("\n")[0].rstrip(". ") for part in error.args)
        if of_pandas:
            raise ModelError(
                f"A column of the table has mixed or unknown types: {why}. Give it values of one type."
            ) from None
        raise ModelError(f"Expected a table or an array, but got {type(values).__name__}: {why}.") from None


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def _with_text_intervals(frame: Any) -> Any:
    """Return a DataFrame with columns of intervals, as `pandas.cut` makes them, as text: Arrow has no such values."""
    kinds = {name: getattr(getattr(kind, "categories", None), "dtype", kind) for name, kind in frame.dtypes.items()}
    if names := [name for name, kind in kinds.items() if str(kind).startswith("interval")]:
        frame = frame.copy(deep=False)
        for name in names:
            frame[name] = frame[name].astype(object).map(str, na_action="ignore")
    return frame


def batch_of(table: pa.Table, columns: list[str]) -> SourceBatch:
    """Return columns of a table as one batch."""
    arrays = [one_array(table.column(name)) for name in columns]
    return SourceBatch("table", 0, pa.RecordBatch.from_arrays(arrays, names=columns))


def _without_viewed_names(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of categories of polars with plain text for its names: Arrow casts none to a file."""
    if not (pa.types.is_dictionary(column.type) and column.type.value_type == pa.string_view()):
        return column
    arrays = [pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(pa.string())) for part in column.chunks]
    return pa.chunked_array(arrays, pa.dictionary(column.type.index_type, pa.string()))


def checked_array(schema: Schema, rows: Any) -> np.ndarray[Any, Any]:
    """Return rows as an array (rows, n_features) of numbers, or raise ModelError."""
    n = schema.n_features
    try:
        values = np.asarray(rows)
    except ValueError as error:
        raise ModelError(f"The model takes rows of {n} columns each: {error}") from None
    if values.ndim != 2 or values.shape[1] != n or values.dtype.kind not in "fiub":
        what = f"shape {values.shape}" if values.dtype.kind in "fiub" else f"type {values.dtype}"
        raise ModelError(
            f"The model takes rows of {n} columns, but got {what}. Give an array (rows, {n}) in the order "
            f"of model.schema.features, or a table, such as a pandas DataFrame, with the columns "
            f"{first_of(schema.source_columns, 8)}."
        )
    return values


def _of_array(schema: Schema, values: np.ndarray[Any, Any], precision: Precision) -> FloatArray:
    n = schema.n_features
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is found right after
        rounded = values.astype(np.float32)  # as data sets hold inputs: the model learned from these
    rounded[np.isin(values, numbers_among(schema.missing_words))] = np.nan
    fills = np.zeros(n) if schema.missing == "zero" else plain_means(schema)
    if fills is not None:
        absent = np.isnan(rounded)
        np.copyto(rounded, fills.astype(np.float32), where=absent)
        if schema.missing == "mean":
            warn_of_replaced(dict(zip(schema.features, absent.sum(axis=0).tolist(), strict=True)), schema)
    if not np.isfinite(rounded).all():
        row, column = np.argwhere(~np.isfinite(rounded))[0]
        raise ModelError(
            f"Column {schema.features[column]!r} holds {values[row, column]} in row {row}, but the model requires "
            "finite numbers within float32 (3.4e38). Fill or drop such rows."
        )
    return scaled_inputs(schema, rounded, precision)


def class_indices(schema: Schema, targets: FloatArray) -> IntArray:
    """Return class indices (rows,) of targets as `Rows` has them: -1 and +1 of two classes, indices of several."""
    return np.asarray(targets > 0 if schema.task == "binary" else targets).astype(np.int64)


def predictions(schema: Schema, scores: FloatArray) -> NDArray[Any]:
    """Return labels (a score of 0 means the second of two classes), or targets in their own unit."""
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        return np.asarray(scores, dtype=np.float64) / (factor or 1.0) + shift
    named: NDArray[Any] = np.array(schema.labels)[predicted_classes(scores)]
    return named


def no_probabilities(schema: Schema) -> str:
    """Return the message for a model without probabilities."""
    if schema.task == "regression":
        return f"The model predicts the number {schema.target!r} and has no probabilities. Use predict."
    return (
        "The model has no probabilities: it was trained without test rows. Train it again with holdout=0.2 "
        "(--holdout 0.2)."
    )


def refuse_nonfinite(
    schema: Schema,
    scores: FloatArray,
    predicted: NDArray[Any],
    absent: Mask | None = None,
    where: str = "",
    first_row: int = 0,
) -> None:
    """Raise DivergedError if the score or target of a row that is not `absent` (rows,) is NaN or infinite.

    scores : (rows,), or (rows, n_classes); predicted : (rows,), what `predictions` makes of them
    where : file of the rows, to begin the message; first_row : number of the first one there
    """
    values = predicted if schema.task == "regression" else scores
    bad = ~np.isfinite(values) if values.ndim == 1 else ~np.isfinite(values).all(axis=1)
    if absent is not None:
        bad &= ~absent
    if bad.any():
        row = first_row + int(bad.argmax())
        raise DivergedError(
            f"{f'{where}: the' if where else 'The'} model's score of row {row} (counted from 0) is NaN or infinite: "
            "the model has diverged, or the row is far outside the training range. Train with a smaller step size, or "
            "correct the row."
        )
