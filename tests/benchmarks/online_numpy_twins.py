"""Fast numpy version of the twin vector machine, for the Gaussian kernel: pairs as one matrix, steps by vectors.

Descent updates the coefficient that changes most, because numpy computes all of them anyway; okl updates them in turn.
Both end at the same tolerance, so that mistakes are nearly equal.
"""

from __future__ import annotations

import numpy as np

from okl.foundation.types import FloatArray
from tests.benchmarks.online_numpy import NumpySupports, Update

UNLIKE, TOLERANCE, SWEEPS = 10.0, 1e-2, 10  # as okl's; C is 1


def twin_vectors(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    """matrix : kernel values of the twins."""
    if y * f >= 1.0 - TOLERANCE:
        return
    slot = s.count
    s.put(slot, x, norm, y, 0.0)
    s.matrix[slot, :slot] = s.matrix[:slot, slot] = k
    s.matrix[slot, slot] = 1.0
    s.twins[:, slot] = y > 0, y < 0
    if s.count > s.budget:
        _maintain_budget(s)
    _solve(s)


def _maintain_budget(s: NumpySupports) -> None:
    n = s.count
    kernel, counts, a = s.matrix[:n, :n], s.twins[:, :n], s.a[:n]
    leads = np.where(counts[0] > 0, 1.0, -1.0) * (kernel @ a)
    leads[(a != 0) | (counts.min(axis=0) > 0)] = 0.0
    slot = int(np.argmax(leads))
    if leads[slot] <= 1.0 + TOLERANCE:
        sizes = counts.sum(axis=0)
        costs = (counts.T @ counts + UNLIKE * counts.T @ counts[::-1]) / (sizes + sizes[:, None]) * (1.0 - kernel)
        np.fill_diagonal(costs, np.inf)
        first, slot = sorted(divmod(int(np.argmin(costs)), n))
        s.rows[first] += sizes[slot] / (sizes[first] + sizes[slot]) * (s.rows[slot] - s.rows[first])
        s.norms[first] = s.rows[first] @ s.rows[first]
        counts[:, first] += counts[:, slot]
        a[first] += a[slot]
        kernel[first] = kernel[:, first] = s.kernel(s.rows[first], float(s.norms[first]))
        kernel[first, first] = 1.0
    last = s.count = n - 1
    s.rows[slot], s.norms[slot], a[slot], counts[:, slot] = s.rows[last], s.norms[last], a[last], counts[:, last]
    kernel[slot] = kernel[last]
    kernel[:, slot] = kernel[:, last]


def _solve(s: NumpySupports) -> None:
    n = s.count
    kernel, (high, low), a = s.matrix[:n, :n], s.twins[:, :n], s.a[:n].astype(np.float64)
    middle = high - low
    scores = kernel @ a
    for _ in range(SWEEPS * n):
        others = scores - a
        best = np.minimum(np.maximum(-low, 1.0 - others), np.maximum(middle, np.minimum(high, -1.0 - others)))
        best -= a
        i = int(np.argmax(np.abs(best)))
        if abs(best[i]) <= TOLERANCE:
            break
        a[i] += best[i]
        scores += best[i] * kernel[i]
    s.a[:n] = a


TWINS: dict[str, Update] = {"tvm": twin_vectors}
