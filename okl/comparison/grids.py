"""Values of each model's parameter: over its valid range, in units of the data, the easiest problem first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from okl.accelerated.catalogue import make_model, parameter_of
from okl.accelerated.fapg import Fapg
from okl.accelerated.models.nusvm import nu_max
from okl.accelerated.operators import DenseRows
from okl.accelerated.paths import path
from okl.comparison.trials import raw_scores
from okl.types import FloatArray

COST = (1e-2, 300.0)  # C, for rows of length 1
SPARSE_COST = (2.0, 2e3)  # C, in units of the least one that leaves a weight
MARGIN = (1.0, 0.01)  # of DWD, where 1 / z gives way to its tangent, for rows of length 1
LEAST_SHARE = 0.03  # of the range of nu
SAMPLE_ROWS = 4000  # of the planes that tell where the range of nu begins
PLANES = 4
ROUGHLY = Fapg(tolerance=1e-2, max_iterations=200)

Kind = Literal["value", "share", "margin"]


@dataclass(frozen=True)
class Grid:
    """Places of one parameter, in the order in which a path takes them: from much regularisation to little.

    Parameters
    ----------
    model : name; places : in the unit of the kind
    kind : "value": C itself; "share": of the open valid range, of each class against the rest; "margin": sqrt(m nu)
    ranges : (low, high) of each class against the rest; one for two classes
    """

    model: str
    places: tuple[float, ...]
    kind: Kind
    ranges: tuple[tuple[float, float], ...] = ((0.0, math.inf),)

    @property
    def parameter(self) -> str:
        """C, nu or kappa."""
        return parameter_of(self.model)

    def high(self, rows: DenseRows) -> float:
        """Where the range of these rows ends, if it ends by their labels: nu_max; else infinite."""
        return _nu_max(rows.signs) if self.model == "nu-svm" else math.inf

    def value(self, place: float, class_index: int = 0, n_rows: int = 1, high: float = math.inf) -> float:
        """The parameter at a place, for rows whose own range ends at `high`."""
        if self.kind == "value":
            return place
        if self.kind == "margin":
            return place**2 / n_rows
        low, end = self.ranges[class_index]
        return min(low + place * (min(end, high) - low), high)


def make_grid(model: str, features: FloatArray, signs: Sequence[FloatArray], n: int) -> Grid:
    """The grid of a model.

    Parameters
    ----------
    model : name; n : places
    features : (rows, n_columns), a sample of rows; signs : -1 or +1 a row, for each class against the rest
    """
    rows = DenseRows(features, signs[0])
    length = math.sqrt(max(float(rows.squared_lengths().mean()), float(np.finfo(np.float32).tiny)))
    if model == "dwd":
        return Grid(model, _spread(MARGIN, n, length), "margin")
    if parameter_of(model) == "kappa":
        # dense towards the end, where MM-FDA becomes Fisher's discriminant
        return Grid(model, tuple((1.0 - (1.0 - np.arange(1, n + 1) / (n + 1)) ** 2).tolist()), "share")
    if parameter_of(model) == "nu":
        return Grid(model, _spread((1.0, LEAST_SHARE), n), "share", _ranges_of_nu(features, signs))
    if model.startswith("l1-"):
        least = min(_least_cost(model, DenseRows(features, sign)) for sign in signs)
        return Grid(model, _spread(SPARSE_COST, n, least), "value")
    return Grid(model, _spread(COST, n, 1.0 / length**2), "value")


def on_rows(grid: Grid, features: FloatArray, signs: Sequence[FloatArray]) -> Grid:
    """The same places in the ranges of other rows: a nu above nu_min for a sample may lie below that of all rows.

    features, signs : as of make_grid
    """
    return replace(grid, ranges=_ranges_of_nu(features, signs)) if grid.model == "nu-svm" else grid


def _ranges_of_nu(features: FloatArray, signs: Sequence[FloatArray]) -> tuple[tuple[float, float], ...]:
    return tuple((least_known_nu(features, sign), _nu_max(sign)) for sign in signs)


def least_known_nu(features: FloatArray, signs: FloatArray) -> float:
    """A nu just above nu_min, the least mean hinge loss of all planes: that of the best of a few C-SVMs.

    The linear program that gives nu_min itself takes minutes where this takes a second; any plane's loss is a bound.

    features : (rows, n_columns); signs : (rows,); the planes are those of rows evenly spread, the losses of all
    """
    spread = np.linspace(0, len(signs) - 1, min(len(signs), SAMPLE_ROWS)).astype(np.int64)
    few = DenseRows(features[spread], signs[spread])
    length = math.sqrt(max(float(few.squared_lengths().mean()), float(np.finfo(np.float32).tiny)))
    points = path("c-svm", few, _spread(COST, PLANES, 1.0 / length**2), ROUGHLY)
    losses = []
    for point in points:
        margins = signs * (raw_scores(features, point.solution.weights) - point.solution.bias)
        losses.append(float(np.maximum(0.0, 1.0 - margins).mean()))
    return min(*losses, _nu_max(signs))


def _nu_max(signs: FloatArray) -> float:
    return nu_max(signs, np.ones(len(signs)))


def _least_cost(model: str, rows: DenseRows) -> float:
    """C up to which all weights of a model with an l1 penalty are 0: no column is steeper than the penalty.

    Source: Yuan, Chang, Hsieh & Lin, JMLR 11, 2010, section 2.
    """
    problem = make_model(model, C=1.0).problem(rows)
    steepness = np.empty(rows.n_image)
    problem.pull(steepness, np.zeros(rows.n_points))
    return 1.0 / max(float(np.abs(steepness).max()), float(np.finfo(np.float32).tiny))


def _spread(ends: tuple[float, float], n: int, unit: float = 1.0) -> tuple[float, ...]:
    """n places from one end to the other, each the same multiple of the one before; the middle one if n is 1."""
    first, last = unit * ends[0], unit * ends[1]
    return tuple(np.geomspace(first, last, n).tolist()) if n > 1 else (math.sqrt(first * last),)
