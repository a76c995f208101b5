"""The master problem of a bundle: a small quadratic programme over the simplex, solved by its active set.

    maximise  gamma'b - gamma'H gamma / (2 lam)   over gamma >= 0, sum gamma = 1

Legend: H (at least k, k) inner products of the k cuts, b (k,) their intercepts, gamma (k,) weights, feasible at first
(a warm start); factor (k, k), solved (2, k), support (k,) buffers. At most `most` changes of the support.

Source: the scheme is that of Wolfe, "Finding the nearest point in a polytope", Math. Programming 11, 1976, sections 3
to 5, with a linear term.
"""

from __future__ import annotations

import math

from okl.compiled.door import compiled, compiled_row
from okl.types import FloatArray, IntArray

_RIDGE = 1e-13  # of the largest product: cuts may be affinely dependent
_ROUNDING = 1e-14


@compiled
def solve_master(
    gamma: FloatArray,
    factor: FloatArray,
    solved: FloatArray,
    support: IntArray,
    products: FloatArray,
    intercepts: FloatArray,
    lam: float,
    most: int,
) -> float:
    """Change gamma (k,) to the weights of the best lower bound, using the buffers; returns the bound."""
    n_cuts, n_active, scale = gamma.shape[0], 0, 1e-300
    for k in range(n_cuts):
        scale = max(scale, products[k, k])
        if gamma[k] > 0.0:
            support[n_active] = k
            n_active += 1
    for _ in range(most):
        n_active = _settle(gamma, factor, solved, support, products, intercepts, lam, scale, n_active)
        entering = _entering(gamma, products, intercepts, lam, scale)
        if entering < 0 or gamma[entering] > 0.0:
            break
        support[n_active] = entering
        n_active += 1
    return bound_of(gamma, products, intercepts, lam)


@compiled_row
def bound_of(gamma: FloatArray, products: FloatArray, intercepts: FloatArray, lam: float) -> float:
    """gamma'b - gamma'H gamma / (2 lam)."""
    linear, quadratic = 0.0, 0.0
    for k in range(gamma.shape[0]):
        if gamma[k] > 0.0:
            linear += gamma[k] * intercepts[k]
            for m in range(gamma.shape[0]):
                quadratic += gamma[k] * gamma[m] * products[k, m]
    return linear - 0.5 * quadratic / lam


@compiled_row
def _settle(
    gamma: FloatArray,
    factor: FloatArray,
    solved: FloatArray,
    support: IntArray,
    products: FloatArray,
    intercepts: FloatArray,
    lam: float,
    scale: float,
    n_active: int,
) -> int:
    """Move gamma to the best point of its support, leaving cuts whose weight would be negative; what is left of it."""
    while True:
        _affine_best(factor, solved, support, products, intercepts, lam, scale, n_active)
        step, leaving = 1.0, -1
        for a in range(n_active):
            weight, target = gamma[support[a]], solved[0, a]
            if target <= 0.0 and weight / (weight - target) < step:
                step, leaving = weight / (weight - target), a
            elif target <= 0.0 and weight == 0.0:
                step, leaving = 0.0, a
        for a in range(n_active):
            k = support[a]
            gamma[k] = max(0.0, gamma[k] + step * (solved[0, a] - gamma[k]))
        if leaving < 0:
            return n_active
        gamma[support[leaving]] = 0.0
        n_active -= 1
        support[leaving] = support[n_active]
        if n_active == 0:  # rounding only: the weights add up to one
            support[0] = _largest(gamma)
            gamma[support[0]] = 1.0
            return 1


@compiled_row
def _largest(gamma: FloatArray) -> int:
    best = 0
    for k in range(gamma.shape[0]):
        if gamma[k] > gamma[best]:
            best = k
    return best


@compiled_row
def _affine_best(
    factor: FloatArray,
    solved: FloatArray,
    support: IntArray,
    products: FloatArray,
    intercepts: FloatArray,
    lam: float,
    scale: float,
    n_active: int,
) -> None:
    """Overwrite solved[0, :n_active] by the weights, of any sign and sum one, of the best bound on the support."""
    # products + scale: the same problem where weights add up to one, and as definite as can be
    for a in range(n_active):
        for c in range(a + 1):
            total = products[support[a], support[c]] + scale + (_RIDGE * scale if a == c else 0.0)
            for m in range(c):
                total -= factor[a, m] * factor[c, m]
            factor[a, c] = math.sqrt(max(total, _RIDGE * scale)) if a == c else total / factor[c, c]
    for a in range(n_active):
        right, one = lam * intercepts[support[a]], 1.0
        for m in range(a):
            right -= factor[a, m] * solved[0, m]
            one -= factor[a, m] * solved[1, m]
        solved[0, a], solved[1, a] = right / factor[a, a], one / factor[a, a]
    sum_right, sum_one = 0.0, 0.0
    for a in range(n_active - 1, -1, -1):
        right, one = solved[0, a], solved[1, a]
        for m in range(a + 1, n_active):
            right -= factor[m, a] * solved[0, m]
            one -= factor[m, a] * solved[1, m]
        solved[0, a], solved[1, a] = right / factor[a, a], one / factor[a, a]
        sum_right += solved[0, a]
        sum_one += solved[1, a]
    level = (1.0 - sum_right) / sum_one
    for a in range(n_active):
        solved[0, a] += level * solved[1, a]


@compiled_row
def _entering(gamma: FloatArray, products: FloatArray, intercepts: FloatArray, lam: float, scale: float) -> int:
    """The cut that lies highest at the present point, if higher than the mean of those in use; else -1."""
    mean, best, highest, size = 0.0, -1, -math.inf, 0.0
    for k in range(gamma.shape[0]):
        height = lam * intercepts[k]
        for m in range(gamma.shape[0]):
            if gamma[m] > 0.0:
                height -= gamma[m] * products[k, m]
        mean += gamma[k] * height
        size = max(size, lam * abs(intercepts[k]))
        if height > highest:
            best, highest = k, height
    return best if highest > mean + _ROUNDING * (scale + size) else -1
