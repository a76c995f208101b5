"""A whole step of the dual method in one read of the rows: gradients, proximal points and their image, block by block.

Where the prox is separable a block of rows that gave gradients is still in cache when its new points are summed up.
Threads claim segments, see `okl.compiled.segments`.

Legend: Z rows (m, n), s signs (m,), v (n,) the image of b (m,), the extrapolated points, u upper bounds (m,),
L lipschitz.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled, compiled_row
from okl.compiled.proximal import entropy_prox
from okl.compiled.rowpasses import add_listed_rows, multiply_rows
from okl.compiled.segments import Claims, claim_next
from okl.types import FloatArray

# A fraction of a second-level cache. Dot products of a block in one loop with the sum of the one before, in vectors
# written by hand and with lines asked for ahead, hid the sum where memory is slow, and was no faster where it is fast.
_BLOCK_BYTES = 2**18


@compiled_row
def rows_at_once(rows: FloatArray) -> int:
    """Rows of a block that stays in cache between its two uses."""
    return max(4, int(_BLOCK_BYTES // (rows.shape[1] * rows.itemsize)))


@compiled_row
def list_weights(listed: NDArray[np.int64], weights: FloatArray, signs: FloatArray, points: FloatArray) -> int:
    """Overwrite the first of listed and of weights by i and s_i a_i where a_i is not 0; returns how many."""
    found = 0
    for i in range(points.shape[0]):
        listed[found], weights[found] = i, signs[i] * points[i]
        found += points[i] != 0.0
    return found


@compiled
def sweep_box(
    sums: FloatArray,
    out: FloatArray,
    gradient: FloatArray,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    curvatures: FloatArray,
    upper: FloatArray,
    offset: float,
    lipschitz: float,
) -> None:
    """Overwrite gradient by s_i <z_i, v> + c_i b_i + offset, out by b - gradient / L clipped; add its image to sums."""
    step, at_once = 1.0 / lipschitz, min(rows_at_once(rows), rows.shape[0])
    listed, weights = np.empty(at_once, dtype=np.int64), np.empty(at_once)
    for first in range(0, rows.shape[0], at_once):
        last = min(first + at_once, rows.shape[0])
        multiply_rows(gradient[first:last], rows[first:last], signs[first:last], vector)
        for i in range(first, last):
            gradient[i] += curvatures[i] * points[i] + offset
            out[i] = min(max(points[i] - step * gradient[i], 0.0), upper[i])
        found = list_weights(listed, weights, signs[first:last], out[first:last])
        add_listed_rows(sums, rows[first:last], listed[:found], weights[:found])


@compiled
def sweep_box_segments(
    parts: FloatArray,
    out: FloatArray,
    gradient: FloatArray,
    claims: Claims,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    curvatures: FloatArray,
    upper: FloatArray,
    offset: float,
    lipschitz: float,
    size: int,
) -> None:
    """`sweep_box` of claimed segments of `size` rows, each into its part (n,) of parts; changes claims."""
    segment = claim_next(claims)
    while segment < parts.shape[0]:
        cut = slice(segment * size, min((segment + 1) * size, rows.shape[0]))
        parts[segment] = 0.0
        sweep_box(
            parts[segment], out[cut], gradient[cut],
            rows[cut], signs[cut], vector, points[cut], curvatures[cut], upper[cut], offset, lipschitz,
        )  # fmt: skip
        segment = claim_next(claims)


@compiled
def sweep_entropy(
    sums: FloatArray,
    out: FloatArray,
    gradient: FloatArray,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    logits: FloatArray,
    upper: FloatArray,
    offset: float,
    lipschitz: float,
) -> None:
    """Overwrite gradient by s_i <z_i, v> + offset, out by the prox of the entropy there; add its image to sums.

    logits : (m,), a buffer
    """
    step, at_once = 1.0 / lipschitz, min(rows_at_once(rows), rows.shape[0])
    listed, weights = np.empty(at_once, dtype=np.int64), np.empty(at_once)
    room = np.empty(at_once)
    for first in range(0, rows.shape[0], at_once):
        last = min(first + at_once, rows.shape[0])
        there, bounds, new, targets = gradient[first:last], upper[first:last], out[first:last], room[: last - first]
        multiply_rows(there, rows[first:last], signs[first:last], vector)
        for i in range(first, last):
            gradient[i] += offset
            targets[i - first] = points[i] - step * gradient[i]
        entropy_prox(new, logits[first:last], targets, signs[first:last], bounds, lipschitz, 0.0, True)
        found = list_weights(listed, weights, signs[first:last], new)
        add_listed_rows(sums, rows[first:last], listed[:found], weights[:found])


@compiled
def sweep_entropy_segments(
    parts: FloatArray,
    out: FloatArray,
    gradient: FloatArray,
    claims: Claims,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    logits: FloatArray,
    upper: FloatArray,
    offset: float,
    lipschitz: float,
    size: int,
) -> None:
    """`sweep_entropy` of claimed segments of `size` rows, each into its part (n,) of parts; changes claims."""
    segment = claim_next(claims)
    while segment < parts.shape[0]:
        cut = slice(segment * size, min((segment + 1) * size, rows.shape[0]))
        parts[segment] = 0.0
        sweep_entropy(
            parts[segment], out[cut], gradient[cut],
            rows[cut], signs[cut], vector, points[cut], logits[cut], upper[cut], offset, lipschitz,
        )  # fmt: skip
        segment = claim_next(claims)
