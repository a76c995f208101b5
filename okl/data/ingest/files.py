"""Source files: listing, compression and Parquet reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.dataset import MANIFEST
from okl.foundation.errors import DataError
from okl.foundation.locations import Place, RemotePath, open_binary, readable, size_of

# Compressed text files.

PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
BEGINNINGS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}


def packing_of(name: str) -> str | None:
    """Return the compression of a file of this name; None for an uncompressed one."""
    return PACKED.get(PurePath(name).suffix.lower())


def ending_of(name: str) -> str:
    """The ending of a file's name in small letters, with that of its compression.

    >>> [ending_of(name) for name in ("rows.csv", "2026.01.CSV.GZ", "rows.gz", "part-0001")]
    ['.csv', '.csv.gz', '.gz', '']
    """
    path = PurePath(name.lower())
    return PurePath(path.stem).suffix + path.suffix if packing_of(name) else path.suffix


def unpacked_ending(name: str) -> str:
    """The ending of a file's name in small letters, without that of its compression.

    >>> [unpacked_ending(name) for name in ("rows.csv", "2026.01.CSV.GZ", "rows.gz")]
    ['.csv', '.csv', '']
    """
    return PurePath(PurePath(name.lower()).stem if packing_of(name) else name.lower()).suffix


def packed_ending(beginning: bytes) -> str:
    """The ending that tells how bytes that begin so are compressed; "" if they are not."""
    return next((ending for magic, ending in BEGINNINGS.items() if beginning.startswith(magic)), "")


@contextmanager
def open_text(file: Place) -> Iterator[Any]:
    """The bytes of a file, unpacked, as a stream to be read in order; one that is not compressed can be sought in, too.

    Raises
    ------
    DataError : what is compressed cannot be unpacked, or its end is missing
    """
    codec = packing_of(file.name)
    with open_binary(file) as stream:
        if codec is None:
            yield stream
            return
        try:
            with pa.CompressedInputStream(pa.PythonFile(stream, "r"), codec) as unpacked:
                yield unpacked
        except OSError as error:
            raise DataError(
                f"{file} cannot be unpacked as {codec}: {error}. Is it whole? Write or fetch it again."
            ) from None


# Parquet files.

MAGIC = b"PAR1"
STREAM_BYTES = 65536  # read ahead in each column; without it a whole column chunk comes into memory at once


def inspect(file: Place, size_bytes: int = 0, sha256: str = "") -> tuple[pa.Schema, tuple[int, ...]]:
    """Schema and rows of each row group, from the footer alone; of a shard, once its bytes are verified.

    Raises
    ------
    DataError : the file is empty, no Parquet, or truncated
    """
    if not sha256:
        check_magic(file)
    try:
        with readable(file, size_bytes, sha256) as stream, pq.ParquetFile(stream) as parquet:
            meta = parquet.metadata
            schema = without_views(parquet.schema_arrow.remove_metadata())
            return schema, tuple(meta.row_group(group).num_rows for group in range(meta.num_row_groups))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is a damaged Parquet file: {first_line(error)}.") from None


def check_magic(file: Place) -> None:
    """Raise DataError unless a file begins and ends as Parquet files do."""
    size = size_of(file)
    with open_binary(file) as stream:
        begin = stream.read(4)
        stream.seek(max(0, size - 4))
        end = stream.read(4)
    if size == 0:
        raise DataError(f"{file} is empty; expected a Parquet file.")
    if begin != MAGIC:
        raise DataError(f"{file} is not a Parquet file: it begins with {begin!r} instead of {MAGIC!r}.")
    if end != MAGIC or size < 12:
        raise DataError(f"{file} is a truncated Parquet file: its footer is missing. Write or copy it again.")


def read_parquet(
    file: Place, row_groups: tuple[int, ...], columns: list[str], batch_rows: int, size_bytes: int = 0, sha256: str = ""
) -> Iterator[pa.RecordBatch]:
    """Rows of some row groups in order, as batches of the columns in the given order; of a shard, verified ones."""
    try:
        with (
            readable(file, size_bytes, sha256) as stream,
            pq.ParquetFile(stream, pre_buffer=False, buffer_size=STREAM_BYTES) as parquet,
        ):
            for batch in parquet.iter_batches(
                batch_rows, row_groups=list(row_groups), columns=columns, use_threads=False
            ):
                # select: a column named a also matches a.b, and the file keeps its own order
                yield _without_views(batch.select(columns))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} is a damaged Parquet file: {first_line(error)}.") from None


def without_views(schema: pa.Schema) -> pa.Schema:
    """Columns of text and bytes in the layout that all of Arrow's functions know: they filter no string_view yet."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(plain.get(field.type, field.type)) for field in schema])


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    schema = without_views(batch.schema)
    return batch if schema.equals(batch.schema) else batch.cast(schema)


def first_line(error: BaseException) -> str:
    """First line of a message, without a full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")


# File listing, formats and agreement of columns.

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
    """Return the kind of a file by its ending; None if the ending does not name a data format."""
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
    """Return the kind of a file by its ending; Parquet also by its first bytes."""
    kind = kind_by_name(file.name)
    try:
        with open_binary(file) as stream:
            magic = stream.read(4)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from None
    if magic == MAGIC:
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
