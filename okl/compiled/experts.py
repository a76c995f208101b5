"""Learners of one feature map that differ in their step size, side by side: each a pair of experts, last and averaged.

The weights after rows 1, 2, ... are averaged with weights that grow as the third power of the row's number. The average
is never formed: with s_i = i^4 it is w_n - pull_n / s_n, pull_n = sum_i s_(i-1) (w_i - w_(i-1)), as summation by parts
shows, so that a row which leaves the weights alone costs nothing.

Legend: K outputs, T step sizes; w weights, u pulls, q sums of squared gradients, z features, y target, f score.

Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5 (steps); Shamir & Zhang, ICML 2013, section 4 (averages that
favour late rows); Duchi, Hazan & Singer, JMLR 12, 2011, section 1.1 (AdaGrad).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.door import compiled, compiled_sum
from okl.compiled.updates import MULTICLASS_HINGE, slope
from okl.types import FloatArray

LAST, AVERAGED = 0, 1
_AGE_UNIT = 2.0**-20  # rows in millions: the fourth power of a billion rows still fits float32
_LEAST_SQUARE = 1e-30


class Team(NamedTuple):
    """What learns in one map, changed in place: (T, K, H, n_columns / H) each.

    H : halves of a block: 2 or, if the second is empty, 1
    weights : after the last row; pulls : see above; squares : of AdaGrad, (0, 0, 0, 0) for steps of fixed size
    steps : (T,) float64, step sizes on the map's scale
    """

    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray
    steps: NDArray[np.float64]


class Said(NamedTuple):
    """What experts said of rows before they learnt them, overwritten.

    words : (rows, T, 2) float64, at LAST and AVERAGED: scores, or the class for several; NaN for a score that is not
    finite; stepped : (rows,) uint8, whether any weights changed
    """

    words: NDArray[np.float64]
    stepped: NDArray[np.uint8]


class ExpertRule(NamedTuple):
    """code, epsilon : the loss of okl.losses; class_weights : (n_classes,) float64, factors of steps and losses."""

    code: int
    epsilon: float
    class_weights: NDArray[np.float64]


@compiled
def age_of(seen: int) -> float:
    """s_i = i^4 after `seen` rows, in a unit that keeps it within float32."""
    millions = seen * _AGE_UNIT
    return millions * millions * millions * millions


# A view of a row costs as much as a loop over it: references are counted in atomic steps. So rows are indices. Halves
# are an axis: an index that is a sum might be negative, for which numba would look in every step of a loop.


@compiled_sum
def score_row(
    last: NDArray[np.float64],
    averaged: NDArray[np.float64],
    weights: FloatArray,
    pulls: FloatArray,
    lefts: FloatArray,
    rights: FloatArray,
    row: int,
    age: float,
) -> None:
    """Overwrite last and averaged (T, K) by the scores of a row of the block, by the last and the averaged weights."""
    for t in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            f, h = weights.dtype.type(0), weights.dtype.type(0)
            for j in range(lefts.shape[1]):
                f += weights[t, k, 0, j] * lefts[row, j]
                h += pulls[t, k, 0, j] * lefts[row, j]
            for j in range(rights.shape[1]):
                f += weights[t, k, 1, j] * rights[row, j]
                h += pulls[t, k, 1, j] * rights[row, j]
            last[t, k] = f
            averaged[t, k] = last[t, k] - np.float64(h) / age if age > 0.0 else last[t, k]


@compiled
def step_row(
    weights: FloatArray,
    pulls: FloatArray,
    t: int,
    k: int,
    lefts: FloatArray,
    rights: FloatArray,
    row: int,
    factor: np.floating[Any],
    age: np.floating[Any],
) -> None:
    """Add factor * z to weights[t, k], and its share to pulls[t, k], in place; age : that of the rows before."""
    for j in range(lefts.shape[1]):
        change = factor * lefts[row, j]
        weights[t, k, 0, j] += change
        pulls[t, k, 0, j] += age * change
    for j in range(rights.shape[1]):
        change = factor * rights[row, j]
        weights[t, k, 1, j] += change
        pulls[t, k, 1, j] += age * change


@compiled
def adagrad_row(
    weights: FloatArray,
    pulls: FloatArray,
    squares: FloatArray,
    t: int,
    k: int,
    lefts: FloatArray,
    rights: FloatArray,
    row: int,
    g: np.floating[Any],
    step: np.floating[Any],
    age: np.floating[Any],
) -> None:
    """Step against the gradient g z, each column in the size of its own gradients; changes the first three in place."""
    least = weights.dtype.type(_LEAST_SQUARE)
    for half in range(weights.shape[2]):
        part = lefts if half == 0 else rights
        for j in range(part.shape[1]):
            gradient = g * part[row, j]
            square = squares[t, k, half, j] + gradient * gradient
            squares[t, k, half, j] = square
            change = -step * gradient / np.sqrt(square + least)
            weights[t, k, half, j] += change
            pulls[t, k, half, j] += age * change


@compiled
def step_learner(
    weights: FloatArray,
    pulls: FloatArray,
    squares: FloatArray,
    t: int,
    k: int,
    lefts: FloatArray,
    rights: FloatArray,
    row: int,
    g: float,
    step: float,
    age: float,
) -> None:
    """Step from the derivative g of the loss by output k; weights, pulls and squares change in place."""
    kind = weights.dtype.type
    if squares.shape[0] > 0:
        adagrad_row(weights, pulls, squares, t, k, lefts, rights, row, kind(g), kind(step), kind(age))
    else:
        step_row(weights, pulls, t, k, lefts, rights, row, kind(-step * g), kind(age))


@compiled
def _learn_one_output(
    said: Said,
    team: Team,
    block: Block,
    targets: NDArray[np.float64],
    cautions: FloatArray,
    rule: ExpertRule,
    seen: int,
) -> None:
    # tuples are taken apart before the loop: handing them on in it costs as much as a dot product
    words, stepped = said
    weights, pulls, squares, steps = team
    lefts, rights = block
    code, epsilon, class_weights = rule
    n_steps, positive = weights.shape[0], class_weights.shape[0] - 1
    last, averaged = np.empty((n_steps, 1)), np.empty((n_steps, 1))
    for row in range(targets.shape[0]):
        y, age = targets[row], age_of(seen + row)
        weight = class_weights[positive if y > 0.0 else 0]
        score_row(last, averaged, weights, pulls, lefts, rights, row, age)
        stepped[row] = 0
        for t in range(n_steps):
            f = last[t, 0]
            words[row, t, LAST] = f if np.isfinite(f) else np.nan
            words[row, t, AVERAGED] = averaged[t, 0] if np.isfinite(averaged[t, 0]) else np.nan
            g = weight * slope(code, epsilon, f, y)
            if g != 0.0:
                stepped[row] = 1
                step_learner(weights, pulls, squares, t, 0, lefts, rights, row, g, cautions[row] * steps[t], age)


@compiled
def largest(scores: NDArray[np.float64], t: int) -> float:
    """Index of the largest of scores[t], the first on a tie; NaN if one of them is not finite."""
    best, total = 0, 0.0
    for k in range(scores.shape[1]):
        total += scores[t, k]
        if scores[t, k] > scores[t, best]:
            best = k
    return np.float64(best) if np.isfinite(total) else np.nan


@compiled
def largest_wrong(scores: NDArray[np.float64], t: int, true: int) -> int:
    """Index of the largest of scores[t] that is not the true class's, the first on a tie."""
    best = 0 if true != 0 else 1
    for k in range(best + 1, scores.shape[1]):
        if k != true and scores[t, k] > scores[t, best]:
            best = k
    return best


@compiled
def _learn_classes(
    said: Said,
    team: Team,
    block: Block,
    targets: NDArray[np.float64],
    cautions: FloatArray,
    rule: ExpertRule,
    seen: int,
) -> None:
    # tuples are taken apart before the loop: handing them on in it costs as much as a dot product
    words, stepped = said
    weights, pulls, squares, steps = team
    lefts, rights = block
    class_weights = rule.class_weights
    n_steps, n_classes = weights.shape[0], weights.shape[1]
    last, averaged = np.empty((n_steps, n_classes)), np.empty((n_steps, n_classes))
    for row in range(targets.shape[0]):
        true, age = int(targets[row]), age_of(seen + row)
        weight = class_weights[true]
        score_row(last, averaged, weights, pulls, lefts, rights, row, age)
        stepped[row] = 0
        for t in range(n_steps):
            words[row, t, LAST] = largest(last, t)
            words[row, t, AVERAGED] = largest(averaged, t)
            wrong = largest_wrong(last, t, true)
            if last[t, true] - last[t, wrong] < 1.0 and weight > 0.0:
                stepped[row] = 1
                for sign in (-1, 1):
                    k, step = true if sign < 0 else wrong, cautions[row] * steps[t]
                    step_learner(weights, pulls, squares, t, k, lefts, rights, row, sign * weight, step, age)


@compiled
def learn_team(
    said: Said,
    team: Team,
    block: Block,
    targets: NDArray[np.float64],
    cautions: FloatArray,
    rule: ExpertRule,
    seen: int,
) -> None:
    """Every learner of a team says its word on a row, then learns it; said and team change in place.

    cautions : (rows,) float64, factors of steps; seen : rows that the team has learnt before
    """
    if rule.code == MULTICLASS_HINGE:
        _learn_classes(said, team, block, targets, cautions, rule, seen)
    else:
        _learn_one_output(said, team, block, targets, cautions, rule, seen)
