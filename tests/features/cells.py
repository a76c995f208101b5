"""Expansions in cells with random coefficients, of which some cells are empty."""

from __future__ import annotations

import numpy as np

from okl.features.cells import CellTree
from okl.features.predictors import Partition
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
