from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.counting import MISTAKES, ROWS, SQUARED_ERROR, SURROGATE, UPDATES
from okl.compiled.fixedshare import ShareRule, Shares, share_rows
from okl.compiled.mixing import Counted
from okl.types import FloatArray, Task
from tests.compiled.test_hedge import CODES, N_EXPERTS, Doubles, class_weights_of, make_words, n_labels
from tests.naive import fixedshare as naive

ETA, ALPHA = 0.5, 0.01


def share(words: Doubles, targets: Doubles, task: Task) -> tuple[Counted, Shares]:
    n_experts, n_classes = words.shape[1], n_labels(task)
    counted = Counted(np.zeros(5, np.int64), np.zeros(6), np.zeros(n_classes, np.int64))
    p: FloatArray = np.full(n_experts, 1.0 / n_experts)
    shares = Shares(p, np.zeros(n_experts), np.zeros(2), np.zeros(n_experts), np.zeros(n_classes))
    stepped = (np.arange(len(targets)) % 2).astype(np.uint8)
    rule = ShareRule(ETA, ALPHA, CODES[task], 0.0, class_weights_of(task))
    for part in (slice(0, 64), slice(64, 73), slice(73, None)):
        share_rows(counted, shares, np.ascontiguousarray(words[part]), stepped[part], targets[part], rule)
    return counted, shares


@pytest.mark.parametrize("task", CODES)
def test_fixed_share_matches_naive(task: Task) -> None:
    words, targets = make_words(task)
    counted, shares = share(words, targets, task)
    predictions, weights, total = naive.shared(words, targets, task, class_weights_of(task), ETA, ALPHA)
    np.testing.assert_allclose(shares.p, weights[-1], rtol=1e-9)
    np.testing.assert_allclose(shares.mistakes, total, rtol=1e-12)
    assert shares.p.sum() == pytest.approx(1.0)
    assert counted.counts[[ROWS, UPDATES]].tolist() == [len(targets), len(targets) // 2]
    said = np.array(predictions)
    if task == "regression":
        assert counted.sums[SQUARED_ERROR] == pytest.approx(np.square(said - targets).sum())
        return
    wrong = (np.where(said >= 0, 1.0, -1.0) if task == "binary" else said) != targets
    assert counted.counts[MISTAKES] == wrong.sum()
    assert 0 < wrong.sum() < len(targets) / 2
    if task == "binary":
        hinge = class_weights_of(task)[(targets > 0).astype(int)] * np.maximum(0.0, 1.0 - targets * said)
        assert counted.sums[SURROGATE] == pytest.approx(hinge.sum())


def test_no_weight_falls_below_what_is_shared_and_a_change_of_the_best_expert_is_followed() -> None:
    rng = np.random.default_rng(0)
    targets = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    right = rng.random((2000, 2)) < np.where(np.arange(2000) < 1000, [[0.9], [0.3]], [[0.3], [0.9]]).T
    words = np.where(right, targets[:, None], -targets[:, None])
    _, weights, _ = naive.shared(words, targets, "binary", np.ones(2), ETA, ALPHA)
    assert weights.min() >= ALPHA * (1 - weights.max())
    assert weights[990, 0] > 0.9
    assert weights[1050:, 1].mean() > 0.9
    _, shares = share(words, targets, "binary")
    assert shares.p[1] == pytest.approx(weights[-1, 1] if ETA else 0.0, abs=0.1)


def test_an_expert_whose_word_is_not_a_number_is_heard_no_more() -> None:
    words, targets = make_words("binary")
    words[100, 2] = np.nan
    counted, shares = share(words, targets, "binary")
    assert shares.p[2] == 0.0
    assert shares.mistakes[2] == np.inf
    alone, others = share(np.delete(words, 2, axis=1), targets, "binary")
    np.testing.assert_allclose(np.delete(shares.p, 2), others.p, rtol=1e-3)
    assert counted.counts[MISTAKES] <= alone.counts[MISTAKES]
    assert len(shares.p) == N_EXPERTS
