"""Solvers that keep vectors with the shards: the same bits on workers even if one is killed, and little traffic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.distributed.dask import DaskExecution
from okl.solvers import worker_rounds
from okl.solvers.accelerated.choice import MethodChoice
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.subgradient.spaces import ExactChoice
from tests.distributed.conftest import is_complete
from tests.distributed.processes import soon
from tests.solver_cases import last_state
from tests.solvers.accelerated import sharded_cases as accelerated
from tests.solvers.accelerated.sharded_cases import N_COLUMNS, SHARD_ROWS, Watched, worker_killed
from tests.solvers.subgradient import sharded_cases as subgradient
from tests.solvers.subgradient.sharded_cases import Seeing

# models with two hyperplanes, a barrier, an l1 penalty, moments; test_every_solver has the others
MODELS = ("nu-svm", "logistic", "l1-logistic", "mm-mpm")


@pytest.fixture(scope="module")
def workers(three_workers: DaskExecution, certificates: Path) -> Iterator[DaskExecution]:
    """Two of the three workers."""
    with DaskExecution(
        address=three_workers.address, n_threads=1, most_workers=2, tls=str(certificates / "client")
    ) as execution:
        yield execution
        assert soon(lambda: is_complete(three_workers))


@pytest.fixture
def execution(workers: DaskExecution) -> DaskExecution:
    assert soon(lambda: is_complete(workers, 2))
    return workers


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return accelerated.sharded(tmp_path_factory.mktemp("accelerated"))


def brief_solver(name: str) -> AcceleratedSolver:
    """Return a solver that stops after the first checkpoint."""
    return accelerated.solver(name, 1e-6, iterations=6)


def run(learning: AcceleratedSolver, data: Dataset, execution: Any) -> Any:
    return accelerated.bits(learning, last_state(learning, data, execution))


@pytest.mark.parametrize("name", MODELS)
def test_accelerated_models_send_vectors_of_the_map_only_and_equal_one_process(
    name: str, data: Dataset, here: Execution, execution: DaskExecution
) -> None:
    before = execution.traffic
    assert run(brief_solver(name), data, execution) == run(brief_solver(name), data, here)
    after = execution.traffic
    n_rounds = after.rounds - before.rounds
    # pickled: a vector of the map's columns and some numbers; the map once per class; moments once
    numbers = 2 * (N_COLUMNS + 1) ** 2 if name == "mm-mpm" else N_COLUMNS
    received = (after.bytes_received - before.bytes_received) / n_rounds / len(data.split("train"))
    assert received < 8 * numbers + 2000
    sent = (after.bytes_sent - before.bytes_sent) / n_rounds / execution.n_workers
    assert sent < 8 * N_COLUMNS + 6000
    assert 8 * N_COLUMNS + 2000 < 8 * SHARD_ROWS  # traffic if vectors of rows were sent


def test_a_worker_killed_after_a_checkpoint_changes_no_bit_of_an_accelerated_model(
    data: Dataset, here: Execution, execution: DaskExecution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_rounds, "CHECKPOINT_STEPS", 4)
    (tmp_path / "checkpoints").mkdir()
    learning = replace(brief_solver("nu-svm"), scratch=tmp_path / "checkpoints")
    watched = Watched(execution, {45}, worker_killed(tmp_path))
    assert run(learning, data, watched) == run(brief_solver("nu-svm"), data, here)
    assert (tmp_path / "45" / "killed").exists()
    assert any((tmp_path / "checkpoints").glob("*.npy"))


def test_a_killed_worker_changes_no_bit_of_newtons_method(
    data: Dataset, here: Execution, execution: DaskExecution, tmp_path: Path
) -> None:  # everything in partitions can be computed from the request
    learning = replace(accelerated.solver("l1-logistic", 1e-4), method=MethodChoice("newton", 1e-4))
    watched = Watched(execution, {9}, worker_killed(tmp_path))
    assert run(learning, data, watched) == run(learning, data, here)
    assert (tmp_path / "9" / "killed").exists()


def test_a_killed_worker_changes_no_bit_of_a_certified_sample(
    here: Execution, execution: DaskExecution, tmp_path: Path
) -> None:
    learning, rows = subgradient.solver(gap=0.06, replicates=4), subgradient.sharded(tmp_path)
    expected = subgradient.last_state(learning, rows, here)
    assert not learning.certificate(expected)["exact"]
    before = execution.traffic
    watched = Seeing(execution, {9}, worker_killed(tmp_path))
    state = subgradient.last_state(learning, rows, watched)
    assert subgradient.bits(learning, state) == subgradient.bits(learning, expected)
    assert (tmp_path / "9" / "killed").exists()
    after = execution.traffic
    received = (after.bytes_received - before.bytes_received) / (after.rounds - before.rounds) / 4
    assert received < 8 * expected.rows.n_columns + 2000


def test_exact_kernel_samples_on_workers_equal_one_process(
    here: Execution, execution: DaskExecution, tmp_path: Path
) -> None:
    learning, rows = (
        subgradient.solver(gap=0.15, lam=0.03, replicates=3, maps=ExactChoice()),
        subgradient.sharded(tmp_path),
    )
    states = [
        subgradient.bits(learning, subgradient.last_state(learning, rows, backend)) for backend in (here, execution)
    ]
    assert states[0] == states[1]
