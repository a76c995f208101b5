"""A flow run from the command line on a configured server: its records and its result."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, FlowRunFilter, FlowRunFilterId
from prefect.exceptions import ObjectNotFound
from prefect.logging.handlers import APILogWorker
from prefect.states import Running

from flows import foreground
from flows.child import process_tag
from flows.foreground import perform_run
from flows.records import mark_killed_runs, quiet_terminal
from flows.server import TemporaryServer
from flows.stack.state import StackServer
from okl.foundation.errors import DataError, ExecutionError
from okl.foundation.telemetry import NullObserver
from okl.runs.run import Run
from tests.flows.conftest import query
from tests.flows.counted import STAGES, CountingRun, CountSettings
from tests.flows.counting import counting
from tests.flows.strangers import NotPrefect


class Watcher:
    """An observer that stores its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def stage(self, name: str) -> None:
        self.calls.append(name)

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        if done == total:
            self.calls.append(f"{done} of {total}")

    def finish(self) -> None:
        self.calls.append("finish")


def count(observer: Any = None, **settings: Any) -> dict[str, Any]:
    counting_run = CountingRun(CountSettings(**settings))
    result: dict[str, Any] = perform_run(counting_run, "tests.flows.counting:counting", observer or NullObserver())
    return result


def newest(server: TemporaryServer) -> dict[str, Any]:
    rows = query(
        server.home,
        "select id, state_type, state_name from flow_run where deployment_id is null order by created desc limit 1",
    )
    return {"id": UUID(rows[0][0]), "type": rows[0][1], "name": rows[0][2]}


def task_states(server: TemporaryServer, flow_run: UUID) -> dict[str, str]:
    rows = query(server.home, f"select name, state_type from task_run where flow_run_id = '{flow_run}'")
    assert len(rows) == len(dict(rows))
    return dict(rows)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the final states of the runs that were closed."""
    ends: list[str] = []

    def close(run: CountingRun) -> None:
        ends.append(run.settings.end)
        Run.close(run)

    monkeypatch.setattr(CountingRun, "close", close)
    return ends


def test_every_record_is_in_the_database_when_the_call_returns(configured: TemporaryServer, closed: list[str]) -> None:
    watcher = Watcher()
    assert count(watcher, upto=7) == {"counted": 7}
    assert watcher.calls == ["plan", "count", "7 of 7", "report", "finish"]
    assert closed == ["well"]
    flow_run = newest(configured)
    assert flow_run["type"] == "COMPLETED"
    assert task_states(configured, flow_run["id"]) == dict.fromkeys(STAGES, "COMPLETED")
    rows = query(configured.home, f"select key, type from artifact where flow_run_id = '{flow_run['id']}'")
    assert sorted(rows) == [
        ("counting-metrics", "table"),
        ("counting-progress", "progress"),
        ("counting-report", "markdown"),
    ]
    logged = query(configured.home, f"select message from log where flow_run_id = '{flow_run['id']}'")
    assert ("count: counted 7",) in logged
    tags = [f"select tags from {kind} where {key} = '{flow_run['id']}'"
            for kind, key in (("flow_run", "id"), ("task_run", "flow_run_id"))]  # fmt: skip
    assert {json.loads(row[0])[0] for words in tags for row in query(configured.home, words)} == {"okl"}
    assert all(len(json.loads(row[0])) == 1 for words in tags for row in query(configured.home, words))
    ((parameters,),) = query(configured.home, f"select parameters from flow_run where id = '{flow_run['id']}'")
    assert json.loads(parameters)["settings"]["upto"] == 7, "stored field by field"
    assert_api_returns_records(flow_run["id"])


def assert_api_returns_records(identifier: UUID) -> None:
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(identifier).state
        assert state is not None
        assert state.is_completed()
        tasks = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[identifier])))
        assert {task.name: task.state_name for task in tasks} == dict.fromkeys(STAGES, "Completed")
        wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[identifier]))
        artifacts = {str(artifact.key): artifact for artifact in client.read_artifacts(artifact_filter=wanted)}
    assert artifacts["counting-progress"].data == 100
    assert artifacts["counting-progress"].description == "complete"
    assert artifacts["counting-report"].data == "# Counted to 7\n"
    table = json.loads(str(artifacts["counting-metrics"].data))
    assert table == [{"metric": "count", "value": 7}, {"metric": "nothing", "value": "nan"}]


def test_an_error_is_raised_unchanged_and_recorded(
    configured: TemporaryServer, closed: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    watcher = Watcher()
    with pytest.raises(DataError, match=r"^column 'y' cannot be counted\.$"):
        count(watcher, upto=3, end="error")
    flow_run = newest(configured)
    assert flow_run["type"] == "FAILED"
    assert task_states(configured, flow_run["id"]) == {"plan": "COMPLETED", "count": "FAILED"}
    states = f"select message from flow_run_state where flow_run_id = '{flow_run['id']}' and type = 'FAILED'"
    assert query(configured.home, states) == [("column 'y' cannot be counted.",)]
    logged = query(configured.home, f"select message from log where flow_run_id = '{flow_run['id']}' and level >= 40")
    sentence = "column 'y' cannot be counted."
    assert {message for (message,) in logged} == {f'Finished in state Failed("{sentence}")', sentence}
    artifacts = query(configured.home, f"select key, description from artifact where flow_run_id = '{flow_run['id']}'")
    assert artifacts == [("counting-progress", "column 'y' cannot be counted.")], "no pickled exception"
    assert watcher.calls[-1] == "finish"
    assert closed == ["error"]
    assert capfd.readouterr() == ("", ""), "the command line prints the error"


def test_a_run_that_fails_before_its_server_is_ready_leaves_no_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    failing = CountingRun(CountSettings(upto=3, end="error"))
    with pytest.raises(DataError):
        perform_run(failing, "tests.flows.counting:counting", NullObserver(), record=True)
    assert "okl-record" not in {thread.name for thread in threading.enumerate()}


def test_ctrl_c_is_recorded_as_a_cancelled_run(configured: TemporaryServer, closed: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        count(upto=3, end="interrupt")
    assert closed == ["interrupt"]
    flow_run = newest(configured)
    assert flow_run["type"] == "CANCELLED"
    states = task_states(configured, flow_run["id"])
    assert states["plan"] == "COMPLETED"
    # Prefect's server also cancels tasks of a cancelled run if their end is not recorded yet
    assert states["count"] in ("CRASHED", "CANCELLED")


def test_progress_is_written_during_the_run(configured: TemporaryServer) -> None:
    seen: list[Any] = []
    bars = "select id, data, description from artifact where type = 'progress'"
    before = {row[0] for row in query(configured.home, bars)}

    class Reader(Watcher):
        def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
            if done == total or seen:
                return
            mine = [row[1:] for row in query(configured.home, bars) if row[0] not in before]
            seen.extend(row for row in mine if float(row[0]) > 10)
            time.sleep(2.0 if done > total // 2 and not seen else 0.0)  # on a busy machine

    count(Reader(), upto=30, seconds=2.6)
    ((share, description),) = seen
    assert 10 < float(share) < 100
    assert description.startswith("count: ")
    assert "mistake rate" in description


@pytest.mark.parametrize("server_state", ["closed", "killed", "another program", "hung"])
def test_a_server_that_does_not_work_loses_only_the_record(
    server_state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    from prefect.settings import temporary_settings

    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    if server_state == "hung":
        monkeypatch.setattr(foreground, "RECORD_SECONDS", 1.0)
    monkeypatch.setattr(foreground, "REFUSED_SECONDS", 1.0 if server_state == "killed" else 60.0)
    with ExitStack() as stack:
        if server_state == "another program":
            other = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), NotPrefect))
            Thread(target=other.serve_forever, daemon=True).start()
            stack.callback(other.shutdown)
            port = other.server_address[1]
        else:
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            if server_state == "hung":
                listener.listen()
        url = f"http://127.0.0.1:{port}/api"
        monkeypatch.setenv("PREFECT_API_URL", url)
        stack.enter_context(temporary_settings({"api.url": url, "client.max_retries": 2 * (server_state == "killed")}))
        start = time.monotonic()
        assert count(upto=3) == {"counted": 3}
        assert time.monotonic() - start < (15 if server_state == "killed" else 60)
        out, err = capfd.readouterr()
    (line,) = err.splitlines()
    reasons = {"hung": "did not answer within 1 s", "killed": "its server refuses connections"}
    expected = reasons.get(server_state, f"{url} does not answer (")
    assert (out, line.startswith("Warning: Prefect has not recorded this run: "), expected in line) == ("", True, True)
    assert line.endswith("The run itself is complete.")


def test_message_for_a_stopped_stack_names_okl_up(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # closed: it does not listen
        server = StackServer(f"http://127.0.0.1:{listener.getsockname()[1]}/api", "")
        with foreground.client_settings(server, tmp_path), pytest.raises(ExecutionError) as refused:
            foreground.require_server(of_stack=True)
    assert str(refused.value).endswith("). okl up starts it again.")


@pytest.mark.usefixtures("configured")
def test_a_wrong_login_is_refused_and_the_message_names_the_variable() -> None:
    from prefect.settings import temporary_settings

    with (
        temporary_settings({"api.auth_string": "okl:guessed"}),
        pytest.raises(ExecutionError, match=r"answers 401\. Set PREFECT_API_AUTH_STRING to its login; for the server"),
    ):
        foreground.require_server()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".env", "PREFECT_API_URL=http://host/api\n"),
        ("prefect.toml", '[api]\nurl = "http://host/api"\n'),
        ("profiles.toml", 'active = "there"\n[profiles.there]\nPREFECT_API_URL = "http://host/api"\n'),
    ],
)
def test_a_server_configured_in_a_file_is_found(
    file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like a process that has not imported Prefect yet, because the import reads the settings."""
    from prefect.context import root_settings_context

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    for content, expected in (("# of another program\n", False), (text, True)):
        (tmp_path / file).write_text(content)
        with monkeypatch.context() as patch, root_settings_context():
            patch.delitem(sys.modules, "prefect.settings")
            assert foreground.server_is_configured() == expected


def test_a_run_imports_prefect_only_to_record(
    tmp_path: Path, in_new_process: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect is not imported where no file configures a server."""
    monkeypatch.chdir(tmp_path)
    source = (
        "import flows.foreground as run, flows.server, os, sys; print(run.server_is_configured())\n"
        "print([m for m in sys.modules if 'prefect' in m])\n"
        "os.environ['PREFECT_API_URL'] = 'http://host/api'; print(run.server_is_configured())\n"
        "del os.environ['PREFECT_API_URL']; open('prefect.toml', 'w').write('[api]\\nurl = \"http://host/api\"')\n"
        "print(run.server_is_configured(), 'prefect' in sys.modules)"
    )
    assert in_new_process(source).splitlines() == ["False", "[]", "True", "True True"]


def test_only_runs_of_killed_processes_are_marked_as_crashed(configured: TemporaryServer) -> None:
    dead_tag = f"okl-process:{platform.node()}:{os.getpid()}:0"
    with get_client(sync_client=True) as client:
        runs = {
            name: client.create_flow_run(counting, parameters={}, tags=[*tags], state=Running())
            for name, tags in {
                "killed": ("okl", dead_tag), "alive": ("okl", process_tag()),
                "elsewhere": ("okl", "okl-process:host:1:0"), "another's": (dead_tag,),
            }.items()
        }  # fmt: skip
        assert mark_killed_runs() == 1
        assert mark_killed_runs() == 0
        states = {name: client.read_flow_run(run.id).state for name, run in runs.items()}
        for run in runs.values():
            client.delete_flow_run(run.id)
    assert {name: state.type.value for name, state in states.items() if state is not None} == {
        "killed": "CRASHED", "alive": "RUNNING", "elsewhere": "RUNNING", "another's": "RUNNING",
    }  # fmt: skip


@pytest.mark.parametrize("level", ["", "DEBUG"])
def test_a_log_that_the_server_refuses_prints_nothing(
    level: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def refuse(_: object) -> None:
        raise OSError("Internal Server Error")

    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", level)
    if not level:
        monkeypatch.delenv("PREFECT_LOGGING_LEVEL")
    sender: Any = SimpleNamespace(_client=SimpleNamespace(create_logs=refuse))
    with quiet_terminal():
        asyncio.run(APILogWorker._handle_batch(sender, [{}]))
    assert ("Internal Server Error" in capfd.readouterr().err) == bool(level)
    assert logging.raiseExceptions


def test_a_server_without_the_run_is_reported(
    configured: TemporaryServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def lost(*_: object) -> None:
        raise ObjectNotFound(Exception("404"))

    monkeypatch.setattr("flows.records.record", lost)
    assert count(upto=3) == {"counted": 3}
    assert capfd.readouterr().err.splitlines() == [
        "Warning: Prefect has not recorded this run: its server does not have this run, or another program answers at "
        "its address. The run itself is complete."
    ]
