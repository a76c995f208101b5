from __future__ import annotations

from pathlib import Path

import pytest

from okl.data.dataset import Schema
from tests.lifecycle.shards import first_schema


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    """The schema of a first shard, which later ones are validated by."""
    return first_schema(tmp_path_factory.mktemp("first"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, with okl's home in it."""
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    return tmp_path
