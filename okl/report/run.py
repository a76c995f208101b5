"""Report of a training run as HTML and Markdown, and its summary for a terminal.

Both are made only from the dictionary that `okl train --json` prints: the same dictionary gives the same bytes, and
missing entries are left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from okl.foundation.locations import typed_model
from okl.report.assessment import summary_sentences, warning_sentences
from okl.report.format import TERMINAL, chosen_facts, duration, metric_name, number, scalar_metrics
from okl.report.page import Block, FigureBlock, Paragraph, Section, WarningBlock, grid, html_page, markdown_page
from okl.report.sections import (
    changes_section,
    choice_section,
    cost_section,
    mistakes_section,
    quality_section,
    reliability_section,
    training_section,
    usage_section,
)
from okl.report.tables import FACTS, baseline_names, fact_tables, metric_tables
from okl.report.text import constraint_facts, drift_facts, memory_facts, regret_facts, timeline_facts

# Summary for a terminal


def text_summary(result: Mapping[str, Any]) -> str:
    """Return about a dozen aligned lines and the warnings, for the end of a run in a terminal."""
    tables = metric_tables(result)
    shown = [split for split in ("progressive", "test" if "test" in tables else "train") if split in tables]
    rows = [[f"{row[0]}, {split}", *row[1:]] for split in shown for row in tables[split].rows]
    header = ["", "okl", *(name.lower() for name in baseline_names(result))]
    facts = [
        ["Model", number(result.get("model"))],
        ["Report", f"{result.get('run') or '.'}/report.html"],
        ["To predict", f"okl predict {typed_model(result)} ROWS --out SCORES"],
        ["Training", _pace(result)],
        ["Total time", _total(result)],
        *_race(result),
        *([name, text] for name, text in chosen_facts(result.get("chosen") or {}, TERMINAL)),
        *timeline_facts(result),
        *memory_facts(result),
        *drift_facts(result),
        *([["Outcome", outcome]] if (outcome := (result.get("certificate") or {}).get("outcome")) else []),
        *constraint_facts(result),
        *regret_facts(result),
    ]
    if "test" not in tables and "train" in tables:
        facts.append(["Test rows", "none; add --holdout 0.2 to hold out 20% of a source for testing"])
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    widths[0] = max(widths[0], max(len(row[0]) for row in facts))
    lines = [f"{name:<{widths[0]}}  {value}" for name, value in facts]
    for row in [header, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]))
    return "\n".join([*lines, *(f"Warning: {sentence}" for sentence in warning_sentences(result))])


def text_metrics(metrics: Mapping[str, Any], rows: int) -> str:
    """Return the metrics of an evaluation, one aligned line each."""
    lines = [
        ("Rows", number(rows)),
        *((metric_name(name), number(value)) for name, value in scalar_metrics(metrics).items()),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def _race(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the reasons of the automatic choice, one sentence per line."""
    why = (result.get("choice") or {}).get("why") or []
    return [["" if line else "Chosen", sentence] for line, sentence in enumerate(why)]


def _total(result: Mapping[str, Any]) -> str:
    total, race = duration(result.get("total_seconds")), (result.get("choice") or {}).get("seconds")
    return total if race is None else f"{total}, of which {duration(race)} for the automatic choice"


def _pace(result: Mapping[str, Any]) -> str:
    passes = (result.get("settings") or {}).get("passes", 1)
    rows = f"{number(result.get('rows'))} rows" + (f", {passes} passes," if passes != 1 else "")
    return f"{rows} in {duration(result.get('seconds'))} ({number(result.get('rows_per_second'))} rows per second)"


# Report as HTML for the folder of the run, and as Markdown for an artifact


def write_report(result: Mapping[str, Any], path: str | Path) -> Path:
    """Write the self-contained HTML page atomically and return its path.

    Parameters
    ----------
    result : dictionary printed by `okl train --json`: model, run, rows, seconds, total_seconds, rows_per_second;
        progressive, train, test (metric: value); baselines (majority or mean, linear: the same); settings, dataset,
        chosen, curve
    path : path of the file, in an existing folder
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(html_report(result), encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def html_report(result: Mapping[str, Any]) -> str:
    """Return a page without external references, in light or dark colours by the preference of the reader's system."""
    return html_page(_title(result), _lead(result), report_sections(result))


def markdown_report(result: Mapping[str, Any]) -> str:
    """Return the report as Markdown, with figures as PNG data URIs in light colours."""
    return markdown_page(_title(result), _lead(result), report_sections(result))


def report_figures(result: Mapping[str, Any]) -> list[FigureBlock]:
    """Return all figures of the report, on test rows if there are any, otherwise on training rows."""
    return [block for section in report_sections(result) for block in section.blocks if isinstance(block, FigureBlock)]


def report_sections(result: Mapping[str, Any]) -> list[Section]:
    """Return the sections of the report that the result has data for."""
    sections = (
        quality_section(result),
        changes_section(result.get("previous")),
        reliability_section(result),
        mistakes_section(result),
        training_section(result),
        choice_section(result),
        cost_section(result),
        usage_section(result),
        _everything(result),
    )
    return [section for section in sections if section is not None]


def _title(result: Mapping[str, Any]) -> str:
    target = (result.get("dataset") or {}).get("target", "the target")
    name = result.get("name")
    return f"{name}: predicting {target}" if name else f"Predicting {target}"


def _lead(result: Mapping[str, Any]) -> list[Block]:
    """Return the introduction: quality, training, warnings."""
    training, error = summary_sentences(result)
    return [Paragraph(error), Paragraph(training), *map(WarningBlock, warning_sentences(result))]


def _everything(result: Mapping[str, Any]) -> Section | None:
    """Return the section with tables of all settings and other facts, for reference."""
    tables = [grid(table, folded=True) for table in fact_tables(result) if table.title != FACTS["chosen"]]
    return Section("facts", "Settings, data and provenance", tables) if tables else None
