"""Teams of linear experts that learn the same rows with different step sizes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.expert_weights import ExpertRule, Mixture, mix_rows
from okl.compiled.jit import compiled, compiled_row, nested, nested_row, nested_row_sum
from okl.compiled.math import sines_and_cosines
from okl.compiled.products import project
from okl.compiled.sgd import MULTICLASS_HINGE, loss_slope
from okl.compiled.threads import Block, claim_block, pass_turn, wait_turn
from okl.foundation.types import Doubles, FloatArray, Integers

# Linear experts of one feature map that differ in their step size; each pair is a last and an averaged model.
#
# The weights after rows 1, 2, ... are averaged with weights that grow as the third power of the row's number. The
# average is never formed: with s_i = i^4 it is w_n - pull_n / s_n, pull_n = sum_i s_(i-1) (w_i - w_(i-1)), as
# summation by parts shows, so that a row which leaves the weights alone costs nothing.
#
# Legend: K outputs, T step sizes; w weights, u pulls, q sums of squared gradients, z features, y target, f score.
#
# Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5 (steps); Shamir & Zhang, ICML 2013, section 4 (averages
# that favour late rows).

LAST, AVERAGED = 0, 1
_AGE_UNIT = 2.0**-20  # rows in millions: the fourth power of a billion rows still fits float32


class Team(NamedTuple):
    """Weights of the experts in one map, changed in place: (T, K, H, n_columns / H) each.

    H : halves of a block: 2 or, if the second is empty, 1
    weights : after the last row; pulls : see above; squares : of AdaGrad, (0, 0, 0, 0) for steps of fixed size
    steps : (T,) float64, step sizes on the map's scale
    """

    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray
    steps: Doubles


class ExpertPredictions(NamedTuple):
    """Predictions of the experts for rows before they learn them, overwritten.

    predictions : (rows, T, 2) float64, at LAST and AVERAGED: scores, or the class for several; NaN for a score that is
        not finite
    stepped : (rows,) uint8, whether any weights changed
    """

    predictions: Doubles
    stepped: NDArray[np.uint8]


@compiled_row
def age_of(seen: int) -> float:
    """Return s_i = i^4 after `seen` rows, in a unit that keeps it within float32."""
    millions = seen * _AGE_UNIT
    return millions * millions * millions * millions


@nested_row
def prediction_of(scores: Doubles, row: int) -> float:
    """Return the score of one output, or the index of the largest of several, the first on a tie.

    NaN if one is not finite.
    """
    best, total = 0, scores[row, 0]
    for k in range(1, scores.shape[1]):
        total += scores[row, k]
        if scores[row, k] > scores[row, best]:
            best = k
    if not np.isfinite(total):
        return np.nan
    return np.float64(best) if scores.shape[1] > 1 else total


@nested_row
def wrong_output(scores: Doubles, row: int, true: int) -> int:
    """Return the index of the largest of scores[row] but the true class's, the first on a tie; -1 for one output."""
    if scores.shape[1] == 1:
        return -1
    best = 0 if true != 0 else 1
    for k in range(best + 1, scores.shape[1]):
        if k != true and scores[row, k] > scores[row, best]:
            best = k
    return best


@nested_row
def push_of(
    scores: Doubles, row: int, y: float, wrong: int, code: int, epsilon: float, class_weights: Doubles
) -> float:
    """Return minus the loss's derivative by the score of the true output, times the class's weight; 0 for no step.

    A step of s adds s * push * z to the weights of the true output, and takes it from those of the wrong one, if any.
    """
    if code == MULTICLASS_HINGE:
        true = int(y)
        weight: float = class_weights[true]
        return weight if scores[row, true] - scores[row, wrong] < 1.0 else 0.0
    push: float = -class_weights[class_weights.shape[0] - 1 if y > 0.0 else 0] * loss_slope(
        code, epsilon, scores[row, 0], y
    )
    return push


# Four rows at a time: scores, inner products and updates.
#
# Legend as in okl.compiled.experts: m_e the move of row e, w weights and pulls of one expert and output.

FOUR = 4

# A view of a row costs as much as a loop over it: references are counted in atomic steps. So rows are indices. Halves
# are an axis: an index that is a sum might be negative, for which numba would look in every step of a loop.


@nested_row_sum
def score_four(
    scores: Doubles,
    averaged: Doubles,
    weights: FloatArray,
    pulls: FloatArray,
    t: int,
    k: int,
    lefts: FloatArray,
    rights: FloatArray,
    a: int,
    b: int,
    c: int,
    d: int,
) -> None:
    """Overwrite scores[:, k] and averaged[:, k] by weights[t, k] and pulls[t, k] times the rows a, b, c and d."""
    zero = weights.dtype.type(0)
    e, f, g, h = zero, zero, zero, zero
    i, m, n, o = zero, zero, zero, zero
    for half in range(weights.shape[2]):
        part = lefts if half == 0 else rights
        for j in range(part.shape[1]):
            w, u = weights[t, k, half, j], pulls[t, k, half, j]
            p, q, r, s = part[a, j], part[b, j], part[c, j], part[d, j]
            e += w * p
            f += w * q
            g += w * r
            h += w * s
            i += u * p
            m += u * q
            n += u * r
            o += u * s
    scores[0, k], scores[1, k], scores[2, k], scores[3, k] = e, f, g, h
    averaged[0, k], averaged[1, k], averaged[2, k], averaged[3, k] = i, m, n, o


@nested_row_sum
def pair_four(gram: Doubles, lefts: FloatArray, rights: FloatArray, a: int, b: int, c: int, d: int) -> None:
    """Overwrite gram above its diagonal by the products of the rows a, b, c and d of the block with one another."""
    e, f, g = (lefts.dtype.type(0), lefts.dtype.type(0), lefts.dtype.type(0))
    h, i, o = (lefts.dtype.type(0), lefts.dtype.type(0), lefts.dtype.type(0))
    for part in (lefts, rights):
        for j in range(part.shape[1]):
            p, q, r, s = part[a, j], part[b, j], part[c, j], part[d, j]
            e += p * q
            f += p * r
            g += p * s
            h += q * r
            i += q * s
            o += r * s
    gram[0, 1], gram[0, 2], gram[0, 3] = e, f, g
    gram[1, 2], gram[1, 3], gram[2, 3] = h, i, o


@nested_row
def move_of(moves: Doubles, outputs: Integers, e: int, k: int) -> float:
    """Return what the e-th of four rows adds to output k, in features."""
    move: float = moves[e]
    if outputs[e, 0] == k:
        return move
    return -move if outputs[e, 1] == k else 0.0


@nested_row
def add_earlier(
    scores: Doubles, averaged: Doubles, gram: Doubles, moves: Doubles, ages: Doubles, outputs: Integers, i: int
) -> None:
    """Add what the rows before the i-th of four have changed to its scores, by weights and by pulls."""
    for e in range(i):
        if moves[e] != 0.0:
            change = moves[e] * gram[e, i]
            up, down = outputs[e, 0], outputs[e, 1]
            scores[i, up] += change
            averaged[i, up] += ages[e] * change
            if down >= 0:
                scores[i, down] -= change
                averaged[i, down] -= ages[e] * change


@nested_row
def take_four(
    weights: FloatArray,
    pulls: FloatArray,
    t: int,
    lefts: FloatArray,
    rights: FloatArray,
    a: int,
    b: int,
    c: int,
    d: int,
    moves: Doubles,
    ages: Doubles,
    outputs: Integers,
    shares: FloatArray,
) -> None:
    """Add the moves of four rows to weights[t] and pulls[t] in place; shares (2, 4) is overwritten."""
    for k in range(weights.shape[1]):
        moved = False
        for row in range(FOUR):
            move = move_of(moves, outputs, row, k)
            moved = moved or move != 0.0
            shares[0, row], shares[1, row] = move, ages[row] * move
        if not moved:
            continue
        e, f, g, h = shares[0, 0], shares[0, 1], shares[0, 2], shares[0, 3]
        i, m, n, o = shares[1, 0], shares[1, 1], shares[1, 2], shares[1, 3]
        for half in range(weights.shape[2]):
            part = lefts if half == 0 else rights
            for j in range(part.shape[1]):
                p, q, r, s = part[a, j], part[b, j], part[c, j], part[d, j]
                weights[t, k, half, j] += e * p + f * q + g * r + h * s
                pulls[t, k, half, j] += i * p + m * q + n * r + o * s


# Steps of fixed size, four rows at a time, exact.
#
# The weights before the first of four rows score all of them, so that what is loaded of a vector serves four
# products. What the rows before it in the four have changed is added to a score by the product of their features.
# When all four have been decided, the weights take their sum.
#
#     f_r = w'z_r + sum_(e<r) m_e z_e'z_r,    w <- w + sum_e m_e z_e,    m_e the move of row e, for each output
#
# Pulls go the same way, with moves times the age of their row. Legend as in okl.compiled.experts.


class ExpertWorkspace(NamedTuple):
    """Scratch for four rows, overwritten.

    scores, averaged : (4, K); gram : (4, 4), products of features, above the diagonal; moves, ages : (4,), all float64
    outputs : (4, 2) int64, those that a move is added to and taken from, -1 for none
    shares : (2, 4), what four rows add to the weights and the pulls of an output, in their precision
    """

    scores: Doubles
    averaged: Doubles
    gram: Doubles
    moves: Doubles
    ages: Doubles
    outputs: Integers
    shares: FloatArray


@nested
def new_workspace(weights: FloatArray) -> ExpertWorkspace:
    """Return scratch buffers for a team with weights (T, K, H, n)."""
    n_outputs = weights.shape[1]
    scores, averaged, gram = np.empty((FOUR, n_outputs)), np.empty((FOUR, n_outputs)), np.empty((FOUR, FOUR))
    moves, ages, outputs = np.empty(FOUR), np.empty(FOUR), np.empty((FOUR, 2), dtype=np.int64)
    return ExpertWorkspace(scores, averaged, gram, moves, ages, outputs, np.empty((2, FOUR), dtype=weights.dtype))


@nested_row
def learn_steps(
    results: ExpertPredictions,
    team: Team,
    workspace: ExpertWorkspace,
    block: Block,
    targets: Doubles,
    cautions: FloatArray,
    rule: ExpertRule,
    seen: int,
) -> None:
    """Score the rows of a block by each learner of a team, then train it on them; the first three change."""
    # tuples are taken apart before the loop: handing them on in it costs as much as a dot product
    predictions, stepped = results
    weights, pulls, _, steps = team
    scores, averaged, gram, moves, ages, outputs, shares = workspace
    lefts, rights = block
    code, epsilon, class_weights = rule
    n_rows, n_outputs = targets.shape[0], weights.shape[1]
    for first in range(0, n_rows, FOUR):
        # beyond the end the last row comes again, with moves of 0
        a, b, c, d = first, min(first + 1, n_rows - 1), min(first + 2, n_rows - 1), min(first + 3, n_rows - 1)
        count, paired = min(FOUR, n_rows - first), False
        for i in range(FOUR):
            ages[i] = age_of(seen + first + i)
        for i in range(count):
            stepped[first + i] = 0
        for t in range(weights.shape[0]):
            for k in range(n_outputs):
                score_four(scores, averaged, weights, pulls, t, k, lefts, rights, a, b, c, d)
            moves[:] = 0.0
            moved = False
            for i in range(count):
                row = first + i
                y = targets[row]
                if moved:
                    if not paired:
                        pair_four(gram, lefts, rights, a, b, c, d)
                        paired = True
                    add_earlier(scores, averaged, gram, moves, ages, outputs, i)
                for k in range(n_outputs):
                    share = averaged[i, k] / ages[i] if ages[i] > 0.0 else 0.0
                    averaged[i, k] = scores[i, k] - share
                predictions[row, t, LAST] = prediction_of(scores, i)
                predictions[row, t, AVERAGED] = prediction_of(averaged, i)
                true = int(y) if n_outputs > 1 else 0
                wrong = wrong_output(scores, i, true)
                push = push_of(scores, i, y, wrong, code, epsilon, class_weights)
                if push != 0.0:
                    moved = True
                    stepped[row] = 1
                    moves[i], outputs[i, 0], outputs[i, 1] = cautions[row] * steps[t] * push, true, wrong
            if moved:
                take_four(weights, pulls, t, lefts, rights, a, b, c, d, moves, ages, outputs, shares)


# A team of experts learns rows by steps of fixed size or by AdaGrad.
#
# Legend as in okl.compiled.experts.
#
# Source: Duchi, Hazan & Singer, JMLR 12, 2011, section 1.1 (AdaGrad).

_LEAST_SQUARE = 1e-30


@nested_row_sum
def score_row(
    scores: Doubles,
    averaged: Doubles,
    weights: FloatArray,
    pulls: FloatArray,
    t: int,
    lefts: FloatArray,
    rights: FloatArray,
    row: int,
    age: float,
) -> None:
    """Overwrite scores[0] and averaged[0] (K,) by those of a row by the last and the averaged weights."""
    for k in range(weights.shape[1]):
        f, h = weights.dtype.type(0), weights.dtype.type(0)
        for j in range(lefts.shape[1]):
            f += weights[t, k, 0, j] * lefts[row, j]
            h += pulls[t, k, 0, j] * lefts[row, j]
        for j in range(rights.shape[1]):
            f += weights[t, k, 1, j] * rights[row, j]
            h += pulls[t, k, 1, j] * rights[row, j]
        scores[0, k] = f
        averaged[0, k] = scores[0, k] - np.float64(h) / age if age > 0.0 else scores[0, k]


@nested_row
def adagrad_row(
    weights: FloatArray,
    pulls: FloatArray,
    squares: FloatArray,
    t: int,
    k: int,
    lefts: FloatArray,
    rights: FloatArray,
    row: int,
    push: np.floating[Any],
    step: np.floating[Any],
    age: np.floating[Any],
) -> None:
    """Take a step along push * z, scaled per column by past gradients; changes the first three in place."""
    least = weights.dtype.type(_LEAST_SQUARE)
    for half in range(weights.shape[2]):
        part = lefts if half == 0 else rights
        for j in range(part.shape[1]):
            ascent = push * part[row, j]
            square = squares[t, k, half, j] + ascent * ascent
            squares[t, k, half, j] = square
            change = step * ascent / np.sqrt(square + least)
            weights[t, k, half, j] += change
            pulls[t, k, half, j] += age * change


@nested_row
def learn_adaptively(
    results: ExpertPredictions,
    team: Team,
    workspace: ExpertWorkspace,
    block: Block,
    targets: Doubles,
    cautions: FloatArray,
    rule: ExpertRule,
    seen: int,
) -> None:
    """Train as `learn_steps` does, with AdaGrad's steps; results, team and workspace change in place."""
    predictions, stepped = results
    weights, pulls, squares, steps = team
    lefts, rights = block
    scores, averaged = workspace.scores, workspace.averaged
    code, epsilon, class_weights = rule
    kind, several = weights.dtype.type, weights.shape[1] > 1
    for row in range(targets.shape[0]):
        y, age = targets[row], age_of(seen + row)
        true = int(y) if several else 0
        stepped[row] = 0
        for t in range(weights.shape[0]):
            score_row(scores, averaged, weights, pulls, t, lefts, rights, row, age)
            predictions[row, t, LAST] = prediction_of(scores, 0)
            predictions[row, t, AVERAGED] = prediction_of(averaged, 0)
            wrong = wrong_output(scores, 0, true)
            push = push_of(scores, 0, y, wrong, code, epsilon, class_weights)
            if push != 0.0:
                stepped[row] = 1
                pushed, step, aged = kind(push), kind(cautions[row] * steps[t]), kind(age)
                adagrad_row(weights, pulls, squares, t, true, lefts, rights, row, pushed, step, aged)
                if wrong >= 0:
                    adagrad_row(weights, pulls, squares, t, wrong, lefts, rights, row, -pushed, step, aged)


@compiled
def learn_team(
    results: ExpertPredictions,
    team: Team,
    block: Block,
    targets: Doubles,
    cautions: FloatArray,
    rule: ExpertRule,
    seen: int,
) -> None:
    """Score a row by each learner of a team, then train it on the row; results and team change in place.

    cautions : (rows,) float64, factors of steps; seen : rows that the team has learned before
    """
    workspace = new_workspace(team.weights)
    if team.squares.shape[0] > 0:
        learn_adaptively(results, team, workspace, block, targets, cautions, rule, seen)
    else:
        learn_steps(results, team, workspace, block, targets, cautions, rule, seen)


# Teams of experts in Fourier maps that are multiples of a few.
#
# Every map has a turn of its own: while one thread learns a block in the second map, another may learn the next block
# in the first.
#
# Legend: M maps, T step sizes, K outputs.


class Teams(NamedTuple):
    """Teams of M Fourier maps whose frequencies are multiples of a few base ones: (M, T, K, H, n) and (M, T).

    squares : (M, 0, 0, 0, 0), steps are of fixed size
    base, octave : (M,) int64: the map's frequencies are those of panels[base] times 2^octave; sorted by both
    panels : (bases, ...), packed frequencies over pi; n_frequencies, amplitude : as in Waves
    """

    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray
    steps: Doubles
    base: Integers
    octave: Integers
    panels: FloatArray
    n_frequencies: int
    amplitude: np.floating[Any]


@compiled
def double_angles(sines: FloatArray, cosines: FloatArray, amplitude: np.floating[Any]) -> None:
    """Overwrite amplitude * sine and amplitude * cosine of angles by those of twice the angles."""
    factor = sines.dtype.type(2) / amplitude
    for row in range(sines.shape[0]):
        sine, cosine = sines[row], cosines[row]
        for j in range(sines.shape[1]):
            s, c = sine[j], cosine[j]
            sine[j] = factor * s * c
            cosine[j] = amplitude - factor * s * s


@nested
def blank_beyond(block: Block, n_frequencies: int) -> None:
    """Overwrite the padding of the rows of a block, which fills cache lines, by zeros."""
    for part in block:
        for row in range(part.shape[0]):
            part[row, n_frequencies:] = 0


@compiled
def learn_teams(
    predictions: Doubles,
    stepped: NDArray[np.uint8],
    teams: Teams,
    turns: Integers,
    block: Block,
    inputs: FloatArray,
    targets: Doubles,
    rule: ExpertRule,
    seen: int,
    mixture: Mixture,
) -> bool:
    """Learn rows by all teams; predictions (M, rows, T, 2), stepped (M, rows), teams, turns and block change in place.

    The sines of a base map are computed once a block; those of its multiples follow by doubling angles, in the same way
    whichever teams are there. Returns False if another thread failed.

    turns : (M + 1, 8), a turn for each map and for the mixture; threads claim blocks from the first
    block : halves as wide as weights; mixture : of all experts if these are all, mixed a block after the other
    """
    size, n_rows = block.left.shape[0], inputs.shape[0]
    cautions, workspace = np.ones(size), new_workspace(teams.weights[0])
    index = claim_block(turns[0])
    while index * size < n_rows:
        first, last = index * size, min((index + 1) * size, n_rows)
        part, y = Block(block.left[: last - first], block.right[: last - first]), targets[first:last]
        base, octave = -1, 0
        for m in range(teams.weights.shape[0]):
            if teams.base[m] != base:
                base, octave = teams.base[m], 0
                project(part.left, inputs[first:last], teams.panels[base])
                sines_and_cosines(part.left, part.right, teams.amplitude)
            while octave < teams.octave[m]:
                double_angles(part.left, part.right, teams.amplitude)
                octave += 1
            blank_beyond(part, teams.n_frequencies)
            team = Team(teams.weights[m], teams.pulls[m], teams.squares[m], teams.steps[m])
            results = ExpertPredictions(predictions[m, first:last], stepped[m, first:last])
            if not wait_turn(turns[m], index):
                return False
            learn_steps(results, team, workspace, part, y, cautions, rule, seen + first)
            pass_turn(turns[m], index + 1)
        if mixture.complete:
            if not wait_turn(turns[-1], index):
                return False
            here = predictions[0, first:last].reshape(last - first, predictions.shape[2] * predictions.shape[3])
            mix_rows(mixture, here, stepped[0, first:last], y, rule)
            pass_turn(turns[-1], index + 1)
        index = claim_block(turns[0])
    return True
