"""Cells of a partition of the inputs by hyperplanes."""

from __future__ import annotations

import numpy as np

from okl.compiled.jit import compiled_sum
from okl.foundation.types import Doubles, FloatArray, Integers


@compiled_sum
def find_cells(
    cells: Integers, inputs: FloatArray, directions: Doubles, thresholds: Doubles, children: Integers
) -> None:
    """Write the cell of each row into cells (rows,): the leaf that it reaches from the root of a tree.

    inputs : (rows, n_inputs), finite
    directions : (n_splits, n_inputs); a row goes right where its product with the direction is above the threshold
    thresholds : (n_splits,)
    children : (n_splits, 2), left and right: the number of a split, or -1 - the number of a cell
    """
    for row in range(len(inputs)):
        split = 0 if len(directions) else -1
        while split >= 0:
            product = 0.0
            for column in range(inputs.shape[1]):
                product += np.float64(inputs[row, column]) * directions[split, column]
            split = children[split, 1 if product > thresholds[split] else 0]
        cells[row] = -1 - split
