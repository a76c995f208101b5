"""Difficult streams for learners with a budget: duplicates, distant rows, zero rows, a rare class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import FloatArray, Task
from okl.kernels import Gaussian, Kernel, Laplacian, Linear, Polynomial

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")
N_OUTPUTS: dict[Task, int] = {"binary": 1, "multiclass": 4, "regression": 1}


class Stream(NamedTuple):
    """inputs (rows, n_inputs) float64, targets (rows,), and a kernel that suits them."""

    inputs: FloatArray
    targets: NDArray[np.float64]
    kernel: Kernel
    task: Task


def hard_stream(task: Task, seed: int = 0, n_rows: int = 300, n_inputs: int = 3) -> Stream:
    """Return a stream: each tenth row is a duplicate, each thirtieth so distant that its kernel values are 0."""
    rng = np.random.default_rng([seed, TASKS.index(task)])
    inputs = rng.standard_normal((n_rows, n_inputs))
    inputs[10::10] = inputs[rng.integers(0, 10, len(inputs[10::10]))]
    inputs[29::30] = 1e3 * (1 + np.arange(len(inputs[29::30])))[:, None]
    signal = np.sin(2.0 * inputs[:, 0]) + inputs[:, 1] * np.cos(inputs[:, 2]) + 0.3 * rng.standard_normal(n_rows)
    return Stream(_rounded(inputs), _targets(signal, task), Gaussian(0.7), task)


def plain_stream(task: Task, kernel: Kernel, seed: int = 0, n_rows: int = 300) -> Stream:
    """Return a stream with duplicates, and with zero rows for the linear kernel, whose kernel values are all 0."""
    rng = np.random.default_rng([seed, TASKS.index(task), 1])
    inputs = 0.5 * rng.standard_normal((n_rows, 4))
    inputs[15::15] = inputs[3]
    if isinstance(kernel, Linear):
        inputs[20::40] = 0.0
    signal = inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + 0.3 * rng.standard_normal(n_rows)
    return Stream(_rounded(inputs), _targets(signal, task), kernel, task)


def streams(task: Task, rows: int = 200) -> list[Stream]:
    """Return one stream for each kind of kernel with its own compiled code."""
    kernels: list[Kernel] = [Laplacian(2.0), Polynomial(2, 1.0, 1.0), Linear()]
    hard = hard_stream(task, n_rows=rows)  # where rounding changes no decision
    return [hard, *(plain_stream(task, kernel, n_rows=rows) for kernel in kernels)]


def _rounded(inputs: FloatArray) -> FloatArray:
    """Return the nearest float32 numbers, as float64: learners in both precisions then see the rows of their twins."""
    return inputs.astype(np.float32).astype(np.float64)


def _targets(signal: FloatArray, task: Task) -> NDArray[np.float64]:
    if task == "binary":
        return np.where(signal > 0.1, 1.0, -1.0)
    if task == "multiclass":
        return np.digitize(signal, [-1.0, 0.2, 1.2]).astype(np.float64)
    return signal.astype(np.float64)
