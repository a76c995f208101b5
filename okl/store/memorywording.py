"""Words about the memory that a run was planned to take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MIB = 2**20


def memory_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """A line for a terminal; none where nothing was planned.

    >>> plan = {"worker_bytes": 600 * MIB, "held_bytes": 256 * MIB, "read_again_share": 0.25}
    >>> memory_facts({"memory_plan": plan | {"worker_limit_bytes": 1024 * MIB}, "workers": 2})
    [['Memory', 'at most 600 of 1,024 MiB a worker planned; 25% of its rows read again every round']]
    >>> memory_facts({"memory_plan": plan | {"worker_limit_bytes": None, "read_again_share": 0.0}})
    [['Memory', 'at most 600 MiB planned']]
    """
    plan: Mapping[str, Any] = result.get("memory_plan") or {}
    if not plan:
        return []
    limit = plan.get("worker_limit_bytes")
    of_limit = f" of {limit / MIB:,.0f}" if limit else ""
    whose = " a worker" if result.get("workers") else ""
    told = f"at most {plan['worker_bytes'] / MIB:,.0f}{of_limit} MiB{whose} planned"
    again = plan.get("read_again_share") or 0.0
    if again > 0.0:
        told += f"; {100 * again:.0f}% of {'its' if whose else 'the'} rows read again every round"
    return [["Memory", told]]


def memory_sentence(result: Mapping[str, Any]) -> str | None:
    """The same for the report, with what the plan is of, beside what this process took.

    A worker's plan is of going over rows while it learns; what brings answers together and solves has a plan of its
    own. The peak is of the whole life of this process, which may exceed either.

    >>> plan = {"worker_bytes": 650 * MIB, "driver_bytes": 1200 * MIB, "process_bytes": 360 * MIB}
    >>> print(memory_sentence({"memory_plan": plan, "peak_memory_bytes": 855 * MIB}))
    Memory: at most 650 MiB planned. That is to go over rows; to add up and solve, at most 1,200 MiB are planned \
(360 of either for Python and its libraries). This process took 855 MiB at its peak, with what is not planned, too, \
such as a source's ingest, a race or the evaluation.
    """
    facts = memory_facts(result)
    if not facts:
        return None
    plan, peak = result["memory_plan"], result.get("peak_memory_bytes")
    told = f"Memory: {facts[0][1]}."
    if driver := plan.get("driver_bytes"):
        told += (
            f" That is to go over rows; to add up and solve, at most {driver / MIB:,.0f} MiB are planned "
            f"({plan['process_bytes'] / MIB:,.0f} of either for Python and its libraries)."
        )
    if peak:
        told += (
            f" This process took {peak / MIB:,.0f} MiB at its peak, with what is not planned, too, such as a source's "
            "ingest, a race or the evaluation."
        )
    return told
