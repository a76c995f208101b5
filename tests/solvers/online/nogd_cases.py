"""Rows, kernels and learners that the tests of NOGD share."""

from __future__ import annotations

import numpy as np

from okl.data.execution import Rows
from okl.foundation.types import FloatArray, Precision
from okl.kernels import CustomKernel, Gaussian, Kernel, Laplacian, Linear, Matern32, Polynomial
from okl.losses import Hinge, Logistic, Loss, MulticlassHinge, ThresholdedHalfSquared
from okl.solvers.online.nystrom import NOGDLearner

ROWS, N_INPUTS, N_CLASSES, BUDGET, RANK = 1500, 5, 4, 40, 12
NOGD_LOSSES: list[Loss] = [Hinge(), Logistic(), MulticlassHinge(), ThresholdedHalfSquared(0.1)]


def gaussian_function(left: FloatArray, right: FloatArray) -> FloatArray:
    differences = left[:, None, :].astype(np.float64) - right[None, :, :]
    values: FloatArray = np.exp(-np.sum(differences**2, axis=2) / 8.0)
    return values


KERNELS: list[Kernel] = [
    Gaussian(2.0),
    Laplacian(4.0),
    Matern32(3.0),
    Polynomial(2, 0.2, 1.0),
    Linear(),
    CustomKernel("mine", gaussian_function),
]


def make_rows(loss: Loss, precision: Precision = "float64", rows: int = ROWS, seed: int = 9) -> Rows:
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((rows, N_INPUTS))
    signal = np.sin(2 * inputs[:, 0]) + inputs[:, 1] + 0.2 * rng.standard_normal(rows)
    targets = {
        "binary": np.where(signal > 0.3, 1.0, -1.0),
        "multiclass": np.digitize(signal, [-1.0, 0.0, 1.0]).astype(np.float64),
        "regression": signal,
    }[loss.task]
    return Rows(inputs.astype(precision), targets)


def make_learner(loss: Loss, kernel: Kernel | None = None, precision: Precision = "float64") -> NOGDLearner:
    n_outputs = N_CLASSES if loss.task == "multiclass" else 1
    step = 0.1 if loss.task == "regression" else 0.4
    return NOGDLearner(
        kernel or Gaussian(2.0), N_INPUTS, loss, step, BUDGET, RANK, n_outputs, average=False, precision=precision
    )


def part(rows: Rows, first: int, last: int) -> Rows:
    return Rows(rows.inputs[first:last], rows.targets[first:last])
