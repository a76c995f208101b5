from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset, Shard
from okl.data.ingest.run import ingest
from okl.data.reading import RowRuns, bytes_of_runs, is_uncompressed, read_rows, read_runs
from okl.foundation.errors import DataError
from okl.foundation.types import Precision
from tests.data.sources import parquet, replaced, settings, table

GROUP_ROWS = 300
RUNS = RowRuns(*(np.array(column) for column in ([0, 0, 1, 2], [0, 250, 17, 90], [3, 50, 200, 10])))


def make_dataset(folder: Path, compression: str, target: str = "binary", **values: Any) -> Dataset:
    content, random = table(1500, 5), np.random.default_rng(4)
    if target == "classes":
        content = replaced(content, "y", random.choice(["low", "high", "other"], 1500))
    elif target == "regression":
        content = replaced(content, "y", random.normal(3.0, 7.0, 1500))
    options = {"rows_per_shard": 700, "rows_per_group": GROUP_ROWS, "compression": compression, "scale": "standard"}
    return ingest(parquet(folder, content), folder / "data", settings(**options | values)).dataset


def expected_bytes(data: Dataset, shard: Shard, runs: RowRuns, precision: Precision) -> tuple[bytes, bytes]:
    groups = [read_rows(data, shard, (group,), precision) for group in range(len(shard.row_groups))]
    slices = [
        (groups[group], slice(first, first + rows))
        for group, first, rows in zip(*(c.tolist() for c in runs), strict=True)
    ]
    inputs = np.concatenate([rows.inputs[part] for rows, part in slices])
    targets = np.concatenate([rows.targets[part] for rows, part in slices])
    assert len(np.unique(targets)) > 1
    return inputs.tobytes(), targets.tobytes()


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize(
    ("target", "precision", "values"),
    [("binary", "float64", {}), ("classes", "float32", {}), ("regression", "float32", {"scale_target": True})],
)
def test_runs_equal_the_rows_of_complete_groups(
    compression: str, target: str, precision: Precision, values: dict[str, Any], tmp_path: Path
) -> None:
    data = make_dataset(tmp_path, compression, target, **values)
    for shard in data.split("train")[:2]:
        assert is_uncompressed(data, shard) == (compression == "none")
        rows = read_runs(data, shard, RUNS, precision)
        assert rows.inputs.dtype == precision
        assert (rows.inputs.tobytes(), rows.targets.tobytes()) == expected_bytes(data, shard, RUNS, precision)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_bytes_of_runs_depend_on_their_row_groups_only(compression: str, tmp_path: Path) -> None:
    data = make_dataset(tmp_path, compression)
    shard = data.split("train")[0]
    run = RUNS.part(slice(2, 3))
    all_groups = RowRuns(np.arange(3), np.zeros(3, dtype=np.int64), np.array(shard.row_groups))
    assert bytes_of_runs(data, shard, run) == bytes_of_runs(data, shard, run._replace(rows=run.rows + 50))
    assert shard.size_bytes / 5 < bytes_of_runs(data, shard, run) < bytes_of_runs(data, shard, all_groups)
    assert bytes_of_runs(data, shard, all_groups) <= shard.size_bytes
    assert bytes_of_runs(data, shard, run.part(slice(0, 0))) == 0


def test_a_damaged_row_group_is_an_error_and_other_groups_are_read(tmp_path: Path) -> None:
    data = make_dataset(tmp_path, "none")
    shard = data.split("train")[0]
    expected = expected_bytes(data, shard, RUNS, "float32")
    position = pq.read_metadata(data.path(shard)).row_group(1).column(2).data_page_offset
    with open(data.path(shard), "r+b") as file:
        file.seek(position)
        file.write(b"\xff" * 20)
    with pytest.raises(DataError, match=r"row group 1.*Ingest the source again"):
        read_runs(data, shard, RUNS, "float32")
    first = RUNS.part(slice(0, 2))
    assert read_runs(data, shard, first, "float32").inputs.tobytes() == expected[0][: first.n_rows * 20]


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    data = make_dataset(tmp_path, "none")
    shard = data.split("train")[1]
    os.unlink(data.path(shard))
    assert not is_uncompressed(data, shard)
    with pytest.raises(DataError, match=rf"{shard.path} is missing or damaged"):
        read_runs(data, shard, RUNS.part(slice(0, 1)), "float32")
