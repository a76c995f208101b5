"""Ingest of rows against an existing schema.

A model can continue training only if new rows have the same meaning as before. So nothing about them is decided by
looking at them: columns and labels come from the reference, and so do the statistics that scaling goes by. The counts
of classes are the rows' own.
"""

from __future__ import annotations

import re

import pyarrow as pa

from okl.data.dataset import Schema
from okl.data.encoder import check_kinds
from okl.data.ingest.columns import Roles, check_present, label_remedy, share_of
from okl.data.ingest.sources import Source, Storage, SvmlightReading, open_source
from okl.data.ingest.targets import ClassCounts, TargetReader, plain_label
from okl.data.ingest.value_formats import formats_of, formats_with_words
from okl.data.values import is_number, is_text
from okl.foundation.errors import DataError, first_of
from okl.foundation.locations import Place
from okl.foundation.settings import IngestSettings


def open_by(schema: Schema, location: str | Place) -> Source:
    """Open a source with the types and formats of a schema, where the files do not determine them.

    What was text is text, though the first rows of a CSV file may look like numbers; indices of svmlight text are
    those columns that they were. Raises what `okl.data.ingest.sources.open_source` raises.
    """
    indices = [int(match[1]) for name in schema.source_columns if (match := re.fullmatch(r"f(\d+)", name))]
    reading = SvmlightReading(max(indices, default=-1) + 1)
    if schema.svmlight is not None:
        hashed = schema.svmlight.hashed
        least = 0 if hashed else reading.n_columns
        storage: Storage = "dense" if schema.sparse is None else "sparse"
        reading = SvmlightReading(least, schema.svmlight.first_index, hashed, storage)
    points = any(form.kind == "number" and form.decimal == "." for form in schema.formats)
    decimal = "." if points else ""
    source = open_source(location, reading, csv_types(schema), formats_of(schema), decimal, schema.missing_words)
    # words are no values of a CSV file already
    return source.with_formats(formats_with_words(schema)) if source.kind in ("parquet", "json") else source


def csv_types(schema: Schema) -> dict[str, pa.DataType]:
    """Return the types of columns of CSV files that a schema determines; the values determine the others."""
    formats = {form.column for form in schema.formats}
    types = {
        encoding.column: pa.string()
        if encoding.kind == "category"
        else pa.timestamp("us", encoding.time_zone or None)  # dates have no zone
        for encoding in schema.encodings
        if encoding.kind not in ("number", "time") and encoding.column not in formats
    }
    if text_labels(schema):
        types[schema.target] = pa.string()
    types |= {text.column: pa.string() for text in schema.texts}
    return types


KEPT = {"holdout", "stratify", "group", "rows_per_shard", "rows_per_group", "compression", "compression_level", "seed"}


def settings_by(reference: Schema, settings: IngestSettings) -> IngestSettings:
    """Return the settings with the values of the reference; the share of test rows and the storage are kept."""
    decided = ("target", "task", "keys", "scale", "scale_target", "missing", "missing_words")
    values = {name: getattr(reference, name) for name in decided}
    return IngestSettings.model_validate(settings.model_dump(include=KEPT) | values)


def roles_by(reference: Schema, source: Source, settings: IngestSettings) -> Roles:
    """Return the role of each column as in the reference; further columns are ignored.

    Raises DataError : a column that is missing, an input or a target of another kind
    """
    named = [("input", reference.source_columns), ("target", (reference.target,)), ("key", reference.keys)]
    for what, names in named:
        for name in names:
            check_present(name, source.columns, source.location, what)
    check_kinds(reference, source.schema, source.location, "the reference")
    kind = source.schema.field(reference.target).type
    if is_text(kind) != text_labels(reference) or not (is_text(kind) or is_number(kind)):
        raise DataError(
            f"{source.location}: target {reference.target!r} is of type {kind}, but the reference has "
            f"{'text labels' if text_labels(reference) else 'numbers'} there."
        )
    share = share_of(settings.holdout) or 0.0
    return Roles(
        reference.features, reference.target, reference.keys, share=share, group=settings.group,
        encodings=reference.encodings, sparse=reference.sparse,
    )  # fmt: skip


def reader_by(reference: Schema, source: Source) -> TargetReader:
    """Return a reader that encodes text labels as in the reference."""
    codes = {}
    if text_labels(reference):
        pairs = sorted(zip(reference.stored_labels, reference.labels, strict=True))
        codes = {str(label): int(code) for code, label in pairs}
    return TargetReader(reference.target, source.schema.field(reference.target).type, reference.task, codes=codes)


def classes_by(reference: Schema, reader: TargetReader, where: str) -> ClassCounts:
    """Return the classes of the reference, with the counts of the new rows.

    Raises DataError : a label that the reference does not have
    """
    if reference.task == "regression":
        return ClassCounts("regression")
    unknown = next(
        (value for value in (*reader.counts, *reader.only_test) if value not in reference.stored_labels), None
    )
    if unknown is not None:
        labels = {float(code): word for word, code in reader.codes.items()}
        label = labels[unknown] if reader.text else plain_label(unknown, reader.kind)
        shown = first_of([*map(repr, reference.labels)], 8)
        raise DataError(
            f"{where}: target {reference.target!r} holds {label!r}, a label that the reference does not have; it has "
            f"{shown}. {label_remedy(label, reference.labels)}"
        )
    counts = tuple(reader.counts.get(stored, 0) for stored in reference.stored_labels)
    return ClassCounts(reference.task, reference.labels, reference.stored_labels, counts)


def text_labels(schema: Schema) -> bool:
    """Return whether the labels are text."""
    return bool(schema.labels) and isinstance(schema.labels[0], str)
