"""Blocks and terminal lines on proofs: the gap to the optimum, regret, constraints and drift."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from okl.foundation.telemetry import ROUNDING
from okl.report.blocks import Block, Figure, Heading, Paragraph, Section, Table, paragraphs
from okl.report.figures import regret_curve, violation_curve, window_curve
from okl.report.format import CRITERION_NAMES, metric_name, mistake_rate_text, number, percent, shortened
from okl.report.quality import reliability_blocks
from okl.report.results import RunResult, assess, progressive_errors

Facts = list[tuple[str, str]]
"""Names and texts of lines for a terminal."""


def trust_section(result: RunResult) -> Section:
    """Return the section on chance, reliability of scores, certificates, constraints and drift."""
    (measured, rows_name), labels = result.measured, result.dataset.get("labels") or ()
    blocks = [
        *paragraphs(_chance(result)),
        *paragraphs(f"Probabilities: {probable.rstrip('.')}." if (probable := probability_sentence(result)) else ""),
        *reliability_blocks(measured, labels, result.settings, rows_name),
        *paragraphs(gap_sentence(result)),
        *regret_blocks(result),
        *constraint_blocks(result),
        *drift_blocks(result),
    ]
    return Section("trust", "Can I trust it?", blocks)


def probability_sentence(result: RunResult) -> str:
    """Return where the probabilities come from, and the threshold of the second of two classes; "" for a regression."""
    found = result.calibration
    if not found:
        return ""
    if "none" in found:
        return f"none. {found['none']}"
    text = f"calibrated on {found['on']}" if "loss" not in found["on"] else f"by {found['on']}"
    if found["on"].endswith("test rows"):
        rows, numbers = int(found["on"].split()[0].replace(",", "")), 1 + len(found.get("offsets") or ())
        # a number that is fitted gains 1 / 2n on its own rows and loses as much on others (Akaike, 1974)
        if numbers / rows >= 1e-4:  # less does not show in the four digits of a log loss
            text += f", whose log loss is therefore too low by about {number(numbers / rows)}"
    labels = result.dataset.get("labels") or [""]
    if "threshold" not in found and result.settings.get("class_weights", "none") != "none":
        return f"{text}; the predicted class need not be the most probable one, because of the class weights"
    if "threshold" not in found:
        return text
    return f"{text}; {shortened(labels[-1])!r} is predicted from {number(found['threshold'])} on (--threshold)"


def proof_facts(result: RunResult) -> Facts:
    """Return the lines on drift, the outcome, constraints and regret for a terminal."""
    outcome = result.certificate.get("outcome")
    facts = [*drift_facts(result), *([("Outcome", outcome)] if outcome else [])]
    return [*facts, *constraint_facts(result), *regret_facts(result)]


def _chance(result: RunResult) -> str:
    """Return sentences on the standard error of the error, and on the error on training rows."""
    errors, sentences = assess(result), []
    if errors.error is None:
        return ""
    if chance := errors.chance(errors.error):
        measured, spread = f"error of {mistake_rate_text(errors.error)}", percent(chance, 2)
        if not errors.is_share:
            measured, spread = f"{CRITERION_NAMES[errors.criterion]} of {errors.text(errors.error)}", f"{chance:.2g}"
        sentences.append(
            f"The {measured} on {number(errors.rows)} rows is accurate to ± {spread} (two standard errors)."
        )
    train_error = assess(result, ("train",)).error
    if errors.split == "test" and train_error is not None:
        seen, unseen = errors.sentence(train_error), errors.sentence(errors.error)
        sentences.append(f"Training rows: {seen}. Test rows, not used for training: {unseen}.")
    elif errors.split == "progressive" and errors.is_of_unseen_rows:
        sentences.append("Each row was predicted before the model was trained on it, so this error is on unseen rows.")
    elif errors.split == "train":
        sentences.append(
            "The error was measured on training rows, so it will be larger on new rows. Hold out test rows (--holdout)."
        )
    return " ".join(sentences)


def gap_sentence(result: RunResult) -> str:
    """Return the sentence on the certified gap of a solver; "" without one."""
    proof = result.certificate
    below = proof.get("dual_objective", proof.get("lower_bound"))
    if below is None or proof.get("objective") is None:
        return ""
    confidence, relative = proof.get("confidence"), proof.get("relative_gap")
    sure = "" if confidence is None else f" with {percent(confidence)} confidence"
    gap = f"the gap is at most {number(proof.get('gap'))}, or {percent(relative, 2)}"
    if relative is not None and relative < ROUNDING:
        gap = "this is the optimum, up to rounding"
    return (
        f"The training objective is {number(proof['objective'])}, and its minimum is proven{sure} to be at least "
        f"{number(below)}: {gap}. Remaining errors are due to model, kernel, settings and noise, not to the solver."
    )


# Regret, against fixed weights or against weights that change

REGRET_HEADER = ("Rows", "Regret", "Per row", "Bound", "Bound / regret", "Loss", "Comparator's gap")
TRACKING_HEADER = (
    "Changes at most",
    "Comparator's loss",
    "Regret",
    "Regret at most",
    "At any rows, at most",
    "Changes at",
)


def regret_blocks(result: RunResult) -> list[Block]:
    """Return sentences, figures and a table on regret, or the reason why there is none; empty without a certificate."""
    proof = result.certificate
    if proof.get("kind") not in ("regret", "tracking regret"):
        return []
    heading = Heading("Regret")
    if not proof.get("shown"):
        return [heading, Paragraph(f"No regret is shown. {proof.get('reason')}")]
    if proof["kind"] == "tracking regret":
        names = ("changes", "comparator_loss", "regret", "regret_at_most", "regret_at_most_anywhere")
        rows = [
            [*(number(line[name]) for name in names), ", ".join(number(row + 1) for row in line["rows"]) or "-"]
            for line in proof["comparisons"]
        ]
        return [
            heading,
            *paragraphs(
                f"Total {proof['loss_name']} loss over {number(proof['rows'])} rows: {number(proof['loss'])}, with "
                f"{number(proof['mistakes'])} mistakes. This is {_than(proof['comparisons'][0]['regret'])} than that "
                "of the best fixed weights.",
                f"Comparators are weights in the ball of radius {number(proof['radius'])} on the same map that change "
                f"at most the given number of times, at borders of {len(proof['borders']) - 1} windows.",
                "Column 4 is an upper bound of the regret for changes at these borders. Column 5 is an upper bound for "
                "changes at any row, where the comparator's loss counts as 0 in a window with a change.",
            ),
            Table("Regret against models that change", TRACKING_HEADER, rows),
        ]
    rows = [
        [
            *(number(at[name]) for name in ("rows", "regret", "average_regret", "bound")),
            number(at["bound"] / at["regret"]) if at["regret"] > 0 and at["bound"] is not None else "-",
            number(at["loss"]),
            f"{100 * at['comparator']['relative_gap']:.2g}%",
        ]
        for at in proof["horizons"]
    ]
    sentences = paragraphs(
        _loss_sentence(proof, result.is_regression), _bound_sentence(proof), _kernel_bound_sentence(proof)
    )
    return [heading, *sentences, *_regret_figures(proof), Table("Regret at each horizon", REGRET_HEADER, rows)]


def regret_facts(result: RunResult) -> Facts:
    """Return the lines on regret for a terminal; empty without a certificate."""
    proof = result.certificate
    if proof.get("kind") not in ("regret", "tracking regret"):
        return []
    if not proof.get("shown"):
        reason = str(proof.get("reason"))
        return [("Regret", f"not shown: {reason[:1].lower()}{reason[1:]}")]
    if proof["kind"] == "tracking regret":
        regrets = ", ".join(f"{number(line['regret'])} ({line['changes']})" for line in proof["comparisons"])
        return [("Regret (changes)", f"{regrets}; total loss {number(proof['loss'])}")]
    exponent, kernel = proof.get("growth_exponent"), proof.get("kernel_bound")
    growth = f"; it grows as rows^{exponent:.2f}" if exponent is not None else ""
    per_row = f"{number(proof['average_regret'])} per row; bound {number(proof['bound'])}"
    regret = f"{number(proof['regret'])}, at most {number(proof['regret_at_most'])} ({per_row}){growth}"
    if not kernel:
        return [("Regret", regret)]
    note = "vacuous: not below the total loss" if kernel["vacuous"] else f"probability {kernel['probability']:g}"
    floor = "by projection" if "residual_trace" in kernel else "by the map's error"
    source = floor if "least_loss" in kernel else f"by {_theorem(kernel)}"
    return [("Regret", regret), ("Kernel bound", f"{number(kernel['bound'])} {source} ({note})")]


def _regret_figures(proof: Mapping[str, Any]) -> list[Block]:
    """Return the figures, on logarithmic axes, if regret is positive at two or more horizons."""
    horizons = [horizon for horizon in proof["horizons"] if horizon["regret"] > 0.0]
    if len(horizons) < 2:
        return []
    last, growth = horizons[-1], proof.get("growth_exponent")
    after = f"after {number(last['rows'])} rows"
    total = f"{number(last['regret'])} {after}; theoretical bound {number(last['bound'])}."
    average = f"{number(last['average_regret'])} {after}."
    return [
        Figure("Regret against rows", partial(regret_curve, horizons, growth), total),
        Figure("Average regret against rows", partial(regret_curve, horizons, growth, per_row=True), average),
    ]


def _than(regret: float) -> str:
    return f"{number(abs(regret))} {'more' if regret >= 0 else 'less'}"


def _loss_sentence(proof: Mapping[str, Any], is_regression: bool) -> str:
    regret, comparator = proof["regret"], proof["comparator"]
    # on changing data an online solver may beat all fixed weights
    drift = "" if regret >= 0 else " A negative regret is possible if the data change over time."
    if is_regression:
        drift += " Losses are half squared errors; the learner's errors up to epsilon count 0."
    return (
        f"Total loss over {number(proof['rows'])} rows: {number(proof['loss'])}, {_than(regret)} than that of the best "
        f"fixed weights in the ball of radius {number(comparator['radius'])} "
        f"({number(abs(proof['average_regret']))} per row). The comparator's relative gap is "
        f"{100 * comparator['relative_gap']:.2g}%, so the regret is at most {number(proof['regret_at_most'])}.{drift}"
    )


def _bound_sentence(proof: Mapping[str, Any]) -> str:
    exponent, regret = proof.get("growth_exponent"), proof["regret"]
    growth = "No growth rate is given, because the regret is not positive at two or more horizons."
    if exponent is not None:
        trend = "decreases" if exponent < 1.0 else "does not decrease"
        growth = f"The regret grows as rows^{exponent:.3f}, so the regret per row {trend}."
    if proof["bound"] is None:
        return f"No theoretical bound holds for these settings. {growth}"
    times = f", {number(proof['bound'] / regret)} times as large" if regret > 0 else ""
    return f"The theoretical bound of the regret is {number(proof['bound'])}{times}. {growth}"


def _kernel_bound_sentence(proof: Mapping[str, Any]) -> str:
    kernel = proof.get("kernel_bound")
    if not kernel:
        return ""
    vacuous = f" This bound is vacuous: the total loss is {number(proof['loss'])}." if kernel["vacuous"] else ""
    if "residual_trace" in kernel:
        radius, least = number(proof["comparator"]["radius"]), number(kernel["least_loss"])
        return (
            f"Against all functions of the kernel itself in a ball of radius {radius}, the regret is at most "
            f"{number(kernel['bound'])}: none has a loss below {least}, by that of its projection onto the landmarks. "
            f"This takes the place of {_theorem(kernel)} of Lu et al. (JMLR 17, 2016). The kernel matrix's error has "
            f"the trace {number(kernel['residual_trace'])}.{vacuous}"
        )
    if "least_loss" in kernel:
        return (
            f"Against functions of the kernel itself whose coefficient sum is at most {number(kernel['l1_norm'])}, "
            f"the regret is at most {number(kernel['bound'])}: none has a loss below {number(kernel['least_loss'])}, "
            f"with a kernel error of {number(kernel['epsilon'])} (probability {kernel['probability']:g}). This takes "
            f"the place of {_theorem(kernel)} of Lu et al. (JMLR 17, 2016).{vacuous}"
        )
    return (
        f"Against functions of the kernel itself, the regret is at most {number(kernel['bound'])} by "
        f"{_theorem(kernel)} of Lu et al. (JMLR 17, 2016), with coefficient sum {number(kernel['l1_norm'])} and kernel "
        f"error {number(kernel['epsilon'])} (probability {kernel['probability']:g}).{vacuous}"
    )


def _theorem(kernel: Mapping[str, Any]) -> str:
    """Return the name of the theorem of a bound, such as "Theorem 1"."""
    return str(kernel["theorem"]).split(", ")[-1]


# Constraints

CONSTRAINT_HEADER = ("Constraint", "Training rows", "Test rows", "Decisions, training", "Decisions, test")
RATES = {
    "positive_rate": "positive rate",
    "positive_rate_difference": "positive rates differ by",
    "decision_covariance": "covariance",
}


LIMITED = {
    "binary": "The constraints limit mean scores, not decisions. Positive rates of the decisions are shown for "
    "comparison.",
    "multiclass": "The constraints limit the mean scores of each class, not decisions. Shown are the class farthest "
    "outside its limits, or nearest to them, and how often it is predicted.",
    "regression": "The constraints limit mean predictions, in the unit of the target.",
}


def constraint_blocks(result: RunResult) -> list[Block]:
    """Return whether the constraints are satisfied, and their violation; empty without constraints."""
    constraints = result.constraints
    if not constraints:
        return []
    met = "satisfies every constraint" if constraints["met"] else "does NOT satisfy every constraint"
    blocks: list[Block] = [
        Heading("Constraints"),
        *paragraphs(
            f"On all {number(constraints['rows'])} training rows, the model {met} (safety margin "
            f"{number(constraints['margin'])}). Values may differ on new rows: those on test rows are shown with two "
            "standard errors.",
            f"During training, the average violation per row was {number(constraints['violation_a_row'])} in units of "
            f"the constraints. The final projection removed a violation of "
            f"{number(constraints['violation_as_learnt'])}. {constraints['theorem']}",
            LIMITED[result.dataset.get("task", "binary")],
        ),
    ]
    if violations := constraints.get("curve"):
        caption = f"Average violation per row at the end: {number(violations[-1][1])}."
        blocks.append(Figure("Violation during training", partial(violation_curve, violations), caption))
    rows = [
        [limit["constraint"], _value(limit["train"], False), _value(limit.get("test"), True)]
        + [_rate(limit.get(split)) for split in ("train", "test") if not result.is_regression]
        for limit in constraints["limits"]
    ]
    return [*blocks, Table("Constraints", CONSTRAINT_HEADER[: len(rows[0])], rows, wide=True)]


def constraint_facts(result: RunResult) -> Facts:
    """Return a line for each constraint for a terminal."""
    facts = []
    for limit in result.constraints.get("limits") or []:
        test = f", {_value(limit['test'], True)} on test rows" if limit.get("test") else ""
        rate, rows = _rate(limit.get("test") or limit["train"]), "test" if limit.get("test") else "training"
        decided = f"; {rate} on {rows} rows" if rate != "-" else ""
        facts.append((limit["constraint"], f"{_value(limit['train'], False)} on training rows{test}{decided}"))
    return facts


def _value(figures: Mapping[str, Any] | None, with_error: bool) -> str:
    if not figures:
        return "-"
    error, of_class = figures["standard_error"], f" (class {figures['class']})" if "class" in figures else ""
    spread = f" ± {number(2.0 * error)}" if with_error and error is not None else ""
    return number(figures["value"]) + spread + of_class


def _rate(figures: Mapping[str, Any] | None) -> str:
    figures = figures or {}
    return next((f"{text} {number(figures[name])}" for name, text in RATES.items() if name in figures), "-")


# Drift

MAX_SIGNALS = 3  # in a sentence


def drift_blocks(result: RunResult) -> list[Block]:
    """Return the sentence on drift in the windows of a run, and the figure of their errors."""
    blocks: list[Block] = []
    points, drift = result.windows.get("points") or [], result.drift
    if drift.get("windows"):
        signals, windows = drift["signals"], f"{number(drift['windows'])} windows"
        windows += f" of {number(result.windows['rows'])} rows or more"
        chance = f"without drift, at most one in {number(round(1.0 / drift['level']))} windows signals by chance"
        # a learner that keeps pace with a change has no higher error
        tested, slow = "error of the learner before each update", " This does not test the saved model."
        if drift["of_kept_models"]:
            tested, slow = "error of frozen models", ""
        text = f"No drift found: in none of {windows} did the {tested} rise by more than chance ({chance}).{slow}"
        if signals:
            listed = "; ".join(_signal(signal) for signal in signals[:MAX_SIGNALS])
            more = f"; and {number(len(signals) - MAX_SIGNALS)} more" if len(signals) > MAX_SIGNALS else ""
            text = f"Drift: {number(len(signals))} of {windows} signal a higher {tested} ({chance}): {listed}{more}."
        blocks += [Heading("Drift"), Paragraph(text)]
    if len(points) > 1:
        errors = progressive_errors(result)
        error = metric_name(errors.metric).lower()
        signals = drift.get("signals") or ()
        draw = partial(window_curve, points, signals, error, errors.constant_name, shares=errors.is_share)
        blocks.append(Figure("Error in each window", draw, "Markers: windows with a significantly higher error."))
    return blocks


def drift_facts(result: RunResult) -> Facts:
    """Return the line on drift for a terminal; empty without windows."""
    drift = result.drift
    if not drift.get("windows"):
        return []
    signals, windows = drift["signals"], f"{number(drift['windows'])} windows"
    if not signals:
        whose = "frozen models" if drift["of_kept_models"] else "the learner (this does not test the saved model)"
        return [("Drift", f"in none of {windows} did the error of {whose} rise by more than chance")]
    clearest = _signal(min(signals, key=lambda signal: signal["p_value"]))
    return [("Drift", f"{number(len(signals))} of {windows} signal a higher error; clearest: {clearest}")]


def _signal(signal: Mapping[str, Any]) -> str:
    last, first = number(signal["last_row"] + 1), number(signal["first_row"] + 1)
    return f"rows {first} to {last}, error {100.0 * signal['rate']:.1f}%, before {100.0 * signal['past_rate']:.1f}%"
