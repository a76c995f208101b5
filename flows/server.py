"""Prefect servers on 127.0.0.1: requests to them, and a temporary one for runs without a configured server.

Prefect's ephemeral mode is not used: its start gives up after 20 seconds, and it loses records. This module does not
import Prefect, so that the server starts while the 2-second import runs.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from okl.foundation.errors import ExecutionError
from okl.foundation.locations import make_folders, write_private

LOOPBACK = "127.0.0.1"
READY_SECONDS = 180.0  # a new home folder migrates its database: 12-20 s on an idle machine, longer on a busy one
STOP_SECONDS = 10.0
POLL_SECONDS = 0.05
ASK_SECONDS = 2.0
MOST_READ = 5_000  # letters of the end of a log
ROOT = Path(__file__).absolute().parents[1]

PRIVACY = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
DEPLOYMENT_SERVICES = ("SCHEDULER", "LATE_RUNS", "PAUSE_EXPIRATIONS", "CANCELLATION_CLEANUP", "CLEANUP_RECONCILER",
                       "FOREMAN", "REPOSSESSOR", "TRIGGERS")  # fmt: skip


class UnixConnection(http.client.HTTPConnection):
    """HTTP on a unix socket, which the system lets only its owner use."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        """Connect through the folder of the socket, whose path may have at most 107 bytes."""
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{folder}/{os.path.basename(self.path)}")
        finally:
            os.close(folder)


def get_json(url: str, body: Any = None, seconds: float = ASK_SECONDS, login: str = "", socket_path: str = "") -> Any:
    """Return the JSON answer of a server on this machine to a GET, or to a POST of `body`; None without an answer.

    login : "user:password" of basic authentication
    socket_path : unix socket on which the server listens, instead of the host and port of the URL
    """
    parts = urlsplit(url)
    # http.client, not urllib: it ignores proxies, which must not be used for 127.0.0.1
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    if socket_path:
        connection = UnixConnection(socket_path, seconds)
    headers = {"Content-Type": "application/json"}
    if login:
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    verb, content = ("GET", None) if body is None else ("POST", json.dumps(body))
    try:
        connection.request(verb, parts.path, content, headers)
        answer = connection.getresponse()
        return json.loads(answer.read()) if answer.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def server_answers(url: str, seconds: float = ASK_SECONDS) -> bool:
    """Return whether the Prefect server of an API answers."""
    return get_json(f"{url}/health", seconds=seconds) is True


def child_command(role: str, *arguments: object) -> list[str]:
    """Return the command of a child process without modules of the current directory (-P), see `flows.child`."""
    return [sys.executable, "-P", "-m", "flows.child", str(os.getpid()), role, *map(str, arguments)]


def child_imports(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which child processes import okl, even if it is not installed."""
    paths = [str(ROOT), *filter(None, [inherited.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PYTHONUNBUFFERED": "1"}


def start_child(
    command: list[str], log: Path, environment: Mapping[str, str], inherited: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start a process in the folder of its log and in a session of its own; inherited : file descriptors."""
    with log.open("ab") as file:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=log.parent, env=environment,
            pass_fds=inherited, start_new_session=True,
        )  # fmt: skip


def prefect_home(home: Path) -> Path:
    """Return Prefect's home folder, inside okl's home folder; it contains the database prefect.db."""
    return home / "prefect"


def login_file(home: Path) -> Path:
    """Return the path of the login of the stack's server, the value of PREFECT_API_AUTH_STRING."""
    return prefect_home(home) / "login"


def new_login() -> str:
    """Return a random login for a server: without one, any user of the machine could start runs as this user."""
    return f"okl:{secrets.token_hex(24)}"


def make_login(home: Path) -> str:
    """Return the login of the stack's server, made once and readable by this user only."""
    if not stack_login(home):
        write_private(login_file(home), new_login())
    return stack_login(home)


def stack_login(home: Path) -> str:
    """Return the login of the stack's server; "" if there never was one."""
    return login_file(home).read_text().strip() if login_file(home).is_file() else ""


def connection(url: str, login: str) -> dict[str, str]:
    """Return the settings of Prefect for a connection to one of these servers."""
    return {"api.url": url, "api.auth_string": login}


def server_environment(home: Path, inherited: Mapping[str, str], deployments: bool, login: str) -> dict[str, str]:
    """Return the environment of the server: its database in `home`, no telemetry, services as in `TemporaryServer`.

    login : that clients must show, "user:password"; in the environment, as other users can read a command line
    """
    environment = {name: value for name, value in inherited.items() if not name.startswith("PREFECT_")}
    environment |= PRIVACY | child_imports(inherited)
    if not deployments:
        environment |= {f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false" for service in DEPLOYMENT_SERVICES}
    return environment | {
        "PREFECT_HOME": str(prefect_home(home)),
        "PREFECT_SERVER_API_AUTH_STRING": login,
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{prefect_home(home) / 'prefect.db'}",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
        # in memory, a restarted server loses the leases of active runs, and Prefect then ends these runs
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    }


LEAST_FREE_BYTES = 4 * 2**20  # a new database and logs take 2 MB
LATER = "Can't locate revision"  # as Alembic has it


def disk_problem(home: Path) -> str:
    """Return a sentence about the disk of okl's home folder if it is full, with what to do; "" if it is not."""
    place = next(folder for folder in (home, *home.absolute().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if free >= LEAST_FREE_BYTES:
        return ""
    return f"The disk of {home} is full ({free:,} bytes are free). Free disk space, then try again."


def database_problem(home: Path, log: Path) -> str:
    """Return a sentence about the database of a server that did not start, by its log; "" if it looks sound."""
    if full := disk_problem(home):
        return full
    path = prefect_home(home) / "prefect.db"
    remedy = "Restore it from a backup, or move it away: it holds runs and schedules, and no models."
    if log.is_file() and LATER in log.read_text(errors="replace")[-MOST_READ:]:
        return f"Its database {path} was written by a later version of Prefect. {remedy}"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.0)) as connection:
            connection.execute("select * from alembic_version")
            sound = connection.execute("pragma quick_check(1)").fetchall() == [("ok",)]
    except sqlite3.OperationalError as error:
        return f"Its database {path} is locked by another program. End that program." if "locked" in str(error) else ""
    except sqlite3.DatabaseError:
        sound = False
    return "" if sound else f"Its database {path} is damaged. {remedy}"


class TemporaryServer:
    """Prefect server in a child process, on a free port of 127.0.0.1, with its database in okl's home folder.

    `start`, or the start of a with block, returns at once, `wait_ready` when the server answers. The child has its own
    session, so that Ctrl-C does not stop it before the end of the run is recorded, and it ends when this process dies,
    even by SIGKILL.

    home : okl's home folder; the server stores its database and its log in `home`/prefect
    deployments : also run the services of schedules, late runs and the like; only for a permanent server, as several
        temporary servers may share one database and must not change each other's runs
    login : "user:password", another one for each server
    """

    def __init__(self, home: Path, deployments: bool = False) -> None:
        self.home = home.absolute()
        self.deployments = deployments
        self.login = new_login()
        self.log = prefect_home(self.home) / "server.log"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the URL of the API; valid after `start`."""
        return f"http://{LOOPBACK}:{self.port}/api"

    def start(self) -> None:
        """Start the child and return at once. Raises ExecutionError (the home folder cannot be written)."""
        try:
            make_folders(self.log.parent)
            self.log.touch()
        except OSError as error:
            raise ExecutionError(
                f"okl's home folder {self.home} cannot be written: {error.strerror}. Set OKL_HOME to a writable folder."
            ) from None
        # Bound here and inherited by the child: the port is known at once and cannot be taken. The socket does not
        # listen yet, so connections are refused instead of queued until the server is ready.
        with socket.socket() as listener:
            listener.bind((LOOPBACK, 0))
            self.port = listener.getsockname()[1]
            command = child_command("server", listener.fileno(), self.log.with_name("start.lock"))
            environment = server_environment(self.home, os.environ, self.deployments, self.login)
            self.process = start_child(command, self.log, environment, (listener.fileno(),))

    def wait_ready(self) -> None:
        """Return as soon as the server answers; ExecutionError if it ends, or after three minutes."""
        assert self.process is not None, "call start() first"
        deadline = time.monotonic() + READY_SECONDS
        while not server_answers(self.url):
            if (code := self.process.poll()) is not None:
                raise ExecutionError(
                    f"okl's own Prefect server ended with code {code} before it was ready; its log is {self.log}. "
                    + (database_problem(self.home, self.log) or "Fix the cause, or use a server that runs: okl up.")
                )
            if time.monotonic() > deadline:
                raise ExecutionError(
                    f"okl's own Prefect server was not ready within {READY_SECONDS:.0f} s; its log is {self.log}. "
                    "Try again, or set PREFECT_API_URL to a running server."
                )
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End the child by SIGTERM, then by SIGKILL; safe to call twice."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> TemporaryServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
