"""Two real data sets, ingested once."""

from __future__ import annotations

import pytest

from okl.data.dataset import Dataset
from tests.runs.compare.sets import make_set


@pytest.fixture(scope="session")
def cancer(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    data = make_set(tmp_path_factory.mktemp("cancer"), "cancer")
    assert data.rows("test") > 80
    assert min(data.schema.class_counts) > 100
    return data


@pytest.fixture(scope="session")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    data = make_set(tmp_path_factory.mktemp("wine"), "wine")
    assert data.schema.task == "multiclass"
    return data
