"""What is logged says of which run and shard it is, wherever it was logged."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import pytest

from okl.execution.protocol import Execution
from okl.runlog import MOST_TOLD, WORKER_LOGGER, at_call, at_shard, naming, run_logger, tell_failure
from okl.store.dataset import Dataset, Shard
from okl.types import Task


@dataclass(frozen=True)
class Complains:
    """Work that has something to say of its shard."""

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
    worker = logging.getLogger(WORKER_LOGGER)  # below Dask's, which keeps its records to itself once it is imported
    monkeypatch.setattr(worker, "propagate", False)
    monkeypatch.setattr(worker, "handlers", [caplog.handler])
    monkeypatch.setattr(worker, "level", logging.INFO)
    try:
        with caplog.at_level(logging.INFO), at_call("run a, b, mix 3") as told:
            at_shard("part-00007.parquet")
            log.info("quiet")
            log.warning("loud")
            tell_failure(ValueError("no"))
            for _ in range(2 * MOST_TOLD):
                log.warning("again")
    finally:
        logging.getLogger("okl").handlers = before
    assert told[0] == (logging.WARNING, "run a, b, mix 3, part-00007.parquet: loud")
    assert len(told) == MOST_TOLD
    ours = [record for record in caplog.records if record.name == "okl.tests"]
    assert {(record.__dict__["run"], record.__dict__["shard"]) for record in ours} == {("a, b", "part-00007.parquet")}
    theirs = [record.getMessage() for record in caplog.records if record.name == WORKER_LOGGER]
    assert theirs[:3] == [
        "run a, b, mix 3, part-00007.parquet: quiet",
        "run a, b, mix 3, part-00007.parquet: loud",
        "run a, b, mix 3, part-00007.parquet failed: ValueError: no",
    ]


def test_warnings_of_workers_come_back_and_name_run_shard_and_worker(
    two_workers: Execution, learnable: dict[Task, Dataset], caplog: pytest.LogCaptureFixture
) -> None:
    data = learnable["binary"]
    shards = data.split("train")
    rows = two_workers.sum(Complains("too few"), shards, 1, lambda parts: int(np.sum(parts)))
    assert rows == sum(shard.rows for shard in shards) + len(shards)
    told = [record.getMessage() for record in caplog.records if "too few" in record.getMessage()]
    assert len(told) == len(shards)
    for shard in shards:
        (line,) = (line for line in told if shard.path in line)
        assert f", {shard.path}: too few of {shard.rows} rows (worker tcp://127.0.0.1:" in line or line.startswith(
            "sum"
        )
