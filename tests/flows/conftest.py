"""One real Prefect server for all tests of the flows, in a home folder of its own; no test touches the user's."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.server import TemporaryServer, prefect_home, temporary_server
from okl.runs.train import train
from okl.solvers.settings import TrainSettings
from tests.data.sources import parquet, replaced
from tests.flows.commandline import Terminal
from tests.flows.environment import child_environment
from tests.rows import curved

# Before Prefect is imported, which happens when the test modules are: it reads its home and its consent then.
os.environ.pop("PREFECT_API_URL", None)
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="okl-tests-prefect-")
os.environ["DO_NOT_TRACK"] = "1"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporaryServer]:
    """A server that stays for all tests, with schedules.

    To make a database takes longer than all else of the start: the first process of xdist that needs one makes it, and
    leaves a copy to the others.
    """
    home, base = tmp_path_factory.mktemp("server"), tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    fresh = shared / "prefect.db"
    with ExitStack() as stack:
        with (shared / "prefect.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if fresh.exists():
                prefect_home(home).mkdir()
                shutil.copy(fresh, prefect_home(home))
            running = stack.enter_context(temporary_server(home, deployments=True))
            if not fresh.exists():
                running.wait_ready()
                query(home, f"vacuum into '{fresh}'")
        running.wait_ready()
        yield running


@pytest.fixture
def configured(
    server: TemporaryServer, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TemporaryServer]:
    """The server, configured as a user would: by PREFECT_API_URL; okl's home is another folder."""
    from prefect.settings import temporary_settings

    monkeypatch.setenv("PREFECT_API_URL", server.url)
    monkeypatch.setenv("OKL_HOME", str(tmp_path_factory.mktemp("home")))
    # this process has imported Prefect long ago, so that the variable alone would come too late
    # and heartbeats, which only matter to a long run, would keep each run for up to a second
    with temporary_settings({"api.url": server.url, "flows.heartbeat_frequency": None}):
        yield server


def query(home: Path, sql: str) -> list[tuple[Any, ...]]:
    """Ask the database in okl's home folder `home` itself, past every interface."""
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
    """okl's home, a folder that is not there yet; no server is configured."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on text labels, with its data set in run/data and the rows in rows.parquet; to read only."""
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
