from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset, Schema
from okl.data.execution import Rows
from okl.data.ingest.run import ingest
from okl.data.ingest.sources import SourceBatch
from okl.data.order import Order, Window, permutation_of, plan_windows
from okl.data.reading import (
    PartFile,
    load_window,
    open_part,
    read_rows,
    sample_rows,
    window_jobs,
)
from okl.foundation import locations
from okl.foundation.errors import DataError
from okl.foundation.locations import file_sha256
from okl.foundation.types import Precision
from okl.models.inputs import read_as
from okl.models.pieces import read_table, table_pieces
from tests.data.sources import inputs_of, parquet, replaced, settings, table


def make_dataset(folder: Path, content: pa.Table, **values: Any) -> Dataset:
    folder.mkdir(exist_ok=True)
    shape = {"rows_per_shard": 700, "rows_per_group": 300, "compression": "none"}
    return ingest(parquet(folder, content), folder / "data", settings(**shape | values)).dataset


def naive_window(data: Dataset, window: Window, precision: Precision) -> Rows:
    """Read a window row by row."""
    inputs, targets = np.empty((window.rows, data.schema.n_features), precision), np.empty(window.rows)
    permutation, start = permutation_of(window), 0
    into = np.arange(window.rows) if permutation is None else permutation
    shift, factor = data.schema.shift_and_factor
    for index, group, rows in window.pieces:
        stored = pq.ParquetFile(data.path(data.shards[index])).read_row_group(group).to_pydict()
        for r in range(rows):
            values = np.array([stored[name][r] for name in data.schema.features])
            inputs[into[start + r]] = (values - shift) * factor
            targets[into[start + r]] = naive_target(data.schema, stored[data.schema.target][r])
        start += rows
    return Rows(inputs, targets)


def naive_target(schema: Schema, stored: float) -> float:
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        return (stored - shift) * factor
    index = schema.stored_labels.index(stored)
    return 2.0 * index - 1.0 if schema.task == "binary" else float(index)


def check_same(data: Dataset, order: Order, precision: Precision) -> None:
    windows = plan_windows(data.shards, data.schema.n_features, order, (5,), 4 * data.schema.n_features * 1000)
    assert len(windows) > 1
    assert len(windows[0].pieces) > 1
    for window in windows:
        rows, expected = load_window(data, window, precision), naive_window(data, window, precision)
        assert rows.inputs.tobytes() == expected.inputs.tobytes()
        assert rows.targets.tobytes() == expected.targets.tobytes()
        assert len(set(rows.targets)) > 1


@pytest.mark.parametrize(
    ("order", "precision", "compression"),
    [
        ("stored", "float32", "none"),
        ("stored", "float64", "zstd"),
        ("shuffle", "float32", "zstd"),
        ("shuffle", "float64", "none"),
    ],
)
@pytest.mark.parametrize(("scale", "columns"), [("none", 1), ("standard", 19), ("minmax", 5)])
def test_windows_match_naive_bit_for_bit(
    tmp_path: Path, columns: int, scale: str, order: Order, precision: Precision, compression: str
) -> None:
    data = make_dataset(tmp_path / "a", table(3000, columns), scale=scale, compression=compression)
    check_same(data, order, precision)


@pytest.mark.parametrize(
    ("values", "order", "options"),
    [
        ([5, 9], "stored", {}),
        (["no", "yes"], "shuffle", {}),
        ([0, 1, 2], "shuffle", {}),
        ([9, 4, 5], "stored", {}),
        (["c", "a", "b"], "shuffle", {}),
        ([0.25, -3.5, 17.125], "stored", {"task": "regression", "scale": "standard", "scale_target": True}),
        ([0.25, -3.5, 17.125], "shuffle", {"task": "regression"}),
    ],
)
def test_targets_match_naive_bit_for_bit(
    tmp_path: Path, values: list[Any], order: Order, options: dict[str, Any]
) -> None:
    index = np.random.default_rng(0).integers(0, len(values), 3000)
    data = make_dataset(tmp_path / "a", replaced(table(3000), "y", [values[i] for i in index]), **options)
    check_same(data, order, "float32")


def test_keys_and_other_columns_are_ignored(tmp_path: Path) -> None:
    keys = {"key": [f"row {i}" for i in range(3000)], "more": np.arange(3000)}
    trained = make_dataset(tmp_path / "a", table(3000), scale="standard").schema
    content = table(3000, 7, seed=1, **keys).select(["key", "y", "g", "c", "a", "more", "b", "e", "f", "d"])
    data = read_as(make_dataset(tmp_path / "b", content, keys=["key", "more"]), trained)
    assert data.schema.features == ("a", "b", "c", "d", "e")
    check_same(data, "shuffle", "float32")


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
def test_shards_of_other_parquet_writers_give_the_same_rows(tmp_path: Path, options: dict[str, Any]) -> None:
    data = make_dataset(tmp_path / "a", table(3000))
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
    """Return the shards with the checksums of their current files."""
    return tuple(replace(shard, sha256=file_sha256(Path(data.path(shard)))) for shard in data.shards)


def test_a_page_header_damaged_after_the_file_was_opened_is_an_error(tmp_path: Path) -> None:
    data = make_dataset(tmp_path / "a", table(3000))
    read_rows(data, data.shards[1], (0,), "float32")
    path, group = data.path(data.shards[1]), 1
    position = pq.read_metadata(path).row_group(group).column(3).data_page_offset
    with open(path, "r+b") as stream:
        stream.seek(position)
        stream.write(b"\xff" * 20)
    with pytest.raises(DataError, match=r"part-00001\.parquet is missing or damaged at row group 1"):
        load_window(data, windows_of(data)[0], "float32")


def test_a_shard_cut_off_after_it_was_opened_is_an_error(tmp_path: Path) -> None:
    data = make_dataset(tmp_path / "a", table(3000))
    load_window(data, windows_of(data)[0], "float32")
    os.truncate(data.path(data.shards[2]), 3000)
    with pytest.raises(DataError, match=r"part-00002\.parquet is missing or damaged at row group 0"):
        load_window(data, windows_of(data)[0], "float32")


def test_files_are_closed_after_forty_others_were_opened(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for seed in range(3):
        data = make_dataset(tmp_path / str(seed), table(3000, seed=seed), rows_per_shard=150)
        for shard in data.shards:
            open_part(data, shard)
    assert len(os.listdir("/proc/self/fd")) <= before + 32


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_metadata_of_a_part_file_is_freed_without_garbage_collection(compression: str, tmp_path: Path) -> None:
    data = make_dataset(tmp_path / "a", table(3000), compression=compression)
    part = PartFile(Path(data.path(data.shards[0])))
    assert {kind for _, kind in part.sizes(1, set(data.schema.features))} == {
        {"none": "UNCOMPRESSED", "zstd": "ZSTD"}[compression]
    }
    metadata = weakref.ref(part.metadata)
    gc.disable()  # passes over many shards open thousands of files, but garbage collection rarely runs
    try:
        del part
        assert metadata() is None
    finally:
        gc.enable()


def reading_data(folder: Path, content: pa.Table, **values: Any) -> Dataset:
    shape = {"rows_per_shard": 300, "rows_per_group": 100}
    return ingest(parquet(folder, content), folder / "data", settings(**shape | values)).dataset


def scaled(schema: Schema, content: pa.Table, precision: Precision) -> np.ndarray[Any, Any]:
    shift, factor = schema.shift_and_factor
    return ((inputs_of(content).astype(np.float64) - shift) * factor).astype(precision)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("scale", ["none", "standard", "minmax"])
def test_windows_in_stored_order_are_the_scaled_rows_of_the_source(
    tmp_path: Path, scale: str, precision: Precision
) -> None:
    content = table(1000)
    data = reading_data(tmp_path, content, scale=scale)
    windows = plan_windows(data.shards, 5, "stored", (), window_bytes=250 * 20)
    assert len(windows) == 5
    read = [load_window(data, window, precision) for window in windows]
    np.testing.assert_array_equal(np.concatenate([r.inputs for r in read]), scaled(data.schema, content, precision))
    np.testing.assert_array_equal(np.concatenate([r.targets for r in read]), content.column("y").to_numpy())
    assert read[0].inputs.dtype == precision
    assert read[0].inputs.flags.c_contiguous


def test_shuffled_windows_have_every_row_once_with_its_target(tmp_path: Path) -> None:
    content = replaced(table(1000), "y", inputs_of(table(1000))[:, 2].astype(np.float64))
    data = reading_data(tmp_path, content, task="regression")
    windows = plan_windows(data.shards, 5, "shuffle", (7,), window_bytes=400 * 20)
    read = [load_window(data, window, "float32") for window in windows]
    inputs = np.concatenate([r.inputs for r in read])
    assert not (inputs == inputs_of(content)).all()
    np.testing.assert_array_equal(np.sort(inputs[:, 0]), np.sort(inputs_of(content)[:, 0]))
    np.testing.assert_array_equal(inputs[:, 2], np.concatenate([r.targets for r in read]))
    first = permutation_of(windows[0])
    assert first is not None
    rows = read_rows(data, data.shards[windows[0].pieces[0][0]], (windows[0].pieces[0][1],), "float32")
    np.testing.assert_array_equal(read[0].inputs[first[: len(rows.inputs)]], rows.inputs)


@pytest.mark.parametrize("order", ["stored", "shuffle"])
def test_jobs_of_a_window_may_run_in_parallel_and_in_any_order(tmp_path: Path, order: Order) -> None:
    data = reading_data(tmp_path, table(2000), compression="none")
    (window,) = plan_windows(data.shards, 5, order, (3,))
    expected = load_window(data, window, "float32")
    inputs, targets = np.full((2100, 5), -1, np.float32), np.full(2100, -1.0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: job(), window_jobs(data, window, inputs, targets)[::-1]))
    np.testing.assert_array_equal(inputs[:2000], expected.inputs)
    np.testing.assert_array_equal(targets[:2000], expected.targets)
    assert (inputs[2000:] == -1).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5, 9], [-1, 1]),
        ([False, True], [-1, 1]),
        (["yes", "no"], [1, -1]),
        ([0, 1, 2], [0, 1, 2]),
        ([9, 4, 5], [2, 0, 1]),
        (["c", "a", "b"], [2, 0, 1]),
    ],
)
def test_targets_in_memory_follow_the_order_of_labels(tmp_path: Path, values: list[Any], expected: list[int]) -> None:
    index = np.random.default_rng(0).integers(0, len(values), 500)
    data = reading_data(tmp_path, replaced(table(500), "y", [values[i] for i in index]))
    (window,) = plan_windows(data.shards, 5, "stored", ())
    np.testing.assert_array_equal(load_window(data, window, "float32").targets, np.array(expected)[index])


def test_regression_targets_are_scaled_like_inputs(tmp_path: Path) -> None:
    values = np.random.default_rng(0).uniform(-7, 30, 500)
    data = reading_data(tmp_path, replaced(table(500), "y", values), scale="minmax", scale_target=True)
    (window,) = plan_windows(data.shards, 5, "stored", ())
    rows = load_window(data, window, "float64")
    np.testing.assert_allclose(rows.targets, (values - values.min()) / np.ptp(values), rtol=1e-14)
    assert (rows.inputs.min(), rows.inputs.max()) == (0.0, 1.0)


def test_scaled_constant_columns_are_zero(tmp_path: Path) -> None:
    content = replaced(table(300), "c", np.full(300, 0.1, np.float32))
    data = reading_data(tmp_path, content, scale="standard")
    assert (read_rows(data, data.shards[0], (0, 2), "float64").inputs[:, 2] == 0).all()


def test_a_sample_has_distinct_rows_of_its_split_in_order(tmp_path: Path) -> None:
    content = replaced(table(6000), "a", np.arange(6000, dtype=np.float32))
    data = reading_data(tmp_path, content, holdout=0.2)
    test = set(sample_rows(data, "test", 10**6, 0, "float32").inputs[:, 0])
    sample = sample_rows(data, "train", 700, 1, "float32")
    row = sample.inputs[:, 0]
    assert len(row) == 700
    assert (np.diff(row) > 0).all()
    assert not test & set(row)
    assert len({int(r) // 600 for r in row}) > 6  # from all parts of the data set
    assert len(test) == data.rows("test")
    again = sample_rows(data, "train", 700, 1, "float32")
    np.testing.assert_array_equal(again.inputs, sample.inputs)
    np.testing.assert_array_equal(again.targets, sample.targets)
    assert not np.array_equal(sample_rows(data, "train", 700, 2, "float32").inputs, sample.inputs)


def test_a_sample_reads_at_most_sixteen_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = reading_data(tmp_path, table(9000))
    read: list[tuple[int, ...]] = []

    def counted(data: Dataset, shard: Any, groups: tuple[int, ...], precision: Precision) -> Any:
        read.append((shard.index, *groups))
        return read_rows(data, shard, groups, precision)

    monkeypatch.setattr("okl.data.reading.read_rows", counted)
    assert len(sample_rows(data, "train", 1000, 0, "float32").targets) == 1000
    assert len(set(read)) <= 16
    assert len({shard for shard, _ in read}) > 10
    assert len(sample_rows(data, "train", 5000, 0, "float32").targets) == 5000  # as many groups as needed


def test_a_damaged_or_missing_shard_is_named(tmp_path: Path) -> None:
    data = reading_data(tmp_path, table(900), compression="none")
    path = data.path(data.shards[1])
    content = bytearray(path.read_bytes())
    content[4:300] = b"\xff" * 296
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"part-00001\.parquet is damaged or has changed since ingest"):
        read_rows(data, data.shards[1], (0,), "float32")
    data.path(data.shards[2]).unlink()
    with pytest.raises(DataError, match=r"part-00002\.parquet is missing or damaged at row group 2"):
        read_rows(data, data.shards[2], (2,), "float32")
    with pytest.raises(DataError, match="row group 0 has 100 rows, expected 99"):
        read_rows(data, replace(data.shards[0], row_groups=(99,)), (0,), "float32")


def test_a_data_set_is_read_with_the_schema_of_a_model(tmp_path: Path) -> None:
    words = np.array(["b", "a", "c"])[np.random.default_rng(0).integers(0, 3, 500)]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    schema = reading_data(tmp_path / "one", replaced(table(500), "y", words), scale="standard").schema
    fewer = np.where(words == "b", "c", words)
    content = replaced(table(500, seed=1), "y", fewer).select(["y", "e", "d", "c", "b", "a"])
    data = read_as(reading_data(tmp_path / "two", content, task="multiclass", scale="minmax"), schema)
    (window,) = plan_windows(data.shards, 5, "stored", ())
    rows = load_window(data, window, "float64")
    np.testing.assert_array_equal(rows.inputs, scaled(schema, content, "float64"))
    np.testing.assert_array_equal(rows.targets, [schema.labels.index(word) for word in fewer])


def test_a_data_set_that_does_not_fit_a_model_is_an_error(tmp_path: Path) -> None:
    words = np.array(["a", "b", "c"])[np.arange(300) % 3]
    data = reading_data(tmp_path, replaced(table(300), "y", words))
    schema = data.schema
    with pytest.raises(DataError, match=r"the data set lacks input columns of the model: 'f'\."):
        read_as(data, replace(schema, features=("f", "a")))
    with pytest.raises(DataError, match=r"has the label 'c', which is not a label of training: 'a', 'b'"):
        read_as(data, replace(schema, labels=("a", "b")))
    with pytest.raises(DataError, match=r"the target 'y' \(multiclass\) differs from the model's target 'z'"):
        read_as(data, replace(schema, target="z"))


def test_a_shard_with_one_changed_byte_is_named_before_a_row_is_read(tmp_path: Path) -> None:
    data = reading_data(tmp_path, table(900), compression="none")
    path = Path(data.path(data.shards[1]))
    content, before = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert path.stat().st_size == before.st_size
    for read in (lambda: read_rows(data, data.shards[1], (0,), "float32"), lambda: list(table_rows(data))):
        with pytest.raises(DataError, match=r"part-00001\.parquet is damaged or has changed since ingest"):
            read()


def table_rows(data: Dataset) -> Iterator[SourceBatch]:
    for piece in table_pieces(data):
        yield from read_table(piece)


def test_a_shard_is_hashed_again_only_after_it_was_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = reading_data(tmp_path, table(900))
    hashed: list[str] = []

    def recorded_sha256(path: Path) -> str:
        hashed.append(path.name)
        return file_sha256(path)

    monkeypatch.setattr(locations, "file_sha256", recorded_sha256)
    path = Path(data.path(data.shards[0]))
    locations.verify_file(path, data.shards[0].sha256)
    assert hashed == []  # ingest hashed it while writing
    path.write_bytes(path.read_bytes())
    for _ in range(3):
        locations.verify_file(path, data.shards[0].sha256)
    moved = path.rename(tmp_path / "moved.parquet")
    locations.verify_file(moved, data.shards[0].sha256)
    assert hashed == [path.name]
