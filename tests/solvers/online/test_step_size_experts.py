from __future__ import annotations

import numpy as np
import pytest

from okl.features.bandwidth import median_distance
from okl.foundation.errors import ConfigError, DataError
from okl.losses import Hinge
from okl.solvers.online.step_size_experts import (
    N_OCTAVES,
    Round,
    after_round,
    draw_candidates,
    narrowed,
    race_schedule,
)
from tests.solvers.online.experts_cases import SPREADS, make_candidates, make_learner, make_rows

SAMPLE = np.random.default_rng(2).standard_normal((200, 5)).astype(np.float32)


def test_bandwidths_lie_around_the_median_distance() -> None:
    candidates = draw_candidates(SAMPLE, 30, 0)
    median = median_distance(SAMPLE)
    bandwidths = [vars(candidates.fourier(0, octave).kernel)["bandwidth"] for octave in range(N_OCTAVES)]
    np.testing.assert_allclose(bandwidths, median * 2.0 ** np.arange(1, 1 - N_OCTAVES, -1))


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "matern32"])
def test_inner_products_approximate_the_kernel_of_each_octave(kernel: str) -> None:
    candidates = draw_candidates(SAMPLE, 4000, 0, "float64", kernel)
    inputs = SAMPLE[:20].astype(np.float64)
    for octave in (0, 1, 3):
        drawn = candidates.fourier(0, octave)
        features = drawn.transform(inputs)
        np.testing.assert_allclose(features @ features.T, drawn.kernel.matrix(inputs, inputs), atol=0.08)


def test_standardising_frequencies_is_standardising_inputs() -> None:
    candidates = make_candidates("float64")
    inputs = SAMPLE[:20].astype(np.float64) * SPREADS
    deviations = (np.random.default_rng(1).standard_normal((300, 5)) * SPREADS).std(axis=0)
    scaled = candidates.fourier(1, 2)
    features = scaled.transform(inputs)
    shifted = scaled.transform(inputs + 7.0)
    np.testing.assert_allclose(shifted @ shifted.T, features @ features.T, atol=1e-9)
    kernel = scaled.kernel.matrix(inputs / deviations, inputs / deviations)
    assert np.abs(features @ features.T - kernel).mean() < 0.15
    np.testing.assert_array_equal(narrowed(candidates.bases[1], 2).frequencies, 4 * candidates.bases[1].frequencies)


def test_inputs_of_equal_spread_have_one_scaling_and_constant_columns_none() -> None:
    equal_spread = SAMPLE / SAMPLE.std(axis=0)
    assert len(draw_candidates(equal_spread, 10, 0).bases) == 1
    assert len(draw_candidates(equal_spread * SPREADS, 10, 0).bases) == 2
    constant = np.column_stack([SAMPLE * SPREADS, np.full(200, 3.1)]).astype(np.float32)
    candidates = draw_candidates(constant, 10, 0)
    assert not candidates.bases[1].frequencies[5].any()
    assert candidates.linear is not None
    assert candidates.linear.factor[5] == 0
    constant_inputs = draw_candidates(np.full((50, 2), 3.0, dtype=np.float32), 10, 0)
    assert len(constant_inputs.bases) == 1
    assert np.isfinite(constant_inputs.bases[0].frequencies).all()


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(ConfigError, match="'polynomial' has no bandwidth"):
        draw_candidates(SAMPLE, 10, 0, kernel="polynomial")
    with pytest.raises(DataError, match="sampled rows"):
        draw_candidates(SAMPLE[:0], 10, 0)


@pytest.mark.parametrize("n_rows", [1, 300, 799, 800, 1599, 1600, 20_640, 50_000, 10**7])
def test_races_get_smaller_and_end(n_rows: int) -> None:
    rounds = race_schedule(n_rows)
    assert [entry.maps for entry in rounds] == sorted((entry.maps for entry in rounds), reverse=True)
    ends = [entry.last_row for entry in rounds[:-1] if entry.last_row is not None]
    assert len(ends) == len(rounds) - 1
    assert ends == sorted(set(ends))
    assert ends[-1] <= max(0.25 * n_rows, 96)
    assert all(end % 32 == 0 for end in ends)
    assert ends[-1] <= 7520
    assert rounds[-1] == Round(None, 1, 1)


def test_a_race_without_rows_is_refused() -> None:
    with pytest.raises(ConfigError, match="n_rows = 0"):
        race_schedule(0)


def test_candidates_of_least_recent_loss_remain_with_their_state() -> None:
    learner = make_learner(Hinge(), rounds=(Round(None, 100, 100),))
    state = learner.learn(learner.start(), make_rows(Hinge()))
    pruned = after_round(state, Round(None, 3, 1), 1)
    assert (pruned.n_maps, pruned.round, len(pruned.losses)) == (3, 1, 6)
    before, after = state.per_learner(state.recent), pruned.per_learner(pruned.recent)
    every = np.sort(np.concatenate([values.min(axis=(1, 2)) for values in before]))
    left = np.sort(np.concatenate([values.min(axis=(1, 2)) for values in after]))
    np.testing.assert_allclose(left, 0.3 * every[:3])
    for group, recent, losses in zip(pruned.groups, after, pruned.per_learner(pruned.losses), strict=True):
        whole = [old.kind for old in state.groups].index(group.kind)
        for m, candidate in enumerate(group.candidates):
            old_m = state.groups[whole].candidates.index(candidate)
            old_t = state.groups[whole].steps[old_m].tolist().index(group.steps[m, 0])
            np.testing.assert_array_equal(group.weights[m, 0], state.groups[whole].weights[old_m, old_t])
            np.testing.assert_array_equal(group.pulls[m, 0], state.groups[whole].pulls[old_m, old_t])
            np.testing.assert_array_equal(losses[m, 0], state.per_learner(state.losses)[whole][old_m, old_t])
            np.testing.assert_allclose(recent[m, 0], 0.3 * before[whole][old_m, old_t])


def test_the_earlier_candidate_wins_a_tie_and_diverged_ones_are_removed_first() -> None:
    learner = make_learner(Hinge())
    state = learner.start()
    assert after_round(state, Round(None, 1, 1), 1).groups[0].candidates == ((0, 0),)
    state.recent[:] = np.inf
    state.recent[-1] = 5.0
    (group,) = after_round(state, Round(None, 1, 1), 1).groups
    assert (group.kind, group.steps.tolist()) == ("linear-adagrad", [[1.0]])
