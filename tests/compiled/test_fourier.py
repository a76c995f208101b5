from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.fourier import dot, fourier_scores, fourier_transform, map_block, score_block
from okl.types import Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE, buffer, make_case, some_weights
from tests.naive import fourier as naive


@pytest.mark.parametrize("precision", PRECISIONS)
def test_map_block_matches_naive(precision: Precision) -> None:
    case = make_case(0, precision)
    block, expected = buffer(len(case.inputs), case), buffer(len(case.inputs), case)
    map_block(block, case.inputs, case.waves)
    naive.map_block(expected, case.inputs, case.waves)
    np.testing.assert_allclose(block.left, expected.left, atol=TOLERANCE[precision])
    np.testing.assert_allclose(block.right, expected.right, atol=TOLERANCE[precision])
    assert np.std(expected.left) > 0.05


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("length", [0, 1, 15, 64, 100, 801])
def test_dot_matches_naive(precision: Precision, length: int) -> None:
    left, right = np.random.default_rng(length).standard_normal((2, length)).astype(precision)
    np.testing.assert_allclose(dot(left, right), naive.dot(left, right), atol=TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", [0, 2])
def test_score_block_matches_naive(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    block, weights = buffer(len(case.inputs), case), some_weights(case)
    map_block(block, case.inputs, case.waves)
    scores = np.empty((len(case.inputs), len(weights)), dtype=precision)
    expected = np.empty_like(scores)
    score_block(scores, block, weights)
    naive.score_block(expected, block, weights)
    np.testing.assert_allclose(scores, expected, atol=10 * TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_transform_matches_naive_and_writes_its_own_blocks_only(precision: Precision) -> None:
    case = make_case(0, precision)
    shape = (len(case.inputs), 2 * case.waves.n_frequencies)
    features, expected = np.zeros(shape, dtype=precision), np.zeros(shape, dtype=precision)
    fourier_transform(features, buffer(16, case), case.inputs, case.waves, 1, 2)
    naive.fourier_transform(expected, buffer(16, case), case.inputs, case.waves, 1, 2)
    np.testing.assert_allclose(features, expected, atol=TOLERANCE[precision])
    assert not features[:16].any()
    assert features[16:32].all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_scores_match_naive(precision: Precision) -> None:
    case = make_case(2, precision)
    weights = some_weights(case)
    scores = np.zeros((len(case.inputs), len(weights)), dtype=precision)
    expected = np.zeros_like(scores)
    for thread in range(3):
        fourier_scores(scores, buffer(16, case), case.inputs, case.waves, weights, thread, 3)
        naive.fourier_scores(expected, buffer(16, case), case.inputs, case.waves, weights, thread, 3)
    np.testing.assert_allclose(scores, expected, atol=10 * TOLERANCE[precision])
    assert np.std(expected) > 0.1
