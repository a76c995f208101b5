from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from okl.data.execution import Rows
from okl.features.fourier import FourierFeatures
from okl.features.predictors import predictor_from_stored
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.losses import Hinge, Loss, MulticlassHinge, ThresholdedHalfSquared
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.step_size_experts import Candidates, ExpertLearner, Round
from tests.solvers.online.cases import LOSS, part
from tests.solvers.online.experts_cases import (
    ROUNDS,
    ROWS,
    bits,
    make_candidates,
    make_learner,
    make_rows,
)

KEEP_ALL = (Round(None, 100, 100),)


@LOSS
def test_any_number_of_threads_gives_the_same_bits(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("okl.solvers.online.step_size_experts.LEAST_WORK", 32)
    monkeypatch.setattr("okl.solvers.online.step_size_experts.STRETCH_ROWS", 256)
    learner, rows = make_learner(loss), make_rows(loss)
    one = learner.learn(learner.start(), rows, 1)
    for n_threads in (2, 3):
        assert bits(learner.learn(learner.start(), rows, n_threads)) == bits(one)
    assert one.groups[0].weights.dtype == np.float32
    assert 0 < one.progress.error < 0.75 * one.progress.baseline_error
    assert (one.round, one.n_maps, one.progress.rows) == (3, 1, ROWS)


@LOSS
def test_splitting_rows_at_multiples_of_256_gives_the_same_bits(loss: Loss) -> None:
    learner, rows = make_learner(loss), make_rows(loss)
    state = learner.start()
    for first, last in [(0, 256), (256, 1280), (1280, ROWS)]:
        state = learner.learn(state, part(rows, first, last), 2)
    assert bits(state) == bits(learner.learn(learner.start(), rows, 2))


@LOSS
def test_learn_leaves_its_inputs_unchanged_and_states_travel(loss: Loss) -> None:
    learner, rows = make_learner(loss), make_rows(loss)
    for n_rows in (64, 500):
        state = learner.learn(learner.start(), part(rows, 0, n_rows))
        before = bits(state), rows.inputs.tobytes(), rows.targets.tobytes()
        following = learner.learn(state, part(rows, n_rows, ROWS))
        assert (bits(state), rows.inputs.tobytes(), rows.targets.tobytes()) == before
        copied_learner, copied_state = pickle.loads(pickle.dumps((learner, state)))
        assert bits(copied_learner.learn(copied_state, part(rows, n_rows, ROWS))) == bits(following)


@pytest.mark.parametrize("loss", [Hinge(), ThresholdedHalfSquared(0.1)], ids=lambda loss: loss.name)
def test_last_weights_are_those_of_the_linear_learner(loss: Loss) -> None:
    base = make_candidates("float64").bases[1]
    rows = make_rows(loss, "float64", 600)
    learner = ExpertLearner(Candidates((base,), 1), loss, 1, KEEP_ALL, step_sizes=(0.3, 0.9))
    state = learner.learn(learner.start(), rows, 2)
    for t, step in enumerate((0.3, 0.9)):
        alone = LinearLearner(base, loss, step)
        expected = alone.learn(alone.start(), rows)
        np.testing.assert_allclose(state.groups[0].expert_weights(0, t, 0, 600), expected.last, atol=1e-10)


@LOSS
def test_mixture_is_not_far_behind_its_best_expert(loss: Loss) -> None:
    learner, rows = make_learner(loss, rounds=KEEP_ALL), make_rows(loss)
    state = learner.learn(learner.start(), rows, 2)
    best = state.losses.min() / ROWS
    assert best < state.progress.error < 1.25 * best + 0.01
    assert state.losses.max() / ROWS > 1.5 * best
    assert state.n_maps == 5 * 2 + 2


def test_columns_of_mixed_scales_are_standardised_by_the_frequencies() -> None:
    candidates = make_candidates()
    assert len(candidates.bases) == 2
    learner, rows = make_learner(Hinge()), make_rows(Hinge())
    state = learner.learn(learner.start(), rows)
    assert state.groups[0].candidates[0][0] == 1
    one = replace(learner, candidates=replace(candidates, bases=candidates.bases[:1], linear=None))
    assert state.progress.error < 0.6 * one.learn(one.start(), rows).progress.error


@LOSS
def test_predictor_is_the_leading_expert_on_one_map_and_can_be_stored(loss: Loss) -> None:
    learner, rows = make_learner(loss), make_rows(loss)
    for n_rows in (0, 64, ROWS):
        state = learner.learn(learner.start(), part(rows, 0, n_rows))
        predictor = learner.predictor(state)
        feature_map, _, weights = learner.leader(state)
        assert weights.shape == (learner.n_outputs, feature_map.n_columns)
        scores = predictor.scores(rows.inputs)
        again = predictor_from_stored(predictor.describe(), predictor.arrays(), "here")
        np.testing.assert_array_equal(again.scores(rows.inputs), scores)
    assert isinstance(feature_map, FourierFeatures)
    predicted = np.argmax(scores, axis=1) if scores.ndim == 2 else np.where(scores >= 0, 1.0, -1.0)
    if loss.task == "regression":
        assert np.mean((scores - rows.targets) ** 2) < 0.3 * rows.targets.var()
    else:
        assert np.mean(predicted != rows.targets) < 0.6 * state.progress.baseline_error


def test_an_expert_that_diverges_loses_without_harm_to_others() -> None:
    loss = ThresholdedHalfSquared()
    rows = make_rows(loss)
    diverging = make_learner(loss, step_sizes=(0.5, 500.0), rounds=KEEP_ALL)
    state = diverging.learn(diverging.start(), rows)
    assert np.isinf(state.losses).any()
    stable = make_learner(loss, step_sizes=(0.5,), rounds=KEEP_ALL)
    expected = stable.learn(stable.start(), rows).progress.error
    assert state.progress.error < 1.1 * expected
    assert np.isfinite(diverging.leader(state)[2]).all()
    pruned = replace(diverging, rounds=ROUNDS)
    assert np.isfinite(pruned.learn(pruned.start(), rows).losses).all()


def test_no_expert_left_ends_in_a_clear_error() -> None:
    loss = ThresholdedHalfSquared()
    base = make_candidates().bases[1]
    learner = ExpertLearner(Candidates((base,), 2), loss, 1, KEEP_ALL, step_sizes=(500.0,))
    with pytest.raises(DivergedError, match=r"Rows 0 to 1,599: the weights of all experts are no longer finite"):
        learner.learn(learner.start(), make_rows(loss))


def test_errors_do_not_depend_on_the_scale_of_targets() -> None:
    rows = make_rows(ThresholdedHalfSquared())
    errors = []
    for scale in (1.0, 1024.0):  # scaling by a power of 2 is exact
        learner = make_learner(ThresholdedHalfSquared(0.1 * scale), adagrad_step_sizes=())
        state = learner.learn(learner.start(), Rows(rows.inputs, scale * rows.targets))
        errors.append(state.progress.error / scale**2)
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)


@pytest.mark.parametrize("loss", [Hinge(), MulticlassHinge()], ids=lambda loss: loss.name)
def test_class_weights_favour_their_class(loss: Loss) -> None:
    n_classes = 4 if loss.task == "multiclass" else 2
    learner, rows = make_learner(loss), make_rows(loss)
    none = learner.learn(learner.start(), rows)
    ones = replace(learner, class_weights=(1.0,) * n_classes)
    assert bits(ones.learn(ones.start(), rows)) == bits(none)
    first = replace(learner, class_weights=(1.0,) + (0.0,) * (n_classes - 1))
    scores = first.predictor(first.learn(first.start(), rows)).scores(rows.inputs)
    favoured = np.argmax(scores, axis=1) == 0 if loss.task == "multiclass" else scores < 0
    assert favoured.mean() > 0.8


def test_invalid_arguments_are_named() -> None:
    learner, rows = make_learner(Hinge()), make_rows(Hinge())
    with pytest.raises(DataError, match=r"\(rows, 5\)"):
        learner.learn(learner.start(), Rows(rows.inputs[:, :4], rows.targets))
    with pytest.raises(DataError, match=r"-1 and \+1 in memory"):
        learner.learn(learner.start(), Rows(rows.inputs, rows.targets * 2))
    with pytest.raises(ConfigError, match="grid of experts is empty"):
        replace(learner, step_sizes=())
    with pytest.raises(ConfigError, match="a step size = -1"):
        replace(learner, step_sizes=(-1.0,))
    with pytest.raises(ConfigError, match="has one output"):
        replace(learner, n_outputs=2)
    with pytest.raises(ConfigError, match="3 class weights are set for 2 classes"):
        replace(learner, class_weights=(1.0, 1.0, 1.0))
    with pytest.raises(ConfigError, match="a regression has no classes"):
        make_learner(ThresholdedHalfSquared(), class_weights=(1.0,))
    with pytest.raises(ConfigError, match="finite numbers of at least 0"):
        replace(learner, class_weights=(1.0, -1.0))
