"""Report of a training run, its summary for a terminal, and its timeline.

Report and summary are made only from the result: the same result gives the same bytes; missing entries are left out.
"""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.foundation.catalogue import SECTIONS, SOLVERS, load
from okl.foundation.errors import listed
from okl.foundation.folders import atomic_file
from okl.foundation.locations import typed_model
from okl.foundation.settings import last_share_of
from okl.foundation.telemetry import DRIVER, LEARNING, PHASES, Timeline, TimelineCell
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
from okl.report.results import (
    Assessment,
    RunResult,
    assess,
    baseline_names,
    given_settings,
    metric_rows,
    progressive_errors,
)
from okl.report.trust import probability_sentence, proof_facts
from okl.solvers.settings import solver_settings


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


def budget_sentence(result: RunResult) -> str:
    """Return by how much the choice and the training exceeded --budget-seconds, and why; "" if they did not."""
    choice = result.choice
    budget, nominal = choice.get("budget_seconds"), choice.get("nominal_seconds")
    if budget is None or nominal is None:
        return ""
    tried = sum(end - begin for name, begin, end in result.timeline.get("stages") or [] if name == "encode")
    spent = tried + choice["seconds"] + result.seconds
    if spent <= OVER * budget:
        return ""
    why = (
        f"the budget counts operations ({duration(nominal)} of two cores), so that models do not depend on the clock, "
        "and this machine is slower or busy"
    )
    if nominal > budget:
        why = f"the smallest choice and model need {duration(nominal)}"
    return (
        f"{'the trial of encodings, ' if tried else ''}the choice and the training took {duration(spent)}, "
        f"{duration(spent - budget)} more than "
        f"--budget-seconds {budget:g}: {why}"
    )


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


def _tests_one_class(result: RunResult) -> bool:
    """Return whether all test rows are of one class, so that a criterion such as ROC AUC has no value there."""
    return sum(map(any, (result.test or {}).get("confusion") or [])) == 1


def headline_sentence(result: RunResult) -> str:
    """Return how good the model is on how many rows, next to always predicting the same and to a linear model."""
    errors = assess(result)
    if errors.error is None:
        return f"Predicting {result.target}: no errors were measured."
    passes = "" if errors.passes == 1 or errors.split != "progressive" else f" over {errors.passes} passes"
    rows = ROWS_OF[errors.split] if errors.rows > 1 else ROWS_OF[errors.split].replace("rows", "row", 1)
    rows = rows.replace("no test rows", "all test rows are of one class") if _tests_one_class(result) else rows
    where = f" on {number(errors.rows)} {rows}{passes}" if errors.rows else ""
    parts = [f"{_said(errors, errors.error, first=True)}{where}"]
    if (constant := errors.difference(errors.constant_name)) is not None:
        verdict = ": worse" if constant.is_clear_loss else ": no better" if constant.gain <= 0.0 else ""
        verdict = verdict or (": within chance" if constant.is_tie else "")
        parts.append(f"{_constant_said(errors, result)}{verdict}{_second(errors, errors.constant_name, verdict)}")
    limits = " within the same limits" if result.constraints else ""
    for name, said in (("linear", f"a linear model{limits}"), ("boosting", "gradient boosting")):
        if (difference := errors.difference(name)) is not None:
            tie = f": a tie ({errors.difference_text(difference)})" if difference.is_tie else ""
            verdict = tie or (", which is better" if difference.gain < 0.0 else "")
            parts.append(f"{said} {_said(errors, errors.others[name])}{verdict}{_second(errors, name, tie)}")
    return "; ".join(parts) + "."


def _second(errors: Assessment, baseline: str, tie: str) -> str:
    """Return what a tie hides: another metric in which the model and a baseline clearly differ."""
    if not tie or baseline not in errors.hidden:
        return ""
    second = errors.hidden[baseline]
    return f", {'but' if second.is_better or errors.beats_constant else 'and'} {second.text}"


ROWS_OF = {
    "test": "test rows",
    "progressive": "training rows, each predicted before the update (no test rows)",
    "train": "training rows (no test rows)",
}


def _said(errors: Assessment, error: float | None, first: bool = False) -> str:
    if errors.is_share and error is not None:
        # as many digits as it takes not to round mistakes away
        digits = max(1, math.ceil(-math.log10(100.0 * error))) if error > 0.0 else 0
        right = f"{100.0 * (1.0 - error):.{digits}f}% right"
        return right if first else f"is {right}"
    value = errors.text(error)
    return f"{errors.name} {value}" if first else value


def _constant_said(errors: Assessment, result: RunResult) -> str:
    if errors.constant_name == "mean":
        return f"always predicting the mean {_said(errors, errors.constant)}"
    if errors.criterion == "log-loss":
        return f"the shares of the classes alone {_said(errors, errors.constant)}"
    if errors.criterion in ("auc", "average-precision"):
        return f"chance {_said(errors, errors.constant)}"
    counts, labels = result.dataset.get("class_counts") or [], result.dataset.get("labels") or []
    common = f'"{shortened(labels[counts.index(max(counts))])}"' if counts and labels else "the most frequent class"
    return f"always {common} {_said(errors, errors.constant)}"


def criterion_sentence(result: RunResult) -> str:
    """Return the criterion of a classification and why it was taken; "" for a regression or an older result."""
    counts = result.dataset.get("class_counts") or []
    if "criterion" not in result or result.is_regression:
        return ""
    name = CRITERION_NAMES[result.criterion]
    given = result.settings.get("optimise", "auto")
    if given == result.criterion:
        return f"{name} (as given)"
    if result.settings.get("class_weights") == "balanced" and result.criterion == "balanced-accuracy":
        return f"{name}, because of balanced class weights (--optimise)"
    reason = f"{percent(outside_share(counts), 2)} of the rows are outside the most frequent class"
    if given == "log-loss" or (given == "auto" and outside_share(counts) < RARE and result.criterion != "log-loss"):
        reason = "the log loss needs probabilities, which this model does not have"
    return f"{name}, because {reason} (--optimise)"


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


# Sentences and warnings

OVER = 1.1
"""Multiple of the budget above which a sentence states that it was exceeded."""
MOST_DATA_WARNINGS = 3
MOST_CLASSES = 10
"""Classes in the table of a terminal."""
FEW_OF_CLASS = 10
"""Rows of a class below which a sentence says that its figures may be chance."""
FAR_TARGETS = 2.0
"""Root mean squared error, in mean absolute errors, above which few rows decide it: 1.25 of a normal distribution."""
FEW_SURPRISING = 100
"""Test rows below which a larger error than that of the choice, or a difference of means, may be chance."""
CLEARLY_BIASED = 4.0
"""Standard errors between the means of predictions and targets above which the difference is not chance."""
FAR_MEANS = 0.1
"""Difference of these means, over the size of the mean target, above which a warning states both."""
FEW_ROWS = 30
"""Test rows below which a warning says that figures may be chance."""


def summary_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the training and one on the error compared with the baselines."""
    result = RunResult(result)
    labels = result.dataset.get("labels") or []
    columns, inputs = result.dataset.get("columns"), result.dataset.get("features")
    made = f" ({number(inputs)} inputs)" if columns is not None and columns != inputs else ""
    training = (
        f"Trained to predict {result.target}{f' ({len(labels)} classes)' if labels else ''} from "
        f"{number(inputs if columns is None else columns)} columns{made} on {number(result.rows)} rows in "
        f"{duration(result.seconds)} ({number(result.rows_per_second)} rows per second; "
        f"{duration(result.total_seconds)} in total)."
    )
    r2 = (result.get(assess(result).split) or {}).get("r2")
    return [training, headline_sentence(result) + ("" if r2 is None else f" R2 {number(r2)}.")]


def not_converged(result: Mapping[str, Any]) -> str:
    """Return the warning of a solver that ended above its tolerance; "" where it converged or has none."""
    result = RunResult(result)
    proof = result.certificate
    if proof.get("converged", True):
        return ""
    advice = proof.get("advice") or "raise max_iterations, scale the columns (--scale standard), or raise the tolerance"
    return f"The solver did not converge: {proof.get('outcome')}. To converge, {advice}."


def warning_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return warnings: a solver that did not converge, a model no better than a baseline, no test rows, ingestion."""
    result = RunResult(result)
    errors = assess(result)
    warnings = [sentence] if (sentence := not_converged(result)) else []
    both = f"{errors.sentence(errors.error)}, baseline {errors.sentence(errors.constant)}"
    baseline = _constant_named(errors, result)
    if errors.beats_constant is False:
        constant = errors.difference(errors.constant_name)
        verdict = "worse" if constant and constant.is_clear_loss else "no better"
        warnings.append(f"The model is {verdict} than {baseline}: {both}. {_advice(result)}".rstrip())
    elif errors.may_be_chance:
        warnings.append(
            f"Perhaps only by chance, the model is better than {baseline}: {both}, a difference within "
            f"two standard errors on {errors.rows:,} rows."
        )
    if harder := _harder_test_rows(result, errors):
        warnings.append(harder)
    if leak := _deciding_column(result, errors):
        warnings.append(leak)
    linear = errors.difference("linear")
    is_linear = "linear" in (result.chosen.get("map"), result.settings.get("kernel"))
    if linear is not None and linear.gain < 0.0 and not (linear.is_tie and is_linear):
        verdict = f"as good ({errors.difference_text(linear)})" if linear.is_tie else "better"
        hidden = _second(errors, "linear", verdict if linear.is_tie else "")
        warnings.append(
            f"A linear model is {verdict}: {errors.sentence(errors.others['linear'])}, this model "
            f"{errors.sentence(errors.error)}{hidden}. {'' if hidden or harder else _why_linear_wins(result)}".rstrip()
        )
    if result.get("mode_of_workers"):
        solver, mode = result.settings["solver"], result["mode"]
        warnings.append(
            f"On workers {solver} takes fewer steps (mode {mode}) than in one process, and may make far more errors. "
            "Train in one process, or with a solver that gives the same model on workers, such as --solver ridge."
        )
    if missed := _never_predicted(result):
        warnings.append(missed)
    if result.dataset.get("sparse") and result.settings.get("kernel", "linear") != "linear":
        warnings.append("Rows are sparse: a linear model is usually better and faster. Try --solver auto, no --kernel.")
    measured = result.get(errors.split) or {}
    if negative := measured.get("negative_predictions"):
        lowest = (measured.get("predicted_vs_true") or {}).get("range", [0.0])[0]
        logarithm = f"log({result.target})" if lowest > 0.0 else f"log(1 + {result.target})"
        warnings.append(
            f"{counted(negative, 'prediction')} of {errors.rows:,} are below 0, but no target is. Use them as 0, or "
            f"train on {logarithm} as a column of its own."
        )
    if biased := _biased(result, errors):
        warnings.append(biased)
    if errors.split == "test" and 0 < errors.rows < FEW_ROWS:
        warnings.append(
            f"Only {counted(errors.rows, 'test row')}: figures of so few may be chance. `okl compare` uses all rows."
        )
    if not errors.is_of_unseen_rows and errors.error is not None:
        cause = "only on training rows" if errors.split == "train" else f"over {errors.passes} passes of training"
        remedy = (
            "All test rows are of one class: hold out more, or choose another criterion (--optimise)."
            if _tests_one_class(result)
            else "Hold out test rows when training or ingesting a source: --holdout 0.2."
        )
        warnings.append(f"The error was measured {cause} and may be larger on new rows. {remedy}")
    if (hint := result.choice.get("hint")) and not harder:  # a larger model helps on rows like those left out only
        warnings.append(str(hint))
    texts = _left_out_texts(result)  # the likely cause comes first
    others = [warning for warning in result.dataset.get("warnings") or [] if warning not in texts]
    of_data = [f"Data: {warning}" for warning in [*texts, *others]]
    if (more := len(of_data) - MOST_DATA_WARNINGS) > 0:
        folder = result.dataset.get("folder") or "DATA"
        of_data[MOST_DATA_WARNINGS:] = [f"Data: {more:,} more warnings, shown by `okl describe {folder}`."]
    n_first = min(len(texts), MOST_DATA_WARNINGS)
    return of_data[:n_first] + warnings + of_data[n_first:]


def _left_out_texts(result: RunResult) -> list[str]:
    """Return the warnings of columns that were left out and whose words --text would take."""
    warnings = result.dataset.get("warnings") or []
    return [warning for warning in warnings if "is left out: " in warning and "--text " in warning]


def _biased(result: RunResult, errors: Assessment) -> str:
    """Return the warning of predictions whose mean on test rows is far from that of the targets; "" without."""
    bias = (result.test or {}).get("bias") or {}
    mean, chance, true = (bias.get(name) for name in ("mean", "standard_error", "target_mean"))
    if mean is None or chance is None or true is None or errors.rows < FEW_SURPRISING:
        return ""
    if abs(mean) <= max(CLEARLY_BIASED * chance, FAR_MEANS * abs(true)):
        return ""
    huber = result.settings.get("huber") is not None
    advice = " For sums, use --solver ridge without --huber (least squares)." if huber else ""
    return (
        f"On test rows, the mean prediction is {number(true + mean)}, the mean target {number(true)}: sums of "
        f"predictions are too {'low' if mean < 0.0 else 'high'}.{advice}"
    )


def _harder_test_rows(result: RunResult, errors: Assessment) -> str:
    """Return the warning of test rows with far larger errors than the left-out rows of the choice; "" without such."""
    choice = result.choice
    if result.settings.get("huber") is not None:  # its sizes are compared with outliers clipped
        return ""
    tried = choice.get("sizes") or [one for one in choice.get("candidates") or [] if one["kept"]]
    scores = [one["score"] for one in tried if one["score"] is not None and math.isfinite(one["score"])]
    comparable = (
        errors.split == "test" and errors.rows >= FEW_SURPRISING and choice.get("criterion") == errors.criterion
    )
    if not scores or not comparable or errors.error is None or not errors.constant:
        return ""
    counts = errors.class_counts
    if counts and sum(counts) - max(counts) < FEW_OF_CLASS:  # one row more of a rare class changes the error
        return ""
    expected = (1.0 - max(scores)) * (
        errors.constant if errors.is_root else 1.0
    )  # of a regression, a share of variance
    excess = errors.error - max(0.0, expected)
    if errors.error <= 2.0 * expected or excess <= max(0.1 * errors.constant, 2.0 * errors.chance(errors.error)):
        return ""
    blocks = "" if choice.get("validation") == "blocks" else " (--validation blocks, rows sorted by them)"
    return (
        f"Test rows are harder than rows left out of training: {errors.sentence(errors.error)}, expected "
        f"{errors.text(expected)}. If they are of other groups or a later time, validate so{blocks}."
    )


def _deciding_column(result: RunResult, errors: Assessment) -> str:
    """Return the warning of a column that decides most predictions of a nearly perfect model; "" without such."""
    columns = (result.get("importance") or {}).get("columns") or []
    rises = [max(0.0, column["rise"]) for column in columns]
    nearly_perfect = (
        errors.error is not None and bool(errors.constant) and errors.error <= 0.01 * (errors.constant or 0.0)
    )
    if len(rises) < 2 or not nearly_perfect or errors.rows < FEW_SURPRISING or rises[0] < 0.7 * sum(rises):
        return ""
    name, drop = columns[0]["column"], "if it contains the target: --drop"
    decides = "alone decides the" if rises[0] >= 0.99 * sum(rises) else "decides most"
    text = f"Column {shortened(name, 40)!r} {decides} predictions: {errors.sentence(errors.error)}."
    if name in result["importance"].get("fractions", ()):
        return f"{text} {drop.capitalize()} {shlex.quote(name)}."
    return f"{text} If it names groups that new rows do not have: --group {shlex.quote(name)}; {drop}."


def _constant_named(errors: Assessment, result: RunResult) -> str:
    """Return the constant baseline as warnings name it: of the log loss, the probabilities that it gives all rows."""
    if errors.criterion == "log-loss":
        counts, labels = result.dataset.get("class_counts") or [], result.dataset.get("labels") or []
        if len(counts) != 2 or len(labels) != 2:
            return "the shares of the classes, the same probabilities for all rows"
        share = percent(counts[1] / max(1, sum(counts)), 2)
        return f"the shares of the classes, a probability of {share} for {shortened(labels[1], 20)!r} in all rows"
    return f"always predicting {'the majority class' if errors.constant_name == 'majority' else 'the mean'}"


def _never_predicted(result: RunResult) -> str:
    """Return the warning of classes that are among the measured rows and never predicted; "" without such."""
    measured, labels = result.test or {}, result.dataset.get("labels") or []
    confusion = measured.get("confusion") or []
    if len(confusion) != len(labels):
        return ""
    missed = {
        f"{shortened(label, 30)!r} ({counted(sum(row), 'row')})": sum(row)
        for index, (label, row) in enumerate(zip(labels, confusion, strict=True))
        if sum(row) and not sum(other[index] for other in confusion)
    }
    if not missed:
        return ""
    said = f"Never predicted on test rows: {', '.join(list(missed)[:5])}."
    if min(missed.values()) > RARE * sum(map(sum, confusion)):
        return said  # not rare: the columns do not tell it
    lower = " or a lower --threshold, such as okl evaluate --recall 0.5 finds"
    if len(labels) == 2 and sum(confusion[0]) < sum(confusion[1]):  # the threshold is of the second one
        lower = (
            f" or a higher --threshold; --positive {shlex.quote(str(labels[0]))} makes it the class that rates are of"
        )
    way = "--class-weights balanced" + (lower if len(labels) == 2 else "")
    return f"{said} To find more of rare classes, use {way}."


RANKS = 0.6
"""ROC AUC above which a model ranks rows, even if its predicted classes are useless."""


def _advice(result: RunResult) -> str:
    """Return advice for a model that is no better than a constant."""
    errors, chosen = assess(result), result.chosen
    area = (result.get(errors.split) or {}).get("roc_auc")
    if errors.criterion in ("accuracy", "balanced-accuracy") and area is not None and area >= RANKS:
        way = "its probabilities, a lower --threshold" if result.calibration.get("on") else "its scores"
        return f"It does rank rows (ROC AUC {number(area)}): use {way}, or --optimise log-loss."
    if result.constraints and result.is_regression and not (result.settings.get("ingest") or {}).get("scale_target"):
        return (
            "Constrained weights have a bounded norm (--radius), and so have the predictions: of a target in large "
            "units, --scale standard --scale-target --radius 30."
        )
    if result.choice.get("far_targets"):
        return "A few far targets decide the squared errors of both; the mean absolute error says more."
    if _left_out_texts(result):
        return ""
    if result.choice:
        return "The columns may say little about the target, or more rows are needed."
    options = ["step_size", "class_weights"] if errors.constant_name == "majority" else ["step_size"]
    others = [name.replace("_", " ") for name in options if _has_option(result, name)]
    advice = " or ".join([", ".join(["another bandwidth", *others[:-1]]), *others[-1:]])
    if "support_vectors" in chosen:
        advice = f"another bandwidth{' or a larger budget' if 'budget' in chosen else ', fogd or nogd'}"
    rescaled = result.settings.get("rescale", "stored") not in ("stored", "none")
    scaled = rescaled or result.dataset.get("scale") not in (None, "none")
    return f"Try {advice}." if scaled else f"Scale the columns, or try {advice}."


def _has_option(result: RunResult, name: str) -> bool:
    """Return whether the solver of a run has an option; True for a solver of an extension, which may be gone."""
    solver = result.settings.get("solver")
    return solver not in SOLVERS or name in solver_settings(str(solver)).model_fields


def _why_linear_wins(result: RunResult) -> str:
    """Return the likely reason why a linear model is better, and advice."""
    chosen, settings = result.chosen, result.settings
    if "linear" in (chosen.get("map"), settings.get("kernel")):
        advice = "" if result.choice else " Try okl train without --solver, which compares maps and solvers."
        return f"This model is also linear.{advice}"
    measured, _ = result.measured
    if last_share_of((result.settings.get("ingest") or {}).get("holdout")):
        return (
            "The test rows are the last ones, and a kernel does not continue a trend: ages in place of dates, or "
            "--dates drop, may help."
        )
    if result.is_regression and measured.get("rmse", 0.0) > FAR_TARGETS * measured.get("mae", math.inf):
        return "A few far targets decide the squared errors of both; the mean absolute error says more."
    if result.choice:
        solver = "ridge" if result.is_regression else "logistic"
        return f"The dependence may be nearly linear: try --solver {solver} --kernel linear."
    single_bandwidth = "bandwidth" in chosen or settings.get("bandwidth", "auto") != "auto"
    rescaled = settings.get("rescale", "stored") not in ("stored", "none") or "maps" in chosen  # some maps standardise
    unscaled = single_bandwidth and result.dataset.get("scale") == "none" and not rescaled
    advice = "; for columns with different ranges, use --rescale standard" if unscaled else ""
    chosen_badly = "bandwidth or step size" if _has_option(result, "step_size") else "bandwidth"
    return f"The kernel does not help here, or its {chosen_badly} is unsuitable{advice}."


def memory_text(result: RunResult) -> str:
    """Return the planned memory as text; "" without a plan.

    >>> plan = {"worker_bytes": 600 * MIB, "held_bytes": 256 * MIB, "read_again_share": 0.25}
    >>> memory_text(RunResult({"memory_plan": plan | {"worker_limit_bytes": 1024 * MIB}, "workers": 2}))
    'planned: at most 600 of 1,024 MiB per worker; 25% of its rows are read again in each round'
    >>> memory_text(RunResult({"memory_plan": plan | {"worker_limit_bytes": None, "read_again_share": 0.0}}))
    'planned: at most 600 MiB'
    """
    plan = result.memory_plan
    if not plan:
        return ""
    limit, again = plan.get("worker_limit_bytes"), plan.get("read_again_share") or 0.0
    of_limit = f" of {limit / MIB:,.0f}" if limit else ""
    per_worker, whose = (" per worker", "its") if result.workers else ("", "the")
    read_again = f"; {100 * again:.0f}% of {whose} rows are read again in each round" if again > 0.0 else ""
    return f"planned: at most {plan['worker_bytes'] / MIB:,.0f}{of_limit} MiB{per_worker}{read_again}"


def memory_sentence(result: RunResult) -> str:
    """Return sentences on planned and used memory for the report; "" without a plan.

    A worker's plan covers passes over rows during training; the driver, which adds up and solves, has a separate plan.
    The peak covers the whole process and may exceed both.

    >>> plan = {"worker_bytes": 650 * MIB, "driver_bytes": 1200 * MIB, "process_bytes": 360 * MIB}
    >>> print(memory_sentence(RunResult({"memory_plan": plan, "peak_memory_bytes": 855 * MIB})))
    Memory planned: at most 650 MiB for passes over rows. For sums and the solution, at most 1,200 MiB (each includes \
360 MiB for Python and its libraries). Peak memory of this process: 855 MiB, including ingestion and evaluation.
    """
    plan, peak = result.memory_plan, result.peak_memory_bytes
    if not plan:
        return ""
    text = f"Memory {memory_text(result)}"
    if driver := plan.get("driver_bytes"):
        text += (
            f" for passes over rows. For sums and the solution, at most {driver / MIB:,.0f} MiB (each includes "
            f"{plan['process_bytes'] / MIB:,.0f} MiB for Python and its libraries)"
        )
    if peak:
        text += f". Peak memory of this process: {peak / MIB:,.0f} MiB, including ingestion and evaluation"
    return f"{text}."


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


# Timeline: written as Parquet, summarised for the report, and in words

TIMELINE_FILE = "timeline.parquet"
MOST_DRAWN_BUCKETS = 64
MOST_DRAWN_LANES = 8


def write_timeline(timeline: Timeline, path: Path) -> None:
    """Write begin_seconds, width_seconds, seconds by stage, bucket, lane (driver, worker or thread) and phase."""
    cells = timeline.cells()
    columns: dict[str, Any] = {name: [getattr(cell, name) for cell in cells] for name in TimelineCell._fields}
    table = pa.table(columns | {"width_seconds": [timeline.width] * len(cells)})
    pq.write_table(table, path, compression="zstd")


def describe_timeline(timeline: Timeline) -> dict[str, Any]:
    """Return the summary of a timeline for the report, as JSON values.

    Returns
    -------
    shares : shares of the phases in the stage learn, of the driver, and of all workers (or threads) if there are any
    workers : number of lanes except the driver's
    bucket_seconds : width of a bucket
    stages : each [name, start, end], in seconds since the start of the run
    lanes : at most eight lanes: name, and seconds in each bucket by phase; with more workers, also their mean
    """
    cells, times = timeline.cells(), 1
    last = max((cell.begin_seconds for cell in cells), default=0.0)
    while last >= MOST_DRAWN_BUCKETS * times * timeline.width:
        times *= 2
    width = times * timeline.width
    lanes: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        lane = lanes.setdefault(cell.lane, {phase: [0.0] * (int(last / width) + 1) for phase in PHASES})
        lane[cell.phase][int(cell.begin_seconds / width)] += cell.seconds
    workers = [lane for lane in timeline.lanes() if lane in lanes and lane != DRIVER]
    shares = {DRIVER: _phase_shares(cells, [DRIVER])} | ({"workers": _phase_shares(cells, workers)} if workers else {})
    started = timeline.begun
    return {
        "shares": shares,
        "workers": len(workers),
        "bucket_seconds": width,
        "stages": [[stage.name, round(stage.begun - started, 4), round(stage.ended - started, 4)]
                   for stage in timeline.stages],
        "lanes": [{"name": name, **{phase: [round(second, 5) for second in seconds]
                                    for phase, seconds in lane.items() if any(seconds)}}
                  for name, lane in _drawn_lanes(lanes, workers)],
    }  # fmt: skip


def _phase_shares(cells: Sequence[TimelineCell], lanes: Sequence[str]) -> dict[str, float]:
    """Return the share of each phase in the training time of some lanes; empty without training time."""
    spent: defaultdict[str, float] = defaultdict(float)
    for cell in cells:
        if cell.stage == LEARNING and cell.lane in lanes:
            spent[cell.phase] += cell.seconds
    total = sum(spent.values())
    return {phase: round(spent[phase] / total, 5) for phase in PHASES if spent[phase] > 0.0} if total > 0.0 else {}


def _drawn_lanes(
    lanes: Mapping[str, Mapping[str, list[float]]], workers: Sequence[str]
) -> list[tuple[str, Mapping[str, list[float]]]]:
    drawn = [(DRIVER, lanes[DRIVER])] if DRIVER in lanes else []
    shown = list(workers)
    if len(workers) > MOST_DRAWN_LANES - 1:
        of_all = {phase: zip(*(lanes[lane][phase] for lane in workers), strict=True) for phase in PHASES}
        mean = {phase: [sum(seconds) / len(workers) for seconds in buckets] for phase, buckets in of_all.items()}
        drawn.append((f"mean of {len(workers)}", mean))
        shown = shown[: MOST_DRAWN_LANES - 2]
    return [
        *drawn,
        *((f"worker {number}" if "://" in lane else lane, lanes[lane]) for number, lane in enumerate(shown, 1)),
    ]


LEAST_SHARE = 0.005
LEAST_SECONDS = 1.0
"""Shorter parts of a run are not named."""
STAGE_NAMES = {
    "ingest": "reading rows",
    "encode": "trial of encodings",
    "plan": "choice of the model",
    "learn": "training",
    "evaluate": "baselines, evaluation and importance",
}
"""Names of the stages that may take long; the others are the rest."""


def time_sentence(result: RunResult) -> str:
    """Return the seconds of the long stages of a run; "" if only training is long.

    >>> stages = [["ingest", 0.0, 2.5], ["plan", 2.5, 62.5], ["learn", 62.5, 70.0], ["evaluate", 70.0, 70.1]]
    >>> time_sentence(RunResult({"timeline": {"stages": stages}, "choice": {"why": []}, "total_seconds": 71.0}))
    '2.5 s reading rows, 60.0 s choice of the model, 7.5 s training, 1.0 s the rest'
    """
    names = STAGE_NAMES if result.choice else STAGE_NAMES | {"plan": "preparation"}
    spent = [(names[name], end - begin) for name, begin, end in result.timeline.get("stages") or [] if name in names]
    named = [(name, seconds) for name, seconds in spent if seconds >= LEAST_SECONDS]
    rest = (result.total_seconds or 0.0) - sum(seconds for _, seconds in named)
    if {name for name, _ in named} <= {STAGE_NAMES["learn"]}:
        return ""
    named += [("the rest", rest)] if rest >= LEAST_SECONDS else []
    return ", ".join(f"{duration(seconds)} {name}" for name, seconds in named)


def timeline_sentence(result: RunResult) -> str:
    """Return the sentence on shares of training time by phase; "" without a timeline."""
    shares, owner = phases(result), timeline_owner(result)
    if not shares:
        return ""
    count = result.timeline.get("workers") or 0
    named = "this process" if owner == "Time" else f"{count} {owner.lower() if count != 1 else owner.lower()[:-1]}"
    note = "If one compiled loop maps and trains, the time of the map counts as learn."
    return f"Training time of {named}: {shares}. {note}"


def timeline_owner(result: RunResult) -> str:
    """Return whose time was shared: "Workers", "Threads" or, of one process, "Time"."""
    if not (result.timeline.get("shares") or {}).get("workers"):
        return "Time"
    return "Workers" if result.workers else "Threads"


def phases(result: RunResult) -> str:
    """Return the shares of training time by phase as text, the largest first; "" without a timeline.

    >>> shares = {"driver": {"wait": 1.0}, "workers": {"read": 0.196, "learn": 0.8, "wait": 0.004}}
    >>> phases(RunResult({"timeline": {"shares": shares, "workers": 2}, "workers": 2}))
    '80% learn, 20% read'
    """
    shares = result.timeline.get("shares") or {}
    shares = shares.get("workers") or shares.get("driver") or {}
    named = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{100 * share:.0f}% {phase}" for phase, share in named if share >= LEAST_SHARE)
