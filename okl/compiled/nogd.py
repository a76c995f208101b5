"""Kernel online gradient descent until a budget of support vectors is full, on kernel values that are there already.

Legend: c coefficients of the supports, k kernel values, y target, f score, g derivative of the loss by f.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.counting import ROWS, UPDATES, count_binary, count_class, count_squares
from okl.compiled.door import compiled, compiled_sum
from okl.compiled.fourier import dot
from okl.compiled.steplosses import MULTICLASS_HINGE, best_wrong, is_regression, slope_of
from okl.compiled.updates import Rule
from okl.types import FloatArray


class Filling(NamedTuple):
    """All that filling a budget changes in place.

    coefficients : (n_outputs, budget), of the supports in the order they came; 0 where there is none yet
    size : (1,) int64, supports so far
    added : (budget,) int64, from where each support came: the row of the block, for those of this block
    counts, sums, class_counts : as in okl.compiled.counting
    """

    coefficients: FloatArray
    size: NDArray[np.int64]
    added: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    class_counts: NDArray[np.int64]


@compiled
def fill_budget(
    filling: Filling, known: FloatArray, among: FloatArray, targets: NDArray[np.float64], rule: Rule
) -> int:
    """Learn a block's rows by kernel gradient descent until one more support would not fit; filling changes in place.

    A row is scored by f = sum_i c_i k(x_i, x). Where the loss has a derivative g, the row becomes a support with
    coefficient -step_size * class_weight * g: with several classes, its negative for the best wrong class.

    Parameters
    ----------
    known : (rows, supports before the block), kernel values; among : (rows, rows), of the block's rows themselves
    targets : (rows,) float64: -1 or +1, the class index, or the real target

    Returns
    -------
    Rows learnt. Where they are fewer than came, the next one finds the budget full: it is neither counted nor learnt.

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 2, 4 and 6, the loop before the kernel matrix is built.
    """
    if rule.code == MULTICLASS_HINGE:
        return _fill_classes(filling, known, among, targets, rule)
    return _fill_one_output(filling, known, among, targets, rule)


@compiled
def _fill_one_output(
    filling: Filling, known: FloatArray, among: FloatArray, targets: NDArray[np.float64], rule: Rule
) -> int:
    coefficients, size, added, counts, sums, class_counts = filling
    budget, before = coefficients.shape[1], known.shape[1]
    for row in range(targets.shape[0]):
        y = targets[row]
        f = np.float64(_score(coefficients[0], known[row], among[row], added[before : size[0]]))
        g = slope_of(rule.code, rule.epsilon, rule.own, f, y)
        if g != 0.0 and size[0] == budget:
            return row
        if is_regression(rule.code):
            label = count_squares(sums, class_counts, f, y)
        else:
            label = count_binary(counts, class_counts, f, y)
        if g != 0.0:
            coefficients[0, size[0]] = -rule.step_size * rule.class_weights[label] * g
            _add(size, added, counts, row)
        counts[ROWS] += 1
    return len(targets)


@compiled
def _fill_classes(
    filling: Filling, known: FloatArray, among: FloatArray, targets: NDArray[np.float64], rule: Rule
) -> int:
    coefficients, size, added, counts, _, class_counts = filling
    budget, before = coefficients.shape[1], known.shape[1]
    scores = np.empty(coefficients.shape[0], coefficients.dtype)
    for row in range(targets.shape[0]):
        true = int(targets[row])
        for k in range(scores.shape[0]):
            scores[k] = _score(coefficients[k], known[row], among[row], added[before : size[0]])
        wrong = best_wrong(scores, true)
        learns = np.float64(scores[true]) - np.float64(scores[wrong]) < 1.0
        if learns and size[0] == budget:
            return row
        count_class(counts, class_counts, scores, true)
        if learns:
            coefficients[true, size[0]] = rule.step_size * rule.class_weights[true]
            coefficients[wrong, size[0]] = -rule.step_size * rule.class_weights[true]
            _add(size, added, counts, row)
        counts[ROWS] += 1
    return len(targets)


@compiled
def _add(size: NDArray[np.int64], added: NDArray[np.int64], counts: NDArray[np.int64], row: int) -> None:
    """Note that a row of the block is the next support."""
    added[size[0]] = row
    size[0] += 1
    counts[UPDATES] += 1


@compiled_sum
def _score(c: FloatArray, known: FloatArray, among: FloatArray, added: NDArray[np.int64]) -> np.floating[Any]:
    """Sum of c times the kernel values with the supports before the block, then with the rows added from it."""
    before = known.shape[0]
    total = dot(known, c[:before])
    for number in range(added.shape[0]):
        total += c[before + number] * among[added[number]]
    return total
