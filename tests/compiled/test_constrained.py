from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.constrained import Limits, Watched, learn_constrained_block
from okl.compiled.constrainedsteps import Small, room_for, settle_multipliers
from okl.compiled.counting import UPDATES
from okl.compiled.steplosses import HINGE, LOGISTIC
from okl.compiled.updates import Learnt, learn_block
from okl.types import Precision
from tests.compiled.cases import PRECISIONS, Case, assert_same, fresh_learnt, make_case
from tests.naive import constrained as naive
from tests.naive.drivers import mapped

RADIUS = 1.5
TOLERANCE = {"float32": 1e-3, "float64": 1e-6}  # of hundreds of steps, each solved to 1e-12 or so by its twin
Vector = NDArray[np.float64]


def settled(
    point: Vector, rows: Vector, low: Vector, high: Vector, below: Vector, above: Vector, radius: float
) -> Vector:
    found = room_for(len(rows))
    small = Small(rows @ rows.T, low, high, radius, rows @ point, below, above)
    grown = settle_multipliers(found, small, float(point @ point))
    result: Vector = (point - 0.5 * found.multipliers @ rows) / grown
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
        found = settled(point, rows, low, high, below, above, radius)
        expected = naive.step(point, rows, low, high, below, above, radius)
        assert np.linalg.norm(found) <= radius * (1 + 1e-9)
        np.testing.assert_allclose(found, expected, atol=1e-4)  # the square root of what the cone solver leaves open
        expected = expected * min(1.0, radius / float(np.linalg.norm(expected)))
        parts = (point, rows, low, high, below, above)
        assert objective(found, *parts) <= objective(expected, *parts) + 1e-9
        corrected += not np.allclose(found, point * min(1.0, radius / float(np.linalg.norm(point))), atol=1e-6)
        in_ball += bool(np.linalg.norm(found) < 0.99 * radius)
    assert corrected > 40
    assert in_ball > 10


def fresh(case: Case, rows: int, decimal: float = 0.01) -> tuple[Learnt, Watched, Limits]:
    rng = np.random.default_rng(7)
    width = 2 * case.waves.n_frequencies
    matrix = rng.standard_normal((rows, width))
    matrix /= np.linalg.norm(matrix, axis=1)[:, None]
    low, high = np.full(rows, -decimal), np.full(rows, 2 * decimal)
    low[::2] = -np.inf
    high[-1], low[-1] = 0.4, 0.3  # outside at 0, where learning begins
    limits = Limits(matrix.astype(case.inputs.dtype), matrix @ matrix.T, low, high, np.linspace(1.0, 2.0, rows), 0.6)
    watched = Watched(np.zeros((2, rows)), np.zeros(rows), np.zeros(rows + 1))
    return fresh_learnt(case)._replace(sums=np.zeros(6)), watched, limits


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("code", "decaying"), [(HINGE, True), (LOGISTIC, False)])
def test_constrained_steps_match_naive(code: int, decaying: bool, precision: Precision) -> None:
    case = make_case(code, precision, rows=150)
    rule = case.rule._replace(radius=RADIUS, decaying=decaying)
    block = mapped(case.inputs, case.waves)
    learnt, watched, limits = fresh(case, 3)
    expected, watched_too, _ = fresh(case, 3)
    learn_constrained_block(learnt, watched, room_for(3), block, case.targets, rule, limits)
    naive.learn_constrained_block(expected, watched_too, block, case.targets, rule, limits)
    assert_same(learnt, expected, TOLERANCE[precision])
    assert_same(watched, watched_too, TOLERANCE[precision] * 10)
    assert 0 < expected.counts[UPDATES] <= len(case.inputs)
    assert (watched_too.queues[:, -1] > 0).any()
    assert watched_too.queues[1, 0] > 0


def test_limits_far_away_leave_the_steps_of_the_ball() -> None:
    case = make_case(HINGE, "float64", rows=200)
    rule = case.rule._replace(radius=RADIUS)
    block = mapped(case.inputs, case.waves)
    learnt, watched, limits = fresh(case, 2)
    far = limits._replace(low=np.full(2, -1e3), high=np.full(2, 1e3))
    expected = fresh_learnt(case)._replace(sums=np.zeros(6))
    learn_constrained_block(learnt, watched, room_for(2), block, case.targets, rule, far)
    learn_block(expected, block, case.targets, rule)
    assert_same(learnt, expected, 1e-10)
    assert not watched.exceeded.any()


def test_violation_fades_while_rows_go_by() -> None:
    case = make_case(HINGE, "float64", rows=512)
    rule = case.rule._replace(radius=3.0, decaying=True)
    block = mapped(case.inputs, case.waves)
    learnt, watched, limits = fresh(case, 3)
    sums = []
    for first in range(0, 512, 128):
        part = slice(first, first + 128)
        piece = Block(block.left[part], block.right[part])
        learn_constrained_block(learnt, watched, room_for(3), piece, case.targets[part], rule, limits)
        sums.append(float(watched.exceeded[-1]))
    quarters = np.diff([0.0, *sums])
    assert quarters[0] > 0
    assert quarters[-1] < 0.2 * quarters[0]
