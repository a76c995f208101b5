"""Data sets of the three tasks, with two training shards each."""

from __future__ import annotations

import pytest

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.foundation.types import Task
from tests.data.sources import settings as ingest_settings
from tests.rows import curved, write
from tests.solvers.factory.cases import TASKS


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, Dataset]:
    folder = tmp_path_factory.mktemp("sets")
    made: dict[Task, Dataset] = {}
    for task in TASKS:
        source = write(folder, curved(500, task), f"{task}.parquet")
        scaled = ingest_settings(task=task, scale="standard", scale_target=task == "regression", rows_per_shard=200)
        made[task] = ingest(source, folder / task, scaled).dataset
        assert len(made[task].split("train")) == 2
    return made
