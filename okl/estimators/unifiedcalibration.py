"""Probabilities of classes from scores, by a sigmoid for each that is fitted to scores of rows not learnt from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.calibration import LOG_ODDS, Sigmoid, cross_validated_scores, fit_sigmoid, normalised
from okl.accelerated.multiclass import signs_by_class
from okl.estimators.unifiedfit import Fitting, scores_of
from okl.estimators.unifiedspaces import Space
from okl.estimators.unifiedweights import Labelled
from okl.types import FloatArray, IntArray

_FOLDS = 5
_LEAST = 1e-300  # of a probability, so that there is a class for scores that exclude all


@dataclass(frozen=True, eq=False)
class Calibration:
    """A sigmoid a class, or one for two; probabilities never fall where scores rise."""

    sigmoids: tuple[Sigmoid, ...]

    def probabilities(self, scores: FloatArray) -> NDArray[np.float64]:
        """Probabilities (rows, n_classes) of scores (rows,) of two classes, or (rows, n_classes)."""
        if len(self.sigmoids) == 1:
            return normalised(self.sigmoids[0].probabilities(scores))
        columns = [sigmoid.probabilities(column) for sigmoid, column in zip(self.sigmoids, scores.T, strict=True)]
        return normalised(np.maximum(np.stack(columns, axis=1), _LEAST))


def of_log_odds(n_scores: int) -> Calibration:
    """What takes each score for the logarithm of the odds of its class, as a model of the logistic loss means it."""
    return Calibration((LOG_ODDS,) * n_scores)


def calibrate(fitting: Fitting, space: Space, labelled: Labelled, seed: int, n_threads: int) -> Calibration:
    """Fit sigmoids to the scores of every fold of rows, as learnt from the other folds.

    Raises
    ------
    DataError : a class has one row only

    Source: Platt, Advances in Large Margin Classifiers, 1999, with five folds as in LIBSVM.
    """

    def scores_by(learn: IntArray, judge: IntArray) -> NDArray[np.float64]:
        part = labelled.part(learn)
        fits = fitting.fit(space, part.inputs, part.codes, part.weights, n_threads)
        return scores_of(fits, space, labelled.inputs[judge], part.inputs, n_threads)

    scores = cross_validated_scores(scores_by, labelled.codes, _FOLDS, seed)
    _, signs = signs_by_class(labelled.codes)
    pairs = zip(scores.T, signs, strict=True)
    return Calibration(
        tuple(_rising(fit_sigmoid(*pair, labelled.weights), pair[1], labelled.weights) for pair in pairs)
    )


def _rising(found: Sigmoid, signs: FloatArray, weights: FloatArray | None) -> Sigmoid:
    """The sigmoid, or where scores fall with their class, and so say nothing, the class's share of the rows."""
    if found.slope <= 0.0:
        return found
    counts = np.ones(len(signs)) if weights is None else weights
    return Sigmoid(0.0, float(np.log((counts[signs < 0].sum() + 1.0) / (counts[signs > 0].sum() + 1.0))))
