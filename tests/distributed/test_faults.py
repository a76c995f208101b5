"""Workers that die, stop or have a full disk while rounds use their handlers; and a cluster without workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # no stubs
import pytest

from okl.data.dataset import Dataset
from okl.distributed import dask, open_execution
from okl.distributed.cluster import ROW_LIMIT
from okl.distributed.dask import DaskExecution
from okl.distributed.in_process import LocalExecution
from okl.foundation.errors import ConfigError, ExecutionError
from okl.solvers.ridge.cells import LocalSolver
from tests.distributed import works
from tests.distributed.conftest import is_complete
from tests.distributed.processes import soon
from tests.distributed.works import KilledOnce, SampledSum, add_up
from tests.solver_cases import bits, last_state

ROUNDS, START_SECONDS = 8, 60.0


@pytest.fixture(scope="module")
def short_wait_execution(three_workers: DaskExecution, certificates: Path) -> Iterator[DaskExecution]:
    with DaskExecution(
        address=three_workers.address,
        n_threads=1,
        straggler_seconds=0.5,
        carrier="handler",
        tls=str(certificates / "client"),
    ) as execution:
        yield execution
        assert soon(lambda: is_complete(execution), START_SECONDS)


@pytest.fixture
def execution(short_wait_execution: DaskExecution) -> DaskExecution:
    """Three workers, called through their handlers only, with a short straggler time."""
    assert soon(lambda: is_complete(short_wait_execution), START_SECONDS)
    return short_wait_execution


def rounds(execution: Any, work: Any, data: Dataset) -> Iterator[bytes]:
    """Yield the bits of each round."""
    value = np.linspace(-0.5, 0.5, 6)
    for round_index in range(ROUNDS):
        value = execution.sum(work, data.shards, (round_index, value), add_up)
        value = value / np.sqrt(np.square(value).sum())
        yield value.tobytes()


@pytest.fixture(scope="module")
def expected(data: Dataset) -> list[bytes]:
    with LocalExecution(1) as here:
        history = list(rounds(here, SampledSum(data, 11), data))
    assert len(set(history)) == ROUNDS
    return history


def test_cancelled_tasks_are_repeated(
    execution: DaskExecution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancel(dask_scheduler: Any) -> int:
        """Cancel the tasks of all clients, as a restarted scheduler does."""
        keys = [key for key, task in dask_scheduler.tasks.items() if task.state == "processing"]
        dask_scheduler.report({"op": "cancelled-keys", "keys": keys})
        return len(keys)

    monkeypatch.setattr(execution._transport, "carrier", "task")
    marker = tmp_path / "go on"
    with ThreadPoolExecutor(1) as pool:
        results = pool.submit(list, execution.map(works.Waiting(marker), range(4)))
        assert soon(lambda: execution._client.run_on_scheduler(cancel) > 0)
        marker.touch()
        assert results.result(START_SECONDS) == [0, 1, 2, 3]


def test_restarted_scheduler_gets_the_plugins_again(execution: DaskExecution) -> None:
    def has_plugin() -> bool:
        execution._transport.refresh()
        listed = execution._client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.worker_plugins))
        return ROW_LIMIT in listed

    execution.hold(10**8)
    execution._client.unregister_worker_plugin(ROW_LIMIT)
    assert not has_plugin()
    execution._transport.membership._connection = None  # as after a reconnection
    assert soon(has_plugin)


def test_stopped_worker_is_skipped_and_used_again_when_it_continues(
    execution: DaskExecution, data: Dataset, expected: list[bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    marker = tmp_path / "stopped"
    work = works.SignalledInRound(SampledSum(data, 11), 5, 3, marker, signal.SIGSTOP)
    try:
        assert list(rounds(execution, work, data)) == expected
        assert marker.exists()
        shards = r"(part-\d+\.parquet|\d+ shards \(part-\d+\.parquet, \.\.\.\))"
        slow = rf"sum \d+: worker tls://\S+ has taken \d+\.\d s for {shards}\. Worker tls://\S+ now does the same"
        assert any(re.search(slow, record.getMessage()) for record in caplog.records)
        assert execution.n_workers == 2
    finally:
        with suppress(FileNotFoundError):
            os.kill(int(marker.read_text()), signal.SIGCONT)
    assert soon(lambda: execution.n_workers == 3)


def test_shard_that_kills_every_worker_is_named(
    execution: DaskExecution, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask, "MOST_DEATHS", 2)  # each dead worker must be started again
    with pytest.raises(ExecutionError, match=r"2 workers died one after another on .*00005.*too little memory"):
        execution.sum(works.KilledBy(5, os.getpid()), data.shards, None, add_up)


def test_item_that_kills_every_worker_ends_its_task(execution: DaskExecution, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution._transport, "carrier", "task")
    monkeypatch.setattr(dask, "MOST_DEATHS", 1)  # the test above checks that deaths are counted
    with pytest.raises(ExecutionError, match="1 workers died one after another"):
        list(execution.map(works.KilledAlways(os.getpid()), range(1)))


def test_full_disk_of_a_worker_is_named(execution: DaskExecution, tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    message = r"Worker tls://.* cannot write to .*File too large.*free some space"
    with pytest.raises(ExecutionError, match=message) as caught:
        list(execution.map(works.WriteTooMuch(path), range(1)))
    assert "\n" not in str(caught.value)


def test_wait_for_workers_is_logged_and_ends_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        pytest.raises(ExecutionError, match=r"has had no workers for 1\.2 s.*dask worker tcp://"),
    ):
        DaskExecution(address=cluster.scheduler_address, patience_seconds=1.2)
    assert sum("has too few workers; waiting 1.2 s" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("text", ["a while", "-1", "inf"])
def test_patience_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("OKL_PATIENCE_SECONDS", text)
    with pytest.raises(ConfigError, match="expected a number of seconds, such as 60"):
        open_execution(2)


OTHER = """
import sys
from importlib import metadata
real = metadata.version
metadata.version = lambda name: "1.0" if name == "scipy" else real(name)
from distributed.cli.dask_worker import main
ca, certificate, key = (f"{sys.argv[3]}/{name}" for name in ("ca.pem", "cert.pem", "key.pem"))
options = ["--protocol=tls", f"--tls-ca-file={ca}", f"--tls-cert={certificate}", f"--tls-key={key}"]
options += ["--no-nanny", "--nthreads=1", "--host=127.0.0.1", "--no-dashboard", f"--local-directory={sys.argv[2]}"]
main([sys.argv[1], *options])
"""


def test_new_worker_with_other_versions_gets_no_work_and_a_message_with_the_command(
    execution: DaskExecution, data: Dataset, expected: list[bytes], tmp_path: Path, certificates: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    command = f"pip install scipy=={metadata.version('scipy')} It gets no work."

    def is_logged() -> bool:
        execution._transport.refresh()
        return sum(command in record.message for record in caplog.records) == 1

    new_worker = subprocess.Popen(
        [sys.executable, "-c", OTHER, execution.address, str(tmp_path), str(certificates / "worker")],
        stderr=subprocess.DEVNULL,
    )
    try:
        assert soon(is_logged, START_SECONDS)
        assert list(rounds(execution, SampledSum(data, 11), data)) == expected
        assert new_worker.pid not in set(execution.map(works.own_process, range(40)))
        assert is_logged()
    finally:
        new_worker.terminate()
        new_worker.wait(10.0)


def other_processor() -> str:
    return "another kind"


def test_warning_on_processors_of_several_kinds_is_logged_once(
    execution: DaskExecution, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert execution.processors == execution._local.processors
    monkeypatch.setattr(dask, "warm_up", other_processor)
    warm_ups = execution._transport._warm_ups
    for _ in range(2):
        warm_ups.clear()
        execution._transport._warm_up()
        assert soon(
            lambda: "another kind" in execution.processors and all(future.done() for future in warm_ups.values())
        )
    assert sum("Processors of several kinds" in record.message for record in caplog.records) == 1
    assert "another kind" in execution.processors


def test_result_on_a_stopped_worker_is_not_waited_for(
    execution: DaskExecution, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marker = tmp_path / "stopped"
    try:
        monkeypatch.setattr(dask, "warm_up", works.StoppedAfterwards(marker))
        del execution._transport._warm_ups[execution._transport.slots[0]]
        execution._transport._warm_up()
        assert soon(
            lambda: marker.exists() and psutil.Process(int(marker.read_text())).status() == psutil.STATUS_STOPPED
        )
        assert execution.processors
    finally:
        with suppress(FileNotFoundError):
            os.kill(int(marker.read_text()), signal.SIGCONT)


class KillingExecution:
    """An execution that kills the first worker that starts the second item of a map."""

    def __init__(self, execution: DaskExecution, folder: Path) -> None:
        self.execution, self.folder = execution, folder

    def map(self, work: Any, items: Any) -> Any:
        return self.execution.map(KilledOnce(work, items[1], self.folder, os.getpid()), items)


def test_killed_worker_changes_no_bit_of_cells(execution: DaskExecution, data: Dataset, tmp_path: Path) -> None:
    solver = LocalSolver(cell_rows=200, bandwidth=2.0, penalty=1e-3, partitions=2)
    expected = bits(solver, last_state(solver, data, execution._local))
    state, killing_execution = solver.start(data, execution), KillingExecution(execution, tmp_path)
    while solver.finished(state) is None:
        state = solver.advance(state, data, killing_execution)  # type: ignore[arg-type]
    assert bits(solver, state) == expected
    assert (tmp_path / "killed").exists()
