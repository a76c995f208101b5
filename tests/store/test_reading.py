from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from okl.errors import DataError
from okl.store import verified
from okl.store.dataset import Dataset, Schema
from okl.store.ingest import ingest
from okl.store.matching import read_as
from okl.store.order import Order, plan_windows
from okl.store.piecereading import SourceBatch
from okl.store.pieces import read_table, table_pieces
from okl.store.reading import load_window, permutation_of, read_rows, read_window, sample_rows, window_jobs
from okl.store.verified import file_sha256
from okl.types import Precision
from tests.store.sources import inputs_of, parquet, replaced, settings, table


def made(folder: Path, content: pa.Table, **values: Any) -> Dataset:
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
    data = made(tmp_path, content, scale=scale)
    windows = plan_windows(data.shards, 5, "stored", (), window_bytes=250 * 20)
    assert len(windows) == 5
    read = [load_window(data, window, precision) for window in windows]
    np.testing.assert_array_equal(np.concatenate([r.inputs for r in read]), scaled(data.schema, content, precision))
    np.testing.assert_array_equal(np.concatenate([r.targets for r in read]), content.column("y").to_numpy())
    assert read[0].inputs.dtype == precision
    assert read[0].inputs.flags.c_contiguous


def test_shuffled_windows_hold_every_row_once_with_its_target(tmp_path: Path) -> None:
    content = replaced(table(1000), "y", inputs_of(table(1000))[:, 2].astype(np.float64))
    data = made(tmp_path, content, task="regression")
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
    data = made(tmp_path, table(2000), compression="none")
    (window,) = plan_windows(data.shards, 5, order, (3,))
    expected = load_window(data, window, "float32")
    inputs, targets = np.full((2100, 5), -1, np.float32), np.full(2100, -1.0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: job(), window_jobs(data, window, inputs, targets)[::-1]))
    np.testing.assert_array_equal(inputs[:2000], expected.inputs)
    np.testing.assert_array_equal(targets[:2000], expected.targets)
    assert (inputs[2000:] == -1).all()
    again = read_window(data, window, inputs, targets)
    assert again.inputs.base is inputs


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
    data = made(tmp_path, replaced(table(500), "y", [values[i] for i in index]))
    (window,) = plan_windows(data.shards, 5, "stored", ())
    np.testing.assert_array_equal(load_window(data, window, "float32").targets, np.array(expected)[index])


def test_regression_targets_are_scaled_as_the_inputs_are(tmp_path: Path) -> None:
    values = np.random.default_rng(0).uniform(-7, 30, 500)
    data = made(tmp_path, replaced(table(500), "y", values), scale="minmax", scale_target=True)
    (window,) = plan_windows(data.shards, 5, "stored", ())
    rows = load_window(data, window, "float64")
    np.testing.assert_allclose(rows.targets, (values - values.min()) / np.ptp(values), rtol=1e-14)
    assert (rows.inputs.min(), rows.inputs.max()) == (0.0, 1.0)


def test_constant_columns_read_as_zero_once_scaled(tmp_path: Path) -> None:
    content = replaced(table(300), "c", np.full(300, 0.1, np.float32))
    data = made(tmp_path, content, scale="standard")
    assert (read_rows(data, data.shards[0], (0, 2), "float64").inputs[:, 2] == 0).all()


def test_a_sample_holds_distinct_rows_of_its_split_in_their_order(tmp_path: Path) -> None:
    content = replaced(table(6000), "a", np.arange(6000, dtype=np.float32))
    data = made(tmp_path, content, holdout=0.2)
    test = set(sample_rows(data, "test", 10**6, 0, "float32").inputs[:, 0])
    sample = sample_rows(data, "train", 700, 1, "float32")
    row = sample.inputs[:, 0]
    assert len(row) == 700
    assert (np.diff(row) > 0).all()
    assert not test & set(row)
    assert len({int(r) // 600 for r in row}) > 6  # from all over the data set
    assert len(test) == data.rows("test")
    again = sample_rows(data, "train", 700, 1, "float32")
    np.testing.assert_array_equal(again.inputs, sample.inputs)
    np.testing.assert_array_equal(again.targets, sample.targets)
    assert not np.array_equal(sample_rows(data, "train", 700, 2, "float32").inputs, sample.inputs)


def test_a_sample_reads_at_most_sixteen_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made(tmp_path, table(9000))
    read: list[tuple[int, ...]] = []

    def counted(data: Dataset, shard: Any, groups: tuple[int, ...], precision: Precision) -> Any:
        read.append((shard.index, *groups))
        return read_rows(data, shard, groups, precision)

    monkeypatch.setattr("okl.store.reading.read_rows", counted)
    assert len(sample_rows(data, "train", 1000, 0, "float32").targets) == 1000
    assert len(set(read)) <= 16
    assert len({shard for shard, _ in read}) > 10
    assert len(sample_rows(data, "train", 5000, 0, "float32").targets) == 5000  # as many groups as that takes


def test_a_damaged_or_missing_shard_is_named(tmp_path: Path) -> None:
    data = made(tmp_path, table(900), compression="none")
    path = data.path(data.shards[1])
    content = bytearray(path.read_bytes())
    content[4:300] = b"\xff" * 296
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"part-00001\.parquet is damaged, or has changed since it was ingested"):
        read_rows(data, data.shards[1], (0,), "float32")
    data.path(data.shards[2]).unlink()
    with pytest.raises(DataError, match=r"part-00002\.parquet is missing or damaged at row group 2"):
        read_rows(data, data.shards[2], (2,), "float32")
    with pytest.raises(DataError, match="row group 0 has 100 rows, expected 99"):
        read_rows(data, replace(data.shards[0], row_groups=(99,)), (0,), "float32")


def test_a_data_set_reads_as_a_model_saw_its_own(tmp_path: Path) -> None:
    words = np.array(["b", "a", "c"])[np.random.default_rng(0).integers(0, 3, 500)]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    schema = made(tmp_path / "one", replaced(table(500), "y", words), scale="standard").schema
    fewer = np.where(words == "b", "c", words)
    content = replaced(table(500, seed=1), "y", fewer).select(["y", "e", "d", "c", "b", "a"])
    data = read_as(made(tmp_path / "two", content, task="multiclass", scale="minmax"), schema)
    (window,) = plan_windows(data.shards, 5, "stored", ())
    rows = load_window(data, window, "float64")
    np.testing.assert_array_equal(rows.inputs, scaled(schema, content, "float64"))
    np.testing.assert_array_equal(rows.targets, [schema.labels.index(word) for word in fewer])


def test_a_data_set_that_does_not_fit_a_model_is_an_error(tmp_path: Path) -> None:
    words = np.array(["a", "b", "c"])[np.arange(300) % 3]
    data = made(tmp_path, replaced(table(300), "y", words))
    schema = data.schema
    with pytest.raises(DataError, match=r"needs input columns that the data set has not: 'f'\."):
        read_as(data, replace(schema, features=("f", "a")))
    with pytest.raises(DataError, match=r"has the label 'c', never seen in training, which had 'a', 'b'"):
        read_as(data, replace(schema, labels=("a", "b")))
    with pytest.raises(DataError, match=r"its target 'y' \(multiclass\) is not the model's, 'z'"):
        read_as(data, replace(schema, target="z"))


def test_a_shard_with_one_changed_byte_is_an_error_that_names_it_before_a_row_is_read(tmp_path: Path) -> None:
    data = made(tmp_path, table(900), compression="none")
    path = Path(data.path(data.shards[1]))
    content, before = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert path.stat().st_size == before.st_size
    for read in (lambda: read_rows(data, data.shards[1], (0,), "float32"), lambda: list(table_rows(data))):
        with pytest.raises(DataError, match=r"part-00001\.parquet is damaged, or has changed since it was ingested"):
            read()


def table_rows(data: Dataset) -> Iterator[SourceBatch]:
    for piece in table_pieces(data):
        yield from read_table(piece)


def test_a_shard_is_hashed_once_and_again_only_when_it_was_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = made(tmp_path, table(900))
    hashed: list[str] = []

    def told(path: Path) -> str:
        hashed.append(path.name)
        return file_sha256(path)

    monkeypatch.setattr(verified, "file_sha256", told)
    path = Path(data.path(data.shards[0]))
    verified.verify_file(path, data.shards[0].sha256)
    assert hashed == []  # who wrote it has hashed it
    path.write_bytes(path.read_bytes())
    for _ in range(3):
        verified.verify_file(path, data.shards[0].sha256)
    moved = path.rename(tmp_path / "moved.parquet")
    verified.verify_file(moved, data.shards[0].sha256)
    assert hashed == [path.name]
