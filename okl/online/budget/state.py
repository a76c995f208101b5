"""What evolves while a learner with a budget sees rows one by one: support vectors, coefficients, and the errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import aligned_empty
from okl.compiled.budget import COUNT, N_FLOATS, N_INTEGERS, RANDOM, SCALE, Kept, used_width
from okl.online.progress import Progress, progress_arrays, progress_from, start_progress
from okl.types import FloatArray, Precision, Task


@dataclass(frozen=True, eq=False)
class BudgetState:
    """A value that no method writes into; the arrays are those of okl.compiled.budget.Kept.

    supports : (n_inputs, capacity), one column a support, zeros beyond n_supports
    coefficients : (n_outputs, capacity), before the scale
    marks : (2, capacity) int64, label and number of each support
    memory : float64, a matrix of the strategy's own; integers, floats : counters, scale and the strategy's own numbers
    progress : how the predictions did
    """

    supports: FloatArray
    coefficients: FloatArray
    marks: NDArray[np.int64]
    memory: NDArray[np.float64]
    integers: NDArray[np.int64]
    floats: NDArray[np.float64]
    progress: Progress

    @property
    def n_supports(self) -> int:
        """Support vectors in use."""
        return int(self.integers[COUNT])

    @property
    def scaled_coefficients(self) -> FloatArray:
        """Coefficients of the supports in use, (n_outputs, n_supports), float64: f = sum_s a_s k(s, x)."""
        scaled: FloatArray = self.floats[SCALE] * self.coefficients[:, : self.n_supports].astype(np.float64)
        return scaled

    @property
    def rows(self) -> FloatArray:
        """The supports in use as rows, (n_supports, n_inputs), C-contiguous."""
        return np.ascontiguousarray(self.supports[:, : self.n_supports].T)


def capacity_of(n_supports: int) -> int:
    """Columns to keep for so many supports: kernel rows run over whole vectors."""
    return int(used_width(max(1, n_supports)))


def empty_state(
    shape: tuple[int, int, int],
    memory_shape: tuple[int, int],
    own_floats: tuple[float, ...],
    task: Task,
    precision: Precision,
    seed: int,
) -> BudgetState:
    """No supports yet.

    shape : n_inputs, n_outputs, capacity; own_floats : first values of the strategy's own numbers
    """
    n_inputs, n_outputs, capacity = shape
    integers, floats = np.zeros(N_INTEGERS, dtype=np.int64), np.zeros(N_FLOATS)
    # seeds far apart in the counter: streams of two of them do not meet
    integers[RANDOM] = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> np.uint64(1))
    floats[SCALE] = 1.0
    floats[SCALE + 1 : SCALE + 1 + len(own_floats)] = own_floats
    return BudgetState(
        supports=_zeros((n_inputs, capacity), precision),
        coefficients=_zeros((n_outputs, capacity), precision),
        marks=np.zeros((2, capacity), dtype=np.int64),
        memory=np.zeros(memory_shape),
        integers=integers,
        floats=floats,
        progress=start_progress(task, n_outputs),
    )


def kept_from(state: BudgetState) -> Kept:
    """Copies of everything that learning writes into, and buffers."""
    n_inputs, capacity = state.supports.shape
    precision = state.supports.dtype
    counts, sums, class_counts = progress_arrays(state.progress)
    return Kept(
        supports=_copy(state.supports),
        coefficients=_copy(state.coefficients),
        marks=state.marks.copy(),
        memory=state.memory.copy(),
        integers=state.integers.copy(),
        floats=state.floats.copy(),
        counts=counts,
        sums=sums,
        class_counts=class_counts,
        row=_zeros((1, capacity), precision)[0],
        spare=_zeros((1, capacity), precision)[0],
        column=_zeros((1, n_inputs), precision)[0],
        scores=np.zeros(len(state.coefficients), dtype=precision),
    )


def state_from(kept: Kept, task: Task) -> BudgetState:
    """The value that kept, which is not written into any more, has become."""
    progress = progress_from(task, kept.counts, kept.sums, kept.class_counts)
    return BudgetState(kept.supports, kept.coefficients, kept.marks, kept.memory, kept.integers, kept.floats, progress)


def _zeros(shape: tuple[int, int], precision: object) -> FloatArray:
    array = aligned_empty(shape, precision)
    array[...] = 0
    return array


def _copy(array: FloatArray) -> FloatArray:
    copy = aligned_empty((array.shape[0], array.shape[1]), array.dtype)
    copy[...] = array
    return copy
