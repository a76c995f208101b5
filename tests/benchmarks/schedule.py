"""Unattended retraining: a real stack, a real cron schedule, and faults that may happen to it.

    python -m tests.benchmarks.schedule [PART ...]

Everything runs in a fresh home folder, by `okl up` and `okl deploy`, with a schedule of one run per minute unless
stated otherwise. The parts, all but the last two by default:

firings   three firings retrain on shards that arrive meanwhile; champion, lineage, artifacts, scores are printed
server    the Prefect server is killed in the middle of a run; the supervisor restarts it; the run succeeds
late      the stack is down for some firings; the outcome of those, by each policy (12 minutes)
silent    worker and run are killed together, so that nothing reports it; the server gives up the run (6 minutes)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # no stubs
import pyarrow.parquet as pq
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.settings import temporary_settings

from flows.server import connection, stack_login
from flows.stack.state import StackState, live_state, stack_folder
from tests.lifecycle.shards import content

EVERY_MINUTE = "* * * * *"
MOST_SECONDS = 900.0
DOWN_SECONDS = 150.0
OPTIONS = ["--frequencies", "60", "--bandwidth", "1", "--step-size", "1", "--scale", "standard", "--key", "hour",
           "--settle-seconds", "0", "--publish-if", "not worse"]  # fmt: skip


class Stack:
    """`okl up` in a separate folder, and one model that is retrained there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.inbox = folder, folder / "home", folder / "inbox"
        self.environment = os.environ | {"OKL_HOME": str(self.home)}
        self.environment.pop("PREFECT_API_URL", None)
        self.days = 0
        for created in (self.home, self.inbox):
            created.mkdir()
        pq.write_table(content(1000, rows=5000), folder / "rows.parquet")

    def okl(self, *words: str) -> str:
        """Run a command that must succeed; return what it prints."""
        command = [sys.executable, "-m", "flows.cli", *words]
        process = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stderr
        return process.stdout

    def deploy(self, *words: str) -> None:
        """Deploy the retraining of `hours` and its scoring."""
        rows = ["--score", str(self.folder / "rows.parquet"), "--score-out", str(self.folder / "scores")]
        self.okl("deploy", str(self.inbox), "--retrain", "hours", *OPTIONS, *rows, *words)

    def arrive(self, rows: int = 2000) -> str:
        """Add a shard atomically, and return its name."""
        name, temporary = f"day-{self.days:03d}.parquet", self.inbox / ".arriving"
        pq.write_table(content(self.days, rows=rows), temporary)
        temporary.rename(self.inbox / name)
        self.days += 1
        return name

    def state(self) -> StackState:
        """Return the state of the running stack."""
        state = live_state(stack_folder(self.home))
        assert state is not None
        return state

    def child(self, name: str) -> psutil.Process:
        """Return a process of the stack."""
        return psutil.Process(next(child.pid for child in self.state().children if child.name == name))

    @contextmanager
    def client(self) -> Iterator[SyncPrefectClient]:
        """Yield a client of its server."""
        with (
            temporary_settings(connection(self.state().url, stack_login(self.home))),
            get_client(sync_client=True) as client,
        ):
            yield client


def runs_of(client: SyncPrefectClient, name: str) -> list[FlowRun]:
    """Return the runs of a deployment that are due, in order of their scheduled times."""
    deployment = DeploymentFilter(id=DeploymentFilterId(any_=[client.read_deployment_by_name(name).id]))
    runs = client.read_flow_runs(deployment_filter=deployment, limit=200)
    due = [run for run in runs if run.expected_start_time and run.expected_start_time <= datetime.now(UTC)]
    return sorted(due, key=lambda run: run.expected_start_time or datetime.now(UTC))


def wait_for(poll: Callable[[], Any], seconds: float = MOST_SECONDS) -> Any:
    """Return the first true value that `poll` returns."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(Exception):  # a starting server does not answer
            if value := poll():
                return value
        assert time.monotonic() < deadline, f"nothing within {seconds:.0f} s"
        time.sleep(1.0)


def describe(run: FlowRun) -> str:
    """Return a line about a run."""
    due, began = run.expected_start_time, run.start_time
    after = f"{(began - due).total_seconds():6.1f} s after" if began and due else "    not begun"
    message = (run.state.message or "") if run.state else ""
    seconds = run.total_run_time.total_seconds()
    return f"  due {due:%H:%M:%S}, began{after}, ran {seconds:5.1f} s: {run.state_name}  {message[:90]}"


def final(runs: list[FlowRun]) -> list[FlowRun]:
    """Return the runs that have ended."""
    return [run for run in runs if run.state is not None and run.state.is_final()]


def firings(stack: Stack) -> None:
    """Let three firings retrain on shards that arrive meanwhile."""
    first = [stack.arrive(), stack.arrive()]
    stack.deploy("--cron", EVERY_MINUTE)
    print(f"deployed, every minute; {', '.join(first)} are there")
    with stack.client() as client:
        for count in range(1, 4):
            ended = wait_for(partial(_some_over, client, "okl-retrain/hours", count))
            print(f"{datetime.now():%H:%M:%S} firing {count} is over; {stack.arrive()} arrives")
        scored = wait_for(partial(_some_over, client, "okl-score/hours", 3))
        print("\nretrained\n" + "\n".join(map(describe, ended)))
        print("scored by the event of the promotion\n" + "\n".join(map(describe, scored)))
        keys = sorted({item.key for item in client.read_latest_artifacts() if item.key})
        print(f"artifacts: {', '.join(keys)}")
    print(stack.okl("models", "show", "hours"))
    for version in ("1", "2", "champion"):
        lineage = stack.okl("models", "show", f"hours@{version}", "--verify").splitlines()
        prefixes = ("hours@", "parent", "learnt", "ancestors", "shard ", "day-")
        print("\n".join(line for line in lineage if line.startswith(prefixes)))
    print("scores: " + ", ".join(sorted(item.name for item in (stack.folder / "scores").iterdir())))


def start_run(client: SyncPrefectClient) -> FlowRun:
    return client.create_flow_run_from_deployment(client.read_deployment_by_name("okl-retrain/hours").id)


def long_run(stack: Stack, client: SyncPrefectClient) -> FlowRun:
    """Start a run on many rows, and return it after 3 s of running."""
    stack.deploy()
    stack.arrive(rows=1_500_000)
    run = start_run(client)
    wait_for(lambda: client.read_flow_run(run.id).state_name == "Running")
    time.sleep(3)
    return run


def server(stack: Stack) -> None:
    """Kill the server in the middle of a run."""
    with stack.client() as client:
        run = long_run(stack, client)
    server_process = stack.child("server")
    server_process.send_signal(signal.SIGKILL)
    start = time.monotonic()
    print(f"\nthe server (process {server_process.pid}) was killed 3 s after the run had begun")
    with stack.client() as client:
        wait_for(lambda: client.hello().status_code == 200)
        seconds, name = time.monotonic() - start, client.read_flow_run(run.id).state_name
        print(f"it answers again {seconds:.1f} s later: the run is {name}")
        wait_for(lambda: final([client.read_flow_run(run.id)]))
        print(describe(client.read_flow_run(run.id)))
    print(stack.okl("models", "show", "hours"))


def late(stack: Stack) -> None:
    """Let firings be missed while the stack is down."""
    stack.arrive()
    for policy in ("once", "skip"):
        stack.deploy("--cron", EVERY_MINUTE, "--late", policy, "--late-seconds", "90")
        with stack.client() as client:
            before = {run.id for run in wait_for(lambda: final(runs_of(client, "okl-retrain/hours")))}
            time.sleep(61)
        stack.okl("down")
        time.sleep(DOWN_SECONDS)
        up = datetime.now(UTC)
        stack.okl("up", "--workers", "1")
        with stack.client() as client:
            wait_for(partial(_over_and_due_after, client, up))
            print(f"\nlate = {policy}: down for {DOWN_SECONDS:.0f} s, up again at {datetime.now(UTC):%H:%M:%S}")
            print("\n".join(describe(run) for run in runs_of(client, "okl-retrain/hours") if run.id not in before))
    stack.deploy()


def _over_and_due_after(client: SyncPrefectClient, moment: datetime) -> bool:
    """Return whether a firing after a moment has ended, and all earlier ones too."""
    runs = runs_of(client, "okl-retrain/hours")
    over = [run for run in final(runs) if run.expected_start_time and run.expected_start_time > moment]
    return bool(over) and all(
        run in final(runs) for run in runs if run.expected_start_time and run.expected_start_time <= moment
    )


def _some_over(client: SyncPrefectClient, name: str, least: int) -> list[FlowRun] | None:
    over = final(runs_of(client, name))
    return over if len(over) >= least else None


def silent(stack: Stack) -> None:
    """Kill worker and run together, so that nothing is left to report it."""
    with stack.client() as client:
        run = long_run(stack, client)
        for name in ("prefect-worker",):
            for process in [*stack.child(name).children(recursive=True), stack.child(name)]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        start = time.monotonic()
        wait_for(lambda: final([client.read_flow_run(run.id)]))
        print(f"\nworker and run were killed; given up after {time.monotonic() - start:.0f} s")
        print(describe(client.read_flow_run(run.id)))
        again = start_run(client)
        wait_for(lambda: final([client.read_flow_run(again.id)]))
        print("the next run\n" + describe(client.read_flow_run(again.id)))
        wait_for((stack.home / "notices.jsonl").exists)
    print((stack.home / "notices.jsonl").read_text())


def main(parts: list[str]) -> None:
    """Start a stack, run the requested parts, and stop it."""
    with tempfile.TemporaryDirectory(prefix="okl-schedule-") as folder:
        stack = Stack(Path(folder))
        stack.okl("up", "--workers", "1")
        try:
            for part in parts:
                PARTS[part](stack)
        finally:
            stack.okl("down")


PARTS = {"firings": firings, "server": server, "late": late, "silent": silent}

if __name__ == "__main__":
    main(sys.argv[1:] or ["firings", "server"])
