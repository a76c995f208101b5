"""Contents of a registry as text: models, versions and their differences, attempts and quarantined files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from okl.data.describe import size
from okl.models.registry import Pruned
from okl.models.registry_descriptions import flattened, shown_test
from okl.models.registry_log import BASELINE, CANDIDATE, CHAMPION, PREVIOUS
from okl.report.blocks import Paragraph, Table, paragraphs, records_table
from okl.report.format import (
    CRITERION_NAMES,
    aligned,
    counted,
    criterion_value,
    flatten,
    metric_name,
    mistake_rate_text,
    number,
    shortened,
)
from okl.report.render import text
from okl.report.results import default_settings

CHALLENGER = "challenger"  # in the metrics of a retrained version: itself; the champion there is the previous one
BEFORE = (
    "before: the previous champion (for version 1 the majority class or mean) on the same reserved rows; the rows "
    "differ by version"
)
MOST_VERSIONS = 20
PAGE = "report.html"
HIDDEN = ("out", "name", "weights_sha256")  # settings without influence on the model


def registry_text(listing: Mapping[str, Any]) -> str:
    """Return `describe_registry` as text."""
    names = (CHAMPION, PREVIOUS, CANDIDATE)
    models = [
        model | {name: model["aliases"].get(name) for name in names} | {"last": "{kind} {at}".format_map(model["last"])}
        for model in listing["models"]
    ]
    columns = {name: name for name in ("model", *names, "versions")} | {"last": "last change"}
    table = records_table("", columns, models)
    return text([Paragraph(listing["registry"]), table if models else Paragraph("no model has a version yet")])


def model_text(description: Mapping[str, Any]) -> str:
    """Return `describe_model` as text."""
    versions = description["versions"][:MOST_VERSIONS]
    rows = [
        [
            str(version["version"]),
            ", ".join(version["aliases"]) or "-",
            number(version["parent"]),
            number(len(version["shards"])),
            number(version["rows"]),
            "-" if version["learnt_rows"] is None else f"{version['learnt_rows']:,} rows",
            "pruned" if version["pruned"] else size(version["size_bytes"]),
            version["at"],
            _main_metrics(version) or "-",
        ]
        for version in versions
    ]
    header = ("version", "aliases", "parent", "new shards", "new rows", "trained on", "size", "published", "figures")
    more = len(description["versions"]) - MOST_VERSIONS
    judged = {version["version"] for version in description["versions"] if version["decision"]}  # see attempts_text
    log = [
        entry
        | {"why": "" if entry["version"] in judged and entry["kind"] == "publish" else shortened(entry["why"], 80)}
        | {"what": f"{entry['kind']} {entry['version'] or ''}".rstrip(), "aliases": _aliases(entry["aliases"])}
        for entry in description["log"]
    ]
    columns = {"entry": "entry", "what": "what", "aliases": "aliases after it", "at": "at", "by": "by", "why": "why"}
    head = f"{description['model']}: {_aliases(description['aliases'])}  ({description['folder']})"
    notes = (
        f"... and {more} more versions (--json shows all)" if more > 0 else "",
        BEFORE if any(map(judged_rows, versions)) else "",
    )
    return text([Paragraph(head), Table("", header, rows), *paragraphs(*notes)], [records_table("", columns, log)])


def difference_text(difference: Mapping[str, Any]) -> str:
    """Return `describe_difference` as text.

    Of the decisions, only the reasons: their figures are those of each version and the champion before it. Certificates
    are left out: they measure solutions on training rows, not predictions.
    """
    first, second = (f"{difference['model']}@{version}" for version in difference["versions"])
    rows = [
        [f"{part}.{_metric_owner(name)}", number(version), number(other)]
        for part in ("settings", "metrics", "environment")
        for name, (version, other) in difference[part].items()
        if part != "metrics" or not name.startswith("certificate.")
    ]
    measured = difference["measured_rows"]
    if difference["metrics"] and any(measured):
        rows.insert(0, ["metrics on", *(f"{count:,} reserved rows" if count else "-" for count in measured)])
    for side, name in enumerate(("shards_of_first_only", "shards_of_second_only")):
        if shards := difference[name]:
            cells = ["", ""]
            cells[side] = f"{len(shards):,} ({sum(int(shard.get('rows', 0)) for shard in shards):,} rows)"
            rows.append(["shards trained on by one only", *cells])
    reasons = [
        f"{name}: {reason}"
        for name, reason in zip((first, second), difference["decision"].get("reason") or (), strict=False)
        if reason
    ]
    if not rows and not reasons:
        return f"{first} and {second} have no recorded differences."
    notes = [BEFORE] if difference["metrics"] and any(measured) else []
    return text([Table("", ("", first, second), rows), *paragraphs(*notes, *reasons)])


def version_text(description: Mapping[str, Any], whole: bool = False) -> str:
    """Return `describe_one` as text: metrics, training rows, settings and location; whole : with everything."""
    version, shards, environment = description["version"], description["shards"], description["environment"]
    why = (description["decision"] or {}).get("reason") or description["why"]
    facts = [
        ("aliases", ", ".join(description["aliases"]) or "-"),
        ("published", f"{description['at']} by {description['by']}"),
        *([("why", str(why))] if why else []),
    ]
    if judged := judged_rows(description):
        # an online learner that began anew has no parent, and was compared with the champion all the same
        before = "majority class or mean" if version == 1 else "the champion then"
        rows = f"{judged:,} newest reserved rows at that time, after drift"
        if not _is_after_drift(description):
            rows = f"{judged:,} reserved rows of the latest shards at that time"
        facts.append(("measured on", f"{rows}; before: {before}"))
    if by := _decided_by(description):
        facts.append(("decided by", by))
    facts += [(f"metrics.{name}", text) for name, text in _own_metrics(description["metrics"])]
    facts += [(f"settings.{n}", t) for n, t in flatten(description["settings"]) if whole or _is_given(n, t)]
    trained = _trained(len(shards), description["rows"])
    if description["parent"]:
        trained += f"; with all ancestors {_trained(description['shards_in_all'], description['rows_in_all'])}"
    how, rows = str(environment.get("how") or ""), description["learnt_rows"]
    counts = rows is not None and (how or rows != description["rows"])
    origin = ": ".join([*([f"{rows:,} rows"] if counts else []), *([how] if how else [])])
    folder = description["folder"]
    facts += [
        ("new" if origin else "learnt", trained),
        *([("trained on", origin)] if origin else []),
        ("parent", number(description["parent"])),
        ("files", "pruned" if description["pruned"] else f"{folder} ({size(description['size_bytes'])})"),
    ]
    if PAGE in description["files"] and not description["pruned"]:
        facts.append(("report", f"{folder}/{PAGE}"))
    head = f"{description['model']}@{version}"
    if not whole:
        more = f"all settings, the environment and the shards: okl models show {head} --all"
        return text([Paragraph(head), Table("", (), facts)], paragraphs(more))
    facts += flatten({name: description[name] for name in ("identity", "ancestors", "decision", "environment")})
    rows_of_shards = [[str(one.get("name", "-")), number(one.get("rows")), one["sha256"][:16]] for one in shards]
    return text([Paragraph(head), Table("", (), facts)], [Table("", ("shard", "rows", "sha256"), rows_of_shards)])


def pruned_text(pruned: Pruned, dry_run: bool) -> str:
    """Return what pruning removed, or would remove, as text."""
    if not pruned.versions and not pruned.leftovers:
        return "nothing to prune"
    listed = ", ".join(map(str, pruned.versions)) or "none"
    suffix = f", and files of {len(pruned.leftovers)} interrupted writers" if pruned.leftovers else ""
    removed = "would remove" if dry_run else "removed"
    return f"{removed} the files of versions {listed} ({size(pruned.size_bytes)}){suffix}"


def moved_text(moves: Mapping[str, Any]) -> str:
    """Return an entry that moved the champion, with `champion_before`, as text.

    >>> moved_text({"model": "churn", "champion_before": 2, "aliases": {"champion": 1}})
    'churn: champion 1 (before: 2)'
    """
    before, now = moves["champion_before"], moves["aliases"].get(CHAMPION)
    was = " (it was already)" if before == now else f" (before: {before or 'none'})"
    others = {name: version for name, version in moves["aliases"].items() if name != CHAMPION}
    return f"{moves['model']}: champion {now}{was}" + (f", {_aliases(others)}" if others else "")


def attempts_text(attempts: Sequence[Mapping[str, Any]]) -> str:
    """Return `okl.lifecycle.report.latest_attempts` as text: each decision, why in short, and its report."""
    outcomes = [f"published {attempt['version']}" if attempt["version"] else "kept" for attempt in attempts]
    rows = [
        [one["at"] or "-", outcome, shortened(one["reason"], 400)]
        for one, outcome in zip(attempts, outcomes, strict=True)
    ]
    head, *lines = aligned([["attempt", "outcome", "why"], *rows])
    blocks = [(line, f"  report: {attempt['page']}") for line, attempt in zip(lines, attempts, strict=True)]
    return "\n".join([head, *(line for block in blocks for line in block)])


def quarantined_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Return `okl.lifecycle.report.quarantined` as text."""
    remedies = [f"--release {one['sha256'][:16]}" if one["releasable"] else "correct the file" for one in records]
    rows = [{**record, "remedy": remedy} for record, remedy in zip(records, remedies, strict=True)]
    return text([records_table("", {"name": "quarantined", "remedy": "to train on it", "reason": "why"}, rows)])


def judged_rows(version: Mapping[str, Any]) -> int:
    """Return the number of reserved rows that a version's metrics are of; 0 if it was not compared."""
    return int(shown_test(version["decision"]).get("rows") or 0)


def _is_after_drift(version: Mapping[str, Any]) -> bool:
    return bool((version["decision"] or {}).get("after_drift"))


def _trained(shards: int, rows: int) -> str:
    return f"{counted(shards, 'shard')}, {rows:,} rows"


def _main_metrics(version: Mapping[str, Any]) -> str:
    """Return the error of a retrained version and of the champion before; of a run its criterion and the baseline."""
    metrics, rows = version["metrics"], judged_rows(version)
    if not (own := metrics.get(CHALLENGER)):
        for name, constant in (metrics.get(BASELINE) or {}).items():
            value = next((figures[name] for figures in metrics.values() if name in figures), None)
            return f"{metric_name(name)} {number(value)} (majority or mean: {number(constant)})"
        return ", ".join(f"{name} {value}" for name, value in flatten(metrics)[:2])
    newest = "newest " if _is_after_drift(version) else ""
    before, on = metrics.get(CHAMPION) or {}, f" on {rows:,} {newest}rows" if rows else ""
    if by := _decided_by(version):
        return by + on
    if "mistake_rate" in own:
        earlier = mistake_rate_text(before.get("mistake_rate"))
        return f"mistakes {mistake_rate_text(own['mistake_rate'])} (before: {earlier}){on}"
    return ", ".join(f"{name} {text}{on}" for name, text in _own_metrics(metrics)[:1])


def _decided_by(version: Mapping[str, Any]) -> str:
    """Return a criterion of scores by which a version was compared, with both values; "" for mistakes or unknown."""
    decision = version["decision"] or {}
    criterion, test = decision.get("criterion"), shown_test(decision)
    if not test or criterion in (None, "accuracy", "squared-error"):
        return ""
    mine, before = (criterion_value(criterion, test[who]) for who in (CHALLENGER, CHAMPION))
    return f"{CRITERION_NAMES[criterion]} {mine} (before: {before})"


def _own_metrics(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and texts of a version's metrics, each with that of the champion before on the same rows."""
    own, before = metrics.get(CHALLENGER), flattened(metrics.get(CHAMPION) or {})
    if not own:
        return flatten(metrics)
    figures = [
        (name, f"{number(value)} (before: {number(before[name])})" if name in before else number(value))
        for name, value in flattened(own).items()
    ]
    return figures + flatten({name: value for name, value in metrics.items() if name not in (CHAMPION, CHALLENGER)})


def _metric_owner(name: str) -> str:
    """Return the name of a metric in a comparison of versions."""
    owner, dot, metric = name.partition(".")
    return {CHALLENGER: metric, CHAMPION: f"before.{metric}"}.get(owner, name) if dot else name


def _aliases(aliases: Mapping[str, int]) -> str:
    order = {CHAMPION: 0, PREVIOUS: 1, CANDIDATE: 2}
    names = sorted(aliases, key=lambda name: (order.get(name, 3), name))
    return ", ".join(f"{name} {aliases[name]}" for name in names) or "no aliases"


def _is_given(name: str, value: str) -> bool:
    """Return whether a setting of a version is of interest: data, solver, and all that differ from their defaults."""
    setting = name.removeprefix("train.")
    if setting in HIDDEN or setting.startswith("judging."):
        return False
    return setting in ("data", "solver") or default_settings().get(setting, value) != value
