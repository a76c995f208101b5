"""Faults at each stage of a recorded run in the foreground: the model is saved, or one sentence is printed.

    python -m tests.benchmarks.stagefaults [FAULT,...|all [STAGE,...]]

Needs root, for file systems in memory. `okl train --record` runs against the server of `okl up`, and waits at the
start of a stage (the last one, record, is the end of the record) until the fault is injected: its server is killed and
restarted by its supervisor, killed for good, hung, or replaced by another program; `okl down`; the disk of OKL_HOME
is full ("disk"), or also that of the output ("both disks"). A success has the bits of an undisturbed run and at most
one line of warning. Only with both disks full may a run fail, by one sentence, and the model must be saved if there was
room for it. Prints a row for each run (fault, stage, exit code, saved model, seconds since the fault) and what the run
printed; the exit code is 1 if one is wrong.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

from flows.stack.state import StackState, live_state, stack_folder
from tests.benchmarks.fulldisk import SMALL, Words, fill, model_digest, small_disk
from tests.flows.commandline import without_notice
from tests.flows.environment import child_environment
from tests.flows.strangers import NotPrefect
from tests.rows import curved, write

STAGES = ("ingest", "plan", "learn", "evaluate", "save", "report", "record")
MOST_SECONDS = 300.0
OKL = (sys.executable, "-m", "flows.cli")


def wait_at(stage: str, *words: str) -> None:
    """Run the command in this process; at the start of the stage, print a line and wait for one on standard input."""
    from flows.cli import main
    from flows.foreground import FollowedRun, Recorder
    from okl.runs.run import Run

    followed = Event()

    def reached() -> None:
        print("reached", flush=True)
        sys.stdin.readline()

    perform, follow, close = Run.perform_stage, FollowedRun.perform_stage, Recorder.close

    def perform_stage(run: Run, name: str) -> dict[str, object]:  # type: ignore[type-arg]
        if name == stage:
            followed.wait(MOST_SECONDS)  # Prefect has recorded the previous stages: its import takes seconds
            reached()
        return perform(run, name)

    def follow_stage(copy: FollowedRun, name: str) -> dict[str, object]:
        if name == stage:
            followed.set()
        return follow(copy, name)

    def close_record(recorder: Recorder) -> None:
        if stage == "record":
            reached()
        close(recorder)

    Run.perform_stage, Recorder.close = perform_stage, close_record  # type: ignore[method-assign, assignment]
    FollowedRun.perform_stage = follow_stage  # type: ignore[method-assign, assignment]
    sys.argv = ["okl", *words]
    main()


# Faults, each a context in which it is present


class Stack:
    """Stack of a home folder; the home and the folder of the outputs are each on a separate disk."""

    def __init__(self, home: Path, output: Path) -> None:
        self.home, self.output = home, output
        self.environment = child_environment(OKL_HOME=str(home))

    def okl(self, *words: str) -> None:
        process = subprocess.run([*OKL, *words], env=self.environment, capture_output=True, text=True, check=False)
        if process.returncode:
            raise RuntimeError(f"okl {' '.join(words)}: {process.stderr}")

    @property
    def state(self) -> StackState:
        state = live_state(stack_folder(self.home))
        assert state is not None, "it is up"
        return state

    def kill(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        pid = next(child.pid for child in self.state.children if child.name == "server")
        assert pid is not None
        os.kill(pid, number)


@contextmanager
def killed(stack: Stack) -> Iterator[None]:
    stack.kill(signal.SIGKILL)
    yield


@contextmanager
def gone(stack: Stack) -> Iterator[None]:
    os.kill(stack.state.pid, signal.SIGKILL)  # its children end with it
    yield


@contextmanager
def hung(stack: Stack) -> Iterator[None]:
    stack.kill(signal.SIGSTOP)
    try:
        yield
    finally:
        stack.kill(signal.SIGCONT)


@contextmanager
def replaced(stack: Stack) -> Iterator[None]:
    port = urlsplit(stack.state.url).port
    assert port is not None
    stack.okl("down", "--force")
    with ThreadingHTTPServer(("127.0.0.1", port), NotPrefect) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        yield
        other.shutdown()


@contextmanager
def down(stack: Stack) -> Iterator[None]:
    stack.okl("down", "--force")
    yield


@contextmanager
def full_home(stack: Stack) -> Iterator[None]:
    with full(stack.home.parent):
        yield


@contextmanager
def full_disks(stack: Stack) -> Iterator[None]:
    with full(stack.home.parent), full(stack.output):
        yield


@contextmanager
def full(disk: Path) -> Iterator[None]:
    fill(disk, 0)
    try:
        yield
    finally:
        (disk / "ballast").unlink()


FAULTS: dict[str, Callable[[Stack], object]] = {
    "killed": killed, "gone": gone, "hung": hung, "replaced": replaced, "down": down, "disk": full_home,
    "both disks": full_disks,
}  # fmt: skip


# Runs


def disturbed(stack: Stack, rows: Path, fault: str, stage: str, whole: str) -> str:
    """Run `okl train` with a fault from a stage on; print a row and return the failed checks, "" for none."""
    out = stack.output / f"{fault.replace(' ', '-')}-{stage}"
    words: Words = ("train", str(rows), "--target", "y", "--out", str(out), "--record", *SMALL)
    command = [sys.executable, "-m", "tests.benchmarks.stagefaults", "wait", stage, *words]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=stack.environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    while (line := process.stdout.readline()) and line != "reached\n":
        pass
    with FAULTS[fault](stack):  # type: ignore[attr-defined]
        start, late = time.monotonic(), ""
        try:
            _, err = process.communicate("\n", timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            late, (_, err) = f"still running after {MOST_SECONDS:.0f} s", process.communicate()
        seconds = time.monotonic() - start
    lines = without_notice(err).splitlines()
    saved_run = next((path for path in (out, out.with_name(f"{out.name}-so-far")) if (path / "model").is_dir()), None)
    saved = "no" if saved_run is None else "equal bits" if model_digest(saved_run) == whole else "OTHER BITS"
    print(f"{fault:10s}  {stage:8s}  {process.returncode}  {saved:10s}  {seconds:5.1f} s", *lines, sep="\n    ")
    errors = sum(entry.startswith("Error: ") for entry in lines)
    for folder in stack.output.iterdir():
        if folder.name != "ballast":
            shutil.rmtree(folder)
    ok = process.returncode == 0
    checks = {
        late: bool(late),
        "a traceback": "Traceback" in err,
        "other bits": saved == "OTHER BITS",
        "neither a model nor one sentence": not ok and errors != 1,
        "success without a model": ok and (saved == "no" or errors > 0),
        "failed": not ok and fault != "both disks",
        "the model is lost": saved == "no" and stage in ("report", "record"),
        "more than one sentence": ok and len(lines) > 1,
    }
    return ", ".join(name for name, holds in checks.items() if holds)


def main(faults: str = "all", stages: str = ",".join(STAGES)) -> int:
    """Inject the faults; return how many runs failed a check."""
    chosen, wrong = list(FAULTS) if faults == "all" else faults.split(","), 0
    with tempfile.TemporaryDirectory(prefix="okl-stages-") as name, ExitStack() as blocks:
        folder = Path(name)
        rows = write(folder, curved(3000).drop_columns(["split"]))
        disks = [blocks.enter_context(small_disk(folder / place)) for place in ("home", "out")]
        stack = Stack(disks[0] / "okl", disks[1])
        blocks.callback(stack.okl, "down", "--force")
        stack.okl("up", "--workers", "1")
        stack.okl("train", str(rows), "--target", "y", "--out", str(disks[1] / "whole"), "--record", *SMALL)
        whole = model_digest(disks[1] / "whole")
        for fault in chosen:
            for stage in stages.split(","):
                stack.okl("up", "--workers", "1")
                if failures := disturbed(stack, rows, fault, stage, whole):
                    wrong += 1
                    print(f"  WRONG: {failures}", flush=True)
    print(f"{wrong} wrong")
    return wrong


if __name__ == "__main__":
    if sys.argv[1:2] == ["wait"]:
        wait_at(*sys.argv[2:])
    else:
        sys.exit(min(1, main(*sys.argv[1:])))
