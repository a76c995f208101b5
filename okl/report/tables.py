"""Tables of metrics, settings and other facts of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from okl.report.assessment import MEASURED_ON, assess
from okl.report.format import (
    BASELINE_NAMES,
    SPLIT_NAMES,
    chosen_facts,
    flatten,
    metric_name,
    mistake_rate_text,
    number,
    scalar_metrics,
)

FACTS = {
    "certificate": "Certificate",
    "chosen": "Chosen",
    "settings": "Settings",
    "dataset": "Data set",
    "provenance": "Provenance",
}
ROOT = "Root mean squared error"  # in units of the target
DRAWN = {"curve", "convergence", "windows", "drift", "constraints", "choice", "previous"}
APART = {"progressive", "train", "test", "baselines", *DRAWN, *FACTS}


class Table(NamedTuple):
    """Title and rows of text; the first cell of each row is its name."""

    title: str
    rows: list[list[str]]


def headline(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and values of the main metrics, the error first; "-" for unknown values."""
    verdict = assess(result)
    shares = verdict.metric == "mistake_rate"
    name = metric_name(verdict.metric) if shares else ROOT
    shown = mistake_rate_text(verdict.error) if shares else number(verdict.error and math.sqrt(verdict.error))
    measured = result.get(verdict.split) or {}
    others = [other for other in ("balanced_accuracy", "roc_auc", "macro_f1", "mae", "r2") if other in measured]
    return [
        (f"{name} {MEASURED_ON[verdict.split]}", shown),
        *((metric_name(other), number(measured[other])) for other in others),
    ]


def baseline_names(result: Mapping[str, Any]) -> list[str]:
    """Return the display names of the baselines, in their order."""
    return [BASELINE_NAMES.get(name, name) for name in _baselines(result)]


def _baselines(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the baselines that exist: a linear model has no linear baseline."""
    return {name: baseline for name, baseline in (result.get("baselines") or {}).items() if baseline is not None}


def metric_tables(result: Mapping[str, Any]) -> dict[str, Table]:
    """Return a table for each measured split: rows are metrics, columns the model and the baselines."""
    sources = [result, *_baselines(result).values()]
    tables = {}
    for split, title in SPLIT_NAMES.items():
        measured = [scalar_metrics(source.get(split)) for source in sources]
        if not measured[0]:
            continue
        # all metrics of model and baselines, in the model's order
        names = dict.fromkeys(name for metrics in measured for name in metrics)
        rows = [[metric_name(name), *(number(metrics.get(name)) for metrics in measured)] for name in names]
        tables[split] = Table(title, rows)
    return tables


def fact_tables(result: Mapping[str, Any]) -> list[Table]:
    """Return tables of names and values: run, certificate, chosen values, settings, data set, provenance."""
    run = {name: value for name, value in result.items() if name not in APART}
    if timeline := run.get("timeline"):  # lanes and stages are shown in a figure
        run["timeline"] = {name: value for name, value in timeline.items() if name not in ("lanes", "stages")}
    groups = {"Run": run, **{title: result.get(name) or {} for name, title in FACTS.items()}}
    # horizons and comparisons have separate tables
    separate = ("horizons", "comparisons")
    groups["Certificate"] = {name: value for name, value in groups["Certificate"].items() if name not in separate}
    return [
        Table(
            title,
            [[name, text] for name, text in chosen_facts(values)]
            if title == FACTS["chosen"]
            else [[name.replace("_", " "), text] for name, text in flatten(values)],
        )
        for title, values in groups.items()
        if values
    ]
