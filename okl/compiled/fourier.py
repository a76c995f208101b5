"""Projections onto frequencies and Fourier feature maps, dense and structured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from okl.compiled.jit import compiled, compiled_sum
from okl.compiled.math import sines_and_cosines
from okl.compiled.threads import Block, aligned_empty
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray

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
    """Writes the instructions of one tile for one precision; `add_term` says of what."""

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
        """A vector with value in every lane."""
        undefined = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(_LANE, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_LANE, self.lanes), None))

    def vectors_at(self, data: ir.Value, offset: ir.Value) -> list[ir.Value]:
        """Pointers to the vectors that begin `offset` elements from data."""
        start = self.builder.bitcast(self.builder.gep(data, [offset]), self.vector.as_pointer())
        return [self.builder.gep(start, [_constant(number)]) for number in range(TILE.vectors)]

    def add_term(self, total: ir.Value, value: ir.Value, factor: ir.Value) -> ir.Value:
        """The sum with one more term, of an input in every lane and a vector of the panel: their product."""
        return self.call(f"llvm.fmuladd.{self.name}", self.vector, [value, factor, total])

    def sums(self, xs: list[ir.Value], panel: ir.Value, n_inputs: ir.Value) -> list[list[ir.Value]]:
        """Sums over the inputs of their terms: TILE.vectors vectors for each row, whose inputs begin at xs."""
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
    """Signature and code of an intrinsic that writes one tile, for numba's types of products, inputs and panels.

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


# Fourier map: a projection with its sines and cosines, block by block.
#
# Legend: X inputs (rows, n_inputs), F frequencies (n_inputs, n_frequencies), W weights (n_outputs, 2 n_frequencies).


@stored("packed-fourier-map")
class Waves(NamedTuple):
    """A Fourier map as the compiled code takes it; `as_waves` makes it.

    panels : frequencies divided by pi, so that products come in half turns and range reduction is exact, packed
    n_frequencies : int, without what fills the last panel
    amplitude : scalar of the same precision, n_frequencies^(-1/2)
    """

    panels: FloatArray
    n_frequencies: int
    amplitude: np.floating[Any]


def as_waves(frequencies: FloatArray) -> Waves:
    """Pack frequencies (n_inputs, n_frequencies), float32 or float64, per unit of input: once a map, not a block."""
    half_turns = (frequencies.astype(np.float64) / np.pi).astype(frequencies.dtype)
    n_frequencies = int(frequencies.shape[1])
    return Waves(panels_of(half_turns), n_frequencies, frequencies.dtype.type(n_frequencies**-0.5))


@compiled
def map_block(block: Block, inputs: FloatArray, waves: Waves) -> None:
    """Overwrite the block by amplitude * sin(X F) (left) and amplitude * cos(X F) (right) of all rows of inputs."""
    project(block.left, inputs, waves.panels)
    sines_and_cosines(block.left, block.right, waves.amplitude)


@compiled
def map_part(block: Block, inputs: FloatArray, waves: Waves, index: int) -> Block:
    """Overwrite a block by the features of the rows of that index, as many as it holds; the part that they fill."""
    first = index * block.left.shape[0]
    rows = inputs[first : first + block.left.shape[0]]
    part = Block(block.left[: rows.shape[0]], block.right[: rows.shape[0]])
    map_block(part, rows, waves)
    return part


@compiled_sum
def score_block(scores: FloatArray, block: Block, weights: FloatArray) -> None:
    """Overwrite scores (rows, n_outputs) by the products of every row of the block with every row of W."""
    width = block.left.shape[1]
    for row in range(scores.shape[0]):
        left, right = block.left[row], block.right[row]
        for output in range(weights.shape[0]):
            w = weights[output]
            scores[row, output] = dot(left, w[:width]) + dot(right, w[width:])


@compiled_sum
def dot(left: FloatArray, right: FloatArray) -> np.floating[Any]:
    """Sum of the products of two vectors of one length and precision, in that precision."""
    total = left.dtype.type(0)
    for j in range(left.shape[0]):
        total += left[j] * right[j]
    return total


@compiled
def fourier_transform(
    features: FloatArray, block: Block, inputs: FloatArray, waves: Waves, thread: int, n_threads: int
) -> None:
    """Write features (rows, 2 n_frequencies), sines first, of every n_threads-th block of rows; block is a buffer."""
    size = block.left.shape[0]
    width = block.left.shape[1]
    for first in range(thread * size, inputs.shape[0], n_threads * size):
        last = min(first + size, inputs.shape[0])
        part = Block(block.left[: last - first], block.right[: last - first])
        map_block(part, inputs[first:last], waves)
        for i in range(last - first):
            for j in range(width):  # slices would compile numba's message about unequal shapes, for seconds
                features[first + i, j] = part.left[i, j]
                features[first + i, width + j] = part.right[i, j]


@compiled
def fourier_scores(
    scores: FloatArray,
    block: Block,
    inputs: FloatArray,
    waves: Waves,
    weights: FloatArray,
    thread: int,
    n_threads: int,
) -> None:
    """Write scores (rows, n_outputs) of every n_threads-th block of rows; block is a buffer."""
    size = block.left.shape[0]
    for first in range(thread * size, inputs.shape[0], n_threads * size):
        last = min(first + size, inputs.shape[0])
        part = Block(block.left[: last - first], block.right[: last - first])
        map_block(part, inputs[first:last], waves)
        score_block(scores[first:last], part, weights)


# Structured Fourier map: products of signs and Hadamard matrices, O(p log p) per row.
#
# Rows are taken LANES at a time, transposed, so that every butterfly is one vector operation across rows, at every
# stage; a row has the same bits in any lane.
#
# Legend: p the number of inputs padded to a power of two; H the Hadamard matrix (p, p); D diagonal matrices of signs.

LANES = 16


@stored("packed-structured-map")
class Structured(NamedTuple):
    """A structured map as compiled code takes it.

    signs : (n_blocks, 3, p), +1 or -1: the diagonals of D1, D2, D3
    half_turns : (n_frequencies,): lengths of the frequencies over pi p^(3/2), which makes each H a rotation
    amplitude : scalar of the same precision, n_frequencies^(-1/2)
    """

    signs: FloatArray
    half_turns: FloatArray
    amplitude: np.floating[Any]


class _Lanes:
    """Writes operations on rows of an array (., LANES), each of them one vector."""

    def __init__(self, context: Any, builder: ir.IRBuilder, kind: Any, array: ir.Value) -> None:
        self.builder = builder
        self.data = context.make_array(kind)(context, builder, array).data
        self.vector = ir.VectorType(context.get_data_type(kind.dtype), LANES)
        self.alignment = kind.dtype.bitwidth // 8

    def at(self, row: ir.Value) -> ir.Value:
        """A pointer to a row."""
        start = self.builder.mul(row, ir.Constant(row.type, LANES))
        return self.builder.bitcast(self.builder.gep(self.data, [start]), self.vector.as_pointer())

    def load(self, row: ir.Value) -> ir.Value:
        """The vector of a row."""
        return self.builder.load(self.at(row), align=self.alignment)

    def store(self, value: ir.Value, row: ir.Value) -> None:
        """Overwrite a row."""
        self.builder.store(value, self.at(row), align=self.alignment)


@intrinsic  # type: ignore[untyped-decorator]
def _one_stage(typing_context: Any, columns: Any, first: Any, half: Any) -> Any:
    """Overwrite rows (a, b) = first, first + half by (a + b, a - b)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = _Lanes(context, builder, signature.args[0], arguments[0])
        rows = [arguments[1], builder.add(arguments[1], arguments[2])]
        a, b = (lanes.load(row) for row in rows)
        lanes.store(builder.fadd(a, b), rows[0])
        lanes.store(builder.fsub(a, b), rows[1])
        return context.get_dummy_value()

    return types.void(columns, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def _two_stages(typing_context: Any, columns: Any, first: Any, half: Any) -> Any:
    """Overwrite rows first, first + half, first + 2 half, first + 3 half by two stages of butterflies."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = _Lanes(context, builder, signature.args[0], arguments[0])
        rows = [arguments[1]]
        for _ in range(3):
            rows.append(builder.add(rows[-1], arguments[2]))
        a, b, c, d = (lanes.load(row) for row in rows)
        a, b, c, d = builder.fadd(a, b), builder.fsub(a, b), builder.fadd(c, d), builder.fsub(c, d)
        lanes.store(builder.fadd(a, c), rows[0])
        lanes.store(builder.fadd(b, d), rows[1])
        lanes.store(builder.fsub(a, c), rows[2])
        lanes.store(builder.fsub(b, d), rows[3])
        return context.get_dummy_value()

    return types.void(columns, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def _scale(typing_context: Any, columns: Any, source: Any, row: Any, factor: Any) -> Any:
    """Overwrite a row of columns by factor times that row of source."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = _Lanes(context, builder, signature.args[0], arguments[0])
        value = _Lanes(context, builder, signature.args[1], arguments[1]).load(arguments[2])
        undefined = ir.Constant(lanes.vector, ir.Undefined)
        index = ir.IntType(32)
        first = builder.insert_element(undefined, arguments[3], ir.Constant(index, 0))
        factors = builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(index, LANES), None))
        lanes.store(builder.fmul(value, factors), arguments[2])
        return context.get_dummy_value()

    return types.void(columns, source, types.intp, columns.dtype), generate


@compiled
def hadamard_transform(columns: FloatArray) -> None:
    """Overwrite columns (p, LANES), C-contiguous, by H columns; p is a power of two, H has entries +1 and -1.

    Two stages at a time while there are two: half as many loads and stores.

    Source: Fino & Algazi, IEEE Transactions on Computers C-25(11), 1976, the natural order.
    """
    size, half = columns.shape[0], 1
    while 4 * half <= size:
        for start in range(0, size, 4 * half):
            for i in range(start, start + half):
                _two_stages(columns, i, half)
        half *= 4
    if 2 * half == size:
        for i in range(half):
            _one_stage(columns, i, half)


@compiled
def _rotate(columns: FloatArray, scratch: FloatArray, signs: FloatArray) -> None:
    """Overwrite columns (p, LANES) by H D1 H D2 H D3 scratch, where scratch holds rows of inputs."""
    size = columns.shape[0]
    for i in range(size):
        _scale(columns, scratch, i, signs[2, i])
    for number in (1, 0):
        hadamard_transform(columns)
        for i in range(size):
            _scale(columns, columns, i, signs[number, i])
    hadamard_transform(columns)


@compiled
def project_structured(products: FloatArray, inputs: FloatArray, structured: Structured, buffers: FloatArray) -> None:
    """Overwrite products (rows, n_frequencies) by inputs (rows, n_inputs) times the frequencies, in half turns.

    buffers : (2, p, LANES), of the same precision, changed in place
    """
    scratch, columns = buffers[0], buffers[1]
    size, n_frequencies = scratch.shape[0], products.shape[1]
    n_rows, n_inputs = inputs.shape
    scratch[:] = 0
    for first in range(0, n_rows, LANES):
        count = min(LANES, n_rows - first)
        for lane in range(count):
            for i in range(n_inputs):
                scratch[i, lane] = inputs[first + lane, i]
        for block in range(structured.signs.shape[0]):
            _rotate(columns, scratch, structured.signs[block])
            start = block * size
            width = min(size, n_frequencies - start)
            for lane in range(count):
                for i in range(width):
                    products[first + lane, start + i] = columns[i, lane] * structured.half_turns[start + i]


@compiled
def structured_transform(
    features: FloatArray, block: Block, buffers: FloatArray, inputs: FloatArray, structured: Structured
) -> None:
    """Write features (rows, 2 n_frequencies), sines first; block and buffers (2, p, LANES) are changed in place."""
    size, width = block.left.shape
    for first in range(0, inputs.shape[0], size):
        last = min(first + size, inputs.shape[0])
        left, right = block.left[: last - first], block.right[: last - first]
        project_structured(left, inputs[first:last], structured, buffers)
        sines_and_cosines(left, right, structured.amplitude)
        for i in range(last - first):
            for j in range(width):  # not slices: see fourier.fourier_transform
                features[first + i, j] = left[i, j]
                features[first + i, width + j] = right[i, j]
