from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.counting import UPDATES
from okl.compiled.gradients import LOSS, sum_block
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
