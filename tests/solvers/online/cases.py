"""Losses and rows that the tests of online learners share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from okl.data.execution import Rows
from okl.foundation.types import FloatArray, Precision, Task
from okl.losses import Hinge, Logistic, Loss, MulticlassHinge, ThresholdedHalfSquared

N_CLASSES = 4
EVERY_LOSS: list[Loss] = [Hinge(), Logistic(), MulticlassHinge(), ThresholdedHalfSquared(0.1)]
LOSS = pytest.mark.parametrize("loss", EVERY_LOSS, ids=lambda loss: loss.name)


def n_outputs_of(loss: Loss) -> int:
    return N_CLASSES if loss.task == "multiclass" else 1


def targets_of(signal: FloatArray, task: Task, threshold: float) -> Any:
    """Return two classes with a border at the threshold, N_CLASSES classes, or the signal."""
    return {
        "binary": np.where(signal > threshold, 1.0, -1.0),
        "multiclass": np.digitize(signal, [-1.0, 0.0, 1.0]).astype(np.float64),
        "regression": signal,
    }[task]


def noisy_wave(task: Task, precision: Precision, rows: int, n_inputs: int, seed: int = 9) -> Rows:
    """Return rows whose targets are a wave of the first input plus the second input, with noise."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((rows, n_inputs))
    signal = np.sin(2 * inputs[:, 0]) + inputs[:, 1] + 0.2 * rng.standard_normal(rows)
    return Rows(inputs.astype(precision), targets_of(signal, task, 0.3))


def part(rows: Rows, first: int, last: int) -> Rows:
    return Rows(rows.inputs[first:last], rows.targets[first:last])
