"""Laws of kernel learners without a budget: against slow twins, over several blocks and chunks of supports."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from okl.errors import ConfigError, DivergedError
from okl.kernels import CustomKernel, Gaussian
from okl.online.budget import GrowingLearner, OnlineGradientDescent, Perceptron
from okl.types import Precision, Task
from tests.online.budget.cases import GROWING, bits, growing_learner, rows_of, slots_of
from tests.online.budget.streams import TASKS, hard_stream, streams

BY_TASK = [(name, task) for name in GROWING for task in TASKS]


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_learner_matches_naive(name: str, task: Task) -> None:
    for stream in streams(task):
        learner = growing_learner(GROWING[name].strategy, stream)
        slots = slots_of(stream, 10**9)
        judged = GROWING[name].twin(slots, stream.inputs, stream.targets)
        state = learner.learn(learner.start(), rows_of(stream))
        mistakes = sum(seen.mistake for seen in judged)
        assert state.progress.mistakes == mistakes
        assert state.progress.updates == state.n_supports == len(slots.supports) > 20
        assert task == "regression" or 0.05 < mistakes / len(judged) < 0.8
        np.testing.assert_array_equal(state.supports, np.stack(slots.supports))
        expected = np.stack([slots.scores(x) for x in stream.inputs])
        scores = learner.predictor(state).scores(stream.inputs).reshape(expected.shape)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10 * (1.0 + np.abs(expected).max()))


def test_several_chunks_of_supports_match_naive(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("okl.expansions", "okl.online.budget.growing"):
        monkeypatch.setattr(f"{module}.CHUNK", 64)
    stream = hard_stream("multiclass", n_rows=600)
    for name in ("ogd", "norma-growing"):
        learner = growing_learner(GROWING[name].strategy, stream)
        slots = slots_of(stream, 10**9)
        GROWING[name].twin(slots, stream.inputs, stream.targets)
        state = learner.learn(learner.start(), rows_of(stream))
        assert state.n_supports > 3 * 64
        np.testing.assert_allclose(state.coefficients.T, np.stack(slots.coefficients), rtol=0, atol=1e-10)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_split_at_multiples_of_256_gives_the_same_bits(name: str, task: Task, precision: Precision) -> None:
    stream = hard_stream(task, n_rows=1100)
    learner = growing_learner(GROWING[name].strategy, stream, precision)
    state = learner.start()
    for first, last in ((0, 256), (256, 768), (768, 768), (768, 1100)):
        before = bits(state)
        after = learner.learn(state, rows_of(stream, first, last), 2)
        assert bits(state) == before
        state = pickle.loads(pickle.dumps(after))
    assert bits(state) == bits(learner.learn(learner.start(), rows_of(stream), 1))
    assert state.supports.dtype == state.coefficients.dtype == precision


@pytest.mark.parametrize("task", TASKS)
def test_joined_shards_are_the_mean_of_their_functions(task: Task) -> None:
    stream = hard_stream(task)
    for case in GROWING.values():
        learner = growing_learner(case.strategy, stream)
        base = learner.learn(learner.start(), rows_of(stream, 0, 60))
        parts = [learner.learn(learner.fork(base), rows_of(stream, *part)) for part in ((60, 120), (120, 300))]
        joined = learner.join(base, parts)
        expected = sum(
            share * learner.predictor(part).scores(stream.inputs)
            for share, part in zip((0.25, 0.75), parts, strict=True)
        )
        np.testing.assert_allclose(learner.predictor(joined).scores(stream.inputs), expected, atol=1e-12)
        assert joined.progress.rows == 300
        assert bits(learner.join(base, [base, base])) == bits(base)


def test_what_cannot_work_is_named() -> None:
    stream = hard_stream("regression")
    with pytest.raises(ConfigError, match="'mine' is a function of your own, but learners with support vectors"):
        GrowingLearner(CustomKernel("mine", lambda left, right: left @ right.T), Perceptron(), "binary", 3)
    with pytest.raises(ConfigError, match="n_outputs = 1"):
        GrowingLearner(Gaussian(1.0), Perceptron(), "multiclass", 3)
    with pytest.raises(ConfigError, match="step_size"):
        OnlineGradientDescent(0.0)
    learner = growing_learner(OnlineGradientDescent(1e200), stream)
    with pytest.raises(DivergedError, match="Use a smaller step_size"):
        learner.learn(learner.start(), rows_of(stream))
