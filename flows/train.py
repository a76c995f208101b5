"""The flow `okl-train`: from Parquet to a saved, evaluated model, recorded in Prefect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import State

from flows.service import UNATTENDED, ServiceSettings
from flows.stages import follow_stages
from okl.foundation.settings import TrainSettings
from okl.runs.checkpoint import begun_by
from okl.runs.train import TrainingRun, check_before, stages_of


# "Args:" and not numpydoc: from there Prefect takes the help of the form of a deployment
@flow(name="okl-train", persist_result=False, retries=0)
def okl_train(
    settings: TrainSettings, resume: str | None = None, service: ServiceSettings = UNATTENDED
) -> dict[str, Any] | State[Any]:
    """Train, evaluate and save a model; a flow run that is retried goes on from its last checkpoint.

    Args:
        settings: everything that decides the model; paths are absolute, as a worker runs in a temporary folder
        resume: unfinished folder of a run of the same settings, to go on with
        service: service levels; they change nothing of what is computed
    """
    key = str(runtime.flow_run.id)
    begun = Path(resume) if resume else begun_by(key, settings)
    check_before(settings, begun)
    return follow_stages(
        "okl-train", lambda observer: TrainingRun(settings, observer, begun, key), stages_of(settings), service
    )
