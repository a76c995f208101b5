"""The flow `okl-retrain`: from shards that have arrived to the better of two models, recorded in Prefect."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.artifacts import announce
from flows.service import UNATTENDED_RETRAINING, RetrainService
from flows.stages import follow_stages
from okl.lifecycle.retrain import RETRAIN_STAGES, RetrainingRun
from okl.lifecycle.settings import RetrainSettings


# "Args:" and not numpydoc: from there Prefect takes the help of the form of a deployment
@flow(name="okl-retrain", persist_result=False, retries=0)
def okl_retrain(
    settings: RetrainSettings, service: RetrainService = UNATTENDED_RETRAINING
) -> dict[str, Any] | State[Any]:
    """Learn what has arrived since the champion, and publish the result if it is better; may be repeated at will.

    What others may act on is told by events of the resource `okl.model.NAME`: see `flows.artifacts`.

    Args:
        settings: model, source and all that decides; paths are absolute, as a worker runs in a temporary folder
        service: service levels; they change nothing of what is computed
    """
    result = follow_stages("okl-retrain", lambda observer: RetrainingRun(settings, observer), RETRAIN_STAGES, service)
    if isinstance(result, dict):
        announce(settings, result, service.empty_windows)
    return result
