"""A Prefect server of our own on loopback, for runs that no configured server would record.

Never Prefect's ephemeral mode: its start gives up after 20 seconds, and it loses records. This module imports no
Prefect: the server starts first, and the 2-second import goes on meanwhile.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from okl.foundation.errors import ExecutionError

LOOPBACK = "127.0.0.1"
READY_SECONDS = (
    180.0  # a fresh home migrates its database: 12-20 s on an idle machine, several times that on a busy one
)
STOP_SECONDS = 10.0
POLL_SECONDS = 0.05

PRIVACY = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
DEPLOYMENT_SERVICES = (
    "SCHEDULER",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "FOREMAN",
    "REPOSSESSOR",
    "TRIGGERS",
)


def prefect_home(home: Path) -> Path:
    """Return the folder, inside okl's home folder, that Prefect calls its home: its database is prefect.db there."""
    return home / "prefect"


def server_environment(home: Path, inherited: Mapping[str, str], deployments: bool) -> dict[str, str]:
    """Return the environment of the own server: its database in `home`, no telemetry, services as in `OwnServer`."""
    environment = {name: value for name, value in inherited.items() if not name.startswith("PREFECT_")}
    environment |= PRIVACY
    if not deployments:
        environment |= {f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false" for service in DEPLOYMENT_SERVICES}
    environment |= {
        "PREFECT_HOME": str(prefect_home(home)),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{prefect_home(home) / 'prefect.db'}",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
        # in memory, a server that is restarted forgets who runs, and Prefect then ends whoever does
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PYTHONUNBUFFERED": "1",
    }
    return environment


class OwnServer:
    """A Prefect server in a child process, on a free port of 127.0.0.1, with its database in okl's home folder.

    `start` returns at once, `wait_ready` when the server answers. The child is in a session of its own, so that Ctrl-C
    does not stop it before the run's end is recorded, and it ends by itself when this process dies, even by SIGKILL.

    Parameters
    ----------
    home : okl's home folder; the server keeps its database and its log in `home`/prefect
    deployments : run the services of schedules, late runs and the like too; they belong to a server that stays, as
        several servers may share one database and none of them may touch another's runs
    """

    def __init__(self, home: Path, deployments: bool = False) -> None:
        self.home = home.absolute()
        self.deployments = deployments
        self.log = prefect_home(self.home) / "server.log"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the address of the API, known from `start` on."""
        return f"http://{LOOPBACK}:{self.port}/api"

    def start(self) -> None:
        """Start the child and return at once.

        Raises
        ------
        ExecutionError : the home folder cannot be written
        """
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            log = self.log.open("ab")
        except OSError as error:
            raise ExecutionError(
                f"okl's home folder {self.home} cannot be written: {error.strerror}. "
                "Set OKL_HOME to a folder of your own."
            ) from None
        # Bound here and handed on: the port is known at once and nobody can take it, and as the socket does not listen
        # yet, connections are refused rather than queued until the server is ready.
        with log, socket.socket() as listener:
            listener.bind((LOOPBACK, 0))
            self.port = listener.getsockname()[1]
            script = Path(__file__).with_name("serving.py")
            lock = self.log.with_name("start.lock")
            # -P: the script's own folder is no place to import from; it holds modules with common names
            command = [sys.executable, "-P", str(script), str(os.getpid()), str(listener.fileno()), str(lock)]
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=server_environment(self.home, os.environ, self.deployments),
                cwd=self.log.parent,
                pass_fds=(listener.fileno(),),
                start_new_session=True,
            )

    def wait_ready(self, timeout_seconds: float = READY_SECONDS) -> None:
        """Return as soon as the server answers.

        Raises
        ------
        ExecutionError : it ended, or it did not answer within `timeout_seconds`
        """
        assert self.process is not None, "start() comes first"
        deadline = time.monotonic() + timeout_seconds
        while not self._answers():
            if (code := self.process.poll()) is not None:
                raise ExecutionError(
                    f"okl's own Prefect server ended with code {code} before it was ready; its log is {self.log}. "
                    "Mend that, or set PREFECT_API_URL to a server that runs."
                )
            if time.monotonic() > deadline:
                raise ExecutionError(
                    f"okl's own Prefect server was not ready within {timeout_seconds:.0f} s; its log is {self.log}. "
                    "Try again, or set PREFECT_API_URL to a server that runs."
                )
            time.sleep(POLL_SECONDS)

    def _answers(self) -> bool:
        # http.client, not urllib: it knows nothing of proxies, which have no business on loopback
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=5)
        try:
            connection.request("GET", "/api/health")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """End the child, gently and then at once; safe to call twice."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def own_server(home: Path, deployments: bool = False) -> Iterator[OwnServer]:
    """Start a server of our own, not waiting until it is ready, and stop it on leaving, however that happens.

    Parameters
    ----------
    home : okl's home folder, created if missing
    deployments : see `OwnServer`

    Yields
    ------
    OwnServer; call its `wait_ready` before the first use of its `url`
    """
    server = OwnServer(home, deployments)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def silence(url: str, error: object) -> str:
    """Say that a configured server does not answer, and what helps: where the address is this machine's, `okl up`."""
    how = " (`okl up`, if it was that of okl)" if urlsplit(url).hostname in (LOOPBACK, "localhost", "::1") else ""
    return (
        f"The Prefect server at {url} does not answer ({error}). Start it{how}, or unset "
        "PREFECT_API_URL (or the profile that sets it), and okl brings its own."
    )
