"""Which files a source is made of, of what kind they are, and whether their columns agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow as pa

from okl.errors import DataError
from okl.store import parquetfiles
from okl.store.dataset import MANIFEST
from okl.store.opening import open_binary
from okl.store.packing import PACKED, ending_of, packing_of, unpacked_ending
from okl.store.places import Place, RemotePath

Kind = Literal["parquet", "csv", "svmlight"]
ENDINGS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".txt": "svmlight",
}
EXPECTED = f"{', '.join(ENDINGS)}, or text compressed as {', '.join(PACKED)}"


def kind_by_name(name: str) -> Kind | None:
    """What a file of this name is, by its ending; None if that says nothing of data."""
    kind = ENDINGS.get(unpacked_ending(name))
    return None if kind == "parquet" and packing_of(name) else kind


def list_files(location: Place) -> list[Place]:
    """The files of a source, sorted by name: the file itself, the data files of a directory, or what a glob matches."""
    return [*(_remote_files(location) if isinstance(location, RemotePath) else _local_files(location))]


def _remote_files(location: RemotePath) -> list[RemotePath]:
    if has_magic(str(location)):
        files = location.matches()
        if not files:
            raise DataError(f"no file matches {location}.")
        return files
    if location.is_file():
        return [location]
    names = {file.name: file for file, _ in location.files()}
    if not names and not location.exists():
        raise DataError(f"{location} does not exist; expected a file, a folder or a glob.")
    if MANIFEST in names:
        raise DataError(f"{location} is a data set already; expected raw rows. Use it as it is.")
    return _data_files(location, list(names.values()))


Kept = TypeVar("Kept", Path, RemotePath)


def _data_files(location: Place, files: Iterable[Kept]) -> list[Kept]:
    """Those of a directory that are data, by name; DataError if there is none."""
    kept = [file for file in files if kind_by_name(file.name) and file.name[0] not in "._"]
    if not kept:
        raise DataError(f"{location} is a directory without data files; expected files that end in {EXPECTED}.")
    return sorted(kept, key=lambda file: file.name)


def _local_files(path: Path) -> list[Path]:
    location = str(path)
    if path.is_dir():
        if (path / MANIFEST).exists():
            raise DataError(f"{location} is a data set already; expected raw rows. Use it as it is.")
        files = _data_files(path, (file for file in path.iterdir() if file.is_file()))
    elif path.exists():
        files = [path]
    elif has_magic(location):
        files = sorted(Path(name) for name in glob(location) if Path(name).is_file())
        if not files:
            raise DataError(f"no file matches {location}.")
    else:
        raise DataError(f"{location} does not exist; expected a file, a directory or a glob.")
    return [file.absolute() for file in files]


def kind_of(file: Place) -> Kind:
    """What a file is, by its ending; Parquet also by its first bytes."""
    kind = kind_by_name(file.name)
    try:
        with open_binary(file) as stream:
            magic = stream.read(4)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from None
    if magic == parquetfiles.MAGIC:
        return "parquet"
    if kind is None:
        raise DataError(f"{file}: the ending {ending_of(file.name)!r} is unknown; expected {EXPECTED}.")
    return kind


def check_unique(schema: pa.Schema, file: Place) -> None:
    """Raise DataError if two columns share a name, or one has a name that is no text."""
    try:
        counts = Counter(schema.names)
    except UnicodeDecodeError:
        raise DataError(f"{file}: the name of a column is not UTF-8 text. Write the file again as UTF-8.") from None
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise DataError(f"{file}: more than one column is named {', '.join(map(repr, twice))}; rename all but one.")


def check_schemas(files: Sequence[Place], schemas: Sequence[pa.Schema]) -> None:
    """Raise DataError if a file has two columns of one name, or columns or types that the first file has not."""
    for file, schema in zip(files, schemas, strict=True):
        check_unique(schema, file)
        if schema != schemas[0]:
            check_same_schema(schemas[0], schema, files[0], file)


def check_same_schema(first: pa.Schema, other: pa.Schema, first_file: Place, other_file: Place) -> None:
    """Raise DataError that names two files and what differs, unless they have the same columns of the same types."""
    here, there = dict(zip(first.names, first.types, strict=True)), dict(zip(other.names, other.types, strict=True))
    differences = [f"{name!r} is only in the former" for name in here if name not in there]
    differences += [f"{name!r} is only in the latter" for name in there if name not in here]
    differences += [
        f"{name!r} is {kind} in the former, {there[name]} in the latter"
        for name, kind in here.items()
        if name in there and there[name] != kind
    ]
    if differences:
        more = f", and {len(differences) - 3} more" if len(differences) > 3 else ""
        raise DataError(
            f"{first_file} and {other_file.name} differ in their columns: {'; '.join(differences[:3])}{more}. "
            "All files of a source need the same columns."
        )
