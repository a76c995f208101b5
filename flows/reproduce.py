"""The flow `okl-reproduce`: a table of a paper, run again on the same data and set beside its numbers."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.service import UNATTENDED, ServiceSettings
from flows.stages import follow_stages
from okl.papers.run import REPRODUCE_STAGES, ReproductionRun, check
from okl.papers.settings import ReproduceSettings


# "Args:" and not numpydoc: from there Prefect takes the help of the form of a deployment
@flow(name="okl-reproduce", persist_result=False, retries=0)
def okl_reproduce(settings: ReproduceSettings, service: ServiceSettings = UNATTENDED) -> dict[str, Any] | State[Any]:
    """Reproduce a table or a study.

    Args:
        settings: what to reproduce and on which data; paths are absolute, as a worker runs in a temporary folder
        service: service levels; they change nothing of what is computed
    """
    check(settings)
    return follow_stages(
        "okl-reproduce", lambda observer: ReproductionRun(settings, observer), REPRODUCE_STAGES, service
    )
