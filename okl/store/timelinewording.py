"""Words about where the time of a run went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEAST_SHARE = 0.005


def timeline_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """A line for a terminal: whose time, and the shares of it while the run learnt; none where nothing is known.

    >>> shares = {"driver": {"wait": 1.0}, "workers": {"read": 0.196, "learn": 0.8, "wait": 0.004}}
    >>> timeline_facts({"timeline": {"shares": shares, "workers": 2}, "workers": 2})
    [['Workers', '80% learn, 20% read']]
    """
    shares = _shares(result)
    return [[_who(result), _told(shares)]] if shares else []


def timeline_sentence(result: Mapping[str, Any]) -> str | None:
    """The same for the report."""
    shares = _shares(result)
    if not shares:
        return None
    count = (result.get("timeline") or {}).get("workers") or 0
    one, several = ("worker's", "workers'") if _who(result) == "Workers" else ("thread's", "threads'")
    whose = "this process's" if _who(result) == "Time" else f"its {one}" if count == 1 else f"its {count} {several}"
    return (
        f"While the run learnt, {whose} time went to: {_told(shares)}. Where one compiled loop maps and learns, "
        "mapping counts as learn."
    )


def _shares(result: Mapping[str, Any]) -> Mapping[str, float]:
    shares = (result.get("timeline") or {}).get("shares") or {}
    found: Mapping[str, float] = shares.get("workers") or shares.get("driver") or {}
    return found


def _who(result: Mapping[str, Any]) -> str:
    if not (result.get("timeline") or {}).get("shares", {}).get("workers"):
        return "Time"
    return "Workers" if result.get("workers") else "Threads"


def _told(shares: Mapping[str, float]) -> str:
    """
    >>> _told({"learn": 0.61, "read": 0.2, "wait": 0.19})
    '61% learn, 20% read, 19% wait'
    """
    named = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{100 * share:.0f}% {phase}" for phase, share in named if share >= LEAST_SHARE)
