"""The status of a stack: health, deployments and text."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from flows.stack.child import PREFECT_WORKER
from flows.stack.processes import ASK_SECONDS, code_on_disk, get_json, memory_of, server_answers
from flows.stack.state import StackState
from okl.report.format import aligned

# Health of the processes of a stack, checked from outside, and its runs; nothing heavy is imported.

GOING_ON = ("PENDING", "RUNNING", "CANCELLING", "PAUSED")


def health(state: StackState, folder: Path) -> dict[str, str]:
    """Return the health by name of process: "ok", or the problem."""
    told = {child.name: "ok" if child.pid is not None else "waits to be started" for child in state.children}
    told |= {name: why for name, why in _asked(state, folder).items() if told.get(name) == "ok"}
    return told


def _asked(state: StackState, folder: Path) -> dict[str, str]:
    n_workers = _dask_workers(state.health_port)
    missing = None if n_workers is None else state.workers - n_workers
    told = {
        "server": "ok" if server_answers(state.url) else "does not answer yet",
        "scheduler": "ok" if n_workers is not None else "does not answer yet",
        "prefect-worker": "ok" if _polls(state) else "has not reported yet",
    }
    workers = [child.name for child in state.children if child.name.startswith("worker-")]
    if missing is None or missing > 0:
        told |= dict.fromkeys(workers, "unknown" if missing is None else f"{missing} of them not ready")
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


def _polls(state: StackState) -> bool:
    """Return whether the Prefect worker of this stack, not of an earlier one, has sent a heartbeat."""
    since = next((child.since for child in state.children if child.name == "prefect-worker"), None)
    found = get_json(f"{state.url}/work_pools/{state.pool}/workers/filter", {"limit": 200})
    if since is None or not isinstance(found, list):
        return False
    own = [worker for worker in found if worker["name"] == PREFECT_WORKER and worker["status"] == "ONLINE"]
    heartbeats = [worker["last_heartbeat_time"] for worker in own if worker["last_heartbeat_time"]]
    return any(datetime.fromisoformat(moment).timestamp() >= since for moment in heartbeats)


# The deployments of a stack: next and last runs, read from outside; nothing heavy is imported.

MOST = 200
ENDED_OR_BEGUN = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED", "RUNNING", "PENDING", "CANCELLING", "PAUSED")
WELL = ("COMPLETED", "RUNNING", "PENDING")
NOTICES = "notices.jsonl"
RECENT = timedelta(days=7)
MOST_NOTICES = 3
MOST_CHARACTERS = 300


def deployments_of(url: str) -> list[dict[str, Any]]:
    """Return the deployments with a schedule or a run, by name; none without an answer."""
    found = get_json(f"{url}/deployments/filter", {"limit": MOST})
    flows = get_json(f"{url}/flows/filter", {"limit": MOST})
    if not isinstance(found, list) or not isinstance(flows, list):
        return []
    named = {flow["id"]: flow["name"] for flow in flows}
    told = [_told(url, f"{named.get(one['flow_id'], '?')}/{one['name']}", one) for one in found]
    return sorted((one for one in told if one["schedules"] or one["last"]), key=lambda one: str(one["name"]))


def schedules_at(url: str, seconds: float = ASK_SECONDS) -> int | None:
    """Return the number of active schedules; None if the server does not answer within `seconds`."""
    found = get_json(f"{url}/deployments/filter", {"limit": MOST}, seconds)
    if not isinstance(found, list):
        return None
    return sum(bool(schedule["active"]) for one in found for schedule in one.get("schedules", []))


def notices_in(home: Path, now: datetime | None = None) -> list[dict[str, Any]]:
    """Return the newest notices of the last seven days, newest first: time, event, about, said."""
    file, since = home / NOTICES, (now or datetime.now(UTC)) - RECENT
    try:
        lines = file.read_text(encoding="utf-8").splitlines()[-MOST:]
    except OSError:
        return []
    notices = []
    for line in lines:
        try:
            notice = json.loads(line)
            if datetime.fromisoformat(notice["time"]) >= since:
                notices.append(notice)
        except (ValueError, KeyError, TypeError):  # half a line: the disk was full
            continue
    return notices[: -MOST_NOTICES - 1 : -1]


def deployed_lines(deployments: list[dict[str, Any]], notices: list[dict[str, Any]]) -> list[str]:
    """Return the status as lines of text."""
    lines = [f"deployments with a schedule or with runs: {len(deployments) or 'none'}"]
    for one in deployments:
        cron = ", ".join(f'"{each["cron"]}" {each["timezone"]}' for each in one["schedules"])
        asked = "by events" if one["name"].startswith("okl-notice/") else "on request"
        when = cron or ("with each new champion" if one["scores_to"] else asked)
        lines.append(f"  {one['name']}  {when}" + (f"  next {_moment(one['next'], one)}" if one["next"] else ""))
        if last := one["last"]:
            why = f": {_short(last['message'])}" if last["message"] and last["type"] not in WELL else ""
            lines.append(f"    last {last['state']} {_moment(last['at'])}{why}")
            lines += [f"    {last['outcome']}"] if last["outcome"] else []
        lines += [f"    scores go to {one['scores_to']}"] if one["scores_to"] else []
    lines += [
        f"  notice {_moment(one['time'])}  {one.get('event')}: {one.get('about')}  {_short(one.get('said'))}".rstrip()
        for one in notices
    ]
    return lines


def _told(url: str, name: str, deployment: dict[str, Any]) -> dict[str, Any]:
    schedules = [
        {"cron": each["schedule"]["cron"], "timezone": each["schedule"].get("timezone") or "UTC"}
        for each in deployment.get("schedules", [])
        if each["active"] and "cron" in each["schedule"]
    ]
    waiting = _run(url, deployment["id"], ("SCHEDULED",), "NEXT_SCHEDULED_START_TIME_ASC")
    last = _run(url, deployment["id"], ENDED_OR_BEGUN, "START_TIME_DESC")
    return {
        "name": name,
        "schedules": schedules,
        "scores_to": _scores_to(name, deployment.get("parameters") or {}),
        "next": waiting["next_scheduled_start_time"] if waiting else None,
        "last": None if last is None else {
            "run": last["name"], "state": last["state_name"], "type": last["state_type"],
            "at": last["end_time"] or last["start_time"] or last["expected_start_time"],
            "message": (last.get("state") or {}).get("message") or "",
            "outcome": _outcome(url, last["id"]),
        },
    }  # fmt: skip


def _scores_to(name: str, parameters: dict[str, Any]) -> str | None:
    """Return where scores of each new champion are written; None if a deployment makes none (infra/prefect.yaml)."""
    flow, _, model = name.partition("/")
    settings = parameters.get("settings") or {}
    wanted = flow == "okl-score" and settings.get("model") == f"{model}@champion"
    return str(settings.get("out")) if wanted else None


def _outcome(url: str, run: str) -> str:
    """Return the outcome of a retraining from its artifact (see `flows.artifacts`); "" for other runs."""
    wanted = {"artifacts": {"flow_run_id": {"any_": [run]}, "key": {"like_": "okl-arrivals-%"}}, "limit": 1}
    found = get_json(f"{url}/artifacts/filter", wanted)
    try:
        (row,) = json.loads(found[0]["data"])
        counts = f"New files: {row['accepted']} accepted, {row['rejected']} rejected"
        counts += f", {row['still_written']} left for the next run" if row.get("still_written") else ""
        why = f" (why: okl models show {row['model']})" if row["rejected"] else ""
        return f"{_short(row.get('reason') or row['outcome'])} {counts}{why}."
    except (LookupError, TypeError, ValueError):
        return ""


def _run(url: str, deployment: str, states: tuple[str, ...], order: str) -> dict[str, Any] | None:
    wanted = {
        "deployments": {"id": {"any_": [deployment]}},
        "flow_runs": {"state": {"type": {"any_": list(states)}}},
        "sort": order,
        "limit": 1,
    }
    found = get_json(f"{url}/flow_runs/filter", wanted)
    return found[0] if isinstance(found, list) and found else None


def _moment(told: str | None, deployment: dict[str, Any] | None = None) -> str:
    """Return a moment by the clock of a deployment's schedule, or of this machine, with its zone; "-" for none."""
    if told is None:
        return "-"
    zone = ZoneInfo(deployment["schedules"][0]["timezone"]) if deployment and deployment["schedules"] else None
    return f"{datetime.fromisoformat(told).astimezone(zone):%Y-%m-%d %H:%M %Z}"


def _short(said: Any) -> str:
    text = " ".join((said if isinstance(said, str) else json.dumps(said)).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."


# What a stack looks like, as an object and as text.

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
    """Return the status as lines of text."""
    lines = aligned([COLUMNS, *(_row(process) for process in stack["processes"])])
    lines += [f"  {process['name']} {process['ended']}" for process in stack["processes"] if process["ended"]]
    if not stack["code_is_current"]:
        lines.append("okl's code has changed since `okl up`: new runs do not use these workers until "
                     "okl down and okl up.")  # fmt: skip
    lines.append(f"runs: {len(stack['runs']) or 'none'}")
    lines += [f"  {run['name']}  {run['state']}  since {run['since'] or 'not yet'}" for run in stack["runs"]]
    lines += deployed_lines(stack["deployments"], stack["notices"])
    return "\n".join([*lines, f"pages: {stack['pages']}", export_line(stack["url"])])


def export_line(url: str) -> str:
    """Return the line that sets up a shell for the command `prefect`."""
    return f"export PREFECT_API_URL={url}"


def leaving(url: str, configured: str | None, n_schedules: int | None = 0) -> list[str]:
    """Return the messages after a stack has ended.

    Parameters
    ----------
    url : where its server was; configured : PREFECT_API_URL of the shell
    n_schedules : result of `flows.stack.status.schedules_at`, None if unknown
    """
    lines = []
    if n_schedules != 0:
        subject = "Its schedule pauses" if n_schedules == 1 else "Its schedules pause"
        lines.append(f"{subject} until the next okl up, which starts missed runs as set by okl deploy --late.")
    if configured and configured.rstrip("/") == url:
        lines.append("This shell still uses its server. Type: unset PREFECT_API_URL")
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
    """Format a duration.

    >>> _span(7.2), _span(130), _span(90000)
    ('7 s', '2 min', '25 h')
    """
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
