"""Whether a run can be trusted: chance, rows never seen, scores and what comes of them, proofs, constraints, drift."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from okl.store import regretfigures
from okl.store.constraintwords import HEADER, constraint_sentences, constraint_table, violation_curve
from okl.store.driftwording import drift_sentence, window_curve
from okl.store.pageparts import Block, Head, Picture, Section, Words, grid
from okl.store.proofs import growth_of, regret_horizons, regret_section
from okl.store.reportlearning import ROUNDING
from okl.store.reportreliability import reliability_blocks
from okl.store.verdict import error_text, judge
from okl.store.wording import metric_name, number, percent, rate


def trust(result: Mapping[str, Any]) -> Section | None:
    """All that speaks for or against taking the figures and scores at their word; None where nothing does."""
    blocks = [*_chance(result), *reliability_blocks(result), *_proof(result), *_constraints(result), *_drift(result)]
    return Section("trust", "Can I trust it?", blocks) if blocks else None


def _chance(result: Mapping[str, Any]) -> list[Block]:
    """How far the error may be off, and what it is on rows that were learnt."""
    verdict, told = judge(result), []
    if verdict.error is not None and (chance := verdict.chance(verdict.error)):
        told.append(
            f"An error of {rate(verdict.error)}, counted on {number(verdict.rows)} rows, may be off by "
            f"{percent(chance, 2)} of rows by chance (two standard errors)."
        )
    learnt = (result.get("train") or {}).get(verdict.metric)
    if verdict.split == "test" and learnt is not None and verdict.error is not None:
        seen, unseen = error_text(verdict, learnt), error_text(verdict, verdict.error)
        told.append(f"On the rows that it learnt from it makes {seen}, on test rows, which it never saw, {unseen}.")
    elif verdict.split == "progressive" and verdict.is_of_unseen_rows:
        told.append("Each row was predicted before it was learnt, so that this error is one on rows never seen.")
    elif verdict.split == "progressive":
        told.append(
            f"Rows came {verdict.passes} times, and from the second time on each had been learnt before: on fresh rows "
            "it will err more. Hold some out (--holdout)."
        )
    elif verdict.error is not None:
        told.append(
            "All rows it was measured on were learnt: on fresh rows it will err more. Hold some out (--holdout)."
        )
    return [Words(" ".join(told))] if told else []


def _proof(result: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = [Words(text) for text in [_gap(result)] if text]
    if (section := regret_section(result)) is not None:
        blocks += [Head("Regret"), *map(Words, section.sentences), *_regret_pictures(result)]
        blocks += [grid(section.table, section.header)] if section.table else []
    return blocks


def _gap(result: Mapping[str, Any]) -> str:
    """What a solver proved of its optimum."""
    proof = result.get("certificate") or {}
    below = proof.get("dual_objective", proof.get("lower_bound"))
    if below is None or proof.get("objective") is None:
        return ""
    confidence = proof.get("confidence")
    sure = "" if confidence is None else f", at {percent(confidence)} confidence"
    relative = proof.get("relative_gap")
    gap = f"a gap of {number(proof.get('gap'))}, or {percent(relative, 2)}"
    if relative is not None and relative < ROUNDING:
        gap = "the optimum, but for rounding"
    return (
        f"It is proved{sure} that what the solver minimises over its rows, {number(proof['objective'])} here, is at "
        f"least {number(below)} for any weights: {gap}. The rest of its errors is not the solver's, but of model, "
        "kernel, settings and noise."
    )


def _regret_pictures(result: Mapping[str, Any]) -> list[Block]:
    horizons = regret_horizons(result)
    if not horizons:
        return []
    growth = growth_of(result)
    last = horizons[-1]
    told = f"{number(last['regret'])} after {number(last['rows'])} rows, and a bound of {number(last['bound'])}."
    average = f"{number(last['average_regret'])} after {number(last['rows'])} rows; it falls if much was learnt."
    return [
        Picture("Regret against rows", partial(regretfigures.regret_curve, horizons, growth), told),
        Picture("Average regret against rows", partial(regretfigures.average_regret_curve, horizons, growth), average),
    ]


def _constraints(result: Mapping[str, Any]) -> list[Block]:
    if (limits := constraint_table(result)) is None:
        return []
    blocks: list[Block] = [Head("Constraints"), *map(Words, constraint_sentences(result))]
    if violations := result["constraints"].get("curve"):
        told = (
            f"By how much a row's weights were outside their limits: {number(violations[-1][1])} on average in the end."
        )
        blocks.append(Picture("Violation while learning", partial(violation_curve, violations), told))
    return [*blocks, grid(limits, HEADER)._replace(wide=True)]


def _drift(result: Mapping[str, Any]) -> list[Block]:
    told = drift_sentence(result)
    blocks: list[Block] = [Head("Change of rows in time"), Words(told)] if told else []
    if len((result.get("windows") or {}).get("points") or []) > 1:
        verdict = judge({**result, "test": None})
        error, shares = metric_name(verdict.metric).lower(), verdict.metric == "mistake_rate"
        draw = partial(window_curve, result, error, verdict.constant_name, shares=shares)
        blocks.append(Picture("Error in each window", draw, "A mark is a window in which it rose by more than chance."))
    return blocks
