"""Slow, obvious twins of okl.compiled.projections: one entry at a time, sums rounded once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from okl.compiled.projections import (
    ABOVE,
    BELOW,
    BLOCK,
    FOUND,
    BlockSums,
    Bounds,
    Breakpoints,
    ProjectionEntries,
    Windows,
)
from okl.foundation.types import FloatArray

# Projections onto boxes, entry by entry.

Doubles = NDArray[np.float64]
Term = tuple[float, float, float]


def one_form(entries: ProjectionEntries, i: int) -> Term:
    """Return v, low and high of entry i."""
    a, y = float(entries.point[i]), int(entries.signs[i])
    low, high = (float(np.broadcast_to(bound, len(entries.point))[i]) for bound in (entries.lower, entries.upper))
    return (a, low, high) if y > 0 else (-a, -high, -low)


def clip(term: Term, t: float) -> float:
    v, low, high = term
    return min(max(v - t, low), high)


def sum_blocks(gathered: BlockSums, entries: ProjectionEntries, windows: Windows) -> None:
    for block in range(len(gathered.sums)):
        constants: tuple[list[float], list[float]] = ([], [])
        falling = [0, 0]
        found: tuple[list[Term], list[Term]] = ([], [])
        for i in range(block * BLOCK, min((block + 1) * BLOCK, len(entries.point))):
            minus = int(entries.signs[i] < 0)
            start, stop = windows[2 * minus : 2 * minus + 2]
            v, low, high = one_form(entries, i)
            if any(start < bend < stop for bend in (v - high, v - low)):
                found[minus].append((v, low, high))
            elif v - high >= stop:
                constants[minus].append(high)
            elif v - low <= start:
                constants[minus].append(low)
            else:
                constants[minus].append(v)
                falling[minus] += 1
        gathered.sums[block] = [math.fsum(constants[0]), math.fsum(constants[1]), *falling]
        gathered.counts[block] = [len(terms) for terms in found]
        for k, term in enumerate(found[0]):
            gathered.v[block * BLOCK + k], gathered.low[block * BLOCK + k], gathered.high[block * BLOCK + k] = term
        for k, term in enumerate(found[1]):
            position = (block + 1) * BLOCK - 1 - k
            gathered.v[position], gathered.low[position], gathered.high[position] = term


def join(v: Doubles, low: Doubles, high: Doubles, gathered: BlockSums, sign: int) -> int:
    places: list[int] = []
    for block, (n_plus, n_minus) in enumerate(gathered.counts):
        end = (block + 1) * BLOCK
        places += range(block * BLOCK, block * BLOCK + n_plus) if sign >= 0 else []
        places += range(end - n_minus, end) if sign <= 0 else []
    for joined, room in ((v, gathered.v), (low, gathered.low), (high, gathered.high)):
        joined[: len(places)] = room[places]
    return len(places)


def clip_blocks(out: FloatArray, entries: ProjectionEntries, plus: float, minus: float, first: int, last: int) -> None:
    for i in range(first * BLOCK, min(last * BLOCK, len(out))):
        lower, upper = (np.broadcast_to(bound, len(out))[i] for bound in (entries.lower, entries.upper))
        t = plus if entries.signs[i] > 0 else minus
        out[i] = min(max(float(entries.point[i]) - t, lower), upper)


def find_root(
    terms: list[Term], constant: float, falling: int, total: float, start: float, stop: float
) -> tuple[float, int, float]:
    """Return the root: check every bend in turn, then interpolate to the next bend."""

    def g(t: float) -> float:
        return math.fsum([constant, -falling * t, -total, *(clip(term, t) for term in terms)])

    if math.isfinite(start) and g(start) < 0:
        return start, BELOW, g(start)
    if math.isfinite(stop) and g(stop) > 0:
        return stop, ABOVE, g(stop)
    bends = {bend for value, least, most in terms for bend in (value - most, value - least)}
    points = sorted(bend for bend in bends | {start, stop} if start <= bend <= stop and math.isfinite(bend))
    before = [t for t in points if g(t) >= 0]
    at = before[-1] if before else points[0]
    beyond = 1.0 + abs(at)
    inside = points[len(before)] if before and len(before) < len(points) else at + (beyond if before else -beyond)
    slope = (g(inside) - g(at)) / (inside - at)
    return (at - g(at) / slope if g(at) else at), FOUND, 0.0


def shrink(out: FloatArray, point: FloatArray, thresholds: Bounds) -> None:
    for i, a in enumerate(point.tolist()):
        out[i] = math.copysign(max(0.0, abs(a) - np.broadcast_to(thresholds, len(out))[i]), a)


def bisect(
    kept: Doubles, least: float, most: float, lower: float, upper: float, total: float, finely: bool
) -> tuple[float, int]:
    terms = [(value, lower, upper) for value in kept.tolist()]
    return find_root(terms, 0.0, 0, total, -math.inf, math.inf)[0], 0


def search_breakpoints(kept: Doubles, bends: Doubles, lower: float, upper: float, total: float) -> tuple[float, int]:
    return bisect(kept, min(kept), max(kept), lower, upper, total, False)


def sum_classes(entries: ProjectionEntries, plus: float, minus: float) -> list[tuple[float, float, float]]:
    found = []
    for sign, theta in ((1, plus), (-1, -minus)):
        terms = [one_form(entries, i) for i in range(len(entries.point)) if entries.signs[i] == sign]
        values = [sign * clip(term, theta) for term in terms]
        free = sum(low < v - theta < high for v, low, high in terms)
        found.append((math.fsum(values), float(free), math.fsum(map(abs, values))))
    return found


def sum_at_bends(bends: Breakpoints, t: float) -> tuple[float, int]:
    left_bends = [t - bend for bend in bends.leaves if bend <= t]
    ended = [t - bend for bend in bends.arrives if bend <= t]
    return bends.highs - math.fsum(left_bends) + math.fsum(ended), len(left_bends) - len(ended)


def root_of_breakpoints(bends: Breakpoints, total: float) -> float:
    reached = [bend for bend in (*bends.leaves, *bends.arrives) if sum_at_bends(bends, bend)[0] >= total]
    if not reached:
        return float(bends.leaves[0])
    terms, falling = sum_at_bends(bends, max(reached))
    return float(max(reached)) + ((terms - total) / falling if falling else 0.0)


# Multiplier searches and Newton steps.


def clipped_sums(
    sums: FloatArray, points: FloatArray, signs: FloatArray, upper: FloatArray, thresholds: FloatArray
) -> None:
    for group, sign in enumerate((1.0, -1.0)):
        chosen = signs == sign
        for k, threshold in enumerate(thresholds[group]):
            moved = points[chosen] - threshold
            sums[group, k, 0] += np.clip(moved, 0.0, upper[chosen]).sum()
            sums[group, k, 1] += np.count_nonzero((moved > 0.0) & (moved < upper[chosen]))


def clip_by_sign(
    out: FloatArray, points: FloatArray, signs: FloatArray, upper: FloatArray, plus: float, minus: float
) -> None:
    out[:] = np.clip(points - np.where(signs > 0.0, plus, minus), 0.0, upper)
