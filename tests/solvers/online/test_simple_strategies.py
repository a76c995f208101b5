"""Strategies of simple removal: each against its naive twin, on hard streams."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from okl.compiled.budget import COUNT, LEAST_SCALE, NUMBER, SCALE
from okl.foundation.types import Task
from okl.kernels import Gaussian, Linear
from okl.solvers.online.budget import BudgetLearner, BudgetState
from okl.solvers.online.strategies import Norma
from tests.naive.budget import norma
from tests.solvers.online.budget_cases import (
    BUDGET,
    CASES,
    TOLERANCE,
    bits,
    budget_learner,
    rows_of,
    slots_of,
)
from tests.solvers.online.budget_streams import Stream, hard_stream, streams

BY_TASK = [(name, task) for name, case in CASES.items() for task in case.strategy.tasks]


def learner_of(name: str, stream: Stream, budget: int = BUDGET) -> BudgetLearner:
    return budget_learner(CASES[name].strategy, stream, budget)


def learn(learner: BudgetLearner, stream: Stream) -> BudgetState:
    return learner.learn(learner.start(), rows_of(stream))


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_learner_matches_naive(name: str, task: Task) -> None:
    for stream in streams(task, 130):
        learner = learner_of(name, stream)
        slots = slots_of(stream, BUDGET, learner.start())
        results = CASES[name].twin(slots, stream.inputs, stream.targets)
        state = learn(learner, stream)
        mistakes = sum(seen.mistake for seen in results)
        assert (state.progress.rows, state.progress.mistakes) == (len(results), mistakes)
        assert state.n_supports == len(slots.supports) == BUDGET
        assert state.progress.updates > 2 * BUDGET
        assert task == "regression" or 0.05 < mistakes / len(results) < 0.8
        close = TOLERANCE["float32"]
        if task == "regression":
            squares = sum((y - seen.scores[0]) ** 2 for y, seen in zip(stream.targets, results, strict=True))
            assert state.progress.squared_error == pytest.approx(squares, rel=10 * close)
        values = stream.kernel.matrix(stream.inputs, np.stack(slots.supports))
        expected = values @ np.stack(slots.coefficients)
        scores = learner.predictor(state).scores(stream.inputs).reshape(expected.shape)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=close * (1.0 + np.abs(expected).max()))


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_budget_is_met_and_never_exceeded(name: str, task: Task) -> None:
    stream = hard_stream(task)
    for budget in (1, 2, 16, 17, 1000):
        state = learn(learner_of(name, stream, budget), stream)
        assert state.n_supports == min(budget, state.progress.updates)
        assert not state.supports[:, state.n_supports :].any()
        assert not state.coefficients[:, state.n_supports :].any()
        assert len(set(state.marks[NUMBER, : state.n_supports].tolist())) == state.n_supports


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_any_split_into_calls_gives_the_same_bits_and_leaves_states_unchanged(name: str, task: Task) -> None:
    stream = hard_stream(task)
    learner = learner_of(name, stream)
    state = learner.start()
    for first, last in ((0, 1), (1, 37), (37, 37), (37, 38), (38, 300)):
        before = bits(state)
        after = learner.learn(state, rows_of(stream, first, last), 2)
        assert bits(state) == before
        state = pickle.loads(pickle.dumps(after))
    assert bits(state) == bits(learn(learner, stream))
    assert state.supports.dtype == learner.predictor(state).scores(stream.inputs).dtype == "float32"


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_equal_rows_are_allowed(name: str, task: Task) -> None:
    stream = hard_stream(task)
    same = stream._replace(inputs=np.zeros_like(stream.inputs))
    for kernel in (Gaussian(1.0), Linear()):  # all kernel values 1, all 0
        state = learn(learner_of(name, same._replace(kernel=kernel)), same)
        assert state.integers[COUNT] <= BUDGET
        assert np.isfinite(state.coefficients).all()


def test_a_class_that_never_appears_changes_nothing() -> None:
    stream = hard_stream("multiclass")
    for name, case in CASES.items():
        if "multiclass" not in case.strategy.tasks:
            continue
        learner = learner_of(name, stream)
        rows = rows_of(stream)
        few = learner.learn(learner.start(), rows._replace(targets=np.minimum(rows.targets, 2.0)))
        assert few.progress.class_counts[3] == 0
        assert learner.predictor(few).scores(stream.inputs).shape == (300, 4)


def test_the_seed_determines_the_draws() -> None:
    stream = hard_stream("binary")
    for name in ("rbp", "bogd", "bogd++"):
        learners = [
            BudgetLearner(stream.kernel, CASES[name].strategy, "binary", 3, BUDGET, precision="float32", seed=seed)
            for seed in (0, 0, 1)
        ]
        first, again, other = (bits(learn(learner, stream)) for learner in learners)
        assert first == again
        assert first != other


def test_decay_keeps_precision_over_many_rows() -> None:
    stream = hard_stream("binary", n_rows=600)
    learner = budget_learner(Norma(0.3, 0.2, None, 0.7), stream, 400)
    slots = slots_of(stream, 400)
    norma(slots, stream.inputs, stream.targets, 0.7, 0.3, 0.2, None)
    state = learn(learner, stream)
    decay = (1.0 - 0.3 * 0.2) ** 600
    assert LEAST_SCALE**3 < decay < LEAST_SCALE**2  # the scale was folded into the coefficients twice
    assert state.floats[SCALE] == pytest.approx(decay / LEAST_SCALE**2, rel=0.5)
    np.testing.assert_allclose(state.scaled_coefficients[0], np.array(slots.coefficients)[:, 0], rtol=1e-6)
