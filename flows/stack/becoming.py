"""What a copy of the fork server is asked to run, and how it becomes the process that runs it."""

from __future__ import annotations

import io
import os
import runpy
import signal
import socket
import sys
from dataclasses import dataclass, field

from flows.stack.handoff import STREAMS
from flows.stack.mortal import end_with, heed_signals


@dataclass
class Request:
    """What somebody asks to be run, and the connection to them."""

    connection: socket.socket
    module: str
    words: list[str]
    environment: dict[str, str]
    directory: str
    ignored: list[int]
    streams: list[int] = field(default_factory=list)


def become(request: Request, parent: int) -> None:
    """Make this copy the process that was asked for, and run its module; returns when that has ended."""
    os.setsid()
    heed_signals()
    for number in request.ignored:
        signal.signal(number, signal.SIG_IGN)
    end_with(parent)
    for stream, opened in zip(STREAMS, request.streams, strict=True):
        os.dup2(opened, stream)
        os.close(opened)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False))  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _writer(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _writer(2)  # type: ignore[misc]
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.directory)
    sys.path.insert(0, request.directory)  # as -m has it
    sys.argv = [request.module, *request.words]
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)


def _writer(stream: int) -> io.TextIOWrapper:
    raw = io.FileIO(stream, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), line_buffering=stream == 2 or raw.isatty(), write_through=stream == 2
    )
