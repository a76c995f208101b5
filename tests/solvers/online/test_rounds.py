from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from okl.data.execution import Rows
from okl.features.fourier import draw_fourier_map
from okl.foundation.errors import DivergedError
from okl.foundation.types import Precision
from okl.kernels import Gaussian
from okl.losses import Hinge, Loss, MulticlassHinge, ThresholdedHalfSquared
from okl.solvers.online.base import AdaGrad
from okl.solvers.online.linear import LinearLearner, PlainGradient, Weights, add_gradients, average_shard_weights
from tests.naive.rounds import adagrad_step, majority_mistakes, mean_squared_errors
from tests.solvers.online.cases import LOSS, n_outputs_of, part, targets_of

N_INPUTS = 3


def make_learner(loss: Loss, precision: Precision = "float32") -> LinearLearner:
    drawn = draw_fourier_map(Gaussian(1.5), N_INPUTS, 20, 0, precision)
    return LinearLearner(drawn, loss, 0.4, n_outputs_of(loss))


def make_rows(loss: Loss, rows: int, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((rows, N_INPUTS)).astype(np.float32)
    signal = np.sin(2 * inputs[:, 0]) + inputs[:, 1]
    targets = targets_of(signal, loss.task, 0.5)
    return Rows(inputs, 3 + targets if loss.task == "regression" else targets)


def start_learner(loss: Loss, precision: Precision = "float32") -> tuple[LinearLearner, Weights]:
    learner = make_learner(loss, precision)
    return learner, learner.learn(learner.start(), make_rows(loss, 200, seed=1))


@pytest.mark.parametrize("precision", ["float32", "float64"])
@LOSS
def test_adagrad_steps_match_naive(loss: Loss, precision: Precision) -> None:
    learner, weights = start_learner(loss, precision)
    optimiser = AdaGrad.start(*weights.last.shape)
    last, squares = weights.last, optimiser.squares
    for number in range(1, 5):
        gradient = learner.gradient(weights.last, make_rows(loss, 150, seed=number))
        assert np.count_nonzero(gradient.gradient) == gradient.gradient.size
        last, squares = adagrad_step(last, squares, gradient.gradient / 150, learner.step_size)
        weights, stepped = gradient.step(learner, weights, optimiser, number)
        assert stepped is not None
        optimiser = stepped
        tolerance = 1e-5 if precision == "float32" else 1e-12
        np.testing.assert_allclose(weights.last, last, atol=tolerance)
        np.testing.assert_allclose(optimiser.squares, squares, atol=tolerance)
        assert weights.last.dtype == precision


@LOSS
def test_plain_step_goes_against_the_mean_subgradient(loss: Loss) -> None:
    learner, weights = start_learner(loss)
    gradient = learner.gradient(weights.last, make_rows(loss, 150))
    stepped, optimiser = gradient.step(learner, weights, None, 1)
    assert optimiser is None
    expected = weights.last - learner.step_size * gradient.gradient / 150
    np.testing.assert_array_equal(stepped.last, expected.astype(np.float32))


@LOSS
def test_step_counts_as_often_in_the_average_as_its_number(loss: Loss) -> None:
    learner, weights = start_learner(loss)
    weights = weights.without_average()
    visited, optimiser = [], AdaGrad.start(*weights.last.shape)
    for number in range(1, 6):
        gradient = learner.gradient(weights.last, make_rows(loss, 100, seed=number))
        weights, _ = gradient.step(learner, weights, optimiser, number)
        visited.append(weights.last.astype(np.float64))
    expected = np.average(visited, axis=0, weights=[1, 2, 3, 4, 5])
    np.testing.assert_allclose(weights.averaged, expected, atol=1e-6)


@LOSS
def test_step_leaves_weights_and_optimiser_unchanged(loss: Loss) -> None:
    learner, weights = start_learner(loss)
    optimiser = AdaGrad(np.full(weights.last.shape, 0.5))
    before = weights.last.tobytes(), weights.summed.tobytes(), weights.progress, optimiser.squares.tobytes()
    learner.gradient(weights.last, make_rows(loss, 50)).step(learner, weights, optimiser, 1)
    assert (weights.last.tobytes(), weights.summed.tobytes(), weights.progress, optimiser.squares.tobytes()) == before


@LOSS
def test_gradients_of_parts_add_up_in_the_order_given(loss: Loss) -> None:
    learner, weights = start_learner(loss)
    rows = make_rows(loss, 900)
    parts = [learner.gradient(weights.last, part(rows, *edges)) for edges in [(0, 256), (256, 512), (512, 900)]]
    whole, added = learner.gradient(weights.last, rows), add_gradients(parts)
    np.testing.assert_allclose(added.gradient, whole.gradient, atol=1e-9)
    assert added.gradient.tobytes() == ((parts[0].gradient + parts[1].gradient) + parts[2].gradient).tobytes()
    for counted in ("rows", "updates", "mistakes", "class_counts"):
        assert getattr(added.progress, counted) == getattr(whole.progress, counted)
    assert added.progress.squared_error == pytest.approx(whole.progress.squared_error)
    assert added.target_squares == pytest.approx(float(np.sum(rows.targets**2)))


@LOSS
def test_progress_of_rounds_compares_with_a_naive_baseline(loss: Loss) -> None:
    learner = make_learner(loss)
    weights = learner.start()
    baseline, squared, seen = 0, 0.0, 0
    for number in range(1, 6):
        rows, before = make_rows(loss, 40, seed=number), weights.progress
        if loss.task == "regression":
            squared += mean_squared_errors(before.rows, before.target_sum, rows.targets)
        else:
            baseline += majority_mistakes(loss.task, before.class_counts, rows.targets)
        weights, _ = learner.gradient(weights.last, rows).step(learner, weights, None, number)
        seen += 40
        assert weights.progress.rows == seen
        assert weights.progress.baseline_mistakes == baseline
        assert weights.progress.baseline_squared_error == pytest.approx(squared)
    assert baseline + squared > 0
    if loss.task != "regression":
        assert sum(weights.progress.class_counts) == seen


def test_majority_of_a_tie_is_the_positive_or_the_first_class() -> None:
    for loss, majority in ((Hinge(), 1.0), (MulticlassHinge(), 0.0)):
        learner = make_learner(loss)
        targets = np.array([majority, majority, 2.0 if loss.task == "multiclass" else -1.0])
        gradient = learner.gradient(learner.start().last, Rows(make_rows(loss, 3).inputs, targets))
        weights, _ = gradient.step(learner, learner.start(), None, 1)
        assert weights.progress.baseline_mistakes == 1


@LOSS
def test_no_rows_change_nothing(loss: Loss) -> None:
    learner, weights = start_learner(loss)
    optimiser = AdaGrad.start(*weights.last.shape)
    empty_gradient = learner.gradient(weights.last, part(make_rows(loss, 5), 0, 0))
    assert empty_gradient.step(learner, weights, optimiser, 1) == (weights, optimiser)
    round_start = Weights(weights.last, np.zeros(weights.last.shape), 0, weights.progress)
    assert average_shard_weights(weights, [round_start, round_start]) is weights


@LOSS
def test_mixed_weights_are_the_average_by_rows(loss: Loss) -> None:
    learner, base = start_learner(loss)
    start = Weights(base.last, np.zeros(base.last.shape), 0, base.progress)
    sizes = [300, 40, 120]
    parts = [learner.learn(start, make_rows(loss, size, seed=size)) for size in sizes]
    assert len({one.last.tobytes() for one in parts}) == 3
    mixed = average_shard_weights(base, parts)
    np.testing.assert_allclose(mixed.last, np.average([one.last for one in parts], axis=0, weights=sizes), atol=1e-6)
    np.testing.assert_allclose(mixed.summed, base.summed + np.sum([one.summed for one in parts], axis=0))
    assert mixed.n_sampled == base.n_sampled + sum(one.n_sampled for one in parts)
    assert mixed.progress.rows == base.progress.rows + sum(sizes)
    grown = sum(one.progress.updates - base.progress.updates for one in parts)
    assert mixed.progress.updates == base.progress.updates + grown


@LOSS
def test_mix_of_one_shard_equals_the_shard_weights(loss: Loss) -> None:
    learner, rows = make_learner(loss), make_rows(loss, 500)
    alone = learner.learn(learner.start(), rows)
    mixed = average_shard_weights(learner.start(), [alone])
    assert mixed.last.tobytes() == alone.last.tobytes()
    assert mixed.averaged.tobytes() == alone.averaged.tobytes()
    assert mixed.progress == alone.progress


@LOSS
def test_average_adds_up_in_float64(loss: Loss) -> None:
    learner, weights = start_learner(loss)
    large = Weights((1e35 * weights.last).astype(np.float32), np.zeros(weights.last.shape), 0, weights.progress)
    zero_gradient = PlainGradient(np.zeros(weights.last.shape), replace(weights.progress, rows=1), 0.0)
    stepped, _ = zero_gradient.step(learner, large, None, 10_000)
    np.testing.assert_array_equal(stepped.summed, 10_000 * large.last.astype(np.float64))
    np.testing.assert_array_equal(stepped.averaged, large.last)


def test_step_that_is_not_finite_names_the_step_size() -> None:
    learner, weights = start_learner(ThresholdedHalfSquared())
    gradient = learner.gradient(weights.last, make_rows(learner.loss, 50))
    with pytest.raises(DivergedError, match=r"After 250 rows.*step_size = 1e\+300"):
        gradient.step(replace(learner, step_size=1e300), weights, None, 1)
