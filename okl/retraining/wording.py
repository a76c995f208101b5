"""A retraining in sentences: how it ended, and what is proved of what it learnt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def summary_sentence(result: Mapping[str, Any]) -> str:
    """One sentence for a terminal."""
    version = f", version {result['version']}" if result.get("version") else ""
    drift = f" {result['drift']['why']}" if result["drift"]["found"] else ""
    return f"{result['model']}: {result['outcome']}{version}. {result['reason']}{drift}"


def certified_sentence(online: bool, certificate: Mapping[str, Any] | None) -> str:
    """What is proved of what was learnt: of an online learner that went on, nothing but its own curve."""
    if online:
        return (
            "Nothing is certified: an online learner's regret is bounded from the beginning of its stream, and rows "
            "before are not read again; its errors on rows before they were learnt and on reserved rows are measured."
        )
    if certificate is None:
        return ""
    return (
        f"Certified over the rows of this window alone: {certificate['kind']} {certificate['gap']:.3g}, an objective "
        f"of {certificate['objective']:.6g}; where the solver began does not enter the proof."
    )
