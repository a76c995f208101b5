"""Slow, obvious twin of Projectron and Projectron++: every projection solves with the whole kernel matrix."""

from __future__ import annotations

import numpy as np

from okl.foundation.types import FloatArray
from tests.naive.expansion import Expansion, Judged


def projectron(
    expansion: Expansion,
    inputs: FloatArray,
    targets: FloatArray,
    plus: bool,
    step_size: float,
    epsilon: float,
    dependence: float,
) -> list[Judged]:
    judged = []
    for x, y in zip(inputs, targets, strict=True):
        seen = expansion.judge(x, y)
        judged.append(seen)
        wrong = seen.loss > epsilon if expansion.task == "regression" else seen.mistake
        if wrong:
            place, left = projection(expansion, x)
            own = expansion.self_kernel(x)
            if expansion.full or left <= dependence * own:
                add_to_all(expansion, place, step_size * seen.direction)
            else:
                expansion.add(x, step_size * seen.direction)
        elif plus and expansion.task != "regression" and seen.loss > 0.0 and expansion.supports:
            place, left = projection(expansion, x)
            length = expansion.self_kernel(x) - left
            comparator = 0.25 * np.sqrt((expansion.budget + 1) / np.log(expansion.budget + 1))
            if length > 0.0:
                share = min(seen.loss / length, 1.0)
                gain = 2.0 * seen.loss - share * length - 2.0 * comparator * np.sqrt(left)
                if gain >= 0.0:
                    add_to_all(expansion, place, share * seen.direction)
    return judged


def projection(expansion: Expansion, x: FloatArray) -> tuple[FloatArray, float]:
    """Return the coefficients of the projection of k(x, .) onto the span of the supports, and the squared distance."""
    own = expansion.self_kernel(x)
    if not expansion.supports:
        return np.empty(0), own
    row = expansion.row(x)
    place = np.linalg.solve(expansion.gram(), row)
    return place, max(0.0, own - float(row @ place))


def add_to_all(expansion: Expansion, place: FloatArray, direction: FloatArray) -> None:
    for index, share in enumerate(place):
        expansion.coefficients[index] = expansion.coefficients[index] + share * direction
