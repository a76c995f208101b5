"""The services of infra/compose.yaml, mapped to processes of this machine."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # no stubs
import yaml  # type: ignore[import-untyped]  # no stubs

from tests.benchmarks.composed_postgres import Postgres

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
HEALTHY_SECONDS = 240.0
SHARED_PORTS = ("4200", "5432", "8786")  # of services that others connect to; all others belong to one container
OWN_PORTS = ("8080", "8787", "8788", "8789")
VARIABLE = re.compile(r"\$\{(\w+)(?::?[-?]([^}]*))?\}")
Service = dict[str, Any]


class Composed:
    """The services of compose.yaml, as processes.

    Parameters
    ----------
    place : folder for volumes, secrets, certificates and logs
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.data = place / "data"
        values = {"OKL_UID": str(os.getuid()), "OKL_GID": str(os.getgid()), "OKL_DATA": str(self.data)}
        text = VARIABLE.sub(lambda found: values.get(found[1], found[2] or ""), (INFRA / "compose.yaml").read_text())
        self.services: dict[str, Service] = yaml.safe_load(text)["services"]
        self.ports = {port: str(free_port()) for port in SHARED_PORTS}
        self.database: Postgres | None = None
        self.running: dict[str, list[tuple[subprocess.Popen[bytes], dict[str, str]]]] = {}
        for name in ("database-password", "prefect-login"):
            (place / "secrets").mkdir(exist_ok=True)
            (place / "secrets" / name).write_text(f"okl:{secrets.token_hex(16)}")
        subprocess.run(
            [sys.executable, str(INFRA / "tls" / "make.py"), str(place / "certificates")],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def order(self) -> list[str]:
        """Return the names of services, each after its dependencies."""
        ordered: list[str] = []

        def add(name: str) -> None:
            for other in self.services[name].get("depends_on", {}):
                add(other)
            if name not in ordered:
                ordered.append(name)

        for name in self.services:
            add(name)
        return ordered

    def start(self, name: str) -> None:
        """Start all replicas of a service, and wait until it is healthy or has completed successfully."""
        service = self.services[name]
        replicas = service.get("deploy", {}).get("replicas", 1)
        for number in range(replicas):
            if name == "database":
                self._start_database(service)
                continue
            self._spawn(name, number, service)
        if service.get("healthcheck", {}).get("disable"):
            (process, _), *_ = self.running[name]
            if process.wait(HEALTHY_SECONDS) != 0:
                raise RuntimeError(f"{name} ended with code {process.returncode}: {self.log(name)}")
            return
        for process, environment in self.running[name]:
            self._wait(name, process, environment)

    def condition(self, name: str) -> str:
        """Return the condition that `start` waited for."""
        return "completed" if self.services[name].get("healthcheck", {}).get("disable") else "healthy"

    def run_in(self, name: str, words: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
        """Run a command like `docker compose exec`, in the environment of a running service."""
        _, environment = self.running[name][0]
        words = [self._mapped(word, name, 0, environment) for word in words]
        command = self._confined(name, 0, ["sh", str(INFRA / "image" / "with-secrets"), *words])
        return subprocess.run(
            command, env=environment, cwd=environment["TMPDIR"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
        )  # fmt: skip

    def kill(self, name: str) -> None:
        """Kill a service, without a warning."""
        for process, _ in self.running.pop(name):
            process.kill()
            process.wait()

    def processes(self) -> list[psutil.Process]:
        """Return the processes of all running services."""
        return [
            psutil.Process(process.pid)
            for started in self.running.values()
            for process, _ in started
            if process.poll() is None
        ]

    def log(self, name: str) -> str:
        """Return the output of a service."""
        return "".join(path.read_text() for path in sorted(self.place.glob(f"{name}-*.log")))

    def stop(self) -> None:
        """Stop all services in reverse order."""
        for started in reversed(self.running.values()):
            for process, _ in started:
                process.terminate()
            for process, _ in started:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(15)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                process.wait()

    def _spawn(self, name: str, number: int, service: Service) -> None:
        environment = self._environment(name, number, service)
        words = [self._mapped(str(word), name, number, environment) for word in service["command"]]
        command = ["sh", str(INFRA / "image" / "with-secrets"), *words]
        self._open(name, number, self._confined(name, number, command), environment)

    def _open(self, name: str, number: int, command: list[str], environment: dict[str, str], **more: Any) -> None:
        with (self.place / f"{name}-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, cwd=environment["TMPDIR"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, **more,
            )  # fmt: skip
        self.running.setdefault(name, []).append((process, environment))

    def _environment(self, name: str, number: int, service: Service) -> dict[str, str]:
        """Return the environment of the image and of the service; copy secrets into a folder, as in a container."""
        service_folder = self.place / f"{name}-{number}"
        for part in ("tmp", "scratch", "secrets"):
            (service_folder / part).mkdir(parents=True, exist_ok=True)
        for secret in service.get("secrets", []):
            target = service_folder / "secrets" / (secret["target"] if isinstance(secret, dict) else secret)
            shutil.copyfile(self.place / "secrets" / (secret["source"] if isinstance(secret, dict) else secret), target)
        ports = {f"PORT_{port}": str(free_port()) for port in OWN_PORTS}
        environment = image_environment() | {key: str(value) for key, value in service.get("environment", {}).items()}
        mapped = {key: self._mapped(value, name, number, ports) for key, value in environment.items()}
        mapped |= {
            key: "127.0.0.1" for key, value in environment.items() if key.endswith("_HOST") and value in self.services
        }
        path = os.pathsep.join([str(Path(sys.executable).parent), str(INFRA / "image"), os.environ["PATH"]])
        return mapped | ports | {"PATH": path, "SECRETS": str(service_folder / "secrets")}

    def _mounted(self, name: str, number: int) -> dict[str, tuple[Path, bool]]:
        """Return the mounts of a service: path in the container to folder here, and whether it is writable."""
        service_folder = self.place / f"{name}-{number}"
        mounted = {"/tmp": (service_folder / "tmp", True), "/scratch": (service_folder / "scratch", True)}
        for volume in self.services[name].get("volumes", []):
            if isinstance(volume, str):
                source, target = volume.split(":")
                if target != "/scratch":
                    mounted[target] = (self.place / source, True)
            else:
                mounted[volume["target"]] = (self.place / volume["source"], not volume["read_only"])
        return mounted

    def _confined(self, name: str, number: int, command: list[str]) -> list[str]:
        """Return a command that runs as an unprivileged user, in a file system where only mounts are writable."""
        bubblewrap = shutil.which("bwrap")
        if bubblewrap is None:
            return command
        words = [
            bubblewrap,
            "--die-with-parent",
            "--unshare-user",
            "--uid",
            "10001",
            "--gid",
            "10001",
            "--cap-drop",
            "ALL",
        ]
        words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        seen = [(path, False) for path in (ROOT, Path(sys.prefix), self.place / f"{name}-{number}" / "secrets")]
        for path, written in [*seen, *self._mounted(name, number).values()]:
            path.mkdir(parents=True, exist_ok=True)
            words += ["--bind" if written else "--ro-bind", str(path), str(path)]
        return [*words, *command]

    def _mapped(self, text: str, name: str, number: int, ports: dict[str, str]) -> str:
        service_folder = self.place / f"{name}-{number}"
        mounted = {inside: str(outside) for inside, (outside, _) in self._mounted(name, number).items()}
        mounted = {"/var/lib/okl": str(service_folder / "nowhere")} | mounted
        text = re.sub(rf"(?<![\w/.-])({'|'.join(mounted)})(?![\w-])", lambda match: mounted[match[1]], text)
        for host in self.services:
            text = re.sub(rf"(?<=//){host}(?=:)", "127.0.0.1", text)
        text = text.replace("0.0.0.0", "127.0.0.1")
        for port in OWN_PORTS:
            text = re.sub(rf"\b{port}\b", ports[f"PORT_{port}"], text)
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text

    def _wait(self, name: str, process: subprocess.Popen[bytes], environment: dict[str, str]) -> None:
        kind, *words = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        words = [self._mapped(word, name, 0, environment) for word in words]
        deadline = time.monotonic() + HEALTHY_SECONDS
        while subprocess.run(words, env=environment, capture_output=True, check=False).returncode != 0:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} is not healthy ({process.poll()}): {self.log(name)[-4000:]}")
            time.sleep(0.5)

    def _start_database(self, service: Service) -> None:
        """Start PostgreSQL with the service's variables, like the entrypoint of its image."""
        password = self.place / "secrets" / "database-password"
        database = Postgres(self.place / "database", self.ports["5432"], password, service["environment"])
        ports = {f"PORT_{own}": own for own in OWN_PORTS}
        self._open("database", 0, database.command, database.environment | ports, **database.user_options)
        database.create(database.name)
        self.database = database


def image_environment() -> dict[str, str]:
    """Return the variables that infra/Dockerfile sets in the last stage."""
    text = (INFRA / "Dockerfile").read_text().replace("\\\n", " ")
    last = [line for line in text.split("\nFROM ")[-1].splitlines() if line.startswith("ENV ")]
    return dict(word.split("=", 1) for line in last for word in line.removeprefix("ENV ").split())


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])
