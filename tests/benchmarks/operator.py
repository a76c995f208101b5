"""An operator's path: `python -m tests.benchmarks.operator [COMMIT]` follows infra/README.md literally.

In a new clone, with an empty home and a clean environment, each line of the page's sh blocks is typed into one shell,
in order. One word is changed: the schedule, from three at night to every minute. Between the
line by which a file arrives and the ones of "the morning after" it waits for the schedule to do its work. It prints the
seconds of each line, and ends with 1 if one of them failed, or if a process is left.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # no stubs

ROOT = Path(__file__).parents[2]
NIGHTLY, TRIAL = '"0 3 * * *"', '"* * * * *"'
NIGHT_SECONDS = 300.0
END = "__okl_step_ended__"
INHERITED_VARIABLES = (
    "LANG",
    "PIP_",
    "SSL_CERT",
    "TERM",
)  # access to the package index belongs to the machine, not to okl


class Shell:
    """One bash session of an operator.

    Parameters
    ----------
    folder : working directory, the clone
    home : empty
    """

    def __init__(self, folder: Path, home: Path) -> None:
        # `python3` of a real installation, because a shim of pyenv needs its own home
        python = Path(os.path.realpath(sys.base_prefix)) / "bin"
        inherited = {name: value for name, value in os.environ.items() if name.startswith(INHERITED_VARIABLES)}
        environment = inherited | {
            "HOME": str(home),
            "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin",
            "USER": "operator",
        }
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def type(self, line: str) -> tuple[int, str]:
        """Type a line and wait for its end; return exit code and output."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{{ {line}\n}} </dev/null\necho; echo {END} $?\n")
        self.process.stdin.flush()
        printed: list[str] = []
        for answer in self.process.stdout:
            if answer.startswith(END):
                return int(answer.split()[1]), "".join(printed).strip()
            printed.append(answer)
        raise RuntimeError("the shell ended")

    def close(self) -> None:
        """Close the shell."""
        self.process.communicate()


def lines_of(page: str) -> Iterator[str]:
    """Yield the lines of the sh blocks of a page, with continued lines joined."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        yield from filter(None, re.sub(r"\\\n\s*", "", block).splitlines())


def champion(shell: Shell) -> int:
    """Return the version number of the champion, 0 if there is none."""
    code, printed = shell.type("okl models show forest@champion --json")
    return int(json.loads(printed.splitlines()[-1])["version"]) if code == 0 else 0


def follow(shell: Shell, page: str) -> bool:
    """Type all lines; return whether all succeeded."""
    succeeded = True
    arrived: float | None = None
    for line in lines_of(page):
        if arrived is not None and line.startswith("prefect flow-run ls"):
            succeeded &= wait_for_night(shell, arrived)
            arrived = None
        start = time.monotonic()
        code, printed = shell.type(line.replace(NIGHTLY, TRIAL))
        print(f"{time.monotonic() - start:6.1f} s  {line}", flush=True)
        shown = printed.splitlines()[-40:]
        print("\n".join(f"            {text_line[:150]}" for text_line in shown), flush=True)
        if code != 0:
            print(f"          exit code {code}")
            succeeded = False
        if "part-00001" in line:
            arrived = time.monotonic()
    return succeeded


def wait_for_night(shell: Shell, arrived: float) -> bool:
    """Wait until the schedule has fired and the second version is champion."""
    while champion(shell) < 2:
        if time.monotonic() - arrived > NIGHT_SECONDS:
            print(f"          no second version {NIGHT_SECONDS:.0f} s after its file arrived")
            return False
        time.sleep(1)
    print(
        f"{time.monotonic() - arrived:6.1f} s  (from the file's arrival to the second champion, by the schedule)",
        flush=True,
    )
    return True


def remaining_processes(home: Path) -> list[str]:
    """Return the command lines of processes of this home that still run."""
    command_lines = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOME") == str(home):
                command_lines.append(" ".join(process.cmdline()[:5]))
        except (psutil.Error, OSError):
            continue  # ended meanwhile, or another user's
    return command_lines


def main(commit: str = "HEAD") -> None:
    """Clone, follow the page, print the outcome."""
    with tempfile.TemporaryDirectory(prefix="okl-operator-") as folder:
        clone, home = Path(folder) / "okl", Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        subprocess.run(["git", "-C", str(clone), "checkout", "-q", "--detach", commit], check=True)
        start = time.monotonic()
        shell = Shell(clone, home)
        try:
            succeeded = follow(shell, (clone / "infra" / "README.md").read_text(encoding="utf-8"))
            seconds = time.monotonic() - start
        finally:
            shell.type("okl down")
            shell.close()
        remaining = remaining_processes(home)
        print(
            f"{seconds:.0f} s in all; every line well: {succeeded}; processes left: {len(remaining)} {remaining or ''}"
        )
        if not succeeded or remaining:
            sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
