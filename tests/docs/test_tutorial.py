"""The tutorials' commands work on every 24th row of their data, and print the lines that the first page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.docs.tutorial import FLIGHTS, PAGE, steps
from tests.flows.commandline import Terminal


def labels(output: str) -> list[str]:
    """Return the beginnings of lines, up to two spaces or a number."""
    beginnings = [re.split(r"  |\d", line.strip())[0].strip() for line in output.splitlines()]
    return [label for label in beginnings if label and "/" not in label]


def test_commands_print_what_the_page_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = FLIGHTS.read_text().splitlines(keepends=True)
    (tmp_path / "flights.csv").write_text("".join(lines[:1] + lines[1::24]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    terminal, shown = Terminal(capsys, monkeypatch), 0
    for commands, output in steps():
        printed = set[str]()
        for command in commands:
            if not command.startswith("okl "):
                subprocess.run(command, shell=True, check=True)
                continue
            outcome = terminal.okl(*shlex.split(command)[1:])
            assert outcome.code == 0, (command, outcome.err)
            printed |= set(labels(outcome.out.replace(f"{tmp_path}/", "")))
        missing = set(labels(output)) - printed
        assert len(missing) <= len(set(labels(output))) // 10, (commands, missing)
        shown += len(commands)
    assert shown >= 8

    # the second tutorial continues in this folder; only its commands that need no server
    page = PAGE.with_name("nightly.md").read_text().partition("## The same from Python")[0]
    commands = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    mkdir_command, *okl_commands = [
        line for line in commands if line.startswith(("mkdir", "okl retrain", "okl models"))
    ]
    subprocess.run(mkdir_command, shell=True, check=True)
    for command in okl_commands:
        outcome = terminal.okl(*shlex.split(command)[1:])
        assert outcome.code == 0, (command, outcome.err)
    (scored,) = re.findall(r"--score (\S+)", page)
    assert (len(okl_commands), Path(scored).is_file(), "delays: champion 1" in outcome.out) == (2, True, True)
