"""Which processes a stack is made of: their commands, environments and addresses."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # no stubs

from flows.server import LOOPBACK, PRIVACY, prefect_home, server_environment
from flows.stack.code import ROOT
from flows.stack.processes import MARK
from flows.stack.state import stack_folder

POOL = "okl"
QUERY_SECONDS = "1"  # how often the Prefect worker asks for runs: half of that is what a run waits
HEARTBEAT_SECONDS = "30"  # as in infra/prefect.yaml, or every run would have to start cold
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
WELL_KNOWN_PORT = 4200  # of Prefect's


@dataclass(frozen=True)
class StackOptions:
    """What `okl up` was asked for; port 0: any that is free."""

    home: Path
    port: int = 0
    workers: int = 2
    tls: Path | None = None


@dataclass(frozen=True)
class Child:
    """One process: how it is started, and the bytes beyond which it is ended and started anew."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    address: str | None = None
    memory_limit: int | None = None
    inherited: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ports:
    """The ports of a stack on 127.0.0.1; the API's socket is bound here and handed on, so that nobody can take it."""

    api: socket.socket
    scheduler: int
    health: int

    @property
    def url(self) -> str:
        """Of Prefect's API."""
        return f"http://{LOOPBACK}:{self.api.getsockname()[1]}/api"


@dataclass(frozen=True)
class Plan:
    """All processes of a stack, in the order in which they are started."""

    options: StackOptions
    ports: Ports
    instance: str
    parent: int = field(default_factory=os.getpid)

    @property
    def folder(self) -> Path:
        """Where state, logs and sockets are, and where the processes run."""
        return stack_folder(self.options.home)

    @property
    def scheduler(self) -> str:
        """Dask's address."""
        return f"{'tcp' if self.options.tls is None else 'tls'}://{LOOPBACK}:{self.ports.scheduler}"

    def children(self) -> list[Child]:
        """The Prefect server first: everybody else has to wait for it."""
        return [
            self._server(),
            self._node("scheduler", "scheduler", self.scheduler, port=self.ports.scheduler,
                       health_port=self.ports.health),
            Child("fork-server", self._python("flows.stack.forkserver"), self._client()),
            Child("prefect-worker", self._python("flows.stack.poolworker", POOL, str(self.folder)), self._client()),
            *(self._worker(number) for number in range(1, self.options.workers + 1)),
        ]  # fmt: skip

    def _server(self) -> Child:
        home, listener = self.options.home, self.ports.api.fileno()
        script, lock = Path(__file__).parents[1] / "serving.py", prefect_home(home) / "start.lock"
        environment = server_environment(home, self._environment(), deployments=True) | {
            "PREFECT_SERVER_UI_ENABLED": "true",
            "PREFECT_UI_API_URL": self.ports.url,
            "PREFECT_UI_STATIC_DIRECTORY": str(prefect_home(home) / "pages"),
        }
        command = (sys.executable, "-P", str(script), str(self.parent), str(listener), str(lock))
        return Child("server", command, environment, self.ports.url, inherited=(listener,))

    def _worker(self, number: int) -> Child:
        limit = psutil.virtual_memory().total // max(1, self.options.workers)
        return self._node(
            f"worker-{number}", "worker", None, limit, scheduler=self.scheduler, memory_limit=limit,
            folder=f"scratch-{number}",
        )  # fmt: skip

    def _node(self, name: str, role: str, address: str | None, limit: int | None = None, **options: Any) -> Child:
        options["tls"] = None if self.options.tls is None else str(role_folder(self.options.tls, role))
        command = self._python("flows.stack.node", json.dumps(options), before=(role,))
        return Child(name, command, self._environment() | ONE_THREAD, address, limit)

    def _python(self, module: str, *words: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
        return (sys.executable, "-P", "-m", module, *before, str(self.parent), *words)

    def _environment(self) -> dict[str, str]:
        """What all of them have; nothing of Prefect's that happens to be set here."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        imports = [str(ROOT), *filter(None, [inherited.get("PYTHONPATH")])]
        bypass = {name: f"{inherited.get(name, '')},{LOOPBACK}".lstrip(",") for name in ("NO_PROXY", "no_proxy")}
        own = {
            "OKL_HOME": str(self.options.home),
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(imports)),
            "PYTHONUNBUFFERED": "1",
            MARK: self.instance,
        }
        return inherited | PRIVACY | bypass | own

    def _client(self) -> dict[str, str]:
        """What those have who talk to the Prefect server."""
        return self._environment() | {
            "PREFECT_API_URL": self.ports.url,
            "PREFECT_HOME": str(prefect_home(self.options.home)),
            "PREFECT_WORKER_QUERY_SECONDS": QUERY_SECONDS,
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": HEARTBEAT_SECONDS,
        }


def role_folder(folder: Path, role: str) -> Path:
    """Certificates of a role: in the folder of its name, as infra/tls/make.py makes it, or in the folder itself."""
    return folder / role if (folder / role).is_dir() else folder


def choose_ports(wanted: int, last: int | None = None) -> Ports:
    """Free ports of 127.0.0.1.

    Parameters
    ----------
    wanted : of the API and its pages; 0: the one of last time if it is free, or Prefect's own 4200, or any
    last : port of last time, if known

    Raises
    ------
    OSError : the one that is wanted is taken
    """
    candidates = [wanted] if wanted else [*([last] if last else []), WELL_KNOWN_PORT, 0]
    scheduler, health = (_bound(0) for _ in range(2))
    try:
        for number, port in enumerate(candidates, start=1):
            try:
                return Ports(_bound(port), scheduler.getsockname()[1], health.getsockname()[1])
            except OSError:
                if number == len(candidates):
                    raise
        raise AssertionError("there is always a candidate")
    finally:
        scheduler.close()
        health.close()


def _bound(port: int) -> socket.socket:
    opened = socket.socket()
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((LOOPBACK, port))
    except OSError:
        opened.close()
        raise
    return opened
