"""Fast numpy versions of updates that use all supports: redundancy, passive-aggressive, projection, merging.

For the Gaussian kernel, whose values of a support with itself are 1; two classes.
"""

from __future__ import annotations

import numpy as np

from okl.foundation.types import FloatArray
from tests.benchmarks.online_numpy import REGULARISATION, NumpySupports, Update

DEPENDENT = 1e-5  # as okl's, of float32
GRID = np.arange(9) / 8.0


def budget_perceptron(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    if y * f > 0:
        return
    slot = s.count
    if slot == s.budget:
        slot = int(np.argmax((s.labels * (s.scores - s.a))[:slot]))
        a = float(s.a[slot])
        s.scores[: s.count] -= a * s.kernel(s.rows[slot], float(s.norms[slot]))
        f -= a * float(k[slot])
    s.scores[: s.count] += y * k
    s.put(slot, x, norm, y, y)
    s.scores[slot] = f + y


def projectron(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    if (f >= 0) != (y > 0):
        _project_or_put(s, x, norm, y, y, k)


def projectron_plus(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    if (f >= 0) != (y > 0):
        _project_or_put(s, x, norm, y, y, k)
    elif y * f < 1.0 and s.count:
        n, loss = s.count, 1.0 - y * f
        solution = s.matrix[:n, :n] @ k
        length = float(k @ solution)
        tau = min(loss / length, 1.0) if length > 0 else 0.0
        reach = 0.25 * np.sqrt((s.budget + 1) / np.log(s.budget + 1))
        if tau > 0 and 2 * loss - tau * length - 2 * reach * np.sqrt(max(0.0, 1.0 - length)) >= 0:
            s.a[:n] += y * tau * solution


def _project_or_put(s: NumpySupports, x: FloatArray, norm: float, y: float, step: float, k: FloatArray) -> None:
    n = s.count
    solution = s.matrix[:n, :n] @ k
    residual = 1.0 - float(k @ solution)
    if n == s.budget or residual <= DEPENDENT:
        s.a[:n] += step * solution
    else:
        _grow_inverse(s, solution, residual)
        s.put(n, x, norm, y, step)


def _grow_inverse(s: NumpySupports, solution: FloatArray, residual: float) -> None:
    n, inverse = s.count, s.matrix
    inverse[:n, :n] += np.outer(solution, solution / residual)
    inverse[:n, n] = inverse[n, :n] = -solution / residual
    inverse[n, n] = 1.0 / residual


def bpa_simple(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    if y * f >= 1.0:
        return
    step, n = y * min(1.0, 1.0 - y * f), s.count
    if n < s.budget:
        s.put(n, x, norm, y, step)
        return
    slot = int(np.argmin(s.a[:n] ** 2 * np.maximum(0.0, 1.0 - k * k)))
    s.put(slot, x, norm, y, float(s.a[slot] * k[slot]) + step)


def bpa_nearest(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    """matrix : kernel values of the supports, 0 on the diagonal."""
    if y * f >= 1.0:
        return
    step, n, near = y * min(1.0, 1.0 - y * f), s.count, s.nearest
    slot = n
    if n == s.budget:
        neighbours = near[:n]
        k64 = k.astype(np.float64)
        with_near, between = s.matrix[np.arange(n), neighbours], k64[neighbours]
        alone = 1.0 - between * between
        distinct = alone > 1e-12
        alone = np.where(distinct, alone, 1.0)
        of_row = np.where(distinct, (k64 - with_near * between) / alone, k64)
        of_near = np.where(distinct, (with_near - k64 * between) / alone, 0.0)
        slot = int(np.argmin(s.a[:n] ** 2 * np.maximum(0.0, 1.0 - of_row * k64 - of_near * with_near)))
        s.a[neighbours[slot]] += of_near[slot] * s.a[slot]
        step += float(of_row[slot] * s.a[slot])
        k[slot] = 0.0
    s.matrix[slot, :n] = s.matrix[:n, slot] = k
    s.put(slot, x, norm, y, step)
    _find_nearest(s, k, slot, n)


def _find_nearest(s: NumpySupports, k: FloatArray, slot: int, n: int) -> None:
    """Compare the new support at a slot with all neighbours; supports that lost their neighbour compare with all."""
    near, count = s.nearest, s.count
    lost = np.flatnonzero(near[:n] == slot)
    near[:n][k > s.matrix[np.arange(n), near[:n]]] = slot
    for other in (*lost.tolist(), slot):
        near[other] = np.argmax(s.matrix[other, :count])


def bpa_projection(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    """matrix : the inverse of the kernel matrix."""
    if y * f >= 1.0:
        return
    step, n = y * min(1.0, 1.0 - y * f), s.count
    if n < s.budget:
        _project_or_put(s, x, norm, y, step, k)
        return
    inverse = s.matrix[:n, :n]
    solution = inverse @ k
    residual = 1.0 - float(k @ solution)
    if residual <= DEPENDENT:
        s.a[:n] += step * solution
        return
    pivots = inverse.diagonal() + solution * solution / residual
    slot = int(np.argmin(s.a[:n].astype(np.float64) ** 2 / pivots))
    pivot, column, new = (
        float(pivots[slot]),
        inverse[:, slot] + solution * (solution[slot] / residual),
        -solution[slot] / residual,
    )
    a = float(s.a[slot])
    s.a[:n] -= a * column / pivot
    inverse += np.outer(solution, solution / residual)
    inverse -= np.outer(column, column / pivot)
    inverse[slot] = inverse[:, slot] = -solution / residual - column * (new / pivot)
    inverse[slot, slot] = 1.0 / residual - new * new / pivot
    s.put(slot, x, norm, y, step - a * new / pivot)


def bsgd_merging(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    """Compare partners on a grid of positions, while okl takes two Newton steps for each of them."""
    s.seen += 1
    s.scale = 1.0 / (REGULARISATION * s.seen)
    if y * f >= 1.0:
        return
    s.put(s.count, x, norm, y, y * s.scale)
    if s.count <= s.budget:
        return
    n, m = s.count, int(s.count - 1 - np.argmin(np.abs(s.a[: s.count])[::-1]))
    logs = np.log(np.maximum(s.kernel(s.rows[m], float(s.norms[m])), 1e-30)).astype(np.float64)
    a, own = s.a[:n].astype(np.float64), float(s.a[m])
    p, q = np.exp(np.outer((1 - GRID) ** 2, logs)), np.exp(np.outer(GRID**2, logs))
    gains = (own * p + a * q) ** 2
    lost = own**2 + a**2 + 2.0 * np.exp(logs) * own * a - gains.max(axis=0)
    lost[m] = np.inf
    j = int(np.argmin(lost))
    h = _best_position(GRID[int(np.argmax(gains[:, j]))], float(logs[j]), own, float(a[j]))
    z = h * s.rows[m] + (1 - h) * s.rows[j]
    value = own * np.exp(logs[j] * (1 - h) ** 2) + a[j] * np.exp(logs[j] * h * h)
    s.put(j, z, float(z @ z), y, value * s.scale)
    s.count = n - 1
    s.rows[m], s.norms[m], s.a[m] = s.rows[n - 1], s.norms[n - 1], s.a[n - 1]


def _best_position(h: float, log: float, m: float, j: float) -> float:
    """Maximise the gain of merging coefficients m and j by Newton steps from the best grid position."""
    for _ in range(10):
        p, q = np.exp(log * (1 - h) ** 2), np.exp(log * h * h)
        total, slope = m * p + j * q, 2 * log * (h * j * q - (1 - h) * m * p)
        bend = (4 * (log * (1 - h)) ** 2 + 2 * log) * m * p + (4 * (log * h) ** 2 + 2 * log) * j * q
        curve = slope * slope + total * bend
        if curve < 0:
            h = min(1.0, max(0.0, h - float(np.clip(total * slope / curve, -0.125, 0.125))))
    return h


COSTLY: dict[str, Update] = {
    "budget-perceptron": budget_perceptron,
    "projectron": projectron,
    "projectron++": projectron_plus,
    "bpa-s": bpa_simple,
    "bpa-nn": bpa_nearest,
    "bpa-p": bpa_projection,
    "bsgd-merging": bsgd_merging,
}
