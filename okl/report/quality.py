"""Blocks on the quality of a model: errors compared with baselines, mistakes, and reliability of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.report import figures
from okl.report.blocks import Bar, BarChart, Block, Figure, Paragraph, Section, Table, Tiles
from okl.report.explanation import importance_blocks, metric_blocks
from okl.report.format import MEASURED_ON, SPLIT_NAMES, number, percent, shortened
from okl.report.results import RunResult, assess, baseline_names, headline, metric_rows


def quality_section(result: RunResult) -> Section:
    """Return the section with main metrics, errors of model and baselines, and metrics of each split."""
    header = ["", "okl", *baseline_names(result)]
    note = "Rates, areas and F1 are between 0 and 1."
    if result.is_regression:
        units = f"Absolute errors are in units of {result.target}, squared errors in squared units"
        note = f"{units}; R2 is a share of variance."
    judged = assess(result).split
    tables = {split: Table(SPLIT_NAMES[split], header, rows, note) for split, rows in metric_rows(result).items()}
    first = [table for split, table in tables.items() if split == judged]
    others = [table._replace(folded=True) for split, table in tables.items() if split != judged]
    return Section("good", "How good is it?", [Tiles(headline(result)), *_error_bars(result), *first, *others])


def _error_bars(result: RunResult) -> list[Block]:
    """Return a chart of the errors of the model and its baselines, if there are at least two."""
    errors = assess(result)
    named = ({} if errors.error is None else {"okl": errors.error}) | errors.baselines()
    if len(named) < 2:
        return []
    most = max(*map(errors.length, named.values()), 1e-300)
    bars = [
        Bar(name, errors.length(error) / most, errors.text(error, with_chance=True), name == "okl")
        for name, error in named.items()
    ]
    target = "the scaled target" if errors.metric == "squared_loss" else result.target
    unit = f"In units of {target}; " if errors.is_root else "Share of rows; " if errors.is_share else ""
    chance = "; ± two standard errors" if errors.chance(errors.error or 0.5) else ""
    title = f"{errors.name} compared with baselines, {MEASURED_ON[errors.split]}"
    caption = f"{unit}{'more' if errors.more_is_better else 'less'} is better{chance}."
    return [BarChart(title, bars, caption[:1].upper() + caption[1:])]


# Decisions between two classes: thresholds with precision, recall and lift

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Shares of the rows, from the highest score down, whose thresholds are listed."""
THRESHOLD_HEADER = ("From", "rows", "precision", "recall", "lift")


def threshold_rows(measured: Mapping[str, Any], threshold: float | None = None) -> list[list[str]]:
    """Return the decision in use and some thresholds, each with its rows, precision, recall and lift.

    measured : metrics with confusion, reliability and thresholds of two classes; without, there are no rows
    threshold : probability in use; None: decisions are by the sign of the score
    """
    found, confusion = measured.get("thresholds"), measured.get("confusion")
    if not found or not confusion or not found["positive"] or found["positive"] == found["rows"]:
        return []
    of_odds = measured["reliability"]["of"] == "log-odds"
    rows, positive = found["rows"], found["positive"]

    def line(name: str, named: int, hits: int) -> list[str]:
        precision = hits / named if named else None
        lift = "-" if precision is None else number(precision * rows / positive)
        return [name, number(named), percent(precision, 3), percent(hits / positive, 3), lift]

    cuts = [(0.0 if threshold is None else threshold, sum(row[1] for row in confusion), confusion[1][1])]
    points = found["points"]
    for share in SHARES:
        value, named, hits = next((point for point in points if point[1] >= share * rows), points[-1])
        value = 0.5 * (1.0 + float(np.tanh(0.5 * value))) if of_odds else value
        if named >= 1 and named < rows and cuts[-1][1] != named:
            cuts.append((value, named, hits))
    names = _distinct_texts([value for value, *_ in cuts])
    names[0] += " (in use)"
    return [line(name, named, hits) for name, (_, named, hits) in zip(names, cuts, strict=True)]


def _distinct_texts(values: Sequence[float]) -> list[str]:
    """Return thresholds as numbers, with more digits where different ones would look the same.

    >>> _distinct_texts([0.5, 0.01962, 0.01958, 0.01958, 0.0012])
    ['0.5000', '0.01962', '0.01958', '0.01958', '0.0012']
    """
    texts = [_cut(value) for value in values]
    for digits in (6, 8, 10):
        same = {
            text
            for text in texts
            if len({value for value, other in zip(values, texts, strict=True) if other == text}) > 1
        }
        texts = [f"{value:.{digits}g}" if text in same else text for value, text in zip(values, texts, strict=True)]
    return texts


def _cut(value: float) -> str:
    """Return a threshold as a number, with more decimals where four of them are those of 1.

    >>> _cut(0.25), _cut(0.9999873), _cut(1.0)
    ('0.2500', '0.999987', '1')
    """
    texts = [number(value), *(f"{value:.{digits}f}" for digits in (6, 8, 10))]
    return next((text for text in texts if float(value) >= 1.0 or text[:2] != "1."), texts[0])


def decision_blocks(
    measured: Mapping[str, Any], labels: Sequence[object], threshold: float | None, rows_name: str
) -> list[Block]:
    """Return the threshold table and the ROC and precision-recall curves of two classes; empty for other models."""
    lines = threshold_rows(measured, threshold)
    if not lines:
        return []
    found, confusion = measured["thresholds"], measured["confusion"]
    rows, positive = found["rows"], found["positive"]
    points = np.array([point[1:] for point in found["points"]], dtype=np.float64)
    false_rates, hit_rates = (points[:, 0] - points[:, 1]) / (rows - positive), points[:, 1] / positive
    precisions = points[:, 1] / points[:, 0]
    named, hits = sum(row[1] for row in confusion), confusion[1][1]
    used = ((named - hits) / (rows - positive), hits / positive)
    on_curve = (used[1], hits / named) if named else ()
    unit = "probability" if measured["reliability"]["of"] == "log-odds" else "score"
    label = shortened((labels or ["the second"])[-1], 20)
    text = (
        f"Rows from a {unit} on are predicted as {label}: precision is the share of them that are, recall the share of "
        f"{label} found, lift the precision divided by the share of {label} among all rows "
        f"({percent(positive / rows, 3)})."
    )
    area, average = number(measured.get("roc_auc")), number(measured.get("average_precision"))
    roc = partial(figures.roc_curve, false_rates.tolist(), hit_rates.tolist(), used)
    recall = partial(figures.precision_recall_curve, hit_rates.tolist(), precisions.tolist(), on_curve, positive / rows)
    return [
        Paragraph(text),
        Table(f"Thresholds, {rows_name}", THRESHOLD_HEADER, lines),
        Figure(f"ROC curve, {rows_name}", roc, f"Area {area}; chance is 0.5."),
        Figure(f"Precision and recall, {rows_name}", recall, f"Average precision {average}."),
    ]


def decision_section(result: RunResult) -> Section:
    """Return the section on thresholds of two classes, on test rows if there are any, otherwise on training rows."""
    measured, rows_name = result.measured
    labels, threshold = result.dataset.get("labels") or (), result.calibration.get("threshold")
    return Section("decisions", "Which threshold?", decision_blocks(measured, labels, threshold, rows_name))


def columns_section(result: RunResult) -> Section:
    """Return the section on the importance of the columns and their shares in a learnt metric, if there are any."""
    title = "Which columns matter?"
    metric = metric_blocks(result.metric.get("shares") or {})
    if not result.importance:
        return Section("columns", title, metric)
    bars = importance_blocks(result.importance, str(result.settings.get("precision", "float64")))
    note = "A column may seem unimportant because another one carries the same information."
    return Section("columns", title, [*bars, *metric, Paragraph(note)])


# Mistakes: confused classes, residuals

MOST_CLASSES_LISTED = 12
"""Maximum number of classes, or pairs of classes, in a table: the worst."""


def mistakes_section(result: RunResult) -> Section:
    """Return the section on mistakes on test rows if there are any, otherwise on training rows."""
    measured = result.test or result.train or {}
    rows_name = "test rows" if result.test else "training rows"
    confusion, histogram = measured.get("confusion"), measured.get("residual_histogram")
    labels = result.dataset.get("labels") or list(range(len(confusion or ())))
    blocks: list[Block] = []
    if confusion and len(confusion) > figures.MOST_DRAWN:
        large = f"The confusion matrix of {len(confusion)} classes is too large to draw"
        blocks.append(Paragraph(f"{large}; the tables list its worst entries."))
    elif confusion:
        rows = int(np.sum(confusion))
        wrong = number(rows - int(np.trace(confusion)))
        caption = f"{wrong} of {number(rows)} rows are misclassified. Shade: share of the true class."
        draw = partial(figures.confusion_matrix, confusion, labels)
        blocks.append(Figure(f"Confusion matrix, {rows_name}", draw, caption))
    blocks += mistake_tables(measured, labels, result.target, rows_name)
    if histogram and histogram["counts"]:
        counts = histogram["counts"]
        caption = (
            f"Left of 0, predictions are too low. {number(int(counts[0] + counts[-1]))} of {number(sum(counts))} rows "
            "are outside the range."
        )
        draw = partial(figures.residual_histogram, histogram["edges"], counts, result.target)
        blocks.append(Figure(f"Residuals, {rows_name}", draw, caption))
    grid = measured.get("predicted_vs_true")
    if histogram and grid and grid["range"][0] < grid["range"][1]:
        caption = (
            "Predictions are biased where the solid line differs from the dotted one. Values beyond the range are in "
            "the cells at its ends."
        )
        draw = partial(figures.predicted_against_true, grid["range"], grid["counts"], result.target)
        blocks.append(Figure(f"Predicted against true, {rows_name}", draw, caption))
    blocks += largest_error_table(result.largest_errors, result.is_regression)
    return Section("mistakes", "Where are its mistakes?", blocks)


def largest_error_table(errors: Mapping[str, Any], is_regression: bool) -> list[Block]:
    """Return the table of largest losses by `okl.runs.results.largest_errors`, with a description; empty without."""
    rows = errors.get("rows") or []
    if not rows:
        return []
    first = rows[0]
    if is_regression:
        header = ["True value", "predicted", "error"]
    else:
        header = ["True class", "predicted", "probability of the true class" if "probability" in first else "score"]
    keys, columns = list(first["keys"]), list(first["values"])

    def cells(row: Mapping[str, Any]) -> list[str]:
        third = row["prediction"] - row["target"] if is_regression else row.get("probability", row["score"])
        own = [*row["keys"].values(), row["target"], row["prediction"], third, *row["values"].values()]
        return [str(value) if isinstance(value, int) else shortened(number(value), 30) for value in own]

    shown = "values of the most important columns" if errors.get("by_importance") else "values of the first columns"
    note = f"The {errors['on']} of largest loss, with {shown}."
    return [Table("Largest errors", [*keys, *header, *columns], [cells(row) for row in rows], note, wide=True)]


def mistake_tables(measured: Mapping[str, Any], labels: Sequence[object], target: str, rows_name: str) -> list[Block]:
    """Return the tables of mistakes by metrics with confusion or residual_histogram, without figures."""
    if confusion := measured.get("confusion"):
        counts = np.array(confusion, dtype=np.int64)
        wrong = int(counts.sum() - counts.trace())
        pairs = [_confused_pairs(counts, labels, wrong)] if len(counts) > 2 and wrong else []
        return [*pairs, class_table(counts, labels, rows_name)]
    # results of earlier versions have evenly spaced bins only, which are too wide for the quantiles of heavy tails
    quantiles = (measured.get("residual_histogram") or {}).get("absolute_quantiles")
    if not quantiles:
        return []
    half, most = (f"at most {number(bound)} on {share:.0%}" for share, bound in quantiles)
    return [Paragraph(f"The absolute error is {half} of the {rows_name}, {most} (in units of {target}).")]


def _confused_pairs(counts: NDArray[np.int64], labels: Sequence[object], wrong: int) -> Table:
    off = counts - np.diag(counts.diagonal())
    order = np.argsort(-off, axis=None, kind="stable")[:MOST_CLASSES_LISTED]
    true, predicted = np.unravel_index(order, off.shape)
    of_class = counts.sum(axis=1)
    pairs = [(i, j, int(off[i, j])) for i, j in zip(true.tolist(), predicted.tolist(), strict=True) if off[i, j]]
    rows = [
        [shortened(labels[i]), shortened(labels[j]), number(count), percent(count / of_class[i], 3)]
        for i, j, count in pairs
    ]
    note = f"These are {percent(sum(count for _, _, count in pairs) / wrong, 3)} of all mistakes."
    return Table("Most confused classes", ("True class", "predicted", "rows", "share of class"), rows, note)


def class_table(
    counts: NDArray[np.int64], labels: Sequence[object], rows_name: str, most: int = MOST_CLASSES_LISTED
) -> Table:
    """Return rows, recall and precision by class, of counts (n_classes, n_classes) by class and predicted class."""
    of_class, predicted, hits = counts.sum(axis=1), counts.sum(axis=0), counts.diagonal()
    rarest = int(np.argmin(of_class)) if len(counts) > 2 else -1
    recalls = np.where(of_class > 0, hits / np.maximum(of_class, 1), np.inf)
    rows = [
        [
            shortened(labels[i]) + (" (rarest)" if i == rarest else ""),
            number(int(of_class[i])),
            percent(float(recalls[i]), 3) if of_class[i] else "-",
            percent(float(hits[i] / predicted[i]), 3) if predicted[i] else "-",
        ]
        for i in np.argsort(recalls, kind="stable")[:most].tolist()
    ]
    note = f"The {most} classes with the lowest recall of {len(counts)}." if len(counts) > most else ""
    return Table(f"Classes, lowest recall first, {rows_name}", ("Class", "rows", "recall", "precision"), rows, note)


# Reliability: the share of correct or positive rows among rows with similar scores


def reliability_blocks(
    measured: Mapping[str, Any], labels: Sequence[object], settings: Mapping[str, Any], rows_name: str
) -> list[Block]:
    """Return the reliability curve of a classifier by its metrics and settings; empty for other models."""
    if "confusion" not in measured:
        return []
    bins = (measured.get("reliability") or {}).get("bins")
    if not bins:
        return [Paragraph("There is no reliability curve, because rows were not counted by score.")]
    if len(bins) == 1 or bins[0]["lowest"] == bins[-1]["highest"]:
        return [Paragraph("There is no reliability curve, because all rows are in one bin of scores.")]
    first, last = bins[0], bins[-1]
    low, high = (percent(entry["hits"] / entry["rows"], 3) for entry in (first, last))
    note = f"Each dot is {_part(len(bins))} of the rows; error bars are two standard errors."
    positive = (labels or ["the second"])[-1]
    kind, value, x, y = "scores", "mean", "score", f"share of class {shortened(positive, 20)}"
    extremes = (
        f"For scores up to {number(first['highest'])}, {low} of rows are positive; for scores from "
        f"{number(last['lowest'])}, {high}. "
    )
    if measured["reliability"]["of"] == "lead":
        kind, x, y, extremes = "margins", "margin between the two best scores", "accuracy", ""
        start = "Scores are not probabilities, but a" if measured.get("log_loss") is None else "A"
        text = (
            f"{start} larger margin between the two best scores means a more reliable prediction: on {rows_name}, "
            f"accuracy is {low} for margins up to {number(first['highest'])}, {high} for margins from "
            f"{number(last['lowest'])}."
        )
    elif measured["reliability"]["of"] == "log-odds" or settings.get("loss") == "logistic":
        kind, value, x = "probabilities", "probability", "predicted probability"
        text = (
            f"1 / (1 + exp(-log-odds)) is the probability of {positive}. The calibration error on {rows_name} is "
            f"{percent(calibration_error(bins), 2)}."
        )
        extremes = f"Calibrated probabilities are on the dashed line. {extremes}"
    else:
        text = (
            "Scores rank rows but are not probabilities with this loss. The figure shows the observed probability of "
            f"{positive} for each score on {rows_name}."
        )
    draw = partial(figures.reliability_curve, bins, value, (x, y))
    return [Paragraph(text), Figure(f"Reliability of {kind}, {rows_name}", draw, extremes + note)]


def calibration_error(bins: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean absolute difference between predicted and observed probabilities, weighted by rows.

    Source: Naeini, Cooper & Hauskrecht, AAAI 2015, with bins of equally many rows.
    """
    rows = sum(entry["rows"] for entry in bins)
    return float(sum(abs(entry["hits"] - entry["rows"] * entry["probability"]) for entry in bins) / rows)


def _part(bins: int) -> str:
    """Return the fraction of one bin as text, such as "a third"; there are at most MOST_BINS bins."""
    article = "an" if bins in (8, 11) else "a"
    return f"{article} {({1: 'part', 2: 'half', 3: 'third'}).get(bins, f'{bins}th')}"
