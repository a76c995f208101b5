"""Kernel values of blocks of rows with fixed landmarks, and the Nystrom map made of them.

Distances are sums of differences, tile by tile as in okl.compiled.projection: rows that lie close together and far from
the origin lose no digits, as they would by norms and products, and a row has the same bits wherever it stands.

Legend: X inputs (rows, n_inputs), K kernel values (rows, n_landmarks), P projection (n_landmarks, n_columns).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba.extending import intrinsic

from okl.compiled.door import compiled
from okl.compiled.kernelrule import LAPLACIAN, LINEAR, POLYNOMIAL, KernelRule
from okl.compiled.kernelvalues import to_kernel_values
from okl.compiled.projection import TILE, Writer, panels_of, project, typed_tile
from okl.types import FloatArray

_TILE_ROWS = TILE.rows


class Nystrom(NamedTuple):
    """A Nystrom map as compiled code takes it; `as_nystrom` makes it.

    landmarks : panels of the landmarks, transposed; kernel : its rule; projection : panels of P
    """

    landmarks: FloatArray
    kernel: KernelRule
    projection: FloatArray


def as_nystrom(landmarks: FloatArray, kernel: KernelRule, projection: FloatArray) -> Nystrom:
    """Pack landmarks (n_landmarks, n_inputs) and P of one precision: once a map, not a block."""
    return Nystrom(panels_of(landmarks.T), kernel, panels_of(projection))


class _SquaresWriter(Writer):
    """Sums of (input - landmark)^2."""

    def add_term(self, total: ir.Value, value: ir.Value, factor: ir.Value) -> ir.Value:
        difference = self.builder.fsub(factor, value)
        return self.call(f"llvm.fmuladd.{self.name}", self.vector, [difference, difference, total])


class _AbsolutesWriter(Writer):
    """Sums of |input - landmark|."""

    def add_term(self, total: ir.Value, value: ir.Value, factor: ir.Value) -> ir.Value:
        difference = self.builder.fsub(factor, value)
        return self.builder.fadd(total, self.call(f"llvm.fabs.{self.name}", self.vector, [difference]))


@intrinsic  # type: ignore[untyped-decorator]
def _squares_tile(typing_context: Any, sums: Any, inputs: Any, panels: Any, panel: Any, first: Any) -> Any:
    """Overwrite a tile of sums by squared Euclidean distances."""
    return typed_tile(_SquaresWriter, (sums, inputs, panels))


@intrinsic  # type: ignore[untyped-decorator]
def _absolutes_tile(typing_context: Any, sums: Any, inputs: Any, panels: Any, panel: Any, first: Any) -> Any:
    """Overwrite a tile of sums by sums of absolute differences."""
    return typed_tile(_AbsolutesWriter, (sums, inputs, panels))


@compiled
def squared_distances(sums: FloatArray, inputs: FloatArray, landmarks: FloatArray) -> None:
    """Overwrite sums (rows, n_landmarks) by ||x - l||^2 of inputs (rows, n_inputs) and packed landmarks."""
    for panel in range(landmarks.shape[0]):
        for first in range(0, inputs.shape[0], _TILE_ROWS):
            _squares_tile(sums, inputs, landmarks, panel, first)


@compiled
def absolute_distances(sums: FloatArray, inputs: FloatArray, landmarks: FloatArray) -> None:
    """Overwrite sums (rows, n_landmarks) by ||x - l||_1 of inputs (rows, n_inputs) and packed landmarks."""
    for panel in range(landmarks.shape[0]):
        for first in range(0, inputs.shape[0], _TILE_ROWS):
            _absolutes_tile(sums, inputs, landmarks, panel, first)


@compiled
def kernel_block(values: FloatArray, inputs: FloatArray, landmarks: FloatArray, kernel: KernelRule) -> None:
    """Overwrite values (rows, n_landmarks) by k(x, l) of inputs (rows, n_inputs) and packed landmarks.

    landmarks : `panels_of` their transpose; all three C-contiguous, of one precision
    """
    if kernel.code == LAPLACIAN:
        absolute_distances(values, inputs, landmarks)
    elif kernel.code == LINEAR or kernel.code == POLYNOMIAL:
        project(values, inputs, landmarks)
    else:
        squared_distances(values, inputs, landmarks)
    to_kernel_values(values.reshape(-1), kernel)


@compiled
def nystrom_transform(
    features: FloatArray, values: FloatArray, inputs: FloatArray, nystrom: Nystrom, thread: int, n_threads: int
) -> None:
    """Write features K P (rows, n_columns) of every n_threads-th block of rows.

    values : (rows of a block, n_landmarks), a buffer
    """
    size = values.shape[0]
    for first in range(thread * size, inputs.shape[0], n_threads * size):
        last = min(first + size, inputs.shape[0])
        part = values[: last - first]
        kernel_block(part, inputs[first:last], nystrom.landmarks, nystrom.kernel)
        project(features[first:last], part, nystrom.projection)
