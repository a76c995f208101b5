"""Dask's own performance report of what a run did: a page of its dashboard, with the tasks and profiles of all workers.

It takes bokeh, Dask's own extra. Rounds that go by handlers are no tasks: of these only the profiles tell.
"""

from __future__ import annotations

import logging
import time
from importlib.util import find_spec
from typing import Any

logger = logging.getLogger("okl.execution")


class PerformanceReport:
    """Collects from when it is made; without bokeh it collects nothing.

    client : of distributed
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._begun = time.time()
        self._last: int | None = None
        if find_spec("bokeh") is not None:
            # by value, as a function without a name travels: a scheduler need not have okl
            self._last = client.run_on_scheduler(lambda dask_scheduler: int(dask_scheduler.monitor.count))
            client.get_task_stream(start=0, stop=0)  # the scheduler keeps no tasks unless it has been asked for them

    def page(self) -> str | None:
        """The report as a page that loads nothing from elsewhere; None without bokeh here or at the scheduler."""
        if self._last is None:
            return None
        try:
            page: str = self._client.sync(
                self._client.scheduler.performance_report,
                start=self._begun,
                last_count=self._last,
                code="",  # Dask would show the source of whoever calls
                mode="inline",
            )
        except Exception as error:  # of whatever kind: it is made by the scheduler, and no reason to lose a model
            logger.warning("Dask made no performance report (%s); the run itself is whole.", error)
            return None
        return page
