"""Sums over rows at fixed weights: subgradient, loss and mistakes, for learners that step once for many rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.counting import MISTAKES, ROWS, SQUARED_ERROR, UPDATES
from okl.compiled.door import compiled
from okl.compiled.steplosses import MULTICLASS_HINGE, best_wrong, is_regression, slope_of, value_of
from okl.compiled.updates import Rule
from okl.types import FloatArray

LOSS = 1  # index into Summed.sums, beside SQUARED_ERROR


class Summed(NamedTuple):
    """Sums over rows, in float64, changed in place.

    gradient : (n_outputs, n_columns), sum of class_weight * g * z; counts : int64, at ROWS, MISTAKES, UPDATES
    sums : float64, at SQUARED_ERROR and LOSS (class_weight * loss)
    """

    gradient: NDArray[np.float64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]


@compiled
def _add_scaled(sums: NDArray[np.float64], left: FloatArray, right: FloatArray, factor: float) -> None:
    width = left.shape[0]
    first, second = sums[:width], sums[width:]
    for j in range(width):
        first[j] += factor * left[j]
    for j in range(right.shape[0]):
        second[j] += factor * right[j]


@compiled
def _sum_one_output(summed: Summed, block: Block, scores: FloatArray, targets: NDArray[np.float64], rule: Rule) -> None:
    regression = is_regression(rule.code)
    for row in range(targets.shape[0]):
        y, f = targets[row], np.float64(scores[row, 0])
        label = 0
        if regression:
            summed.sums[SQUARED_ERROR] += (f - y) * (f - y)
        else:
            label = 1 if y > 0.0 else 0
            summed.counts[MISTAKES] += (f >= 0.0) != (label == 1)
        weight = rule.class_weights[label]
        summed.sums[LOSS] += weight * value_of(rule.code, rule.epsilon, rule.own, f, y)
        g = weight * slope_of(rule.code, rule.epsilon, rule.own, f, y)
        if g != 0.0:
            summed.counts[UPDATES] += 1
            _add_scaled(summed.gradient[0], block.left[row], block.right[row], g)


@compiled
def _sum_classes(summed: Summed, block: Block, scores: FloatArray, targets: NDArray[np.float64], rule: Rule) -> None:
    for row in range(targets.shape[0]):
        true = int(targets[row])
        wrong = best_wrong(scores[row], true)
        summed.counts[MISTAKES] += np.argmax(scores[row]) != true
        margin = np.float64(scores[row, true]) - np.float64(scores[row, wrong])
        if margin < 1.0:
            weight = rule.class_weights[true]
            summed.sums[LOSS] += weight * (1.0 - margin)
            summed.counts[UPDATES] += 1
            _add_scaled(summed.gradient[true], block.left[row], block.right[row], -weight)
            _add_scaled(summed.gradient[wrong], block.left[row], block.right[row], weight)


@compiled
def sum_block(summed: Summed, block: Block, scores: FloatArray, targets: NDArray[np.float64], rule: Rule) -> None:
    """Add the rows of a block, whose scores (rows, n_outputs) are given, to summed in place.

    The step size and sampling of the rule are not used.

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5, with the step left to the caller.
    """
    if rule.code == MULTICLASS_HINGE:
        _sum_classes(summed, block, scores, targets, rule)
    else:
        _sum_one_output(summed, block, scores, targets, rule)
    summed.counts[ROWS] += targets.shape[0]
