"""Flow `okl-compare`: models compared on the same folds of a data set, the best one saved, recorded in Prefect."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.service import UNATTENDED, ServiceSettings
from flows.stages import follow_stages
from okl.runs.compare_run import COMPARE_STAGES, ComparisonRun, check
from okl.runs.compare_settings import CompareSettings


# "Args:" and not numpydoc: Prefect shows it in the form of a deployment
@flow(name="okl-compare", persist_result=False, retries=0)
def okl_compare(settings: CompareSettings, service: ServiceSettings = UNATTENDED) -> dict[str, Any] | State[Any]:
    """Compare models and save the best one.

    Args:
        settings: models, data and validation; paths are absolute, as a worker runs in a temporary folder
        service: timeouts and retries; they never change the result
    """
    check(settings)
    return follow_stages("okl-compare", lambda observer: ComparisonRun(settings, observer), COMPARE_STAGES, service)
