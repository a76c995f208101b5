"""The processes that a supervisor starts: `python -m flows.stack.child ROLE PARENT OPTIONS`.

The roles are scheduler and worker (Dask), prefect-worker (Prefect's process worker) and engine (one flow run). Each
heeds signals, whatever it was started from, and ends with its parent.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import shlex
import sys
import time
import warnings
from typing import Any

from flows.stack.processes import begin, server_answers

PREFECT_WORKER = "okl-stack"
POLL_SECONDS = 0.1


def run_dask(role: str, options: dict[str, Any]) -> None:
    """Run a Dask scheduler or worker until the process is ended."""
    from okl.distributed.cluster import serve_scheduler, serve_worker

    (serve_scheduler if role == "scheduler" else serve_worker)(**options)


async def run_prefect_worker(pool: str) -> None:
    """Run Prefect's process worker for a pool, which is made if it is missing, until the process is ended.

    Flow runs end with this worker: Prefect's own command would leave them behind if the worker is killed.
    """
    warnings.filterwarnings("ignore", "Type 'StackWorker'")  # it replaces Prefect's own on purpose
    from prefect.workers.process import ProcessJobConfiguration, ProcessWorker

    # a worker that finds no server would drop events, with them the news of cancelled runs, and wait ever longer
    while not server_answers(os.environ["PREFECT_API_URL"]):
        time.sleep(POLL_SECONDS)
    engine = shlex.join([sys.executable, "-P", "-m", "flows.stack.child", "engine", str(os.getpid())])

    class StackJob(ProcessJobConfiguration):
        """A job whose flow run ends with the worker, unless its deployment names a command."""

        def prepare_for_flow_run(self, *arguments: Any, **named: Any) -> None:
            self.command = self.command or engine
            super().prepare_for_flow_run(*arguments, **named)

    class StackWorker(ProcessWorker):
        """Prefect's process worker with such jobs."""

        job_configuration = StackJob

    await StackWorker(work_pool_name=pool, name=PREFECT_WORKER).start()


def run_engine() -> None:
    """Run the flow run that the environment names, as `python -m prefect.engine` does."""
    sys.path.insert(0, os.getcwd())  # as -m has it
    sys.argv = ["prefect.engine"]
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)


def main(role: str, parent: int, options: str = "{}") -> None:
    """Run a role until the process is ended, or its parent is gone."""
    begin(parent)
    if role == "engine":
        run_engine()
    elif role == "prefect-worker":
        asyncio.run(run_prefect_worker(**json.loads(options)))
    else:
        run_dask(role, json.loads(options))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
