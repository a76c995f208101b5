"""Text files that are compressed, by their ending: their bytes unpacked while they are read, from the beginning on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from okl.errors import DataError
from okl.store.opening import open_binary
from okl.store.places import Place

PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
BEGINNINGS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}


def packing_of(name: str) -> str | None:
    """How a file of this name is compressed; None for one that is not."""
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
