"""Sections of the report of a training run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from okl.foundation.settings import IngestSettings
from okl.report import figures
from okl.report.assessment import MEASURED_ON, Assessment, assess, error_text
from okl.report.figures import (
    MOST_DRAWN,
    confusion_matrix,
    convergence_curve,
    learning_curve,
    predicted_against_true,
    reliability_curve,
    residual_histogram,
    timeline_picture,
)
from okl.report.format import (
    BASELINE_NAMES,
    SPLIT_NAMES,
    chosen_facts,
    duration,
    flatten,
    metric_name,
    mistake_rate_text,
    model_sentence,
    number,
    percent,
)
from okl.report.page import (
    Bar,
    BarChart,
    Block,
    CodeBlock,
    FigureBlock,
    Paragraph,
    Section,
    Subheading,
    TableBlock,
    Tiles,
    cut,
    grid,
)
from okl.report.tables import ROOT, baseline_names, headline, metric_tables
from okl.report.text import (
    CONSTRAINT_HEADER,
    MIB,
    constraint_sentences,
    constraint_table,
    drift_sentence,
    growth_exponent,
    memory_sentence,
    regret_horizons,
    regret_section,
    timeline_sentence,
    violation_curve,
    window_curve,
)
from okl.solvers.settings import TrainSettings

# Changes since the previous version

PARTS = {"metrics": "Metrics", "data": "Data", "settings": "Settings"}
MOST_ROWS = 40


def changes_section(before: Mapping[str, Any] | None) -> Section | None:
    """Return tables of the differences in metrics, data and settings; None without a previous version.

    Parameters
    ----------
    before : name and description (`what`) of the previous version; same_rows: whether both were measured on the same
        rows; metrics, data and settings: both values by name, the previous one first
    """
    if not before:
        return None
    blocks: list[Block] = [Paragraph(_comparison_note(before))]
    for part, title in PARTS.items():
        if part not in before:
            continue
        rows = [
            [_plain(name), number(old), number(new), difference(old, new)] for name, (old, new) in before[part].items()
        ]
        header = ("", str(before["name"]), "this version", "change")
        blocks.append(
            TableBlock(title, header, cut(rows, MOST_ROWS)) if rows else Paragraph(f"{title}: no difference.")
        )
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


def _comparison_note(before: Mapping[str, Any]) -> str:
    rows = (
        "Both versions were evaluated on the same rows."
        if before.get("same_rows")
        else "The versions were evaluated on different rows, so metrics may differ because of the rows."
    )
    return f"{before['name']} is {before.get('what') or 'the previous version'}. {rows}"


def _plain(name: str) -> str:
    *prefixes, last = name.split(".")
    return " ".join([*prefixes, metric_name(last)]).replace("_", " ")


# Cost and use


def cost_section(result: Mapping[str, Any]) -> Section:
    """Return the section on time, memory, network traffic and the timeline."""
    peak = result.get("peak_memory_bytes")
    sent = (result.get("bytes_sent") or 0) + (result.get("bytes_received") or 0)
    passes = (result.get("settings") or {}).get("passes", 1)
    tiles = [
        ("Training time", duration(result.get("seconds"))),
        ("Total time", duration(result.get("total_seconds"))),
        ("Training rows" if passes == 1 else f"Training rows, {passes} passes", number(result.get("rows"))),
        ("Rows per second", number(result.get("rows_per_second"))),
        *([("Peak memory of this process", f"{number(round(peak / MIB))} MiB")] if peak else []),
        *([("Sent and received", f"{sent / MIB:,.1f} MiB")] if sent else []),
    ]
    sentences = [text for text in (timeline_sentence(result), memory_sentence(result)) if text]
    blocks: list[Block] = [Tiles(tiles), *map(Paragraph, sentences)]
    if (timeline := result.get("timeline")) and result.get("workers"):  # for one process, the sentence suffices
        caption = "Activity of this process and of each worker over time; vertical lines: start of a stage."
        blocks.append(FigureBlock("Timeline", partial(timeline_picture, timeline), caption))
    return Section("cost", "What did it cost?", blocks)


def usage_section(result: Mapping[str, Any]) -> Section | None:
    """Return the section with commands that use the model; None if no model was saved."""
    if not result.get("model"):
        return None
    model, run = (_quoted(result.get(name) or "") for name in ("model", "run"))
    columns = number((result.get("dataset") or {}).get("features"))
    return Section(
        "use",
        "How do I use it?",
        [
            CodeBlock(
                f"Score rows with the same {columns} input columns, show important columns, or publish the model as "
                "champion:",
                [
                    f"okl predict {model} ROWS --out SCORES",
                    f"okl explain {model}",
                    f"okl models publish NAME {run} --promote",
                ],
            ),
            CodeBlock(
                "In Python, for an array or a table of raw rows:",
                ["import okl", f"labels = okl.load({_on_single_line(result['model'])!r}).predict(rows)"],
            ),
        ],
    )


def _quoted(path: object) -> str:
    return shlex.quote(_on_single_line(path))


def _on_single_line(path: object) -> str:
    return " ".join(str(path).splitlines())


# Training and choices: curves, candidates of the automatic choice, settings

MOST_CANDIDATES_DRAWN = 20
MOST_LISTED = 40
ROUNDING = 1e-9  # smaller relative gaps are rounding errors
DIRECT = "The equations were solved exactly, up to rounding, so there is no convergence to show."
PLACES = ("data", "out", "name")


def training_section(result: Mapping[str, Any]) -> Section | None:
    """Return the section with the learning curve or the convergence of the gap; None without either."""
    blocks: list[Block] = []
    if curve := result.get("curve"):
        verdict = assess({**result, "test": None})
        error, shares = metric_name(verdict.metric), verdict.metric == "mistake_rate"
        draw = partial(learning_curve, curve, error.lower(), verdict.constant_name, shares=shares)
        again = f", but in the last of {verdict.passes} passes the model has seen it" if verdict.passes > 1 else ""
        caption = f"Each row is predicted before the model is trained on it{again}.{_final_errors(curve, verdict)}"
        blocks.append(FigureBlock(f"Learning curve: {error.lower()} against rows seen", draw, caption))
    if convergence := result.get("convergence"):
        tolerance = (result.get("settings") or {}).get("tol") if _is_relative(result) else None
        first, last = convergence[0], convergence[-1]
        start = f"from {percent(first[1], 2)} after {number(first[0])} iterations to " if len(convergence) > 1 else ""
        caption = (
            f"Upper bound of the distance to the optimum, relative to the objective: {start}"
            f"{percent(last[1], 2)} after {number(last[0])} iterations."
        )
        figure = FigureBlock("Relative duality gap", partial(convergence_curve, convergence, tolerance), caption)
        blocks.append(figure if len(convergence) > 1 else Paragraph(caption if last[1] > ROUNDING else DIRECT))
    return Section("learning", "How did training go?", blocks) if blocks else None


def choice_section(result: Mapping[str, Any]) -> Section | None:
    """Return the section on the model, the automatic choice, chosen values and given settings."""
    sentence = model_sentence(result)
    blocks: list[Block] = [Paragraph(sentence)] if sentence else []
    blocks += _race(result.get("choice") or {}, (result.get("dataset") or {}).get("task") == "regression")
    facts = chosen_facts(result.get("chosen") or {})
    blocks += [TableBlock("Chosen", (), [[name[:1].upper() + name[1:], text] for name, text in facts])] if facts else []
    given = _given(result.get("settings") or {})
    if given:
        title = "Settings, given or chosen automatically" if result.get("choice") else "Given settings"
        blocks.append(TableBlock(title, (), given, "Only settings that differ from the default."))
    return Section("chosen", "What was chosen, and why?", blocks) if blocks else None


def _race(choice: Mapping[str, Any], of_variance: bool) -> list[Block]:
    """Return the reasons of the automatic choice, a chart of the last round, and a table of all candidates.

    of_variance : whether scores are R2, the share of explained variance, not accuracy
    """
    candidates = choice.get("candidates") or []
    if not candidates:
        return []
    compared = f"{number(len(candidates))} candidates were compared on {number(choice.get('rows'))} rows in "
    blocks: list[Block] = [
        Paragraph(f"{compared}{duration(choice.get('seconds'))}."),
        *map(Paragraph, choice.get("why") or []),
    ]
    drawn = [candidate for candidate in candidates if _score(candidate) > float("-inf") and candidate["kept"]][
        :MOST_CANDIDATES_DRAWN
    ]
    if drawn:
        why = [*(choice.get("why") or []), ""][0].lower()
        # a linear model is preferred to a kernel that is better only by chance
        taken = next(
            (candidate for candidate in drawn if why.startswith(f"{candidate['name'].lower()}, of ")), drawn[0]
        )
        drawn = [taken, *(candidate for candidate in drawn if candidate is not taken)]
        measure = "Unexplained share of the variance" if of_variance else "Mistake rate"
        caption = f"{measure} of the candidates in the last round, each on its number of rows; less is better."
        blocks.append(BarChart("Automatic choice", [_bar(candidate, drawn) for candidate in drawn], caption))
    rows = [
        [
            str(candidate["name"]),
            number(candidate["score"]),
            number(candidate["rows"]),
            duration(candidate["seconds"]),
            "yes" if candidate["kept"] else "",
        ]
        for candidate in candidates
    ]
    header = ("Candidate", "score", "rows", "time", "kept")
    return [*blocks, TableBlock("All candidates", header, cut(rows, MOST_LISTED), folded=True)]


def _bar(candidate: Mapping[str, Any], drawn: Sequence[Mapping[str, Any]]) -> Bar:
    """Return the bar of 1 - score, which shows differences between good candidates better than the score."""
    most = max(*(1.0 - _score(other) for other in drawn), 1e-12)
    text = f"{percent(1.0 - _score(candidate), 3)} of {number(candidate['rows'])} rows"
    return Bar(str(candidate["name"]), max(1.0 - _score(candidate), 0.0) / most, text, candidate is drawn[0])


def _score(candidate: Mapping[str, Any]) -> float:
    score = candidate.get("score")
    return float("-inf") if score is None or score != score else float(score)


def _given(settings: Mapping[str, Any]) -> list[list[str]]:
    """Return names and texts of settings that differ from their default, except for locations."""
    defaults = dict(flatten(TrainSettings.defaults() | {"ingest": IngestSettings().model_dump()}))
    given = flatten({name: value for name, value in settings.items() if name not in PLACES})
    return [[name.replace("_", " "), text] for name, text in given if text != defaults.get(name, "-")]


def _final_errors(curve: Sequence[Sequence[float]], verdict: Assessment) -> str:
    """Return the errors of the model and the baseline at the end of the curve."""
    _, error, _, baseline = curve[-1]
    if error is None:
        return ""
    constant = "" if baseline is None else f", {verdict.constant_name} {error_text(verdict, baseline)}"
    return f" Over all {number(curve[-1][0])} rows: {error_text(verdict, error)}{constant}."


def _is_relative(result: Mapping[str, Any]) -> bool:
    """Return whether the solver stops at a relative gap."""
    return (result.get("certificate") or {}).get("kind") == "duality gap"


# Quality: main metrics, comparison with baselines, all metrics


def quality_section(result: Mapping[str, Any]) -> Section:
    """Return the section with main metrics, errors of model and baselines, and metrics of each split."""
    header = ["", "okl", *baseline_names(result)]
    judged = SPLIT_NAMES[assess(result).split]
    tables = [grid(table, header)._replace(note=_units(result)) for table in metric_tables(result).values()]
    first = [table for table in tables if table.title == judged]
    others = [table._replace(folded=True) for table in tables if table.title != judged]
    return Section("good", "How good is it?", [Tiles(headline(result)), *_bars(result), *first, *others])


def target_name(result: Mapping[str, Any]) -> str:
    """Return the name of the target."""
    return str((result.get("dataset") or {}).get("target", "the target"))


def _bars(result: Mapping[str, Any]) -> list[Block]:
    verdict = assess(result)
    named = {"okl": verdict.error, BASELINE_NAMES["linear"]: verdict.linear}
    named[BASELINE_NAMES[verdict.constant_name]] = verdict.constant
    errors = {name: error for name, error in named.items() if error is not None}
    if len(errors) < 2:
        return []
    shares = verdict.metric == "mistake_rate"
    name = metric_name(verdict.metric) if shares else ROOT
    lengths = {named: error if shares else math.sqrt(error) for named, error in errors.items()}
    most = max(*lengths.values(), 1e-300)
    texts = {named: _text(verdict, error) if shares else number(lengths[named]) for named, error in errors.items()}
    bars = [Bar(named, lengths[named] / most, texts[named], named == "okl") for named in errors]
    unit = "Share of rows" if shares else f"In units of {_unit_of(verdict, result)}"
    chance = "; ± two standard errors" if shares and verdict.rows else ""
    title = f"{name} compared with baselines, {MEASURED_ON[verdict.split]}"
    return [BarChart(title, bars, f"{unit}; less is better{chance}.")]


def _text(verdict: Assessment, error: float) -> str:
    chance = verdict.chance(error)
    return mistake_rate_text(error) + (f" ± {percent(chance, 2).rstrip('%')}" if chance else "")


def _unit_of(verdict: Assessment, result: Mapping[str, Any]) -> str:
    return "the scaled target" if verdict.metric == "squared_loss" else target_name(result)


def _units(result: Mapping[str, Any]) -> str:
    if (result.get("dataset") or {}).get("task") != "regression":
        return "Rates, areas and F1 are between 0 and 1."
    target = target_name(result)
    return f"Absolute errors are in units of {target}, squared errors in squared units; R2 is a share of variance."


# Mistakes: confused classes, residuals

MOST_CLASSES_LISTED = 12
"""Maximum number of classes, or pairs of classes, in a table: the worst."""
SHARES = (0.5, 0.9)


def mistakes_section(result: Mapping[str, Any]) -> Section | None:
    """Return the section on mistakes on test rows if there are any, otherwise on training rows; None without counts."""
    measured = result.get("test") or result.get("train") or {}
    rows_name = "test rows" if result.get("test") else "training rows"
    blocks: list[Block] = []
    if confusion := measured.get("confusion"):
        labels = (result.get("dataset") or {}).get("labels") or list(range(len(confusion)))
        blocks = _of_classes(confusion, labels, rows_name)
    elif histogram := measured.get("residual_histogram"):
        blocks = _of_residuals(measured, histogram, target_name(result), rows_name)
    return Section("mistakes", "Where are its mistakes?", blocks) if blocks else None


def mistake_tables(measured: Mapping[str, Any], labels: Sequence[object], target: str, rows_name: str) -> list[Block]:
    """Return the tables of mistakes, without figures.

    measured : metrics with confusion or residual_histogram; without both, there is no table
    """
    if confusion := measured.get("confusion"):
        counts = np.array(confusion, dtype=np.int64)
        wrong = int(counts.sum() - counts.trace())
        pairs = [_pairs(counts, labels, wrong)] if len(counts) > 2 and wrong else []
        return [*pairs, _classes(counts, labels, rows_name)]
    histogram = measured.get("residual_histogram")
    return [_quantiles(histogram, target, rows_name)] if histogram and histogram["counts"] else []


def _of_classes(confusion: Sequence[Sequence[int]], labels: Sequence[object], rows_name: str) -> list[Block]:
    counts = np.array(confusion, dtype=np.int64)
    n_classes, rows = len(counts), int(counts.sum())
    tables = mistake_tables({"confusion": confusion}, labels, "", rows_name)
    if n_classes > MOST_DRAWN:
        note = f"The confusion matrix of {n_classes} classes is too large to draw; the tables list its worst entries."
        return [Paragraph(note), *tables]
    wrong = number(rows - int(counts.trace()))
    caption = f"{wrong} of {number(rows)} rows are misclassified. Shade: share of the true class."
    return [
        FigureBlock(f"Confusion matrix, {rows_name}", partial(confusion_matrix, confusion, labels), caption),
        *tables,
    ]


def _pairs(counts: np.ndarray[Any, np.dtype[np.int64]], labels: Sequence[object], wrong: int) -> TableBlock:
    off = counts - np.diag(counts.diagonal())
    order = np.argsort(-off, axis=None, kind="stable")[:MOST_CLASSES_LISTED]
    true, named = np.unravel_index(order, off.shape)
    of_class = counts.sum(axis=1)
    rows = [
        [_name(labels[i]), _name(labels[j]), number(int(off[i, j])), percent(off[i, j] / of_class[i], 3)]
        for i, j in zip(true.tolist(), named.tolist(), strict=True)
        if off[i, j]
    ]
    share = percent(sum(int(off[i, j]) for i, j in zip(true, named, strict=True)) / wrong, 3)
    header = ("True class", "predicted", "rows", "share of class")
    return TableBlock("Most confused classes", header, rows, f"These are {share} of all mistakes.")


def _classes(counts: np.ndarray[Any, np.dtype[np.int64]], labels: Sequence[object], rows_name: str) -> TableBlock:
    of_class, named, hits = counts.sum(axis=1), counts.sum(axis=0), counts.diagonal()
    recalls = hits / np.maximum(of_class, 1)
    order = np.argsort(np.where(of_class > 0, recalls, np.inf), kind="stable")[:MOST_CLASSES_LISTED]
    rows = [
        [
            _name(labels[i]),
            number(int(of_class[i])),
            percent(float(recalls[i]), 3) if of_class[i] else "-",
            percent(float(hits[i] / named[i]), 3) if named[i] else "-",
        ]
        for i in order.tolist()
    ]
    cut = len(counts) > MOST_CLASSES_LISTED
    note = f"The {MOST_CLASSES_LISTED} classes with the lowest recall of {len(counts)}." if cut else ""
    return TableBlock(
        f"Classes, lowest recall first, {rows_name}", ("Class", "rows", "recall", "precision"), rows, note
    )


def _of_residuals(
    measured: Mapping[str, Any], histogram: Mapping[str, Sequence[Any]], target: str, rows_name: str
) -> list[Block]:
    edges, counts = histogram["edges"], histogram["counts"]
    blocks: list[Block] = []
    if counts:
        blocks.append(_quantiles(histogram, target, rows_name))
        beyond = int(counts[0] + counts[-1])
        caption = (
            f"Left of 0, predictions are too low. {number(beyond)} of {number(sum(counts))} rows are outside the range."
        )
        draw = partial(residual_histogram, edges, counts, target)
        blocks.append(FigureBlock(f"Residuals, {rows_name}", draw, caption))
    grid = measured.get("predicted_vs_true")
    if grid and grid["range"][0] < grid["range"][1]:
        draw = partial(predicted_against_true, grid["range"], grid["counts"], target)
        caption = "Predictions are biased where the solid line differs from the dotted one."
        blocks.append(FigureBlock(f"Predicted against true, {rows_name}", draw, caption))
    return blocks


def _quantiles(histogram: Mapping[str, Sequence[Any]], target: str, rows_name: str) -> Paragraph:
    half, most = (absolute_residual_quantile(histogram["edges"], histogram["counts"], share) for share in SHARES)
    errors = f"The absolute error is at most {number(half)} on 50% of the {rows_name}, at most {number(most)} on 90%"
    return Paragraph(f"{errors} (in units of {target}).")


def absolute_residual_quantile(edges: Sequence[float], counts: Sequence[int], share: float) -> float:
    """Return the absolute residual that a share of the rows does not exceed, interpolated in bins.

    Parameters
    ----------
    edges : (n + 1,), evenly spaced around 0, n even
    counts : (n + 2,), the first and last beyond the edges
    share : share of the rows, in (0, 1)

    >>> absolute_residual_quantile([-2.0, -1.0, 0.0, 1.0, 2.0], [0, 1, 4, 4, 1, 0], 0.8)
    1.0
    """
    inner = np.array(counts[1:-1], dtype=np.float64)
    middle = len(inner) // 2
    reached = np.concatenate([[0.0], np.cumsum(inner[middle:] + inner[:middle][::-1])])
    return float(np.interp(share * sum(counts), reached, np.array(edges[middle:])))


def _name(label: object) -> str:
    text = " ".join(str(label).split())
    return text if len(text) <= 40 else f"{text[:39]}…"


# Reliability: the share of correct or positive rows among rows with similar scores

LOGISTIC = ("logistic", "l1-logistic")
MEASURED_ROWS = {"test": "test rows", "train": "training rows (seen in training)"}


def reliability_blocks(result: Mapping[str, Any]) -> list[Block]:
    """Return the reliability curve of a classifier, on test rows if there are any; empty for other models."""
    split = "test" if result.get("test") else "train"
    measured = result.get(split) or {}
    if "confusion" not in measured:
        return []
    bins = (measured.get("reliability") or {}).get("bins")
    if not bins:
        return [Paragraph("There is no reliability curve, because rows were not counted by score.")]
    rows_name = MEASURED_ROWS[split]
    labels = (result.get("dataset") or {}).get("labels") or ["the first", "the second"]
    if measured["reliability"]["of"] == "lead":
        return _of_leads(bins, rows_name)
    return (
        _of_probabilities(bins, rows_name, labels[-1])
        if _scores_are_log_odds(result)
        else _of_scores(bins, rows_name, labels[-1])
    )


def reliability_bars(measured: Mapping[str, Any], rows_name: str) -> list[Block]:
    """Return the reliability as a bar chart; empty for other models.

    measured : metrics with the reliability of `okl.metrics.counts.Tally.report`, and labels
    """
    reliability = measured.get("reliability") or {}
    if not reliability.get("bins"):
        return []
    of_leads = reliability["of"] == "lead"
    positive = _short((measured.get("labels") or ["positive"])[-1])
    share_of = "correctly classified rows" if of_leads else f"rows of class {positive}"
    bars = [
        Bar(
            f"{number(entry['lowest'])} to {number(entry['highest'])}",
            share,
            f"{percent(share, 3)} of {number(entry['rows'])}",
        )
        for entry in reliability["bins"]
        for share in [entry["hits"] / entry["rows"]]
    ]
    by = "margin between the two best scores" if of_leads else "score"
    return [BarChart(f"Reliability: share of {share_of} by {by}, {rows_name}", bars)]


def calibration_error(bins: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean absolute difference between predicted and observed probabilities, weighted by rows.

    Source: Naeini, Cooper & Hauskrecht, AAAI 2015, with bins of equally many rows.
    """
    rows = sum(entry["rows"] for entry in bins)
    return float(sum(abs(entry["hits"] - entry["rows"] * entry["probability"]) for entry in bins) / rows)


def _scores_are_log_odds(result: Mapping[str, Any]) -> bool:
    """Return whether scores are log-odds, as with the logistic loss."""
    settings = result.get("settings") or {}
    return settings.get("loss") == "logistic" or settings.get("solver") in LOGISTIC


def _of_probabilities(bins: Sequence[Mapping[str, Any]], rows_name: str, positive: object) -> list[Block]:
    off = calibration_error(bins)
    text = (
        f"The model was trained with the logistic loss: 1 / (1 + exp(-score)) is its probability of {positive}. "
        f"The calibration error on {rows_name} is {percent(off, 2)}."
    )
    caption = f"Calibrated probabilities are on the dashed line. {_extreme_bins(bins)}"
    axes = ("predicted probability", f"share of class {_short(positive)}")
    return [Paragraph(text), _picture("Reliability of probabilities", bins, "probability", axes, caption, rows_name)]


def _of_scores(bins: Sequence[Mapping[str, Any]], rows_name: str, positive: object) -> list[Block]:
    text = (
        "Scores rank rows but are not probabilities with this loss. The figure shows the observed probability of "
        f"{positive} for each score on {rows_name}."
    )
    axes = ("score", f"share of class {_short(positive)}")
    return [Paragraph(text), _picture("Reliability of scores", bins, "mean", axes, _extreme_bins(bins), rows_name)]


def _of_leads(bins: Sequence[Mapping[str, Any]], rows_name: str) -> list[Block]:
    low, high = (bins[index]["hits"] / bins[index]["rows"] for index in (0, -1))
    text = (
        "Scores are not probabilities, but a larger margin between the two best scores means a more reliable "
        f"prediction: on {rows_name}, accuracy is {percent(low, 3)} for margins up to {number(bins[0]['highest'])}, "
        f"{percent(high, 3)} for margins from {number(bins[-1]['lowest'])}."
    )
    axes = ("margin between the two best scores", "accuracy")
    return [Paragraph(text), _picture("Reliability of margins", bins, "mean", axes, "", rows_name)]


def _picture(
    title: str, bins: Sequence[Mapping[str, Any]], value_name: str, axes: tuple[str, str], text: str, rows_name: str
) -> FigureBlock:
    note = f"Each dot is {_part(len(bins))} of the rows; error bars are two standard errors."
    return FigureBlock(
        f"{title}, {rows_name}", partial(reliability_curve, bins, value_name, axes), f"{text} {note}".strip()
    )


def _extreme_bins(bins: Sequence[Mapping[str, Any]]) -> str:
    low, high = bins[0], bins[-1]
    return (
        f"For scores up to {number(low['highest'])}, {percent(low['hits'] / low['rows'], 3)} of rows are positive; "
        f"for scores from {number(high['lowest'])}, {percent(high['hits'] / high['rows'], 3)}."
    )


def _part(bins: int) -> str:
    """Return the fraction of one bin as text, such as "a third"; there are at most MOST_BINS bins."""
    article = "an" if bins in (8, 11) else "a"
    return f"{article} {({1: 'part', 2: 'half', 3: 'third'}).get(bins, f'{bins}th')}"


def _short(label: object) -> str:
    text = " ".join(str(label).split())
    return text if len(text) <= 20 else f"{text[:19]}…"


# Trust: chance, held-out rows, reliability, certificates, constraints, drift


def reliability_section(result: Mapping[str, Any]) -> Section | None:
    """Return the section on the reliability of metrics and scores, certificates, constraints and drift."""
    blocks = [*_chance(result), *reliability_blocks(result), *_proof(result), *_constraints(result), *_drift(result)]
    return Section("trust", "Can I trust it?", blocks) if blocks else None


def _chance(result: Mapping[str, Any]) -> list[Block]:
    """Return sentences on the standard error of the error, and on the error on training rows."""
    verdict, sentences = assess(result), []
    if verdict.error is not None and (chance := verdict.chance(verdict.error)):
        sentences.append(
            f"The error of {mistake_rate_text(verdict.error)} on {number(verdict.rows)} rows "
            f"is accurate to ± {percent(chance, 2)} "
            "(two standard errors)."
        )
    train_error = (result.get("train") or {}).get(verdict.metric)
    if verdict.split == "test" and train_error is not None and verdict.error is not None:
        seen, unseen = error_text(verdict, train_error), error_text(verdict, verdict.error)
        sentences.append(f"Training rows: {seen}. Test rows, not used for training: {unseen}.")
    elif verdict.split == "progressive" and verdict.is_of_unseen_rows:
        sentences.append("Each row was predicted before the model was trained on it, so this error is on unseen rows.")
    elif verdict.split == "progressive":
        sentences.append(
            f"In {verdict.passes} passes, the model had seen most rows before it predicted them, so the error on new "
            "rows will be larger. Hold out test rows (--holdout)."
        )
    elif verdict.error is not None:
        sentences.append(
            "The error was measured on training rows, so it will be larger on new rows. Hold out test rows (--holdout)."
        )
    return [Paragraph(" ".join(sentences))] if sentences else []


def _proof(result: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = [Paragraph(text) for text in [_gap(result)] if text]
    if (section := regret_section(result)) is not None:
        blocks += [Subheading("Regret"), *map(Paragraph, section.sentences), *_regret_pictures(result)]
        blocks += [grid(section.table, section.header)] if section.table else []
    return blocks


def _gap(result: Mapping[str, Any]) -> str:
    """Return the sentence on the certified gap of a solver; "" without one."""
    proof = result.get("certificate") or {}
    below = proof.get("dual_objective", proof.get("lower_bound"))
    if below is None or proof.get("objective") is None:
        return ""
    confidence = proof.get("confidence")
    sure = "" if confidence is None else f" with {percent(confidence)} confidence"
    relative = proof.get("relative_gap")
    gap = f"the gap is at most {number(proof.get('gap'))}, or {percent(relative, 2)}"
    if relative is not None and relative < ROUNDING:
        gap = "this is the optimum, up to rounding"
    return (
        f"The training objective is {number(proof['objective'])}, and its minimum is proven{sure} to be at least "
        f"{number(below)}: {gap}. Remaining errors are due to model, kernel, settings and noise, not to the solver."
    )


def _regret_pictures(result: Mapping[str, Any]) -> list[Block]:
    horizons = regret_horizons(result)
    if not horizons:
        return []
    growth = growth_exponent(result)
    last = horizons[-1]
    total = f"{number(last['regret'])} after {number(last['rows'])} rows; theoretical bound {number(last['bound'])}."
    average = f"{number(last['average_regret'])} after {number(last['rows'])} rows."
    return [
        FigureBlock("Regret against rows", partial(figures.regret_curve, horizons, growth), total),
        FigureBlock("Average regret against rows", partial(figures.average_regret_curve, horizons, growth), average),
    ]


def _constraints(result: Mapping[str, Any]) -> list[Block]:
    if (limits := constraint_table(result)) is None:
        return []
    blocks: list[Block] = [Subheading("Constraints"), *map(Paragraph, constraint_sentences(result))]
    if violations := result["constraints"].get("curve"):
        caption = f"Average violation per row at the end: {number(violations[-1][1])}."
        blocks.append(FigureBlock("Violation during training", partial(violation_curve, violations), caption))
    return [*blocks, grid(limits, CONSTRAINT_HEADER)._replace(wide=True)]


def _drift(result: Mapping[str, Any]) -> list[Block]:
    sentence = drift_sentence(result)
    blocks: list[Block] = [Subheading("Drift"), Paragraph(sentence)] if sentence else []
    if len((result.get("windows") or {}).get("points") or []) > 1:
        verdict = assess({**result, "test": None})
        error, shares = metric_name(verdict.metric).lower(), verdict.metric == "mistake_rate"
        draw = partial(window_curve, result, error, verdict.constant_name, shares=shares)
        blocks.append(FigureBlock("Error in each window", draw, "Markers: windows with a significantly higher error."))
    return blocks
