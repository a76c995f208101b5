"""What okl logs, in the log of the flow run that it belongs to, whichever thread it comes from."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context

from prefect.logging import get_run_logger


@contextmanager
def in_flow_log() -> Iterator[None]:
    """Have warnings of okl, and those that workers sent back, stored with the current flow run; they go on elsewhere.

    A terminal sees them as before: the loggers of flow runs are kept off it.
    """
    handler = _FlowLog()
    okl = logging.getLogger("okl")
    okl.addHandler(handler)
    try:
        yield
    finally:
        okl.removeHandler(handler)


class _FlowLog(logging.Handler):
    """Hands records to the logger of a flow run, in the context of its thread: others know no Prefect server."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._logger = get_run_logger()
        self._context = copy_context()

    def emit(self, record: logging.LogRecord) -> None:
        # a copy: a context can be entered once at a time, and threads log when they like
        self._context.copy().run(self._logger.log, record.levelno, "%s", record.getMessage())
