"""Descriptions of a data set as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_args

from okl.data.dataset import ColumnStatistics, Dataset, Encoding, Schema
from okl.data.encoder import missing_word_of
from okl.foundation.types import Split

SHOWN_COLUMNS = 60


def describe(data: Dataset) -> dict[str, Any]:
    """Return the content of the manifest as JSON: counts in rows, sizes in bytes, statistics by column."""
    schema = data.schema
    splits: dict[str, dict[str, int]] = {}
    for name in get_args(Split):
        shards = data.split(name)
        sizes = sum(shard.size_bytes for shard in shards)
        splits[name] = {"rows": data.rows(name), "shards": len(shards), "bytes": sizes}
    columns = dict(zip(schema.features, schema.feature_statistics, strict=True))
    return {
        "dataset": str(data.folder),
        "sha256": data.sha256,
        "source_sha256": data.source_sha256,
        "task": schema.task,
        "target": schema.target,
        "classes": [
            {"label": label, "train_rows": rows} for label, rows in zip(schema.labels, schema.class_counts, strict=True)
        ],
        "target_statistics": asdict(schema.target_statistics) if schema.target_statistics else None,
        "keys": list(schema.keys),
        "scale": schema.scaling,
        "scale_target": schema.scale_target,
        "missing": schema.missing,
        "splits": splits,
        "encodings": schema.as_json().get("encodings", []),
        "formats": [asdict(form) for form in schema.formats],
        "svmlight": asdict(schema.svmlight) if schema.svmlight else None,
        "sparse": _sparse(schema),
        "features": {name: asdict(column) for name, column in columns.items()},
        "warnings": list(data.warnings),
    }


def _sparse(schema: Schema) -> dict[str, Any] | None:
    """Return the numbers of sparse columns, in all and of each text, without the terms."""
    if schema.sparse is None:
        return None
    terms = {text.column: len(text.terms) for text in schema.sparse.texts}
    return {"columns": schema.sparse.n_columns, "unit_length": schema.sparse.unit_length, "terms": terms}


def describe_text(data: Dataset) -> str:
    """Return the same description as text, with at most 60 columns."""
    content, schema = describe(data), data.schema
    target = f" (scaled: {schema.scale})" if schema.scale_target else ""
    lines = [
        f"{data.folder}",
        f"{schema.task} target {schema.target!r}{target}, {schema.n_features} input columns, scaling {schema.scaling}, "
        f"missing values: {schema.missing}" + (f", keys {', '.join(schema.keys)}" if schema.keys else ""),
    ]
    for name, split in content["splits"].items():
        lines.append(f"  {name:5}  {split['rows']:>12,} rows  {split['shards']:>5} shards  {size(split['bytes'])}")
    train_rows = data.rows("train")
    if schema.labels:
        lines.append("classes (training rows)")
        width = max(len(str(label)) for label in schema.labels)
        for label, rows in zip(schema.labels, schema.class_counts, strict=True):
            lines.append(f"  {label!s:{width}}  {rows:>12,}  {100 * rows / max(1, train_rows):6.2f}%")
    columns = list(zip(schema.features, schema.feature_statistics, strict=True))
    if schema.target_statistics:
        columns.append((schema.target, schema.target_statistics))
    lines += [*_origins(schema), *_table(columns)]
    return "\n".join([*lines, *(f"warning: {warning}" for warning in data.warnings)])


def _origins(schema: Schema) -> list[str]:
    """Describe the inputs that are not plain numeric columns of the source."""
    lines = []
    if schema.svmlight is not None:
        fold = f", folded into {schema.svmlight.hashed} columns" if schema.svmlight.hashed else ""
        lines.append(f"svmlight text, whose first index is {schema.svmlight.first_index}{fold}")
    if schema.sparse is not None:
        unit = ", divided by their lengths when read" if schema.sparse.unit_length else ""
        lines.append(f"sparse rows of {schema.sparse.n_columns:,} columns{unit}")
        lines += [f"  {text.column}  {len(text.terms):,} words and pairs of words" for text in schema.sparse.texts]
    encoded = [(encoding.column, _shown_encoding(encoding)) for encoding in schema.encodings]
    encoded = [(column, texts) for column, texts in encoded if texts]
    if encoded:
        width = max(len(column) for column, _ in encoded)
        lines.append(f"{len(schema.source_columns)} source columns make {schema.n_features} inputs")
        lines += [f"  {column:{width}}  {texts}" for column, texts in encoded[:SHOWN_COLUMNS]]
    return lines


def _shown_encoding(encoding: Encoding) -> str:
    """Describe the inputs made from a column; "" for numbers without missing values."""
    missing = ["missing"] if encoding.missing else []
    if encoding.kind == "category":
        n = len(encoding.categories)
        of = {0: "", 1: "target mean of "}.get(len(encoding.means), f"{len(encoding.means)} target means of ")
        parts = [f"{of}{n} {'category' if n == 1 else 'categories'}", *(["other"] if encoding.other else []), *missing]
        word = missing_word_of(encoding)
        return " + ".join(parts) + (f" ({word!r} is a category, not missing)" if word else "")
    if encoding.kind == "number":
        return "number + missing" if missing else ""
    zone = f" in {encoding.time_zone}" if encoding.time_zone else ""
    what = {"timestamp": "time", "time": "time of day"}.get(encoding.kind, "date")
    return " + ".join([f"{what}{zone}", *missing])


def _table(columns: list[tuple[str, ColumnStatistics]]) -> list[str]:
    if not columns:
        return []
    width = max(6, *(len(name) for name, _ in columns[:SHOWN_COLUMNS]))
    lines = [f"{'column':{width}}  {'mean':>12} {'sd':>12} {'min':>12} {'max':>12}   (training rows)"]
    for name, column in columns[:SHOWN_COLUMNS]:
        values = (column.mean, column.standard_deviation, column.minimum, column.maximum)
        cells = " ".join(f"{value:>12.6g}" for value in values)
        lines.append(f"{name:{width}}  {cells}" + ("   constant" if column.constant else ""))
    if len(columns) > SHOWN_COLUMNS:
        lines.append(f"... and {len(columns) - SHOWN_COLUMNS} more columns (--json shows all)")
    return lines


def size(size_bytes: int) -> str:
    """Return a number of bytes as text.

    >>> size(2000), size(5 * 2**20)
    ('2.0 KiB', '5.0 MiB')
    """
    return f"{size_bytes / 2**20:,.1f} MiB" if size_bytes >= 2**20 else f"{size_bytes / 2**10:,.1f} KiB"
