"""The list of past runs with the measured error of each."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from okl.foundation.locations import runs_named
from okl.runs.history import past_runs, runs_text

PLAIN = {"majority": {"test": {"mistake_rate": 0.4}, "progressive": {"mistake_rate": 0.3}}}
RUNS = {
    "first": {"test": {"mistake_rate": 0.25}, "baselines": PLAIN, "rows": 1000, "total_seconds": 2.0,
              "settings": {"solver": "c-svm", "data": "/data/rows.csv"}},
    "second": {"progressive": {"mistake_rate": 0.125}, "baselines": PLAIN, "dataset": {"train_rows": 500},
               "winner": {"model": "nu-svm"}},
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    return tmp_path


def test_runs_are_listed_newest_first_with_their_errors(home: Path) -> None:
    assert past_runs() == []
    assert "no complete runs in" in runs_text([])
    for at, (name, result) in enumerate(RUNS.items()):
        (home / "runs" / name).mkdir(parents=True)
        (home / "runs" / name / "result.json").write_text(json.dumps(result))
        os.utime(home / "runs" / name / "result.json", (at, at))
    (home / "runs" / "broken").mkdir()
    (home / "runs" / "broken" / "result.json").write_text("{")
    found = past_runs()
    assert [one["name"] for one in found] == ["second", "first"]
    assert [(one["split"], one["error"], one["constant"]) for one in found] == [
        ("progressive", 0.125, 0.3),
        ("test", 0.25, 0.4),
    ]
    assert [(one["solver"], one["rows"]) for one in found] == [("nu-svm", 500), ("c-svm", 1000)]
    lines = runs_text(found).splitlines()
    assert "12.50%  mistake rate during training" in lines[2]
    assert lines[3].split()[:4] == ["first", "c-svm", "rows.csv", "1,000"]
    assert "25.00%  mistake rate on test rows" in lines[3]
    assert [one["name"] for one in past_runs(2)] == ["second"], "the broken one is the newest"


def test_errors_are_shown_as_summaries_do(home: Path) -> None:
    """Squared errors are shown as roots, areas unchanged, comparisons by validated and not training error."""
    area = {"test": {"roc_auc": 0.75, "mistake_rate": 0.1}, "baselines": {"majority": {"test": {"roc_auc": 0.5}}}}
    squared = {"test": {"mse": 4e18}, "baselines": {"mean": {"test": {"mse": 9e18}}}}
    compared = {"train": {"mistake_rate": 0.0}, "models": [{"mean": 0.9}], "constant": 0.6, "baselines": {}}
    explained = compared | {"criterion": "squared-error", "constant": 0.0}
    results = {"area": area | {"criterion": "auc"}, "squared": squared, "compared": compared, "explained": explained}
    for name, result in results.items():
        (home / "runs" / name).mkdir(parents=True)
        (home / "runs" / name / "result.json").write_text(json.dumps(result))
    explained["settings"] = {"solver": "ridge", "kernel": "laplacian"}
    (home / "runs" / "explained" / "result.json").write_text(json.dumps(explained))
    lines = {line.split()[0]: " ".join(line.split()) for line in runs_text(past_runs()).splitlines()[2:]}
    assert lines["explained"].startswith("explained ridge (Laplacian kernel) ")
    assert "0.750 ROC AUC on test rows 0.500" in lines["area"]
    assert "2 billion root mean squared error on test rows 3 billion" in lines["squared"]
    assert "10.00% mistake rate (validated) 40.00%" in lines["compared"]
    assert "90.00% explained variance (validated) 0.00%" in lines["explained"]
    found = {run["name"]: (run["split"], run["metric"], run["error"], run["constant"]) for run in past_runs()}
    assert found["compared"] == ("validated", "mistake_rate", pytest.approx(0.1), 0.4)
    assert found["explained"] == ("validated", "unexplained_variance", pytest.approx(0.1), 1.0)


def test_a_comparison_is_found_by_name_if_no_other_run_has_it(home: Path) -> None:
    for name in ("compare-churn-20260101-000000-1", "compare-price-20260101-000000-1", "churn-20250101-000000-1"):
        (home / "runs" / name).mkdir(parents=True)
        (home / "runs" / name / "result.json").write_text("{}")
    assert [run.name for run in runs_named("churn")] == ["churn-20250101-000000-1"]
    assert [run.name for run in runs_named("price")] == ["compare-price-20260101-000000-1"]
    assert runs_named("cost") == []


def test_a_run_with_a_given_name_has_priority_over_a_later_run_of_data_with_that_name(home: Path) -> None:
    for date, name in enumerate(("spend", "spend", None), start=20260101):
        folder = home / "runs" / f"spend-{date}-000000-1"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps({"settings": {"name": name}}))
    assert [run.name for run in runs_named("spend")] == ["spend-20260102-000000-1", "spend-20260101-000000-1"]
    assert [run.name for run in runs_named("spend-20260103-000000-1")] == ["spend-20260103-000000-1"]
