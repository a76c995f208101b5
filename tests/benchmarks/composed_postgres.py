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
    """A PostgreSQL server with its data in a folder.

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
        self.user_options: dict[str, Any] = {}
        folder.mkdir()
        password_copy = folder / "password"
        shutil.copyfile(password, password_copy)
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(folder, "postgres", "postgres")
            shutil.chown(password_copy, "postgres")
            self.user_options = {"user": "postgres", "group": "postgres", "extra_groups": []}
        words = ["initdb", "--username", self.user, "--pwfile", str(password_copy), "--pgdata", str(folder / "data")]
        words += variables["POSTGRES_INITDB_ARGS"].split()
        subprocess.run(words, env=self.environment, cwd=folder, check=True, capture_output=True, **self.user_options)
        self.command = ["postgres", "-D", str(folder / "data"), "-h", "127.0.0.1", "-p", port, "-k", str(folder)]

    def create(self, name: str) -> None:
        """Create a database as soon as the server accepts connections."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            outcome = self._run(["createdb", *self.connection, name])
            if outcome.returncode == 0:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not take connections: {outcome.stderr}")
            time.sleep(0.2)

    def rows(self, sql: str, database: str | None = None) -> list[str]:
        """Return the rows of a query."""
        return self._checked(["psql", "-XAt", *self.connection, "-c", sql, database or self.name]).splitlines()

    def restored(self, sql: str) -> list[str]:
        """Return the rows of a query in a database restored from a backup, which is made as in README.md."""
        backup = str(self.folder.parent / "prefect.dump")
        self._checked(["pg_dump", *self.connection, "--format=custom", f"--file={backup}", self.name])
        self.create("restored")
        self._checked(["pg_restore", *self.connection, "--dbname=restored", backup])
        return self.rows(sql, "restored")

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        secret = self.environment | {"PGPASSWORD": self.password}
        return subprocess.run(words, env=secret, capture_output=True, text=True, check=False)

    def _checked(self, words: list[str]) -> str:
        outcome = self._run(words)
        if outcome.returncode:
            raise RuntimeError(f"{words[0]}: {outcome.stderr}")
        return outcome.stdout
