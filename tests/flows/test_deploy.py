"""Deployments, on a real server with a real worker in another directory: they run, on demand and by the clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import temporary_settings

from flows.deploy import deploy, packaged_plan
from flows.server import OwnServer
from okl.configuration import IngestSettings, TrainSettings
from okl.errors import ConfigError, ExecutionError
from okl.scoring import SCORE_STAGES
from okl.training import TRAIN_STAGES
from tests.flows.blobs import write_blobs
from tests.flows.conftest import child_environment, query

RUN_SECONDS = 120.0
YEARLY = "0 3 29 2 *"  # or rarer: never while the tests run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployed")
    write_blobs(folder / "rows.parquet")
    return folder


@pytest.fixture(scope="module")
def client(server: OwnServer, place: Path) -> Iterator[SyncPrefectClient]:
    with pytest.MonkeyPatch.context() as patch, temporary_settings({"api.url": server.url}):
        patch.setenv("PREFECT_API_URL", server.url)
        patch.setenv("OKL_HOME", str(place / "home"))
        patch.chdir(place)  # the data's path is relative to it
        with get_client(sync_client=True) as opened:
            yield opened


@pytest.fixture(scope="module")
def deployed(client: SyncPrefectClient) -> list[str]:
    return deploy(settings(), cron=YEARLY, timezone="Europe/Zurich")


@pytest.fixture(scope="module")
def worker(server: OwnServer, deployed: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A worker of Prefect's, started as in infra/README.md, but in a folder of its own and looking for work often."""
    folder = tmp_path_factory.mktemp("worker")
    environment = child_environment(
        PREFECT_API_URL=server.url, PREFECT_HOME=str(folder / "prefect"), PREFECT_WORKER_QUERY_SECONDS="2"
    )
    environment.pop("OKL_HOME")  # it comes with the deployment
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "worker", "start", "--pool", "okl"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()  # it waits for the runs that it has started
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):  # what is left of it, and of them
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def settings() -> TrainSettings:
    return TrainSettings(data="rows.parquet", ingest=IngestSettings(target="y"), frequencies=20)


def wait_until(found: Callable[[], Any], seconds: float = RUN_SECONDS) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, f"nothing within {seconds:.0f} s"
        time.sleep(0.3)
    return value


def runs_of(client: SyncPrefectClient, deployment: DeploymentResponse) -> list[FlowRun]:
    wanted = DeploymentFilter(id=DeploymentFilterId(any_=[deployment.id]))
    return client.read_flow_runs(deployment_filter=wanted, limit=200)


def final_states(client: SyncPrefectClient, runs: list[FlowRun]) -> list[str]:
    states = [client.read_flow_run(run.id).state for run in runs]
    return sorted(str(state.name) for state in states if state is not None and state.is_final())


def records(server: OwnServer, run: FlowRun) -> tuple[dict[str, str], set[str]]:
    """Return the states of a flow run's task runs and the keys of its artifacts, from the database itself."""
    tasks = query(server.home, f"select name, state_type from task_run where flow_run_id = '{run.id}'")
    keys = query(server.home, f"select key from artifact where flow_run_id = '{run.id}'")
    return dict(tasks), {key for (key,) in keys}


def wait_for_records(server: OwnServer, run: FlowRun, stages: tuple[str, ...], name: str) -> None:
    """Wait for the states of task runs, which follow the flow run's own within moments, and check everything."""
    wanted = dict.fromkeys(stages, "COMPLETED"), {f"{name}-{what}" for what in ("progress", "metrics", "report")}
    wait_until(lambda: records(server, run) == wanted, 20)


@pytest.mark.usefixtures("worker")
def test_a_deployment_runs_one_at_a_time_in_another_directory(
    server: OwnServer, client: SyncPrefectClient, place: Path
) -> None:
    deployment = client.read_deployment_by_name("okl-train/default")
    runs = [client.create_flow_run_from_deployment(deployment.id) for _ in range(2)]
    wait_until(lambda: len(final_states(client, runs)) == 2)
    assert final_states(client, runs) == ["Cancelled", "Completed"]
    (done,) = [run for run in runs if final_states(client, [run]) == ["Completed"]]
    wait_for_records(server, done, TRAIN_STAGES, "okl-train")
    assert [entry.name for entry in (place / "home").iterdir()] == ["runs"], "a worker's run brings no server"
    assert len(list((place / "home" / "runs").glob("*/model"))) == 1


@pytest.mark.usefixtures("worker")
def test_a_trained_model_is_scored_with_by_a_deployment(
    server: OwnServer, client: SyncPrefectClient, place: Path
) -> None:
    (model,) = (place / "home" / "runs").glob("*/model")
    deployment = client.read_deployment_by_name("okl-score/default")
    values = {"model": str(model), "source": str(place / "rows.parquet"), "out": str(place / "scores")}
    run = client.create_flow_run_from_deployment(deployment.id, parameters={"settings": values})
    wait_until(lambda: final_states(client, [run]))
    assert final_states(client, [run]) == ["Completed"]
    wait_for_records(server, run, SCORE_STAGES, "okl-score")
    assert list((place / "scores").glob("*.parquet"))


@pytest.mark.usefixtures("worker")
def test_a_schedule_fires_and_its_run_completes(server: OwnServer, client: SyncPrefectClient) -> None:
    # Also guards the pin of SQLAlchemy: with 2.1 the server starts, but no schedule ever fires. A minute is long enough
    # for a run to end, as one that finds another still running is cancelled.
    deployment = client.read_deployment_by_name("okl-train/default")
    soon = datetime.now(UTC) + timedelta(seconds=12)
    every = DeploymentScheduleCreate(schedule=IntervalSchedule(interval=timedelta(minutes=1), anchor_date=soon))
    (schedule,) = client.create_deployment_schedules(deployment.id, [every])
    # the server looks every five seconds at deployments that were changed, and at all others every minute
    client.update_deployment(deployment.id, DeploymentUpdate(description=deployment.description))

    def fired() -> list[FlowRun]:
        return [run for run in runs_of(client, deployment) if run.auto_scheduled and run.state_name == "Completed"]

    try:
        run, *_ = wait_until(fired)
    finally:
        client.delete_deployment_schedule(deployment.id, schedule.id)
    wait_for_records(server, run, TRAIN_STAGES, "okl-train")


def test_deploying_again_changes_nothing_but_our_schedule(
    client: SyncPrefectClient, deployed: list[str], place: Path
) -> None:
    def schedules() -> list[tuple[str | None, Any]]:
        found = client.read_deployment_by_name("okl-train/default").schedules
        return sorted((schedule.slug, getattr(schedule.schedule, "cron", None)) for schedule in found)

    names = deployed
    flows = ("train", "score", "compare", "reproduce", "notice")
    assert names == [f"okl-{flow}/default" for flow in flows]
    assert schedules() == [("okl", YEARLY)]
    first = [client.read_deployment_by_name(name) for name in names]
    mine = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 5 * * *"), active=False, slug="mine")
    client.create_deployment_schedules(first[0].id, [mine])
    assert deploy(settings(), cron="0 4 * * *") == names
    assert schedules() == [("mine", "0 5 * * *"), ("okl", "0 4 * * *")]
    assert deploy(settings()) == names
    assert schedules() == [("mine", "0 5 * * *")]
    again = [client.read_deployment_by_name(name) for name in names]
    for before, after in zip(first, again, strict=True):
        assert (before.id, before.parameters, before.job_variables) == (after.id, after.parameters, after.job_variables)
    assert first[0].parameters["settings"]["data"] == str(place / "rows.parquet")
    assert first[0].job_variables["env"]["OKL_HOME"] == str(place / "home")


@pytest.mark.usefixtures("deployed")
def test_the_form_shows_every_field_with_its_help(client: SyncPrefectClient) -> None:
    for name, kind in (("okl-train/default", "TrainSettings"), ("okl-score/default", "ScoreSettings")):
        schema = client.read_deployment_by_name(name).parameter_openapi_schema
        assert schema is not None
        fields = schema["definitions"][kind]["properties"]
        assert len(fields) > 5
        assert all(field.get("description") for field in fields.values())


@pytest.mark.usefixtures("deployed")
def test_the_server_refuses_a_bad_value(client: SyncPrefectClient) -> None:
    deployment = client.read_deployment_by_name("okl-train/default")
    values = {"data": "/data", "passes": "many"}
    with pytest.raises(PrefectHTTPStatusError, match="409"):
        client.create_flow_run_from_deployment(deployment.id, parameters={"settings": values})


def test_bad_wishes_are_refused_before_anything_is_deployed(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"A schedule needs something to train on"):
        deploy(cron="0 3 * * *")
    with pytest.raises(ConfigError, match=r'Invalid cron string: "at night"'):
        deploy(settings(), cron="at night")
    with pytest.raises(ConfigError, match=r"Invalid timezone"):
        deploy(settings(), cron="0 3 * * *", timezone="Mars/Olympus")
    with pytest.raises(ConfigError, match=r"runs many times"):
        deploy(settings().model_copy(update={"out": "here"}))
    with temporary_settings({"api.url": None}), pytest.raises(ExecutionError, match=r"none is configured"):
        deploy(settings())


def test_the_plan_lies_in_infra_of_a_checkout() -> None:
    assert packaged_plan() == Path(__file__).parents[2] / "infra" / "prefect.yaml"
