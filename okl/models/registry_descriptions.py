"""Descriptions of a registry, its models, versions and log entries as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.models.registry import RegisteredModel, Registry, Version
from okl.models.registry_log import WINDOW_ROWS, Entry

LAST = 10  # entries of the log that are shown


def describe_registry(registry: Registry) -> dict[str, Any]:
    """Return all models: aliases, number of versions, the newest entry of the log."""
    models = [
        {
            "model": model.name,
            "aliases": dict(sorted(head.state.aliases.items())),
            "versions": head.state.latest,
            "last": describe_entry(head),
        }
        for model, head in ((model, model.head()) for model in registry.models())
    ]
    return {"registry": registry.location, "models": models}


def describe_model(model: RegisteredModel) -> dict[str, Any]:
    """Return a model: aliases, versions (the newest first), the newest entries of its log."""
    model.version(1)  # raises an error if there is none
    entries = model.entries()
    state = entries[-1].state
    versions: list[dict[str, Any]] = []
    in_all: dict[int | None, int] = {}
    for entry in entries:
        if entry.published is not None:
            version = model.opened(entry.published, state)
            in_all[version.number] = rows_of(version) + in_all.get(version.lineage.parent, 0)
            totals = {"learnt_rows": learnt_rows(version, in_all[version.number]), "at": entry.at, "by": entry.by}
            versions.append(describe_version(version, state.aliases) | totals)
    return {
        "model": model.name,
        "folder": str(model.folder),
        "aliases": dict(sorted(state.aliases.items())),
        "former_champions": list(state.former),
        "versions": versions[::-1],
        "entries": len(entries),
        "log": [describe_entry(entry) for entry in entries[: -LAST - 1 : -1]],
    }


def describe_version(version: Version, aliases: Mapping[str, int]) -> dict[str, Any]:
    """Describe a version, with its own lineage but not its ancestors'."""
    return {
        "version": version.number,
        "aliases": sorted(name for name, number in aliases.items() if number == version.number),
        "pruned": version.pruned,
        "folder": str(version.folder),
        "size_bytes": version.published.size_bytes,
        "identity": version.published.identity,
        "rows": rows_of(version),
        **version.lineage.as_json(),
    }


def describe_one(model: RegisteredModel, version: Version) -> dict[str, Any]:
    """Describe a version: its publication, its ancestors, and the numbers of shards and rows of all of these."""
    line = list(model.ancestry(version))
    entries = model.entries()
    made = next(entry for entry in entries if entry.published is not None and entry.published.version == version.number)
    in_all = sum(map(rows_of, line))
    return describe_version(version, entries[-1].state.aliases) | {
        "model": model.name,
        **{name: getattr(made, name) for name in ("at", "by", "why")},
        "files": version.published.files,
        "ancestors": [ancestor.number for ancestor in line[1:]],
        "shards_in_all": sum(len(member.lineage.shards) for member in line),
        "rows_in_all": in_all,
        "learnt_rows": learnt_rows(version, in_all),
    }


def is_of_retraining(result: Mapping[str, Any]) -> bool:
    """Return whether a result.json next to a model was written by a retraining: its keys differ from a run's.

    Its `progressive` is a list of shards, and its `metrics` are those of champion and challenger on reserved rows.
    """
    return "judged_on" in result


def shown_test(decision: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the paired test on the rows of a retraining's metrics: after drift the newest rows, otherwise all.

    Returns {} without such a test.
    """
    decision = decision or {}
    return decision.get("newest" if decision.get("after_drift") else "overall") or {}


def describe_difference(model: RegisteredModel, first: Version, second: Version) -> dict[str, Any]:
    """Describe the differences of two versions: settings, figures, and shards that only one of them was trained on.

    measured_rows : reserved rows that the figures of each are of, None if it was not compared
    """
    difference: dict[str, Any] = {"model": model.name, "versions": [first.number, second.number]}
    difference["measured_rows"] = [shown_test(one.lineage.decision).get("rows") for one in (first, second)]
    first_json, second_json = first.lineage.as_json(), second.lineage.as_json()
    for part in ("settings", "metrics", "environment", "decision"):
        difference[part] = differences(flattened(first_json[part]), flattened(second_json[part]))
    shards = [
        {str(shard["sha256"]): shard for version in [*model.ancestry(which)][::-1] for shard in version.lineage.shards}
        for which in (first, second)
    ]
    for index, name in enumerate(("shards_of_first_only", "shards_of_second_only")):
        difference[name] = [dict(shard) for sha256, shard in shards[index].items() if sha256 not in shards[1 - index]]
    return difference


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return both values of each name whose values differ; None for a missing one."""
    names = dict.fromkeys([*first, *second])
    return {name: [first.get(name), second.get(name)] for name in names if first.get(name) != second.get(name)}


def describe_entry(entry: Entry) -> dict[str, Any]:
    """Describe an entry of the log and the aliases after it."""
    return {
        "entry": entry.number,
        "kind": entry.kind,
        "version": entry.published.version if entry.published else None,
        "aliases": dict(sorted(entry.state.aliases.items())),
        "at": entry.at,
        "by": entry.by,
        "why": entry.why,
    }


def rows_of(version: Version) -> int:
    """Return the number of rows that this version was trained on and its parent was not."""
    return sum(int(shard.get("rows", 0)) for shard in version.lineage.shards)


def learnt_rows(version: Version, in_all: int) -> int | None:
    """Return the number of training rows of a version; None if it was solved on a window of unrecorded size.

    in_all : rows that it and its ancestors learned, which one that went on from its parent was learned from
    """
    made = version.lineage.environment
    if WINDOW_ROWS in made:
        return int(made[WINDOW_ROWS])
    return None if str(made.get("how", "")).startswith("solved anew") else in_all


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return values of nested mappings by their paths.

    >>> flattened({"a": 1, "b": {"c": 2}})
    {'a': 1, 'b.c': 2}
    """
    by_path: dict[str, Any] = {}
    for name, value in values.items():
        by_path |= flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return by_path
