"""Matrix-vector products over rows and segments of rows, accumulated in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from okl.compiled.jit import compiled, compiled_sum
from okl.foundation.types import FloatArray

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
def add_listed_rows(sums: FloatArray, rows: FloatArray, listed: NDArray[np.int64], weights: FloatArray) -> None:
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
    listed: NDArray[np.int64],
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
        for place in range(starts[i], starts[i + 1]):
            total += data[place] * vector[columns[place]]
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
        weight = signs[i] * weights[i]
        for place in range(starts[i], starts[i + 1]):
            sums[columns[place]] += weight * data[place]


@compiled
def add_sparse_products(
    products: FloatArray,
    sums: FloatArray,
    data: FloatArray,
    columns: NDArray[Any],
    starts: NDArray[Any],
    weights: FloatArray,
) -> None:
    """Add the sum of a_i z_i z_i' to the lower triangle of products (n, n), that of a_i z_i to sums (n,).

    Columns of a row ascend.
    """
    for i in range(weights.shape[0]):
        for place in range(starts[i], starts[i + 1]):
            value, line = weights[i] * data[place], products[columns[place]]
            sums[columns[place]] += value
            for other in range(starts[i], place + 1):
                line[columns[other]] += value * data[other]


# Segments of rows of a fixed size that threads claim in turn.
#
# Each segment is summed apart, and the parts are added in their order by the caller: the same bits for any number of
# threads. Claims are an int64 array (8,), a cache line of its own, whose first entry is the number of segments
# claimed.

Claims = NDArray[np.int64]


def new_claims() -> Claims:
    """Nothing is claimed."""
    return np.zeros(8, dtype=np.int64)


@intrinsic  # type: ignore[untyped-decorator]
def claim_next(typing_context: Any, claims: Any) -> Any:
    """The number of segments claimed so far; one more is claimed (changed in place): no two threads get the same."""

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
