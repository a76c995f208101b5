from __future__ import annotations

from pathlib import Path

import pytest

from okl.data.dataset import Schema
from tests.lifecycle.shards import first_schema


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    """Return the schema of the first shard, against which later ones are validated."""
    return first_schema(tmp_path_factory.mktemp("first"))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that contains the home folder of okl."""
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    return tmp_path
