"""Compilation ahead of a run."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from okl.data.dataset import Schema
from okl.data.executor import Rows
from okl.data.manifest import is_dataset, open_dataset
from okl.foundation.errors import OklError
from okl.foundation.settings import TrainSettings
from okl.runs.plan import mode_of
from okl.solvers.factory import linear_baseline, make_recipe
from okl.solvers.online.factory import Situation

ROWS = 600  # experts then go through all of their rounds, and a learner with a budget through all of its branches
MOST_BUDGET = 100


def compile_ahead(settings: TrainSettings) -> None:
    """Learn and score a few made-up rows like those of the data set, by the solver that is meant and by its baseline.

    Machine code is cached on disk: it is the first run with a solver that would wait for seconds in its loop. Nothing
    is done for a source, whose task is not known yet, nor where gradients are summed or workers compile for themselves.
    """
    elsewhere = settings.workers or settings.scheduler or mode_of(settings) == "sum"
    if elsewhere or not is_dataset(settings.data):
        return
    with suppress(OklError):  # of rows that nobody has; the run finds what is wrong with its own
        schema = open_dataset(settings.data).schema
        rows = made_up_rows(schema, settings)
        small = settings.model_copy(update={"budget": min(settings.budget, MOST_BUDGET), "rank": "auto"})
        for recipe in (make_recipe(small, schema), linear_baseline(small, schema)):
            situation = Situation(schema, rows, ROWS, 1, "stream", settings.seed, settings.precision)
            learner = recipe.settle(situation).learner
            learner.predictor(learner.learn(learner.start(), rows)).scores(rows.inputs)


def made_up_rows(schema: Schema, settings: TrainSettings) -> Rows:
    """Normal inputs (ROWS, n_features) of the columns' means and deviations, and targets of all classes in turn."""
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
