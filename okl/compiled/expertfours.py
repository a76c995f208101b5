"""Four rows at a time: their scores, products, and what their moves add, with every vector loaded once for the four.

Legend as in okl.compiled.expertsteps: m_e the move of row e, w weights and pulls of one expert and output.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled_row, compiled_row_sum
from okl.types import FloatArray

FOUR = 4

# A view of a row costs as much as a loop over it: references are counted in atomic steps. So rows are indices. Halves
# are an axis: an index that is a sum might be negative, for which numba would look in every step of a loop.


@compiled_row_sum
def score_four(
    scores: NDArray[np.float64],
    averaged: NDArray[np.float64],
    weights: FloatArray,
    pulls: FloatArray,
    t: int,
    k: int,
    lefts: FloatArray,
    rights: FloatArray,
    a: int,
    b: int,
    c: int,
    d: int,
) -> None:
    """Overwrite scores[:, k] and averaged[:, k] by weights[t, k] and pulls[t, k] times the rows a, b, c and d."""
    zero = weights.dtype.type(0)
    e, f, g, h = zero, zero, zero, zero
    i, m, n, o = zero, zero, zero, zero
    for half in range(weights.shape[2]):
        part = lefts if half == 0 else rights
        for j in range(part.shape[1]):
            w, u = weights[t, k, half, j], pulls[t, k, half, j]
            p, q, r, s = part[a, j], part[b, j], part[c, j], part[d, j]
            e += w * p
            f += w * q
            g += w * r
            h += w * s
            i += u * p
            m += u * q
            n += u * r
            o += u * s
    scores[0, k], scores[1, k], scores[2, k], scores[3, k] = e, f, g, h
    averaged[0, k], averaged[1, k], averaged[2, k], averaged[3, k] = i, m, n, o


@compiled_row_sum
def pair_four(gram: NDArray[np.float64], lefts: FloatArray, rights: FloatArray, a: int, b: int, c: int, d: int) -> None:
    """Overwrite gram above its diagonal by the products of the rows a, b, c and d of the block with one another."""
    e, f, g = (lefts.dtype.type(0), lefts.dtype.type(0), lefts.dtype.type(0))
    h, i, o = (lefts.dtype.type(0), lefts.dtype.type(0), lefts.dtype.type(0))
    for part in (lefts, rights):
        for j in range(part.shape[1]):
            p, q, r, s = part[a, j], part[b, j], part[c, j], part[d, j]
            e += p * q
            f += p * r
            g += p * s
            h += q * r
            i += q * s
            o += r * s
    gram[0, 1], gram[0, 2], gram[0, 3] = e, f, g
    gram[1, 2], gram[1, 3], gram[2, 3] = h, i, o


@compiled_row
def add_four(
    weights: FloatArray,
    pulls: FloatArray,
    t: int,
    k: int,
    lefts: FloatArray,
    rights: FloatArray,
    a: int,
    b: int,
    c: int,
    d: int,
    moves: FloatArray,
) -> None:
    """Add moves[0] (4,) times the rows a to d to weights[t, k], and moves[1] times them to pulls[t, k], in place."""
    e, f, g, h = moves[0, 0], moves[0, 1], moves[0, 2], moves[0, 3]
    i, m, n, o = moves[1, 0], moves[1, 1], moves[1, 2], moves[1, 3]
    for half in range(weights.shape[2]):
        part = lefts if half == 0 else rights
        for j in range(part.shape[1]):
            p, q, r, s = part[a, j], part[b, j], part[c, j], part[d, j]
            weights[t, k, half, j] += e * p + f * q + g * r + h * s
            pulls[t, k, half, j] += i * p + m * q + n * r + o * s


@compiled_row
def move_of(moves: NDArray[np.float64], outputs: NDArray[np.int64], e: int, k: int) -> float:
    """What the e-th of four rows adds to output k, in features."""
    move: float = moves[e]
    if outputs[e, 0] == k:
        return move
    return -move if outputs[e, 1] == k else 0.0


@compiled_row
def add_earlier(
    scores: NDArray[np.float64],
    averaged: NDArray[np.float64],
    gram: NDArray[np.float64],
    moves: NDArray[np.float64],
    ages: NDArray[np.float64],
    outputs: NDArray[np.int64],
    i: int,
) -> None:
    """Add what the rows before the i-th of four have changed to its scores, by weights and by pulls."""
    for e in range(i):
        if moves[e] != 0.0:
            change = moves[e] * gram[e, i]
            up, down = outputs[e, 0], outputs[e, 1]
            scores[i, up] += change
            averaged[i, up] += ages[e] * change
            if down >= 0:
                scores[i, down] -= change
                averaged[i, down] -= ages[e] * change


@compiled_row
def take_four(
    weights: FloatArray,
    pulls: FloatArray,
    t: int,
    lefts: FloatArray,
    rights: FloatArray,
    a: int,
    b: int,
    c: int,
    d: int,
    moves: NDArray[np.float64],
    ages: NDArray[np.float64],
    outputs: NDArray[np.int64],
    shares: FloatArray,
) -> None:
    """Add the moves of four rows to weights[t] and pulls[t] in place; shares (2, 4) is overwritten."""
    for k in range(weights.shape[1]):
        moved = False
        for e in range(FOUR):
            move = move_of(moves, outputs, e, k)
            moved = moved or move != 0.0
            shares[0, e], shares[1, e] = move, ages[e] * move
        if moved:
            add_four(weights, pulls, t, k, lefts, rights, a, b, c, d, shares)
