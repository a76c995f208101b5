"""Help: the list of commands in the order in which users need them, options, and completion of names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args, get_origin

import numpy as np
import pandas as pd
import pytest
import typer
from pydantic import ValidationError

import flows.cli  # noqa: F401  the command's own module
from flows.cli.commands import COMMAND_ORDER, FIRST_STEPS
from flows.cli.options import OTHER, PANELS, Command, offered_settings
from okl.data.ingest.run import ingest
from okl.foundation.catalogue import SOLVERS
from okl.foundation.errors import ConfigError
from okl.foundation.settings import IngestSettings
from okl.solvers.factory import make_solver
from okl.solvers.settings import TrainSettings, solver_settings
from tests.flows.commandline import Terminal


def test_help_lists_every_command_in_order(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal(capsys, monkeypatch).okl("--help").out
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line[2:3].isalpha()]
    assert tuple(name for name in listed if name in COMMAND_ORDER) == COMMAND_ORDER
    from flows.cli.commands import app

    group = typer.main.get_command(app)
    assert set(group.list_commands(None)) == set(COMMAND_ORDER)  # type: ignore[attr-defined]
    steps = [line.split()[1] for line in FIRST_STEPS.splitlines() if line.startswith("  okl")]
    assert set(steps) <= set(COMMAND_ORDER)
    assert "First steps:" in out


def test_the_first_steps_use_existing_options() -> None:
    from flows.cli.commands import app

    group = typer.main.get_command(app)
    steps = [re.split(r"\s{2,}", line.strip())[0].split() for line in FIRST_STEPS.splitlines() if line[:5] == "  okl"]
    assert len(steps) == 4
    for _, name, *words in steps:
        command = group.commands[name]  # type: ignore[attr-defined]
        accepted = {flag for parameter in command.params for flag in parameter.opts} | {"-h", "--help-all"}
        assert {word for word in words if word.startswith("-")} <= accepted


def test_options_are_grouped_under_headings_in_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.cli.commands import app

    monkeypatch.setenv("COLUMNS", "100")
    panels = {
        getattr(parameter, "rich_help_panel", None)
        for command in typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
        if isinstance(command, Command)
        for parameter in command.params
        if parameter.param_type_name == "option"
    }
    assert panels - {None} < {*PANELS}
    out = Terminal(capsys, monkeypatch).okl("train", "--help").out
    flags = ("--target", "--group", "--solver", "--seed", "--budget-seconds", "--out", "--workers")
    needed = [out.index(f"  {flag} ") for flag in flags]
    assert needed == sorted(needed)
    assert out.count("  --target ") == 1
    out = Terminal(capsys, monkeypatch).okl("train", "--solver", "scs", "--help").out
    heads = [line[:-1] for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert [head for head in heads if not head.startswith("Solver ")] == [
        *("Arguments", "Data", "Model", "Output", "Settings from a file, and settings without an option"),
        *("Checkpoints and interrupted runs", "Workers and threads", "File formats", OTHER),
    ]
    assert heads[heads.index("Model") + 1] == "Solver scs"
    assert "  --first-sample" not in out  # a setting without an option
    assert {"--lam", "--gap", "--rows-per-shard"} < set(out.split())
    assert not {"--C", "--budget-seconds", "--mode"} & set(out.split())


def options_in(out: str) -> set[str]:
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", out, re.MULTILINE))


def test_help_is_short_and_help_all_lists_every_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.cli.commands import app

    terminal, commands = Terminal(capsys, monkeypatch), typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        if hasattr(command, "commands"):
            continue
        brief, whole = (options_in(terminal.okl(name, word).out) for word in ("--help", "--help-all"))
        declared = {
            max(parameter.opts, key=len) for parameter in command.params if parameter.param_type_name == "option"
        }
        assert declared <= whole, name
        assert brief <= whole
        assert len(brief) <= 25, (name, sorted(brief))
        assert ("--help-all" in terminal.okl(name, "--help").out) == (brief != whole)
    brief, whole = (options_in(terminal.okl("models", "list", word).out) for word in ("-h", "--help-all"))
    assert brief == whole
    scs_help = terminal.okl("train", "--solver", "scs", "--help").out
    assert "Kernel SVM on growing samples, until the gap over all rows is" in scs_help
    assert {"--gap", "--lam", "--tls"} < options_in(terminal.okl("train", "--solver", "scs", "--help-all").out)
    assert "--mode" in options_in(terminal.okl("train", "--solver", "fogd", "--help").out), "other solvers refuse it"


def test_the_help_of_an_unknown_solver_lists_the_solvers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Terminal(capsys, monkeypatch).okl("train", "--solver", "fgd", "--help")
    assert refused.code == 2
    assert "solver = 'fgd'; expected one of fogd, nogd, " in refused.sentence


SOMETIMES = {
    "step_rule": "needs a radius",
    "constraint_method": "needs a constraint",
    "kernel": "polynomial needs a Nystrom map",
    "method": "no Newton for MPM",
}


def test_the_help_of_a_solver_shows_the_choices_that_it_accepts(tmp_path: Path) -> None:
    """Shown choices are accepted for at least one task, hidden choices for none."""
    inputs = np.random.default_rng(1).normal(size=(60, 2)).round(2)
    targets = {"binary": inputs[:, 0] > 0, "multiclass": np.arange(60) % 3, "regression": 2.5 * inputs[:, 1]}
    data = []
    for task, y in targets.items():
        pd.DataFrame({"a": inputs[:, 0], "b": inputs[:, 1], "y": y}).to_csv(tmp_path / f"{task}.csv", index=False)
        data.append(ingest(tmp_path / f"{task}.csv", tmp_path / task, IngestSettings(task=task)).dataset)

    def is_accepted(solver: str, option: str, choice: str) -> bool:
        for one in data:
            with suppress(ConfigError, ValidationError):
                make_solver(TrainSettings.model_validate({"data": "x", "solver": solver, option: choice}), one)
                return True
        return False

    hidden = 0
    for solver in SOLVERS:
        kind = solver_settings(solver)
        shown = offered_settings(kind).model_fields
        for option, info in kind.model_fields.items():
            if solver == "auto" or get_origin(info.annotation) is not Literal:
                continue
            offered = get_args(shown[option].annotation)
            accepted = [one for one in get_args(info.annotation) if is_accepted(solver, option, one)]
            assert {*accepted} == {*offered} or (option in SOMETIMES and {*accepted} < {*offered}), (solver, option)
            hidden += len(get_args(info.annotation)) - len(offered)
    assert hidden > 80


def test_help_of_retraining_names_its_default_solver(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(capsys, monkeypatch)
    help_texts = {name: " ".join(terminal.okl(name, "--help").out.split()) for name in ("retrain", "deploy")}
    champion = "the champion's; for a new model chosen as in okl train, and kept;"
    assert f"auto: {champion}" in help_texts["retrain"]
    assert f"auto: as in okl train; with --retrain, {champion}" in help_texts["deploy"]
    assert "and size on a sample" not in help_texts["retrain"]
    help_text = terminal.okl("retrain", "--solver", "fogd", "--help").out
    assert not {"--rescale", "--budget-seconds", "--validation", "--certify"} & set(help_text.split())
    holdout = (
        "drawn by class; with --retrain: share of the rows of each shard reserved for comparisons, never trained on "
        "[default: 0.2]"
    )
    assert holdout in help_texts["deploy"]
    for command, condition in (("retrain", ""), ("deploy", "with --retrain, ")):
        help_text = " ".join(terminal.okl(command, "--solver", "fogd", "--help").out.split())
        assert f"never inputs; {condition}a registered model keeps the key columns of its first" in help_text
        if command == "retrain":
            assert "otherwise a new model gets them as keys [default: no]" in help_text
    assert all("none: OKL_REGISTRY, or okl's home" in text for text in help_texts.values())


def test_options_with_several_texts_have_a_metavar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    help_text = " ".join(Terminal(capsys, monkeypatch).okl("retrain", "--solver", "fogd", "--help").out.split())
    for option in ("--release SHA256", "--constraint CONSTRAINT", "--key COLUMN", "--slice COLUMN"):
        assert f" {option} " in help_text


def test_help_of_predict_describes_when_piped_rows_are_scored(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    help_text = " ".join(Terminal(capsys, monkeypatch).okl("predict", "--help").out.split())
    assert "All rows of standard input are read before the first score is written" in help_text
    assert "--workers N with --out a folder: Dask worker processes to start" in help_text


def test_a_shell_completes_names_of_commands() -> None:
    environment = os.environ | {"_OKL_COMPLETE": "complete_bash", "COMP_WORDS": "okl ret", "COMP_CWORD": "1"}
    words = [sys.executable, "-c", "from flows.cli import main; main()"]
    completed = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert completed.stdout.split() == ["retrain"], completed.stderr


@pytest.mark.parametrize(
    ("word", "option"),
    [
        (["help"], ["--help"]),
        (["help", "train"], ["train", "--help"]),
        (["help", "models", "publish"], ["models", "publish", "-h"]),
        (["version"], ["--version"]),
    ],
)
def test_help_and_version_work_as_words_and_as_options(
    word: list[str], option: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(capsys, monkeypatch)
    assert terminal.okl(*word) == terminal.okl(*option)
    assert terminal.okl(*word).code == 0


@pytest.mark.parametrize("command", ["train", "compare", "predict m", "evaluate m", "explain m", "deploy"])
def test_several_files_are_refused_with_the_corrected_command(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(capsys, monkeypatch)
    for name in ("part 1.csv", "part 11.csv", "other.csv"):
        Path(name).touch()
    outcome = terminal.okl(*command.split(), "part 1.csv", "part 11.csv", "--json")
    assert outcome.code == 2
    assert outcome.sentence.endswith(f"so that the shell does not expand it: okl {command} 'part 1*.csv' --json")
    outcome = terminal.okl(*command.split(), "part 1.csv", "other.csv", "part 11.csv")
    assert "got 3 files (part 1.csv, other.csv, ...)" in outcome.sentence
    assert outcome.sentence.endswith("'*.csv'")
    Path("fourth.csv").touch()
    outcome = terminal.okl(*command.split(), "part 1.csv", "other.csv", "part 11.csv")
    assert outcome.sentence.endswith("Put the files into one folder, and give the folder.")
    outcome = terminal.okl(*command.split(), "part 1.csv", "this", "that")
    assert "unexpected extra argument(s)" in outcome.err
