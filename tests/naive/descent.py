"""Slow, obvious twins of okl/compiled/descent.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def descend_weights(weights: Doubles, linear: Doubles, products: Doubles, n_sweeps: int) -> Doubles:
    """Return w after exact minimisations of g'w + 1/2 w'Hw + ||w||_1 over one weight after the other."""
    w = weights.copy()
    for _ in range(n_sweeps):
        for j in range(len(w)):
            others = linear[j] + products[j] @ w - products[j, j] * w[j]
            w[j] = -np.sign(others) * max(abs(others) - 1.0, 0.0) / products[j, j]
    return w


def descend_pairs(
    point: Doubles,
    linear: Doubles,
    products: Doubles,
    normals: Doubles,
    groups: NDArray[np.int64],
    box: tuple[Doubles, Doubles],
    n_steps: int,
) -> Doubles:
    """Return a after steps along the pair of the largest gain, chosen by definition among all pairs of a group."""
    a, (lower, upper) = point.copy(), box
    for _ in range(n_steps):
        slopes = products @ a + linear
        gains = -normals * slopes
        up = np.where(normals > 0.0, a < upper, a > lower)
        down = np.where(normals > 0.0, a > lower, a < upper)
        pairs = [(i, j) for i in np.flatnonzero(up) for j in np.flatnonzero(down) if groups[i] == groups[j]]
        violations = {group: max(gains[i] - gains[j] for i, j in pairs if groups[i] == group) for group in set(groups)}
        group = max(violations, key=lambda one: violations[one])
        i = max((i for i, _ in pairs if groups[i] == group), key=lambda i: gains[i])

        def bend(j: Any, i: Any = i) -> float:
            direction = np.zeros(len(a))
            direction[i], direction[j] = normals[i], -normals[j]
            return float(direction @ products @ direction)

        partners = [j for k, j in pairs if k == i and gains[i] > gains[j]]
        j = max(partners, key=lambda j: (gains[i] - gains[j]) ** 2 / bend(j))
        rooms = [upper[k] - a[k] if sign > 0.0 else a[k] - lower[k] for k, sign in ((i, normals[i]), (j, -normals[j]))]
        length = min((gains[i] - gains[j]) / bend(j), *rooms)
        a[i] += normals[i] * length
        a[j] -= normals[j] * length
    return a
