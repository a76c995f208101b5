"""Kernel least squares over shards: the same as of rows in memory, wherever the shards are cut, and when it goes on."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.checkpoints.tree import PutTogether, TakenApart
from okl.errors import ConfigError, DataError, DivergedError
from okl.estimators import KernelRidgeRegressor
from okl.execution import open_execution
from okl.execution.batches import pack
from okl.execution.protocol import Rows
from okl.kernels import Gaussian
from okl.ridge import solver as ridge
from okl.ridge.basis import LandmarkBasis
from okl.ridge.gram import BLOCK, MOST_STRETCHES, Gram, GramWork, Outputs, gram_of, stretches_of
from okl.ridge.solution import fit_rows
from okl.ridge.solver import STRETCHES_AT_ONCE, RidgeSolver
from okl.store.dataset import Dataset
from okl.store.ingest import ingest
from okl.store.reading import sample_rows
from okl.types import Task
from tests.ridge.conftest import curved_rows
from tests.solver_cases import bits, last_state, states
from tests.store.sources import settings as ingest_settings

ROWS = 9 * BLOCK + 300
SOLVER = RidgeSolver(n_landmarks=30, penalty=1e-4, seed=2)
AUTO = RidgeSolver(n_landmarks=30, seed=2)


def made(folder: Path, name: str, shard_rows: int, task: Task = "binary") -> Dataset:
    rows = curved_rows(task, ROWS)
    table = pa.table({"a": rows.inputs[:, 0], "b": rows.inputs[:, 1], "y": rows.targets})
    pq.write_table(table, folder / "rows.parquet")
    options = ingest_settings(task=task, scale="standard", rows_per_shard=shard_rows, rows_per_group=BLOCK)
    return ingest(folder / "rows.parquet", folder / name, options).dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """More stretches than are summed between two checkpoints."""
    found = made(tmp_path_factory.mktemp("rows"), "set", 4 * BLOCK)
    assert STRETCHES_AT_ONCE < len(stretches_of(found)) <= MOST_STRETCHES
    return found


def test_shards_give_the_solution_of_all_rows_in_memory(data: Dataset) -> None:
    with open_execution() as execution:
        state = last_state(AUTO, data, execution)
    rows = sample_rows(data, "train", ROWS, 0, "float64")
    assert len(rows.targets) == ROWS
    assert state.solution is not None
    whole = fit_rows(state.basis, rows, AUTO._outputs(data.schema), state.solution.penalty)
    scores = [np.asarray(one.predictor(state.basis).scores(rows.inputs)) for one in (state.solution, whole)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)
    assert state.solution.proof.objective == pytest.approx(whole.proof.objective, rel=1e-4)
    assert AUTO.certificate(state)["relative_gap"] < 1e-2
    assert AUTO.chosen(state)["penalty"] == state.solution.penalty


def test_where_shards_end_does_not_change_bits_while_row_groups_are_the_same(data: Dataset, tmp_path: Path) -> None:
    # the sums depend on the blocks of a row group, and these on nothing else; shards are files of whole row groups
    other = made(tmp_path, "other", 2 * BLOCK)
    assert len(other.split("train")) > len(data.split("train"))
    with open_execution(threads=2) as execution:
        one, cut = (last_state(SOLVER, rows, execution) for rows in (data, other))
    assert bits(SOLVER, one) == bits(SOLVER, cut)


def test_blocks_of_another_size_change_sums_by_rounding_alone(data: Dataset) -> None:
    rows = sample_rows(data, "train", 4 * BLOCK, 0, "float32")
    basis, outputs = LandmarkBasis(Gaussian(0.8), rows.inputs[:30].copy()), Outputs("binary", 1, (1.0, 3.0))
    blocks = [Rows(rows.inputs[k : k + 999], rows.targets[k : k + 999]) for k in range(0, 4 * BLOCK, 999)]
    one, cut = (gram_of(basis, outputs, of) for of in ((rows,), blocks))
    for field in fields(Gram):
        np.testing.assert_allclose(getattr(one, field.name), getattr(cut, field.name), rtol=1e-9, atol=1e-9)
    assert one.products.tobytes() != cut.products.tobytes()
    np.testing.assert_array_equal(one.products, one.products.T)


@pytest.mark.parametrize(("solver", "samples"), [(SOLVER, 1), (AUTO, 2)])
def test_a_sample_is_read_again_only_where_a_penalty_is_sought(
    solver: RidgeSolver, samples: int, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def reading(*asked: Any) -> Rows:
        read.append(asked)
        return sample_rows(*asked)

    monkeypatch.setattr(ridge, "sample_rows", reading)
    with open_execution() as execution:
        last_state(solver, data, execution)
    assert len(read) == samples


def test_it_goes_on_from_a_state_that_was_written_down(data: Dataset) -> None:
    with open_execution() as execution:
        *_, whole = states(SOLVER, data, execution)
        middle = SOLVER.advance(SOLVER.start(data, execution), data, execution)
        assert middle.gram is not None
        assert 0 < middle.done < len(stretches_of(data))
        assert SOLVER.standing(middle).relative_gap == 1.0
        apart = TakenApart(middle, {"data": data})
        again = PutTogether(apart.tree, apart.arrays, {"data": data}).value
        resumed = SOLVER.advance(again, data, execution)
    assert bits(SOLVER, resumed) == bits(SOLVER, whole)


def test_work_is_sent_without_what_is_packed_for_compiled_code(data: Dataset) -> None:
    with open_execution() as execution:
        basis = SOLVER.start(data, execution).basis
    work = GramWork(data, basis, SOLVER._outputs(data.schema), "float32")
    before = len(pack(work).content)
    list(map(work, stretches_of(data)[:1]))
    assert len(pack(work).content) == before < 30 * 2 * 4 + 6000


def test_what_cannot_be_learnt_is_refused(data: Dataset) -> None:
    refused = {"n_landmarks": 0, "penalty": 0.0, "bandwidth": -1.0, "landmarks": "corners", "kernel": "tanh"}
    for name, value in refused.items():
        with pytest.raises(ConfigError, match=name):
            RidgeSolver(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"n_landmarks = 50,000, but there are 18,732 training rows"):
        RidgeSolver(n_landmarks=50_000).check(data.schema, ROWS)
    schema = replace(data.schema, class_counts=(ROWS, 0))
    with pytest.raises(DataError, match=r"No training row has the label"):
        SOLVER.check(schema, ROWS)


@pytest.mark.parametrize("solver", [RidgeSolver(n_landmarks=8, kernel="laplacian"), RidgeSolver(kernel="linear")])
def test_a_class_of_a_single_row_is_learnt(solver: RidgeSolver, tmp_path: Path) -> None:
    rows = curved_rows("binary", 60)
    labels = np.where(rows.targets > 0, 1, 0)
    labels[7] = 2
    pq.write_table(pa.table({"a": rows.inputs[:, 0], "b": rows.inputs[:, 1], "y": labels}), tmp_path / "rows.parquet")
    few = ingest(tmp_path / "rows.parquet", tmp_path / "set", ingest_settings(task="multiclass")).dataset
    assert few.schema.class_counts[2] == 1
    with open_execution() as execution:
        predictor = solver.predictor(last_state(solver, few, execution))
    scores = predictor.scores(sample_rows(few, "train", 60, 0, "float32").inputs)
    assert scores.shape == (60, 3)
    assert np.isfinite(scores).all()
    assert (scores.argmax(axis=1) == labels).mean() > 0.6


def test_columns_that_leave_rounding_alone_are_no_model(tmp_path: Path) -> None:
    rows = curved_rows("regression", 600)
    table = pa.table({"a": 1e5 + rows.inputs[:, 0], "b": rows.inputs[:, 1], "y": rows.targets})
    pq.write_table(table, tmp_path / "rows.parquet")
    wide = ingest(tmp_path / "rows.parquet", tmp_path / "set", ingest_settings(task="regression")).dataset
    solver = RidgeSolver(kernel="polynomial", n_landmarks=64, bandwidth=1.5)
    with open_execution() as execution:
        outcome = solver.finished(last_state(solver, wide, execution))
    assert outcome is not None
    assert outcome.kind == "diverged"
    assert "64 columns of such size leave rounding alone" in outcome.reason
    estimator = KernelRidgeRegressor(kernel="polynomial", n_landmarks=64, bandwidth=1.5, random_state=0)
    inputs = rows.inputs + np.array([1e5, 0.0])
    with pytest.raises(DivergedError, match="Put a StandardScaler before it"):
        estimator.fit(inputs, rows.targets)
    near = inputs - inputs.mean(axis=0)
    assert estimator.fit(near, rows.targets).score(near, rows.targets) > 0.6
