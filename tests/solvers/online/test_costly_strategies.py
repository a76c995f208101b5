"""Strategies whose budget maintenance costs more than a removal: each against its naive twin, on hard streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from okl.compiled.budget import NUMBER, SCALE
from okl.data.execution import Rows
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision, Task
from okl.kernels import Gaussian, Laplacian, Polynomial
from okl.solvers.online.budget import BudgetLearner, BudgetState, BudgetStrategy
from okl.solvers.online.strategies import (
    BPANearest,
    BPAProjection,
    BPASimple,
    BSGDMerging,
    BSGDRemoval,
    Projectron,
    ProjectronPlus,
)
from tests.naive.bpa import bpa
from tests.naive.bsgd import bsgd
from tests.naive.expansion import Expansion, RowResult
from tests.naive.longdouble import mistakes_in_long_double
from tests.naive.projectron import projectron
from tests.solvers.online.budget_streams import N_OUTPUTS, Stream, hard_stream, streams

BUDGET = 12
Twin = Callable[[Expansion, FloatArray, FloatArray], list[RowResult]]


class Case(NamedTuple):
    strategy: BudgetStrategy
    twin: Twin


CASES: dict[str, Case] = {
    "projectron": Case(Projectron(0.7), lambda e, x, y: projectron(e, x, y, False, 0.7, 0.1, 1e-10)),
    "projectron++": Case(ProjectronPlus(), lambda e, x, y: projectron(e, x, y, True, 1.0, 0.1, 1e-10)),
    "bpa-s": Case(BPASimple(0.8), lambda e, x, y: bpa(e, x, y, 0.8, "simple")),
    "bpa-nn": Case(BPANearest(0.8), lambda e, x, y: bpa(e, x, y, 0.8, "nearest")),
    "bpa-p": Case(BPAProjection(0.8), lambda e, x, y: bpa(e, x, y, 0.8, "projection")),
    "bsgd-removal": Case(BSGDRemoval(0.01), lambda e, x, y: bsgd(e, x, y, 0.01, "removal")),
    "bsgd-merging": Case(BSGDMerging(0.01), lambda e, x, y: bsgd(e, x, y, 0.01, "merging")),
}
BY_TASK = [(name, task) for name, case in CASES.items() for task in case.strategy.tasks]


# these learn nearly singular kernels in float64, too, and cover the code that all share
DOUBLE = ("projectron", "projectron++", "bpa-p")
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}


def precision_of(name: str) -> Precision:
    return "float64" if name in DOUBLE else "float32"


def learner_of(name: str, stream: Stream, precision: Precision | None = None, budget: int = BUDGET) -> BudgetLearner:
    precision = precision or precision_of(name)
    n_outputs = N_OUTPUTS[stream.task]
    width = stream.inputs.shape[1]
    return BudgetLearner(
        stream.kernel, CASES[name].strategy, stream.task, width, budget, n_outputs, precision=precision
    )


def learn(learner: BudgetLearner, stream: Stream, state: BudgetState | None = None) -> BudgetState:
    start = learner.start() if state is None else state
    return learner.learn(start, Rows(stream.inputs, stream.targets))


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_learner_matches_naive(name: str, task: Task) -> None:
    for stream in streams(task, 100):
        if name == "bsgd-merging" and not isinstance(stream.kernel, Gaussian):
            continue
        expansion = Expansion(stream.kernel, task, N_OUTPUTS[task], BUDGET)
        results = CASES[name].twin(expansion, stream.inputs, stream.targets)
        learner = learner_of(name, stream)
        state = learn(learner, stream)
        mistakes = sum(seen.mistake for seen in results)
        assert state.progress.mistakes == mistakes
        assert task == "regression" or 0 < mistakes < 0.7 * len(results)
        assert state.n_supports == len(expansion.supports)
        assert state.progress.updates >= len(expansion.supports)
        if name.startswith("bpa"):  # a zero row of the linear kernel changes nothing
            lengths = map(expansion.self_kernel, stream.inputs)
            losses = [seen.loss * length for seen, length in zip(results, lengths, strict=True)]
            assert state.progress.updates == sum(loss > 0.0 for loss in losses)
        squares = sum((y - seen.scores[0]) ** 2 for y, seen in zip(stream.targets, results, strict=True))
        if task == "regression":
            assert state.progress.squared_error == pytest.approx(squares, rel=1e-9)
        values = stream.kernel.matrix(stream.inputs, np.stack(expansion.supports))
        expected = values @ np.stack(expansion.coefficients)
        scores = learner.predictor(state).scores(stream.inputs).reshape(expected.shape)
        close = TOLERANCE[precision_of(name)] * (1.0 + np.abs(expected).max())
        np.testing.assert_allclose(scores, expected, rtol=0, atol=close)


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_budget_is_met_and_never_exceeded(name: str, task: Task) -> None:
    stream = hard_stream(task)
    for budget in (1, 2, 5, 16):
        state = learn(learner_of(name, stream, budget=budget), stream)
        assert state.n_supports == budget
        assert not state.supports[:, budget:].any()
        assert not state.coefficients[:, budget:].any()
        assert len(set(state.marks[NUMBER, :budget].tolist())) == budget


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_split_into_calls_gives_the_same_bits_and_leaves_states_unchanged(name: str, task: Task) -> None:
    stream = hard_stream(task)
    learner = learner_of(name, stream, "float32")
    state = learner.start()
    for first, last in ((0, 1), (1, 37), (37, 38), (38, 300)):
        before = fields_of(state)
        after = learner.learn(state, Rows(stream.inputs[first:last], stream.targets[first:last]))
        assert_same_bits(fields_of(state), before)
        state = after
    assert_same_bits(fields_of(state), fields_of(learn(learner, stream)))


@pytest.mark.parametrize("name", ["projectron", "projectron++", "bpa-p"])
def test_a_state_of_an_earlier_version_with_an_inverse_continues_with_a_root(name: str) -> None:
    stream = hard_stream("binary")
    learner = learner_of(name, stream)
    now = learner.learn(learner.start(), Rows(stream.inputs[:150], stream.targets[:150]))
    n, first = now.n_supports, learner.strategy.buffers
    memory = now.memory.copy()
    root = memory[first : first + n, :n]
    root[:] = root.T @ root
    rest = Rows(stream.inputs[150:], stream.targets[150:])
    after, before = (learner.learn(state, rest) for state in (now, replace(now, memory=memory)))
    assert n > 5
    # by their errors: of rows that are nearly in the span, rounding decides which support BPA-P replaces
    assert before.progress.rows == after.progress.rows == 300
    assert before.progress.error == pytest.approx(after.progress.error, rel=0.05)
    if name != "bpa-p":
        scores = [learner.predictor(state).scores(stream.inputs) for state in (after, before)]
        np.testing.assert_allclose(scores[1], scores[0], rtol=0.0, atol=1e-6 * np.abs(scores[0]).max())


@pytest.mark.parametrize(("name", "task"), [(name, task) for name, task in BY_TASK if name in DOUBLE])
def test_float32_is_close_to_float64(name: str, task: Task) -> None:
    # compared by errors: one decision changed by rounding affects all later rows
    stream = hard_stream(task, seed=2)
    errors = [learn(learner_of(name, stream, precision), stream).progress.error for precision in ("float32", "float64")]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_shards_are_joined_to_the_budget(name: str, task: Task) -> None:
    stream = hard_stream(task)
    learner = learner_of(name, stream, "float32")
    base = learner.learn(learner.start(), Rows(stream.inputs[:100], stream.targets[:100]))
    pieces = [Rows(stream.inputs[part], stream.targets[part]) for part in (slice(100, 180), slice(180, 300))]
    parts = [learner.learn(learner.shard_start(base), piece) for piece in pieces]
    joined = learner.average_shards(base, parts)
    assert joined.n_supports == BUDGET
    assert joined.progress.rows == 300
    assert_same_bits(fields_of(joined), fields_of(learner.average_shards(base, parts)))
    after = learn(learner, stream, joined)
    assert after.progress.rows == 600
    assert after.progress.error < 1.3 * learn(learner, stream, learn(learner, stream)).progress.error


@pytest.mark.parametrize(("name", "task"), BY_TASK)
def test_joining_within_the_budget_is_the_mean_of_functions(name: str, task: Task) -> None:
    stream = hard_stream(task)
    learner = learner_of(name, stream, "float32", budget=200)
    parts = [
        learner.learn(learner.start(), Rows(stream.inputs[part], stream.targets[part]))
        for part in (slice(0, 40), slice(40, 100))
    ]
    joined = learner.average_shards(learner.start(), parts)
    scores = [learner.predictor(state).scores(stream.inputs) for state in (*parts, joined)]
    expected = 0.4 * scores[0] + 0.6 * scores[1]
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(scores[2], expected, rtol=0, atol=TOLERANCE["float32"])


def joined_halves(name: str, stream: Stream, budget: int) -> tuple[BudgetState, FloatArray]:
    """Return the joined state of the two halves of the first 40 rows, and its scores (rows, n_outputs)."""
    learner = learner_of(name, stream, "float32", budget=budget)
    halves = [Rows(stream.inputs[part], stream.targets[part]) for part in (slice(0, 20), slice(20, 40))]
    state = learner.average_shards(learner.start(), [learner.learn(learner.start(), half) for half in halves])
    return state, learner.predictor(state).scores(stream.inputs).reshape(len(stream.inputs), -1)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("name", ["bpa-nn", "bpa-s", "bsgd-removal"])
def test_excess_joined_supports_are_dropped_or_projected_onto_nearest_neighbours(name: str, task: Task) -> None:
    stream = hard_stream(task)._replace(kernel=Polynomial(2, 0.05, 0.1))  # k(x, x) on both sides of 1
    whole, before = joined_halves(name, stream, 200)
    kept, after = joined_halves(name, stream, whole.n_supports - 4)
    assert kept.n_supports == whole.n_supports - 4
    rows, coefficients = whole.rows, whole.coefficients[:, : whole.n_supports] * whole.floats[SCALE]
    for _ in range(4):
        n, values = len(rows), stream.kernel.matrix(rows, rows)
        norms = np.diag(values)
        assert np.ptp(norms) > 0.1
        nearest = np.argmin(np.where(np.eye(n) > 0, np.inf, norms[:, None] + norms - 2.0 * values), axis=1)
        shares = values[np.arange(n), nearest] / norms[nearest] if name == "bpa-nn" else np.zeros(n)
        lost = int(np.argmin((coefficients**2).sum(axis=0) * (norms - shares**2 * norms[nearest])))
        coefficients[:, nearest[lost]] += shares[lost] * coefficients[:, lost]
        rows, coefficients = np.delete(rows, lost, axis=0), np.delete(coefficients, lost, axis=1)
    expected = stream.kernel.matrix(stream.inputs, rows) @ coefficients.T
    close = TOLERANCE["float32"] * (1.0 + np.abs(expected).max())
    np.testing.assert_allclose(after, expected, rtol=0, atol=close)
    assert np.abs(after - before).max() > 10 * close


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("name", ["projectron", "bpa-p"])  # results of Projectron++ depend on the budget
def test_excess_joined_supports_are_projected_onto_the_span_of_the_others(name: str, task: Task) -> None:
    stream = hard_stream(task)
    whole, _ = joined_halves(name, stream, 200)
    budget = whole.n_supports - 4
    kept, after = joined_halves(name, stream, budget)
    assert kept.n_supports == budget
    rows, coefficients = whole.rows, whole.coefficients[:, : whole.n_supports] * whole.floats[SCALE]
    while len(rows) > budget:
        inverse = np.linalg.inv(stream.kernel.matrix(rows, rows))
        costs = (coefficients**2).sum(axis=0) / np.diag(inverse)
        lost = int(np.argmin(costs)) if name == "bpa-p" else len(rows) - 1
        coefficients -= np.outer(coefficients[:, lost], inverse[lost] / inverse[lost, lost])
        rows, coefficients = np.delete(rows, lost, axis=0), np.delete(coefficients, lost, axis=1)
    expected = stream.kernel.matrix(stream.inputs, rows) @ coefficients.T
    np.testing.assert_allclose(after, expected, rtol=0, atol=TOLERANCE["float32"] * (1.0 + np.abs(expected).max()))


def test_merging_requires_the_gaussian_kernel() -> None:
    stream = hard_stream("binary")
    with pytest.raises(ConfigError, match="bsgd-removal"):
        learner_of("bsgd-merging", stream._replace(kernel=Laplacian(1.0)))


@pytest.mark.parametrize("name", ["projectron++", "bpa-s", "bpa-nn", "bpa-p", "bsgd-removal", "bsgd-merging"])
def test_classifiers_refuse_a_regression(name: str) -> None:
    with pytest.raises(ConfigError, match="regression"):
        learner_of(name, hard_stream("regression"))


@pytest.mark.parametrize("make", [Projectron, BPASimple, BSGDRemoval, BSGDMerging])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_numbers_are_checked(make: Callable[[float], BudgetStrategy], value: float) -> None:
    with pytest.raises(ConfigError):
        make(value)


def fields_of(state: BudgetState) -> dict[str, Any]:
    arrays = ("supports", "coefficients", "marks", "integers", "floats")
    return {name: np.array(getattr(state, name)) for name in arrays} | {"progress": state.progress}


def assert_same_bits(left: dict[str, Any], right: dict[str, Any]) -> None:
    for name, value in left.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, right[name], err_msg=name)
        else:
            assert value == right[name]


@pytest.mark.parametrize("strategy", [Projectron(), ProjectronPlus(), BPAProjection()])
@pytest.mark.parametrize("bandwidth", [4.0, 8.0])
def test_near_singular_kernels_cause_no_errors(strategy: BudgetStrategy, bandwidth: float) -> None:
    draw = np.random.default_rng(3)
    inputs = draw.random((500, 4))
    targets = np.where(np.sin(6 * inputs[:, 0]) + inputs[:, 1] ** 2 + 0.3 * draw.standard_normal(500) > 0.6, 1.0, -1.0)
    kernel = Gaussian(bandwidth)
    learner = BudgetLearner(kernel, strategy, "binary", 4, 40, precision="float64")
    state = learner.learn(learner.start(), Rows(inputs, targets))
    matrix = kernel.matrix(inputs, inputs)
    assert np.linalg.cond(matrix[:40, :40]) > 1e10, "the kernel is nearly singular"
    expected = mistakes_in_long_double(matrix, targets, 40, type(strategy).name)
    assert state.progress.mistakes == expected
