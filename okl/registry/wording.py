"""What a registry holds, as lines to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.registry.entry import CANDIDATE, CHAMPION, PREVIOUS
from okl.registry.pruning import Pruned
from okl.store.texttables import aligned
from okl.store.wording import flat, number

SHOWN = 20  # versions of a model
PARTS = {"settings": "settings", "metrics": "metrics", "decision": "decision", "environment": "environment"}


def registry_text(found: Mapping[str, Any]) -> str:
    """Of `describe_registry`."""
    names = (CHAMPION, PREVIOUS, CANDIDATE)
    rows = [["model", *names, "versions", "last change"]]
    rows += [
        [
            model["model"],
            *(number(model["aliases"].get(name)) for name in names),
            number(model["versions"]),
            f"{model['last']['kind']} {model['last']['at']}",
        ]
        for model in found["models"]
    ]
    return "\n".join([found["registry"], *(aligned(rows) if found["models"] else ["no model has a version yet"])])


def model_text(found: Mapping[str, Any]) -> str:
    """Of `describe_model`."""
    rows = [["version", "aliases", "parent", "shards", "rows", "size", "published", "figures"]]
    for version in found["versions"][:SHOWN]:
        figures = ", ".join(f"{name} {value}" for name, value in flat(version["metrics"])[:2])
        rows.append(
            [
                str(version["version"]),
                ", ".join(version["aliases"]) or "-",
                number(version["parent"]),
                number(len(version["shards"])),
                number(version["rows"]),
                "pruned" if version["pruned"] else size(version["size_bytes"]),
                version["at"],
                figures or "-",
            ]
        )
    more = len(found["versions"]) - SHOWN
    log = [["entry", "what", "aliases after it", "at", "by", "why"]]
    for entry in found["log"]:
        what = entry["kind"] + (f" {entry['version']}" if entry["version"] else "")
        log.append([str(entry["entry"]), what, _aliases(entry["aliases"]), entry["at"], entry["by"], entry["why"]])
    return "\n".join(
        [
            f"{found['model']}: {_aliases(found['aliases'])}  ({found['folder']})",
            *aligned(rows),
            *([f"... and {more} more versions (--json shows all)"] if more > 0 else []),
            "",
            *aligned(log),
        ]
    )


def version_text(found: Mapping[str, Any]) -> str:
    """Of `describe_one`."""
    facts = {
        "aliases": ", ".join(found["aliases"]) or "-",
        "parent": found["parent"],
        "files": "pruned" if found["pruned"] else f"{found['folder']} ({size(found['size_bytes'])})",
        "identity": found["identity"],
        "learnt": f"{len(found['shards']):,} shards, {found['rows']:,} rows; with all ancestors "
        f"{found['shards_in_all']:,} shards, {found['rows_in_all']:,} rows",
        "ancestors": found["ancestors"],
    }
    rows = [[name, text] for name, text in flat(facts)]
    for part, title in PARTS.items():
        rows += [[f"{title}.{name}", text] for name, text in flat(found[part])]
    shards = [["shard", "rows", "sha256"]]
    shards += [[str(one.get("name", "-")), number(one.get("rows")), one["sha256"][:16]] for one in found["shards"]]
    return "\n".join([f"{found['model']}@{found['version']}", *aligned(rows), "", *aligned(shards)])


def difference_text(found: Mapping[str, Any]) -> str:
    """Of `describe_difference`."""
    first, second = (f"{found['model']}@{one}" for one in found["versions"])
    rows = [["", first, second]]
    for part, title in PARTS.items():
        rows += [[f"{title}.{name}", number(one), number(other)] for name, (one, other) in found[part].items()]
    for name, text in (("shards_of_first_only", first), ("shards_of_second_only", second)):
        shards = found[name]
        total = sum(int(shard.get("rows", 0)) for shard in shards)
        cells = [f"{len(shards):,} ({total:,} rows)" if text == which else "" for which in (first, second)]
        rows += [["shards learnt only by", *cells]] if shards else []
    return "\n".join(aligned(rows) if len(rows) > 1 else [f"{first} and {second} do not differ in anything recorded."])


def pruned_text(pruned: Pruned, dry_run: bool) -> str:
    """What pruning removed, or would."""
    if not pruned.versions and not pruned.leftovers:
        return "nothing to prune"
    listed = ", ".join(map(str, pruned.versions)) or "none"
    left = f", and what {len(pruned.leftovers)} killed writers left" if pruned.leftovers else ""
    return (
        f"{'would remove' if dry_run else 'removed'} the files of versions {listed} ({size(pruned.size_bytes)}){left}"
    )


def size(size_bytes: int) -> str:
    """Bytes for people.

    >>> size(2000), size(5 * 2**20)
    ('2.0 KiB', '5.0 MiB')
    """
    return f"{size_bytes / 2**20:,.1f} MiB" if size_bytes >= 2**20 else f"{size_bytes / 2**10:,.1f} KiB"


def _aliases(aliases: Mapping[str, int]) -> str:
    order = {CHAMPION: 0, PREVIOUS: 1, CANDIDATE: 2}
    names = sorted(aliases, key=lambda name: (order.get(name, 3), name))
    return ", ".join(f"{name} {aliases[name]}" for name in names) or "no aliases"
