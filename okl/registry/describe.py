"""What a registry holds, for programs: models, one model, one version, and what two versions differ in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.registry.entry import Entry
from okl.registry.lineage import WINDOW_ROWS
from okl.registry.model import RegisteredModel
from okl.registry.registry import Registry
from okl.registry.version import Version

LAST = 10  # entries of the log that are shown


def describe_registry(registry: Registry) -> dict[str, Any]:
    """All models: aliases, number of versions, the newest entry of the log."""
    models = []
    for model in registry.models():
        head = model.head()
        models.append(
            {
                "model": model.name,
                "aliases": dict(sorted(head.state.aliases.items())),
                "versions": head.state.latest,
                "last": describe_entry(head),
            }
        )
    return {"registry": registry.location, "models": models}


def describe_model(model: RegisteredModel) -> dict[str, Any]:
    """A model: aliases, versions (the newest first), the newest entries of its log."""
    model.version(1)  # says so if there is none
    entries = model.entries()
    state = entries[-1].state
    versions: list[dict[str, Any]] = []
    in_all: dict[int | None, int] = {}
    for entry in entries:
        if entry.published is not None:
            version = model.opened(entry.published, state)
            in_all[version.number] = rows_of(version) + in_all.get(version.lineage.parent, 0)
            told = {"learnt_rows": learnt_rows(version, in_all[version.number]), "at": entry.at, "by": entry.by}
            versions.append(describe_version(version, state.aliases) | told)
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
    """A version, with its whole lineage of its own."""
    return {
        "version": version.number,
        "aliases": sorted(name for name, number in aliases.items() if number == version.number),
        "pruned": version.pruned,
        "folder": str(version.folder),
        "size_bytes": version.published.size_bytes,
        "identity": version.identity,
        "rows": rows_of(version),
        **version.lineage.as_json(),
    }


def describe_one(model: RegisteredModel, version: Version) -> dict[str, Any]:
    """A version, when it was published, what it goes back to, and how many shards and rows they all learnt."""
    line = list(model.ancestry(version))
    entries = model.entries()
    made = next(one for one in entries if one.published is not None and one.published.version == version.number)
    in_all = sum(map(rows_of, line))
    return describe_version(version, entries[-1].state.aliases) | {
        "model": model.name,
        **{name: getattr(made, name) for name in ("at", "by", "why")},
        "files": version.published.files,
        "ancestors": [one.number for one in line[1:]],
        "shards_in_all": sum(len(one.lineage.shards) for one in line),
        "rows_in_all": in_all,
        "learnt_rows": learnt_rows(version, in_all),
    }


def describe_difference(model: RegisteredModel, first: Version, second: Version) -> dict[str, Any]:
    """What two versions differ in: both values of settings, figures and so on; shards that one of them learnt only."""
    found: dict[str, Any] = {"model": model.name, "versions": [first.number, second.number]}
    one, other = first.lineage.as_json(), second.lineage.as_json()
    for part in ("settings", "metrics", "environment", "decision"):
        before, after = flattened(one[part]), flattened(other[part])
        found[part] = {
            name: [before.get(name), after.get(name)]
            for name in dict.fromkeys([*before, *after])
            if before.get(name) != after.get(name)
        }
    learnt = [
        {str(shard["sha256"]): shard for version in [*model.ancestry(which)][::-1] for shard in version.lineage.shards}
        for which in (first, second)
    ]
    for index, name in enumerate(("shards_of_first_only", "shards_of_second_only")):
        found[name] = [dict(shard) for sha256, shard in learnt[index].items() if sha256 not in learnt[1 - index]]
    return found


def describe_entry(entry: Entry) -> dict[str, Any]:
    """What happened, and the aliases after it."""
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
    """Rows that this version learnt and its parent had not."""
    return sum(int(shard.get("rows", 0)) for shard in version.lineage.shards)


def learnt_rows(version: Version, in_all: int) -> int | None:
    """Rows that a version was learnt from; None of one solved over a window by an okl that did not write down how many.

    in_all : rows that it and its ancestors learnt, which one that went on from its parent was learnt from
    """
    made = version.lineage.environment
    if WINDOW_ROWS in made:
        return int(made[WINDOW_ROWS])
    return None if str(made.get("how", "")).startswith("solved anew") else in_all


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values of nested mappings by their paths.

    >>> flattened({"a": 1, "b": {"c": 2}})
    {'a': 1, 'b.c': 2}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return found
