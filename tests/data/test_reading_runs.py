from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.data.dataset import Dataset, Shard
from okl.data.ingest.run import ingest
from okl.data.reading import RowRuns, bytes_of_runs, is_flat, open_part, read_rows, read_runs
from okl.foundation.errors import DataError
from okl.foundation.types import Precision
from tests.data.sources import parquet, replaced, settings, table

GROUP_ROWS = 300
RUNS = RowRuns(*(np.array(column) for column in ([0, 0, 1, 2], [0, 250, 17, 90], [3, 50, 200, 10])))


def made(folder: Path, compression: str, target: str = "binary", **values: Any) -> Dataset:
    content, random = table(1500, 5), np.random.default_rng(4)
    if target == "classes":
        content = replaced(content, "y", random.choice(["low", "high", "other"], 1500))
    elif target == "regression":
        content = replaced(content, "y", random.normal(3.0, 7.0, 1500))
    given = {"rows_per_shard": 700, "rows_per_group": GROUP_ROWS, "compression": compression, "scale": "standard"}
    return ingest(parquet(folder, content), folder / "data", settings(**given | values)).dataset


def expected(data: Dataset, shard: Shard, runs: RowRuns, precision: Precision) -> tuple[bytes, bytes]:
    whole = [read_rows(data, shard, (group,), precision) for group in range(len(shard.row_groups))]
    cuts = [
        (whole[group], slice(first, first + rows))
        for group, first, rows in zip(*(c.tolist() for c in runs), strict=True)
    ]
    inputs = np.concatenate([rows.inputs[cut] for rows, cut in cuts])
    targets = np.concatenate([rows.targets[cut] for rows, cut in cuts])
    assert len(np.unique(targets)) > 1
    return inputs.tobytes(), targets.tobytes()


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize(
    ("target", "precision", "values"),
    [("binary", "float64", {}), ("classes", "float32", {}), ("regression", "float32", {"scale_target": True})],
)
def test_runs_are_the_rows_that_whole_groups_hold(
    compression: str, target: str, precision: Precision, values: dict[str, Any], tmp_path: Path
) -> None:
    data = made(tmp_path, compression, target, **values)
    for shard in data.split("train")[:2]:
        assert is_flat(data, shard) == (compression == "none")
        rows = read_runs(data, shard, RUNS, precision)
        assert rows.inputs.dtype == precision
        assert (rows.inputs.tobytes(), rows.targets.tobytes()) == expected(data, shard, RUNS, precision)


def test_runs_of_flat_groups_cost_their_own_bytes(tmp_path: Path) -> None:
    flat = made(tmp_path, "none")
    shard = flat.split("train")[0]
    one = RUNS.part(slice(2, 3))
    values = 200 * (4 * 5 + 8)
    assert values < bytes_of_runs(flat, shard, one) < values + 5000 < shard.size_bytes
    more = one._replace(rows=one.rows + 50)
    assert bytes_of_runs(flat, shard, more) - bytes_of_runs(flat, shard, one) == 50 * (4 * 5 + 8)
    assert bytes_of_runs(flat, shard, one.part(slice(0, 0))) == 0


def test_a_group_that_is_read_by_arrow_counts_whole(tmp_path: Path) -> None:
    data = made(tmp_path, "zstd")
    shard = data.split("train")[0]
    one = RUNS.part(slice(2, 3))
    all_groups = RowRuns(np.arange(3), np.zeros(3, dtype=np.int64), np.array(shard.row_groups))
    assert bytes_of_runs(data, shard, one) == bytes_of_runs(data, shard, one._replace(rows=one.rows + 50))
    assert shard.size_bytes / 5 < bytes_of_runs(data, shard, one) < bytes_of_runs(data, shard, all_groups)
    assert bytes_of_runs(data, shard, all_groups) <= shard.size_bytes


def test_a_page_that_is_not_what_it_should_be_is_left_to_arrow(tmp_path: Path) -> None:
    data = made(tmp_path, "none")
    shard = data.split("train")[0]
    wanted = expected(data, shard, RUNS, "float32")
    layout = open_part(data, shard).flat_group(1, data.schema.features, data.schema.target)
    assert layout is not None
    with open(data.path(shard), "r+b") as file:
        file.seek(int(layout.starts[2]) - 4)  # within the header of the third column's page
        file.write(b"\x7f\x7f")
    # Arrow cannot read it either: nothing is made up
    with pytest.raises(DataError, match=r"row group 1.*Ingest the source again"):
        read_runs(data, shard, RUNS, "float32")
    kept = RUNS.part(slice(0, 2))
    assert read_runs(data, shard, kept, "float32").inputs.tobytes() == wanted[0][: kept.n_rows * 20]


def test_a_shard_that_is_gone_is_named(tmp_path: Path) -> None:
    data = made(tmp_path, "none")
    shard = data.split("train")[1]
    os.unlink(data.path(shard))
    assert not is_flat(data, shard)
    with pytest.raises(DataError, match=rf"{shard.path} is missing or damaged"):
        read_runs(data, shard, RUNS.part(slice(0, 1)), "float32")
