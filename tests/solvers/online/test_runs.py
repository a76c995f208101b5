from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.data.ingest.run import ingest
from okl.foundation.errors import ConfigError
from okl.foundation.settings import IngestSettings
from tests.rows import train, train_settings, write
from tests.solvers.online.constraints_cases import sensitive_table

BOUND = 0.01
TEXTS = (
    f"abs(covariance(s)) <= {BOUND}",
    "abs(difference(how=often, how=never)) <= 0.1",
    "mean(s=1) <= 0.3",
    "norm <= 5",
)


def test_a_certified_run_keeps_its_constraints_and_reports_them(tmp_path: Path) -> None:
    source = write(tmp_path, sensitive_table())
    ingest = {"keys": ("how",), "rows_per_shard": 400}
    settings = train_settings(source, tmp_path / "run", ingest, constraints=TEXTS, certify=True)
    result = train(settings)
    constraints = result["constraints"]
    assert constraints["met"]
    assert constraints["violation_a_row"] > 0
    assert [one["constraint"] for one in constraints["limits"]] == list(TEXTS[:3])
    covariance = constraints["limits"][0]
    assert abs(covariance["train"]["value"]) <= BOUND
    assert 0 < covariance["train"]["standard_error"] < covariance["test"]["standard_error"] < 0.2
    assert abs(covariance["train"]["positive_rate_difference"]) < 1
    assert "Theorem 2" in constraints["theorem"]
    assert result["dataset"]["features"] == 3
    proof = result["certificate"]
    comparator = proof["comparator"]
    assert comparator["excess"] == 0.0
    assert comparator["relative_gap"] < 0.02
    assert proof["regret"] <= proof["regret_at_most"] <= proof["bound"] + comparator["relative_gap"] * proof["loss"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<h3>Constraints</h3>" in page
    assert "Violation during training" in page
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored["constraints"]["curve"][-1][0] == result["rows"]


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_certified_runs_of_classes_and_of_numbers_keep_their_constraints(task: Any, tmp_path: Path) -> None:
    source = write(tmp_path, sensitive_table(800, task))
    scale = {"scale": "standard", "scale_target": True} if task == "regression" else {}
    texts = (TEXTS[0], "mean(how=often) <= 45", "norm <= 9")
    settings = train_settings(source, tmp_path / "run", {"keys": ("how",)} | scale, constraints=texts, certify=True)
    result = train(settings)
    constraints, proof = result["constraints"], result["certificate"]
    assert constraints["met"]
    assert constraints["violation_a_row"] > 0
    # the automatic choice for squared losses is a constant step
    assert ("Theorem 2" in constraints["theorem"]) == (task == "multiclass")
    assert [one["high"] for one in constraints["limits"]] == [BOUND, 45.0]
    assert proof["comparator"]["excess"] == 0.0
    assert proof["regret"] <= proof["regret_at_most"] <= proof["bound"] + 0.02 * proof["loss"]
    assert np.shape(proof["comparator"]["values"]) == ((3, 2) if task == "multiclass" else (2,))
    page = (tmp_path / "run" / "report.html").read_text()
    assert ("(class " in page) == (task == "multiclass")
    assert ("in the unit of the target" in page) == ("Decisions, training" not in page) == (task == "regression")


def test_averaged_shards_keep_limits_without_a_theorem(tmp_path: Path) -> None:
    source = write(tmp_path, sensitive_table())
    ingest = {"keys": ("how",), "rows_per_shard": 400}
    settings = train_settings(source, tmp_path / "run", ingest, constraints=TEXTS, mode="mix", rounds=8)
    constraints = train(settings)["constraints"]
    assert constraints["met"]
    assert "No theorem applies" in constraints["theorem"]
    assert np.isfinite(constraints["violation_as_learnt"])
    with pytest.raises(KeyError):
        _ = train(train_settings(source, tmp_path / "free", ingest, radius=5.0))["constraints"]


def test_a_gain_outside_its_range_is_allowed_without_a_bound(tmp_path: Path) -> None:
    source = write(tmp_path, sensitive_table())
    ingest = {"keys": ("how",), "rows_per_shard": 400}
    options = {"constraints": TEXTS[:1] + TEXTS[3:], "frequencies": 30, "bandwidth": 1.0}
    result = train(train_settings(source, tmp_path / "run", ingest, constraint_gain=3.0, certify=True, **options))
    constraints = result["constraints"]
    assert constraints["gain"] == 3.0 > constraints["largest_gain"] > 0.5
    assert constraints["met"]
    assert "no bound is claimed" in constraints["theorem"]
    assert result["certificate"]["bound"] is None
    assert result["certificate"]["regret"] > 0
    assert "No theoretical bound holds" in (tmp_path / "run" / "report.html").read_text()
    within = train(train_settings(source, tmp_path / "less", ingest, constraint_gain=0.1, step_size=0.5, **options))
    assert "Lemma 1" in within["constraints"]["theorem"]


@pytest.mark.parametrize("keys", [(), ("how",)])
def test_a_key_cannot_be_a_sensitive_input(keys: tuple[str, ...], tmp_path: Path) -> None:
    source = write(tmp_path, sensitive_table())
    options: dict[str, Any] = {"constraints": TEXTS[1:2], "learn_sensitive": True}
    with pytest.raises(ConfigError, match=r"'how' is a key: .* add a copy of the column with another name\."):
        train(train_settings(source, tmp_path / "run", {"keys": keys}, **options))
    data = ingest(source, tmp_path / "data", IngestSettings(keys=("how",))).dataset
    with pytest.raises(ConfigError, match="'how' is a key"):
        train(train_settings(data.folder, tmp_path / "other", **options))
