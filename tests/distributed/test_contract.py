"""One suite for every backend: the same results, in the same order, to the bit."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.order import plan_windows
from okl.distributed.dask import DaskExecution
from okl.distributed.in_process import LocalExecution
from okl.foundation.errors import DataError, ExecutionError
from tests.distributed import works
from tests.distributed.processes import soon
from tests.distributed.works import SampledSum, SignalledInRound, add_up


def unit(vector: works.Vector) -> works.Vector:
    return np.asarray(vector / np.sqrt(np.square(vector).sum()))


@pytest.fixture(scope="module")
def expected(data: Dataset) -> list[works.Vector]:
    """Return the values of five rounds without a backend, one shard after another."""
    work, value, history = SampledSum(data, seed=11), np.linspace(-0.5, 0.5, 6), []
    for round_index in range(5):
        value = unit(add_up([work(shard, (round_index, value)) for shard in data.shards]))
        history.append(value)
    assert len({part.tobytes() for part in history}) == 5
    return history


@pytest.mark.parametrize("verb", ["mix", "sum"])
def test_rounds_give_the_same_bits_on_every_backend(
    backend: Execution, data: Dataset, verb: str, expected: list[works.Vector]
) -> None:
    value = np.linspace(-0.5, 0.5, 6)
    for round_index in range(5):
        work = SampledSum(data, seed=11)
        value = unit(getattr(backend, verb)(work, data.shards, (round_index, value), add_up))
        assert value.tobytes() == expected[round_index].tobytes()


def test_streams_have_the_same_rows_on_every_backend(backend: Execution, data: Dataset) -> None:
    windows = plan_windows(data.shards, 6, "shuffle", (1,), 20000)
    with LocalExecution(1) as local:
        expected = [rows.inputs.tobytes() for rows in local.stream(data, windows, 0, len(windows), "float32")]
    assert len(set(expected)) > 1
    assert [rows.inputs.tobytes() for rows in backend.stream(data, windows, 0, len(windows), "float32")] == expected


def test_sum_depends_on_the_order_of_its_parts(data: Dataset) -> None:
    value = (0, np.linspace(-0.5, 0.5, 6))
    parts = [SampledSum(data, seed=11)(shard, value) for shard in data.shards]
    assert add_up(parts).tobytes() != add_up(parts[::-1]).tobytes()


def test_merge_gets_parts_in_shard_order(backend: Execution, data: Dataset) -> None:
    for shards in (data.shards, data.shards[3:4], data.shards[::-1]):
        parts = backend.mix(works.write_into, shards, np.zeros(2), lambda parts: np.array(parts))
        assert parts[:, 0].tolist() == [shard.index for shard in shards]


def test_value_is_left_unchanged(backend: Execution, data: Dataset) -> None:
    value = np.arange(4.0)
    backend.sum(works.write_into, data.shards, value, add_up)
    assert value.tolist() == [0, 1, 2, 3]


def test_results_may_be_written_into(backend: Execution, data: Dataset) -> None:
    def write(parts: list[works.Vector]) -> works.Vector:
        for part in parts:
            part += 1
        return parts[0]

    assert backend.sum(works.write_into, data.shards, np.zeros(3), write).tolist() == [1, 1, 1]


@pytest.mark.parametrize("n_items", [0, 1, 7, 100])
def test_map_keeps_the_order_of_items(backend: Execution, n_items: int) -> None:
    assert list(backend.map(works.square_slowly, range(n_items))) == [i * i for i in range(n_items)]


def test_map_starts_only_a_few_items_ahead(backend: Execution, tmp_path: Path) -> None:
    results = backend.map(works.LeaveTrace(tmp_path), range(200))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    n_started = len(list(tmp_path.iterdir()))
    assert n_started <= 3 + max(backend.n_threads + 2, 4 * 2 * backend.n_workers + 4)
    assert list(results)[-1] == 199


def test_abandoned_map_leaves_the_backend_usable(backend: Execution) -> None:
    for first in backend.map(works.square_slowly, range(50)):
        assert first == 0
        break
    assert list(backend.map(works.square_slowly, range(3))) == [0, 1, 4]


def test_error_of_first_failing_shard_is_raised_unchanged(backend: Execution, data: Dataset) -> None:
    with pytest.raises(DataError) as caught:
        backend.sum(works.refuse, data.shards, "a text", add_up)
    assert type(caught.value) is DataError
    assert str(caught.value) == f"{data.shards[3].path}: expected numbers, got a text. Ingest it again."


def test_map_yields_what_comes_before_an_error(backend: Execution) -> None:
    results = backend.map(works.refuse_third, range(6))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DataError, match="item 3 is not welcome"):
        next(results)


def test_bug_in_work_keeps_its_type(backend: Execution, data: Dataset) -> None:
    with pytest.raises(ZeroDivisionError, match="a bug at"):
        backend.mix(works.fail_by_mistake, data.shards, None, add_up)


def test_missing_shard_is_named(backend: Execution, data: Dataset, tmp_path: Path) -> None:
    elsewhere = Dataset(tmp_path / "elsewhere", data.schema, data.shards, data.sha256)
    with pytest.raises((DataError, ExecutionError), match=r"elsewhere.*00000.parquet") as caught:
        backend.sum(SampledSum(elsewhere, seed=1), data.shards, (0, np.zeros(6)), add_up)
    if backend.n_workers:
        assert "Worker tls://127.0.0.1:" in str(caught.value)


def test_blas_runs_one_thread_in_work(backend: Execution) -> None:
    for threads, numba_threads in backend.map(works.thread_settings, range(4)):
        assert threads == 1
        assert numba_threads == ("1" if backend.n_workers else os.environ.get("NUMBA_NUM_THREADS"))


def test_work_runs_in_the_processes_of_the_backend(backend: Execution) -> None:
    processes = set(backend.map(works.own_process, range(40)))
    assert len(processes) == max(1, backend.n_workers)
    assert (os.getpid() in processes) == (backend.n_workers == 0)


def test_worker_killed_during_a_handler_call_changes_no_bit_and_is_replaced(
    cluster: DaskExecution, data: Dataset, tmp_path: Path, expected: list[works.Vector]
) -> None:  # during a task: see test_faults and test_lifecycle
    work, value = SignalledInRound(SampledSum(data, seed=11), 5, 4, tmp_path / "killed"), np.linspace(-0.5, 0.5, 6)
    for round_index in range(5):
        if round_index == 4:  # rounds are sent to handlers once their work is known to be short
            assert all(map(cluster._transport._open_connection, cluster._transport.slots))
        value = unit(cluster.mix(work, data.shards, (round_index, value), add_up))
        assert value.tobytes() == expected[round_index].tobytes()
    assert (tmp_path / "killed").exists()
    assert soon(lambda: len(set(cluster.map(works.own_process, range(30)))) == 3, 60.0)


def test_traffic_counts_rounds_and_bytes(backend: Execution, data: Dataset) -> None:
    value = np.zeros(20000)
    backend.sum(works.write_into, data.shards, value, add_up)
    before = backend.traffic
    backend.sum(works.write_into, data.shards, value, add_up)
    rounds = backend.traffic.rounds - before.rounds
    sent = (backend.traffic.bytes_sent - before.bytes_sent) / value.nbytes
    received = (backend.traffic.bytes_received - before.bytes_received) / value.nbytes
    assert rounds == 1
    assert sent == pytest.approx(backend.n_workers, rel=0.05)  # the value once per worker, not once per shard
    assert received == pytest.approx(8 if backend.n_workers else 0, rel=0.05)


def test_results_do_not_depend_on_threads(data: Dataset) -> None:
    value = (0, np.linspace(-0.5, 0.5, 6))
    results = set()
    for threads in (1, 2, 3):
        with LocalExecution(threads) as execution:
            results.add(execution.sum(SampledSum(data, seed=3), data.shards, value, add_up).tobytes())
    assert len(results) == 1
