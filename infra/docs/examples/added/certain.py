# File: okl/report/certain.py
# SECTIONS: "okl.report.certain:certain_section",
"""Section of the report on the rows that the model is certain of."""

from __future__ import annotations

from okl.report.blocks import Section, Table, paragraphs
from okl.report.format import number, percent
from okl.report.results import RunResult


def certain_section(result: RunResult) -> Section:
    """Return a table of rows by their score, those of the most certain predictions first; two classes only."""
    measured = result.test or {}
    reliability = measured.get("reliability") or {"of": "", "bins": []}
    if reliability["of"] not in ("score", "log-odds"):
        return Section("certain", "", [])
    bins = sorted(reliability["bins"], key=lambda entry: -abs(entry["mean"]))
    rows = [
        [
            f"{number(entry['lowest'])} to {number(entry['highest'])}",
            number(entry["rows"]),
            percent(entry["hits"] / entry["rows"], 3),
        ]
        for entry in bins
    ]
    text = (
        "Test rows by their score, those far from 0 first. A score of at least 0 is a prediction of the second class."
    )
    table = Table("Rows by score", ("Score", "rows", "of the second class"), rows)
    return Section("certain", "Which rows is it certain of?", [*paragraphs(text), table])
