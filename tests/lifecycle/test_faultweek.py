"""A short run of the simulation of an operator's worst weeks, and proof that it sees what it looks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.faultweek import Week
from tests.flows.environment import child_environment
from tests.lifecycle.shards import content, land


def test_a_short_week_has_no_violation() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.faultweek", "1", "2", "2"]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, ": 0 violations;" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_simulation_sees_what_it_looks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    week = Week(tmp_path, 1)
    for day in (1, 2):
        land(week.inbox, f"{day}.parquet", content(day, 300))
        week.retrained()
    assert week.found()["wrong"] == []
    records = tmp_path / "registry" / "m" / "data" / "records"
    first = next(records.iterdir())
    first.rename(tmp_path / "lost")
    assert [line.split(" in the lineage")[1] for line in week.found()["wrong"]] == [" is not the shard of its record"]
    (tmp_path / "lost").rename(first)
    (records.parent / ".reference.json.half").touch()
    (records.parent.parent / "versions" / "00000009-aaaaaaaaaaaa").mkdir()
    monkeypatch.setattr(type(week.model()), "prune", lambda self, keep: None)
    assert [line.rpartition(" is ")[2] for line in week.left_over()["wrong"]] == ["left over", "half-written"]
