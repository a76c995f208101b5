"""The latest challengers that were judged, published or kept back, for people who ask in the morning; reads only."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from okl.registry.model import RegisteredModel
from okl.retraining.contract import learnable
from okl.retraining.shardstore import ShardStore
from okl.store.places import Place
from okl.store.texttables import aligned

DATA = "data"  # the shard store's folder in that of a model
FOLDER = "attempts"  # in the shard store: what was kept back
PAGE = "report.html"  # of a version


def latest_attempts(model: RegisteredModel, most: int = 10) -> list[dict[str, Any]]:
    """Challengers that were judged, the newest first: at, outcome, version, champion, reason, page.

    outcome : "published" or "kept"; version : None if it was kept; champion : it was held against, None for none
    page : where its report lies; at : ISO 8601, "" where an older okl did not write it and the store does not tell

    Raises
    ------
    RegistryError, DataError : the registry does not answer, or its log is damaged
    """
    published = [
        {"at": entry.at, "outcome": "published", "version": made.version, "champion": made.lineage.parent,
         "reason": entry.why, "page": str(model.folder / "versions" / made.folder / PAGE)}
        for entry in model.entries() if (made := entry.published) is not None and made.lineage.decision
    ]  # fmt: skip
    found = published + _kept(model.folder / DATA / FOLDER)
    # of one second: by the champion of then, who stays after what was kept
    order = sorted(found, key=lambda one: (one["at"], one["champion"] or 0, one["outcome"] == "published"))
    return order[: -most - 1 : -1]


def quarantined(model: RegisteredModel, most: int = 10) -> list[dict[str, Any]]:
    """Files that are kept out by the contract or by what they say, by name: name, sha256, rows, reason,
    and whether they can be released.

    Raises
    ------
    DataError : the registry does not answer, or a record is damaged
    """
    records = ShardStore(model.folder / DATA).records().values()
    found = sorted((one for one in records if one.status == "quarantined"), key=lambda one: one.name)
    return [
        {"name": one.name, "sha256": one.sha256, "rows": one.rows, "reason": one.reason,
         "releasable": learnable(one.findings)} for one in found[:most]
    ]  # fmt: skip


def quarantined_text(found: list[dict[str, Any]]) -> str:
    """Of `quarantined`."""
    rows = [["quarantined", "learnt by", "why"]]
    for one in found:
        remedy = f"--release {one['sha256'][:16]}" if one["releasable"] else "mending the file"
        rows.append([one["name"], remedy, one["reason"]])
    return "\n".join(aligned(rows))


def _kept(folder: Place) -> list[dict[str, Any]]:
    if isinstance(folder, Path):
        files: list[Place] = [*folder.glob("*.json")]
    else:
        files = [file for file, _ in folder.files() if file.suffix == ".json"]
    kept = []
    for file in files:
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
            champion, reason, at = int(file.name[:8]), str(told["reason"]), str(told.get("at") or _changed(file))
        except (ValueError, KeyError, TypeError, AttributeError):  # as of `Attempts.find`: it is judged again
            continue
        kept.append(
            {"at": at, "outcome": "kept", "version": None, "champion": champion or None, "reason": reason,
             "page": str(folder / file.name.replace(".json", ".html"))}
        )  # fmt: skip
    return kept


def _changed(file: Place) -> str:
    if not isinstance(file, Path):
        return ""
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")


def attempts_text(found: list[dict[str, Any]]) -> str:
    """Of `latest_attempts`: what was judged and why, and below it where its report lies."""
    rows = [["attempt", "outcome", "why"]]
    for one in found:
        outcome = f"published {one['version']}" if one["version"] else "kept"
        rows.append([one["at"] or "-", outcome, one["reason"]])
    head, *lines = aligned(rows)
    told = [text for line, one in zip(lines, found, strict=True) for text in (line, f"  report: {one['page']}")]
    return "\n".join([head, *told])
