"""The flows of the five runs: `okl-train`, `okl-score`, `okl-retrain`, `okl-compare` and `okl-reproduce`.

Each function returns its run, whose stages the flow performs as tasks. Its parameters and its docstring are the form of
the deployment in Prefect's pages: "Args:" and not numpydoc, as Prefect reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

from prefect import Flow, flow, runtime
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext

from flows.artifacts import announce
from flows.form import Form, flat
from flows.service import RetrainService, ServiceSettings
from flows.stages import follow_stages
from okl.foundation.locations import name_after
from okl.lifecycle.settings import RetrainSettings
from okl.models.reference import is_reference
from okl.papers.settings import ReproduceSettings
from okl.runs.compare_settings import CompareSettings
from okl.runs.predict import ScoreSettings, ScoringRun, fill_out_fields
from okl.runs.run import Run
from okl.solvers.settings import TrainSettings

Result = dict[str, Any] | State[Any]
Announce = Callable[[Any, dict[str, Any], Any], None]


def staged_flow(
    after: Announce | None = None, levels: type[ServiceSettings] = ServiceSettings
) -> Callable[[Callable[..., Run[Any]]], Flow[..., Result]]:
    """Return a decorator that makes a flow of a function that returns a run; okl_train gives the flow okl-train.

    after : called with the settings, the result and the service levels of a run that was not skipped
    levels : service levels where the parameter is None, as in the form, whose group is closed then
    """

    def decorator(open_run: Callable[..., Run[Any]]) -> Flow[..., Result]:
        name = open_run.__name__.replace("_", "-")

        form = signature(open_run, eval_str=True)

        @wraps(open_run)  # Prefect takes the parameters and the docstring of the function
        def perform(*args: Any, **more: Any) -> Result:
            given = form.bind(*args, **more)
            given.apply_defaults()
            settings, service = given.arguments["settings"], given.arguments["service"] or levels()
            prefix = f"{name} {subject_of(settings)}"
            result = follow_stages(prefix, lambda: open_run(*given.args, **given.kwargs), service)
            if after is not None and isinstance(result, dict):
                after(settings, result, service)
            return result

        perform.__signature__ = form  # type: ignore[attr-defined]  # types, not their names in another module
        perform.__annotations__ = {parameter.name: parameter.annotation for parameter in form.parameters.values()}
        return flow(name=name, flow_run_name=run_name, persist_result=False, retries=0)(perform)

    return decorator


def subject_of(settings: Any) -> str:
    """Return the model or the data of a run for names in Prefect; `settings` may still be plain values.

    >>> subject_of({"data": "rows/churn.csv"}), subject_of({"name": "churn", "source": "inbox"})
    ('churn', 'churn')
    >>> subject_of({"model": "churn@champion", "source": "/rows/new.csv"})
    'new with churn'
    """
    values = flat(settings) if isinstance(settings, dict) else settings.model_dump()
    location, model = values.get("data") or values.get("source"), values.get("model")
    named = str(values.get("table") or values.get("name") or (name_after(str(location)) if location else ""))
    return f"{named} with {str(model).partition('@')[0]}" if isinstance(model, str) and is_reference(model) else named


def run_name() -> str:
    """Return the name of the current flow run, such as "train churn"."""
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow is not None
    subject = subject_of((context.parameters or {}).get("settings") or {})
    return f"{context.flow.name.removeprefix('okl-')} {subject}".strip()


@staged_flow()
def okl_train(
    settings: Annotated[TrainSettings, Form("okl_train")],
    resume: str | None = None,
    service: ServiceSettings | None = None,
) -> Run[TrainSettings]:
    """Train, evaluate and save a model; a retry of the flow run resumes from the last checkpoint.

    Args:
        settings: settings of training; paths are absolute, as a worker runs in a temporary folder
        resume: unfinished folder of a run with the same settings, to resume
        service: timeouts and retries; they never change the result
    """
    from okl.runs.checkpoint import find_by_key
    from okl.runs.train import TrainingRun

    key = str(runtime.flow_run.id)
    return TrainingRun(settings, resume=Path(resume) if resume else find_by_key(key, settings), key=key)


@staged_flow()
def okl_score(
    settings: Annotated[ScoreSettings, Form("okl_score")], service: ServiceSettings | None = None
) -> Run[ScoreSettings]:
    """Score all rows of a source with a saved model.

    Existing scores are never overwritten. So that one deployment can run many times, `out` may contain {date} and
    {time} (scheduled time of the run, UTC), {run} (first digits of its id) and {version} (version of the model when
    the run starts).

    Args:
        settings: model, source and destination; paths are absolute, as a worker runs in a temporary folder
        service: timeouts and retries; they never change the result
    """
    due: datetime = runtime.flow_run.scheduled_start_time
    return ScoringRun(fill_out_fields(settings, due, str(runtime.flow_run.id)))


@staged_flow(lambda settings, result, service: announce(settings, result, service.empty_windows), RetrainService)
def okl_retrain(
    settings: Annotated[RetrainSettings, Form("okl_retrain")], service: RetrainService | None = None
) -> Run[RetrainSettings]:
    """Train on new shards since the champion, and publish the model if it is better; safe to repeat.

    Emits events of the resource `okl.model.NAME` that automations can act on: see `flows.artifacts`.

    Args:
        settings: model, source and settings of training; paths are absolute, as a worker runs in a temporary folder
        service: timeouts, retries and alerts; they never change the result
    """
    from okl.lifecycle.retrain import RetrainingRun

    return RetrainingRun(settings, scheduled=bool(runtime.deployment.id))


@staged_flow()
def okl_compare(
    settings: Annotated[CompareSettings, Form("okl_compare")], service: ServiceSettings | None = None
) -> Run[CompareSettings]:
    """Compare models and save the best one.

    Args:
        settings: models, data and validation; paths are absolute, as a worker runs in a temporary folder
        service: timeouts and retries; they never change the result
    """
    from okl.runs.compare import ComparisonRun

    return ComparisonRun(settings)


@staged_flow()
def okl_reproduce(
    settings: Annotated[ReproduceSettings, Form("okl_reproduce")], service: ServiceSettings | None = None
) -> Run[ReproduceSettings]:
    """Reproduce a table or a study.

    Args:
        settings: table and data; paths are absolute, as a worker runs in a temporary folder
        service: timeouts and retries; they never change the result
    """
    from okl.papers.run import ReproductionRun

    return ReproductionRun(settings)
