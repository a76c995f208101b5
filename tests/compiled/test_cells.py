from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.cells import find_cells
from okl.foundation.types import Integers, Precision
from tests.compiled.cases import PRECISIONS
from tests.naive import cells as naive


def draw_children(n_splits: int, random: np.random.Generator) -> Integers:
    """Draw a tree of any shape: each split is a child of an earlier one, and cells are the other children."""
    children = np.zeros((n_splits, 2), dtype=np.int64)
    free = [(0, 0), (0, 1)]
    for split in range(1, n_splits):
        children[free.pop(random.integers(len(free)))] = split
        free += [(split, 0), (split, 1)]
    for cell, position in enumerate(free):
        children[position] = -1 - cell
    return children


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("n_inputs", "n_splits"), [(1, 12), (5, 40), (37, 12)])
def test_find_cells_matches_naive(n_inputs: int, n_splits: int, precision: Precision) -> None:
    random = np.random.default_rng(n_inputs)
    inputs = random.standard_normal((400, n_inputs)).astype(precision)
    directions, thresholds = random.standard_normal((n_splits, n_inputs)), 0.5 * random.standard_normal(n_splits)
    children = draw_children(n_splits, random)
    cells, expected = np.full(400, -7), np.full(400, -7)
    naive.find_cells(expected, inputs, directions, thresholds, children)
    find_cells(cells, inputs, directions, thresholds, children)
    assert len(np.unique(expected)) >= 3
    np.testing.assert_array_equal(cells, expected)


def test_all_rows_of_a_tree_without_splits_are_in_its_cell() -> None:
    cells = np.full(9, -7)
    find_cells(cells, np.ones((9, 2)), np.empty((0, 2)), np.empty(0), np.empty((0, 2), dtype=np.int64))
    assert not cells.any()
