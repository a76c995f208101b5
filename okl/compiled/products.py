"""Products of rows with vectors and matrices: sums in float64, segments for threads, and tiles of a fixed matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic
from numpy.typing import NDArray

from okl.compiled.jit import aligned_empty, as_compiled, compiled, compiled_sum
from okl.foundation.types import FloatArray, Integers

# Matrix-vector products from either side, rows signed by their class, summed in float64.
#
# Each reads the matrix once. The matrix may be float32: it is half the memory to read, while sums over millions of
# rows keep the digits that a duality gap is made of; BLAS would convert it first or sum in float32.
#
# Legend: Z rows (m, n), s signs (m,), a weights (m,), v a vector (n,).


@compiled_sum
def multiply_rows(products: FloatArray, rows: FloatArray, signs: FloatArray, vector: FloatArray) -> None:
    """Overwrite products (m,) by s_i <z_i, v>."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total = 0.0
        for j in range(row.shape[0]):
            total += row[j] * vector[j]
        products[i] = signs[i] * total


@compiled
def add_rows(sums: FloatArray, rows: FloatArray, signs: FloatArray, weights: FloatArray) -> None:
    """Add the sum of s_i a_i z_i to sums (n,), in the order of the rows."""
    # one row after the other, as they are in memory: several at a time save stores, but took a third longer to read
    for i in range(rows.shape[0]):
        weight, row = signs[i] * weights[i], rows[i]
        for j in range(sums.shape[0]):
            sums[j] += weight * row[j]


@compiled
def add_listed_rows(sums: FloatArray, rows: FloatArray, listed: Integers, weights: FloatArray) -> None:
    """Add the sum of w_k z_i, i = listed_k, to sums (n,), in the order of the list: for rows that are in cache."""
    # four rows at a time: sums are loaded and stored a quarter as often, in the same order
    size = listed.shape[0]
    fours = size - size % 4
    for k in range(0, fours, 4):
        a, b, c, d = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        first, second, third, fourth = rows[listed[k]], rows[listed[k + 1]], rows[listed[k + 2]], rows[listed[k + 3]]
        for j in range(sums.shape[0]):
            total = sums[j]
            total += a * first[j]
            total += b * second[j]
            total += c * third[j]
            total += d * fourth[j]
            sums[j] = total
    for k in range(fours, size):
        weight, row = weights[k], rows[listed[k]]
        for j in range(sums.shape[0]):
            sums[j] += weight * row[j]


@compiled
def add_listed_rows_twice(
    sums: FloatArray,
    others: FloatArray,
    rows: FloatArray,
    listed: Integers,
    weights: FloatArray,
    other_weights: FloatArray,
) -> None:
    """Add the sum of w_k z_i, i = listed_k, to sums (n,), and that with the other weights to others (n,)."""
    size = listed.shape[0]
    twos = size - size % 2
    for k in range(0, twos, 2):
        a, b, c, d = weights[k], weights[k + 1], other_weights[k], other_weights[k + 1]
        first, second = rows[listed[k]], rows[listed[k + 1]]
        for j in range(sums.shape[0]):
            left, right = np.float64(first[j]), np.float64(second[j])
            sums[j] = (sums[j] + a * left) + b * right
            others[j] = (others[j] + c * left) + d * right
    for k in range(twos, size):
        weight, other_weight, row = weights[k], other_weights[k], rows[listed[k]]
        for j in range(sums.shape[0]):
            sums[j] += weight * row[j]
            others[j] += other_weight * row[j]


@compiled
def gather_columns(
    out: FloatArray, rows: FloatArray, listed: NDArray[Any], columns: NDArray[Any], factors: FloatArray
) -> None:
    """Overwrite out (k, c) by factor_k z_ij, i = listed_k, over the columns j of a list (c,)."""
    for k in range(listed.shape[0]):
        row, factor = rows[listed[k]], factors[k]
        for j in range(columns.shape[0]):
            out[k, j] = factor * row[np.uint64(columns[j])]


class SparseBlock(NamedTuple):
    """Compressed rows: data and columns of all values, and starts (rows + 1,), where each row begins."""

    data: FloatArray
    columns: Integers
    starts: Integers


def sparse_block(rows: Any, dtype: Any) -> SparseBlock:
    """Return compressed rows, or compressed columns, of SciPy as compiled code takes them."""
    return SparseBlock(
        as_compiled(rows.data, dtype), as_compiled(rows.indices, np.int32), as_compiled(rows.indptr, np.int64)
    )


# Sparse rows. Indices are unsigned: numba tests others for negative values, which took a third of the time.


@compiled
def multiply_sparse_rows(
    products: FloatArray,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    signs: FloatArray,
    vector: FloatArray,
) -> None:
    """Overwrite products (m,) by s_i <z_i, v>; row i of Z has data[starts[i] : starts[i + 1]] in those columns."""
    for i in range(products.shape[0]):
        total = 0.0
        for place in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            total += data[place] * vector[np.uint64(columns[place])]
        products[i] = signs[i] * total


@compiled
def add_sparse_rows(
    sums: FloatArray,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    signs: FloatArray,
    weights: FloatArray,
) -> None:
    """Add the sum of s_i a_i z_i to sums (n,), in the order of the rows."""
    for i in range(weights.shape[0]):
        if weights[i] == 0.0:
            continue
        weight = signs[i] * weights[i]
        for place in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            sums[np.uint64(columns[place])] += weight * data[place]


@compiled
def add_sparse_products(
    products: FloatArray,
    sums: FloatArray,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    weights: FloatArray,
    least: float,
) -> None:
    """Add the sum of a_i z_i z_i' to the lower triangle of products (n, n), that of a_i z_i to sums (n,).

    Columns of a row ascend. Rows of weights below `least` add to the diagonal alone.
    """
    for i in range(weights.shape[0]):
        if weights[i] == 0.0:
            continue
        for place in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            column = np.uint64(columns[place])
            value, line = weights[i] * data[place], products[column]
            sums[column] += value
            first = np.uint64(starts[i]) if weights[i] >= least else place
            for other in range(first, place + np.uint64(1)):
                line[np.uint64(columns[other])] += value * data[other]


@compiled
def add_some_sparse_products(
    products: FloatArray,
    places: Integers,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    weights: FloatArray,
    least: float,
) -> None:
    """Add the sum of a_i z_i z_i' over some columns to the lower triangle of products (k, k).

    places : of each column in products, ascending, or -1 (n,). Columns of a row ascend. Rows of weights below `least`
    add to the diagonal alone.
    """
    some, values = np.empty(products.shape[0], dtype=np.uint64), np.empty(products.shape[0])
    for i in range(weights.shape[0]):
        if weights[i] == 0.0:
            continue
        count = 0
        for at in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            place = places[np.uint64(columns[at])]
            if place >= 0:
                some[count], values[count] = place, data[at]
                count += 1
        is_small = weights[i] < least
        for j in range(count):
            value, line = weights[i] * values[j], products[some[j]]
            for k in range(j if is_small else 0, j + 1):
                line[some[k]] += value * values[k]


# Segments of rows of a fixed size that threads claim in turn.
#
# Each segment is summed apart, and the parts are added in their order by the caller: the same bits for any number of
# threads. Claims are an int64 array (8,), a cache line of its own, whose first entry is the number of segments
# claimed.

Claims = NDArray[np.int64]


def new_claims() -> Claims:
    """Return claims of no segment."""
    return np.zeros(8, dtype=np.int64)


@intrinsic  # type: ignore[untyped-decorator]
def claim_next(typing_context: Any, claims: Any) -> Any:
    """Claim the next segment and return its number.

    One more is claimed (changed in place): no two threads get the same.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        one = context.get_constant(types.int64, 1)
        return builder.atomic_rmw("add", array.data, one, "monotonic")

    return types.int64(claims), generate


@compiled
def multiply_segments(
    products: FloatArray, claims: Claims, rows: FloatArray, signs: FloatArray, vector: FloatArray, size: int
) -> None:
    """Overwrite the products of claimed segments of `size` rows by s_i <z_i, v>; changes claims."""
    n_segments = -(-rows.shape[0] // size)
    segment = claim_next(claims)
    while segment < n_segments:
        cut = slice(segment * size, min((segment + 1) * size, rows.shape[0]))
        multiply_rows(products[cut], rows[cut], signs[cut], vector)
        segment = claim_next(claims)


@compiled
def add_segments(
    parts: FloatArray, claims: Claims, rows: FloatArray, signs: FloatArray, weights: FloatArray, size: int
) -> None:
    """Overwrite parts (segments, n) of claimed segments of `size` rows by their sums of s_i a_i z_i; changes claims.

    From the last segment on, where `multiply_segments` ends: what it read last is still in cache.
    """
    segment = parts.shape[0] - 1 - claim_next(claims)
    while segment >= 0:
        cut = slice(segment * size, min((segment + 1) * size, rows.shape[0]))
        parts[segment] = 0.0
        add_rows(parts[segment], rows[cut], signs[cut], weights[cut])
        segment = parts.shape[0] - 1 - claim_next(claims)


# Products of rows with a fixed matrix: a row has the same bits in any block.
#
# The matrix is packed once into panels of a few vectors of columns. A tile is some rows times one panel: its sums
# stay in registers while it goes through the inputs, which takes one load of the panel and one broadcast of an input
# for several multiplications. Every entry is one chain of fused multiply-adds in the order of the inputs, so that
# neither its position, nor the number of rows, nor the size of a tile changes it. BLAS promises none of that, and
# picks its kernels by a table of CPUs that takes AMD's with 512-bit vectors for older ones.
#
# LLVM would keep the sums in memory if this were written as loops, so tiles are built of vector instructions here.
#
# Source of tiles and panels: Goto & van de Geijn, ACM TOMS 34(3), 2008, sections 4 and 5.


class Tile(NamedTuple):
    """Rows and vectors of a tile: rows * vectors sums and the panel's vectors fill the registers, and no more."""

    rows: int
    vectors: int
    vector_bytes: int


def _tile_of_cpu() -> Tile:
    features = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
    if "+avx512f" in features.split(","):
        return Tile(rows=8, vectors=2, vector_bytes=64)
    return Tile(rows=4, vectors=3, vector_bytes=32)


TILE = _tile_of_cpu()

_INDEX = ir.IntType(64)
_LANE = ir.IntType(32)


def panels_of(matrix: FloatArray) -> FloatArray:
    """Pack a matrix (n_inputs, n_columns) for `project`: (n_panels, n_inputs, width), the last panel filled with zeros.

    The width depends on the precision and on the CPU's vectors: panels do not travel between machines.
    """
    n_inputs, n_columns = matrix.shape
    width = TILE.vectors * TILE.vector_bytes // matrix.itemsize
    n_panels = -(-n_columns // width)
    padded = np.zeros((n_inputs, n_panels * width), dtype=matrix.dtype)
    padded[:, :n_columns] = matrix
    panels = aligned_empty((n_panels * n_inputs, width), matrix.dtype).reshape(n_panels, n_inputs, width)
    panels[...] = padded.reshape(n_inputs, n_panels, width).transpose(1, 0, 2)
    return panels


def _constant(value: int) -> ir.Constant:
    return ir.Constant(_INDEX, value)


class Writer:
    """Writer of the instructions of one tile for one precision; `add_term` defines its terms."""

    def __init__(self, builder: ir.IRBuilder, element: ir.Type, itemsize: int) -> None:
        self.builder = builder
        self.itemsize = itemsize
        self.lanes = TILE.vector_bytes // itemsize
        self.width = TILE.vectors * self.lanes
        self.vector = ir.VectorType(element, self.lanes)
        self.name = f"v{self.lanes}f{8 * itemsize}"

    def call(self, name: str, result: ir.Type, arguments: list[ir.Value]) -> ir.Value:
        """Call an intrinsic of LLVM on vectors of this precision."""
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, arguments)

    def broadcast(self, value: ir.Value) -> ir.Value:
        """Return a vector with value in every lane."""
        undefined = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(_LANE, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_LANE, self.lanes), None))

    def vectors_at(self, data: ir.Value, offset: ir.Value) -> list[ir.Value]:
        """Return pointers to the vectors that begin `offset` elements after data."""
        start = self.builder.bitcast(self.builder.gep(data, [offset]), self.vector.as_pointer())
        return [self.builder.gep(start, [_constant(number)]) for number in range(TILE.vectors)]

    def add_term(self, total: ir.Value, value: ir.Value, factor: ir.Value) -> ir.Value:
        """Return the sum with one more term, of an input in every lane and a vector of the panel: their product."""
        return self.call(f"llvm.fmuladd.{self.name}", self.vector, [value, factor, total])

    def sums(self, xs: list[ir.Value], panel: ir.Value, n_inputs: ir.Value) -> list[list[ir.Value]]:
        """Return sums over the inputs of their terms: TILE.vectors vectors for each row, whose inputs begin at xs."""
        builder = self.builder
        zero = ir.Constant(self.vector, None)
        # variables, which LLVM turns into registers
        totals = [[cgutils.alloca_once(builder, self.vector) for _ in range(TILE.vectors)] for _ in xs]
        for row in totals:
            for total in row:
                builder.store(zero, total)
        with cgutils.for_range(builder, n_inputs) as loop:
            columns = self.vectors_at(panel, builder.mul(loop.index, _constant(self.width)))
            factors = [builder.load(column, align=self.itemsize) for column in columns]
            for row, x in zip(totals, xs, strict=True):
                value = self.broadcast(builder.load(builder.gep(x, [loop.index])))
                for total, factor in zip(row, factors, strict=True):
                    builder.store(self.add_term(builder.load(total), value, factor), total)
        return [[builder.load(total) for total in row] for row in totals]

    def store(self, sums: list[list[ir.Value]], rows: list[list[ir.Value]], n_columns: ir.Value) -> None:
        """Store the first n_columns columns of a tile of sums at pointers to the vectors of its rows."""
        builder = self.builder
        pairs = [pair for row, places in zip(sums, rows, strict=True) for pair in zip(row, places, strict=True)]
        with builder.if_else(builder.icmp_signed(">=", n_columns, _constant(self.width))) as (whole, part):
            with whole:
                for value, place in pairs:
                    builder.store(value, place, align=self.itemsize)
            with part:
                limit = self.broadcast(n_columns)
                for number, (value, place) in enumerate(pairs):
                    first = number % TILE.vectors * self.lanes
                    lanes = ir.Constant(limit.type, list(range(first, first + self.lanes)))
                    wanted = builder.icmp_signed("<", lanes, limit)
                    alignment = ir.Constant(_LANE, self.itemsize)
                    self.call(f"llvm.masked.store.{self.name}.p0", ir.VoidType(), [value, place, alignment, wanted])


def typed_tile(writer_of: type[Writer], arrays: tuple[Any, Any, Any]) -> Any:
    """Return signature and code of an intrinsic that writes one tile, for numba's types of products, inputs and panels.

    The intrinsic takes the three arrays, then the number of a panel and the first row: products[first : first +
    TILE.rows] are overwritten in the columns of the panel; rows beyond the last are left out.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        products, inputs, panels = (
            context.make_array(kind)(context, builder, argument)
            for kind, argument in zip(signature.args[:3], arguments[:3], strict=True)
        )
        panel, first = arguments[3:]
        precision = signature.args[0].dtype
        writer = writer_of(builder, context.get_data_type(precision), precision.bitwidth // 8)
        n_rows, n_columns = cgutils.unpack_tuple(builder, products.shape)
        n_inputs = cgutils.unpack_tuple(builder, inputs.shape)[1]
        last = builder.sub(n_rows, _constant(1))
        rows = [builder.add(first, _constant(number)) for number in range(TILE.rows)]
        # a tile beyond the end computes and stores the last row again: one code for all rows
        rows = [builder.select(builder.icmp_signed("<", row, last), row, last) for row in rows]
        xs = [builder.gep(inputs.data, [builder.mul(row, n_inputs)]) for row in rows]
        start = builder.mul(panel, builder.mul(n_inputs, _constant(writer.width)))
        sums = writer.sums(xs, builder.gep(panels.data, [start]), n_inputs)
        column = builder.mul(panel, _constant(writer.width))
        places = [writer.vectors_at(products.data, builder.add(builder.mul(row, n_columns), column)) for row in rows]
        writer.store(sums, places, builder.sub(n_columns, column))
        return context.get_dummy_value()

    if any(array.layout != "C" or array.dtype != arrays[0].dtype for array in arrays):
        return None  # numba says that no such function exists
    return types.void(*arrays, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def _project_tile(typing_context: Any, products: Any, inputs: Any, panels: Any, panel: Any, first: Any) -> Any:
    """Overwrite a tile of products by inputs times the panel."""
    return typed_tile(Writer, (products, inputs, panels))


@compiled
def project(products: FloatArray, inputs: FloatArray, panels: FloatArray) -> None:
    """Overwrite products (rows, n_columns) by inputs (rows, n_inputs) times the matrix of `panels_of`.

    All three are C-contiguous and of one precision. Each product is summed in the order of the inputs.
    """
    # a panel stays in the first-level cache for all rows of a block
    for panel in range(panels.shape[0]):
        for first in range(0, inputs.shape[0], TILE.rows):
            _project_tile(products, inputs, panels, panel, first)
