from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.blocks import Block
from okl.compiled.hadamard import LANES, Structured, hadamard_transform, project_structured, structured_transform
from okl.types import FloatArray, Precision
from tests.naive import hadamard as naive

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
PRECISIONS: list[Precision] = ["float32", "float64"]


def make_structured(size: int, n_frequencies: int, precision: Precision) -> Structured:
    rng = np.random.default_rng(size)
    signs = rng.choice([-1.0, 1.0], size=(-(-n_frequencies // size), 3, size)).astype(precision)
    half_turns = (rng.random(n_frequencies) * size**-1.5).astype(precision)
    return Structured(signs, half_turns, half_turns.dtype.type(n_frequencies**-0.5))


def some_rows(rows: int, n_inputs: int, precision: Precision) -> FloatArray:
    return np.random.default_rng(1).standard_normal((rows, n_inputs)).astype(precision)


def project(inputs: FloatArray, structured: Structured) -> FloatArray:
    products = np.full((len(inputs), len(structured.half_turns)), np.nan, dtype=inputs.dtype)
    buffers = np.empty((2, structured.signs.shape[2], LANES), dtype=inputs.dtype)
    project_structured(products, inputs, structured, buffers)
    return products


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 64, 128])
def test_hadamard_transform_matches_naive_and_is_its_own_inverse(size: int, precision: Precision) -> None:
    columns = some_rows(size, LANES, precision)
    expected, before = columns.copy(), columns.copy()
    hadamard_transform(columns)
    naive.hadamard_transform(expected)
    assert columns.std() > 0.5
    np.testing.assert_allclose(columns, expected, atol=size * TOLERANCE[precision])
    hadamard_transform(columns)
    np.testing.assert_allclose(columns / size, before, atol=TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("n_inputs", "size", "n_frequencies"), [(1, 1, 3), (5, 8, 5), (8, 8, 16), (33, 64, 150)])
def test_projections_match_naive(n_inputs: int, size: int, n_frequencies: int, precision: Precision) -> None:
    structured = make_structured(size, n_frequencies, precision)
    inputs = some_rows(37, n_inputs, precision)
    expected = np.empty((37, n_frequencies))
    naive.project_structured(expected, inputs, structured)
    assert expected.std() > 0.1
    np.testing.assert_allclose(project(inputs, structured), expected, atol=TOLERANCE[precision])


def test_a_row_has_the_same_bits_in_any_lane() -> None:
    structured, inputs = make_structured(8, 21, "float32"), some_rows(50, 6, "float32")
    whole = project(inputs, structured)
    for size in (1, 5, LANES, 33):
        parts = [project(inputs[i : i + size], structured) for i in range(0, 50, size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_structured_features_match_naive(precision: Precision) -> None:
    structured, inputs = make_structured(8, 21, precision), some_rows(50, 6, precision)
    features, expected = np.full((50, 42), np.nan, dtype=precision), np.empty((50, 42))
    block = Block(np.empty((32, 21), precision), np.empty((32, 21), precision))
    structured_transform(features, block, np.empty((2, 8, LANES), precision), inputs, structured)
    naive.structured_transform(expected, inputs, structured)
    assert expected.std() > 0.1
    np.testing.assert_allclose(features, expected, atol=TOLERANCE[precision])
