"""LLSVM: a linear SVM in a Nystrom map, with which the paper compares."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.jit import one_blas_thread
from okl.data.executor import Rows
from okl.features.base import transform_rows
from okl.features.landmarks import Landmarks, choose_landmarks
from okl.features.nystrom import fit_nystrom_map
from okl.features.predictors import LinearPredictor
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, Precision, Task
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.kernels import Kernel
from okl.solvers.online.base import checked_rows

TASKS: tuple[Task, ...] = ("binary", "multiclass")
LOSSES = ("hinge", "squared_hinge")


@dataclass(frozen=True, eq=False)
class LowRankLinearSVM:
    """min_w |w|^2 / 2 + penalty sum_i loss(y_i w'z(x_i)) in a Nystrom map z, by dual coordinate descent (LIBLINEAR).

    A batch method: the features of all rows are in memory at once, 8 n_landmarks bytes a row. Of more than `most_rows`
    rows a uniform sample of that many is used, the same for the same seed. Several classes are fitted one against the
    rest. There is no intercept.

    Parameters
    ----------
    kernel : any positive definite kernel
    n_landmarks : >= 1, the rank of the map at most; landmarks : how they are chosen, "kmeans" as in the paper
    penalty : C > 0 of the sum of losses; loss : "hinge" or "squared_hinge"
    most_rows : >= 2; most_iterations : >= 1, passes over the rows after which a solution that is not exact is taken
    precision : of the map; seed : of the sample, the landmarks and the order of coordinates

    Raises
    ------
    ConfigError : a parameter is out of range

    Source: Zhang, Lan, Wang & Moerchen, AISTATS 2012, Algorithm 1 (LLSVM); the dual coordinate descent of Hsieh et al.,
    ICML 2008, Algorithm 1, as in LIBLINEAR.
    """

    kernel: Kernel
    n_landmarks: int
    penalty: float = 1.0
    loss: str = "hinge"
    landmarks: Landmarks = "kmeans"
    most_rows: int = 100_000
    most_iterations: int = 1000
    precision: Precision = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        check_at_least("n_landmarks", self.n_landmarks, 1)
        check_positive("penalty", self.penalty)
        check_choice("loss", self.loss, LOSSES)
        check_at_least("most_rows", self.most_rows, 2)
        check_at_least("most_iterations", self.most_iterations, 1)

    def fit(self, rows: Rows, task: Task = "binary", n_outputs: int = 1, n_threads: int = 1) -> LinearPredictor:
        """Learn from rows in memory; the same bits for any number of threads.

        task : "binary" with targets -1 and +1, or "multiclass" with class indices below n_outputs

        Raises
        ------
        ConfigError : a regression, or more landmarks than rows
        DataError : inputs or targets do not fit, or a class never appears
        """
        if task not in TASKS:
            raise ConfigError(f"LLSVM is a classifier, but the task is {task}. Use NOGD for a regression.")
        n_inputs = np.shape(rows.inputs)[1] if np.ndim(rows.inputs) == 2 else 0
        inputs, targets = checked_rows(self._sampled(rows), task, n_inputs, n_outputs, self.precision)
        landmarks = choose_landmarks(self.kernel, inputs, self.n_landmarks, self.landmarks, self.seed)
        feature_map = fit_nystrom_map(self.kernel, landmarks, len(landmarks), self.precision)
        features = transform_rows(feature_map, inputs, n_threads).astype(np.float64)
        classes = [1.0] if task == "binary" else [float(index) for index in range(n_outputs)]
        weights = np.stack([self._separate(features, targets == value, value) for value in classes])
        return LinearPredictor(feature_map, weights.astype(self.precision))

    def _sampled(self, rows: Rows) -> Rows:
        if len(rows.targets) <= self.most_rows:
            return rows
        rng = np.random.default_rng((self.seed, 0x115))
        chosen = np.sort(rng.choice(len(rows.targets), size=self.most_rows, replace=False))
        return Rows(rows.inputs[chosen], rows.targets[chosen])

    def _separate(self, features: FloatArray, positive: NDArray[np.bool_], value: float) -> FloatArray:
        """Return weights (n_columns,) that separate the rows of one class from the others."""
        from sklearn.exceptions import ConvergenceWarning  # scikit-learn takes a second to import
        from sklearn.svm import LinearSVC

        if positive.all() or not positive.any():
            raise DataError(
                f"All {len(positive):,} rows are on one side of class {value:g}, but LLSVM separates "
                "two sides. Give rows of every class, or remove classes that never appear."
            )
        machine = LinearSVC(
            C=self.penalty,
            loss=self.loss,
            dual=True,
            fit_intercept=False,
            max_iter=self.most_iterations,
            random_state=self.seed,
        )
        with warnings.catch_warnings(), one_blas_thread():
            # as in the docstring: after so many passes the solution is good enough to compare with
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine.fit(features, positive)
        weights: FloatArray = machine.coef_[0]
        return weights
