"""Flow `okl-reproduce`: a table of a paper reproduced on the same data and compared with the printed numbers."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.service import UNATTENDED, ServiceSettings
from flows.stages import follow_stages
from okl.papers.run import REPRODUCE_STAGES, ReproductionRun, check
from okl.papers.settings import ReproduceSettings


# "Args:" and not numpydoc: Prefect shows it in the form of a deployment
@flow(name="okl-reproduce", persist_result=False, retries=0)
def okl_reproduce(settings: ReproduceSettings, service: ServiceSettings = UNATTENDED) -> dict[str, Any] | State[Any]:
    """Reproduce a table or a study.

    Args:
        settings: table and data; paths are absolute, as a worker runs in a temporary folder
        service: timeouts and retries; they never change the result
    """
    check(settings)
    return follow_stages(
        "okl-reproduce", lambda observer: ReproductionRun(settings, observer), REPRODUCE_STAGES, service
    )
