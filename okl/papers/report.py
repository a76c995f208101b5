"""The report of a reproduction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from okl.foundation.folders import write_whole
from okl.papers.base import MEASURED, Outcome, Picture
from okl.report.format import aligned, flatten
from okl.report.page import Block, FigureBlock, Paragraph, Section, TableBlock, html_page, markdown_page

# Cells and data sets as tables.

CELL_HEADER = ("Data set", "Algorithm", "Metric", "Paper", "okl", "Difference", "in sd", "Verdict", "Seconds",
               "Paper's seconds", "per FOGD", "Setting", "Other values")  # fmt: skip
DATASET_HEADER = ("Data set", "Rows", "Paper's rows", "Orders", "Constant", "Linear", "Remark")
CANDIDATE_HEADER = ("Cell", "Error of each candidate, on an order that is not reported")
PERCENT = frozenset({"mistake_rate", "accuracy"})
HIDDEN_SETTINGS = ("tried", "choice", "orders", "budget", "frequencies", "rank")
Grid = tuple[Sequence[str], list[list[str]]]


def cell_table(result: Mapping[str, Any]) -> Grid:
    """Return header and rows of the cells, without empty columns."""
    hidden = () if len({cell["metric"] for cell in result["cells"]}) > 1 else ("Metric",)
    return _without_empty(CELL_HEADER, [_cell_row(cell) for cell in result["cells"]], hidden)


def dataset_table(result: Mapping[str, Any]) -> Grid:
    """Return header and rows of the data sets, without empty columns."""
    metric = result["cells"][0]["metric"] if result["cells"] else ""
    return _without_empty(DATASET_HEADER, [_dataset_row(row, metric) for row in result["datasets"]])


def candidate_table(result: Mapping[str, Any]) -> Grid:
    """Return header and rows of the candidates with their errors, for each cell whose setting was chosen."""
    rows = []
    for cell in result["cells"]:
        if tried := cell["setting"].get("tried"):
            errors = (f"{name}: {_spread(cell['metric'], error, None)}" for name, error in tried.items())
            rows.append([f"{cell['dataset']}, {cell['algorithm']}", "; ".join(errors)])
    return CANDIDATE_HEADER, rows


def _without_empty(header: Sequence[str], rows: Sequence[Sequence[str]], hidden: Sequence[str] = ()) -> Grid:
    shown = [
        column
        for column, name in enumerate(header)
        if name not in hidden and (column < 2 or any(row[column] not in ("-", "") for row in rows))
    ]
    return [header[column] for column in shown], [[row[column] for column in shown] for row in rows]


def _cell_row(cell: Mapping[str, Any]) -> list[str]:
    metric, verdict = cell["metric"], cell["verdict"] or ""
    if cell["status"] != MEASURED:
        verdict = cell["note"] or cell["status"]
    elif cell["like_constant"]:
        verdict = f"{verdict}; no better than a constant".lstrip("; ")
    point = ", ".join(f"{name} {value:g}" for name, value in cell["point"].items())
    return [
        cell["dataset"],
        f"{cell['algorithm']} ({point})" if point else cell["algorithm"],
        metric.replace("_", " "),
        _spread(metric, cell["paper_mean"], cell["paper_sd"]),
        _spread(metric, cell["mean"], cell["sd"]),
        _signed(metric, cell["difference"]),
        "-" if cell["deviations"] is None else f"{cell['deviations']:+.1f}",
        verdict,
        *("-" if cell[name] is None else f"{cell[name]:.3g}" for name in ("seconds", "paper_seconds")),
        "-" if cell["relative_seconds"] is None else f"{cell['relative_seconds']:.2f}",
        _setting_text(cell["setting"]),
        ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in cell["more"].items() if value is not None),
    ]


def _dataset_row(row: Mapping[str, Any], metric: str) -> list[str]:
    paper_rows = row.get("paper_rows")
    remark = "" if "read" in row else "missing"
    if "read" in row and row["read"] != row["dataset"]:
        remark = f"{row['read']} stands in for it"
    elif "read" in row and paper_rows and paper_rows != row["rows"]:
        remark = "number of rows differs from the paper"
    return [
        row["dataset"],
        "-" if row.get("rows") is None else f"{row['rows']:,}",
        f"{paper_rows:,}" if paper_rows else "-",
        row.get("orders", "-"),
        *(_spread(metric, row.get(name), None) for name in ("constant", "linear")),
        remark,
    ]


def _setting_text(setting: Mapping[str, Any]) -> str:
    """Return the parameters as text, and among how many candidates they were chosen."""
    if not setting:
        return "-"
    shown = {name: value for name, value in setting.items() if name not in HIDDEN_SETTINGS}
    text = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in shown.items()) or "default"
    return f"{text}, of {len(setting['tried'])} tried" if setting.get("tried") else text


def _spread(metric: str, mean: float | None, sd: float | None) -> str:
    """Return a mean and its spread, mistake rates and accuracies in percent.

    >>> _spread("mistake_rate", 0.299, 0.007), _spread("squared_loss", 0.0401, None), _spread("kappa_max", 1.2344, None)
    ('29.90 ± 0.70 %', '0.04010', '1.234')
    """
    if mean is None:
        return "-"
    if metric in PERCENT:
        return f"{100 * mean:.2f} ± {100 * sd:.2f} %" if sd is not None else f"{100 * mean:.2f} %"
    digits = ".5f" if metric == "squared_loss" else ".4g"
    return f"{mean:{digits}} ± {sd:{digits}}" if sd is not None else f"{mean:{digits}}"


def _signed(metric: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.2f}" if metric in PERCENT else f"{value:+{'.5f' if metric == 'squared_loss' else '.3g'}}"


# Text, Markdown and HTML.


def conclusions(result: Mapping[str, Any]) -> list[str]:
    """Return the conclusions of the table as sentences."""
    settings = result["settings"]
    data = f"with data from {settings['data']}" if settings["data"] else "with generated data"
    sentences = [f"{result['title']}, {data}."]
    if result["compared"]:
        sentences.append(f"{result['matches']} of {result['compared']} cells match the paper: {result['rule']}.")
    poor = [cell for cell in result["cells"] if cell["like_constant"]]
    if poor:
        names = ", ".join(dict.fromkeys(f"{cell['algorithm']} on {cell['dataset']}" for cell in poor))
        sentences.append(f"No better than the constant predictor (within 2%): {names}.")
    return [*sentences, *result["remarks"], f"Measured on {result['processor']}."]


def text_summary(result: Mapping[str, Any]) -> str:
    """Return aligned lines for a terminal."""
    lines: list[str] = []
    for header, rows in (cell_table(result), dataset_table(result)):
        lines += [*aligned([header, *rows]), ""]
    return "\n".join([*lines, *conclusions(result), f"Report: {result['run']}/report.html"])


def markdown_report(result: Mapping[str, Any], pictures: Sequence[Picture]) -> str:
    """Return Markdown with pictures as PNG data URIs."""
    return markdown_page(result["table"], _lead(result), _sections(result, pictures))


def html_report(result: Mapping[str, Any], pictures: Sequence[Picture]) -> str:
    """Return one self-contained page, light or dark as the reader's system."""
    facts = {name: value for name, value in result.items() if name not in ("cells", "datasets")}
    run = TableBlock("All values", (), [list(pair) for pair in flatten(facts)], folded=True)
    sections = [*_sections(result, pictures), Section("run", "Settings and the run", [run])]
    return html_page(result["table"], _lead(result), sections)


def _lead(result: Mapping[str, Any]) -> list[Block]:
    return [Paragraph(sentence) for sentence in conclusions(result)]


def _sections(result: Mapping[str, Any], pictures: Sequence[Picture]) -> list[Section]:
    grids = {"Cells": cell_table(result), "Data sets": dataset_table(result), "Candidates": candidate_table(result)}
    tables = [TableBlock(t, h, rows, wide=True) for t, (h, rows) in grids.items() if rows or t != "Candidates"]
    figures = [FigureBlock(picture.title, picture.draw, wide=True) for picture in pictures]
    sections = [Section("tables", "Tables", tables), Section("pictures", "Figures", figures)]
    return [section for section in sections if section.blocks]


# Files of results.


def write_results(
    result: Mapping[str, Any],
    curves: Mapping[str, Any],
    pictures: Sequence[Picture],
    outcomes: Mapping[str, Outcome],
    folder: Path,
) -> None:
    """Write result.json, curves.json, cells.parquet, items.parquet, report.md, report.html, each atomically.

    Parameters
    ----------
    result : output of `okl reproduce --json`; curves : data of the pictures
    outcomes : of all items, by name; folder : of the run; earlier results there are replaced
    """
    items = [{"item": name, **_flat(outcome)} for name, outcome in outcomes.items()]
    files: dict[str, str | bytes] = {
        "result.json": json.dumps(result, indent=1, allow_nan=False),
        "curves.json": json.dumps(curves, allow_nan=False),
        "cells.parquet": _parquet([_flat(cell) for cell in result["cells"]]),
        "items.parquet": _parquet(items),
        "report.md": markdown_report(result, pictures),
        "report.html": html_report(result, pictures),
    }
    for name, content in files.items():
        write_whole(folder / name, content)


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with nested values as JSON text."""
    return {name: json.dumps(v) if isinstance(v, (dict, list)) else v for name, v in record.items()}


def _parquet(records: list[dict[str, Any]]) -> bytes:
    names = dict.fromkeys(name for record in records for name in record)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: [record.get(name) for record in records] for name in names}), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content
