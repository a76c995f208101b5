"""The report of a retraining."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from okl.foundation.locations import Place
from okl.lifecycle.contract import learnable
from okl.lifecycle.error_drift import drift_of
from okl.lifecycle.inbox import ShardStore
from okl.lifecycle.record import ATTEMPTS, PAGE, SHARD
from okl.lifecycle.settings import RetrainSettings
from okl.models.registry import RegisteredModel
from okl.report.figures import SIZE, Theme, figure_with_axes, legend, lines_across, png
from okl.report.format import aligned, duration, flatten, metric_name, number
from okl.report.page import (
    Block,
    FigureBlock,
    Paragraph,
    Section,
    TableBlock,
    WarningBlock,
    cut,
    html_page,
    markdown_page,
)
from okl.report.sections import changes_section, difference, mistake_tables, reliability_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from okl.lifecycle.champion import Challenger, ModelHistory
    from okl.lifecycle.decide import ChallengerResult

# Sentences.

MOST_NAMED = 10  # shards


def summary_sentence(result: Mapping[str, Any]) -> str:
    """Return one sentence for a terminal.

    >>> summary_sentence({"model": "churn", "outcome": "kept", "reason": "Kept: no better. 14% wrong.",
    ...                   "drift": {"found": False}})
    'churn: kept the champion. No better. 14% wrong.'
    """
    outcome, reason = str(result["outcome"]), str(result["reason"])
    version = f", version {result['version']}" if result.get("version") else ""
    drift = f" {result['drift']['why']}" if result["drift"]["found"] else ""
    if reason.lower().startswith(f"{outcome}: "):
        reason = reason[len(outcome) + 2 :]
        reason = reason[:1].upper() + reason[1:]
    decision = "kept the champion" if outcome == "kept" else outcome
    return f"{result['model']}: {decision}{version}. {reason}{drift}"


def apart_sentence(apart: int, rows: int, published: bool) -> str:
    """Return the sentence about training rows of a champion from a run that the challenger did not have; or ""."""
    if not apart:
        return ""
    sentence = f" The champion was trained in a run on {apart:,} rows, the challenger on {rows:,} rows of the source."
    return sentence if published else f"{sentence} Add the rows of that run to the source to train challengers on them."


def solvers_sentence(champion: Mapping[str, Any], challenger: str) -> str:
    """Return the sentence about a challenger of another kind than the champion, whose configuration is given; or "".

    >>> solvers_sentence({"solver": "ridge"}, "fogd")
    ' The champion was trained with ridge, the challenger with fogd; --solver ridge trains as before.'
    >>> solvers_sentence({"solver": "fogd"}, "fogd")
    ''
    """
    before = champion.get("solver")  # none where a comparison chose the champion
    if before is None or before == challenger:
        return ""
    return (
        f" The champion was trained with {before}, the challenger with {challenger}; "
        f"--solver {before} trains as before."
    )


def summary_text(result: Mapping[str, Any]) -> str:
    """Return the summary with the shards, rejected files and their reasons, and the location of the report."""
    shards = result["shards"]
    lines = [summary_sentence(result)]
    if trained := shards["learnt"]:
        rows = sum(shard["rows"] for shard in trained)
        lines.append(f"shards: {_named([shard['name'] for shard in trained])} ({rows:,} rows)")
    if result.get("report"):
        lines.append(f"report: {result['report']}")
    lines += [f"Warning: {line}" for line in in_vain(shards)]
    vain = {shard["sha256"] for shard in shards["released_in_vain"]}
    for shard in shards["rejected"][:MOST_NAMED]:
        if shard["sha256"] not in vain:
            why = shard.get("reason") or f"{', '.join(shard['kinds'])}."
            lines.append(f"Warning: {shard['name']} is {shard['status']}: {why}{_remedy(shard)}")
    if names := [shard["name"] for shard in (*shards["rejected"][MOST_NAMED:], *shards["standing"])]:
        lines.append(f"Warning: already quarantined in an earlier run: {_named(names)}.")
    lines += [line for line in passed_over(shards) if line not in str(result["reason"])]
    return "\n".join(lines)


def passed_over(shards: Mapping[str, Any]) -> list[str]:
    """Return sentences about files that were skipped: changed just now, or equal to earlier files.

    >>> same = [{"name": "day8.csv", "same_as": "day4.csv", "status": "already trained on"}]
    >>> for line in passed_over({"still_written": ["b.csv"], "under_another_name": same}):
    ...     print(line)
    Left for the next run, because it has just been changed: b.csv.
    day8.csv is the same as day4.csv: already trained on.
    """
    fresh = shards["still_written"]
    were = "it has" if len(fresh) == 1 else "they have"
    lines = [f"Left for the next run, because {were} just been changed: {_named(fresh)}."] if fresh else []
    for status in ("already trained on", "quarantined"):
        same = [shard for shard in shards["under_another_name"] if shard["status"] == status]
        if len(same) == 1:
            lines.append(f"{same[0]['name']} is the same as {same[0]['same_as']}: {status}.")
        elif same:
            pairs = [f"{shard['name']} (the same as {shard['same_as']})" for shard in same]
            lines.append(f"{status.capitalize()}: {_named(pairs)}.")
    return lines


def in_vain(shards: Mapping[str, Any]) -> list[str]:
    """Return sentences about releases without effect."""
    lines = []
    for shard in shards["released_in_vain"][:MOST_NAMED]:
        released = f"--release {shard['sha256'][:16]} has no effect"
        if shard["there"]:
            lines.append(f"{released}: the rows cannot be trained on. {shard['reason']}{_remedy(shard)}")
        else:
            lines.append(f"{released}: {shard['name']} was changed or removed, so its rows could not be trained on.")
    return lines


def _remedy(rejected: Mapping[str, Any]) -> str:
    if rejected["status"] != "quarantined":  # its rows are learned from another file
        return ""
    if not rejected.get("releasable", True):
        return " Correct the file and add it again."
    return f" To train on it anyway: --release {rejected['sha256'][:16]}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


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


# Figures.

MOST_SLICES_DRAWN = 8  # names of shards along an axis
BAR_HEIGHT, MARGIN_HEIGHT = 0.34, 1.2  # inches


def errors_picture(result: Mapping[str, Any]) -> list[FigureBlock]:
    """Draw the errors of champions on each shard before training on it, for two or more shards."""
    points = points_of(result)
    if len(points) < 2:
        return []
    caption = (
        f"{points[-1]['shard']}: {number(points[-1]['error'])}, constant predictor {number(points[-1]['constant'])}."
    )
    draw = partial(draw_errors, result)
    return [
        FigureBlock("Error on new shards before training on them", draw, f"{caption} Vertical lines: a new version.")
    ]


def verdicts_picture(result: Mapping[str, Any]) -> list[FigureBlock]:
    """Draw the errors of both models on the reserved rows of each compared shard."""
    if not shards_judged(result):
        return []
    compared = (
        "the challenger was not trained on (the champion came from a run and may have been)"
        if result.get("apart")
        else ""
    )
    which = compared or "neither model was trained on"
    caption = f"The error on reserved rows of each shard, which {which}: further left is better."
    return [FigureBlock("Champion and challenger on reserved rows", partial(draw_verdicts, result), caption)]


def points_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a point a shard in the order of learning: shard, version, error, constant, fired, rejected."""
    drift = result["drift"]["shards"]
    now = [
        {"shard": shard["shard"], "version": result["parent"], "error": shard["error"], "constant": shard["constant"],
         "fired": bool(drift.get(shard["shard"], {}).get("fired")), "rejected": shard["shard"] not in drift}
        for shard in result["progressive"]
    ]  # fmt: skip
    return [*({**shard, "rejected": False} for shard in result["history"]), *now]


def shards_judged(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the tests by name of the shard."""
    slices = (result["decision"] or {}).get("slices") or {}
    return {name.removeprefix(SHARD): test for name, test in slices.items() if name.startswith(SHARD)}


def draw_errors(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Draw the errors of the champions and of a constant predictor, signals, rejected shards and new versions."""
    points = points_of(result)
    accepted = [(index, point) for index, point in enumerate(points) if not point["rejected"]]
    figure, axes = figure_with_axes(theme, height=3.2)
    places = [index for index, _ in accepted]
    constant = [point["constant"] for _, point in accepted]
    axes.plot(places, constant, color=theme.other, linewidth=1.2, linestyle="--", label="constant")
    errors = [point["error"] for _, point in accepted]
    axes.plot(places, errors, color=theme.line, linewidth=1.6, marker="o", markersize=3.5, label="champion")
    fired = [(index, point["error"]) for index, point in accepted if point["fired"]]
    rejected = [(index, point["error"]) for index, point in enumerate(points) if point["rejected"]]
    for marks, marker, label in ((fired, "v", "drift signal"), (rejected, "X", "rejected")):
        if marks:
            style: dict[str, Any] = {"linestyle": "", "color": theme.ink, "markersize": 7}
            axes.plot([x for x, _ in marks], [y for _, y in marks], marker=marker, label=label, **style)
    for index in range(1, len(points)):
        if points[index]["version"] != points[index - 1]["version"]:
            axes.axvline(index - 0.5, color=theme.faint, linewidth=0.8)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low), high + 0.34 * (high - low))  # room for the legend above the lines
    _name_shards(axes, [point["shard"] for point in points])
    axes.set_ylabel("error")
    lines_across(axes, theme)
    legend(axes, theme, "upper left", 2)
    return png(figure)


def draw_verdicts(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Draw both models' errors on the reserved rows of each compared shard, the newest on top."""
    judged = shards_judged(result)
    names = [name for name in result["judged_on"] if name in judged]
    figure, axes = figure_with_axes(theme, SIZE[0], MARGIN_HEIGHT + BAR_HEIGHT * len(names))
    for height, name in enumerate(names):
        test = judged[name]
        axes.plot([test["champion"], test["challenger"]], [height, height], color=theme.faint, linewidth=2.0)
    for key, marker, colour in (("champion", "s", theme.other), ("challenger", "o", theme.line)):
        errors = [judged[name][key] for name in names]
        axes.plot(errors, range(len(names)), marker=marker, linestyle="", color=colour, markersize=6, label=key)
    axes.set_yticks(range(len(names)), [_short(name) for name in names], parse_math=False)
    axes.set_ylim(-0.6, len(names) + 0.3)
    axes.set_xlabel("error on reserved rows")
    lines_across(axes, theme, "x")
    legend(axes, theme, "upper right", 2)
    return png(figure)


def _name_shards(axes: Axes, names: Sequence[str]) -> None:
    step = -(-len(names) // MOST_SLICES_DRAWN)
    places = range(0, len(names), step)
    axes.set_xticks(places, [_short(names[index]) for index in places], rotation=30, ha="right", parse_math=False)
    axes.set_xlim(-0.5, len(names) - 0.5)


def _short(name: str) -> str:
    plain = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in name.rpartition("/")[2])
    return plain if len(plain) <= 20 else f"{plain[:9]}...{plain[-8:]}"


# The report.

MOST_ROWS = 50
FACTS = ("version", "parent", "how", "bytes_read", "registry")


def report_markdown(result: Mapping[str, Any]) -> str:
    """Return the report as markdown, its pictures as data URIs; what there is nothing of is left out."""
    return markdown_page(_title(result), _lead(result), _sections(result))


def report_html(result: Mapping[str, Any]) -> str:
    """Return a self-contained page, light or dark as set in the browser."""
    return html_page(_title(result), _lead(result), _sections(result))


def _title(result: Mapping[str, Any]) -> str:
    return f"Retraining of {result['model']}: {result['outcome']}"


def _lead(result: Mapping[str, Any]) -> list[Block]:
    rejected = len(result["shards"]["rejected"])
    took = f"Training took {duration(result['seconds'])} of {duration(result['total_seconds'])} in total."
    lead: list[Block] = [Paragraph(result["reason"]), Paragraph(took)]
    if result["progressive"]:
        lead.append((WarningBlock if result["drift"]["found"] else Paragraph)(result["drift"]["why"]))
    lead += [Paragraph(line) for line in passed_over(result["shards"]) if line not in result["reason"]]
    lead += [WarningBlock(line) for line in in_vain(result["shards"])]
    if rejected:
        were = "1 shard was rejected; its file was not moved." if rejected == 1 else ""
        lead.append(WarningBlock(were or f"{rejected} shards were rejected; their files were not moved."))
    return lead


def _sections(result: Mapping[str, Any]) -> list[Section]:
    counted = result.get("counted") or {}
    before = result.get("previous") or {}
    changed = changes_section({name: value for name, value in before.items() if name != "metrics"})
    trust = [Paragraph(result["certified"])] if result["certified"] else []
    reliable = reliability_bars(counted, "reserved rows")
    mistakes = mistake_tables(
        counted, counted.get("labels") or (), counted.get("target", "the target"), "reserved rows"
    )
    facts = {name: result[name] for name in FACTS if result[name] is not None}
    settings = RetrainSettings.model_validate(result["settings"]).model_dump(mode="json", exclude_defaults=True)
    table = [list(pair) for pair in flatten(facts | {"settings": settings})]
    sections = [
        Section(
            "good", "Is the new one better?", [*verdicts_picture(result), *_shown(_metrics(result), _slices(result))]
        ),
        *([changed] if changed is not None else []),
        Section("trust", "Can I trust it?", [*trust, *errors_picture(result), *reliable]),
        Section("mistakes", "Mistakes of the challenger", mistakes),
        Section("new", "New shards", _shown(*_shards(result))),
        Section("facts", "Settings and the run", [TableBlock("Settings and the run", (), table)]),
    ]
    return [section for section in sections if section.blocks]


def _metrics(result: Mapping[str, Any]) -> TableBlock:
    metrics = result["metrics"]
    champion, challenger = (metrics.get(name, {}) for name in ("champion", "challenger"))
    rows = [
        [metric_name(name), number(champion.get(name)), number(value), difference(champion.get(name), value)]
        for name, value in challenger.items()
        if value is not None
    ]
    return TableBlock("On the same reserved rows", ("", "champion", "challenger", "change"), rows)


def _slices(result: Mapping[str, Any]) -> TableBlock:
    decision = result["decision"] or {}
    ages = {age: decision.get(age) for age in ("newest", "before")}
    slices = {f"{age} reserved rows": tests for age, tests in ages.items() if tests} if ages["before"] else {}
    slices |= decision.get("slices") or {}
    rows = [
        [
            name.removeprefix(SHARD),
            number(tests["rows"]),
            number(tests["champion"]),
            number(tests["challenger"]),
            f"{tests['p_worse']:.2g}",
        ]
        for name, tests in slices.items()
    ]
    return TableBlock("Errors by slice", ("slice", "rows", "champion", "challenger", "p-value (worse by chance)"), rows)


def _shards(result: Mapping[str, Any]) -> list[TableBlock]:
    shards = result["shards"]
    new = [[shard["name"], number(shard["rows"])] for shard in shards["accepted"]]
    rejected = [[shard["name"], ", ".join(shard["kinds"]), shard.get("reason", "")] for shard in shards["rejected"]]
    scored = [
        [shard["shard"], *(number(shard[name]) for name in ("rows", "error", "constant", "agreement"))]
        for shard in result["progressive"]
    ]
    trained = [
        [shard["shard"], *(number(shard[name]) for name in ("rows", "error", "baseline_error"))]
        for shard in result["learning"]
    ]
    return [
        TableBlock("Rejected shards", ("shard", "kinds", "reason"), rejected, wide=True, words=True),
        TableBlock("New shards", ("shard", "rows"), new),
        TableBlock(
            "Errors of the champion on new rows before training on them",
            ("shard", "rows", "error", "constant's", "agreement"),
            scored,
        ),
        TableBlock(
            "Training: error of each shard before its rows were used", ("shard", "rows", "error", "baseline's"), trained
        ),
    ]


def _shown(*tables: TableBlock) -> list[TableBlock]:
    """Return the entries with rows, up to a maximum number."""
    return [table._replace(rows=cut(table.rows, MOST_ROWS)) for table in tables if table.rows]


# The result as JSON.

MOST_HISTORY = 60  # shards before, for the picture of errors over time


@dataclass(eq=False)
class RetrainResult:
    """Filled in stage by stage.

    outcome : "nothing new", "judged before", "dry run", "kept" or "published"; reason : one sentence
    version : that was published; folder : of its files; apart : as of Known, of the compared champion
    changed : since the champion, in data and settings, see `okl.lifecycle.describe`
    report : page of the comparison, with pictures; mlflow : what MLflow recorded, or the reason why not
    shards, progressive, drift : of new shards, see Intake and Scoring; history : a row a shard that was scored before
    """

    settings: RetrainSettings
    registry: str
    outcome: str = "nothing new"
    reason: str = "No shard is new."
    version: int | None = None
    folder: str | None = None
    parent: int | None = None
    apart: int = 0
    shards: dict[str, Any] = field(default_factory=dict)
    progressive: list[dict[str, Any]] = field(default_factory=list)
    drift: dict[str, Any] = field(default_factory=lambda: drift_of({}))
    history: list[dict[str, Any]] = field(default_factory=list)
    challenger: Challenger | None = None
    judgement: ChallengerResult | None = None
    certificate: dict[str, Any] | None = None
    changed: dict[str, Any] | None = None
    report: str | None = None
    mlflow: str | None = None
    started_at: float = field(default_factory=time.perf_counter)

    def as_json(self) -> dict[str, Any]:
        """Return the result so far."""
        challenger, judgement = self.challenger, self.judgement
        return {
            "model": self.settings.name,
            "registry": self.registry,
            "outcome": self.outcome,
            "reason": self.reason,
            "version": self.version,
            "folder": self.folder,
            "parent": self.parent,
            "apart": self.apart,
            "shards": self.shards,
            "progressive": self.progressive,
            "drift": self.drift,
            "history": self.history,
            "how": challenger.how if challenger else None,
            "learning": list(challenger.curve) if challenger else [],
            "decision": judgement.decision.as_json() if judgement else None,
            "judged_on": list(judgement.shards) if judgement else [],
            "metrics": {name: dict(values) for name, values in judgement.metrics.items()} if judgement else {},
            "counted": dict(judgement.counted) if judgement else {},
            "previous": self._previous(),
            "certificate": self.certificate,
            "certified": certified_sentence(challenger.online, self.certificate) if challenger else "",
            "report": self.report,
            "mlflow": self.mlflow,
            "seconds": challenger.seconds if challenger else 0.0,
            "total_seconds": time.perf_counter() - self.started_at,
            "bytes_read": (challenger.bytes_read if challenger else 0) + (judgement.bytes_read if judgement else 0),
            "settings": self.settings.model_dump(mode="json"),
        }

    def _previous(self) -> dict[str, Any] | None:
        """Return the changes since the champion, with both models' figures on the same reserved rows, if compared."""
        if self.changed is None:
            return None
        if self.judgement is None:
            return {part: values for part, values in self.changed.items() if part != "metrics"}
        champion, challenger = (self.judgement.metrics.get(name, {}) for name in ("champion", "challenger"))
        figures = {name: [champion.get(name), value] for name, value in challenger.items() if value is not None}
        return self.changed | {"metrics": figures, "same_rows": True}


def history_of(history: ModelHistory) -> list[dict[str, Any]]:
    """Return the errors of champions on the latest shards of the lineage before training, a row per shard."""
    trained = [
        record for record in history.accepted() if record.sha256 in history.trained_on and record.scored is not None
    ]
    return [
        {"shard": record.name, "version": record.scored.version, "rows": record.scored.rows,
         "error": record.scored.error, "constant": record.scored.constant, "fired": record.scored.fired}
        for record in trained[-MOST_HISTORY:] if record.scored is not None
    ]  # fmt: skip


def metrics_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one flat row a figure of a result: predictor, metric, value."""
    return [
        {"predictor": name, "metric": metric, "value": value}
        for name, figures in (result.get("metrics") or {}).items()
        for metric, value in figures.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


# Recent challengers.

DATA = "data"  # the shard store's folder in that of a model


def latest_attempts(model: RegisteredModel, most: int = 10) -> list[dict[str, Any]]:
    """Return compared challengers, newest first: at, outcome, version, champion, reason, page.

    outcome : "published" or "kept"; version : None if rejected; champion : the compared champion, None for none
    page : location of its report; at : ISO 8601, "" if unknown

    Raises
    ------
    RegistryError, DataError : the registry does not answer, or its log is damaged
    """
    published = [
        {"at": entry.at, "outcome": "published", "version": made.version, "champion": made.lineage.parent,
         "reason": entry.why, "page": str(model.folder / "versions" / made.folder / PAGE)}
        for entry in model.entries() if (made := entry.published) is not None and made.lineage.decision
    ]  # fmt: skip
    attempts = published + _stored_attempts(model.folder / DATA / ATTEMPTS)
    # of one second: by the champion of then, who stays after what was kept
    order = sorted(
        attempts, key=lambda attempt: (attempt["at"], attempt["champion"] or 0, attempt["outcome"] == "published")
    )
    return order[: -most - 1 : -1]


def quarantined(model: RegisteredModel, most: int = 10) -> list[dict[str, Any]]:
    """Return files that the contract or their content excludes, by name: name, sha256, rows, reason,
    and whether they can be released.

    Raises
    ------
    DataError : the registry does not answer, or a record is damaged
    """
    records = ShardStore(model.folder / DATA).records().values()
    quarantined_records = sorted(
        (record for record in records if record.status == "quarantined"), key=lambda record: record.name
    )
    return [
        {"name": record.name, "sha256": record.sha256, "rows": record.rows, "reason": record.reason,
         "releasable": learnable(record.findings)} for record in quarantined_records[:most]
    ]  # fmt: skip


def quarantined_text(records: list[dict[str, Any]]) -> str:
    """Render `quarantined` as text."""
    rows = [["quarantined", "learnt by", "why"]]
    for record in records:
        remedy = f"--release {record['sha256'][:16]}" if record["releasable"] else "mending the file"
        rows.append([record["name"], remedy, record["reason"]])
    return "\n".join(aligned(rows))


def _stored_attempts(folder: Place) -> list[dict[str, Any]]:
    if isinstance(folder, Path):
        files: list[Place] = [*folder.glob("*.json")]
    else:
        files = [file for file, _ in folder.files() if file.suffix == ".json"]
    attempts = []
    for file in files:
        try:
            attempt = json.loads(file.read_text(encoding="utf-8"))
            champion, reason, at = int(file.name[:8]), str(attempt["reason"]), str(attempt.get("at") or _changed(file))
        except (ValueError, KeyError, TypeError, AttributeError):  # as in `Attempts.find`: it is compared again
            continue
        attempts.append(
            {"at": at, "outcome": "kept", "version": None, "champion": champion or None, "reason": reason,
             "page": str(folder / file.name.replace(".json", ".html"))}
        )  # fmt: skip
    return attempts


def _changed(file: Place) -> str:
    if not isinstance(file, Path):
        return ""
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")


def attempts_text(attempts: list[dict[str, Any]]) -> str:
    """Render `latest_attempts` as text: each decision, its reason, and the location of its report."""
    rows = [["attempt", "outcome", "why"]]
    for attempt in attempts:
        outcome = f"published {attempt['version']}" if attempt["version"] else "kept"
        rows.append([attempt["at"] or "-", outcome, attempt["reason"]])
    head, *lines = aligned(rows)
    texts = [
        text for line, attempt in zip(lines, attempts, strict=True) for text in (line, f"  report: {attempt['page']}")
    ]
    return "\n".join([head, *texts])
