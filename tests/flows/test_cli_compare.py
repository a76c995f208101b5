"""`okl compare` at the command line: recorded by Prefect, with a table and a model at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.server import TemporaryServer
from okl.runs.compare_settings import CompareSettings
from tests.flows.commandline import Terminal
from tests.flows.conftest import query
from tests.rows import compare
from tests.runs.compare.sets import make_set


def test_models_are_compared_recorded_and_the_best_one_scores(
    configured: TemporaryServer, tmp_path: Path, terminal: Terminal
) -> None:
    data = make_set(tmp_path, "cancer")
    options = {"models": "mm-fda,mm-mpm", "grid": 3, "folds": 3, "seed": 4}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    result = terminal.okl_json("compare", data.folder, *words, "--no-halving", "--out", tmp_path / "run")
    local = compare(CompareSettings(data=str(data.folder), halving=False, out=str(tmp_path / "here"), **options))
    assert [row["scores"] for row in result["models"]] == [row["scores"] for row in local["models"]]
    assert result["weights_sha256"] == local["weights_sha256"]
    assert result["certificate"]["kind"] == "duality gap"

    artifacts = dict(query(configured.home, "select key, data from artifact where key like 'okl-compare-cancer-%'"))
    assert set(artifacts) == {*(f"okl-compare-cancer-{part}" for part in ("progress", "metrics", "report"))}
    assert "data:image/svg+xml" in artifacts["okl-compare-cancer-report"]
    names = [row["model"] for row in json.loads(json.loads(artifacts["okl-compare-cancer-metrics"]))]
    assert sorted(names) == ["mm-fda", "mm-mpm"]

    scored = terminal.okl("predict", tmp_path / "run" / "model", data.folder, "--out", tmp_path / "scores")
    assert (scored.code, scored.err) == (0, "")
    assert len(list((tmp_path / "scores").glob("*.parquet"))) > 0


def test_bad_input_is_one_sentence_and_starts_nothing(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    nothing = terminal.okl("compare", tmp_path / "nowhere")
    assert (nothing.code, "does not exist" in nothing.sentence) == (2, True)
    number = terminal.okl("compare", tmp_path, "--folds", "1")
    assert (number.code, "folds = '1'" in number.sentence) == (2, True)
    constraint = terminal.okl("compare", tmp_path, "--constraint", "norm <= 8")
    assert (constraint.code, "No such option: --constraint" in constraint.err) == (2, True)
    shown = terminal.okl("compare", "--help").out
    assert "--holdout" in shown
    assert "--models" in shown
    assert list(tmp_path.iterdir()) == []
