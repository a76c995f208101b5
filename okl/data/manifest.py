"""Data set manifests, warnings about a data set, and the provenance of a model's data."""

from __future__ import annotations

import hashlib
import json
import platform
import resource
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from okl.data.dataset import DAY_PARTS, FORMAT_VERSION, MANIFEST, ColumnStatistics, Dataset, Schema, Shard
from okl.foundation.errors import DataError, first_of, quoted
from okl.foundation.locations import Place, changed, file_sha256, place_of, whole_copy_of
from okl.foundation.validation import Kind, parse_json, validated

# The manifest: JSON with the same bytes for the same data, verified when opened.

# where there are any
ENCODING_KEYS = ("encodings", "svmlight", "formats", "metric", "sparse", "squashed", "missing_words")
SCHEMA_KEYS = tuple(f.name for f in fields(Schema) if f.name not in ("features", "feature_statistics", *ENCODING_KEYS))
SHARD_KEYS = tuple(f.name for f in fields(Shard) if f.name != "index")
COLUMN_KEYS = ("name", *(f.name for f in fields(ColumnStatistics)))
KEYS = ("format_version", "source", "settings", *SCHEMA_KEYS, "warnings", "features", "shards")


@dataclass(frozen=True)
class Manifest:
    """A data set with its source and settings: enough to decide whether ingesting again would change it.

    source : kind, files (names), rows, sha256; settings : those of the ingest, as JSON
    """

    dataset: Dataset
    source: Mapping[str, Any]
    settings: Mapping[str, Any]


def is_dataset(path: str | Place) -> bool:
    """Return whether a path or URL is a folder with a manifest."""
    return (place_of(path) / MANIFEST).is_file()


def write_manifest(
    folder: Path,
    schema: Schema,
    shards: Collection[Shard],
    source: Mapping[str, Any],
    settings: Mapping[str, Any],
    warnings: Collection[str],
) -> None:
    """Write the manifest into a folder that holds the shards; the same arguments give the same bytes."""
    values = schema.as_json()
    content: dict[str, Any] = {
        "format_version": schema.format_version,
        "source": dict(source),
        "settings": dict(settings),
    }
    content |= {key: values[key] for key in (*SCHEMA_KEYS, *ENCODING_KEYS) if key in values}
    content["warnings"] = list(warnings)
    content["features"] = [
        {"name": name} | asdict(column) for name, column in zip(schema.features, schema.feature_statistics, strict=True)
    ]
    content["shards"] = [{key: getattr(shard, key) for key in SHARD_KEYS} for shard in shards]
    (folder / MANIFEST).write_text(_to_text(content), encoding="utf-8")


def _to_text(content: Mapping[str, Any]) -> str:
    """Return JSON with one line for each key, feature and shard."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inner = ",\n".join("  " + json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in value)
            lines.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def open_dataset(folder: str | Place) -> Dataset:
    """Open a data set: read its manifest, check it, and check that its shards are there in full length.

    Raises
    ------
    DataError : no such data set, a manifest that is damaged or of a later okl, a shard that is missing or truncated
    """
    return read_manifest(folder).dataset


def read_manifest(folder: str | Place) -> Manifest:
    """Read and check a manifest; see `open_dataset`."""
    folder = place_of(folder).absolute()
    path = folder / MANIFEST
    if not path.is_file():
        is_file = isinstance(folder, Path) and folder.is_file()
        what = "is a file" if is_file else "has no manifest.json" if folder.exists() else "does not exist"
        made = f"{folder} FOLDER" if folder.exists() else f"SOURCE {folder}"
        raise DataError(f"{folder} {what}; expected the folder of a data set. Make one with okl ingest {made}.")
    text = path.read_bytes()
    try:
        content = parse_json(text)
    except ValueError as error:
        raise DataError(f"{path} is damaged: it is not JSON ({error}). Ingest the source again.") from None
    if not isinstance(content, dict) or not isinstance(content.get("format_version"), int):
        raise DataError(f"{path} is damaged: it has no format_version. Ingest the source again.")
    if content["format_version"] > FORMAT_VERSION:
        raise DataError(
            f"{path} has format {content['format_version']}, but this version of okl reads formats up to "
            f"{FORMAT_VERSION}. Upgrade okl."
        )
    check_keys({key: value for key, value in content.items() if key not in ENCODING_KEYS}, KEYS, str(path))
    kinds = {"source": Mapping, "settings": Mapping, "warnings": list, "features": list, "shards": list}
    for key, kind in kinds.items():
        if not isinstance(content[key], kind):
            raise DataError(f"{path} is damaged: {key} = {str(content[key])[:60]!r}. Ingest the source again.")
    schema, shards = _schema_from(content, path), _shards_from(content, path)
    _check_files(folder, shards)
    data = Dataset(
        folder, schema, shards, hashlib.sha256(text).hexdigest(), str(content["source"].get("sha256", "")),
        tuple(map(str, content["warnings"])),
    )  # fmt: skip
    return Manifest(data, content["source"], content["settings"])


def group_of(data: Dataset) -> str | None:
    """Return the column of a data set whose equal values belong together, if it was made with one."""
    return read_manifest(data.folder).settings.get("group") if is_dataset(data.folder) else None


def _schema_from(content: Mapping[str, Any], path: Place) -> Schema:
    names, statistics = [], []
    for number, entry in enumerate(content["features"]):
        check_keys(entry, COLUMN_KEYS, f"{path}, feature {number}")
        names.append(entry["name"])
        statistics.append({key: entry[key] for key in COLUMN_KEYS if key != "name"})
    values = {key: content[key] for key in (*SCHEMA_KEYS, *ENCODING_KEYS) if key in content}
    values |= {"features": names, "feature_statistics": statistics}
    return _validated(Schema, values, str(path))


def _shards_from(content: Mapping[str, Any], path: Place) -> tuple[Shard, ...]:
    shards = []
    for index, entry in enumerate(content["shards"]):
        where = f"{path}, shard {index}"
        check_keys(entry, SHARD_KEYS, where)
        shard = _validated(Shard, dict(entry) | {"index": index}, where)
        if Path(shard.path).name != shard.path:
            raise DataError(
                f"{where}: {shard.path!r} is not a plain file name; shards are in the folder of their manifest."
            )
        shards.append(shard)
    return tuple(shards)


def check_keys(content: Any, keys: Collection[str], where: str) -> None:
    """Raise DataError unless content is a mapping with exactly these keys."""
    if not isinstance(content, Mapping):
        raise DataError(f"{where} is damaged: expected keys and values, got {type(content).__name__}.")
    for key in keys:
        if key not in content:
            raise DataError(f"{where} is damaged: the key {key!r} is missing. Ingest the source again.")
    for key in content:
        if key not in keys:
            raise DataError(f"{where} is damaged: the key {key!r} is unknown. Ingest the source again.")


def _validated(kind: type[Kind], values: Mapping[str, Any], where: str) -> Kind:
    try:
        return validated(kind, values)
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(map(str, fault["loc"]))
        raise DataError(f"{where} is damaged: {name} = {fault['input']!r}: {fault['msg'].lower()}.") from None


def _check_files(folder: Place, shards: tuple[Shard, ...]) -> None:
    if isinstance(folder, Path):
        paths = [folder / shard.path for shard in shards]
        sizes = {path.name: path.stat().st_size for path in paths if path.is_file()}
    else:
        sizes = {file.name: size for file, size in folder.files()}
    for shard in shards:
        if shard.path not in sizes:
            raise DataError(f"{folder}: shard {shard.path} is missing. Ingest the source again.")
        size = sizes[shard.path]
        if size != shard.size_bytes:
            what = "truncated" if size < shard.size_bytes else "longer than it was"
            raise DataError(
                f"{folder / shard.path} is {what}: {size} bytes, expected {shard.size_bytes} as in manifest.json. "
                "Ingest the source again."
            )


def verify(data: Dataset) -> None:
    """Read every shard and compare its checksum; raises DataError that names the first one that differs."""
    for shard in data.shards:
        location = data.path(shard)
        if isinstance(location, Path):
            if file_sha256(location) != shard.sha256:
                raise changed(location)
        else:
            whole_copy_of(location, shard.size_bytes, shard.sha256)


# Warnings about a data set, one sentence each, stored in its manifest.

MOST_SPELLINGS = 3  # sets of spellings that a sentence shows
_EXACT, _ROUNDING = 2.0**24, 2.0**-24  # whole numbers up to which float32 is exact, and its relative rounding


def find_warnings(
    schema: Schema, rows_read: int, rows_dropped: int, why_dropped: str, no_test_rows: bool, task_guessed: bool
) -> list[str]:
    """Return warnings about a new data set: dropped rows, missing test rows, a task guessed from whole numbers."""
    statistics = list(zip(schema.features, schema.feature_statistics, strict=True))
    close, warnings = (name for name, column in statistics if _is_blurred(column)), lost_digits(schema)
    seldom = {*close, *(name for encoding in schema.encodings for name in encoding.calendar_inputs)}  # hours of no row
    same = {name for name, column in statistics if column.constant}
    for encoding in schema.encodings:
        if encoding.kind == "timestamp" and not same.issuperset(encoding.inputs):  # of dates: the hour is always 0
            seldom |= {name for name, part in zip(encoding.inputs, encoding.parts, strict=False) if part in DAY_PARTS}
    if constant := [name for name in schema.features if name in same - seldom]:
        effect = "; scaling makes them 0" if schema.scale != "none" else ""
        if len(constant) == schema.n_features:
            effect += ". Every prediction will be the same"
        verb = "changes" if len(constant) == 1 else "change"
        warnings.append(
            f"{len(constant)} of {schema.n_features} inputs never {verb} in the training rows: "
            f"{first_of(constant, 5)}{effect}."
        )
    if rows_dropped:
        warnings.append(f"{rows_dropped} of {rows_read} rows were dropped for {why_dropped}.")
    if no_test_rows:
        warnings.append("No row is a test row: the split or holdout left all of them to train.")
    if task_guessed and len(schema.labels) > 20:
        warnings.append(
            f"The {len(schema.labels)} whole values of target {schema.target!r} were taken as classes; "
            "use --task regression if they measure something."
        )
    single = [repr(label) for label, n in zip(schema.labels, schema.class_counts, strict=False) if n == 1]
    if single:
        warnings.append(
            f"Of target {schema.target!r}, {first_of(single, 3)} is the class of a single training row, and cannot be "
            "learnt. Correct the row if it is a slip."
        )
    texts = [label for label in schema.labels if isinstance(label, str)]
    warnings.extend(_spelling(f"labels of target {schema.target!r}", texts, "classes"))
    for encoding in schema.encodings:
        warnings.extend(_spelling(f"categories of column {encoding.column!r}", encoding.categories, "inputs"))
    return warnings


def lost_digits(schema: Schema) -> list[str]:
    """Return a sentence on each of the first columns of which float32 loses most differences."""
    columns = zip(schema.features, schema.feature_statistics, strict=True)
    return [
        f"Values of {name} are near {column.mean:.3g} and {_difference(column)}, but inputs hold about 7 digits: most "
        "of the differences are lost. Subtract a constant in the source, or write times as dates."
        for name, column in columns
        if _is_blurred(column)
    ][:MOST_SPELLINGS]


def _is_blurred(column: ColumnStatistics) -> bool:
    """Return whether float32 holds a column with less than about three digits of its range."""
    largest = max(abs(column.minimum), abs(column.maximum))
    if column.constant:
        return largest > _EXACT
    return largest * _ROUNDING > 1e-3 * (column.maximum - column.minimum)


def _difference(column: ColumnStatistics) -> str:
    if column.constant:  # as float32, of which the statistics are
        return f"differ by less than {2.0 * _ROUNDING * abs(column.mean):.3g}, if at all"
    return f"differ by {column.maximum - column.minimum:.3g} at most"


def _spelling(what: str, texts: Iterable[str], apart: str) -> list[str]:
    """Return a warning if texts differ in case and spaces only; apart : what each of them becomes."""
    alike: dict[str, list[str]] = defaultdict(list)
    for word in texts:
        alike[" ".join(word.split()).casefold()].append(word)
    spelt = [" and ".join(map(quoted, spellings)) for spellings in alike.values() if len(spellings) > 1]
    if not spelt:
        return []
    shown = "; ".join(spelt[:MOST_SPELLINGS]) + ("; ..." if len(spelt) > MOST_SPELLINGS else "")
    return [
        f"Some {what} differ in case or spaces only: {shown}. They are {apart} of their own; "
        "if they mean the same, write them alike in the source."
    ]


# Provenance: data digests, code versions and processor.

RECORDED = ("okl", "numpy", "numba", "scipy", "pyarrow")


def provenance(data: Dataset, seed: int) -> dict[str, Any]:
    """Return the provenance stored with a model, as JSON; equal bits are promised for one kind of processor only."""
    return {
        "data_sha256": data.sha256,
        "source_sha256": data.source_sha256,
        "train_rows": data.rows("train"),
        "seed": seed,
        "versions": {name: version_of(name) for name in RECORDED} | {"python": platform.python_version()},
        "processor": processor(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def processor() -> str:
    """Return the model of the processor, by which BLAS and numba choose their code."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def peak_memory_bytes() -> int:
    """Return the largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def version_of(name: str) -> str:
    """Return the version of an installed package, or "unknown"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


__version__ = version_of("okl")
