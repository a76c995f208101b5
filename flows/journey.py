"""What a newcomer reads first: commands in the order of need, and the first steps."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

JOURNEY = (
    "train", "predict", "evaluate", "explain", "runs", "compare", "plan", "ingest", "describe", "export", "retrain",
    "models", "deploy", "up", "status", "down", "reproduce",
)  # fmt: skip
FIRST_STEPS = """\b
First steps:
  okl train rows.csv --target y --holdout 0.2    learn, evaluate on a fifth held out; a model and a report
  okl predict MODEL new.csv --out scores         MODEL: the name of the run, as okl runs tells it
  okl compare rows.csv --target y                of classes: which model suits these rows
  okl train -h                                   every option of a command"""


class Journey(TyperGroup):
    """Lists commands in the order in which people come to need them; what is not in JOURNEY comes last.

    `okl help`, `okl help COMMAND` and `okl version` do what --help and --version do.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line; called by what runs commands."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        elif args == ["version"]:
            args = ["--version"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, in order."""
        return sorted(super().list_commands(ctx), key=lambda name: (*JOURNEY, name).index(name))
