"""What is other than in the version before, where a run has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.store.pageparts import Block, Grid, Section, Words, cut
from okl.store.wording import metric_name, number

PARTS = {"metrics": "Metrics", "data": "Data", "settings": "Settings"}
MOST_ROWS = 40


def changes(before: Mapping[str, Any] | None) -> Section | None:
    """Tables of figures, data and settings of two versions, as far as they differ; None where there was none before.

    before : name of that version; what it is; same_rows: whether both were measured on the same; and of metrics, data
        and settings both values by name, that of the version before in front
    """
    if not before:
        return None
    blocks: list[Block] = [Words(_beside(before))]
    for part, title in PARTS.items():
        if part not in before:  # told elsewhere
            continue
        rows = [
            [_plain(name), number(old), number(new), difference(old, new)] for name, (old, new) in before[part].items()
        ]
        header = ("", str(before["name"]), "this one", "change")
        blocks.append(
            Grid(title, header, cut(rows, MOST_ROWS)) if rows else Words(f"{title}: no difference is recorded.")
        )
    return Section("changed", f"What changed since {before['name']}?", blocks)


def difference(old: object, new: object) -> str:
    """What a number grew by; "" for what is no number.

    >>> difference(0.25, 0.2), difference(10, 15), difference("a", "b"), difference(None, 1)
    ('-0.0500', '+5', '', '')
    """
    if isinstance(old, bool) or isinstance(new, bool):
        return ""
    if not isinstance(old, int | float) or not isinstance(new, int | float):
        return ""
    return ("+" if new > old else "") + number(new - old)


def _beside(before: Mapping[str, Any]) -> str:
    rows = (
        "Both were measured on the same rows."
        if before.get("same_rows")
        else "Each was measured on rows of its own data, so that a difference of figures may be one of rows, too."
    )
    return f"{before['name']} is {before.get('what') or 'the version before'}. {rows}"


def _plain(name: str) -> str:
    *place, last = name.split(".")
    return " ".join([*place, metric_name(last)]).replace("_", " ")
