"""Slow, obvious twin of budgeted stochastic gradient descent: every pair is tried, with its loss as a norm."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.optimize import brentq

from okl.foundation.types import FloatArray
from okl.kernels import Gaussian
from tests.naive.expansion import Expansion, RowResult

POSITIONS = np.linspace(0.0, 1.0, 65)


def bsgd(
    expansion: Expansion,
    inputs: FloatArray,
    targets: FloatArray,
    regularisation: float,
    maintenance: Literal["removal", "merging"],
) -> list[RowResult]:
    """Return the expansion; its coefficients are those of f, shrunk at every row."""
    results = []
    for t, (x, y) in enumerate(zip(inputs, targets, strict=True), start=1):
        seen = expansion.judge(x, y)
        results.append(seen)
        expansion.coefficients = [(1.0 - 1.0 / t) * a for a in expansion.coefficients]
        if seen.loss <= 0.0:
            continue
        expansion.add(x, seen.direction / (regularisation * t))
        if len(expansion.supports) > expansion.budget:
            if maintenance == "removal":
                expansion.remove(least_norm(expansion, oldest=True))
            else:
                merge(expansion, least_norm(expansion, oldest=False))
    return results


def least_norm(expansion: Expansion, oldest: bool) -> int:
    norms = [a @ a * expansion.self_kernel(x) for x, a in expansion.pairs()]
    least = [i for i in range(len(norms)) if norms[i] <= min(norms) * (1 + 1e-9)]
    return (min if oldest else max)(least, key=lambda i: expansion.births[i])


def merge(expansion: Expansion, index: int) -> None:
    others = [j for j in range(len(expansion.supports)) if j != index]
    places = [best_position(expansion, index, j) for j in others]
    lost = [loss_of_merging(expansion, index, j, h) for j, h in zip(others, places, strict=True)]
    best = int(np.argmin(lost))
    z, coefficients = merged(expansion, index, others[best], places[best])
    expansion.supports[others[best]], expansion.coefficients[others[best]] = z, coefficients
    expansion.remove(index)


def merged(expansion: Expansion, i: int, j: int, h: float) -> tuple[FloatArray, FloatArray]:
    """Return z = h x_i + (1 - h) x_j and its best coefficients: the projection of both supports onto k(z, .)."""
    z = h * expansion.supports[i] + (1.0 - h) * expansion.supports[j]
    k = expansion.kernel.matrix(z[None], np.stack([expansion.supports[i], expansion.supports[j]]))[0]
    return z, k[0] * expansion.coefficients[i] + k[1] * expansion.coefficients[j]


def loss_of_merging(expansion: Expansion, i: int, j: int, h: float) -> float:
    """Return |a_i k(x_i, .) + a_j k(x_j, .) - a_z k(z, .)|^2, summed over classes."""
    z, coefficients = merged(expansion, i, j, h)
    points = np.stack([expansion.supports[i], expansion.supports[j], z])
    a = np.stack([expansion.coefficients[i], expansion.coefficients[j], -coefficients])
    return float(np.einsum("ik,ij,jk->", a, expansion.kernel.matrix(points, points), a))


def best_position(expansion: Expansion, i: int, j: int) -> float:
    """Return the best position between two supports: the root of the derivative next to the best grid point."""
    assert isinstance(expansion.kernel, Gaussian)
    squared = np.sum((expansion.supports[i] - expansion.supports[j]) ** 2) / (2.0 * expansion.kernel.bandwidth**2)
    a, b = expansion.coefficients[i], expansion.coefficients[j]

    def length(h: float) -> float:
        total = np.exp(-squared * (1.0 - h) ** 2) * a + np.exp(-squared * h**2) * b
        return float(total @ total)

    def slope(h: float) -> float:
        p, q = np.exp(-squared * (1.0 - h) ** 2), np.exp(-squared * h**2)
        change = 2.0 * squared * ((1.0 - h) * p * a - h * q * b)
        return float((p * a + q * b) @ change)

    lengths = np.array([length(h) for h in POSITIONS])
    best = int(np.flatnonzero(lengths >= lengths.max() * (1 - 1e-12))[0])
    low, high = POSITIONS[max(0, best - 1)], POSITIONS[min(len(POSITIONS) - 1, best + 1)]
    if slope(low) <= 0.0 or slope(high) >= 0.0:
        return float(POSITIONS[best])
    return float(brentq(slope, low, high, xtol=1e-15))
