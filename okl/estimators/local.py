"""Estimators of kernel least squares in cells of neighbouring rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from okl.data.ingest.run import ingest
from okl.distributed.in_process import LocalExecution
from okl.estimators.base import Auto, BatchClassifier, RandomState, options_of, seed_of
from okl.estimators.ridge import LeastSquaresEstimator, LeastSquaresRegressor
from okl.foundation.settings import IngestSettings
from okl.foundation.types import Doubles, FloatArray, Precision
from okl.foundation.validation import check_choice
from okl.runs.api import location_of
from okl.runs.loop import run_loop
from okl.solvers.factory import make_solver
from okl.solvers.ridge.cells import CELL_ROWS, PARTITIONS, LocalSolver
from okl.solvers.ridge.gram import Outputs
from okl.solvers.ridge.settings import LocalSettings
from okl.solvers.settings import TrainSettings


@dataclass(kw_only=True, eq=False, repr=False)
class LocalRidgeEstimator(LeastSquaresEstimator):
    """Kernel least squares in cells of neighbouring rows, solved exactly in each and averaged over partitions.

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

    def _learn(self, inputs: FloatArray, targets: Doubles, outputs: Outputs) -> None:
        options, threads = options_of(self), effective_n_jobs(self.n_jobs)
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
        scores: FloatArray = self.predictor_.scores(inputs, effective_n_jobs(self.n_jobs))
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class LocalRidgeClassifier(BatchClassifier, LocalRidgeEstimator):
    """Classes as +1 and -1 by kernel least squares in cells of neighbouring rows; several against the rest.

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


@dataclass(kw_only=True, eq=False, repr=False)
class LocalRidgeRegressor(LeastSquaresRegressor, LocalRidgeEstimator):
    """A target by kernel least squares in cells of neighbouring rows.

    Parameters, attributes : as in LocalRidgeEstimator

    Examples
    --------
    >>> x = np.linspace(-3.0, 3.0, 200)[:, np.newaxis]
    >>> bool(LocalRidgeRegressor(random_state=0).fit(x, np.sin(x[:, 0])).score(x, np.sin(x[:, 0])) > 0.999)
    True
    """
