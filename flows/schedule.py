"""When a deployment fires, and what to type to run or remove it, as `okl deploy` prints them."""

from __future__ import annotations

import asyncio
from typing import Any


def schedule_of(cron: str | None, timezone: str | None) -> dict[str, Any] | None:
    """Fields, zone, and the next firing (ISO 8601, in that zone) by the code of Prefect's own scheduler.

    None where there is no schedule; the fields have been checked.
    """
    if cron is None:
        return None
    from prefect.server.schemas.schedules import CronSchedule  # the server's: only where there is a schedule

    zone = timezone or "UTC"
    (first,) = asyncio.run(CronSchedule(cron=cron, timezone=zone).get_dates(1))
    return {"cron": cron, "timezone": zone, "next": first.isoformat()}


def address() -> str | None:
    """Of the server that is in use."""
    from prefect.settings import PREFECT_API_URL

    value = PREFECT_API_URL.value()
    return None if value is None else str(value)


def deployed_text(
    names: list[str], schedule: dict[str, Any] | None, url: str | None, scoring: dict[str, str] | None = None
) -> str:
    """Names of deployments, the first of which fires by the schedule, and the commands that go with them.

    url : of the server where `prefect` would not find it by itself
    scoring : source and out of the deployment that scores with each new champion, if there is one
    """
    first = names[0]
    own = [name for name in names if not name.endswith("/default")] or [first]
    prefect = f"PREFECT_API_URL={url} prefect" if url else "prefect"
    when = "only when asked"
    if schedule is not None:
        when = f'by --cron "{schedule["cron"]}", {schedule["timezone"]}; next: {schedule["next"].replace("T", " ")}'
    lines = [
        *names,
        f"{first} runs {when}",
        *(
            f"{name} scores {scoring['source']} with each new champion; scores go to {scoring['out']}"
            for name in own
            if scoring is not None and name != first
        ),
        *(
            ["no rows are scored with new champions: --score SOURCE does that, and what did it before is removed"]
            if scoring is None and first.startswith("okl-retrain/")
            else []
        ),
        f"run it now:   {prefect} deployment run {first} --watch",
        "what became of it: okl status",
        *(["end its schedule: okl deploy again, without --cron"] if schedule is not None else []),
        *(f"remove it:    {prefect} deployment delete {name}" for name in own),
    ]
    return "\n".join(lines)
