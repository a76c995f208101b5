from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.foundation.errors import CheckpointError, ConfigError
from okl.foundation.settings import IngestSettings
from okl.lifecycle.champion import load_state, save_state
from okl.runs.loop import run_loop
from okl.solvers.online.solver import OnlineSolver, OnlineState
from okl.solvers.settings import TrainSettings
from tests.conftest import learnable_table
from tests.runs.checkpoint_cases import ONLINE
from tests.solver_cases import make_online_solver

SPLIT_ROW = 1024  # a multiple of a block of rows
ROWS = 1900


@pytest.fixture(scope="module")
def execution() -> Any:
    with open_execution(threads=1) as running:
        yield running


@pytest.fixture(scope="module")
def split_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Dataset, Dataset, Dataset]]:
    """Return for each task all rows, the first 1024, and the others, with the same scaling."""
    folder, made = tmp_path_factory.mktemp("cut"), {}
    for task in ("binary", "multiclass", "regression"):
        table = learnable_table(task, ROWS).drop_columns(["split"])
        parts = {"both": table, "first": table.slice(0, SPLIT_ROW), "second": table.slice(SPLIT_ROW)}
        settings = IngestSettings(scale="standard", scale_target=task == "regression", rows_per_group=256, task=task)
        found: list[Dataset] = []
        for name, rows in parts.items():
            pq.write_table(rows, folder / f"{task}-{name}.parquet")
            reference = found[0].schema if found else None
            found.append(
                ingest(folder / f"{task}-{name}.parquet", folder / task / name, settings, reference=reference).dataset
            )
        made[task] = (found[0], found[1], found[2])
    return made


def finished(solver: OnlineSolver, begin: OnlineState, data: Dataset, execution: Execution) -> OnlineState:
    state: OnlineState = run_loop(solver, begin, data, execution).state
    return state


def arrays_of(solver: OnlineSolver, state: OnlineState) -> dict[str, Any]:
    return solver.predictor(state).arrays()


STREAMS = sorted(name for name, (_, settings) in ONLINE.items() if settings.get("mode", "stream") == "stream")


@pytest.mark.parametrize("name", STREAMS)
def test_learning_a_then_b_is_learning_both_in_stored_order(
    name: str, split_data: dict[str, tuple[Dataset, Dataset, Dataset]], execution: Execution, tmp_path: Path
) -> None:
    task, options = ONLINE[name]
    both, first, second = split_data[task]
    settings = TrainSettings.model_validate({"data": "none", "order": "stored", **options, "passes": 1})
    solver = make_online_solver(settings, both)
    initial = solver.start(both, execution)
    at_once = finished(solver, initial, both, execution)
    # the same learner, built on the same sample
    half = finished(solver, solver.continued(initial, first), first, execution)
    save_state(tmp_path / "state", half, {"model": "m"})
    stored, about = load_state(tmp_path / "state")
    whole = finished(solver, solver.continued(stored, second), second, execution)
    assert about == {"model": "m"}
    assert half.learned.progress.rows == SPLIT_ROW
    assert whole.learned.progress == at_once.learned.progress
    assert whole.learned.progress.rows == ROWS
    expected, found = arrays_of(solver, at_once), arrays_of(solver, whole)
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)
    assert any(not np.array_equal(array, arrays_of(solver, half)[key]) for key, array in expected.items())


@pytest.mark.parametrize("name", ["fogd-mix", "fogd-sum", "bsgd-mix"])
def test_rounds_continue_from_a_stored_state(
    name: str, split_data: dict[str, tuple[Dataset, Dataset, Dataset]], execution: Execution, tmp_path: Path
) -> None:
    task, options = ONLINE[name]
    both, first, second = split_data[task]
    solver = make_online_solver(TrainSettings.model_validate({"data": "none", **options}), both)
    half = finished(solver, solver.start(first, execution), first, execution)
    save_state(tmp_path / "state", half, {})
    states = [
        finished(solver, solver.continued(begin, second), second, execution)
        for begin in (half, load_state(tmp_path / "state")[0])
    ]
    for key, array in arrays_of(solver, states[0]).items():
        np.testing.assert_array_equal(arrays_of(solver, states[1])[key], array)
    assert states[0].rounds_before == solver.rounds
    assert states[0].learned.progress.rows == ROWS
    thirds = solver.continued(states[0], first)
    assert (thirds.rounds_before, thirds.total_rows) == (2 * solver.rounds, ROWS + SPLIT_ROW)


def test_an_unfinished_run_does_not_continue_with_other_rows(
    split_data: dict[str, tuple[Dataset, Dataset, Dataset]], execution: Execution
) -> None:
    both, first, second = split_data["binary"]
    solver = make_online_solver(TrainSettings(data="none", frequencies=20, step_size=0.1), both)
    state = solver.advance(solver.start(first, execution), first, execution)
    with pytest.raises(ConfigError, match="only after it has finished"):
        solver.continued(state, second)


def test_a_state_that_is_damaged_or_of_another_okl_is_refused(
    split_data: dict[str, tuple[Dataset, Dataset, Dataset]], execution: Execution, tmp_path: Path
) -> None:
    both, first, _ = split_data["binary"]
    solver = make_online_solver(TrainSettings(data="none", frequencies=20, step_size=0.1), both)
    state = finished(solver, solver.start(first, execution), first, execution)
    older = replace(state, learner=replace(state.learner))
    vars(older.learner)["left_over"] = 1
    save_state(tmp_path / "older", older, {})
    with pytest.raises(CheckpointError, match="other fields in LinearLearner"):
        load_state(tmp_path / "older")
    save_state(tmp_path / "state", state, {})
    arrays = tmp_path / "state" / "arrays.safetensors"
    content = bytearray(arrays.read_bytes())
    content[-5] ^= 1
    arrays.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        load_state(tmp_path / "state")
    with pytest.raises(CheckpointError):
        load_state(tmp_path / "nowhere")
