"""Compiling ahead of a comparison what it will call, while its server starts anyway."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from okl.accelerated.fapg import Fapg
from okl.accelerated.operators import DenseRows
from okl.accelerated.paths import path
from okl.comparison.entrants import entrants, is_certified, train_settings
from okl.comparison.grids import make_grid
from okl.comparison.settings import CompareSettings
from okl.comparison.trials import with_biases
from okl.errors import OklError
from okl.store.manifest import open_dataset
from okl.warming import compile_ahead as compile_solver
from okl.warming import made_up_rows

ROWS, COLUMNS = 64, 4
BRIEFLY = Fapg(max_iterations=25)  # beyond the tenth iteration, which backtracks, and a check or two


def compile_ahead(settings: CompareSettings) -> None:
    """Fit a few made-up rows by everyone who takes part; nothing where workers compile for themselves.

    Machine code is cached on disk: it is the first comparison that would wait for it.
    """
    if settings.workers or settings.scheduler:
        return
    with suppress(OklError):  # of rows that nobody has; the run finds what is wrong with its own
        schema = open_dataset(settings.data).schema
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
