"""The status of a stack: health of its processes, runs, deployments and notices, as an object and as text."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Any
from zoneinfo import ZoneInfo

from flows.child import is_command, is_dead_process
from flows.server import ASK_SECONDS, LOOPBACK, disk_problem, get_json, login_file, server_answers, stack_login
from flows.stack.state import HEALTH_SOCKET, ChildState, StackState, code_on_disk, live_stack, stack_folder
from flows.stack.supervisor import PREFECT_WORKER, memory_of
from okl.foundation.locations import okl_home
from okl.report.format import aligned
from okl.report.progress import describe_summary

# Health of the processes, checked from outside, and active runs


def _ask(url: str, body: Any = None, seconds: float = ASK_SECONDS) -> Any:
    """Return the answer of a Prefect server, see `get_json`, with the login of the stack or that of the shell."""
    own = stack_login(okl_home()) if url.startswith(f"http://{LOOPBACK}:") and live_stack(okl_home()) else ""
    return get_json(url, body, seconds, own or os.environ.get("PREFECT_API_AUTH_STRING", ""))


ACTIVE = ("PENDING", "RUNNING", "CANCELLING", "PAUSED")


def health(state: StackState) -> dict[str, str]:
    """Return the health by name of process: "ok", or the problem."""
    counts = get_json("/json/counts.json", socket_path=str(stack_folder(okl_home()) / HEALTH_SOCKET))
    missing = state.workers - int(counts["workers"]) if isinstance(counts, dict) else None
    found = {
        "server": "ok" if server_answers(state.url) else "does not answer yet",
        "scheduler": "does not answer yet" if missing is None else "ok",
        "prefect-worker": "ok" if _polls(state) else "has not reported yet",
    }
    worker = "unknown" if missing is None else f"{missing} of them not ready" if missing > 0 else "ok"
    return {
        child.name: "waits to be started" if child.pid is None else found.get(child.name, worker)
        for child in state.children
    }


def _polls(state: StackState) -> bool:
    """Return whether the Prefect worker of this stack, not of an earlier one, has sent a heartbeat."""
    since = next((child.since for child in state.children if child.name == "prefect-worker"), None)
    found = _ask(f"{state.url}/work_pools/{state.pool}/workers/filter", {"limit": 200})
    if since is None or not isinstance(found, list):
        return False
    own = [worker for worker in found if worker["name"] == PREFECT_WORKER and worker["status"] == "ONLINE"]
    heartbeats = [worker["last_heartbeat_time"] for worker in own if worker["last_heartbeat_time"]]
    return any(datetime.fromisoformat(moment).timestamp() >= since for moment in heartbeats)


def active_runs(state: StackState, seconds: float = ASK_SECONDS) -> list[dict[str, Any]]:
    """Return flow runs under way or about to start, oldest first, without killed ones; none without an answer."""
    wanted = {"flow_runs": {"state": {"type": {"any_": list(ACTIVE)}}}, "limit": 100}
    runs = [
        {"id": run["id"], "name": run["name"], "state": run["state_name"], "since": run["start_time"]}
        | {"command": any(map(is_command, run["tags"]))}
        for run in _ask(f"{state.url}/flow_runs/filter", wanted, seconds) or []
        if not any(map(is_dead_process, run["tags"]))
    ]
    return sorted(runs, key=lambda run: run["since"] or "~")


# Deployments: schedule, next and last run

MOST = 200
STARTED_STATES = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED", *ACTIVE)
GOOD_STATES = ("COMPLETED", "RUNNING", "PENDING")
MOST_CHARACTERS = 300


def deployments_of(url: str) -> list[dict[str, Any]]:
    """Return the deployments with a schedule or a run, by name; none without an answer."""
    found = _ask(f"{url}/deployments/filter", {"limit": MOST}) or []
    flows = {flow["id"]: flow["name"] for flow in _ask(f"{url}/flows/filter", {"limit": MOST}) or []}
    described = [_described(url, f"{flows.get(one['flow_id'], '?')}/{one['name']}", one) for one in found]
    return sorted((one for one in described if one["schedules"] or one["last"]), key=lambda one: str(one["name"]))


def schedules_at(url: str, seconds: float = ASK_SECONDS) -> int | None:
    """Return the number of active schedules; None if the server does not answer within `seconds`."""
    found = _ask(f"{url}/deployments/filter", {"limit": MOST}, seconds)
    if not isinstance(found, list):
        return None
    return sum(bool(schedule["active"]) for one in found for schedule in one.get("schedules", []))


def _described(url: str, name: str, deployment: dict[str, Any]) -> dict[str, Any]:
    def run(states: tuple[str, ...], order: str) -> dict[str, Any] | None:
        wanted = {
            "deployments": {"id": {"any_": [deployment["id"]]}},
            "flow_runs": {"state": {"type": {"any_": list(states)}}},
            "sort": order,
            "limit": 1,
        }
        return next(iter(_ask(f"{url}/flow_runs/filter", wanted) or []), None)

    schedules = [
        {"cron": each["schedule"]["cron"], "timezone": each["schedule"].get("timezone") or "UTC"}
        for each in deployment.get("schedules", [])
        if each["active"] and "cron" in each["schedule"]
    ]
    flow, _, model = name.partition("/")
    settings = (deployment.get("parameters") or {}).get("settings") or {}
    scores = flow == "okl-score" and settings.get("model") == f"{model}@champion"  # see infra/prefect.yaml
    waiting, last = run(("SCHEDULED",), "NEXT_SCHEDULED_START_TIME_ASC"), run(STARTED_STATES, "START_TIME_DESC")
    return {
        "name": name,
        "schedules": schedules,
        "scores_to": str(settings.get("out")) if scores else None,
        "next": waiting["next_scheduled_start_time"] if waiting else None,
        "last": None if last is None else {
            "run": last["name"], "state": last["state_name"], "type": last["state_type"],
            "at": last["end_time"] or last["start_time"] or last["expected_start_time"],
            "message": (last.get("state") or {}).get("message") or "",
            "outcome": _outcome(url, last["id"]),
        },
    }  # fmt: skip


def _outcome(url: str, run: str) -> str:
    """Return the outcome of a retraining from its artifact (see `flows.artifacts`); "" for other runs."""
    wanted = {"artifacts": {"flow_run_id": {"any_": [run]}, "key": {"like_": "okl-arrivals-%"}}, "limit": 1}
    try:
        (row,) = json.loads(_ask(f"{url}/artifacts/filter", wanted)[0]["data"])
        why = f" (why: okl models show {row['model']})" if row["rejected"] else ""
        return f"{_short(row.get('reason') or row['outcome'])} {_new_files(row)}{why}."
    except (LookupError, TypeError, ValueError):
        return ""


def _new_files(row: Mapping[str, Any]) -> str:
    """Return the numbers of new files.

    >>> _new_files({"accepted": 0, "rejected": 1, "waiting": 2})
    'New files: 0 accepted, 2 accepted by earlier runs, 1 rejected'
    """
    counts = [f"{row['accepted']} accepted", f"{row['rejected']} rejected"]
    if row.get("waiting"):  # of a run that was interrupted, or whose challenger was not published
        counts.insert(1, f"{row['waiting']} accepted by earlier runs")
    if row.get("still_written"):
        counts.append(f"{row['still_written']} left for the next run")
    return f"New files: {', '.join(counts)}"


def rescoring(model: str, registry: str | None) -> str:
    """Return when rows are scored with the new champion, and how to score them now; "" without such a deployment.

    A scoring is triggered at the end of a retraining, however the champion changed before that.

    model : its name; registry : as given to the command, None for the usual one
    """
    from okl.models.registry import registry_location

    location, configured = registry_location(registry), os.environ.get("PREFECT_API_URL")
    if configured:
        return rescoring_at(configured, model, location)
    stack = live_stack(okl_home())  # do not wait for a server: the request is done, and this is only a hint
    return rescoring_at(stack.url, model, location, f"{variables(stack.url)} prefect") if stack else ""


def rescoring_at(url: str, model: str, registry: str, prefect: str = "prefect") -> str:
    """Return the same of one server; registry : location of the model; prefect : how to call Prefect's command."""
    found = _ask(f"{url}/deployments/name/okl-score/{model}") or {}
    settings = (found.get("parameters") or {}).get("settings") or {}
    if settings.get("model") != f"{model}@champion" or settings.get("registry") != registry:
        return ""
    return (
        f"{settings.get('source')} is scored with it at the next run of okl-retrain/{model}; to score now: "
        f"{prefect} deployment run okl-score/{model}"
    )


# Notices: see `flows.notice`

RECENT = timedelta(days=7)
MOST_NOTICES = 3
EVENTS = {
    "prefect.flow-run.Failed": "run failed", "prefect.flow-run.Crashed": "run crashed",
    "prefect.flow-run.TimedOut": "run timed out", "okl.model.drifted": "drift", "okl.data.missing": "no new data",
    "okl.data.quarantined": "files quarantined",
}  # fmt: skip
"""Descriptions of the events of notices."""


def notice_subject(event: Any, about: Any) -> str:
    """Return the subject of a notice as text, without the id that Prefect's automation adds in brackets.

    >>> notice_subject("prefect.flow-run.Failed", "train churn (prefect.flow-run.96123cb4)")
    'run failed: train churn'
    """
    return f"{EVENTS.get(str(event), event)}: {str(about).partition(' (')[0]}"


def notice_text(said: Any) -> str:
    """Return the details of a notice: its sentences if there are any, otherwise its figures.

    >>> notice_text({"found": True, "why": "Drift.", "level": 0.001, "choice": "Chosen again."})
    'Drift. Chosen again.'
    >>> notice_text({"windows": 3})
    'windows 3'
    """
    sentences = [str(said[name]) for name in ("why", "choice") if said.get(name)] if isinstance(said, dict) else []
    return " ".join(sentences) or describe_summary(said)


def notices_in(home: Path, now: datetime | None = None) -> list[dict[str, Any]]:
    """Return the newest notices of the last seven days, newest first: time, event, about, said."""
    since = (now or datetime.now(UTC)) - RECENT
    try:
        lines = (home / "notices.jsonl").read_text(encoding="utf-8").splitlines()[-MOST:]
    except OSError:
        return []
    notices = []
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):  # half a line: the disk was full
            notice = json.loads(line)
            if datetime.fromisoformat(notice["time"]) >= since:
                notices.append(notice)
    return notices[: -MOST_NOTICES - 1 : -1]


# The status as an object and as text


def describe(state: StackState, folder: Path) -> dict[str, Any]:
    """Return what `okl status --json` prints; times in seconds since 1970, memory in bytes."""
    found = health(state)
    log = str(folder / "supervisor.log")
    supervisor = ChildState("supervisor", state.pid, None, state.since, restarts=0, ended=None, log=log)
    return {
        "up": True,
        "healthy": state.phase == "up" and set(found.values()) == {"ok"} and not disk_problem(folder.parent),
        "phase": state.phase,
        "url": state.url,
        "pages": state.url.removesuffix("/api"),
        "scheduler": state.scheduler,
        "tls": state.tls,
        "workers": state.workers,
        "pool": state.pool,
        "code_is_current": state.code == code_on_disk(),
        "disk": disk_problem(folder.parent),
        "processes": [
            asdict(one) | {"memory_bytes": memory_of(one.pid), "health": found.get(one.name, state.phase)}
            for one in (supervisor, *state.children)
        ],
        "runs": active_runs(state),
        "deployments": deployments_of(state.url),
        "notices": notices_in(folder.parent),
    }


def text(stack: dict[str, Any]) -> str:
    """Return the status as lines of text."""
    rows = [("process", "pid", "address", "since", "memory", "restarts", "health")]
    for process in stack["processes"]:
        used, since = process["memory_bytes"], process["since"]
        started = "-" if since is None else f"{_moment(since)} ({_age(since)})"
        memory = "-" if used is None else f"{used / 2**20:.0f} MiB"
        rows.append((process["name"], str(process["pid"] or "-"), process["address"] or "-", started, memory,
                     str(process["restarts"]), process["health"]))  # fmt: skip
    lines = aligned(rows)
    lines += [f"  {process['name']} {process['ended']}" for process in stack["processes"] if process["ended"]]
    if stack["disk"]:
        lines.append(stack["disk"])
    if not stack["code_is_current"]:
        lines.append("okl's code has changed since `okl up`: new runs do not use these workers until "
                     "okl down and okl up.")  # fmt: skip
    lines.append(f"runs: {len(stack['runs']) or 'none'}")
    since = [f"since {_moment(run['since'])}" if run["since"] else "not started" for run in stack["runs"]]
    lines += [f"  {run['name']}  {run['state']}  {when}" for run, when in zip(stack["runs"], since, strict=True)]
    lines += deployed_lines(stack["deployments"], stack["notices"])
    lines += [f"logs: {Path(process['log']).parent}/*.log" for process in stack["processes"][:1]]
    return "\n".join(
        [*lines, f"pages: {stack['pages']} (login: {login_file(okl_home())})", f"export {variables(stack['url'])}"]
    )


def deployed_lines(deployments: list[dict[str, Any]], notices: list[dict[str, Any]]) -> list[str]:
    """Return deployments and notices as lines of text."""
    lines = [f"deployments with a schedule or with runs: {len(deployments) or 'none'}"]
    for one in deployments:
        cron = ", ".join(f'"{each["cron"]}" {each["timezone"]}' for each in one["schedules"])
        unscheduled = "by events" if one["name"].startswith("okl-notice/") else "on request"
        when = cron or ("after each retraining" if one["scores_to"] else unscheduled)
        zone = ZoneInfo(one["schedules"][0]["timezone"]) if one["schedules"] else None
        lines.append(f"  {one['name']}  {when}" + (f"  next {_moment(one['next'], zone)}" if one["next"] else ""))
        if last := one["last"]:
            why = f": {_short(last['message'])}" if last["message"] and last["type"] not in GOOD_STATES else ""
            lines.append(f"    last {last['state']} {_moment(last['at'], zone)}{why}")
            lines += [f"    {last['outcome']}"] if last["outcome"] and last["type"] in GOOD_STATES else []
        lines += [f"    scores go to {one['scores_to']}"] if one["scores_to"] else []
    for one in notices:
        subject = notice_subject(one.get("event"), one.get("about"))
        lines.append(f"  notice {_moment(one['time'])}  {subject}  {_short(notice_text(one.get('said')))}".rstrip())
    return lines


def variables(url: str) -> str:
    """Return the variables of Prefect for a shell, which reads the login from its file: it is never shown.

    >>> variables("http://127.0.0.1:4200/api").replace(str(okl_home()), "/home/me/.okl")
    'PREFECT_API_URL=http://127.0.0.1:4200/api PREFECT_API_AUTH_STRING="$(cat /home/me/.okl/prefect/login)"'
    """
    return f'PREFECT_API_URL={url} PREFECT_API_AUTH_STRING="$(cat {quote(str(login_file(okl_home())))})"'


def messages_after_stop(url: str, configured: str | None, n_schedules: int | None = 0) -> list[str]:
    """Return the messages after a stack has ended; configured : PREFECT_API_URL; n_schedules : None if unknown."""
    lines = []
    if n_schedules != 0:
        subject = "Its schedule pauses" if n_schedules == 1 else "Its schedules pause"
        lines.append(f"{subject} until the next okl up, which starts missed runs as set by okl deploy --late.")
    if configured and configured.rstrip("/") == url:
        lines.append("This shell still uses its server. Type: unset PREFECT_API_URL PREFECT_API_AUTH_STRING")
    return lines


def _moment(moment: str | float | None, zone: ZoneInfo | None = None) -> str:
    """Return a time (ISO 8601, or seconds since 1970) by the clock of a zone, or of this machine; "-" for none."""
    if moment is None:
        return "-"
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else datetime.fromtimestamp(moment, UTC)
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M %Z}"


def _short(said: Any) -> str:
    text = " ".join(describe_summary(said).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."


def _age(since: float) -> str:
    seconds = time.time() - since
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
