"""From a source to a data set: one pass over the rows, in memory that does not grow with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from okl.configuration import IngestSettings
from okl.errors import ConfigError, DataError
from okl.store.columns import Roles, assign_roles
from okl.store.dataset import ColumnStatistics, Dataset, Schema, Shard
from okl.store.destination import check_destination, written_beside
from okl.store.findings import find_warnings
from okl.store.manifest import is_dataset, open_dataset, read_manifest, write_manifest
from okl.store.places import Place, place_of
from okl.store.reference import classes_by, reader_by, roles_by, schema_by, settings_by
from okl.store.shards import ShardWriter, group_rows, part_schema
from okl.store.sources import Source, SourceBatch, open_source
from okl.store.splitting import held_out
from okl.store.statistics import column_statistics
from okl.store.targets import Classes, TargetReader
from okl.store.values import fill_inputs, missing_message, settle_inputs

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class IngestResult:
    """A data set, and whether it was written now (False: it was there already, from the same source and settings)."""

    dataset: Dataset
    changed: bool


class Counts(NamedTuple):
    """Rows that were read and rows that were dropped for a missing value."""

    read: int
    dropped: int


def ingest(
    source: str | Place,
    destination: str | Place,
    settings: IngestSettings,
    overwrite: bool = False,
    progress: Progress | None = None,
    reference: Schema | None = None,
) -> IngestResult:
    """Make a data set from a source, unless the destination already is that data set.

    Parameters
    ----------
    source : Parquet file, directory or glob, CSV, or svmlight text; a path or a URL, as the destination
    destination : folder of the data set; it appears when it is complete, whatever happens
    overwrite : replace a data set made from another source or with other settings
    progress : is told the rows done and the rows in all (None where only reading tells)
    reference : schema that decides inputs, labels and scaling, in place of the settings and of what the rows hold

    Raises
    ------
    DataError : rows, columns or files that do not hold what they must; a destination that is taken
    ConfigError : settings that exclude each other
    """
    destination = place_of(destination).absolute()
    settings = settings if reference is None else settings_by(reference, settings)
    opened = check_source(source, settings, reference)
    roles, reader = _roles_and_reader(opened, settings, reference)
    check_destination(destination)
    fingerprint = opened.fingerprint()
    if is_dataset(destination) and not overwrite:
        return IngestResult(_same_or_error(destination, opened, fingerprint, settings, reference), changed=False)
    with written_beside(destination) as folder:
        writers = _writers(folder, opened, roles, settings)
        try:
            counts = _copy_rows(opened, roles, settings, reader, writers, progress)
        finally:
            for writer in writers:
                writer.abandon()
        _finish(folder, opened, fingerprint, roles, settings, reader, writers, counts, reference)
    return IngestResult(open_dataset(destination), changed=True)


def check_source(source: str | Place, settings: IngestSettings, reference: Schema | None = None) -> Source:
    """Open a source and find what can be known to be wrong before its rows are read; raises as `ingest` does."""
    if settings.scale_target and settings.scale == "none":
        raise ConfigError("scale_target scales the target as the inputs are scaled, but scale = none; choose one.")
    opened = open_source(source, 0 if reference is None else reference.n_features)
    _, reader = _roles_and_reader(opened, settings, reference)
    reader.check_kind(opened.location)
    return opened


def _roles_and_reader(source: Source, settings: IngestSettings, reference: Schema | None) -> tuple[Roles, TargetReader]:
    if reference is not None:
        return roles_by(reference, source, settings), reader_by(reference, source)
    roles = assign_roles(source, settings)
    return roles, TargetReader(roles.target, source.schema.field(roles.target).type, settings.task)


def _same_or_error(
    destination: Place, source: Source, fingerprint: str, settings: IngestSettings, reference: Schema | None
) -> Dataset:
    manifest = read_manifest(destination)
    schema = manifest.dataset.schema
    if reference is not None and replace(schema, class_counts=()) != replace(reference, class_counts=()):
        raise DataError(f"{destination} was held to another reference. Use another folder.")
    if manifest.source.get("sha256") != fingerprint:
        raise DataError(f"{destination} was made from other data than {source.location} holds now. Use --overwrite.")
    made = IngestSettings.model_validate({}).model_dump(mode="json") | dict(
        manifest.settings
    )  # options younger than the data set
    changed = [key for key, value in settings.model_dump(mode="json").items() if made[key] != value]
    if changed:
        raise DataError(
            f"{destination} was made with other settings ({', '.join(changed)}). Use --overwrite, or another folder."
        )
    return manifest.dataset


def _writers(folder: Path, source: Source, roles: Roles, settings: IngestSettings) -> tuple[ShardWriter, ShardWriter]:
    types = {name: source.schema.field(name).type for name in roles.keys}
    schema, n_features = part_schema(roles.features, roles.target, types), len(roles.features)
    rows_per_group = group_rows(min(settings.rows_per_group, settings.rows_per_shard), n_features)
    train, test = (
        ShardWriter(
            folder,
            split,
            schema,
            n_features,
            settings.rows_per_shard,
            rows_per_group,
            settings.compression,
            settings.compression_level,
            with_moments=split == "train",
        )
        for split in ("train", "test")
    )
    return train, test


def _copy_rows(
    source: Source,
    roles: Roles,
    settings: IngestSettings,
    reader: TargetReader,
    writers: tuple[ShardWriter, ShardWriter],
    progress: Progress | None,
) -> Counts:
    """Read all rows and hand those that stay to the writer of their split."""
    done = dropped = 0
    buffer = np.empty((len(roles.features), 0), dtype=np.float32)
    for rows in source.batches(roles.needed, exact=roles.keys):
        n = rows.batch.num_rows
        if n > buffer.shape[1]:
            buffer = np.empty((len(roles.features), n), dtype=np.float32)
        inputs = buffer[:, :n]
        fill_inputs(inputs, rows.batch, roles.features)
        complete = settle_inputs(inputs, roles.features, settings.missing, rows.file, rows.first_row)
        targets = reader.values(rows)
        keep = _kept(targets, complete, reader.name, settings, rows)
        test = held_out(roles, rows, done, settings.seed)
        keys = [rows.batch.column(name) for name in roles.keys]
        numbers = np.arange(rows.first_row, rows.first_row + n)
        if keep is not None:
            inputs, targets, numbers = inputs[:, keep], targets[keep], numbers[keep]
            keys = [column.take(np.flatnonzero(keep)) for column in keys]
            test = None if test is None else test[keep]
            dropped += n - len(targets)
        reader.count(targets, test, rows.file, numbers)
        if test is None:
            writers[0].append(inputs, targets, keys)
        else:
            for writer, mask in zip(writers, (~test, test), strict=True):
                at = np.flatnonzero(mask)
                writer.append(inputs.take(at, axis=1), targets[at], [column.take(at) for column in keys])
        done += n
        if progress is not None:
            progress(done, source.rows)
    for writer in writers:
        writer.close()
    return Counts(done, dropped)


def _kept(targets: Any, complete: Any, name: str, settings: IngestSettings, rows: SourceBatch) -> Any:
    """Which rows stay, or None for all; a target that is missing is an error unless rows may be dropped."""
    absent = np.isnan(targets)
    if not absent.any():
        return complete
    if settings.missing != "drop":
        raise DataError(missing_message(rows.file, name, rows.first_row + int(absent.argmax()), zero=False))
    return ~absent if complete is None else complete & ~absent


def _finish(
    folder: Path,
    source: Source,
    fingerprint: str,
    roles: Roles,
    settings: IngestSettings,
    reader: TargetReader,
    writers: tuple[ShardWriter, ShardWriter],
    counts: Counts,
    reference: Schema | None,
) -> None:
    """Name the shards, settle the task and write the manifest."""
    train, test = writers
    if train.rows == 0:
        left = " after rows with missing values were dropped" if counts.dropped else ""
        raise DataError(f"{source.location} has no training rows{left}; expected at least one.")
    classes = reader.classes(source.location) if reference is None else classes_by(reference, reader, source.location)
    if settings.scale_target and classes.task != "regression":
        raise ConfigError(f"scale_target is for regression, but target {roles.target!r} makes a {classes.task} task.")
    schema = _schema(roles, settings, classes, train) if reference is None else schema_by(reference, classes)
    shards = _renamed(folder, [*train.shards, *test.shards])
    origin = {
        "kind": source.kind,
        "files": [file.name for file in source.files],
        "rows": counts.read,
        "sha256": fingerprint,
    }
    split_asked = bool(roles.split or roles.holdout or roles.share)
    guessed = settings.task == "auto" and not reader.text
    found = find_warnings(schema, counts.read, counts.dropped, split_asked and test.rows == 0, guessed)
    write_manifest(folder, schema, shards, origin, settings.model_dump(mode="json"), found)


def _schema(roles: Roles, settings: IngestSettings, classes: Classes, train: ShardWriter) -> Schema:
    target: ColumnStatistics | None = None
    if classes.task == "regression":
        (target,) = column_statistics(train.target_moments)
    return Schema(
        features=roles.features, target=roles.target, task=classes.task, labels=classes.labels,
        stored_labels=classes.stored_labels, class_counts=classes.class_counts, keys=roles.keys, scale=settings.scale,
        scale_target=settings.scale_target, missing=settings.missing,
        feature_statistics=column_statistics(train.moments), target_statistics=target,
    )  # fmt: skip


def _renamed(folder: Path, shards: list[Shard]) -> list[Shard]:
    named = [replace(shard, index=index, path=f"part-{index:05d}.parquet") for index, shard in enumerate(shards)]
    for before, after in zip(shards, named, strict=True):
        os.rename(folder / before.path, folder / after.path)
    return named
