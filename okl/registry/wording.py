"""What a registry holds, as lines to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.configuration import IngestSettings, TrainSettings
from okl.registry.describe import flattened
from okl.registry.entry import CANDIDATE, CHAMPION, PREVIOUS
from okl.registry.pruning import Pruned
from okl.store.texttables import aligned
from okl.store.wording import flat, number, rate

CHALLENGER = "challenger"  # in the figures of a retrained version: itself; the champion there is the one before
SHOWN = 20  # versions of a model
PAGE = "report.html"
HIDDEN = ("out", "name", "weights_sha256")  # of settings: they decide nothing
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
    rows += [
        [
            str(version["version"]),
            ", ".join(version["aliases"]) or "-",
            number(version["parent"]),
            number(len(version["shards"])),
            number(version["rows"]),
            "pruned" if version["pruned"] else size(version["size_bytes"]),
            version["at"],
            _figures(version["metrics"]) or "-",
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
            "",
            *aligned(log),
        ]
    )


def version_text(found: Mapping[str, Any], whole: bool = False) -> str:
    """Of `describe_one`: how good it is, what it learnt and by which settings, and where it lies.

    whole : with every setting, what it was made with, and all shards
    """
    shards = found["shards"]
    decided = (found["decision"] or {}).get("reason")
    rows = [["aliases", ", ".join(found["aliases"]) or "-"], ["published", f"{found['at']} by {found['by']}"]]
    rows += [["why", str(decided or found["why"])]] if decided or found["why"] else []
    rows += [[f"metrics.{name}", text] for name, text in _own(found["metrics"])]
    given = _given(found)
    rows += [[f"settings.{name}", text] for name, text in flat(found["settings"]) if whole or name in given]
    before = f"; with all ancestors {_learnt(found['shards_in_all'], found['rows_in_all'])}" if found["parent"] else ""
    rows += flat_rows({
        "learnt": _learnt(len(shards), found["rows"]) + before,
        "parent": found["parent"],
        "files": "pruned" if found["pruned"] else f"{found['folder']} ({size(found['size_bytes'])})",
    })  # fmt: skip
    if PAGE in found["files"] and not found["pruned"]:
        rows.append(["report", f"{found['folder']}/{PAGE}"])
    head = f"{found['model']}@{found['version']}"
    if not whole:
        more = f"every setting, what it was made with, and its shards: okl models show {head} --all"
        return "\n".join([head, *aligned(rows), "", more])
    rows += flat_rows({"identity": found["identity"], "ancestors": found["ancestors"]})
    for part in ("decision", "environment"):
        rows += [[f"{part}.{name}", text] for name, text in flat(found[part])]
    learnt = [["shard", "rows", "sha256"]]
    learnt += [[str(one.get("name", "-")), number(one.get("rows")), one["sha256"][:16]] for one in shards]
    return "\n".join([head, *aligned(rows), "", *aligned(learnt)])


def _learnt(shards: int, rows: int) -> str:
    return f"{shards:,} {'shard' if shards == 1 else 'shards'}, {rows:,} rows"


def flat_rows(facts: Mapping[str, Any]) -> list[list[str]]:
    """Facts as rows of a table."""
    return [[name, text] for name, text in flat(facts)]


def _given(found: Mapping[str, Any]) -> set[str]:
    """Names of the settings that say what was learnt from and by which solver, and of those not as they are anyway."""
    train = TrainSettings.model_construct(data="").model_dump(mode="json")
    usual = flattened(train | {"ingest": IngestSettings().model_dump(mode="json")})
    told = set()
    for name, value in flattened(found["settings"]).items():
        setting = name.removeprefix("train.")
        odd = setting not in HIDDEN and not setting.startswith("judging.") and usual.get(setting, value) != value
        if odd or setting in ("data", "solver"):
            told.add(name)
    return told


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


def _figures(metrics: Mapping[str, Any]) -> str:
    """The first figures of a version; of one that was retrained how it errs, and how what was before it did there."""
    if not (own := metrics.get(CHALLENGER)):
        return ", ".join(f"{name} {value}" for name, value in flat(metrics)[:2])
    before = metrics.get(CHAMPION) or {}
    if "mistake_rate" in own:
        return f"mistakes {rate(own['mistake_rate'])} (before: {rate(before.get('mistake_rate'))})"
    return ", ".join(f"{name} {text}" for name, text in _own(metrics)[:1])


def _own(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
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
