from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.counting import MISTAKES, UPDATES
from okl.compiled.gradients import LOSS, sum_block
from okl.compiled.steplosses import HINGE, LOGISTIC, MULTICLASS_HINGE
from okl.types import Precision
from tests.compiled.cases import PRECISIONS, assert_same, fresh_summed, make_case, some_weights
from tests.naive import gradients as naive
from tests.naive.drivers import mapped
from tests.naive.fourier import score_block


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_sums_match_naive_in_double_precision(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    block, weights = mapped(case.inputs, case.waves), some_weights(case)
    scores = np.empty((len(case.inputs), len(weights)), dtype=precision)
    score_block(scores, block, weights)
    summed, expected = fresh_summed(case), fresh_summed(case)
    sum_block(summed, block, scores, case.targets, case.rule)
    naive.sum_block(expected, block, scores, case.targets, case.rule)
    assert_same(summed, expected, 1e-12)
    assert expected.sums[LOSS] > 0
    assert expected.counts[UPDATES] > 10


@pytest.mark.parametrize("code", [HINGE, LOGISTIC, MULTICLASS_HINGE])
def test_scores_that_tie_are_counted_as_naive_does(code: int) -> None:
    case = make_case(code, "float64")
    block, weights = mapped(case.inputs, case.waves), some_weights(case)
    summed, expected = fresh_summed(case), fresh_summed(case)
    sum_block(summed, block, np.zeros((len(case.inputs), len(weights))), case.targets, case.rule)
    naive.sum_block(expected, block, np.zeros((len(case.inputs), len(weights))), case.targets, case.rule)
    assert_same(summed, expected, 1e-12)
    assert 0 < expected.counts[MISTAKES] < len(case.inputs)
