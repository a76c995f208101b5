from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.constrained import (
    GradientSums,
    LimitCounters,
    Limits,
    RowSteps,
    learn_constrained_block,
    sweep_fourier,
)
from okl.compiled.jit import one_blas_thread
from okl.compiled.oco import first_weights, make_rows, make_work, proximal_step
from okl.compiled.sgd import (
    HINGE,
    LOGISTIC,
    MULTICLASS_HINGE,
    THRESHOLDED_HALF_SQUARED,
    UPDATES,
    LearnerArrays,
    learn_block,
)
from okl.compiled.threads import Block, give_up_turns, new_turns, run_threads
from okl.solvers.oco.sets import Ball
from okl.solvers.online.constraints import LinearLimits
from tests.compiled.cases import (
    TOLERANCE,
    Case,
    assert_same,
    buffer,
    fresh_learnt,
    fresh_summed,
    make_case,
    n_outputs,
    some_weights,
)
from tests.naive import constrained as naive
from tests.naive import constrained as naive_constrained
from tests.naive.constrained import mapped

RADIUS = 1.5
CONSTRAINED_TOLERANCE = 1e-3  # of hundreds of steps in float32, each solved to 1e-12 or so by its twin
Vector = NDArray[np.float64]


def solve_step(
    point: Vector, rows: Vector, low: Vector, high: Vector, below: Vector, above: Vector, radius: float
) -> Vector:
    upper, lower = np.isfinite(high), np.isfinite(low)
    matrix, bounds = np.concatenate([rows[upper], -rows[lower]]), np.concatenate([high[upper], -low[lower]])
    for array in (matrix, bounds):
        array.setflags(write=False)  # as those of a run: no second compilation
    region, result = Ball(np.zeros(len(point)), radius).region, point.copy()
    prices = 0.5 * np.concatenate([above[upper], below[lower]])
    proximal_step(result, make_work(len(bounds), len(point)), make_rows(matrix, bounds, region), region, prices)
    return result


def objective(x: Vector, point: Vector, rows: Vector, low: Vector, high: Vector, below: Vector, above: Vector) -> float:
    values = rows @ x
    penalty = above @ np.maximum(values - high, 0) + below @ np.maximum(low - values, 0)
    return float((x - point) @ (x - point) + penalty)


@pytest.mark.parametrize("kind", ["plain", "parallel", "few columns"])
def test_step_is_that_of_a_cone_solver(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    corrected = in_ball = 0
    for _ in range(120):
        count, size = int(rng.integers(1, 6)), 2 if kind == "few columns" else int(rng.integers(6, 20))
        rows = rng.standard_normal((count, size))
        if kind == "parallel":
            rows = rows[:1] + 1e-5 * rows
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        point, radius = rng.standard_normal(size), float(rng.uniform(0.5, 6.0))
        middle = rng.uniform(-0.5, 0.5, count)
        low, high = middle - rng.choice([0.0, 0.1, np.inf], count), middle + rng.choice([0.0, 0.1, 1.0], count)
        prices = 3 * rng.random((2, count)) * rng.choice([0.0, 1.0, 10.0], (2, count))
        below, above = prices[0], prices[1]
        found = solve_step(point, rows, low, high, below, above, radius)
        expected = naive.step(point, rows, low, high, below, above, radius)
        assert np.linalg.norm(found) <= radius * (1 + 1e-9)
        np.testing.assert_allclose(found, expected, atol=1e-4)  # the square root of the tolerance of the cone solver
        expected = expected * min(1.0, radius / float(np.linalg.norm(expected)))
        parts = (point, rows, low, high, below, above)
        assert objective(found, *parts) <= objective(expected, *parts) + 1e-9
        corrected += not np.allclose(found, point * min(1.0, radius / float(np.linalg.norm(point))), atol=1e-6)
        in_ball += bool(np.linalg.norm(found) < 0.99 * radius)
    assert corrected > 40
    assert in_ball > 10


def fresh(case: Case, rows: int, decimal: float = 0.01) -> tuple[LearnerArrays, LimitCounters, Limits]:
    rng = np.random.default_rng(7)
    width = 2 * case.waves.n_frequencies
    matrix = rng.standard_normal((rows, width))
    matrix /= np.linalg.norm(matrix, axis=1)[:, None]
    low, high = np.full(rows, -decimal), np.full(rows, 2 * decimal)
    low[::2] = -np.inf
    high[-1], low[-1] = 0.4, 0.3  # outside at 0, where learning begins
    limits = limits_from(matrix, low, high, case)
    n_values = len(limits.units)
    watched = LimitCounters(np.zeros(len(limits.signs)), np.zeros(n_values), np.zeros(1), np.ones(1))
    return fresh_learnt(case)._replace(sums=np.zeros(5)), watched, limits


def limits_from(matrix: Vector, low: Vector, high: Vector, case: Case, radius: float = RADIUS) -> Limits:
    made = LinearLimits(
        matrix * np.linspace(1.0, 2.0, len(matrix))[:, None],
        low * np.linspace(1.0, 2.0, len(matrix)),
        high * np.linspace(1.0, 2.0, len(matrix)),
        tuple("abcd"[: len(matrix)]),
        radius,
        n_outputs=n_outputs(case.rule.code),
    )
    return made.compiled("float32", 0.6)


@pytest.mark.parametrize(
    ("code", "decaying"),
    [(HINGE, True), (LOGISTIC, False), (MULTICLASS_HINGE, True), (THRESHOLDED_HALF_SQUARED, False)],
)
@pytest.mark.parametrize("rectified", [False, True])
def test_constrained_steps_match_naive(code: int, decaying: bool, rectified: bool) -> None:
    case = make_case(code, "float32", rows=150)
    rule = case.rule._replace(radius=RADIUS, decaying=decaying)
    block = mapped(case.inputs, case.waves)
    learnt, watched, limits = fresh(case, 3)
    expected, watched_too, _ = fresh(case, 3)
    limits = limits._replace(rectified=rectified)
    learn_constrained_block(learnt, watched, make_work(len(limits.signs), 1), block, case.targets, rule, limits)
    naive.learn_constrained_block(expected, watched_too, block, case.targets, rule, limits)
    assert_same(learnt, expected, CONSTRAINED_TOLERANCE)
    assert_same(watched, watched_too, CONSTRAINED_TOLERANCE * 10)
    assert 0 < expected.counts[UPDATES] <= len(case.inputs)
    assert (watched_too.queues[limits.owners % 3 == 2] > 0).any()
    assert watched_too.queues[0] > 0
    assert watched_too.violation[0] > 0.0


def test_inactive_limits_do_not_change_the_steps_in_a_ball() -> None:
    case = make_case(HINGE, "float32", rows=200)
    rule = case.rule._replace(radius=RADIUS)
    block = mapped(case.inputs, case.waves)
    learnt, watched, limits = fresh(case, 2)
    far = limits_from(limits.rows.astype(np.float64), np.full(2, -1e3), np.full(2, 1e3), case)
    watched = watched._replace(queues=np.zeros(4))
    expected = fresh_learnt(case)._replace(sums=np.zeros(5))
    learn_constrained_block(learnt, watched, make_work(4, 1), block, case.targets, rule, far)
    learn_block(expected, block, case.targets, rule)
    assert_same(learnt, expected, 1e-5)
    assert not watched.violation.any()


@pytest.mark.parametrize("code", [HINGE, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED])
def test_experts_of_several_step_sizes_match_naive(code: int) -> None:
    case = make_case(code, "float32", rows=100)
    rule = case.rule._replace(radius=RADIUS, decaying=True, sample_every=0)
    block = mapped(case.inputs, case.waves)
    made = [of_experts(*fresh(case, 3), 3) for _ in range(2)]
    (learnt, watched, limits), (expected, watched_too, _) = made
    learn_constrained_block(learnt, watched, make_work(len(limits.signs), 1), block, case.targets, rule, limits)
    naive.learn_constrained_block(expected, watched_too, block, case.targets, rule, limits)
    assert_same(learnt, expected, CONSTRAINED_TOLERANCE)
    assert_same(watched, watched_too, CONSTRAINED_TOLERANCE * 10)
    assert not np.allclose(watched.shares, first_weights(3), atol=0.01)
    assert (watched_too.queues > 0).reshape(3, -1).any(axis=1).all()


def of_experts(
    learnt: LearnerArrays, watched: LimitCounters, limits: Limits, number: int
) -> tuple[LearnerArrays, LimitCounters, Limits]:
    """Return the arrays of several experts whose shares follow their losses quickly."""
    watched = watched._replace(
        queues=np.tile(watched.queues, number), values=np.tile(watched.values, number), shares=first_weights(number)
    )
    return learnt._replace(weights=np.tile(learnt.weights, (number, 1))), watched, limits._replace(rate=0.3)


@pytest.mark.parametrize("code", [HINGE, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED])
def test_violation_decreases_with_the_rows(code: int) -> None:
    case = make_case(code, "float32", rows=512)
    rule = case.rule._replace(radius=3.0, decaying=True)
    block = mapped(case.inputs, case.waves)
    learnt, watched, limits = fresh(case, 3)
    limits = limits._replace(region=Ball(np.zeros(limits.rows.shape[1]), 3.0).region)
    sums = []
    for first in range(0, 512, 128):
        part = slice(first, first + 128)
        piece = Block(block.left[part], block.right[part])
        learn_constrained_block(
            learnt, watched, make_work(len(limits.signs), 1), piece, case.targets[part], rule, limits
        )
        sums.append(float(watched.violation[0]))
    quarters = np.diff([0.0, *sums])
    assert quarters[0] > 0
    assert quarters[-1] < 0.2 * quarters[0]


CODES = [0, 1, 2, 3]


@pytest.mark.parametrize("code", CODES)
def test_learning_in_turns_matches_naive_for_any_number_of_threads(code: int) -> None:
    case = make_case(code, "float32")
    expected = fresh_learnt(case)
    naive_constrained.learn_fourier(expected, case.inputs, case.targets, case.waves, case.rule)
    for n_threads in (1, 2, 3):
        learnt, turns = fresh_learnt(case), new_turns()

        def learn(thread: int, learnt=learnt, turns=turns, n_threads=n_threads) -> None:  # type: ignore[no-untyped-def]
            block = buffer(16, case)
            task = RowSteps(learnt, case.rule)
            sweep_fourier(task, turns, block, case.inputs, case.targets, case.waves, thread, n_threads)

        with one_blas_thread():
            run_threads(n_threads, learn)
        assert_same(learnt, expected, TOLERANCE["float32"])
        assert turns[0] == 6


@pytest.mark.parametrize("code", CODES)
def test_summing_in_turns_matches_naive_for_any_number_of_threads(code: int) -> None:
    case = make_case(code, "float32")
    weights, expected = some_weights(case), fresh_summed(case)
    naive_constrained.sum_fourier(expected, case.inputs, case.targets, case.waves, weights, case.rule)
    for n_threads in (1, 2, 3):
        summed, turns = fresh_summed(case), new_turns()

        def add(thread: int, summed=summed, turns=turns, n_threads=n_threads) -> None:  # type: ignore[no-untyped-def]
            block = buffer(16, case)
            task = GradientSums(summed, weights, case.rule)
            sweep_fourier(task, turns, block, case.inputs, case.targets, case.waves, thread, n_threads)

        with one_blas_thread():
            run_threads(n_threads, add)
        assert_same(summed, expected, TOLERANCE["float32"])


def test_a_failed_thread_does_not_block_the_others() -> None:
    case = make_case(0, "float32")
    learnt, turns = fresh_learnt(case), new_turns()
    ended: list[bool] = []

    def work(thread: int) -> None:
        if thread == 0:
            give_up_turns(turns)
            raise ValueError("thread 0 fails before its first turn")
        block: Block = buffer(16, case)
        task = RowSteps(learnt, case.rule)
        ended.append(sweep_fourier(task, turns, block, case.inputs, case.targets, case.waves, thread, 2))

    with pytest.raises(ValueError, match="thread 0 fails"):
        run_threads(2, work)
    assert ended == [False]
    assert not np.any(learnt.weights)
