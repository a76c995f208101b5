"""okl's own Prefect server as a process: how it starts, where it listens, how it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flows import server
from flows.server import TemporaryServer, database_problem, disk_problem, get_json, prefect_home
from flows.stack.control import up
from flows.stack.supervisor import StackOptions
from okl.foundation.errors import ExecutionError
from tests.distributed.processes import listening, soon
from tests.flows.conftest import give_database, query
from tests.flows.environment import child_environment


@pytest.fixture
def used_home(database: Path, tmp_path: Path) -> Path:
    """A home folder whose database is migrated already, as on every start but the first."""
    return give_database(tmp_path, database)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_server_listens_on_loopback_only(server: TemporaryServer) -> None:
    assert server.process is not None
    assert listening({server.process.pid}) == [f"0100007F:{server.port:04X}"]


def test_telemetry_is_off(server: TemporaryServer) -> None:
    assert server.process is not None
    environment = Path(f"/proc/{server.process.pid}/environ").read_text().split("\0")
    assert {"DO_NOT_TRACK=1", "PREFECT_SERVER_ANALYTICS_ENABLED=false"} <= set(environment)
    assert get_json(f"{server.url}/admin/settings", login=server.login)["server"]["analytics_enabled"] is False
    # a server with telemetry would first store a session in its database
    assert query(server.home, "select value from configuration where key = 'TELEMETRY_SESSION'") == []


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(server: TemporaryServer) -> None:
    assert server.process is not None
    assert os.getsid(server.process.pid) != os.getsid(0)


def test_the_server_ends_if_its_parent_is_killed(tmp_path: Path) -> None:
    source = (
        "import sys, time; from pathlib import Path; from flows.server import TemporaryServer\n"
        "server = TemporaryServer(Path(sys.argv[1])); server.start()\n"
        "print(server.process.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", source, str(tmp_path)]  # for an orphan that is ready, see test_stack
    with subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.send_signal(signal.SIGKILL)
    assert soon(lambda: not alive(child), 15.0), "the server still runs"


def test_two_runs_at_once_in_a_new_home_keep_all_their_records(first_home: Path) -> None:
    outputs = json.loads((first_home.parent / "said.json").read_text())
    assert outputs == [{"counted": 50}, "{'counted': 50}\n", ""]
    assert (prefect_home(first_home) / "server.log").read_text() == ""
    assert query(first_home, "select state_type from flow_run") == [("COMPLETED",)] * 2
    assert query(first_home, "select state_type from task_run") == [("COMPLETED",)] * 6
    assert len(query(first_home, "select id from artifact where key is not null")) == 6
    assert sorted(path.name for path in first_home.parent.iterdir()) == ["okl", "said.json"], (
        "no other files are written"
    )


@pytest.mark.parametrize(
    ("content", "cause"),
    [(b"no database" * 1000, r"Its database .*prefect\.db is damaged\. Restore it"), (b"", "Fix the cause, or use")],
)
def test_message_for_a_server_that_cannot_start_names_its_log_and_the_cause(
    content: bytes, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefect_home(tmp_path).mkdir()
    if content:
        (prefect_home(tmp_path) / "prefect.db").write_bytes(content)
    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))  # so that Python ends at once instead of after seconds
    message = rf"ended with code \d+ .*server\.log\. {cause}"
    with TemporaryServer(tmp_path) as server, pytest.raises(ExecutionError, match=message):
        server.wait_ready()
    assert str(tmp_path / "nowhere") in server.log.read_text()


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "prefect").write_text("a file where a folder should be")
    with pytest.raises(ExecutionError, match=r"cannot be written: .* Set OKL_HOME"):
        TemporaryServer(tmp_path).start()


def test_a_removed_home_is_created_again(tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)
    server = TemporaryServer(tmp_path)
    server.start()
    server.stop()
    assert server.log.is_file()
    server.stop()


@pytest.mark.parametrize("fault", ["damaged", "locked by another program", "written by a later version of Prefect"])
def test_a_problem_with_the_database_is_named(used_home: Path, fault: str) -> None:
    path, log = prefect_home(used_home) / "prefect.db", prefect_home(used_home) / "log"
    assert database_problem(used_home, log) == ""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        if fault == "damaged":
            path.write_bytes(b"no database" * 1000)
        elif fault.startswith("locked"):
            other.execute("pragma journal_mode=delete")
            other.execute("begin exclusive")
        else:
            log.write_text("alembic.util.exc.CommandError: Can't locate revision identified by 'ffff'\n")
        problem = database_problem(used_home, log)
    assert re.match(rf"Its database {path} (is|was) {fault}\. (End|Restore)", problem)


def test_a_full_disk_is_reported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "new" / "home"
    assert disk_problem(home) == ""
    monkeypatch.setattr(server, "LEAST_FREE_BYTES", 2**62)
    full = rf"The disk of {home} is full \([\d,]+ bytes are free\)\. Free disk space, then try again\."
    assert re.fullmatch(full, database_problem(home, home / "log"))
    with pytest.raises(ExecutionError, match=full):
        up(StackOptions(home), lambda _: None)
