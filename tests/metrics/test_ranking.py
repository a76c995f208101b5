"""Counts by sortable key keep the order, are exact below the limit, and do not depend on how rows are split."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from okl.metrics.calibration import LEAST_ROWS, MOST_BINS
from okl.metrics.definitions import measure, merge
from okl.metrics.ranking import (
    KeyedCounts,
    average_precision,
    confusion_from,
    count_values,
    keys_of,
    merge_counts,
    roc_auc,
    threshold_for,
    values_of,
)

# Counts by sortable key keep the order, are exact below the limit, and do not depend on how rows are split.


def roc_auc_bound(ranking: KeyedCounts) -> float:
    """Return the largest error of `roc_auc` with dropped bits: half the share of pairs with equal keys."""
    negative, positive = ranking.counts.astype(np.float64).T
    return float(0.5 * np.sum(negative * positive) / (negative.sum() * positive.sum()))


def spread_scores(rows: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return scores of both signs and many magnitudes, and which rows are positive."""
    rng = np.random.default_rng(seed)
    positive = (rng.random(rows) < 0.3).astype(np.int64)
    scores = (rng.normal(size=rows) + 0.7 * positive) * np.exp2(rng.integers(-8, 8, rows))
    return scores.astype(np.float32), positive


def coarse(scores: NDArray[np.float32], positive: NDArray[np.int64], most_keys: int) -> KeyedCounts:
    return merge_counts([count_values(scores, positive, 2)], most_keys)


def test_keys_sort_like_the_values_and_convert_back() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=1000) * 10.0 ** rng.integers(-30, 30, 1000), [0.0, -0.0, 1e-44, -1e-44]])
    values = np.unique(values.astype(np.float32))
    keys = keys_of(values)
    assert (np.diff(keys.astype(np.int64)) > 0).all()
    assert (values_of(keys) == values).all()


def test_zeros_of_both_signs_tie_and_huge_values_do_not_wrap() -> None:
    assert keys_of(np.array([0.0]))[0] == keys_of(np.array([-0.0]))[0]
    assert keys_of(np.array([-1e300, -1.0, 1.0, 1e300])).argsort().tolist() == [0, 1, 2, 3]
    assert np.isfinite(values_of(np.array([0, 2**32 - 1]))).all()


def test_counts_stay_exact_below_the_limit() -> None:
    scores, positive = spread_scores(3000)
    counts = coarse(scores, positive, most_keys=3000)
    assert counts.dropped_bits == 0
    assert roc_auc(counts) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)


def test_coarsened_area_is_within_its_bound_of_the_exact_one() -> None:
    scores, positive = spread_scores(20000)
    exact = roc_auc_score(positive, scores)
    for most_keys in (4096, 512, 64):
        counts = coarse(scores, positive, most_keys)
        area = roc_auc(counts)
        assert area is not None
        assert most_keys / 2 <= len(counts.keys) <= most_keys
        assert abs(area - exact) <= roc_auc_bound(counts) + 1e-12
        assert 0 < roc_auc_bound(counts) < 8 / most_keys
        coarsened = values_of(counts.keys)[np.searchsorted(counts.keys, keys_of(scores), side="right") - 1]
        # the image of a negative value is inverted: a bin may begin one step of the resolution below its values
        assert (np.abs(coarsened - scores) <= 2.0 ** (counts.dropped_bits - 23) * np.abs(scores) * 1.0001).all()


def test_coarsening_does_not_depend_on_the_cut_or_on_the_order_of_merging() -> None:
    scores, positive = spread_scores(6000)
    whole = coarse(scores, positive, 700)
    parts = [coarse(s, p, 700) for s, p in zip(np.split(scores, 12), np.split(positive, 12), strict=True)]
    large = [coarse(s, p, 700) for s, p in zip(np.split(scores, [5000]), np.split(positive, [5000]), strict=True)]
    assert {part.dropped_bits for part in large + parts} > {0}
    assert large[0].dropped_bits > 0
    nested = merge_counts([merge_counts(parts[7:], 700), merge_counts(parts[:7], 700)], 700)
    for other in (merge_counts(parts, 700), merge_counts(parts[::-1], 700), merge_counts(large[::-1], 700), nested):
        assert other.dropped_bits == whole.dropped_bits > 0
        assert (other.keys == whole.keys).all()
        assert (other.counts == whole.counts).all()


def test_rows_of_one_class_have_no_ranking() -> None:
    counts = count_values(np.array([1.0, 2.0]), np.array([1, 1]), 2)
    assert roc_auc(counts) is average_precision(counts) is None


# Reliability: every row is in one bin, and bins describe their rows correctly, however the rows are split.


def scores_and_targets(rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Return scores, and targets with the probabilities of the logistic link."""
    rng = np.random.default_rng(3)
    scores = 2.0 * rng.standard_normal(rows)
    return scores, np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-scores)), 1.0, -1.0)


def test_bins_hold_equally_many_rows_and_say_how_many_are_positive() -> None:
    scores, targets = scores_and_targets()
    reliability = measure("binary", scores, targets).report()["reliability"]
    assert reliability["of"] == "score"
    assert len(reliability["bins"]) == MOST_BINS
    assert sum(one["rows"] for one in reliability["bins"]) == 4000
    kept = scores.astype(np.float32).astype(np.float64)
    for one in reliability["bins"]:
        inside = (kept >= one["lowest"]) & (kept <= one["highest"])
        assert one["rows"] == inside.sum() == pytest.approx(4000 / MOST_BINS, abs=1)
        assert one["hits"] == (targets[inside] > 0).sum()
        assert one["mean"] == pytest.approx(kept[inside].mean())
        assert one["probability"] == pytest.approx((1.0 / (1.0 + np.exp(-kept[inside]))).mean())
        # the bins show that the scores are calibrated
        assert abs(one["hits"] / one["rows"] - one["probability"]) < 0.09


def test_bins_of_the_lead_of_the_best_class_count_correct_predictions() -> None:
    rng = np.random.default_rng(4)
    targets = rng.integers(0, 4, 3000)
    scores = rng.standard_normal((3000, 4)) + 1.2 * np.eye(4)[targets]
    report = measure("multiclass", scores, targets.astype(np.float64), 4).report()
    bins = report["reliability"]["bins"]
    assert report["reliability"]["of"] == "lead"
    assert sum(one["hits"] for one in bins) == round(3000 * report["accuracy"])
    ordered = np.sort(scores, axis=1)
    leads = ordered[:, -1] - ordered[:, -2]
    for one in bins:
        # a lead was rounded down by less than a sixty-fourth
        surely = (leads >= one["lowest"]) & (leads <= one["highest"])
        perhaps = (leads >= one["lowest"]) & (leads <= one["highest"] * 65 / 64)
        assert surely.sum() <= one["rows"] <= perhaps.sum()
    shares = [one["hits"] / one["rows"] for one in bins]
    assert shares[-1] > 0.9 > 0.6 > shares[0]


def test_reliability_does_not_depend_on_cuts_and_equal_scores_share_a_bin() -> None:
    scores, targets = scores_and_targets(1000)
    whole = measure("binary", scores, targets)
    parts = merge([measure("binary", scores[a:b], targets[a:b]) for a, b in ((0, 10), (10, 600), (600, 1000))])
    assert json.dumps(parts.report()) == json.dumps(whole.report())
    tied = measure("binary", np.repeat([-1.0, 2.0], 500), targets).report()["reliability"]["bins"]
    assert [(one["lowest"], one["highest"], one["rows"]) for one in tied] == [(-1.0, -1.0, 500), (2.0, 2.0, 500)]


@pytest.mark.parametrize("rows", [0, 1, LEAST_ROWS, 2 * LEAST_ROWS])
def test_few_rows_have_few_bins(rows: int) -> None:
    scores, targets = scores_and_targets(100)
    reliability = measure("binary", scores[:rows], targets[:rows]).report()["reliability"]
    assert [one["rows"] for one in reliability["bins"]] == [min(rows, LEAST_ROWS)] * -(-rows // LEAST_ROWS)


@pytest.mark.parametrize("wanted", [0.01, 0.3, 0.5, 0.9, 1.0])
def test_thresholds_for_a_recall_or_precision_match_a_search_over_all(wanted: float) -> None:
    random = np.random.default_rng(3)
    scores = np.round(random.normal(size=400), 1).astype(np.float32)
    positive = (random.random(400) < 1.0 / (1.0 + np.exp(2.0 - 2.0 * scores))).astype(np.int64)
    ranking = count_values(scores, positive, 2)

    def rates(threshold: float) -> tuple[float, float, int]:
        named = scores >= threshold
        return positive[named].sum() / positive.sum(), positive[named].mean() if named.any() else 0.0, int(named.sum())

    by_recall, by_precision = threshold_for(ranking, recall=wanted), threshold_for(ranking, precision=wanted)
    all_rates = [rates(float(value)) for value in np.unique(scores)]
    assert by_recall is not None
    assert rates(by_recall)[2] == min(named for recall, _, named in all_rates if recall >= wanted)
    fitting = [named for _, precision, named in all_rates if precision >= wanted]
    assert (by_precision is None) == (not fitting)
    if by_precision is not None:
        assert rates(by_precision)[2] == max(fitting)
        named = scores >= by_precision
        counts = confusion_from(ranking, by_precision)
        assert counts.tolist() == [[int(((positive == i) & (named == j)).sum()) for j in (0, 1)] for i in (0, 1)]
    negative = count_values(scores, np.zeros(400, dtype=np.int64), 2)
    assert threshold_for(negative, recall=wanted) is None
    assert threshold_for(negative, precision=wanted) is None
