"""The schema of a model as its file tells it: every field of its type, and all of them fitting together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from okl.errors import ModelError
from okl.store.dataset import Schema
from okl.store.dateparts import DATE_PARTS, PARTS
from okl.store.encodings import Encoding

LONGEST_SHOWN = 60


def schema_from_stored(stored: dict[str, Any], where: str) -> Schema:
    """Rebuild a schema from its `as_json`; runs no stored code.

    Raises
    ------
    ModelError : a field that is unknown, missing or of another type, or fields that do not fit together
    """
    unknown = set(stored) - {field.name for field in fields(Schema)}
    if unknown:
        raise _damaged(where, f"{min(unknown)!r} is no field of it")
    try:
        schema = _schemas().validate_python(stored)
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(map(str, fault["loc"]))
        if fault["type"] == "missing":
            raise _damaged(where, f"{name} is missing") from None
        raise _damaged(where, f"{name} = {shortened(fault['input'])}: {fault['msg'].lower()}") from None
    for fault_told in _faults(schema):
        raise _damaged(where, fault_told)
    return schema


def shortened(value: Any) -> str:
    """A stored value as it may stand in a sentence."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _damaged(where: str, why: str) -> ModelError:
    return ModelError(f"{where}: its schema is damaged: {why}. Train the model again.")


@cache
def _schemas() -> TypeAdapter[Schema]:
    return TypeAdapter(Schema)


def _faults(schema: Schema) -> Iterator[str]:
    """What does not fit together."""
    n_labels = len(schema.labels)
    if not schema.features or len(set(schema.features)) < schema.n_features:
        yield f"it names {schema.n_features} features, {len(set(schema.features))} of them different"
    if len(schema.feature_statistics) != schema.n_features:
        yield f"{len(schema.feature_statistics)} columns have statistics, but it names {schema.n_features} features"
    if {"regression": n_labels > 0, "binary": n_labels != 2, "multiclass": n_labels < 2}[schema.task]:
        yield f"a {schema.task} task has {n_labels} labels"
    for name in ("stored_labels", "class_counts"):
        if len(getattr(schema, name)) not in (0, n_labels):
            yield f"{name} has {len(getattr(schema, name))} entries for {n_labels} labels"
    for encoding in schema.encodings:
        if not set(encoding.inputs) <= set(schema.features) or len(encoding.inputs) != _n_inputs(encoding):
            yield f"the inputs of column {encoding.column!r} are not those that a {encoding.kind} makes"
        if len(encoding.fills) not in (0, len(encoding.inputs) - encoding.missing):
            yield f"column {encoding.column!r} has {len(encoding.fills)} fills for {len(encoding.inputs)} inputs"


def _n_inputs(encoding: Encoding) -> int:
    made = {"number": 1, "category": len(encoding.categories) + encoding.other, "date": len(DATE_PARTS),
            "timestamp": len(PARTS)}  # fmt: skip
    return made[encoding.kind] + encoding.missing
