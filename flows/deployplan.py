"""Which deployments there are to be, and with which parameters: infra/prefect.yaml, filled in."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # Prefect brings it, and no stubs
from pydantic import BaseModel

from flows.service import ServiceSettings
from okl.configuration import TrainSettings
from okl.home import okl_home
from okl.registry.reference import is_reference
from okl.registry.registry import registry_location
from okl.retraining.settings import RetrainSettings

PATHS = ("data", "model", "source", "out")  # settings that name files: a worker runs in a folder of its own
MODEL = "{{ $OKL_MODEL }}"  # in the file: the deployments of one model bear its name
ALWAYS = ("okl_compare", "okl_reproduce", "okl_notice")

Parameters = dict[str, Any]


def packaged_plan(name: str = "prefect.yaml") -> Path:
    """Return the path of a file of infra/: inside the package of a wheel, in infra/ of a checkout."""
    packaged = Path(str(resources.files("flows"))) / name
    return packaged if packaged.is_file() else packaged.parents[1] / "infra" / name


def _of_defaults(
    train: TrainSettings | None, score: dict[str, Any] | None, service: ServiceSettings | None
) -> dict[str, Parameters]:
    values = None if train is None else train.model_dump(mode="json", exclude_defaults=True)
    wanted = {"okl_train": _parameters(values, service), "okl_score": _parameters(score, None)}
    return wanted | {flow: {} for flow in ALWAYS}


def _of_model(
    retrain: RetrainSettings, score: dict[str, Any] | None, service: ServiceSettings | None
) -> dict[str, Parameters]:
    # the environment that names a registry here is not that of the worker
    registry = registry_location(retrain.registry)
    values = retrain.model_dump(mode="json", exclude_defaults=True) | {"registry": registry}
    wanted = {"okl_retrain": _parameters(values, service)}
    if score is not None:
        model = {"model": f"{retrain.name}@champion", "registry": registry}
        wanted["okl_score"] = _parameters(score | model, None)
    return wanted | {"okl_notice": {}}


def _parameters(values: dict[str, Any] | None, service: BaseModel | None) -> Parameters:
    parameters = {} if values is None else {"settings": _absolute(values)}
    levels = {} if service is None else service.model_dump(mode="json", exclude_defaults=True)
    return parameters | ({"service": levels} if levels else {})


def flow_of(deployment: dict[str, Any]) -> str:
    """The name of a deployment's flow function."""
    return str(deployment["entrypoint"]).rpartition(".")[2]


def plan_of(
    train: TrainSettings | None,
    score: dict[str, Any] | None,
    retrain: RetrainSettings | None,
    service: ServiceSettings | None,
    pool: str,
) -> dict[str, Any]:
    """The deployments of the file that are wanted: those of a model if one is to be retrained, else the defaults.

    See `flows.deploy.deploy` for the parameters; that which `service` and a schedule are for comes first.
    """
    model = None if retrain is None else retrain.name
    wanted = _of_defaults(train, score, service) if retrain is None else _of_model(retrain, score, service)
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


def _absolute(values: dict[str, Any]) -> dict[str, Any]:
    paths = {
        name: value
        for name, value in values.items()
        if name in PATHS and "://" not in str(value) and not (name == "model" and is_reference(value))
    }
    return values | {name: str(Path(value).expanduser().absolute()) for name, value in paths.items()}
