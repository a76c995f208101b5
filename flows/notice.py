"""Flow `okl-notice`: alerts for failed runs, drift and missing data.

The automations of infra/automations.yaml run it on the events of failed and crashed runs, of drift and of missing data.
It writes an artifact, an entry in the log, and a line in notices.jsonl in okl's home folder. It also sends the alert by
every notification block with the name `okl-notice`: mail, chat, a webhook.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from textwrap import indent
from typing import Any

from prefect import flow
from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from prefect.client.orchestration import get_client
from prefect.logging import get_run_logger
from pydantic import BaseModel, ConfigDict, Field

from flows.artifacts import record_markdown
from okl.foundation.locations import okl_home
from okl.report.render import plain

NAME = "okl-notice"
LINES = "notices.jsonl"
MOST_CHARACTERS = 20_000


class NoticeSettings(BaseModel):
    """Event, its subject, and its details."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: str = Field(description="name of the event, such as okl.model.drifted")
    about: str = Field(description="model or flow run that the event concerns")
    said: Any = Field(None, description="details: text, or figures by name")


# "Args:" and not numpydoc: Prefect shows it in the form of a deployment
@flow(name=NAME, persist_result=False, retries=0)
def okl_notice(notice: NoticeSettings) -> dict[str, Any]:
    """Report an event by an artifact, the log, a file, and the notification blocks named okl-notice.

    Args:
        notice: event, its subject, and its details
    """
    details = notice.said if isinstance(notice.said, str) else json.dumps(notice.said, indent=1, default=str)
    details = details[:MOST_CHARACTERS]
    get_run_logger().error("%s: %s\n%s", notice.event, notice.about, details)
    record_markdown(
        NAME,
        f"# {plain(notice.event)}\n\n**{plain(notice.about)}**\n\n{indent(details, '    ')}\n",
        f"{notice.event}: {notice.about}",
    )
    line = {"time": datetime.now(UTC).isoformat(), "event": notice.event, "about": notice.about, "said": notice.said}
    _append(json.dumps(line, default=str))
    return line | {"sent_by": _send(f"{notice.event}: {notice.about}", details)}


def _append(line: str) -> None:
    """Append a line to the file in one write, so that lines of two processes do not mix."""
    okl_home().mkdir(parents=True, exist_ok=True)
    descriptor = os.open(okl_home() / LINES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def _send(subject: str, body: str) -> list[str]:
    """Send by each notification block named okl-notice; log a block that fails, and continue with the others."""
    sent = []
    with get_client(sync_client=True) as client:
        blocks = [block for block in client.read_block_documents() if block.name == NAME]
    slugs = [block.block_type.slug for block in blocks if block.block_type]
    for slug in slugs:
        try:
            block: Any = Block.load(f"{slug}/{NAME}")
            if isinstance(block, NotificationBlock):
                notify: Any = block.notify  # typed as sync or async; outside of an event loop it is sync
                notify(body, subject)
                sent.append(slug)
        except Exception as error:  # any error: the notice itself has been stored
            get_run_logger().warning("The notification block %s/%s failed: %s", slug, NAME, error)
    return sent
