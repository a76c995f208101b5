from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution, Rows
from okl.data.order import Order, Window, permutation_of, plan_windows
from okl.data.reading import prefetch_window, window_jobs
from okl.distributed.in_process import LocalExecution, WindowReader
from okl.foundation.errors import DataError, ExecutionError
from okl.foundation.types import Precision

WINDOW_BYTES = 4 * 6 * 700  # 700 rows: each window has some of the row groups


def windows_of(data: Dataset, order: Order = "shuffle", seed: int = 1) -> tuple[Window, ...]:
    windows = plan_windows(data.shards, 6, order, (seed,), WINDOW_BYTES)
    assert len(windows) >= 6
    assert len({window.rows for window in windows}) > 1
    return windows


def naive_rows(data: Dataset, window: Window) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Read a window with pyarrow and NumPy in float64: obvious and slow."""
    parts = []
    for shard, group, _ in window.pieces:
        table = pq.ParquetFile(data.path(data.shards[shard])).read_row_group(group)
        parts.append(np.column_stack([table[name].to_numpy().astype(np.float64) for name in table.column_names]))
    stored = np.concatenate(parts)
    rows, permutation = np.empty_like(stored), permutation_of(window)
    rows[np.arange(window.rows) if permutation is None else permutation] = stored
    columns = (*data.schema.feature_statistics, data.schema.target_statistics)
    for j, column in enumerate(columns):
        assert column is not None
        rows[:, j] = (rows[:, j] - column.mean) / column.standard_deviation
    return rows[:, :6], rows[:, 6]


@pytest.mark.parametrize("backend", ["local-1", "local-2"], indirect=True)  # on Dask: see test_contract
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("order", ["stored", "shuffle"])
def test_stream_equals_a_naive_read(backend: Execution, data: Dataset, order: Order, precision: Precision) -> None:
    windows = windows_of(data, order)
    seen = 0
    for window, rows in zip(windows, backend.stream(data, windows, 0, len(windows), precision), strict=True):
        inputs, targets = naive_rows(data, window)
        assert rows.inputs.dtype == precision
        assert rows.inputs.flags.c_contiguous
        np.testing.assert_allclose(rows.inputs, inputs, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(rows.targets, targets, rtol=1e-12)
        seen += len(rows.targets)
    assert seen == sum(shard.rows for shard in data.shards)


def test_parts_of_a_stream_equal_the_whole_stream(data: Dataset) -> None:
    windows = windows_of(data)
    with LocalExecution(2) as execution:
        all_rows = [rows.inputs.copy() for rows in execution.stream(data, windows, 0, len(windows), "float32")]
    with LocalExecution(2) as execution:
        for k in range(len(windows)):
            again = windows_of(data)  # a new plan of the caller, equal but not identical
            (rows,) = (rows.inputs.copy() for rows in execution.stream(data, again, k, k + 1, "float32"))
            assert rows.tobytes() == all_rows[k].tobytes()


def test_a_stream_restarts_unless_it_is_continued(data: Dataset) -> None:
    windows, others = windows_of(data), windows_of(data, seed=2)
    with LocalExecution(2) as execution:
        for plan, k, precision in [
            (windows, 0, "float32"), (windows, 1, "float32"), (windows, 1, "float32"), (windows, 4, "float32"),
            (others, 5, "float32"), (others, 5, "float64"), (others[:1], 0, "float64"), (windows, 2, "float32"),
        ]:  # fmt: skip
            for rows in execution.stream(data, plan, k, k + 1, precision):  # type: ignore[arg-type]
                np.testing.assert_allclose(rows.inputs, naive_rows(data, plan[k])[0], rtol=1e-5, atol=2e-6)


class Recorder:
    """A plan that records its jobs, which wait until the gate is open."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.planned: list[int] = []
        self.buffers: set[int] = set()
        self.gate = threading.Event()
        self.changed = threading.Condition()
        self.gate.set()

    def plan(self, data: Dataset, window: Window, inputs: Any, targets: Any) -> list[Callable[[], None]]:
        def job() -> None:
            with self.changed:
                self.started.append(window.index)
                self.changed.notify_all()
            assert self.gate.wait(10)
            inputs[:] = window.index

        self.buffers.add(inputs.__array_interface__["data"][0])
        self.planned.append(window.index)
        return [job]

    def wait_for(self, index: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: index in self.started, timeout=10)


def test_next_window_is_in_flight_between_calls(data: Dataset) -> None:
    recorder, windows = Recorder(), windows_of(data)
    reader = WindowReader(recorder.plan, 2)
    for k in range(3):
        rows = reader.take(data, windows, k, "float32")
        assert recorder.wait_for(k + 1)  # without a request for it
        assert (rows.inputs == k).all()
        assert recorder.planned == list(range(k + 2))  # one window ahead, not two; no window is read twice
    reader.close()


def test_a_pass_uses_two_buffers(data: Dataset) -> None:
    recorder, windows = Recorder(), windows_of(data)
    reader = WindowReader(recorder.plan, 3)
    for k in range(len(windows)):
        reader.take(data, windows, k, "float32")
    assert len(recorder.buffers) == 2
    reader.take(data, windows_of(data, seed=2), 0, "float32")
    assert len(recorder.buffers) == 2  # another plan of the same size reuses them
    reader.close()


def test_rows_are_unchanged_until_the_next_rows_are_requested(data: Dataset) -> None:
    windows = windows_of(data)
    with LocalExecution(2) as execution:
        stream = execution.stream(data, windows, 0, len(windows), "float32")
        rows = next(stream)
        before = rows.inputs.copy()
        # time in which readers might overwrite the rows
        next(execution.map(lambda _: threading.Event().wait(0.1), range(1)))
        assert rows.inputs.tobytes() == before.tobytes()


def test_a_window_in_flight_is_cancelled_when_the_plan_changes(data: Dataset) -> None:
    recorder, windows = Recorder(), windows_of(data)
    reader = WindowReader(recorder.plan, 1)
    reader.take(data, windows, 0, "float32")
    assert recorder.wait_for(1)
    assert (reader.take(data, windows, 3, "float32").inputs == 3).all()
    assert 2 not in recorder.started
    reader.close()


def test_damaged_shard_is_an_error_at_its_window_and_the_reader_continues(data: Dataset) -> None:
    bad = replace(data, shards=(replace(data.shards[0], path="gone.parquet"), *data.shards[1:]))
    windows = windows_of(data, "stored")
    with LocalExecution(2) as execution:
        with pytest.raises(DataError, match=r"gone\.parquet"):
            next(execution.stream(bad, windows, 0, 1, "float32"))
        rows = next(execution.stream(data, windows, 0, 1, "float32"))
        np.testing.assert_allclose(rows.inputs, naive_rows(data, windows[0])[0], rtol=1e-5, atol=2e-6)


def test_error_of_a_later_window_is_not_raised_early(data: Dataset) -> None:
    windows = windows_of(data, "stored")
    later = windows[1].pieces[-1][0]
    assert later not in {shard for shard, _, _ in windows[0].pieces}
    shards = [replace(shard, path="gone.parquet") if shard.index == later else shard for shard in data.shards]
    bad = replace(data, shards=tuple(shards))
    with LocalExecution(2) as execution:
        stream = execution.stream(bad, windows, 0, 2, "float32")
        assert len(next(stream).targets) == windows[0].rows
        with pytest.raises(DataError, match=r"gone\.parquet"):
            next(stream)


def test_closed_execution_is_an_error(data: Dataset) -> None:
    execution = LocalExecution(1)
    execution.close()
    with pytest.raises(ExecutionError, match="closed"):
        next(execution.stream(data, windows_of(data), 0, 1, "float32"))


def test_no_rows_give_no_windows(data: Dataset) -> None:
    with LocalExecution(1) as execution:
        assert list(execution.stream(data, (), 0, 0, "float32")) == []


def test_rows_are_a_named_pair(data: Dataset) -> None:
    with LocalExecution(1) as execution:
        assert isinstance(next(execution.stream(data, windows_of(data), 0, 1, "float32")), Rows)


class TurnRecorder:
    """A plan with three jobs per window that records its jobs and the expected windows."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.threads: set[int] = set()
        self.buffers: set[int] = set()
        self.failing = -1
        self.together = threading.Barrier(2)

    def plan(self, data: Dataset, window: Window, inputs: Any, targets: Any) -> list[Callable[[], None]]:
        def job(part: int) -> None:
            if part < 2:
                self.together.wait(10)
            self.threads.add(threading.get_ident())
            if window.index == self.failing and part == 1:
                raise DataError("damaged")
            inputs[part::3] = window.index

        self.events.append(("read", window.index))
        self.buffers.add(inputs.__array_interface__["data"][0])
        return [lambda part=part: job(part) for part in range(3)]  # type: ignore[misc]

    def expect(self, data: Dataset, window: Window) -> None:
        self.events.append(("expect", window.index))


def test_a_window_is_read_once_by_several_threads_when_the_next_is_expected(data: Dataset) -> None:
    recorder, windows = TurnRecorder(), windows_of(data)
    reader = WindowReader(recorder.plan, 2, recorder.expect)
    for k in (0, 0, 1, 1, len(windows) - 1):
        assert (reader.take(data, windows, k, "float32").inputs == k).all()
    last = len(windows) - 1
    assert recorder.events == [("expect", 1), ("read", 0), ("expect", 2), ("read", 1), ("read", last)]
    assert threading.get_ident() in recorder.threads
    assert len(recorder.buffers) == 1


def test_a_failure_is_raised_and_the_window_is_read_again(data: Dataset) -> None:
    recorder, windows = TurnRecorder(), windows_of(data)
    reader = WindowReader(recorder.plan, 2, recorder.expect)
    reader.take(data, windows, 0, "float32")
    recorder.failing = 1
    with pytest.raises(DataError, match="damaged"):
        reader.take(data, windows, 1, "float32")
    recorder.failing = -1
    assert (reader.take(data, windows, 1, "float32").inputs == 1).all()


@pytest.mark.parametrize("order", ["stored", "shuffle"])
def test_any_window_of_any_plan_equals_a_naive_read(data: Dataset, order: Any) -> None:
    windows, others = windows_of(data, order), windows_of(data, order, seed=2)
    reader = WindowReader(window_jobs, 2, prefetch_window)
    for plan, k, precision in [
        (windows, 0, "float32"), (windows, 1, "float32"), (windows, 4, "float64"), (others, 4, "float64"),
        (others, 5, "float32"), (others[:1], 0, "float32"), (windows, 5, "float32"),
    ]:  # fmt: skip
        rows = reader.take(data, plan, k, precision)  # type: ignore[arg-type]
        inputs, targets = naive_rows(data, plan[k])
        assert rows.inputs.dtype == precision
        np.testing.assert_allclose(rows.inputs, inputs, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(rows.targets, targets, rtol=1e-12)


def test_a_missing_expected_shard_is_an_error_only_when_it_is_read(data: Dataset) -> None:
    windows = windows_of(data, "stored")
    later = windows[1].pieces[-1][0]
    shards = [replace(shard, path="gone.parquet") if shard.index == later else shard for shard in data.shards]
    bad = replace(data, shards=tuple(shards))
    reader = WindowReader(window_jobs, 2, prefetch_window)
    assert len(reader.take(bad, windows, 0, "float32").targets) == windows[0].rows
    with pytest.raises(DataError, match=r"gone\.parquet"):
        reader.take(bad, windows, 1, "float32")


def test_readers_prefetch_if_training_leaves_cores_idle(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    windows, read = windows_of(data), []
    for cores, ahead in ((1, False), (2, False), (3, True), (8, True)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        with LocalExecution(2) as execution:
            (rows,) = execution.stream(data, windows, 1, 2, "float32")
            read.append(rows.inputs.tobytes())
            assert (execution._readers()._pool is not None) == ahead
    assert len(set(read)) == 1
