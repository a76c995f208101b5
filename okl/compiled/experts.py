"""Learners of one feature map that differ in their step size, side by side: each a pair of experts, last and averaged.

The weights after rows 1, 2, ... are averaged with weights that grow as the third power of the row's number. The average
is never formed: with s_i = i^4 it is w_n - pull_n / s_n, pull_n = sum_i s_(i-1) (w_i - w_(i-1)), as summation by parts
shows, so that a row which leaves the weights alone costs nothing.

Legend: K outputs, T step sizes, M maps; w weights, u pulls, q sums of squared gradients, z features, y target, f score.

Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5 (steps); Shamir & Zhang, ICML 2013, section 4 (averages that
favour late rows); Duchi, Hazan & Singer, JMLR 12, 2011, section 1.1 (AdaGrad).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.door import compiled, compiled_sum
from okl.compiled.fourier import Waves, map_block
from okl.compiled.projection import project
from okl.compiled.turns import pass_turn, wait_turn
from okl.compiled.updates import MULTICLASS_HINGE, best_wrong, slope
from okl.compiled.waves import sines_and_cosines
from okl.types import FloatArray

LAST, AVERAGED = 0, 1
_AGE_UNIT = 2.0**-20  # rows in millions: the fourth power of a billion rows still fits float32
_LEAST_SQUARE = 1e-30


class Team(NamedTuple):
    """What learns in one map, changed in place: (T, K, n_columns) each.

    weights : after the last row; pulls : see above; squares : of AdaGrad, (0, 0, 0) for steps of fixed size
    steps : (T,) float64, step sizes on the map's scale
    """

    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray
    steps: NDArray[np.float64]


class Teams(NamedTuple):
    """Teams of M Fourier maps whose frequencies are multiples of a few base ones: (M, T, K, n_columns) and (M, T).

    squares : (M, 0, 0, 0) for steps of fixed size
    base, octave : (M,) int64: the map's frequencies are those of panels[base] times 2^octave; sorted by both
    panels : (bases, ...), packed frequencies over pi; amplitude : as in Waves
    """

    weights: FloatArray
    pulls: FloatArray
    squares: FloatArray
    steps: NDArray[np.float64]
    base: NDArray[np.int64]
    octave: NDArray[np.int64]
    panels: FloatArray
    amplitude: np.floating[Any]


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


@compiled_sum
def _two_dots(w: FloatArray, u: FloatArray, z: FloatArray) -> tuple[Any, Any]:
    f, h = w.dtype.type(0), w.dtype.type(0)
    for j in range(z.shape[0]):
        f += w[j] * z[j]
        h += u[j] * z[j]
    return f, h


@compiled
def _plain_step(w: FloatArray, u: FloatArray, z: FloatArray, factor: np.floating[Any], age: np.floating[Any]) -> None:
    for j in range(z.shape[0]):
        change = factor * z[j]
        w[j] += change
        u[j] += age * change


@compiled
def _adagrad_step(
    w: FloatArray,
    u: FloatArray,
    q: FloatArray,
    z: FloatArray,
    g: np.floating[Any],
    step: np.floating[Any],
    age: np.floating[Any],
) -> None:
    least = w.dtype.type(_LEAST_SQUARE)
    for j in range(z.shape[0]):
        gradient = g * z[j]
        q[j] += gradient * gradient
        change = -step * gradient / np.sqrt(q[j] + least)
        w[j] += change
        u[j] += age * change


@compiled
def step_one(
    w: FloatArray, u: FloatArray, left: FloatArray, right: FloatArray, factor: np.floating[Any], age: np.floating[Any]
) -> None:
    """Add factor * z to w, and its share to u, in place; age : that of the rows before."""
    width = left.shape[0]
    _plain_step(w[:width], u[:width], left, factor, age)
    _plain_step(w[width:], u[width:], right, factor, age)


@compiled
def adagrad_one(
    w: FloatArray,
    u: FloatArray,
    q: FloatArray,
    left: FloatArray,
    right: FloatArray,
    g: np.floating[Any],
    step: np.floating[Any],
    age: np.floating[Any],
) -> None:
    """Step against the gradient g z, each column in the size of its own gradients; w, u and q change in place."""
    width = left.shape[0]
    _adagrad_step(w[:width], u[:width], q[:width], left, g, step, age)
    _adagrad_step(w[width:], u[width:], q[width:], right, g, step, age)


@compiled
def score_one(w: FloatArray, u: FloatArray, left: FloatArray, right: FloatArray, age: float) -> tuple[float, float]:
    """Scores of the last and of the averaged weights."""
    width = left.shape[0]
    f_left, h_left = _two_dots(w[:width], u[:width], left)
    f_right, h_right = _two_dots(w[width:], u[width:], right)
    f = np.float64(f_left + f_right)
    return f, (f - np.float64(h_left + h_right) / age if age > 0.0 else f)


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
    kind, adaptive = weights.dtype.type, squares.shape[0] > 0
    for row in range(targets.shape[0]):
        left, right, y, age = lefts[row], rights[row], targets[row], age_of(seen + row)
        weight = class_weights[1 if y > 0.0 and class_weights.shape[0] > 1 else 0]
        stepped[row] = 0
        for t in range(steps.shape[0]):
            w, u = weights[t, 0], pulls[t, 0]
            f, averaged = score_one(w, u, left, right, age)
            words[row, t, LAST] = f if np.isfinite(f) else np.nan
            words[row, t, AVERAGED] = averaged if np.isfinite(averaged) else np.nan
            g = weight * slope(code, epsilon, f, y)
            if g != 0.0:
                stepped[row] = 1
                if adaptive:
                    adagrad_one(w, u, squares[t, 0], left, right, kind(g), kind(steps[t]), kind(age))
                else:
                    step_one(w, u, left, right, kind(-steps[t] * g * cautions[row]), kind(age))


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
    words, stepped = said
    weights, pulls, squares, steps = team
    lefts, rights = block
    class_weights = rule.class_weights
    kind, adaptive, n_classes = weights.dtype.type, squares.shape[0] > 0, weights.shape[1]
    last, averaged = np.empty(n_classes), np.empty(n_classes)
    for row in range(targets.shape[0]):
        left, right, true, age = lefts[row], rights[row], int(targets[row]), age_of(seen + row)
        weight = class_weights[true]
        stepped[row] = 0
        for t in range(steps.shape[0]):
            for k in range(n_classes):
                last[k], averaged[k] = score_one(weights[t, k], pulls[t, k], left, right, age)
            words[row, t, LAST] = np.argmax(last) if np.isfinite(last.sum()) else np.nan
            words[row, t, AVERAGED] = np.argmax(averaged) if np.isfinite(averaged.sum()) else np.nan
            wrong = best_wrong(last, true)
            if last[true] - last[wrong] < 1.0 and weight > 0.0:
                stepped[row] = 1
                for k, g in ((true, -weight), (wrong, weight)):
                    w, u = weights[t, k], pulls[t, k]
                    if adaptive:
                        adagrad_one(w, u, squares[t, k], left, right, kind(g), kind(steps[t]), kind(age))
                    else:
                        step_one(w, u, left, right, kind(-steps[t] * g * cautions[row]), kind(age))


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

    cautions : (rows,) float64, factors of steps of fixed size; seen : rows that the team has learnt before
    """
    if rule.code == MULTICLASS_HINGE:
        _learn_classes(said, team, block, targets, cautions, rule, seen)
    else:
        _learn_one_output(said, team, block, targets, cautions, rule, seen)


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


@compiled
def learn_teams(
    words: NDArray[np.float64],
    stepped: NDArray[np.uint8],
    teams: Teams,
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    rule: ExpertRule,
    seen: int,
    first_team: int,
    last_team: int,
) -> None:
    """Teams first_team .. last_team - 1 learn all rows; words (M, rows, T, 2), stepped (M, rows), teams, block change.

    The sines of a base map are computed once; those of its multiples follow by doubling angles, in the same way
    whichever teams are there.
    """
    size = block.left.shape[0]
    cautions = np.ones(size)
    for first in range(0, inputs.shape[0], size):
        last = min(first + size, inputs.shape[0])
        part = Block(block.left[: last - first], block.right[: last - first])
        base, octave = -1, 0
        for m in range(first_team, last_team):
            if teams.base[m] != base:
                base, octave = teams.base[m], 0
                project(part.left, inputs[first:last], teams.panels[base])
                sines_and_cosines(part.left, part.right, teams.amplitude)
            while octave < teams.octave[m]:
                double_angles(part.left, part.right, teams.amplitude)
                octave += 1
            team = Team(teams.weights[m], teams.pulls[m], teams.squares[m], teams.steps[m])
            said = Said(words[m, first:last], stepped[m, first:last])
            learn_team(said, team, part, targets[first:last], cautions, rule, seen + first)


@compiled
def learn_team_in_turns(
    said: Said,
    team: Team,
    turns: NDArray[np.int64],
    block: Block,
    inputs: FloatArray,
    targets: NDArray[np.float64],
    waves: Waves,
    rule: ExpertRule,
    seen: int,
    thread: int,
    n_threads: int,
) -> bool:
    """One team learns rows, threads map its blocks; changes said, team, turns, block. False if another thread failed."""
    size = block.left.shape[0]
    cautions = np.ones(size)
    for index in range(thread, (inputs.shape[0] + size - 1) // size, n_threads):
        first, last = index * size, min((index + 1) * size, inputs.shape[0])
        part = Block(block.left[: last - first], block.right[: last - first])
        map_block(part, inputs[first:last], waves)
        if not wait_turn(turns, index):
            return False
        here = Said(said.words[first:last], said.stepped[first:last])
        learn_team(here, team, part, targets[first:last], cautions, rule, seen + first)
        pass_turn(turns, index + 1)
    return True
