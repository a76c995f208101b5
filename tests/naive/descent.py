"""Slow, obvious twins of okl.compiled.newton."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Interval = tuple[float, float]


def descend_weights(weights: Doubles, linear: Doubles, products: Doubles, n_sweeps: int) -> Doubles:
    """Return w after exact minimisations of g'w + 1/2 w'Hw + ||w||_1 over one weight at a time."""
    w = weights.copy()
    for _ in range(n_sweeps):
        for j in range(len(w)):
            others = linear[j] + products[j] @ w - products[j, j] * w[j]
            w[j] = -np.sign(others) * max(abs(others) - 1.0, 0.0) / products[j, j]
    return w


def descend_groups(weights: Doubles, linear: Doubles, products: Doubles, penalty: float, n_sweeps: int) -> Doubles:
    """Return W after exact minimisations of tr(G'W + W'HW / 2) + penalty sum_j ||W_j|| over one row at a time."""
    w = weights.copy()
    for _ in range(n_sweeps):
        for j in range(len(w)):
            others = linear[j] + products[j] @ w - products[j, j] * w[j]
            length = np.linalg.norm(others)
            w[j] = 0.0 if length <= penalty else -others * (1.0 - penalty / length) / products[j, j]
    return w


def descend_pairs(
    point: Doubles,
    linear: Doubles,
    products: Doubles,
    groups: NDArray[np.int64],
    box: tuple[Doubles, Doubles],
    n_steps: int,
) -> Doubles:
    """Return a after steps along the pair of the largest gain, chosen by definition among all pairs of a group."""
    a, (lower, upper) = point.copy(), box
    for _ in range(n_steps):
        slopes = products @ a + linear
        rising, falling = np.flatnonzero(a < upper), np.flatnonzero(a > lower)
        pairs = [(i, j) for i in rising for j in falling if groups[i] == groups[j]]
        violations = {group: max(slopes[j] - slopes[i] for i, j in pairs if groups[i] == group) for group in groups}
        group = max(violations, key=lambda one: violations[one])
        i = min((i for i, _ in pairs if groups[i] == group), key=lambda i: slopes[i])

        def bend(j: Any, i: Any = i) -> float:
            direction = np.zeros(len(a))
            direction[i], direction[j] = 1.0, -1.0
            return float(direction @ products @ direction)

        partners = [j for k, j in pairs if k == i and slopes[j] > slopes[i]]
        j = max(partners, key=lambda j: (slopes[j] - slopes[i]) ** 2 / bend(j))
        length = min((slopes[j] - slopes[i]) / bend(j), upper[i] - a[i], a[j] - lower[j])
        a[i] += length
        a[j] -= length
    return a


def descend_rows(
    point: Doubles, signed: Doubles, costs: Doubles, upper: Doubles, order: NDArray[np.int64], limits: Interval
) -> tuple[Doubles, list[int], Interval]:
    """Return a after exact minimisations over entries in an order, the active rows, and the slopes that may move.

    signed : y_i z_i with the border, (m, n + 1); costs : 1 + y_i b
    """
    a, active, movable = point.copy(), [], []
    for i in order:
        slope = signed[i] @ (a @ signed) - costs[i]
        fixed = (a[i] == 0.0 and slope >= 0.0) or (a[i] == upper[i] and slope <= 0.0)
        if fixed and not limits[0] <= slope <= limits[1]:
            continue
        active.append(int(i))
        movable.append(0.0 if fixed else float(slope))
        if not fixed:
            length = float(signed[i] @ signed[i])
            a[i] = np.clip(a[i] - slope / length, 0.0, upper[i]) if length else (upper[i] if slope < 0.0 else 0.0)
    return a, sorted(active), (min(movable), max(movable))
