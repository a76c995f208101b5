"""Report of a retraining, its sentences, and its summary for a terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from shlex import quote
from typing import Any

from okl.foundation.errors import listed
from okl.report.blocks import (
    Block,
    Figure,
    Page,
    Paragraph,
    Section,
    Table,
    WarningBlock,
    cut,
    page,
    paragraphs,
    records_table,
)
from okl.report.figures import champion_errors, reserved_errors
from okl.report.format import counted, duration, flatten, metric_name, number, percent
from okl.report.quality import mistake_tables, reliability_blocks
from okl.report.render import text
from okl.report.training import changes_section, difference

MOST_NAMED = 10  # shards
MOST_ROWS = 50
SHARD = "shard "
"""Prefix of the slices of a decision that are shards."""


def _has_drift(result: Mapping[str, Any]) -> bool:
    """Return whether drift was found or, which older results do not state, suspected."""
    return bool(result["drift"]["found"] or result["drift"].get("suspected"))


def summary_sentence(result: Mapping[str, Any]) -> str:
    """Return one sentence for a terminal.

    >>> summary_sentence({"model": "churn", "outcome": "kept", "reason": "Kept: no better. 14% wrong.",
    ...                   "parent": 1, "drift": {"found": False}})
    'churn: kept the champion. No better. 14% wrong.'
    >>> summary_sentence({"model": "churn", "outcome": "nothing new", "reason": "There are no new shards to train on.",
    ...                   "shards": {"rejected": [{"name": "day-4.csv"}]}, "drift": {"found": False}})
    'churn: 1 file quarantined, nothing trained. There are no new shards to train on.'
    """
    outcome, reason = str(result["outcome"]), str(result["reason"])
    version = f", version {result['version']}" if result.get("version") else ""
    drift = f" {result['drift']['why']}" if _has_drift(result) else ""
    if reason.lower().startswith(f"{outcome}: "):
        reason = reason[len(outcome) + 2 :]
        reason = reason[:1].upper() + reason[1:]
    decision = {"judged before": "nothing trained"}.get(outcome, outcome)
    if outcome == "kept":
        decision = "kept the champion" if result.get("parent") else "nothing published"
    if outcome == "nothing new" and (bad := len(result.get("shards", {}).get("rejected", ()))):
        decision = f"{counted(bad, 'file')} quarantined, nothing trained"
    return f"{result['model']}: {decision}{version}. {reason}{drift}"


def unseen_rows_sentence(apart: int, rows: int, published: bool) -> str:
    """Return the sentence about training rows of a champion from a run that the challenger did not have; or "".

    Rows of that run that are in the source, too, may be among the reserved rows, which is said unless they are too few.
    """
    if not apart:
        return ""
    sentence = f" The champion was trained in a run on {apart:,} rows, the challenger on {rows:,} rows of the source."
    if published:
        return sentence
    if rows < apart:
        return f"{sentence} Add the rows of that run to the source to train challengers on them."
    return (
        f"{sentence} If the source has rows of that run, some reserved rows may be among them and favour the champion."
    )


def solvers_sentence(champion: str, challenger: str, options: Mapping[str, Any]) -> str:
    """Return the sentence about a challenger of another solver than the champion, and how to use that one; or "".

    options : settings of the champion's training that are not the defaults of its solver

    >>> solvers_sentence("ridge", "fogd", {"C": 0.5})
    ' The champion was trained with ridge, the challenger with fogd. Its solver: --solver ridge --set train.C=0.5'
    >>> solvers_sentence("fogd", "fogd", {})
    ''
    """
    if champion == challenger:
        return ""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    given = [f"--set train.{name}={quote(text)}" for name, text in texts.items()]
    command = " ".join([f"--solver {champion}", *given])
    return f" The champion was trained with {champion}, the challenger with {challenger}. Its solver: {command}"


def certified_sentence(online: bool, certificate: Mapping[str, Any] | None) -> str:
    """Return the sentence about the certificate; an online learner that continued has only its curve."""
    if online:
        return (
            "There is no certificate: the regret of an online solver is bounded from the start of its stream, and "
            "earlier rows are not read again. Its errors on new rows before training and on reserved rows are measured."
        )
    if certificate is None:
        return ""
    return (
        f"Certificate for the rows of this window: {certificate['kind']} {certificate['gap']:.3g}, objective "
        f"{certificate['objective']:.6g}. It does not depend on the starting point of the solver."
    )


def skipped_files(shards: Mapping[str, Any]) -> list[str]:
    """Return sentences about files that were skipped: unreadable, changed just now, or equal to earlier files.

    >>> same = [{"name": "day8.csv", "same_as": "day4.csv", "status": "already trained on"}]
    >>> odd = [{"name": "p.csv", "why": "it is a named pipe"}]
    >>> for line in skipped_files({"still_written": ["b.csv"], "under_another_name": same, "unread": odd}):
    ...     print(line)
    Not read: p.csv (it is a named pipe).
    Left for the next run, because it has just been changed: b.csv.
    day8.csv is the same as day4.csv: already trained on.
    """
    fresh = shards["still_written"]
    were = "it has" if len(fresh) == 1 else "they have"
    unread = [f"{one['name']} ({one['why']})" for one in shards.get("unread", ())]
    lines = [f"Not read: {listed(unread, MOST_NAMED)}."] if unread else []
    lines += [f"Left for the next run, because {were} just been changed: {listed(fresh, MOST_NAMED)}."] if fresh else []
    for status in ("already trained on", "quarantined"):
        same = [shard for shard in shards["under_another_name"] if shard["status"] == status]
        if len(same) == 1:
            lines.append(f"{same[0]['name']} is the same as {same[0]['same_as']}: {status}.")
        elif same:
            pairs = [f"{shard['name']} (the same as {shard['same_as']})" for shard in same]
            lines.append(f"{status.capitalize()}: {listed(pairs, MOST_NAMED)}.")
    return lines


def champion_warnings(result: Mapping[str, Any]) -> list[str]:
    """Return a warning if the champion stays and is clearly worse than the majority class on the new rows.

    None where a threshold was given: to find more rows of a class, it makes more mistakes on purpose.

    >>> new = [{"rows": 400, "error": 0.52, "constant": 0.39}]
    >>> champion_warnings({"outcome": "kept", "decision": {"criterion": "accuracy"}, "progressive": new})[0][:65]
    'The champion is worse than the majority class on the 400 new rows'
    >>> champion_warnings({"outcome": "published", "decision": {"criterion": "accuracy"}, "progressive": new})
    []
    >>> given = {"settings": {"train": {"threshold": 0.1}}, "progressive": new}
    >>> champion_warnings({"outcome": "kept", "decision": {"criterion": "log-loss"}} | given)
    []
    """
    new, criterion = result["progressive"], (result.get("decision") or {}).get("criterion")
    if result["outcome"] == "published" or criterion in (None, "squared-error"):  # of which a chance is not known
        return []
    if (result.get("settings", {}).get("train") or {}).get("threshold") is not None:
        return []
    rows = sum(shard["rows"] for shard in new)
    error, constant = (sum(shard["rows"] * shard[name] for shard in new) for name in ("error", "constant"))
    if error - constant <= 2.0 * math.sqrt(error + constant):
        return []
    return [
        f"The champion is worse than the majority class on the {rows:,} new rows: {percent(error / rows, 3)} wrong, "
        f"{percent(constant / rows, 3)}. A model of newer rows alone may be better: --window-shards 3 --choose again."
    ]


def releases_without_effect(result: Mapping[str, Any]) -> list[str]:
    """Return sentences about releases without effect."""
    lines = []
    for shard in result["shards"]["released_in_vain"][:MOST_NAMED]:
        why = f"{shard['name']} was changed or removed, so its rows could not be trained on."
        if shard["there"]:
            why = f"the rows cannot be trained on. {shard['reason']}{_remedy(shard, result)}"
        lines.append(f"--release {shard['sha256'][:16]} has no effect: {why}")
    return lines


def _remedy(rejected: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    if rejected["status"] != "quarantined":  # its rows are trained on from another file
        return ""
    if not rejected.get("releasable", True):
        late = " If newer files are trained on by then, it needs --release."
        return f" Correct the file and add it again.{late if rejected.get('timed') else ''}"
    purpose = "If the relation has really changed" if "contradiction" in rejected["kinds"] else "To train on it anyway"
    settings = result["settings"]
    where = f" --registry {quote(settings['registry'])}" if settings.get("registry") else ""
    command = f"okl retrain {result['model']} {quote(settings['source'])}{where}"
    return f" {purpose}: {command} --release {rejected['sha256'][:16]}"


def summary_text(result: Mapping[str, Any]) -> str:
    """Return the summary with the shards, rejected files and their reasons, and the location of the report."""
    shards = result["shards"]
    blocks: list[Block] = [Paragraph(summary_sentence(result))]
    if trained := shards["learnt"]:
        rows, left_out = (sum(shard.get(count, 0) for shard in trained) for count in ("rows", "left_out"))
        count = f"{rows:,} rows" + (f", of which {left_out:,} incomplete ones are left out" if left_out else "")
        blocks.append(Paragraph(f"shards: {listed([shard['name'] for shard in trained], MOST_NAMED)} ({count})"))
    if excluded := excluded_sentence(shards):
        blocks.append(Paragraph(excluded))
    if chosen := chosen_sentence(result):
        blocks.append(Paragraph(f"chosen: {chosen}"))
    if again := choice_sentence(result):
        blocks.append(Paragraph(f"chosen again: {again}"))
    if result.get("report"):
        blocks.append(Paragraph(f"report: {result['report']}"))
    warnings = [*champion_warnings(result), *releases_without_effect(result), *(result.get("data_warnings") or [])]
    vain = {shard["sha256"] for shard in shards["released_in_vain"]}
    for shard in shards["rejected"][:MOST_NAMED]:
        if shard["sha256"] not in vain:
            why = shard.get("reason") or f"{', '.join(shard['kinds'])}."
            which = shard["status"] if why.startswith(shard["name"]) else f"{shard['name']} is {shard['status']}"
            warnings.append(f"{which}: {why}{_remedy(shard, result)}")
    for when, others in (
        ("also quarantined", shards["rejected"][MOST_NAMED:]),
        ("already quarantined in an earlier run", shards["standing"]),
    ):
        if others:
            names = listed([shard["name"] for shard in others], MOST_NAMED)
            warnings.append(f"{when}: {names}. Reasons: okl models show {result['model']}")
    return text([*blocks, *map(WarningBlock, warnings), *_passed_over(result)])


def excluded_sentence(shards: Mapping[str, Any]) -> str:
    """Return which shards this run excluded, and how to undo it; "" for none.

    >>> excluded_sentence({"excluded": [{"name": "b.csv", "rows": 1200, "sha256": 64 * "a"}]})
    'excluded: b.csv (1,200 rows) is not trained on any more. To undo it: --release aaaaaaaaaaaaaaaa'
    >>> excluded_sentence({})
    ''
    """
    excluded = shards.get("excluded") or []
    if not excluded:
        return ""
    names = listed([f"{shard['name']} ({shard['rows']:,} rows)" for shard in excluded], MOST_NAMED)
    undo = " ".join(f"--release {shard['sha256'][:16]}" for shard in excluded[:MOST_NAMED])
    return f"excluded: {names} {'is' if len(excluded) == 1 else 'are'} not trained on any more. To undo it: {undo}"


def chosen_sentence(result: Mapping[str, Any]) -> str:
    """Return what was chosen automatically for the first shards, and for how long; "" without a choice."""
    why = result.get("chosen") or []
    kept = "Later retrainings keep this choice until drift, more errors, or four times the rows (--choose)."
    return f"{why[0]} {kept}" if why else ""


def choice_sentence(result: Mapping[str, Any]) -> str:
    """Return why solver and settings were chosen again, the choice, and what became of it; "" without one.

    >>> choice = {"cause": "b.csv drifts", "solver": "ridge", "why": ["Best of 8."], "outcome": "published"}
    >>> choice_sentence({"choice": choice})
    'Solver and settings were chosen again, because b.csv drifts: ridge. Best of 8.'
    >>> choice_sentence({"choice": choice | {"outcome": "not used"}})
    'Solver and settings were chosen again, because b.csv drifts: ridge, not used: worse than before. Best of 8.'
    """
    choice = result.get("choice")
    if not choice:
        return ""
    outcomes = {"published": "", "not used": ", not used: worse than before", "not published": ", not published"}
    outcome = outcomes[choice["outcome"]]
    made = f"Solver and settings were chosen again, because {choice['cause']}: {choice['solver']}{outcome}."
    return f"{made} {choice['why'][0]}"


def _passed_over(result: Mapping[str, Any]) -> list[Block]:
    """Return the sentences about skipped files that the reason does not contain."""
    return paragraphs(*(line for line in skipped_files(result["shards"]) if line not in str(result["reason"])))


FACTS = ("version", "parent", "how", "bytes_read", "registry")


def retraining_page(result: Mapping[str, Any], settings: Mapping[str, Any]) -> Page:
    """Return the report of a retraining, without sections that it has no data for; settings : not default."""
    shards, drift, measured = result["shards"], result["drift"], result.get("counted") or {}
    rejected = len(shards["rejected"])
    seconds, total = result["seconds"], duration(result["total_seconds"])
    took = (
        f"Training took {duration(seconds)} of {total} in total." if seconds else f"No model was trained, in {total}."
    )
    lead = paragraphs(
        result["reason"], excluded_sentence(shards), chosen_sentence(result), choice_sentence(result), took
    )
    if result["progressive"]:
        lead.append((WarningBlock if _has_drift(result) else Paragraph)(drift["why"]))
    lead += [
        *_passed_over(result),
        *map(WarningBlock, champion_warnings(result)),
        *map(WarningBlock, [*releases_without_effect(result), *(result.get("data_warnings") or [])]),
    ]
    if rejected:
        were = ("was", "its file was") if rejected == 1 else ("were", "their files were")
        lead.append(WarningBlock(f"{counted(rejected, 'shard')} {were[0]} rejected; {were[1]} not moved."))
    before = {name: value for name, value in (result.get("previous") or {}).items() if name != "metrics"}
    labels = measured.get("labels") or ()
    on = measured.get("on", "reserved rows")
    mistakes = mistake_tables(measured, labels, measured.get("target", "the target"), on)
    facts = {name: result[name] for name in FACTS if result[name] is not None} | {"settings": settings}
    tables = _shown(_metrics(result), _slices(result))
    compared = [*tables, *reserved_figure(result)] if _is_after_drift(result) else [*reserved_figure(result), *tables]
    trust = [
        *paragraphs(result["certified"]),
        *champion_figure(result),
        *reliability_blocks(measured, labels, result["settings"]["train"], on),
    ]
    return page(
        f"Retraining of {result['model']}: {result['outcome']}",
        lead,
        Section("good", "Is the new one better?", compared),
        changes_section({"previous": before}),
        Section("trust", "Can I trust it?", trust),
        Section("mistakes", "Mistakes of the challenger", mistakes),
        Section("new", "New shards", _shown(*_shard_tables(result))),
        Section("facts", "Settings and the run", [Table("Settings and the run", (), flatten(facts))]),
    )


def champion_figure(result: Mapping[str, Any]) -> list[Block]:
    """Return the figure of the errors of champions on each shard before training on it, for two or more shards."""
    points = points_of(result)
    if len(points) < 2:
        return []
    last = points[-1]
    caption = f"{last['shard']}: {number(last['error'])}, constant predictor {number(last['constant'])}."
    caption += " Vertical lines: a new version."
    return [Figure("Error on new shards before training on them", partial(champion_errors, points), caption)]


def points_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a point a shard in the order of training: shard, version, error, constant, fired, rejected."""
    drift = result["drift"]["shards"]
    now = [
        {"shard": shard["shard"], "version": result["parent"], "error": shard["error"], "constant": shard["constant"],
         "fired": bool(drift.get(shard["shard"], {}).get("fired")), "rejected": shard["shard"] not in drift}
        for shard in result["progressive"]
    ]  # fmt: skip
    return [*({**shard, "rejected": False} for shard in result["history"]), *now]


def reserved_figure(result: Mapping[str, Any]) -> list[Block]:
    """Return the figure of the errors of both models on the reserved rows of each compared shard."""
    slices = (result["decision"] or {}).get("slices") or {}
    tests = {name: slices[SHARD + name] for name in result["judged_on"] if SHARD + name in slices}
    if not tests:
        return []
    which = "neither model was trained on"
    if result.get("apart"):
        which = "the challenger was not trained on (the champion came from a run and may have been)"
    caption = f"The error on reserved rows of each shard, which {which}: further left is better."
    return [Figure("Champion and challenger on reserved rows", partial(reserved_errors, tests), caption)]


def _metrics(result: Mapping[str, Any]) -> Table:
    champion, challenger = (result["metrics"].get(name, {}) for name in ("champion", "challenger"))
    rows = [
        [metric_name(name), number(champion.get(name)), number(value), difference(champion.get(name), value)]
        for name, value in challenger.items()
        if value is not None
    ]
    title = "On the same reserved rows"
    if _is_after_drift(result):
        title = f"On the same {result['decision']['newest']['rows']:,} newest reserved rows, which decide after drift"
    first = "champion" if result["parent"] else "majority class or mean"
    return Table(title, ("", first, "challenger", "change"), rows)


def _is_after_drift(result: Mapping[str, Any]) -> bool:
    return bool((result["decision"] or {}).get("after_drift"))


def _slices(result: Mapping[str, Any]) -> Table:
    decision = result["decision"] or {}
    ages = ("newest", "before") if decision.get("before") else ()
    slices = {f"{age.replace('before', 'earlier')} reserved rows": decision[age] for age in ages if decision.get(age)}
    slices |= decision.get("slices") or {}
    tests = [test | {"slice": name.removeprefix(SHARD), "p": f"{test['p_worse']:.2g}"} for name, test in slices.items()]
    columns = {name: name for name in ("slice", "rows", "champion", "challenger")} | {"p": "p-value (worse by chance)"}
    if decision.get("criterion") != "squared-error":
        return records_table("Errors by slice", columns, tests)
    roots = [test | {name: math.sqrt(test[name]) for name in ("champion", "challenger")} for test in tests]
    return records_table("Root mean squared errors by slice", columns, roots)


def _shard_tables(result: Mapping[str, Any]) -> list[Table]:
    shards = result["shards"]
    rejected = [{"reason": ""} | shard | {"kinds": ", ".join(shard["kinds"])} for shard in shards["rejected"]]
    columns = {"name": "shard", "kinds": "kinds", "reason": "reason"}
    errors = {"shard": "shard", "rows": "rows", "error": "error"}
    return [
        records_table("Rejected shards", columns, rejected)._replace(wide=True, words=True),
        records_table("New shards", {"name": "shard", "rows": "rows"}, shards["accepted"]),
        records_table(
            "Errors of the champion on new rows before training on them",
            errors | {"constant": "constant's", "agreement": "agreement"},
            result["progressive"],
        ),
        records_table(
            "Training: error of each shard before its rows were used",
            errors | {"baseline_error": "baseline's"},
            result["learning"],
        ),
    ]


def _shown(*tables: Table) -> list[Block]:
    return [table._replace(rows=cut(table.rows, MOST_ROWS)) for table in tables if table.rows]
