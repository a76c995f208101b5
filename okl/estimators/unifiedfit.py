"""One model fitted to two classes, or to each of several against the rest; knows nothing of scikit-learn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.bias import choose_bias
from okl.accelerated.catalogue import make_model, parameter_of, valid_range
from okl.accelerated.classifier import Classifier
from okl.accelerated.fapg import Fapg
from okl.accelerated.fitting import Fitted, fit_one
from okl.accelerated.multiclass import in_threads, relabelled, signs_by_class
from okl.accelerated.stochastic import StochasticStart
from okl.errors import DataError
from okl.estimators.unifiednu import fit_some_nu
from okl.estimators.unifiedspaces import Inputs, Space
from okl.types import FloatArray, IntArray

Bias = Literal["own", "error-minimising"]
_HUNDRED = 100.0  # Marron, Todd & Ahn's penalty is a hundred over the squared distance of the classes


@dataclass(frozen=True, eq=False)
class ClassFit:
    """Weights of columns, or coefficients of rows, and intercept: h(x) = f(x) + intercept; the solution behind them.

    parameter : C, nu or kappa as used
    """

    weights: FloatArray
    intercept: float
    parameter: float
    fitted: Fitted


@dataclass(frozen=True)
class Fitting:
    """How two classes are told apart.

    Parameters
    ----------
    model : one of MODEL_NAMES
    parameters : C, nu, kappa by name, None for a default: C = 1; half of the largest valid nu or kappa, or 0.5 where
        there is no largest, and a larger nu where that one is too small to have weights; for dwd nu = d^2 / (100 m),
        d the median distance of rows of one class from the other's
    fit_intercept, bias : whether there is a bias; the model's own, or that of fewest training errors, which stands in
        where all weights are 0
    method : Fapg
    start : where it begins; None: the problem's own point

    Source: of dwd's default, Marron, Todd & Ahn, JASA 102, 2007, section 2.2, whose C is 1 / (m nu) here.
    """

    model: str
    parameters: dict[str, float | None]
    fit_intercept: bool
    bias: Bias
    method: Fapg
    start: StochasticStart | None = None

    def fit(
        self, space: Space, inputs: Inputs, codes: IntArray, weights: FloatArray | None, n_threads: int
    ) -> list[ClassFit]:
        """Fit codes (rows,) of two classes, the higher being positive; or each of several against the rest.

        Classes are fitted in parallel; no result depends on n_threads.

        Raises
        ------
        ConfigError, DataError : a parameter outside its range for these rows; rows that the model cannot learn
        """
        _, signs = signs_by_class(codes)
        n_workers = min(n_threads, len(signs))
        rows = space.operator(inputs, signs[0], n_threads // n_workers)

        def fit_two(index: int) -> ClassFit:
            return self._fit_two(space, relabelled(rows, signs[index]), weights)

        return in_threads(fit_two, len(signs), n_workers)

    def _fit_two(self, space: Space, rows: Any, weights: FloatArray | None) -> ClassFit:
        parameter = self.parameters.get(parameter_of(self.model))
        if parameter is None and self.model == "nu-svm":
            parameter, fitted = fit_some_nu(rows, weights, self.fit_intercept, self.method, self.start)
        else:
            parameter = self._default(space, rows, weights) if parameter is None else parameter
            fitted = fit_one(self._model(parameter), rows, self.method, weights, self.start)
        bias = fitted.bias if self.fit_intercept else 0.0
        if self.fit_intercept and (self.bias == "error-minimising" or not fitted.weights.any()):
            scores = space.training_scores(rows, fitted.weights)
            bias = choose_bias("errors", fitted, scores, rows.signs, weights)
        # nobody wants to read an intercept of -0.0
        return ClassFit(fitted.weights, 0.0 - bias, parameter, fitted)

    def _model(self, parameter: float) -> Classifier:
        given = {**self.parameters, parameter_of(self.model): parameter}
        return make_model(self.model, **given, fit_intercept=self.fit_intercept)

    def _default(self, space: Space, rows: Any, weights: FloatArray | None) -> float:
        if parameter_of(self.model) == "C":
            return 1.0
        if self.model == "dwd":
            apart = space.distance_of_classes(rows) or 1.0
            return apart**2 / (_HUNDRED * float(rows.n_points if weights is None else weights.sum()))
        _, high = valid_range(self.model, rows, weights, self.fit_intercept)
        if high == 0.0:
            raise DataError("The two classes have one mean, so that no kappa is valid: use another model for them.")
        return 0.5 * (high if math.isfinite(high) else 1.0)


def scores_of(fits: list[ClassFit], space: Space, rows: Inputs, learnt: Inputs, n_threads: int) -> NDArray[np.float64]:
    """Scores (rows, outputs) of rows by what was learnt from others."""
    weights = np.stack([fit.weights for fit in fits])
    intercepts = np.array([fit.intercept for fit in fits])
    scores: NDArray[np.float64] = space.scores(rows, learnt, weights, n_threads) + intercepts
    return scores
