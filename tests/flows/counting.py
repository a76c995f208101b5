"""A flow around a small run; importing it imports Prefect."""

from __future__ import annotations

from flows.runs import staged_flow
from flows.service import ServiceSettings
from tests.flows.counted import CountingRun, CountSettings


@staged_flow()
def counting(settings: CountSettings, service: ServiceSettings | None = None) -> CountingRun:
    return CountingRun(settings)
