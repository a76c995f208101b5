"""The sequential part of learning: score a row, count the mistake, step; one row after the other.

Legend: w weights, z features, y target, f = w'z score, g derivative of the loss by f.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.counting import (
    ROWS,
    SAMPLED,
    SQUARED_GRADIENTS,
    STEPPED_GRADIENTS,
    SURROGATE,
    UPDATES,
    count_binary,
    count_class,
    count_squares,
)
from okl.compiled.door import compiled, compiled_sum
from okl.compiled.fourier import dot
from okl.compiled.steplosses import MULTICLASS_HINGE, best_wrong, is_regression, loss_value, slope, slope_of
from okl.types import FloatArray


class Rule(NamedTuple):
    """How a row changes the weights.

    code, epsilon : the loss of okl.losses; step_size : on the map's scale
    class_weights : (n_classes,) float64, factor of the step of each class; (1,) for regression
    sample_every : rows between two samples of the weights for their average; 0 for none
    radius : of the ball that weights stay in, 0 for none; decaying : whether step t is step_size / sqrt(t), in a ball
    own : address of an extension's loss, see okl.compiled.ownloss; 0 for okl's own
    """

    code: int
    epsilon: float
    step_size: float
    class_weights: NDArray[np.float64]
    sample_every: int
    radius: float = 0.0
    decaying: bool = False
    own: int = 0


class Learnt(NamedTuple):
    """All that learning changes in place.

    weights : (n_outputs, n_columns); total : the same in float64, the sum of the sampled weights
    counts, sums, class_counts : as in okl.compiled.counting
    """

    weights: FloatArray
    total: NDArray[np.float64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    class_counts: NDArray[np.int64]


@compiled
def add_scaled(w: FloatArray, z: FloatArray, factor: np.floating[Any]) -> None:
    """Add factor * z to w in place; the three are of one precision."""
    for j in range(w.shape[0]):
        w[j] += factor * z[j]


@compiled
def _shrink(weights: FloatArray, factor: np.floating[Any]) -> None:
    """Multiply the weights of one output by a factor, in place."""
    for j in range(weights.shape[1]):
        weights[0, j] *= factor


@compiled
def _add_sample(total: NDArray[np.float64], counts: NDArray[np.int64], weights: FloatArray, number: int) -> None:
    """Add the weights to total, `number` times."""
    times = np.float64(number)
    for k in range(total.shape[0]):
        for j in range(total.shape[1]):
            total[k, j] += times * weights[k, j]
    counts[SAMPLED] += number


@compiled_sum
def _learn_one_output(learnt: Learnt, block: Block, targets: NDArray[np.float64], rule: Rule) -> None:
    # tuples are taken apart before the loop: handing them on in it costs as much as a dot product
    weights, total, counts, sums, class_counts = learnt
    code, epsilon, step_size, class_weights, sample_every, _, _, own = rule
    lefts, rights = block
    width = lefts.shape[1]
    w_left, w_right = weights[0, :width], weights[0, width:]
    for row in range(targets.shape[0]):
        left, right = lefts[row], rights[row]
        y = targets[row]
        f = np.float64(dot(left, w_left) + dot(right, w_right))
        if is_regression(code):
            label = count_squares(sums, class_counts, f, y)
        else:
            label = count_binary(counts, class_counts, f, y)
        g = slope_of(code, epsilon, own, f, y)
        if g != 0.0:
            factor = weights.dtype.type(-step_size * class_weights[label] * g)
            add_scaled(w_left, left, factor)
            add_scaled(w_right, right, factor)
            counts[UPDATES] += 1
        counts[ROWS] += 1
        if sample_every > 0 and counts[ROWS] % sample_every == 0:
            _add_sample(total, counts, weights, counts[ROWS] // sample_every)


@compiled_sum
def _learn_in_ball(learnt: Learnt, block: Block, targets: NDArray[np.float64], rule: Rule) -> None:
    weights, total, counts, sums, class_counts = learnt
    code, epsilon, step_size, class_weights, sample_every, radius, decaying, _ = rule
    lefts, rights = block
    width = lefts.shape[1]
    w_left, w_right = weights[0, :width], weights[0, width:]
    # measured afresh in every block: the error of following it never adds up, and blocks are the same however cut
    squared = float(dot(w_left, w_left) + dot(w_right, w_right))
    for row in range(targets.shape[0]):
        left, right = lefts[row], rights[row]
        y = targets[row]
        f = np.float64(dot(left, w_left) + dot(right, w_right))
        weight = class_weights[count_binary(counts, class_counts, f, y)]
        counts[ROWS] += 1
        sums[SURROGATE] += weight * loss_value(code, epsilon, f, y)
        g = weight * slope(code, epsilon, f, y)
        if g != 0.0:
            step = step_size / math.sqrt(np.float64(counts[ROWS])) if decaying else step_size
            length = np.float64(dot(left, left) + dot(right, right))
            sums[SQUARED_GRADIENTS] += g * g * length
            sums[STEPPED_GRADIENTS] += step * g * g * length
            factor = weights.dtype.type(-step * g)
            add_scaled(w_left, left, factor)
            add_scaled(w_right, right, factor)
            squared += factor * (2.0 * f + factor * length)
            if squared > radius * radius:
                _shrink(weights, weights.dtype.type(radius / math.sqrt(squared)))
                squared = radius * radius
            counts[UPDATES] += 1
        if sample_every > 0 and counts[ROWS] % sample_every == 0:
            _add_sample(total, counts, weights, counts[ROWS] // sample_every)


@compiled_sum
def _learn_classes(learnt: Learnt, block: Block, targets: NDArray[np.float64], rule: Rule) -> None:
    weights, total, counts, _, class_counts = learnt
    _, _, step_size, class_weights, sample_every, _, _, _ = rule
    lefts, rights = block
    width = lefts.shape[1]
    scores = np.empty(weights.shape[0], weights.dtype)
    for row in range(targets.shape[0]):
        left, right = lefts[row], rights[row]
        true = int(targets[row])
        for k in range(weights.shape[0]):
            scores[k] = dot(left, weights[k, :width]) + dot(right, weights[k, width:])
        count_class(counts, class_counts, scores, true)
        wrong = best_wrong(scores, true)
        if np.float64(scores[true]) - np.float64(scores[wrong]) < 1.0:
            factor = weights.dtype.type(step_size * class_weights[true])
            add_scaled(weights[true, :width], left, factor)
            add_scaled(weights[true, width:], right, factor)
            add_scaled(weights[wrong, :width], left, -factor)
            add_scaled(weights[wrong, width:], right, -factor)
            counts[UPDATES] += 1
        counts[ROWS] += 1
        if sample_every > 0 and counts[ROWS] % sample_every == 0:
            _add_sample(total, counts, weights, counts[ROWS] // sample_every)


@compiled
def learn_block(learnt: Learnt, block: Block, targets: NDArray[np.float64], rule: Rule) -> None:
    """Learn the rows of a block one after the other; everything in learnt changes in place.

    Every row is scored with the weights that the rows before it left: f = w'z. Then w <- w - step_size * class_weight *
    g * z. The weights after every sample_every-th row since learning began are added to total, wherever the blocks lie:
    the t-th sample t times, as Lacoste-Julien, Schmidt & Bach, arXiv 1212.2002, 2012, equation (5), average.

    With a radius (two classes only) every step ends at the nearest point of the ball, Zinkevich, ICML 2003, section 2,
    and what a proof of its regret takes is summed on the way: losses, squared gradients and step times these.

    targets : (rows,) float64: -1 or +1, the class index, or the real target

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5.
    """
    if rule.code == MULTICLASS_HINGE:
        _learn_classes(learnt, block, targets, rule)
    elif rule.radius > 0.0:
        _learn_in_ball(learnt, block, targets, rule)
    else:
        _learn_one_output(learnt, block, targets, rule)
