"""Cells of neighbouring rows: partitions of the inputs by trees of hyperplanes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.cells import find_cells
from okl.compiled.jit import as_compiled, one_blas_thread
from okl.foundation.class_tags import stored
from okl.foundation.types import Doubles, FloatArray, Integers

_POWER_STEPS = 2  # of a random direction: more would make all partitions alike, fewer would ignore the spread


@stored("cell-tree")
@dataclass(frozen=True, eq=False)
class CellTree:
    """Partition of the inputs into cells by a binary tree of hyperplanes.

    directions : (n_splits, n_inputs) float64; thresholds : (n_splits,); children : (n_splits, 2), as in `find_cells`
    """

    directions: Doubles
    thresholds: Doubles
    children: Integers

    @property
    def n_cells(self) -> int:
        return len(self.thresholds) + 1

    def is_valid(self, n_inputs: int) -> bool:
        """Return whether it is a tree over this number of inputs, whose cells are all reached."""
        n_splits, below = len(self.thresholds), self.children
        expected = (
            (self.directions, (n_splits, n_inputs), np.float64),
            (self.thresholds, (n_splits,), np.float64),
            (below, (n_splits, 2), np.int64),
        )
        if not all(array.shape == shape and array.dtype == dtype for array, shape, dtype in expected):
            return False
        # a split comes after the one above it, so that every way ends
        reached = np.sort(below.ravel())
        every = [*range(-1 - n_splits, 0), *range(1, n_splits)] if n_splits else []
        return bool(np.array_equal(reached, every) and (below[below >= 0] > np.nonzero(below >= 0)[0]).all())

    @property
    def depth(self) -> int:
        """Return the largest number of splits on the way to a cell."""
        depths = np.zeros(len(self.children), dtype=int)
        for split, below in enumerate(self.children):  # a child has a larger number
            depths[below[below >= 0]] = depths[split] + 1
        return int(depths.max()) + 1 if len(depths) else 0

    @staticmethod
    def drawn(sample: FloatArray, most_rows: float, random: np.random.Generator) -> CellTree:
        """Split a sample of rows at medians along directions in which they spread, down to most_rows rows in a cell.

        A direction is a random vector times the covariance of the rows, twice: mostly the first principal directions,
        but never the same. Rows that are all alike remain together.

        sample : (rows, n_inputs), finite

        Source: Verma, Kpotufe & Dasgupta, Which spatial partition trees are adaptive to intrinsic dimension?, UAI 2009,
        section 2.
        """
        rows = np.ascontiguousarray(sample, dtype=np.float64)
        splits: list[tuple[Doubles, float]] = []
        children: list[list[int]] = []
        n_cells = 0
        waiting = [(np.arange(len(rows)), -1, 0)]  # members, and the split and the side that they hang from
        with one_blas_thread():
            while waiting:
                members, parent, side = waiting.pop()
                split = None if len(members) <= most_rows else _split(rows[members], random)
                if parent >= 0:
                    children[parent][side] = -1 - n_cells if split is None else len(splits)
                if split is None:
                    n_cells += 1
                    continue
                direction, threshold, right = split
                waiting += [(members[right], len(splits), 1), (members[~right], len(splits), 0)]
                splits.append((direction, threshold))
                children.append([0, 0])
        directions = np.array([direction for direction, _ in splits]).reshape(len(splits), rows.shape[1])
        thresholds = np.array([threshold for _, threshold in splits])
        return CellTree(directions, thresholds, np.array(children, dtype=np.int64).reshape(-1, 2))

    def cells_of(self, inputs: FloatArray) -> Integers:
        """Return the cell of each row, (rows,), of inputs (rows, n_inputs)."""
        cells = np.empty(len(inputs), dtype=np.int64)
        find_cells(cells, as_compiled(inputs, inputs.dtype), self.directions, self.thresholds, self.children)
        return cells


def _split(rows: Doubles, random: np.random.Generator) -> tuple[Doubles, float, NDArray[np.bool_]] | None:
    """Return a direction, a threshold, and which rows are above it; None if all rows are alike."""
    centred = rows - rows.mean(axis=0)
    direction: Doubles = np.asarray(random.standard_normal(rows.shape[1]))
    for _ in range(_POWER_STEPS):
        direction = np.asarray(centred.T @ (centred @ direction))
        length = float(np.linalg.norm(direction))
        if not length > 0.0:
            return None
        direction = direction / length
    products = rows @ direction
    levels = np.sort(products)
    rounding = 4.0 * rows.shape[1] * np.finfo(np.float64).eps * float(np.linalg.norm(rows, axis=1).max())
    borders = np.flatnonzero(np.diff(levels) > rounding)  # others would split rows that are alike
    if not len(borders):
        return None
    border = borders[np.argmin(np.abs(borders - (len(levels) - 1) // 2))]
    # between two levels: `find_cells` sums in another order, and must not move rows that are at a threshold
    threshold = float(levels[border] + 0.5 * (levels[border + 1] - levels[border]))
    return direction, threshold, np.asarray(products > threshold)
