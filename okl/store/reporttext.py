"""A run in a terminal: about a dozen aligned lines, and its warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.home import typed_model
from okl.store.choices import TERMINAL, chosen_facts
from okl.store.constraintwords import constraint_facts
from okl.store.driftwording import drift_facts
from okl.store.memorywording import memory_facts
from okl.store.proofs import regret_facts
from okl.store.tables import baseline_names, metric_tables
from okl.store.timelinewording import timeline_facts
from okl.store.verdict import warning_sentences
from okl.store.wording import metric_name, number, scalars, seconds


def text_summary(result: Mapping[str, Any]) -> str:
    """About a dozen aligned lines for the end of a run in a terminal, and its warnings."""
    tables = metric_tables(result)
    shown = [split for split in ("progressive", "test" if "test" in tables else "train") if split in tables]
    rows = [[f"{row[0]}, {split}", *row[1:]] for split in shown for row in tables[split].rows]
    header = ["", "okl", *(name.lower() for name in baseline_names(result))]
    facts = [
        ["Model", number(result.get("model"))],
        ["Report", f"{result.get('run') or '.'}/report.html"],
        ["To use it", f"okl predict {typed_model(result)} ROWS --out SCORES"],
        ["Learnt", _pace(result)],
        ["Total time", _total(result)],
        *_race(result),
        *([name, text] for name, text in chosen_facts(result.get("chosen") or {}, TERMINAL)),
        *timeline_facts(result),
        *memory_facts(result),
        *drift_facts(result),
        *([["Solved", outcome]] if (outcome := (result.get("certificate") or {}).get("outcome")) else []),
        *constraint_facts(result),
        *regret_facts(result),
    ]
    if "test" not in tables and "train" in tables:
        facts.append(["Test rows", "none; --holdout 0.2 keeps a fifth of a source out of learning, to measure on"])
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    widths[0] = max(widths[0], max(len(row[0]) for row in facts))
    lines = [f"{name:<{widths[0]}}  {value}" for name, value in facts]
    for row in [header, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]))
    return "\n".join([*lines, *(f"Warning: {sentence}" for sentence in warning_sentences(result))])


def text_metrics(metrics: Mapping[str, Any], rows: int) -> str:
    """Metrics of an evaluation, one aligned line each."""
    lines = [("Rows", number(rows)), *((metric_name(name), number(value)) for name, value in scalars(metrics).items())]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def _race(result: Mapping[str, Any]) -> list[list[str]]:
    """What was chosen and why, a sentence a line."""
    why = (result.get("choice") or {}).get("why") or []
    return [["" if line else "Chosen", sentence] for line, sentence in enumerate(why)]


def _total(result: Mapping[str, Any]) -> str:
    total, race = seconds(result.get("total_seconds")), (result.get("choice") or {}).get("seconds")
    return total if race is None else f"{total}, {seconds(race)} of them to choose"


def _pace(result: Mapping[str, Any]) -> str:
    passes = (result.get("settings") or {}).get("passes", 1)
    rows = f"{number(result.get('rows'))} rows" + (f", {passes} passes," if passes != 1 else "")
    return f"{rows} in {seconds(result.get('seconds'))} ({number(result.get('rows_per_second'))} rows a second)"
