"""A stack with a deployment of the flow `okl-retrain` whose runs write their stages to a file: for kills and races."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import psutil  # type: ignore[import-untyped]  # no stubs
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import temporary_settings

from flows.runs import okl_retrain
from flows.stack.control import down
from flows.stack.state import StackState, live_state, stack_folder
from okl.lifecycle.settings import RetrainSettings
from tests.benchmarks.retrainnotes import NOTE, notes

POLL_SECONDS = 0.1
MOST_SECONDS = 180.0


class Deployed:
    """A separate stack that runs inside the context, and its deployment.

    Parameters
    ----------
    home : okl's home folder of the stack
    note : file that runs write their stages to
    """

    def __init__(self, home: Path, note: Path) -> None:
        self.home, self.note = home, note

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "flows.cli", "up", "--workers", "1"]
        subprocess.run(command, env=os.environ | {"OKL_HOME": str(self.home)}, check=True, capture_output=True)
        with self.client() as client:
            self.deployment = client.create_deployment(
                flow_id=client.create_flow(okl_retrain),
                name="noted",
                entrypoint="tests.benchmarks.retrainnotes.okl_retrain",
                work_pool_name=self.state.pool,
                pull_steps=[],
                job_variables={"env": {NOTE: str(self.note), "OKL_HOME": str(self.home)}},
                enforce_parameter_schema=False,
            )
        return self

    def __exit__(self, *_: object) -> None:
        down(self.home)

    @property
    def state(self) -> StackState:
        """State of the stack."""
        state = live_state(stack_folder(self.home))
        assert state is not None
        return state

    def client(self) -> Any:
        """Return a client of the stack's server."""
        return _Client(self.state.url)

    def start(self, settings: RetrainSettings) -> tuple[Callable[[], int | None], Callable[[], Any]]:
        """Start a run; return functions that return its process id (or None), and its outcome after its end."""
        values = {"settings": settings.model_dump(mode="json")}
        with self.client() as client:
            run = client.create_flow_run_from_deployment(self.deployment, parameters=values).id
        return self._process, lambda: self._ended(run)

    def _process(self) -> int | None:
        """Return the process of the run: as written to the file, or the one that the Prefect worker has started."""
        if lines := notes(self.note):
            return lines[0].pid
        worker = next(child.pid for child in self.state.children if child.name == "prefect-worker")
        children = psutil.Process(worker).children()
        return children[-1].pid if children else None

    def _ended(self, run: UUID) -> dict[str, Any]:
        deadline = time.monotonic() + MOST_SECONDS
        with self.client() as client:
            while not (state := client.read_flow_run(run).state).is_final():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the flow run {run} is {state.name}: {state.message}")
                time.sleep(POLL_SECONDS)
        return {"outcome": state.name.lower(), "message": state.message}

    def states(self) -> dict[str, int]:
        """Return how many of the server's flow runs are in each state."""
        with self.client() as client:
            return dict(Counter(run.state.name for run in client.read_flow_runs(limit=200)))


class _Client:
    """A client with its settings."""

    def __init__(self, url: str) -> None:
        self.settings = temporary_settings({"api.url": url})
        self.opened: SyncPrefectClient

    def __enter__(self) -> SyncPrefectClient:
        self.settings.__enter__()
        self.opened = get_client(sync_client=True)
        return self.opened.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.opened.__exit__(*error)
        self.settings.__exit__(*error)
