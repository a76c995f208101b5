"""Errors and times of the past runs in okl's home folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from okl.foundation.folders import name_of, resumable_in
from okl.foundation.locations import okl_home
from okl.metrics.criterion import METRICS
from okl.report.comparison import criterion_of_result, score_name
from okl.report.format import MEASURED_ON, aligned, duration, mistake_rate_text, number, solver_text
from okl.report.results import Assessment, assess

RESULT = "result.json"


def past_runs(most: int | None = None) -> list[dict[str, Any]]:
    """Return complete runs, newest first: name, solver, data, rows, split, metric, error, constant, shown, seconds.

    `split` is test, progressive, train, or, of a comparison without test rows, validated: `error` is then the mean over
    its folds, of a regression the unexplained share of the variance. `constant` is the error of the majority class or
    the mean on the same rows. `shown` has both as text, and what they measure: a squared error by its root, an area by
    itself; and the solver with its kernel. Folders without a readable result are left out.

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


def unfinished_runs() -> list[str]:
    """Return the names of interrupted runs in okl's home folder that can be resumed."""
    return [name_of(folder) for folder in resumable_in(okl_home() / "runs")]


def runs_text(runs: Sequence[Mapping[str, Any]], unfinished: Sequence[str] = ()) -> str:
    """Return the table of `past_runs` with a line for each run, and how to resume those that are unfinished."""
    resume = [f"unfinished: {name}; to resume it: okl train --resume {name}" for name in unfinished]
    if not runs:
        return "\n".join([f"no complete runs in {okl_home() / 'runs'}; start one with okl train", *resume])
    rows = [["run", "solver", "data", "rows", "figure", "", "majority or mean", "seconds"]]
    for run in runs:
        shown = run["shown"]
        cells = [number(run["rows"]), shown["error"], shown["measured"], shown["constant"], duration(run["seconds"])]
        rows.append([run["name"], shown["solver"] or run["solver"] or "-", Path(run["data"]).name or "-", *cells])
    return "\n".join([str(okl_home() / "runs"), *aligned(rows), *resume])


def _summary(result: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    settings, data, verdict = result.get("settings") or {}, result.get("dataset") or {}, _errors(result)
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
        "shown": _shown(result, verdict),
        "seconds": result.get("total_seconds"),
    }


def _errors(result: Mapping[str, Any]) -> Assessment:
    """Return the errors of a run; of a comparison without test rows, the validated ones."""
    best = (result.get("models") or [{}])[0]
    if "constant" not in result or best.get("mean") is None or result.get("test"):
        return assess(result)
    criterion, of_constant = criterion_of_result(result), {"constant": 1.0 - result["constant"]}
    metric = "unexplained_variance" if criterion == "squared-error" else METRICS[criterion]
    return Assessment("validated", 0, metric, "constant", 1.0 - best["mean"], of_constant, criterion=criterion)


def _shown(result: Mapping[str, Any], verdict: Assessment) -> dict[str, str]:
    """Return solver, error and constant as text, and their name; of a regression's comparison, explained variances."""
    solver = solver_text(result)
    if verdict.metric == "unexplained_variance":
        explained = [mistake_rate_text(1.0 - (error or 0.0)) for error in (verdict.error, verdict.constant)]
        measured = f"{score_name(result)} (validated)"
        return {"solver": solver, "measured": measured, "error": explained[0], "constant": explained[1]}
    name = verdict.name if verdict.name.isupper() else verdict.name[:1].lower() + verdict.name[1:]
    return {
        "solver": solver,
        "measured": f"{name} {MEASURED_ON.get(verdict.split, '(validated)')}",
        "error": verdict.text(verdict.error),
        "constant": verdict.text(verdict.constant),
    }
