"""The process of the Prefect worker of the stack: `python -m flows.stack.poolworker PARENT POOL FOLDER`.

It is Prefect's own process worker, but for the command that runs a flow: see `flows.stack.handoff`.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from flows.stack.asking import server_answers
from flows.stack.mortal import begin

NAME = "okl-stack"
POLL_SECONDS = 0.1


async def serve(pool: str, folder: str) -> None:
    """Ask the configured server for runs of a pool, which is made if it is missing, until the process is ended."""
    warnings.filterwarnings("ignore", "Type 'WarmWorker'")  # it is meant to take the place of Prefect's own
    from prefect.workers.process import ProcessJobConfiguration, ProcessWorker

    # A worker that finds nobody would give up events, with them the news of cancelled runs, and wait ever longer
    while not server_answers(os.environ["PREFECT_API_URL"]):
        time.sleep(POLL_SECONDS)

    handoff = shlex.join([sys.executable, "-I", "-S", str(Path(__file__).with_name("handoff.py")), folder])

    class WarmJob(ProcessJobConfiguration):
        """A job whose flow runs in a process that has imported okl and Prefect already, unless it says otherwise."""

        def prepare_for_flow_run(self, *arguments: Any, **named: Any) -> None:
            self.command = self.command or handoff
            super().prepare_for_flow_run(*arguments, **named)

    class WarmWorker(ProcessWorker):
        """Prefect's process worker with such jobs."""

        job_configuration = WarmJob

    await WarmWorker(work_pool_name=pool, name=NAME).start()


if __name__ == "__main__":
    begin(int(sys.argv[1]))
    asyncio.run(serve(*sys.argv[2:4]))
