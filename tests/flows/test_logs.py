"""Messages that okl logs in any thread are stored in the log of the flow run."""

from __future__ import annotations

import logging
import threading

from flows.records import wait_for_records
from flows.server import TemporaryServer
from flows.stages import Started, in_flow_log
from okl.foundation.telemetry import naming, run_logger
from tests.flows.conftest import query


def test_warnings_of_any_thread_are_stored_with_the_flow_run(configured: TemporaryServer) -> None:
    from prefect import flow, runtime

    handlers = list(logging.getLogger("okl").handlers)
    started = Started()

    @flow
    def warning() -> None:
        started.flow_runs.append(str(runtime.flow_run.id))
        log = run_logger("okl.distributed")
        with in_flow_log(), naming("rye"):
            log.info("not worth keeping")
            other = threading.Thread(target=log.warning, args=("worker %s is gone", "w1"))
            other.start()
            other.join()
        log.warning("after the run")

    warning()
    assert wait_for_records(started, 30.0) == []
    assert logging.getLogger("okl").handlers == handlers
    stored = query(configured.home, f"select message from log where flow_run_id = '{started.flow_runs[0]}'")
    assert ("run rye: worker w1 is gone",) in stored
    assert not {text for (text,) in stored} & {"run rye: not worth keeping", "after the run"}
