"""Slow, obvious twin of budgeted passive-aggressive learning: removal of every support is tried."""

from __future__ import annotations

from typing import Literal

import numpy as np

from okl.foundation.types import FloatArray
from tests.naive.expansion import Expansion, RowResult
from tests.naive.projectron import add_to_all, projection

Keep = Literal["simple", "projection", "nearest"]


def bpa(
    expansion: Expansion, inputs: FloatArray, targets: FloatArray, aggressiveness: float, keep: Keep
) -> list[RowResult]:
    results = []
    for x, y in zip(inputs, targets, strict=True):
        seen = expansion.judge(x, y)
        results.append(seen)
        own = expansion.self_kernel(x)
        if seen.loss <= 0.0 or own <= 0.0:
            continue
        step = min(aggressiveness, seen.loss / (own * float(seen.direction @ seen.direction)))
        if keep == "projection" and expansion.supports:
            span_coefficients, left = projection(expansion, x)
            if left <= 1e-10 * own:
                add_to_all(expansion, span_coefficients, step * seen.direction)
                continue
        expansion.add(x, step * seen.direction)
        if len(expansion.supports) > expansion.budget:
            remove_cheapest(expansion, keep)
    return results


def remove_cheapest(expansion: Expansion, keep: Keep) -> None:
    """Remove the support whose best replacement by others (`keep` says which) changes f the least; the oldest on a tie.

    The new row is the last support. Wang & Vucetic minimise |change of f|^2 / 2 + C loss on the new row over the step
    and the replacement together; whatever is removed, the loss after the best of both is the same.
    """
    gram = expansion.gram()
    newest = len(expansion.supports) - 1
    costs: list[float] = []
    replacements: list[tuple[list[int], FloatArray]] = []
    for index in range(newest):
        helpers = helpers_of(gram, index, keep)
        replacement = np.linalg.lstsq(gram[np.ix_(helpers, helpers)], gram[helpers, index])[0]
        left = gram[index, index] - gram[helpers, index] @ replacement
        a = expansion.coefficients[index]
        costs.append(float(a @ a) * max(0.0, float(left)))
        replacements.append((helpers, replacement))
    index = next(i for i, cost in enumerate(costs) if cost <= (1 + 1e-12) * min(costs))
    for helper, share in zip(*replacements[index], strict=True):
        expansion.coefficients[helper] = expansion.coefficients[helper] + share * expansion.coefficients[index]
    expansion.remove(index)


def helpers_of(gram: FloatArray, index: int, keep: Keep) -> list[int]:
    newest = len(gram) - 1
    if keep == "simple":
        return [newest]
    others = [i for i in range(newest) if i != index]
    if keep == "projection":
        return [*others, newest]
    squares = [gram[i, i] + gram[index, index] - 2.0 * gram[i, index] for i in others]
    return [others[int(np.argmin(squares))], newest] if others else [newest]
