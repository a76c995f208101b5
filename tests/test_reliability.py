"""Laws of reliability: every row is in one bin, bins say what is true of their rows, however the rows were cut."""

from __future__ import annotations

import json

import numpy as np
import pytest

from okl.metrics import measure, merge
from okl.reliability import LEAST_ROWS, MOST_BINS


def scored(rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and targets that are positive as often as the logistic link says."""
    rng = np.random.default_rng(3)
    scores = 2.0 * rng.standard_normal(rows)
    return scores, np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-scores)), 1.0, -1.0)


def test_bins_hold_equally_many_rows_and_say_how_many_are_positive() -> None:
    scores, targets = scored()
    told = measure("binary", scores, targets).report()["reliability"]
    assert told["of"] == "score"
    assert len(told["bins"]) == MOST_BINS
    assert sum(one["rows"] for one in told["bins"]) == 4000
    kept = scores.astype(np.float32).astype(np.float64)
    for one in told["bins"]:
        inside = (kept >= one["lowest"]) & (kept <= one["highest"])
        assert one["rows"] == inside.sum() == pytest.approx(4000 / MOST_BINS, abs=1)
        assert one["hits"] == (targets[inside] > 0).sum()
        assert one["mean"] == pytest.approx(kept[inside].mean())
        assert one["probability"] == pytest.approx((1.0 / (1.0 + np.exp(-kept[inside]))).mean())
        # that the scores are calibrated is seen
        assert abs(one["hits"] / one["rows"] - one["probability"]) < 0.09


def test_the_lead_of_the_best_class_is_counted_with_whether_it_is_right() -> None:
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


def test_cuts_change_nothing_and_equal_scores_stay_together() -> None:
    scores, targets = scored(1000)
    whole = measure("binary", scores, targets)
    parts = merge([measure("binary", scores[a:b], targets[a:b]) for a, b in ((0, 10), (10, 600), (600, 1000))])
    assert json.dumps(parts.report()) == json.dumps(whole.report())
    tied = measure("binary", np.repeat([-1.0, 2.0], 500), targets).report()["reliability"]["bins"]
    assert [(one["lowest"], one["highest"], one["rows"]) for one in tied] == [(-1.0, -1.0, 500), (2.0, 2.0, 500)]


@pytest.mark.parametrize("rows", [0, 1, LEAST_ROWS, 2 * LEAST_ROWS])
def test_few_rows_have_few_bins(rows: int) -> None:
    scores, targets = scored(100)
    told = measure("binary", scores[:rows], targets[:rows]).report()["reliability"]
    assert [one["rows"] for one in told["bins"]] == [min(rows, LEAST_ROWS)] * -(-rows // LEAST_ROWS)
