"""The exact minimum of a piecewise quadratic along a line: its kinks, and where the derivative changes sign.

Along a direction the losses of rows are piecewise linear in the step t, and the regulariser is one parabola. The
derivative slope + curvature t + (jumps of the kinks passed) never falls, so that the minimum is found by selection, as
a median is: in time proportional to the kinks, without sorting them.

A row that stands on a kink has passed it already, in the derivative at 0 as here: it must not count twice.

Legend: positions, jumps (at least as long as there are kinks) of the kinks at t > 0; scores, along, targets as in
`piecewise`; slope the derivative of the parabola at 0, curvature its second one.
"""

from __future__ import annotations

import math

from okl.compiled.door import compiled, compiled_row
from okl.compiled.piecewise import ON_KINK, classes_line, hinge_line, tube_line, worst_class
from okl.types import FloatArray


@compiled
def hinge_kinks(
    positions: FloatArray,
    jumps: FloatArray,
    scores: FloatArray,
    along: FloatArray,
    targets: FloatArray,
    slope: float,
    curvature: float,
    longest: float,
    scale: float,
) -> tuple[int, float]:
    """Overwrite positions and jumps by the kinks of scale * sum_i max(0, 1 - y_i (s_i + t d_i)) that may matter.

    Returns their number, and the right-hand derivative of the whole at t = 0.
    """
    total = slope + scale * hinge_line(scores, along, targets, 0.0)[1]
    limit, count = _limit(total, curvature, longest), 0
    for i in range(scores.shape[0]):
        speed = targets[i] * along[i]
        room = 1.0 - targets[i] * scores[i]
        # written whether it matters or not, and then over: a branch here is as good as random
        positions[count] = room / speed
        jumps[count] = scale * abs(speed)
        count += int((speed * room > 0.0) & (abs(room) > ON_KINK) & (abs(room) < limit * abs(speed)))
    return count, total


@compiled
def tube_kinks(
    positions: FloatArray,
    jumps: FloatArray,
    scores: FloatArray,
    along: FloatArray,
    targets: FloatArray,
    half_width: float,
    slope: float,
    curvature: float,
    longest: float,
    scale: float,
) -> tuple[int, float]:
    """The same for scale * sum_i max(0, |s_i + t d_i - y_i| - e): two kinks a row at most."""
    total = slope + scale * tube_line(scores, along, targets, half_width, 0.0)[1]
    limit, count = _limit(total, curvature, longest), 0
    for i in range(scores.shape[0]):
        speed = abs(along[i])
        if speed > 0.0:
            behind = (scores[i] - targets[i]) * (1.0 if along[i] > 0.0 else -1.0)
            for edge in (-half_width, half_width):
                if ON_KINK < edge - behind < limit * speed:
                    positions[count] = (edge - behind) / speed
                    jumps[count] = scale * speed
                    count += 1
    return count, total


@compiled
def classes_kinks(
    positions: FloatArray,
    jumps: FloatArray,
    scores: FloatArray,
    along: FloatArray,
    targets: FloatArray,
    slope: float,
    curvature: float,
    longest: float,
    scale: float,
) -> tuple[int, float]:
    """The same for scale * sum_i max_c ([c != y_i] + s_ic - s_iy) along d: K - 1 kinks a row at most."""
    total = slope + scale * classes_line(scores, along, targets, 0.0)[1]
    limit, count = _limit(total, curvature, longest), 0
    for i in range(scores.shape[0]):
        true, n_classes = int(targets[i]), scores.shape[1]
        at, top = worst_class(scores[i], along[i], true, 0.0), 0.0
        for _ in range(n_classes):
            top, following = _next_line(scores[i], along[i], true, at)
            if following < 0 or top >= limit:
                break
            if top > 0.0:
                positions[count] = top
                jumps[count] = scale * (along[i, following] - along[i, at])
                count += 1
            at = following
    return count, total


@compiled_row
def _limit(total: float, curvature: float, longest: float) -> float:
    # the losses' derivative never falls: beyond this the whole rises
    return min(longest, -total / curvature) if curvature > 0.0 else longest


@compiled_row
def _next_line(scores: FloatArray, along: FloatArray, true: int, at: int) -> tuple[float, int]:
    """Where a steeper line first overtakes line `at`, and which; class -1 if none does."""
    top, following, steepest = math.inf, -1, along[at]
    value = scores[at] - scores[true] + (0.0 if at == true else 1.0)
    for c in range(scores.shape[0]):
        if along[c] > along[at]:
            lead = value - (scores[c] - scores[true] + (0.0 if c == true else 1.0))
            cross = max(0.0, lead / (along[c] - along[at]))
            if cross < top or (cross == top and along[c] > steepest):
                top, following, steepest = cross, c, along[c]
    return top, following


@compiled
def least_step(
    positions: FloatArray, jumps: FloatArray, count: int, slope: float, curvature: float, longest: float
) -> float:
    """Reorder positions and jumps; the step in [0, longest] where slope + curvature t + jumps passed changes sign."""
    if slope >= 0.0:
        return 0.0
    # what is left of a flat piece's derivative is rounding: the kink behind it is the end of it
    first, last, passed, state = 0, count, slope, 12345
    while first < last:
        # a drawn pivot: no order of kinks is a bad one
        state = (state * 1103515245 + 12345) % 2147483648
        pivot = positions[first + state % (last - first)]
        below, above, left, equal = _part(positions, jumps, first, last, pivot)
        before = passed + left + curvature * pivot
        if before >= 0.0:
            last, longest = below, min(pivot, longest)
        elif before + equal >= 0.0:
            return float(min(pivot, longest))
        else:
            first = above
            passed += left + equal
    return float(min(-passed / curvature, longest)) if curvature > 0.0 else longest


@compiled_row
def _part(
    positions: FloatArray, jumps: FloatArray, first: int, last: int, pivot: float
) -> tuple[int, int, float, float]:
    """Bring what is below the pivot to the front and what is above to the end; both borders, the jumps below and at."""
    below, place, above, left, equal = first, first, last, 0.0, 0.0
    while place < above:
        position = positions[place]
        if position < pivot:
            left += jumps[place]
            _swap(positions, jumps, below, place)
            below += 1
            place += 1
        elif position > pivot:
            above -= 1
            _swap(positions, jumps, above, place)
        else:
            equal += jumps[place]
            place += 1
    return below, above, left, equal


@compiled_row
def _swap(positions: FloatArray, jumps: FloatArray, one: int, other: int) -> None:
    positions[one], positions[other] = positions[other], positions[one]
    jumps[one], jumps[other] = jumps[other], jumps[one]
