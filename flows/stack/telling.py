"""What a stack looks like, as an object and as text."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from flows.stack.code import code_on_disk
from flows.stack.deployed import deployed_lines, deployments_of, notices_in
from flows.stack.probing import health, runs_going_on
from flows.stack.processes import memory_of
from flows.stack.state import StackState
from okl.report.format import aligned

COLUMNS = ("process", "pid", "address", "since", "memory", "restarts", "health")


def describe(state: StackState, folder: Path) -> dict[str, Any]:
    """Everything about a stack that `okl status --json` prints; times in seconds since 1970, memory in bytes."""
    told = health(state, folder)
    processes = [
        {
            "name": child.name, "pid": child.pid, "address": child.address, "since": child.since,
            "memory_bytes": memory_of(child.pid), "restarts": child.restarts, "ended": child.ended,
            "health": told[child.name], "log": child.log,
        }
        for child in state.children
    ]  # fmt: skip
    supervisor = {"name": "supervisor", "pid": state.pid, "address": None, "since": state.since,
                  "memory_bytes": memory_of(state.pid), "restarts": 0, "ended": None, "health": state.phase,
                  "log": str(folder / "supervisor.log")}  # fmt: skip
    return {
        "up": True,
        "healthy": state.phase == "up" and all(why == "ok" for why in told.values()),
        "phase": state.phase,
        "url": state.url,
        "pages": state.url.removesuffix("/api"),
        "scheduler": state.scheduler,
        "tls": state.tls,
        "workers": state.workers,
        "pool": state.pool,
        "code_is_current": state.code == code_on_disk(),
        "processes": [supervisor, *processes],
        "runs": runs_going_on(state),
        "deployments": deployments_of(state.url),
        "notices": notices_in(folder.parent),
    }


def text(stack: dict[str, Any]) -> str:
    """The same for people."""
    lines = aligned([COLUMNS, *(_row(process) for process in stack["processes"])])
    lines += [f"  {process['name']} {process['ended']}" for process in stack["processes"] if process["ended"]]
    if not stack["code_is_current"]:
        lines.append("okl's code has changed since: new runs start slower, and leave these workers alone, until "
                     "okl down and okl up.")  # fmt: skip
    lines.append(f"runs: {len(stack['runs']) or 'none'}")
    lines += [f"  {run['name']}  {run['state']}  since {run['since'] or 'not yet'}" for run in stack["runs"]]
    lines += deployed_lines(stack["deployments"], stack["notices"])
    return "\n".join([*lines, f"pages: {stack['pages']}", export_line(stack["url"])])


def export_line(url: str) -> str:
    """What a shell needs for the command `prefect`."""
    return f"export PREFECT_API_URL={url}"


def leaving(url: str, configured: str | None, n_schedules: int | None = 0) -> list[str]:
    """What to know, and to type, after a stack has ended.

    Parameters
    ----------
    url : where its server was; configured : PREFECT_API_URL of the shell
    n_schedules : as `flows.stack.deployed.schedules_at` tells, None where it could not
    """
    lines = []
    if n_schedules != 0:
        who = {None: "Schedules, if it has any, rest", 1: "Its schedule rests"}.get(n_schedules, "Its schedules rest")
        lines.append(f"{who} until the next okl up; what falls due before then starts with it (okl deploy --late).")
    if configured and configured.rstrip("/") == url:
        lines.append("This shell still sends commands to its server. Type: unset PREFECT_API_URL")
    return lines


def _row(process: dict[str, Any]) -> tuple[str, ...]:
    used, since = process["memory_bytes"], process["since"]
    return (
        process["name"],
        str(process["pid"] or "-"),
        process["address"] or "-",
        "-" if since is None else f"{datetime.fromtimestamp(since):%m-%d %H:%M:%S} ({_span(time.time() - since)})",
        "-" if used is None else f"{used / 2**20:.0f} MiB",
        str(process["restarts"]),
        process["health"],
    )


def _span(seconds: float) -> str:
    """A length of time.

    >>> _span(7.2), _span(130), _span(90000)
    ('7 s', '2 min', '25 h')
    """
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
