"""Memory is planned before rows are read: fewer rows stay decoded, with the same bits, or the run is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.distributed.cache import process_cache
from okl.distributed.in_process import LocalExecution
from okl.foundation.errors import ConfigError
from okl.runs.memory import MIB, PROCESS_BYTES, USABLE, AssumedData, plan_memory, plan_memory_on, workload_of
from okl.runs.select import Choice, choose_solver
from okl.solvers.factory import make_solver
from okl.solvers.settings import TrainSettings
from tests.data.sources import settings as ingest_settings
from tests.rows import curved, train, train_settings, write
from tests.solver_cases import bits, last_state


class Limited(LocalExecution):
    """An execution in a process with little memory."""

    limit = 0

    @property
    def memory_limit_bytes(self) -> int | None:
        return self.limit


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("set")
    options = ingest_settings(rows_per_shard=512, rows_per_group=128)
    return ingest(write(folder, curved(4000)), folder / "set", options).dataset


def settings(data: Dataset, **values: Any) -> Any:
    return train_settings(data.folder, Path("unused"), solver="c-svm", **{"max_iterations": 3, "tol": 1e-9} | values)


def test_fewer_rows_are_held_where_there_is_little_memory_with_the_same_bits(data: Dataset) -> None:
    solver, usual = make_solver(settings(data), data), process_cache().limit_bytes
    with LocalExecution(1) as roomy:
        plan = plan_memory_on(settings(data), data, roomy)
        assert plan.held == plan.wanted < usual == process_cache().limit_bytes
        expected = bits(solver, last_state(solver, data, roomy))
    with Limited(1) as tight:
        tight.limit = int((plan.worker - plan.held // 2) / USABLE)
        less = plan_memory_on(settings(data), data, tight)
        assert 0 < less.held < plan.wanted
        assert process_cache().limit_bytes == less.held
        process_cache().clear()
        assert bits(solver, last_state(solver, data, tight)) == expected
        assert process_cache().used_bytes <= less.held
    assert process_cache().limit_bytes == usual


def test_a_run_beyond_the_memory_limit_is_refused_before_it_reads(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_reading(*_: object) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr("okl.data.reading.open_part", no_reading)
    with Limited(1) as tight:
        tight.limit = PROCESS_BYTES
        with pytest.raises(ConfigError, match=r"This process needs .* MiB .*more than 90% of its limit"):
            plan_memory_on(settings(data), data, tight)


def test_the_result_of_a_run_has_its_memory_plan(data: Dataset, tmp_path: Path) -> None:
    plan = train(train_settings(data.folder, tmp_path / "run", frequencies=8, step_size=0.1))["memory_plan"]
    assert plan["worker_bytes"] > 100 * MIB
    assert plan["worker_bytes"] < plan["worker_limit_bytes"]


def choose_with_memory(data: Dataset, n_bytes: int, monkeypatch: pytest.MonkeyPatch) -> Choice:
    """Return the automatic choice on a machine with a given amount of memory."""
    monkeypatch.setattr("okl.runs.model_sizes.ROUNDS", ((256, 64),))  # the choice itself does not matter here
    monkeypatch.setattr("okl.runs.candidates.FACTORS", {"gaussian": (1.0,)})
    monkeypatch.setattr("okl.solvers.ridge.cells.TUNED_ROWS", 64)
    for module in ("memory", "select"):
        monkeypatch.setattr(f"okl.runs.{module}.memory_bytes", lambda: n_bytes)
    values = {"data": str(data.folder), "out": "none", "solver": "auto", "budget_seconds": 30}
    return choose_solver(TrainSettings.model_validate(values), data)


def test_sizes_that_do_not_fit_into_the_memory_are_left_out_of_the_automatic_choice(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    roomy = choose_with_memory(data, 2**34, monkeypatch)
    assert not [sentence for sentence in roomy.record["why"] if "memory" in sentence]
    largest = plan_memory(roomy.models[-1][0], workload_of(data), 0, None, 0).worker
    tight = choose_with_memory(data, int(largest / USABLE) - 2**20, monkeypatch)
    assert len(tight.models) < len(roomy.models)
    assert [size.name for _, size in roomy.models if size is not None][-1] in " ".join(tight.record["why"])
    last = tight.models[-1][1]
    assert last is not None
    assert not last.next_budget  # no budget allows a larger one
    for settings, _ in tight.models:
        assert plan_memory(settings, workload_of(data), 0, None, 0).worker < largest


def test_an_automatic_choice_that_does_not_fit_is_refused(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"The automatic choice needs .* MiB, more than 90% .* --solver fogd"):
        choose_with_memory(data, 2**28, monkeypatch)


def test_memory_of_cells_grows_with_the_rows_and_partitions() -> None:
    def planned(rows: int, partitions: int) -> int:
        settings = TrainSettings.model_validate(
            {"data": "none", "out": "none", "solver": "local", "partitions": partitions}
        )
        return plan_memory(settings, AssumedData(rows, 50).workload(), 0, None, 0).vectors

    supports = 1_000_000 * 50 * 8
    assert planned(1_000_000, 1) > 3 * supports  # in the model, in what is saved, in the order of the cells
    assert planned(2_000_000, 1) > 1.5 * planned(1_000_000, 1)
    assert planned(1_000_000, 2) > planned(1_000_000, 1)
