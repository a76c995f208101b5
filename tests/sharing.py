"""Which tests run in one process, one after the other, because they share what is dear to start or to compile."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# how the names of files begin, and the name of what they share: the first that fits
TOGETHER = (
    ("tests/flows/test_cli_bad", "commands"),
    ("tests/flows/test_cli_interrupts", "commands"),  # which has servers of its own
    ("tests/flows/test_cli_solvers", "commands"),
    ("tests/flows/test_cli_tracking", "commands"),
    ("tests/flows/test_stack", "stack"),  # servers of its own, too
    ("tests/flows/", "server"),  # all others share a Prefect server
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
# what waits most comes first, beside what compiles for many others; units or how their names begin
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
    """Return the name of what is run in one process: a file, or several that share something."""
    file = nodeid.partition("::")[0]
    return next((name for start, name in TOGETHER if file.startswith(start)), file)


def place_of(item: pytest.Item) -> int:
    """Return a number to sort tests by: that of the first entry of EARLY which they belong to, or the last."""
    unit = unit_of(item.nodeid)
    return next((place for place, start in enumerate(EARLY) if unit.startswith(start)), len(EARLY))


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives units to processes in the order of collection, each to the first that has nothing left to do."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False  # xdist would leave the files of few tests, which wait most, to the end
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
