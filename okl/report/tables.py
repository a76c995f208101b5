"""Tables of metrics and settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from okl.report.assessment import MEASURED, judge
from okl.report.format import BASELINE_NAMES, SPLIT_NAMES, chosen_facts, flat, metric_name, number, rate, scalars

FACTS = {
    "certificate": "Certificate",
    "chosen": "Chosen",
    "settings": "Settings",
    "dataset": "Data set",
    "provenance": "Provenance",
}
ROOT = "Root mean squared error"  # in units of the target, as people think of it
DRAWN = {"curve", "convergence", "windows", "drift", "constraints", "choice", "previous"}
APART = {"progressive", "train", "test", "baselines", *DRAWN, *FACTS}


class Table(NamedTuple):
    """Rows of text; the first cell of each names it."""

    title: str
    rows: list[list[str]]


def headline(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values of the few figures to see first, the model's own error in front; "-" for what is not known."""
    verdict = judge(result)
    shares = verdict.metric == "mistake_rate"
    name = metric_name(verdict.metric) if shares else ROOT
    shown = rate(verdict.error) if shares else number(verdict.error and math.sqrt(verdict.error))
    measured = result.get(verdict.split) or {}
    others = [other for other in ("balanced_accuracy", "roc_auc", "macro_f1", "mae", "r2") if other in measured]
    return [
        (f"{name} {MEASURED[verdict.split]}", shown),
        *((metric_name(other), number(measured[other])) for other in others),
    ]


def baseline_names(result: Mapping[str, Any]) -> list[str]:
    """Names for people of the baselines, in their order."""
    return [BASELINE_NAMES.get(name, name) for name in _baselines(result)]


def _baselines(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Those that there are: a linear model has no linear model beside it."""
    return {name: baseline for name, baseline in (result.get("baselines") or {}).items() if baseline is not None}


def metric_tables(result: Mapping[str, Any]) -> dict[str, Table]:
    """A table for each split that was measured: a metric a row, the model and then each baseline a column."""
    sources = [result, *_baselines(result).values()]
    tables = {}
    for split, title in SPLIT_NAMES.items():
        measured = [scalars(source.get(split)) for source in sources]
        if not measured[0]:
            continue
        # every metric that any of them has, in the model's order
        names = dict.fromkeys(name for metrics in measured for name in metrics)
        rows = [[metric_name(name), *(number(metrics.get(name)) for metrics in measured)] for name in names]
        tables[split] = Table(title, rows)
    return tables


def fact_tables(result: Mapping[str, Any]) -> list[Table]:
    """Names and values of all that the run was given, chose and left behind."""
    run = {name: value for name, value in result.items() if name not in APART}
    if timeline := run.get("timeline"):  # who did what in each second is drawn
        run["timeline"] = {name: value for name, value in timeline.items() if name not in ("lanes", "stages")}
    groups = {"Run": run, **{title: result.get(name) or {} for name, title in FACTS.items()}}
    # horizons and comparisons have tables of their own
    own = ("horizons", "comparisons")
    groups["Certificate"] = {name: value for name, value in groups["Certificate"].items() if name not in own}
    return [
        Table(
            title,
            [[name, text] for name, text in chosen_facts(values)]
            if title == FACTS["chosen"]
            else [[name.replace("_", " "), text] for name, text in flat(values)],
        )
        for title, values in groups.items()
        if values
    ]
