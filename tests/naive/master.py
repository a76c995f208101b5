"""A slow, obvious twin of okl/compiled/master.py: every support is tried."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from okl.types import FloatArray, IntArray


def bound_of(gamma: FloatArray, products: FloatArray, intercepts: FloatArray, lam: float) -> float:
    n = len(gamma)
    quadratic = sum(gamma[k] * gamma[m] * products[k, m] for k in range(n) for m in range(n))
    return float(sum(gamma[k] * intercepts[k] for k in range(n)) - 0.5 * quadratic / lam)


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
    n, best, weights = len(gamma), -np.inf, gamma.copy()
    for size in range(1, n + 1):
        for chosen in combinations(range(n), size):
            some = np.array(chosen)
            system = np.ones((size + 1, size + 1))
            system[:size, :size], system[size, size] = products[np.ix_(some, some)], 0.0
            found = np.linalg.lstsq(system, np.append(lam * intercepts[some], 1.0), rcond=None)[0][:size]
            if (found >= -1e-12).all() and abs(found.sum() - 1.0) < 1e-9:
                trial = np.zeros(n)
                trial[some] = found
                if (value := bound_of(trial, products, intercepts, lam)) > best:
                    best, weights = value, trial
    gamma[:] = weights
    return best
