"""Groups of tests that run in one process because they share servers or compiled code that are slow to start."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# prefix of file names, and name of the group; the first match counts
GROUPS = (
    ("tests/flows/test_cli_bad", "commands"),
    ("tests/flows/test_cli_interrupts", "commands"),  # uses its own servers
    ("tests/flows/test_cli_solvers", "commands"),
    ("tests/flows/test_cli_tracking", "commands"),
    ("tests/flows/test_stack", "stack"),  # uses its own servers
    ("tests/flows/", "server"),  # all other files share a Prefect server
    ("tests/solvers/oco/", "rounds"),
    ("tests/docs/test_rounds", "rounds"),
    ("tests/distributed/", "backends"),
    ("tests/runs/compare/test_search", "two workers"),
    ("tests/foundation/test_telemetry", "two workers"),
    ("tests/data/ingest/test_writer", "two workers"),
    ("tests/data/ingest/test_value_formats", "two workers"),
    ("tests/docs/test_extensions", "two workers"),
    ("tests/features/test_sparse_maps", "two workers"),
    ("tests/runs/test_sparse", "two workers"),
    ("tests/solvers/online/test_sparse", "two workers"),
    ("tests/solvers/test_nystrom_map", "two workers"),
)
# start first: tests that mostly wait, and tests that compile code for many others; units or name prefixes
EARLY = (
    "server",
    "stack",
    "tests/compiled/",
    "rounds",
    "two workers",
    "commands",
    "tests/solvers/online/",
    "backends",
)


def unit_of(nodeid: str) -> str:
    """Return the name of the group that runs in one process: one file, or several that share something."""
    file = nodeid.partition("::")[0]
    return next((name for start, name in GROUPS if file.startswith(start)), file)


def place_of(item: pytest.Item) -> int:
    """Return a number to sort tests by: that of the first entry of EARLY which they belong to, or the last."""
    unit = unit_of(item.nodeid)
    return next((place for place, start in enumerate(EARLY) if unit.startswith(start)), len(EARLY))


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Scheduler that gives units in collection order to the first idle process."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False  # xdist would run files with few tests last, although these wait most
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
