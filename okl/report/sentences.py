"""Sentences on a training run: its error against baselines, criterion, budget of time, memory, and warnings."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from okl.foundation.catalogue import SOLVERS
from okl.foundation.settings import last_share_of
from okl.foundation.types import Criterion
from okl.metrics.criterion import RARE, outside_share
from okl.report.format import (
    CRITERION_NAMES,
    MEASURED_ON,
    MIB,
    counted,
    duration,
    error_value,
    named_error,
    number,
    percent,
    shortened,
)
from okl.report.results import Assessment, RunResult, assess
from okl.solvers.factory import SPARSE_SOLVERS
from okl.solvers.settings import solver_settings


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
        parts.append(
            f"{_constant_said(errors, result)}{verdict}{_second(result, errors, errors.constant_name, verdict)}"
        )
    limits = " within the same limits" if result.constraints else ""
    baselines = {"linear": f"a linear model{limits}", "boosting": "gradient boosting"}
    baselines |= {f"{name}-without-words": f"{said} without the words" for name, said in baselines.items()}
    for name, said in baselines.items():
        if (difference := errors.difference(name)) is not None:
            tie = f": a tie ({errors.difference_text(difference)})" if difference.is_tie else ""
            verdict = tie or (", which is better" if difference.gain < 0.0 else "")
            parts.append(f"{said} {_said(errors, errors.others[name])}{verdict}{_second(result, errors, name, tie)}")
    return "; ".join(parts) + "."


def _second(result: RunResult, errors: Assessment, baseline: str, tie: str) -> str:
    """Return what a tie hides: another metric in which the model and a baseline clearly differ."""
    if not tie or baseline not in errors.hidden:
        return ""
    second = errors.hidden[baseline]
    chosen_by_it = result.choice and second.metric == "log_loss" and not second.is_better
    advice = " (to choose the model by it: --optimise log-loss)" if chosen_by_it else ""
    return f", {'but' if second.is_better or errors.beats_constant else 'and'} {second.text}{advice}"


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


OVER = 1.1
"""Multiple of the budget above which a sentence states that it was exceeded."""


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


# Warnings

MOST_DATA_WARNINGS = 3
FEW_OF_CLASS = 10
"""Rows of a class below which a sentence says that its figures may be chance."""
FAR_TARGETS = 2.0
"""Root mean squared error, in mean absolute errors, above which few rows decide it: 1.25 of a normal distribution."""
FEW_SURPRISING = 100
"""Test rows below which a larger error than that of the choice, or a difference of means, may be chance."""
CLEARLY_BIASED = 4.0
"""Standard errors between the means of predictions and targets above which the difference is not chance."""
FAR_MEANS = 0.05
"""Difference of these means, over the size of the mean target, above which a warning states both."""
FAR_WORSE = 0.03
"""Difference of two shares of mistakes, or of unexplained variance, above which a warning says that rows change."""
FEW_ROWS = 30
"""Test rows below which a warning says that figures may be chance."""


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
    if changing := _changing_relation(result):
        warnings.append(changing)
    if leak := _deciding_column(result, errors):
        warnings.append(leak)
    linear, second = errors.difference("linear"), errors.hidden.get("linear")
    is_linear = "linear" in (result.chosen.get("map"), result.settings.get("kernel"))
    decided = is_linear or (second is not None and second.is_better)  # a tie that the headline has
    if linear is not None and linear.gain < 0.0 and not (linear.is_tie and decided):
        verdict = f"as good ({errors.difference_text(linear)})" if linear.is_tie else "better"
        hidden = _second(result, errors, "linear", verdict if linear.is_tie else "")
        why = "" if hidden or harder or changing else _why_linear_wins(result)
        warnings.append(
            f"A linear model is {verdict}: {errors.sentence(errors.others['linear'])}, this model "
            f"{errors.sentence(errors.error)}{hidden}. {why}".rstrip()
        )
    words = errors.difference("linear-without-words")
    if words is not None and (words.gain <= 0.0 or words.is_tie):
        warnings.append(
            f"No better than without the words, beyond chance: {errors.sentence(errors.error)}, a linear model of the "
            f"other columns {errors.sentence(errors.others['linear-without-words'])}. Try it without --text."
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
        use = "--kernel linear" if result.settings.get("solver") in SPARSE_SOLVERS else "--solver auto, no --kernel"
        warnings.append(f"Rows are sparse: a linear model is usually better and faster. Try {use}.")
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
        of_data[MOST_DATA_WARNINGS:] = [f"Data: {counted(more, 'more warning')}, shown by `okl describe {folder}`."]
    n_first = min(len(texts), MOST_DATA_WARNINGS)
    return of_data[:n_first] + warnings + of_data[n_first:]


def _left_out_texts(result: RunResult) -> list[str]:
    """Return the warnings of columns that were left out and whose words --text would take."""
    warnings = result.dataset.get("warnings") or []
    return [warning for warning in warnings if "is left out: " in warning and "--text " in warning]


def _biased(result: RunResult, errors: Assessment) -> str:
    """Return the warning of predictions whose mean on test rows is far from that of the targets; "" without."""
    huber, bias = result.settings.get("huber") is not None, (result.test or {}).get("bias") or {}
    # Huber's loss is biased on training rows, too, of which there are more
    surest = (huber and (result.train or {}).get("bias")) or bias
    found, chance = surest.get("mean"), surest.get("standard_error")
    mean, true = bias.get("mean"), bias.get("target_mean")
    if mean is None or true is None or found is None or chance is None or errors.rows < FEW_SURPRISING:
        return ""
    if abs(found) <= CLEARLY_BIASED * chance or abs(mean) <= FAR_MEANS * abs(true):
        return ""
    advice = " For sums, use --solver ridge without --huber (least squares)." if huber else ""
    return (
        f"On test rows, the mean prediction is {number(true + mean)}, the mean target {number(true)}: sums of "
        f"predictions are too {'low' if mean < 0.0 else 'high'}.{advice}"
    )


def _changing_relation(result: RunResult) -> str:
    """Return the warning of averaged weights that are far worse than the weights on the way were; "" without such."""
    settings, last = result.settings, bool(last_share_of((result.settings.get("ingest") or {}).get("holdout")))
    in_order = settings.get("order") == "stored" and result.get("mode") == "stream" and result.passes == 1
    averages = settings.get("average") and settings.get("track") is False  # others have no --track
    if not in_order or not averages or settings.get("threshold") is not None:
        return ""
    name: Criterion = "squared-error" if result.is_regression else "accuracy"

    def error(split: str) -> float | None:
        """Return the mistake rate, or the share of the variance that is unexplained."""
        if not result.is_regression:
            return (result.get(split) or {}).get("mistake_rate")
        loss, of_mean = (
            ((one or {}).get(split) or {}).get("squared_loss") for one in (result, result.baselines.get("mean"))
        )
        return loss / of_mean if loss is not None and of_mean else None

    before = error("progressive")
    for split, rows in (("test", result.dataset.get("test_rows")), ("train", result.rows))[not last :]:
        after = error(split)
        if before is None or after is None or not rows or before >= 1.0:  # no better than the mean
            continue
        if after - before > max(FAR_WORSE, 2.0 * math.sqrt((before + after) / rows)):
            return (
                f"The relation changes over the rows: {named_error(name, before)} before each is learned, "
                f"{error_value(name, after)} {MEASURED_ON[split]} by the saved average weights. In time order: "
                f"--track{'' if last else ' --holdout last'}; else: --order shuffle."
            )
    return ""


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
    """Return the warning of a column that decides most predictions, if they are nearly perfect or of target means."""
    columns = (result.get("importance") or {}).get("columns") or []
    rises = [max(0.0, column["rise"]) for column in columns]
    nearly_perfect = (
        errors.error is not None and bool(errors.constant) and errors.error <= 0.01 * (errors.constant or 0.0)
    )
    if len(rises) < 2 or errors.rows < FEW_SURPRISING or rises[0] < 0.7 * sum(rises):
        return ""
    name, drop = columns[0]["column"], "if it contains the target: --drop"
    # its inputs are target means of values with few rows each, as of a customer
    has_means = any(one.startswith(f"{name}=") for one in result["importance"].get("fractions", ()))
    if not (nearly_perfect or (has_means and errors.beats_constant)):
        return ""
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
    """Return the warning of classes that are never predicted, or of a rarest one that is seldom found; "" without."""
    measured, labels = result.test or {}, result.dataset.get("labels") or []
    confusion = measured.get("confusion") or []
    if len(confusion) != len(labels) or not any(map(any, confusion)):
        return ""
    missed = {
        f"{shortened(label, 30)!r} ({counted(sum(row), 'row')})": sum(row)
        for index, (label, row) in enumerate(zip(labels, confusion, strict=True))
        if sum(row) and not sum(other[index] for other in confusion)
    }
    total, said = sum(map(sum, confusion)), f"Never predicted on test rows: {', '.join(list(missed)[:5])}."
    if not missed:
        rows, index = min((sum(row), index) for index, row in enumerate(confusion) if sum(row))
        found, given = confusion[index][index], {"class_weights": "none", "threshold": None}
        as_usual = all(result.settings.get(name, usual) == usual for name, usual in given.items())
        # a recall below one half by two standard deviations, of a class of less than 0.4 times an equal share
        if not as_usual or 0.5 * rows - found <= math.sqrt(rows) or rows > 2.0 * RARE * total / len(labels):
            return ""
        said = (
            f"Only {percent(found / rows, 3)} of the {rows:,} test rows of {shortened(labels[index], 30)!r} are found."
        )
    elif min(missed.values()) > RARE * total:
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
    if any("are not the newest by" in warning for warning in result.dataset.get("warnings") or []):
        return ""
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
