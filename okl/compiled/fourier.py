"""Projections onto frequencies and Fourier feature maps, dense and structured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from okl.compiled.jit import compiled, compiled_sum, nested
from okl.compiled.math import sines_and_cosines
from okl.compiled.products import panels_of, project
from okl.compiled.threads import Block
from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray

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


@nested
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
    """Return the sum of the products of two vectors of one length and precision, in that precision."""
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
    scores: FloatArray, block: Block, inputs: FloatArray, waves: Waves, weights: FloatArray, thread: int, n_threads: int
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
        """Return a pointer to a row."""
        start = self.builder.mul(row, ir.Constant(row.type, LANES))
        return self.builder.bitcast(self.builder.gep(self.data, [start]), self.vector.as_pointer())

    def load(self, row: ir.Value) -> ir.Value:
        """Return the vector of a row."""
        return self.builder.load(self.at(row), align=self.alignment)

    def store(self, value: ir.Value, row: ir.Value) -> None:
        """Overwrite a row."""
        self.builder.store(value, self.at(row), align=self.alignment)


def _butterflies(columns: Any, halves: tuple[int, ...]) -> Any:
    """Return the type and the code of stages of butterflies of rows first, first + half, first + 2 half, ..."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = _Lanes(context, builder, signature.args[0], arguments[0])
        rows = [arguments[1]]
        for _ in range(2 * halves[-1] - 1):
            rows.append(builder.add(rows[-1], arguments[2]))
        values = [lanes.load(row) for row in rows]
        for half in halves:
            pairs = [(i, i + half) for i in range(len(rows)) if not i & half]
            for i, j in pairs:
                values[i], values[j] = builder.fadd(values[i], values[j]), builder.fsub(values[i], values[j])
        for value, row in zip(values, rows, strict=True):
            lanes.store(value, row)
        return context.get_dummy_value()

    return types.void(columns, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def _one_stage(typing_context: Any, columns: Any, first: Any, half: Any) -> Any:
    """Overwrite rows (a, b) = first, first + half by (a + b, a - b)."""
    return _butterflies(columns, (1,))


@intrinsic  # type: ignore[untyped-decorator]
def _two_stages(typing_context: Any, columns: Any, first: Any, half: Any) -> Any:
    """Overwrite rows first, first + half, first + 2 half, first + 3 half by two stages of butterflies."""
    return _butterflies(columns, (1, 2))


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


@nested
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
