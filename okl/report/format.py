"""Numbers, names, units and tables as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from okl.foundation.settings import MapName

# Numbers, names and units of a report, as people read them.

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
    "progressive": "While learning, before each row was learnt",
    "train": "Training rows",
}
MOST_LISTED = 30


def number(value: object) -> str:
    """Write a number for people: four digits, thousands apart; "-" for None, NaN and infinity; other things as text.

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


def seconds(value: object) -> str:
    """Write a duration.

    >>> seconds(0.0123), seconds(75.2), seconds(None)
    ('0.012 s', '75.2 s', '-')
    """
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return "-"
    return f"{value:.3f} s" if value < 1 else f"{value:,.1f} s"


def metric_name(name: str) -> str:
    """A metric's name for people; unknown ones lose their underscores."""
    return METRIC_NAMES.get(name, name.replace("_", " "))


def percent(share: float | None, digits: int = 4) -> str:
    """A share for people.

    >>> percent(0.12345), percent(0.5), percent(0.999, 2), percent(None), percent(0.0004), percent(15.078, 2)
    ('12.35%', '50%', '100%', '-', '0.04%', '1,508%')
    """
    if share is None:
        return "-"
    text = f"{100.0 * share:.{digits}g}"
    return f"{100.0 * share:,.0f}%" if abs(share) >= 1e-3 and "e" in text else f"{text}%"


def rate(share: float | None) -> str:
    """A share of mistakes for people: two decimals, and more only where these would say nothing.

    >>> rate(0.12345), rate(0.5), rate(0.00001), rate(0.0), rate(None)
    ('12.35%', '50.00%', '0.001%', '0.00%', '-')
    """
    return percent(share, 2) if share and share < 5e-4 else "-" if share is None else f"{100.0 * share:.2f}%"


def scalars(metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    """The metrics that are one number (or none), without matrices and histograms."""
    return {name: value for name, value in (metrics or {}).items() if not isinstance(value, (list, dict))}


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Names and texts of nested values; a long list is cut, with its length."""
    lines: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += flat(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            shown = ", ".join(number(item) for item in value[:MOST_LISTED]) or "-"
            lines.append(
                (prefix + name, f"{shown}, ... ({len(value):,} in all)" if len(value) > MOST_LISTED else shown)
            )
        else:
            lines.append((prefix + name, number(value)))
    return lines


# Tables for a terminal: cells under each other.


def aligned(rows: Sequence[Sequence[str]], numbers_from: int | None = None) -> list[str]:
    """Lines with cells under each other, none for no row.

    Parameters
    ----------
    rows : of equally many cells, the header among them
    numbers_from : column from which cells end, rather than begin, under each other; None: no one

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


# What a run chose, in words: which expert leads, how many support vectors there are, which rank was kept.

NAMES = {
    "map": "Map",
    "maps": "Maps that took part",
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
    """Names and texts of what was chosen, each with its reason, which stands beside it under NAME_reason.

    names : only these, in this order; none: everything, in its own

    >>> chosen_facts({"rank": 8, "rank_reason": "all that can be kept", "budget": 50, "support_vectors": 50})
    [('Rank', '8 (all that can be kept)'), ('Budget', '50'), ('Support vectors', '50 (all of the budget)')]
    """
    reasons = {name for name in chosen if name.endswith("_reason") and name.removesuffix("_reason") in chosen}
    facts = []
    for name in names or [name for name in chosen if name not in reasons]:
        for path, text in flat({name: chosen[name]}) if name in chosen else []:
            reason = _reason(name, chosen)
            facts.append((NAMES.get(path, path.replace("_", " ")), f"{text} ({reason})" if reason else text))
    return facts


def learner_sentence(result: Mapping[str, Any]) -> str:
    """What the model is, in a sentence; none where the result does not say."""
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
        return _bounded(str(solver), settings, kernel, certificate)
    if settings.get("track"):
        return (
            f"The model of {solver} follows rows as they change: it is the mean of last and averaged weights of "
            f"several step sizes in {_drawn(settings, kernel)}, each as much as it was heard in the end, most of all "
            f"the {chosen.get('weights')} weights of step size {number(chosen.get('step_size'))}."
        )
    if "maps" in chosen:
        what = f"the linear map leads{_step(chosen)}" if "map" in chosen else f"{kernel} leads{_step(chosen)}"
        return f"Of {number(chosen['maps'])} maps that {solver} raced while it learnt, one of them linear, {what}."
    if "support_vectors" in chosen:
        reason = _reason("support_vectors", chosen)
        held = f"{number(chosen['support_vectors'])} support vectors ({reason})"
        return f"The model of {solver} is a sum over {held} of {kernel}{_step(chosen)}."
    if chosen.get("rank") == 0:
        held = f"{number(chosen.get('landmarks'))} support vectors"
        return f"The model of {solver} is a sum over {held} of {kernel}{_step(chosen)}: too few of them for a map."
    if "rank" in chosen:
        rank, landmarks = number(chosen["rank"]), number(chosen.get("landmarks"))
        return (
            f"The model of {solver} is linear in the {rank} leading features of {landmarks} landmarks and {kernel}"
            f"{_step(chosen)} (rank {rank}: {chosen.get('rank_reason')})."
        )
    if chosen.get("map") == "linear":
        return f"The model of {solver} is linear{_step(chosen)}: that map led among experts on a sample."
    return f"The model of {solver} is linear in {_drawn(settings, kernel)}{_step(chosen)}."


def _direct(settings: Mapping[str, Any], chosen: Mapping[str, Any], kernel: str) -> str:
    """A solution of normal equations, which leaves no gap to speak of."""
    landmarks = chosen.get("n_landmarks")
    held = "linear in the inputs" if settings.get("kernel") == "linear" or landmarks is None else ""
    held = held or f"a sum over {number(landmarks)} landmarks of {kernel}"
    why = f": {reason}" if (reason := chosen.get("penalty_reason")) else ""
    return f"The model of ridge is {held}, solved directly, with the penalty {number(chosen.get('penalty'))}{why}."


def _space(settings: Mapping[str, Any], kernel: str) -> str:
    if settings.get("kernel") == "linear":
        return "the inputs"
    if settings.get("map") == "exact":
        return f"the space of {kernel}"
    return _drawn(settings, kernel)


def _drawn(settings: Mapping[str, Any], kernel: str) -> str:
    """The columns of a random map, okl's own or an extension's."""
    frequencies, named = settings.get("frequencies"), settings.get("map")
    if named is None or named in get_args(MapName):
        return f"{number(frequencies)} random frequencies of {kernel}"
    return f"the {number(2 * int(frequencies or 0))} columns of the map {named} of {kernel}"


def _bounded(solver: str, settings: Mapping[str, Any], kernel: str, certificate: Mapping[str, Any]) -> str:
    confidence = certificate.get("confidence")
    sure = "is proved to be" if confidence is None else f"is, at {100.0 * confidence:g}% confidence,"
    rows = number(certificate.get("rows_sampled"))
    return (
        f"The model of {solver} is linear in {_space(settings, kernel)}; its objective over all rows {sure} within "
        f"{number(certificate.get('gap'))} of the optimum, as {rows} sampled rows tell."
    )


def _solved(solver: str, settings: Mapping[str, Any], kernel: str, certificate: Mapping[str, Any]) -> str:
    return (
        f"The model of {solver} is linear in {_space(settings, kernel)}; after "
        f"{number(certificate.get('iterations'))} iterations its objective is proved to be within "
        f"{number(certificate.get('relative_gap'))} of the optimum, relatively."
    )


def _bandwidth(chosen: Mapping[str, Any]) -> str:
    if "bandwidth" not in chosen:
        return ""
    unit = " on standardised inputs" if chosen.get("inputs") == "standardised" else ""
    return f" of bandwidth {number(chosen['bandwidth'])}{unit}"


def _step(chosen: Mapping[str, Any]) -> str:
    return f", with the step size {number(chosen['step_size'])}" if "step_size" in chosen else ""


def _reason(name: str, chosen: Mapping[str, Any]) -> str:
    if name != "support_vectors" or f"{name}_reason" in chosen:
        return str(chosen.get(f"{name}_reason") or "")
    if "budget" not in chosen:
        return "every row that was learnt from, without a budget"
    full = chosen[name] >= chosen["budget"]
    return "all of the budget" if full else f"of a budget of {number(chosen['budget'])}"
