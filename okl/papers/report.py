"""The report of a reproduction."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from okl.papers.base import Outcome, PaperPicture
from okl.report.format import aligned, flatten
from okl.report.page import Block, Paragraph, Section, TableBlock, html_page, markdown_page
from okl.report.page import FigureBlock as Drawn

# Cells as text.

HEADER = ("Data set", "Algorithm", "Metric", "Paper", "okl", "Difference", "in sd", "Verdict", "Seconds",
          "Paper's seconds", "per FOGD", "Setting", "Beside")  # fmt: skip
SIDE_HEADER = ("Data set", "Rows", "Paper's rows", "Orders", "Constant", "Linear", "Remark")
PERCENT = frozenset({"mistake_rate", "accuracy"})
UNSAID = ("tried", "choice", "orders", "budget", "frequencies", "rank")


def cell_row(cell: Mapping[str, Any]) -> list[str]:
    """A cell as text, a column each of HEADER."""
    metric, verdict = cell["metric"], cell["verdict"] or ""
    if cell["status"] != "measured":
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
        setting_words(cell["setting"]),
        ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in cell["more"].items() if value is not None),
    ]


def cell_table(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the cells, without columns that say nothing."""
    rows = [cell_row(cell) for cell in result["cells"]]
    dull = () if len({cell["metric"] for cell in result["cells"]}) > 1 else ("Metric",)
    return _telling(HEADER, rows, dull)


def side_table(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of what stands beside each data set, without columns that say nothing."""
    metric = result["cells"][0]["metric"] if result["cells"] else ""
    return _telling(SIDE_HEADER, [side_row(row, metric) for row in result["beside"]], ())


def _telling(
    header: Sequence[str], rows: Sequence[Sequence[str]], dull: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    kept = [
        column
        for column, name in enumerate(header)
        if name not in dull and (column < 2 or any(row[column] not in ("-", "") for row in rows))
    ]
    return [header[column] for column in kept], [[row[column] for column in kept] for row in rows]


def side_row(row: Mapping[str, Any], metric: str) -> list[str]:
    """Return further facts about a data set as text, a column each of SIDE_HEADER."""
    paper_rows = row.get("paper_rows")
    remark = "" if "read" in row else "not there"
    if "read" in row and row["read"] != row["dataset"]:
        remark = f"{row['read']} stands in for it"
    elif "read" in row and paper_rows and paper_rows != row["rows"]:
        remark = "not as many rows as in the paper"
    return [
        row["dataset"],
        "-" if row.get("rows") is None else f"{row['rows']:,}",
        f"{paper_rows:,}" if paper_rows else "-",
        row.get("orders", "-"),
        *(_spread(metric, row.get(name), None) for name in ("constant", "linear")),
        remark,
    ]


def setting_words(setting: Mapping[str, Any]) -> str:
    """Return the settings as text, and whether they were chosen among several."""
    if not setting:
        return "-"
    said = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in setting.items() if name not in UNSAID)
    return f"{said or 'plain'}, of {len(setting['tried'])} tried" if setting.get("tried") else said or "plain"


def sentences(result: Mapping[str, Any]) -> list[str]:
    """Return the conclusions of the table as sentences."""
    settings = result["settings"]
    data = f"with data from {settings['data']}" if settings["data"] else "with drawn data"
    said = [f"{result['title']}, {data}."]
    if result["compared"]:
        said.append(f"{result['matches']} of {result['compared']} cells match the paper: {result['rule']}.")
    hollow = [cell for cell in result["cells"] if cell["like_constant"]]
    if hollow:
        names = ", ".join(dict.fromkeys(f"{cell['algorithm']} on {cell['dataset']}" for cell in hollow))
        said.append(f"No better than the constant predictor (within 2%): {names}.")
    return [*said, *result["remarks"], f"Measured on {result['processor']}."]


def text_summary(result: Mapping[str, Any]) -> str:
    """Aligned lines for a terminal."""
    lines: list[str] = []
    for header, rows in (cell_table(result), side_table(result)):
        lines += [*aligned([header, *rows]), ""]
    return "\n".join([*lines, *sentences(result), f"Report: {result['run']}/report.html"])


def tried_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """For each cell whose setting was chosen, the candidates with their errors."""
    rows = []
    for cell in result["cells"]:
        if tried := cell["setting"].get("tried"):
            errors = (f"{name}: {_spread(cell['metric'], error, None)}" for name, error in tried.items())
            rows.append([f"{cell['dataset']}, {cell['algorithm']}", "; ".join(errors)])
    return rows


def _spread(metric: str, mean: float | None, sd: float | None) -> str:
    """A mean and its spread, mistake rates and accuracies in percent.

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


# The report.

TRIED_HEADER = ("Cell", "Error of each candidate, on an order that is not reported")


def markdown_report(result: Mapping[str, Any], pictures: Sequence[PaperPicture]) -> str:
    """Markdown, its pictures as PNG data URIs on light ground."""
    return markdown_page(result["table"], _lead(result), _sections(result, pictures))


def html_report(result: Mapping[str, Any], pictures: Sequence[PaperPicture]) -> str:
    """One page without any outside reference; light or dark as the reader's system is."""
    facts = {name: value for name, value in result.items() if name not in ("cells", "beside")}
    told = TableBlock("All of it", (), [list(pair) for pair in flatten(facts)], folded=True)
    sections = [*_sections(result, pictures), Section("run", "Settings and the run", [told])]
    return html_page(result["table"], _lead(result), sections)


def _lead(result: Mapping[str, Any]) -> list[Block]:
    return [Paragraph(sentence) for sentence in sentences(result)]


def _sections(result: Mapping[str, Any], pictures: Sequence[PaperPicture]) -> list[Section]:
    tables = [TableBlock(title, header, rows, wide=True) for title, header, rows in _tables(result)]
    drawn = [Drawn(picture.title, picture.draw, wide=True) for picture in pictures]
    found = [Section("tables", "In figures", tables), Section("pictures", "In pictures", drawn)]
    return [section for section in found if section.blocks]


def _tables(result: Mapping[str, Any]) -> list[tuple[str, Sequence[str], list[list[str]]]]:
    tables: list[tuple[str, Sequence[str], list[list[str]]]] = [
        ("Cells", *cell_table(result)),
        ("Data sets", *side_table(result)),
    ]
    if tried := tried_rows(result):
        tables.append(("Candidates", TRIED_HEADER, tried))
    return tables


# Result files.


def write_results(
    result: Mapping[str, Any],
    curves: Mapping[str, Any],
    pictures: Sequence[PaperPicture],
    outcomes: Mapping[str, Outcome],
    folder: Path,
) -> None:
    """Write result.json, curves.json, cells.parquet, items.parquet, report.md, report.html; each is whole or not there.

    Parameters
    ----------
    result : what `okl reproduce --json` prints; curves : the figures behind the pictures
    outcomes : of all items, by name; folder : of the run; earlier results there are replaced
    """
    _replace(folder / "result.json", json.dumps(result, indent=1, allow_nan=False).encode())
    _replace(folder / "curves.json", json.dumps(curves, allow_nan=False).encode())
    _replace(folder / "cells.parquet", _parquet([_flat(cell) for cell in result["cells"]]))
    items = [{"item": name, **_flat(outcome)} for name, outcome in outcomes.items()]
    _replace(folder / "items.parquet", _parquet(items))
    _replace(folder / "report.md", markdown_report(result, pictures).encode())
    _replace(folder / "report.html", html_report(result, pictures).encode())


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values as JSON text."""
    return {name: json.dumps(v) if isinstance(v, (dict, list)) else v for name, v in record.items()}


def _parquet(records: list[dict[str, Any]]) -> bytes:
    names = dict.fromkeys(name for record in records for name in record)
    table = pa.table({name: [record.get(name) for record in records] for name in names})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.partial")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
