"""Kernel learners without a budget: every row that is learnt becomes a support vector and stays one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import MOST_ROWS, aligned_empty
from okl.compiled.budgetgrowing import Grown, Growth, learn_growing
from okl.compiled.kernelblocks import kernel_block
from okl.compiled.projection import panels_of
from okl.execution.protocol import Rows
from okl.expansions import CHUNK, KernelExpansion, kernel_sums, pack_chunk
from okl.kernels import Kernel
from okl.online.budget.learner import LOSS_CODES, check_finite, check_sizes, rule_of
from okl.online.checked import checked_rows
from okl.online.progress import Progress, progress_arrays, progress_from, start_progress
from okl.types import FloatArray, Precision, Task


class GrowingStrategy(Protocol):
    """How a row is learnt when nothing has to make room."""

    @property
    def name(self) -> str: ...

    def growth(self, code: int, epsilon: float) -> Growth:
        """As compiled code takes it, for the code of a loss."""
        ...

    def first_margin(self, task: Task, epsilon: float) -> float:
        """NORMA's margin before any row; 0 for others."""
        ...


@dataclass(frozen=True, eq=False)
class GrowingState:
    """A value that no method writes into.

    supports : (n_supports, n_inputs), in the order they came; coefficients : (n_outputs, n_supports)
    margin : NORMA's; progress : how the predictions did
    """

    supports: FloatArray
    coefficients: FloatArray
    margin: float
    progress: Progress

    @property
    def n_supports(self) -> int:
        """Support vectors so far."""
        return len(self.supports)


@dataclass(frozen=True, eq=False)
class GrowingLearner:
    """Settings of learning row by row with every support kept: f = sum_s a_s k(s, x); memory grows with the updates.

    A MixableLearner: shards are joined by the union of their supports, coefficients weighted by the rows learnt.

    Parameters
    ----------
    kernel : with a rule for compiled code; strategy : what is learnt from a row
    task, n_inputs : of the data; n_outputs : the number of classes for several classes, otherwise 1
    epsilon : threshold of a regression, in units of the scaled target
    precision : of supports and coefficients

    Raises
    ------
    ConfigError : a size is out of range, or the kernel has no rule
    """

    kernel: Kernel
    strategy: GrowingStrategy
    task: Task
    n_inputs: int
    n_outputs: int = 1
    epsilon: float = 0.1
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        check_sizes(self.task, self.n_inputs, self.n_outputs, self.epsilon)
        rule_of(self.kernel)

    def start(self) -> GrowingState:
        """No supports, before any row."""
        return GrowingState(
            np.zeros((0, self.n_inputs), dtype=self.precision),
            np.zeros((self.n_outputs, 0), dtype=self.precision),
            self.strategy.first_margin(self.task, self.epsilon),
            start_progress(self.task, self.n_outputs),
        )

    def learn(self, state: GrowingState, rows: Rows, n_threads: int = 1) -> GrowingState:
        """Learn rows in their order; the state that came stays as it is.

        Splitting rows into several calls at multiples of 256 rows gives the same bits; so does any number of threads.

        Raises
        ------
        DataError : inputs or targets do not fit; DivergedError : coefficients are no longer finite
        """
        inputs, targets = checked_rows(rows, self.task, self.n_inputs, self.n_outputs, self.precision)
        growing = _Growing(self, state)
        for first in range(0, len(inputs), MOST_ROWS):
            growing.learn_block(inputs[first : first + MOST_ROWS], targets[first : first + MOST_ROWS])
        after = growing.state()
        check_finite(self.strategy, state.progress.rows, after.progress.rows, after.coefficients, after.progress.error)
        return after

    def predictor(self, state: GrowingState) -> KernelExpansion:
        """The expansion in all supports."""
        return KernelExpansion(self.kernel, state.supports, state.coefficients)

    def chosen(self, state: GrowingState) -> dict[str, Any]:
        """How many support vectors there are."""
        return {"support_vectors": state.n_supports}

    def fork(self, state: GrowingState) -> GrowingState:
        """A shard starts from the state itself."""
        return state

    def join(self, base: GrowingState, parts: list[GrowingState]) -> GrowingState:
        """The mean of the shards' functions, weighted by rows: base's supports, then new ones in shard order.

        Source: McDonald, Hall & Mann, NAACL 2010, Figure 3 (parameter mixing).
        """
        grown = [part.progress.since(base.progress) for part in parts]
        rows = sum(progress.rows for progress in grown)
        if rows == 0:
            return base
        weights, n_old = [progress.rows / rows for progress in grown], base.n_supports
        old = sum(
            weight * part.coefficients[:, :n_old].astype(float) for weight, part in zip(weights, parts, strict=True)
        )
        new = [weight * part.coefficients[:, n_old:].astype(float) for weight, part in zip(weights, parts, strict=True)]
        progress = base.progress
        for growth in grown:
            progress = progress.plus(growth)
        return GrowingState(
            np.concatenate([base.supports, *(part.supports[n_old:] for part in parts)]),
            np.concatenate([old, *new], axis=1).astype(self.precision),
            float(np.average([part.margin for part in parts], weights=weights)),
            progress,
        )


class _Growing:
    """A state while it grows: supports in packed chunks, and those after the last full chunk."""

    def __init__(self, learner: GrowingLearner, state: GrowingState) -> None:
        self._kernel = rule_of(learner.kernel)
        self._growth = learner.strategy.growth(LOSS_CODES[learner.task], learner.epsilon)
        self._task = learner.task
        self._rows = [state.supports]
        self._chunks: list[tuple[FloatArray, FloatArray]] = []
        self._rest, self._rest_coefficients = state.supports, state.coefficients.copy()
        self._margin = state.margin
        self._counts, self._sums, self._class_counts = progress_arrays(state.progress)
        self._buffer = aligned_empty((MOST_ROWS, CHUNK), state.supports.dtype)
        self._pack()

    def learn_block(self, inputs: FloatArray, targets: NDArray[np.float64]) -> None:
        """Learn at most 256 rows."""
        n_outputs, dtype = len(self._rest_coefficients), inputs.dtype
        chunks = self._chunks
        if len(self._rest):
            chunks = [*chunks, pack_chunk(self._rest, self._rest_coefficients)]
        known = (
            kernel_sums(inputs, chunks, self._kernel, self._buffer) if chunks else np.zeros((len(inputs), n_outputs))
        )
        among = np.empty((len(inputs), len(inputs)), dtype=dtype)
        kernel_block(among, inputs, panels_of(inputs.T), self._kernel)
        floats = np.array([1.0, self._margin])
        grown = Grown(
            np.zeros((n_outputs, len(inputs))),
            floats,
            self._counts,
            self._sums,
            self._class_counts,
            np.zeros(n_outputs),
        )
        learn_growing(grown, known, among, targets, self._growth)
        self._margin = float(floats[1])
        self._scale(floats[0])
        added = grown.coefficients.any(axis=0)
        self._rows.append(inputs[added])
        self._rest = np.concatenate([self._rest, inputs[added]])
        with np.errstate(over="ignore", invalid="ignore"):  # told by check_finite, in a sentence
            new = (floats[0] * grown.coefficients[:, added]).astype(dtype)
        self._rest_coefficients = np.concatenate([self._rest_coefficients, new], axis=1)
        self._pack()

    def state(self) -> GrowingState:
        """The value that it has become."""
        coefficients = [*(coefficients for _, coefficients in self._chunks), self._rest_coefficients]
        progress = progress_from(self._task, self._counts, self._sums, self._class_counts)
        return GrowingState(np.concatenate(self._rows), np.concatenate(coefficients, axis=1), self._margin, progress)

    def _scale(self, factor: float) -> None:
        """Take the scale of a block into the coefficients before it."""
        if factor != 1.0:
            for _, coefficients in self._chunks:
                coefficients *= coefficients.dtype.type(factor)
            self._rest_coefficients *= self._rest_coefficients.dtype.type(factor)

    def _pack(self) -> None:
        """Pack full chunks: once, not for every block."""
        while len(self._rest) >= CHUNK:
            self._chunks.append(pack_chunk(self._rest[:CHUNK], self._rest_coefficients[:, :CHUNK].copy()))
            self._rest, self._rest_coefficients = self._rest[CHUNK:], self._rest_coefficients[:, CHUNK:]
