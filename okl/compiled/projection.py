"""Products of rows with a fixed matrix, such as frequencies: the same bits for a row wherever it stands.

The matrix is packed once into panels of a few vectors of columns. A tile is some rows times one panel: its sums stay in
registers while it goes through the inputs, which takes one load of the panel and one broadcast of an input for several
multiplications. Every entry is one chain of fused multiply-adds in the order of the inputs, so that neither its
position, nor the number of rows, nor the size of a tile changes it. BLAS promises none of that, and picks its kernels
by a table of CPUs that takes AMD's with 512-bit vectors for older ones.

LLVM would keep the sums in memory if this were written as loops, so tiles are built of vector instructions here.

Source of tiles and panels: Goto & van de Geijn, ACM TOMS 34(3), 2008, sections 4 and 5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from okl.compiled.blocks import aligned_empty
from okl.compiled.door import compiled
from okl.types import FloatArray


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
