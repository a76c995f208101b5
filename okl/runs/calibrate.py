"""Calibration of a trained classifier: probabilities from leave-one-out scores or from held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from okl.data.dataset import Dataset, Schema
from okl.data.reading import sample_rows
from okl.features.predictors import BasePredictor, CalibratedPredictor, Predictor, log_odds
from okl.foundation.errors import ConfigError
from okl.metrics.calibration import ScoreCalibration, fit_calibration
from okl.models.inputs import class_indices
from okl.solvers.online.constraints import parse_constraints
from okl.solvers.online.settings import constraints_of, tracks
from okl.solvers.options import ClassWeightOptions
from okl.solvers.ridge.cells import LocalState
from okl.solvers.ridge.falkon import FalkonState
from okl.solvers.ridge.solver import RidgeState
from okl.solvers.settings import TrainSettings

MOST_ROWS = 32_768  # held-out rows that a calibration is fitted to
TEST_ROWS = "test rows"
LEAST_OF_CLASS = 10  # of them, of two classes; rarer ones have an offset of a prior
LOG_ODDS_SOLVERS = ("logistic", "l1-logistic")


def check_threshold(settings: TrainSettings, schema: Schema) -> None:
    """Raise ConfigError for a threshold where there are not two classes."""
    if settings.threshold is not None and schema.task != "binary":
        what = "a regression task" if schema.task == "regression" else f"a task of {len(schema.labels)} classes"
        raise ConfigError(
            f"threshold = {settings.threshold:g} is for two classes, but {schema.target!r} makes this {what}. Remove "
            "it."
        )


def calibrated(
    settings: TrainSettings,
    state: Any,
    predictor: Predictor,
    data: Dataset,
    n_threads: int = 1,
    in_folds: ScoreCalibration | None = None,
) -> tuple[Predictor, dict[str, Any]]:
    """Return a trained predictor with probabilities, or as it is, and how they were found.

    state : of the solver that trained it; data : its data set, whose test rows may be needed
    in_folds : calibration on held-out rows of the automatic choice: of logistic regression of several classes, of
        linear models of sparse rows, or of least squares, if folds are contiguous or of groups or the metric was learnt
        from rows that are left out, too

    Returns
    -------
    predictor : a CalibratedPredictor of the trained one, or that itself
    record : on, the rows or the loss that the probabilities come from, with slope, offsets and threshold; or none, the
        reason why there are no probabilities; empty for a regression

    Raises ConfigError : a threshold was set, and there are no probabilities

    Scores that are calibrated on test rows predict the classes that they did before, unless a threshold is set.
    """
    schema = data.schema
    if schema.task == "regression":
        return predictor, {}
    found = _found(settings, state, predictor, data, n_threads, in_folds)
    if isinstance(found, str):
        if settings.threshold is not None:
            raise ConfigError(f"threshold = {settings.threshold:g} needs probabilities. {found}")
        return predictor, {"none": found}
    calibration, on = found
    assert isinstance(predictor, BasePredictor), "solvers make no others"
    shifts = shifts_of(settings, schema)
    if on.endswith(TEST_ROWS) and settings.threshold is None:
        shifts = calibration.offsets  # no class that is predicted may depend on test rows
    made = CalibratedPredictor(predictor, calibration, shifts)
    record = {"on": on, "slope": calibration.slope, "offsets": list(calibration.offsets)}
    record |= {"mixing": [list(row) for row in calibration.mixing]} if calibration.mixing else {}
    return made, record | ({"threshold": made.threshold} if schema.task == "binary" else {})


def shifts_of(settings: TrainSettings, schema: Schema) -> tuple[float, ...]:
    """Return the log-odds from which on classes are predicted: of the threshold, or by the weights of the classes."""
    if settings.threshold is not None:
        return (log_odds(settings.threshold),)
    weights = class_weights_of(settings, schema)
    if weights is None:
        return (0.0,) * schema.n_outputs
    logarithms = np.log(weights)
    if schema.task == "binary":
        return (float(logarithms[0] - logarithms[1]),)
    return tuple(map(float, -logarithms))


def class_weights_of(settings: TrainSettings, schema: Schema) -> tuple[float, ...] | None:
    """Return the weight of each class in training; None for all equal."""
    options = settings.options
    return options.weights_of_classes(schema) if isinstance(options, ClassWeightOptions) else None


def _found(
    settings: TrainSettings,
    state: Any,
    predictor: Predictor,
    data: Dataset,
    n_threads: int,
    in_folds: ScoreCalibration | None,
) -> tuple[ScoreCalibration, str] | str:
    """Return a calibration and the rows or the loss that it comes from, or the reason why there is none."""
    options = settings.options
    if tracks(options):
        return "Scores of a model that follows changing data (--track) are not calibrated."
    if parse_constraints(constraints_of(options))[0]:
        return "Constraints hold for the scores as they are, so these are not calibrated."
    if in_folds is not None and data.schema.sparse is not None:
        return in_folds, "held-out training rows"
    if in_folds is not None and (isinstance(state, RidgeState | LocalState) or settings.solver == "logistic"):
        return in_folds, "held-out folds of sampled training rows"
    if isinstance(state, RidgeState) and state.solution is not None and state.solution.calibration is not None:
        return state.solution.calibration, "leave-one-out scores of sampled training rows"
    left_out = state.left_out if isinstance(state, FalkonState | LocalState) else None
    held_out = isinstance(state, FalkonState)  # a tenth of the training rows, which may be too few
    if left_out is not None and (calibration := left_out.calibration(LEAST_OF_CLASS * held_out)) is not None:
        return calibration, f"{'held-out' if held_out else 'leave-one-out scores of sampled'} training rows"
    weights = class_weights_of(settings, data.schema)
    logistic = settings.solver in LOG_ODDS_SOLVERS or getattr(options, "loss", "") == "logistic"
    if logistic and data.schema.task == "binary":
        prior = 0.0 if weights is None else float(np.log(weights[0] / weights[1]))
        return ScoreCalibration(1.0, (prior,)), "the logistic loss"
    if not data.rows("test"):
        return "Probabilities need test rows that the model was not trained on. Hold some out (--holdout 0.2)."
    rows = sample_rows(data, "test", MOST_ROWS, settings.seed, settings.precision)
    classes = class_indices(data.schema, rows.targets)
    counts = np.bincount(classes, minlength=len(data.schema.labels))
    if (found := np.sort(counts)[-2]) < LEAST_OF_CLASS:
        label = data.schema.labels[int(np.argsort(counts)[-2])]
        return (
            f"Probabilities need {LEAST_OF_CLASS} test rows of two classes, but {label!r} has {found}. Hold out more "
            "rows."
        )
    scores = predictor.scores(rows.inputs, n_threads)
    return fit_calibration(scores, classes), f"{len(classes):,} {TEST_ROWS}"
