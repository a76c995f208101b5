from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.inverse import grow_inverse, project_row, replace_in_inverse, shrink_inverse
from okl.kernels import Gaussian
from okl.types import FloatArray

CAPACITY = 16
RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((12, 4))
GRAM = Gaussian(1.5).matrix(POINTS, POINTS)


def padded_inverse(n: int) -> NDArray[np.float64]:
    inverse = np.zeros((CAPACITY, CAPACITY))
    inverse[:n, :n] = np.linalg.inv(GRAM[:n, :n])
    return inverse


def padded_row(values: FloatArray, precision: str) -> FloatArray:
    row = np.zeros(CAPACITY, dtype=precision)
    row[: len(values)] = values
    row[len(values) :] = 7.0  # kernel values of columns without a support must not matter
    return row


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 7, 11])
def test_projection_matches_solve(n: int, precision: str) -> None:
    place, row = np.full(CAPACITY, 9.0), padded_row(GRAM[:n, 11], precision)
    length = project_row(place, padded_inverse(n), row, n)
    expected = np.linalg.solve(GRAM[:n, :n], row[:n].astype(np.float64))
    np.testing.assert_allclose(place[:n], expected, rtol=0, atol=1e-10)
    assert not place[n:].any()
    assert length == pytest.approx(float(row[:n].astype(np.float64) @ expected), abs=1e-10)


def test_grown_inverse_matches_inverse() -> None:
    inverse, place = np.zeros((CAPACITY, CAPACITY)), np.zeros(CAPACITY)
    for n in range(12):
        length = project_row(place, inverse, padded_row(GRAM[:n, n], "float64"), n)
        grow_inverse(inverse, place, GRAM[n, n] - length, n)
        np.testing.assert_allclose(inverse, padded_inverse(n + 1), rtol=0, atol=1e-9 * np.abs(inverse).max())


@pytest.mark.parametrize("slot", [0, 3, 9])
def test_replaced_inverse_matches_inverse_and_gives_the_projection(slot: int) -> None:
    n = 10
    inverse, place, column = padded_inverse(n), np.zeros(CAPACITY), np.zeros(CAPACITY)
    length = project_row(place, inverse, padded_row(GRAM[:n, n], "float64"), n)
    replace_in_inverse(inverse, column, place, GRAM[n, n] - length, slot, n)
    chosen = np.arange(n)
    chosen[slot] = n
    expected = np.linalg.inv(GRAM[np.ix_(chosen, chosen)])
    np.testing.assert_allclose(inverse[:n, :n], expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    shares = np.linalg.solve(GRAM[np.ix_(chosen, chosen)], GRAM[chosen, slot])
    np.testing.assert_allclose(column[:n], shares, rtol=0, atol=1e-9)


@pytest.mark.parametrize("slot", [0, 4, 9])
def test_shrunk_inverse_matches_inverse_and_gives_the_projection(slot: int) -> None:
    n = 10
    inverse, column = padded_inverse(n), np.zeros(CAPACITY)
    shrink_inverse(inverse, column, slot, n)
    others = np.array([i for i in range(n) if i != slot])
    shares = np.linalg.solve(GRAM[np.ix_(others, others)], GRAM[others, slot])
    np.testing.assert_allclose(column[others], shares, rtol=0, atol=1e-9)
    assert column[slot] == 0.0
    moved = np.arange(n - 1)
    if slot < n - 1:
        moved[slot] = n - 1
    expected = np.zeros((CAPACITY, CAPACITY))
    expected[: n - 1, : n - 1] = np.linalg.inv(GRAM[np.ix_(moved, moved)])
    np.testing.assert_allclose(inverse, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
