"""Proximal points of the two conjugates with infinite slopes: their borders are never reached, and need no margin.

entropy: the x that minimises x log(x / u) + (u - x) log((u - x) / u) + L / 2 (x - q)^2; roots: -2 sqrt(s x) + L / 2
(x - q)^2 over 0 <= x <= u. With a hyperplane q = p - t y, where t makes the sum of y x vanish: each pass returns that
sum, how fast it falls with t, and what its rounding is to be held against.

Legend: p points, y signs (-1 or +1), u upper bounds, s scales, x out, all (n,); L lipschitz, t multiplier.
"""

from __future__ import annotations

import math

from okl.compiled.door import compiled, compiled_row
from okl.types import FloatArray

_MOST_ROUNDS = 80


@compiled_row
def _first_logit(target: float, scale: float) -> float:
    # for x far below u: r + exp(r) = target + log(scale) with r = logit + log(scale), whose root is near this one
    shifted = target + math.log(scale)
    r = math.log(shifted) if shifted > 1.0 else shifted
    return min(r - math.log(scale), 0.0)


@compiled_row
def _negative_logit(target: float, scale: float, logit: float) -> float:
    # root s <= 0 of s + scale / (1 + exp(-s)) = target, target <= scale / 2: Newton comes from the right, where the
    # left side is convex, after at most one step
    for _ in range(_MOST_ROUNDS):
        e = math.exp(logit)
        share = e / (1.0 + e)
        step = (logit + scale * share - target) / (1.0 + scale * share * (1.0 - share))
        before, logit = logit, min(logit - step, 0.0)
        if abs(logit - before) <= 1e-8 * (1.0 + abs(logit)):  # the error is the square of that
            break
    return logit


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
    for i in range(points.shape[0]):
        u = upper[i]
        out[i] = 0.0
        if u <= 0.0:
            continue
        q = points[i] - multiplier * signs[i]
        mirrored = q > 0.5 * u
        scale = lipschitz * u
        target = lipschitz * (u - q) if mirrored else lipschitz * q
        s = _negative_logit(target, scale, _first_logit(target, scale) if afresh else -abs(logits[i]))
        logits[i] = s
        e = math.exp(s)
        share = e / (1.0 + e)
        out[i] = u - u * share if mirrored else u * share
        balance += signs[i] * out[i]
        mass += out[i]
        steepness = scale * share * (1.0 - share)
        fall += steepness / (1.0 + steepness)
    return balance, fall, mass


@compiled_row
def roots_prox(
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


@compiled
def entropy_sum(points: FloatArray, upper: FloatArray) -> float:
    """Sum of x log(x / u) + (u - x) log((u - x) / u), 0 log 0 = 0, of points between 0 and u."""
    total = 0.0
    for i in range(points.shape[0]):
        x, u = points[i], upper[i]
        if 0.0 < x < u:
            total += x * math.log(x / u) + (u - x) * math.log((u - x) / u)
    return total


@compiled
def roots_sum(points: FloatArray, scales: FloatArray) -> float:
    """Sum of -2 sqrt(s x) of points >= 0."""
    total = 0.0
    for i in range(points.shape[0]):
        total -= 2.0 * math.sqrt(scales[i] * points[i])
    return total
