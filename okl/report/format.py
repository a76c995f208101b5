"""Formatting of numbers, names and tables as text, and the sentence that describes a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from okl.foundation.settings import MapName

# Names and numbers

METRIC_NAMES = {
    "accuracy": "Accuracy",
    "mistake_rate": "Mistake rate",
    "balanced_accuracy": "Balanced accuracy",
    "roc_auc": "ROC AUC",
    "average_precision": "Average precision",
    "macro_f1": "Macro F1",
    "squared_loss": "Squared loss",
    "mse": "Mean squared error",
    "mae": "Mean absolute error",
    "r2": "R2",
}
BASELINE_NAMES = {"majority": "Majority class", "mean": "Mean", "linear": "Linear model"}
SPLIT_NAMES = {
    "test": "Test rows",
    "progressive": "Progressive: each row predicted before it is trained on",
    "train": "Training rows",
}
MOST_LISTED = 30


def number(value: object) -> str:
    """Format a number with four digits and thousands separators; None, NaN and infinity as "-", other values as text.

    >>> [number(value) for value in (0.123456, 12, 1234567.8, 1e-7, None, float("nan"), True)]
    ['0.1235', '12', '1,234,568', '1.000e-07', '-', '-', 'yes']
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
    if size >= 1e9 or 0 < size < 1e-4:
        return f"{value:.3e}"
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


def metric_name(name: str) -> str:
    """Return the display name of a metric; underscores of unknown names become spaces."""
    return METRIC_NAMES.get(name, name.replace("_", " "))


def percent(share: float | None, digits: int = 4) -> str:
    """Format a share as a percentage with a number of significant digits.

    >>> percent(0.12345), percent(0.5), percent(0.999, 2), percent(None), percent(0.0004), percent(15.078, 2)
    ('12.35%', '50%', '100%', '-', '0.04%', '1,508%')
    """
    if share is None:
        return "-"
    text = f"{100.0 * share:.{digits}g}"
    return f"{100.0 * share:,.0f}%" if abs(share) >= 1e-3 and "e" in text else f"{text}%"


def mistake_rate_text(share: float | None) -> str:
    """Format a mistake rate as a percentage with two decimals, or with significant digits if it is tiny.

    >>> [mistake_rate_text(share) for share in (0.12345, 0.5, 0.00001, 0.0, None)]
    ['12.35%', '50.00%', '0.001%', '0.00%', '-']
    """
    return percent(share, 2) if share and share < 5e-4 else "-" if share is None else f"{100.0 * share:.2f}%"


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
            lines.append(
                (prefix + name, f"{shown}, ... ({len(value):,} in all)" if len(value) > MOST_LISTED else shown)
            )
        else:
            lines.append((prefix + name, number(value)))
    return lines


# Tables for a terminal


def aligned(rows: Sequence[Sequence[str]], numbers_from: int | None = None) -> list[str]:
    """Return the lines of a table with aligned columns.

    Parameters
    ----------
    rows : rows with equal numbers of cells, including the header
    numbers_from : first right-aligned column; None: all columns are left-aligned

    >>> aligned([["a", "b"], ["long", "c"]])
    ['a     b', 'long  c']
    >>> aligned([["a", "b"], ["long", "100"]], numbers_from=1)
    ['a       b', 'long  100']
    """
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

NAMES = {
    "map": "Map",
    "maps": "Maps compared",
    "bandwidth": "Bandwidth",
    "inputs": "Inputs",
    "step_size": "Step size",
    "budget": "Budget",
    "support_vectors": "Support vectors",
    "landmarks": "Landmarks",
    "rank": "Rank",
    "n_landmarks": "Landmarks",
    "penalty": "Penalty",
    "C": "C",
    "nu": "Nu",
    "kappa": "Kappa",
    "lam": "Lambda",
    "sample_rows": "Rows in the sample",
    "mixing_share": "Share of rows mixed at once",
}
KERNELS = {"gaussian": "Gaussian", "laplacian": "Laplacian", "matern32": "Matern 3/2", "matern52": "Matern 5/2"}
TERMINAL = (
    "map",
    "bandwidth",
    "inputs",
    "step_size",
    "support_vectors",
    "landmarks",
    "rank",
    "C",
    "nu",
    "kappa",
    "lam",
    "n_landmarks",
    "penalty",
    "sample_rows",
)


def chosen_facts(chosen: Mapping[str, Any], names: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return names and texts of chosen values, each with its reason, stored as NAME_reason.

    Parameters
    ----------
    chosen : values by name
    names : names to return, in this order; empty: all, in their order

    >>> chosen_facts({"rank": 8, "rank_reason": "the largest possible", "budget": 50, "support_vectors": 50})
    [('Rank', '8 (the largest possible)'), ('Budget', '50'), ('Support vectors', '50 (the whole budget)')]
    """
    reasons = {name for name in chosen if name.endswith("_reason") and name.removesuffix("_reason") in chosen}
    facts = []
    for name in names or [name for name in chosen if name not in reasons]:
        for path, text in flatten({name: chosen[name]}) if name in chosen else []:
            reason = _reason(name, chosen)
            facts.append((NAMES.get(path, path.replace("_", " ")), f"{text} ({reason})" if reason else text))
    return facts


def model_sentence(result: Mapping[str, Any]) -> str:
    """Return a sentence that describes the model; "" if the result has no settings."""
    settings, chosen = result.get("settings") or {}, result.get("chosen") or {}
    solver, named = settings.get("solver"), str(settings.get("kernel"))
    kernel = f"the {KERNELS.get(named, named)} kernel{_bandwidth(chosen)}"
    if solver is None:
        return ""
    if solver == "ridge":
        return _direct(settings, chosen, kernel)
    certificate = result.get("certificate") or {}
    if certificate.get("kind") == "duality gap":
        return _solved(str(solver), settings, kernel, certificate)
    if certificate.get("kind") == "gap over all rows":
        return _over_all_rows(str(solver), settings, kernel, certificate)
    if settings.get("track"):
        return (
            f"The {solver} model tracks changing data: it averages the weights of several step sizes, on "
            f"{_map_columns(settings, kernel)}. Step size {number(chosen.get('step_size'))} with "
            f"{chosen.get('weights')} weights has the largest share."
        )
    if "maps" in chosen:
        best = f"the linear map{_step(chosen)}" if "map" in chosen else f"{kernel}{_step(chosen)}"
        return f"Best of {number(chosen['maps'])} feature maps compared during training by {solver}: {best}."
    if "support_vectors" in chosen:
        reason = _reason("support_vectors", chosen)
        vectors = f"{number(chosen['support_vectors'])} support vectors ({reason})"
        return f"The {solver} model is a kernel expansion with {vectors} and {kernel}{_step(chosen)}."
    if chosen.get("rank") == 0:
        vectors = f"{number(chosen.get('landmarks'))} support vectors"
        return (
            f"The {solver} model is a kernel expansion with {vectors} and {kernel}{_step(chosen)}: "
            "these are too few for a feature map."
        )
    if "rank" in chosen:
        rank, landmarks = number(chosen["rank"]), number(chosen.get("landmarks"))
        return (
            f"The {solver} model is linear in {rank} Nystrom features of {landmarks} landmarks with {kernel}"
            f"{_step(chosen)} (rank {rank}: {chosen.get('rank_reason')})."
        )
    if chosen.get("map") == "linear":
        return f"The {solver} model is linear{_step(chosen)}: the linear map was the best of the experts on a sample."
    return f"The {solver} model is linear in {_map_columns(settings, kernel)}{_step(chosen)}."


def _direct(settings: Mapping[str, Any], chosen: Mapping[str, Any], kernel: str) -> str:
    """Return the sentence on a solution of normal equations, which has no duality gap."""
    landmarks = chosen.get("n_landmarks")
    form = "linear in the inputs" if settings.get("kernel") == "linear" or landmarks is None else ""
    form = form or f"a kernel expansion on {number(landmarks)} landmarks with {kernel}"
    why = f": {reason}" if (reason := chosen.get("penalty_reason")) else ""
    return f"The ridge model is {form}, solved exactly, with penalty {number(chosen.get('penalty'))}{why}."


def _space(settings: Mapping[str, Any], kernel: str) -> str:
    if settings.get("kernel") == "linear":
        return "the inputs"
    if settings.get("map") == "exact":
        return f"the space of {kernel}"
    return _map_columns(settings, kernel)


def _map_columns(settings: Mapping[str, Any], kernel: str) -> str:
    """Describe the columns of a random map, built-in or of an extension."""
    frequencies, named = settings.get("frequencies"), settings.get("map")
    if named is None or named in get_args(MapName):
        return f"{number(frequencies)} random frequencies of {kernel}"
    return f"the {number(2 * int(frequencies or 0))} columns of the map {named} of {kernel}"


def _over_all_rows(solver: str, settings: Mapping[str, Any], kernel: str, certificate: Mapping[str, Any]) -> str:
    confidence = certificate.get("confidence")
    proof = "proved" if confidence is None else f"{100.0 * confidence:g}% confidence"
    rows = number(certificate.get("rows_sampled"))
    return (
        f"The {solver} model is linear in {_space(settings, kernel)}. Its objective over all rows is within "
        f"{number(certificate.get('gap'))} of the optimum ({proof}, {rows} sampled rows)."
    )


def _solved(solver: str, settings: Mapping[str, Any], kernel: str, certificate: Mapping[str, Any]) -> str:
    return (
        f"The {solver} model is linear in {_space(settings, kernel)}. After "
        f"{number(certificate.get('iterations'))} iterations, its objective has a proven relative gap of "
        f"{number(certificate.get('relative_gap'))} to the optimum."
    )


def _bandwidth(chosen: Mapping[str, Any]) -> str:
    if "bandwidth" not in chosen:
        return ""
    unit = " on standardised inputs" if chosen.get("inputs") == "standardised" else ""
    return f" of bandwidth {number(chosen['bandwidth'])}{unit}"


def _step(chosen: Mapping[str, Any]) -> str:
    return f", step size {number(chosen['step_size'])}" if "step_size" in chosen else ""


def _reason(name: str, chosen: Mapping[str, Any]) -> str:
    if name != "support_vectors" or f"{name}_reason" in chosen:
        return str(chosen.get(f"{name}_reason") or "")
    if "budget" not in chosen:
        return "no budget: every row with an update"
    full = chosen[name] >= chosen["budget"]
    return "the whole budget" if full else f"of a budget of {number(chosen['budget'])}"
