"""Bounded gradient descent with uniform removal (BOGD), and NORMA, which truncates: both let coefficients decay."""

from __future__ import annotations

from okl.compiled.budget import (
    COUNT,
    FIRST_FLOAT,
    SCALE,
    BudgetRule,
    Doubles,
    Kept,
    Seen,
    count_row,
    draw_uniform,
    gradient_step,
    score_row,
)
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.steplosses import MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED
from okl.compiled.supports import drop_support, oldest_support, put_support, rescale
from okl.types import FloatArray

MARGIN = FIRST_FLOAT  # place in floats: NORMA's margin, or the threshold of a regression


@compiled_row
def clip(coefficients: FloatArray, largest: float) -> None:
    """Bring coefficients (n_outputs, capacity) into [-largest, largest]."""
    limit = coefficients.dtype.type(largest)
    for k in range(coefficients.shape[0]):
        for i in range(coefficients.shape[1]):
            coefficients[k, i] = min(max(coefficients[k, i], -limit), limit)


@compiled_row
def learn_bounded_gradient(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order; kept changes in place.

    parameters : step_size; decay, 1 - step_size * regularisation; whether all others grow when a support goes; the
    largest coefficient, infinity for none; whether the oldest support goes, and not a random one

    Source: Zhao, Wang, Wu, Jin & Hoi, ICML 2012, BOGD by uniform sampling.
    """
    supports, coefficients, marks, _, integers, floats, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, epsilon, budget, parameters = rule
    step_size, decay, grows = parameters[0], parameters[1], parameters[2]
    largest, oldest = parameters[3], parameters[4]
    for index in range(inputs.shape[0]):
        x = inputs[index]
        score_row(scores, row, supports, coefficients, x, kernel, integers[COUNT], floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        step = gradient_step(code, epsilon, step_size, seen)
        rescale(coefficients, floats, decay)
        if step == 0.0:
            continue
        slot = integers[COUNT]
        if slot == budget:
            slot = oldest_support(marks, budget) if oldest > 0.0 else int(draw_uniform(integers) * budget)
            if grows > 0.0 and budget > 1:
                rescale(coefficients, floats, budget / (budget - 1.0))
        put_support(supports, coefficients, marks, integers, x, slot, seen, step / floats[SCALE])
        if largest < 1e300:
            clip(coefficients, largest / floats[SCALE])
        counts[UPDATES] += 1


@compiled_row
def drop_bounded(kept: Kept, rule: BudgetRule) -> None:
    """Take supports out as BOGD does, the others growing, until the budget is met; kept changes in place."""
    supports, coefficients, marks, _, integers, floats, _, _, _, _, _, _, _ = kept
    grows, largest, oldest = rule.parameters[2], rule.parameters[3], rule.parameters[4]
    while integers[COUNT] > rule.budget:
        count = integers[COUNT]
        slot = oldest_support(marks, count) if oldest > 0.0 else int(draw_uniform(integers) * count)
        drop_support(supports, coefficients, marks, integers, slot)
        if grows > 0.0 and count > 1:
            rescale(coefficients, floats, count / (count - 1.0))
    if largest < 1e300:
        clip(coefficients, largest / floats[SCALE])


@compiled_row
def norma_step(code: int, step_size: float, share: float, floats: Doubles, seen: Seen) -> float:
    """Coefficient of NORMA for a row, 0 for none; the margin in floats moves, unless share < 0.

    share : nu, the share of rows that shall be beyond the margin

    Source: Kivinen, Smola & Williamson, IEEE Trans. Signal Processing 52(8), 2004, section III (nu trick).
    """
    margin = floats[MARGIN]
    if code == THRESHOLDED_HALF_SQUARED:
        beyond, towards = abs(seen.margin) > margin, step_size
        size = step_size if seen.margin > 0.0 else -step_size
    else:
        beyond, towards = seen.margin < margin, -step_size
        size = step_size if code == MULTICLASS_HINGE else step_size * seen.y
    if share >= 0.0:
        floats[MARGIN] += towards * (1.0 - share if beyond else -share)
    return size if beyond else 0.0


@compiled_row
def learn_norma(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule) -> None:
    """Learn rows in order; kept changes in place. parameters : step_size, decay, share (nu).

    Source: Kivinen, Smola & Williamson, IEEE Trans. Signal Processing 52(8), 2004, Figure 1, with truncation.
    """
    supports, coefficients, marks, _, integers, floats, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, _, budget, parameters = rule
    for index in range(inputs.shape[0]):
        x = inputs[index]
        score_row(scores, row, supports, coefficients, x, kernel, integers[COUNT], floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        step = norma_step(code, parameters[0], parameters[2], floats, seen)
        rescale(coefficients, floats, parameters[1])
        if step == 0.0:
            continue
        slot = integers[COUNT]
        if slot == budget:
            slot = oldest_support(marks, budget)
        put_support(supports, coefficients, marks, integers, x, slot, seen, step / floats[SCALE])
        counts[UPDATES] += 1


@compiled_row
def drop_oldest(kept: Kept, rule: BudgetRule) -> None:
    """Take the oldest supports out until the budget is met; kept changes in place."""
    supports, coefficients, marks, _, integers = kept[:5]
    while integers[COUNT] > rule.budget:
        drop_support(supports, coefficients, marks, integers, oldest_support(marks, integers[COUNT]))
