"""Model versions as text, and the import of trained models into the registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from okl.foundation.locations import Place, RemotePath
from okl.foundation.settings import IngestSettings
from okl.models.file import DESCRIPTION, WEIGHTS, Model, load_model, weights_digest
from okl.models.registry import (
    CANDIDATE,
    CHAMPION,
    MODEL,
    PREVIOUS,
    Lineage,
    Pruned,
    Published,
    RegisteredModel,
    Version,
    flattened,
    is_of_retraining,
)
from okl.report.format import aligned, flatten, mistake_rate_text, number
from okl.report.run import write_report
from okl.runs.checkpoint import WHERE_IT_RUNS
from okl.solvers.settings import TrainSettings

# Changes against the previous version.

BY_PLACE = ("data", "name", "out", "weights_sha256", "judging")  # locations and settings of the comparison


def version_before(model: RegisteredModel) -> Version | None:
    """Return the champion, or the newest version where there is none; None of a model that has no version."""
    head = model.head()
    if not head.state.latest:
        return None
    return model.resolved(head.state.latest if head.state.champion is None else CHAMPION, head)


def changes_since(before: Version, now: Lineage, what: str) -> dict[str, Any]:
    """Return both values by name, that of the version before in front, of all that is not the same.

    Parameters
    ----------
    what : the version before is, for people

    Returns
    -------
    name, what, same_rows; metrics, data, settings: name to a pair; as `okl.report.sections.changes_section` draws it
    """
    # a version that continues, or reads a window again, lists only the shards that its parent had not
    counted = "{} learnt" if before.lineage.parent is None and now.parent is None else "new {}"
    pairs = {
        "metrics": (_figures(before.lineage.metrics), _figures(now.metrics)),
        "data": (_data(before.lineage, counted), _data(now, counted)),
        "settings": _settings(before.lineage.settings, now.settings),
    }
    return {"name": str(before), "what": what, "same_rows": False} | {
        part: {
            name: [first.get(name), other.get(name)]
            for name in dict.fromkeys([*first, *other])
            if first.get(name) != other.get(name)
        }
        for part, (first, other) in pairs.items()
    }


def _figures(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the figures of a run's test rows, or of a retraining's reserved rows."""
    parts = (metrics.get(part) for part in ("test", "challenger", "progressive"))
    return next((dict(part) for part in parts if part), {})


def _data(lineage: Lineage, counted: str) -> dict[str, Any]:
    """Return facts of data; counted : name of a number of shards or rows."""
    shards = lineage.shards
    times = [shard["last_time"] for shard in shards if shard.get("last_time") is not None]
    return {
        counted.format("shards"): len(shards),
        counted.format("rows"): sum(int(shard.get("rows", 0)) for shard in shards),
        "last shard": shards[-1].get("name") if shards else None,
    } | ({"latest time": times[-1]} if times else {})


def _settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return texts of settings by name; of a run and a retraining only the settings that both have."""
    first, second = (dict(flatten(_of_learning(settings))) for settings in (before, now))
    alike = ("train" in before) == ("train" in now)
    names = first.keys() | second.keys() if alike else first.keys() & second.keys()
    selected = [{name: text for name, text in texts.items() if name in names} for texts in (first, second)]
    return selected[0], selected[1]


def _of_learning(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of training, which a retraining stores under the name train."""
    together = {**(settings.get("train") or {}), **{name: settings[name] for name in settings if name != "train"}}
    return {name: value for name, value in together.items() if name not in BY_PLACE}


# Registry contents as text.

CHALLENGER = "challenger"  # in the figures of a retrained version: itself; the champion there is the one before
BEFORE = (
    "before: the previous champion (for version 1 the majority class or mean) on the same reserved rows; the rows "
    "differ by version"
)
SHOWN = 20  # versions of a model
PARTS = {"settings": "settings", "metrics": "metrics", "decision": "decision", "environment": "environment"}


def registry_text(listing: Mapping[str, Any]) -> str:
    """Render `describe_registry` as text."""
    names = (CHAMPION, PREVIOUS, CANDIDATE)
    rows = [["model", *names, "versions", "last change"]]
    rows += [
        [
            model["model"],
            *(number(model["aliases"].get(name)) for name in names),
            number(model["versions"]),
            f"{model['last']['kind']} {model['last']['at']}",
        ]
        for model in listing["models"]
    ]
    return "\n".join([listing["registry"], *(aligned(rows) if listing["models"] else ["no model has a version yet"])])


def model_text(description: Mapping[str, Any]) -> str:
    """Render `describe_model` as text."""
    rows = [["version", "aliases", "parent", "new shards", "new rows", "trained on", "size", "published", "figures"]]
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
            _metric_lines(version["metrics"], judged_rows(version)) or "-",
        ]
        for version in description["versions"][:SHOWN]
    ]
    more = len(description["versions"]) - SHOWN
    log = [["entry", "what", "aliases after it", "at", "by", "why"]]
    for entry in description["log"]:
        what = entry["kind"] + (f" {entry['version']}" if entry["version"] else "")
        log.append([str(entry["entry"]), what, _aliases(entry["aliases"]), entry["at"], entry["by"], entry["why"]])
    return "\n".join(
        [
            f"{description['model']}: {_aliases(description['aliases'])}  ({description['folder']})",
            *aligned(rows),
            *([f"... and {more} more versions (--json shows all)"] if more > 0 else []),
            *([BEFORE] if any(judged_rows(version) for version in description["versions"][:SHOWN]) else []),
            "",
            *aligned(log),
        ]
    )


def difference_text(difference: Mapping[str, Any]) -> str:
    """Render `describe_difference` as text."""
    first, second = (f"{difference['model']}@{version}" for version in difference["versions"])
    rows = [["", first, second]]
    for part, title in PARTS.items():
        rows += [
            [f"{title}.{_owner(name)}", number(version), number(other)]
            for name, (version, other) in difference[part].items()
        ]
    for name, text in (("shards_of_first_only", first), ("shards_of_second_only", second)):
        shards = difference[name]
        total = sum(int(shard.get("rows", 0)) for shard in shards)
        cells = [f"{len(shards):,} ({total:,} rows)" if text == which else "" for which in (first, second)]
        rows += [["shards learnt only by", *cells]] if shards else []
    return "\n".join(aligned(rows) if len(rows) > 1 else [f"{first} and {second} have no recorded differences."])


def pruned_text(pruned: Pruned, dry_run: bool) -> str:
    """Render what pruning removed, or would remove, as text."""
    if not pruned.versions and not pruned.leftovers:
        return "nothing to prune"
    listed = ", ".join(map(str, pruned.versions)) or "none"
    suffix = f", and files of {len(pruned.leftovers)} interrupted writers" if pruned.leftovers else ""
    return (
        f"{'would remove' if dry_run else 'removed'} the files of versions {listed} ({size(pruned.size_bytes)}){suffix}"
    )


def judged_rows(version: Mapping[str, Any]) -> int:
    """Return the number of reserved rows on which a version was compared; 0 if it was not."""
    return int(((version["decision"] or {}).get("overall") or {}).get("rows") or 0)


def size(size_bytes: int) -> str:
    """Return bytes for people.

    >>> size(2000), size(5 * 2**20)
    ('2.0 KiB', '5.0 MiB')
    """
    return f"{size_bytes / 2**20:,.1f} MiB" if size_bytes >= 2**20 else f"{size_bytes / 2**10:,.1f} KiB"


def moved_text(moves: Mapping[str, Any]) -> str:
    """Render an entry that moved the champion, with `champion_before`, as text.

    >>> moved_text({"model": "churn", "champion_before": 2, "aliases": {"champion": 1}})
    'churn: champion 1 (before: 2)'
    """
    before, now = moves["champion_before"], moves["aliases"].get(CHAMPION)
    was = " (it was already)" if before == now else f" (before: {before or 'none'})"
    others = {name: version for name, version in moves["aliases"].items() if name != CHAMPION}
    return f"{moves['model']}: champion {now}{was}" + (f", {_aliases(others)}" if others else "")


def _metric_lines(metrics: Mapping[str, Any], rows: int) -> str:
    """Return the first figures of a version.

    Of one that was retrained how it errs, and how what was before it did there.

    rows : number of reserved rows of the comparison, 0 if unknown
    """
    if not (own := metrics.get(CHALLENGER)):
        return ", ".join(f"{name} {value}" for name, value in flatten(metrics)[:2])
    before, on = metrics.get(CHAMPION) or {}, f" on {rows:,} rows" if rows else ""
    if "mistake_rate" in own:
        earlier = mistake_rate_text(before.get("mistake_rate"))
        return f"mistakes {mistake_rate_text(own['mistake_rate'])} (before: {earlier}){on}"
    return ", ".join(f"{name} {text}{on}" for name, text in own_figures(metrics)[:1])


def own_figures(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and texts of a version's figures, each with that of what it was compared with, on the same rows."""
    own, before = metrics.get(CHALLENGER), flattened(metrics.get(CHAMPION) or {})
    if not own:
        return flatten(metrics)
    figures = [
        (name, f"{number(value)} (before: {number(before[name])})" if name in before else number(value))
        for name, value in flattened(own).items()
    ]
    return figures + flatten({name: value for name, value in metrics.items() if name not in (CHAMPION, CHALLENGER)})


def _owner(name: str) -> str:
    """Return the name of a metric in a comparison of versions."""
    owner, dot, figure = name.partition(".")
    return {CHALLENGER: figure, CHAMPION: f"before.{figure}"}.get(owner, name) if dot else name


def _aliases(aliases: Mapping[str, int]) -> str:
    order = {CHAMPION: 0, PREVIOUS: 1, CANDIDATE: 2}
    names = sorted(aliases, key=lambda name: (order.get(name, 3), name))
    return ", ".join(f"{name} {aliases[name]}" for name in names) or "no aliases"


# One version as text.

PAGE = "report.html"
HIDDEN = ("out", "name", "weights_sha256")  # of settings: they decide nothing


def version_text(description: Mapping[str, Any], whole: bool = False) -> str:
    """Render `describe_one` as text: metrics, training rows, settings and location.

    whole : with every setting, what it was made with, and all shards
    """
    shards = description["shards"]
    decided = (description["decision"] or {}).get("reason")
    rows = [
        ["aliases", ", ".join(description["aliases"]) or "-"],
        ["published", f"{description['at']} by {description['by']}"],
    ]
    rows += [["why", str(decided or description["why"])]] if decided or description["why"] else []
    if judged := judged_rows(description):
        # an online learner that began anew has no parent, and was held against the champion all the same
        before = "majority class or mean" if description["version"] == 1 else "the champion then"
        rows.append(["measured on", f"{judged:,} reserved rows of the latest shards then; before: {before}"])
    rows += [[f"metrics.{name}", text] for name, text in own_figures(description["metrics"])]
    given = _given(description)
    rows += [[f"settings.{name}", text] for name, text in flatten(description["settings"]) if whole or name in given]
    in_all = (
        f"; with all ancestors {_trained(description['shards_in_all'], description['rows_in_all'])}"
        if description["parent"]
        else ""
    )
    origin = _training_rows(description)
    rows += _rows({
        "new" if origin else "learnt": _trained(len(shards), description["rows"]) + in_all,
        **({"trained on": origin} if origin else {}),
        "parent": description["parent"],
        "files": "pruned" if description["pruned"] else f"{description['folder']} ({size(description['size_bytes'])})",
    })  # fmt: skip
    if PAGE in description["files"] and not description["pruned"]:
        rows.append(["report", f"{description['folder']}/{PAGE}"])
    head = f"{description['model']}@{description['version']}"
    if not whole:
        more = f"all settings, the environment and the shards: okl models show {head} --all"
        return "\n".join([head, *aligned(rows), "", more])
    rows += _rows({"identity": description["identity"], "ancestors": description["ancestors"]})
    for part in ("decision", "environment"):
        rows += [[f"{part}.{name}", text] for name, text in flatten(description[part])]
    table = [["shard", "rows", "sha256"]]
    table += [[str(shard.get("name", "-")), number(shard.get("rows")), shard["sha256"][:16]] for shard in shards]
    return "\n".join([head, *aligned(rows), "", *aligned(table)])


def _trained(shards: int, rows: int) -> str:
    return f"{shards:,} {'shard' if shards == 1 else 'shards'}, {rows:,} rows"


def _training_rows(description: Mapping[str, Any]) -> str:
    """Return the number of training rows and the way of training, if they add information; otherwise ""."""
    how, rows = str(description["environment"].get("how") or ""), description["learnt_rows"]
    parts = [f"{rows:,} rows"] if rows is not None and (how or rows != description["rows"]) else []
    return ": ".join([*parts, *([how] if how else [])])


def _given(description: Mapping[str, Any]) -> set[str]:
    """Return names of data, solver and all settings that differ from their defaults."""
    usual = flattened(TrainSettings.defaults() | {"ingest": IngestSettings().model_dump(mode="json")})
    names = set()
    for name, value in flattened(description["settings"]).items():
        setting = name.removeprefix("train.")
        odd = setting not in HIDDEN and not setting.startswith("judging.") and usual.get(setting, value) != value
        if odd or setting in ("data", "solver"):
            names.add(name)
    return names


def _rows(facts: Mapping[str, Any]) -> list[list[str]]:
    """Return facts as rows of a table."""
    return [[name, text] for name, text in flatten(facts)]


# Import of a trained model as a version.

IMPORTED_FILES = ("result.json", "report.html")


def publish_trained(model: RegisteredModel, trained: Place, *, promote: bool = False, why: str = "") -> Published:
    """Publish the folder of a run or of a model; publishing it twice makes one version.

    The report of a run is completed with the changes since the champion or the newest version.

    Parameters
    ----------
    trained : folder of a run of okl train or okl compare (result and report come along) or of a model alone

    Raises
    ------
    ModelError : no model that loads is there; see also `RegisteredModel.publish`
    """
    is_run = not _has(trained / DESCRIPTION) and _has(trained / MODEL / DESCRIPTION)
    folder = trained / MODEL if is_run else trained
    predictor = load_model(folder)
    result = (
        json.loads((trained / IMPORTED_FILES[0]).read_text()) if is_run and _has(trained / IMPORTED_FILES[0]) else {}
    )

    lineage = _lineage(predictor, weights_digest(folder), result)
    champion = {CHAMPION: model.state().champion}
    # a comparison, or the version of another registry, has a report of its own
    trains = bool(result) and "winner" not in result and not is_of_retraining(result)
    before = version_before(model) if trains else None

    def write(into: Path) -> None:
        (into / MODEL).mkdir()
        for name in (DESCRIPTION, WEIGHTS):
            (into / MODEL / name).write_bytes((folder / name).read_bytes())
        for name in IMPORTED_FILES:
            if is_run and _has(trained / name):
                (into / name).write_bytes((trained / name).read_bytes())
        if before is not None:
            what = "the champion when this version was published" if before.number == champion[CHAMPION] else ""
            write_report(result | {"previous": changes_since(before, lineage, what)}, into / IMPORTED_FILES[1])

    return model.publish(write, lineage, promote=promote, expected=champion if promote else None, why=why)


def _lineage(model: Model, weights_sha256: str, result: dict[str, Any]) -> Lineage:
    provenance = model.provenance
    settings = {name: value for name, value in model.configuration.items() if name not in WHERE_IT_RUNS}
    shard = {
        "sha256": provenance.get("data_sha256", ""),
        "name": str(model.configuration.get("data", "")),
        "rows": provenance.get("train_rows", 0),
    }
    environment: dict[str, Any] = {
        name: provenance[name] for name in ("versions", "processor", "created") if name in provenance
    }
    splits = {part: result.get(part) for part in ("test", "progressive")}
    measured = (result.get("metrics") or {}) if is_of_retraining(result) else splits
    metrics = {part: _scalars(figures) for part, figures in measured.items() if figures}
    return Lineage(None, (shard,), settings | {"weights_sha256": weights_sha256}, environment, metrics)


def _scalars(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def _has(location: Place) -> bool:
    return location.is_file() if isinstance(location, RemotePath) else location.exists()
