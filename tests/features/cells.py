"""Expansions in cells with random coefficients, some of them empty, and assertions for all expansions."""

from __future__ import annotations

import numpy as np

from okl.features.cells import CellTree
from okl.features.predictors import KernelExpansion, LocalExpansion, Partition
from okl.foundation.types import FloatArray


def draw_partition(supports: FloatArray, n_outputs: int, most_rows: int, random: np.random.Generator) -> Partition:
    """Draw a tree whose cells have at most most_rows supports; one of several cells is empty."""
    tree = CellTree.drawn(supports, most_rows, random)
    cells = tree.cells_of(supports)
    kept = np.flatnonzero((cells != tree.n_cells // 2) | (tree.n_cells == 1))
    order = kept[np.argsort(cells[kept], kind="stable")]
    starts = np.searchsorted(cells[order], np.arange(tree.n_cells + 1))
    coefficients = random.standard_normal((n_outputs, len(order))).astype(supports.dtype)
    offsets = random.standard_normal((tree.n_cells, n_outputs)).astype(supports.dtype)
    return Partition(tree, order, starts, coefficients, offsets)


def assert_same_bits_in_any_block(
    expansion: KernelExpansion | LocalExpansion, inputs: FloatArray, n_outputs: int
) -> None:
    """Assert that scores of 900 float32 rows depend neither on other rows nor on the number of threads."""
    whole = expansion.scores(inputs)
    assert whole.shape == ((900,) if n_outputs == 1 else (900, 3))
    assert whole.dtype == np.float32
    for n_threads in (2, 3):
        np.testing.assert_array_equal(expansion.scores(inputs, n_threads), whole)
    for first, last in ((0, 1), (5, 300), (256, 900)):
        np.testing.assert_array_equal(expansion.scores(inputs[first:last]), whole[first:last])
    assert expansion.scores(inputs[:0]).shape == whole[:0].shape
