"""The inverse of a growing kernel matrix, and what projects a row onto the span of the supports.

Everything is float64 and zero beyond the supports, so that loops run over whole vectors.

Legend: M inverse of the kernel matrix of the n supports, the leading n x n of (capacity, capacity); k kernel row;
d = M k, the coefficients of the row's projection; own = k(x, x); left = own - k'd, its squared distance to the span.
"""

from __future__ import annotations

import numpy as np

from okl.compiled.budget import Doubles
from okl.compiled.door import compiled_row
from okl.types import FloatArray


@compiled_row
def project_row(place: Doubles, inverse: Doubles, row: FloatArray, n: int) -> float:
    """Overwrite place (width,) by d; returns k'd, the squared length of the projection.

    place : width >= n; row : (width,) kernel values, of any precision
    """
    place[:] = 0.0
    first = n % 4
    for j in range(first):
        m, v = inverse[j], np.float64(row[j])
        for i in range(place.shape[0]):
            place[i] += m[i] * v
    # four rows at once: the sums are loaded and stored a quarter as often
    for j in range(first, n, 4):
        m0, m1, m2, m3 = inverse[j], inverse[j + 1], inverse[j + 2], inverse[j + 3]
        v0, v1, v2, v3 = np.float64(row[j]), np.float64(row[j + 1]), np.float64(row[j + 2]), np.float64(row[j + 3])
        for i in range(place.shape[0]):
            place[i] += (m0[i] * v0 + m1[i] * v1) + (m2[i] * v2 + m3[i] * v3)
    length = 0.0
    for j in range(n):
        length += np.float64(row[j]) * place[j]
    return length


@compiled_row
def grow_inverse(inverse: Doubles, place: Doubles, left: float, n: int) -> None:
    """Make the row of d and left > 0 support n: inverse changes in place.

    M <- [[M + d d' / left, -d / left], [-d' / left, 1 / left]]

    Source: Orabona, Keshet & Caputo, JMLR 10, 2009, section 3: the incremental inverse, after Cauwenberghs & Poggio.
    """
    scale = 1.0 / left
    for j in range(n):
        m, factor = inverse[j], place[j] * scale
        for i in range(n):
            m[i] += factor * place[i]
        inverse[j, n] = -factor
        inverse[n, j] = -factor
    inverse[n, n] = scale


@compiled_row
def replace_in_inverse(inverse: Doubles, column: Doubles, place: Doubles, left: float, slot: int, n: int) -> None:
    """Put the row of d and left > 0 in the place of the support at a slot; inverse and column (width,) change.

    The inverse G grown as by `grow_inverse`, without row and column r: G - g_r g_r' / G_rr. column becomes the
    coefficients of the projection of r onto the others, -g_r / G_rr, that of the new row at the slot.
    """
    scale = 1.0 / left
    pivot = inverse[slot, slot] + place[slot] * place[slot] * scale
    for i in range(n):
        column[i] = -(inverse[slot, i] + place[slot] * place[i] * scale) / pivot
    column[slot] = place[slot] * scale / pivot
    for j in range(n):
        if j == slot:
            continue
        m, factor, share = inverse[j], place[j] * scale, column[j] * pivot
        for i in range(n):
            m[i] += factor * place[i] - share * column[i]
        m[slot] = -factor - share * column[slot]
        inverse[slot, j] = m[slot]
    inverse[slot, slot] = scale - column[slot] * column[slot] * pivot


@compiled_row
def shrink_inverse(inverse: Doubles, column: Doubles, slot: int, n: int) -> None:
    """Take the support at a slot out, the last of n moving there; inverse and column (width,) change in place.

    M - m_r m_r' / M_rr, without row and column r. column becomes the coefficients of the projection of r onto the
    others, -m_r / M_rr, each at the slot where its support stood; 0 at r itself.
    """
    pivot = inverse[slot, slot]
    for i in range(n):
        column[i] = -inverse[slot, i] / pivot
    column[slot] = 0.0
    for j in range(n):
        m, share = inverse[j], column[j] * pivot
        for i in range(n):
            m[i] -= share * column[i]
    last = n - 1
    for i in range(n):
        inverse[slot, i] = inverse[last, i]
    for j in range(n):
        inverse[j, slot] = inverse[j, last]
    for j in range(n):
        inverse[last, j] = 0.0
        inverse[j, last] = 0.0
