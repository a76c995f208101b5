"""The phases of FOGD, each measured alone: a bound on the speed of this machine."""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from okl.compiled.fourier import Waves, dot, map_block
from okl.compiled.jit import aligned_empty, compiled, compiled_sum
from okl.compiled.math import sines_and_cosines
from okl.compiled.products import project
from okl.compiled.sgd import add_scaled
from okl.compiled.threads import Block, run_threads
from okl.features.fourier import FourierFeatures
from okl.foundation.types import FloatArray

BLOCK_ROWS = 256  # of the specification, independent of okl's block size


class Phases(NamedTuple):
    """Nanoseconds per row on one core, and of projection and waves together on all threads."""

    projection: float
    waves: float
    dot: float
    axpy: float
    mapped_by_all: float

    def limit(self, n_threads: int, updates: float) -> float:
        """Return the least nanoseconds per row on n_threads if the share `updates` of rows changes the weights.

        All work is spread over the threads, but the sequential part cannot take less than itself.
        """
        sequential = self.dot + updates * self.axpy
        return max(self.mapped_by_all + sequential / n_threads, sequential)


@compiled
def _project(block: Block, inputs: FloatArray, waves: Waves, times: int) -> None:
    for _ in range(times):
        project(block.left, inputs, waves.panels)


@compiled
def _wave(block: Block, amplitude: np.floating[Any], times: int) -> None:
    for _ in range(times):
        sines_and_cosines(block.left, block.right, amplitude)


@compiled_sum
def _dot(weights: FloatArray, block: Block, times: int) -> np.floating[Any]:
    width = block.left.shape[1]
    left, right = weights[:width], weights[width:]
    total = weights.dtype.type(0)
    for _ in range(times):
        for row in range(block.left.shape[0]):
            total += dot(left, block.left[row]) + dot(right, block.right[row])
    return total


@compiled
def _axpy(weights: FloatArray, block: Block, factor: np.floating[Any], times: int) -> None:
    width = block.left.shape[1]
    left, right = weights[:width], weights[width:]
    for _ in range(times):
        for row in range(block.left.shape[0]):
            add_scaled(left, block.left[row], factor)
            add_scaled(right, block.right[row], factor)


@compiled
def _map(block: Block, inputs: FloatArray, waves: Waves, thread: int, n_threads: int) -> None:
    size = block.left.shape[0]
    for first in range(thread * size, inputs.shape[0] - size + 1, n_threads * size):
        map_block(block, inputs[first : first + size], waves)


def measure_phases(drawn: FourierFeatures, inputs: FloatArray, n_threads: int) -> Phases:
    """Time every phase once, the first four over as many blocks as the inputs hold; the compiled code must be warm."""
    blocks = len(inputs) // BLOCK_ROWS
    shape = (BLOCK_ROWS, drawn.n_frequencies)
    buffers = [Block(aligned_empty(shape, inputs.dtype), aligned_empty(shape, inputs.dtype)) for _ in range(n_threads)]
    weights = aligned_empty((1, drawn.n_columns), inputs.dtype)[0]
    weights[:] = 0
    waves, block = drawn.waves, buffers[0]
    tiny = inputs.dtype.type(1e-9)
    nanoseconds = []
    for phase in (
        lambda: _project(block, inputs[:BLOCK_ROWS], waves, blocks),
        lambda: _wave(block, waves.amplitude, blocks),
        lambda: _dot(weights, block, blocks),
        lambda: _axpy(weights, block, tiny, blocks),
        lambda: run_threads(n_threads, lambda thread: _map(buffers[thread], inputs, waves, thread, n_threads)),
    ):
        start = perf_counter()
        phase()
        nanoseconds.append((perf_counter() - start) / (blocks * BLOCK_ROWS) * 1e9)
    return Phases(*nanoseconds)
