from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.data.ingest.targets import hash_share
from okl.data.manifest import open_dataset, verify
from okl.foundation.errors import ConfigError, DataError
from tests.data.sources import inputs_of, parquet, replaced, settings, table


def make_dataset(folder: Path, content: pa.Table, **values: Any) -> Dataset:
    return ingest(parquet(folder, content), folder / "data", settings(**values)).dataset


def stored_rows(data: Dataset, split: str = "train") -> pa.Table:
    return pa.concat_tables([pq.read_table(data.path(shard)) for shard in data.shards if shard.split == split])


def test_stored_rows_are_the_rows_of_the_source_in_order(tmp_path: Path) -> None:
    content = table(1000)
    data = make_dataset(tmp_path, content, rows_per_shard=300, rows_per_group=128)
    assert [shard.row_groups for shard in data.shards] == [(128, 128, 44)] * 3 + [(100,)]
    np.testing.assert_array_equal(inputs_of(stored_rows(data)), inputs_of(content))
    np.testing.assert_array_equal(stored_rows(data).column("y").to_numpy(), content.column("y").to_numpy())
    verify(data)


def test_part_files_are_plain_float32_without_nulls(tmp_path: Path) -> None:
    data = make_dataset(tmp_path, table(200, id=np.arange(200)), compression="none", keys=("id",))
    schema = pq.read_schema(data.path(data.shards[0]))
    assert [str(kind) for kind in schema.types] == ["float"] * 5 + ["double", "int64"]
    assert [schema.field(name).nullable for name in ("a", "y", "id")] == [False, False, True]
    column = pq.ParquetFile(data.path(data.shards[0])).metadata.row_group(0).column(0)
    assert (set(column.encodings), column.compression) == (
        {"PLAIN", "RLE"},
        "UNCOMPRESSED",
    )  # RLE: for levels, if there are any


def test_statistics_use_training_rows_only(tmp_path: Path) -> None:
    content = table(3000)
    data = make_dataset(tmp_path, content, holdout=0.3, rows_per_shard=500, rows_per_group=100)
    train = inputs_of(stored_rows(data)).astype(np.float64)
    assert 0.25 < data.rows("test") / 3000 < 0.35
    assert data.rows("train") + data.rows("test") == 3000
    for column, statistics in zip(train.T, data.schema.feature_statistics, strict=True):
        assert statistics.count == len(train)
        assert statistics.mean == pytest.approx(column.mean(), rel=1e-12)
        assert statistics.standard_deviation == pytest.approx(column.std(), rel=1e-12)
        assert (statistics.minimum, statistics.maximum) == (column.min(), column.max())
    assert sum(data.schema.class_counts) == len(train)


def test_each_shard_has_one_split_and_train_comes_first(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    word = np.where(random.random(1000) < 0.4, "test", "train")
    content = table(1000, split=pa.array(word).dictionary_encode(), id=np.arange(1000))
    data = make_dataset(tmp_path, content, rows_per_shard=200, keys=("id",))
    assert [shard.split for shard in data.shards] == ["train"] * 4 + ["test"] * 2
    assert [shard.path for shard in data.shards] == [f"part-{i:05d}.parquet" for i in range(len(data.shards))]
    assert "split" not in data.schema.features
    for name in ("train", "test"):
        np.testing.assert_array_equal(stored_rows(data, name).column("id").to_numpy(), np.flatnonzero(word == name))


@pytest.mark.parametrize("flag", [np.array([0, 1], np.int8), np.array([False, True]), np.array([0.0, 1.0])])
def test_a_holdout_column_picks_the_test_rows(tmp_path: Path, flag: np.ndarray) -> None:
    is_test = np.random.default_rng(1).integers(0, 2, 100)
    data = make_dataset(tmp_path, table(100, held=flag[is_test]), holdout="held")
    assert data.rows("test") == is_test.sum()
    assert "held" not in data.schema.features


@pytest.mark.parametrize(("holdout", "first"), [("last", 800), ("last:0.1", 900)])
def test_the_last_rows_of_all_files_are_test_rows(tmp_path: Path, holdout: str, first: int) -> None:
    content = table(1000, id=np.arange(1000))
    one_file = make_dataset(tmp_path, content, holdout=holdout, keys=("id",))
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, (begin, end) in enumerate(((0, 333), (333, 950), (950, 1000))):
        pacsv.write_csv(content.slice(begin, end - begin), parts / f"{number}.csv")
    for data in (one_file, ingest(parts, tmp_path / "other", settings(holdout=holdout, keys=("id",))).dataset):
        assert stored_rows(data, "test").column("id").to_pylist() == list(range(first, 1000))
    with pytest.raises(ConfigError, match="both choose the test rows"):
        make_dataset(
            tmp_path, content.append_column("split", pa.array(["train"] * 1000)), holdout=holdout, keys=("id",)
        )


@pytest.mark.parametrize("order", ["sorted", "shuffled", "newest first"])
def test_last_rows_that_are_not_the_newest_are_reported(tmp_path: Path, order: str) -> None:
    days = np.datetime64("2024-01-01") + np.arange(1000).astype("timedelta64[D]")
    born = np.random.default_rng(1).permutation(days)
    days = {"sorted": days, "shuffled": np.random.default_rng(2).permutation(days), "newest first": days[::-1]}[order]
    data = make_dataset(tmp_path, table(1000, born=born, day=days), holdout="last")
    found = [warning for warning in data.warnings if "are not the newest by" in warning]
    assert bool(found) == (order != "sorted")
    if order == "shuffled":
        assert re.search(r"by '(day|born)': (4[5-9]|5[0-5])% of the training rows are later", found[0])


def test_a_holdout_share_does_not_depend_on_files_or_batches(tmp_path: Path) -> None:
    content = table(1000, id=np.arange(1000))
    one_file = make_dataset(tmp_path, content, holdout=0.2, keys=("id",))
    parts = tmp_path / "parts"
    parts.mkdir()
    parquet(parts, content.slice(0, 333), "1.parquet", row_group_size=50)
    parquet(parts, content.slice(333), "2.parquet")
    two_files = ingest(parts, tmp_path / "other", settings(holdout="0.2", keys=("id",))).dataset
    assert stored_rows(two_files, "test").equals(stored_rows(one_file, "test"))
    other_seed = ingest(parts, tmp_path / "third", settings(holdout=0.2, seed=1, keys=("id",))).dataset
    assert not stored_rows(other_seed, "test").equals(stored_rows(one_file, "test"))


def test_hashed_shares_are_uniform() -> None:
    shares = hash_share(10**9, 100_000, 5)
    counts, _ = np.histogram(shares, 20, (0.0, 1.0))
    assert abs(counts - 5000).max() < 5 * np.sqrt(5000)
    np.testing.assert_array_equal(hash_share(10**9 + 70, 10, 5), shares[70:80])


@pytest.mark.parametrize(
    ("values", "task", "labels"),
    [
        (["no", "yes"], "binary", ("no", "yes")),
        (["10", "9", "a"], "multiclass", ("10", "9", "a")),
        ([True, False], "binary", (False, True)),
        ([2.0, 1.0], "binary", (1, 2)),
        ([7, 3, 10], "multiclass", (3, 7, 10)),
        (list(range(60)), "regression", ()),
        (list(range(12)), "multiclass", tuple(range(12))),
        ([0, 1, 2] * 50 + list(range(12)), "regression", ()),  # counts: the largest values are rare
        ([0.5, 1.5], "regression", ()),
    ],
)
def test_task_and_labels_are_inferred_from_the_target(
    tmp_path: Path, values: list[Any], task: str, labels: tuple[Any, ...]
) -> None:
    index = np.random.default_rng(0).integers(0, len(values), 500)
    index[: len(values)] = np.arange(len(values))
    schema = make_dataset(tmp_path, replaced(table(500), "y", [values[i] for i in index])).schema
    assert (schema.task, schema.labels) == (task, labels)
    assert [type(label) for label in schema.labels] == [type(label) for label in labels]
    expected = [sum(values[i] == label for i in index) for label in labels]
    assert list(schema.class_counts) == expected
    assert (schema.target_statistics is not None) == (task == "regression")


def test_text_labels_are_restored_from_their_codes(tmp_path: Path) -> None:
    words = np.array(["pine", "ash", "oak"])[np.random.default_rng(0).integers(0, 3, 200)]
    data = make_dataset(tmp_path, replaced(table(200), "y", words))
    names = dict(zip(data.schema.stored_labels, data.schema.labels, strict=True))
    assert [names[code] for code in stored_rows(data).column("y").to_pylist()] == words.tolist()


def test_the_positive_class_comes_second(tmp_path: Path) -> None:
    names = np.where(table(100).column("y").to_numpy() > 0, "late", "early")
    data = make_dataset(tmp_path, replaced(table(100), "y", names), positive="early")
    assert data.schema.labels == ("late", "early")
    positive = data.schema.stored_labels[1]
    np.testing.assert_array_equal(stored_rows(data).column("y").to_numpy() == positive, names == "early")
    assert sum(data.schema.class_counts) == 100
    assert data.schema.class_counts[1] == (names == "early").sum()


@pytest.mark.parametrize(
    ("words", "share", "labels"),
    [
        (("fraud", "ok"), 0.05, ("ok", "fraud")),
        (("fraud", "ok"), 0.4, ("fraud", "ok")),
        (("no", "yes"), 0.05, ("no", "yes")),
        (("late", "on time"), 0.95, ("late", "on time")),
    ],
)
def test_a_rare_label_comes_second_unless_it_means_no(
    tmp_path: Path, words: tuple[str, str], share: float, labels: tuple[str, str]
) -> None:
    names = np.where(np.arange(200) < share * 200, *words)
    data = make_dataset(tmp_path, replaced(table(200), "y", names))
    assert data.schema.labels == labels
    assert data.schema.class_counts[labels.index(words[0])] == int(share * 200)


def test_the_class_of_a_single_row_is_named(tmp_path: Path) -> None:
    names = np.array(["no", "yes"] * 50 + ["maybe"])
    (warning,) = make_dataset(tmp_path, replaced(table(101), "y", names)).warnings
    assert warning.startswith("Of target 'y', 'maybe' is the class of a single training row")


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ("binary", r"positive must be one of two classes, but is '2', and target 'y' has '-1', '1'\."),
        ("regression", "positive is for two classes, but target 'y' is a regression"),
    ],
)
def test_a_positive_class_must_be_one_of_two(tmp_path: Path, task: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make_dataset(tmp_path, table(100), task=task, positive="2")


def test_same_source_again_changes_nothing(tmp_path: Path) -> None:
    source = parquet(tmp_path, table(300))
    first = ingest(source, tmp_path / "data", settings())
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()}
    again = ingest(source, tmp_path / "data", settings())
    assert (first.changed, again.changed) == (True, False)
    assert again.dataset == first.dataset
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()} == times


def test_same_source_gives_the_same_manifest_anywhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    values = {"holdout": 0.2, "rows_per_shard": 100, "scale": "standard"}
    assert (
        make_dataset(tmp_path / "one", table(300), **values).sha256
        == make_dataset(tmp_path / "two", table(300), **values).sha256
    )


def test_changed_source_or_settings_need_overwrite(tmp_path: Path) -> None:
    make_dataset(tmp_path, table(300))
    with pytest.raises(DataError, match=r"other settings \(scale\).*--overwrite"):
        make_dataset(tmp_path, table(300), scale="minmax")
    source = parquet(tmp_path, table(301))
    with pytest.raises(DataError, match=r"was made from other data .*--overwrite"):
        ingest(source, tmp_path / "data", settings())
    assert open_dataset(tmp_path / "data").rows("train") == 300
    assert ingest(source, tmp_path / "data", settings(), overwrite=True).dataset.rows("train") == 301
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "source.parquet"]


def test_missing_values_are_dropped_or_zero_according_to_the_setting(tmp_path: Path) -> None:
    content = table(100)
    values = content.column("b").to_pylist()
    values[7], values[30] = None, float("nan")
    content = replaced(content, "b", values)
    dropped = make_dataset(tmp_path, content, missing="drop")
    assert dropped.rows("train") == 98
    assert "2 of 100 rows were dropped" in " ".join(dropped.warnings)
    zero = ingest(tmp_path / "source.parquet", tmp_path / "zero", settings(missing="zero")).dataset
    assert stored_rows(zero).column("b").to_numpy()[[7, 30]].tolist() == [0, 0]
    np.testing.assert_array_equal(
        inputs_of(stored_rows(dropped)), np.delete(inputs_of(stored_rows(zero)), [7, 30], axis=0)
    )


def test_values_that_differ_by_less_than_float32_resolves_are_a_warning(tmp_path: Path) -> None:
    steps = np.arange(100, dtype=np.float64)
    columns: dict[str, Any] = {
        "ms": 1.764e12 + 700 * steps,
        "seconds": 1.764e9 + 36 * steps,
        "equal": np.full(100, 1.764e12),
    }
    data = make_dataset(tmp_path, table(100, **columns, year=2000 + steps % 25, money=1e9 * (1 + steps)))
    assert [warning.partition(" are near ")[0] for warning in data.warnings] == [
        "Values of ms", "Values of seconds", "Values of equal",
    ]  # fmt: skip
    assert all("write times as dates" in warning for warning in data.warnings)
    assert re.search(r"differ by 3\.\d+e\+03 at most", data.warnings[1])
    assert "differ by less than 2.1e+05, if at all" in data.warnings[2], "unknown in float32"


def test_constant_columns_are_one_warning_and_scale_to_zero(tmp_path: Path) -> None:
    constant: dict[str, Any] = {f"k{i}": np.full(100, i, np.float32) for i in range(7)}
    data = make_dataset(tmp_path, table(100, **constant), scale="standard")
    (warning,) = data.warnings
    assert "7 of 12 inputs never change" in warning
    assert "k0, k1, k2, k3, k4, ..." in warning
    _, factor = data.schema.shift_and_factor
    assert (factor == 0).sum() == 7
    assert open_dataset(data.folder).warnings == data.warnings


def test_copies_of_rows_are_a_warning_if_an_input_is_continuous(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    values, labels = random.normal(size=200), np.where(np.arange(200) % 2 > 0, "a", "b")
    with_copies = np.r_[np.arange(200), np.arange(0, 200, 4)]
    cases = {
        "copies": (values[with_copies], labels[with_copies]),
        "other targets": (values[with_copies], np.where(np.arange(250) < 200, labels[with_copies], "c")),
        "categories": (np.rint(values[with_copies]), labels[with_copies]),
        "a number for each store": (np.arange(250) % 40, labels[np.arange(250) % 40]),
        "no copies": (values, labels),
    }
    warnings = {}
    for name, (x, y) in cases.items():
        (tmp_path / name).mkdir()
        data = make_dataset(tmp_path / name, pa.table({"x": x, "n": np.zeros(len(x)), "y": y}))
        warnings[name] = [warning for warning in data.warnings if "copies" in warning]
    expected = "50 of 250 rows are copies of others, in all inputs and the target."
    assert [warning[: len(expected)] for warning in warnings.pop("copies")] == [expected]
    assert not any(warnings.values()), warnings


def test_similar_rows_of_a_key_on_both_sides_of_a_random_split_are_a_warning(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    customer, n = np.repeat(np.arange(100), 8), 800
    inputs, effect = random.normal(size=(2, n)), random.normal(size=100)[customer]
    held = (customer % 5 == 0).astype(float)
    cases: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "classes": (customer, np.where(effect > 0, "a", "b"), {"holdout": 0.2}),
        "text, numbers": ([f"c{number}" for number in customer], effect + 0.1 * inputs[0], {"holdout": 0.2}),
        "given split": (customer, np.where(effect > 0, "a", "b"), {"holdout": "held"}),
        "no split": (customer, np.where(effect > 0, "a", "b"), {}),
        "unlike": (customer, np.where(inputs[0] > 0, "a", "b"), {"holdout": 0.2}),
        "one row each": (np.arange(n), np.where(effect > 0, "a", "b"), {"holdout": 0.2}),
    }
    warnings = {}
    for name, (keys, targets, options) in cases.items():
        (tmp_path / name).mkdir()
        content = {"x": inputs[0], "z": inputs[1], "customer": keys, "y": targets}
        content |= {"held": held} if options.get("holdout") == "held" else {}
        data = make_dataset(tmp_path / name, pa.table(content), keys=("customer",), **options)
        warnings[name] = [warning for warning in data.warnings if "similar targets" in warning]
    for name in ("classes", "text, numbers"):
        (warning,) = warnings.pop(name)
        assert warning.startswith("Rows with the same 'customer' have similar targets, and 100% of the test rows share")
    assert not any(warnings.values()), warnings


def test_bool_whole_and_decimal_columns_are_inputs(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    flags, whole = random.random(80) < 0.5, random.integers(0, 9, 80)
    content = table(80, flag=flags, whole=whole, money=pa.array(whole).cast(pa.decimal128(24, 2)))
    read = stored_rows(make_dataset(tmp_path, content))
    np.testing.assert_array_equal(read.column("flag").to_numpy(), flags)
    np.testing.assert_array_equal(read.column("whole").to_numpy(), whole)
    np.testing.assert_array_equal(read.column("money").to_numpy(), whole)


def test_keys_keep_their_types_and_stay_with_their_rows(tmp_path: Path) -> None:
    name = [f"row {i}" for i in range(90)]
    content = table(90, name=name, at=pa.array(range(90), pa.timestamp("us")))
    read = stored_rows(make_dataset(tmp_path, content, keys=("name", "at"), rows_per_group=20))
    assert read.column("name").to_pylist() == name
    assert read.column("at").type == pa.timestamp("us")


def test_csv_and_parquet_of_the_same_rows_give_the_same_shards(tmp_path: Path) -> None:
    content = table(400)
    data = make_dataset(tmp_path, content)
    pacsv.write_csv(content, tmp_path / "s.csv")
    other = ingest(tmp_path / "s.csv", tmp_path / "other", settings()).dataset
    assert [shard.sha256 for shard in other.shards] == [shard.sha256 for shard in data.shards]
    assert other.schema == data.schema


def test_row_groups_with_many_columns_fit_into_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("okl.data.ingest.writer.WINDOW_BYTES", 400)
    assert make_dataset(tmp_path, table(100)).shards[0].row_groups == (20,) * 5


def test_scaled_targets_are_for_regression_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holdout = 20%; .* write 0\.2\."):
        make_dataset(tmp_path, table(10), holdout="20%")
    with pytest.raises(ConfigError, match="scale = none"):
        make_dataset(tmp_path, table(100), scale_target=True)
    with pytest.raises(ConfigError, match="binary task"):
        make_dataset(tmp_path, table(100), scale_target=True, scale="minmax")


def test_progress_ends_with_all_rows(tmp_path: Path) -> None:
    reported: list[tuple[int, int | None]] = []
    source = parquet(tmp_path, table(500), row_group_size=200)
    ingest(source, tmp_path / "data", settings(), progress=lambda done, total: reported.append((done, total)))
    assert reported == [(200, 500), (400, 500), (500, 500)]


@pytest.mark.parametrize(("days", "n_same"), [(range(100), 0), ([7] * 100, 7)])
def test_times_at_midnight_are_dates_without_a_warning_of_constant_hours(
    days: list[int], n_same: int, tmp_path: Path
) -> None:
    data = make_dataset(tmp_path, table(100, at=pa.array(np.array(days) * 86_400, pa.timestamp("s"))))
    assert [len(each.inputs) for each in data.schema.encodings if each.is_date] == [7]
    assert [warning.split()[0] for warning in data.warnings if "never change" in warning] == [str(n_same)] * bool(
        n_same
    )
