"""The report of a training run and its terminal summary."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from okl.foundation.locations import typed_model
from okl.report.assessment import summary_sentences, warning_sentences
from okl.report.format import TERMINAL, chosen_facts, metric_name, number, scalars, seconds
from okl.report.page import Block, Picture, Section, Warned, Words, grid, html_page, markdown_page
from okl.report.sections import changes, choice, cost, learning, mistakes, quality, trust, use
from okl.report.tables import FACTS, baseline_names, fact_tables, metric_tables
from okl.report.text import constraint_facts, drift_facts, memory_facts, regret_facts, timeline_facts

# A run in a terminal: about a dozen aligned lines, and its warnings.


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


# The report of a run: a page for the run's folder, and the same as markdown for an artifact.
#
# Both are made from the plain dict that `okl train --json` prints, and from nothing else: the same dict gives the
# same bytes. What the dict lacks is left out. Sections come in the order in which a reader asks.


def write_report(result: Mapping[str, Any], path: str | Path) -> Path:
    """Write the self-contained page and return its path; it is there whole or not at all.

    Parameters
    ----------
    result : what `okl train --json` prints: model, run, rows, seconds, total_seconds, rows_per_second; progressive,
        train, test (metric: value); baselines (majority or mean, linear: the same); settings, dataset, chosen, curve
    path : of the file, in a folder that exists
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.write_text(html_report(result), encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def html_report(result: Mapping[str, Any]) -> str:
    """One page without any outside reference; light or dark as the reader's system is."""
    return html_page(_title(result), _lead(result), sections_of(result))


def markdown_report(result: Mapping[str, Any]) -> str:
    """The same as markdown, its pictures as PNG data URIs on light ground."""
    return markdown_page(_title(result), _lead(result), sections_of(result))


def pictures(result: Mapping[str, Any]) -> list[Picture]:
    """Every picture that the result holds figures for: of the test rows if there are any, else of the training rows."""
    return [block for section in sections_of(result) for block in section.blocks if isinstance(block, Picture)]


def sections_of(result: Mapping[str, Any]) -> list[Section]:
    """What a reader asks, in that order, as far as the result answers it."""
    asked = (
        quality(result),
        changes(result.get("previous")),
        trust(result),
        mistakes(result),
        learning(result),
        choice(result),
        cost(result),
        use(result),
        _everything(result),
    )
    return [section for section in asked if section is not None]


def _title(result: Mapping[str, Any]) -> str:
    target = (result.get("dataset") or {}).get("target", "the target")
    name = result.get("name")
    return f"{name}: predicting {target}" if name else f"Predicting {target}"


def _lead(result: Mapping[str, Any]) -> list[Block]:
    """The answer first, then what was done, then what must not be overlooked."""
    told, answer = summary_sentences(result)
    return [Words(answer), Words(told), *map(Warned, warning_sentences(result))]


def _everything(result: Mapping[str, Any]) -> Section | None:
    """Every name and value that the run was given and left behind, for whoever looks one up."""
    tables = [grid(table, folded=True) for table in fact_tables(result) if table.title != FACTS["chosen"]]
    return Section("facts", "Settings, data and provenance", tables) if tables else None
