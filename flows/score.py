"""The flow `okl-score`: raw rows or a data set in, scores and predictions out, recorded in Prefect."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from flows.stages import follow_stages
from okl.scoring import SCORE_STAGES, ScoreSettings, ScoringRun


@flow(name="okl-score", persist_result=False, retries=0)
def okl_score(settings: ScoreSettings) -> dict[str, Any] | State[Any]:
    """Score every row of a source with a saved model.

    Parameters
    ----------
    settings : model, source and destination; paths are absolute, as a worker runs in a temporary folder
    """
    return follow_stages("okl-score", lambda observer: ScoringRun(settings, observer), SCORE_STAGES)
