"""Transposition of columns into rows with scaling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from okl.compiled.jit import compiled
from okl.foundation.types import FloatArray, Integers

# Columns to rows: scaled, transposed in blocks and scattered to any order, in one pass over the values.
#
# Legend: n columns, m rows; values are float32, arithmetic is float64, what is written has the precision of the
# output.

LANES = 8  # rows and columns of a block; a power of two
TILE_ROWS = 32  # the lines of a tile's columns and rows stay in the second-level cache for up to about 2000 columns
_INDEX, _SINGLE, _DOUBLE = ir.IntType(64), ir.FloatType(), ir.DoubleType()


@intrinsic  # type: ignore[untyped-decorator]
def _float32_at(typing_context: Any, address: Any) -> Any:
    """Return the float32 at an address, which need not be a multiple of 4."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _SINGLE.as_pointer()), align=1)

    return types.float32(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def _scatter_block(
    typing_context: Any, out: Any, addresses: Any, positions: Any, shift: Any, factor: Any, row: Any, column: Any
) -> Any:
    """Write a block of 8 rows and 8 columns of `scatter_columns`; LLVM alone does not vectorise it."""

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
    """Return a vector of one value."""
    nothing = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    return builder.shuffle_vector(
        builder.insert_element(nothing, value, ir.IntType(32)(0)), nothing, _lanes([0] * LANES)
    )


def _transposed(builder: Any, vectors: list[Any]) -> list[Any]:
    """Return vectors of columns as vectors of rows, by three shuffles of the first half into the second."""
    half = LANES // 2
    masks = [_lanes([j for i in part for j in (i, LANES + i)]) for part in (range(half), range(half, LANES))]
    for _ in range(LANES.bit_length() - 1):
        vectors = [builder.shuffle_vector(vectors[i], vectors[i + half], m) for i in range(half) for m in masks]
    return vectors


_FAR = 1e18  # beyond, z / sqrt(1 + (z / 3)^2) is 3


@compiled
def squash_columns(out: FloatArray, rows: Integers, columns: Integers, shift: FloatArray, factor: FloatArray) -> None:
    """Change columns of out (., n) in place: (z / sqrt(1 + (z / 3)^2) - shift) * factor, in float64.

    rows : (m,) to change; columns, shift, factor : (k,)
    """
    for r in rows:
        for k in range(columns.size):
            z = min(max(np.float64(out[r, columns[k]]), -_FAR), _FAR)  # infinite where float32 has overflowed
            out[r, columns[k]] = (z / math.sqrt(1.0 + z * z / 9.0) - shift[k]) * factor[k]


@compiled
def scatter_columns(
    out: FloatArray, addresses: Integers, positions: Integers, shift: FloatArray, factor: FloatArray
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
