"""Kernel learners without a budget: every support stays, so that kernel values are computed ahead, in tiles.

Legend: f = scale * (known + sum_j c_j k(x_j, x)), over the rows j of the block that became supports.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from okl.compiled.budget import Doubles, Integers, count_row, gradient_step, mistake_step
from okl.compiled.budgetgradient import norma_step
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row, compiled_row_sum
from okl.compiled.steplosses import MULTICLASS_HINGE
from okl.types import FloatArray

PERCEPTRON, GRADIENT, NORMA = 0, 1, 2


class Grown(NamedTuple):
    """All that learning a block changes in place.

    coefficients : (n_outputs, rows) float64, of each row of the block; 0 where it did not become a support
    floats : (2,) float64, the scale and NORMA's margin
    counts, sums, class_counts : as in okl.compiled.counting; scores : (n_outputs,) float64, a buffer
    """

    coefficients: Doubles
    floats: Doubles
    counts: Integers
    sums: Doubles
    class_counts: Integers
    scores: Doubles


class Growth(NamedTuple):
    """How a row is learnt: kind, one of the three; loss code and epsilon; and the numbers of the kind.

    decay : factor of f a row, 1 for none; share : NORMA's nu, negative for a margin that stays
    """

    kind: int
    code: int
    epsilon: float
    step_size: float
    decay: float
    share: float


@compiled_row_sum
def _among_block(coefficients: Doubles, values: FloatArray, last: int) -> float:
    """Sum over the block's rows before `last`."""
    total = 0.0
    for j in range(last):
        total += coefficients[j] * np.float64(values[j])
    return total


@compiled_row
def learn_growing(grown: Grown, known: Doubles, among: FloatArray, targets: Doubles, growth: Growth) -> None:
    """Learn the rows of a block one after the other; grown changes in place.

    known : (rows, n_outputs), scores by the supports before the block; among : (rows, rows), kernel values of its rows

    Source: Lu et al., JMLR 17(47), 2016, sections 7.2.1 and 7.4.1; Kivinen, Smola & Williamson, 2004, Figure 1.
    """
    coefficients, floats, counts, sums, class_counts, scores = grown
    kind, code, epsilon, step_size, decay, share = growth
    for row in range(targets.shape[0]):
        for k in range(scores.shape[0]):
            scores[k] = floats[0] * (known[row, k] + _among_block(coefficients[k], among[row], row))
        seen = count_row(scores, counts, sums, class_counts, targets[row], code)
        if kind == PERCEPTRON:
            step = mistake_step(code, epsilon, step_size, seen)
        elif kind == GRADIENT:
            step = gradient_step(code, epsilon, step_size, seen)
        else:
            step = norma_step(code, step_size, share, floats, seen)
        floats[0] *= decay
        if step != 0.0:
            coefficients[seen.output, row] = step / floats[0]
            if code == MULTICLASS_HINGE:
                coefficients[seen.wrong, row] = -step / floats[0]
            counts[UPDATES] += 1
