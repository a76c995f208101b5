"""The winner, learnt again from all training rows, or from as many as fit the memory asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from okl.accelerated.catalogue import has_own_bias
from okl.accelerated.fapg import Fapg
from okl.accelerated.fitting import Fitted
from okl.accelerated.moments import class_moments
from okl.accelerated.operators import DenseRows
from okl.accelerated.paths import path
from okl.comparison.entrants import is_certified, train_settings
from okl.comparison.grids import Grid, on_rows
from okl.comparison.minimaxpaths import path_of_moments
from okl.comparison.settings import CompareSettings
from okl.comparison.trials import signs_of_classes, with_biases
from okl.execution.protocol import Execution
from okl.features.linear import StandardisedLinear
from okl.features.protocol import FeatureMap
from okl.features.scoring import transform_rows
from okl.planning import make_online_solver
from okl.predictors import LinearPredictor, Predictor
from okl.store.dataset import Dataset
from okl.store.reading import sample_rows
from okl.types import FloatArray

MORE_ITERATIONS, EXACTER = 4, 0.1
WAY = (0.25, 0.5, 0.75, 1.0)  # of the grid, up to the chosen place
DUAL_BYTES = 128  # a row: the vectors of the method, float64
Tell = Callable[[int, int, dict[str, float]], None]


@dataclass(frozen=True, eq=False)
class Winner:
    """What was learnt again.

    predictor; rows : that it was learnt from; chosen : the solver's own choices
    values : of the parameter, for each class against the rest; certificate : as JSON, None for online solvers
    """

    predictor: Predictor
    rows: int
    values: tuple[float, ...] = ()
    certificate: dict[str, Any] | None = None
    chosen: dict[str, Any] | None = None


def fit_winner(
    settings: CompareSettings,
    data: Dataset,
    name: str,
    grid: Grid,
    place: float,
    bias: str,
    feature_map: FeatureMap | None,
    execution: Execution,
    tell: Tell,
) -> Winner:
    """Learn again with what was chosen.

    Parameters
    ----------
    name : of the entrant; grid, place, bias : what was chosen for one of the nine
    feature_map : of the nine, None: the inputs
    tell : is told rows done, rows in all, and figures
    """
    if not is_certified(name):
        return _learn_online(settings, data, name, execution, tell)
    rows = sample_rows(data, "train", rows_that_fit(settings, data, feature_map), settings.seed, settings.precision)
    features = rows.inputs if feature_map is None else transform_rows(feature_map, rows.inputs, execution.n_threads)
    signs = signs_of_classes(rows.targets, max(2, len(data.schema.labels)))
    grid = on_rows(grid, features, signs)
    method = Fapg(tolerance=EXACTER * settings.tolerance, max_iterations=MORE_ITERATIONS * settings.iterations)
    values: list[float] = []
    fits: list[Fitted] = []
    for index, sign in enumerate(signs):
        tell(index * len(features), len(signs) * len(features), {})
        value, found = _fit(DenseRows(features, sign, execution.n_threads), grid, place, index, method)
        values.append(value)
        fits.append(found)
    weights, own = [found.weights for found in fits], [found.bias for found in fits]
    biases = with_biases(weights, own, has_own_bias(name), features, signs).biases[bias]
    predictor = affine_predictor(feature_map, np.array(weights), np.array(biases), settings)
    return Winner(predictor, len(features), tuple(values), certificate_of(fits))


def rows_that_fit(settings: CompareSettings, data: Dataset, feature_map: FeatureMap | None) -> int:
    """Training rows of a data set that fit the memory asked for, mapped and with what the method keeps of a row."""
    columns = data.schema.n_features + (0 if feature_map is None else feature_map.n_columns)
    size = np.dtype(settings.precision).itemsize
    most = int(settings.memory * 2**30 / (columns * size + DUAL_BYTES))
    return max(2, min(data.rows("train"), most))


def certificate_of(fits: list[Fitted]) -> dict[str, Any]:
    """The proof as JSON; of several classes gaps and objectives are added up, the relative gap is the largest."""
    certificates = [found.certificate for found in fits]
    return {
        "kind": "duality gap",
        "gap": sum(one.gap for one in certificates),
        "relative_gap": max(one.relative_gap for one in certificates),
        "objective": sum(one.primal for one in certificates),
        "dual_objective": sum(one.dual for one in certificates),
        "iterations": sum(found.iterations for found in fits),
        "outcome": "; ".join(dict.fromkeys(found.outcome.reason for found in fits)),
    }


def affine_predictor(
    feature_map: FeatureMap | None, weights: FloatArray, biases: FloatArray, settings: CompareSettings
) -> LinearPredictor:
    """Scores <w, x> - bias; weights (n_outputs, n_columns), biases (n_outputs,)."""
    precision = settings.precision
    if feature_map is not None:
        return LinearPredictor(feature_map, weights.astype(precision), (-biases).astype(precision))
    n_inputs = weights.shape[1]
    inputs = StandardisedLinear(np.zeros(n_inputs, dtype=precision), np.ones(n_inputs, dtype=precision), 1.0)
    return LinearPredictor(inputs, np.column_stack([weights, -biases]).astype(precision))


def _fit(rows: DenseRows, grid: Grid, place: float, class_index: int, method: Fapg) -> tuple[float, Fitted]:
    if grid.parameter == "kappa":
        (point,) = path_of_moments(grid.model, class_moments(rows), [place], method)
        return point.parameter, point.solution
    # by way of easier values: a far one from scratch takes several times the iterations
    chosen = grid.places.index(place)
    steps = sorted({round(share * chosen) for share in WAY})
    values = [grid.value(grid.places[step], class_index, rows.n_points, grid.high(rows)) for step in steps]
    point = path(grid.model, rows, values, method)[-1]
    return point.parameter, point.solution


def _learn_online(settings: CompareSettings, data: Dataset, name: str, execution: Execution, tell: Tell) -> Winner:
    """As `okl train` does in one process: all rows, one pass, whatever the memory."""
    solver = make_online_solver(train_settings(settings, name), data)
    state = solver.start(data, execution)
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
        standing = solver.standing(state)
        tell(standing.done_rows, standing.total_rows, {"mistake_rate": standing.error})
    return Winner(solver.predictor(state), data.rows("train"), chosen=solver.chosen(state))
