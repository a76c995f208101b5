from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from okl.data.execution import Rows
from okl.features.base import FeatureMap
from okl.features.fourier import draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.features.nystrom import fit_nystrom_map
from okl.features.predictors import LinearPredictor
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.types import FloatArray, Precision
from okl.kernels import Gaussian
from okl.losses import Hinge, Loss, ThresholdedHalfSquared
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.tracking import MOST_KEPT, TrackingLearner, TrackingState
from tests.naive import expert_weights as naive_weights
from tests.solvers.online.cases import LOSS, n_outputs_of, part, targets_of

ROWS, N_INPUTS, CHANGE = 1600, 4, 900


def make_rows(loss: Loss, precision: Precision = "float32") -> Rows:
    """Return rows whose labels are inverted at CHANGE."""
    rng = np.random.default_rng(2)
    inputs = rng.standard_normal((ROWS, N_INPUTS))
    signal = (np.sin(2 * inputs[:, 0]) + inputs[:, 1]) * np.where(np.arange(ROWS) < CHANGE, 1.0, -1.0)
    return Rows(inputs.astype(precision), targets_of(signal, loss.task, 0))


def make_map(precision: Precision = "float32") -> FeatureMap:
    return draw_fourier_map(Gaussian(2.0), N_INPUTS, 40, 3, precision)


def make_learner(loss: Loss, precision: Precision = "float32", **options: Any) -> TrackingLearner:
    return TrackingLearner(make_map(precision), loss, n_outputs_of(loss), **options)


def bits(state: TrackingState) -> tuple[Any, ...]:
    arrays = state.group.weights, state.group.pulls, state.p, state.mistakes, state.numbers
    return (*(array.tobytes() for array in arrays), state.progress)


@LOSS
def test_threads_and_cuts_of_rows_give_the_same_bits_and_states_travel(
    loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("okl.solvers.online.step_size_experts.LEAST_WORK", 32)
    learner, rows = make_learner(loss), make_rows(loss)
    one = learner.learn(learner.start(), rows, 1)
    assert bits(learner.learn(learner.start(), rows, 3)) == bits(one)
    state = learner.start()
    for first, last in [(0, 256), (256, 1280), (1280, ROWS)]:
        before = bits(state)
        following = learner.learn(state, part(rows, first, last), 2)
        assert bits(state) == before
        elsewhere, state = pickle.loads(pickle.dumps((learner, following)))
        assert bits(elsewhere.start()) == bits(learner.start())
    assert bits(state) == bits(one)
    assert one.group.weights.dtype == np.float32
    assert 0 < one.progress.error < 0.75 * one.progress.baseline_error


@pytest.mark.parametrize("loss", [Hinge(), ThresholdedHalfSquared(0.1)], ids=lambda loss: loss.name)
def test_experts_are_linear_learners_and_mixed_as_the_naive_twin_does(loss: Loss) -> None:
    few = 200
    learner, rows = make_learner(loss, "float64", step_sizes=(0.1, 0.8), share=0.01), make_rows(loss, "float64")
    rows = part(rows, CHANGE - 100, CHANGE - 100 + few)
    state = learner.learn(learner.start(), rows)
    predictions = np.empty((few, 4))
    for t, step in enumerate((0.1, 0.8)):
        alone = LinearLearner(learner.feature_map, loss, step)
        weights = alone.start()
        total = np.zeros_like(weights.last)
        for row in range(few):
            average = total / row**4 if row else weights.last
            for which, w in enumerate((weights.last, average)):
                predictions[row, 2 * t + which] = LinearPredictor(alone.feature_map, w).scores(
                    rows.inputs[row : row + 1]
                )[0]
            weights = alone.learn(weights, part(rows, row, row + 1))
            total += ((row + 1) ** 4 - row**4) * weights.last
        np.testing.assert_allclose(state.group.expert_weights(0, t, 0, few), weights.last, atol=1e-9)
    eta = 2.0 if loss.task == "regression" else 0.5
    mixture, p, _ = naive_weights.shared(predictions, rows.targets, loss.task, np.ones(2), eta, 0.01)
    np.testing.assert_allclose(state.p, p[-1], atol=1e-6)
    if loss.task == "binary":
        assert state.progress.mistakes == np.sum((np.array(mixture) >= 0) != (rows.targets > 0))


def test_a_saved_tracker_predicts_like_the_mixture_of_two_classes() -> None:
    learner, rows = make_learner(Hinge(), "float64"), make_rows(Hinge(), "float64")
    state = learner.learn(learner.start(), part(rows, 0, 1000))
    scores = learner.predictor(state).scores(rows.inputs[1000:1001])
    after = learner.learn(state, part(rows, 1000, 1001))
    loss = after.progress.surrogate - state.progress.surrogate
    assert loss == pytest.approx(max(0.0, 1.0 - rows.targets[1000] * float(scores[0])), rel=1e-9)
    assert abs(float(scores[0])) > 0.0


@LOSS
def test_a_change_is_followed_better_than_by_the_best_single_step(loss: Loss) -> None:
    learner, rows = make_learner(loss), make_rows(loss)
    mixed = learner.learn(learner.start(), rows).progress.error
    alone = []
    for step in learner._step_sizes:
        single = LinearLearner(learner.feature_map, loss, step, learner.n_outputs)
        alone.append(single.learn(single.start(), rows).progress.error)
    assert mixed < 1.02 * min(alone)
    assert max(alone) > 1.05 * min(alone)


def other_map(kind: str, inputs: FloatArray) -> FeatureMap:
    if kind == "nystrom":
        return fit_nystrom_map(Gaussian(2.0), inputs[:40].astype(np.float64), 12)
    return StandardisedLinear.of_columns(inputs.mean(0, dtype=np.float64), inputs.std(0), "float32")


@pytest.mark.parametrize("kind", ["linear", "nystrom"])
def test_other_maps_are_tracked_in_blocks(kind: str) -> None:
    rows, steps = make_rows(Hinge()), (0.1, 0.8)
    learner = TrackingLearner(other_map(kind, rows.inputs), Hinge(), step_sizes=steps)
    whole = learner.learn(learner.start(), rows)
    cut = learner.learn(learner.learn(learner.start(), part(rows, 0, 512)), part(rows, 512, ROWS), 2)
    assert bits(cut) == bits(whole)
    assert 0 < whole.progress.error < 0.5 * whole.progress.baseline_error
    assert learner.predictor(whole).weights.shape == (1, learner.feature_map.n_columns)
    few = learner.learn(learner.start(), part(rows, 0, 200))
    for t, step in enumerate(steps):
        alone = LinearLearner(learner.feature_map, Hinge(), step)
        weights = alone.learn(alone.start(), part(rows, 0, 200)).last
        np.testing.assert_allclose(few.group.expert_weights(0, t, 0, 200), weights, atol=1e-4)


def test_settings_and_rows_that_do_not_fit_are_refused() -> None:
    for options in ({"step_sizes": ()}, {"step_sizes": (0.0,)}, {"share": 1.0}, {"rate": 0.0}):
        with pytest.raises(ConfigError):
            make_learner(Hinge(), **options)
    with pytest.raises(ConfigError, match="class weights"):
        make_learner(Hinge(), class_weights=(1.0,))
    for weight in (-1.0, math.nan, math.inf):
        with pytest.raises(ConfigError, match="finite numbers of at least 0"):
            make_learner(Hinge(), class_weights=(weight, 1.0))
    with pytest.raises(ConfigError, match="regression has no classes"):
        make_learner(ThresholdedHalfSquared(), class_weights=(1.0,))
    learner = make_learner(Hinge())
    with pytest.raises(DataError):
        learner.learn(learner.start(), Rows(np.zeros((3, 2), np.float32), np.ones(3)))
    diverging, rows = make_learner(ThresholdedHalfSquared(0.1), step_sizes=(64.0,)), make_rows(ThresholdedHalfSquared())
    with pytest.raises(DivergedError, match="the weights of all experts are no longer finite"):
        diverging.learn(diverging.start(), rows)


@LOSS
def test_snapshots_keep_the_predictions_and_errors_of_the_tracker(loss: Loss) -> None:
    learner, rows = make_learner(loss), make_rows(loss)
    state = learner.start()
    kept: list[LinearPredictor] = []
    limits: list[float] = []
    for window, first in enumerate(range(0, 1536, 256)):
        part_of = part(rows, first, first + 256)
        state = learner.learn(state, part_of, 1 + window % 2)
        scores = [model.scores(part_of.inputs) for model in kept[-MOST_KEPT:]]
        wrong = [
            np.abs(predicted - part_of.targets) > limit
            if loss.task == "regression"
            else (predicted.argmax(axis=1) if predicted.ndim > 1 else np.sign(predicted)) != part_of.targets
            for predicted, limit in zip(scores, limits[-MOST_KEPT:], strict=True)
        ]
        assert state.kept.wrong.tolist() == [one.sum() for one in wrong]
        limits.append(math.sqrt(state.progress.since(state.kept.progress).error))
        kept.append(learner.predictor(state))
        state = learner.keep(state)
    assert len(state.kept.weights) == MOST_KEPT
    assert 0 < wrong[0].sum() < wrong[-1].size
