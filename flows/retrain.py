"""The flow `okl-retrain`: from shards that have arrived to the better of two models, recorded in Prefect."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.events import emit_event

from flows.stages import follow_stages
from okl.retraining.run import RETRAIN_STAGES, RetrainingRun
from okl.retraining.settings import RetrainSettings

PROMOTED = "okl.model.promoted"


@flow(name="okl-retrain", persist_result=False, retries=0)
def okl_retrain(settings: RetrainSettings) -> dict[str, Any] | State[Any]:
    """Learn what has arrived since the champion, and publish the result if it is better; may be repeated at will.

    A version that became champion emits the event `okl.model.promoted` of the resource `okl.model.NAME`.

    Parameters
    ----------
    settings : model, source and all that decides; paths are absolute, as a worker runs in a temporary folder
    """
    result = follow_stages("okl-retrain", lambda observer: RetrainingRun(settings, observer), RETRAIN_STAGES)
    if isinstance(result, dict) and result["outcome"] == "published":
        emit_event(
            PROMOTED,
            resource={"prefect.resource.id": f"okl.model.{settings.name}", "prefect.resource.name": settings.name},
            payload={name: result[name] for name in ("model", "registry", "version", "parent", "reason")},
        )
    return result
