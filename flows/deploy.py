"""`okl deploy`: apply the deployments of infra/prefect.yaml to the configured Prefect server."""

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
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.workers.process import ProcessWorker
from pydantic import ValidationError

from flows.run import require_answer
from flows.server import PRIVACY
from okl.configuration import TrainSettings
from okl.errors import ConfigError, ExecutionError
from okl.home import okl_home

SLUG = "okl"  # names our schedule among those that others add in Prefect's pages
PATHS = ("data", "model", "source", "out")  # settings that name files: a worker runs in a folder of its own


def deploy(
    train: TrainSettings | None = None,
    score: dict[str, Any] | None = None,
    *,
    cron: str | None = None,
    timezone: str | None = None,
    pool: str = "okl",
) -> list[str]:
    """Create or update the deployments okl-train/default and okl-score/default, and their work pool if it is missing.

    Parameters
    ----------
    train : what to train when a run gives no settings of its own, without a folder, as every run makes one; None leaves
        it to whoever starts a run. Paths may be relative to the current directory
    score : some fields of okl.scoring.ScoreSettings, likewise
    cron : when to train, such as "0 3 * * *"; None: only when asked, and a schedule deployed earlier is removed
    timezone : of `cron`, such as "Europe/Zurich"; None: UTC
    pool : name of the work pool; a new one is of type process

    Returns
    -------
    names of the deployments, for `prefect deployment run`

    Raises
    ------
    ConfigError : a schedule without anything to train on, or one that Prefect cannot read
    ExecutionError : no server is configured, it does not answer, or it refuses the deployments
    """
    if train is not None and train.out is not None:
        raise ConfigError(f"A deployment runs many times, and the folder {train.out} is one. Leave out --out.")
    if cron is not None and train is None:
        raise ConfigError("A schedule needs something to train on: give the data set too.")
    if not PREFECT_API_URL.value():
        raise ExecutionError(
            "Deployments live on a Prefect server that stays, and none is configured. Start one by `okl up`, or set "
            "PREFECT_API_URL (http://127.0.0.1:4200/api) to one that runs."
        )
    _check_schedule(cron, timezone)
    require_answer()
    values = None if train is None else train.model_dump(mode="json", exclude_defaults=True)
    wanted = {"okl_train": values, "okl_score": score}
    plan = _plan(wanted, cron, timezone, pool)
    _ensure_pool(pool)
    _apply(plan)
    names = [f"{_flow_of(deployment).replace('_', '-')}/{deployment['name']}" for deployment in plan["deployments"]]
    if cron is None:
        _remove_schedule(names[0])
    return names


def packaged_plan() -> Path:
    """Return the path of prefect.yaml: inside the package of a wheel, in infra/ of a checkout."""
    packaged = Path(str(resources.files("flows"))) / "prefect.yaml"
    return packaged if packaged.is_file() else packaged.parents[1] / "infra" / "prefect.yaml"


def _flow_of(deployment: dict[str, Any]) -> str:
    return str(deployment["entrypoint"]).rpartition(".")[2]


def _check_schedule(cron: str | None, timezone: str | None) -> None:
    try:
        CronSchedule(cron=cron or "* * * * *", timezone=timezone)
    except ValidationError as error:
        reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise ConfigError(f"{reason}. A schedule takes five fields, such as '0 3 * * *'.") from None


def _plan(
    settings: dict[str, dict[str, Any] | None], cron: str | None, timezone: str | None, pool: str
) -> dict[str, Any]:
    plan: dict[str, Any] = yaml.safe_load(packaged_plan().read_text(encoding="utf-8"))
    for deployment in plan["deployments"]:
        chosen = settings[_flow_of(deployment)]
        deployment["parameters"] = {} if chosen is None else {"settings": _absolute(chosen)}
        environment = deployment["work_pool"]["job_variables"]["env"] | {"OKL_HOME": str(okl_home())}
        deployment["work_pool"] = {"name": pool, "job_variables": {"env": environment}}
        if cron is not None and _flow_of(deployment) == "okl_train":
            deployment["schedules"] = [{"cron": cron, "timezone": timezone or "UTC", "slug": SLUG}]
    return plan


def _absolute(values: dict[str, Any]) -> dict[str, Any]:
    paths = {name: value for name, value in values.items() if name in PATHS and "://" not in str(value)}
    return values | {name: str(Path(value).expanduser().absolute()) for name, value in paths.items()}


def _ensure_pool(name: str) -> None:
    with get_client(sync_client=True) as client:
        try:
            client.read_work_pool(name)
        except ObjectNotFound:
            template = ProcessWorker.get_default_base_job_template()
            with suppress(ObjectAlreadyExists):  # another `okl deploy` or a worker was faster
                client.create_work_pool(WorkPoolCreate(name=name, type="process", base_job_template=template))


def _remove_schedule(deployment_name: str) -> None:
    """Remove our schedule: Prefect's command adds and updates schedules, but keeps those that left the plan."""
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name(deployment_name)
        for schedule in deployment.schedules:
            if schedule.slug == SLUG:
                client.delete_deployment_schedule(deployment.id, schedule.id)


def _apply(plan: dict[str, Any]) -> None:
    """Let Prefect's own command apply the plan: it knows how to update, and what it accepts here it accepts by hand."""
    with tempfile.TemporaryDirectory(prefix="okl-deploy-") as folder:
        file = Path(folder) / "prefect.yaml"
        file.write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")
        # the flows must be importable over there, as they are here, even where okl is not installed
        imports = [str(Path(__file__).absolute().parents[1]), os.environ.get("PYTHONPATH", "")]
        outcome = subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--prefect-file", str(file), "--all"],
            cwd=folder,
            env=os.environ
            | PRIVACY
            | {"PREFECT_API_URL": str(PREFECT_API_URL.value()), "PYTHONPATH": os.pathsep.join(filter(None, imports))}
            | {"COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if outcome.returncode != 0:
        raise ExecutionError(f"Prefect did not take the deployments: {outcome.stdout.strip()}")
