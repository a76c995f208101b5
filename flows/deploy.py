"""Deployments from infra/prefect.yaml: parameters, schedules and automations."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # Prefect brings it, and no stubs
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.schedules import CronSchedule
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL
from prefect.workers.process import ProcessWorker
from pydantic import BaseModel, ValidationError

from flows.foreground import require_server
from flows.form import grouped
from flows.server import PRIVACY, child_imports
from flows.service import ServiceSettings
from okl.foundation.errors import ConfigError, ExecutionError
from okl.foundation.locations import okl_home
from okl.lifecycle.settings import RetrainSettings
from okl.models.reference import is_reference
from okl.models.registry import registry_location
from okl.solvers.settings import TrainSettings

# Deployments and their parameters, from infra/prefect.yaml

PATHS = ("data", "model", "source", "out")  # settings with paths, made absolute: a worker runs in another folder
MODEL = "{{ $OKL_MODEL }}"  # placeholder in the file for the name of the retrained model


def packaged_plan(name: str = "prefect.yaml") -> Path:
    """Return the path of a file of infra/: inside the package in a wheel, in infra/ in a checkout."""
    packaged = Path(str(resources.files("flows"))) / name
    return packaged if packaged.is_file() else packaged.parents[1] / "infra" / name


def _parameters(flow: str, values: dict[str, Any] | None, service: BaseModel | None = None) -> dict[str, Any]:
    """Return the parameters of a deployment: settings with absolute paths, and service levels without defaults."""
    levels = {} if service is None else service.model_dump(mode="json", exclude_defaults=True)
    parameters: dict[str, Any] = {"service": levels} if levels else {}
    if values is None:
        return parameters
    paths = {
        name: str(Path(value).expanduser().absolute())
        for name, value in values.items()
        if name in PATHS and "://" not in str(value) and not (name == "model" and is_reference(value))
    }
    return {"settings": grouped(values | paths, flow)} | parameters


def flow_of(deployment: dict[str, Any]) -> str:
    """Return the name of a deployment's flow function."""
    return str(deployment["entrypoint"]).rpartition(".")[2]


def plan_of(
    train: TrainSettings | None,
    score: dict[str, Any] | None,
    retrain: RetrainSettings | None,
    service: ServiceSettings | None,
    pool: str,
) -> dict[str, Any]:
    """Return the plan of the deployments, see `deploy`; that of `service` and the schedule comes first."""
    model = None if retrain is None else retrain.name
    if retrain is None:
        values = None if train is None else train.model_dump(mode="json", exclude_defaults=True)
        wanted = {"okl_train": _parameters("okl_train", values, service), "okl_score": _parameters("okl_score", score)}
        wanted |= {flow: {} for flow in ("okl_compare", "okl_reproduce")}
    else:
        # resolved here, because OKL_REGISTRY of this process is not that of the worker
        registry = {"registry": registry_location(retrain.registry)}
        values = retrain.model_dump(mode="json", exclude_defaults=True) | registry
        wanted = {"okl_retrain": _parameters("okl_retrain", values, service)}
        if score is not None:
            wanted["okl_score"] = _parameters("okl_score", score | {"model": f"{retrain.name}@champion"} | registry)
    wanted["okl_notice"] = {}
    plan: dict[str, Any] = yaml.safe_load(packaged_plan().read_text(encoding="utf-8").replace(MODEL, model or MODEL))
    of_flow: dict[str, dict[str, Any]] = {}
    for deployment in plan["deployments"]:
        if deployment["name"] == (model or "default") or flow_of(deployment) not in of_flow:
            of_flow[flow_of(deployment)] = deployment
    plan["deployments"] = [of_flow[flow] for flow in wanted]
    for deployment in plan["deployments"]:
        deployment["parameters"] = wanted[flow_of(deployment)]
        environment = deployment["work_pool"]["job_variables"]["env"] | {"OKL_HOME": str(okl_home())}
        deployment["work_pool"] = {"name": pool, "job_variables": {"env": environment}}
    return plan


# Application of the deployments and automations to the configured Prefect server

CRON_FIELDS = {"minute": "0-59", "hour": "0-23", "day": "1-31", "month": "1-12", "weekday": "0-6"}
SLUG = "okl"  # identifies okl's schedule among those that people add in Prefect's web pages


def deploy(
    train: TrainSettings | None = None,
    score: dict[str, Any] | None = None,
    *,
    retrain: RetrainSettings | None = None,
    service: ServiceSettings | None = None,
    cron: str | None = None,
    timezone: str | None = None,
    pool: str = "okl",
) -> list[str]:
    """Create or update deployments, the automations of their runs, and the work pool if it is missing.

    With `retrain`: okl-retrain/NAME, okl-score/NAME and okl-notice/default. Otherwise okl-train, okl-score,
    okl-compare, okl-reproduce and okl-notice, each /default.

    train : default settings of training runs, without `out`, as every run creates a folder; None: every run must give
        its settings. Paths may be relative to the current directory
    score : some fields of okl.runs.predict.ScoreSettings; with `retrain`, source and out of the rows to score after
        each retraining, and None removes okl-score/NAME
    retrain : settings of the model to retrain
    service : service levels of the training or retraining deployment; None: the defaults
    cron : schedule of training or retraining, such as "0 3 * * *"; None: removes an existing schedule
    timezone : time zone of `cron`, such as "Europe/Zurich"; None: UTC
    pool : name of the work pool; a new one has the type process
    Returns names of the deployments, for `prefect deployment run`; the scheduled one is the first
    Raises ConfigError : a schedule without data, an invalid schedule, or a time zone without a schedule
    Raises ExecutionError : no server is configured, it does not answer, or it refuses the deployments
    """
    if train is not None and train.out is not None:
        raise ConfigError(f"--out {train.out} is one folder, but a deployment runs many times. Remove --out.")
    if retrain is not None and retrain.name == "default":
        raise ConfigError("The model name 'default' conflicts with the deployment okl-score/default. Use another name.")
    if cron is not None and train is None and retrain is None:
        raise ConfigError("--cron needs data to train on: add the argument DATASET.")
    if timezone is not None and cron is None:
        raise ConfigError("--timezone needs a schedule: add --cron FIELDS.")
    if not PREFECT_API_URL.value():
        raise ExecutionError(
            "Deployments need a permanent Prefect server, but none is configured. Start one with `okl up`, or set "
            "PREFECT_API_URL (such as http://127.0.0.1:4200/api)."
        )
    if cron is not None:
        _check_schedule(cron, timezone)
    require_server()
    plan = plan_of(train, score, retrain, service, pool)
    first = plan["deployments"][0]
    if cron is not None:
        first["schedules"] = [{"cron": cron, "timezone": timezone or "UTC", "slug": SLUG}]
    names = [f"{flow_of(one).replace('_', '-')}/{one['name']}" for one in plan["deployments"]]
    with get_client(sync_client=True) as client:
        try:
            client.read_work_pool(pool)
        except ObjectNotFound:
            template = ProcessWorker.get_default_base_job_template()
            with suppress(ObjectAlreadyExists):  # another `okl deploy` or a worker was faster
                client.create_work_pool(WorkPoolCreate(name=pool, type="process", base_job_template=template))
    _apply(plan)
    with get_client(sync_client=True) as client:  # the server has closed idle connections meanwhile
        _apply_automations(client)
        if cron is None:  # Prefect's command never removes what is no longer in the plan
            deployment = client.read_deployment_by_name(names[0])
            for schedule in deployment.schedules:
                if schedule.slug == SLUG:
                    client.delete_deployment_schedule(deployment.id, schedule.id)
        if retrain is not None and score is None:  # with its triggers; its runs remain
            with suppress(ObjectNotFound):
                client.delete_deployment(client.read_deployment_by_name(f"okl-score/{retrain.name}").id)
    return names


def _check_schedule(cron: str, timezone: str | None) -> None:
    """Raise ConfigError for an invalid schedule, and name its invalid fields, which Prefect does not."""
    reason = _fault(cron, timezone)
    if not reason:
        return
    advice = ""
    if _fault(cron):
        fields = cron.split()
        for at, (name, bounds) in enumerate(CRON_FIELDS.items() if len(fields) == len(CRON_FIELDS) else ()):
            if _fault(" ".join(["*"] * at + [fields[at]] + ["*"] * (4 - at))):
                advice += f" The {name} {fields[at]!r} is not within {bounds}."
        advice += " A schedule has five fields, such as '0 3 * * *'."
    raise ConfigError(f"{reason}.{advice}")


def _fault(cron: str, timezone: str | None = None) -> str:
    """Return Prefect's error message for a schedule; "" if it is valid."""
    try:
        CronSchedule(cron=cron, timezone=timezone)
    except ValidationError as error:
        return str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return ""


def _apply_automations(client: SyncPrefectClient) -> None:
    """Create or update the automations of infra/automations.yaml."""
    wanted = yaml.safe_load(packaged_plan("automations.yaml").read_text(encoding="utf-8"))["automations"]
    for automation in map(AutomationCore.model_validate, wanted):
        if existing := client.read_automations_by_name(automation.name):
            enabled = existing[0].enabled  # a person may have switched it off
            client.update_automation(existing[0].id, automation.model_copy(update={"enabled": enabled}))
        else:
            client.create_automation(automation)


def _apply(plan: dict[str, Any]) -> None:
    """Apply the plan with Prefect's own command, which imports the flows, and also updates existing deployments."""
    server = {"PREFECT_API_URL": str(PREFECT_API_URL.value()), "COLUMNS": "200"}
    if login := PREFECT_API_AUTH_STRING.value():
        server["PREFECT_API_AUTH_STRING"] = login
    with tempfile.TemporaryDirectory(prefix="okl-deploy-") as folder:
        file = Path(folder) / "prefect.yaml"
        file.write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")
        outcome = subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--prefect-file", str(file), "--all"],
            cwd=folder, env=os.environ | PRIVACY | child_imports(os.environ) | server,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
    if outcome.returncode != 0:
        raise ExecutionError(f"Prefect refused the deployments: {outcome.stdout.strip()}")
