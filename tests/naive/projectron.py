"""Slow, obvious twin of Projectron and Projectron++: every projection solves with the whole kernel matrix."""

from __future__ import annotations

import numpy as np

from okl.foundation.types import FloatArray
from tests.naive.expansion import Expansion, RowResult


def projectron(
    expansion: Expansion,
    inputs: FloatArray,
    targets: FloatArray,
    plus: bool,
    step_size: float,
    epsilon: float,
    dependence: float,
) -> list[RowResult]:
    results = []
    for x, y in zip(inputs, targets, strict=True):
        seen = expansion.judge(x, y)
        results.append(seen)
        wrong = seen.loss > epsilon if expansion.task == "regression" else seen.mistake
        if wrong:
            span_coefficients, left = projection(expansion, x)
            own = expansion.self_kernel(x)
            if expansion.full or left <= dependence * own:
                add_to_all(expansion, span_coefficients, step_size * seen.direction)
            else:
                expansion.add(x, step_size * seen.direction)
        elif plus and expansion.task != "regression" and seen.loss > 0.0 and expansion.supports:
            span_coefficients, left = projection(expansion, x)
            length = expansion.self_kernel(x) - left
            comparator = 0.25 * np.sqrt((expansion.budget + 1) / np.log(expansion.budget + 1))
            if length > 0.0:
                share = min(seen.loss / length, 1.0)
                gain = 2.0 * seen.loss - share * length - 2.0 * comparator * np.sqrt(left)
                if gain >= 0.0:
                    add_to_all(expansion, span_coefficients, share * seen.direction)
    return results


def projection(expansion: Expansion, x: FloatArray) -> tuple[FloatArray, float]:
    """Return the coefficients of the projection of k(x, .) onto the span of the supports, and the squared distance."""
    own = expansion.self_kernel(x)
    if not expansion.supports:
        return np.empty(0), own
    row = expansion.row(x)
    span_coefficients = np.linalg.solve(expansion.gram(), row)
    return span_coefficients, max(0.0, own - float(row @ span_coefficients))


def add_to_all(expansion: Expansion, span_coefficients: FloatArray, direction: FloatArray) -> None:
    for index, share in enumerate(span_coefficients):
        expansion.coefficients[index] = expansion.coefficients[index] + share * direction
