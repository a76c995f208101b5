"""Twins of Projectron, Projectron++ and BPA-P for two classes in long double, on a given kernel matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import FloatArray

Longs = NDArray[np.longdouble]


def inverse_root(matrix: Longs) -> Longs:
    """Return the inverse of the Cholesky factor of a positive definite matrix (n, n), row by row."""
    n = len(matrix)
    factor, root = np.zeros((n, n), dtype=np.longdouble), np.zeros((n, n), dtype=np.longdouble)
    for i in range(n):
        factor[i, :i] = root[:i, :i] @ matrix[:i, i]
        factor[i, i] = np.sqrt(matrix[i, i] - factor[i, :i] @ factor[i, :i])
        root[i, :i] = -(factor[i, :i] @ root[:i, :i]) / factor[i, i]
        root[i, i] = 1 / factor[i, i]
    return root


def mistakes_in_long_double(
    matrix: FloatArray, targets: NDArray[np.float64], budget: int, strategy: str, dependence: float = 1e-10
) -> int:
    """Return the mistakes on rows 0, 1, ... of a kernel matrix (m, m) of ones on its diagonal, solved anew each time.

    strategy : "projectron", "projectron++" or "bpa-p" with an aggressiveness of 1
    """
    exact, mistakes = matrix.astype(np.longdouble), 0
    chosen: list[int] = []
    root, coefficients = np.zeros((0, 0), dtype=np.longdouble), np.zeros(0, dtype=np.longdouble)
    reach = 0.25 * np.sqrt((budget + 1) / np.log(budget + 1))
    for row, y in enumerate(targets):
        values = exact[row, chosen]
        f = coefficients @ values
        wrong = bool((f >= 0) != (y > 0))
        mistakes += wrong
        loss = 1 - y * f
        image = root @ values
        length = image @ image
        coefficients_in_span, left = root.T @ image, np.maximum(0, 1 - length)
        step = y * np.minimum(1, loss) if strategy == "bpa-p" else np.longdouble(y if wrong else 0)
        if strategy == "projectron++" and not wrong and loss > 0 and length > 0:
            share = np.minimum(loss / length, 1)
            if 2 * loss - share * length - 2 * reach * np.sqrt(left) >= 0:
                coefficients = coefficients + y * share * coefficients_in_span
        if loss <= 0 or step == 0:
            continue
        if left <= dependence or (len(chosen) == budget and strategy != "bpa-p"):
            coefficients = coefficients + step * coefficients_in_span
            continue
        chosen, coefficients = [*chosen, row], np.append(coefficients, step)
        root = inverse_root(exact[np.ix_(chosen, chosen)])
        if len(chosen) > budget:
            costs = coefficients[:-1] ** 2 / (root**2).sum(axis=0)[:-1]
            lost = int(np.argmax(costs <= costs.min() * (1 + 1e-12)))
            column = root.T @ root[:, lost]
            coefficients = np.delete(coefficients - coefficients[lost] * column / column[lost], lost)
            chosen = np.delete(chosen, lost).tolist()
            root = inverse_root(exact[np.ix_(chosen, chosen)])
    return mistakes
