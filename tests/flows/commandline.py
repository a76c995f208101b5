"""The command `okl`, run in this process or in a new one, and the files and processes that remain after it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

from flows.cli import main
from okl.foundation.locations import Place
from tests.distributed.processes import heed_interrupts
from tests.flows.environment import child_environment

typer.main.get_command = cache(typer.main.get_command)  # once per process, as in a command in its own process
_started: list[subprocess.Popen[str]] = []


class Outcome(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The object that --json prints as the last line."""
        assert self.code == 0, self.err
        result: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return result

    @property
    def sentence(self) -> str:
        """The only line on standard error, which must not be a traceback."""
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert "Traceback" not in line
        return line


class Terminal:
    """A terminal without a screen, into which a test types commands."""

    def __init__(self, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.capture = capture
        self.patch = patch

    def okl(self, *words: str | Place) -> Outcome:
        """Run the command in this process."""
        self.capture.readouterr()
        self.patch.setattr(sys, "argv", ["okl", *map(str, words)])
        before, code = signal.getsignal(signal.SIGINT), 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            signal.signal(signal.SIGINT, before)
        out, err = self.capture.readouterr()
        return Outcome(code, out, without_notice(err))

    def okl_json(self, *words: str | Place) -> dict[str, Any]:
        """Run a command that must succeed, and return its JSON object."""
        return self.okl(*words, "--json").result


def start(home: Path, *words: str | Path) -> subprocess.Popen[str]:
    """Start the command in a new process and a new process group, as a terminal does."""
    return start_python(home, "-m", "flows.cli", *map(str, words))


def start_python(home: Path, *words: str) -> subprocess.Popen[str]:
    """Start Python as `start` starts the command.

    If the tests run in the background, SIGINT is ignored, and children inherit that. A terminal never does that.
    """
    process = subprocess.Popen(
        [sys.executable, *words],
        env=child_environment(OKL_HOME=str(home)),
        cwd=home.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )
    _started.append(process)
    return process


def end_started() -> None:
    """Kill the commands that a failed test has left running: some would train forever."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()  # an open pipe would be a warning in another test


def wait(process: subprocess.Popen[str]) -> Outcome:
    """Wait for the end of a command."""
    out, err = process.communicate(timeout=120)
    return Outcome(process.returncode, out, without_notice(err))


def without_notice(err: str) -> str:
    """Return standard error without lines that depend on the machine: on compilation, and on progress if it is slow."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if not re.match(r"Compiling functions|[a-z ]+(: \d+ s(,|$)| \.\.\.$)", line))


def processes_of(home: Path) -> list[str]:
    """Return the command lines of the other processes with this OKL_HOME in their environment: servers, workers."""
    command_lines = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if f"OKL_HOME={home}\0".encode() in (folder / "environ").read_bytes():
                    command_lines.append((folder / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue  # ended meanwhile, or another user's
    return command_lines


def tree(folder: Path) -> list[str]:
    """Return the paths of everything in a folder, except Prefect's database."""
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    return sorted(path for path in paths if "prefect/" not in f"{path}/")
