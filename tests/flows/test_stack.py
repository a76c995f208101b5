"""The local stack, started once for all tests: commands find it, dead processes are restarted, `okl down` ends all."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.server import connection, login_file, stack_login
from flows.stack.control import down, prepare
from flows.stack.state import (
    StackState,
    live_state,
    read_state,
    stack_folder,
    stack_server,
    supervisor_of,
    workers_offered,
)
from flows.stack.status import deployed_lines, health, notices_in
from flows.stack.supervisor import StackOptions, marked
from okl.distributed.processes import VARIABLE
from okl.foundation.errors import ConfigError
from okl.runs.train import TRAIN_STAGES
from tests.distributed.processes import descendants, listening, soon
from tests.flows.blobs import write_blobs
from tests.flows.commandline import Outcome, Terminal, end_started, start, start_python, wait, without_notice
from tests.flows.conftest import give_database, query
from tests.flows.environment import child_environment
from tests.flows.strangers import reached

LOOPBACK = "0100007F"
# a command with a run that waits for a file, because training would use a whole processor
COUNTING = """
import os, sys, time
from flows import foreground
from okl.foundation.telemetry import NullObserver
from tests.flows.counted import CountingRun, CountSettings

class Waiting(NullObserver):
    def advance(self, done, total, metrics):
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.1)

foreground.RECORD_SECONDS = 5.0
run = CountingRun(CountSettings(upto=3))
print(foreground.perform_run(run, 'tests.flows.counting:counting', Waiting()), flush=True)
os._exit(0)  # as commands do while a recorder is unfinished
"""
WORKERS = 1


@pytest.fixture(scope="module")
def home(database: Path) -> Iterator[Path]:
    """A home folder with a migrated database, with a source next to it, in a folder that other users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="okl-stack-"))
    folder.chmod(0o755)
    give_database(folder / "home", database)
    write_blobs(folder / "rows.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OKL_HOME", str(folder / "home"))
        try:
            yield folder / "home"
        finally:
            down(folder / "home")
            end_started()
            shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _no_server_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


@pytest.fixture(scope="module")
def up(home: Path) -> Outcome:
    """Output of `okl up` in a script that ignores signals, has no standard input, and leads its own session."""
    environment = child_environment(OKL_HOME=str(home))
    environment.pop("PREFECT_API_URL", None)
    command = f"trap '' INT TERM HUP; exec 0<&-; {sys.executable} -m flows.cli up --workers {WORKERS}"
    done = subprocess.run(
        ["bash", "-c", command], env=environment, cwd=home, capture_output=True, text=True, start_new_session=True,
        check=False,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, without_notice(done.stderr))


def is_healthy(home: Path) -> bool:
    state = live_state(stack_folder(home))
    return state is not None and set(health(state).values()) == {"ok"}


def pid_of(home: Path, name: str) -> int | None:
    state = live_state(stack_folder(home))
    assert state is not None
    return next(child.pid for child in state.children if child.name == name)


def test_up_prints_the_environment_for_prefect(home: Path, up: Outcome) -> None:
    state = live_state(stack_folder(home))
    assert state is not None
    assert (up.code, up.out) == (
        0,
        f'export PREFECT_API_URL={state.url} PREFECT_API_AUTH_STRING="$(cat {login_file(home)})"\n',
    )
    waiting, message = up.err.splitlines()[:2]
    assert waiting == "Waiting until all processes of okl answer ..."
    assert message.startswith("okl is up (")
    login = Path(message.rpartition("which ask for the login in ")[2])
    assert login.read_text().strip(), "the login of the pages"


def test_a_second_up_reports_the_running_stack(home: Path, up: Outcome, terminal: Terminal) -> None:
    pid = supervisor_of(stack_folder(home))
    again = terminal.okl("up")
    assert (again.code, again.out) == (0, up.out)
    assert "okl is up (running since" in again.err
    assert supervisor_of(stack_folder(home)) == pid is not None


@pytest.mark.usefixtures("up")
def test_status_lists_every_process_and_all_listen_on_loopback_only(home: Path, terminal: Terminal) -> None:
    status = terminal.okl_json("status")
    assert [process["name"] for process in status["processes"]] == [
        "supervisor", "server", "scheduler", "prefect-worker", "worker-1"
    ]  # fmt: skip
    assert all(
        process["pid"] and process["memory_bytes"] > 2**20 and process["restarts"] == 0
        for process in status["processes"]
    )
    assert {process["health"] for process in status["processes"][1:]} == {"ok"}
    supervisor = status["processes"][0]["pid"]
    pids = {supervisor} | descendants(supervisor)
    assert pids >= {process["pid"] for process in status["processes"]}
    assert {address.partition(":")[0] for address in listening(pids)} == {LOOPBACK}
    assert stack_folder(home).stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.usefixtures("up")
def test_another_user_of_the_machine_is_refused_at_each_port_and_file(home: Path) -> None:
    state = live_state(stack_folder(home))
    assert state is not None
    ports = {int(address.rpartition(":")[2], 16) for address in listening({state.pid} | descendants(state.pid))}
    api, scheduler = (int(url.removesuffix("/api").rpartition(":")[2]) for url in (state.url, state.scheduler))
    assert {api, scheduler} < ports
    assert len(ports) == 3 + WORKERS, "Prefect's worker has a channel to its runs; no process serves pages of its own"
    files, answers = reached(home, *sorted(ports))
    assert files == []
    assert answers.pop(str(api)) == [401, 401, 404, "refused"]
    assert set().union(*answers.values()) <= {"refused", "silent"}
    assert answers[str(scheduler)] == ["refused"] * 4
    open_to_others = {path.name for path in home.rglob("*") if path.lstat().st_mode & 0o077 and not path.is_symlink()}
    assert open_to_others <= {"assets", "ico", "fonts"}, "the folders of Prefect's own pages"
    login = stack_login(home)
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    logs = [path.read_bytes() for path in home.rglob("*.log")]
    assert not [text for text in (*commands, *logs) if login.encode() in text]


@pytest.mark.usefixtures("up")
def test_a_deployment_runs_on_the_workers_of_the_stack_by_default(home: Path, terminal: Terminal) -> None:
    source = str(home.parent / "rows.parquet")
    words = ["--target", "y", "--frequencies", "20", "--workers", str(WORKERS)]
    deployed = terminal.okl_json("deploy", source, *words, "--cron", "0 3 29 2 *", "--timezone", "Europe/Zurich")
    assert deployed["schedule"]["next"].endswith("-02-29T03:00:00+01:00")
    assert "okl-train/default" in deployed["deployments"]
    from prefect.client.orchestration import get_client
    from prefect.settings import temporary_settings

    server = stack_server(home)
    assert server is not None
    with temporary_settings(connection(server.url, server.login)), get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("okl-train/default")
        run = client.create_flow_run_from_deployment(deployment.id)
        state_query = f"select state_type from flow_run where id = '{run.id}'"
        assert soon(lambda: query(home, state_query) == [("COMPLETED",)], 240.0)
    stage_query = f"select name, state_type from task_run where flow_run_id = '{run.id}'"
    assert soon(lambda: dict(query(home, stage_query)) == dict.fromkeys(TRAIN_STAGES, "COMPLETED"), 20.0)
    assert len(list((home / "runs").glob("*/model"))) == 1
    (one,) = terminal.okl_json("status")["deployments"]
    assert (one["name"], one["last"]["state"]) == ("okl-train/default", "Completed")
    assert one["schedules"] == [{"cron": "0 3 29 2 *", "timezone": "Europe/Zurich"}]
    log = (stack_folder(home) / "worker-1.log").read_text()
    assert "versions" in log, "the run used the existing worker"


@pytest.mark.usefixtures("up")
def test_dead_processes_are_restarted_and_reported(home: Path, terminal: Terminal) -> None:
    before = {name: pid_of(home, name) for name in ("worker-1", "scheduler")}
    for pid in before.values():
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    assert soon(lambda: all(pid_of(home, name) not in (None, pid) for name, pid in before.items()))
    assert soon(lambda: is_healthy(home), 60.0)
    processes = {process["name"]: process for process in terminal.okl_json("status")["processes"]}
    assert processes["scheduler"]["restarts"] >= 1
    assert processes["worker-1"]["restarts"] >= 1
    assert processes["scheduler"]["ended"].startswith("ended by SIGKILL after")
    logged = (stack_folder(home) / "supervisor.log").read_text()
    assert " okl: starting server, scheduler, prefect-worker, worker-1; Prefect's API is http://127.0.0.1:" in logged
    assert re.search(r" okl: scheduler ended by SIGKILL after \d+ s; it is started again\n", logged)


@pytest.mark.usefixtures("up")
def test_a_running_command_sends_heartbeats_and_survives_down_which_takes_five_seconds(
    home: Path, terminal: Terminal
) -> None:
    heartbeat_query = "select id from events where event = 'prefect.flow-run.heartbeat'"
    state = live_state(stack_folder(home))
    assert state is not None
    runs, heartbeats = len(query(home, "select id from flow_run")), len(query(home, heartbeat_query))
    file = home.parent / "go on"
    running = start_python(home, "-c", COUNTING, str(file))
    assert soon(lambda: ("RUNNING",) in query(home, "select state_type from task_run where name = 'count'"), 60.0)
    tags = query(home, "select tags from flow_run order by created")
    assert len(tags) == runs + 1
    assert "okl" in json.loads(tags[-1][0]), "automations select runs by this tag"
    assert soon(lambda: len(query(home, heartbeat_query)) > heartbeats)
    assert not (home / "prefect" / "server.log").exists(), "the command has started no server"
    refused = terminal.okl("down")
    assert (refused.code, "A run is in progress: counting (a command, which continues" in refused.sentence) == (2, True)
    from prefect.client.orchestration import get_client
    from prefect.settings import temporary_settings
    from prefect.states import Running

    server = stack_server(home)
    assert server is not None
    with temporary_settings(connection(server.url, server.login)), get_client(sync_client=True) as client:
        unfinished = client.create_flow_run_from_deployment(client.read_deployment_by_name("okl-train/default").id)
        client.set_flow_run_state(unfinished.id, Running(), force=True)
    stopped = terminal.okl_json("down", "--force")
    assert stopped["seconds"] < 5.0 + 1.0  # on a busy machine
    assert marked(state.instance) == []
    assert read_state(stack_folder(home)) is None
    assert terminal.okl("status").code == 1
    assert running.poll() is None
    file.touch()
    outcome = wait(running)
    assert (outcome.code, outcome.out) == (0, "{'counted': 3}\n"), "a command's run needs no server"
    assert "Traceback" not in outcome.err
    assert "Warning: Prefect has not recorded this run: " in outcome.err.splitlines()[-1]


@pytest.mark.usefixtures("up")
def test_a_killed_supervisor_leaves_no_orphan_and_of_two_ups_one_starts(home: Path) -> None:
    processes = [start(home, "up", "--workers", "0") for _ in range(2)]
    assert soon(lambda: live_state(stack_folder(home)) is not None)
    state = live_state(stack_folder(home))
    assert state is not None
    assert soon(lambda: len(marked(state.instance)) == 3)
    unfinished_query = "select state_type from flow_run where deployment_id is not null and state_type != 'SCHEDULED'"
    assert soon(lambda: {kind for (kind,) in query(home, unfinished_query)} == {"COMPLETED", "CRASHED"}, 60.0), (
        "unfinished runs are marked as crashed"
    )
    # a command started after the kill would find no stack and start another one
    assert soon(lambda: all(process.poll() is not None for process in processes))
    os.kill(state.pid, signal.SIGKILL)
    assert soon(lambda: marked(state.instance) == [], 10.0), "an orphan still runs"
    assert stack_server(home) is None
    with workers_offered(home):
        assert VARIABLE not in os.environ, "a dead stack has no workers"
    assert {process.wait(60) for process in processes} <= {0, 1}
    down(home)
    for process in processes:
        process.communicate()
    assert read_state(stack_folder(home)) is None


@pytest.mark.parametrize("torn", [False, True])
def test_a_state_file_without_its_supervisor_is_ignored(tmp_path: Path, torn: bool) -> None:
    folder = prepare(StackOptions(tmp_path))
    # this pid belongs to another process: pids are assigned again after the machine restarts
    state = StackState(
        "none", os.getpid(), time.time(), "up", "http://127.0.0.1:9/api", "tcp://127.0.0.1:9", "okl", 1, "", "", ()
    )
    state.write(folder)
    if torn:
        (folder / "stack.json").write_text((folder / "stack.json").read_text()[:40])
    assert live_state(folder) is None
    assert stack_server(tmp_path) is None
    assert not down(tmp_path), "no process was ended"
    assert not (folder / "stack.json").exists()


def test_wrong_options_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--port 70000 is invalid: expected"):
        prepare(StackOptions(tmp_path, port=70000))
    with pytest.raises(ConfigError, match=r"--workers -1 is invalid: expected"):
        prepare(StackOptions(tmp_path, workers=-1))
    assert not down(tmp_path), "no process to end"


def test_status_shows_failed_runs_and_recent_notices_with_their_reasons(tmp_path: Path) -> None:
    now = datetime(2026, 3, 9, 8, 0, tzinfo=UTC)
    lines = [
        {
            "time": (now - timedelta(days=days)).isoformat(),
            "event": "okl.data.missing",
            "about": about,
            "said": {"why": "No file came.", "n": 3} if about == "churn" else None,
        }
        for days, about in ((8, "long ago"), (2, "churn"))
    ]
    (tmp_path / "notices.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"time": "20')
    notices = notices_in(tmp_path, now)
    assert [one["about"] for one in notices] == ["churn"]
    assert notices_in(tmp_path / "none", now) == []
    last = {
        "run": "r",
        "state": "Failed",
        "type": "FAILED",
        "at": "2026-03-09T02:01:00Z",
        "message": "No file\ncan be read.",
        "outcome": "Kept: no better.",
    }
    zurich = [{"cron": "0 3 * * *", "timezone": "Europe/Zurich"}]
    one = {"name": "okl-retrain/churn", "schedules": zurich, "next": "2026-03-10T02:00:00Z", "last": last}
    schedules: list[Any] = []
    scoring = {
        "name": "okl-score/churn",
        "schedules": schedules,
        "next": None,
        "last": None,
        "scores_to": "/scores/{time}",
    }
    notifying = scoring | {"name": "okl-notice/default", "scores_to": None}
    output = "\n".join(deployed_lines([one | {"scores_to": None}, scoring, notifying], notices))
    assert "  okl-notice/default  by events\n" in output
    assert "  okl-score/churn  after each retraining\n    scores go to /scores/{time}\n" in output
    assert 'okl-retrain/churn  "0 3 * * *" Europe/Zurich  next 2026-03-10 03:00 CET' in output
    assert "last Failed 2026-03-09 03:01 CET: No file can be read." in output, "in the time zone of the schedule"
    assert "Kept: no better." not in output, "a failed run has no decision"
    completed = one | {"scores_to": None, "last": last | {"type": "COMPLETED"}}
    assert "    Kept: no better." in deployed_lines([completed], [])
    assert output.endswith("no new data: churn  No file came.")
