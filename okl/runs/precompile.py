"""Compilation of numba functions before a run."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from okl.data.dataset import Schema
from okl.data.executor import Rows
from okl.data.manifest import is_dataset, open_dataset
from okl.features.linear import StandardisedLinear
from okl.features.predictors import LinearPredictor
from okl.foundation.errors import OklError
from okl.solvers.online.base import BuildContext
from okl.solvers.online.settings import BudgetOptions, FogdSettings, NogdSettings, OnlineSettings
from okl.solvers.settings import TrainSettings

ROWS = 600  # experts then go through all of their rounds, and a learner with a budget through all of its branches
MOST_BUDGET = 100


def compile_ahead(settings: TrainSettings) -> None:
    """Train and score synthetic rows like those of the data set, with the solver of the run and its baseline.

    Machine code is cached on disk, so only the first run with a solver would wait for it in its loop. Nothing is done
    for a source, whose task is unknown, in mode sum, or with workers, which compile by themselves.
    """
    elsewhere = settings.workers or settings.scheduler or settings.training_mode == "sum"
    if elsewhere or not is_dataset(settings.data):
        return
    with suppress(OklError):  # an error on synthetic rows is ignored; the run reports those of its own data
        schema = open_dataset(settings.data).schema
        rows = synthetic_rows(schema, settings)
        options = settings.options
        if isinstance(options, BudgetOptions) and options.budget > MOST_BUDGET:
            rank = {"rank": "auto"} if isinstance(options, NogdSettings) else {}
            options = options.model_copy(update={"budget": MOST_BUDGET} | rank)
        assert isinstance(options, OnlineSettings), "the mode of other solvers is sum"
        alike = isinstance(options, FogdSettings) and (options.track or options.constraints)
        for factory in (options.factory(schema), *([options.linear_baseline(schema)] if alike else [])):
            context = BuildContext(schema, rows, ROWS, 1, "stream", settings.seed, settings.precision)
            learner = factory.build(context).learner
            learner.predictor(learner.learn(learner.start(), rows)).scores(rows.inputs)
        features = StandardisedLinear.of_schema(schema, "float64")  # of the linear baseline
        LinearPredictor(features, np.zeros((schema.n_outputs, features.n_columns))).scores(rows.inputs)


def synthetic_rows(schema: Schema, settings: TrainSettings) -> Rows:
    """Return normal inputs (ROWS, n_features) with the columns' means and deviations, and targets of all classes."""
    rng = np.random.default_rng(0)
    means = [column.mean for column in schema.feature_statistics]
    deviations = [column.standard_deviation for column in schema.feature_statistics]
    shift, factor = schema.shift_and_factor
    inputs = (rng.normal(means, deviations, (ROWS, schema.n_features)) - shift) * factor
    turns = np.arange(ROWS)
    targets = {
        "binary": 2.0 * (turns % 2) - 1.0,
        "multiclass": turns % max(1, len(schema.labels)),
        "regression": rng.normal(size=ROWS),
    }[schema.task]
    return Rows(np.ascontiguousarray(inputs, dtype=settings.precision), np.asarray(targets, dtype=np.float64))
