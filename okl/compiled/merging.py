"""Where to put one support vector in place of two, for the Gaussian kernel: on the line between them.

a_m k(x_m, .) + a_j k(x_j, .) is replaced by a_z k(z, .) with z = h x_m + (1 - h) x_j. The best coefficients for it,
a_z = p a_m + q a_j with p = k(x_m, z) = k^((1-h)^2), q = k(x_j, z) = k^(h^2), k = k(x_m, x_j), lose

  |a_m|^2 + |a_j|^2 + 2 k <a_m, a_j> - F(h),   F(h) = |a_m|^2 p^2 + 2 <a_m, a_j> p q + |a_j|^2 q^2,

so that three numbers a pair, and the logarithm of k, decide; a has one entry a class. F(h) - F(1 - h) =
(|a_j|^2 - |a_m|^2) (q^2 - p^2): with |a_m| <= |a_j|, as everywhere here, the best h is in [0, 1/2].

Source: Wang, Crammer & Vucetic, JMLR 13, 2012, the section on merging.
"""

from __future__ import annotations

import math

from okl.compiled.budget import Doubles
from okl.compiled.door import compiled_row
from okl.compiled.exponential import exp_negative

CLEARLY = 1.0 + 1e-12  # what a later candidate must be better by: less is rounding
LEAST_LOG = -700.0  # of k: below it p would underflow
# functions below take h, the logarithm of k, and m, both, j for |a_m|^2, <a_m, a_j>, |a_j|^2; m <= j


@compiled_row
def _exp(x: float) -> float:
    # a function of its own: numba warns where exp_negative is written into an expression twice
    value: float = exp_negative(x)  # type: ignore[no-untyped-call]
    return value


@compiled_row
def kernel_power(log: float, h: float) -> float:
    """k^(h^2), the kernel of two points that lie the share h of the way between x_m and x_j apart."""
    return _exp(max(log, LEAST_LOG) * h * h)


@compiled_row
def _gain(h: float, log: float, m: float, both: float, j: float) -> float:
    """F(h)."""
    p, q = _exp(log * (1.0 - h) * (1.0 - h)), _exp(log * h * h)
    return m * p * p + 2.0 * both * p * q + j * q * q


@compiled_row
def _slope(h: float, log: float, m: float, both: float, j: float) -> float:
    """F'(h) / 2."""
    g = 1.0 - h
    p, q = _exp(log * g * g), _exp(log * h * h)
    dp, dq = -2.0 * log * g * p, 2.0 * log * h * q
    return m * p * dp + both * (dp * q + p * dq) + j * q * dq


@compiled_row
def _bend(h: float, log: float, m: float, both: float, j: float) -> float:
    """F''(h) / 2."""
    g = 1.0 - h
    p, q = _exp(log * g * g), _exp(log * h * h)
    dp, dq = -2.0 * log * g * p, 2.0 * log * h * q
    ddp, ddq = (4.0 * log * g * g + 2.0) * log * p, (4.0 * log * h * h + 2.0) * log * q
    return m * (dp * dp + p * ddp) + both * (ddp * q + 2.0 * dp * dq + p * ddq) + j * (dq * dq + q * ddq)


@compiled_row
def _grid_place(log: float, m: float, both: float, j: float) -> float:
    """The best of h = 0, 1/8, .., 1/2, the least on a tie: all k^(i^2 / 64) by products of one exponential."""
    q1 = _exp(log * (1.0 / 64.0))
    square = q1 * q1
    odd3 = square * q1
    odd5, odd7 = odd3 * square, odd3 * square * square
    q2 = q1 * odd3
    q3 = q2 * odd5
    q4 = q3 * odd7
    fourth = square * square
    q5 = q4 * odd7 * square
    q6 = q5 * odd7 * fourth
    q7 = q6 * odd7 * fourth * square
    q8 = q4 * q4 * q4 * q4
    h, best = 0.0, m * q8 * q8 + 2.0 * both * q8 + j
    gain = m * q7 * q7 + 2.0 * both * q7 * q1 + j * q1 * q1
    h = 0.125 if gain > best * CLEARLY else h
    best = max(best, gain)
    gain = m * q6 * q6 + 2.0 * both * q6 * q2 + j * q2 * q2
    h = 0.25 if gain > best * CLEARLY else h
    best = max(best, gain)
    gain = m * q5 * q5 + 2.0 * both * q5 * q3 + j * q3 * q3
    h = 0.375 if gain > best * CLEARLY else h
    best = max(best, gain)
    gain = (m + 2.0 * both + j) * q4 * q4
    return 0.5 if gain > best * CLEARLY else h


@compiled_row
def merging_losses(lost: Doubles, places: Doubles, logs: Doubles, m: float, both: Doubles, squares: Doubles) -> None:
    """Overwrite lost (width,) by what merging a support with each other one loses, places (width,) by its h.

    The best of a grid and two of Newton's steps, one loop each, so that all use vectors: exact to 1e-5 |a_m|^2, but for
    3e-4 where F is flat, at k about e^-2 and coefficients of about one size.

    logs, both, squares : (width,) log k, <a_m, a_j> and |a_j|^2 of each; m : |a_m|^2
    """
    n = lost.shape[0]
    for i in range(n):
        places[i] = _grid_place(max(logs[i], LEAST_LOG), m, both[i], squares[i])
    for _ in range(2):
        for i in range(n):
            h, log = places[i], max(logs[i], LEAST_LOG)
            slope = _slope(h, log, m, both[i], squares[i])
            bend = _bend(h, log, m, both[i], squares[i])
            step = -slope / bend if bend < 0.0 else 0.0
            places[i] = min(0.5, max(0.0, h + min(0.125, max(-0.125, step))))
    for i in range(n):
        log = max(logs[i], LEAST_LOG)
        gain = _gain(places[i], log, m, both[i], squares[i])
        lost[i] = m + squares[i] + 2.0 * _exp(log) * both[i] - gain


@compiled_row
def best_place(log: float, m: float, both: float, j: float) -> float:
    """The h of largest F(h) to full precision: Newton's steps from the best of the grid, halving where they leave."""
    log = max(log, LEAST_LOG)
    h = _grid_place(log, m, both, j)
    low, high = max(0.0, h - 0.125), min(0.5, h + 0.125)
    if _slope(low, log, m, both, j) <= 0.0:
        return low
    if _slope(high, log, m, both, j) >= 0.0:
        return high
    for _ in range(60):
        slope, bend = _slope(h, log, m, both, j), _bend(h, log, m, both, j)
        if slope > 0.0:
            low = h
        else:
            high = h
        after = h - slope / bend if bend < 0.0 else low
        if not low < after < high:
            after = 0.5 * (low + high)
        if math.fabs(after - h) <= 1e-15:
            return after
        h = after
    return h
