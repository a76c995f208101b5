"""What a reproduction leaves in its folder: the result as JSON, cells and items as Parquet, the report as one page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from okl.reproduction.items import Outcome
from okl.reproduction.report import html_report, markdown_report
from okl.reproduction.tables import Picture


def write_results(
    result: Mapping[str, Any],
    curves: Mapping[str, Any],
    pictures: Sequence[Picture],
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
