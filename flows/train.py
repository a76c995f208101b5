"""The flow `okl-train`: from Parquet to a saved, evaluated model, recorded in Prefect."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.stages import follow_stages
from okl.configuration import TrainSettings
from okl.training import TrainingRun, check, stages_of


@flow(name="okl-train", persist_result=False, retries=0)
def okl_train(settings: TrainSettings) -> dict[str, Any] | State[Any]:
    """Train, evaluate and save a model.

    Parameters
    ----------
    settings : everything that decides the model; paths are absolute, as a worker runs in a temporary folder
    """
    check(settings)
    return follow_stages("okl-train", lambda observer: TrainingRun(settings, observer), stages_of(settings))
