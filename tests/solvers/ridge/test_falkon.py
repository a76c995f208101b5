"""Iterations on many landmarks: convergence to the direct solution, a valid gap, and factorisation by tiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Rows
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.foundation.errors import ConfigError
from okl.foundation.types import Task
from okl.solvers.ridge import falkon
from okl.solvers.ridge.falkon import ExpansionWork, FalkonSolver, FalkonState, chunks_of
from okl.solvers.ridge.penalty_path import fit_rows
from tests.data.sources import settings as ingest_settings
from tests.solver_cases import last_state
from tests.solvers.ridge.conftest import curved_rows

ROWS = 1500
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, Dataset]:
    return {task: make_data(tmp_path_factory.mktemp(task), task) for task in TASKS}


def make_data(folder: Path, task: Task) -> Dataset:
    rows = curved_rows(task, ROWS)
    table = pa.table({"a": rows.inputs[:, 0], "b": rows.inputs[:, 1], "y": rows.targets})
    pq.write_table(table, folder / "rows.parquet")
    options = ingest_settings(task=task, scale="standard", rows_per_shard=500, rows_per_group=150)
    return ingest(folder / "rows.parquet", folder / "set", options).dataset


def solver(task: Task, **options: Any) -> FalkonSolver:
    weights = (0.5, 2.0) if task == "binary" else None
    given: dict[str, Any] = {"n_landmarks": 40, "penalty": 1e-4, "precision": "float64", "class_weights": weights}
    return FalkonSolver(**(given | options))


def learned_rows(falkon_solver: FalkonSolver, state: FalkonState, data: Dataset) -> Rows:
    """Return the rows that were not held out, in stored order."""
    share = min(falkon.HELD_SHARE, falkon.MOST_HELD / data.rows("train"))
    outputs = falkon_solver.outputs_of(data.schema)
    work = ExpansionWork(data, state.problem.basis, outputs, state.x, True, share, falkon_solver.seed)
    parts = [rows for chunk in chunks_of(data, 1) for rows, _ in work._rows(chunk)]
    return Rows(np.concatenate([rows.inputs for rows in parts]), np.concatenate([rows.targets for rows in parts]))


@pytest.mark.parametrize("task", TASKS)
def test_iterations_end_at_the_direct_solution_and_their_gap_holds(sets: dict[Task, Dataset], task: Task) -> None:
    data, falkon_solver = sets[task], solver(task)
    gaps, objectives = [], []
    with open_execution() as execution:
        state = falkon_solver.start(data, execution)
        for _ in range(50):
            state = falkon_solver.advance(replace(state, best=None), data, execution)
            assert state.best is not None
            gaps.append(state.best.gap)
            objectives.append(state.objective)
    rows = learned_rows(falkon_solver, state, data)
    assert state.held is not None
    assert len(rows.targets) + len(state.held.targets) == ROWS
    assert 0.05 * ROWS < len(state.held.targets) < 0.15 * ROWS
    direct = fit_rows(state.problem.basis, rows, falkon_solver.outputs_of(data.schema), falkon_solver.penalty)
    optimum = direct.proof.objective
    # the norm in RidgeSolver has a little more on the diagonal of the kernel matrix
    assert np.all(np.array(objectives) - optimum <= np.array(gaps) + 1e-5 * optimum)
    assert gaps[-1] < 1e-6 * optimum
    assert gaps[0] > 0.1 * optimum
    assert objectives[-1] == pytest.approx(optimum, rel=1e-5)
    assert state.best is not None
    scores = state.problem.basis.predictor(state.best.weights.T.copy(), state.best.offsets).scores(rows.inputs)
    np.testing.assert_allclose(scores, direct.predictor(state.problem.basis).scores(rows.inputs), atol=2e-3)


@pytest.mark.parametrize("task", TASKS)
def test_the_model_is_that_of_the_least_held_out_error(sets: dict[Task, Dataset], task: Task) -> None:
    data, falkon_solver = sets[task], solver(task, precision="float32", penalty=None, iterations=12)
    errors = []
    with open_execution() as execution:
        state = falkon_solver.start(data, execution)
        while falkon_solver.finished(state) is None:
            state = falkon_solver.advance(state, data, execution)
            single = falkon_solver._judged(replace(state, best=None), data.schema).best
            assert single is not None
            assert single.errors is not None
            errors.append((single.errors.error, single.errors.squared_error))
    assert len(errors) >= 3
    assert state.best is not None
    assert state.best.errors is not None
    assert (state.best.errors.error, state.best.errors.squared_error) == min(errors)
    assert errors[0] > min(errors)
    assert state.best.scores.shape == (len(state.held.targets), data.schema.n_outputs)  # type: ignore[union-attr]
    scores = np.asarray(falkon_solver.predictor(state).scores(state.held.inputs))  # type: ignore[union-attr]
    rounding = float(np.finfo(np.float32).eps * np.abs(state.best.weights).sum(axis=0).max())
    np.testing.assert_allclose(scores.reshape(state.best.scores.shape), state.best.scores, atol=rounding)
    assert state.left_out is not None
    assert (state.left_out.calibration() is None) == (task == "regression")
    assert state.left_out.calibration(len(state.left_out.targets)) is None
    certificate = falkon_solver.certificate(state)
    assert (certificate["relative_gap"] > 1.0) == ("reason" in certificate)


def test_a_target_far_from_zero_is_learned_like_one_near_it(tmp_path: Path) -> None:
    """In float32, which has 24 bits for a target of 10,000 +- 1."""
    rows, scores = curved_rows("regression", ROWS), []
    for name, shift in (("near", 0.0), ("far", 1e4)):
        table = pa.table({"a": rows.inputs[:, 0], "b": rows.inputs[:, 1], "y": rows.targets + shift})
        pq.write_table(table, tmp_path / f"{name}.parquet")
        data = ingest(tmp_path / f"{name}.parquet", tmp_path / name, ingest_settings(task="regression")).dataset
        falkon_solver = solver("regression", precision="float32")
        with open_execution() as execution:
            state = last_state(falkon_solver, data, execution)
        certificate = falkon_solver.certificate(state)
        assert certificate["objective"] > 0.0
        assert certificate["relative_gap"] >= 0.0
        scores.append(np.asarray(falkon_solver.predictor(state).scores(rows.inputs)).ravel() - shift)
    spread = float(rows.targets.std())
    np.testing.assert_allclose(scores[1], scores[0], atol=0.01 * spread)


def test_first_iterations_read_every_eighth_piece(sets: dict[Task, Dataset], monkeypatch: pytest.MonkeyPatch) -> None:
    data, falkon_solver = sets["binary"], solver("binary", iterations=6)
    monkeypatch.setattr(falkon, "THIN_ROWS", 500)
    with open_execution() as execution:
        state = falkon_solver.start(data, execution)
        assert state.stage == 0
        counts = []
        while falkon_solver.finished(state) is None:
            state = falkon_solver.advance(state, data, execution)
            counts.append((state.stage, state.iteration, state.count, state.objective))
        monkeypatch.undo()
        whole = falkon_solver.advance(falkon_solver.start(data, execution), data, execution)
    first = counts[: falkon.THIN_ITERATIONS + 1]
    assert [iteration for _, iteration, _, _ in first] == [*range(falkon.THIN_ITERATIONS), 0]
    assert first[0][2] < 0.3 * counts[-1][2]
    first_objective = next(objective for stage, _, count, objective in counts if stage == 1 and count == counts[-1][2])
    assert first_objective < 0.7 * whole.objective  # which starts from zero weights


@pytest.mark.parametrize(("n", "precision"), [(5, "float64"), (24, "float64"), (61, "float64"), (61, "float32")])
def test_factors_by_tiles_are_those_of_the_whole_matrix(
    n: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(falkon, "TILE", 8)
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((n, 2 * n))
    matrix = rows @ rows.T / n
    lower = np.linalg.cholesky(matrix)
    upper = np.linalg.cholesky(lower.T @ lower / n + 0.01 * np.eye(n))
    x, tolerance = rng.standard_normal((n, 3)), 1e-10 if precision == "float64" else 1e-3
    factorisations = [falkon.preconditioner(matrix.astype(precision), 0.01, n_threads) for n_threads in (1, 3)]
    for one in factorisations:
        np.testing.assert_allclose(one.to_function(x), np.linalg.solve(upper.T, x), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(one.to_weights(x), np.linalg.solve(lower.T, x), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(one.of_products(x), np.linalg.solve(lower, x), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(one.of_gradient(x), np.linalg.solve(upper, x), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(one.to_gradient(x), upper @ x, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(factorisations[0].to_function(x), factorisations[1].to_function(x))


def test_kernels_without_a_profile_are_refused() -> None:
    with pytest.raises(ConfigError, match="kernel = 'polynomial': falkon takes gaussian"):
        FalkonSolver(kernel="polynomial")
