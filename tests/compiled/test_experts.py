from __future__ import annotations

import numpy as np
import pytest

from okl.compiled.blocks import Block
from okl.compiled.expertlearning import learn_team
from okl.compiled.experts import Said, Team, age_of
from okl.types import FloatArray, Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE, make_case
from tests.compiled.expert_cases import N_FREQUENCIES, ROWS, fresh, rule_of
from tests.naive import experts as naive
from tests.naive.drivers import mapped

CODES = [0, 1, 2, 3]


def averages(team: Team, rows: int) -> FloatArray:
    averaged = team.weights - team.pulls.astype(np.float64) / age_of(rows)
    return averaged[..., :N_FREQUENCIES].reshape(*averaged.shape[:2], -1)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "adagrad"])
@pytest.mark.parametrize("code", CODES)
def test_words_and_steps_of_a_team_match_naive(code: int, adaptive: bool, precision: Precision) -> None:
    case = make_case(code, precision, ROWS)
    block, cautions = mapped(case.inputs, case.waves), np.linspace(0.5, 1.0, ROWS)
    (team, said), (expected, heard) = fresh(case, adaptive), fresh(case, adaptive)
    learn_team(said, team, block, case.targets, cautions, rule_of(case), 0)
    means = naive.learn_team(heard, expected, block, case.targets, cautions, rule_of(case))
    tolerance = 20 * TOLERANCE[precision] if adaptive else TOLERANCE[precision]
    np.testing.assert_allclose(said.words, heard.words, atol=tolerance)
    np.testing.assert_array_equal(said.stepped, heard.stepped)
    np.testing.assert_allclose(team.weights, expected.weights, atol=tolerance)
    np.testing.assert_allclose(averages(team, ROWS), means, atol=tolerance)
    assert (said.words[:, 0, 0] != said.words[:, 0, 1]).any()
    assert (said.words[:, 0] != said.words[:, 1]).any()
    assert said.stepped.sum() > 0
    assert not team.weights[..., N_FREQUENCIES:].any()


@pytest.mark.parametrize("code", CODES)
def test_rows_in_parts_give_the_bits_of_all_at_once(code: int) -> None:
    case = make_case(code, "float32", ROWS)
    block, cautions = mapped(case.inputs, case.waves), np.ones(ROWS)
    (team, said), (whole, heard) = fresh(case, False), fresh(case, False)
    learn_team(heard, whole, block, case.targets, cautions, rule_of(case), 0)
    for first, last in ((0, 40), (40, ROWS)):
        part = Block(block.left[first:last], block.right[first:last])
        here = Said(said.words[first:last], said.stepped[first:last])
        learn_team(here, team, part, case.targets[first:last], cautions, rule_of(case), first)
    assert said.words.tobytes() == heard.words.tobytes()
    assert team.pulls.tobytes() == whole.pulls.tobytes()


def test_a_score_that_is_not_finite_is_no_word() -> None:
    for code in CODES:
        case = make_case(code, "float32", 10)
        team, said = fresh(case, False)
        team.weights[0] = np.inf
        learn_team(said, team, mapped(case.inputs, case.waves), case.targets, np.ones(10), rule_of(case), 5)
        assert np.isnan(said.words[0, 0]).all()
        assert np.isfinite(said.words[:, 1]).all()


def test_ages_of_a_billion_rows_fit_float32() -> None:
    ages = [np.float32(age_of(rows)) for rows in (1, 10**9)]
    assert ages[0] > np.finfo(np.float32).tiny
    assert np.isfinite(ages[1] * 1e6)
    assert age_of(20) / age_of(10) == pytest.approx(16)
