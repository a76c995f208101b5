"""Which files a source is made of, of what kind they are, and whether their columns agree."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Literal

import pyarrow as pa

from okl.errors import DataError
from okl.store import parquetfiles
from okl.store.dataset import MANIFEST

Kind = Literal["parquet", "csv", "svmlight"]
ENDINGS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".txt": "svmlight",
}


def list_files(location: str) -> list[Path]:
    """The files of a source, sorted by name: the file itself, the data files of a directory, or what a glob matches."""
    path = Path(location)
    if path.is_dir():
        if (path / MANIFEST).exists():
            raise DataError(f"{location} is a data set already; expected raw rows. Use it as it is.")
        files = sorted(
            f for f in path.iterdir() if f.is_file() and f.suffix.lower() in ENDINGS and f.name[0] not in "._"
        )
        if not files:
            raise DataError(f"{location} is a directory without data files; expected {', '.join(ENDINGS)} files in it.")
    elif path.exists():
        files = [path]
    elif has_magic(location):
        files = sorted(Path(name) for name in glob(location) if Path(name).is_file())
        if not files:
            raise DataError(f"no file matches {location}.")
    else:
        raise DataError(f"{location} does not exist; expected a file, a directory or a glob.")
    return [file.absolute() for file in files]


def kind_of(file: Path) -> Kind:
    """What a file is, by its ending; Parquet also by its first bytes."""
    kind = ENDINGS.get(file.suffix.lower())
    try:
        with open(file, "rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from None
    if magic == parquetfiles.MAGIC:
        return "parquet"
    if kind is None:
        raise DataError(f"{file}: the ending {file.suffix!r} is unknown; expected {', '.join(ENDINGS)}.")
    return kind


def check_unique(schema: pa.Schema, file: Path) -> None:
    """Raise DataError if two columns share a name."""
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise DataError(f"{file}: more than one column is named {', '.join(map(repr, twice))}; rename all but one.")


def check_schemas(files: Sequence[Path], schemas: Sequence[pa.Schema]) -> None:
    """Raise DataError if a file has two columns of one name, or columns or types that the first file has not."""
    for file, schema in zip(files, schemas, strict=True):
        check_unique(schema, file)
        if schema != schemas[0]:
            check_same_schema(schemas[0], schema, files[0], file)


def check_same_schema(first: pa.Schema, other: pa.Schema, first_file: Path, other_file: Path) -> None:
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
