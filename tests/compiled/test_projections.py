from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled import projections
from okl.compiled.projections import (
    BLOCK,
    BlockSums,
    ProjectionEntries,
    Windows,
    improve_multiplier,
    improve_multipliers,
    sum_classes,
)
from okl.foundation.types import Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE
from tests.naive import projections as naive
from tests.naive import projections as naive_projections

SIZE = BLOCK + 700  # a whole block and a part of one, no multiple of 8
KINDS = [("float64", False), ("float64", True), ("float32", False)]  # bounds are arrays of float64 for both
WINDOWS = {
    "narrow": Windows(-0.1, 0.2, -0.1, 0.2),
    "of each sign": Windows(-0.5, -0.3, 0.1, 0.7),
    "half infinite": Windows(-math.inf, 0.0, 0.4, math.inf),
    "closed": Windows(0.25, 0.25, 0.25, 0.25),
}


def make_entries(precision: Precision, arrays: bool, size: int = SIZE, seed: int = 7) -> ProjectionEntries:
    rng = np.random.default_rng(seed)
    point = np.round(rng.standard_normal(size), 2).astype(precision)
    signs = np.where(rng.random(size) < 0.4, 1, -1).astype(np.int8)
    if not arrays:
        return ProjectionEntries(point, signs, 0.0, 0.5)
    lower = -np.round(rng.random(size), 1)
    upper = lower + rng.choice([0.0, 0.3, math.inf], size)
    return ProjectionEntries(point, signs, lower, upper)


def fresh_gathered() -> BlockSums:
    return BlockSums(np.full((2, 4), np.nan), np.zeros((2, 2), dtype=np.int64), *np.zeros((3, 2 * BLOCK)))


def sum_both(compiled: BlockSums, expected: BlockSums, entries: ProjectionEntries, windows: Windows) -> None:
    buffers = np.ones(BLOCK, dtype=np.uint8), np.empty(BLOCK + 1, dtype=np.int32)
    projections.sum_blocks(compiled, *buffers, entries, windows, 0, 2)
    naive.sum_blocks(expected, entries, windows)


@pytest.mark.parametrize(
    ("precision", "arrays", "name"),
    [
        *(("float64", True, name) for name in WINDOWS),
        *(("float64", False, name) for name in ("narrow", "half infinite")),
        *(("float32", False, name) for name in ("of each sign", "closed")),
    ],
)
def test_sums_and_bends_match_naive(precision: Precision, arrays: bool, name: str) -> None:
    entries, (compiled, expected) = make_entries(precision, arrays), (fresh_gathered(), fresh_gathered())
    sum_both(compiled, expected, entries, WINDOWS[name])
    np.testing.assert_allclose(compiled.sums, expected.sums, rtol=1e-12, atol=1e-10)
    np.testing.assert_array_equal(compiled.counts, expected.counts)
    for sign in (0, 1, -1):
        joined, others = np.zeros((2, 3, 2 * BLOCK))
        size = projections.join(joined[0], joined[1], joined[2], compiled, sign)
        assert size == naive.join(others[0], others[1], others[2], expected, sign)
        np.testing.assert_array_equal(joined[:, :size], others[:, :size])
        assert (size > 0) == (name != "closed")


@pytest.mark.parametrize(("precision", "arrays"), KINDS)
def test_clipped_entries_match_naive(precision: Precision, arrays: bool) -> None:
    entries = make_entries(precision, arrays)
    out, expected = np.empty_like(entries.point), np.empty_like(entries.point)
    for part in ((0, 1), (1, 2)):
        projections.clip_blocks(out, entries, 0.2, -0.3, *part)
        naive.clip_blocks(expected, entries, 0.2, -0.3, *part)
    np.testing.assert_array_equal(out, expected)
    assert len(np.unique(out)) > 5


@pytest.mark.parametrize("guess", [-0.7, 0.0, -1e6, 1e6, math.nan, math.inf])
def test_root_matches_naive(guess: float) -> None:
    sides = []
    for seed in range(100):
        rng = np.random.default_rng([seed, 8])
        size = int(rng.integers(1, 30))
        v = np.round(rng.standard_normal(size), int(rng.integers(1, 4)))
        low = -np.round(rng.random(size), 1)
        high = low + rng.choice([0.0, 0.2, 1.0, 1e-6], size)
        start, stop = [(-math.inf, math.inf), (-0.5, 0.5), (-math.inf, 0.1), (-0.2, math.inf)][seed % 4]
        within = np.array([any(start < bend < stop for bend in bends) for bends in zip(v - high, v - low, strict=True)])
        v, low, high = (values[within] for values in (v, low, high))
        total = float(low.sum() + (high - low).sum() * rng.random()) + 0.3
        line: list[Any] = [0.3, int(rng.integers(1, 3)), total, start, stop]
        terms = list(zip(v.tolist(), low.tolist(), high.tolist(), strict=True))
        expected, side, left = naive.find_root(terms, *line) if terms else (math.nan, 0, 0.0)
        root, where, excess, _ = projections.find_root(v.copy(), low.copy(), high.copy(), len(v), *[*line, guess])
        if len(v):
            assert where == side
            assert root == pytest.approx(expected, abs=1e-12)
            assert excess == pytest.approx(left, abs=1e-12)
            sides.append(where)
    assert {projections.BELOW, projections.FOUND, projections.ABOVE} == set(sides)


@pytest.mark.parametrize("width", [0.3, 1e-4, None])
def test_roots_among_sorted_bends_match_naive_and_sum_to_the_total(width: float | None) -> None:
    rng = np.random.default_rng(8)
    low = np.round(rng.normal(size=200), 1)  # ties, too
    high = low + (rng.random(200) if width is None else width)
    v = np.round(rng.normal(size=200), 1)
    leaves, arrives = np.sort(v - high), np.sort(v - low)
    sums = [np.concatenate([[0.0], np.cumsum(places)]) for places in (leaves, arrives)]
    bends = projections.Breakpoints(leaves, arrives, sums[0], sums[1], float(high.sum()))
    for share in (0.0213, 0.3077, 0.9131):  # not on a level of the staircase
        total = float(low.sum() + share * (high - low).sum())
        root = projections.root_of_breakpoints(bends, total)
        assert root == pytest.approx(naive.root_of_breakpoints(bends, total), abs=1e-9)
        terms, falling = projections.sum_at_bends(bends, root)
        assert (terms, falling) == pytest.approx(naive.sum_at_bends(bends, root), abs=1e-10)
        assert np.clip(v - root, low, high).sum() == pytest.approx(total, abs=1e-9)
    assert projections.root_of_breakpoints(bends, bends.highs + 1.0) == leaves[0]
    assert projections.root_of_breakpoints(bends, float(low.sum()) - 1.0) == arrives[-1]


@pytest.mark.parametrize("upper", [0.3, 1e-4, math.inf])
def test_rival_roots_match_naive(upper: float) -> None:
    rng = np.random.default_rng(9)
    for size in (1, 2, 7, 300):
        point = np.round(rng.standard_normal(size), 2)
        limits = (0.0, upper, 0.4 * size * min(upper, 2.0))
        ends = float(point.min()), float(point.max())
        found = {
            "bisect": projections.bisect(point.copy(), *ends, *limits, False),
            "bisect finely": projections.bisect(point.copy(), *ends, *limits, True),
            "search_breakpoints": projections.search_breakpoints(point.copy(), np.empty(2 * size), *limits),
        }
        expected = np.clip(point - naive.bisect(point.copy(), *ends, *limits, False)[0], 0.0, upper)
        assert expected.sum() == pytest.approx(limits[2])
        for name, (root, _) in found.items():
            actual = np.clip(point - root, 0.0, upper)
            np.testing.assert_allclose(actual, expected, atol=1e-12 * (1 + limits[2]), err_msg=name)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_shrunk_entries_match_naive(precision: Precision) -> None:
    point = make_entries(precision, False, 99).point
    for thresholds in (0.3, np.linspace(0.0, 1.0, 99)):
        out, expected = np.empty_like(point), np.empty_like(point)
        projections.shrink(out, point, thresholds)
        naive.shrink(expected, point, thresholds)
        np.testing.assert_allclose(out, expected, atol=TOLERANCE[precision])
        assert 5 < np.sum(out == 0) < 95


def clipped(entries: ProjectionEntries, plus: float, minus: float) -> NDArray[np.float64]:
    return np.clip(entries.point - np.where(entries.signs > 0, plus, minus), entries.lower, entries.upper)


@pytest.mark.parametrize(("precision", "arrays"), [("float64", False), ("float64", True), ("float32", False)])
def test_sums_of_classes_match_naive(precision: Precision, arrays: bool) -> None:
    entries = make_entries(precision, arrays, 500, 500)
    found, expected = sum_classes(entries, 0.2, -0.3), naive.sum_classes(entries, 0.2, -0.3)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)
    assert min(free for _, free, _ in expected) > 5


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("guess", [0.31, 0.25, -0.4])
def test_steps_from_a_guess_end_where_sums_are_the_totals(guess: float, arrays: bool) -> None:
    entries = make_entries("float64", arrays, 500, 500)
    plus, minus = entries.signs > 0, entries.signs < 0
    total = float(entries.signs @ clipped(entries, 0.3, -0.3))
    theta, passes, found = improve_multiplier(entries, total, guess)
    assert found
    assert passes <= 6
    assert theta == pytest.approx(0.3, abs=1e-9)
    assert entries.signs @ clipped(entries, theta, -theta) == pytest.approx(total, abs=1e-11)
    totals = clipped(entries, 0.3, 0.1)[plus].sum(), clipped(entries, 0.3, 0.1)[minus].sum()
    one, other, passes, found = improve_multipliers(entries, *totals, guess, 0.12)
    assert found
    assert passes <= 6
    moved = clipped(entries, one, other)
    assert (moved[plus].sum(), moved[minus].sum()) == pytest.approx(totals, abs=1e-11)


def test_steps_from_a_guess_stop_without_free_entries() -> None:
    entries = make_entries("float64", False, 500, 500)
    assert not improve_multiplier(entries, 3.0, 50.0)[2]
    assert not improve_multipliers(entries, 3.0, 3.0, 0.1, 50.0)[3]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_sums_and_clips_match_naive(precision: str) -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=101).astype(precision)
    points[:4] = 0.5, 0.0, 1.0, 0.25  # ends of boxes, too
    signs = np.where(random.random(101) < 0.4, 1.0, -1.0).astype(precision)
    upper = random.choice([0.5, 1.0, np.inf], size=101).astype(precision)
    thresholds = np.array([[-1.0, 0.0, 0.25, 0.5], [2.0, 0.1, -0.3, 0.0]], dtype=precision)
    found, expected = np.ones((2, 4, 2), precision), np.ones((2, 4, 2), precision)
    projections.clipped_sums(found, points, signs, upper, thresholds)
    naive_projections.clipped_sums(expected, points, signs, upper, thresholds)
    np.testing.assert_allclose(found, expected, rtol=1e-5 if precision == "float32" else 1e-13)
    out, clipped = np.empty_like(points), np.empty_like(points)
    projections.clip_by_sign(out, points, signs, upper, 0.3, -0.2)
    naive_projections.clip_by_sign(clipped, points, signs, upper, 0.3, -0.2)
    np.testing.assert_allclose(out, clipped, rtol=1e-6 if precision == "float32" else 1e-15, atol=1e-7)
    assert 0 < np.count_nonzero(out) < 101
