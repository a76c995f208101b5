"""Compiling ahead of a comparison what it will call, while its server starts anyway."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from okl.accelerated.fapg import Fapg
from okl.accelerated.operators import DenseRows
from okl.accelerated.paths import path
from okl.comparison.entrants import entrants, is_certified, train_settings
from okl.comparison.grids import make_grid
from okl.comparison.price.asked import Asked
from okl.comparison.price.items import best_trial, make_learner, measure
from okl.comparison.settings import CompareSettings
from okl.comparison.trials import with_biases
from okl.errors import OklError
from okl.execution.protocol import Rows
from okl.features.fourier import draw_fourier_map
from okl.kernels import Gaussian
from okl.online.constraints.quantities import Constraint, Covariance
from okl.store.manifest import open_dataset
from okl.types import Precision
from okl.warming import compile_ahead as compile_solver
from okl.warming import made_up_rows

ROWS, COLUMNS = 64, 4
BRIEF_BOUND = 1e-3
BRIEFLY = Fapg(max_iterations=25)  # beyond the tenth iteration, which backtracks, and a check or two


def compile_ahead(settings: CompareSettings) -> None:
    """Fit a few made-up rows by everyone who takes part; nothing where workers compile for themselves.

    Machine code is cached on disk: it is the first comparison that would wait for it.
    """
    if settings.workers or settings.scheduler:
        return
    with suppress(OklError):  # of rows that nobody has; the run finds what is wrong with its own
        schema = open_dataset(settings.data).schema
        if settings.constraints:
            _learn_briefly(made_up_rows(schema, train_settings(settings, "fogd")), settings.precision)
            return
        for name in entrants(settings):
            if not is_certified(name):
                compile_solver(train_settings(settings, name))
        rows = made_up_rows(schema, train_settings(settings, "fogd"))
        features = np.ascontiguousarray(rows.inputs[:ROWS, :COLUMNS])
        _fit_briefly([name for name in entrants(settings) if is_certified(name)], features)


def _fit_briefly(names: list[str], features: np.ndarray[tuple[int, int], np.dtype[np.floating]]) -> None:
    signs = np.where(np.arange(len(features)) % 3 == 0, 1.0, -1.0)
    rows = DenseRows(features, signs)
    for name in names:
        with suppress(OklError):
            grid = make_grid(name, features, [signs], 1)
            value = 0.01 if grid.parameter == "kappa" else grid.value(grid.places[0], 0, len(signs), grid.high(rows))
            (point,) = path(name, rows, [value], BRIEFLY)
            with_biases([point.solution.weights], [point.solution.bias], True, features, [signs])


def _learn_briefly(rows: Rows, precision: Precision) -> None:
    """FOGD with and without a limit, and the best weights, of made-up rows."""
    inputs = np.ascontiguousarray(rows.inputs[:, :COLUMNS])
    feature_map = draw_fourier_map(Gaussian(1.0), inputs.shape[1], ROWS, 0, precision)
    columns = {"": inputs[:, 0].astype(np.float64)}
    asked = Asked((Constraint(Covariance(""), -BRIEF_BOUND, BRIEF_BOUND),), 1.0)
    for bound in (None, BRIEF_BOUND):
        learner = make_learner(asked, bound, feature_map, feature_map.transform(inputs), columns)
        predictor = learner.predictor(learner.learn(learner.start(), Rows(inputs, rows.targets)))
        few = Rows(feature_map.transform(inputs[:ROWS]), rows.targets[:ROWS])
        best_trial(learner, few, Rows(inputs[:ROWS], rows.targets[:ROWS]))
        measure(asked.constraints, predictor, inputs, columns)
