from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.sgd import (
    HINGE,
    LOGISTIC,
    MULTICLASS_HINGE,
    STEPPED_GRADIENTS,
    SURROGATE,
    THRESHOLDED_HALF_SQUARED,
    UPDATES,
    LearnerArrays,
    learn_block,
)
from okl.compiled.threads import Block
from okl.foundation.types import Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE, Case, assert_same, fresh_learnt, make_case
from tests.naive import sgd as naive_sgd
from tests.naive.constrained import mapped

RADIUS = 1.5


def in_ball(case: Case) -> LearnerArrays:
    return fresh_learnt(case)._replace(sums=np.zeros(5))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("decaying", [False, True])
@pytest.mark.parametrize("code", [HINGE, LOGISTIC, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED])
def test_steps_in_a_ball_match_naive(code: int, decaying: bool, precision: Precision) -> None:
    case = make_case(code, precision, rows=200)
    rule = case.rule._replace(radius=RADIUS, decaying=decaying)
    block = mapped(case.inputs, case.waves)
    learnt, expected = in_ball(case), in_ball(case)
    learn_block(learnt, block, case.targets, rule)
    naive_sgd.learn_block(expected, block, case.targets, rule)
    assert_same(learnt, expected, TOLERANCE[precision])
    assert 0 < expected.counts[UPDATES] <= len(case.inputs)
    assert (expected.sums[[SURROGATE, STEPPED_GRADIENTS]] > 0).all()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("radius", [0.5, RADIUS])
@pytest.mark.parametrize("code", [HINGE, MULTICLASS_HINGE])
def test_weights_never_leave_the_ball_and_reach_its_border(code: int, radius: float, precision: Precision) -> None:
    case = make_case(code, precision, rows=200)
    block = mapped(case.inputs, case.waves)
    learnt, longest = in_ball(case), 0.0
    for row in range(len(case.inputs)):
        part = Block(block.left[row : row + 1], block.right[row : row + 1])
        learn_block(learnt, part, case.targets[row : row + 1], case.rule._replace(radius=radius))
        longest = max(longest, float(np.linalg.norm(learnt.weights.astype(np.float64))))
    assert longest == pytest.approx(radius, rel=1e-6)


@pytest.mark.parametrize("code", [HINGE, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED])
def test_steps_in_a_ball_too_large_to_reach_are_plain_steps(code: int) -> None:
    case = make_case(code, "float64")
    block = mapped(case.inputs, case.waves)
    learnt, expected = in_ball(case), in_ball(case)
    learn_block(learnt, block, case.targets, case.rule._replace(radius=1e6))
    learn_block(expected, block, case.targets, case.rule)
    np.testing.assert_allclose(learnt.weights, expected.weights, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(learnt.counts, expected.counts)
    np.testing.assert_allclose(learnt.sums[:3], expected.sums[:3], rtol=0, atol=1e-12)
    assert not expected.sums[3:].any()  # plain steps are not used in regret bounds
