from __future__ import annotations

import numpy as np
import pytest

from okl.foundation.types import FloatArray
from okl.solvers.accelerated.shards import RootSearch, find_roots


def staircase(random: np.random.Generator, n: int, narrow: bool) -> tuple[FloatArray, FloatArray, float]:
    points = random.normal(size=n) * 10.0 ** random.integers(-3, 3)
    upper = np.full(n, 1e-4 if narrow else 1.0) * random.uniform(0.5, 1.5, n)
    return points, upper, float(random.uniform(0.01, 0.99)) * float(upper.sum())


@pytest.mark.parametrize("n_candidates", [1, 3, 16])
@pytest.mark.parametrize("narrow", [False, True])
def test_search_finds_the_total_from_any_guess(n_candidates: int, narrow: bool) -> None:
    random = np.random.default_rng(3)
    most = 0
    for _ in range(60):
        case, rounds = staircase(random, 200, narrow), 0

        def evaluate(candidates: FloatArray, case: tuple[FloatArray, FloatArray, float] = case) -> FloatArray:
            nonlocal rounds
            rounds += 1
            points, upper, total = case
            moved = points - candidates[0][:, np.newaxis]
            sums = np.clip(moved, 0.0, upper).sum(axis=1)
            slopes = ((moved > 0.0) & (moved < upper)).sum(axis=1)
            return np.stack([sums - total, slopes, sums + total], axis=1)[np.newaxis]

        guess, reach = random.normal() * 100.0, 10.0 ** random.uniform(-6, 3)
        (root,) = find_roots([RootSearch(guess, reach, n_candidates)], evaluate)
        points, upper, total = case
        assert abs(np.clip(points - root, 0.0, upper).sum() - total) < 1e-11 * total
        most = max(most, rounds)
    assert most <= {1: 90, 3: 40, 16: 16}[n_candidates]


def test_search_finds_where_a_step_function_changes_sign() -> None:
    def evaluate(candidates: FloatArray) -> FloatArray:
        values = np.where(candidates < 0.123456789, 3.0, -2.0)
        return np.stack([values, np.zeros_like(values), np.full_like(values, 5.0)], axis=2)

    (root,) = find_roots([RootSearch(0.0, 1.0, 16, 1e-13)], evaluate)
    assert root == pytest.approx(0.123456789, abs=2e-13)


def test_simultaneous_searches_find_their_own_roots() -> None:
    def evaluate(candidates: FloatArray) -> FloatArray:
        values = np.array([[2.0], [-7.0]]) - candidates
        return np.stack([values, np.ones_like(values), 1.0 + np.abs(candidates)], axis=2)

    np.testing.assert_allclose(find_roots([RootSearch(0.0, 1.0, 4), RootSearch(0.0, 9.0, 4)], evaluate), [2.0, -7.0])


@pytest.mark.parametrize("error", [-3.9e-16, 3.9e-16, -1e-13])
def test_repeated_searches_stay_on_a_plateau_that_misses_the_total_by_rounding(error: float) -> None:
    def evaluate(candidates: FloatArray) -> FloatArray:
        # everything is at its upper bound left of 1, and adds up to the total but for rounding
        values = error - np.maximum(candidates - 1.0, 0.0)
        return np.stack([values, candidates > 1.0, np.ones_like(values)], axis=2)

    root, reach = 0.5, 1.0
    for _ in range(300):
        (found,) = find_roots([RootSearch(root, reach, 16)], evaluate)
        root, reach = found, max(abs(found - root), 1e-3 * reach)
    assert abs(root) <= 1.0
