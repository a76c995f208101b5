"""A retraining in words: what was new, what was rejected and why, both models' figures, the decision and its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_ROWS = 50


def summary_sentence(result: Mapping[str, Any]) -> str:
    """One sentence for a terminal."""
    version = f", version {result['version']}" if result.get("version") else ""
    drift = f" {result['drift']['why']}" if result["drift"]["found"] else ""
    return f"{result['model']}: {result['outcome']}{version}. {result['reason']}{drift}"


def report_markdown(result: Mapping[str, Any]) -> str:
    """The report as markdown; what there is nothing of is left out."""
    shards = result["shards"]
    parts = [
        f"# Retraining of {result['model']}: {result['outcome']}",
        result["reason"],
        _section("New shards", ("shard", "rows"), [(one["name"], f"{one['rows']:,}") for one in shards["accepted"]]),
        _section(
            "Rejected shards",
            ("shard", "kinds", "reason"),
            [(one["name"], ", ".join(one["kinds"]), one.get("reason", "")) for one in shards["rejected"]],
        ),
        _section(
            "New rows as the champion saw them, before they were learnt",
            ("shard", "rows", "error", "constant", "agreement"),
            [
                (one["shard"], f"{one['rows']:,}", *(f"{one[name]:.4g}" for name in ("error", "constant", "agreement")))
                for one in result["progressive"]
            ],
        ),
        f"**Drift.** {result['drift']['why']}" if result["progressive"] else "",
        _section(
            "Learning, each row predicted before it was learnt",
            ("shard", "rows", "error", "baseline"),
            [
                (one["shard"], f"{one['rows']:,}", f"{one['error']:.4g}", f"{one['baseline_error']:.4g}")
                for one in result["learning"]
            ],
        ),
        _metrics(result["metrics"]),
        _slices(result["decision"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _metrics(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    names = [name for name in metrics.get("challenger", {}) if metrics["challenger"][name] is not None]
    champion = metrics.get("champion", {})
    rows = [(name, _figure(champion.get(name)), _figure(metrics["challenger"][name])) for name in names]
    return _section("On the same reserved rows", ("metric", "champion", "challenger"), rows)


def _slices(decision: Mapping[str, Any] | None) -> str:
    slices = (decision or {}).get("slices") or {}
    rows = [
        (name, f"{one['rows']:,}", f"{one['champion']:.4g}", f"{one['challenger']:.4g}", f"{one['p_worse']:.2g}")
        for name, one in slices.items()
    ]
    return _section("By slice", ("slice", "rows", "champion", "challenger", "p that it is worse by chance"), rows)


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in [header, *rows[:MOST_ROWS]]]
    lines.insert(1, "|" + "---|" * len(header))
    more = [f"and {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    return "\n".join([f"## {title}", "", *lines, *more])


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "-"
