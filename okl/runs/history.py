"""Errors and times of the past runs in okl's home folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from okl.foundation.locations import okl_home
from okl.report.format import MEASURED_ON, aligned, duration, metric_name, mistake_rate_text, number
from okl.report.results import assess

RESULT = "result.json"


def past_runs(most: int | None = None) -> list[dict[str, Any]]:
    """Return complete runs, newest first: name, solver, data, rows, split, metric, error, constant, seconds.

    `constant` is the error of the majority class or the mean on the same rows. Folders without a readable result are
    left out.

    Parameters
    ----------
    most : maximum number of folders to read; None: all
    """
    folders = (okl_home() / "runs").glob(f"*/{RESULT}")
    runs = []
    for file in sorted(folders, key=os.path.getmtime, reverse=True)[:most]:
        try:
            runs.append(_summary(json.loads(file.read_text(encoding="utf-8")), file.parent))
        except (OSError, ValueError, AttributeError):  # removed meanwhile, or not a result of okl
            continue
    return runs


def runs_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of `past_runs`, with a line for each run."""
    if not runs:
        return f"no runs in {okl_home() / 'runs'}; start one with okl train"
    rows = [["run", "solver", "data", "rows", "error", "", "majority or mean", "seconds"]]
    for run in runs:
        errors = [_error(run, run["error"]), _error(run, run["constant"])]
        measured = f"{metric_name(run['metric']).lower()} {MEASURED_ON[run['split']]}"
        cells = [number(run["rows"]), errors[0], measured, errors[1], duration(run["seconds"])]
        rows.append([run["name"], run["solver"] or "-", Path(run["data"]).name or "-", *cells])
    return "\n".join([str(okl_home() / "runs"), *aligned(rows)])


def _summary(result: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    settings, data, verdict = result.get("settings") or {}, result.get("dataset") or {}, assess(result)
    return {
        "name": folder.name,
        "folder": str(folder),
        "solver": settings.get("solver") or (result.get("winner") or {}).get("model"),
        "data": str(settings.get("data") or ""),
        "data_sha256": data.get("sha256"),
        "rows": result.get("rows") or data.get("train_rows"),
        "split": verdict.split,
        "metric": verdict.metric,
        "error": verdict.error,
        "constant": verdict.constant,
        "seconds": result.get("total_seconds"),
    }


def _error(run: Mapping[str, Any], error: float | None) -> str:
    if error is None:
        return "-"
    return mistake_rate_text(error) if run["metric"] == "mistake_rate" else number(error)
