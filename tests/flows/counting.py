"""A flow around a small run; importing it imports Prefect."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.service import UNATTENDED, ServiceSettings
from flows.stages import follow_stages
from tests.flows.counted import STAGES, CountingRun, CountSettings


@flow(name="counting", persist_result=False)
def counting(settings: CountSettings, service: ServiceSettings = UNATTENDED) -> dict[str, Any] | State[Any]:
    return follow_stages("counting", lambda observer: CountingRun(settings, observer), STAGES, service)
