"""Recorded training: the flow, and its records in the database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.foreground import perform_run
from flows.server import TemporaryServer
from okl.foundation.errors import DataError
from okl.foundation.locations import okl_home
from okl.foundation.settings import IngestSettings
from okl.foundation.telemetry import NullObserver
from okl.runs.train import TRAIN_STAGES, TrainingRun
from okl.solvers.settings import TrainSettings
from tests.flows.blobs import write_blobs
from tests.flows.conftest import query


def newest(server: TemporaryServer, columns: str) -> tuple[Any, ...]:
    """Return columns of the flow run that was created last."""
    (row,) = query(
        server.home, f"select {columns} from flow_run where deployment_id is null order by created desc limit 1"
    )
    return row


def test_after_training_every_record_is_in_the_database(configured: TemporaryServer, tmp_path: Path) -> None:
    write_blobs(tmp_path / "rows.parquet")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), ingest=IngestSettings(target="y"), frequencies=20)
    result = perform_run(TrainingRun(settings), "flows.runs:okl_train", NullObserver())
    assert Path(result["model"]).is_dir()
    assert result["test"]["accuracy"] > result["baselines"]["majority"]["test"]["accuracy"] + 0.1

    run, name, state, parameters = newest(configured, "id, name, state_type, parameters")
    assert (name, state) == ("train rows", "COMPLETED")
    tasks = dict(query(configured.home, f"select name, state_type from task_run where flow_run_id = '{run}'"))
    assert tasks == dict.fromkeys(TRAIN_STAGES, "COMPLETED")
    artifacts = dict(query(configured.home, f"select key, data from artifact where flow_run_id = '{run}'"))
    assert set(artifacts) == {f"okl-train-rows-{part}" for part in ("progress", "metrics", "report")}
    assert float(artifacts["okl-train-rows-progress"]) == 100
    assert "data:image/" in artifacts["okl-train-rows-report"], "pictures are inline"
    table = json.loads(json.loads(artifacts["okl-train-rows-metrics"]))
    values = [row["value"] for row in table if row["metric"] == "accuracy"]
    assert float(f"{result['test']['accuracy']:.6g}") in values, "rounded to six digits"
    assert "settings" in json.loads(parameters)


def test_a_failed_run_is_recorded_and_leaves_nothing(configured: TemporaryServer, tmp_path: Path) -> None:
    write_blobs(tmp_path / "rows.parquet")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), ingest=IngestSettings(target="y", task="regression"))
    (tmp_path / "rows.parquet").write_bytes((tmp_path / "rows.parquet").read_bytes()[:-200])
    with pytest.raises(DataError, match=r"rows\.parquet"):
        perform_run(TrainingRun(settings), "flows.runs:okl_train", NullObserver())
    assert newest(configured, "state_type") == ("FAILED",)
    assert list(okl_home().iterdir()) == []
