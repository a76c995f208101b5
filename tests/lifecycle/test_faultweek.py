"""A short run of the simulation of bad weeks in operation, and tests that it detects violations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import okl.data.manifest
from tests.benchmarks import faultweek
from tests.benchmarks.faultweek import Week
from tests.flows.environment import child_environment
from tests.lifecycle.shards import content, land


def test_a_short_week_has_no_violation() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.faultweek", "1", "2", "2"]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, ": 0 violations;" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_simulation_detects_violations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    week = Week(tmp_path, 1)
    for day in (1, 2):
        land(week.inbox, f"{day}.parquet", content(day, 300))
        week.retrained()
    assert week.inspect()["wrong"] == []
    records = tmp_path / "registry" / "m" / "data" / "records"
    first = next(records.iterdir())
    first.rename(tmp_path / "lost")
    assert [line.split(" in the lineage")[1] for line in week.inspect()["wrong"]] == [" is not the shard of its record"]
    (tmp_path / "lost").rename(first)
    (records.parent / ".reference.json.half").touch()
    (records.parent.parent / "versions" / "00000009-aaaaaaaaaaaa").mkdir()
    monkeypatch.setattr(type(week.model()), "prune", lambda self, keep: None)
    assert [line.rpartition(" is ")[2] for line in week.left_over()["wrong"]] == ["left over", "half-written"]


def test_a_night_in_another_process_equals_one_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    week = Week(tmp_path, 1)
    land(week.inbox, "1.parquet", content(1, 300))
    week.retrained()
    week.check()
    monkeypatch.setattr(faultweek, "warm_up", lambda: None)
    draw = next(draw for draw in range(100) if Random(draw).random() < 0.3)  # undisturbed
    request = {"place": str(tmp_path), "first": week.first, "usual_seconds": 1.0, "scores": week.scores, "draw": draw}
    altered = {version: [score + 1 for score in scores] for version, scores in week.scores.items()}
    monkeypatch.setattr("sys.stdin", [json.dumps(request), json.dumps(request | {"scores": altered})])
    faultweek.serve()
    home, *answers = capsys.readouterr().out.splitlines()
    first, second = map(json.loads, answers)
    assert Path(home) == Path(okl.data.manifest.__file__)
    assert (first["happened"]["alone"], first["scores"], first["wrong"]) == (1, week.scores, [])
    assert "scores otherwise than when it was published" in second["wrong"][0]
