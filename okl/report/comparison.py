"""Report of a comparison: sentences, table, page, and the summary for a terminal, made from the result only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from okl.foundation.locations import typed_model
from okl.foundation.types import Criterion
from okl.metrics.criterion import METRICS
from okl.report.blocks import Figure, Page, Section, Table, WarningBlock, page, paragraphs, without_empty
from okl.report.figures import compared_scores, score_paths
from okl.report.format import CRITERION_NAMES, criterion_value, duration, flatten, mean_and_spread, number
from okl.report.render import text
from okl.report.results import Result, entry

HEADER = ("Model", "Score", "Chosen", "Bias", "Gap", "Seconds", "Behind", "p")
BIAS_HEADER = ("Model", "Own bias", "Error-minimising bias", "Difference")
SIGNIFICANT = 0.05
LOOSE_GAP = 10.0  # times the tolerance
MORE_ITERATIONS = 10  # times those that did not suffice
UNSOLVED = "*"
MOST_CHOSEN = 16  # characters of what was chosen, in the table
MOST_SUMMARISED = 3


class ComparisonResult(Result):
    """Result of a comparison: what `okl compare --json` prints, with further attributes.

    Attributes
    ----------
    models : rows of the table by decreasing mean score; winner : the chosen model, with its parameters
    certificate : of the winner, trained on all rows
    """

    models: list[dict[str, Any]] = entry("models")
    winner: Mapping[str, Any] = entry("winner")

    def _summary(self) -> list[tuple[str, str]]:
        judged = [row for row in self.models if row["mean"] is not None][:MOST_SUMMARISED]
        scores = [f"{row['model']} {score_text(self, row['mean'], row['spread'])}" for row in judged]
        name, best = score_name(self), self.models[0]
        chosen = (self.winner.get("chosen") or {}).get("solver", "") if chosen_sentence(best) else ""
        return [
            ("Winner", " ".join([self.winner["model"], chosen or parameter_text(best)]).rstrip()),
            (f"{name[0].upper()}{name[1:]}", ", ".join(scores)),
            *super()._summary(),
        ]


def header(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return HEADER with the name of the criterion, and with the log loss beside an accuracy."""
    name = score_name(result)
    beside = ("Log loss",) if _has_log_losses(result) else ()
    return ("Model", f"{name[0].upper()}{name[1:]}", *beside, *HEADER[2:])


def _has_log_losses(result: Mapping[str, Any]) -> bool:
    return any("log_loss" in row for row in result["models"])


def score_name(result: Mapping[str, Any]) -> str:
    """Return the name of the values that models are compared by."""
    criterion = criterion_of_result(result)
    return "explained variance" if criterion == "squared-error" else CRITERION_NAMES[criterion]


def criterion_of_result(result: Mapping[str, Any]) -> Criterion:
    """Return the criterion of a comparison; comparisons of older versions were by accuracy."""
    criterion: Criterion = result.get("criterion", "accuracy")
    return criterion


def score_text(result: Mapping[str, Any], score: float, spread: float | None = None) -> str:
    """Return a score, 1 less the error, as the value of the criterion, with its standard deviation.

    >>> score_text({}, 0.85, 0.01), score_text({"criterion": "auc"}, 0.85, 0.01)
    ('85.00 ± 1.00 %', '0.850 ± 0.010')
    >>> score_text({"criterion": "log-loss"}, 0.7)
    '0.3000'
    """
    if _in_percent(result):
        return mean_and_spread(score, spread)
    text = criterion_value(criterion_of_result(result), 1.0 - score)
    return text if spread is None else f"{text} ± {spread:.3f}"


def _in_percent(result: Mapping[str, Any]) -> bool:
    return criterion_of_result(result) in ("accuracy", "balanced-accuracy", "squared-error")


def table_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of the table under HEADER; UNSOLVED marks gaps and tests of unfinished solutions."""
    marks = [UNSOLVED if _unsolved(row, result["settings"]["tolerance"]) else "" for row in result["models"]]
    return [_table_row(result, row, mark, mark or marks[0]) for row, mark in zip(result["models"], marks, strict=True)]


def _unsolved(row: Mapping[str, Any], tolerance: float) -> bool:
    return (row.get("relative_gap") or 0.0) > tolerance


def _table_row(result: Mapping[str, Any], row: Mapping[str, Any], mark: str, test_mark: str) -> list[str]:
    beside = [f"{row['log_loss']:.4f}" if "log_loss" in row else "-"] if _has_log_losses(result) else []
    if row["mean"] is None:
        return [row["model"], "failed", *beside, *["-"] * 3, duration(row["seconds"]), "-", "-"]
    behind = -row["difference"] + 0.0
    return [
        row["model"],
        score_text(result, row["mean"], row["spread"]),
        *beside,
        parameter_text(row),
        row["bias"] if row["kind"] == "certified" else "-",
        "-" if row["relative_gap"] is None else f"{row['relative_gap']:.1e}{mark}",
        duration(row["seconds"]),
        "best" if row["best"] else f"{100 * behind:.2f}" if _in_percent(result) else f"{behind:.4f}",
        "-" if row["best"] else f"{row['p_value']:.2g}{test_mark}",
    ]


def bias_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the best mean score by bias for models with both, under BIAS_HEADER; none if it changes nothing."""
    if criterion_of_result(result) not in ("accuracy", "balanced-accuracy"):
        return []
    rows = []
    for row in result["models"]:
        biases = row.get("biases") or {}
        if "own" in biases and "error-minimising" in biases:
            own, other = biases["own"], biases["error-minimising"]
            difference = f"{100 * (other['mean'] - own['mean']):+.2f}"
            cells = [mean_and_spread(accuracy["mean"], accuracy["spread"]) for accuracy in (own, other)]
            rows.append([row["model"], *cells, difference])
    return rows


def parameter_text(row: Mapping[str, Any]) -> str:
    """Return the chosen parameter as text.

    >>> parameter_text({"kind": "certified", "parameter": "nu", "value": 0.25, "place": 0.4})
    'nu 0.25'
    """
    if row["kind"] != "certified":
        return "see below" if chosen_sentence(row) else (row.get("chosen") or [""])[0] or "-"
    if row["value"] is not None:
        return f"{row['parameter']} {row['value']:.3g}"
    if row["parameter"] == "C":
        return f"C {row['place']:.3g}"
    return f"{row['parameter']} of each class, at {row['place']:.3g}"


def chosen_sentence(row: Mapping[str, Any]) -> str:
    """Return what a model without a grid chose in each part, where that does not fit the table; "" otherwise."""
    counts = Counter(row.get("chosen") or [])  # none in results of older versions
    if not counts or (len(counts) == 1 and len(min(counts)) <= MOST_CHOSEN):
        return ""
    total = counts.total()
    parts = (f"{chosen}{f' ({count} of {total} folds)' if total > 1 else ''}" for chosen, count in counts.items())
    return f"Chosen by {row['model']}: {'; '.join(parts)}."


def sentences(result: Mapping[str, Any]) -> list[str]:
    """Return the winner, how it was found, and how it was trained again, as sentences."""
    data, parts = result["dataset"], result["parts"]
    how = f"{parts}-fold cross validation" if parts > 1 else f"{number(result['judged_rows'])} held-out rows"
    searched, available = number(result["search_rows"]), number(data["train_rows"])
    rows = f"all {available}" if searched == available else f"{searched} of {available}"
    judged = score_name(result) + ("" if criterion_of_result(result) == "squared-error" else " (--optimise)")
    return [
        winner_sentence(result),
        f"It was trained again on {number(result['winner']['rows'])} rows{_certified(result)}{_test(result)}.",
        (
            f"{len(result['models'])} models were trained to predict {data['target']} from "
            f"{number(data['features'])} columns and validated by {how}, judged by {judged}, on {rows} "
            f"training rows. The search took {duration(result['search_seconds'])}, the whole run "
            f"{duration(result['total_seconds'])}."
        ),
    ]


def notes(result: Mapping[str, Any]) -> list[str]:
    """Return what the columns and marks of the table mean, and what was chosen, as sentences."""
    settings, unit = result["settings"], " in percentage points" if _in_percent(result) else ""
    lines = list(filter(None, map(chosen_sentence, result["models"])))
    if result["parts"] > 1:
        lines.append("±: standard deviation over the folds.")
    if any(row["kind"] == "certified" for row in result["models"]):
        lines.append(
            "Bias: own, the one that solves the model; none; error-minimising, the one of fewest errors on training "
            "rows. Gap: largest relative gap to the optimum over the folds."
        )
    lines.append(
        f"Seconds: the sum of all fits of a model, which may run in parallel. Behind: distance to the best "
        f"{score_name(result)}{unit}. p: {result['test_name']} against the best model, two-sided, not corrected for "
        "multiple tests. Parameters are chosen on the same rows that the table reports, for every model."
    )
    if any(_unsolved(row, settings["tolerance"]) for row in result["models"]):
        lines.append(
            f"Marked {UNSOLVED}: not solved to the relative gap of {settings['tolerance']:g} within "
            f"{settings['iterations']} iterations: {score_name(result)} and p are those of an unfinished solution, "
            "and may change."
        )
    if len(result["rungs"]) > 1:
        steps = ", ".join(number(rows) for rows in result["rungs"])
        lines.append(
            f"All {settings['grid']} values of a model were tried on few rows, and the better "
            f"half on twice as many each time: {steps} training rows."
        )
    return lines


def warning_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return the warnings."""
    data, winner, tolerance = result["dataset"], result["winner"], result["settings"]["tolerance"]
    warnings = []
    best = result["models"][0]
    if best["mean"] <= _constant(result):
        warnings.append(
            f"The best model is not better than {_constant_name(result)} ({score_text(result, _constant(result))})."
        )
    if winner["rows"] < data["train_rows"]:
        warnings.append(
            f"The winner was trained on a sample of {number(winner['rows'])} of "
            f"{number(data['train_rows'])} rows, as many as fit {result['settings']['memory']:g} "
            "GiB. Raise --memory to use more rows."
        )
    loose = [row for row in result["models"] if (row.get("relative_gap") or 0.0) > LOOSE_GAP * tolerance]
    if loose:
        names = ", ".join(f"{row['model']} ({row['relative_gap']:.1g})" for row in loose)
        advice = "Ingest with --scale standard, or raise" if data["scale"] == "none" else "Raise"
        more = MORE_ITERATIONS * result["settings"]["iterations"]
        warnings.append(
            f"Iterations ended far above the relative gap of {tolerance:g}: {names}. {advice} "
            f"--iterations, for example to {more}."
        )
    warnings += [f"{row['model']} failed: {row['note']}" for row in result["models"] if row["mean"] is None]
    return warnings


def linear_note(result: Mapping[str, Any]) -> list[str]:
    """Return the sentence on models that are linear in the inputs; "" if all use a feature map, or rows are sparse."""
    linear = [row["model"] for row in result["models"] if row["kind"] == "certified"]
    if not linear or result["settings"]["frequencies"] is not None or result["dataset"].get("sparse"):
        return []
    who = "All" if len(linear) == len(result["models"]) else "Models with a gap" if len(linear) > 1 else linear[0]
    verb = "is" if who == linear[0] else "are"
    return [f"{who} {verb} linear in the inputs; --frequencies 400 compares them on random Fourier features."]


def winner_sentence(result: Mapping[str, Any]) -> str:
    """Return the sentence on the best model and the models that are significantly worse."""
    best, *others = result["models"]
    judged = [row for row in others if row["mean"] is not None]
    alike = [row["model"] for row in judged if row["p_value"] > SIGNIFICANT]
    name = score_name(result)
    text = f"The best model is {best['model']} with {'an' if name[0] in 'aeo' else 'a'} {name} of "
    text += f"{score_text(result, best['mean'], best['spread'])}"
    text += f", against {score_text(result, _constant(result))} for {_constant_name(result)}"
    if not judged:
        return text + "."
    if not alike:
        than = "every other model" if len(judged) == len(others) else "every other model that did not fail"
        return f"{text}, and significantly better than {than} (p <= {SIGNIFICANT})."
    text = f"{text}; not significantly better (p > {SIGNIFICANT}) than {', '.join(alike)}."
    if apart := [
        f"{row['model']} has {row['log_loss']:.4f}"
        for row in judged
        if row["model"] in alike and row.get("log_loss_p_value", 1.0) <= SIGNIFICANT
    ]:
        text += f" Their log losses differ significantly from its {best['log_loss']:.4f}: {', '.join(apart)}."
    return text


def _constant(result: Mapping[str, Any]) -> float:
    score: float = result["constant"] if "constant" in result else result["majority"]
    return score


def _constant_name(result: Mapping[str, Any]) -> str:
    of_shares = criterion_of_result(result) in ("log-loss", "auc", "average-precision")
    if criterion_of_result(result) == "squared-error":
        return "the mean"
    return "the shares of the classes" if of_shares else "the majority class"


def _certified(result: Mapping[str, Any]) -> str:
    proof = result["certificate"]
    if proof is None:
        return ""
    text = f", certified within {proof['relative_gap']:.1e} of the least objective"
    tolerance = result["settings"]["tolerance"]
    if not _unsolved(proof, tolerance):
        return text
    more = MORE_ITERATIONS * result["settings"]["iterations"]
    return f"{text}, but not solved to the relative gap of {tolerance:g} (continue with --iterations {more})"


def _test(result: Mapping[str, Any]) -> str:
    test = result["test"]
    if not test:
        return ""
    rows = number(result["dataset"]["test_rows"])
    unseen = "" if result["settings"]["holdout"] == "test" else ", which were not used in the search,"
    criterion = criterion_of_result(result)
    if criterion == "squared-error":
        name, value = "RMSE", number(test["mse"] ** 0.5)
    elif (found := test.get(METRICS[criterion])) is not None:
        error = found if criterion in ("log-loss", "accuracy") else 1.0 - found
        name, value = score_name(result), score_text(result, 1.0 - error)
    else:  # the winner has no probabilities
        name, value = "accuracy", mean_and_spread(test["accuracy"])
    return f"; its {name} on the {rows} test rows{unseen} is {value}"


def comparison_page(result: Mapping[str, Any]) -> Page:
    """Return the report of a comparison."""
    name, constant = score_name(result), f"{_constant_name(result)}, {score_text(result, _constant(result))}"
    title = f"{name[0].upper()}{name[1:]}"
    drawn = {"name": name, "constant": _constant(result), "percent": _in_percent(result)}
    drawn["error"] = criterion_of_result(result) == "log-loss"
    spread = f"Mean and standard deviation over {result['parts']} folds" if result["parts"] > 1 else "On held-out rows"
    figures = [
        Figure(f"{title} of each model", partial(compared_scores, result, drawn), f"{spread}. Dashed: {constant}.")
    ]
    if paths := [row for row in result["models"] if len(row["path"]) > 1]:
        hollow = "Hollow: left out early, on fewer rows." if len(result["rungs"]) > 1 else ""
        figures.append(Figure(f"{title} by parameter", partial(score_paths, paths, drawn), hollow))
    models = [_table(result, "Models"), *paragraphs(*notes(result), *linear_note(result)), *figures]
    if biases := bias_rows(result):
        models.append(Table("Each bias rule at its own best value", BIAS_HEADER, biases, wide=True))
    assumed = [f"{sentence[0].upper()}{sentence[1:]}." for sentence in result.get("assumptions") or []]
    facts = flatten({key: value for key, value in result.items() if key != "models"})
    return page(
        f"{result['name']}: which model predicts {result['dataset']['target']} best",
        [*paragraphs(*sentences(result)), *map(WarningBlock, warning_sentences(result))],
        Section("models", "How good is each model?", models),
        Section("data", "What was assumed about the data?", paragraphs(*assumed)),
        Section("run", "Settings, data and the run", [Table("All values", (), facts, folded=True)]),
    )


def _table(result: Mapping[str, Any], title: str = "") -> Table:
    return without_empty(Table(title, header(result), table_rows(result), wide=True))


def text_summary(result: Mapping[str, Any]) -> str:
    """Return the summary as aligned lines for a terminal."""
    lines = (
        *(f"Assumed: {sentence}." for sentence in result.get("assumptions") or []),
        *notes(result),
        *(f"Warning: {sentence}" for sentence in warning_sentences(result)),
        f"Model: {result['model']}",
        f"Report: {result['run']}/report.html",
        f"To use it: okl predict {typed_model(result)} ROWS --out SCORES",
    )
    table = [_table(result), *paragraphs(*linear_note(result))]
    return text(paragraphs(*sentences(result)), table, paragraphs(*lines))
