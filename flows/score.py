"""The flow `okl-score`: raw rows or a data set in, scores and predictions out, recorded in Prefect."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from prefect import flow, runtime
from prefect.client.schemas.objects import State

from flows.service import UNATTENDED, ServiceSettings
from flows.stages import follow_stages
from okl.foundation.errors import ConfigError
from okl.models.reference import is_reference, pinned
from okl.runs.predict import SCORE_STAGES, ScoreSettings, ScoringRun

FIELD = re.compile(r"\{(date|time|run|version)\}")


# "Args:" and not numpydoc: from there Prefect takes the help of the form of a deployment
@flow(name="okl-score", persist_result=False, retries=0)
def okl_score(settings: ScoreSettings, service: ServiceSettings = UNATTENDED) -> dict[str, Any] | State[Any]:
    """Score every row of a source with a saved model.

    Scores are never written over. So that one deployment can run many times, `out` may hold {date} and {time} (when the
    run was due, UTC), {run} (the first digits of its id) and {version} (what NAME@champion means as it begins).

    Args:
        settings: model, source and destination; paths are absolute, as a worker runs in a temporary folder
        service: service levels; they change nothing of what is computed
    """
    own = with_own_place(settings)
    return follow_stages("okl-score", lambda observer: ScoringRun(own, observer), SCORE_STAGES, service)


def with_own_place(settings: ScoreSettings) -> ScoreSettings:
    """Settings with the fields of `out` filled in, the same ones again when the current run is tried again.

    With {version}, the model is that version from here on: what the folder is named for is what has scored.
    """
    fields = set(FIELD.findall(settings.out))
    if not fields:
        return settings
    due: datetime = runtime.flow_run.scheduled_start_time.astimezone(UTC)
    values = {
        "date": f"{due:%Y-%m-%d}",
        "time": f"{due:%Y-%m-%dT%H%M%S}",
        "run": str(runtime.flow_run.id)[:8],
    }
    model = settings.model
    if "version" in fields:
        if not is_reference(model):
            raise ConfigError(f"out = {settings.out} names a version, but {model} has none: give NAME@WHICH as model.")
        model = pinned(model, settings.registry)
        values["version"] = model.rpartition("@")[2]
    out = FIELD.sub(lambda found: values[found[1]], settings.out)
    return settings.model_copy(update={"model": model, "out": out})
