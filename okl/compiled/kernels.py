"""Kernel values between rows, support vectors and landmarks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from okl.compiled.extension import VALUE, call_extension
from okl.compiled.jit import compiled, compiled_row, compiled_sum, nested, nested_row_sum
from okl.compiled.math import exp_negative
from okl.compiled.products import TILE, SparseBlock, Writer, panels_of, project, typed_tile
from okl.foundation.class_tags import stored
from okl.foundation.types import Doubles, FloatArray

# Kernel rules: a code and its parameters.

GAUSSIAN, LAPLACIAN, MATERN32, MATERN52, POLYNOMIAL, LINEAR = 0, 1, 2, 3, 4, 5
OWN_EUCLIDEAN, OWN_ABSOLUTE = 6, 7  # a profile at an address


@stored("kernel-rule")
class KernelRule(NamedTuple):
    """A kernel of okl.kernels, with r = ||x - x'|| the Euclidean distance.

    GAUSSIAN exp(-scale r^2); LAPLACIAN exp(-scale ||x - x'||_1); MATERN32 (1 + scale r) exp(-scale r); MATERN52
    (1 + scale r + (scale r)^2 / 3) exp(-scale r); POLYNOMIAL (scale <x, x'> + offset)^degree; LINEAR <x, x'>;
    OWN_EUCLIDEAN p(scale r); OWN_ABSOLUTE p(scale ||x - x'||_1), of a profile p with p(0) = 1.

    code : one of these; scale > 0; offset, degree : of POLYNOMIAL, otherwise 0; degree : of a profile, its address
    """

    code: int
    scale: float
    offset: float
    degree: int


@nested
def to_kernel_values(values: FloatArray, kernel: KernelRule) -> None:
    """Overwrite values (n,) by kernel values of okl.compiled.kernels.

    values : ||x - x'||^2 for GAUSSIAN, the two MATERN and OWN_EUCLIDEAN, ||x - x'||_1 for LAPLACIAN and OWN_ABSOLUTE,
        <x, x'> for the others
    """
    if kernel.code == POLYNOMIAL:
        _powers(values, kernel)
    elif kernel.code == GAUSSIAN or kernel.code == LAPLACIAN:
        scale = values.dtype.type(kernel.scale)
        for i in range(values.shape[0]):
            values[i] = _exp(-scale * values[i])
    elif kernel.code == OWN_EUCLIDEAN or kernel.code == OWN_ABSOLUTE:
        _profiles(values, kernel)
    elif kernel.code != LINEAR:
        _materns(values, kernel)


@nested
def _exp(x: np.floating[Any]) -> np.floating[Any]:
    # a function of its own: numba's inliner warns of its own variables where exp_negative stands in a branch
    value: np.floating[Any] = exp_negative(x)  # type: ignore[no-untyped-call]
    return value


@nested
def _materns(values: FloatArray, kernel: KernelRule) -> None:
    scale, zero, one = values.dtype.type(kernel.scale), values.dtype.type(0), values.dtype.type(1)
    third = values.dtype.type(1 / 3 if kernel.code == MATERN52 else 0)
    for i in range(values.shape[0]):
        s = scale * math.sqrt(values[i])
        tail = _exp(-s)
        # a square that overflowed must not become infinity times zero
        values[i] = zero if tail == zero else (one + s + third * s * s) * tail


@nested
def _profiles(values: FloatArray, kernel: KernelRule) -> None:
    for i in range(values.shape[0]):
        distance = math.sqrt(np.float64(values[i])) if kernel.code == OWN_EUCLIDEAN else np.float64(values[i])
        values[i] = call_extension(kernel.degree, VALUE, kernel.scale * distance, 0.0)


@nested
def _powers(values: FloatArray, kernel: KernelRule) -> None:
    scale, offset = values.dtype.type(kernel.scale), values.dtype.type(kernel.offset)
    for i in range(values.shape[0]):
        values[i] = scale * values[i] + offset
    if kernel.degree == 2:
        for i in range(values.shape[0]):
            values[i] = values[i] * values[i]
    elif kernel.degree == 3:
        for i in range(values.shape[0]):
            values[i] = values[i] * values[i] * values[i]
    else:
        for i in range(values.shape[0]):
            base = values[i]
            for _ in range(1, kernel.degree):
                values[i] *= base


# One row against all support vectors: distances and kernel fused.
#
# Distances are sums of differences, not norms minus products: a support equal to the row is at distance 0 exactly,
# and raw columns of any size cost no digits. A value depends on its support and the row only, never on its place.
#
# Legend: S supports, transposed (n_inputs, capacity), one column a support; x a row (n_inputs,); r = ||x - s||.

LANES = 16  # capacities are multiples of it: vector loops over supports have no remainder


@compiled_row
def squared_distances(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    """Overwrite row (width,) by r^2 of the first `width` supports (n_inputs, capacity) to x (n_inputs,)."""
    width, n_inputs = row.shape[0], supports.shape[0]
    first = n_inputs % 4
    row[:] = 0
    for j in range(first):
        s, v = supports[j], x[j]
        for i in range(width):
            row[i] += (s[i] - v) * (s[i] - v)
    # four inputs at once: the sums are loaded and stored a quarter as often
    for j in range(first, n_inputs, 4):
        s0, s1, s2, s3 = supports[j], supports[j + 1], supports[j + 2], supports[j + 3]
        v0, v1, v2, v3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(width):
            total = row[i] + (s0[i] - v0) * (s0[i] - v0)
            total += (s1[i] - v1) * (s1[i] - v1)
            total += (s2[i] - v2) * (s2[i] - v2)
            row[i] = total + (s3[i] - v3) * (s3[i] - v3)


@compiled_row
def absolute_distances(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    """Overwrite row (width,) by ||x - s||_1 of the first `width` supports (n_inputs, capacity)."""
    width, n_inputs = row.shape[0], supports.shape[0]
    first = n_inputs % 4
    row[:] = 0
    for j in range(first):
        s, v = supports[j], x[j]
        for i in range(width):
            row[i] += abs(s[i] - v)
    for j in range(first, n_inputs, 4):
        s0, s1, s2, s3 = supports[j], supports[j + 1], supports[j + 2], supports[j + 3]
        v0, v1, v2, v3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(width):
            row[i] += (abs(s0[i] - v0) + abs(s1[i] - v1)) + (abs(s2[i] - v2) + abs(s3[i] - v3))


@compiled_row
def inner_products(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    """Overwrite row (width,) by <x, s> of the first `width` supports (n_inputs, capacity)."""
    width, n_inputs = row.shape[0], supports.shape[0]
    first = n_inputs % 4
    row[:] = 0
    for j in range(first):
        s, v = supports[j], x[j]
        for i in range(width):
            row[i] += s[i] * v
    for j in range(first, n_inputs, 4):
        s0, s1, s2, s3 = supports[j], supports[j + 1], supports[j + 2], supports[j + 3]
        v0, v1, v2, v3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(width):
            total = row[i] + s0[i] * v0
            total += s1[i] * v1
            total += s2[i] * v2
            row[i] = total + s3[i] * v3


@compiled_row
def kernel_row(row: FloatArray, supports: FloatArray, x: FloatArray, kernel: KernelRule) -> None:
    """Overwrite row (width,) by k(x, s) of the first `width` supports.

    row : width <= capacity, best a multiple of LANES; supports : (n_inputs, capacity); x : (n_inputs,); one precision
    """
    if kernel.code == LAPLACIAN or kernel.code == OWN_ABSOLUTE:
        absolute_distances(row, supports, x)
    elif kernel.code == LINEAR or kernel.code == POLYNOMIAL:
        inner_products(row, supports, x)
    else:
        squared_distances(row, supports, x)
    to_kernel_values(row, kernel)


@compiled_row
def kernel_self(x: FloatArray, kernel: KernelRule) -> float:
    """Return k(x, x) of a row (n_inputs,), float64; 1 for every kernel of distances."""
    if kernel.code != LINEAR and kernel.code != POLYNOMIAL:
        return 1.0
    product = 0.0
    for j in range(x.shape[0]):
        product += np.float64(x[j]) * np.float64(x[j])
    if kernel.code == LINEAR:
        return product
    return (kernel.scale * product + kernel.offset) ** kernel.degree


# Kernel values of blocks of rows with fixed landmarks, and the Nystrom map.
#
# Distances are sums of differences, tile by tile as in okl.compiled.fourier: rows that lie close together and far
# from the origin lose no digits, as they would by norms and products, and a row has the same bits wherever it stands.
#
# Legend: X inputs (rows, n_inputs), K kernel values (rows, n_landmarks), P projection (n_landmarks, n_columns).

_TILE_ROWS = TILE.rows


@stored("packed-nystrom-map")
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
def block_squared_distances(sums: FloatArray, inputs: FloatArray, landmarks: FloatArray) -> None:
    """Overwrite sums (rows, n_landmarks) by ||x - l||^2 of inputs (rows, n_inputs) and packed landmarks."""
    for panel in range(landmarks.shape[0]):
        for first in range(0, inputs.shape[0], _TILE_ROWS):
            _squares_tile(sums, inputs, landmarks, panel, first)


@nested
def block_absolute_distances(sums: FloatArray, inputs: FloatArray, landmarks: FloatArray) -> None:
    """Overwrite sums (rows, n_landmarks) by ||x - l||_1 of inputs (rows, n_inputs) and packed landmarks."""
    for panel in range(landmarks.shape[0]):
        for first in range(0, inputs.shape[0], _TILE_ROWS):
            _absolutes_tile(sums, inputs, landmarks, panel, first)


@compiled
def kernel_block(values: FloatArray, inputs: FloatArray, landmarks: FloatArray, kernel: KernelRule) -> None:
    """Overwrite values (rows, n_landmarks) by k(x, l) of inputs (rows, n_inputs) and packed landmarks.

    landmarks : `panels_of` their transpose; all three C-contiguous, of one precision
    """
    if kernel.code == LAPLACIAN or kernel.code == OWN_ABSOLUTE:
        block_absolute_distances(values, inputs, landmarks)
    elif kernel.code == LINEAR or kernel.code == POLYNOMIAL:
        project(values, inputs, landmarks)
    else:
        block_squared_distances(values, inputs, landmarks)
    to_kernel_values(values.reshape(-1), kernel)


@compiled
def sparse_kernel_block(
    values: Doubles, rows: SparseBlock, landmarks: SparseBlock, lengths: Doubles, kernel: KernelRule
) -> None:
    """Overwrite values (rows, n_landmarks) by k(x, l) at the cost of the pairs of values in one column.

    A distance is the lengths of both less what they share, in double precision for rows that lie close together.

    rows : float64; landmarks : the same by columns; lengths : of the landmarks, (n_landmarks,), ||l||^2 or ||l||_1
    """
    absolute = kernel.code == LAPLACIAN or kernel.code == OWN_ABSOLUTE
    products = kernel.code == LINEAR or kernel.code == POLYNOMIAL
    for i in range(values.shape[0]):
        shared, length = values[i], 0.0
        shared[:] = 0.0
        for place in range(rows.starts[i], rows.starts[i + 1]):
            x, column = rows.data[place], rows.columns[place]
            length += abs(x) if absolute else x * x
            for other in range(landmarks.starts[column], landmarks.starts[column + 1]):
                y = landmarks.data[other]
                # of two numbers, |x| + |y| - |x - y| is twice the smaller one, or 0 if their signs differ
                term = x * y if not absolute else (min(abs(x), abs(y)) if x * y > 0.0 else 0.0)
                shared[landmarks.columns[other]] += term
        if not products:
            for k in range(shared.shape[0]):
                shared[k] = max(0.0, length + lengths[k] - 2.0 * shared[k])
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


# Kernel expansions for blocks of rows.
#
# Legend: A coefficients (n_outputs, n_supports); K kernel values (rows, n_supports).


@nested_row_sum
def _add_products(sums: Doubles, values: FloatArray, coefficients: FloatArray) -> None:
    for row in range(values.shape[0]):
        for k in range(coefficients.shape[0]):
            total = values.dtype.type(0)
            for i in range(values.shape[1]):
                total += values[row, i] * coefficients[k, i]
            sums[row, k] += np.float64(total)


@compiled
def add_kernel_sums(
    sums: Doubles,
    values: FloatArray,
    inputs: FloatArray,
    panels: FloatArray,
    coefficients: FloatArray,
    kernel: KernelRule,
) -> None:
    """Add K A' to sums (rows, n_outputs); values (rows, n_supports), a buffer, becomes K. A row's bits are its own.

    inputs : (rows, n_inputs); panels : `panels_of` the transposed supports; coefficients : A; of one precision but sums
    """
    kernel_block(values, inputs, panels, kernel)
    _add_products(sums, values, coefficients)


@compiled_sum
def sign_products(sums: FloatArray, values: FloatArray, inputs: FloatArray, landmarks: FloatArray) -> None:
    """Overwrite sums (rows, n_inputs) by sum_j values[i, j] sign(inputs[i, d] - landmarks[d, j]); sign(0) is 0.

    values : (rows, n_landmarks); inputs : (rows, n_inputs); landmarks : transposed, (n_inputs, n_landmarks)
    """
    for i in range(values.shape[0]):
        row = values[i]
        for d in range(inputs.shape[1]):
            x, line, total = inputs[i, d], landmarks[d], values.dtype.type(0)
            for j in range(row.shape[0]):
                total += row[j] * (np.float64(x > line[j]) - np.float64(x < line[j]))
            sums[i, d] = total
