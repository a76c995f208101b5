"""The cells of a reproduction as text, and what they come to in sentences; all from the result alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEADER = ("Data set", "Algorithm", "Paper", "okl", "Difference", "in sd", "Verdict", "Seconds", "per FOGD", "Setting")
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
        _spread(metric, cell["paper_mean"], cell["paper_sd"]),
        _spread(metric, cell["mean"], cell["sd"]),
        _signed(metric, cell["difference"]),
        "-" if cell["deviations"] is None else f"{cell['deviations']:+.1f}",
        verdict,
        "-" if cell["seconds"] is None else f"{cell['seconds']:.3g}",
        "-" if cell["relative_seconds"] is None else f"{cell['relative_seconds']:.2f}",
        setting_words(cell["setting"]),
    ]


def side_row(row: Mapping[str, Any], metric: str) -> list[str]:
    """What stands beside a data set as text, a column each of SIDE_HEADER."""
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
    """What was set, and whether it was chosen among several."""
    if not setting:
        return "-"
    said = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in setting.items() if name not in UNSAID)
    return f"{said or 'plain'}, of {len(setting['tried'])} tried" if setting.get("tried") else said or "plain"


def sentences(result: Mapping[str, Any]) -> list[str]:
    """What the table comes to."""
    settings = result["settings"]
    said = [f"{result['title']}, with data from {settings['data']}."]
    if result["compared"]:
        said.append(f"{result['matches']} of {result['compared']} cells match the paper: {result['rule']}.")
    hollow = [cell for cell in result["cells"] if cell["like_constant"]]
    if hollow:
        names = ", ".join(dict.fromkeys(f"{cell['algorithm']} on {cell['dataset']}" for cell in hollow))
        said.append(f"No better than the constant predictor (within 2%): {names}.")
    said.append(
        f"Mean and standard deviation over orders of the rows; seconds of learning alone, an order on one thread, "
        f"measured beside each other on {result['processor']}."
    )
    return said


def text_summary(result: Mapping[str, Any]) -> str:
    """Aligned lines for a terminal."""
    rows = [list(HEADER), *(cell_row(cell) for cell in result["cells"])]
    lines = [*_aligned(rows), "", *_aligned([list(SIDE_HEADER), *side_rows(result)]), ""]
    return "\n".join([*lines, *sentences(result), f"Report: {result['run']}/report.html"])


def side_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """What stands beside each data set."""
    metric = result["cells"][0]["metric"] if result["cells"] else ""
    return [side_row(row, metric) for row in result["beside"]]


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

    >>> _spread("mistake_rate", 0.299, 0.007), _spread("squared_loss", 0.0401, None)
    ('29.90 ± 0.70 %', '0.04010')
    """
    if mean is None:
        return "-"
    if metric in PERCENT:
        return f"{100 * mean:.2f} ± {100 * sd:.2f} %" if sd is not None else f"{100 * mean:.2f} %"
    return f"{mean:.5f} ± {sd:.5f}" if sd is not None else f"{mean:.5f}"


def _signed(metric: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.2f}" if metric in PERCENT else f"{value:+.5f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
