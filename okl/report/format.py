"""Formatting of numbers, names and tables as text, and the sentence that describes a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from okl.foundation.catalogue import KERNELS
from okl.foundation.settings import MapName
from okl.foundation.telemetry import ROUNDING
from okl.foundation.types import Criterion
from okl.kernels import kernel_class
from okl.metrics.definitions import metrics

# Names and numbers

CRITERION_NAMES: dict[Criterion, str] = {
    "log-loss": "log loss",
    "auc": "ROC AUC",
    "average-precision": "average precision",
    "balanced-accuracy": "balanced accuracy",
    "accuracy": "accuracy",
    "squared-error": "squared error",
}
BASELINE_NAMES = {
    "majority": "Majority class",
    "mean": "Mean",
    "linear": "Linear model",
    "boosting": "Gradient boosting",
    "linear-without-words": "Linear, no words",
    "boosting-without-words": "Boosting, no words",
}
SPLIT_NAMES = {
    "test": "Test rows",
    "progressive": "Progressive: each row predicted before it is trained on",
    "train": "Training rows",
}
MEASURED_ON = {"test": "on test rows", "progressive": "during training", "train": "on training rows"}
MOST_LISTED = 30
MIB = 2**20


LARGE_UNITS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def number(value: object) -> str:
    """Format a number with four digits and thousands separators; None, NaN and infinity as "-", other values as text.

    >>> [number(value) for value in (0.123456, 12, 1234567.8, 3.61e8, 1e-7, None, float("nan"), True)]
    ['0.1235', '12', '1,234,568', '361 million', '1.000e-07', '-', '-', 'yes']
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-4:
        return f"{value:.3e}"
    if size >= 1e7:
        unit, name = next((unit, name) for unit, name in LARGE_UNITS if size >= unit)
        return f"{value / unit:.4g} {name}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4f}" if size < 1 else f"{value:.4g}"


def duration(value: object) -> str:
    """Format a duration in seconds.

    >>> duration(0.0123), duration(75.2), duration(None)
    ('0.012 s', '75.2 s', '-')
    """
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return "-"
    return f"{value:.3f} s" if value < 1 else f"{value:,.1f} s"


def metric_number(name: str, value: object) -> str:
    """Format the value of a metric as a number; that of an R2 near 0, such as the mean has, as 0.

    >>> metric_number("r2", -2.39e-08), metric_number("r2", 0.94312), metric_number("mistake_rate", 2e-5)
    ('0.0000', '0.9431', '2.000e-05')
    """
    return "0.0000" if name == "r2" and isinstance(value, float) and abs(value) < 1e-4 else number(value)


def metric_name(name: str) -> str:
    """Return the display name of a metric; underscores of unknown names become spaces."""
    known = metrics().get(name)
    return name.replace("_", " ") if known is None else known.title


def p_text(p_value: float) -> str:
    """Return a p-value as text.

    >>> p_text(0.00334), p_text(0.0)
    ('p = 0.0033', 'p < 1e-300')
    """
    return f"p = {p_value:.2g}" if p_value > 0.0 else "p < 1e-300"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural.

    >>> counted(1, "shard"), counted(1200, "row")
    ('1 shard', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shortened(text: object, most: int = 40) -> str:
    """Return a text on one line, cut to a number of characters.

    >>> shortened("a  b"), shortened("abcdef", 4)
    ('a b', 'abc…')
    """
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def percent(share: float | None, digits: int = 4) -> str:
    """Format a share as a percentage with a number of significant digits.

    >>> percent(0.12345), percent(0.5), percent(0.999, 2), percent(None), percent(0.0004), percent(15.078, 2)
    ('12.35%', '50%', '100%', '-', '0.04%', '1,508%')
    >>> percent(6.4e-29)
    'below 0.0001%'
    """
    if share is None:
        return "-"
    if 0.0 < share < 1e-6:
        return "below 0.0001%"
    text = f"{100.0 * share:.{digits}g}"
    return f"{100.0 * share:,.0f}%" if abs(share) >= 1e-3 and "e" in text else f"{text}%"


def mistake_rate_text(share: float | None) -> str:
    """Format a mistake rate as a percentage with two decimals, or with significant digits if it is tiny.

    >>> [mistake_rate_text(share) for share in (0.12345, 0.5, 0.00001, 0.0, None)]
    ['12.35%', '50.00%', '0.001%', '0.00%', '-']
    """
    return percent(share, 2) if share and share < 5e-4 else "-" if share is None else f"{100.0 * share:.2f}%"


NEIGHBOURS = "Neighbouring rows are similar"
"""Beginning of the sentence on errors with contiguous and shuffled folds."""


def criterion_value(criterion: Criterion, error: float | None) -> str:
    """Format an error by a criterion as its value: of accuracies and areas, 1 less the error.

    >>> criterion_value("auc", 0.1634), criterion_value("accuracy", 0.02), criterion_value("log-loss", 0.0831)
    ('0.837', '98.00%', '0.0831')
    """
    if error is None or not math.isfinite(error):
        return "-"
    if criterion in ("accuracy", "balanced-accuracy"):
        return f"{100.0 * (1.0 - error):.2f}%"
    if criterion in ("auc", "average-precision"):
        return f"{1.0 - error:.3f}"
    return number(float(error))


def error_value(criterion: Criterion, error: float) -> str:
    """Format an error of a choice: a share of rows or of the variance in percent, otherwise the criterion's value.

    >>> error_value("accuracy", 0.02), error_value("auc", 0.1634)
    ('2.00%', '0.837')
    """
    return f"{error:.2%}" if criterion in ("accuracy", "squared-error") else criterion_value(criterion, error)


def named_error(criterion: Criterion, error: float) -> str:
    """Format an error of a choice with the name of its criterion."""
    names = {"accuracy": "mistakes", "squared-error": "of the variance unexplained"}
    return f"{error_value(criterion, error)} {names.get(criterion, CRITERION_NAMES[criterion])}"


def mean_and_spread(mean: float, spread: float | None = None) -> str:
    """Return a mean share and its standard deviation in percent.

    >>> mean_and_spread(0.8512, 0.0034), mean_and_spread(0.8512)
    ('85.12 ± 0.34 %', '85.12 %')
    """
    return f"{100 * mean:.2f} %" if spread is None else f"{100 * mean:.2f} ± {100 * spread:.2f} %"


def scalar_metrics(metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the metrics that are single values, without matrices and histograms."""
    return {name: value for name, value in (metrics or {}).items() if not isinstance(value, (list, dict))}


def flatten(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return names and texts of nested values; a long list is cut and followed by its length."""
    lines: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += flatten(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            shown = ", ".join(number(item) for item in value[:MOST_LISTED]) or "-"
            more = f", ... ({len(value):,} in all)" if len(value) > MOST_LISTED else ""
            lines.append((prefix + name, shown + more))
        else:
            lines.append((prefix + name, number(value)))
    return lines


def aligned(rows: Sequence[Sequence[str]], numbers_from: int | None = None) -> list[str]:
    r"""Return the lines of a table with aligned columns; line ends in a cell, as in names of columns, are spaces.

    rows : rows with equal numbers of cells, including the header
    numbers_from : first right-aligned column; None: all columns are left-aligned

    >>> aligned([["a", "b"], ["long", "c"]])
    ['a     b', 'long  c']
    >>> aligned([["a", "b"], ["long", "100"]], numbers_from=1)
    ['a       b', 'long  100']
    >>> aligned([["two\nlines", "b"]])
    ['two lines  b']
    """
    rows = [[" ".join(cell.splitlines()) if "\n" in cell else cell for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    least = len(widths) if numbers_from is None else numbers_from
    return [
        "  ".join(
            cell.ljust(width) if column < least else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


# Values chosen by a run, and the sentence that describes its model

TERMINAL = {
    "map": "Map",
    "bandwidth": "Bandwidth",
    "inputs": "Inputs",
    "step_size": "Step size",
    "support_vectors": "Support vectors",
    "landmarks": "Landmarks",
    "rank": "Rank",
    "C": "C",
    "nu": "Nu",
    "kappa": "Kappa",
    "lam": "Lambda",
    "n_landmarks": "Landmarks",
    "cells": "Cells",
    "partitions": "Partitions",
    "penalty": "Penalty",
    "sample_rows": "Rows in the sample",
}
"""Names of the chosen values that a terminal shows, in this order."""
NAMES = TERMINAL | {"maps": "Maps compared", "budget": "Budget", "mixing_share": "Share of rows mixed at once"}

UNMIXED = ("mixing_share", 0.0)  # in stored order


def chosen_facts(chosen: Mapping[str, Any], names: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return names and texts of chosen values, each with its reason, stored as NAME_reason.

    names : names to return, in this order; empty: all, in their order

    >>> chosen_facts({"rank": 8, "rank_reason": "the largest possible", "budget": 50, "support_vectors": 50})
    [('Rank', '8 (the largest possible)'), ('Budget', '50'), ('Support vectors', '50 (the whole budget)')]
    """
    reasons = {name for name in chosen if name.endswith("_reason") and name.removesuffix("_reason") in chosen}
    facts = []
    shown = [name for name in chosen if name not in reasons and (name, chosen[name]) != UNMIXED]
    for name in names or shown:
        for path, text in flatten({name: chosen[name]}) if name in chosen else []:
            reason = _reason(name, chosen)
            facts.append((NAMES.get(path, path.replace("_", " ")), f"{text} ({reason})" if reason else text))
    return facts


def solver_text(result: Mapping[str, Any]) -> str:
    """Return solver and kernel of a run's result; "" without a solver.

    >>> ridge = {"solver": "ridge", "kernel": "laplacian"}
    >>> [solver_text({"settings": each}) for each in (ridge, {"solver": "l2-svm"}, {})]
    ['ridge (Laplacian kernel)', 'l2-svm', '']
    """
    settings, chosen = result.get("settings") or {}, result.get("chosen") or {}
    solver = str(settings.get("solver") or "")
    name = "linear" if chosen.get("map") == "linear" else settings.get("kernel")
    return f"{solver} ({(name in KERNELS and kernel_class(name).title) or name} kernel)" if solver and name else solver


def model_sentence(result: Mapping[str, Any]) -> str:
    """Return a sentence that describes the model; "" if the result has no solver."""
    settings, chosen, proof = (result.get(name) or {} for name in ("settings", "chosen", "certificate"))
    solver = settings.get("solver")
    if solver is None:
        return ""
    unit = " on standardised inputs" if chosen.get("inputs") == "standardised" else ""
    bandwidth = f" of bandwidth {number(chosen['bandwidth'])}{unit}" if "bandwidth" in chosen else ""
    name = settings.get("kernel")
    kernel = f"the {(name in KERNELS and kernel_class(name).title) or name} kernel{bandwidth}"
    if solver in _LEAST_SQUARES_SENTENCES:
        return _LEAST_SQUARES_SENTENCES[solver](settings, chosen, kernel)
    columns = _columns_of(settings, chosen, kernel)
    if proof.get("kind") in ("duality gap", "gap over all rows"):
        return f"The {solver} model is linear in {_certified_sentence(settings, proof, kernel, columns)}"
    return _online_sentence(settings, chosen, kernel, columns)


def _columns_of(settings: Mapping[str, Any], chosen: Mapping[str, Any], kernel: str) -> str:
    """Return the columns that a model in a feature map is linear in."""
    named, frequencies = settings.get("map"), settings.get("frequencies")
    if settings.get("kernel") == "linear":
        return "the inputs"
    if named == "nystrom":
        return f"kernel values with {number(chosen.get('landmarks'))} landmarks, of {kernel}"
    if named is not None and named not in get_args(MapName):  # of an extension
        return f"the {number(2 * int(frequencies or 0))} columns of the map {named} of {kernel}"
    return f"{number(frequencies)} random frequencies of {kernel}"


def _ridge_sentence(settings: Mapping[str, Any], chosen: Mapping[str, Any], kernel: str) -> str:
    landmarks = chosen.get("n_landmarks")
    plain = settings.get("kernel") == "linear" or landmarks is None
    form = "linear in the inputs" if plain else f"a kernel expansion on {number(landmarks)} landmarks with {kernel}"
    why = f": {reason}" if (reason := chosen.get("penalty_reason")) else ""
    return f"The ridge model is {form}, solved directly, with penalty {number(chosen.get('penalty'))}{why}."


def _falkon_sentence(settings: Mapping[str, Any], chosen: Mapping[str, Any], kernel: str) -> str:
    held = chosen.get("held_out_rows")  # None in older results
    judged = f"of the least error on {'' if held is None else f'{number(held)} '}held-out training rows"
    if held == 0:
        judged = "the last one, because no training rows were held out"
    return (
        f"The falkon model is a kernel expansion on {number(chosen.get('n_landmarks'))} landmarks with {kernel}: "
        f"iteration {number(chosen.get('iteration'))}, {judged}, with penalty {number(chosen.get('penalty'))} "
        f"({chosen.get('penalty_reason')})."
    )


def _local_sentence(settings: Mapping[str, Any], chosen: Mapping[str, Any], kernel: str) -> str:
    n_cells, n_partitions = int(chosen.get("cells", 1)), int(chosen.get("partitions", 1))
    form = f"is an expansion of {kernel} on all rows, which are one cell"
    if n_cells > 1:
        form = f"has an expansion of {kernel} in each of {number(n_cells)} cells"
    averaged = f", averaged over {n_partitions} partitions" if n_partitions > 1 else ""
    return (
        f"The local model {form}{averaged}, solved exactly, with penalty {number(chosen.get('penalty'))} "
        f"({chosen.get('penalty_reason')}); leave-one-out errors are those of "
        f"{number(chosen.get('left_out_rows'))} training rows."
    )


_LEAST_SQUARES_SENTENCES = {"ridge": _ridge_sentence, "falkon": _falkon_sentence, "local": _local_sentence}


def _certified_sentence(settings: Mapping[str, Any], proof: Mapping[str, Any], kernel: str, columns: str) -> str:
    """Return the space of a model and what is proved of its objective."""
    space = f"the space of {kernel}" if settings.get("map") == "exact" else columns
    space = "the inputs" if settings.get("kernel") == "linear" else space
    sure, relative = proof.get("confidence"), proof.get("relative_gap")
    if proof["kind"] == "duality gap":
        after = f"{space}. After {number(proof.get('iterations'))} iterations, its objective"
        if relative is not None and relative < ROUNDING:
            return f"{after} is proven to be the optimum, up to rounding."
        return f"{after} has a proven relative gap of {number(relative)} to the optimum."
    share = "" if relative is None else f", {percent(relative, 2)} of its value"
    proved = f"{number(proof.get('rows_sampled'))} sampled rows"
    proved = "proved over all rows" if sure is None else f"{100.0 * sure:g}% confidence, {proved}"
    return (
        f"{space}. Its objective over all rows is within {number(proof.get('gap'))} of the optimum{share} ({proved})."
    )


def _online_sentence(settings: Mapping[str, Any], chosen: Mapping[str, Any], kernel: str, columns: str) -> str:
    solver = settings["solver"]
    step = f", step size {number(chosen['step_size'])}" if "step_size" in chosen else ""
    linear, expansion = f"The {solver} model is linear in", f"The {solver} model is a kernel expansion"
    if settings.get("track"):
        return (
            f"The {solver} model tracks changing data: it averages the weights of several step sizes, on {columns}. "
            f"Step size {number(chosen.get('step_size'))} with {chosen.get('weights')} weights has the largest share."
        )
    if "maps" in chosen:
        best = "the linear map" if "map" in chosen else kernel
        return f"Best of {number(chosen['maps'])} feature maps compared during training by {solver}: {best}{step}."
    if "support_vectors" in chosen:
        reason = _reason("support_vectors", chosen)
        return f"{expansion} with {number(chosen['support_vectors'])} support vectors ({reason}) and {kernel}{step}."
    if chosen.get("rank") == 0:
        vectors = f"{number(chosen.get('landmarks'))} support vectors"
        return f"{expansion} with {vectors} and {kernel}{step}: these are too few for a feature map."
    if "rank" in chosen:
        rank, landmarks = number(chosen["rank"]), number(chosen.get("landmarks"))
        return (
            f"{linear} {rank} Nystrom features of {landmarks} landmarks with {kernel}{step} (rank {rank}: "
            f"{chosen.get('rank_reason')})."
        )
    if chosen.get("map") == "linear":
        return f"The {solver} model is linear{step}: the linear map was the best of the experts on a sample."
    unproved = " Its gap to the optimum was not computed (--certify)." if solver == "pegasos" else ""
    return f"{linear} {columns}{step}.{unproved}"


def certificate_values(proof: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the entries of a certificate, without those on replicates where none were needed."""
    proof = proof or {}
    exact = bool(proof.get("exact"))
    return {name: value for name, value in proof.items() if not (exact and name.startswith("replicate"))}


def _reason(name: str, chosen: Mapping[str, Any]) -> str:
    if name != "support_vectors" or f"{name}_reason" in chosen:
        return str(chosen.get(f"{name}_reason") or "")
    if "budget" not in chosen:
        return "no budget: every row with an update"
    full = chosen[name] >= chosen["budget"]
    return "the whole budget" if full else f"of a budget of {number(chosen['budget'])}"
