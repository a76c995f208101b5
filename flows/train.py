"""Flow `okl-train`: a model trained, evaluated and saved, recorded in Prefect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import State

from flows.service import UNATTENDED, ServiceSettings
from flows.stages import follow_stages
from okl.runs.checkpoint import find_by_key
from okl.runs.train import TrainingRun, check_settings, stages_of
from okl.solvers.settings import TrainSettings


# "Args:" and not numpydoc: Prefect shows it in the form of a deployment
@flow(name="okl-train", persist_result=False, retries=0)
def okl_train(
    settings: TrainSettings, resume: str | None = None, service: ServiceSettings = UNATTENDED
) -> dict[str, Any] | State[Any]:
    """Return train, evaluate and save a model; a retry of the flow run resumes from the last checkpoint.

    Args:
        settings: settings of training; paths are absolute, as a worker runs in a temporary folder
        resume: unfinished folder of a run with the same settings, to resume
        service: timeouts and retries; they never change the result
    """
    key = str(runtime.flow_run.id)
    unfinished = Path(resume) if resume else find_by_key(key, settings)
    check_settings(settings, unfinished)
    return follow_stages(
        "okl-train", lambda observer: TrainingRun(settings, observer, unfinished, key), stages_of(settings), service
    )
