from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.expert_weights import (
    GAP,
    HIGHEST,
    LOWEST,
    AdaHedgeState,
    ExpertRule,
    FixedShareState,
    Mixture,
    MixtureCounters,
    ShareRule,
    mix_rows,
    mixability_gap,
    new_mixture_memory,
    share_rows,
    weigh,
)
from okl.compiled.sgd import BASELINE_MISTAKES, MISTAKES, ROWS, SQUARED_ERROR, SURROGATE, UPDATES
from okl.foundation.types import Task
from tests.naive import expert_weights as naive_weights

Doubles = NDArray[np.float64]
CODES: dict[Task, int] = {"binary": 0, "multiclass": 2, "regression": 3}
N_ROWS, N_EXPERTS, N_CLASSES = 400, 5, 4


def make_predictions(task: Task) -> tuple[Doubles, Doubles]:
    """Return predictions of experts of different quality, of which the third is best, and targets."""
    rng = np.random.default_rng(4)
    noise = rng.standard_normal((N_ROWS, N_EXPERTS)) * np.array([2.0, 1.0, 0.5, 3.0, 1.5])
    if task == "regression":
        targets = rng.random(N_ROWS) * 3 - 1
        return targets[:, None] + noise, targets
    if task == "binary":
        targets = np.where(rng.random(N_ROWS) < 0.6, 1.0, -1.0)
        return targets[:, None] + noise, targets
    targets = rng.integers(0, N_CLASSES, N_ROWS).astype(np.float64)
    return np.clip(np.rint(targets[:, None] + noise), 0, N_CLASSES - 1), targets


def n_labels(task: Task) -> int:
    return {"binary": 2, "multiclass": N_CLASSES, "regression": 1}[task]


def mix(
    predictions: Doubles, targets: Doubles, task: Task, class_weights: Doubles
) -> tuple[MixtureCounters, AdaHedgeState]:
    n_experts = predictions.shape[1]
    counted = MixtureCounters(np.zeros(5, np.int64), np.zeros(3), np.zeros(n_labels(task), np.int64))
    hedge = AdaHedgeState(np.zeros(n_experts), np.zeros(n_experts), np.zeros(3))
    stepped = (np.arange(len(targets)) % 2).astype(np.uint8)
    memo = new_mixture_memory(n_experts, n_labels(task))
    for part in (slice(0, 64), slice(64, 72), slice(72, None)):
        rule = ExpertRule(CODES[task], 0.0, class_weights)
        mixture = Mixture(counted, hedge, memo, complete=False)
        mix_rows(mixture, np.ascontiguousarray(predictions[part]), stepped[part], targets[part], rule)
    return counted, hedge


def class_weights_of(task: Task) -> Doubles:
    return np.ones(1) if task == "regression" else np.linspace(0.5, 1.5, n_labels(task))


@pytest.mark.parametrize("task", CODES)
def test_mixture_matches_naive(task: Task) -> None:
    predictions, targets = make_predictions(task)
    weights = class_weights_of(task)
    counted, hedge = mix(predictions, targets, task, weights)
    mixtures, expected = naive_weights.mixed(predictions, targets, task, weights)
    np.testing.assert_allclose(hedge.losses, expected.losses, atol=1e-9)
    np.testing.assert_array_equal(hedge.recent, hedge.losses)
    assert hedge.numbers[GAP] == pytest.approx(expected.gap)
    assert expected.gap > 1
    assert (counted.counts[ROWS], counted.counts[UPDATES]) == (N_ROWS, N_ROWS // 2)
    if task == "regression":
        assert counted.sums[SQUARED_ERROR] == pytest.approx(np.sum((mixtures - targets) ** 2))
        assert (hedge.numbers[LOWEST], hedge.numbers[HIGHEST]) == (targets.min(), targets.max())
    else:
        assert counted.counts[MISTAKES] == np.sum(mixtures != targets)
        assert 0 < counted.counts[MISTAKES] < counted.counts[BASELINE_MISTAKES]
    p = np.empty(N_EXPERTS)
    weigh(p, hedge.losses, np.log(N_EXPERTS) / hedge.numbers[GAP])
    np.testing.assert_allclose(p, expected.weights, atol=1e-9)
    assert np.argmax(p) == 2
    assert p[2] > 0.9


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_regret_is_within_the_bound_of_adahedge(task: Task) -> None:
    predictions, targets = make_predictions(task)
    counted, hedge = mix(predictions, targets, task, np.ones(n_labels(task)))
    if task == "regression":
        lost, span = counted.sums[SQUARED_ERROR], float(np.ptp(targets)) ** 2
    else:
        # a vote makes at most twice as many errors as the mean of the experts
        lost, span = 0.5 * counted.counts[MISTAKES], 1.0
    best = hedge.losses.min()
    # theorem 8 of the paper: L* of losses in [0, span], T rows, K experts
    root = np.sqrt(best * (span * N_ROWS - best) / N_ROWS * np.log(N_EXPERTS))
    assert lost - best <= 2 * root + span * (16 / 3 * np.log(N_EXPERTS) + 2)
    assert lost < hedge.losses.mean()


@pytest.mark.parametrize("task", CODES)
def test_an_expert_without_predictions_is_excluded_without_harm_to_others(task: Task) -> None:
    predictions, targets = make_predictions(task)
    weights = np.ones(n_labels(task))
    silent = predictions.copy()
    silent[100:, 3] = np.nan
    counted, hedge = mix(silent, targets, task, weights)
    assert np.isinf(hedge.losses[3])
    assert np.isfinite(np.delete(hedge.losses, 3)).all()
    assert np.isfinite(hedge.numbers).all()
    assert np.isfinite(counted.sums).all()
    p = np.empty(N_EXPERTS)
    weigh(p, hedge.losses, 1.0)
    assert p[3] == 0
    assert p.sum() == pytest.approx(1)
    usual, _ = mix(predictions, targets, task, weights)
    index: Any = SQUARED_ERROR if task == "regression" else MISTAKES
    figures = [(run.sums if task == "regression" else run.counts)[index] for run in (counted, usual)]
    assert figures[0] < 1.2 * figures[1]


def test_huge_predictions_are_clipped_to_the_range_of_past_targets() -> None:
    predictions, targets = make_predictions("regression")
    predictions[:, 0] = 1e300
    counted, hedge = mix(predictions, targets, "regression", np.ones(1))
    assert hedge.losses[0] <= N_ROWS * np.ptp(targets) ** 2
    assert counted.sums[SQUARED_ERROR] < np.sum((targets - targets.mean()) ** 2)


def test_gap_is_zero_where_all_lose_the_same() -> None:
    p = np.array([0.2, 0.8])
    assert mixability_gap(p, np.array([0.7, 0.7]), 2.0) == 0
    assert mixability_gap(p, np.array([0.0, 1.0]), np.inf) == pytest.approx(0.8)
    assert 0 < mixability_gap(p, np.array([0.0, 1.0]), 2.0) < 0.8


ETA, ALPHA = 0.5, 0.01


def share(predictions: Doubles, targets: Doubles, task: Task) -> tuple[MixtureCounters, FixedShareState]:
    n_experts, n_classes = predictions.shape[1], n_labels(task)
    counted = MixtureCounters(np.zeros(5, np.int64), np.zeros(5), np.zeros(n_classes, np.int64))
    p: Doubles = np.full(n_experts, 1.0 / n_experts)
    shares = FixedShareState(p, np.zeros(n_experts), np.zeros(2), np.zeros(n_experts), np.zeros(n_classes))
    stepped = (np.arange(len(targets)) % 2).astype(np.uint8)
    rule = ShareRule(ETA, ALPHA, CODES[task], 0.0, class_weights_of(task))
    for part in (slice(0, 64), slice(64, 73), slice(73, None)):
        share_rows(counted, shares, np.ascontiguousarray(predictions[part]), stepped[part], targets[part], rule)
    return counted, shares


@pytest.mark.parametrize("task", CODES)
def test_fixed_share_matches_naive(task: Task) -> None:
    predictions, targets = make_predictions(task)
    counted, shares = share(predictions, targets, task)
    mixtures, weights, total = naive_weights.shared(predictions, targets, task, class_weights_of(task), ETA, ALPHA)
    np.testing.assert_allclose(shares.p, weights[-1], rtol=1e-9)
    np.testing.assert_allclose(shares.mistakes, total, rtol=1e-12)
    assert shares.p.sum() == pytest.approx(1.0)
    assert counted.counts[[ROWS, UPDATES]].tolist() == [len(targets), len(targets) // 2]
    predicted = np.array(mixtures)
    if task == "regression":
        assert counted.sums[SQUARED_ERROR] == pytest.approx(np.square(predicted - targets).sum())
        return
    wrong = (np.where(predicted >= 0, 1.0, -1.0) if task == "binary" else predicted) != targets
    assert counted.counts[MISTAKES] == wrong.sum()
    assert 0 < wrong.sum() < len(targets) / 2
    if task == "binary":
        hinge = class_weights_of(task)[(targets > 0).astype(int)] * np.maximum(0.0, 1.0 - targets * predicted)
        assert counted.sums[SURROGATE] == pytest.approx(hinge.sum())


def test_weights_stay_above_the_shared_minimum_and_follow_a_change_of_the_best_expert() -> None:
    rng = np.random.default_rng(0)
    targets = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    right = rng.random((2000, 2)) < np.where(np.arange(2000) < 1000, [[0.9], [0.3]], [[0.3], [0.9]]).T
    predictions = np.where(right, targets[:, None], -targets[:, None])
    _, weights, _ = naive_weights.shared(predictions, targets, "binary", np.ones(2), ETA, ALPHA)
    assert weights.min() >= ALPHA * (1 - weights.max())
    assert weights[990, 0] > 0.9
    assert weights[1050:, 1].mean() > 0.9
    _, shares = share(predictions, targets, "binary")
    assert shares.p[1] == pytest.approx(weights[-1, 1] if ETA else 0.0, abs=0.1)


def test_an_expert_that_predicts_nan_gets_no_weight_afterwards() -> None:
    predictions, targets = make_predictions("binary")
    predictions[100, 2] = np.nan
    counted, shares = share(predictions, targets, "binary")
    assert shares.p[2] == 0.0
    assert shares.mistakes[2] == np.inf
    alone, others = share(np.delete(predictions, 2, axis=1), targets, "binary")
    np.testing.assert_allclose(np.delete(shares.p, 2), others.p, rtol=1e-3)
    assert counted.counts[MISTAKES] <= alone.counts[MISTAKES]
    assert len(shares.p) == N_EXPERTS
