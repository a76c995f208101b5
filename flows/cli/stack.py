"""Commands `okl up`, `okl status` and `okl down`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from flows.cli.commands import Json, app, print_result
from flows.cli.options import option
from okl.foundation.errors import ConfigError, ExecutionError
from okl.foundation.locations import okl_home

WIDTH = 100
MOST_NAMES = 10
RUNS_SECONDS = 2.0
ASK_SECONDS = 0.3  # part of the five seconds within which the stack must stop


@app.command(short_help="Start the local stack: Prefect server and worker, Dask scheduler and workers.")
def up(
    port: Annotated[
        int, option("N", "Port of Prefect's API and web pages; 0: the last one, 4200, or any free port.")
    ] = 0,
    workers: Annotated[int, option("N", "Number of Dask worker processes.")] = 2,
    foreground: Annotated[
        bool,
        typer.Option("--foreground", help="Stay in the foreground until Ctrl-C or SIGTERM, for a service manager."),
    ] = False,
    json: Json = False,
) -> None:
    """Start the local stack in the background, and wait until all its processes are healthy.

    All processes listen on 127.0.0.1 only. Commands of okl connect to the stack automatically; for other programs,
    evaluate the line printed on standard output: eval "$(okl up)".
    """
    from flows.child import restore_signals
    from flows.server import login_file
    from flows.stack.control import prepare
    from flows.stack.control import up as bring_up
    from flows.stack.state import stack_folder
    from flows.stack.status import describe, variables
    from flows.stack.supervisor import ANOTHER_IS_UP, PORT_IS_TAKEN, StackOptions, supervise
    from okl.report.format import counted

    options = StackOptions(okl_home(), port, workers)
    prepare(options)
    if foreground:
        restore_signals()
        code = supervise(options)
        if code == ANOTHER_IS_UP:
            raise ExecutionError(
                "A stack with this home folder is already running. Stop it with okl down, or set another OKL_HOME."
            )
        if code == PORT_IS_TAKEN:
            raise ExecutionError(f"Port {port} is in use by another program. Give another --port, or leave it out.")
        return
    start, terminal = time.monotonic(), sys.stderr.isatty()
    print("Waiting until all processes of okl answer ...", end="" if terminal else "\n", file=sys.stderr, flush=True)

    def show(health: dict[str, str]) -> None:
        waiting = ", ".join(f"{name} {status}" for name, status in health.items() if status != "ok")
        _replace_line(f"{time.monotonic() - start:3.0f} s  {waiting}"[:WIDTH], terminal)

    try:
        state, started = bring_up(options, show)
    finally:
        _replace_line("", terminal)
    since = f"started in {time.monotonic() - start:.1f} s" if started else f"running since {time.ctime(state.since)}"
    if not json:
        pages, count = state.url.removesuffix("/api"), counted(state.workers, "worker")
        login = f"pages at {pages}, which ask for the login in {login_file(options.home)}"
        print(f"okl is up ({since}): {count}, pool {state.pool}, {login}", file=sys.stderr)
    stack = describe(state, stack_folder(options.home)) | {"started": started} if json else {}
    print_result(stack, json, f"export {variables(state.url)}")


def _replace_line(text: str, terminal: bool) -> None:
    """Replace the last line of standard error if that is a terminal."""
    if terminal:
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _confirm_interruption(runs: Sequence[Mapping[str, Any]]) -> None:
    """Ask whether to interrupt runs; raise ConfigError without a terminal, ExecutionError if the answer is no."""
    commands = " (a command, which continues without a record, unless it uses the workers)"
    names = [f"{run['name']}{commands if run['command'] else ''}" for run in runs]
    shown = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    problem = f"{len(names)} runs are in progress: {shown}." if len(names) > 1 else f"A run is in progress: {shown}."
    if not sys.stdin.isatty():
        raise ConfigError(f"{problem} Wait for the end (okl status), or interrupt: okl down --force.")
    if not typer.confirm(f"{problem} Interrupt?", err=True):
        raise ExecutionError("okl keeps running, as there are runs in progress.")


@app.command(short_help="Show the processes of the local stack, their health, and active runs.")
def status(json: Json = False) -> None:
    """Show the processes of the local stack, their health, and active runs.

    Exit code 0: all processes are healthy; 1: no stack is running, or a process does not answer.
    """
    from flows.stack.state import live_state, stack_folder
    from flows.stack.status import describe, text

    folder = stack_folder(okl_home())
    state = live_state(folder)
    if state is None:
        print_result({"up": False, "healthy": False}, json, "okl is not running. Start it with: okl up")
        raise typer.Exit(1)
    stack = describe(state, folder)
    print_result(stack, json, text(stack))
    if not stack["healthy"]:
        raise typer.Exit(1)


@app.command(short_help="Stop the local stack and its runs, within five seconds.")
def down(
    force: Annotated[bool, typer.Option("--force", help="Interrupt runs in progress without confirmation.")] = False,
    json: Json = False,
) -> None:
    """Stop the local stack and its runs, within five seconds.

    If runs are in progress, their names are shown, and the command asks whether to interrupt them. Interrupted runs can
    be resumed: okl train --resume. Commands such as okl train continue without a record, unless they use its workers.
    """
    from flows.stack.control import down as bring_down
    from flows.stack.state import live_state, stack_folder
    from flows.stack.status import active_runs, messages_after_stop, schedules_at

    state, notes = live_state(stack_folder(okl_home())), []
    if state is not None and not force and (runs := active_runs(state, RUNS_SECONDS)):
        _confirm_interruption(runs)
    start = time.monotonic()
    if state is not None:
        notes = messages_after_stop(state.url, os.environ.get("PREFECT_API_URL"), schedules_at(state.url, ASK_SECONDS))
    ended = bring_down(okl_home())
    seconds = time.monotonic() - start
    outcome = f"okl stopped ({seconds:.1f} s)." if ended else "okl was not running."
    print_result({"ended": ended, "seconds": round(seconds, 3)}, json, "\n".join([outcome, *notes]))
