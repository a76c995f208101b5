"""Vector operations, conjugates and proximal points of an accelerated dual step."""

from __future__ import annotations

import math

from okl.compiled.jit import compiled, compiled_row, compiled_sum, nested, nested_row
from okl.compiled.math import exp_negative, log_positive
from okl.compiled.projections import bound_at
from okl.foundation.types import FloatArray

# Vector operations of an accelerated proximal gradient step: one read of each input, no temporaries.
#
# Legend: a point (n,), b the extrapolated point, c the point before, g the gradient at b.


@compiled
def extrapolate(out: FloatArray, current: FloatArray, previous: FloatArray, momentum: float) -> None:
    """Overwrite out by current + momentum (current - previous)."""
    for i in range(out.shape[0]):
        out[i] = current[i] + momentum * (current[i] - previous[i])


@compiled
def descend(out: FloatArray, point: FloatArray, gradient: FloatArray, step: float) -> None:
    """Overwrite out by point - step * gradient."""
    for i in range(out.shape[0]):
        out[i] = point[i] - step * gradient[i]


@compiled_sum
def step_sums(
    point: FloatArray, extrapolated: FloatArray, gradient: FloatArray, before: FloatArray
) -> tuple[float, float]:
    """Return ||a - b||^2 and <g, a - c>."""
    squared, turn = 0.0, 0.0
    for i in range(point.shape[0]):
        moved = point[i] - extrapolated[i]
        squared += moved * moved
        turn += gradient[i] * (point[i] - before[i])
    return squared, turn


@compiled_sum
def squared_distance(left: FloatArray, right: FloatArray) -> float:
    """Return ||left - right||^2."""
    total = 0.0
    for i in range(left.shape[0]):
        difference = left[i] - right[i]
        total += difference * difference
    return total


@compiled_sum
def distance_product(left: FloatArray, right: FloatArray, left_image: FloatArray, right_image: FloatArray) -> float:
    """Return <left - right, left_image - right_image>."""
    total = 0.0
    for i in range(left.shape[0]):
        total += (left[i] - right[i]) * (left_image[i] - right_image[i])
    return total


@compiled_sum
def inner(left: FloatArray, right: FloatArray) -> float:
    """Return <left, right>."""
    total = 0.0
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total


# Conjugates of losses as smooth functions.
#
# entropy: sum_i a_i log(a_i / u_i) + (u_i - a_i) log((u_i - a_i) / u_i) on margin r_i <= a_i <= u_i - r_i, r_i = c
# u_i, as its slopes are infinite at the bounds of the box. Extrapolated points leave the box: beyond the margin it goes
# on as the parabola with the value, slope and curvature of the border, so that it is convex and smooth everywhere.
# quadratic: sum_i c_i a_i^2 / 2 - t_i a_i, smooth as it is; t a number or (n,).
#
# Excess is the Bregman distance f(a) - f(b) - f'(b)(a - b), summed without its cancellation: near an optimum it is
# far smaller than the rounding of f.
#
# Legend: a point inside the margins, b any point, u upper bounds, all (n,); c cut, a share of u.


@nested
def _relative_entropy(a: float, b: float) -> float:
    # a log(a / b) - (a - b), for a >= 0 and b > 0
    if a <= 0.0:
        return b
    change = (a - b) / b
    if abs(change) < 1e-3:
        return b * change * change * (0.5 - change * (1.0 / 6.0 - change * (1.0 / 12.0 - change / 20.0)))
    return a * math.log(a / b) - (a - b)


@nested
def _inside(value: float, lower: float, upper: float) -> float:
    return min(max(value, lower), upper)


@compiled
def entropy_value(points: FloatArray, upper: FloatArray, cut: float) -> float:
    """Return the sum of the entropies, with parabolas beyond the margins."""
    total = 0.0
    for i in range(points.shape[0]):
        u = upper[i]
        if u <= 0.0:
            continue
        a = _inside(points[i], cut * u, u - cut * u)
        if a > 0.0:
            total += a * math.log(a / u)
        if a < u:
            total += (u - a) * math.log((u - a) / u)
        beyond = points[i] - a
        if beyond != 0.0:
            total += beyond * (math.log(a / (u - a)) + 0.5 * beyond * u / (a * (u - a)))
    return total


@compiled
def add_entropy_slopes(gradient: FloatArray, points: FloatArray, upper: FloatArray, cut: float) -> None:
    """Add log(b / (u - b)), or its tangent beyond the margins, to the gradient."""
    for i in range(points.shape[0]):
        u = upper[i]
        if u <= 0.0:
            continue
        b = _inside(points[i], cut * u, u - cut * u)
        gradient[i] += math.log(b / (u - b)) + (points[i] - b) * u / (b * (u - b))


@compiled
def entropy_excess(points: FloatArray, at: FloatArray, upper: FloatArray, cut: float) -> float:
    """Return the Bregman distance of points, inside the margins, from `at`, anywhere."""
    total = 0.0
    for i in range(points.shape[0]):
        u = upper[i]
        if u <= 0.0:
            continue
        a, b = points[i], _inside(at[i], cut * u, u - cut * u)
        total += _relative_entropy(a, b) + _relative_entropy(u - a, u - b)
        beyond = at[i] - b
        if beyond != 0.0:
            total += beyond * u / (b * (u - b)) * (0.5 * beyond - (a - b))
    return total


@compiled_sum
def quadratic_value(points: FloatArray, curvatures: FloatArray, targets: float | FloatArray) -> float:
    """Return the sum of c a^2 / 2 - t a."""
    total = 0.0
    for i in range(points.shape[0]):
        total += points[i] * (0.5 * curvatures[i] * points[i] - bound_at(targets, i))  # type: ignore[no-untyped-call]
    return total


@compiled
def add_quadratic_slopes(
    gradient: FloatArray, points: FloatArray, curvatures: FloatArray, targets: float | FloatArray
) -> None:
    """Add c a - t to the gradient."""
    for i in range(points.shape[0]):
        gradient[i] += curvatures[i] * points[i] - bound_at(targets, i)  # type: ignore[no-untyped-call]


@compiled_sum
def quadratic_excess(points: FloatArray, at: FloatArray, curvatures: FloatArray) -> float:
    """Return the sum of c (a - b)^2 / 2."""
    total = 0.0
    for i in range(points.shape[0]):
        apart = points[i] - at[i]
        total += 0.5 * curvatures[i] * apart * apart
    return total


# Proximal points of conjugates whose slopes are infinite at the bounds: they never reach these, and need no margin.
#
# entropy: the x that minimises x log(x / u) + (u - x) log((u - x) / u) + L / 2 (x - q)^2; roots: -2 sqrt(s x) + L / 2
# (x - q)^2 over 0 <= x <= u. With a hyperplane q = p - t y, where t makes the sum of y x vanish: each pass returns
# that sum, how fast it falls with t, and what its rounding is to be held against.
#
# Legend: p points, y signs (-1 or +1), u upper bounds, s scales, x out, all (n,); L lipschitz, t multiplier.

_MOST_ROUNDS = 80
_AT_ONCE = 128  # rows that go through Newton's steps together, in vectors
_NEAR, _SETTLED = 1e-8, 1e-14  # of a step, in the size of what it changes


@nested_row
def _first_logit(target: float, scale: float, log_scale: float) -> float:
    # for x far below u: r + exp(r) = target + log(scale) with r = logit + log(scale), whose root is near this one
    shifted = target + log_scale
    r = log_positive(max(shifted, 1.0)) if shifted > 1.0 else shifted
    r = target if scale <= 0.0 else r - log_scale
    return min(r, 0.0)


@nested_row
def _improve_logits(logits: FloatArray, targets: FloatArray, upper: FloatArray, lipschitz: float) -> int:
    # one Newton step each towards the root s <= 0 of s + scale / (1 + exp(-s)) = target, target <= scale / 2: it comes
    # from the right, where the left side is convex, after at most one step. Returns how many are not there yet
    waiting = 0
    for i in range(logits.shape[0]):
        s, scale = logits[i], lipschitz * upper[i]
        e = exp_negative(s)  # type: ignore[no-untyped-call]
        share = e / (1.0 + e)
        step = (s + scale * share - targets[i]) / (1.0 + scale * share * (1.0 - share))
        size = 1.0 + abs(s)
        # what is there stays there: bits do not depend on the neighbours that it waits for
        logits[i] = min(s - step, 0.0) if abs(step) > _SETTLED * size else s
        # the error is the square of that; one that is to be clipped at 0 again and again is there, too
        waiting += (abs(step) > _NEAR * size) & ((s < 0.0) | (step > 0.0))
    return waiting


@compiled_row
def entropy_prox(
    out: FloatArray,
    logits: FloatArray,
    points: FloatArray,
    signs: FloatArray,
    upper: FloatArray,
    lipschitz: float,
    multiplier: float,
    afresh: bool,
) -> tuple[float, float, float]:
    """Overwrite out; returns the sum of y x, the derivative of minus that by t, and the sum of x.

    logits : (n,), a buffer; afresh : whether it holds nothing yet, otherwise roots at another multiplier
    """
    balance, fall, mass = 0.0, 0.0, 0.0
    for first in range(0, points.shape[0], _AT_ONCE):
        cut = slice(first, min(first + _AT_ONCE, points.shape[0]))
        x, s, p, y, u = out[cut], logits[cut], points[cut], signs[cut], upper[cut]
        for i in range(x.shape[0]):  # x holds the targets of the logits
            q = p[i] - multiplier * y[i]
            x[i] = lipschitz * (u[i] - q) if q > 0.5 * u[i] else lipschitz * q
        for i in range(x.shape[0]):
            scale = lipschitz * u[i]
            logit = _first_logit(x[i], scale, log_positive(scale if scale > 0.0 else 1.0)) if afresh else s[i]
            s[i] = -abs(logit)
        for _ in range(_MOST_ROUNDS):
            if _improve_logits(s, x, u, lipschitz) == 0:
                break
        for i in range(x.shape[0]):
            e = exp_negative(s[i])  # type: ignore[no-untyped-call]
            small = u[i] * (e / (1.0 + e))
            x[i] = u[i] - small if p[i] - multiplier * y[i] > 0.5 * u[i] else small
        for i in range(x.shape[0]):
            balance += y[i] * x[i]
            mass += x[i]
            steepness = lipschitz * x[i] * (u[i] - x[i]) / u[i] if u[i] > 0.0 else 0.0
            fall += steepness / (1.0 + steepness)
    return balance, fall, mass


@compiled_row
def square_root_prox(
    out: FloatArray,
    points: FloatArray,
    signs: FloatArray,
    scales: FloatArray,
    upper: FloatArray,
    lipschitz: float,
    multiplier: float,
) -> tuple[float, float, float]:
    """Overwrite out; returns the sum of y x, the derivative of minus that by t, and the sum of x."""
    balance, fall, mass = 0.0, 0.0, 0.0
    for i in range(points.shape[0]):
        out[i] = 0.0
        if scales[i] <= 0.0:
            continue
        q = points[i] - multiplier * signs[i]
        k = math.sqrt(scales[i]) / lipschitz
        # z = sqrt(x) is the positive root of z^3 - q z = k: convex, and Newton starts to the right of it
        z = math.sqrt(max(q, 0.0)) + k ** (1.0 / 3.0)
        for _ in range(_MOST_ROUNDS):
            step = (z * (z * z - q) - k) / (3.0 * z * z - q)
            z -= step
            if abs(step) <= 1e-9 * z:
                break
        x = z * z
        if x >= upper[i]:
            out[i] = upper[i]
        else:
            out[i] = x
            fall += 1.0 / (1.0 + 0.5 * k / (z * x))
        balance += signs[i] * out[i]
        mass += out[i]
    return balance, fall, mass


@compiled_sum
def entropy_sum(points: FloatArray, upper: FloatArray) -> float:
    """Return the sum of x log(x / u) + (u - x) log((u - x) / u), 0 log 0 = 0, of points between 0 and u."""
    total = 0.0
    for i in range(points.shape[0]):
        x, u = points[i], upper[i]
        inside = (x > 0.0) & (x < u)
        # an entry at the border takes the logarithm of another number, and has no part in the sum
        share = x / u if inside else 0.5
        rest = (u - x) / u if inside else 0.5
        value = x * log_positive(share) + (u - x) * log_positive(rest)
        total += value if inside else 0.0
    return total


@compiled
def square_root_sum(points: FloatArray, scales: FloatArray) -> float:
    """Return the sum of -2 sqrt(s x) of points >= 0."""
    total = 0.0
    for i in range(points.shape[0]):
        total -= 2.0 * math.sqrt(scales[i] * points[i])
    return total
