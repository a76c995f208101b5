"""BPA-P: passive-aggressive learning whose removed support is projected onto all that stay, the row among them.

What removing support r costs is |a_r|^2 / G_rr, G the inverse of the kernel matrix of supports and row: 1 / G_rr is the
squared distance of k(x_r, .) to the span of the others. A row closer to the span of the supports than `dependence` of
its own square norm is never a support: its step is spread over them, which loses nothing.
"""

from __future__ import annotations

from okl.compiled.budget import COUNT, SCALE, BudgetRule, Doubles, Kept, count_row, score_row, used_width
from okl.compiled.budgetpassive import AGGRESSIVENESS, cheapest, passive_step, square_norms, take_place
from okl.compiled.budgetprojection import add_projection
from okl.compiled.counting import UPDATES
from okl.compiled.door import compiled_row
from okl.compiled.inverse import grow_inverse, project_row, replace_in_inverse, shrink_inverse
from okl.compiled.kernelrows import kernel_self
from okl.compiled.supports import drop_support, put_support
from okl.types import FloatArray


@compiled_row
def learn_bpa_projection(kept: Kept, inputs: FloatArray, targets: Doubles, rule: BudgetRule, dependence: float) -> None:
    """Learn rows in order; kept changes in place. parameters : aggressiveness C.

    memory : (3 + capacity, capacity), a buffer for a projection, the inverse of the kernel matrix, two more buffers

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-P).
    """
    supports, coefficients, marks, memory, integers, floats, counts, sums, class_counts, row, _, _, scores = kept
    kernel, code, _, budget, parameters = rule
    buffer, inverse, costs, shares = memory[0], memory[1:], memory[memory.shape[0] - 2], memory[memory.shape[0] - 1]
    for index in range(inputs.shape[0]):
        x, count = inputs[index], integers[COUNT]
        score_row(scores, row, supports, coefficients, x, kernel, count, floats[SCALE])
        seen = count_row(scores, counts, sums, class_counts, targets[index], code)
        own = kernel_self(x, kernel)
        step = passive_step(seen, own, parameters[AGGRESSIVENESS])
        if step == 0.0:
            continue
        place = buffer[: used_width(count)]
        left = own - project_row(place, inverse, row, count)
        if left <= dependence * own:
            add_projection(coefficients, place, seen, step)
        elif count < budget:
            grow_inverse(inverse, place, left, count)
            put_support(supports, coefficients, marks, integers, x, count, seen, step)
        else:
            costs_in_span(costs[: place.shape[0]], coefficients, inverse, place, left, count)
            slot = cheapest(costs, marks, count)
            replace_in_inverse(inverse, shares, place, left, slot, count)
            hand_over(coefficients, shares, slot, count)
            take_place(supports, coefficients, marks, integers, x, slot, seen, shares[slot], step)
        counts[UPDATES] += 1


@compiled_row
def costs_in_span(
    costs: Doubles, coefficients: FloatArray, inverse: Doubles, place: Doubles, left: float, count: int
) -> None:
    """Overwrite costs (width,) by |a|^2 / G_rr, G being grown by a row of projection `place` and distance `left`."""
    square_norms(costs, coefficients[:, : costs.shape[0]])
    for i in range(count):
        costs[i] /= inverse[i, i] + place[i] * place[i] / left


@compiled_row
def hand_over(coefficients: FloatArray, shares: Doubles, slot: int, count: int) -> None:
    """Add shares of the coefficients at a slot to all others; its own stay as they are."""
    for c in range(coefficients.shape[0]):
        a, value = coefficients[c], float(coefficients[c, slot])
        for i in range(count):
            if i != slot:
                a[i] += shares[i] * value


@compiled_row
def remove_from_span(kept: Kept, rule: BudgetRule) -> None:
    """Project the cheapest support onto the others until the budget is met; kept, its inverse among it, changes."""
    supports, coefficients, marks, memory, integers = kept[:5]
    inverse, costs, shares = memory[1:], memory[memory.shape[0] - 2], memory[memory.shape[0] - 1]
    while integers[COUNT] > rule.budget:
        count = integers[COUNT]
        square_norms(costs[: used_width(count)], coefficients[:, : used_width(count)])
        for i in range(count):
            costs[i] /= inverse[i, i]
        slot = cheapest(costs, marks, count)
        shrink_inverse(inverse, shares, slot, count)
        hand_over(coefficients, shares, slot, count)
        drop_support(supports, coefficients, marks, integers, slot)
