"""Log records name their run and shard, wherever they were logged."""

from __future__ import annotations

import logging
import threading
import timeit
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import okl.foundation.telemetry as timelines
from okl.data.dataset import Dataset, Shard
from okl.data.execution import Execution
from okl.foundation.telemetry import (
    DRIVER,
    LEARN,
    MAP,
    MOST_BUCKETS,
    MOST_RECORDS,
    NETWORK,
    OTHER,
    PHASES,
    READ,
    WAIT,
    WORKER_LOGGER,
    Span,
    Timeline,
    log_context,
    log_failure,
    log_shard,
    memory_bytes,
    naming,
    record_wait,
    record_work,
    recording,
    run_logger,
    summed,
)
from okl.foundation.types import Task
from okl.report.blocks import Table
from okl.report.figures import timeline_picture
from okl.report.results import RunResult
from okl.report.timeline import (
    MOST_DRAWN_BUCKETS,
    describe_timeline,
    phases,
    timeline_owner,
    timeline_sentence,
    write_timeline,
)
from okl.report.training import facts_section


@pytest.fixture(autouse=True)
def _no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without the run name that an earlier test left."""
    monkeypatch.setattr(timelines, "_run", "")


# Log records name their run and shard, wherever they were logged.


@dataclass(frozen=True)
class Complains:
    """Work that logs a warning about its shard."""

    about: str

    def __call__(self, shard: Shard, value: int) -> int:
        run_logger("okl.complaints").warning("%s of %d rows", self.about, shard.rows)
        return shard.rows + value


def test_records_of_a_run_name_it(caplog: pytest.LogCaptureFixture) -> None:
    log = run_logger("okl.tests")
    log.warning("before %s", "it")
    with naming("100%s-rye"):
        log.warning("in %s", "it")
    assert [record.getMessage() for record in caplog.records] == ["before it", "run 100%s-rye: in it"]
    assert [getattr(record, "run", None) for record in caplog.records] == ["", "100%s-rye"]


def test_warnings_of_a_worker_are_collected_and_go_to_its_own_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, before = run_logger("okl.tests"), list(logging.getLogger("okl").handlers)
    worker = logging.getLogger(WORKER_LOGGER)  # Dask's logger does not propagate records
    monkeypatch.setattr(worker, "propagate", False)
    monkeypatch.setattr(worker, "handlers", [caplog.handler])
    monkeypatch.setattr(worker, "level", logging.INFO)
    try:
        with caplog.at_level(logging.INFO), log_context("run a, b, mix 3") as messages:
            log_shard("part-00007.parquet")
            log.info("quiet")
            log.warning("loud")
            log_failure(ValueError("no"))
            for _ in range(2 * MOST_RECORDS):
                log.warning("again")
    finally:
        logging.getLogger("okl").handlers = before
    assert messages[0] == (logging.WARNING, "run a, b, mix 3, part-00007.parquet: loud")
    assert len(messages) == MOST_RECORDS
    own_records = [record for record in caplog.records if record.name == "okl.tests"]
    assert {(record.__dict__["run"], record.__dict__["shard"]) for record in own_records} == {
        ("a, b", "part-00007.parquet")
    }
    worker_messages = [record.getMessage() for record in caplog.records if record.name == WORKER_LOGGER]
    assert worker_messages[:3] == [
        "run a, b, mix 3, part-00007.parquet: quiet",
        "run a, b, mix 3, part-00007.parquet: loud",
        "run a, b, mix 3, part-00007.parquet failed: ValueError: no",
    ]


def test_warnings_of_workers_are_returned_with_run_shard_and_worker(
    two_workers: Execution, learnable: dict[Task, Dataset], caplog: pytest.LogCaptureFixture
) -> None:
    data = learnable["binary"]
    shards = data.split("train")
    rows = two_workers.sum(Complains("too few"), shards, 1, lambda parts: int(np.sum(parts)))
    assert rows == sum(shard.rows for shard in shards) + len(shards)
    messages = [record.getMessage() for record in caplog.records if "too few" in record.getMessage()]
    assert len(messages) == len(shards)
    for shard in shards:
        (line,) = (line for line in messages if shard.path in line)
        assert f", {shard.path}: too few of {shard.rows} rows (worker tls://127.0.0.1:" in line or line.startswith(
            "sum"
        )


# The timeline of a run: nothing is counted twice or lost, and the phases of a lane fill its lifetime.


class Clock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timelines, "perf_counter", made)
    monkeypatch.setattr("okl.foundation.telemetry.perf_counter", made)
    return made


def totals(timeline: Timeline, stage: str = "learn") -> dict[tuple[str, str], float]:
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for cell in timeline.cells():
        if cell.stage == stage:
            found[cell.lane, cell.phase] += cell.seconds
    return dict(found)


def test_a_span_counts_time_outside_its_inner_spans(clock: Clock) -> None:
    with summed() as phases, Span(READ):
        clock.now += 2.0
        with Span(MAP):
            clock.now += 5.0
        clock.now += 1.0
        with Span(READ):
            clock.now += 0.5
    assert phases == {READ: 3.5, MAP: 5.0}


def test_only_the_thread_of_the_stage_records_for_the_driver(clock: Clock) -> None:
    timeline = Timeline()
    with recording(timeline):
        timeline.stage("learn")

        def read() -> None:
            with Span(READ):
                clock.now += 1.0

        other = threading.Thread(target=read)
        other.start()
        other.join()
        assert totals(timeline) == {(DRIVER, LEARN): pytest.approx(1.0)}
        read()
    assert totals(timeline) == {(DRIVER, LEARN): pytest.approx(1.0), (DRIVER, READ): pytest.approx(1.0)}
    read()
    assert totals(timeline)[DRIVER, READ] == pytest.approx(1.0)


def test_waiting_time_is_split_into_phases_and_transfer(clock: Clock) -> None:
    timeline = Timeline()
    with recording(timeline):
        timeline.stage("learn")
        started = clock.now
        clock.now += 10.0
        record_work("a", 10.0, 8.0, {READ: 2.0, MAP: 1.0})
        record_work("b", 10.0, 4.0, {})
        record_wait(started, 8.0)
        # submitted together with the previous work and done after it: its waiting time is already counted
        clock.now += 3.0
        record_work("a", 13.0, 2.5, {READ: 0.5})
        timeline.finish()
    assert totals(timeline) == {
        ("a", READ): pytest.approx(2.5), ("a", MAP): pytest.approx(1.0), ("a", LEARN): pytest.approx(7.0),
        ("a", NETWORK): pytest.approx(2.5),
        ("b", LEARN): pytest.approx(4.0), ("b", NETWORK): pytest.approx(6.0), ("b", WAIT): pytest.approx(3.0),
        (DRIVER, WAIT): pytest.approx(8.0), (DRIVER, NETWORK): pytest.approx(2.0), (DRIVER, LEARN): pytest.approx(3.0),
    }  # fmt: skip
    assert describe_timeline(timeline)["shares"]["workers"] == pytest.approx(
        {READ: 2.5 / 26, MAP: 1 / 26, LEARN: 11 / 26, WAIT: 3 / 26, NETWORK: 8.5 / 26}, abs=1e-5
    )


def test_every_lane_fills_its_lifetime_for_any_number_of_bucket_doublings(clock: Clock) -> None:
    timeline = Timeline()
    with recording(timeline):
        for stage in ("plan", "learn", "evaluate"):
            timeline.stage(stage)
            for step in range(400):
                with Span(READ):
                    clock.now += 0.03
                clock.now += 0.01
                record_work("a" if step % 2 else "b", 0.04, 0.03, {MAP: 0.01})
        timeline.mark_lost("b")
        clock.now += 4.0
        timeline.finish()
    assert timeline.width * MOST_BUCKETS >= clock.now - timeline.begun > timeline.width * MOST_BUCKETS / 2
    assert len({cell.begin_seconds for cell in timeline.cells()}) <= MOST_BUCKETS
    learn = totals(timeline)
    assert sum(seconds for (lane, _), seconds in learn.items() if lane == DRIVER) == pytest.approx(16.0)
    assert learn[DRIVER, READ] == pytest.approx(12.0)
    assert sum(seconds for (lane, _), seconds in learn.items() if lane == "a") == pytest.approx(16.0)
    after = totals(timeline, "evaluate")
    assert sum(seconds for (lane, _), seconds in after.items() if lane == "a") == pytest.approx(20.0)
    assert sum(seconds for (lane, _), seconds in after.items() if lane == "b") == pytest.approx(16.0)
    assert after["a", OTHER] == pytest.approx(200 * 0.02)
    assert (DRIVER, LEARN) not in after


def test_the_file_holds_every_second_and_the_picture_a_bounded_number_of_lanes(clock: Clock, tmp_path: Path) -> None:
    timeline = Timeline()
    with recording(timeline):
        timeline.stage("learn")
        for step in range(2000):
            clock.now += 0.01
            record_work(f"tcp://10.0.0.{step % 20}:7", 0.02, 0.01, {READ: 0.004})
        timeline.finish()
    write_timeline(timeline, tmp_path / "timeline.parquet")
    table = pq.read_table(tmp_path / "timeline.parquet")
    assert set(table["phase"].to_pylist()) == set(PHASES) - {MAP, OTHER}
    assert sum(table["seconds"].to_pylist()) == pytest.approx(sum(cell.seconds for cell in timeline.cells()))
    description = describe_timeline(timeline)
    assert description["workers"] == 20
    assert [lane["name"] for lane in description["lanes"]] == [
        DRIVER,
        "mean of 20",
        *(f"worker {n}" for n in range(1, 7)),
    ]
    assert all(len(lane[LEARN]) <= MOST_DRAWN_BUCKETS for lane in description["lanes"])
    assert sum(description["lanes"][1][READ]) == pytest.approx(0.4, abs=0.01)
    assert timeline_picture(description) == timeline_picture(description)
    result = {"timeline": description, "workers": 20}
    assert timeline_owner(RunResult(result)) == "Workers"
    assert "Training time of 20 workers: " in timeline_sentence(RunResult(result))
    alone = {"timeline": {"shares": description["shares"], "workers": 1}}
    assert "Training time of 1 worker: " in timeline_sentence(RunResult(alone | {"workers": 1}))
    assert "Training time of 1 thread: " in timeline_sentence(RunResult(alone))
    (run,) = facts_section(RunResult(result | {"settings": {}})).blocks
    assert isinstance(run, Table)
    names = [name for name, _ in run.rows]
    assert "timeline.workers" in names
    assert not [name for name in names if "lanes" in name or "stages" in name], "what is drawn is not listed as well"


def test_a_run_without_a_timeline_has_no_timeline_text() -> None:
    assert phases(RunResult()) == ""
    assert timeline_sentence(RunResult({"timeline": {"shares": {}}})) == ""


def test_a_span_costs_microseconds() -> None:
    def thousand() -> None:
        for _ in range(1000):
            with Span(READ):
                pass

    with summed():
        assert min(timeit.repeat(thousand, number=1, repeat=5)) < 0.1


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/system.slice/okl.service", {"system.slice/okl.service/memory.max": "3000\n"}, 3000),
        ("0::/a/b", {"a/memory.max": "2000", "a/b/memory.max": "max"}, 2000),
        ("0::/", {"memory.max": "4000"}, 4000),
        ("5:cpu,memory:/docker/5f", {"memory/memory.limit_in_bytes": "5000", "memory.max": "1"}, 5000),
        ("4:cpu:/a\n3:memory:/a", {"memory/a/memory.limit_in_bytes": "6000", "cpu/a/memory.max": "1"}, 6000),
    ],
)
def test_memory_is_the_least_limit_of_the_control_groups(
    groups: str, files: dict[str, str], expected: int, tmp_path: Path
) -> None:
    (tmp_path / "groups").write_text(groups + "\n")
    for name, text in files.items():
        file = tmp_path / "mounted" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert memory_bytes(tmp_path / "groups", tmp_path / "mounted") == expected
    assert memory_bytes(tmp_path / "none", tmp_path / "mounted") > 2**20
