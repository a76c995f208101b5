"""Numbers, names and units of a report, as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

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
