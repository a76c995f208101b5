"""LIBLINEAR, as scikit-learn ships it, without a bias: the paper's rival on linear models."""

from __future__ import annotations

import time
import warnings
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.execution.protocol import Rows
from okl.reproduction.ito2017.running import RESIDUAL


class Fit(NamedTuple):
    """Weights (n_columns,), and what they took."""

    weights: NDArray[np.float64]
    seconds: float


def fit_liblinear(model: Literal["logistic", "l1-logistic", "l1-l2-svm"], rows: Rows, C: float) -> Fit:
    """Fit to the tolerance of the paper."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if model == "l1-l2-svm":
        machine = LinearSVC(penalty="l1", loss="squared_hinge", dual=False, C=C, tol=RESIDUAL, fit_intercept=False)
    else:
        ratio = 1.0 if model == "l1-logistic" else 0.0
        machine = LogisticRegression(l1_ratio=ratio, solver="liblinear", C=C, tol=RESIDUAL, fit_intercept=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own limit of iterations: the objective tells what it reached
        begun = time.perf_counter()
        machine.fit(rows.inputs, rows.targets)
        seconds = time.perf_counter() - begun
    return Fit(machine.coef_.ravel().astype(np.float64), seconds)
