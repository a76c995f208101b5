from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.describe import describe, describe_text
from okl.data.ingest.run import ingest
from okl.data.manifest import is_dataset, open_dataset, read_manifest, verify
from okl.foundation.errors import DataError
from tests.data.sources import parquet, settings, table

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    options = settings(rows_per_shard=200, holdout=0.3, scale="standard")
    return ingest(parquet(tmp_path, table(900)), tmp_path / "data", options).dataset


def test_an_opened_data_set_equals_the_written_one(data: Dataset) -> None:
    assert is_dataset(data.folder)
    assert open_dataset(data.folder) == data
    manifest = read_manifest(data.folder)
    assert manifest.source["files"] == ["source.parquet"]
    assert manifest.source["rows"] == 900
    assert manifest.settings["holdout"] == 0.3


def test_a_manifest_has_a_line_for_each_column_and_shard(data: Dataset) -> None:
    lines = (data.folder / "manifest.json").read_text().splitlines()
    assert sum('"standard_deviation"' in line for line in lines if '"name"' in line) == 5
    assert sum('"sha256"' in line for line in lines if "part-" in line) == len(data.shards)
    assert max(map(len, lines)) < 500


CHANGES: dict[str, tuple[Change, str]] = {
    "future": (
        lambda m: m.update(format_version=99),
        r"has format 99, but this version of okl reads formats up to.*Upgrade okl",
    ),
    "no version": (lambda m: m.pop("format_version"), r"has no format_version"),
    "missing key": (lambda m: m.pop("labels"), r"the key 'labels' is missing"),
    "unknown key": (lambda m: m.update(colour=1), r"the key 'colour' is unknown"),
    "missing statistic": (lambda m: m["features"][2].pop("mean"), r"feature 2 is damaged: the key 'mean' is missing"),
    "unknown task": (lambda m: m.update(task="ranking"), r"task = 'ranking'"),
    "text for a number": (lambda m: m["shards"][0].update(size_bytes="big"), r"shard 0 is damaged: size_bytes = 'big'"),
    "a path elsewhere": (
        lambda m: m["shards"][1].update(path="../x.parquet"),
        r"shard 1: '\.\./x\.parquet' is not a plain",
    ),
    "not a mapping": (
        lambda m: m["shards"].__setitem__(0, 3),
        r"shard 0 is damaged: expected keys and values, got int",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_message_for_a_changed_manifest_names_the_fault(data: Dataset, name: str) -> None:
    change, message = CHANGES[name]
    path = data.folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=message):
        open_dataset(data.folder)


def test_a_missing_or_damaged_manifest_is_an_error(data: Dataset) -> None:
    with pytest.raises(DataError, match=r"nowhere does not exist; expected the folder of a data set"):
        open_dataset(data.folder / "nowhere")
    with pytest.raises(DataError, match=r"has no manifest\.json; .* Make one with okl ingest .+ FOLDER"):
        open_dataset(data.folder.parent)
    rows = Path(data.folder.parent) / "rows.csv"
    rows.touch()
    with pytest.raises(DataError, match=r"rows\.csv is a file; .* Make one with okl ingest .+/rows\.csv FOLDER"):
        open_dataset(rows)
    (data.folder / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest\.json is damaged: it is not JSON"):
        open_dataset(data.folder)


def test_a_truncated_or_missing_shard_is_named_when_the_data_set_is_opened(data: Dataset) -> None:
    path = data.path(data.shards[1])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"part-00001\.parquet is truncated: \d+ bytes, expected \d+"):
        open_dataset(data.folder)
    path.unlink()
    with pytest.raises(DataError, match=r"shard part-00001\.parquet is missing"):
        open_dataset(data.folder)


def test_verify_detects_one_changed_byte(data: Dataset) -> None:
    verify(data)
    path = data.path(data.shards[2])
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    open_dataset(data.folder)
    with pytest.raises(DataError, match=r"part-00002\.parquet is damaged .*: its SHA-256"):
        verify(data)


def test_a_description_counts_rows_and_classes(data: Dataset) -> None:
    content = describe(data)
    assert json.loads(json.dumps(content)) == content
    assert content["splits"]["train"]["rows"] + content["splits"]["test"]["rows"] == 900
    assert sum(entry["train_rows"] for entry in content["classes"]) == data.rows("train")
    assert list(content["features"]) == list("abcde")
    text = describe_text(data)
    assert f"{data.rows('train'):,} rows" in text
    assert "binary target 'y', 5 input columns, scaling standard" in text
    assert all(f"\n{name} " in text for name in "abcde")


def test_a_description_shows_a_regression_target_warnings_and_the_first_of_many_columns(tmp_path: Path) -> None:
    more: dict[str, Any] = {f"k{i}": np.zeros(60) for i in range(80)}
    content = table(60, **more).drop_columns(["y"]).append_column("y", [np.linspace(0, 1, 60)])
    text = describe_text(ingest(parquet(tmp_path, content), tmp_path / "data", settings()).dataset)
    assert "... and 26 more columns" in text
    assert "constant" in text
    assert "warning: 80 of 85 inputs never change" in text


def test_repr_of_a_data_set_is_one_line(data: Dataset) -> None:
    counts = f"{data.rows('train'):,} training and {data.rows('test'):,} test rows, {data.schema.n_features} inputs"
    target = f"target {data.schema.target!r} ({data.schema.task})"
    assert repr(data) == f"Dataset({str(data.folder)!r}: {counts}, {target})"


def test_the_sample_data_set_is_complete() -> None:
    data = open_dataset(Path(__file__).parents[2] / "data" / "covtype")
    verify(data)
    assert (data.rows("train") + data.rows("test"), data.schema.n_features, len(data.schema.labels)) == (581012, 54, 7)
    assert len(data.split("train")) == 8
