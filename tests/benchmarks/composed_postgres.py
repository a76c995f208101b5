"""A real PostgreSQL for `tests.benchmarks.composed`, made as the entrypoint of its image makes one."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAMS = Path("/usr/lib/postgresql/15/bin")
READY_SECONDS = 60.0


class Postgres:
    """A server of a folder.

    Parameters
    ----------
    folder : is made, for data and socket
    port : of 127.0.0.1
    password : file
    variables : of the service in compose.yaml
    """

    def __init__(self, folder: Path, port: str, password: Path, variables: dict[str, str]) -> None:
        self.folder = folder
        self.password = password.read_text()
        self.user, self.name = variables["POSTGRES_USER"], variables["POSTGRES_DB"]
        self.connection = ["-h", "127.0.0.1", "-p", port, "-U", self.user]
        self.environment = {"PATH": f"{PROGRAMS}:/usr/bin:/bin", "PGPORT": port, "TMPDIR": str(folder)}
        self.as_whom: dict[str, Any] = {}
        folder.mkdir()
        own = folder / "password"
        shutil.copyfile(password, own)
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(folder, "postgres", "postgres")
            shutil.chown(own, "postgres")
            self.as_whom = {"user": "postgres", "group": "postgres", "extra_groups": []}
        words = ["initdb", "--username", self.user, "--pwfile", str(own), "--pgdata", str(folder / "data")]
        words += variables["POSTGRES_INITDB_ARGS"].split()
        subprocess.run(words, env=self.environment, cwd=folder, check=True, capture_output=True, **self.as_whom)
        self.command = ["postgres", "-D", str(folder / "data"), "-h", "127.0.0.1", "-p", port, "-k", str(folder)]

    def create(self, name: str) -> None:
        """Make a database, as soon as the server takes connections."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            outcome = self._ask(["createdb", *self.connection, name])
            if outcome.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not take connections: {outcome.stderr}")
            time.sleep(0.2)

    def rows(self, question: str, database: str | None = None) -> list[str]:
        """Rows that a database answers with."""
        return self._checked(["psql", "-XAt", *self.connection, "-c", question, database or self.name]).splitlines()

    def restored(self, question: str) -> list[str]:
        """Rows that a database answers with which was made anew from a backup of this one, as README.md makes one."""
        backup = str(self.folder.parent / "prefect.dump")
        self._checked(["pg_dump", *self.connection, "--format=custom", f"--file={backup}", self.name])
        self.create("restored")
        self._checked(["pg_restore", *self.connection, "--dbname=restored", backup])
        return self.rows(question, "restored")

    def _ask(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        secret = self.environment | {"PGPASSWORD": self.password}
        return subprocess.run(words, env=secret, capture_output=True, text=True, check=False)

    def _checked(self, words: list[str]) -> str:
        outcome = self._ask(words)
        if outcome.returncode:
            raise RuntimeError(f"{words[0]}: {outcome.stderr}")
        return outcome.stdout
