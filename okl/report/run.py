"""Report of a training run as HTML and Markdown, and its summary for a terminal.

Both are made only from the dictionary that `okl train --json` prints: the same dictionary gives the same bytes, and
missing entries are left out.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.executor import Execution
from okl.foundation.locations import typed_model
from okl.foundation.telemetry import DRIVER, LEARNING, PHASES, Timeline, TimelineCell
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


# Timeline of a run: written as Parquet, and summarised for the report

FILE = "timeline.parquet"
MOST_DRAWN_BUCKETS = 64
MOST_DRAWN_LANES = 8


def write_timeline(timeline: Timeline, path: Path) -> None:
    """Write a row for each stage, bucket, lane and phase: begin_seconds, width_seconds, seconds.

    Times are relative to the start of the run. A lane is `driver`, the address of a worker, or a thread; its seconds in
    a bucket of a stage add up to the time that it was active.
    """
    cells = timeline.cells()
    columns: dict[str, Any] = {name: [getattr(cell, name) for cell in cells] for name in TimelineCell._fields}
    table = pa.table(columns | {"width_seconds": [timeline.width] * len(cells)})
    pq.write_table(table, path, compression="zstd")


def describe_timeline(timeline: Timeline) -> dict[str, Any]:
    """Return the summary of a timeline for the report, as JSON values.

    Returns
    -------
    shares : shares of the phases in the stage learn, of the driver, and of all workers (or threads) if there are any
    workers : number of lanes except the driver's
    bucket_seconds : width of a bucket
    stages : each [name, start, end], in seconds since the start of the run
    lanes : at most eight lanes: name, and seconds in each bucket by phase; with more workers, also their mean
    """
    cells, times = timeline.cells(), 1
    last = max((cell.begin_seconds for cell in cells), default=0.0)
    while last >= MOST_DRAWN_BUCKETS * times * timeline.width:
        times *= 2
    width = times * timeline.width
    lanes: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        lane = lanes.setdefault(cell.lane, {phase: [0.0] * (int(last / width) + 1) for phase in PHASES})
        lane[cell.phase][int(cell.begin_seconds / width)] += cell.seconds
    workers = [lane for lane in timeline.lanes() if lane in lanes and lane != DRIVER]
    shares = {DRIVER: _shares(cells, [DRIVER])} | ({"workers": _shares(cells, workers)} if workers else {})
    started = timeline.begun
    return {
        "shares": shares,
        "workers": len(workers),
        "bucket_seconds": width,
        "stages": [[stage.name, round(stage.begun - started, 4), round(stage.ended - started, 4)]
                   for stage in timeline.stages],
        "lanes": [{"name": name, **{phase: [round(second, 5) for second in seconds]
                                    for phase, seconds in lane.items() if any(seconds)}}
                  for name, lane in _drawn(lanes, workers)],
    }  # fmt: skip


def record_timeline(timeline: Timeline, execution: Execution, folder: Path) -> dict[str, Any]:
    """Write the timeline into the folder of a run; return its entry of the result."""
    write_timeline(timeline, folder / FILE)
    return {"timeline": describe_timeline(timeline)}


def _shares(cells: Sequence[TimelineCell], lanes: Sequence[str]) -> dict[str, float]:
    """Return the share of each phase in the training time of some lanes; empty without training time."""
    spent: defaultdict[str, float] = defaultdict(float)
    for cell in cells:
        if cell.stage == LEARNING and cell.lane in lanes:
            spent[cell.phase] += cell.seconds
    total = sum(spent.values())
    return {phase: round(spent[phase] / total, 5) for phase in PHASES if spent[phase] > 0.0} if total > 0.0 else {}


def _drawn(
    lanes: Mapping[str, Mapping[str, list[float]]], workers: Sequence[str]
) -> list[tuple[str, Mapping[str, list[float]]]]:
    drawn = [(DRIVER, lanes[DRIVER])] if DRIVER in lanes else []
    shown = list(workers)
    if len(workers) > MOST_DRAWN_LANES - 1:
        of_all = {phase: zip(*(lanes[lane][phase] for lane in workers), strict=True) for phase in PHASES}
        mean = {phase: [sum(seconds) / len(workers) for seconds in buckets] for phase, buckets in of_all.items()}
        drawn.append((f"mean of {len(workers)}", mean))
        shown = shown[: MOST_DRAWN_LANES - 2]
    return [*drawn, *((_short(lane, number), lanes[lane]) for number, lane in enumerate(shown, 1))]


def _short(lane: str, number: int) -> str:
    """Return a short label of a lane; an address becomes the number of the worker."""
    return f"worker {number}" if "://" in lane else lane
