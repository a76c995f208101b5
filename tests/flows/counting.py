"""A flow around a small run; importing it imports Prefect."""

from __future__ import annotations

from flows.runs import staged_flow
from flows.service import UNATTENDED, ServiceSettings
from tests.flows.counted import CountingRun, CountSettings


@staged_flow()
def counting(settings: CountSettings, service: ServiceSettings = UNATTENDED) -> CountingRun:
    return CountingRun(settings)
