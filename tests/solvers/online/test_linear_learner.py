from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from okl.compiled.sgd import LearnerArrays, UpdateRule
from okl.data.execution import Rows
from okl.features.base import FeatureMap
from okl.features.fourier import draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.features.predictors import LinearPredictor, block_of
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.types import FloatArray, Precision
from okl.kernels import Gaussian
from okl.losses import Hinge, Logistic, Loss, MulticlassHinge, ThresholdedHalfSquared
from okl.solvers.online.linear import SAMPLE_EVERY, LinearLearner, Weights
from tests.naive.sgd import learn_block
from tests.solvers.online.cases import LOSS, N_CLASSES, n_outputs_of, noisy_wave, part

ROWS, N_INPUTS = 2300, 5
MAPS = ["fourier", "linear"]


def make_map(kind: str, precision: Precision = "float32") -> FeatureMap:
    if kind == "fourier":
        return draw_fourier_map(Gaussian(1.5), N_INPUTS, 40, 0, precision)
    return StandardisedLinear.of_columns(np.zeros(N_INPUTS), np.ones(N_INPUTS), precision)


def make_rows(loss: Loss, precision: Precision = "float32", rows: int = ROWS) -> Rows:
    return noisy_wave(loss.task, precision, rows, N_INPUTS)


def make_learner(loss: Loss, kind: str = "fourier", precision: Precision = "float32") -> LinearLearner:
    return LinearLearner(make_map(kind, precision), loss, 0.6, n_outputs_of(loss))


def bits(weights: Weights) -> tuple[bytes, bytes, int, object]:
    return weights.last.tobytes(), weights.summed.tobytes(), weights.n_sampled, weights.progress


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kind", MAPS)
@LOSS
def test_one_and_two_threads_give_the_same_bits(loss: Loss, kind: str, precision: Precision) -> None:
    learner, rows = make_learner(loss, kind, precision), make_rows(loss, precision)
    one = learner.learn(learner.start(), rows, 1)
    for n_threads in (2, 3):
        assert bits(learner.learn(learner.start(), rows, n_threads)) == bits(one)
    assert one.last.dtype == precision
    assert 0 < one.progress.error < one.progress.baseline_error


@pytest.mark.parametrize("kind", MAPS)
@LOSS
def test_splitting_rows_at_multiples_of_256_gives_the_same_bits(loss: Loss, kind: str) -> None:
    learner, rows = make_learner(loss, kind), make_rows(loss)
    whole = learner.learn(learner.start(), rows, 2)
    weights = learner.start()
    for first, last in [(0, 256), (256, 1280), (1280, ROWS)]:
        weights = learner.learn(weights, part(rows, first, last), 2)
    assert bits(weights) == bits(whole)


@LOSS
def test_learn_leaves_its_inputs_unchanged(loss: Loss) -> None:
    learner, rows = make_learner(loss), make_rows(loss)
    weights = learner.learn(learner.start(), part(rows, 0, 500))
    before = bits(weights), rows.inputs.tobytes(), rows.targets.tobytes()
    learner.learn(weights, rows, 2)
    learner.gradient(weights.last, rows, 2)
    LinearPredictor(learner.feature_map, weights.last).scores(rows.inputs, 2)
    assert (bits(weights), rows.inputs.tobytes(), rows.targets.tobytes()) == before


@pytest.mark.parametrize("kind", MAPS)
@LOSS
def test_learning_matches_naive_row_by_row(loss: Loss, kind: str) -> None:
    learner = replace(make_learner(loss, kind, "float64"), class_weights=None)
    rows = make_rows(loss, "float64", 700)
    learnt = learner.learn(learner.start(), rows, 2)
    n_labels = len(learnt.progress.class_counts)
    start = learner.start()
    naive = LearnerArrays(start.last, start.summed, np.zeros(5, int), np.zeros(3), np.zeros(n_labels, int))
    epsilon = loss.epsilon if isinstance(loss, ThresholdedHalfSquared) else 0.0
    rule = UpdateRule(loss.code, epsilon, learner.step_size, np.ones(n_labels), SAMPLE_EVERY)
    features = learner.feature_map.transform(rows.inputs)
    learn_block(naive, block_of(features), rows.targets, rule)
    np.testing.assert_allclose(learnt.last, naive.weights, atol=1e-10)
    np.testing.assert_allclose(learnt.averaged, naive.total / naive.counts[4], atol=1e-10)
    progress = learnt.progress
    assert [progress.rows, progress.mistakes, progress.baseline_mistakes, progress.updates] == list(naive.counts[:4])
    np.testing.assert_allclose([progress.squared_error, progress.baseline_squared_error], naive.sums[:2], rtol=1e-9)


def test_average_falls_back_to_the_last_weights_below_16_rows() -> None:
    learner, rows = make_learner(Hinge()), make_rows(Hinge())
    few = learner.learn(learner.start(), part(rows, 0, 15))
    np.testing.assert_array_equal(few.averaged, few.last)
    more = learner.learn(few, part(rows, 15, 40))
    assert (few.n_sampled, more.n_sampled) == (0, 1 + 2)
    assert (more.averaged != more.last).any()
    assert not more.without_average().summed.any()


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), MulticlassHinge()], ids=lambda loss: loss.name)
def test_class_weights_scale_the_steps_of_their_class(loss: Loss) -> None:
    learner, rows = make_learner(loss), make_rows(loss)
    n_classes = N_CLASSES if loss.task == "multiclass" else 2
    none = learner.learn(learner.start(), rows)
    ones = replace(learner, class_weights=(1.0,) * n_classes)
    assert bits(ones.learn(learner.start(), rows)) == bits(none)
    doubled = replace(learner, class_weights=(2.0,) * n_classes).learn(learner.start(), rows)
    assert bits(doubled) == bits(replace(learner, step_size=1.2).learn(learner.start(), rows))
    only_first = replace(learner, class_weights=(1.0,) + (0.0,) * (n_classes - 1)).learn(learner.start(), rows)
    chosen = LinearPredictor(learner.feature_map, only_first.last).scores(rows.inputs)
    favoured = np.argmax(chosen, axis=1) == 0 if loss.task == "multiclass" else chosen < 0
    assert favoured.mean() > 0.8


@pytest.mark.parametrize("kind", MAPS)
@LOSS
def test_gradient_is_that_of_the_losses(loss: Loss, kind: str) -> None:
    learner, rows = make_learner(loss, kind, "float64"), make_rows(loss, "float64", 900)
    weights = learner.learn(learner.start(), part(rows, 0, 300)).last
    features = learner.feature_map.transform(rows.inputs)
    scores = features @ weights.T if loss.task == "multiclass" else features @ weights[0]
    slopes = loss.derivative(scores, rows.targets).reshape(900, -1)
    for n_threads in (1, 2):
        summed = learner.gradient(weights, rows, n_threads)
        np.testing.assert_allclose(summed.gradient, slopes.T @ features, atol=1e-9)
        assert summed.progress.rows == 900
        assert summed.progress.updates == np.count_nonzero((slopes != 0).any(axis=1))
    assert learner.gradient(weights, rows, 1).gradient.tobytes() == summed.gradient.tobytes()


def test_weights_that_are_not_finite_end_in_a_clear_error() -> None:
    loss = ThresholdedHalfSquared()
    learner = replace(make_learner(loss), step_size=50.0)
    rows = make_rows(loss)
    small = replace(learner, step_size=0.1).learn(learner.start(), part(rows, 0, 256))
    with pytest.raises(DivergedError, match=r"Rows 256 to 2,299.*step_size = 50.*such as 5\."):
        learner.learn(small, part(rows, 256, ROWS))


def test_no_rows_change_nothing() -> None:
    learner = make_learner(Hinge())
    weights = learner.learn(learner.start(), part(make_rows(Hinge()), 0, 0), 2)
    assert bits(weights) == bits(learner.start())
    assert np.isnan(weights.progress.error)


def test_read_only_and_strided_arrays_are_allowed() -> None:
    learner, rows = make_learner(Hinge()), make_rows(Hinge())
    expected = learner.learn(learner.start(), rows)
    wide = np.zeros((ROWS, 2 * N_INPUTS))
    wide[:, ::2] = rows.inputs
    targets = rows.targets.copy()
    targets.flags.writeable = wide.flags.writeable = False
    learnt = learner.learn(learner.start(), Rows(wide[:, ::2], targets))
    assert bits(learnt) == bits(expected)
    learnt.last.flags.writeable = False
    scores = [LinearPredictor(learner.feature_map, weights.last) for weights in (learnt, expected)]
    np.testing.assert_array_equal(scores[0].scores(wide[:, ::2]), scores[1].scores(rows.inputs))


def test_progress_of_parts_adds_up() -> None:
    learner, rows = make_learner(Hinge()), make_rows(Hinge())
    first = learner.learn(learner.start(), part(rows, 0, 500))
    both = learner.learn(first, part(rows, 500, ROWS))
    later = both.progress.since(first.progress)
    assert later.rows == ROWS - 500
    assert first.progress.plus(later) == both.progress


def test_a_map_that_fails_in_one_thread_raises_without_deadlock() -> None:
    class Fails:
        n_inputs, n_columns, precision = N_INPUTS, N_INPUTS, "float32"

        def transform(self, inputs: FloatArray) -> FloatArray:
            if inputs[0, 0] == 12345.0:
                raise MemoryError("no room for the features")
            return inputs

    rows = make_rows(Hinge())
    rows.inputs[256, 0] = 12345.0
    learner = LinearLearner(Fails(), Hinge(), 0.5)  # type: ignore[arg-type]
    with pytest.raises(MemoryError, match="no room"):
        learner.learn(learner.start(), rows, 2)


def test_invalid_arguments_are_named() -> None:
    learner, rows = make_learner(Hinge()), make_rows(Hinge())
    many = make_learner(MulticlassHinge())
    with pytest.raises(DataError, match=r"-1 and \+1 in memory, but a target is -?2"):
        learner.learn(learner.start(), Rows(rows.inputs, rows.targets * 2))
    with pytest.raises(DataError, match=r"Classes are 0 to 3 in memory, but a target is -1"):
        many.learn(many.start(), rows)
    with pytest.raises(DataError, match=r"one target for each row"):
        learner.learn(learner.start(), Rows(rows.inputs, rows.targets[:-1]))
    with pytest.raises(DataError, match=r"\(rows, 5\)"):
        learner.learn(learner.start(), Rows(rows.inputs[:, :4], rows.targets))
    with pytest.raises(ConfigError, match="weights have 4 outputs; the learner expects 1"):
        learner.learn(many.start(), rows)
    with pytest.raises(ConfigError, match="do not fit a feature map of 6 columns"):
        make_learner(Hinge(), "linear").learn(learner.start(), rows)
    with pytest.raises(ConfigError, match="step_size = 0"):
        replace(learner, step_size=0.0)
    with pytest.raises(ConfigError, match="3 class weights are set for 2 classes"):
        replace(learner, class_weights=(1.0, 1.0, 1.0))
    with pytest.raises(ConfigError, match="a regression has no classes"):
        replace(make_learner(ThresholdedHalfSquared()), class_weights=(1.0,))
    with pytest.raises(ConfigError, match="n_outputs = 1; expected an integer of at least 2"):
        replace(many, n_outputs=1)
    with pytest.raises(ConfigError, match="has one output"):
        replace(learner, n_outputs=2)
