"""The report of a run: a page for the run's folder, and the same as markdown for an artifact.

Both are made from the plain dict that `okl train --json` prints, and from nothing else: the same dict gives the same
bytes. What the dict lacks is left out. Sections come in the order in which a reader asks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from okl.store.pagehtml import html_page
from okl.store.pagemarkdown import markdown_page
from okl.store.pageparts import Block, Picture, Section, Warned, Words, grid
from okl.store.reportchanges import changes
from okl.store.reportcost import cost, use
from okl.store.reportlearning import choice, learning
from okl.store.reportmistakes import mistakes
from okl.store.reportquality import quality
from okl.store.reporttext import text_metrics, text_summary
from okl.store.reporttrust import trust
from okl.store.tables import FACTS, fact_tables
from okl.store.verdict import summary_sentences, warning_sentences

__all__ = ["html_report", "markdown_report", "pictures", "text_metrics", "text_summary", "write_report"]


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
