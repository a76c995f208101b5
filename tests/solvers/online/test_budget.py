"""Kernel learners without a budget: against naive twins, over several blocks and chunks of supports."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from okl.compiled.budget import ADDED, FIRST_FLOAT, NUMBER, SCALE
from okl.data.execution import Rows
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.types import FloatArray, Task
from okl.kernels import CustomKernel, Gaussian, Polynomial
from okl.solvers.online import strategies
from okl.solvers.online.budget import BudgetLearner, BudgetStrategy, GrowingLearner, check_budget
from tests.solvers.online.budget_cases import (
    BUDGET,
    CASES,
    GROWING,
    TOLERANCE,
    bits,
    budget_learner,
    growing_learner,
    precision_of,
    rows_of,
    slots_of,
)
from tests.solvers.online.budget_streams import TASKS, Stream, hard_stream, streams

# Kernel learners without a budget: against naive twins, over several blocks and chunks of supports.

BY_TASK = [(name, task) for name in GROWING for task in TASKS]


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_learner_matches_naive(name: str, task: Task) -> None:
    for stream in streams(task, 130):
        learner = growing_learner(GROWING[name].strategy, stream, precision_of(name))
        slots = slots_of(stream, 10**9)
        results = GROWING[name].twin(slots, stream.inputs, stream.targets)
        state = learner.learn(learner.start(), rows_of(stream))
        mistakes = sum(seen.mistake for seen in results)
        assert state.progress.mistakes == mistakes
        assert state.progress.updates == state.n_supports == len(slots.supports) > 20
        assert task == "regression" or 0.05 < mistakes / len(results) < 0.8
        np.testing.assert_array_equal(state.supports, np.stack(slots.supports))
        values = stream.kernel.matrix(stream.inputs, np.stack(slots.supports))
        expected = values @ np.stack(slots.coefficients)
        scores = learner.predictor(state).scores(stream.inputs).reshape(expected.shape)
        close = TOLERANCE[precision_of(name)] * (1.0 + np.abs(expected).max())
        np.testing.assert_allclose(scores, expected, rtol=0, atol=close)


def test_several_chunks_of_supports_match_naive(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("okl.features.predictors", "okl.solvers.online.budget"):
        monkeypatch.setattr(f"{module}.CHUNK", 64)
    stream = hard_stream("multiclass", n_rows=600)
    for name in ("ogd", "norma-growing"):
        learner = growing_learner(GROWING[name].strategy, stream, precision_of(name))
        slots = slots_of(stream, 10**9)
        GROWING[name].twin(slots, stream.inputs, stream.targets)
        state = learner.learn(learner.start(), rows_of(stream))
        assert state.n_supports > 3 * 64
        np.testing.assert_allclose(
            state.coefficients.T, np.stack(slots.coefficients), rtol=0, atol=TOLERANCE[precision_of(name)]
        )


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_split_at_multiples_of_256_gives_the_same_bits(name: str, task: Task) -> None:
    stream = hard_stream(task, n_rows=1100)
    learner = growing_learner(GROWING[name].strategy, stream, precision_of(name))
    state = learner.start()
    for first, last in ((0, 256), (256, 768), (768, 768), (768, 1100)):
        before = bits(state)
        after = learner.learn(state, rows_of(stream, first, last), 2)
        assert bits(state) == before
        state = pickle.loads(pickle.dumps(after))
    assert bits(state) == bits(learner.learn(learner.start(), rows_of(stream), 1))
    assert state.supports.dtype == state.coefficients.dtype == precision_of(name)


@pytest.mark.parametrize("task", TASKS)
def test_joined_shards_are_the_mean_of_their_functions(task: Task) -> None:
    stream = hard_stream(task)
    for name, case in GROWING.items():
        learner = growing_learner(case.strategy, stream, precision_of(name))
        base = learner.learn(learner.start(), rows_of(stream, 0, 60))
        parts = [learner.learn(learner.shard_start(base), rows_of(stream, *part)) for part in ((60, 120), (120, 300))]
        joined = learner.average_shards(base, parts)
        expected = sum(
            share * learner.predictor(part).scores(stream.inputs)
            for share, part in zip((0.25, 0.75), parts, strict=True)
        )
        np.testing.assert_allclose(
            learner.predictor(joined).scores(stream.inputs), expected, atol=1e-2 * TOLERANCE[precision_of(name)]
        )
        assert joined.progress.rows == 300
        assert bits(learner.average_shards(base, [base, base])) == bits(base)


def test_unsupported_combinations_are_named() -> None:
    stream = hard_stream("regression")
    with pytest.raises(ConfigError, match="'mine' is a Python function, but learners with support vectors"):
        GrowingLearner(CustomKernel("mine", lambda left, right: left @ right.T), strategies.Perceptron(), "binary", 3)
    with pytest.raises(ConfigError, match="n_outputs = 1"):
        GrowingLearner(Gaussian(1.0), strategies.Perceptron(), "multiclass", 3)
    with pytest.raises(ConfigError, match="step_size"):
        strategies.OnlineGradientDescent(0.0)
    learner = growing_learner(strategies.OnlineGradientDescent(1e200), stream)
    with pytest.raises(DivergedError, match="Use a smaller step_size"):
        learner.learn(learner.start(), rows_of(stream))


# Averages of shards, and invalid input of learners with a budget.

STRATEGIES_BY_TASK = [(name, task) for name, case in CASES.items() for task in case.strategy.tasks]
PARTS = ((60, 120), (120, 300))


def scores(learner: BudgetLearner, state: object, stream: Stream) -> FloatArray:
    return learner.predictor(state).scores(stream.inputs)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "task"), STRATEGIES_BY_TASK)
def test_within_the_budget_joined_shards_are_the_mean_of_their_functions(name: str, task: Task) -> None:
    stream = hard_stream(task)
    learner = budget_learner(CASES[name].strategy, stream, 400)
    base = learner.learn(learner.start(), rows_of(stream, 0, 60))
    parts = [learner.learn(learner.shard_start(base), rows_of(stream, *part)) for part in PARTS]
    joined = learner.average_shards(base, parts)
    expected = 0.25 * scores(learner, parts[0], stream) + 0.75 * scores(learner, parts[1], stream)
    np.testing.assert_allclose(scores(learner, joined, stream), expected, rtol=1e-6, atol=1e-6)
    assert joined.n_supports == base.n_supports + sum(part.n_supports - base.n_supports for part in parts)
    assert joined.progress == parts[0].progress.plus(parts[1].progress.since(base.progress))
    assert bits(learner.average_shards(base, [base, base])) == bits(base)


@pytest.mark.parametrize(("name", "task"), STRATEGIES_BY_TASK)
def test_joined_shards_meet_the_budget_and_continue_to_learn(name: str, task: Task) -> None:
    stream = hard_stream(task)
    learner = budget_learner(CASES[name].strategy, stream, BUDGET)
    base = learner.learn(learner.start(), rows_of(stream, 0, 60))
    parts = [learner.learn(learner.shard_start(base), rows_of(stream, *part)) for part in PARTS]
    before = [bits(state) for state in (base, *parts)]
    joined = learner.average_shards(base, parts)
    assert bits(joined) == bits(learner.average_shards(base, parts))
    assert [bits(state) for state in (base, *parts)] == before
    assert joined.n_supports == BUDGET
    assert joined.supports.shape == base.supports.shape
    assert joined.memory.shape == base.memory.shape
    assert not joined.supports[:, BUDGET:].any()
    assert not joined.coefficients[:, BUDGET:].any()
    assert np.isfinite(joined.coefficients).all()
    numbers = joined.marks[NUMBER, :BUDGET]
    assert len(set(numbers.tolist())) == BUDGET
    assert numbers.max() < joined.integers[ADDED]
    after = learner.learn(joined, rows_of(stream))
    assert (after.n_supports, after.progress.rows) == (BUDGET, 600)


def test_strategies_of_age_keep_the_newest_of_the_union() -> None:
    stream = hard_stream("binary")
    for name in ("forgetron-plain", "norma", "bogd-oldest"):
        learner = budget_learner(CASES[name].strategy, stream, 20)
        base = learner.learn(learner.start(), rows_of(stream, 0, 60))
        parts = [learner.learn(base, rows_of(stream, *part)) for part in ((60, 110), (110, 160))]
        joined = learner.average_shards(base, parts)
        newest = {row.tobytes() for part in parts for row in part.rows[np.argsort(part.marks[NUMBER, :20])[-5:]]}
        assert newest <= {row.tobytes() for row in joined.rows}


@pytest.mark.parametrize("strategy", [strategies.BPASimple(0.5), strategies.BSGDRemoval(0.1)])
def test_of_supports_with_equal_weights_the_oldest_are_removed(strategy: BudgetStrategy) -> None:
    stream = hard_stream("binary", n_rows=8)
    distant_rows = stream._replace(inputs=1e3 * np.arange(8.0)[:, None] * np.ones(3))  # all kernel values are 0
    states = []
    for budget in (8, 4):
        learner = budget_learner(strategy, distant_rows, budget)
        base = learner.start()
        parts = [learner.learn(learner.shard_start(base), rows_of(distant_rows, *part)) for part in ((0, 4), (4, 8))]
        states.append(learner.average_shards(base, parts))
    every, some = states
    assert len(np.unique(np.abs(every.scaled_coefficients[:, :8]))) == 1
    order = np.argsort(every.marks[NUMBER, :8])
    assert {row.tobytes() for row in some.rows} == {row.tobytes() for row in every.rows[order[4:]]}


@pytest.mark.parametrize("rescale", [False, True])
def test_remaining_supports_are_rescaled_only_on_request(rescale: bool) -> None:
    stream = hard_stream("binary")
    learner = budget_learner(strategies.BoundedGradientDescent(0.3, 0.01, rescale=rescale), stream)
    base = learner.start()
    parts = [learner.learn(learner.shard_start(base), rows_of(stream, *part)) for part in ((0, 60), (60, 240))]
    joined = learner.average_shards(base, parts)
    shares = {
        row.tobytes(): share * coefficient * part.floats[SCALE]
        for share, part in zip((0.25, 0.75), parts, strict=True)
        for row, coefficient in zip(part.rows, part.coefficients[0], strict=False)
    }
    assert len(shares) == 2 * BUDGET == 2 * joined.n_supports
    growth = len(shares) / BUDGET if rescale else 1.0
    stayed = [growth * shares[row.tobytes()] for row in joined.rows]
    np.testing.assert_allclose(joined.coefficients[0, :BUDGET] * joined.floats[SCALE], stayed, rtol=1e-6)


@pytest.mark.parametrize("name", ["budget-perceptron", "bogd++"])
def test_memory_of_joined_shards_is_that_of_their_supports(name: str) -> None:
    stream = hard_stream("multiclass")
    learner = budget_learner(CASES[name].strategy, stream)
    base = learner.learn(learner.start(), rows_of(stream, 0, 60))
    joined = learner.average_shards(base, [learner.learn(base, rows_of(stream, *part)) for part in PARTS])
    if name == "budget-perceptron":
        expected = learner.predictor(joined).scores(joined.rows).T
        np.testing.assert_allclose(joined.memory[:4, :BUDGET], expected, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(joined.memory[4, :BUDGET], 1.0)
    else:
        np.testing.assert_array_equal(joined.memory[0, :BUDGET], 1.0)


def test_forgetron_respects_the_bound_of_its_removal_cost() -> None:
    for task in TASKS:
        stream = hard_stream(task, n_rows=800)
        learner = budget_learner(strategies.Forgetron(), stream, 8)
        state = learner.learn(learner.start(), rows_of(stream))
        cost, mistakes = state.floats[FIRST_FLOAT : FIRST_FLOAT + 2]
        assert 0.9 * 15 / 32 * mistakes < cost <= 15 / 32 * mistakes * (1 + 1e-12)
        assert mistakes == state.progress.updates


def test_removal_that_is_unbiased_keeps_f_on_average() -> None:
    stream = hard_stream("binary")
    unbiased = (
        strategies.BoundedGradientDescent(0.3, 0.0, rescale=True),
        strategies.SampledGradientDescent(0.3, 0.0, None),
    )
    for strategy in unbiased:
        unbounded = budget_learner(strategy, stream, 400)
        before = unbounded.learn(unbounded.start(), rows_of(stream, 0, 40))
        n_supports = before.n_supports
        assert n_supports > 20
        learners = [
            BudgetLearner(stream.kernel, strategy, "binary", 3, n_supports, precision="float32", seed=seed)
            for seed in range(400)
        ]
        row = Rows(stream.inputs[40:41], -np.sign(scores(unbounded, before, stream)[40:41]))
        expected = scores(unbounded, unbounded.learn(before, row), stream)
        starts = [learner.learn(learner.start(), rows_of(stream, 0, 40)) for learner in learners]
        after = [scores(x, x.learn(s, row), stream) for x, s in zip(learners, starts, strict=True)]
        error = np.abs(np.mean(after, axis=0) - expected)
        assert (error <= 4.5 * np.std(after, axis=0) / np.sqrt(400) + 1e-12).all()
        assert np.std(after, axis=0).max() > 1e-3


def test_invalid_sizes_are_named() -> None:
    rbp, kernel = strategies.RandomizedBudgetPerceptron(), Gaussian(1.0)
    with pytest.raises(ConfigError, match="budget = 0"):
        BudgetLearner(kernel, rbp, "binary", 3, 0)
    with pytest.raises(ConfigError, match=r"budget = 1,001 is more than the 1,000 training rows"):
        check_budget(1001, 1000)
    check_budget(1000, 1000)
    with pytest.raises(ConfigError, match="n_inputs = 0"):
        BudgetLearner(kernel, rbp, "binary", 0, 10)
    with pytest.raises(ConfigError, match="a binary task has one output"):
        BudgetLearner(kernel, rbp, "binary", 3, 10, 2)
    with pytest.raises(ConfigError, match="epsilon = -1"):
        BudgetLearner(kernel, rbp, "regression", 3, 10, epsilon=-1.0)
    with pytest.raises(ConfigError, match="budget-perceptron is not defined for a regression task"):
        BudgetLearner(kernel, strategies.BudgetPerceptron(), "regression", 3, 10)
    own = CustomKernel("mine", lambda left, right: left @ right.T)
    with pytest.raises(ConfigError, match=r"'mine' is a Python function.*Use NOGD"):
        BudgetLearner(own, rbp, "binary", 3, 10)


def test_invalid_numbers_are_named() -> None:
    for strategy in (
        strategies.RandomizedBudgetPerceptron,
        strategies.Forgetron,
        strategies.BudgetPerceptron,
        strategies.SampledGradientDescent,
        strategies.Norma,
    ):
        with pytest.raises(ConfigError, match="step_size = -1"):
            strategy(-1.0)
    with pytest.raises(ConfigError, match=r"whose product with step_size = 0\.5 is below 1"):
        strategies.BoundedGradientDescent(0.5, 2.0)
    with pytest.raises(ConfigError, match="largest = 0"):
        strategies.BoundedGradientDescent(largest=0.0)
    with pytest.raises(ConfigError, match="removal = 'newest'"):
        strategies.BoundedGradientDescent(removal="newest")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="regularisation = -1"):
        strategies.Norma(regularisation=-1.0)
    with pytest.raises(ConfigError, match=r"nu = 1.0; expected a share"):
        strategies.Norma(nu=1.0)
    with pytest.raises(ConfigError, match="margin = nan"):
        strategies.Norma(margin=float("nan"))
    with pytest.raises(ConfigError, match="margin = -1"):
        strategies.BudgetPerceptron(margin=-1.0)


def test_rows_that_do_not_fit_and_steps_that_diverge_are_named() -> None:
    stream = hard_stream("regression")
    learner = budget_learner(CASES["bogd"].strategy, stream)
    with pytest.raises(DataError, match=r"\(rows, 3\)"):
        learner.learn(learner.start(), Rows(stream.inputs[:, :2], stream.targets))
    smooth = stream._replace(kernel=Gaussian(20.0))
    diverging = budget_learner(strategies.BoundedGradientDescent(5.0, 0.0), smooth, precision="float32")
    with pytest.raises(DivergedError, match=r"Rows 0 to 299: .*step_size=5\.0.*Use a smaller step_size"):
        diverging.learn(diverging.start(), rows_of(stream))
    overflowing = BudgetLearner(Polynomial(9, 1e5), strategies.RandomizedBudgetPerceptron(), "regression", 3, 10)
    with pytest.raises(DivergedError, match="a kernel with smaller values"):
        overflowing.learn(overflowing.start(), rows_of(stream))
