from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from okl.compiled import guessedsweeps
from okl.compiled.rowpasses import add_listed_rows
from okl.compiled.segments import new_claims
from tests.naive import rowpasses, sweeps

GUESSES, FOUND = (0.15, -0.2), (0.3, -0.25)


def arguments(n_rows: int, n_columns: int, precision: str) -> list[Any]:
    """Inputs; the class of a row is not its sign, some boxes are points, one has no end."""
    rng = np.random.default_rng(n_rows)
    rows = rng.standard_normal((n_rows, n_columns)).astype(precision)
    signs, points = rng.choice([-1.0, 1.0], n_rows), rng.standard_normal(n_rows)
    vector = rng.standard_normal(n_columns) / np.sqrt(n_columns)
    normals = rng.choice(np.array([-1, 1], dtype=np.int8), n_rows)
    lower = rng.uniform(-1.0, 0.0, n_rows) * (rng.random(n_rows) < 0.5)
    upper = lower + rng.choice([0.0, 0.4, 1.5, np.inf], n_rows)
    return [rows, signs, vector, points, rng.random(n_rows), normals, lower, upper]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 5), (203, 700)])  # in one block, and in several
def test_sweep_by_a_guess_matches_naive(shape: tuple[int, int], precision: str) -> None:
    given = [*arguments(*shape, precision), *GUESSES, -1.0, 3.0]
    found: list[Any] = [np.zeros((3, shape[1])), np.empty(shape[0]), np.empty(shape[0])]
    expected = [one.copy() for one in found]
    sweeps.sweep_guessed(*expected, *given)
    guessedsweeps.sweep_guessed(*found, *given)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_image_at_a_guess_is_corrected_to_that_of_the_multipliers_found() -> None:
    given = arguments(203, 700, "float64")
    rows, signs, normals, bounds = given[0], given[1], given[5], (given[6], given[7])
    parts, targets, gradient = np.empty((4, 3, 700)), np.empty(203), np.empty(203)
    all_given: list[Any] = [parts, targets, gradient, new_claims(), *given, *GUESSES, -1.0, 3.0, 60]
    guessedsweeps.sweep_guessed_segments(*all_given)
    sums = parts.sum(axis=0)
    out, listed, changes = np.empty(203), np.empty(203, dtype=np.int64), np.empty(203)
    expected = (np.empty(203), np.empty(203, dtype=np.int64), np.empty(203))
    count = guessedsweeps.settle_points(out, listed, changes, targets, signs, normals, *bounds, GUESSES, FOUND)
    wanted = sweeps.settle_points(*expected, targets, signs, normals, *bounds, GUESSES, FOUND)
    assert count == wanted > 5
    np.testing.assert_array_equal(out, expected[0])
    np.testing.assert_array_equal(listed[:count], expected[1][:count])
    np.testing.assert_allclose(changes[:count], expected[2][:count], rtol=1e-12, atol=1e-15)
    image, whole = sums[0] - (FOUND[0] - GUESSES[0]) * sums[1] - (FOUND[1] - GUESSES[1]) * sums[2], np.zeros(700)
    add_listed_rows(image, rows, listed[:count], changes[:count])
    rowpasses.add_rows(whole, rows, signs, out)
    np.testing.assert_allclose(image, whole, rtol=1e-11, atol=1e-11)
    assert np.abs(whole - sums[0]).max() > 0.1
