"""How good a run is: the figures to see first, its error beside the simplest predictors', every metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from okl.store.pageparts import Bar, Bars, Block, Section, Tiles, grid
from okl.store.tables import ROOT, baseline_names, headline, metric_tables
from okl.store.verdict import MEASURED, Verdict, judge
from okl.store.wording import BASELINE_NAMES, SPLIT_NAMES, metric_name, number, percent, rate


def quality(result: Mapping[str, Any]) -> Section:
    """The headline, errors side by side, and the metrics of each split beside the baselines'."""
    header = ["", "okl", *baseline_names(result)]
    judged = SPLIT_NAMES[judge(result).split]
    tables = [grid(table, header)._replace(note=_units(result)) for table in metric_tables(result).values()]
    first = [table for table in tables if table.title == judged]
    others = [table._replace(folded=True) for table in tables if table.title != judged]
    return Section("good", "How good is it?", [Tiles(headline(result)), *_bars(result), *first, *others])


def target_of(result: Mapping[str, Any]) -> str:
    """What is predicted."""
    return str((result.get("dataset") or {}).get("target", "the target"))


def _bars(result: Mapping[str, Any]) -> list[Block]:
    verdict = judge(result)
    named = {"okl": verdict.error, BASELINE_NAMES["linear"]: verdict.linear}
    named[BASELINE_NAMES[verdict.constant_name]] = verdict.constant
    known = {name: error for name, error in named.items() if error is not None}
    if len(known) < 2:
        return []
    shares = verdict.metric == "mistake_rate"
    name = metric_name(verdict.metric) if shares else ROOT
    lengths = {named: error if shares else math.sqrt(error) for named, error in known.items()}
    most = max(*lengths.values(), 1e-300)
    texts = {named: _text(verdict, error) if shares else number(lengths[named]) for named, error in known.items()}
    bars = [Bar(named, lengths[named] / most, texts[named], named == "okl") for named in known]
    unit = "As a share of rows" if shares else f"In units of {_unit_of(verdict, result)}"
    chance = "; ± two standard errors, which chance may account for" if shares and verdict.rows else ""
    title = f"{name} beside the simplest predictors, {MEASURED[verdict.split]}"
    return [Bars(title, bars, f"{unit}; less is better{chance}.")]


def _text(verdict: Verdict, error: float) -> str:
    chance = verdict.chance(error)
    return rate(error) + (f" ± {percent(chance, 2).rstrip('%')}" if chance else "")


def _unit_of(verdict: Verdict, result: Mapping[str, Any]) -> str:
    return "the target as it is learnt" if verdict.metric == "squared_loss" else target_of(result)


def _units(result: Mapping[str, Any]) -> str:
    if (result.get("dataset") or {}).get("task") != "regression":
        return "Rates, areas and F1 are shares of 1."
    target = target_of(result)
    return f"Absolute errors are in units of {target}, squared ones in their squares; R2 is a share of variance."
