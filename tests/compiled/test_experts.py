from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.blocks import Block, borrowed_block
from okl.compiled.experts import (
    ExpertRule,
    Said,
    Team,
    Teams,
    age_of,
    double_angles,
    learn_team,
    learn_team_in_turns,
    learn_teams,
)
from okl.compiled.fourier import as_waves
from okl.compiled.turns import new_turns
from okl.types import FloatArray, Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE, Case, make_case, n_labels, n_outputs
from tests.naive import experts as naive
from tests.naive.drivers import mapped

CODES = [0, 1, 2, 3]
ROWS, N_FREQUENCIES, PADDED = 90, 23, 32
STEPS = np.array([0.3, 1.1])


class Fixture(NamedTuple):
    team: Team
    said: Said


def fresh(case: Case, adaptive: bool) -> Fixture:
    shape = (len(STEPS), n_outputs(case.rule.code), 2, PADDED)
    dtype = case.inputs.dtype
    squares = np.zeros(shape if adaptive else (0, 0, 0, 0), dtype)
    words = np.zeros((len(case.targets), len(STEPS), 2))
    return Fixture(
        Team(np.zeros(shape, dtype), np.zeros(shape, dtype), squares, STEPS),
        Said(words, np.zeros(len(words), dtype=np.uint8)),
    )


def rule_of(case: Case) -> ExpertRule:
    return ExpertRule(case.rule.code, case.rule.epsilon, case.rule.class_weights)


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


@pytest.mark.parametrize("precision", PRECISIONS)
def test_doubled_angles_match_naive(precision: Precision) -> None:
    angles, amplitude = np.linspace(-7, 7, 120).reshape(4, 30), np.dtype(precision).type(0.2)
    sines, cosines = ((amplitude * wave(angles)).astype(precision) for wave in (np.sin, np.cos))
    expected = sines.copy(), cosines.copy()
    double_angles(sines, cosines, amplitude)
    naive.double_angles(*expected, 0.2)
    np.testing.assert_allclose([sines, cosines], expected, atol=TOLERANCE[precision] / 100)
    np.testing.assert_allclose(sines, 0.2 * np.sin(2 * angles), atol=TOLERANCE[precision] / 100)


def make_teams(case: Case, pairs: list[tuple[int, int]]) -> Teams:
    n_inputs = case.inputs.shape[1]
    frequencies = np.random.default_rng(8).standard_normal((2, n_inputs, N_FREQUENCIES)).astype(case.inputs.dtype)
    waves = [as_waves(part) for part in frequencies]
    shape = (len(pairs), len(STEPS), n_outputs(case.rule.code), 2, PADDED)
    dtype = case.inputs.dtype
    base, octave = np.array(pairs, dtype=np.int64).T.copy()
    return Teams(
        np.zeros(shape, dtype),
        np.zeros(shape, dtype),
        np.zeros((len(pairs), 0, 0, 0, 0), dtype),
        np.tile(STEPS, (len(pairs), 1)),
        base,
        octave,
        np.stack([part.panels for part in waves]),
        waves[0].amplitude,
    )


def learn_some(case: Case, teams: Teams, first: int, last: int) -> tuple[FloatArray, NDArray[np.uint8]]:
    words = np.zeros((len(teams.base), ROWS, len(STEPS), 2))
    stepped = np.zeros((len(teams.base), ROWS), dtype=np.uint8)
    with borrowed_block(32, (N_FREQUENCIES, N_FREQUENCIES), case.inputs.dtype) as block:
        learn_teams(words, stepped, teams, block, case.inputs, case.targets, rule_of(case), 0, first, last)
    return words, stepped


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", [0, 2])
def test_teams_of_multiples_match_naive_and_do_not_depend_on_one_another(code: int, precision: Precision) -> None:
    case = make_case(code, precision, ROWS)
    pairs = [(0, 0), (0, 2), (1, 1)]
    teams = make_teams(case, pairs)
    words, stepped = learn_some(case, teams, 0, 3)
    for m in range(len(pairs)):
        team, said = fresh(case, False)
        block = naive.mapped(case.inputs, teams, m, N_FREQUENCIES)
        naive.learn_team(said, team, block, case.targets, np.ones(ROWS), rule_of(case))
        np.testing.assert_allclose(words[m], said.words, atol=TOLERANCE[precision])
        np.testing.assert_allclose(teams.weights[m], team.weights, atol=TOLERANCE[precision])
        apart = make_teams(case, pairs)
        alone, _ = learn_some(case, apart, m, m + 1)
        assert alone[m].tobytes() == words[m].tobytes()
        assert apart.pulls[m].tobytes() == teams.pulls[m].tobytes()
    assert (words[0] != words[1]).any()
    assert (words[0] != words[2]).any()
    assert stepped.any(axis=1).all()


def test_a_team_in_turns_has_the_bits_of_the_team_alone() -> None:
    case = make_case(3, "float64", ROWS)
    (team, said), (expected, heard) = fresh(case, False), fresh(case, False)
    with borrowed_block(32, (N_FREQUENCIES, N_FREQUENCIES), case.inputs.dtype) as block:
        assert learn_team_in_turns(
            said, team, new_turns(), block, case.inputs, case.targets, case.waves, rule_of(case), 0, 0, 1
        )
    naive.learn_team(heard, expected, mapped(case.inputs, case.waves), case.targets, np.ones(ROWS), rule_of(case))
    np.testing.assert_allclose(said.words, heard.words, atol=1e-9)
    np.testing.assert_allclose(team.weights, expected.weights, atol=1e-9)
    assert n_labels(3) == 1
