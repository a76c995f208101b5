from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.expert_weights import AdaHedgeState, Mixture, MixtureCounters, mix_rows, new_mixture_memory
from okl.compiled.experts import ExpertPredictions, Team, Teams, age_of, double_angles, learn_team, learn_teams
from okl.compiled.fourier import as_waves
from okl.compiled.threads import Block, borrowed_block, give_up_turns, new_turns, run_threads
from okl.foundation.types import FloatArray, Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE, Case, make_case, n_outputs
from tests.compiled.expert_cases import N_FREQUENCIES, PADDED, ROWS, STEPS, fresh, rule_of
from tests.naive import experts as naive
from tests.naive import experts as naive_experts
from tests.naive.constrained import mapped


@pytest.mark.parametrize("precision", PRECISIONS)
def test_doubled_angles_match_naive(precision: Precision) -> None:
    angles, amplitude = np.linspace(-7, 7, 120).reshape(4, 30), np.dtype(precision).type(0.2)
    sines, cosines = ((amplitude * wave(angles)).astype(precision) for wave in (np.sin, np.cos))
    expected = sines.copy(), cosines.copy()
    double_angles(sines, cosines, amplitude)
    naive_experts.double_angles(*expected, 0.2)
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
        waves[0].n_frequencies,
        waves[0].amplitude,
    )


def make_mixture(case: Case, teams: Teams) -> Mixture:
    """Return the mixture of the experts of the first team; it is complete if there is only one team."""
    n_experts, n_labels = 2 * len(STEPS), len(case.rule.class_weights)
    counted = MixtureCounters(np.zeros(5, np.int64), np.zeros(3), np.zeros(n_labels, np.int64))
    hedge = AdaHedgeState(np.zeros(n_experts), np.zeros(n_experts), np.zeros(3))
    return Mixture(counted, hedge, new_mixture_memory(n_experts, n_labels), len(teams.base) == 1)


def learn_all(
    case: Case, teams: Teams, n_threads: int, rows_per_block: int, mixture: Mixture | None = None
) -> tuple[FloatArray, NDArray[np.uint8]]:
    predictions = np.zeros((len(teams.base), ROWS, len(STEPS), 2))
    stepped = np.zeros((len(teams.base), ROWS), dtype=np.uint8)
    turns = np.stack([new_turns() for _ in range(len(teams.base) + 1)])
    mixture = mixture or make_mixture(case, teams)

    def learn(thread: int) -> bool:
        with borrowed_block(rows_per_block, (PADDED, PADDED), case.inputs.dtype) as block:
            rule = rule_of(case)
            return learn_teams(predictions, stepped, teams, turns, block, case.inputs, case.targets, rule, 0, mixture)

    assert all(run_threads(n_threads, learn))
    return predictions, stepped


PAIRS = [(0, 0), (0, 2), (1, 1)]


@pytest.mark.parametrize("code", [0, 2])
def test_teams_of_multiples_match_naive_and_do_not_depend_on_one_another(code: int) -> None:
    case = make_case(code, "float32", ROWS)
    teams = make_teams(case, PAIRS)
    predictions, stepped = learn_all(case, teams, 1, 32)
    for m, pair in enumerate(PAIRS):
        team, results = fresh(case, False)
        block = naive_experts.mapped(case.inputs, teams, m, N_FREQUENCIES)
        naive.learn_team(results, team, block, case.targets, np.ones(ROWS), rule_of(case))
        np.testing.assert_allclose(predictions[m], results.predictions, atol=TOLERANCE["float32"])
        np.testing.assert_allclose(teams.weights[m], team.weights, atol=TOLERANCE["float32"])
        separate = make_teams(case, [pair])
        alone, _ = learn_all(case, separate, 1, 32)
        assert alone[0].tobytes() == predictions[m].tobytes()
        assert separate.pulls[0].tobytes() == teams.pulls[m].tobytes()
    assert (predictions[0] != predictions[1]).any()
    assert (predictions[0] != predictions[2]).any()
    assert stepped.any(axis=1).all()


@pytest.mark.parametrize(("n_threads", "rows_per_block"), [(1, 64), (2, 8), (3, 16)])
def test_neither_threads_nor_blocks_change_a_bit(n_threads: int, rows_per_block: int) -> None:
    case = make_case(2, "float32", ROWS)
    teams, expected = make_teams(case, PAIRS), make_teams(case, PAIRS)
    predictions, stepped = learn_all(case, expected, 1, 32)
    again, stepped_again = learn_all(case, teams, n_threads, rows_per_block)
    assert again.tobytes() == predictions.tobytes()
    assert stepped_again.tobytes() == stepped.tobytes()
    for array, other in zip(teams[:2], expected[:2], strict=True):
        assert array.tobytes() == other.tobytes()


@pytest.mark.parametrize("code", [2, 3])
def test_a_team_mixed_while_learning_equals_its_predictions_mixed_later(code: int) -> None:
    case = make_case(code, "float32", ROWS)
    teams = make_teams(case, PAIRS[2:])
    mixture, expected = make_mixture(case, teams), make_mixture(case, teams)
    predictions, stepped = learn_all(case, teams, 2, 8, mixture)
    assert mixture.complete
    results = predictions[0].reshape(ROWS, -1)
    mix_rows(expected, results, stepped[0], case.targets, rule_of(case))
    assert mixture.hedge.losses.tobytes() == expected.hedge.losses.tobytes()
    assert mixture.hedge.numbers.tobytes() == expected.hedge.numbers.tobytes()
    assert mixture.counted.counts.tolist() == expected.counted.counts.tolist()
    assert mixture.counted.counts[0] == ROWS
    assert mixture.hedge.losses.min() > 0


def test_a_failed_thread_does_not_block_the_others() -> None:
    case = make_case(2, "float32", ROWS)
    teams = make_teams(case, PAIRS)
    predictions, stepped = np.zeros((3, ROWS, len(STEPS), 2)), np.zeros((3, ROWS), dtype=np.uint8)
    turns = np.stack([new_turns() for _ in range(len(PAIRS) + 1)])
    turns[0, 2] = 1  # the thread that failed has claimed the first block
    for turn in turns:
        give_up_turns(turn)
    with borrowed_block(32, (PADDED, PADDED), case.inputs.dtype) as block:
        rule, mixture = rule_of(case), make_mixture(case, teams)
        assert not learn_teams(predictions, stepped, teams, turns, block, case.inputs, case.targets, rule, 0, mixture)


CODES = [0, 1, 2, 3]


def averages(team: Team, rows: int) -> FloatArray:
    averaged = team.weights - team.pulls.astype(np.float64) / age_of(rows)
    return averaged[..., :N_FREQUENCIES].reshape(*averaged.shape[:2], -1)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("adaptive", [False, True], ids=["plain", "adagrad"])
@pytest.mark.parametrize("code", CODES)
def test_predictions_and_steps_of_a_team_match_naive(code: int, adaptive: bool, precision: Precision) -> None:
    case = make_case(code, precision, ROWS)
    block, cautions = mapped(case.inputs, case.waves), np.linspace(0.5, 1.0, ROWS)
    (team, results), (expected, expected_results) = fresh(case, adaptive), fresh(case, adaptive)
    learn_team(results, team, block, case.targets, cautions, rule_of(case), 0)
    means = naive.learn_team(expected_results, expected, block, case.targets, cautions, rule_of(case))
    tolerance = 20 * TOLERANCE[precision] if adaptive else TOLERANCE[precision]
    np.testing.assert_allclose(results.predictions, expected_results.predictions, atol=tolerance)
    np.testing.assert_array_equal(results.stepped, expected_results.stepped)
    np.testing.assert_allclose(team.weights, expected.weights, atol=tolerance)
    np.testing.assert_allclose(averages(team, ROWS), means, atol=tolerance)
    assert (results.predictions[:, 0, 0] != results.predictions[:, 0, 1]).any()
    assert (results.predictions[:, 0] != results.predictions[:, 1]).any()
    assert results.stepped.sum() > 0
    assert not team.weights[..., N_FREQUENCIES:].any()


@pytest.mark.parametrize("code", CODES)
def test_rows_in_parts_give_the_bits_of_one_call(code: int) -> None:
    case = make_case(code, "float32", ROWS)
    block, cautions = mapped(case.inputs, case.waves), np.ones(ROWS)
    (team, results), (whole, expected_results) = fresh(case, False), fresh(case, False)
    learn_team(expected_results, whole, block, case.targets, cautions, rule_of(case), 0)
    for first, last in ((0, 40), (40, ROWS)):
        part = Block(block.left[first:last], block.right[first:last])
        here = ExpertPredictions(results.predictions[first:last], results.stepped[first:last])
        learn_team(here, team, part, case.targets[first:last], cautions, rule_of(case), first)
    assert results.predictions.tobytes() == expected_results.predictions.tobytes()
    assert team.pulls.tobytes() == whole.pulls.tobytes()


def test_a_score_that_is_not_finite_is_no_prediction() -> None:
    for code in CODES:
        case = make_case(code, "float32", 10)
        team, results = fresh(case, False)
        team.weights[0] = np.inf
        learn_team(results, team, mapped(case.inputs, case.waves), case.targets, np.ones(10), rule_of(case), 5)
        assert np.isnan(results.predictions[0, 0]).all()
        assert np.isfinite(results.predictions[:, 1]).all()


def test_ages_of_a_billion_rows_fit_float32() -> None:
    ages = [np.float32(age_of(rows)) for rows in (1, 10**9)]
    assert ages[0] > np.finfo(np.float32).tiny
    assert np.isfinite(ages[1] * 1e6)
    assert age_of(20) / age_of(10) == pytest.approx(16)
