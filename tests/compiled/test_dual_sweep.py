from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from okl.compiled import dual_sweep
from okl.compiled import products as compiled_products
from okl.compiled.products import add_listed_rows, new_claims
from okl.foundation.types import FloatArray
from tests.naive import dual_sweep as naive_dual_sweep
from tests.naive import products as naive_products

GUESSES, MULTIPLIERS = (0.15, -0.2), (0.3, -0.25)


def arguments(n_rows: int, n_columns: int, precision: str) -> list[Any]:
    """Return inputs: classes differ from signs, some boxes are points, and one is unbounded."""
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
    rows, signs, vector, points, curvatures, normals, *box = given[:8]
    expected = naive_dual_sweep.sweep_warm_started_segments(
        signs[:, None] * rows, vector, points, curvatures, normals, (box[0], box[1]), GUESSES, -1.0, 3.0
    )
    segments: list[Any] = [found[0][None], *found[1:], new_claims(), *given, shape[0]]
    dual_sweep.sweep_warm_started_segments(*segments)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_image_at_a_guess_is_corrected_to_that_of_the_multipliers_found() -> None:
    given = arguments(203, 700, "float64")
    rows, signs, normals, bounds = given[0], given[1], given[5], (given[6], given[7])
    parts, targets, gradient = np.empty((4, 3, 700)), np.empty(203), np.empty(203)
    all_given: list[Any] = [parts, targets, gradient, new_claims(), *given, *GUESSES, -1.0, 3.0, 60]
    dual_sweep.sweep_warm_started_segments(*all_given)
    sums = parts.sum(axis=0)
    out, listed, changes = np.empty(203), np.empty(203, dtype=np.int64), np.empty(203)
    count = dual_sweep.project_at_multipliers(
        out, listed, changes, targets, signs, normals, *bounds, GUESSES, MULTIPLIERS
    )
    expected, wanted = naive_dual_sweep.project_at_multipliers(targets, signs, normals, bounds, GUESSES, MULTIPLIERS)
    assert count > 5
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(listed[:count], np.flatnonzero(wanted))
    np.testing.assert_allclose(changes[:count], wanted[listed[:count]], rtol=1e-12, atol=1e-15)
    image, whole = (
        sums[0] - (MULTIPLIERS[0] - GUESSES[0]) * sums[1] - (MULTIPLIERS[1] - GUESSES[1]) * sums[2],
        np.zeros(700),
    )
    add_listed_rows(image, rows, listed[:count], changes[:count])
    naive_products.add_rows(whole, rows, signs, out)
    np.testing.assert_allclose(image, whole, rtol=1e-11, atol=1e-11)
    assert np.abs(whole - sums[0]).max() > 0.1


def sweep_arguments(n_rows: int, n_columns: int, precision: str) -> tuple[list[FloatArray], list[Any]]:
    """Return outputs, and inputs up to the buffer or the curvatures."""
    rng = np.random.default_rng(n_rows)
    rows = rng.standard_normal((n_rows, n_columns)).astype(precision)
    outputs: list[FloatArray] = [np.zeros(n_columns), np.empty(n_rows), np.empty(n_rows)]
    signs, vector = rng.choice([-1.0, 1.0], n_rows), rng.standard_normal(n_columns)
    return outputs, [rows, signs, vector, rng.uniform(-1.0, 2.0, n_rows)]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 5), (50, 5)])
def test_sweeps_match_naive(shape: tuple[int, int], precision: str) -> None:
    for barrier in (False, True):
        outputs, inputs = sweep_arguments(*shape, precision)
        (rows, signs, vector, points), upper = inputs, np.random.default_rng(0).uniform(0.5, 2.0, shape[0])
        upper[0] = 0.0
        fifth = upper / 3.0
        numbers: list[Any] = [fifth.copy(), upper, -1.0, 3.0, barrier]
        expected = naive_dual_sweep.sweep_segments(signs[:, None] * rows, vector, points, *numbers)
        given: list[Any] = [outputs[0][None], *outputs[1:], new_claims(), *inputs, fifth.copy(), *numbers[1:], shape[0]]
        dual_sweep.sweep_segments(*given)
        for found, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
        assert outputs[1][0] == 0.0 < outputs[1].max()


def test_sweep_in_blocks_gives_the_bits_of_separate_passes() -> None:
    outputs, inputs = sweep_arguments(203, 700, "float64")  # blocks of 44 rows
    given: list[Any] = [outputs[0][None], *outputs[1:], new_claims(), *inputs]
    given += [np.zeros(203), np.full(203, 0.4), -1.0, 3.0, False, 203]
    dual_sweep.sweep_segments(*given)
    products, sums = np.empty(203), np.zeros(700)
    compiled_products.multiply_rows(products, *inputs[:3])
    compiled_products.add_rows(sums, inputs[0], inputs[1], outputs[1])
    assert np.array_equal(outputs[2], products - 1.0)
    assert np.array_equal(outputs[0], sums)
