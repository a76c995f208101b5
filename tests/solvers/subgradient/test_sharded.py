from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import okl.solvers.subgradient.sharded as on_shards
from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.distributed.cache import process_cache
from okl.features.fourier import draw_fourier_map
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Task
from okl.kernels import Gaussian
from okl.solvers.online.maps import InputsChoice
from okl.solvers.subgradient.losses import DEFAULT_LOSS, make_piecewise
from okl.solvers.subgradient.sampling import SampleDesign, SampledRows
from okl.solvers.subgradient.scs import Scs, solve_sample
from okl.solvers.subgradient.spaces import ExplicitRows
from tests.solvers.accelerated.sharded_cases import vectors_lost
from tests.solvers.subgradient.sharded_cases import Seeing, bits, in_memory, last_state, sharded, solver, states

TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, Dataset]:
    return {task: sharded(tmp_path_factory.mktemp(task), task) for task in TASKS}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("values", [{}, {"all_rows": True, "constant": True, "bundle_size": 30}])
def test_shards_reach_the_optimum_of_one_memory(
    task: Task, values: dict[str, Any], data: dict[Task, Dataset], here: Execution
) -> None:
    learning = solver(task, gap=1e-4, **values)
    state = last_state(learning, data[task], here)
    certificate = learning.certificate(state)
    rows, targets = in_memory(state, data[task])
    space = ExplicitRows(rows, data[task].schema.n_outputs)
    method = Scs(lam=learning.lam, loss=learning.loss, gap=1e-6)
    expected = solve_sample(space, targets, method)
    in_memory_solution = solve_sample(space, targets, method, space.vector(state.descent.weights), until=10.0)
    assert certificate["exact"]
    assert certificate["objective"] == pytest.approx(in_memory_solution.history[0].objective, rel=1e-9)
    assert certificate["lower_bound"] <= expected.objective
    assert expected.lower_bound <= certificate["objective"] <= expected.objective + certificate["gap"]
    assert 0.0 <= certificate["gap"] <= 1e-4
    assert np.linalg.norm(state.descent.weights) > 0.1


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("directions", [{"conjugate": True}, {"directions": "conjugate"}], ids=["wolfe", "conjugate"])
def test_conjugate_directions_reach_the_optimum_too(
    task: Task, directions: dict[str, Any], data: dict[Task, Dataset], here: Execution
) -> None:
    learning = solver(task, gap=0.01, all_rows=True, **directions)
    state = last_state(learning, data[task], here)
    bundled = solver(task, gap=1e-3, all_rows=True)
    best = bundled.certificate(last_state(bundled, data[task], here))
    certificate = learning.certificate(state)
    assert certificate["gap"] <= 0.01
    assert best["lower_bound"] <= certificate["objective"] <= best["objective"] + 0.01
    assert certificate["lower_bound"] <= best["objective"]


def test_a_bias_is_a_weight_of_a_constant(data: dict[Task, Dataset], here: Execution) -> None:
    learning = solver("regression", constant=True, maps=InputsChoice())
    predictor = learning.predictor(last_state(learning, data["regression"], here))
    other = solver("regression", maps=InputsChoice())
    without = other.predictor(last_state(other, data["regression"], here))
    zero_row = np.zeros((1, 4), dtype=np.float32)
    assert without.scores(zero_row)[0] == 0.0
    assert predictor.scores(zero_row)[0] != 0.0
    assert "regularised" in learning.chosen(learning.start(data["regression"], here))["bias"]


def test_lost_vectors_are_recomputed_with_the_same_bits(
    data: dict[Task, Dataset], here: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_shards, "MOST_STEPS", 7)
    learning = solver(gap=1e-4)
    whole = last_state(learning, data["binary"], here)
    assert whole.descent.iterations > 12
    assert len(whole.samples) > 2
    watched = Seeing(here, range(2, 400, 3), vectors_lost)
    assert bits(learning, last_state(learning, data["binary"], watched)) == bits(learning, whole)
    assert watched.done > 30


def test_shards_of_the_same_bytes_keep_their_own_samples(data: dict[Task, Dataset]) -> None:
    one = data["binary"].split("train")[0]
    feature_map = draw_fourier_map(Gaussian(1.0), data["binary"].schema.n_features, 5, 0)
    rows = SampledRows(data["binary"], feature_map, SampleDesign.of(data["binary"], 3), False, "same bytes")
    seen = []
    for shard in (one, replace(one, index=one.index + 1)):
        segments = rows.segments(shard, 0.5, 0.0)
        blocks = [block for _, block in rows.blocks(shard, segments)]
        for segment, block in zip(segments, blocks, strict=True):
            assert np.array_equal(block.inputs, rows.load(shard, segment.runs).inputs)
        seen.append(np.concatenate([block.inputs for block in blocks]))
    assert not np.array_equal(seen[0], seen[1])


def test_rows_that_do_not_fit_give_the_same_bits(data: dict[Task, Dataset], here: Execution) -> None:
    learning = solver()
    held = last_state(learning, data["binary"], here)
    process_cache().limit(0)
    try:
        read_again = last_state(learning, data["binary"], here)
        assert process_cache().used_bytes == 0
    finally:
        process_cache().limit(256 * 2**20)
    assert bits(learning, read_again) == bits(learning, held)


def test_a_state_is_a_value(data: dict[Task, Dataset], here: Execution) -> None:
    learning = solver()
    visited = states(learning, data["binary"], here)
    for index in (0, 4, len(visited) // 2, -3):
        before = visited[index]
        assert isinstance(before.descent, on_shards.ShardedDescent)
        stored = pickle.dumps(before.descent.directions)
        again = learning.advance(before, data["binary"], here)  # the worker vectors have advanced
        assert pickle.dumps(before.descent.directions) == stored
        resumed = learning.advance(pickle.loads(pickle.dumps(before)), data["binary"], here)
        expected = visited[index + 1]
        assert bits(learning, again) == bits(learning, resumed) == bits(learning, expected)


def test_the_bound_rises_and_the_point_descends_on_each_sample(data: dict[Task, Dataset], here: Execution) -> None:
    learning = solver("multiclass", gap=1e-4)
    visited = states(learning, data["multiclass"], here)
    for before, after in pairwise(visited):
        if before.samples == after.samples:
            assert after.descent.lower_bound >= before.descent.lower_bound
            assert after.descent.objective <= before.descent.objective + 1e-3 * before.descent.gap
    assert learning.certificate(visited[-1])["iterations"] == visited[-1].descent.iterations > 10


def test_training_continues_with_new_shards(data: dict[Task, Dataset], here: Execution) -> None:
    whole, learning = data["binary"], solver(gap=1e-3)
    train = whole.split("train")
    fewer = replace(whole, shards=train[:2], sha256="of two shards")
    state = last_state(learning, fewer, here)
    first = state.descent.iterations
    assert learning.finished(state) is not None
    state = learning.advance(state, whole, here)
    assert learning.finished(state) is None
    assert state.proof is None
    while learning.finished(state) is None:
        state = learning.advance(state, whole, here)
    fresh = last_state(learning, whole, here)
    assert learning.certificate(state)["gap"] <= 1e-3
    assert learning.certificate(state)["objective"] == pytest.approx(learning.certificate(fresh)["objective"], abs=1e-3)
    assert state.descent.iterations - first < fresh.descent.iterations
    with pytest.raises(DataError, match=r"does not start with the shards"):
        learning.advance(state, replace(whole, shards=train[1:], sha256="others"), here)


def test_a_sample_of_one_class_is_enlarged(here: Execution, tmp_path: Path) -> None:
    data = sharded(tmp_path)
    learners = (solver(first_sample=2, seed=seed, gap=0.05) for seed in range(20))
    learning, state = next(pair for one in learners if (pair := (one, one.start(data, here)))[1].one_class)
    assert "a single label" in learning.chosen(state)["one_class_samples_reason"]
    assert state.samples[0] == state.descent.n_rows > 2
    assert learning.finished(last_state(learning, data, here)) is not None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"lam": 0.0}, "lam = 0.0; expected a finite number above 0"),
        ({"gap": -1.0}, "gap = -1.0; expected"),
        ({"confidence": 1.0}, "confidence = 1; expected a number between 0 and 1"),
        ({"first_sample": 5000}, "first_sample = 5,000, but there are 2,600 training rows"),
        (
            {"loss": make_piecewise("absolute")},
            "'absolute' is for regression tasks, but the target 'y' makes this a binary",
        ),
    ],
)
def test_invalid_settings_are_refused(
    values: dict[str, Any], sentence: str, data: dict[Task, Dataset], here: Execution
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        solver(**values).start(data["binary"], here)


def test_a_gap_below_the_certifiable_one_ends_with_the_certifiable_gap(
    data: dict[Task, Dataset], here: Execution
) -> None:
    learning = solver(gap=1e-300, lam=0.02)
    outcome = learning.finished(last_state(learning, data["binary"], here))
    assert outcome is not None
    assert outcome.kind == "not converged"
    assert "float64 cannot resolve a smaller gap" in outcome.reason
    wolfe = solver(gap=1e-8, lam=0.02, conjugate=True)
    state = last_state(wolfe, data["binary"], here)
    outcome, certificate = wolfe.finished(state), wolfe.certificate(state)
    assert outcome is not None
    assert outcome.kind == "not converged"
    assert outcome.reason.endswith("the last iterations no longer reduce it")
    assert certificate["advice"].startswith("use --solver scs")
    short_solver = solver(gap=1e-3, max_iterations=5)
    outcome = short_solver.finished(last_state(short_solver, data["binary"], here))
    assert outcome is not None
    assert "after 5 iterations" in outcome.reason


def test_every_loss_has_a_task() -> None:
    assert [make_piecewise(name).task for name in DEFAULT_LOSS.values()] == list(DEFAULT_LOSS)
    with pytest.raises(ConfigError, match="piecewise linear one: hinge"):
        make_piecewise("logistic")
