"""The flow `okl-notice`: something has happened that a person should know of.

It needs no service but Prefect itself: the automations of infra/prefect.yaml run it on the events of failed and crashed
runs, of drift and of missing data, and it leaves an artifact, a line of the log, and one in notices.jsonl of okl's home
folder. Every notification block that has the name `okl-notice` is used, too: mail, chat, a webhook.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

from prefect import flow
from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from prefect.client.orchestration import get_client
from prefect.logging import get_run_logger
from pydantic import BaseModel, ConfigDict, Field

from flows.artifacts import record_markdown
from okl.foundation.locations import okl_home

NAME = "okl-notice"
LINES = "notices.jsonl"
MOST_CHARACTERS = 20_000


class NoticeSettings(BaseModel):
    """What has happened, to what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: str = Field(description="name of the event, such as okl.model.drifted")
    about: str = Field(description="model or flow run that it happened to")
    said: Any = Field(None, description="what is known of it: text, or figures by name")


# "Args:" and not numpydoc: from there Prefect takes the help of the form of a deployment
@flow(name=NAME, persist_result=False, retries=0)
def okl_notice(notice: NoticeSettings) -> dict[str, Any]:
    """Tell people of an event: by an artifact, the log, a file, and the notification blocks named okl-notice.

    Args:
        notice: what has happened
    """
    said = notice.said if isinstance(notice.said, str) else json.dumps(notice.said, indent=1, default=str)
    said = said[:MOST_CHARACTERS]
    get_run_logger().error("%s: %s\n%s", notice.event, notice.about, said)
    record_markdown(
        NAME, f"# {notice.event}\n\n**{notice.about}**\n\n```\n{said}\n```\n", f"{notice.event}: {notice.about}"
    )
    line = {"time": datetime.now(UTC).isoformat(), "event": notice.event, "about": notice.about, "said": notice.said}
    _append(json.dumps(line, default=str))
    return line | {"sent_by": _send(f"{notice.event}: {notice.about}", said)}


def _append(line: str) -> None:
    """Add a line to the file in one write, so that lines of two processes do not mix."""
    okl_home().mkdir(parents=True, exist_ok=True)
    descriptor = os.open(okl_home() / LINES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def _send(subject: str, body: str) -> list[str]:
    """Notify by each block of our name; one that fails is told in the log, and the others go on."""
    sent = []
    with get_client(sync_client=True) as client:
        slugs = [one.block_type.slug for one in client.read_block_documents() if one.name == NAME and one.block_type]
    for slug in slugs:
        try:
            block: Any = Block.load(f"{slug}/{NAME}")
            if isinstance(block, NotificationBlock):
                notify: Any = block.notify  # typed for both worlds; outside of a loop it returns when it is done
                notify(body, subject)
                sent.append(slug)
        except Exception as error:  # whatever it is: the notice itself has been kept
            get_run_logger().warning("The notification block %s/%s failed: %s", slug, NAME, error)
    return sent
