"""What a newcomer reads first: the list of commands, in the order of need, and completion of their names."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import typer

import flows.cli  # noqa: F401  the command's own module
from flows.journey import FIRST_STEPS, JOURNEY
from flows.sections import SECTIONS, Sectioned
from okl.configuration import TrainSettings
from okl.retraining.settings import RetrainSettings
from tests.flows.commandline import Terminal


def test_every_command_has_its_place_and_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Terminal(capsys, monkeypatch).okl("--help").out
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line[2:3].isalpha()]
    assert tuple(name for name in listed if name in JOURNEY) == JOURNEY
    from flows.commands import app

    group = typer.main.get_command(app)
    assert set(group.list_commands(None)) == set(JOURNEY)  # type: ignore[attr-defined]
    steps = [line.split()[1] for line in FIRST_STEPS.splitlines() if line.startswith("  okl")]
    assert set(steps) <= set(JOURNEY)
    assert "First steps:" in out


def test_the_first_steps_are_words_that_their_commands_take() -> None:
    from flows.commands import app

    group = typer.main.get_command(app)
    steps = [re.split(r"\s{2,}", line.strip())[0].split() for line in FIRST_STEPS.splitlines() if line[:5] == "  okl"]
    assert len(steps) == 4
    for _, name, *words in steps:
        command = group.commands[name]  # type: ignore[attr-defined]
        taken = {flag for parameter in command.params for flag in parameter.opts} | {"-h"}
        assert {word for word in words if word.startswith("-")} <= taken


def test_options_stand_under_headings_in_the_order_of_need(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.commands import app

    monkeypatch.setenv("COLUMNS", "100")
    known: set[str] = set()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        if isinstance(command, Sectioned):
            options = {str(one.name) for one in command.params if one.param_type_name == "option"}
            assert options - {one for _, names in command.sections for one in names} == {"json"}, name
            known |= options
    assert {one for _, names in SECTIONS for one in names} <= known
    out = Terminal(capsys, monkeypatch).okl("train", "--help").out
    heads = [line[:-1] for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert heads == ["Arguments", *(heading for heading, _ in SECTIONS), "Options"]
    needed = [out.index(f"  {flag} ") for flag in ("--target", "--solver", "--passes", "--out", "--workers", "--lam")]
    assert needed == sorted(needed)
    assert out.count("  --target ") == 1


def test_the_solver_of_a_retraining_is_told_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(capsys, monkeypatch)
    default = RetrainSettings(name="m", source="in", train=TrainSettings(data="in")).train.solver
    told = {name: " ".join(terminal.okl(name, "--help").out.split()) for name in ("retrain", "deploy")}
    assert f"auto: {default}, which goes on with each new shard, where a race would begin anew;" in told["retrain"]
    assert f"[default: {default}]" in told["retrain"]
    assert f"with --retrain {default}, which goes on" in told["deploy"]
    assert "size by a race on a sample" not in told["retrain"]


def test_a_shell_completes_names_of_commands() -> None:
    environment = os.environ | {"_OKL_COMPLETE": "complete_bash", "COMP_WORDS": "okl ret", "COMP_CWORD": "1"}
    words = [sys.executable, "-c", "from flows.cli import main; main()"]
    found = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["retrain"], found.stderr
