"""Data sets of the three tasks, with two training shards each."""

from __future__ import annotations

import pytest

from okl.store.dataset import Dataset
from okl.store.ingest import ingest
from okl.types import Task
from tests.recipes.cases import TASKS
from tests.rows import curved, write
from tests.store.sources import settings as ingest_settings


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
