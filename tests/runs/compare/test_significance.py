"""Paired tests against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from okl.metrics.criterion import mcnemar
from okl.runs.compare import corrected_resampled_t


def test_without_overlap_it_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(0.9, 0.02, 10), rng.normal(0.88, 0.02, 10)
    plain = stats.ttest_rel(one, other).pvalue
    assert corrected_resampled_t((one - other).tolist(), 0.0) == pytest.approx(plain, rel=1e-9)
    assert corrected_resampled_t((one - other).tolist(), 1 / 9) > plain, "overlap makes folds say less"


def test_the_statistic_is_that_of_nadeau_and_bengio() -> None:
    differences = [0.02, -0.01, 0.03, 0.015, 0.02]
    mean = sum(differences) / 5
    spread = sum((one - mean) ** 2 for one in differences) / 4
    statistic = mean / math.sqrt((1 / 5 + 1 / 4) * spread)
    assert corrected_resampled_t(differences, 1 / 4) == pytest.approx(2 * stats.t.sf(statistic, 4))


def test_equal_models_do_not_differ_and_a_constant_lead_does() -> None:
    assert corrected_resampled_t([0.0] * 5, 0.25) == 1.0
    assert corrected_resampled_t([0.01] * 5, 0.25) == 0.0


def test_mcnemar_counts_rows_that_only_one_model_predicts_correctly() -> None:
    by_hand = 2 * sum(math.comb(11, k) for k in range(3)) / 2**11
    assert mcnemar(9, 2).two_sided == mcnemar(2, 9).two_sided == pytest.approx(by_hand)
    assert mcnemar(0, 0).two_sided == 1.0
