from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.blocks import borrowed_block
from okl.compiled.expertmaps import Teams, double_angles, learn_team_in_turns, learn_teams
from okl.compiled.fourier import as_waves
from okl.compiled.turns import new_turns
from okl.types import FloatArray, Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE, Case, make_case, n_outputs
from tests.compiled.expert_cases import N_FREQUENCIES, PADDED, ROWS, STEPS, fresh, rule_of
from tests.naive import expertmaps as twin
from tests.naive import experts as naive
from tests.naive.drivers import mapped


@pytest.mark.parametrize("precision", PRECISIONS)
def test_doubled_angles_match_naive(precision: Precision) -> None:
    angles, amplitude = np.linspace(-7, 7, 120).reshape(4, 30), np.dtype(precision).type(0.2)
    sines, cosines = ((amplitude * wave(angles)).astype(precision) for wave in (np.sin, np.cos))
    expected = sines.copy(), cosines.copy()
    double_angles(sines, cosines, amplitude)
    twin.double_angles(*expected, 0.2)
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
        block = twin.mapped(case.inputs, teams, m, N_FREQUENCIES)
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
