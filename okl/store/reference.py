"""Rows held to a schema that is there already: its inputs, its labels, its scaling, whatever these rows look like.

A model goes on learning from new rows only if they mean what they meant before. So nothing about them is decided by
looking at them: columns and labels come from the reference, and so do the statistics that scaling goes by. The counts
of classes are the rows' own.
"""

from __future__ import annotations

from dataclasses import replace

from okl.configuration import IngestSettings
from okl.errors import DataError
from okl.store.columns import Roles, check_present
from okl.store.dataset import Schema
from okl.store.sources import Source
from okl.store.targets import Classes, TargetReader, plain_label
from okl.store.values import is_number, is_text


def settings_by(reference: Schema, settings: IngestSettings) -> IngestSettings:
    """The settings with all that the reference decides; what is left is the share of test rows, and how to store."""
    return settings.model_copy(
        update={
            "target": reference.target,
            "task": reference.task,
            "split_column": None,
            "keys": reference.keys,
            "drop": (),
            "scale": reference.scale,
            "scale_target": reference.scale_target,
            "missing": reference.missing,
        }
    )


def roles_by(reference: Schema, source: Source, settings: IngestSettings) -> Roles:
    """What each column is for: as in the reference; further columns do not matter.

    Raises
    ------
    DataError : a column that is missing, an input that is no number, a target of another kind
    """
    types = dict(zip(source.schema.names, source.schema.types, strict=True))
    named = [("input", reference.features), ("target", (reference.target,)), ("key", reference.keys)]
    for what, names in named:
        for name in names:
            check_present(name, source.columns, source.location, what)
    for name in reference.features:
        if not is_number(types[name]):
            raise DataError(
                f"{source.location}: column {name!r} is of type {types[name]}, but the reference has numbers there."
            )
    kind = types[reference.target]
    if is_text(kind) != text_labels(reference) or not (is_text(kind) or is_number(kind)):
        raise DataError(
            f"{source.location}: target {reference.target!r} is of type {kind}, but the reference has "
            f"{'text labels' if text_labels(reference) else 'numbers'} there."
        )
    share = settings.holdout if isinstance(settings.holdout, float) else 0.0
    return Roles(reference.features, reference.target, reference.keys, share=share)


def reader_by(reference: Schema, source: Source) -> TargetReader:
    """A reader that gives text labels the codes that they have in the reference."""
    codes = {}
    if text_labels(reference):
        pairs = sorted(zip(reference.stored_labels, reference.labels, strict=True))
        codes = {str(label): int(code) for code, label in pairs}
    return TargetReader(reference.target, source.schema.field(reference.target).type, reference.task, codes=codes)


def classes_by(reference: Schema, reader: TargetReader, where: str) -> Classes:
    """The classes of the reference, with the counts of the rows that were read.

    Raises
    ------
    DataError : a label that the reference does not have
    """
    if reference.task == "regression":
        return Classes("regression")
    unknown = next(
        (value for value in (*reader.counts, *reader.only_test) if value not in reference.stored_labels), None
    )
    if unknown is not None:
        words = {float(code): word for word, code in reader.codes.items()}
        label = words[unknown] if reader.text else plain_label(unknown, reader.kind)
        shown = ", ".join([repr(known) for known in reference.labels[:8]] + ["..."] * (len(reference.labels) > 8))
        raise DataError(
            f"{where}: target {reference.target!r} holds {label!r}, a label that the reference does not have; it has "
            f"{shown}. Leave such rows out, or begin anew with them."
        )
    counts = tuple(reader.counts.get(stored, 0) for stored in reference.stored_labels)
    return Classes(reference.task, reference.labels, reference.stored_labels, counts)


def schema_by(reference: Schema, classes: Classes) -> Schema:
    """The reference with the counts of classes that were read."""
    return replace(reference, class_counts=classes.class_counts)


def text_labels(schema: Schema) -> bool:
    """Whether the labels are text."""
    return bool(schema.labels) and isinstance(schema.labels[0], str)
