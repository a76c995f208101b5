"""What a registry holds, as lines to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.registry.describe import flattened
from okl.registry.entry import CANDIDATE, CHAMPION, PREVIOUS
from okl.registry.pruning import Pruned
from okl.store.texttables import aligned
from okl.store.wording import flat, number, rate

CHALLENGER = "challenger"  # in the figures of a retrained version: itself; the champion there is the one before
BEFORE = (
    "before: the champion then (at first majority class or mean), on the same reserved rows; each version has others"
)
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
    rows = [["version", "aliases", "parent", "new shards", "new rows", "learnt from", "size", "published", "figures"]]
    rows += [
        [
            str(version["version"]),
            ", ".join(version["aliases"]) or "-",
            number(version["parent"]),
            number(len(version["shards"])),
            number(version["rows"]),
            "-" if version["learnt_rows"] is None else f"{version['learnt_rows']:,} rows",
            "pruned" if version["pruned"] else size(version["size_bytes"]),
            version["at"],
            _figures(version["metrics"], judged_rows(version)) or "-",
        ]
        for version in found["versions"][:SHOWN]
    ]
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
            *([BEFORE] if any(judged_rows(version) for version in found["versions"][:SHOWN]) else []),
            "",
            *aligned(log),
        ]
    )


def difference_text(found: Mapping[str, Any]) -> str:
    """Of `describe_difference`."""
    first, second = (f"{found['model']}@{one}" for one in found["versions"])
    rows = [["", first, second]]
    for part, title in PARTS.items():
        rows += [[f"{title}.{_owner(name)}", number(one), number(other)] for name, (one, other) in found[part].items()]
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


def judged_rows(version: Mapping[str, Any]) -> int:
    """Reserved rows that a version was judged on when it was retrained; 0 for one that was not."""
    return int(((version["decision"] or {}).get("overall") or {}).get("rows") or 0)


def size(size_bytes: int) -> str:
    """Bytes for people.

    >>> size(2000), size(5 * 2**20)
    ('2.0 KiB', '5.0 MiB')
    """
    return f"{size_bytes / 2**20:,.1f} MiB" if size_bytes >= 2**20 else f"{size_bytes / 2**10:,.1f} KiB"


def moved_text(found: Mapping[str, Any]) -> str:
    """Of an entry that moved the champion, with `champion_before`.

    >>> moved_text({"model": "churn", "champion_before": 2, "aliases": {"champion": 1}})
    'churn: champion 1 (before: 2)'
    """
    before, now = found["champion_before"], found["aliases"].get(CHAMPION)
    was = " (it was already)" if before == now else f" (before: {before or 'none'})"
    others = {name: version for name, version in found["aliases"].items() if name != CHAMPION}
    return f"{found['model']}: champion {now}{was}" + (f", {_aliases(others)}" if others else "")


def _figures(metrics: Mapping[str, Any], rows: int) -> str:
    """The first figures of a version; of one that was retrained how it errs, and how what was before it did there.

    rows : that a retrained one was judged on, 0 if that is not known
    """
    if not (own := metrics.get(CHALLENGER)):
        return ", ".join(f"{name} {value}" for name, value in flat(metrics)[:2])
    before, on = metrics.get(CHAMPION) or {}, f" on {rows:,} rows" if rows else ""
    if "mistake_rate" in own:
        return f"mistakes {rate(own['mistake_rate'])} (before: {rate(before.get('mistake_rate'))}){on}"
    return ", ".join(f"{name} {text}{on}" for name, text in own_figures(metrics)[:1])


def own_figures(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and texts of a version's figures, each with that of what it was compared with, on the same rows."""
    own, before = metrics.get(CHALLENGER), flattened(metrics.get(CHAMPION) or {})
    if not own:
        return flat(metrics)
    figures = [
        (name, f"{number(value)} (before: {number(before[name])})" if name in before else number(value))
        for name, value in flattened(own).items()
    ]
    return figures + flat({name: value for name, value in metrics.items() if name not in (CHAMPION, CHALLENGER)})


def _owner(name: str) -> str:
    """A figure's name in a comparison of versions: what a version was judged against is not its own."""
    owner, dot, figure = name.partition(".")
    return {CHALLENGER: figure, CHAMPION: f"before.{figure}"}.get(owner, name) if dot else name


def _aliases(aliases: Mapping[str, int]) -> str:
    order = {CHAMPION: 0, PREVIOUS: 1, CANDIDATE: 2}
    names = sorted(aliases, key=lambda name: (order.get(name, 3), name))
    return ", ".join(f"{name} {aliases[name]}" for name in names) or "no aliases"
