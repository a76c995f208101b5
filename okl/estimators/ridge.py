"""Kernel least squares estimators, of all rows and in cells of neighbouring rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from okl.data.execution import Rows
from okl.data.ingest.run import ingest
from okl.distributed.in_process import LocalExecution
from okl.estimators.base import (
    Auto,
    BatchClassifier,
    BatchEstimator,
    RandomState,
    draw_seed,
    options_of,
    row_weights,
    seed_of,
    threads_of,
)
from okl.features.landmarks import Landmarks
from okl.features.predictors import LinearPredictor, Predictor
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.settings import IngestSettings
from okl.foundation.types import Doubles, FloatArray, Precision
from okl.foundation.validation import check_choice
from okl.runs.api import location_of
from okl.runs.loop import run_loop
from okl.solvers.factory import make_solver
from okl.solvers.ridge.cells import CELL_ROWS, PARTITIONS, LocalSolver
from okl.solvers.ridge.gram import LandmarkBasis, Outputs, WeightedRows, part_of
from okl.solvers.ridge.penalty_path import SAMPLE_ROWS, fit_rows
from okl.solvers.ridge.settings import LocalSettings
from okl.solvers.ridge.solver import RidgeSolver, fit_sparse_rows
from okl.solvers.settings import TrainSettings


class LeastSquaresEstimator(BatchEstimator):
    """An estimator of classes or a target by least squares, whose predictor_ scores rows."""

    precision: Precision
    predictor_: Predictor

    def _learn(
        self, inputs: FloatArray, targets: Doubles, outputs: Outputs, sample_weight: Doubles | None = None
    ) -> None:
        """Fit inputs (rows, n_features) with targets (rows,): -1 and +1, class indices or numbers."""
        raise NotImplementedError

    def _learn_classes(
        self, rows: Rows, n_outputs: int, weights: tuple[float, ...] | None, sample_weight: Doubles | None
    ) -> None:
        outputs = Outputs("binary" if n_outputs == 1 else "multiclass", n_outputs, weights)
        self._learn(rows.inputs, rows.targets, outputs, sample_weight)


class LeastSquaresRegressor(RegressorMixin, LeastSquaresEstimator):  # type: ignore[misc]
    """Regressor by least squares."""

    def _fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> None:
        inputs, targets = self._valid(X, y, reset=True, y_numeric=True)
        targets, weights = np.asarray(targets, dtype=np.float64), row_weights(sample_weight, inputs)
        self._learn(inputs, targets, Outputs("regression", 1), weights)

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return targets (rows,)."""
        return self._scores(X)


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidgeEstimator(LeastSquaresEstimator):
    """Minimise, exactly, penalty / 2 ||f||^2 + 1/2 mean_i (y_i - f(x_i) - b)^2 over f on landmarks.

    The mean is weighted by sample_weight. Inputs should be of like scale: put a StandardScaler before it. They may be
    sparse where kernel = "linear". The same rows, parameters and random_state give the same bits, whatever n_jobs is.

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

    SOLVER: ClassVar[str] = "ridge"

    def _learn(
        self, inputs: FloatArray, targets: Doubles, outputs: Outputs, sample_weight: Doubles | None = None
    ) -> None:
        weights = np.ones(len(targets)) if sample_weight is None else sample_weight
        if not weights.all():  # rows of weight 0 are no landmarks, either
            inputs, targets, weights = inputs[weights > 0.0], targets[weights > 0.0], weights[weights > 0.0]
        rng = check_random_state(self.random_state)
        seed, taken = draw_seed(rng), rng.permutation(len(targets))[:SAMPLE_ROWS]  # whatever order the rows have
        jobs = threads_of(self.n_jobs)
        solver, fit_intercept = self._solver(seed), bool(self.fit_intercept)
        rows = Rows(inputs, targets) if sample_weight is None else WeightedRows(inputs, targets, weights)
        if sparse.issparse(inputs):
            basis, chosen = solver.basis_of(inputs, inputs)
            solution = fit_sparse_rows(rows, outputs, taken, solver.penalty, fit_intercept, jobs)
        else:
            sample = part_of(rows, taken)
            basis, chosen = solver.basis_of(sample.inputs, inputs)
            solution = fit_rows(basis, rows, outputs, solver.penalty, fit_intercept, jobs, sample)
        if not solution.solved:
            raise DivergedError(
                f"{type(self).__name__}: the columns are so large that only rounding error is left. Put a "
                "StandardScaler before it, or raise the penalty."
            )
        if solution.rounded:
            warnings.warn(
                f"{type(self).__name__}: rounding errors exceed a penalty of {solution.penalty:g}; the gap is "
                f"{solution.proof.gap:.2g}. Raise the penalty, or leave it out.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.predictor_, self.chosen_ = solution.predictor(basis), chosen
        self.landmarks_ = basis.landmarks if isinstance(basis, LandmarkBasis) else None
        self.penalty_, self.errors_, self.certificate_ = solution.penalty, solution.tried, solution.proof

    def _solver(self, seed: int) -> RidgeSolver:
        """Return the solver, which checks the parameters; the linear kernel has no bandwidth."""
        options = options_of(self)
        if options.kernel == "linear" and options.bandwidth != "auto":
            raise ConfigError(
                f"bandwidth = {options.bandwidth:g} is set, but the kernel 'linear' has no bandwidth. Remove it."
            )
        solver: RidgeSolver = options.solver(seed, self.precision)
        return solver

    @property
    def _takes_sparse(self) -> bool:
        return self.kernel == "linear"

    def _valid(self, *data: Any, reset: bool, **options: Any) -> Any:
        check_choice("precision", str(self.precision), ("float32", "float64"))
        return super()._valid(*data, dtype=self.precision, order="C", reset=reset, **options)

    def _scores(self, X: ArrayLike) -> FloatArray:
        """Return scores (rows,) or (rows, n_outputs)."""
        check_is_fitted(self)
        inputs = self._valid(X, reset=False)
        scores: FloatArray
        if sparse.issparse(inputs):
            assert isinstance(self.predictor_, LinearPredictor), "the linear kernel uses the inputs as columns"
            weights = self.predictor_.weights[:, : inputs.shape[1]]  # the map has added a column of zeros
            scores = np.asarray(inputs @ weights.T) + self.predictor_.offsets
            return scores[:, 0] if len(weights) == 1 else scores
        scores = self.predictor_.scores(inputs, threads_of(self.n_jobs))
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidgeClassifier(BatchClassifier, KernelRidgeEstimator):
    """Classifier by kernel least squares of +1 and -1; several classes against the rest, all at the cost of one.

    Its scores are no probabilities: scikit-learn's CalibratedClassifierCV around it makes some.

    Parameters
    ----------
    class_weight : as in BatchClassifier; all others : as in KernelRidgeEstimator

    Attributes
    ----------
    classes_ : as in BatchClassifier; all others : as in KernelRidgeEstimator

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(KernelRidgeClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (rows, n_features) with labels y (rows,), each weighing sample_weight (rows,) or 1.

        Warns and raises as LocalRidgeClassifier; DataError, too, where every row of a class has sample_weight 0.
        """
        self._fit(X, y, sample_weight)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRidgeRegressor(LeastSquaresRegressor, KernelRidgeEstimator):
    """Regressor by kernel least squares.

    Parameters, attributes : as in KernelRidgeEstimator

    Examples
    --------
    >>> x = np.linspace(-3.0, 3.0, 200)[:, np.newaxis]
    >>> bool(KernelRidgeRegressor(random_state=0).fit(x, np.sin(x[:, 0])).score(x, np.sin(x[:, 0])) > 0.999)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (rows, n_features) with targets y (rows,), each weighing sample_weight (rows,) or 1.

        Raises as LocalRidgeRegressor
        """
        self._fit(X, y, sample_weight)
        return self


# In cells of neighbouring rows


@dataclass(kw_only=True, eq=False, repr=False)
class LocalRidgeEstimator(LeastSquaresEstimator):
    """Kernel least squares in cells of neighbouring rows, solved exactly in each and averaged over partitions.

    A cell minimises penalty cell_rows / 2 ||f||^2 + 1/2 sum_i (y_i - f(x_i) - b)^2 over its rows, however many it has.

    Inputs should be of like scale: put a StandardScaler before it. They are rounded to float32. The same rows,
    parameters and random_state give the same bits, whatever n_jobs is, and those of `okl train` on these rows as
    training rows with random_state as its seed.

    Parameters
    ----------
    kernel : "gaussian", "laplacian", "matern32" or "matern52"
    bandwidth : float > 0 in units of the inputs, or "auto" for that of least leave-one-out error in sampled cells
    cell_rows : int >= 2, rows of a cell; partitions : int >= 1, at most, whose scores are averaged
    penalty : float > 0, or "auto" for that of least leave-one-out error in sampled cells
    precision : "float32" or "float64", of supports, coefficients and scores
    n_jobs : threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of trees and samples

    Attributes
    ----------
    predictor_ : what scores rows; certificate_ : objective and how far above the optimum it is at most
    chosen_ : what "auto" parameters became, each with its reason
    n_features_in_, feature_names_in_ : of the inputs

    Source: Meister & Steinwart, Optimal learning rates for localized SVMs, JMLR 17(194), 2016, section 2; see
    `okl.solvers.ridge.cells.LocalSolver`.
    """

    kernel: str = "laplacian"
    bandwidth: float | Auto = "auto"
    cell_rows: int = CELL_ROWS
    partitions: int = PARTITIONS
    penalty: float | Auto = "auto"
    precision: Precision = LocalSettings.PRECISION
    n_jobs: int | None = None
    random_state: RandomState = None

    SOLVER: ClassVar[str] = "local"

    def _learn(
        self, inputs: FloatArray, targets: Doubles, outputs: Outputs, sample_weight: Doubles | None = None
    ) -> None:
        assert sample_weight is None, "fit takes no weights of rows"
        options, threads = options_of(self), threads_of(self.n_jobs)
        values = {"data": "X", "solver": self.SOLVER, "seed": seed_of(self.random_state), "precision": self.precision}
        settings = TrainSettings(**values, **options.model_dump())
        columns = {f"x{index}": column for index, column in enumerate(inputs.T)}
        table = pa.table(columns | {"y": targets})
        with location_of(table, "X") as location, LocalExecution(threads) as execution:
            file = Path(str(location))
            ingested = IngestSettings(target="y", task=outputs.task, compression="none")
            data = ingest(file, file.with_name("data"), ingested).dataset
            solver = make_solver(settings, data)
            assert isinstance(solver, LocalSolver), "the settings are those of local"
            solver = replace(solver, class_weights=outputs.class_weights)
            trained = run_loop(solver, solver.start(data, execution), data, execution)
        self.predictor_, self.chosen_ = trained.predictor, solver.chosen(trained.state)
        self.certificate_ = solver.certificate(trained.state)

    def _valid(self, *data: Any, reset: bool, **options: Any) -> Any:
        check_choice("precision", str(self.precision), ("float32", "float64"))
        least = 2 if reset else 1
        return super()._valid(*data, dtype=np.float32, ensure_min_samples=least, reset=reset, **options)

    def _scores(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        inputs = self._valid(X, reset=False)
        scores: FloatArray = self.predictor_.scores(inputs, threads_of(self.n_jobs))
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class LocalRidgeClassifier(BatchClassifier, LocalRidgeEstimator):
    """Classifier by kernel least squares of +1 and -1 in cells of neighbouring rows; several against the rest.

    Parameters
    ----------
    class_weight : as in BatchClassifier; all others : as in LocalRidgeEstimator

    Attributes
    ----------
    classes_ : as in BatchClassifier; all others : as in LocalRidgeEstimator

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(LocalRidgeClassifier(cell_rows=100, random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit rows X (rows, n_features) with labels y (rows,).

        Warns
        -----
        ConvergenceWarning : an iterative method did not reach its gap

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range, the kernel does not suit the method, class_weight
            names no class of y
        DataError, a ValueError : y holds one class only; sums of squares leave the range of floating numbers
        DivergedError, an ArithmeticError : columns so large that rounding is all that is left
        """
        self._fit(X, y)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class LocalRidgeRegressor(LeastSquaresRegressor, LocalRidgeEstimator):
    """Regressor by kernel least squares in cells of neighbouring rows.

    Parameters, attributes : as in LocalRidgeEstimator

    Examples
    --------
    >>> x = np.linspace(-3.0, 3.0, 200)[:, np.newaxis]
    >>> bool(LocalRidgeRegressor(random_state=0).fit(x, np.sin(x[:, 0])).score(x, np.sin(x[:, 0])) > 0.999)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit rows X (rows, n_features) with targets y (rows,).

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        DataError, a ValueError : sums of squares, or weights, leave the range of floating numbers
        DivergedError, an ArithmeticError : columns so large that rounding is all that is left
        """
        self._fit(X, y)
        return self
