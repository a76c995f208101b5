"""`okl train --record`: its own server, the flow, the records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.run import perform_run
from flows.server import TemporaryServer
from okl.foundation.errors import DataError
from okl.foundation.locations import okl_home
from okl.foundation.settings import IngestSettings
from okl.foundation.telemetry import NullObserver
from okl.runs.train import TRAIN_STAGES, TrainingRun
from okl.solvers.settings import TrainSettings
from tests.flows.blobs import write_blobs
from tests.flows.conftest import give_database, query


@pytest.fixture
def home(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a database; test_server begins with none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    return give_database(tmp_path / "home", database)


def test_after_training_every_record_is_in_the_database(home: Path, tmp_path: Path) -> None:
    write_blobs(tmp_path / "rows.parquet")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), ingest=IngestSettings(target="y"), frequencies=20)
    result = perform_run(TrainingRun(settings), "flows.runs:okl_train", NullObserver(), record=True)
    assert Path(result["model"]).is_dir()
    assert result["test"]["accuracy"] > result["baselines"]["majority"]["test"]["accuracy"] + 0.1

    assert query(home, "select name, state_type from flow_run") == [("train rows", "COMPLETED")]
    tasks = dict(query(home, "select name, state_type from task_run"))
    assert tasks == dict.fromkeys(TRAIN_STAGES, "COMPLETED")
    artifacts = dict(query(home, "select key, data from artifact"))
    assert set(artifacts) == {f"okl-train-rows-{part}" for part in ("progress", "metrics", "report")}
    assert float(artifacts["okl-train-rows-progress"]) == 100
    assert "data:image/" in artifacts["okl-train-rows-report"], "pictures are inline"
    table = json.loads(json.loads(artifacts["okl-train-rows-metrics"]))
    assert result["test"]["accuracy"] in [row["value"] for row in table if row["metric"] == "accuracy"]
    assert "settings" in json.loads(query(home, "select parameters from flow_run")[0][0])


def test_a_failed_run_is_recorded_and_leaves_nothing(configured: TemporaryServer, tmp_path: Path) -> None:
    write_blobs(tmp_path / "rows.parquet")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), ingest=IngestSettings(target="y", task="regression"))
    (tmp_path / "rows.parquet").write_bytes((tmp_path / "rows.parquet").read_bytes()[:-200])
    with pytest.raises(DataError, match=r"rows\.parquet"):
        perform_run(TrainingRun(settings), "flows.runs:okl_train", NullObserver())
    newest = query(
        configured.home, "select state_type from flow_run where deployment_id is null order by created desc limit 1"
    )
    assert newest == [("FAILED",)]
    assert list(okl_home().iterdir()) == []
