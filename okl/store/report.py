"""The report of a run: a page for the run's folder, markdown for an artifact, a dozen lines for a terminal.

All three are made from the plain dict that `okl train --json` prints, and from nothing else: the same dict gives the
same bytes. What the dict lacks is left out.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from okl.store import figures, regretfigures
from okl.store.choices import TERMINAL, chosen_facts, learner_sentence
from okl.store.constraintwords import HEADER as CONSTRAINTS
from okl.store.constraintwords import constraint_facts, constraint_sentences, constraint_table, violation_curve
from okl.store.driftwording import drift_facts, drift_sentence, window_curve
from okl.store.figures import DARK, LIGHT, Theme
from okl.store.memorywording import memory_facts, memory_sentence
from okl.store.page import PAGE
from okl.store.proofs import growth_of, regret_facts, regret_horizons, regret_section
from okl.store.tables import Table, baseline_names, fact_tables, headline, metric_tables
from okl.store.timelinefigures import timeline_picture
from okl.store.timelinewording import timeline_facts, timeline_sentence
from okl.store.wording import (
    judge,
    metric_name,
    number,
    scalars,
    seconds,
    summary_sentences,
    warning_sentences,
)


class Picture(NamedTuple):
    """A picture to draw in a theme; a wide one takes the whole width of the page."""

    title: str
    draw: Callable[[Theme], bytes]
    wide: bool = False


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
    header = ["", "okl", *baseline_names(result)]
    first, *others = headline(result)
    beside = result.get("cluster_report")
    return PAGE.substitute(
        title=escape(_title(result)),
        summary="\n".join(f"<p>{escape(sentence)}</p>" for sentence in _sentences(result)),
        warnings="\n".join(
            f'<p class="warning"><strong>Warning.</strong> {escape(sentence)}</p>'
            for sentence in warning_sentences(result)
        ),
        tiles="\n".join([_html_tile(*first, "first"), *(_html_tile(*tile) for tile in others)]),
        figures="\n".join([*(_html_picture(picture) for picture in pictures(result)), *_html_links(beside)]),
        regret=_html_constraints(result) + _html_regret(result),
        metrics="\n".join(_html_table(table, "metrics", header) for table in metric_tables(result).values()),
        facts="\n".join(_html_table(table, "facts") for table in fact_tables(result)),
    )


def markdown_report(result: Mapping[str, Any]) -> str:
    """The same as markdown, its pictures as PNG data URIs on light ground."""
    parts = [f"# {_plain(_title(result))}"]
    parts += [_plain(sentence) for sentence in _sentences(result)]
    parts += [f"**Warning.** {_plain(sentence)}" for sentence in warning_sentences(result)]
    parts += [f"![{_plain(picture.title)}]({_data_uri(picture.draw(LIGHT))})" for picture in pictures(result)]
    if (limits := constraint_table(result)) is not None:
        parts += ["## Constraints", *map(_plain, constraint_sentences(result))]
        parts += [_markdown_table(limits, CONSTRAINTS)]
    if (section := regret_section(result)) is not None:
        parts += ["## Regret", *map(_plain, section.sentences)]
        parts += [_markdown_table(section.table, section.header)] if section.table else []
    header = ["", "okl", *baseline_names(result)]
    parts += [_markdown_table(table, header) for table in metric_tables(result).values()]
    parts += [_markdown_table(table, ["", ""]) for table in fact_tables(result)]
    return "\n\n".join(parts) + "\n"


def text_summary(result: Mapping[str, Any]) -> str:
    """About a dozen aligned lines for the end of a run in a terminal, and its warnings."""
    tables = metric_tables(result)
    shown = [split for split in ("progressive", "test" if "test" in tables else "train") if split in tables]
    rows = [[f"{row[0]}, {split}", *row[1:]] for split in shown for row in tables[split].rows]
    header = ["", "okl", *(name.lower() for name in baseline_names(result))]
    facts = [
        ["Model", number(result.get("model"))],
        ["Report", str(Path(str(result.get("run") or ".")) / "report.html")],
        ["Learnt", _pace(result)],
        ["Total time", seconds(result.get("total_seconds"))],
        *([name, text] for name, text in chosen_facts(result.get("chosen") or {}, TERMINAL)),
        *timeline_facts(result),
        *memory_facts(result),
        *drift_facts(result),
        *([["Solved", outcome]] if (outcome := (result.get("certificate") or {}).get("outcome")) else []),
        *constraint_facts(result),
        *regret_facts(result),
    ]
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


def pictures(result: Mapping[str, Any]) -> list[Picture]:
    """Every picture that the result holds figures for: of the test rows if there are any, else of the training rows."""
    data = result.get("dataset") or {}
    target = str(data.get("target", "target"))
    found = []
    if curve := result.get("curve"):
        verdict = judge({**result, "test": None})
        error = f"{metric_name(verdict.metric)} while learning"
        found.append(Picture("Learning curve", partial(figures.learning_curve, curve, error, verdict.constant_name)))
        if len((result.get("windows") or {}).get("points") or []) > 1:
            draw_windows = partial(window_curve, result, metric_name(verdict.metric), verdict.constant_name)
            found.append(Picture("Error in each window", draw_windows))
    if convergence := result.get("convergence"):
        found.append(Picture("Relative duality gap", partial(figures.convergence_curve, convergence)))
    if violations := (result.get("constraints") or {}).get("curve"):
        found.append(Picture("Violation while learning", partial(violation_curve, violations)))
    if horizons := regret_horizons(result):
        growth = growth_of(result)
        found.append(Picture("Regret against rows", partial(regretfigures.regret_curve, horizons, growth)))
        average = partial(regretfigures.average_regret_curve, horizons, growth)
        found.append(Picture("Average regret against rows", average))
    measured = result.get("test") or result.get("train") or {}
    where = "test rows" if result.get("test") else "training rows"
    if confusion := measured.get("confusion"):
        labels = data.get("labels") or list(range(len(confusion)))
        draw = partial(figures.confusion_matrix, confusion, labels)
        found.append(Picture(f"Confusion matrix, {where}", draw, wide=len(confusion) > figures.MOST_COUNTED))
    histogram = measured.get("residual_histogram")
    if histogram and histogram["counts"]:
        draw = partial(figures.residual_histogram, histogram["edges"], histogram["counts"], target)
        found.append(Picture(f"Residuals, {where}", draw))
    grid = measured.get("predicted_vs_true")
    if grid and grid["range"][0] < grid["range"][1]:
        draw = partial(figures.predicted_against_true, grid["range"], grid["counts"], target)
        found.append(Picture(f"Predicted against true, {where}", draw))
    if (timeline := result.get("timeline")) and result.get("workers"):  # of one process, a sentence tells it all
        found.append(Picture("Where the time went", partial(timeline_picture, timeline), wide=True))
    return found


def _title(result: Mapping[str, Any]) -> str:
    target = (result.get("dataset") or {}).get("target", "the target")
    name = result.get("name")
    return f"{name}: predicting {target}" if name else f"Predicting {target}"


def _sentences(result: Mapping[str, Any]) -> list[str]:
    told, *others = summary_sentences(result)
    more = (learner_sentence(result), drift_sentence(result), timeline_sentence(result), memory_sentence(result))
    return [told, *filter(None, more), *others]


def _pace(result: Mapping[str, Any]) -> str:
    passes = (result.get("settings") or {}).get("passes", 1)
    rows = f"{number(result.get('rows'))} rows" + (f", {passes} passes," if passes != 1 else "")
    return f"{rows} in {seconds(result.get('seconds'))} ({number(result.get('rows_per_second'))} rows a second)"


def _html_tile(name: str, value: str, style: str = "") -> str:
    return f'<div class="{style}"><span>{escape(name)}</span><b>{escape(value)}</b></div>'


def _html_picture(picture: Picture) -> str:
    style = ' class="wide"' if picture.wide else ""
    light, dark = _data_uri(picture.draw(LIGHT)), _data_uri(picture.draw(DARK))
    return (
        f"<figure{style}><picture>"
        f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(picture.title)}"></picture></figure>'
    )


def _html_links(beside: object) -> list[str]:
    """A link to what the cluster itself reports, where that lies beside the page."""
    link = f'<a href="{escape(str(beside))}">Dask\'s own performance report</a>'
    # one element: a figure lays what it holds side by side
    told = f"<span>{link}: tasks, profiles and memory of all workers.</span>"
    return [f'<figure class="wide">{told}</figure>'] if beside else []


def _html_regret(result: Mapping[str, Any]) -> str:
    if (section := regret_section(result)) is None:
        return ""
    parts = ["<h2>Regret</h2>", *(f"<p>{escape(sentence)}</p>" for sentence in section.sentences)]
    return "\n".join(parts + ([_html_table(section.table, "metrics", section.header)] if section.table else []))


def _html_constraints(result: Mapping[str, Any]) -> str:
    if (limits := constraint_table(result)) is None:
        return ""
    parts = ["<h2>Constraints</h2>", *(f"<p>{escape(sentence)}</p>" for sentence in constraint_sentences(result))]
    return "\n".join([*parts, _html_table(limits, "metrics", CONSTRAINTS), ""])


def _html_table(table: Table, style: str, header: Sequence[str] = ()) -> str:
    lines = [f"<caption>{escape(table.title)}</caption>"]
    if header:
        lines.append("<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header) + "</tr>")
    for name, *cells in table.rows:
        values = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{values}</tr>')
    return f'<div class="scroll"><table class="{style}">\n' + "\n".join(lines) + "\n</table></div>"


def _markdown_table(table: Table, header: Sequence[str]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    body = [[_plain(cell) for cell in row] for row in table.rows]
    return f"## {_plain(table.title)}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in [*lines, *body])


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _plain(text: str) -> str:
    """Text that markdown and HTML leave as it is, on one line."""
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", escape(" ".join(text.split()), quote=False))
