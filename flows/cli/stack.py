"""The commands `okl up`, `okl status` and `okl down`."""

from __future__ import annotations

import json as jsons
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.commands import Json, app, show
from okl.foundation.locations import okl_home

WIDTH = 100
ASK_SECONDS = 0.3  # of the five in which all is to be over


@app.command(
    short_help="Start the local stack in the background: Prefect's server and worker, Dask's scheduler and workers."
)
def up(
    port: Annotated[
        int, typer.Option(metavar="N", help="Of Prefect's API and pages; 0: last time's, 4200, or any that is free.")
    ] = 0,
    workers: Annotated[int, typer.Option(metavar="N", help="Dask worker processes.")] = 2,
    tls: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Certificates for Dask, as infra/tls/make.py writes them; none: unencrypted, on 127.0.0.1.",
        ),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay, and end with Ctrl-C or SIGTERM: for a service manager.")
    ] = False,
    json: Json = False,
) -> None:
    """Start the local stack in the background, and wait until all of it answers.

    Nothing listens beyond 127.0.0.1. Commands of okl find it by themselves; others need the line that is printed on
    standard output: eval "$(okl up)".
    """
    from flows.stack.control import prepare
    from flows.stack.control import up as bring_up
    from flows.stack.supervisor import StackOptions

    options = StackOptions(okl_home(), port, workers, None if tls is None else tls.absolute())
    if foreground:
        return _stay(options)
    begun = time.monotonic()
    prepare(options)
    line = _Line()
    try:
        state, started = bring_up(options, line.show)
    finally:
        line.clear()
    if json:
        from flows.stack.state import stack_folder
        from flows.stack.status import describe

        print(jsons.dumps(describe(state, stack_folder(options.home)) | {"started": started}))
        return None
    from flows.stack.status import export_line

    since = f"{time.monotonic() - begun:.1f} s" if started else f"already, since {time.ctime(state.since)}"
    said = f"okl is up ({since}): {state.workers} workers, pool {state.pool}, pages at {state.url.removesuffix('/api')}"
    print(said, file=sys.stderr)
    print(export_line(state.url))
    return None


@app.command(short_help="Show the processes of the local stack, their health, and the runs that are under way.")
def status(json: Json = False) -> None:
    """Show the processes of the local stack, their health, and the runs that are under way.

    Exit code 0: all is well; 1: there is no stack, or not all of it answers.
    """
    from flows.stack.state import live_state, stack_folder
    from flows.stack.status import describe, text

    folder = stack_folder(okl_home())
    state = live_state(folder)
    if state is None:
        show({"up": False, "healthy": False}, json, "okl is not up. Start it with: okl up")
        raise typer.Exit(1)
    stack = describe(state, folder)
    show(stack, json, text(stack))
    if not stack["healthy"]:
        raise typer.Exit(1)


@app.command(short_help="End the local stack and all that runs there, within five seconds.")
def down(json: Json = False) -> None:
    """End the local stack and all that runs there, within five seconds.

    Runs that are cut short can be gone on with: okl train --resume.
    """
    from flows.stack.control import down as bring_down
    from flows.stack.state import live_state, stack_folder
    from flows.stack.status import leaving, schedules_at

    begun, state, told = time.monotonic(), live_state(stack_folder(okl_home())), []
    if state is not None:
        told = leaving(state.url, os.environ.get("PREFECT_API_URL"), schedules_at(state.url, ASK_SECONDS))
    ended = bring_down(okl_home())
    seconds = time.monotonic() - begun
    said = f"okl is down ({seconds:.1f} s)." if ended else "okl was not up."
    show({"ended": ended, "seconds": round(seconds, 3)}, json, "\n".join([said, *told]))


def _stay(options: Any) -> None:
    from flows.stack.control import prepare
    from flows.stack.processes import heed_signals
    from flows.stack.supervisor import ANOTHER_IS_UP, PORT_IS_TAKEN, supervise
    from okl.foundation.errors import ExecutionError

    prepare(options)
    heed_signals()
    code = supervise(options)
    if code == ANOTHER_IS_UP:
        raise ExecutionError("A stack of this home folder is up already. End it with okl down, or set OKL_HOME.")
    if code == PORT_IS_TAKEN:
        raise ExecutionError(f"Port {options.port} is taken by somebody else. Give another by --port, or none.")


class _Line:
    """One line on standard error that says who is awaited; none where that is no terminal."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.shown = sys.stderr.isatty()

    def show(self, told: dict[str, str]) -> None:
        """Say it."""
        if self.shown:
            awaited = ", ".join(f"{name} {why}" for name, why in told.items() if why != "ok")
            print(
                f"\r\033[K{time.monotonic() - self.begun:3.0f} s  {awaited}"[:WIDTH],
                end="",
                file=sys.stderr,
                flush=True,
            )

    def clear(self) -> None:
        """Take it away."""
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
