"""Retraining with the inbox and the registry under URLs: the same as in folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from okl.foundation.errors import DataError
from okl.foundation.locations import RemotePath
from okl.lifecycle.retrain import retrain
from okl.lifecycle.settings import RetrainSettings
from okl.models.registry import Registry
from tests.lifecycle.shards import content, land
from tests.lifecycle.stories import settings
from tests.objectstore import Faulty


def remote(root: Path) -> RetrainSettings:
    return settings(root, source=f"s3://bucket/{root.name}/in", registry=f"s3://bucket/{root.name}/registry")


def arrive(root: Path, day: int, flipped: bool = False) -> None:
    name = f"day-{day:02d}.parquet"
    file = land(root / "in", name, content(day, flipped=flipped))
    RemotePath(f"s3://bucket/{root.name}/in/{name}").put(file)


def test_retraining_under_urls_is_that_in_folders(tmp_path: Path, server: Faulty) -> None:
    pairs = []
    for days in ((1,), (2, 3)):
        for day in days:
            arrive(tmp_path, day, flipped=day == 2)
        server.reset(share=0.03, seed=days[0])
        pairs.append((retrain(remote(tmp_path)), retrain(settings(tmp_path))))
        server.reset()
    for remote_result, local_result in pairs:
        for entry in ("outcome", "version", "reason", "judged_on", "progressive", "drift", "metrics", "decision"):
            assert remote_result[entry] == local_result[entry], entry
        assert remote_result["shards"]["rejected"] == local_result["shards"]["rejected"]
    assert pairs[1][0]["shards"]["rejected"][0]["kinds"] == ["contradiction"]
    assert pairs[1][0]["report"].startswith(f"s3://bucket/{tmp_path.name}/registry/m/versions/")
    assert b"Retraining of m" in RemotePath(pairs[1][0]["report"]).read_bytes()
    models = [
        Registry(where).model("m").version().load()
        for where in (f"s3://bucket/{tmp_path.name}/registry", tmp_path / "registry")
    ]
    for key, array in models[1].predictor.arrays().items():
        np.testing.assert_array_equal(models[0].predictor.arrays()[key], array)
    assert retrain(remote(tmp_path))["outcome"] == "nothing new"


def test_a_registry_that_is_unreachable_during_a_run_loses_nothing(tmp_path: Path, server: Faulty) -> None:
    arrive(tmp_path, 1)
    retrain(remote(tmp_path))
    arrive(tmp_path, 2)
    model = Registry(f"s3://bucket/{tmp_path.name}/registry").model("m")
    before = model.head()
    for method, part in (("PUT", "/data/"), ("PUT", "/log/")):
        server.refused = lambda m, path, method=method, part=part: m == method and part in path  # type: ignore[misc]
        with pytest.raises(DataError, match="permission was refused"):
            retrain(remote(tmp_path))
        server.reset()
        assert model.head() == before
    assert retrain(remote(tmp_path))["version"] == 2
    names = [shard["name"] for one in model.ancestry(model.version()) for shard in one.lineage.shards]
    assert sorted(names) == ["day-01.parquet", "day-02.parquet"]
