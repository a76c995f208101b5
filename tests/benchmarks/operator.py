"""An operator's path: `python -m tests.benchmarks.operator [COMMIT]` follows infra/README.md literally.

In a fresh clone, with an empty home and an environment with nothing of this one, each line of the page's sh blocks
is typed into one shell, in order. One word is changed: the schedule, from three at night to every minute. Between the
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
KEPT = ("LANG", "PIP_", "SSL_CERT", "TERM")  # how this machine reaches its package index is not okl's business


class Shell:
    """One bash, as an operator has it open.

    Parameters
    ----------
    folder : where it starts: the clone
    home : empty
    """

    def __init__(self, folder: Path, home: Path) -> None:
        # `python3` of a real installation: a shim of pyenv would ask its own home
        python = Path(os.path.realpath(sys.base_prefix)) / "bin"
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        environment = kept | {"HOME": str(home), "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin", "USER": "operator"}
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def type(self, line: str) -> tuple[int, str]:
        """Type a line, and wait for its end: exit code, and what it printed."""
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
        """Leave it."""
        self.process.communicate()


def lines_of(page: str) -> Iterator[str]:
    """The lines of the sh blocks of a page, continued ones as one."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        yield from filter(None, re.sub(r"\\\n\s*", "", block).splitlines())


def champion(shell: Shell) -> int:
    """The version that is champion."""
    code, printed = shell.type("okl models show forest@champion --json")
    return int(json.loads(printed.splitlines()[-1])["version"]) if code == 0 else 0


def follow(shell: Shell, page: str) -> bool:
    """Type all lines; tell whether all went well."""
    well = True
    arrived: float | None = None
    for line in lines_of(page):
        if arrived is not None and line.startswith("prefect flow-run ls"):
            well &= wait_for_night(shell, arrived)
            arrived = None
        begun = time.monotonic()
        code, printed = shell.type(line.replace(NIGHTLY, TRIAL))
        print(f"{time.monotonic() - begun:6.1f} s  {line}", flush=True)
        shown = printed.splitlines()[-40:]
        print("\n".join(f"            {one[:150]}" for one in shown), flush=True)
        if code != 0:
            print(f"          exit code {code}")
            well = False
        if "part-00001" in line:
            arrived = time.monotonic()
    return well


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


def left(home: Path) -> list[str]:
    """Processes that this home started and that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOME") == str(home):
                found.append(" ".join(process.cmdline()[:5]))
        except (psutil.Error, OSError):
            continue  # ended meanwhile, or another user's
    return found


def main(commit: str = "HEAD") -> None:
    """Clone, follow, tell."""
    with tempfile.TemporaryDirectory(prefix="okl-operator-") as folder:
        clone, home = Path(folder) / "okl", Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        subprocess.run(["git", "-C", str(clone), "checkout", "-q", "--detach", commit], check=True)
        begun = time.monotonic()
        shell = Shell(clone, home)
        try:
            well = follow(shell, (clone / "infra" / "README.md").read_text(encoding="utf-8"))
            seconds = time.monotonic() - begun
        finally:
            shell.type("okl down")
            shell.close()
        remaining = left(home)
        print(f"{seconds:.0f} s in all; every line well: {well}; processes left: {len(remaining)} {remaining or ''}")
        if not well or remaining:
            sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
