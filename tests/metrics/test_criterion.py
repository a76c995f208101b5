"""Criteria, calibrated probabilities and paired tests, against scikit-learn, definitions and other minimisers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.metrics import average_precision_score, balanced_accuracy_score, log_loss, roc_auc_score

from okl.foundation.errors import ConfigError
from okl.foundation.types import Criterion, Optimise, Task
from okl.metrics.calibration import fit_calibration, log_losses, probabilities_of
from okl.metrics.criterion import RARE, area_placements, criterion_error, criterion_of, scores_test, standard_error
from okl.metrics.definitions import measure, merge

Doubles = NDArray[np.float64]
RANDOM = np.random.default_rng(11)


def ranked(n_rows: int = 700, skill: float = 1.0, share: float = 0.1) -> tuple[Doubles, NDArray[np.int64]]:
    """Return scores with ties, and classes."""
    classes = (RANDOM.random(n_rows) < share).astype(np.int64)
    scores: Doubles = np.round(RANDOM.normal(size=n_rows) + skill * classes, 1).astype(np.float64)
    assert len(np.unique(scores)) < n_rows
    assert 0 < classes.sum() < n_rows / 2
    return scores, classes


@pytest.mark.parametrize("criterion", ["auc", "average-precision", "balanced-accuracy", "accuracy", "log-loss"])
def test_errors_are_those_of_scikit_learn(criterion: Criterion) -> None:
    scores, classes = ranked()
    predicted = (scores >= 0.0).astype(int)
    expected = {
        "auc": lambda: 1.0 - roc_auc_score(classes, scores),
        "average-precision": lambda: 1.0 - average_precision_score(classes, scores),
        "balanced-accuracy": lambda: 1.0 - balanced_accuracy_score(classes, predicted),
        "accuracy": lambda: (predicted != classes).mean(),
        "log-loss": lambda: log_loss(classes, probabilities_of(fit_calibration(scores, classes).apply(scores))),
    }[criterion]()
    assert criterion_error(criterion, scores, classes) == pytest.approx(expected)


def test_several_classes_have_the_losses_of_softmax() -> None:
    logits, classes = RANDOM.normal(size=(300, 4)) * 3.0, RANDOM.integers(0, 4, 300)
    probabilities = probabilities_of(logits)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert log_losses(logits, classes).mean() == pytest.approx(log_loss(classes, probabilities, labels=range(4)))
    far = np.array([[800.0, -800.0], [0.0, 900.0]])
    assert np.isfinite(log_losses(far, np.array([1, 1]))).all()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_calibration_has_the_least_penalised_loss(n_classes: int) -> None:
    classes = RANDOM.integers(0, n_classes, 400)
    if n_classes == 2:
        scores = RANDOM.normal(size=400) + classes
        targets = np.where(classes > 0, (classes.sum() + 1) / (classes.sum() + 2), 1 / ((1 - classes).sum() + 2))

        def loss(at: Doubles) -> float:
            logits = at[0] * scores + at[1]
            return float((np.logaddexp(0.0, logits) - targets * logits).sum())
    else:
        scores = RANDOM.normal(size=(400, 4)) + np.eye(4)[classes]

        def loss(at: Doubles) -> float:
            return float(log_losses(at[0] * scores + at[1:], classes).sum() + 0.5 * at[1:] @ at[1:])

    found = fit_calibration(scores, classes)
    best = minimize(loss, np.zeros(1 + len(found.offsets)), tol=1e-9)
    assert loss(np.array([found.slope, *found.offsets])) <= best.fun * (1.0 + 1e-6)
    assert found.slope > 0.3


def test_scores_in_reverse_order_are_calibrated_to_the_class_shares() -> None:
    scores, classes = ranked()
    found = fit_calibration(-scores, classes)
    assert found.slope > 0.0
    probabilities = probabilities_of(found.apply(-scores))[:, 1]
    np.testing.assert_allclose(probabilities, classes.mean(), rtol=0.05)


def test_metrics_of_probabilities_merge_and_thresholds_are_counts() -> None:
    scores, classes = ranked()
    logits = fit_calibration(scores, classes).apply(scores)
    signs = 2.0 * classes - 1.0
    whole = measure("binary", scores, signs, logits=logits).report()
    cut = [
        measure("binary", scores[part], signs[part], logits=logits[part]) for part in (slice(0, 90), slice(90, None))
    ]
    parts = merge(cut).report()
    assert whole["log_loss"] == pytest.approx(log_losses(logits, classes).mean())
    assert parts["log_loss"] == pytest.approx(whole["log_loss"])
    assert whole["thresholds"] == parts["thresholds"]
    assert (whole["thresholds"]["rows"], whole["thresholds"]["positive"]) == (len(classes), classes.sum())
    for threshold, rows, hits in whole["thresholds"]["points"]:
        above = logits.astype(np.float32) >= threshold
        assert (rows, hits) == (above.sum(), classes[above].sum())
    assert whole["reliability"]["of"] == "log-odds"
    assert "log_loss" not in measure("binary", scores, signs).report()


def test_placements_average_to_the_area_and_its_error_is_delongs() -> None:
    scores, classes = ranked(120)
    positive = classes > 0
    positive_placements, negative_placements = area_placements(scores, positive)
    wins = (scores[positive][:, None] > scores[~positive]) + 0.5 * (scores[positive][:, None] == scores[~positive])
    np.testing.assert_allclose(positive_placements, wins.mean(axis=1))
    np.testing.assert_allclose(negative_placements, wins.mean(axis=0))
    delong = np.sqrt(
        positive_placements.var(ddof=1) / len(positive_placements)
        + negative_placements.var(ddof=1) / len(negative_placements)
    )
    found = standard_error("auc", 1.0 - positive_placements.mean(), np.bincount(classes).tolist())
    assert found == pytest.approx(delong, rel=0.3)


@pytest.mark.parametrize("criterion", ["auc", "average-precision", "log-loss", "balanced-accuracy", "accuracy"])
def test_paired_tests_find_a_better_predictor_and_none_among_equals(criterion: Criterion) -> None:
    scores, classes = ranked(900, skill=2.0, share=0.3)
    worse = scores - 1.0 + RANDOM.normal(size=len(scores)) * 3.0
    found = scores_test(criterion, worse, scores - 1.0, classes)
    assert found.better < 0.001
    assert found.worse > 0.999
    mirrored = scores_test(criterion, scores - 1.0, worse, classes)
    assert mirrored.worse == pytest.approx(found.better, abs=1e-6)
    same = scores_test(criterion, scores, scores, classes)
    assert (same.better, same.worse) == (1.0, 1.0)


def test_paired_tests_keep_their_level() -> None:
    """At level 0.1, about one in ten of 200 pairs of equally good predictors is reported as better."""
    found: dict[Criterion, list[float]] = {"auc": [], "log-loss": []}
    for _ in range(200):
        scores, classes = ranked(200, share=0.3)
        one, other = (scores + RANDOM.normal(size=len(scores)) for _ in range(2))
        for criterion, p_values in found.items():
            p_values.append(scores_test(criterion, one, other, classes).better)
    for p_values in found.values():
        assert 0.03 < np.mean(np.array(p_values) < 0.1) < 0.18


@pytest.mark.parametrize(
    ("optimise", "task", "counts", "expected"),
    [
        ("auto", "regression", [], "squared-error"),
        ("auto", "binary", [980, 20], "log-loss"),
        ("auto", "binary", [60, 40], "accuracy"),
        ("auto", "multiclass", [40, 40, 1], "accuracy"),
        ("auto", "multiclass", [95, 3, 2], "log-loss"),
        ("auc", "binary", [60, 40], "auc"),
    ],
)
def test_the_criterion_follows_the_share_of_the_rare_classes(
    optimise: Optimise, task: Task, counts: list[int], expected: Criterion
) -> None:
    assert criterion_of(optimise, task, counts) == expected
    assert RARE == 0.2


@pytest.mark.parametrize(
    ("optimise", "task", "message"),
    [
        ("auc", "regression", "is for classification, but 'price' makes this a regression"),
        ("auc", "multiclass", "is for two classes, but 'price' has 3. Use log-loss"),
    ],
)
def test_criteria_that_do_not_fit_the_task_are_refused(optimise: Optimise, task: Task, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        criterion_of(optimise, task, [3, 2, 1], "price")


@pytest.mark.parametrize("unit", [1e-300, 1e-9, 1e-4, 1e6, 1e100])
def test_calibration_does_not_depend_on_the_unit_of_scores(unit: float) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=600)
    classes = (scores + 0.5 * rng.normal(size=600) > 0).astype(np.int64)
    expected = log_losses(fit_calibration(scores, classes).apply(scores), classes).mean()
    found = log_losses(fit_calibration(scores * unit, classes).apply(scores * unit), classes).mean()
    assert found == pytest.approx(expected, rel=1e-6)
    assert found < 0.35, "far from ln 2, what an unknown class costs"


def test_scores_of_classes_between_others_are_mixed() -> None:
    """Least squares cannot separate classes between two others, but the scores of the outer classes can."""
    rng = np.random.default_rng(5)
    position = rng.uniform(-1.0, 1.0, size=3000)
    classes = np.digitize(position, [-0.6, -0.2, 0.2, 0.6])
    scores = np.column_stack([-position, *np.zeros((3, 3000)), position]) + 0.05 * rng.normal(size=(3000, 5))
    plain, mixed = (fit_calibration(scores[:2000], classes[:2000], mixes=mixes) for mixes in (False, True))
    right = [(one.apply(scores[2000:]).argmax(axis=1) == classes[2000:]).mean() for one in (plain, mixed)]
    assert not plain.mixing
    assert right[0] < 0.75
    assert right[1] > 0.9
    losses = [log_losses(one.apply(scores[2000:]), classes[2000:]).mean() for one in (plain, mixed)]
    assert losses[1] < 0.5 * losses[0]
    # weights of the scores become weights of the logits
    weights = rng.normal(size=(5, 4))
    rows = rng.normal(size=(6, 4))
    np.testing.assert_allclose(rows @ mixed.of_weights(weights).T, mixed.scaled(rows @ weights.T), atol=1e-12)
    # a row by itself has the same bits
    np.testing.assert_array_equal(mixed.apply(scores[7:8]), mixed.apply(scores)[7:8])


def test_scores_are_not_mixed_where_mixing_does_not_improve() -> None:
    rng = np.random.default_rng(6)
    classes = rng.integers(0, 4, size=2000)
    scores = 0.5 * rng.normal(size=(2000, 4)) + np.eye(4)[classes]
    assert fit_calibration(scores, classes, mixes=True) == fit_calibration(scores, classes)
    few = scores[:150], classes[:150]
    assert fit_calibration(*few, mixes=True) == fit_calibration(*few), "too few rows for so many weights"


def test_mixed_scores_have_the_least_penalised_loss() -> None:
    rng = np.random.default_rng(7)
    position = rng.normal(size=1200)
    classes = np.digitize(position, [-0.5, 0.5])
    scores = np.column_stack([-position, np.zeros(1200), position]) + 0.3 * rng.normal(size=(1200, 3))
    unit = scores.std()

    def loss(at: NDArray[np.float64]) -> float:
        logits = scores @ (np.eye(3) * at[0] + at[4:].reshape(3, 3)) + at[1:4]
        return float(log_losses(logits, classes).sum() + 0.5 * at[1:4] @ at[1:4] + 0.5 * unit**2 * at[4:] @ at[4:] / 16)

    found = fit_calibration(scores, classes, mixes=True)
    best = minimize(loss, np.concatenate([np.ones(1), np.zeros(12)]), tol=1e-9)
    at = np.concatenate([[found.slope], found.offsets, np.ravel(found.mixing)])
    assert loss(at) <= best.fun * (1.0 + 1e-4)
