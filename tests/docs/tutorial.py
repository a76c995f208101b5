"""The commands of the tutorial, run as written: `python -m tests.docs.tutorial` updates their outputs on the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "infra" / "docs" / "tutorial" / "first-model.md"
FLIGHTS = ROOT / "data" / "flights.csv"
STEP = re.compile(r"```sh\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


class Step(NamedTuple):
    """Commands of the page, and the output that it shows."""

    commands: list[str]
    shown: str


def steps() -> Iterator[Step]:
    """Yield the steps of the page."""
    for commands, shown in STEP.findall(PAGE.read_text()):
        yield Step(commands.splitlines(), shown)


def in_shell(commands: list[str], folder: Path) -> str:
    """Return what commands print on standard output in a folder, whose subfolder `home` is okl's home."""
    script = f'okl() {{ {sys.executable} -m flows.cli "$@"; }}\nset -e\n' + "\n".join(commands)
    environment = {**os.environ, "OKL_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{commands}: {done.stderr}")
    return done.stdout.replace(str(folder / "home"), "~/.okl").replace(f"{folder}/", "")


def main() -> None:
    """Run the commands on all rows, and write their outputs into the page."""
    with TemporaryDirectory() as folder:
        shutil.copy(FLIGHTS, folder)

        def updated(step: re.Match[str]) -> str:
            lines = [line.rstrip() for line in in_shell(step[1].splitlines(), Path(folder)).strip().splitlines()]
            return f"```sh\n{step[1]}```\n\n```text\n" + "\n".join(lines) + "\n```"

        PAGE.write_text(STEP.sub(updated, PAGE.read_text()))


if __name__ == "__main__":
    main()
