"""Whether one model is better than another: tests of pairs, over folds or over the rows of a holdout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CORRECTED = "corrected resampled t-test (Nadeau & Bengio, 2003)"
MCNEMAR = "exact McNemar test"


def corrected_resampled_t(differences: Sequence[float], test_share: float) -> float:
    """Two-sided p-value of a mean difference over folds whose training rows overlap.

    t = mean / sqrt((1 / k + test_share) variance), with k - 1 degrees of freedom, k folds.

    Parameters
    ----------
    differences : of a measure, one a fold, at least two
    test_share : test rows over training rows of a fold, 1 / (k - 1) for k folds

    Source: Nadeau & Bengio, Machine Learning 52, 2003, section 3, the corrected resampled t-test; the folds of one
    cross validation take the place of random splits, as in Bouckaert & Frank, PAKDD 2004.

    >>> round(corrected_resampled_t([0.02, 0.03, 0.01, 0.02, 0.02], 0.25), 4)
    0.0135
    """
    k, mean, spread = len(differences), fmean(differences), variance(differences)
    if spread <= 1e-30:  # all folds alike: rounding is no spread
        return 1.0 if abs(mean) <= 1e-15 else 0.0
    return float(2.0 * stats.t.sf(abs(mean) / math.sqrt((1.0 / k + test_share) * spread), k - 1))


def exact_mcnemar(right: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Two-sided p-value of two classifiers being right equally often on the same rows, (rows,) each.

    Of the rows that just one of them names rightly, each of them names half: a binomial test.

    Source: McNemar, Psychometrika 12, 1947; exact as in Dietterich, Neural Computation 10, 1998, section 3.1.
    """
    mine, theirs = int((right & ~other).sum()), int((other & ~right).sum())
    return 1.0 if mine + theirs == 0 else float(stats.binomtest(mine, mine + theirs).pvalue)
