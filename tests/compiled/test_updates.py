from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.blocks import Block
from okl.compiled.counting import BASELINE_MISTAKES, MISTAKES, SAMPLED, UPDATES
from okl.compiled.steplosses import THRESHOLDED_HALF_SQUARED, best_wrong, loss_value, slope
from okl.compiled.updates import add_scaled, learn_block
from okl.types import Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE, assert_same, fresh_learnt, make_case
from tests.naive import updates as naive
from tests.naive.drivers import mapped

CODES = [0, 1, 2, 3]


@pytest.mark.parametrize("code", [0, 1, 3])
def test_slopes_and_values_match_naive(code: int) -> None:
    for f in [-800.0, -3.0, -1.05, -1.0, -0.2, 0.0, 0.3, 1.0, 1.1, 1.2, 800.0]:
        for y in [-1.0, 1.0]:
            assert slope(code, 0.1, f, y) == pytest.approx(naive.slope(code, 0.1, f, y), abs=1e-14)
            assert loss_value(code, 0.1, f, y) == pytest.approx(naive.loss_value(code, 0.1, f, y), abs=1e-14)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_best_wrong_class_matches_naive_and_is_the_first_on_a_tie(precision: Precision) -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        scores = rng.integers(-2, 3, size=5).astype(precision)
        true = int(rng.integers(5))
        assert best_wrong(scores, true) == naive.best_wrong(scores, true)
    assert best_wrong(np.zeros(3, dtype=precision), 0) == 1
    assert best_wrong(np.zeros(3, dtype=precision), 2) == 0


@pytest.mark.parametrize("precision", PRECISIONS)
def test_add_scaled_matches_naive(precision: Precision) -> None:
    w, z = np.random.default_rng(0).standard_normal((2, 77)).astype(precision)
    expected = w.copy()
    add_scaled(w, z, w.dtype.type(0.37))
    naive.add_scaled(expected, z, 0.37)
    np.testing.assert_allclose(w, expected, atol=TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", CODES)
def test_steps_match_naive(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    block = mapped(case.inputs, case.waves)
    learnt, expected = fresh_learnt(case), fresh_learnt(case)
    learn_block(learnt, block, case.targets, case.rule)
    naive.learn_block(expected, block, case.targets, case.rule)
    assert_same(learnt, expected, TOLERANCE[precision])
    assert 0 < expected.counts[UPDATES] <= len(case.inputs)
    samples = len(case.inputs) // 16
    assert expected.counts[SAMPLED] == samples * (samples + 1) // 2
    if code != 3:
        assert 0 < expected.counts[MISTAKES] < expected.counts[BASELINE_MISTAKES] < len(case.inputs)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", CODES)
def test_features_in_one_part_give_the_steps_of_two(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    block = mapped(case.inputs, case.waves)
    empty = np.empty((len(case.inputs), 0), dtype=precision)
    joined = Block(np.concatenate([block.left, block.right], axis=1), empty)
    learnt, expected = fresh_learnt(case), fresh_learnt(case)
    learn_block(learnt, joined, case.targets, case.rule)
    learn_block(expected, block, case.targets, case.rule)
    assert_same(learnt, expected, TOLERANCE[precision])


@pytest.mark.parametrize("code", CODES)
def test_no_weights_are_sampled_without_average(code: int) -> None:
    case = make_case(code, "float32")
    learnt = fresh_learnt(case)
    learn_block(learnt, mapped(case.inputs, case.waves), case.targets, case.rule._replace(sample_every=0))
    assert learnt.counts[SAMPLED] == 0
    assert not learnt.total.any()
    assert learnt.weights.any()


def test_a_residual_at_the_threshold_costs_nothing_and_moves_nothing() -> None:
    for residual, cost, push in ((0.5, 0.0, 0.0), (-0.5, 0.0, 0.0), (0.75, 0.28125, 0.75), (-0.75, 0.28125, -0.75)):
        assert loss_value(THRESHOLDED_HALF_SQUARED, 0.5, 1.0 + residual, 1.0) == cost
        assert slope(THRESHOLDED_HALF_SQUARED, 0.5, 1.0 + residual, 1.0) == push
