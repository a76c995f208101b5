"""The process of a Dask scheduler or worker of the stack: `python -m flows.stack.node ROLE PARENT OPTIONS`."""

from __future__ import annotations

import json
import sys
from typing import Any

from flows.stack.mortal import begin
from flows.stack.rehearsal import rehearse


def main(role: str, parent: int, options: dict[str, Any]) -> None:
    """Serve until the process is ended, or its parent is gone."""
    begin(parent)
    from okl.distributed.cluster import serve_scheduler, serve_worker

    if role == "scheduler":
        serve_scheduler(**options)
    else:
        rehearse()
        serve_worker(**options)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
