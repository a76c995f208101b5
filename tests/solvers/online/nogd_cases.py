"""Rows, kernels and learners that the tests of NOGD share."""

from __future__ import annotations

import numpy as np

from okl.data.execution import Rows
from okl.foundation.types import FloatArray, Precision
from okl.kernels import CustomKernel, Gaussian, Kernel, Laplacian, Linear, Matern32, Polynomial
from okl.losses import Loss
from okl.solvers.online.nystrom import NOGDLearner
from tests.solvers.online.cases import n_outputs_of, noisy_wave

ROWS, N_INPUTS, BUDGET, RANK = 1500, 5, 40, 12


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
    return noisy_wave(loss.task, precision, rows, N_INPUTS, seed)


def make_learner(loss: Loss, kernel: Kernel | None = None, precision: Precision = "float64") -> NOGDLearner:
    n_outputs, step = n_outputs_of(loss), 0.1 if loss.task == "regression" else 0.4
    return NOGDLearner(
        kernel or Gaussian(2.0), N_INPUTS, loss, step, BUDGET, RANK, n_outputs, average=False, precision=precision
    )
