from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from okl.errors import DataError
from okl.execution.local import LocalExecution
from okl.execution.readahead import ReadAhead
from okl.execution.readinturn import ReadInTurn
from okl.store.dataset import Dataset
from okl.store.order import Window
from okl.store.reading import expect_window, window_jobs
from tests.execution.test_readahead import naive_rows, windows_of


class Recorder:
    """A plan of three jobs a window that are noted, and what was expected."""

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
    recorder, windows = Recorder(), windows_of(data)
    reader = ReadInTurn(recorder.plan, recorder.expect, 2)
    for k in (0, 0, 1, 1, len(windows) - 1):
        assert (reader.take(data, windows, k, "float32").inputs == k).all()
    last = len(windows) - 1
    assert recorder.events == [("expect", 1), ("read", 0), ("expect", 2), ("read", 1), ("read", last)]
    assert threading.get_ident() in recorder.threads
    assert len(recorder.buffers) == 1


def test_a_failure_is_raised_and_the_window_is_read_again(data: Dataset) -> None:
    recorder, windows = Recorder(), windows_of(data)
    reader = ReadInTurn(recorder.plan, recorder.expect, 2)
    reader.take(data, windows, 0, "float32")
    recorder.failing = 1
    with pytest.raises(DataError, match="damaged"):
        reader.take(data, windows, 1, "float32")
    recorder.failing = -1
    assert (reader.take(data, windows, 1, "float32").inputs == 1).all()


@pytest.mark.parametrize("order", ["stored", "shuffle"])
def test_any_window_of_any_plan_is_what_a_naive_read_gives(data: Dataset, order: Any) -> None:
    windows, others = windows_of(data, order), windows_of(data, order, seed=2)
    reader = ReadInTurn(window_jobs, expect_window, 2)
    for plan, k, precision in [
        (windows, 0, "float32"), (windows, 1, "float32"), (windows, 4, "float64"), (others, 4, "float64"),
        (others, 5, "float32"), (others[:1], 0, "float32"), (windows, 5, "float32"),
    ]:  # fmt: skip
        rows = reader.take(data, plan, k, precision)  # type: ignore[arg-type]
        inputs, targets = naive_rows(data, plan[k])
        assert rows.inputs.dtype == precision
        np.testing.assert_allclose(rows.inputs, inputs, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(rows.targets, targets, rtol=1e-12)


def test_what_cannot_be_expected_is_an_error_only_once_it_is_read(data: Dataset) -> None:
    windows = windows_of(data, "stored")
    later = windows[1].pieces[-1][0]
    shards = [replace(shard, path="gone.parquet") if shard.index == later else shard for shard in data.shards]
    bad = replace(data, shards=tuple(shards))
    reader = ReadInTurn(window_jobs, expect_window, 2)
    assert len(reader.take(bad, windows, 0, "float32").targets) == windows[0].rows
    with pytest.raises(DataError, match=r"gone\.parquet"):
        reader.take(bad, windows, 1, "float32")


def test_readers_go_ahead_where_learners_leave_cores(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    windows, read = windows_of(data), []
    for cores, kind in ((1, ReadInTurn), (2, ReadInTurn), (3, ReadAhead), (8, ReadAhead)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        with LocalExecution(2) as execution:
            (rows,) = execution.stream(data, windows, 1, 2, "float32")
            read.append(rows.inputs.tobytes())
            assert isinstance(execution._reader, kind)
    assert len(set(read)) == 1
