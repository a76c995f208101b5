from __future__ import annotations

import numpy as np
import pytest

import tests.naive.proximal as naive
from okl.compiled import proximal

N = 80
RNG = np.random.default_rng(2)
SIGNS = RNG.choice([-1.0, 1.0], N)
UPPER = np.where(np.arange(N) % 10 == 0, 0.0, RNG.uniform(0.2, 5.0, N))
POINTS = UPPER * RNG.uniform(-3.0, 4.0, N) + RNG.uniform(-1.0, 1.0, N)


@pytest.mark.parametrize("multiplier", [0.0, -0.7])
@pytest.mark.parametrize("lipschitz", [1e-6, 0.3, 40.0, 1e7])
def test_entropy_prox_matches_naive(lipschitz: float, multiplier: float) -> None:
    out, expected, logits = np.empty(N), np.empty(N), np.full(N, np.nan)
    balance = naive.entropy_prox(expected, POINTS, SIGNS, UPPER, lipschitz, multiplier)
    # the second time from the roots at another multiplier
    proximal.entropy_prox(out, logits, POINTS, SIGNS, UPPER, lipschitz, 0.4, True)
    for afresh in (True, False):
        found, fall, mass = proximal.entropy_prox(out, logits, POINTS, SIGNS, UPPER, lipschitz, multiplier, afresh)
        np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-300)
        assert found == pytest.approx(balance, rel=1e-9, abs=1e-12)
        assert mass == pytest.approx(out.sum())
        step = 1e-6 / lipschitz**0.5
        further, _, _ = proximal.entropy_prox(
            np.empty(N), logits.copy(), POINTS, SIGNS, UPPER, lipschitz, multiplier + step, False
        )
        assert (found - further) / step == pytest.approx(fall, rel=1e-2, abs=1e-5)


@pytest.mark.parametrize("multiplier", [0.0, -0.7])
@pytest.mark.parametrize("lipschitz", [1e-6, 0.3, 40.0, 1e7])
def test_roots_prox_matches_naive(lipschitz: float, multiplier: float) -> None:
    out, expected, scales = np.empty(N), np.empty(N), UPPER[::-1].copy()
    balance = naive.roots_prox(expected, POINTS, SIGNS, scales, UPPER, lipschitz, multiplier)
    found, fall, mass = proximal.roots_prox(out, POINTS, SIGNS, scales, UPPER, lipschitz, multiplier)
    np.testing.assert_allclose(out, expected, rtol=1e-8, atol=1e-300)
    assert found == pytest.approx(balance, rel=1e-8, abs=1e-12)
    assert mass == pytest.approx(out.sum())
    step = 1e-6 / lipschitz**0.5
    further, _, _ = proximal.roots_prox(np.empty(N), POINTS, SIGNS, scales, UPPER, lipschitz, multiplier + step)
    assert (found - further) / step == pytest.approx(fall, rel=1e-2, abs=1e-5)


def test_sums_match_naive() -> None:
    points = UPPER * RNG.random(N)
    points[1], points[2] = 0.0, UPPER[2]
    assert proximal.entropy_sum(points, UPPER) == pytest.approx(naive.entropy_sum(points, UPPER))
    assert proximal.roots_sum(points, UPPER) == pytest.approx(naive.roots_sum(points, UPPER))
