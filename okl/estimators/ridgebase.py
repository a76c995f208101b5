"""What both estimators of kernel least squares share: rows as they are checked, the basis, the solution, scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from okl.checks import check_choice
from okl.errors import ConfigError, DivergedError
from okl.estimators.parameters import Auto, RandomState, draw_seed, number_or_auto, whole_number
from okl.execution.protocol import Rows
from okl.features.bandwidth import suit_kernel
from okl.features.landmarks import Landmarks, choose_landmarks
from okl.predictors import LinearPredictor
from okl.ridge.basis import Basis, LandmarkBasis, MapBasis
from okl.ridge.gram import Outputs
from okl.ridge.solution import SAMPLE_ROWS, fit_rows
from okl.ridge.solver import N_LANDMARKS, plain_inputs
from okl.ridge.sparserows import fit_sparse_rows
from okl.types import FloatArray, Precision


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidgeEstimator(BaseEstimator):  # type: ignore[misc]
    """Minimise, exactly, penalty / 2 ||f||^2 + 1/2 mean_i (y_i - f(x_i) - b)^2 over f on landmarks.

    Inputs should be of like scale: put a StandardScaler before it. They may be sparse where kernel = "linear". The
    same rows, parameters and random_state give the same bits, whatever n_jobs is.

    Parameters
    ----------
    kernel : "gaussian", "laplacian", "matern32", "matern52", "polynomial"; "linear": the inputs themselves
    bandwidth : float > 0 in units of the inputs, or "auto" for the median distance of a sample of 8,192 rows; the
        linear kernel has none
    degree, offset : of the polynomial kernel
    n_landmarks : int >= 1, or "auto" for 1,000; all rows where they are fewer
    landmarks : "uniform", "kmeans" or "rpcholesky"
    penalty : float > 0, or "auto" for that of least leave-one-out error of at most 8,192 rows
    fit_intercept : whether there is a bias b
    precision : "float64", or "float32" of inputs and kernel values, faster, for models whose weights stay small
    n_jobs : threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of landmarks

    Attributes
    ----------
    predictor_ : what scores rows; landmarks_ : (n_landmarks, n_features), None for the linear kernel
    penalty_ : chosen or given; errors_ : penalties tried, each with its leave-one-out errors
    certificate_ : objective and how far above the optimum it is at most
    chosen_ : what "auto" parameters became, each with its reason
    n_features_in_, feature_names_in_ : of the inputs

    Source: Rifkin, Yeo & Poggio, Regularized least-squares classification, 2003; Rudi, Carratino & Rosasco, NIPS 2017,
    (8), solved directly.
    """

    kernel: str = "gaussian"
    bandwidth: float | Auto = "auto"
    degree: int = 3
    offset: float = 1.0
    n_landmarks: int | Auto = "auto"
    landmarks: Landmarks = "uniform"
    penalty: float | Auto = "auto"
    fit_intercept: bool = True
    precision: Precision = "float64"
    n_jobs: int | None = None
    random_state: RandomState = None

    def _learn(self, inputs: FloatArray, targets: NDArray[np.float64], outputs: Outputs) -> None:
        rng = check_random_state(self.random_state)
        seed, taken = draw_seed(rng), rng.permutation(len(targets))[:SAMPLE_ROWS]  # whatever order the rows have
        targets, fit_intercept = np.asarray(targets, dtype=np.float64), bool(self.fit_intercept)
        penalty, jobs = number_or_auto("penalty", self.penalty), effective_n_jobs(self.n_jobs)
        self._check_kernel()
        basis: Basis
        chosen: dict[str, Any]
        if sparse.issparse(inputs):
            basis, chosen = self._plain(inputs), {}
            found = fit_sparse_rows(inputs, targets, outputs, taken, penalty, fit_intercept, jobs)
        else:
            rows = Rows(inputs, targets)
            sample = Rows(np.ascontiguousarray(inputs[taken]), targets[taken])
            basis, chosen = self._basis(sample.inputs, inputs, seed)
            found = fit_rows(basis, rows, outputs, penalty, fit_intercept, jobs, sample)
        if not found.solved:
            raise DivergedError(
                f"{type(self).__name__}: columns of such size leave rounding alone. Put a StandardScaler before it, or "
                "take a larger penalty."
            )
        self.predictor_, self.chosen_ = found.predictor(basis), chosen
        self.landmarks_ = basis.landmarks if isinstance(basis, LandmarkBasis) else None
        self.penalty_, self.errors_, self.certificate_ = found.penalty, found.tried, found.proof

    def _check_kernel(self) -> None:
        """Look at all that is said of the kernel, of which the linear one takes nothing."""
        width = number_or_auto("bandwidth", self.bandwidth)
        whole_number("degree", self.degree)
        if self.n_landmarks != "auto":
            whole_number("n_landmarks", self.n_landmarks)
        check_choice("landmarks", self.landmarks, get_args(Landmarks))
        if self.kernel == "linear" and width is not None:
            raise ConfigError(f"bandwidth = {width:g} was given, but the kernel 'linear' has none. Leave it out.")

    def _basis(self, sample: FloatArray, inputs: FloatArray, seed: int) -> tuple[Basis, dict[str, Any]]:
        if self.kernel == "linear":
            return self._plain(inputs), {}
        degree = whole_number("degree", self.degree)
        width = number_or_auto("bandwidth", self.bandwidth)
        kernel, chosen = suit_kernel(self.kernel, width, sample, degree, float(self.offset))
        asked = N_LANDMARKS if self.n_landmarks == "auto" else whole_number("n_landmarks", self.n_landmarks)
        n_landmarks = min(asked, len(inputs))
        landmarks = choose_landmarks(kernel, inputs, n_landmarks, self.landmarks, seed)
        return LandmarkBasis(kernel, np.ascontiguousarray(landmarks)), chosen | {"n_landmarks": n_landmarks}

    def _plain(self, inputs: FloatArray) -> MapBasis:
        return MapBasis(plain_inputs(inputs.shape[1], self.precision))

    @property
    def _sparse_format(self) -> Literal["csr", False]:
        return "csr" if self.kernel == "linear" else False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse_format is not False
        return tags

    def _checked(self, X: ArrayLike, y: ArrayLike, **options: Any) -> tuple[FloatArray, NDArray[Any]]:
        check_choice("precision", str(self.precision), ("float32", "float64"))
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large for the precision is refused
            checked: tuple[FloatArray, NDArray[Any]] = validate_data(
                self,
                X,
                y,
                accept_sparse=self._sparse_format,
                dtype=self.precision,
                order="C",
                reset=True,
                **options,
            )
        return checked

    def _scores(self, X: ArrayLike) -> FloatArray:
        """Scores (rows,) or (rows, n_outputs)."""
        check_is_fitted(self)
        inputs = validate_data(self, X, accept_sparse=self._sparse_format, dtype=self.precision, order="C", reset=False)
        scores: FloatArray
        if sparse.issparse(inputs):
            assert isinstance(self.predictor_, LinearPredictor), "the linear kernel has weights of the inputs"
            weights = self.predictor_.weights[:, : inputs.shape[1]]  # the map has added a column of zeros
            scores = np.asarray(inputs @ weights.T) + self.predictor_.offsets
            return scores[:, 0] if len(weights) == 1 else scores
        scores = self.predictor_.scores(inputs, effective_n_jobs(self.n_jobs))
        return scores
