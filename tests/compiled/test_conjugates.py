from __future__ import annotations

import numpy as np
import pytest

import tests.naive.conjugates as naive
from okl.compiled import conjugates
from okl.types import FloatArray

N = 60
RNG = np.random.default_rng(1)
UPPER = RNG.uniform(0.5, 3.0, N)
CUT = 1e-2
INSIDE = UPPER * np.clip(RNG.random(N), CUT, 1 - CUT)
ANYWHERE = UPPER * RNG.uniform(-0.6, 1.6, N)
PARTS = [
    ("entropy_value", "add_entropy_slopes", "entropy_excess", (UPPER, CUT)),
    ("roots_value", "add_root_slopes", "roots_excess", (UPPER[::-1].copy(), CUT * UPPER)),
    ("quadratic_value", "add_quadratic_slopes", "quadratic_excess", (UPPER,)),
]
Part = tuple[str, str, str, tuple[FloatArray, ...]]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0])
def test_conjugates_match_naive_within_and_beyond_the_margins(part: Part) -> None:
    value, slopes, excess, numbers = part
    assert (ANYWHERE < CUT * UPPER).sum() > 5
    assert (ANYWHERE > UPPER).sum() > 5
    for points in (INSIDE, ANYWHERE):
        assert getattr(conjugates, value)(points, *numbers) == pytest.approx(getattr(naive, value)(points, *numbers))
        gradient, expected = np.ones(N), np.ones(N)
        getattr(conjugates, slopes)(gradient, points, *numbers)
        getattr(naive, slopes)(expected, points, *numbers)
        np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-12)
        found = getattr(conjugates, excess)(INSIDE, points[::-1].copy(), *numbers)
        assert found == pytest.approx(getattr(naive, excess)(INSIDE, points[::-1].copy(), *numbers), rel=1e-10)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0])
def test_excess_keeps_its_digits_where_points_are_close(part: Part) -> None:
    _, slopes, excess, numbers = part
    step = 1e-7 * UPPER * RNG.uniform(0.5, 1.0, N)
    gradients = [np.zeros(N), np.zeros(N)]
    getattr(conjugates, slopes)(gradients[0], INSIDE, *numbers)
    getattr(conjugates, slopes)(gradients[1], INSIDE + step, *numbers)
    # half of <slopes(a) - slopes(b), a - b>, but for terms of third order; the value itself is 1e14 times larger
    expected = 0.5 * float((gradients[1] - gradients[0]) @ step)
    assert getattr(conjugates, excess)(INSIDE + step, INSIDE, *numbers) == pytest.approx(expected, rel=1e-4)
