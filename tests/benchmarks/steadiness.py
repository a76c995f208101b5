"""Checks that a measurement can be trusted: on idle cores, and repeatable."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import psutil  # type: ignore[import-untyped]

IDLE_PERCENT = 10.0  # of all cores in use by others, at most
STEADY = 1.25  # median over least, at most


def wait_for_idle_cores(patience_seconds: float) -> float:
    """Wait until the cores are idle, at most some seconds; returns the percentage in use at the end.

    Also needed after the benchmark's own peers: BLAS workers keep spinning for a while after their product, and would
    take a core from the next measurement.
    """
    end = monotonic() + patience_seconds
    while True:
        busy = float(psutil.cpu_percent(interval=0.3))
        if busy <= IDLE_PERCENT or monotonic() >= end:
            return busy


def verdict(
    value: float, spreads: Sequence[float], busy: float, at_least: float | None = None, at_most: float | None = None
) -> str:
    """Return met, MISSED, or INCONCLUSIVE with the reason; an unsteady measurement is never met or missed.

    spreads : median over least of each series that value is made of; busy : largest percentage in use beforehand
    """
    if at_least is None and at_most is None:
        return ""
    bound = f"at least {at_least:g}" if at_least is not None else f"at most {at_most:g}"
    if busy > IDLE_PERCENT:
        return f"  ({bound}: INCONCLUSIVE, others used {busy:.0f}% of the cores)"
    if max(spreads) > STEADY:
        return f"  ({bound}: INCONCLUSIVE, median over least is {max(spreads):.2f})"
    met = value >= at_least if at_least is not None else value <= (at_most or 0.0)
    return f"  ({bound}: {'met' if met else 'MISSED'})"
