"""Pegasos in memory: stochastic subgradient steps of 1 / (lam t), in an explicit map or with a kernel matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from okl.checks import check_at_least, check_choice, check_positive
from okl.compiled.blocks import as_compiled
from okl.compiled.counting import ROWS
from okl.compiled.kernelrule import LINEAR, KernelRule
from okl.compiled.primalsteps import (
    FACTORS,
    LATER_MORE,
    NO_AVERAGE,
    SCALE,
    STEPS,
    TOTAL,
    UNIFORM,
    Carried,
    Steps,
    step_kernel,
    step_rows,
)
from okl.errors import ConfigError
from okl.kernels import Kernel
from okl.online.progress import Progress, progress_arrays, progress_from, start_progress
from okl.subgradient.dualdescent import as_columns
from okl.types import FloatArray, Task

Doubles = NDArray[np.float64]
Average = Literal["none", "uniform", "later"]
_CODES = {"none": NO_AVERAGE, "uniform": UNIFORM, "later": LATER_MORE}
_FIRST_ROWS, _MOST_ROWS = 64, 2**18  # of a stretch between two looks at the clock


@dataclass(frozen=True, eq=False)
class PegasosState:
    """What evolves: a value that no method writes into.

    points : (n_outputs, n_columns), x; behind : the same in float64, u; numbers : (5,), as in okl.compiled.primalsteps
    progress : how the rows were predicted before they were learnt
    """

    points: FloatArray
    behind: Doubles
    numbers: Doubles
    progress: Progress

    def last(self, lam: float) -> Doubles:
        """Weights after the last step, (n_outputs, n_columns) float64."""
        steps = self.numbers[STEPS]
        return self.points.astype(np.float64) * (self.numbers[SCALE] / (lam * steps) if steps else 0.0)

    def averaged(self, lam: float) -> Doubles:
        """The average, or the last weights where there is none."""
        if self.numbers[TOTAL] == 0.0:
            return self.last(lam)
        mean: Doubles = (self.numbers[FACTORS] * self.points.astype(np.float64) - self.behind) / self.numbers[TOTAL]
        return mean

    def carried(self) -> Carried:
        """Copies of everything that steps write into."""
        counts, _, class_counts = progress_arrays(self.progress)
        return Carried(self.points.copy(), self.behind.copy(), self.numbers.copy(), counts, class_counts)


def state_from(carried: Carried, task: Task) -> PegasosState:
    """The value that what was carried, and is not written into any more, has become."""
    progress = progress_from(task, carried.counts, np.zeros(6), carried.class_counts)
    return PegasosState(carried.points, carried.behind, carried.numbers, progress)


@dataclass(frozen=True)
class Pegasos:
    """min lam / 2 |w|^2 + mean hinge by steps of 1 / (lam t) on a few random rows; no bias.

    Parameters
    ----------
    lam : > 0
    batch : rows a step, >= 1
    project : whether every step ends in the ball |w| <= lam^(-1/2), which the optimum is in
    average : of the weights after each step: "none", "uniform", or "later", where step t counts t times
    in_turn : whether rows come one after the other, again and again, and not by draws with replacement
    seed : of the draws

    Raises
    ------
    ConfigError : a parameter is out of range

    Source: Shalev-Shwartz, Singer, Srebro & Cotter, Mathematical Programming 127, 2011, Figures 1 to 3.
    """

    lam: float
    batch: int = 1
    project: bool = False
    average: Average = "later"
    in_turn: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_at_least("batch", self.batch, 1)
        check_choice("average", self.average, get_args(Average))

    @property
    def steps(self) -> Steps:
        """As compiled code takes it."""
        return Steps(float(self.lam), int(self.batch), bool(self.project), _CODES[self.average])

    def start(self, n_columns: int, n_outputs: int = 1, precision: object = np.float64) -> PegasosState:
        """Nothing learnt; n_outputs : 1 for two classes, otherwise one a class."""
        shape = (n_outputs, n_columns)
        numbers = np.zeros(5)
        numbers[SCALE] = 1.0
        progress = start_progress("binary" if n_outputs == 1 else "multiclass", n_outputs)
        return PegasosState(np.zeros(shape, dtype=precision), np.zeros(shape), numbers, progress)  # type: ignore[call-overload]

    def weights(self, state: PegasosState) -> Doubles:
        """The average, or the last ones, (n_outputs, n_columns) float64; with a kernel coefficients (1, m)."""
        return state.averaged(self.lam)

    def picks(self, drawn: int, count: int, n_rows: int) -> NDArray[np.int64]:
        """The draws from number `drawn` on: the same rows however they are cut."""
        if self.in_turn:
            return np.arange(drawn, drawn + count) % n_rows
        generator = np.random.PCG64(self.seed)
        generator.advance(drawn)
        chosen: NDArray[np.int64] = (np.random.Generator(generator).random(count) * n_rows).astype(np.int64)
        return chosen

    def run_rows(self, rows: FloatArray, targets: Doubles, n_outputs: int = 1) -> Iterator[PegasosState]:
        """States after more and more steps on rows (m, n_columns), without end; each is a value.

        targets : (m,), -1 and +1, or classes from 0 to n_outputs - 1
        """
        rows, targets = as_compiled(rows, rows.dtype), as_compiled(targets, np.float64)
        scores, (changes, wrongs) = np.zeros(n_outputs, dtype=rows.dtype), self._buffers()
        state = self.start(rows.shape[1], n_outputs, rows.dtype)

        def learn(carried: Carried, picks: NDArray[np.int64]) -> None:
            step_rows(carried, scores, changes, wrongs, rows, targets, picks, self.steps)

        return self._run(state, learn, len(targets))

    def run_kernel(self, matrix: FloatArray, targets: Doubles, stretch: int | None = None) -> Iterator[PegasosState]:
        """The same with a kernel matrix (m, m) and two classes: points are coefficients of the rows.

        stretch : rows drawn from one state to the next, at least a batch; None: ever more
        """
        matrix = as_compiled(matrix, matrix.dtype)
        nothing = np.zeros((0, 0), dtype=matrix.dtype)
        return self._with_kernel(matrix, nothing, KernelRule(LINEAR, 1.0, 0.0, 0), targets, stretch)

    def run_inputs(
        self, kernel: Kernel, inputs: FloatArray, targets: Doubles, stretch: int | None = None
    ) -> Iterator[PegasosState]:
        """The same for inputs (m, n_inputs) whose kernel matrix does not fit: rows of it are computed after violations.

        Raises
        ------
        ConfigError : the kernel is one of the user's own, which compiled code does not know
        """
        if kernel.rule is None:
            raise ConfigError(f"The kernel {kernel.name!r} is not compiled: give its matrix to run_kernel.")
        nothing = np.zeros((0, 0), dtype=inputs.dtype)
        return self._with_kernel(nothing, as_columns(inputs), kernel.rule, targets, stretch)

    def _with_kernel(
        self, matrix: FloatArray, supports: FloatArray, rule: KernelRule, targets: Doubles, stretch: int | None
    ) -> Iterator[PegasosState]:
        targets = as_compiled(targets, np.float64)
        scores, (changes, _) = np.zeros(len(targets)), self._buffers()
        room = np.zeros(supports.shape[1], dtype=matrix.dtype)

        def learn(carried: Carried, picks: NDArray[np.int64]) -> None:
            step_kernel(carried, scores, changes, room, matrix, supports, rule, targets, picks, self.steps)

        return self._run(self.start(len(targets)), learn, len(targets), stretch)

    def _buffers(self) -> tuple[Doubles, NDArray[np.int64]]:
        return np.zeros(self.batch), np.zeros(self.batch, dtype=np.int64)

    def _run(
        self,
        state: PegasosState,
        learn: Callable[[Carried, NDArray[np.int64]], None],
        n_rows: int,
        fixed: int | None = None,
    ) -> Iterator[PegasosState]:
        stretch = max(fixed or _FIRST_ROWS, self.batch)
        task: Task = "binary" if len(state.points) == 1 else "multiclass"
        while True:
            carried = state.carried()
            count = stretch - stretch % self.batch
            learn(carried, self.picks(int(carried.counts[ROWS]), count, n_rows))
            state = state_from(carried, task)
            if fixed is None:
                stretch = min(stretch + stretch // 4, max(_MOST_ROWS, self.batch))
            yield state
