"""Compiled functions of the subgradient methods, against naive twins that try every line, crossing and support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tests.naive.bundle as naive
from okl.compiled import bundle
from okl.foundation.types import FloatArray

LOSSES = ["hinge", "tube", "tube of no width", "classes"]


def case(loss: str, seed: int, n_rows: int = 40) -> tuple[str, tuple[Any, ...], FloatArray]:
    """Return the name of the functions, their inputs (scores, along, targets, ...), and a buffer for slopes.

    One row in four is on a kink, moving in either direction or constant.
    """
    rng = np.random.default_rng(seed)
    if loss == "classes":
        scores, along = rng.integers(-2, 3, (n_rows, 4)) * 0.5, rng.integers(-2, 3, (n_rows, 4)) * 1.0
        return "classes", (scores, along, rng.integers(0, 4, n_rows) * 1.0), np.full((n_rows, 4), 9.0)
    targets = rng.choice([-1.0, 1.0], n_rows)
    scores, along = rng.integers(-4, 5, n_rows) * 0.5, rng.integers(-2, 3, n_rows) * 1.0
    scores[::2] += rng.standard_normal(len(scores[::2]))
    if loss == "hinge":
        return "hinge", (scores, along, targets), np.full(n_rows, 9.0)
    return "tube", (scores, along, targets, 0.5 if loss == "tube" else 0.0), np.full(n_rows, 9.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_slopes_and_lines_match_naive(loss: str) -> None:
    for seed in range(5):
        name, inputs, slopes = case(loss, seed)
        expected = slopes.copy()
        found = getattr(bundle, f"{name}_slopes")(slopes, *inputs)
        losses, _ = getattr(naive, f"{name}_slopes")(expected, *inputs)
        assert found[0] == pytest.approx(losses, rel=1e-13)
        assert float((slopes * inputs[0]).sum()) + found[1] == pytest.approx(
            losses, rel=1e-12
        )  # lines touch the losses
        # any of several equally large and steep lines is valid
        along, given = inputs[1], slopes if slopes.ndim == 2 else slopes[:, None]
        wanted = expected if expected.ndim == 2 else expected[:, None]
        directions = along if along.ndim == 2 else along[:, None]
        np.testing.assert_allclose((given * directions).sum(axis=1), (wanted * directions).sum(axis=1))
        for t in (0.0, 0.3, 1.0):
            line = getattr(bundle, f"{name}_line")(*inputs, t)
            np.testing.assert_allclose(line, getattr(naive, f"{name}_line")(*inputs, t), rtol=1e-13)
        assert 0 < (given == 0.0).all(axis=1).sum() < len(given) or loss == "tube of no width"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("longest", [0.7, np.inf])
def test_kinks_match_naive(loss: str, longest: float) -> None:
    for seed in range(5):
        name, inputs, slopes = case(loss, seed)
        at, by, wanted_at, wanted_by = np.zeros((4, 5 * slopes.size))
        parabola = (-3.0, 0.5, longest, 1.0 / len(slopes))
        weights = np.random.default_rng(seed).random(len(slopes)) if seed % 2 else np.empty(0)
        rows = (*inputs[:3], weights, *inputs[3:])
        count, slope = getattr(bundle, f"{name}_kinks")(at, by, *rows, *parabola)
        wanted, same = getattr(naive, f"{name}_kinks")(wanted_at, wanted_by, *rows, *parabola)
        assert slope == pytest.approx(same, rel=1e-13)
        assert count >= wanted > 0
        passed, expected = sums_at(at, by, count), sums_at(wanted_at, wanted_by, wanted)
        np.testing.assert_allclose(passed, expected, atol=1e-12)
        step = naive.least_step(wanted_at, wanted_by, wanted, slope, 0.5, longest)
        assert bundle.least_step(at, by, count, slope, 0.5, longest) == pytest.approx(step, abs=1e-12)
        assert step > 0.0


def sums_at(positions: FloatArray, jumps: FloatArray, count: int) -> FloatArray:
    """Return the sums of jumps up to steps 0.01 apart, which are not kinks."""
    steps = np.arange(0.005, 3.0, 0.01) + 1e-4
    return np.array([jumps[:count][positions[:count] < step].sum() for step in steps])


def test_least_step_matches_sorting_for_any_order_and_ties() -> None:
    rng = np.random.default_rng(0)
    orders: list[Callable[[FloatArray], FloatArray]] = [np.sort, lambda t: np.sort(t)[::-1].copy(), np.array]
    steps = []
    for seed in range(300):
        count = int(rng.integers(0, 60))
        positions = orders[seed % 3](np.round(rng.random(count) * 5, 1 if seed % 2 else 9))
        jumps, slope, curvature = rng.random(count), -rng.random() * 10, rng.random() * (seed % 4 > 0)
        longest = 6.0 if seed % 5 else 2.0
        wanted = naive.least_step(positions.copy(), jumps.copy(), count, slope, curvature, longest)
        steps.append(bundle.least_step(positions, jumps, count, slope, curvature, longest))
        assert steps[-1] == pytest.approx(wanted, abs=1e-12)
    assert len(set(steps)) > 150


def test_least_step_ends_behind_a_flat_piece_whose_derivative_is_rounding() -> None:
    jumps = np.array([0.1, 0.2, 0.7, 0.5])  # 0.1 + 0.2 + 0.7 is not 1
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        positions = np.array([1.0, 2.0, 3.0, 4.0])[order]
        step = bundle.least_step(positions, jumps[order], 4, -np.nextafter(1.0, 2.0), 0.0, np.inf)
        assert step in (3.0, 4.0)


@pytest.mark.parametrize("n_cuts", [1, 2, 5, 8])
def test_master_matches_trying_every_support(n_cuts: int) -> None:
    rng = np.random.default_rng(n_cuts)
    sizes = []
    for _ in range(30):
        cuts = rng.standard_normal((n_cuts, 6)) * rng.choice([0.1, 1.0, 3.0])
        if n_cuts > 4:
            cuts[-1] = cuts[:2].mean(axis=0)  # affinely dependent
        products, intercepts, lam = cuts @ cuts.T, rng.random(n_cuts), float(rng.choice([0.01, 1.0]))
        gamma = np.zeros(n_cuts)
        gamma[rng.integers(n_cuts)] = 1.0
        room = (np.empty((n_cuts, n_cuts)), np.empty((2, n_cuts)), np.empty(n_cuts, dtype=np.int64))
        bound = bundle.solve_master(gamma, *room, products, intercepts, lam, 100)
        expected = naive.solve_master(products, intercepts, lam)
        assert bound == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert gamma.min() >= 0.0
        assert gamma.sum() == pytest.approx(1.0, abs=1e-12)
        assert bundle.bound_of(gamma, products, intercepts, lam) == pytest.approx(bound, rel=1e-13)
        sizes.append(int((gamma > 0).sum()))
    assert max(sizes) > 1 or n_cuts == 1


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_passes_match_naive(precision: str) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((30, 7)).astype(precision)
    weights, slopes = rng.standard_normal((3, 7)), rng.standard_normal((30, 3))
    slopes[rng.random(30) < 0.4] = 0.0
    column = np.ascontiguousarray(slopes[:, 0])
    pairs = [
        ("score_rows", np.zeros(30), (rows, weights[0])),
        ("score_rows_of_classes", np.zeros((30, 3)), (rows, weights)),
        ("add_sloped_rows", np.ones(7), (rows, column)),
        ("add_sloped_rows_of_classes", np.ones((3, 7)), (rows, slopes)),
    ]
    for name, out, inputs in pairs:
        expected = out.copy()
        getattr(bundle, name)(out, *inputs)
        getattr(naive, name)(expected, *inputs)
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-13)
