"""Workers of this machine that run already, offered to whoever would start some: OKL_STANDING_WORKERS names them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

VARIABLE = "OKL_STANDING_WORKERS"


@dataclass(frozen=True)
class Standing:
    """A Dask scheduler on this machine, how many workers it has, and the certificates that it wants to see, if any."""

    scheduler: str
    workers: int
    tls: str | None = None

    def text(self) -> str:
        """For the environment."""
        return json.dumps(asdict(self))


def standing_workers(wanted: int) -> Standing | None:
    """The workers that are offered, if they are as many as are wanted; None if there are none, or too few.

    >>> os.environ[VARIABLE] = Standing("tcp://127.0.0.1:8786", 2).text()
    >>> standing_workers(2), standing_workers(3)
    (Standing(scheduler='tcp://127.0.0.1:8786', workers=2, tls=None), None)
    >>> del os.environ[VARIABLE]
    """
    try:
        offered = Standing(**json.loads(os.environ.get(VARIABLE, "null")))
    except (ValueError, TypeError):
        return None
    return offered if offered.workers >= wanted else None
