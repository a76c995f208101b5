"""Deployments, on a real server with a real worker in another directory: they run on demand and on a schedule."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import temporary_settings
from prefect.states import Cancelled, Pending

from flows.artifacts import announce
from flows.cli import main
from flows.cli.deploy import deployed_text
from flows.deploy import deploy, packaged_plan, plan_of
from flows.form import flat
from flows.records import wait_for_records
from flows.runs import okl_retrain
from flows.server import TemporaryServer, connection
from flows.service import RetrainService
from flows.stack.status import deployments_of, rescoring_at, schedules_at
from flows.stack.supervisor import crash_left_runs
from flows.stages import Started
from okl.foundation.errors import ConfigError, ExecutionError
from okl.foundation.settings import IngestSettings
from okl.lifecycle.settings import RetrainSettings
from okl.runs.predict import SCORE_STAGES
from okl.solvers.settings import TrainSettings
from tests.distributed.processes import heed_interrupts
from tests.flows.blobs import write_blobs
from tests.flows.conftest import query
from tests.flows.environment import child_environment
from tests.lifecycle.shards import content, land

RUN_SECONDS = 240.0  # time limit of a run on a busy machine without compiled functions in the cache
FORMS = {
    "okl-train/default": {"TrainSettings", "IngestSettings", "ServiceSettings"},
    "okl-retrain/hours": {
        "RetrainSettings", "TrainSettings", "IngestSettings", "ContractSettings", "RetrainService"
    },
    "okl-score/default": {"ScoreSettings", "ServiceSettings"},
    "okl-compare/default": {"CompareSettings", "IngestSettings", "ServiceSettings"},
    "okl-reproduce/default": {"ReproduceSettings", "ServiceSettings"},
    "okl-notice/default": {"NoticeSettings"},
}  # fmt: skip
POOL = "pool-of-the-command"
YEARLY = "0 3 29 2 *"  # so rare that it never fires while the tests run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployed")
    write_blobs(folder / "rows.parquet")
    return folder


@pytest.fixture(scope="module")
def client(server: TemporaryServer, root: Path) -> Iterator[SyncPrefectClient]:
    with pytest.MonkeyPatch.context() as patch, temporary_settings(connection(server.url, server.login)):
        patch.setenv("PREFECT_API_URL", server.url)
        patch.setenv("PREFECT_API_AUTH_STRING", server.login)
        patch.setenv("OKL_HOME", str(root / "home"))
        patch.chdir(root)  # the data's path is relative to it
        with get_client(sync_client=True) as opened:
            yield opened


@pytest.fixture(scope="module")
def deployed(client: SyncPrefectClient) -> dict[str, Any]:
    """Return the output of `okl deploy`, for a pool that has no worker."""
    words = ["deploy", "rows.parquet", "--pool", POOL, "--cron", YEARLY, "--timezone", "Europe/Zurich", "--json"]
    words += ["--passes", "2", "--solver", "bogd++", "--budget", "30", "--set", "regularisation=0.01"]
    handler = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, suppress(SystemExit):
        patch.setattr(sys, "argv", ["okl", *words, "--kernel", "laplacian"])
        main()
    signal.signal(signal.SIGINT, handler)
    output: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return output


@pytest.fixture(scope="module")
def retraining(client: SyncPrefectClient, root: Path, deployed: dict[str, Any]) -> list[str]:
    land(root / "inbox", "day-0.parquet", content(0, rows=900))
    land(root, "new.parquet", content(1, rows=300))
    scoring = {"source": "new.parquet", "out": "scores/{date}-version-{version}"}
    levels = RetrainService(retries=5, empty_windows=2)
    return deploy(None, scoring, retrain=retrain_settings(), service=levels, cron=YEARLY, timezone="Europe/Zurich")


@pytest.fixture(scope="module")
def worker(server: TemporaryServer, retraining: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A worker of Prefect's, started as in infra/README.md, but in another folder and polling often."""
    folder = tmp_path_factory.mktemp("worker")
    environment = child_environment(
        PREFECT_API_URL=server.url,
        PREFECT_API_AUTH_STRING=server.login,
        PREFECT_HOME=str(folder / "prefect"),
        PREFECT_WORKER_QUERY_SECONDS="2",
    )
    environment.pop("OKL_HOME")  # the deployment sets it
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "worker", "start", "--pool", "okl"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=heed_interrupts,  # SIGINT ends it, but is ignored if the tests run in the background
        )
    try:
        yield
    finally:
        process.terminate()  # the worker waits for the runs that it has started
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        with suppress(ProcessLookupError):  # the worker and its runs, if they have not ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def train_settings() -> TrainSettings:
    return TrainSettings(data="rows.parquet", ingest=IngestSettings(target="y"), frequencies=20)


def retrain_settings() -> RetrainSettings:
    learning = TrainSettings(data="inbox", frequencies=20, bandwidth=1.0, step_size=1.0)
    reading = IngestSettings(scale="standard", keys=("hour",))
    return RetrainSettings(name="hours", source="inbox", train=learning, ingest=reading, settle_seconds=0)


def wait_until(condition: Callable[[], Any], seconds: float = RUN_SECONDS) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"nothing within {seconds:.0f} s"
        time.sleep(1.0)  # the server shares the processor with the run
    return value


def runs_of(client: SyncPrefectClient, deployment: DeploymentResponse) -> list[FlowRun]:
    wanted = DeploymentFilter(id=DeploymentFilterId(any_=[deployment.id]))
    return client.read_flow_runs(deployment_filter=wanted, limit=200)


def final_states(client: SyncPrefectClient, runs: list[FlowRun]) -> list[str]:
    states = [client.read_flow_run(run.id).state for run in runs]
    return sorted(str(state.name) for state in states if state is not None and state.is_final())


def records(server: TemporaryServer, run: FlowRun) -> tuple[dict[str, str], set[str]]:
    """Return the states of a flow run's task runs and the keys of its artifacts, from the database."""
    tasks = query(server.home, f"select name, state_type from task_run where flow_run_id = '{run.id}'")
    keys = query(server.home, f"select key from artifact where flow_run_id = '{run.id}'")
    return dict(tasks), {key for (key,) in keys}


def wait_for_stages(server: TemporaryServer, run: FlowRun, stages: tuple[str, ...], name: str) -> None:
    """Wait for the states of task runs, stored shortly after the state of the flow run; check all records."""
    wanted = dict.fromkeys(stages, "COMPLETED"), {f"{name}-{what}" for what in ("progress", "metrics", "report")}
    wait_until(lambda: records(server, run) == wanted, 20)


def test_deploy_stores_validated_settings_and_the_options_of_the_solver(
    client: SyncPrefectClient, deployed: dict[str, Any], root: Path
) -> None:
    names = [f"okl-{flow}/default" for flow in ("train", "score", "compare", "reproduce", "notice")]
    assert (deployed["deployments"], deployed["pool"]) == (names, POOL)
    assert (deployed["schedule"]["cron"], deployed["schedule"]["timezone"]) == (YEARLY, "Europe/Zurich")
    deployment = client.read_deployment_by_name("okl-train/default")
    given = {"solver": "bogd++", "kernel": "laplacian", "budget": 30, "regularisation": 0.01}
    data = str(root / "rows.parquet")
    assert deployment.parameters == {"settings": {"data": data, "advanced": {"passes": 2} | given}}
    assert deployment.work_pool_name == POOL
    assert deployment.parameter_openapi_schema is not None
    form = deployment.parameter_openapi_schema["definitions"]["TrainSettings"]["properties"]
    assert list(form) == ["data", "target", "advanced"]
    group = form["advanced"]["anyOf"][1]["properties"]
    assert {"solver", "budget", "rank", "landmarks", "map", "aggressiveness", "degree"} < set(group)


@pytest.mark.usefixtures("deployed")
def test_a_second_run_of_a_deployment_waits(client: SyncPrefectClient) -> None:
    """The server makes it wait when a worker requests the first state of each run."""
    deployment = client.read_deployment_by_name("okl-train/default").id
    runs = [client.create_flow_run_from_deployment(deployment) for _ in range(2)]
    for run in runs:
        client.set_flow_run_state(run.id, Pending())
    states = [client.read_flow_run(run.id).state for run in runs]
    assert [state and state.name for state in states] == ["Pending", "AwaitingConcurrencySlot"]
    for run in runs:
        client.set_flow_run_state(run.id, Cancelled())
    assert final_states(client, runs) == ["Cancelled"] * 2


@pytest.mark.usefixtures("worker")
def test_a_schedule_fires_in_another_directory_and_a_promotion_triggers_scoring(
    server: TemporaryServer, client: SyncPrefectClient, root: Path
) -> None:
    # Also guards the pin of SQLAlchemy: with 2.1 the server starts, but no schedule ever fires.
    deployment = client.read_deployment_by_name("okl-retrain/hours")
    start = datetime.now(UTC) + timedelta(seconds=8)
    every_minute = DeploymentScheduleCreate(schedule=IntervalSchedule(interval=timedelta(minutes=1), anchor_date=start))
    (schedule,) = client.create_deployment_schedules(deployment.id, [every_minute])
    # the server checks changed deployments every five seconds, all others every minute
    client.update_deployment(deployment.id, DeploymentUpdate(description=deployment.description))

    def fired() -> list[FlowRun]:
        started_states = ("Pending", "Running", "Completed")
        return [run for run in runs_of(client, deployment) if run.auto_scheduled and run.state_name in started_states]

    try:
        (run,) = wait_until(fired)
    finally:
        client.delete_deployment_schedule(deployment.id, schedule.id)  # a second run would wait for the first
    scoring = client.read_deployment_by_name("okl-score/hours")
    wait_until(lambda: final_states(client, [run]))
    assert final_states(client, [run]) == ["Completed"]
    (scored,) = wait_until(lambda: runs_of(client, scoring))
    wait_until(lambda: final_states(client, [scored]))
    assert final_states(client, [scored]) == ["Completed"]
    wait_for_stages(server, scored, SCORE_STAGES, "okl-score-new-with-hours")
    (folder,) = (root / "scores").iterdir()
    assert folder.name.endswith("-version-1")
    (file, *_) = folder.glob("*.parquet")
    assert "hour" in pq.read_schema(file).names, "scores contain the key of the model's first data set"
    assert "okl-arrivals-hours" in records(server, run)[1]
    assert not (root / "home" / "prefect").exists(), "a worker's run starts no server"
    deployments = deployments_of(server.url)
    scores_to = {one["name"]: one["scores_to"] for one in deployments}
    assert scores_to["okl-score/hours"] == f"{root}/scores/{{date}}-version-{{version}}"
    assert scores_to["okl-retrain/hours"] is None
    last_runs = {one["name"]: one["last"] for one in deployments}
    assert last_runs["okl-retrain/hours"]["outcome"].startswith("Published: ")
    assert last_runs["okl-score/hours"]["outcome"] == ""


@pytest.mark.usefixtures("worker")
def test_a_source_that_stays_empty_is_reported(server: TemporaryServer, client: SyncPrefectClient, root: Path) -> None:
    nothing: dict[str, list[Any]] = {"accepted": [], "rejected": [], "standing": [], "still_written": []}
    result = {"model": "hours", "registry": "here", "outcome": "nothing new", "reason": "No shard is new.",
              "version": None, "parent": None, "shards": nothing}  # fmt: skip

    @flow(persist_result=False)
    def retrain_without_data() -> None:
        announce(retrain_settings(), result, 2)

    for _ in range(2):
        retrain_without_data()
    wait_for_records(Started(), 20.0)  # sends the event and closes the connection
    notices = root / "home" / "notices.jsonl"
    wait_until(notices.exists)
    (line,) = map(json.loads, notices.read_text().splitlines())
    assert (line["event"], line["about"]) == ("okl.data.missing", "hours (okl.model.hours)")
    why = "The latest 2 runs found no usable new file in inbox."
    assert line["said"] == {"why": why, "model": "hours", "source": "inbox", "windows": 2}


def test_unfinished_runs_of_an_earlier_stack_are_marked_as_crashed(
    server: TemporaryServer, client: SyncPrefectClient, deployed: dict[str, Any]
) -> None:
    deployment = client.read_deployment_by_name(deployed["deployments"][0])
    old, waiting, recent = [client.create_flow_run_from_deployment(deployment.id).id for _ in range(3)]
    client.set_flow_run_state(old, Pending(), force=True)
    since = time.time()
    client.set_flow_run_state(recent, Pending(), force=True)
    assert crash_left_runs(server.url, "another", since, server.login) == 0
    assert crash_left_runs(server.url, POOL, since, server.login) == 1
    names = [client.read_flow_run(run).state_name for run in (old, waiting, recent)]
    for run in (old, waiting, recent):
        client.delete_flow_run(run)
    assert names == ["Crashed", "Scheduled", "Pending"]


def test_deploying_again_changes_only_what_okl_created(
    server: TemporaryServer, client: SyncPrefectClient, retraining: list[str], root: Path
) -> None:
    def schedules() -> list[tuple[str | None, Any]]:
        created = client.read_deployment_by_name("okl-retrain/hours").schedules
        return sorted((schedule.slug, getattr(schedule.schedule, "cron", None)) for schedule in created)

    def automations() -> dict[str, UUID]:
        return {one.name: one.id for one in client.read_automations() if one.name.startswith("okl gives up")}

    assert retraining == ["okl-retrain/hours", "okl-score/hours", "okl-notice/default"]
    assert schedules() == [("okl", YEARLY)]
    first, watching = client.read_deployment_by_name(retraining[0]), automations()
    assert len(watching) == 2
    mine = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 5 * * *"), active=False, slug="mine")
    client.create_deployment_schedules(first.id, [mine])
    registry = str(root / "home" / "registry")
    message = (
        f"{root}/new.parquet is scored with it at the next run of okl-retrain/hours; to score now: prefect deployment "
        "run okl-"
    )
    assert rescoring_at(server.url, "hours", registry) == f"{message}score/hours"
    assert rescoring_at(server.url, "hours", "/another") == ""
    active = schedules_at(server.url, 30.0)
    names = deploy(retrain=retrain_settings(), service=RetrainService(retries=5, late="all"))
    assert names == [retraining[0], retraining[2]]
    assert rescoring_at(server.url, "hours", registry) == "", "a deployment without --score scores nothing"
    again = client.read_deployment_by_name(retraining[0])
    assert schedules() == [("mine", "0 5 * * *")]
    assert schedules_at(server.url, 30.0) == (active or 0) - 1, "a paused schedule is not counted"
    assert automations() == watching
    assert (first.id, first.parameters["settings"], first.job_variables) == (
        again.id,
        again.parameters["settings"],
        again.job_variables,
    )
    assert first.parameters["service"] == {"retries": 5, "empty_windows": 2}
    assert again.parameters["service"] == {"retries": 5, "late": "all"}
    assert again.concurrency_options is not None
    assert again.concurrency_options.collision_strategy == "ENQUEUE", "missed runs wait for each other"
    with pytest.raises(ObjectNotFound):
        client.read_deployment_by_name("okl-score/hours")
    assert again.parameters["settings"]["source"] == str(root / "inbox")
    assert again.job_variables["env"]["OKL_HOME"] == str(root / "home")


@pytest.mark.usefixtures("retraining")
def test_the_form_shows_every_field_with_its_help(client: SyncPrefectClient) -> None:
    for name, kinds in FORMS.items():
        schema = client.read_deployment_by_name(name).parameter_openapi_schema
        assert schema is not None
        assert set(schema["definitions"]) == kinds
        groups = [part["properties"].get("advanced") for part in schema["definitions"].values()]
        parts = [schema, *schema["definitions"].values(), *(group["anyOf"][1] for group in groups if group)]
        fields = [(key, field) for part in parts for key, field in part["properties"].items()]
        assert len(fields) > 2
        assert [key for key, field in fields if not field.get("description")] == []


def test_runs_of_a_deployment_wait_for_each_other() -> None:
    plans = [plan_of(train_settings(), None, retrain, None, POOL) for retrain in (None, retrain_settings())]
    limits = [one["concurrency_limit"] for plan in plans for one in plan["deployments"][:-1]]  # the last sends notices
    assert limits == [{"limit": 1, "collision_strategy": "ENQUEUE"}] * 5


def test_the_form_of_a_retraining_has_one_field_for_its_data(retraining: list[str], client: SyncPrefectClient) -> None:
    deployment = client.read_deployment_by_name(retraining[0])
    schema = deployment.parameter_openapi_schema
    assert schema is not None
    train, group = schema["definitions"]["TrainSettings"], schema["definitions"]["RetrainSettings"]["properties"]
    assert "data" not in train["properties"]
    assert "required" not in train
    first = [name for name, field in train["properties"].items() if field["position"] < 3]
    assert first == ["ingest", "solver", "optimise"], "workers and threads come last"
    assert list(group) == ["name", "source", "target", "registry", "advanced"]
    assert "data" not in deployment.parameters["settings"]["advanced"]["train"]
    given = okl_retrain.validate_parameters({"settings": deployment.parameters["settings"]})["settings"]
    assert given.train.data == given.source == str(Path("inbox").absolute())
    assert given == RetrainSettings.model_validate(flat(deployment.parameters["settings"]))


@pytest.mark.usefixtures("retraining")
def test_the_server_refuses_a_bad_value(client: SyncPrefectClient) -> None:
    good = {"name": "m", "source": "/in", "train": {"data": "/in"}}
    bad: list[tuple[str, dict[str, Any]]] = [
        ("okl-train/default", {"settings": {"data": "/data", "passes": "many"}}),
        ("okl-train/default", {"settings": {"data": "/data", "ingest": {"rows_per_shard": 0}}}),
        ("okl-train/default", {"settings": {"data": "/data", "advanced": {"passes": "many"}}}),
        ("okl-train/default", {"settings": {"data": "/data", "advanced": {"past": 2}}}),
        ("okl-train/default", {"settings": {"data": "/data"}, "service": {"late": "perhaps"}}),
        ("okl-retrain/hours", {"settings": good | {"train": {"data": "/in", "frequencies": 0}}}),
        ("okl-retrain/hours", {"settings": good | {"contract": {"missing_share": 1.5}}}),
        ("okl-retrain/hours", {"settings": good | {"sauce": "/in"}}),
        ("okl-retrain/hours", {"settings": good, "service": {"empty_windows": 0}}),
        ("okl-score/default", {"settings": {"model": "m@champion", "source": "/rows"}}),
        ("okl-compare/default", {"settings": {"data": "/data", "folds": 1}}),
        ("okl-reproduce/default", {"settings": {"table": "lu2016-table5", "orders": "mine"}}),
    ]
    for name, parameters in bad:
        deployment = client.read_deployment_by_name(name)
        with pytest.raises(PrefectHTTPStatusError, match="409"):
            client.create_flow_run_from_deployment(deployment.id, parameters=parameters)


def test_invalid_options_are_refused_before_anything_is_deployed(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"--cron needs data to train on: add the argument DATASET"):
        deploy(cron="0 3 * * *")
    with pytest.raises(ConfigError, match=r'Invalid cron string: "at night"'):
        deploy(train_settings(), cron="at night")
    outside = (
        r"\"0 25 \* \* 9\"\. The hour '25' is not within 0-23\. The weekday '9' is not within 0-6\. A schedule has"
    )
    with pytest.raises(ConfigError, match=outside):
        deploy(train_settings(), cron="0 25 * * 9")
    with pytest.raises(ConfigError, match=r"Invalid timezone"):
        deploy(train_settings(), cron="0 3 * * *", timezone="Mars/Olympus")
    with pytest.raises(ConfigError, match=r"--timezone needs a schedule: add --cron FIELDS"):
        deploy(train_settings(), timezone="Europe/Zurich")
    with pytest.raises(ConfigError, match=r"runs many times"):
        deploy(train_settings().model_copy(update={"out": "here"}))
    with pytest.raises(ConfigError, match=r"conflicts with the deployment okl-score/default\. Use another name"):
        deploy(retrain=retrain_settings().model_copy(update={"name": "default"}))
    with temporary_settings({"api.url": None}), pytest.raises(ExecutionError, match=r"none is configured"):
        deploy(train_settings())


def test_a_checkout_uses_the_plan_in_infra() -> None:
    assert packaged_plan() == Path(__file__).parents[2] / "infra" / "prefect.yaml"


def test_summary_shows_schedule_and_commands() -> None:
    scoring = {"source": "/new.csv", "out": "/scores/{time}"}
    names = ["okl-retrain/hours", "okl-score/hours", "okl-notice/default"]
    lines = deployed_text(names, None, None, scoring).splitlines()
    assert "okl-retrain/hours runs when started by hand (no --cron)" in lines
    assert "okl-score/hours scores /new.csv after each retraining; scores go to /scores/{time}" in lines
    assert "remove:           prefect deployment delete okl-score/hours" in lines
    elsewhere = deployed_text(names, None, "http://127.0.0.1:4200/api")
    assert 'PREFECT_API_URL=http://127.0.0.1:4200/api PREFECT_API_AUTH_STRING="$(cat ' in elsewhere
    lines = deployed_text(names[::2], None, None).splitlines()
    assert "no scoring of rows (no --score); an earlier scoring deployment is removed" in lines
    assert "scor" not in deployed_text(["okl-train/default"], None, None)
