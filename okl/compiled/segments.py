"""Rows in segments of a fixed size, which threads claim one after the other: whoever is free takes the next.

Each segment is summed apart, and the parts are added in their order by the caller: the same bits for any number of
threads. Claims are an int64 array (8,), a cache line of its own, whose first entry is the number of segments claimed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from okl.compiled.door import compiled
from okl.compiled.rowpasses import add_rows, multiply_rows
from okl.types import FloatArray

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
