from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.projections import Entries
from okl.compiled.projectionsnewton import improve_multiplier, improve_multipliers, sum_classes
from okl.types import Precision
from tests.naive import projections as naive


def entries_of(precision: Precision, arrays: bool, size: int = 500) -> Entries:
    rng = np.random.default_rng(size)
    point = np.round(rng.standard_normal(size), 2).astype(precision)
    signs = np.where(rng.random(size) < 0.4, 1, -1).astype(np.int8)
    if not arrays:
        return Entries(point, signs, 0.0, 0.5)
    lower = -np.round(rng.random(size), 1)
    return Entries(point, signs, lower, lower + rng.choice([0.0, 0.3, np.inf], size))


def clipped(entries: Entries, plus: float, minus: float) -> NDArray[np.float64]:
    return np.clip(entries.point - np.where(entries.signs > 0, plus, minus), entries.lower, entries.upper)


@pytest.mark.parametrize(("precision", "arrays"), [("float64", False), ("float64", True), ("float32", False)])
def test_sums_of_classes_match_naive(precision: Precision, arrays: bool) -> None:
    entries = entries_of(precision, arrays)
    found, expected = sum_classes(entries, 0.2, -0.3), naive.sum_classes(entries, 0.2, -0.3)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)
    assert min(free for _, free, _ in expected) > 5


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("guess", [0.31, 0.25, -0.4])
def test_steps_from_a_guess_end_where_sums_are_the_totals(guess: float, arrays: bool) -> None:
    entries = entries_of("float64", arrays)
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


def test_steps_from_a_guess_give_up_where_nothing_is_free() -> None:
    entries = entries_of("float64", False)
    assert not improve_multiplier(entries, 3.0, 50.0)[2]
    assert not improve_multipliers(entries, 3.0, 3.0, 0.1, 50.0)[3]
