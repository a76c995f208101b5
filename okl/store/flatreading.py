"""Flat row groups of a window read by compiled code, by as many threads as come; what fails is left to Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from okl.store.dataset import Schema
from okl.store.flatpages import FlatGroup, borrowed_memory, page_header
from okl.store.partfiles import PartFile
from okl.types import FloatArray

if TYPE_CHECKING:
    from okl.compiled.pages import Pages, Scaling

MOST_JOBS = 4  # threads that may read a window
CHUNK_BYTES = 2 * 2**20  # of a thread's memory: small enough to stay in cache, large enough for a system call a column
LEAST_CHUNK_ROWS = 4096
Job = Callable[[], None]
Targets = NDArray[np.float64]


@dataclass(frozen=True)
class FlatPiece:
    """A flat row group of a window: its file, its layout, its first row in the window, and how else to read it."""

    part: PartFile
    group: FlatGroup
    first: int
    otherwise: Job


def flat_jobs(
    schema: Schema,
    pieces: Sequence[FlatPiece],
    positions: NDArray[np.int64] | None,
    inputs_out: FloatArray,
    targets_out: Targets,
    targets_of: Callable[[Schema, Targets], Targets],
) -> list[Job]:
    """Calls that together read flat row groups; in any order or in parallel, each takes what the others leave.

    Parameters
    ----------
    positions : (rows of the window,), where row r of the window goes; None: to row r
    inputs_out, targets_out : see `okl.store.reading.read_window`
    targets_of : what is learnt of stored targets, where they are more than two labels
    """
    from okl.compiled.pages import PADDING, read_pages  # numba: not needed to describe a data set

    pages = _pages(pieces)
    chunk_rows = _chunk_rows(int(pages.rows.max()), schema.n_features)
    scaling, finished = page_scaling(schema)
    failed, counter, ended = np.zeros(len(pieces), dtype=np.uint8), np.zeros(8, dtype=np.int64), count(1)
    places = np.empty(0, dtype=np.int64) if positions is None else positions

    def read() -> None:
        with borrowed_memory((schema.n_features + 2) * (4 * chunk_rows + PADDING)) as memory:
            read_pages(
                inputs_out, targets_out, failed, counter, memory, places, pages, scaling, memory.ctypes.data, chunk_rows
            )
        if next(ended) == MOST_JOBS:  # the last one: nobody writes any more
            settle()

    def settle() -> None:
        for index, piece in enumerate(pieces):
            if failed[index]:
                piece.otherwise()
            elif not finished:
                part = slice(piece.first, piece.first + piece.group.rows)
                rows = part if positions is None else positions[part]
                targets_out[rows] = targets_of(schema, targets_out[rows])

    return [read] * MOST_JOBS


def _chunk_rows(rows: int, n_features: int) -> int:
    """Rows of a chunk: a row group is cut into equal parts that fit a thread's memory."""
    most = max(LEAST_CHUNK_ROWS, CHUNK_BYTES // (4 * max(1, n_features)))
    return -(-rows // -(-rows // most))


def _pages(pieces: Sequence[FlatPiece]) -> Pages:
    from okl.compiled.pages import MOST_HEADER_BYTES, Pages

    headers = np.zeros((len(pieces), 2, MOST_HEADER_BYTES), dtype=np.uint8)
    lengths = np.zeros((len(pieces), 2), dtype=np.int64)
    for index, piece in enumerate(pieces):
        for which, kind in enumerate(("FLOAT", "DOUBLE")):
            header = page_header(piece.group.rows, kind)
            headers[index, which, : len(header)] = header
            lengths[index, which] = len(header)
    return Pages(
        np.array([piece.part.descriptor for piece in pieces], dtype=np.int64),
        np.array([piece.group.rows for piece in pieces], dtype=np.int64),
        np.array([piece.first for piece in pieces], dtype=np.int64),
        np.stack([piece.group.starts for piece in pieces]),
        headers,
        lengths,
    )


def page_scaling(schema: Schema) -> tuple[Scaling, bool]:
    """What compiled code makes of values, and whether that is all: labels of several classes may need a table."""
    from okl.compiled.pages import Scaling

    shift, factor = schema.target_shift_and_factor if schema.task == "regression" else (0.0, 1.0)
    two_classes = schema.task == "binary"
    positive = float(schema.stored_labels[1]) if two_classes else 0.0
    return Scaling(*schema.shift_and_factor, shift, factor, positive, two_classes), schema.task != "multiclass"
