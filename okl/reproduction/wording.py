"""The cells of a reproduction as text, and what they come to in sentences; all from the result alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from okl.store.texttables import aligned

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
