"""A whole step of the dual method in one read of the rows: gradients, proximal points and their image, block by block.

Where the prox is separable a block of rows that gave gradients is still in cache when its new points are summed up.

Legend: Z rows (m, n), s signs (m,), v (n,) the image of b (m,), the extrapolated points, u upper bounds (m,),
L lipschitz.
"""

from __future__ import annotations

import numpy as np

from okl.compiled.door import compiled, compiled_row
from okl.compiled.proximal import entropy_prox
from okl.compiled.rowpasses import add_rows, multiply_rows
from okl.types import FloatArray

_BLOCK_BYTES = 2**18  # of rows, a fraction of a second-level cache


@compiled_row
def _rows_at_once(rows: FloatArray) -> int:
    return max(4, int(_BLOCK_BYTES // (rows.shape[1] * rows.itemsize)))


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
    step, at_once = 1.0 / lipschitz, _rows_at_once(rows)
    for first in range(0, rows.shape[0], at_once):
        last = min(first + at_once, rows.shape[0])
        multiply_rows(gradient[first:last], rows[first:last], signs[first:last], vector)
        for i in range(first, last):
            gradient[i] += curvatures[i] * points[i] + offset
            out[i] = min(max(points[i] - step * gradient[i], 0.0), upper[i])
        add_rows(sums, rows[first:last], signs[first:last], out[first:last])


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
    step, at_once = 1.0 / lipschitz, _rows_at_once(rows)
    room = np.empty(min(at_once, rows.shape[0]))
    for first in range(0, rows.shape[0], at_once):
        last = min(first + at_once, rows.shape[0])
        there, bounds, new, targets = gradient[first:last], upper[first:last], out[first:last], room[: last - first]
        multiply_rows(there, rows[first:last], signs[first:last], vector)
        for i in range(first, last):
            gradient[i] += offset
            targets[i - first] = points[i] - step * gradient[i]
        entropy_prox(new, logits[first:last], targets, signs[first:last], bounds, lipschitz, 0.0, True)
        add_rows(sums, rows[first:last], signs[first:last], new)
