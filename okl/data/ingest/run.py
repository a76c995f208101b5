"""The ingest of one source into one data set folder."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from okl.data.dataset import ColumnStatistics, Dataset, Schema, Shard
from okl.data.executor import Execution
from okl.data.ingest.columns import Roles, assign_roles, identifier_notes
from okl.data.ingest.encoders import check_first_rows, learn_encodings
from okl.data.ingest.reference import classes_by, open_by, reader_by, roles_by, schema_by, settings_by, told_types
from okl.data.ingest.sources import Source, SvmlightReading, looked_through, open_source
from okl.data.ingest.targets import ClassCounts, TargetReader
from okl.data.ingest.writer import (
    Counts,
    Progress,
    RowCopier,
    RowReader,
    WrittenSplit,
    column_statistics,
    copy_on_workers,
    fingerprint_on_workers,
    shard_writers,
)
from okl.data.manifest import find_warnings, is_dataset, open_dataset, read_manifest, write_manifest
from okl.foundation.errors import ConfigError, DataError, PlaceError
from okl.foundation.folders import PLACE_FAULTS, PublishedFolder, is_leftover, make_beside, remove_leftovers, unwritable
from okl.foundation.locations import Place, RemotePath, place_of
from okl.foundation.settings import IngestSettings

# The destination folder: written under a temporary name, then renamed.


def check_destination(destination: Place) -> None:
    """Raise PlaceError if something that okl did not make is there."""
    if isinstance(destination, RemotePath) and is_leftover(destination):
        return
    if destination.exists() and not is_dataset(destination):
        raise PlaceError(f"{destination} exists and is not a data set; okl does not replace it. Choose another folder.")


def written_beside(destination: Place) -> AbstractContextManager[Path]:
    """A new folder that takes its place at the end, or goes away with everything it holds; see the two ways below."""
    return _renamed_at_the_end(destination) if isinstance(destination, Path) else _sent_at_the_end(destination)


@contextmanager
def _sent_at_the_end(destination: RemotePath) -> Iterator[Path]:
    place = PublishedFolder(destination, replaces=is_dataset(destination))
    try:
        place.open()
        yield place.beside
        place.complete()
    except OSError as error:
        if error.errno not in PLACE_FAULTS:
            raise
        raise unwritable(place.beside, error) from None
    finally:
        place.close()


@contextmanager
def _renamed_at_the_end(destination: Path) -> Iterator[Path]:
    """A new folder beside the destination that takes its place at the end, or goes away with everything it holds.

    What killed processes left beside the destination goes, too.

    Raises
    ------
    PlaceError : it cannot be written to or is full, or something that okl did not make has come there meanwhile
    """
    made = [parent for parent in destination.parents if not parent.exists()]
    old = destination.with_name(f"{destination.name}.replaced-{secrets.token_hex(4)}")
    folder: Path | None = None
    lock: int | None = None
    done = False
    try:
        folder, lock = make_beside(destination)
        remove_leftovers(destination.parent)
        yield folder
        check_destination(destination)
        if destination.exists():
            os.rename(destination, old)
        os.rename(folder, destination)
        done = True
    except OSError as error:
        if error.errno not in PLACE_FAULTS:
            raise
        raise unwritable(destination, error) from None
    finally:
        if old.exists() and not destination.exists():
            os.rename(old, destination)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)
        shutil.rmtree(old, ignore_errors=True)
        for parent in [] if done else made:
            if parent.exists() and not any(parent.iterdir()):
                parent.rmdir()


# The ingest.


@dataclass(frozen=True)
class IngestResult:
    """A data set, and whether it was written now (False: it was there already, from the same source and settings)."""

    dataset: Dataset
    changed: bool


def ingest(
    source: str | Place,
    destination: str | Place,
    settings: IngestSettings,
    overwrite: bool = False,
    progress: Progress | None = None,
    reference: Schema | None = None,
    execution: Execution | None = None,
) -> IngestResult:
    """Make a data set from a source, unless the destination already is that data set.

    Parameters
    ----------
    source : Parquet file, directory or glob, CSV, or svmlight text; a path or a URL, as the destination
    destination : folder of the data set; it appears when it is complete, whatever happens
    overwrite : replace a data set made from another source or with other settings
    progress : is told the rows done and the rows in all (None where only reading tells)
    reference : schema that decides inputs, labels and scaling, in place of the settings and of what the rows hold
    execution : whose workers, if it has any, read the source and write the shards; the same bytes come of it

    Raises
    ------
    DataError : rows, columns or files that do not hold what they must; a destination that is taken
    ConfigError : settings that exclude each other
    """
    destination = place_of(destination).absolute()
    settings = settings if reference is None else settings_by(reference, settings)
    opened = check_source(source, settings, reference)
    check_destination(destination)
    spread = execution if execution is not None and execution.n_workers > 0 else None
    fingerprint = opened.fingerprint() if spread is None else fingerprint_on_workers(opened, spread)
    if is_dataset(destination) and not overwrite:
        return IngestResult(_same_or_error(destination, opened, fingerprint, settings, reference), changed=False)
    exact = [name for name in settings.keys if name != settings.holdout]
    types = settings.categories if reference is None else told_types(reference)
    opened = looked_through(opened, spread, types, exact)
    roles, reader = _roles_and_reader(opened, settings, reference)
    reader.check_kind(opened.location)  # again: words may stand among numbers further down
    notes: list[str] = []
    if reference is None:
        ids = identifier_notes(opened, roles, settings.categories)
        roles, notes = learn_encodings(opened, roles, settings, spread)
        notes = [*notes, *ids]
    with written_beside(destination) as folder:
        asked = (opened, roles, settings, reader, folder)
        if spread is None:
            counts, train, test = _copy_here(*asked, progress)
        else:
            counts, train, test = copy_on_workers(*asked, spread, progress)
        _finish(folder, opened, fingerprint, roles, settings, reader, (train, test), counts, reference, notes)
    return IngestResult(_just_written(destination), changed=True)


def check_source(source: str | Place, settings: IngestSettings, reference: Schema | None = None) -> Source:
    """Open a source and find what can be known to be wrong before its rows are read; raises as `ingest` does."""
    if settings.scale_target and settings.scale == "none":
        raise ConfigError("scale_target scales the target as the inputs are scaled, but scale = none; choose one.")
    if reference is not None:
        opened = open_by(reference, source)
    else:
        first = None if settings.svmlight_index == "auto" else _FIRST[settings.svmlight_index]
        svmlight = SvmlightReading(0, first, settings.hash_columns or 0)
        opened = open_source(source, svmlight, dict.fromkeys(settings.categories, pa.string()))
    roles, reader = _roles_and_reader(opened, settings, reference)
    reader.check_kind(opened.location)
    if settings.hash_columns and opened.kind != "svmlight":
        raise ConfigError(f"{opened.location} is {opened.kind}, but hash_columns folds columns of svmlight text.")
    if reference is None:
        check_first_rows(opened, roles, settings, reader)
    return opened


def _just_written(destination: Place) -> Dataset:
    try:
        return open_dataset(destination)
    except DataError as error:
        raise PlaceError(f"{error} It was there a moment ago: is somebody else writing there?") from None


_FIRST: dict[str, Literal[0, 1]] = {"0": 0, "1": 1}


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
    made = _DEFAULTS | dict(manifest.settings)  # options younger than the data set
    changed = [key for key, value in settings.model_dump(mode="json").items() if made[key] != value]
    if changed:
        raise DataError(
            f"{destination} was made with other settings ({', '.join(changed)}). Use --overwrite, or another folder."
        )
    return manifest.dataset


def _copy_here(
    source: Source,
    roles: Roles,
    settings: IngestSettings,
    reader: TargetReader,
    folder: Path,
    progress: Progress | None,
) -> tuple[Counts, WrittenSplit, WrittenSplit]:
    """Read all rows in this process and hand those that stay to the writer of their split."""
    writers = shard_writers(folder, source.schema, roles, settings)
    copier = RowCopier(RowReader(roles, settings, reader), writers)
    try:
        for piece in source.pieces():
            for _ in copier.copy(piece):
                if progress is not None:
                    progress(copier.at.rows, source.rows)
        for writer in writers:
            writer.close()
    finally:
        for writer in writers:
            writer.abandon()
    train, test = (WrittenSplit(writer.shards, writer.moments, writer.target_moments) for writer in writers)
    return Counts(copier.at.rows, copier.at.rows - train.rows - test.rows), train, test


def _finish(
    folder: Path,
    source: Source,
    fingerprint: str,
    roles: Roles,
    settings: IngestSettings,
    reader: TargetReader,
    written: tuple[WrittenSplit, WrittenSplit],
    counts: Counts,
    reference: Schema | None,
    notes: list[str],
) -> None:
    """Name the shards, settle the task and write the manifest; notes : on columns, left out or suspect."""
    train, test = written
    if train.rows == 0:
        left = " after rows with missing values were dropped" if counts.dropped else ""
        raise DataError(f"{source.location} has no training rows{left}; expected at least one.")
    classes = reader.classes(source.location) if reference is None else classes_by(reference, reader, source.location)
    if settings.scale_target and classes.task != "regression":
        raise ConfigError(f"scale_target is for regression, but target {roles.target!r} makes a {classes.task} task.")
    schema = _schema(source, roles, settings, classes, train) if reference is None else schema_by(reference, classes)
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
    write_manifest(folder, schema, shards, origin, _as_given(settings), [*notes, *found])


_DEFAULTS = IngestSettings.model_validate({}).model_dump(mode="json")
YOUNGER = ("categories", "max_categories", "dates", "svmlight_index", "hash_columns")


def _as_given(settings: IngestSettings) -> dict[str, Any]:
    """Settings as JSON, the younger ones only where they were given: manifests without them are as they always were."""
    values = settings.model_dump(mode="json")
    return {name: value for name, value in values.items() if name not in YOUNGER or value != _DEFAULTS[name]}


def _schema(
    source: Source, roles: Roles, settings: IngestSettings, classes: ClassCounts, train: WrittenSplit
) -> Schema:
    target: ColumnStatistics | None = None
    if classes.task == "regression":
        (target,) = column_statistics(train.target_moments)
    return Schema(
        features=roles.features, target=roles.target, task=classes.task, labels=classes.labels,
        stored_labels=classes.stored_labels, class_counts=classes.class_counts, keys=roles.keys, scale=settings.scale,
        scale_target=settings.scale_target, missing=settings.missing,
        feature_statistics=column_statistics(train.moments), target_statistics=target, encodings=roles.encodings,
        svmlight=source.parts[0].svmlight,
    )  # fmt: skip


def _renamed(folder: Path, shards: list[Shard]) -> list[Shard]:
    named = [replace(shard, index=index, path=f"part-{index:05d}.parquet") for index, shard in enumerate(shards)]
    for before, after in zip(shards, named, strict=True):
        os.rename(folder / before.path, folder / after.path)
    return named
