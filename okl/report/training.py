"""Report of a training run, and its summary for a terminal.

Report and summary are made only from the result: the same result gives the same bytes; missing entries are left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from okl.foundation.catalogue import SECTIONS, load
from okl.foundation.errors import listed
from okl.foundation.folders import atomic_file
from okl.foundation.locations import typed_model
from okl.foundation.types import Criterion
from okl.metrics.criterion import RARE, outside_share
from okl.metrics.definitions import metrics
from okl.report.blocks import (
    Bar,
    BarChart,
    Block,
    Code,
    Figure,
    Page,
    Paragraph,
    Section,
    Table,
    Tiles,
    WarningBlock,
    cut,
    page,
    paragraphs,
)
from okl.report.figures import convergence_curve, learning_curve, timeline_picture
from okl.report.format import (
    BASELINE_NAMES,
    CRITERION_NAMES,
    MIB,
    NEIGHBOURS,
    TERMINAL,
    aligned,
    certificate_values,
    chosen_facts,
    counted,
    criterion_value,
    duration,
    flatten,
    metric_name,
    metric_number,
    model_sentence,
    number,
    percent,
    scalar_metrics,
    shortened,
)
from okl.report.quality import THRESHOLD_HEADER, class_table, threshold_rows
from okl.report.render import html, markdown
from okl.report.results import RunResult, assess, baseline_names, given_settings, metric_rows, progressive_errors
from okl.report.sentences import (
    FEW_OF_CLASS,
    budget_sentence,
    criterion_sentence,
    headline_sentence,
    memory_sentence,
    memory_text,
    summary_sentences,
    warning_sentences,
)
from okl.report.timeline import phases, time_sentence, timeline_owner, timeline_sentence
from okl.report.trust import probability_sentence, proof_facts


def training_page(result: Mapping[str, Any]) -> Page:
    """Return the report of a run; sections that the result has no data for are left out."""
    result = RunResult(result)
    about = f"redicting {result.target}"
    training, error = summary_sentences(result)
    lead = [*paragraphs(error, training), *map(WarningBlock, warning_sentences(result))]
    return page(
        f"{result.name}: p{about}" if result.name else f"P{about}", lead, *(load(path)(result) for path in SECTIONS)
    )


def html_report(result: Mapping[str, Any]) -> str:
    """Return the report as a self-contained HTML page."""
    return html(training_page(result))


def markdown_report(result: Mapping[str, Any]) -> str:
    """Return the report as Markdown."""
    return markdown(training_page(result))


def write_report(result: Mapping[str, Any], path: str | Path) -> Path:
    """Write the HTML page atomically and return its path, a file in an existing folder."""
    with atomic_file(Path(path)) as temporary:
        temporary.write_text(html_report(result), encoding="utf-8")
    return Path(path)


def text_summary(result: Mapping[str, Any], verbose: bool = False) -> str:
    """Return the end of a run in a terminal: headline, metrics, choices, next command; verbose : with all."""
    result = RunResult(result)
    tables, judged = metric_rows(result), assess(result).split
    wanted = ["progressive", "test" if "test" in tables else "train"] if verbose else [judged]
    shown = [split for split in wanted if split in tables]
    main = {known.title for name, known in metrics().items() if known.main or name == "rmse"}
    header = ["", "okl", *(name.lower() for name in baseline_names(result))]
    rows = [header]
    for split in shown:
        some = [row for row in tables[split] if verbose or row[0] in main] or tables[split]
        rows += [[f"{row[0]}, {split}" if verbose else row[0], *row[1:]] for row in some]
    facts = [*_brief_facts(result), *(_verbose_facts(result) if verbose else [])]
    first = max(len(name) for name, *_ in (*rows, *facts))
    table = aligned([[name.ljust(first), *cells] for name, *cells in rows], numbers_from=1)
    lines = [headline_sentence(result), "", *(table if len(rows) > 1 else [])]
    # where decisions matter: of rare classes, or by a given threshold
    if verbose or result.settings.get("threshold") is not None or result.criterion != "accuracy":
        measured = result.test or (result.train if verbose else None) or {}
        labels = result.dataset.get("labels") or []
        lines += threshold_lines(measured, result.calibration.get("threshold"), labels)
    lines += class_lines(result.test or {}, result.dataset.get("labels") or [])
    lines += ["", *(f"{name:<{first}}  {value}" for name, value in facts)]
    return "\n".join([*lines, *(f"Warning: {sentence}" for sentence in warning_sentences(result))])


MOST_CLASSES = 10
"""Classes in the table of a terminal."""


def threshold_lines(measured: Mapping[str, Any], threshold: float | None, labels: Sequence[object]) -> list[str]:
    """Return the lines of the table of thresholds; none where there are not two classes."""
    rows = threshold_rows(measured, threshold)
    positive = shortened((list(labels) or ["the second class"])[-1], 20)
    header = [f"{positive!r} from", *THRESHOLD_HEADER[1:]]
    return ["", *aligned([header, *rows], numbers_from=1)] if rows else []


def class_lines(measured: Mapping[str, Any], labels: Sequence[object]) -> list[str]:
    """Return the lines of the table of more than two classes, and a caution for those of few rows; none otherwise."""
    counts = np.array(measured.get("confusion") or [], dtype=np.int64)
    if len(counts) < 3 or len(labels) != len(counts):
        return []
    table = class_table(counts, labels, "", MOST_CLASSES)
    of_class = zip(labels, counts.sum(axis=1).tolist(), strict=True)
    few = [f"{shortened(label, 30)!r} ({counted(rows, 'row')})" for label, rows in of_class if 0 < rows < FEW_OF_CLASS]
    caution = [f"Recall and precision of so few rows may be chance: {listed(few, 5)}."] if few else []
    return ["", *aligned([table.header, *table.rows], numbers_from=1), *([table.note] if table.note else []), *caution]


def _brief_facts(result: RunResult) -> list[tuple[str, str]]:
    choice = " ".join((result.choice.get("why") or [])[:1]) or model_sentence(result)
    trained = f"{number(result.rows)} rows in {duration(result.seconds)} ({duration(result.total_seconds)} in total)"
    facts = [
        ("Chosen", choice),
        ("Judged by", criterion_sentence(result)),
        ("Probabilities", probability_sentence(result)),
        *(("Assumed", sentence) for sentence in result.get("assumptions") or []),
        *(("Order", sentence) for sentence in result.choice.get("why") or [] if sentence.startswith(NEIGHBOURS)),
        *(fact for fact in proof_facts(result) if fact[0] != "Outcome"),
        ("Trained on", trained),
        ("Time", time_sentence(result)),
        ("Budget", budget_sentence(result)),
        ("Report", f"{result.run or '.'}/report.html"),
        ("To predict", f"okl predict {typed_model(result)} ROWS --out SCORES"),
    ]
    return [fact for fact in facts if fact[1]]


def _verbose_facts(result: RunResult) -> list[tuple[str, str]]:
    passes = f", {result.passes} passes," if result.passes != 1 else ""
    speed = f"{number(result.rows_per_second)} rows per second"
    choice = result.choice.get("seconds")
    choosing = "" if choice is None else f", of which {duration(choice)} for the automatic choice"
    shares, memory = phases(result), memory_text(result)
    return [
        ("Model", number(result.get("model"))),
        ("Training", f"{number(result.rows)} rows{passes} in {duration(result.seconds)} ({speed})"),
        ("Total time", f"{duration(result.total_seconds)}{choosing}"),
        *(("" if line else "Reasons", sentence) for line, sentence in enumerate(result.choice.get("why") or [])),
        *([("Metric", why)] if (why := result.metric.get("why")) else []),
        *chosen_facts(result.chosen, TERMINAL),
        *([(timeline_owner(result), shares)] if shares else []),
        *([("Memory", memory)] if memory else []),
        *(fact for fact in proof_facts(result) if fact[0] == "Outcome"),
    ]


UNSCALED = ("squared_loss", True)  # the mean squared error of the scaled target, beside that of the target


def text_evaluation(result: Mapping[str, Any]) -> str:
    """Return the metrics of an evaluation beside those of a constant, and the thresholds of two classes."""
    metrics, baselines = result["metrics"], result.get("baselines") or {}
    shown = {name: value for name, value in scalar_metrics(metrics).items() if (name, "mse" in metrics) != UNSCALED}
    columns = [shown, *baselines.values()]
    header = ["", "model", *(BASELINE_NAMES[name].lower() for name in baselines)]
    rows = [[metric_name(name), *(metric_number(name, one.get(name)) for one in columns)] for name in shown]
    lines = [counted(result["rows"], "row"), *aligned([header, *rows], numbers_from=1)]
    confusion = metrics.get("confusion") or []
    if result.get("wanted") or (confusion and outside_share([sum(row) for row in confusion]) < RARE):
        lines += threshold_lines(metrics, result.get("threshold"), result.get("labels") or [])
    lines += class_lines(metrics, result.get("labels") or [])
    unknown = [metric_name(name) for name, value in shown.items() if value is None]
    if unknown and sum(map(any, confusion)) == 1:
        lines += ["", f"All rows are of one class, so these have no value: {', '.join(unknown)}."]
    return "\n".join([*lines, *_threshold_sentences(result)])


def _threshold_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return which threshold was chosen for a recall or precision, and how to predict with it."""
    wanted = [
        f"{name} at least {value:g}" for name, value in (result.get("wanted") or {}).items() if name != "threshold"
    ]
    if not wanted:
        return []
    threshold = f"{result['threshold']:.6g}"
    predict = f"okl predict {shlex.quote(str(result['model']))} ROWS --out SCORES --threshold {threshold}"
    return ["", f"Threshold {threshold} was chosen on these rows: {wanted[0]}. To predict: {predict}"]


# Sections: changes since the previous version

MOST_ROWS = 40


def changes_section(result: Mapping[str, Any]) -> Section:
    """Return tables of the differences in metrics, data and settings; empty without a previous version.

    result : "previous" has name and description (`what`) of the previous version; same_rows: whether both were measured
        on the same rows; metrics, data and settings: both values by name, the previous one first
    """
    before = result.get("previous")
    if not before:
        return Section("changed", "", [])
    rows_text = "The versions were evaluated on different rows, so metrics may differ because of the rows."
    if before.get("same_rows"):
        rows_text = "Both versions were evaluated on the same rows."
    blocks = paragraphs(f"{before['name']} is {before.get('what') or 'the previous version'}. {rows_text}")
    header = ("", str(before["name"]), "this version", "change")
    for part, title in {"metrics": "Metrics", "data": "Data", "settings": "Settings"}.items():
        if part in before:
            rows = [
                [
                    " ".join([*prefixes, metric_name(last)]).replace("_", " "),
                    number(old),
                    number(new),
                    difference(old, new),
                ]
                for name, (old, new) in before[part].items()
                for *prefixes, last in (name.split("."),)
            ]
            blocks.append(Table(title, header, cut(rows, MOST_ROWS)) if rows else Paragraph(f"{title}: no difference."))
    return Section("changed", f"What changed since {before['name']}?", blocks)


def difference(old: object, new: object) -> str:
    """Return the signed difference of two numbers; "" for other values.

    >>> difference(0.25, 0.2), difference(10, 15), difference("a", "b"), difference(None, 1)
    ('-0.0500', '+5', '', '')
    """
    if isinstance(old, bool) or isinstance(new, bool):
        return ""
    if not isinstance(old, int | float) or not isinstance(new, int | float):
        return ""
    return ("+" if new > old else "") + number(new - old)


# Training and choices: curves, candidates of the automatic choice, settings

MOST_CANDIDATES_DRAWN = 20


def training_section(result: RunResult) -> Section:
    """Return the section with the learning curve or the convergence of the gap."""
    blocks: list[Block] = []
    if curve := result.curve:
        errors = progressive_errors(result)
        error = metric_name(errors.metric).lower()
        again = f", but in the last of {errors.passes} passes the model has seen it" if errors.passes > 1 else ""
        caption = f"Each row is predicted before the model is trained on it{again}."
        rows, last, _, baseline = curve[-1]
        if last is not None:
            constant = "" if baseline is None else f", {errors.constant_name} {errors.sentence(baseline)}"
            caption += f" Over all {number(rows)} rows: {errors.sentence(last)}{constant}."
        draw = partial(learning_curve, curve, error, errors.constant_name, shares=errors.is_share)
        blocks.append(Figure(f"Learning curve: {error} against rows seen", draw, caption))
    if len(convergence := result.convergence) > 1:  # of a single point, the proven gap says all
        first, end = convergence[0], convergence[-1]
        caption = (
            f"Upper bound of the distance to the optimum, relative to the objective: from {percent(first[1], 2)} after "
            f"{number(first[0])} iterations to {percent(end[1], 2)} after {number(end[0])} iterations."
        )
        # only some solvers stop at a relative gap
        tolerance = result.settings.get("tol") if result.certificate.get("kind") == "duality gap" else None
        blocks.append(Figure("Relative duality gap", partial(convergence_curve, convergence, tolerance), caption))
    return Section("learning", "How did training go?", blocks)


def choice_section(result: RunResult) -> Section:
    """Return the section on the model, the automatic choice, chosen values and given settings."""
    blocks = paragraphs(model_sentence(result), result.metric.get("why", ""))
    blocks += _candidates(result.choice, result.is_regression)
    if facts := chosen_facts(result.chosen):
        blocks.append(Table("Chosen", (), [[name[:1].upper() + name[1:], text] for name, text in facts]))
    if given := [[name.replace("_", " "), text] for name, text in given_settings(result.settings)]:
        title = "Settings, given or chosen automatically" if result.choice else "Given settings"
        blocks.append(Table(title, (), given, "Only settings that differ from the default."))
    return Section("chosen", "What was chosen, and why?", blocks)


def _candidates(choice: Mapping[str, Any], is_regression: bool) -> list[Block]:
    """Return the reasons of the automatic choice, a chart of the last round, and a table of all candidates.

    The chart shows 1 - score, which shows differences between good candidates better than the score: R2 or accuracy.
    """
    candidates, why = choice.get("candidates") or [], choice.get("why") or []
    if not candidates:
        return []
    criterion: Criterion = choice.get("criterion", "accuracy")
    name, shares = CRITERION_NAMES[criterion], criterion in ("accuracy", "squared-error")
    compared = f"{number(len(candidates))} candidates were compared on {number(choice.get('rows'))} rows in "
    blocks = paragraphs(f"{compared}{duration(choice.get('seconds'))}.", *why)
    drawn = [
        candidate for candidate in candidates
        if candidate["kept"] and candidate["score"] is not None and candidate["score"] == candidate["score"]
    ][:MOST_CANDIDATES_DRAWN]  # fmt: skip
    if drawn:
        # a linear model is preferred to a kernel that is better only by chance
        reason = [*why, ""][0].lower()
        taken = next((one for one in drawn if reason.startswith(f"{one['name'].lower()}, of ")), drawn[0])
        most = max(*(1.0 - candidate["score"] for candidate in drawn), 1e-12)
        bars = [
            Bar(
                str(candidate["name"]),
                max(error, 0.0) / most,
                f"{percent(error, 3) if shares else f'{name} {criterion_value(criterion, error)}'} of "
                f"{number(candidate['rows'])} rows",
                candidate is taken,
            )
            for candidate in sorted(drawn, key=lambda candidate: candidate is not taken)
            for error in (1.0 - candidate["score"],)
        ]
        measure = "Unexplained share of the variance" if is_regression else "Mistake rate"
        if not shares:
            measure = f"{'' if criterion == 'log-loss' else '1 less the '}{name}"
        caption = f"{measure} of the candidates in the last round, each on its number of rows; shorter is better."
        blocks.append(BarChart("Automatic choice", bars, caption))
    falls = criterion == "log-loss"  # a score is 1 less the error
    scores = [1.0 - one["score"] if falls and one["score"] is not None else one["score"] for one in candidates]
    rows = [
        [str(one["name"]), number(score), number(one["rows"]), duration(one["seconds"]), "yes" if one["kept"] else ""]
        for one, score in zip(candidates, scores, strict=True)
    ]
    header = ("Candidate", "R2" if criterion == "squared-error" else name, "rows", "time", "kept")
    return [*blocks, Table("All candidates", header, cut(rows, MOST_ROWS), folded=True)]


def cost_section(result: RunResult) -> Section:
    """Return the section on time, memory, network traffic and the timeline."""
    peak = result.peak_memory_bytes
    sent = (result.get("bytes_sent") or 0) + (result.get("bytes_received") or 0)
    tiles = [
        ("Training time", duration(result.seconds)),
        ("Total time", duration(result.total_seconds)),
        ("Training rows" if result.passes == 1 else f"Training rows, {result.passes} passes", number(result.rows)),
        ("Rows per second", number(result.rows_per_second)),
        *([("Peak memory of this process", f"{number(round(peak / MIB))} MiB")] if peak else []),
        *([("Sent and received", f"{sent / MIB:,.1f} MiB")] if sent else []),
    ]
    spent = f"Of the total time: {spent}." if (spent := time_sentence(result)) else ""
    blocks: list[Block] = [Tiles(tiles), *paragraphs(spent, timeline_sentence(result), memory_sentence(result))]
    if result.timeline and result.workers:  # for one process, the sentence suffices
        caption = "Activity of this process and of each worker over time; vertical lines: start of a stage."
        blocks.append(Figure("Timeline", partial(timeline_picture, result.timeline), caption))
    return Section("cost", "What did it cost?", blocks)


def usage_section(result: RunResult) -> Section:
    """Return the section with commands that use the model; empty if no model was saved."""
    folder = " ".join(str(result.get("model") or "").splitlines())
    if not folder:
        return Section("use", "", [])
    model, run = (shlex.quote(path) for path in (folder, " ".join(result.run.splitlines())))
    columns = number(result.dataset.get("columns") or result.dataset.get("features"))
    commands = [
        f"okl predict {model} ROWS --out SCORES",
        f"okl explain {model}",
        f"okl models publish NAME {run} --promote",
    ]
    title = (
        f"Score rows with the same {columns} input columns, show important columns, or publish the model as champion:"
    )
    python = ["import okl", f"predictions = okl.load({folder!r}).predict(rows)"]
    blocks = [Code(title, commands), Code("In Python, for an array or a table of raw rows:", python)]
    return Section("use", "How do I use it?", blocks)


# All settings and other facts, for reference

PARTS = {"certificate": "Certificate", "settings": "Settings", "dataset": "Data set", "provenance": "Provenance"}
SHOWN_ABOVE = {
    "progressive", "train", "test", "baselines", "curve", "convergence", "windows", "drift", "constraints", "choice",
    "metric", "chosen", "previous", "largest_errors", "warnings",
}  # fmt: skip


def _without_records(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values without lists of records, which other sections show as tables."""
    return {
        name: _without_records(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if not (isinstance(value, list) and value and isinstance(value[0], Mapping))
    }


def facts_section(result: RunResult) -> Section:
    """Return the section with folded tables of names and values: run, certificate, settings, data set, provenance."""
    run = {name: value for name, value in result.items() if name not in SHOWN_ABOVE | PARTS.keys()}
    if timeline := run.get("timeline"):  # lanes and stages are shown in a figure
        run["timeline"] = {name: value for name, value in timeline.items() if name not in ("lanes", "stages")}
    groups = {"Run": _without_records(run)} | {title: result.get(name) or {} for name, title in PARTS.items()}
    # horizons and comparisons have separate tables
    groups["Certificate"] = {
        name: value
        for name, value in certificate_values(groups["Certificate"]).items()
        if name not in ("horizons", "comparisons")
    }
    tables = [
        Table(title, (), [[name.replace("_", " "), text] for name, text in flatten(values)], folded=True)
        for title, values in groups.items()
        if values
    ]
    return Section("facts", "Settings, data and provenance", tables)
