"""A file to read from wherever it lies: the path of one of this machine, a reader of a remote one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from okl.store.copies import RemoteReader, copy_of, whole_copy_of
from okl.store.places import Place
from okl.store.verified import verify_file


def open_binary(place: Place) -> io.RawIOBase:
    """A file open for reading its bytes, unbuffered; OSError for a path, DataError for a URL that cannot be read."""
    return open(place, "rb", buffering=0) if isinstance(place, Path) else RemoteReader(copy_of(place))


@contextmanager
def readable(place: Place, size_bytes: int = 0, sha256: str = "") -> Iterator[str | RemoteReader]:
    """What Arrow can read a file from, as long as the context lasts.

    Parameters
    ----------
    size_bytes, sha256 : of a shard, whose bytes are then verified, once in a process

    Raises
    ------
    DataError : a shard whose bytes are others, a URL that cannot be read; OSError : a path that cannot be
    """
    if isinstance(place, Path):
        if sha256:
            verify_file(place, sha256)
        yield str(place)
    elif sha256:
        copy = whole_copy_of(place, size_bytes, sha256)
        yield f"/dev/fd/{copy.descriptor}"
    else:
        with RemoteReader(copy_of(place)) as reader:
            yield reader
