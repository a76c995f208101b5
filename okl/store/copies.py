"""Files of object stores as files of this machine: copied block by block, as they are asked for, to a nameless file.

Whoever reads here reads what it would read of a file that lay here, by the same code, and so gets the same bits; a
request that fails is made again for its block alone. The copies of a process are held in a bounded part of the disk of
TMPDIR (/var/tmp where it is not set: memory is often behind /tmp), and go with the process, however it ends.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock

from okl.errors import ConfigError, DataError
from okl.store.places import RemotePath
from okl.store.trying import explained
from okl.store.verified import changed

BLOCK_BYTES = 2**20
REQUEST_BYTES = 8 * 2**20  # once a file is read in its order
REQUESTS = 4  # at a time, for a whole file
LEAST_BLOCKS = 32  # of a file that is held in part: what one read needs is never forgotten by the same read
MOST_COPIES = 256  # each is an open file
LIMIT_VARIABLE = "OKL_COPY_BYTES"
DEFAULT_BYTES = 8 * 2**30


class RemoteCopy:
    """A nameless file of this machine with the bytes of a remote one where they have been asked for.

    Parameters
    ----------
    place, size : the remote file and its bytes
    limit_bytes : of the disk; a larger file is held in part, and what was read of it first is forgotten
    """

    def __init__(self, place: RemotePath, size: int, limit_bytes: int) -> None:
        self.place, self.size = place, size
        self._limit_blocks = max(LEAST_BLOCKS, limit_bytes // BLOCK_BYTES)
        self._lock = Lock()
        with _on_disk(place), tempfile.TemporaryFile(prefix="okl-", dir=_folder()) as file:
            self.descriptor = os.dup(file.fileno())  # valid as long as this object lives
            os.ftruncate(self.descriptor, size)
        self._here = bytearray(-(-size // BLOCK_BYTES))

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    @property
    def held_bytes(self) -> int:
        """Bytes of the disk that it takes."""
        return self._here.count(1) * BLOCK_BYTES

    def read(self, start: int, stop: int) -> bytes:
        """Bytes start to stop, fetched where they are not here; DataError if they cannot be."""
        stop = min(stop, self.size)
        if start >= stop:
            return b""
        if stop - start > REQUEST_BYTES:
            parts = range(start, stop, REQUEST_BYTES)
            return b"".join(self.read(part, min(part + REQUEST_BYTES, stop)) for part in parts)
        with self._lock:
            first, last = start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES
            while (missing := self._here.find(0, first, last + 1)) >= 0:
                self._fetch(missing, last + 1)
            return os.pread(self.descriptor, stop - start, start)

    def fetch_all(self) -> str:
        """Fetch the whole file, several requests at a time; its SHA-256, hexadecimal."""
        digest, step = hashlib.sha256(), REQUEST_BYTES
        starts = range(0, self.size, step)
        with ThreadPoolExecutor(REQUESTS) as pool:
            for start, _ in zip(starts, pool.map(self._fetch_range, starts), strict=True):
                digest.update(os.pread(self.descriptor, min(step, self.size - start), start))
        self._here = bytearray(b"\1" * len(self._here))
        return digest.hexdigest()

    def _fetch_range(self, start: int) -> None:
        content = self.place.read_range(start, min(start + REQUEST_BYTES, self.size))
        with _on_disk(self.place):
            _write(self.descriptor, content, start)

    def _fetch(self, block: int, stop: int) -> None:
        """Fetch a block and those after it that are wanted, or likely to be: after a block that is here, many."""
        ahead = REQUEST_BYTES // BLOCK_BYTES
        follows = block > 0 and self._here[block - 1]
        stop = min(len(self._here), block + ahead if follows else min(stop, block + ahead))
        held = self._here.find(1, block, stop)
        stop = held if held >= 0 else stop
        if self._here.count(1) + stop - block > self._limit_blocks:
            os.ftruncate(self.descriptor, 0)
            os.ftruncate(self.descriptor, self.size)
            self._here = bytearray(len(self._here))
        start = block * BLOCK_BYTES
        content = self.place.read_range(start, min(stop * BLOCK_BYTES, self.size))
        with _on_disk(self.place):
            _write(self.descriptor, content, start)
        self._here[block:stop] = b"\1" * (stop - block)


class RemoteReader(io.RawIOBase):
    """A remote file to read and seek in; what it reads stays in a copy."""

    def __init__(self, copy: RemoteCopy) -> None:
        super().__init__()
        self._copy, self._at = copy, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, counted from the beginning, from here, or from the end."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._copy.size}[whence]
        return self._at

    def tell(self) -> int:
        """Where it is."""
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes: as many as asked for, unless the file ends."""
        stop = self._copy.size if size is None or size < 0 else self._at + size
        content = self._copy.read(self._at, stop)
        self._at += len(content)
        return content

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # any writable buffer
        """Fill a buffer with the next bytes."""
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


class _Copies:
    """The copies of this process, the least recently used let go of when they take too much of the disk."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = Lock()
        self._copies: OrderedDict[tuple[str, ...], RemoteCopy] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> RemoteCopy | None:
        with self._lock:
            if key in self._copies:
                self._copies.move_to_end(key)
            return self._copies.get(key)

    def hold(self, key: tuple[str, ...], copy: RemoteCopy) -> None:
        with self._lock:
            self._copies[key] = copy
            held = sum(one.held_bytes for one in self._copies.values())
            while len(self._copies) > 1 and (held > self.limit_bytes or len(self._copies) > MOST_COPIES):
                held -= self._copies.popitem(last=False)[1].held_bytes


@cache
def _copies() -> _Copies:
    text = os.environ.get(LIMIT_VARIABLE, str(DEFAULT_BYTES))
    if not text.isdigit():
        raise ConfigError(f"{LIMIT_VARIABLE} = {text!r}, but it takes a number of bytes, such as {DEFAULT_BYTES}.")
    return _Copies(int(text))


def copy_of(place: RemotePath) -> RemoteCopy:
    """The copy of a remote file as it is now; nothing is fetched yet. Raises DataError if there is none."""
    info = place.info()
    if info is None or info["type"] != "file":
        raise explained(FileNotFoundError(), f"{place} cannot be read")
    if info.get("size") is None:
        raise DataError(f"{place} cannot be read: its server does not say how long it is. Copy it to a folder first.")
    state = [str(info.get(name)) for name in ("size", "ETag", "etag", "LastModified", "mtime", "updated", "generation")]
    key = (str(place), *state)
    copies = _copies()
    copy = copies.get(key) or RemoteCopy(place, int(info["size"]), copies.limit_bytes)
    copies.hold(key, copy)
    return copy


def whole_copy_of(place: RemotePath, size: int, sha256: str) -> RemoteCopy:
    """All of a remote file, fetched unless it is held; DataError if its bytes are not those of the digest."""
    key, copies = (str(place), sha256), _copies()
    copy = copies.get(key)
    if copy is None:
        copy = RemoteCopy(place, size, copies.limit_bytes)
        if copy.fetch_all() != sha256:
            raise changed(place)
        copies.hold(key, copy)
    return copy


def _folder() -> str:
    named = os.environ.get("TMPDIR", "/var/tmp")
    return named if os.access(named, os.W_OK | os.X_OK) else tempfile.gettempdir()


@contextmanager
def _on_disk(place: RemotePath) -> Iterator[None]:
    """While bytes are written to this machine's disk: what goes wrong is said of it, and not of the store."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{place} cannot be copied to {_folder()}: {error.strerror}. Set TMPDIR to a folder with room, or "
            f"{LIMIT_VARIABLE} to fewer bytes."
        ) from None


def _write(descriptor: int, content: bytes, start: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, start)
        rest, start = rest[written:], start + written
