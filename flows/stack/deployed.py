"""The deployments of a stack: when they run next, and how they last did, asked from outside; nothing is imported."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from flows.stack.asking import ASK_SECONDS, get_json

MOST = 200
ENDED_OR_BEGUN = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED", "RUNNING", "PENDING", "CANCELLING", "PAUSED")
WELL = ("COMPLETED", "RUNNING", "PENDING")
NOTICES = "notices.jsonl"
RECENT = timedelta(days=7)
MOST_NOTICES = 3
MOST_CHARACTERS = 300


def deployments_of(url: str) -> list[dict[str, Any]]:
    """Those with a schedule or a run, by name: schedules, the next run and the last; none without an answer."""
    found = get_json(f"{url}/deployments/filter", {"limit": MOST})
    flows = get_json(f"{url}/flows/filter", {"limit": MOST})
    if not isinstance(found, list) or not isinstance(flows, list):
        return []
    named = {flow["id"]: flow["name"] for flow in flows}
    told = [_told(url, f"{named.get(one['flow_id'], '?')}/{one['name']}", one) for one in found]
    return sorted((one for one in told if one["schedules"] or one["last"]), key=lambda one: str(one["name"]))


def schedules_at(url: str, seconds: float = ASK_SECONDS) -> int | None:
    """How many schedules are active; None where the server does not tell within `seconds`."""
    found = get_json(f"{url}/deployments/filter", {"limit": MOST}, seconds)
    if not isinstance(found, list):
        return None
    return sum(bool(schedule["active"]) for one in found for schedule in one.get("schedules", []))


def notices_in(home: Path, now: datetime | None = None) -> list[dict[str, Any]]:
    """The newest notices of the last seven days, the newest first: time, event, about, said."""
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
    """The same for people."""
    lines = [f"deployments that run by a schedule, or have run: {len(deployments) or 'none'}"]
    for one in deployments:
        cron = ", ".join(f'"{each["cron"]}" {each["timezone"]}' for each in one["schedules"])
        asked = "by events" if one["name"].startswith("okl-notice/") else "when asked"
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
    """Where scores with each new champion go; None of a deployment that does not make them (see infra/prefect.yaml)."""
    flow, _, model = name.partition("/")
    settings = parameters.get("settings") or {}
    wanted = flow == "okl-score" and settings.get("model") == f"{model}@champion"
    return str(settings.get("out")) if wanted else None


def _outcome(url: str, run: str) -> str:
    """What a retraining came to, by the row that it left (see `flows.artifacts`); "" of other runs."""
    wanted = {"artifacts": {"flow_run_id": {"any_": [run]}, "key": {"like_": "okl-arrivals-%"}}, "limit": 1}
    found = get_json(f"{url}/artifacts/filter", wanted)
    try:
        (row,) = json.loads(found[0]["data"])
        counts = f"New files: {row['accepted']} accepted, {row['rejected']} rejected"
        counts += f", {row['still_written']} left to the next run" if row.get("still_written") else ""
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
    """A moment by the clock of a deployment's schedule, or of this machine, with its zone; "-" for none."""
    if told is None:
        return "-"
    zone = ZoneInfo(deployment["schedules"][0]["timezone"]) if deployment and deployment["schedules"] else None
    return f"{datetime.fromisoformat(told).astimezone(zone):%Y-%m-%d %H:%M %Z}"


def _short(said: Any) -> str:
    text = " ".join((said if isinstance(said, str) else json.dumps(said)).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."
