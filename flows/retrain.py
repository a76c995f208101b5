"""Flow `okl-retrain`: a champion retrained on new shards and published if better, recorded in Prefect."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.artifacts import announce
from flows.service import UNATTENDED_RETRAINING, RetrainService
from flows.stages import follow_stages
from okl.lifecycle.retrain import RETRAIN_STAGES, RetrainingRun
from okl.lifecycle.settings import RetrainSettings


# "Args:" and not numpydoc: Prefect shows it in the form of a deployment
@flow(name="okl-retrain", persist_result=False, retries=0)
def okl_retrain(
    settings: RetrainSettings, service: RetrainService = UNATTENDED_RETRAINING
) -> dict[str, Any] | State[Any]:
    """Train on new shards since the champion, and publish the model if it is better; safe to repeat.

    Emits events of the resource `okl.model.NAME` that automations can act on: see `flows.artifacts`.

    Args:
        settings: model, source and settings of training; paths are absolute, as a worker runs in a temporary folder
        service: timeouts, retries and alerts; they never change the result
    """
    result = follow_stages("okl-retrain", lambda observer: RetrainingRun(settings, observer), RETRAIN_STAGES, service)
    if isinstance(result, dict):
        announce(settings, result, service.empty_windows)
    return result
