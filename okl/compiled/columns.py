"""Transposition of columns into rows with scaling."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from okl.compiled.jit import compiled
from okl.foundation.types import FloatArray

# Columns to rows: scaled, transposed in blocks and scattered to any order, in one pass over the values.
#
# Legend: n columns, m rows; values are float32, arithmetic is float64, what is written has the precision of the
# output.

LANES = 8  # rows and columns of a block; a power of two
TILE_ROWS = 32  # the lines of a tile's columns and rows stay in the second-level cache for up to about 2000 columns
_INDEX, _SINGLE, _DOUBLE = ir.IntType(64), ir.FloatType(), ir.DoubleType()


@intrinsic  # type: ignore[untyped-decorator]
def _float32_at(typing_context: Any, address: Any) -> Any:
    """The float32 at an address, which need not be a multiple of 4."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _SINGLE.as_pointer()), align=1)

    return types.float32(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def float64_at(typing_context: Any, address: Any) -> Any:
    """The float64 at an address, which need not be a multiple of 8."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _DOUBLE.as_pointer()), align=1)

    return types.float64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _scatter_block(
    typing_context: Any, out: Any, addresses: Any, positions: Any, shift: Any, factor: Any, row: Any, column: Any
) -> Any:
    """`scatter_columns` for 8 rows from row on and 8 columns from column on; LLVM alone makes no vector code of it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:5], arguments[:5], strict=True)
        ]
        out, addresses, positions, shift, factor = made
        row, column = arguments[5:]
        value = context.get_data_type(signature.args[0].dtype)

        def entry(array: Any, first: Any, k: int) -> Any:
            return builder.load(builder.gep(array.data, [builder.add(first, _INDEX(k))]))

        vectors = []
        for k in range(LANES):
            address = builder.add(entry(addresses, column, k), builder.mul(row, _INDEX(4)))
            pointer = builder.inttoptr(address, ir.VectorType(_SINGLE, LANES).as_pointer())
            exact = builder.fpext(builder.load(pointer, align=1), ir.VectorType(_DOUBLE, LANES))
            exact = builder.fsub(exact, _splat(builder, entry(shift, column, k)))
            exact = builder.fmul(exact, _splat(builder, entry(factor, column, k)))
            vectors.append(exact if value == _DOUBLE else builder.fptrunc(exact, ir.VectorType(value, LANES)))
        width = cgutils.unpack_tuple(builder, out.shape)[1]
        for k, vector in enumerate(_transposed(builder, vectors)):
            start = builder.add(builder.mul(entry(positions, row, k), width), column)
            pointer = builder.bitcast(builder.gep(out.data, [start]), vector.type.as_pointer())
            builder.store(vector, pointer, align=4)
        return context.get_dummy_value()

    return types.void(out, addresses, positions, shift, factor, row, column), generate


def _lanes(numbers: list[int]) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), LANES), numbers)


def _splat(builder: Any, value: Any) -> Any:
    """A vector of one value."""
    nothing = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    return builder.shuffle_vector(
        builder.insert_element(nothing, value, ir.IntType(32)(0)), nothing, _lanes([0] * LANES)
    )


def _transposed(builder: Any, vectors: list[Any]) -> list[Any]:
    """Vectors of columns as vectors of rows: three times the first half is shuffled into the second like two packs."""
    half = LANES // 2
    masks = [_lanes([j for i in part for j in (i, LANES + i)]) for part in (range(half), range(half, LANES))]
    for _ in range(LANES.bit_length() - 1):
        vectors = [builder.shuffle_vector(vectors[i], vectors[i + half], m) for i in range(half) for m in masks]
    return vectors


@compiled
def scatter_columns(
    out: FloatArray,
    addresses: NDArray[np.int64],
    positions: NDArray[np.int64],
    shift: FloatArray,
    factor: FloatArray,
) -> None:
    """Write out (rows, n), C-contiguous: out[positions[r], c] = (column c at row r - shift[c]) * factor[c].

    addresses : (n,) of the columns, each m contiguous float32 that the caller keeps alive; any byte will do
    positions : (m,), distinct
    """
    m, n = positions.size, addresses.size
    if m < LANES or n < LANES:
        for r in range(m):
            for c in range(n):
                out[positions[r], c] = (np.float64(_float32_at(addresses[c] + 4 * r)) - shift[c]) * factor[c]
        return
    for first in range(0, m, TILE_ROWS):
        last = min(first + TILE_ROWS, m)
        for column in range(0, n, LANES):
            for row in range(first, last, LANES):
                # the last block of rows and of columns overlaps the one before it
                _scatter_block(out, addresses, positions, shift, factor, min(row, m - LANES), min(column, n - LANES))


# Columns of float32 read from files straight into rows: system calls and all, in one call that needs no interpreter.
#
# Legend: g row groups, n inputs, m rows of a row group. A chunk is a run of rows of one group; chunks are handed out
# to threads one by one, each reads its columns' values into its own memory and scatters them into rows.

PADDING = 64  # bytes of a column's slot beyond its values: room for a header, and no two slots alike in cache
MOST_HEADER_BYTES = 56  # Arrow's have some 25
_pread = types.ExternalFunction("pread", types.int64(types.int32, types.uintp, types.uintp, types.int64))


class Pages(NamedTuple):
    """Where the values of some row groups lie: n columns of float32, then one of float64, without gaps between values.

    descriptors : (g,) of open files; rows : (g,), m of each; first : (g,), place of each group's first row
    starts : (g, n + 1), where values begin in the file
    headers : (g, 2, 56) bytes that must come before them, for the inputs and for the target; lengths : (g, 2)
    """

    descriptors: NDArray[np.int64]
    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    starts: NDArray[np.int64]
    headers: NDArray[np.uint8]
    lengths: NDArray[np.int64]


class Scaling(NamedTuple):
    """What becomes of stored values: (value - shift) * factor, or of a target of two classes 1 for positive, else -1.

    shift, factor : (n,) of the inputs; target_shift, target_factor; two_classes : whether positive counts
    """

    shift: FloatArray
    factor: FloatArray
    target_shift: float
    target_factor: float
    positive: float
    two_classes: bool


@intrinsic  # type: ignore[untyped-decorator]
def _next(typing_context: Any, counter: Any) -> Any:
    """First entry of an int64 array before 1 was added to it: every thread gets another number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, ir.IntType(64)(1), "monotonic")

    return types.int64(counter), generate


@compiled
def read_pages(
    inputs_out: FloatArray,
    targets_out: NDArray[np.float64],
    failed_out: NDArray[np.uint8],
    counter: NDArray[np.int64],
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    pages: Pages,
    scaling: Scaling,
    address: int,
    chunk_rows: int,
) -> None:
    """Read chunks, as counter hands them out, until there are none; memory and counter change in place.

    Row r of group k goes to row positions[first[k] + r] of inputs_out (., n) and targets_out (.,), or to first[k] + r
    if there are no positions. A group that is cut off or whose headers differ is marked in failed_out (g,); what its
    rows then hold is undefined.

    counter : one that all threads share, 0 before; address : of memory, at least (n + 2) (4 chunk_rows + 64) bytes
    """
    n = pages.starts.shape[1] - 1
    slot = 4 * chunk_rows + PADDING
    addresses = address + PADDING + slot * np.arange(n + 1)
    in_order = np.arange(chunk_rows)
    mine, passed = _next(counter), 0
    for k in range(pages.rows.size):
        chunks = (pages.rows[k] + chunk_rows - 1) // chunk_rows
        while mine < passed + chunks:
            begin = (mine - passed) * chunk_rows
            rows = min(chunk_rows, pages.rows[k] - begin)
            if failed_out[k] == 0 and _read_chunk(memory, pages, addresses, k, begin, rows, address):
                into = pages.first[k] + begin
                if positions.size > 0:
                    places = positions[into : into + rows]
                    scatter_columns(inputs_out, addresses[:n], places, scaling.shift, scaling.factor)
                    scatter_targets(targets_out, places, addresses[n], scaling)
                else:
                    places, end = in_order[:rows], into + rows
                    scatter_columns(inputs_out[into:end], addresses[:n], places, scaling.shift, scaling.factor)
                    scatter_targets(targets_out[into:end], places, addresses[n], scaling)
            else:
                failed_out[k] = 1
            mine = _next(counter)
        passed += chunks


@compiled
def _read_chunk(
    memory: NDArray[np.uint8],
    pages: Pages,
    addresses: NDArray[np.int64],
    group: int,
    begin: int,
    rows: int,
    address: int,
) -> bool:
    """Fill memory with the rows of a chunk, each column at its address; False if the file is not what it should be."""
    n = addresses.size - 1
    for c in range(n + 1):
        last = 1 if c == n else 0
        width = 8 if last else 4
        # the header comes with the first values
        header = pages.lengths[group, last] if begin == 0 else 0
        size = width * rows + header
        start = pages.starts[group, c] + width * begin - header
        into = addresses[c] - header
        if _pread(np.int32(pages.descriptors[group]), np.uintp(into), np.uintp(size), start) != size:
            return False
        for i in range(header):
            if memory[into - address + i] != pages.headers[group, last, i]:
                return False
    return True


@compiled
def scatter_targets(out: NDArray[np.float64], positions: NDArray[np.int64], address: int, scaling: Scaling) -> None:
    """Write out[positions[r]] from the float64 at address + 8 r, whatever the address, as scaling says of targets."""
    for r in range(positions.size):
        stored = float64_at(address + 8 * r)
        if scaling.two_classes:
            out[positions[r]] = 1.0 if stored == scaling.positive else -1.0
        else:
            out[positions[r]] = (stored - scaling.target_shift) * scaling.target_factor
