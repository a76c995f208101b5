from __future__ import annotations

import numpy as np
import pytest
from numba import TypingError

from okl.compiled.fourier import (
    LANES,
    Structured,
    dot,
    fourier_scores,
    fourier_transform,
    hadamard_transform,
    map_block,
    score_block,
    structured_transform,
)
from okl.compiled.fourier import project_structured as fourier_project_structured
from okl.compiled.products import TILE, panels_of, project
from okl.compiled.threads import Block
from okl.foundation.types import FloatArray, Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE, buffer, make_case, some_weights
from tests.naive import fourier as naive
from tests.naive import fourier as naive_fourier


@pytest.mark.parametrize("precision", PRECISIONS)
def test_map_block_matches_naive(precision: Precision) -> None:
    case = make_case(0, precision)
    block, expected = buffer(len(case.inputs), case), buffer(len(case.inputs), case)
    map_block(block, case.inputs, case.waves)
    naive.map_block(expected, case.inputs, case.waves)
    np.testing.assert_allclose(block.left, expected.left, atol=TOLERANCE[precision])
    np.testing.assert_allclose(block.right, expected.right, atol=TOLERANCE[precision])
    assert np.std(expected.left) > 0.05


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("length", [0, 1, 15, 64, 100, 801])
def test_dot_matches_naive(precision: Precision, length: int) -> None:
    left, right = np.random.default_rng(length).standard_normal((2, length)).astype(precision)
    np.testing.assert_allclose(dot(left, right), naive.dot(left, right), atol=TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", [0, 2])
def test_score_block_matches_naive(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    block, weights = buffer(len(case.inputs), case), some_weights(case)
    map_block(block, case.inputs, case.waves)
    scores = np.empty((len(case.inputs), len(weights)), dtype=precision)
    expected = np.empty_like(scores)
    score_block(scores, block, weights)
    naive.score_block(expected, block, weights)
    np.testing.assert_allclose(scores, expected, atol=10 * TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_transform_matches_naive_and_writes_its_own_blocks_only(precision: Precision) -> None:
    case = make_case(0, precision)
    shape = (len(case.inputs), 2 * case.waves.n_frequencies)
    features, expected = np.zeros(shape, dtype=precision), np.zeros(shape, dtype=precision)
    fourier_transform(features, buffer(16, case), case.inputs, case.waves, 1, 2)
    naive.fourier_transform(expected, buffer(16, case), case.inputs, case.waves, 1, 2)
    np.testing.assert_allclose(features, expected, atol=TOLERANCE[precision])
    assert not features[:16].any()
    assert features[16:32].all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_scores_match_naive(precision: Precision) -> None:
    case = make_case(2, precision)
    weights = some_weights(case)
    scores = np.zeros((len(case.inputs), len(weights)), dtype=precision)
    expected = np.zeros_like(scores)
    for thread in range(3):
        fourier_scores(scores, buffer(16, case), case.inputs, case.waves, weights, thread, 3)
        naive.fourier_scores(expected, buffer(16, case), case.inputs, case.waves, weights, thread, 3)
    np.testing.assert_allclose(scores, expected, atol=10 * TOLERANCE[precision])
    assert np.std(expected) > 0.1


HADAMARD_TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
HADAMARD_PRECISIONS: list[Precision] = ["float32", "float64"]


def make_structured(size: int, n_frequencies: int, precision: Precision) -> Structured:
    rng = np.random.default_rng(size)
    signs = rng.choice([-1.0, 1.0], size=(-(-n_frequencies // size), 3, size)).astype(precision)
    half_turns = (rng.random(n_frequencies) * size**-1.5).astype(precision)
    return Structured(signs, half_turns, half_turns.dtype.type(n_frequencies**-0.5))


def some_rows(rows: int, n_inputs: int, precision: Precision) -> FloatArray:
    return np.random.default_rng(1).standard_normal((rows, n_inputs)).astype(precision)


def project_structured(inputs: FloatArray, structured: Structured) -> FloatArray:
    products = np.full((len(inputs), len(structured.half_turns)), np.nan, dtype=inputs.dtype)
    buffers = np.empty((2, structured.signs.shape[2], LANES), dtype=inputs.dtype)
    fourier_project_structured(products, inputs, structured, buffers)
    return products


@pytest.mark.parametrize("precision", HADAMARD_PRECISIONS)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 64, 128])
def test_hadamard_transform_matches_naive_and_is_its_own_inverse(size: int, precision: Precision) -> None:
    columns = some_rows(size, LANES, precision)
    expected, before = columns.copy(), columns.copy()
    hadamard_transform(columns)
    naive_fourier.hadamard_transform(expected)
    assert columns.std() > 0.5
    np.testing.assert_allclose(columns, expected, atol=size * HADAMARD_TOLERANCE[precision])
    hadamard_transform(columns)
    np.testing.assert_allclose(columns / size, before, atol=HADAMARD_TOLERANCE[precision])


@pytest.mark.parametrize("precision", HADAMARD_PRECISIONS)
@pytest.mark.parametrize(("n_inputs", "size", "n_frequencies"), [(1, 1, 3), (5, 8, 5), (8, 8, 16), (33, 64, 150)])
def test_projections_match_naive(n_inputs: int, size: int, n_frequencies: int, precision: Precision) -> None:
    structured = make_structured(size, n_frequencies, precision)
    inputs = some_rows(37, n_inputs, precision)
    expected = np.empty((37, n_frequencies))
    naive_fourier.project_structured(expected, inputs, structured)
    assert expected.std() > 0.1
    np.testing.assert_allclose(project_structured(inputs, structured), expected, atol=HADAMARD_TOLERANCE[precision])


def test_a_row_has_the_same_bits_in_any_lane() -> None:
    structured, inputs = make_structured(8, 21, "float32"), some_rows(50, 6, "float32")
    whole = project_structured(inputs, structured)
    for size in (1, 5, LANES, 33):
        parts = [project_structured(inputs[i : i + size], structured) for i in range(0, 50, size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("precision", HADAMARD_PRECISIONS)
def test_structured_features_match_naive(precision: Precision) -> None:
    structured, inputs = make_structured(8, 21, precision), some_rows(50, 6, precision)
    features, expected = np.full((50, 42), np.nan, dtype=precision), np.empty((50, 42))
    block = Block(np.empty((32, 21), precision), np.empty((32, 21), precision))
    structured_transform(features, block, np.empty((2, 8, LANES), precision), inputs, structured)
    naive_fourier.structured_transform(expected, inputs, structured)
    assert expected.std() > 0.1
    np.testing.assert_allclose(features, expected, atol=HADAMARD_TOLERANCE[precision])


PROJECTION_TOLERANCE = {"float32": 1e-4, "float64": 1e-13}


def some(precision: Precision, rows: int, columns: int) -> FloatArray:
    made: FloatArray = np.random.default_rng([rows, columns]).standard_normal((rows, columns)).astype(precision)
    return made


def width(precision: Precision) -> int:
    return TILE.vectors * TILE.vector_bytes // np.dtype(precision).itemsize


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_columns", [1, 31, 32, 33, 96, 100])
def test_panels_match_naive_and_begin_at_cache_lines(n_columns: int, precision: Precision) -> None:
    matrix = some(precision, 3, n_columns)
    panels = panels_of(matrix)
    np.testing.assert_array_equal(panels, naive_fourier.panels_of(matrix, width(precision)))
    assert panels.dtype == precision
    assert panels.ctypes.data % 64 == 0


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_inputs", [1, 2, 13])
@pytest.mark.parametrize("n_columns", [1, 15, 48, 77])
@pytest.mark.parametrize("rows", [1, 7, 8, 21])
def test_products_match_naive(rows: int, n_columns: int, n_inputs: int, precision: Precision) -> None:
    inputs, panels = some(precision, rows, n_inputs), panels_of(some(precision, n_inputs, n_columns))
    products, expected = np.empty((2, rows, n_columns), dtype=precision)
    project(products, inputs, panels)
    naive_fourier.project(expected, inputs, panels)
    np.testing.assert_allclose(products, expected, atol=PROJECTION_TOLERANCE[precision])
    assert np.std(expected) > 0.1 or expected.size == 1


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_inputs", [1, 54, 300])
def test_a_row_has_the_same_bits_with_any_other_rows(n_inputs: int, precision: Precision) -> None:
    inputs, panels = some(precision, 70, n_inputs), panels_of(some(precision, n_inputs, 50))
    products = np.empty((70, 50), dtype=precision)
    project(products, inputs, panels)
    assert len(np.unique(products)) > 0.99 * products.size
    for n_rows in (1, 2, 3, 8, 9, 33):
        for first in (0, 1, 5, 37):
            part = np.empty((n_rows, 50), dtype=precision)
            project(part, inputs[first : first + n_rows], panels)
            np.testing.assert_array_equal(part, products[first : first + n_rows])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_column_has_the_same_bits_with_any_other_columns(precision: Precision) -> None:
    inputs, matrix = some(precision, 11, 54), some(precision, 54, 70)
    products = np.empty((11, 70), dtype=precision)
    project(products, inputs, panels_of(matrix))
    for first, last in ((0, 1), (5, 21), (33, 70)):
        part = np.empty((11, last - first), dtype=precision)
        project(part, inputs, panels_of(matrix[:, first:last]))
        np.testing.assert_array_equal(part, products[:, first:last])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_columns", [1, 30, 33, 64])
def test_only_the_products_are_written(n_columns: int, precision: Precision) -> None:
    memory = np.full((3, 10, n_columns), 7.0, dtype=precision)
    project(memory[1], some(precision, 10, 4), panels_of(some(precision, 4, n_columns)))
    assert (memory[0] == 7.0).all()
    assert (memory[1] != 7.0).all()
    assert (memory[2] == 7.0).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_non_finite_values_stay_in_their_row(precision: Precision) -> None:
    inputs = some(precision, 9, 4)
    inputs[3, 2] = np.nan
    inputs[8, 0] = np.inf
    products = np.empty((9, 40), dtype=precision)
    project(products, inputs, panels_of(some(precision, 4, 40)))
    np.testing.assert_array_equal(np.isfinite(products).all(axis=1), np.isfinite(inputs).all(axis=1))


def test_no_rows_have_no_products() -> None:
    project(np.empty((0, 5)), np.empty((0, 3)), panels_of(np.ones((3, 5))))


def test_arrays_of_several_precisions_are_refused() -> None:
    with pytest.raises(TypingError, match="_project_tile"):
        project(np.empty((2, 5), dtype=np.float32), np.ones((2, 3)), panels_of(np.ones((3, 5))))
