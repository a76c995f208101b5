"""Metrics: merged metrics equal those of all rows, and both equal scikit-learn's."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as reference

from okl.data.dataset import ColumnStatistics, Schema
from okl.foundation.errors import DataError, DivergedError
from okl.foundation.types import Task
from okl.metrics.definitions import Tally, measure, measure_residuals, merge, predicted_classes
from okl.runs.baselines import constant_scores

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


def rows_of(task: Task, rows: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return correlated scores and targets; the scores have many ties if the caller rounds them."""
    rng = np.random.default_rng(seed)
    if task == "multiclass":
        classes = rng.choice(5, rows, p=[0.4, 0.3, 0.2, 0.1, 0.0])
        scores = rng.normal(size=(rows, 5)) + 1.5 * np.eye(5)[classes]
        return scores.astype(np.float32), classes.astype(np.float64)
    if task == "binary":
        targets = np.where(rng.random(rows) < 0.2, 1.0, -1.0)
        return (rng.normal(size=rows) + targets).astype(np.float32), targets
    targets = 1950.0 + 40.0 * rng.random(rows)
    return (targets + rng.standard_t(3, size=rows)).astype(np.float64), targets


def measured(task: Task, scores: NDArray[Any], targets: NDArray[np.float64]) -> Tally:
    return measure(task, scores, targets, n_classes=5, target_range=(1950.0, 1990.0))


def assert_same_report(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        if isinstance(value, dict):
            assert_same_report(value, b[name])
        elif isinstance(value, float):
            assert b[name] == pytest.approx(value, rel=1e-12), name
        else:
            assert b[name] == value, name


@pytest.mark.parametrize("task", TASKS)
def test_merge_equals_measure_of_the_concatenation(task: Task) -> None:
    scores, targets = rows_of(task, 5000)
    cuts = [0, 1, 1, 700, 4096, 5000]
    parts = [measured(task, scores[a:b], targets[a:b]) for a, b in pairwise(cuts)]
    whole = measured(task, scores, targets)
    assert merge(parts).rows == whole.rows == 5000
    assert_same_report(merge(parts).report(), whole.report())
    assert_same_report(merge(iter([merge(parts[:3]), merge(parts[3:])])).report(), whole.report())


@pytest.mark.parametrize("task", TASKS)
def test_tally_survives_pickling_and_its_report_is_json(task: Task) -> None:
    tally = measured(task, *rows_of(task, 300))
    copy = pickle.loads(pickle.dumps(tally))
    assert json.loads(json.dumps(copy.report(), allow_nan=False)) == tally.report()


@pytest.mark.parametrize("decimals", [1, 9])
def test_binary_metrics_equal_scikit_learn(decimals: int) -> None:
    scores, targets = rows_of("binary", 4000)
    scores = np.round(scores, decimals)
    scores[:20] = np.tile(np.array([0.0, -0.0], dtype=np.float32), 10)
    assert (len(np.unique(scores)) < 100) == (decimals == 1)
    predicted = np.where(scores >= 0, 1, -1)
    report = measure("binary", scores, targets).report()
    assert report["accuracy"] == pytest.approx(reference.accuracy_score(targets, predicted), abs=1e-12)
    assert report["accuracy"] + report["mistake_rate"] == pytest.approx(1.0, abs=1e-15)
    assert report["balanced_accuracy"] == pytest.approx(
        reference.balanced_accuracy_score(targets, predicted), abs=1e-12
    )
    assert report["roc_auc"] == pytest.approx(reference.roc_auc_score(targets, scores), abs=1e-12)
    assert report["average_precision"] == pytest.approx(reference.average_precision_score(targets, scores), abs=1e-12)
    assert report["confusion"] == reference.confusion_matrix(targets, predicted).tolist()


def test_multiclass_metrics_equal_scikit_learn() -> None:
    scores, targets = rows_of("multiclass", 3000)
    assert set(targets) == {0.0, 1.0, 2.0, 3.0}  # the last class has no rows, but is predicted
    predicted = np.argmax(scores, axis=1)
    assert (predicted == 4).any()
    report = measure("multiclass", scores, targets, n_classes=5).report()
    assert report["accuracy"] == pytest.approx(reference.accuracy_score(targets, predicted), abs=1e-12)
    assert report["macro_f1"] == pytest.approx(reference.f1_score(targets, predicted, average="macro"), abs=1e-12)
    recalls = reference.recall_score(targets, predicted, average=None, labels=range(4), zero_division=0)
    assert report["balanced_accuracy"] == pytest.approx(recalls.mean(), abs=1e-12)
    assert report["confusion"] == reference.confusion_matrix(targets, predicted, labels=range(5)).tolist()


def test_regression_metrics_equal_scikit_learn() -> None:
    scores, targets = rows_of("regression", 3000)
    report = merge(
        measure("regression", s, t)
        for s, t in zip(np.array_split(scores, 17), np.array_split(targets, 17), strict=True)
    ).report()
    assert report["mse"] == pytest.approx(reference.mean_squared_error(targets, scores), rel=1e-12)
    assert report["squared_loss"] == report["mse"]
    assert report["mae"] == pytest.approx(reference.mean_absolute_error(targets, scores), rel=1e-12)
    assert report["r2"] == pytest.approx(reference.r2_score(targets, scores), rel=1e-11)
    residuals = scores - targets
    error = residuals.std() / np.sqrt(3000)
    assert report["bias"] == pytest.approx(
        {"mean": residuals.mean(), "standard_error": error, "target_mean": targets.mean()}
    )
    assert "predicted_vs_true" not in report


def test_residual_histogram_holds_every_row_about_where_it_lies() -> None:
    scores, targets = rows_of("regression", 20000)
    histogram = measure_residuals(scores, targets).histogram()
    edges, counts = np.array(histogram["edges"]), np.array(histogram["counts"])
    assert counts.sum() == 20000
    assert len(counts) == len(edges) + 1
    assert np.allclose(edges, -edges[::-1])
    residual = scores - targets
    expected = np.histogram(residual, np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    assert np.abs(np.cumsum(counts) - np.cumsum(expected)).max() < 0.01 * 20000
    assert np.abs(residual).max() > 2 * edges[-1]  # one outlier does not put all other rows into one bin


def test_residuals_of_zero_and_of_any_size_have_a_histogram() -> None:
    for residual in (0.0, 1e-12, -3.0, 1e30, 1e200):
        target = np.linspace(0.0, 1.0, 50)
        report = measure("regression", target + residual, target).report()
        assert sum(report["residual_histogram"]["counts"]) == 50
        bounds = [bound for _, bound in report["residual_histogram"]["absolute_quantiles"]]
        if abs(residual) < 1e38:  # residuals are counted as float32
            assert bounds == pytest.approx([abs(residual)] * 2, rel=0.02, abs=1e-15)
        json.dumps(report, allow_nan=False)


def test_predictions_below_zero_are_counted_if_no_target_is() -> None:
    targets, scores = np.array([0.0, 1.0, 2.0]), np.array([-1.0, 0.0, -0.5])
    assert measured("regression", scores, targets).report()["negative_predictions"] == 2
    assert "negative_predictions" not in measured("regression", np.abs(scores), targets).report()
    assert "negative_predictions" not in measured("regression", scores, targets - 1.0).report()


def test_predicted_against_true_counts_rows_outside_the_range_at_its_ends() -> None:
    grid = measure_residuals(np.array([0.0, 5.0, 12.0]), np.array([-3.0, 5.0, 10.0]), (0.0, 10.0)).grid
    assert grid is not None
    assert grid[0, 0] == grid[20, 20] == grid[39, 39] == 1
    assert grid.sum() == 3


def test_metrics_that_the_rows_do_not_define_are_none() -> None:
    one_class = measure("binary", np.array([0.5, -1.0]), np.array([1.0, 1.0])).report()
    assert one_class["roc_auc"] is None
    assert one_class["average_precision"] is None
    assert one_class["balanced_accuracy"] == 0.5
    constant = measure("regression", np.array([1.0, 2.0]), np.array([3.0, 3.0])).report()
    assert constant["r2"] is None
    assert constant["mse"] == 2.5


@pytest.mark.parametrize("task", TASKS)
def test_no_rows_have_no_metrics_and_change_nothing(task: Task) -> None:
    scores, targets = rows_of(task, 100)
    none = measured(task, scores[:0], targets[:0])
    some = measured(task, scores, targets)
    assert none.rows == 0
    assert {value for value in none.report().values() if not isinstance(value, list | dict)} == {None}
    assert_same_report(merge([none, some, none]).report(), some.report())


def test_first_class_wins_a_tie_and_a_score_of_zero_is_positive() -> None:
    assert predicted_classes(np.array([[1.0, 1.0], [0.0, 2.0]])).tolist() == [0, 1]
    assert predicted_classes(np.array([0.0, -0.0, -1e-30])).tolist() == [1, 1, 0]


def test_scores_that_are_not_finite_are_a_divergence() -> None:
    with pytest.raises(DivergedError, match="smaller step size"):
        measure("regression", np.array([1.0, np.nan]), np.array([1.0, 2.0]))


def test_a_target_outside_the_classes_is_an_error() -> None:
    with pytest.raises(DataError, match="run from 0 to 7, but there are 5"):
        measure("multiclass", np.zeros((2, 5)), np.array([0.0, 7.0]), n_classes=5)


def test_measuring_leaves_its_inputs_unchanged() -> None:
    scores, targets = rows_of("binary", 100)
    scores.setflags(write=False)
    targets.setflags(write=False)
    tally = measure("binary", scores, targets)
    before = pickle.dumps(tally)
    merge([tally, tally])
    assert pickle.dumps(tally) == before


@pytest.mark.parametrize("counts", [(30, 70), (70, 30), (50, 50)])
def test_constant_scores_give_the_majority_rate(counts: tuple[int, int]) -> None:
    schema = Schema(("a",), "y", "binary", labels=("no", "yes"), class_counts=counts)
    targets = np.repeat([-1.0, 1.0], counts)
    report = measure("binary", constant_scores(schema, 100), targets).report()
    assert report["accuracy"] == max(counts) / 100
    assert report["roc_auc"] == 0.5


def test_constant_scores_of_several_classes_and_of_regression() -> None:
    classes = Schema(("a",), "y", "multiclass", labels=(1, 2, 3), class_counts=(2, 5, 5))
    assert predicted_classes(constant_scores(classes, 4)).tolist() == [1, 1, 1, 1]
    statistics = ColumnStatistics(3, 7.5, 1.0, 6.0, 9.0)
    regression = Schema(("a",), "y", "regression", target_statistics=statistics)
    assert constant_scores(regression, 2).tolist() == [7.5, 7.5]
    with pytest.raises(DataError, match="class counts"):
        constant_scores(Schema(("a",), "y", "binary"), 1)
