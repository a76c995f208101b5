"""Rows seen from a model: its columns in its order, its scaling, its labels; and whether it learnt from these rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from okl.errors import DataError
from okl.store.dataset import Dataset, Schema
from okl.store.digests import combined_digest, file_digest
from okl.store.listing import list_files
from okl.store.places import place_of


def read_as(data: Dataset, schema: Schema) -> Dataset:
    """The same shards, to be read with the schema of a model that was trained on other rows.

    Raises
    ------
    DataError : a column of the model is no input here, the target is another one, or has a label never seen in training
    """
    check_encodings(data, schema)
    missing = [name for name in schema.features if name not in data.schema.features]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise DataError(f"{data.folder}: the model needs input columns that the data set has not: {shown}.")
    if data.schema.target != schema.target or (data.schema.task == "regression") != (schema.task == "regression"):
        raise DataError(
            f"{data.folder}: its target {data.schema.target!r} ({data.schema.task}) is not the model's, "
            f"{schema.target!r} ({schema.task}). Ingest the rows with --target {schema.target} --task {schema.task}."
        )
    stored = dict(zip(data.schema.labels, data.schema.stored_labels, strict=True))
    if unknown := [label for label in stored if label not in schema.labels]:
        shown = ", ".join(map(repr, schema.labels[:8]))
        raise DataError(
            f"{data.folder}: target {schema.target!r} has the label {unknown[0]!r}, never seen in training, which had "
            f"{shown}. Leave such rows out, or train again with them."
        )
    # not a number: it equals no stored value, as no row here has such a label
    values = tuple(stored.get(label, float("nan")) for label in schema.labels)
    return replace(data, schema=replace(schema, stored_labels=values))


def check_encodings(data: Dataset, schema: Schema) -> None:
    """Raise DataError if inputs of a data set were made in another way than the model makes them.

    Values that have an input of their own, means that stand for missing values: both are learnt from training rows.
    """
    if schema.encodings and data.schema.encodings != schema.encodings:
        raise DataError(
            f"{data.folder}: its text, dates or missing values were made into inputs in another way than the model's. "
            "Give the source that it was made from: the model makes its own inputs of that."
        )


def learnt_among(provenance: Mapping[str, Any], source: str, data: Dataset | None = None, split: str = "all") -> int:
    """Rows that a model learnt from where these are the very files or data set that it comes from; 0 for others.

    provenance : of the model; data : the data set at the source, None where raw rows are there
    """
    if split == "test":
        return 0
    files = list_files(place_of(source)) if data is None else []
    here = combined_digest(files, map(file_digest, files)) if data is None else data.sha256
    known = provenance.get("source_sha256" if data is None else "data_sha256")
    return int(provenance.get("train_rows") or 0) if here == known else 0
