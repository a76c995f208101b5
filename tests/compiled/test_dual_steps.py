from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tests.naive.dual_steps as naive
from okl.compiled import dual_steps

N = 60
RNG = np.random.default_rng(1)
UPPER = RNG.uniform(0.5, 3.0, N)
CUT = 1e-2
INNER_POINT = UPPER * np.clip(RNG.random(N), CUT, 1 - CUT)
ANY_POINT = UPPER * RNG.uniform(-0.6, 1.6, N)
PARTS = [
    ("entropy_value", "add_entropy_slopes", "entropy_excess", (UPPER, CUT)),
    ("quadratic_value", "add_quadratic_slopes", "quadratic_excess", (UPPER, 1.0)),
    ("quadratic_value", "add_quadratic_slopes", "quadratic_excess", (UPPER, UPPER[::-1].copy())),
]
Part = tuple[str, str, str, tuple[Any, ...]]


def without_targets(numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the terms of an excess; linear terms have none."""
    return numbers if numbers[1] is CUT else numbers[:1]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0])
def test_conjugates_match_naive_within_and_beyond_the_margins(part: Part) -> None:
    value, slopes, excess, numbers = part
    assert (ANY_POINT < CUT * UPPER).sum() > 5
    assert (ANY_POINT > UPPER).sum() > 5
    for points in (INNER_POINT, ANY_POINT):
        assert getattr(dual_steps, value)(points, *numbers) == pytest.approx(getattr(naive, value)(points, *numbers))
        gradient, expected = np.ones(N), np.ones(N)
        getattr(dual_steps, slopes)(gradient, points, *numbers)
        getattr(naive, slopes)(expected, points, *numbers)
        np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-12)
        given = (INNER_POINT, points[::-1].copy(), *without_targets(numbers))
        assert getattr(dual_steps, excess)(*given) == pytest.approx(getattr(naive, excess)(*given), rel=1e-10)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0])
def test_excess_keeps_its_digits_where_points_are_close(part: Part) -> None:
    _, slopes, excess, numbers = part
    step = 1e-7 * UPPER * RNG.uniform(0.5, 1.0, N)
    gradients = [np.zeros(N), np.zeros(N)]
    getattr(dual_steps, slopes)(gradients[0], INNER_POINT, *numbers)
    getattr(dual_steps, slopes)(gradients[1], INNER_POINT + step, *numbers)
    # half of <slopes(a) - slopes(b), a - b>, but for terms of third order; the value itself is 1e14 times larger
    expected = 0.5 * float((gradients[1] - gradients[0]) @ step)
    found = getattr(dual_steps, excess)(INNER_POINT + step, INNER_POINT, *without_targets(numbers))
    assert found == pytest.approx(expected, rel=1e-4)


N_PROXIMAL = 80
PROXIMAL_RNG = np.random.default_rng(2)
SIGNS = PROXIMAL_RNG.choice([-1.0, 1.0], N_PROXIMAL)
PROXIMAL_UPPER = np.where(np.arange(N_PROXIMAL) % 10 == 0, 0.0, PROXIMAL_RNG.uniform(0.2, 5.0, N_PROXIMAL))
POINTS = PROXIMAL_UPPER * PROXIMAL_RNG.uniform(-3.0, 4.0, N_PROXIMAL) + PROXIMAL_RNG.uniform(-1.0, 1.0, N_PROXIMAL)


@pytest.mark.parametrize("multiplier", [0.0, -0.7])
@pytest.mark.parametrize("lipschitz", [1e-6, 0.3, 40.0, 1e7])
def test_entropy_prox_matches_naive(lipschitz: float, multiplier: float) -> None:
    out, expected, logits = np.empty(N_PROXIMAL), np.empty(N_PROXIMAL), np.full(N_PROXIMAL, np.nan)
    balance = naive.entropy_prox(expected, POINTS, SIGNS, PROXIMAL_UPPER, lipschitz, multiplier)
    # the second time from the roots at another multiplier
    dual_steps.entropy_prox(out, logits, POINTS, SIGNS, PROXIMAL_UPPER, lipschitz, 0.4, True)
    for cold_start in (True, False):
        found, fall, mass = dual_steps.entropy_prox(
            out, logits, POINTS, SIGNS, PROXIMAL_UPPER, lipschitz, multiplier, cold_start
        )
        np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-300)
        assert found == pytest.approx(balance, rel=1e-9, abs=1e-12)
        assert mass == pytest.approx(out.sum())
        step = 1e-6 / lipschitz**0.5
        further, _, _ = dual_steps.entropy_prox(
            np.empty(N_PROXIMAL), logits.copy(), POINTS, SIGNS, PROXIMAL_UPPER, lipschitz, multiplier + step, False
        )
        assert (found - further) / step == pytest.approx(fall, rel=1e-2, abs=1e-5)


@pytest.mark.parametrize("multiplier", [0.0, -0.7])
@pytest.mark.parametrize("lipschitz", [1e-6, 0.3, 40.0, 1e7])
def test_roots_prox_matches_naive(lipschitz: float, multiplier: float) -> None:
    out, scales = np.empty(N_PROXIMAL), PROXIMAL_UPPER[::-1].copy()
    expected = naive.square_root_prox(POINTS, SIGNS, scales, PROXIMAL_UPPER, lipschitz, multiplier)
    found, fall, mass = dual_steps.square_root_prox(out, POINTS, SIGNS, scales, PROXIMAL_UPPER, lipschitz, multiplier)
    np.testing.assert_allclose(out, expected, rtol=1e-8, atol=1e-300)
    assert found == pytest.approx(np.sum(SIGNS * expected), rel=1e-8, abs=1e-12)
    assert mass == pytest.approx(out.sum())
    step = 1e-6 / lipschitz**0.5
    further, _, _ = dual_steps.square_root_prox(
        np.empty(N_PROXIMAL), POINTS, SIGNS, scales, PROXIMAL_UPPER, lipschitz, multiplier + step
    )
    assert (found - further) / step == pytest.approx(fall, rel=1e-2, abs=1e-5)


def test_sums_match_naive() -> None:
    points = PROXIMAL_UPPER * PROXIMAL_RNG.random(N_PROXIMAL)
    points[1], points[2] = 0.0, PROXIMAL_UPPER[2]
    assert dual_steps.entropy_sum(points, PROXIMAL_UPPER) == pytest.approx(naive.entropy_sum(points, PROXIMAL_UPPER))
    assert dual_steps.square_root_sum(points, PROXIMAL_UPPER) == pytest.approx(
        naive.square_root_sum(points, PROXIMAL_UPPER)
    )


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_vector_work_matches_naive(precision: str) -> None:
    tolerance = 1e-5 if precision == "float32" else 1e-13
    a, b, c, d = np.random.default_rng(0).standard_normal((4, 37)).astype(precision)
    for name in ("extrapolate", "descend"):
        out, expected = np.empty_like(a), np.empty_like(a)
        getattr(dual_steps, name)(out, a, b, 0.7)
        getattr(naive, name)(expected, a, b, 0.7)
        np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
    for name, vectors in (
        ("step_sums", (a, b, c, d)),
        ("squared_distance", (a, b)),
        ("distance_product", (a, b, c, d)),
        ("inner", (a, b)),
    ):
        np.testing.assert_allclose(
            getattr(dual_steps, name)(*vectors), getattr(naive, name)(*vectors), rtol=tolerance * 10
        )
