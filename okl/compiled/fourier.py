"""The compiled Fourier map: a projection and its sines and cosines, block by block; a row has the same bits in any.

Legend: X inputs (rows, n_inputs), F frequencies (n_inputs, n_frequencies), W weights (n_outputs, 2 n_frequencies).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from okl.compiled.blocks import Block
from okl.compiled.door import compiled, compiled_sum
from okl.compiled.projection import panels_of, project
from okl.compiled.waves import sines_and_cosines
from okl.types import FloatArray


class Waves(NamedTuple):
    """A Fourier map as the compiled code takes it; `as_waves` makes it.

    panels : frequencies divided by pi, so that products come in half turns and range reduction is exact, packed
    n_frequencies : int, without what fills the last panel
    amplitude : scalar of the same precision, n_frequencies^(-1/2)
    """

    panels: FloatArray
    n_frequencies: int
    amplitude: np.floating[Any]


def as_waves(frequencies: FloatArray) -> Waves:
    """Pack frequencies (n_inputs, n_frequencies), float32 or float64, per unit of input: once a map, not a block."""
    half_turns = (frequencies.astype(np.float64) / np.pi).astype(frequencies.dtype)
    n_frequencies = int(frequencies.shape[1])
    return Waves(panels_of(half_turns), n_frequencies, frequencies.dtype.type(n_frequencies**-0.5))


@compiled
def map_block(block: Block, inputs: FloatArray, waves: Waves) -> None:
    """Overwrite the block by amplitude * sin(X F) (left) and amplitude * cos(X F) (right) of all rows of inputs."""
    project(block.left, inputs, waves.panels)
    sines_and_cosines(block.left, block.right, waves.amplitude)


@compiled
def map_part(block: Block, inputs: FloatArray, waves: Waves, index: int) -> Block:
    """Overwrite a block by the features of the rows of that index, as many as it holds; the part that they fill."""
    first = index * block.left.shape[0]
    rows = inputs[first : first + block.left.shape[0]]
    part = Block(block.left[: rows.shape[0]], block.right[: rows.shape[0]])
    map_block(part, rows, waves)
    return part


@compiled_sum
def score_block(scores: FloatArray, block: Block, weights: FloatArray) -> None:
    """Overwrite scores (rows, n_outputs) by the products of every row of the block with every row of W."""
    width = block.left.shape[1]
    for row in range(scores.shape[0]):
        left, right = block.left[row], block.right[row]
        for output in range(weights.shape[0]):
            w = weights[output]
            scores[row, output] = dot(left, w[:width]) + dot(right, w[width:])


@compiled_sum
def dot(left: FloatArray, right: FloatArray) -> np.floating[Any]:
    """Sum of the products of two vectors of one length and precision, in that precision."""
    total = left.dtype.type(0)
    for j in range(left.shape[0]):
        total += left[j] * right[j]
    return total


@compiled
def fourier_transform(
    features: FloatArray, block: Block, inputs: FloatArray, waves: Waves, thread: int, n_threads: int
) -> None:
    """Write features (rows, 2 n_frequencies), sines first, of every n_threads-th block of rows; block is a buffer."""
    size = block.left.shape[0]
    width = block.left.shape[1]
    for first in range(thread * size, inputs.shape[0], n_threads * size):
        last = min(first + size, inputs.shape[0])
        part = Block(block.left[: last - first], block.right[: last - first])
        map_block(part, inputs[first:last], waves)
        for i in range(last - first):
            for j in range(width):  # slices would compile numba's message about unequal shapes, for seconds
                features[first + i, j] = part.left[i, j]
                features[first + i, width + j] = part.right[i, j]


@compiled
def fourier_scores(
    scores: FloatArray,
    block: Block,
    inputs: FloatArray,
    waves: Waves,
    weights: FloatArray,
    thread: int,
    n_threads: int,
) -> None:
    """Write scores (rows, n_outputs) of every n_threads-th block of rows; block is a buffer."""
    size = block.left.shape[0]
    for first in range(thread * size, inputs.shape[0], n_threads * size):
        last = min(first + size, inputs.shape[0])
        part = Block(block.left[: last - first], block.right[: last - first])
        map_block(part, inputs[first:last], waves)
        score_block(scores[first:last], part, weights)
