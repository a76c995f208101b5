"""Flow `okl-notice`: alerts for failed runs, drift, quarantined files and missing data.

The automations of infra/automations.yaml run it on the events of failed and crashed runs, of drift, and of quarantined
files and missing data. It writes an artifact, an entry in the log, and a line in notices.jsonl in okl's home folder. It
also sends the alert by every notification block with the name `okl-notice`: mail, chat, a webhook.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from typing import Any

from prefect import flow
from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from pydantic import BaseModel, ConfigDict, Field

from flows.artifacts import record_markdown
from flows.stack.status import notice_subject, notice_text
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


def run_name() -> str:
    """Return the name of the current flow run, such as "notice: run failed: train churn"."""
    context = FlowRunContext.get()
    assert context is not None
    notice: Any = (context.parameters or {}).get("notice") or {}
    values = notice if isinstance(notice, dict) else notice.model_dump()
    return f"notice: {notice_subject(values.get('event'), values.get('about'))}"


# "Args:" and not numpydoc: Prefect shows it in the form of a deployment
@flow(name=NAME, flow_run_name=run_name, persist_result=False, retries=0)
def okl_notice(notice: NoticeSettings) -> dict[str, Any]:
    """Report an event by an artifact, the log, a file, and the notification blocks named okl-notice.

    Args:
        notice: event, its subject, and its details
    """
    subject = notice_subject(notice.event, notice.about)
    details = notice_text(notice.said)[:MOST_CHARACTERS]
    get_run_logger().error("%s\n%s", subject, details)
    run = re.search(r"\(prefect\.flow-run\.([-0-9a-f]+)\)$", notice.about)
    link = f"[Flow run](/runs/flow-run/{run[1]})" if run else ""
    paragraphs = [f"# {plain(subject.capitalize())}", *map(plain, details.splitlines()), link]
    record_markdown(NAME, "\n\n".join(paragraphs).rstrip() + "\n", subject)
    line = {"time": datetime.now(UTC).isoformat(), "event": notice.event, "about": notice.about, "said": notice.said}
    _append(json.dumps(line, default=str))
    return line | {"sent_by": _send(f"okl: {subject}", details)}


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
