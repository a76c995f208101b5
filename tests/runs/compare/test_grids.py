"""Grids lie in the valid range of their model and start at the first nonzero solution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.foundation.types import FloatArray
from okl.runs.compare_grids import Sample, kappa_max, make_grid, merged_moments, on_rows, signs_of_classes
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.fitting import ModelTask, fit_binary
from okl.solvers.accelerated.models import MODEL_NAMES, parameter_of
from okl.solvers.accelerated.models.nusvm import nu_min
from okl.solvers.accelerated.operators import DenseRows


@pytest.fixture(scope="module")
def features(cancer: Dataset) -> tuple[FloatArray, FloatArray]:
    rows = Sample(cancer, 250, 0, "float64").all()
    return rows.inputs[:, :6].copy(), rows.targets


def test_values_of_nu_lie_above_nu_min_and_reach_nu_max(features: tuple[FloatArray, FloatArray]) -> None:
    inputs, targets = features
    rows = DenseRows(inputs, targets)
    grid = make_grid("nu-svm", inputs, [targets], 6)
    values = [grid.value(point, 0, len(targets), grid.high(rows)) for point in grid.points]
    least, largest = nu_min(rows), 2 * min((targets > 0).mean(), (targets < 0).mean())
    assert least > 0.05, "the classes overlap"
    assert least < min(values) < 1.5 * least
    assert max(values) == pytest.approx(largest, rel=1e-12)
    assert values == sorted(values, reverse=True)


def test_grid_points_of_a_sample_are_valid_for_more_rows(features: tuple[FloatArray, FloatArray]) -> None:
    inputs, targets = features
    few, rows = slice(0, 60), DenseRows(inputs, targets)
    sampled = make_grid("nu-svm", inputs[few], [targets[few]], 6)
    grid, least, point = on_rows(sampled, inputs, [targets]), nu_min(rows), sampled.points[-1]
    assert sampled.value(point, 0, len(targets), sampled.high(rows)) < least < grid.value(point, 0, len(targets))
    assert grid.points == sampled.points
    assert on_rows(make_grid("c-svm", inputs, [targets], 3), inputs, [targets]).ranges == ((0.0, math.inf),)


@pytest.mark.parametrize("model", ["mm-fda", "mm-mpm"])
def test_values_of_kappa_lie_below_that_of_the_part(model: str, cancer: Dataset) -> None:
    sample = Sample(cancer, 250, 0, "float64", folds=3)
    grid = make_grid(model, sample.all().inputs, [sample.all().targets], 5)
    assert all(0 < point < 1 for point in grid.points)
    assert list(grid.points) == sorted(grid.points)
    assert math.isfinite(kappa_max(model, merged_moments(sample, 1, 0, 2)))


@pytest.mark.parametrize("model", ["l1-logistic", "l1-l2-svm"])
def test_sparse_models_have_a_weight_from_the_first_value_on(
    model: str, features: tuple[FloatArray, FloatArray]
) -> None:
    inputs, targets = features
    grid, rows = make_grid(model, inputs, [targets], 4), DenseRows(inputs, targets)
    first = fit_binary(ModelTask(model, grid.points[0]).model(), rows, Fapg(tolerance=1e-4))
    below = fit_binary(ModelTask(model, 0.499 * grid.points[0]).model(), rows, Fapg(tolerance=1e-4))
    assert np.abs(first.weights).max() > 0
    assert np.abs(below.weights).max() == 0


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_the_unit_of_the_inputs_changes_nothing(model: str, features: tuple[FloatArray, FloatArray]) -> None:
    inputs, targets = features
    plain, larger = (make_grid(model, scale * inputs, [targets], 3) for scale in (1.0, 8.0))
    unit = {"C": 64.0, "nu": 1.0, "kappa": 1.0}[parameter_of(model)]
    if model.startswith("l1-"):
        unit = 8.0  # ||w||_1 shrinks as the inputs grow, its square twice as fast
    if model == "dwd":
        unit = 1 / 8.0  # a length
    assert np.allclose(np.array(larger.points) * unit, plain.points, rtol=1e-6)
    assert np.allclose(larger.ranges, plain.ranges, rtol=1e-3)


def test_each_class_has_a_range_of_its_own(wine: Dataset) -> None:
    rows = Sample(wine, 150, 0, "float64").all()
    signs = signs_of_classes(rows.targets, 3)
    grid = make_grid("nu-svm", rows.inputs, signs, 4)
    ends = [2 * min((sign > 0).mean(), (sign < 0).mean()) for sign in signs]
    assert np.allclose([grid.value(1.0, k) for k in range(3)], ends)
    assert len(set(ends)) == 3
