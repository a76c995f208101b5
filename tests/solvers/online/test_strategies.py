"""The twin vector machine: against its naive twin, duality, and averages of shards and twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from okl.compiled import budget_maintenance
from okl.compiled.budget import LABEL, NUMBER
from okl.compiled.budget_maintenance import KERNEL, NEGATIVE, POSITIVE, SCORES, SOLUTION, best_coefficient, solve_twins
from okl.compiled.kernels import LANES
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian, Kernel, Linear
from okl.solvers.online.budget import BudgetLearner, BudgetState
from okl.solvers.online.strategies import TwinVectors
from tests.naive.tvm import Twins, staircase
from tests.solvers.online.budget_cases import bits, budget_learner, rows_of
from tests.solvers.online.budget_streams import Stream, hard_stream, streams

BUDGET = 12


def learner_of(stream: Stream, budget: int = BUDGET, **numbers: Any) -> BudgetLearner:
    """Return a float32 learner; twins, their kernel and its solution are float64 in any precision."""
    return budget_learner(TwinVectors(**numbers), stream, budget)


def learn(learner: BudgetLearner, stream: Stream) -> BudgetState:
    return learner.learn(learner.start(), rows_of(stream))


def counts_of(state: BudgetState) -> FloatArray:
    """Return the counts (2, n_supports) of positive and negative rows."""
    return state.memory[:2, : state.n_supports]


def gap_of(learner: BudgetLearner, state: BudgetState) -> tuple[float, float]:
    """Return primal and dual objective of f on the twins."""
    penalty = learner.strategy.aggressiveness  # type: ignore[attr-defined]
    a, (high, low) = state.scaled_coefficients[0], penalty * counts_of(state)
    assert (a <= high * (1 + 1e-6)).all()
    assert (-a <= low * (1 + 1e-6)).all()
    f = learner.kernel.matrix(state.rows, state.rows).astype(np.float64) @ a
    primal = 0.5 * a @ f + high @ np.maximum(0, 1 - f) + low @ np.maximum(0, 1 + f)
    # the two largest coefficients of a twin with difference a
    pairs = np.where(a >= high - low, 2 * high - a, 2 * low + a)
    return float(primal), float(pairs.sum() - 0.5 * a @ f)


@pytest.mark.parametrize("numbers", [{}, {"aggressiveness": 5.0, "unlike": 1.0, "tolerance": 1e-3, "sweeps": 4}])
def test_learner_matches_naive(numbers: dict[str, Any]) -> None:
    for stream in streams("binary", 130):
        learner = learner_of(stream, **numbers)
        twins = Twins(stream.kernel, "binary", 1, BUDGET)
        results = twins.learn(stream.inputs, stream.targets, **numbers)
        state = learn(learner, stream)
        mistakes = sum(seen.mistake for seen in results)
        assert (state.progress.rows, state.progress.mistakes) == (len(results), mistakes)
        assert 0.05 < mistakes / len(results) < 0.5
        assert state.n_supports == len(twins.supports) == BUDGET
        assert state.progress.updates > 4 * BUDGET
        np.testing.assert_array_equal(counts_of(state).T, twins.counts)
        np.testing.assert_allclose(state.rows, twins.supports, rtol=1e-5, atol=1e-6)
        expected = np.stack([twins.scores(x) for x in stream.inputs])[:, 0]
        scores = learner.predictor(state).scores(stream.inputs)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * (1 + np.abs(expected).max()))


def test_streams_exercise_every_kind_of_budget_maintenance() -> None:
    learnt = [learn(learner_of(stream), stream) for stream in streams("binary")]
    mixed = [(counts_of(state) > 0).all(axis=0).sum() for state in learnt]
    kept = [counts_of(state).sum() for state in learnt]
    assert max(mixed) > 0
    assert min(mixed) == 0
    # rows of removed twins are lost, those of merged twins are not
    assert any(BUDGET < rows < state.progress.updates for rows, state in zip(kept, learnt, strict=True))


def test_coefficient_of_a_twin_agrees_with_the_score_it_leads_to() -> None:
    rng = np.random.default_rng(0)
    for others, own, low, high in rng.uniform([-4, 0.1, -3, 0], [4, 2, 0, 3], (300, 4)):
        a = staircase(others, own, low, high)
        assert best_coefficient(others, own, low, high) == pytest.approx(a, rel=1e-12, abs=1e-12)
        f = others + own * a
        least, most = (low, low) if f > 1 + 1e-9 else (low, low + high) if f > 1 - 1e-9 else (low + high,) * 2
        if f < -1 + 1e-9:
            least, most = (low + high, high) if f > -1 - 1e-9 else (high, high)
        assert least - 1e-9 <= a <= most + 1e-9


@pytest.mark.parametrize("own", [0.01, 100.0])
def test_descent_ends_at_constant_scores_for_kernel_values_of_any_size(own: float) -> None:
    tolerance, memory = 1e-3, np.zeros((KERNEL + LANES, LANES))
    memory[KERNEL : KERNEL + 3, :3] = own * (0.9 + 0.1 * np.eye(3))
    memory[POSITIVE, :3], memory[NEGATIVE, :3] = [4.0, 0.0, 2.0], [1.0, 3.0, 0.0]
    penalty = 10.0 / own
    solve_twins(memory, budget_maintenance.Twins(penalty, tolerance, 10_000.0, 1.0), 3)
    a, scores = memory[SOLUTION, :3].copy(), memory[SCORES, :3].copy()
    np.testing.assert_allclose(scores, memory[KERNEL : KERNEL + 3, :3] @ a, rtol=1e-9, atol=1e-12)
    assert np.abs(a).max() > 0.0
    for i in range(3):
        low, high = -penalty * memory[NEGATIVE, i], penalty * memory[POSITIVE, i]
        assert own * abs(staircase(scores[i] - own * a[i], own, low, high) - a[i]) <= 2 * tolerance


@pytest.mark.parametrize("aggressiveness", [0.3, 3.0])
def test_f_is_optimal_on_its_twins(aggressiveness: float) -> None:
    for stream in streams("binary"):
        exact = learner_of(stream, aggressiveness=aggressiveness, tolerance=1e-9, sweeps=3000)
        primal, dual = gap_of(exact, learn(exact, stream))
        assert primal == pytest.approx(dual, rel=1e-5)
        rough = learner_of(stream, aggressiveness=aggressiveness)
        primal, dual = gap_of(rough, learn(rough, stream))
        assert -1e-9 * primal <= primal - dual < 0.25 * primal


def test_a_row_equal_to_a_support_joins_its_twin() -> None:
    inputs = np.repeat(np.eye(3), 20, axis=0)
    targets = np.tile([1.0, 1.0, 1.0, -1.0], 15)
    stream = Stream(inputs, targets, Gaussian(0.5), "binary")
    # each location always violates the margin, because its labels disagree
    state = learn(learner_of(stream, 3, aggressiveness=0.01), stream)
    assert state.progress.updates == 60
    np.testing.assert_array_equal(np.sort(state.rows, axis=0), np.sort(np.eye(3), axis=0))
    np.testing.assert_array_equal(counts_of(state), [[15.0] * 3, [5.0] * 3])
    assert set(state.marks[LABEL, :3].tolist()) == {1}


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Linear()])
def test_equal_rows_are_allowed(kernel: Kernel) -> None:
    stream = hard_stream("binary")
    same = stream._replace(inputs=np.zeros_like(stream.inputs), kernel=kernel)
    state = learn(learner_of(same), same)
    assert np.isfinite(state.memory).all()
    assert state.n_supports == (BUDGET if isinstance(kernel, Gaussian) else 0)


def test_twins_that_merge_at_zero_are_allowed() -> None:
    # x and -x have the mean 0, whose linear kernel values are all 0
    inputs = np.array([[1.0], [-1.0]] * 20)
    stream = Stream(inputs, np.ones(40), Linear(), "binary")
    state = learn(learner_of(stream, 1), stream)
    assert counts_of(state).sum() == state.progress.updates > 20
    assert np.isfinite(state.coefficients).all()


def test_any_split_into_calls_gives_the_same_bits_and_leaves_states_unchanged() -> None:
    stream = hard_stream("binary")
    learner = learner_of(stream)
    state = learner.start()
    for first, last in ((0, 1), (1, 37), (37, 37), (37, 38), (38, 300)):
        before = bits(state)
        after = learner.learn(state, rows_of(stream, first, last), 2)
        assert bits(state) == before
        state = after
    assert bits(state) == bits(learn(learner, stream))


def test_budget_is_met_and_unused_columns_are_zero() -> None:
    stream = hard_stream("binary")
    for budget in (1, 2, 16, 17, 1000):
        learner = learner_of(stream, budget)
        state = learn(learner, stream)
        n = state.n_supports
        assert n == min(budget, state.progress.updates)
        assert not state.supports[:, n:].any()
        assert not state.coefficients[:, n:].any()
        assert not state.memory[:3, n:].any()
        kernel = state.memory[5:]
        expected = stream.kernel.matrix(state.rows, state.rows)  # less exact for distant rows
        np.testing.assert_allclose(kernel[:n, :n], expected, rtol=0, atol=1e-7)
        assert not kernel[n:].any()
        assert not kernel[:, n:].any()
        assert len(set(state.marks[NUMBER, :n].tolist())) == n


@pytest.mark.parametrize("budget", [BUDGET, 400])
def test_joined_shards_represent_the_rows_of_all(budget: int) -> None:
    stream = hard_stream("binary")
    learner = learner_of(stream, budget, tolerance=1e-6, sweeps=2000)
    base = learner.learn(learner.start(), rows_of(stream, 0, 60))
    parts = [learner.learn(learner.shard_start(base), rows_of(stream, *part)) for part in ((60, 150), (150, 300))]
    before = [bits(state) for state in (base, *parts)]
    joined = learner.average_shards(base, parts)
    assert [bits(state) for state in (base, *parts)] == before
    assert bits(joined) == bits(learner.average_shards(base, parts))
    assert (joined.supports.shape, joined.memory.shape) == (base.supports.shape, base.memory.shape)
    assert joined.progress.rows == 300
    primal, dual = gap_of(learner, joined)
    assert primal == pytest.approx(dual, rel=1e-4)
    sums = [counts_of(state).sum(axis=1) for state in (base, *parts, joined)]
    if budget == 400:
        assert joined.n_supports == sum(part.n_supports for part in parts) - base.n_supports
        np.testing.assert_array_equal(sums[3], sums[1] + sums[2] - sums[0])
    else:
        assert joined.n_supports == budget
        assert (sums[3] <= np.maximum(sums[1] + sums[2] - sums[0], np.maximum(sums[1], sums[2])) + 1e-9).all()
    after = learner.learn(joined, rows_of(stream))
    assert after.progress.rows == 600
    assert after.progress.error < 0.4


def test_joining_one_shard_changes_only_the_accuracy_of_f() -> None:
    stream = hard_stream("binary")
    learner = learner_of(stream)
    base = learner.learn(learner.start(), rows_of(stream, 0, 60))
    part = learner.learn(base, rows_of(stream, 60, 300))
    joined = learner.average_shards(base, [part])
    order = np.argsort(part.marks[NUMBER, :BUDGET])
    np.testing.assert_array_equal(joined.rows, part.rows[order])
    np.testing.assert_array_equal(counts_of(joined), counts_of(part)[:, order])
    assert gap_of(learner, joined)[1] >= gap_of(learner, part)[1]


def test_counts_do_not_pile_up_over_rounds() -> None:
    # the rows of base are in each of four shards, but are counted once
    stream = hard_stream("binary", n_rows=600)
    learner = learner_of(stream)
    state = learner.start()
    for start in range(0, 600, 40):
        pieces = [rows_of(stream, first, first + 10) for first in range(start, start + 40, 10)]
        state = learner.average_shards(state, [learner.learn(state, piece) for piece in pieces])
    assert BUDGET < counts_of(state).sum() <= state.progress.updates
    assert state.progress.error < 0.4


def test_unsupported_options_are_named() -> None:
    for task in ("multiclass", "regression"):
        with pytest.raises(ConfigError, match=f"tvm is not defined for a {task} task"):
            budget_learner(TwinVectors(), hard_stream(task))
    for name in ("aggressiveness", "unlike", "tolerance"):
        for value in (0.0, -1.0, float("nan")):
            with pytest.raises(ConfigError, match=name):
                TwinVectors(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"in \(0, 1\)"):
        TwinVectors(tolerance=1.0)
    with pytest.raises(ConfigError, match="sweeps = 0"):
        TwinVectors(sweeps=0)
