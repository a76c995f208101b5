"""The report of a reproduction."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from okl.foundation.folders import write_durably
from okl.papers.base import BETTER, MEASURED, NO_DATA, REFERENCE, REPRODUCED, WORSE, Outcome
from okl.report.blocks import Figure, Page, Section, Table, page, paragraphs, without_empty
from okl.report.format import counted, flatten, mean_and_spread
from okl.report.render import html, markdown, text

# Cells and data sets as tables.

COMPARED = ("Paper", "okl", "Difference", "Allowed", "Verdict")
COSTS = ("Seconds", "Paper's seconds", "Seconds / FOGD's", "Setting", "Other values")
CELL_HEADER = ("Data set", "Algorithm", "Metric", *COMPARED, *COSTS)
DATASET_HEADER = ("Data set", "Rows", "Paper's rows", "Orders", "Constant", "Linear", "Remark")
CANDIDATE_HEADER = ("Cell", "Error of each candidate, on an order that is not reported")
PERCENT = frozenset({"mistake_rate", "accuracy"})
HIDDEN_SETTINGS = ("tried", "choice", "orders", "budget", "frequencies", "rank")


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Return the tables of cells, of data sets, of costs and settings and, if settings were searched, of candidates.

    Cells of data sets without any printed number are a table of their own, with costs and settings; missing sets have
    no rows.
    """
    cells = [cell for cell in result["cells"] if cell["status"] != NO_DATA]
    hidden = () if len({cell["metric"] for cell in cells}) > 1 else ("Metric",)
    metric = cells[0]["metric"] if cells else ""
    candidates = [
        [f"{cell['dataset']}, {cell['algorithm']}",
         "; ".join(f"{name}: {_spread(cell['metric'], error, None)}" for name, error in tried.items())]
        for cell in cells if (tried := cell["setting"].get("tried"))
    ]  # fmt: skip
    printed = {cell["dataset"] for cell in cells if cell["claim"] or cell["paper_mean"] is not None}
    rows = [_cell_row(cell) for cell in cells if cell["dataset"] in printed]
    own = [_cell_row(cell) for cell in cells if cell["dataset"] not in printed]
    datasets = [_dataset_row(row, metric) for row in result["datasets"] if "read" in row]
    shown = [
        without_empty(Table("Cells", CELL_HEADER, rows, wide=True), (*hidden, *COSTS)),
        without_empty(Table("Without printed numbers", CELL_HEADER, own, wide=True), hidden),
        without_empty(Table("Data sets", DATASET_HEADER, datasets, wide=True)),
        without_empty(
            Table("Seconds, settings and other values", CELL_HEADER, rows, folded=True), (*hidden, *COMPARED)
        ),
    ]
    shown += [Table("Candidates", CANDIDATE_HEADER, candidates, folded=True)]
    return [table for table in shown if table.rows]


def _cell_row(cell: Mapping[str, Any]) -> list[str]:
    metric, verdict = cell["metric"], cell["verdict"] or ""
    if cell["status"] != MEASURED:
        verdict = cell["note"] or cell["status"]
    elif cell["no_information"]:
        verdict = "no information" if _is_wide(cell) else f"({verdict})"
    elif cell["not_told_apart"]:
        verdict = f"({verdict}: not told apart from a planted bug)"
    elif verdict in (BETTER, WORSE) and cell["note"]:
        verdict = f"{verdict}: {cell['note']}"
    allowed = None if cell["margin"] is None else cell["margin"] + 2.0 * cell["standard_error"]
    point = ", ".join(f"{name} {value:g}" for name, value in cell["point"].items())
    more = dict(cell["more"])
    low = more.pop("low", None)  # of a growth: its interval is beside the number
    return [
        cell["dataset"],
        f"{cell['algorithm']} ({point})" if point else cell["algorithm"],
        metric.replace("_", " "),
        cell["claim"] or _spread(metric, cell["paper_mean"], cell["paper_sd"]),
        _spread(metric, cell["mean"], cell["sd"]) + ("" if low is None else f" [{low:.3g}, {more.pop('high'):.3g}]"),
        _signed(metric, cell["difference"]),
        _spread(metric, allowed, None),
        verdict,
        *("-" if cell[name] is None else f"{cell[name]:.3g}" for name in ("seconds", "paper_seconds")),
        "-" if cell["relative_seconds"] is None else f"{cell['relative_seconds']:.2f}",
        _setting_text(cell["setting"]),
        ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in more.items() if value is not None),
    ]


def _is_wide(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell has no information because its interval is wide, not because a trivial value passes."""
    return cell["mean"] is not None and cell["constant"] is None and cell["rival"] is None


def _dataset_row(row: Mapping[str, Any], metric: str) -> list[str]:
    paper_rows = row.get("paper_rows")
    remark = ""
    if row["read"] != row["dataset"]:
        remark = f"{row['read']} stands in for it"
    elif paper_rows and paper_rows != row["rows"]:
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
    text = ", ".join(
        f"{name.replace('_', ' ')} {value if isinstance(value, str) else f'{value:g}'}"
        for name, value in setting.items()
        if name not in HIDDEN_SETTINGS
    )
    text = text or "default"
    return f"{text}, of {len(setting['tried'])} tried" if setting.get("tried") else text


def _spread(metric: str, mean: float | None, sd: float | None) -> str:
    """Return a mean and its spread, mistake rates and accuracies in percent.

    >>> _spread("mistake_rate", 0.299, 0.007), _spread("squared_loss", 0.0401, None), _spread("kappa_max", 1.2344, None)
    ('29.90 ± 0.70 %', '0.04010', '1.234')
    """
    if mean is None:
        return "-"
    if metric in PERCENT:
        return mean_and_spread(mean, sd)
    digits = ".5f" if metric == "squared_loss" else ".4g"
    return f"{mean:{digits}} ± {sd:{digits}}" if sd is not None else f"{mean:{digits}}"


def _signed(metric: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.2f}" if metric in PERCENT else f"{value:+{'.5f' if metric == 'squared_loss' else '.3g'}}"


# Text and page.


def conclusions(result: Mapping[str, Any]) -> list[str]:
    """Return the conclusions of the table as sentences."""
    settings = result["settings"]
    sentences = []
    for name, counts in result["counts"].items():
        informative = sum(counts[verdict] for verdict in (REPRODUCED, BETTER, WORSE))
        if not (informative or counts["no information"] or counts["not told apart"]):
            continue
        if name != "all" and counts == result["counts"].get("all"):
            sentences.append("All are blind: no setting was chosen on these data sets.")
            continue
        cells = "cells" if name == "all" else "blind cells, on data sets that no setting was chosen on"
        sentence = (
            f"Reproduced {counts[REPRODUCED]} of {informative} {cells}; better {counts[BETTER]}, worse {counts[WORSE]}."
        )
        if counts["not told apart"]:
            sentence += (
                f" {counts['not told apart']} more are not told apart: a planted bug of the same algorithm is "
                "reproduced there, too."
            )
        if counts["no information"]:
            sentence += (
                f" {counts['no information']} more have no information: "
                f"{'; '.join(_without_information(result['cells']))}."
            )
        sentences.append(sentence)
    judged = any(cell["verdict"] for cell in result["cells"])
    if judged and (settings["repeats"] or math.inf) < (wanted := result.get("table_repeats", 0)):
        sentences.append(
            f"Verdicts rest on {counted(settings['repeats'], 'repeat')}, but the table takes {wanted:,}, as the paper "
            "if it states a number: they may be chance. Leave --repeats out to run all."
        )
    if judged and result["rule"]:
        sentences.append(f"Reproduced means: {result['rule']}. Settings and margins are frozen: {result['frozen']}.")
    sentences += _order_of_seconds(result["cells"])
    if missing := dict.fromkeys(cell["note"] for cell in result["cells"] if cell["status"] == NO_DATA):
        sentences.append(f"Without data, left out: {'; '.join(missing)}.")
    return [*sentences, *result["remarks"], f"Measured on {result['processor']}."]


def _without_information(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the reasons of the cells without information."""
    nothing = [cell for cell in cells if cell["verdict"] and cell["no_information"]]
    judged = [cell for cell in nothing if not _is_wide(cell) and cell["mean"] is not None]
    names = {"constant": "the constant predictor", "rival": "the simplest rival's printed number"}
    trivial = [name for field, name in names.items() if any(cell[field] is not None for cell in judged)]
    reasons = {
        "a mean of 0 has no exponent": any(cell["mean"] is None for cell in nothing),
        "the interval of an exponent includes more growth than published": any(map(_is_wide, nothing)),
        f"{' or '.join(trivial)} passes, too": bool(trivial),
    }
    return [reason for reason, holds in reasons.items() if holds]


def _order_of_seconds(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on the algorithms that are faster than FOGD here and slower in print, or the reverse."""
    units = {cell["dataset"]: cell["paper_seconds"] for cell in cells if cell["algorithm"] == REFERENCE}
    differing: dict[str, list[str]] = {}
    for cell in cells:
        unit, here, printed = units.get(cell["dataset"]), cell["relative_seconds"], cell["paper_seconds"]
        if unit and here and printed and (here - 1.0) * (printed / unit - 1.0) < 0.0:
            found = f"{cell['algorithm']} {here:.2f} ({printed / unit:.2f})"
            differing.setdefault(cell["dataset"], []).append(found)
    if not differing:
        return []
    listed = "; ".join(f"{dataset}: {', '.join(found)}" for dataset, found in differing.items())
    return [f"Printed and measured order of seconds differ; in units of {REFERENCE}'s (printed in brackets): {listed}."]


def headline(result: Mapping[str, Any]) -> str:
    """Return what was reproduced, and on which data."""
    read = result["settings"]["data"] and result.get("reads_data", True)
    return f"{result['title']}, with {'data from ' + result['settings']['data'] if read else 'generated data'}."


def text_summary(result: Mapping[str, Any]) -> str:
    """Return aligned lines for a terminal."""
    shown = [table._replace(title="") for table in tables(result) if not table.folded]
    files = f"Report, with seconds, settings and other values: {result['run']}/report.html"
    narrow = [[without_empty(table, ("Allowed", "Other values"))] for table in shown]
    return text(paragraphs(headline(result)), *narrow, paragraphs(*conclusions(result), files))


def paper_page(result: Mapping[str, Any], figures: Sequence[Figure]) -> Page:
    """Return the report of a reproduction."""
    facts = flatten({name: value for name, value in result.items() if name not in ("cells", "datasets")})
    return page(
        result["table"],
        paragraphs(headline(result), *conclusions(result)),
        Section("tables", "Tables", tables(result)),
        Section("pictures", "Figures", figures),
        Section("run", "Settings and the run", [Table("All values", (), facts, folded=True)]),
    )


# Files of results.


def write_results(
    result: Mapping[str, Any],
    curves: Mapping[str, Any],
    figures: Sequence[Figure],
    outcomes: Mapping[str, Outcome],
    folder: Path,
) -> None:
    """Write the results, curves, cells, items and reports of a run into its folder, each atomically."""
    report = paper_page(result, figures)
    files: dict[str, str | bytes] = {
        "result.json": json.dumps(result, indent=1, allow_nan=False),
        "curves.json": json.dumps(curves, allow_nan=False),
        "cells.parquet": _parquet([flat(cell) for cell in result["cells"]]),
        "items.parquet": _parquet([{"item": name, **flat(outcome)} for name, outcome in outcomes.items()]),
        "report.md": markdown(report),
        "report.html": html(report),
    }
    for name, content in files.items():
        write_durably(folder / name, content)


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with nested values as JSON text."""
    return {name: json.dumps(v) if isinstance(v, (dict, list)) else v for name, v in record.items()}


def _parquet(records: list[dict[str, Any]]) -> bytes:
    names = dict.fromkeys(name for record in records for name in record)
    sink = BytesIO()
    pq.write_table(pa.table({name: [record.get(name) for record in records] for name in names}), sink)
    return sink.getvalue()
