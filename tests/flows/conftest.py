"""One real Prefect server for all tests of the flows, in its own home folder; no test touches the user's home."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows import foreground as recording
from flows.foreground import perform_run
from flows.server import LOOPBACK, TemporaryServer, connection, prefect_home
from okl.foundation.telemetry import NullObserver
from okl.solvers.settings import TrainSettings
from tests.data.sources import parquet, replaced
from tests.flows.commandline import Terminal
from tests.flows.counted import CountingRun, CountSettings
from tests.flows.environment import child_environment
from tests.rows import curved, train

# Set before the test modules import Prefect, because Prefect reads these variables during its import.
os.environ.pop("PREFECT_API_URL", None)
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="okl-tests-prefect-")
os.environ["DO_NOT_TRACK"] = "1"
atexit.register(shutil.rmtree, os.environ["PREFECT_HOME"], ignore_errors=True)


SECOND_RUN = """
from flows.foreground import perform_run
from okl.foundation.telemetry import NullObserver
from tests.flows.counted import CountingRun, CountSettings
run = CountingRun(CountSettings(upto=50, seconds=1.5))
print(perform_run(run, 'tests.flows.counting:counting', NullObserver(), record=True))
"""


@pytest.fixture(scope="session")
def first_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new home after two runs started at once, one in this process; their output is in said.json next to the home.

    Their servers create the database of Prefect, which is the slowest part of starting a server. The first process of
    xdist that needs it creates it for all.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    home, output_file = shared / "first" / "okl", shared / "first" / "said.json"
    with (shared / "first.lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output_file.exists():
            home.mkdir(parents=True)
            patch.delenv("PREFECT_API_URL", raising=False)
            patch.setenv("OKL_HOME", str(home))
            patch.setattr(recording, "RECORD_SECONDS", 240.0)
            environment = child_environment(HOME=str(home.parent / "user"))
            environment.pop("PREFECT_HOME")
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            with subprocess.Popen([sys.executable, "-c", SECOND_RUN], env=environment, **pipes) as other_process:
                run = CountingRun(CountSettings(upto=50, seconds=1.5))
                result = perform_run(run, "tests.flows.counting:counting", NullObserver(), record=True)
                output_file.write_text(json.dumps([result, *other_process.communicate(timeout=200)]))
    return home


@pytest.fixture(scope="session")
def database(first_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database of Prefect without runs."""
    migrated = tmp_path_factory.mktemp("database") / "migrated.db"
    with closing(sqlite3.connect(f"file:{prefect_home(first_home) / 'prefect.db'}?mode=ro", uri=True)) as source:
        source.execute("vacuum into ?", (str(migrated),))
    with closing(sqlite3.connect(migrated)) as copy, copy:
        tables = copy.execute("select name from sqlite_master where type = 'table' and name != 'alembic_version'")
        for (table,) in tables.fetchall():
            copy.execute(f'delete from "{table}"')
    return migrated


def give_database(home: Path, database: Path) -> Path:
    """Put a copy of a migrated database into okl's home folder, so that its server starts fast; return the folder."""
    prefect_home(home).mkdir(0o700, parents=True)
    shutil.copyfile(database, prefect_home(home) / "prefect.db")
    (prefect_home(home) / "prefect.db").chmod(0o600)
    return home


@pytest.fixture(scope="package")
def server(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporaryServer]:
    """A server for all tests of the flows, with schedules; it uses processor time even when idle."""
    home = give_database(tmp_path_factory.mktemp("server"), database)
    with TemporaryServer(home, deployments=True) as running:
        with pytest.raises(ConnectionRefusedError):  # start() does not wait until the server is ready
            HTTPConnection(LOOPBACK, running.port).connect()
        running.wait_ready()
        yield running
    assert running.process is not None
    assert running.process.returncode == -signal.SIGTERM, "the server stops at SIGTERM, without SIGKILL"


@pytest.fixture
def configured(
    server: TemporaryServer, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TemporaryServer]:
    """The server, configured as a user would: by PREFECT_API_URL; okl's home is another folder."""
    from prefect.settings import temporary_settings

    monkeypatch.setenv("PREFECT_API_URL", server.url)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", server.login)
    monkeypatch.setenv("OKL_HOME", str(tmp_path_factory.mktemp("home")))
    # this process has imported Prefect already, so the variable alone would have no effect
    # and heartbeats, which matter to long runs only, would delay the end of each run by up to a second
    with temporary_settings(connection(server.url, server.login) | {"flows.heartbeat_frequency": None}):
        yield server


@pytest.fixture
def unrecorded(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """okl's home outside of `tmp_path`, without a server, so that commands are not recorded."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("OKL_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def _long_timeouts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wait long for the server, which is slow on a busy machine; forget a recorder that has timed out.

    Such a recorder would end this process with the next command.
    """
    monkeypatch.setattr(recording, "RECORD_SECONDS", 240.0)
    yield
    recording.unfinished.clear()


def query(home: Path, sql: str) -> list[tuple[Any, ...]]:
    """Query the database in okl's home folder `home` directly, without Prefect's API."""
    connection = sqlite3.connect(f"file:{prefect_home(home) / 'prefect.db'}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(capsys, monkeypatch)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """okl's home, a folder that does not exist yet; no server is configured."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on text labels, with its data set in run/data and its rows in rows.parquet; read-only."""
    folder = tmp_path_factory.mktemp("trained")
    rows = curved(400)
    words = np.array(["no", "yes"])[rows.column("y").to_numpy()]
    parquet(folder, replaced(rows, "y", words), "rows.parquet")
    train(TrainSettings(data=str(folder / "rows.parquet"), frequencies=10, out=str(folder / "run")))
    return folder


@pytest.fixture
def in_new_process() -> Callable[[str], str]:
    """Run Python source in a new process, in the current directory, and return what it prints."""

    def run(source: str) -> str:
        outcome = subprocess.run(
            [sys.executable, "-c", source], env=child_environment(), capture_output=True, text=True, check=False
        )
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout.strip()

    return run
