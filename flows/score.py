"""Flow `okl-score`: scores and predictions for raw rows or a data set, recorded in Prefect."""

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


# "Args:" and not numpydoc: Prefect shows it in the form of a deployment
@flow(name="okl-score", persist_result=False, retries=0)
def okl_score(settings: ScoreSettings, service: ServiceSettings = UNATTENDED) -> dict[str, Any] | State[Any]:
    """Score all rows of a source with a saved model.

    Existing scores are never overwritten. So that one deployment can run many times, `out` may contain {date} and
    {time} (scheduled time of the run, UTC), {run} (first digits of its id) and {version} (version of the model when
    the run starts).

    Args:
        settings: model, source and destination; paths are absolute, as a worker runs in a temporary folder
        service: timeouts and retries; they never change the result
    """
    resolved = fill_out_fields(settings)
    return follow_stages("okl-score", lambda observer: ScoringRun(resolved, observer), SCORE_STAGES, service)


def fill_out_fields(settings: ScoreSettings) -> ScoreSettings:
    """Return settings with the fields of `out` filled in; a retry of the current run gets the same values.

    With {version}, the model is fixed to that version, so that the name of the folder matches its scores.
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
            raise ConfigError(
                f"out = {settings.out} contains {{version}}, but {model} is not registered. Give NAME@WHICH."
            )
        model = pinned(model, settings.registry)
        values["version"] = model.rpartition("@")[2]
    out = FIELD.sub(lambda match: values[match[1]], settings.out)
    return settings.model_copy(update={"model": model, "out": out})
