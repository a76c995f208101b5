"""A complete dual step in one read of the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.dual_steps import entropy_prox
from okl.compiled.jit import compiled, nested_row
from okl.compiled.products import Claims, add_listed_rows, add_listed_rows_twice, claim_next, multiply_rows
from okl.foundation.types import FloatArray, Integers

# A dual step in one read of the rows: gradients, proximal points and their image, block by block.
#
# Where the prox is separable a block of rows that gave gradients is still in cache when its new points are summed up.
# Threads claim segments, see `okl.compiled.products`.
#
# Legend: Z rows (m, n), s signs (m,), v (n,) the image of b (m,), the extrapolated points, u upper bounds (m,), L
# lipschitz.

# A fraction of a second-level cache. Dot products of a block in one loop with the sum of the one before, in vectors
# written by hand and with cache lines prefetched, hid the sum where memory is slow, and was no faster where it is fast.
_BLOCK_BYTES = 2**18


@nested_row
def rows_at_once(rows: FloatArray) -> int:
    """Return rows of a block that stays in cache between its two uses."""
    return max(4, int(_BLOCK_BYTES // (rows.shape[1] * rows.itemsize)))


@nested_row
def list_weights(listed: Integers, weights: FloatArray, signs: FloatArray, points: FloatArray) -> int:
    """Overwrite the first of listed and of weights by i and s_i a_i where a_i is not 0; returns how many."""
    found = 0
    for i in range(points.shape[0]):
        listed[found], weights[found] = i, signs[i] * points[i]
        found += points[i] != 0.0
    return found


@compiled
def sweep_segments(
    parts: FloatArray,
    out: FloatArray,
    gradient: FloatArray,
    claims: Claims,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    numbers: FloatArray,
    upper: FloatArray,
    offset: float,
    lipschitz: float,
    barrier: bool,
    size: int,
) -> None:
    """Overwrite gradient by s_i <z_i, v> + c_i b_i + offset, out by b - gradient / L clipped, parts by its image.

    With a barrier out is the prox of the entropy there, and c_i is 0. Segments of `size` rows are claimed, and summed
    each into its part (n,) of parts; changes claims.

    numbers : c (m,), or with a barrier a buffer (m,)
    """
    step, at_once = 1.0 / lipschitz, min(rows_at_once(rows), rows.shape[0])
    listed, weights, room = np.empty(at_once, dtype=np.int64), np.empty(at_once), np.empty(at_once)
    segment = claim_next(claims)
    while segment < parts.shape[0]:
        start, end = segment * size, min((segment + 1) * size, rows.shape[0])
        parts[segment] = 0.0
        for first in range(start, end, at_once):
            last = min(first + at_once, end)
            new, targets = out[first:last], room[: last - first]
            multiply_rows(gradient[first:last], rows[first:last], signs[first:last], vector)
            if barrier:
                for i in range(first, last):
                    gradient[i] += offset
                    targets[i - first] = points[i] - step * gradient[i]
                bounds = upper[first:last]
                entropy_prox(new, numbers[first:last], targets, signs[first:last], bounds, lipschitz, 0.0, True)
            else:
                for i in range(first, last):
                    gradient[i] += numbers[i] * points[i] + offset
                    out[i] = min(max(points[i] - step * gradient[i], 0.0), upper[i])
            found = list_weights(listed, weights, signs[first:last], new)
            add_listed_rows(parts[segment], rows[first:last], listed[:found], weights[:found])
        segment = claim_next(claims)


# A dual step onto a box and hyperplanes in one read of the rows, with warm-started multipliers.
#
# The new point of row i is x_i = clip(t_i - theta, l_i, u_i), where t_i = b_i - gradient_i / L, and theta is the
# multiplier of its class, which is known only once all t_i are. The read is done at a guess, and sums up apart the
# rows that are free there, x_i strictly between its bounds: each of these moves with theta one for one. When theta is
# known, the image is corrected by these sums; only rows that are free at one of the two and not at the other are read
# again.
#
# Legend: as of `okl.compiled.dual_sweep`; y normals (m,), int8, whose sign is the class of a row; l lower bounds
# (m,).


@nested_row
def _clip(value: float, lower: float, upper: float) -> float:
    value = lower if value < lower else value
    return upper if value > upper else value


@nested_row
def _list_class(
    listed: Integers,
    weights: FloatArray,
    slopes: FloatArray,
    targets: FloatArray,
    signs: FloatArray,
    normals: NDArray[np.int8],
    lower: FloatArray,
    upper: FloatArray,
    theta: float,
    positive: bool,
) -> int:
    """Overwrite the first of listed, of weights by s_i x_i and of slopes by s_i if x_i is free, 0 otherwise."""
    found = 0
    for i in range(targets.shape[0]):
        moved = targets[i] - theta
        free = (moved > lower[i]) & (moved < upper[i])
        x = _clip(moved, lower[i], upper[i])
        listed[found], weights[found], slopes[found] = i, signs[i] * x, signs[i] if free else 0.0
        found += ((normals[i] > 0) == positive) & (free | (x != 0.0))
    return found


@compiled
def sweep_warm_started_segments(
    parts: FloatArray,
    targets: FloatArray,
    gradient: FloatArray,
    claims: Claims,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    curvatures: FloatArray,
    normals: NDArray[np.int8],
    lower: FloatArray,
    upper: FloatArray,
    plus: float,
    minus: float,
    offset: float,
    lipschitz: float,
    size: int,
) -> None:
    """Overwrite gradient by s_i <z_i, v> + c_i b_i + offset, targets by t, parts by images.

    Segments are claimed as by `sweep_segments`, each summed into its part (3, n): the image of x at the
    multipliers plus and minus of the two classes, then those of the rows that are free there, of class +1 and -1.
    """
    step, at_once = 1.0 / lipschitz, min(rows_at_once(rows), rows.shape[0])
    listed = np.empty(at_once, dtype=np.int64)
    weights, slopes = np.empty(at_once), np.empty(at_once)
    segment = claim_next(claims)
    while segment < parts.shape[0]:
        start, end, sums = segment * size, min((segment + 1) * size, rows.shape[0]), parts[segment]
        parts[segment] = 0.0
        for first in range(start, end, at_once):
            last = min(first + at_once, end)
            block = rows[first:last]
            multiply_rows(gradient[first:last], block, signs[first:last], vector)
            for i in range(first, last):
                gradient[i] += curvatures[i] * points[i] + offset
                targets[i] = points[i] - step * gradient[i]
            given = (targets[first:last], signs[first:last], normals[first:last], lower[first:last], upper[first:last])
            for place, theta in ((1, plus), (2, minus)):
                found = _list_class(listed, weights, slopes, *given, theta, place == 1)
                add_listed_rows_twice(sums[0], sums[place], block, listed[:found], weights[:found], slopes[:found])
        segment = claim_next(claims)


@compiled
def project_at_multipliers(
    out: FloatArray,
    listed: Integers,
    changes: FloatArray,
    targets: FloatArray,
    signs: FloatArray,
    normals: NDArray[np.int8],
    lower: FloatArray,
    upper: FloatArray,
    guesses: tuple[float, float],
    found: tuple[float, float],
) -> int:
    """Overwrite out by x at the multipliers found; list the rows whose change is missing from the sums of free rows.

    listed, changes : (m,), of which the first are overwritten by row numbers, and by s_i times what is missing

    Returns how many were listed
    """
    count = 0
    for i in range(out.shape[0]):
        positive = normals[i] > 0
        guess, theta = guesses[0] if positive else guesses[1], found[0] if positive else found[1]
        before, after = targets[i] - guess, targets[i] - theta
        was_free, is_free = (before > lower[i]) & (before < upper[i]), (after > lower[i]) & (after < upper[i])
        x = _clip(after, lower[i], upper[i])
        change = x - _clip(before, lower[i], upper[i]) + (theta - guess if was_free else 0.0)
        out[i] = x
        if (was_free & is_free) or change == 0.0:
            continue
        listed[count], changes[count] = i, signs[i] * change
        count += 1
    return count
