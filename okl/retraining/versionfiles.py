"""The files of a version: the model, what an online learner goes on from, and what the run was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from okl.registry.payload import MODEL
from okl.retraining.challenger import Challenger
from okl.retraining.champion import STATE
from okl.retraining.latest import PAGE
from okl.retraining.report import report_html, report_markdown
from okl.retraining.statefile import save_state
from okl.store.model import Model, save_model

RESULT, REPORT = "result.json", "report.md"


def write_version(into: Path, model: Model, challenger: Challenger, result: Mapping[str, Any]) -> None:
    """Write model/, state/ (of an online learner), result.json, report.md and report.html into an empty folder.

    Raises
    ------
    OSError : they cannot be written
    """
    save_model(model, into / MODEL)
    if challenger.online:
        save_state(into / STATE, challenger.state, {"data_sha256": challenger.data.sha256})
    (into / RESULT).write_text(json.dumps(result, indent=1, allow_nan=False), encoding="utf-8")
    (into / REPORT).write_text(report_markdown(result), encoding="utf-8")
    (into / PAGE).write_text(report_html(result), encoding="utf-8")
