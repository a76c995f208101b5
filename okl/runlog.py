"""What okl logs says of which run and shard it is: in this process, and on workers, whose warnings come back.

A worker's records go to Dask's own log of that worker, under `distributed.worker.okl`; warnings are also carried back
with the answer, and logged here. Each record has the attributes `run` and `shard`, and begins with them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

MOST_TOLD = 20  # warnings that one answer carries back
WORKER_LOGGER = "distributed.worker.okl"

Told = list[tuple[int, str]]
"""Level and text of each warning."""


class _Here(threading.local):
    """Of a thread: the call and the shard that it works on, and where its warnings are collected, if anywhere."""

    def __init__(self) -> None:
        self.call = ""
        self.shard = ""
        self.told: Told | None = None


_here = _Here()
_run = ""


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records say of which run and shard they are."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put run and shard before the message, and into the record, unless it begins with its run already."""
        run = _here.call.removeprefix("run ").rpartition(", ")[0] or _run
        kwargs["extra"] = {"run": run, "shard": _here.shard} | dict(kwargs.get("extra") or {})
        where = _where()
        if not where or str(msg).startswith("%s: "):  # which is a call's label
            return msg, kwargs
        return f"{where.replace('%', '%%')}: {msg}", kwargs


def _where() -> str:
    call = _here.call or (f"run {_run}" if _run else "")
    return ", ".join(filter(None, [call, _here.shard]))


def run_logger(name: str = "okl") -> RunLogger:
    """The logger of a name, as a `RunLogger`."""
    return RunLogger(logging.getLogger(name), {})


@contextmanager
def naming(run: str) -> Iterator[None]:
    """Name the run that this process is at, until the end of the block."""
    global _run
    before, _run = _run, run
    try:
        yield
    finally:
        _run = before


def at_shard(name: str) -> None:
    """Name the shard or item that this thread works on from here on."""
    _here.shard = name


@contextmanager
def at_call(call: str) -> Iterator[Told]:
    """Name the call that this thread of a worker works on, such as "run NAME, mix 12", and collect its warnings."""
    logger = logging.getLogger("okl")
    if not any(isinstance(handler, _Worker) for handler in logger.handlers):
        logger.addHandler(_Worker())
    before = _here.call, _here.shard, _here.told
    _here.call, _here.shard, _here.told = call, "", []
    try:
        yield _here.told
    finally:
        _here.call, _here.shard, _here.told = before


def tell_failure(failure: Exception) -> None:
    """Log a failure on a worker, in its own log only: the caller raises it."""
    logging.getLogger(WORKER_LOGGER).error("%s failed: %s: %s", _where(), type(failure).__name__, failure)


class _Worker(logging.Handler):
    """In a worker process: what okl logs goes to Dask's log of the worker, and warnings to whoever asked for work."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        logging.getLogger(WORKER_LOGGER).log(record.levelno, "%s", text)
        if record.levelno >= logging.WARNING and _here.told is not None and len(_here.told) < MOST_TOLD:
            _here.told.append((record.levelno, text))
