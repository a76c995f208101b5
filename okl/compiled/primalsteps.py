"""Pegasos: steps of 1 / (lam t) down the hinge of a few rows, with the weights carried as a multiple of a sum of rows.

After step t the weights are w = c x / (lam t): the shrinking of all weights by 1 - 1 / t, which every step begins with,
is in that factor, and a row that violates its margin adds y z / (k c) to x, for k rows a step. The projection onto the
ball of radius lam^(-1/2) changes c alone. A weighted sum of all weights so far is W x - u: W sums the factors of x, and
whatever is added to x adds W as it was before to u; so an average costs nothing where nothing is violated.

Legend: x points (n_outputs, n), u behind (n_outputs, n) float64, c SCALE, t STEPS, W FACTORS, Z rows (m, n).

Source: Shalev-Shwartz, Singer, Srebro & Cotter, Mathematical Programming 127, 2011, Figures 1 to 3; several
classes: Crammer & Singer, JMLR 2, 2001; averages: Lacoste-Julien, Schmidt & Bach, arXiv 1212.2002, 2012.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.counting import ROWS, UPDATES, count_binary, count_class
from okl.compiled.door import compiled_row
from okl.compiled.fourier import dot
from okl.compiled.kernelrows import kernel_row, kernel_self
from okl.compiled.kernelrule import KernelRule
from okl.compiled.steplosses import best_wrong
from okl.types import FloatArray

Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]

STEPS, SCALE, FACTORS, TOTAL, SQUARE = 0, 1, 2, 3, 4
"""Places in numbers (5,): t, c, W, the sum of what the weights counted, and ||x||^2 where a kernel carries it."""
NO_AVERAGE, UNIFORM, LATER_MORE = 0, 1, 2
_LEAST_SCALE = 0.5


class Steps(NamedTuple):
    """How a step is taken.

    lam : > 0; batch : rows a step, >= 1; project : whether steps end in the ball; average : NO_AVERAGE, UNIFORM, or
    LATER_MORE: step t counts t times
    """

    lam: float
    batch: int
    project: bool
    average: int


class Carried(NamedTuple):
    """All that learning changes in place.

    points : (n_outputs, n), in the rows' precision; behind : the same in float64; numbers : (5,) float64
    counts, class_counts : as in okl.compiled.counting
    """

    points: FloatArray
    behind: Doubles
    numbers: Doubles
    counts: Integers
    class_counts: Integers


@compiled_row
def step_rows(
    carried: Carried,
    scores: FloatArray,
    changes: Doubles,
    wrongs: Integers,
    rows: FloatArray,
    targets: Doubles,
    picks: Integers,
    steps: Steps,
) -> None:
    """Learn rows picks (n_picks,), batch by batch; what is carried changes in place.

    scores : (n_outputs,), changes, wrongs : (batch,), buffers; targets : (m,), -1 and +1, or classes from 0 on
    """
    points, behind, numbers = carried.points, carried.behind, carried.numbers
    for first in range(0, picks.shape[0], steps.batch):
        last = min(first + steps.batch, picks.shape[0])
        factor = _weights_factor(numbers, steps.lam)
        for place in range(first, last):
            i = picks[place]
            for output in range(points.shape[0]):
                scores[output] = factor * dot(points[output], rows[i])
            changes[place - first] = _violation(carried, wrongs, scores, targets[i], place - first)
        hits = 0
        for place in range(first, last):
            if changes[place - first] != 0.0:
                added = changes[place - first] / ((last - first) * numbers[SCALE])
                output = int(targets[picks[place]]) if points.shape[0] > 1 else 0
                row, wrong = rows[picks[place]], wrongs[place - first]
                _add_row(points[output], behind[output], row, added, numbers[FACTORS], steps.average)
                if wrong >= 0:
                    _add_row(points[wrong], behind[wrong], row, -added, numbers[FACTORS], steps.average)
                hits += 1
        carried.counts[UPDATES] += hits
        if steps.project and hits > 0:
            numbers[SQUARE] = 0.0
            for output in range(points.shape[0]):
                numbers[SQUARE] += dot(points[output], points[output])
        _end_step(numbers, steps, hits > 0)
        if numbers[SCALE] < _LEAST_SCALE:
            _settle(points, behind, numbers)


@compiled_row
def _violation(carried: Carried, wrongs: Integers, scores: FloatArray, y: float, place: int) -> float:
    """Count a row with these scores; +1 or -1 for its class where its hinge is positive, else 0; sets wrongs."""
    carried.counts[ROWS] += 1
    wrongs[place] = -1
    if scores.shape[0] == 1:
        f = np.float64(scores[0])
        count_binary(carried.counts, carried.class_counts, f, y)
        return y if y * f < 1.0 else 0.0
    true = int(y)
    count_class(carried.counts, carried.class_counts, scores, true)
    wrongs[place] = best_wrong(scores, true)
    return 1.0 if np.float64(scores[true]) - np.float64(scores[wrongs[place]]) < 1.0 else 0.0


@compiled_row
def _weights_factor(numbers: Doubles, lam: float) -> float:
    """What x is to be multiplied by for the weights, 0 before the first step."""
    return numbers[SCALE] / (lam * numbers[STEPS]) if numbers[STEPS] > 0.0 else 0.0


@compiled_row
def _add_row(point: FloatArray, behind: Doubles, row: FloatArray, added: float, factors: float, average: int) -> None:
    """Add a row times added to x, and times W as well to u where there is an average."""
    factor = point.dtype.type(added)
    for j in range(point.shape[0]):
        point[j] += factor * row[j]
    if average != NO_AVERAGE:
        late = added * factors
        for j in range(point.shape[0]):
            behind[j] += late * row[j]


@compiled_row
def _end_step(numbers: Doubles, steps: Steps, moved: bool) -> None:
    """Count the step, project if asked to, and let the weights count for the average; numbers change in place."""
    numbers[STEPS] += 1.0
    if steps.project and moved:
        most = math.sqrt(steps.lam) * numbers[STEPS]  # ||c x|| at the border of the ball
        length = numbers[SCALE] * math.sqrt(max(numbers[SQUARE], 0.0))
        if length > most:
            numbers[SCALE] *= most / length
    if steps.average != NO_AVERAGE:
        share = numbers[STEPS] if steps.average == LATER_MORE else 1.0
        numbers[FACTORS] += share * _weights_factor(numbers, steps.lam)
        numbers[TOTAL] += share


@compiled_row
def _settle(points: FloatArray, behind: Doubles, numbers: Doubles) -> None:
    """Put c into x, and W x into u, in place: sums of what was added before projections would cancel digits."""
    scale = points.dtype.type(numbers[SCALE])
    for output in range(points.shape[0]):
        for j in range(points.shape[1]):
            behind[output, j] -= numbers[FACTORS] * points[output, j]
            points[output, j] *= scale
    numbers[SQUARE] *= numbers[SCALE] * numbers[SCALE]
    numbers[SCALE], numbers[FACTORS] = 1.0, 0.0


@compiled_row
def step_kernel(
    carried: Carried,
    scores: Doubles,
    changes: Doubles,
    room: FloatArray,
    matrix: FloatArray,
    supports: FloatArray,
    kernel: KernelRule,
    targets: Doubles,
    picks: Integers,
    steps: Steps,
) -> None:
    """The same with a kernel and two classes: points and behind (1, m) are coefficients of the rows.

    scores : (m,), K x of all rows, carried; changes : (batch,), a buffer; room : (capacity,), a buffer for a row of K,
    which is computed where matrix is empty (0, 0): from supports (n_inputs, capacity), a column a row
    """
    points, behind, numbers = carried.points[0], carried.behind[0], carried.numbers
    for first in range(0, picks.shape[0], steps.batch):
        last = min(first + steps.batch, picks.shape[0])
        factor, hits = _weights_factor(numbers, steps.lam), 0
        for place in range(first, last):
            y, f = targets[picks[place]], factor * scores[picks[place]]
            count_binary(carried.counts, carried.class_counts, f, y)
            carried.counts[ROWS] += 1
            changes[place - first] = y if y * f < 1.0 else 0.0
        for place in range(first, last):
            if changes[place - first] != 0.0:
                i, added = picks[place], changes[place - first] / ((last - first) * numbers[SCALE])
                diagonal = matrix[i, i] if matrix.shape[0] > 0 else kernel_self(supports[:, i], kernel)
                numbers[SQUARE] += added * (2.0 * scores[i] + added * diagonal)
                points[i] += points.dtype.type(added)
                behind[i] += added * numbers[FACTORS]
                if matrix.shape[0] > 0:
                    _add_scores(scores, matrix[i], added)
                else:
                    kernel_row(room, supports, supports[:, i], kernel)
                    _add_scores(scores, room, added)
                hits += 1
        carried.counts[UPDATES] += hits
        _end_step(numbers, steps, hits > 0)
        if numbers[SCALE] < _LEAST_SCALE:
            for j in range(scores.shape[0]):
                scores[j] *= numbers[SCALE]
            _settle(carried.points, carried.behind, numbers)


@compiled_row
def _add_scores(scores: Doubles, row: FloatArray, factor: float) -> None:
    for j in range(scores.shape[0]):
        scores[j] += factor * row[j]
