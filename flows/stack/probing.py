"""Whether the processes of a stack answer, asked from outside, and what runs there; nothing is imported for it."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from flows.stack.asking import get_json, server_answers
from flows.stack.handoff import ask, connect
from flows.stack.poolworker import NAME
from flows.stack.state import StackState

GOING_ON = ("PENDING", "RUNNING", "CANCELLING", "PAUSED")


def health(state: StackState, folder: Path) -> dict[str, str]:
    """By the name of each process: "ok", or what is the matter with it."""
    told = {child.name: "ok" if child.pid is not None else "waits to be started" for child in state.children}
    told |= {name: why for name, why in _asked(state, folder).items() if told.get(name) == "ok"}
    return told


def _asked(state: StackState, folder: Path) -> dict[str, str]:
    n_workers = _dask_workers(state.health_port)
    missing = None if n_workers is None else state.workers - n_workers
    told = {
        "server": "ok" if server_answers(state.url) else "does not answer yet",
        "scheduler": "ok" if n_workers is not None else "does not answer yet",
        "fork-server": "ok" if _is_warm(folder) else "imports",
        "prefect-worker": "ok" if _polls(state) else "has not reported yet",
    }
    workers = [child.name for child in state.children if child.name.startswith("worker-")]
    if missing is None or missing > 0:
        told |= dict.fromkeys(workers, "cannot be told" if missing is None else f"{missing} of them not there yet")
    return told


def runs_going_on(state: StackState) -> list[dict[str, Any]]:
    """Flow runs that are under way or about to be, first come first; none where the server does not answer."""
    wanted = {"flow_runs": {"state": {"type": {"any_": list(GOING_ON)}}}, "limit": 100}
    found = get_json(f"{state.url}/flow_runs/filter", wanted)
    if not isinstance(found, list):
        return []
    runs = [
        {"id": run["id"], "name": run["name"], "state": run["state_name"], "since": run["start_time"]} for run in found
    ]
    return sorted(runs, key=lambda run: run["since"] or "~")


def _dask_workers(port: int) -> int | None:
    counts = get_json(f"http://127.0.0.1:{port}/json/counts.json")
    return int(counts["workers"]) if isinstance(counts, dict) else None


def _is_warm(folder: Path) -> bool:
    try:
        with connect(os.fspath(folder)) as connection:
            return bool(ask(connection, {}).get("ready"))
    except (OSError, ValueError):
        return False


def _polls(state: StackState) -> bool:
    """Whether the Prefect worker of this stack, not of one before, has been heard of."""
    since = next((child.since for child in state.children if child.name == "prefect-worker"), None)
    found = get_json(f"{state.url}/work_pools/{state.pool}/workers/filter", {"limit": 200})
    if since is None or not isinstance(found, list):
        return False
    heard = [datetime.fromisoformat(worker["last_heartbeat_time"]).timestamp() for worker in found
             if worker["name"] == NAME and worker["status"] == "ONLINE" and worker["last_heartbeat_time"]]  # fmt: skip
    return any(moment >= since for moment in heard)
