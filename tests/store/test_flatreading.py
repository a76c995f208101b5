from __future__ import annotations

import gc
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.errors import DataError
from okl.execution.protocol import Rows
from okl.store.arrowreading import read_group
from okl.store.dataset import Dataset
from okl.store.flatpages import flat_columns, flat_group, page_header
from okl.store.ingest import ingest
from okl.store.matching import read_as
from okl.store.order import Order, Window, plan_windows
from okl.store.partfiles import PartFile, open_part
from okl.store.reading import load_window, permutation_of, window_jobs
from okl.store.verified import file_sha256
from okl.types import Precision
from tests.store.sources import parquet, replaced, settings, table


def made(folder: Path, content: pa.Table, **values: Any) -> Dataset:
    folder.mkdir(exist_ok=True)
    shape = {"rows_per_shard": 700, "rows_per_group": 300, "compression": "none"}
    return ingest(parquet(folder, content), folder / "data", settings(**shape | values)).dataset


def flat_groups(data: Dataset) -> list[bool]:
    """Whether each row group is read without Arrow."""
    return [
        open_part(data, shard).flat_group(group, data.schema.features, data.schema.target) is not None
        for shard in data.shards
        for group in range(len(shard.row_groups))
    ]


def by_arrow(data: Dataset, window: Window, precision: Precision) -> Rows:
    inputs, targets = np.empty((window.rows, data.schema.n_features), precision), np.empty(window.rows)
    permutation, start = permutation_of(window), 0
    for index, group, rows in window.pieces:
        into = range(start, start + rows) if permutation is None else permutation[start : start + rows]
        read_group(data, data.shards[index], group, into, inputs, targets)
        start += rows
    return Rows(inputs, targets)


def check_same(data: Dataset, order: Order, precision: Precision) -> None:
    windows = plan_windows(data.shards, data.schema.n_features, order, (5,), 4 * data.schema.n_features * 1000)
    assert len(windows) > 1
    assert len(windows[0].pieces) > 1
    for window in windows:
        rows, expected = load_window(data, window, precision), by_arrow(data, window, precision)
        assert rows.inputs.tobytes() == expected.inputs.tobytes()
        assert rows.targets.tobytes() == expected.targets.tobytes()
        assert len(set(rows.targets)) > 1


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("order", ["stored", "shuffle"])
@pytest.mark.parametrize("scale", ["none", "standard", "minmax"])
@pytest.mark.parametrize("columns", [1, 5, 19])
def test_both_ways_of_reading_give_the_same_bits(
    tmp_path: Path, columns: int, scale: str, order: Order, precision: Precision
) -> None:
    data = made(tmp_path / "a", table(3000, columns), scale=scale)
    assert all(flat_groups(data))
    check_same(data, order, precision)


@pytest.mark.parametrize("order", ["stored", "shuffle"])
@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([5, 9], {}),
        (["no", "yes"], {}),
        ([0, 1, 2], {}),
        ([9, 4, 5], {}),
        (["c", "a", "b"], {}),
        ([0.25, -3.5, 17.125], {"task": "regression", "scale": "standard", "scale_target": True}),
    ],
)
def test_targets_are_the_same_both_ways(
    tmp_path: Path, values: list[Any], options: dict[str, Any], order: Order
) -> None:
    index = np.random.default_rng(0).integers(0, len(values), 3000)
    data = made(tmp_path / "a", replaced(table(3000), "y", [values[i] for i in index]), **options)
    assert all(flat_groups(data))
    check_same(data, order, "float32")


def test_a_row_group_of_many_rows_is_one_page(tmp_path: Path) -> None:
    data = made(tmp_path / "a", table(45_000, 2), rows_per_shard=45_000, rows_per_group=45_000)
    assert flat_groups(data) == [True]
    (window,) = plan_windows(data.shards, 2, "shuffle", (1,))
    assert load_window(data, window, "float32").inputs.tobytes() == by_arrow(data, window, "float32").inputs.tobytes()


def test_keys_and_other_columns_are_passed_over(tmp_path: Path) -> None:
    keys = {"key": [f"row {i}" for i in range(3000)], "more": np.arange(3000)}
    trained = made(tmp_path / "a", table(3000), scale="standard").schema
    content = table(3000, 7, seed=1, **keys).select(["key", "y", "g", "c", "a", "more", "b", "e", "f", "d"])
    data = read_as(made(tmp_path / "b", content, keys=["key", "more"]), trained)
    assert data.schema.features == ("a", "b", "c", "d", "e")
    assert all(flat_groups(data))
    check_same(data, "shuffle", "float32")


def test_compressed_row_groups_are_left_to_arrow(tmp_path: Path) -> None:
    data = made(tmp_path / "a", table(3000), compression="zstd")
    assert not any(flat_groups(data))
    check_same(data, "shuffle", "float32")


@pytest.mark.parametrize("rows", [1, 31, 32, 2047, 2048, 100_000, 600_000])
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_page_headers_are_those_that_arrow_writes(tmp_path: Path, rows: int, kind: str) -> None:
    schema = pa.schema([pa.field("a", {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}[kind], nullable=False)])
    path = tmp_path / "a.parquet"
    options = {"use_dictionary": False, "write_statistics": False, "max_rows_per_page": rows}
    content = pa.table([np.arange(rows)], names=["a"]).cast(schema)
    pq.write_table(content, path, compression="none", data_page_size=2**25, row_group_size=rows, **options)
    header = page_header(rows, kind).tobytes()
    assert path.read_bytes()[4 : 4 + len(header)] == header
    assert flat_group(pq.read_metadata(path), 0, [(0, kind)]) is not None


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": True},
        {"write_statistics": True},
        {"data_page_version": "2.0"},
        {"write_page_checksum": True},
        {"max_rows_per_page": 100},
        {"compression": "snappy"},
        {"use_byte_stream_split": ["a", "b"]},
    ],
)
def test_what_others_write_is_read_all_the_same(tmp_path: Path, options: dict[str, Any]) -> None:
    data = made(tmp_path / "a", table(3000))
    expected = [load_window(data, window, "float32") for window in windows_of(data)]
    for shard in data.shards:
        content = pq.read_table(data.path(shard))
        plain = {"use_dictionary": False, "write_statistics": False, "compression": "none", "row_group_size": 300}
        pq.write_table(content, data.path(shard), **plain | options)
    other = Dataset(data.folder.parent / "data", data.schema, reread(data), data.sha256)
    for window, rows in zip(windows_of(data), expected, strict=True):
        again = load_window(other, window, "float32")
        assert again.inputs.tobytes() == rows.inputs.tobytes()
        assert again.targets.tobytes() == rows.targets.tobytes()


def windows_of(data: Dataset) -> tuple[Window, ...]:
    return plan_windows(data.shards, data.schema.n_features, "stored", ())


def reread(data: Dataset) -> tuple[Any, ...]:
    """The shards as they are now, under their new checksums."""
    return tuple(replace(shard, sha256=file_sha256(Path(data.path(shard)))) for shard in data.shards)


@pytest.mark.parametrize("nullable", [False, True])
def test_columns_that_may_miss_values_or_differ_in_type_are_not_flat(tmp_path: Path, nullable: bool) -> None:
    fields = [pa.field("a", pa.float32(), nullable=nullable), pa.field("y", pa.float64(), nullable=False)]
    path = tmp_path / "a.parquet"
    content = pa.table([np.ones(9, np.float32), np.ones(9)], schema=pa.schema(fields))
    pq.write_table(content, path, use_dictionary=False, write_statistics=False, compression="none")
    metadata, schema = pq.read_metadata(path), pq.read_schema(path)
    assert flat_columns(metadata, schema, ["a", "y"], ["FLOAT", "DOUBLE"]) == (
        None if nullable else ((0, "FLOAT"), (1, "DOUBLE"))
    )
    assert flat_columns(metadata, schema, ["y"], ["FLOAT"]) is None
    assert flat_columns(metadata, schema, ["b"], ["FLOAT"]) is None


def test_a_header_that_changed_after_it_was_looked_at_is_an_error(tmp_path: Path) -> None:
    data = made(tmp_path / "a", table(3000))
    assert all(flat_groups(data))
    path, group = data.path(data.shards[1]), 1
    place = pq.read_metadata(path).row_group(group).column(3).data_page_offset
    with open(path, "r+b") as stream:
        stream.seek(place)
        stream.write(b"\xff" * 20)
    with pytest.raises(DataError, match=r"part-00001\.parquet is missing or damaged at row group 1"):
        load_window(data, windows_of(data)[0], "float32")


def test_a_shard_cut_off_after_it_was_opened_is_an_error(tmp_path: Path) -> None:
    data = made(tmp_path / "a", table(3000))
    load_window(data, windows_of(data)[0], "float32")
    os.truncate(data.path(data.shards[2]), 3000)
    with pytest.raises(DataError, match=r"part-00002\.parquet is missing or damaged at row group 0"):
        load_window(data, windows_of(data)[0], "float32")


def test_jobs_run_by_any_number_of_threads_fill_the_same_window(tmp_path: Path) -> None:
    data = made(tmp_path / "a", table(3000, 9))
    (window,) = plan_windows(data.shards, 9, "shuffle", (2,))
    expected = by_arrow(data, window, "float32")
    for threads in (1, 2, 4):
        inputs, targets = np.zeros((3000, 9), np.float32), np.zeros(3000)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda job: job(), window_jobs(data, window, inputs, targets)))
        assert inputs.tobytes() == expected.inputs.tobytes()
        assert targets.tobytes() == expected.targets.tobytes()


def test_files_are_closed_once_forty_others_were_opened(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for seed in range(3):
        data = made(tmp_path / str(seed), table(3000, seed=seed), rows_per_shard=150)
        assert all(flat_groups(data))
    assert len(os.listdir("/proc/self/fd")) <= before + 32


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_is_known_of_a_part_file_is_gone_with_it(compression: str, tmp_path: Path) -> None:
    data = made(tmp_path / "a", table(3000), compression=compression)
    part = PartFile(Path(data.path(data.shards[0])))
    flat = part.flat_group(1, data.schema.features, data.schema.target)
    assert (flat is not None) == (compression == "none")
    metadata = weakref.ref(part.metadata)
    gc.disable()  # passes over many shards open thousands of files, and collect next to nothing
    try:
        del part
        assert metadata() is None
    finally:
        gc.enable()
