"""CSV text as bytes: stretches of whole lines, each of which can be read by itself, and how Arrow is to read them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pyarrow.csv as pacsv

from okl.store.opening import readable
from okl.store.packing import open_text, packing_of
from okl.store.places import Place, size_of

BLOCK_BYTES = 2 * 2**20
STRETCH_BYTES = 16 * BLOCK_BYTES  # held by whoever reads a stretch
READING = pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)  # one thread: errors then name their row


def of_one_block(file: Place) -> bool:
    """Whether a look at the first block is one at the whole file; of one that is compressed nobody can say."""
    return packing_of(file.name) is None and size_of(file) <= BLOCK_BYTES


def stretches(file: Place) -> list[tuple[int, int]]:
    """A file cut into stretches of whole lines, each the first of its bytes and the first that is the next one's.

    Cut where Arrow itself cuts, at the last line's end of a block: what lies in between is read as it always is. What
    is compressed is one stretch: it can only be read from its beginning.
    """
    size, cuts = size_of(file), [0]
    if packing_of(file.name) is not None:
        return [(0, size)]
    with open_text(file) as stream:
        for stop in range(STRETCH_BYTES, size, STRETCH_BYTES):
            stream.seek(stop - BLOCK_BYTES)
            found = whole(stream, BLOCK_BYTES).rfind(b"\n")
            if found >= 0:
                cuts.append(stop - BLOCK_BYTES + found + 1)
    return list(pairwise([*cuts, size]))


def headless(names: list[str]) -> pacsv.ReadOptions:
    """How a stretch without the header line is read."""
    return pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names)


@contextmanager
def bytes_of(file: Place, span: tuple[int, int] | None) -> Iterator[Any]:
    """What Arrow reads a file, or a stretch of it, from."""
    if span is None and packing_of(file.name) is None:
        with readable(file) as stream:
            yield stream
        return
    with open_text(file) as stream:
        if span is None or packing_of(file.name) is not None:
            yield stream
            return
        stream.seek(span[0])
        yield Stretch(stream, span[1] - span[0])


class Stretch(io.RawIOBase):
    """So many bytes of a stream, from where it stands."""

    def __init__(self, stream: io.RawIOBase, size: int) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as the bytes go."""
        room = memoryview(buffer).cast("B")[: self._left]
        read = self._stream.readinto(room) or 0
        self._left -= read
        return read


def whole(stream: io.RawIOBase, size: int) -> bytes:
    """So many bytes, or as many as there are."""
    content = bytearray()
    while len(content) < size and (some := stream.read(size - len(content))):
        content += some
    return bytes(content)
