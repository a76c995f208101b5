"""A comparison as text: the cells of its table, and what it comes to in sentences; all from the result alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.home import typed_model
from okl.store.texttables import aligned
from okl.store.wording import number, seconds

HEADER = ("Model", "Accuracy", "Chosen", "Bias", "Gap", "Seconds", "Behind", "p")
BIAS_HEADER = ("Model", "Own bias", "Error-minimising bias (26)", "Difference")
SIGNIFICANT = 0.05
LOOSE_GAP = 10.0  # times the tolerance
MORE_ITERATIONS = 10  # times those that did not suffice
UNSOLVED = "*"


def table_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """The rows of the table as text, a column each of HEADER; UNSOLVED marks gaps and tests of unfinished solutions."""
    marks = [UNSOLVED if _unsolved(row, result["settings"]["tolerance"]) else "" for row in result["models"]]
    return [_table_row(row, mark, mark or marks[0]) for row, mark in zip(result["models"], marks, strict=True)]


def _unsolved(row: Mapping[str, Any], tolerance: float) -> bool:
    return (row.get("relative_gap") or 0.0) > tolerance


def _table_row(row: Mapping[str, Any], mark: str, test_mark: str) -> list[str]:
    if row["mean"] is None:
        return [row["model"], "failed", *["-"] * 3, seconds(row["seconds"]), "-", "-"]
    return [
        row["model"],
        percent(row["mean"], row["spread"]),
        parameter_words(row),
        row["bias"] if row["kind"] == "certified" else "-",
        "-" if row["relative_gap"] is None else f"{row['relative_gap']:.1e}{mark}",
        seconds(row["seconds"]),
        "best" if row["best"] else f"{-100 * row['difference'] + 0.0:.2f}",
        "-" if row["best"] else f"{row['p_value']:.2g}{test_mark}",
    ]


def bias_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """For each model that has both kinds of bias, the best mean of either, a column each of BIAS_HEADER."""
    rows = []
    for row in result["models"]:
        found = row.get("biases") or {}
        if "own" in found and "error-minimising" in found:
            own, other = found["own"], found["error-minimising"]
            difference = f"{100 * (other['mean'] - own['mean']):+.2f}"
            cells = [percent(one["mean"], one["spread"]) for one in (own, other)]
            rows.append([row["model"], *cells, difference])
    return rows


def parameter_words(row: Mapping[str, Any]) -> str:
    """The chosen parameter.

    >>> parameter_words({"kind": "certified", "parameter": "nu", "value": 0.25, "place": 0.4})
    'nu 0.25'
    """
    if row["kind"] != "certified":
        return "-"
    if row["value"] is not None:
        return f"{row['parameter']} {row['value']:.3g}"
    if row["parameter"] == "C":
        return f"C {row['place']:.3g}"
    return f"{row['parameter']} of each class, at {row['place']:.3g}"


def percent(mean: float, spread: float | None) -> str:
    """A mean and its spread.

    >>> percent(0.8512, 0.0034), percent(0.8512, None)
    ('85.12 ± 0.34 %', '85.12 %')
    """
    return f"{100 * mean:.2f} %" if spread is None else f"{100 * mean:.2f} ± {100 * spread:.2f} %"


def sentences(result: Mapping[str, Any]) -> list[str]:
    """What was compared, how, and what came of it."""
    data, settings, winner = result["dataset"], result["settings"], result["winner"]
    parts = result["parts"]
    how = f"{parts}-fold cross validation" if parts > 1 else f"{number(result['judged_rows'])} rows held out"
    said = [
        f"{len(result['models'])} models learnt to predict {data['target']} from {number(data['features'])} columns, "
        f"judged by {how} on {_rows_of(result)} training rows, in "
        f"{seconds(result['search_seconds'])}; everything together took {seconds(result['total_seconds'])}.",
        winner_sentence(result),
        f"It was learnt again from {number(winner['rows'])} rows{_certified(result)}{_test(result)}.",
        f"p: {result['test_name']} against the best, two-sided, not corrected for how many there are. Chosen values "
        "are the best ones on the very rows that the table reports, for every model alike. Seconds: of all fits of a "
        "model added up, several of which may run at once.",
    ]
    if any(_unsolved(row, settings["tolerance"]) for row in result["models"]):
        said.append(
            f"Marked {UNSOLVED}: not solved to the relative gap of {settings['tolerance']:g} within "
            f"{settings['iterations']} iterations: accuracy and p are those of an unfinished solution, and may change."
        )
    if len(result["rungs"]) > 1:
        steps = ", ".join(number(rows) for rows in result["rungs"])
        said.append(
            f"All {settings['grid']} values of a model were tried on few rows, the better half of them on twice as "
            f"many: {steps} training rows."
        )
    return said


def warning_sentences(result: Mapping[str, Any]) -> list[str]:
    """What a reader must not overlook."""
    data, winner, tolerance = result["dataset"], result["winner"], result["settings"]["tolerance"]
    warnings = []
    best = result["models"][0]
    if best["mean"] <= result["majority"]:
        warnings.append(
            f"The best model is not better than always naming the majority class ({percent(result['majority'], None)})."
        )
    if winner["rows"] < data["train_rows"]:
        warnings.append(
            f"The winner was learnt from a sample of {number(winner['rows'])} of {number(data['train_rows'])} rows, as "
            f"many as fit {result['settings']['memory']:g} GiB. Raise --memory for more."
        )
    loose = [row for row in result["models"] if (row.get("relative_gap") or 0.0) > LOOSE_GAP * tolerance]
    if loose:
        names = ", ".join(f"{row['model']} ({row['relative_gap']:.1g})" for row in loose)
        advice = "Ingest with --scale standard, or raise" if data["scale"] == "none" else "Raise"
        more = MORE_ITERATIONS * result["settings"]["iterations"]
        warnings.append(
            f"Iterations ran out far above the relative gap of {tolerance:g}: {names}. {advice} --iterations, to "
            f"{more} for example."
        )
    warnings += [f"{row['model']} failed: {row['note']}" for row in result["models"] if row["mean"] is None]
    return warnings


def text_summary(result: Mapping[str, Any]) -> str:
    """Aligned lines for a terminal."""
    lines = [*aligned([list(HEADER), *table_rows(result)]), *linear_note(result)]
    said = ["", *sentences(result), *(f"Warning: {warning}" for warning in warning_sentences(result))]
    files = [f"Model: {result['model']}", f"Report: {result['run']}/report.html"]
    return "\n".join([*lines, *said, *files, f"To use it: okl predict {typed_model(result)} ROWS --out SCORES"])


def linear_note(result: Mapping[str, Any]) -> list[str]:
    """Which models are linear in the inputs, beside the kernel ones of okl train; nothing where a map is under all."""
    linear = [row["model"] for row in result["models"] if row["kind"] == "certified"]
    if not linear or result["settings"]["frequencies"] is not None:
        return []
    who = "All" if len(linear) == len(result["models"]) else "Those with a gap" if len(linear) > 1 else linear[0]
    verb = "is" if who == linear[0] else "are"
    return [f"{who} {verb} linear in the inputs; --frequencies 400 compares them on random Fourier features."]


def winner_sentence(result: Mapping[str, Any]) -> str:
    """Which model is the best, and than which others that is more than chance."""
    best, *others = result["models"]
    judged = [row for row in others if row["mean"] is not None]
    alike = [row["model"] for row in judged if row["p_value"] > SIGNIFICANT]
    told = f"The best is {best['model']}, right in {percent(best['mean'], best['spread'])} of cases"
    told += f" against {percent(result['majority'], None)} for the majority class"
    if not judged:
        return told + "."
    if not alike:
        than = "every other one" if len(judged) == len(others) else "every other one that did not fail"
        return f"{told}, and significantly better than {than} (p <= {SIGNIFICANT})."
    return f"{told}; not significantly better (p > {SIGNIFICANT}) than {', '.join(alike)}."


def _rows_of(result: Mapping[str, Any]) -> str:
    searched, there = result["search_rows"], result["dataset"]["train_rows"]
    return f"all {number(there)}" if searched == there else f"{number(searched)} of {number(there)}"


def _certified(result: Mapping[str, Any]) -> str:
    proof = result["certificate"]
    if proof is None:
        return ""
    told = f", within {proof['relative_gap']:.1e} of the least objective, which is certified"
    tolerance = result["settings"]["tolerance"]
    if not _unsolved(proof, tolerance):
        return told
    more = MORE_ITERATIONS * result["settings"]["iterations"]
    return f"{told}, but not solved to the relative gap of {tolerance:g} (--iterations {more} takes it further)"


def _test(result: Mapping[str, Any]) -> str:
    test = result["test"]
    if not test:
        return ""
    rows = number(result["dataset"]["test_rows"])
    unseen = "" if result["settings"]["holdout"] == "test" else ", which took no part in the search,"
    return f"; on the {rows} test rows{unseen} it is right in {percent(test['accuracy'], None)} of cases"
