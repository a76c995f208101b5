from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.counting import BASELINE_MISTAKES, MISTAKES, ROWS, SQUARED_ERROR, UPDATES
from okl.compiled.hedge import GAP, HIGHEST, LOWEST, Hedge, mixability_gap, weigh
from okl.compiled.mixing import Counted, mix_rows, new_memo
from okl.types import Task
from tests.naive import hedge as naive

Doubles = NDArray[np.float64]
CODES: dict[Task, int] = {"binary": 0, "multiclass": 2, "regression": 3}
N_ROWS, N_EXPERTS, N_CLASSES = 400, 5, 4


def make_words(task: Task) -> tuple[Doubles, Doubles]:
    """Experts of different skill, the third one best; and the targets."""
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


def mix(words: Doubles, targets: Doubles, task: Task, class_weights: Doubles) -> tuple[Counted, Hedge]:
    n_experts = words.shape[1]
    counted = Counted(np.zeros(5, np.int64), np.zeros(3), np.zeros(n_labels(task), np.int64))
    hedge = Hedge(np.zeros(n_experts), np.zeros(n_experts), np.zeros(3))
    stepped = (np.arange(len(targets)) % 2).astype(np.uint8)
    memo = new_memo(n_experts, n_labels(task))
    for part in (slice(0, 64), slice(64, 72), slice(72, None)):
        mix_rows(
            counted,
            hedge,
            memo,
            np.ascontiguousarray(words[part]),
            stepped[part],
            targets[part],
            class_weights,
            CODES[task],
        )
    return counted, hedge


def class_weights_of(task: Task) -> Doubles:
    return np.ones(1) if task == "regression" else np.linspace(0.5, 1.5, n_labels(task))


@pytest.mark.parametrize("task", CODES)
def test_mixture_matches_naive(task: Task) -> None:
    words, targets = make_words(task)
    weights = class_weights_of(task)
    counted, hedge = mix(words, targets, task, weights)
    predictions, expected = naive.mixed(words, targets, task, weights)
    np.testing.assert_allclose(hedge.losses, expected.losses, atol=1e-9)
    np.testing.assert_array_equal(hedge.recent, hedge.losses)
    assert hedge.numbers[GAP] == pytest.approx(expected.gap)
    assert expected.gap > 1
    assert (counted.counts[ROWS], counted.counts[UPDATES]) == (N_ROWS, N_ROWS // 2)
    if task == "regression":
        assert counted.sums[SQUARED_ERROR] == pytest.approx(np.sum((predictions - targets) ** 2))
        assert (hedge.numbers[LOWEST], hedge.numbers[HIGHEST]) == (targets.min(), targets.max())
    else:
        assert counted.counts[MISTAKES] == np.sum(predictions != targets)
        assert 0 < counted.counts[MISTAKES] < counted.counts[BASELINE_MISTAKES]
    p = np.empty(N_EXPERTS)
    weigh(p, hedge.losses, np.log(N_EXPERTS) / hedge.numbers[GAP])
    np.testing.assert_allclose(p, expected.weights, atol=1e-9)
    assert np.argmax(p) == 2
    assert p[2] > 0.9


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_regret_is_within_the_bound_of_adahedge(task: Task) -> None:
    words, targets = make_words(task)
    counted, hedge = mix(words, targets, task, np.ones(n_labels(task)))
    if task == "regression":
        lost, span = counted.sums[SQUARED_ERROR], float(np.ptp(targets)) ** 2
    else:
        # a vote errs at most twice as often as the mean of the experts
        lost, span = 0.5 * counted.counts[MISTAKES], 1.0
    best = hedge.losses.min()
    # theorem 8 of the paper: L* of losses in [0, span], T rows, K experts
    root = np.sqrt(best * (span * N_ROWS - best) / N_ROWS * np.log(N_EXPERTS))
    assert lost - best <= 2 * root + span * (16 / 3 * np.log(N_EXPERTS) + 2)
    assert lost < hedge.losses.mean()


@pytest.mark.parametrize("task", CODES)
def test_an_expert_without_a_word_ends_and_spoils_nothing(task: Task) -> None:
    words, targets = make_words(task)
    weights = np.ones(n_labels(task))
    silent = words.copy()
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
    usual, _ = mix(words, targets, task, weights)
    index: Any = SQUARED_ERROR if task == "regression" else MISTAKES
    figures = [(run.sums if task == "regression" else run.counts)[index] for run in (counted, usual)]
    assert figures[0] < 1.2 * figures[1]


def test_huge_words_are_clipped_to_the_targets_seen() -> None:
    words, targets = make_words("regression")
    words[:, 0] = 1e300
    counted, hedge = mix(words, targets, "regression", np.ones(1))
    assert hedge.losses[0] <= N_ROWS * np.ptp(targets) ** 2
    assert counted.sums[SQUARED_ERROR] < np.sum((targets - targets.mean()) ** 2)


def test_gap_is_zero_where_all_lose_the_same() -> None:
    p = np.array([0.2, 0.8])
    assert mixability_gap(p, np.array([0.7, 0.7]), 2.0) == 0
    assert mixability_gap(p, np.array([0.0, 1.0]), np.inf) == pytest.approx(0.8)
    assert 0 < mixability_gap(p, np.array([0.0, 1.0]), 2.0) < 0.8
