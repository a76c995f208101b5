from __future__ import annotations

import numpy as np
import pytest
from numba import TypingError

from okl.compiled.projection import TILE, panels_of, project
from okl.types import FloatArray, Precision
from tests.compiled.cases import PRECISIONS
from tests.naive import projection as naive

TOLERANCE = {"float32": 1e-4, "float64": 1e-13}


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
    np.testing.assert_array_equal(panels, naive.panels_of(matrix, width(precision)))
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
    naive.project(expected, inputs, panels)
    np.testing.assert_allclose(products, expected, atol=TOLERANCE[precision])
    assert np.std(expected) > 0.1 or expected.size == 1


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_inputs", [1, 54, 300])
def test_a_row_has_the_same_bits_whatever_rows_are_beside_it(n_inputs: int, precision: Precision) -> None:
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
def test_a_column_has_the_same_bits_whatever_columns_are_beside_it(precision: Precision) -> None:
    inputs, matrix = some(precision, 11, 54), some(precision, 54, 70)
    products = np.empty((11, 70), dtype=precision)
    project(products, inputs, panels_of(matrix))
    for first, last in ((0, 1), (5, 21), (33, 70)):
        part = np.empty((11, last - first), dtype=precision)
        project(part, inputs, panels_of(matrix[:, first:last]))
        np.testing.assert_array_equal(part, products[:, first:last])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_columns", [1, 30, 33, 64])
def test_nothing_is_written_beside_the_products(n_columns: int, precision: Precision) -> None:
    memory = np.full((3, 10, n_columns), 7.0, dtype=precision)
    project(memory[1], some(precision, 10, 4), panels_of(some(precision, 4, n_columns)))
    assert (memory[0] == 7.0).all()
    assert (memory[1] != 7.0).all()
    assert (memory[2] == 7.0).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_is_not_finite_stays_in_its_row(precision: Precision) -> None:
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
