"""Edge cases of unusual tables."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from okl.data.ingest import csv
from okl.data.ingest import run as ingest_run
from okl.data.ingest.run import ingest
from okl.data.ingest.sources import open_source, scan_source
from okl.data.reading import sample_rows
from okl.data.values import date_parts
from okl.foundation.errors import DataError, ModelError
from okl.models.inputs import inputs_of
from tests.data.sources import parquet, replaced, settings, table


def test_rows_in_memory_of_differing_lengths_are_an_error(tmp_path: Path) -> None:
    schema = ingest(parquet(tmp_path, table(100, 2)), tmp_path / "data", settings()).dataset.schema
    with pytest.raises(ModelError, match="takes rows of 2 columns each"):
        inputs_of(schema, [[1.0, 2.0], [3.0]], "float32")
    with pytest.raises(ModelError, match=r"Expected a table or an array, but got float"):
        inputs_of(schema, 1.5, "float32")
    dropping = replace(schema, missing="drop")
    with pytest.raises(ModelError, match="Row 1 of the table has a missing value"):
        inputs_of(dropping, pa.table({"a": [1.0, None], "b": [1.0, 2.0]}), "float32")


def test_dictionaries_that_differ_between_chunks_are_one_column(tmp_path: Path) -> None:
    words = pa.array(["u", "v"] * 50)
    schema = ingest(parquet(tmp_path, table(100, 1, w=words)), tmp_path / "data", settings()).dataset.schema
    chunks = [pa.array(["u"]).dictionary_encode(), pa.array(["v"]).dictionary_encode()]
    inputs = inputs_of(schema, pa.table({"a": [1.0, 1.0], "w": pa.chunked_array(chunks)}), "float32")
    np.testing.assert_array_equal(inputs[:, 1:], [[1.0, 0.0], [0.0, 1.0]])


def test_an_unknown_time_zone_is_an_error() -> None:
    with pytest.raises(DataError, match=r"zone 'Mars/Base' cannot be converted on this machine"):
        date_parts(pa.array([0, 1], pa.timestamp("us", "UTC")), "timestamp", "Mars/Base")


def test_categories_of_times_in_an_unknown_zone_are_an_error(tmp_path: Path) -> None:
    at = pa.array([0, 1] * 50, pa.timestamp("us", "Mars/Base"))
    source = parquet(tmp_path, table(100, 1, at=at))
    with pytest.raises(
        DataError, match=r"timestamp\[us, tz=Mars/Base\] have no text on this machine: .*Install tzdata"
    ):
        ingest(source, tmp_path / "data", settings(categories=("at",)))
    assert not (tmp_path / "data").exists()


def test_a_table_of_identifiers_has_no_inputs(tmp_path: Path) -> None:
    source = parquet(tmp_path, table(100, 1, id=[f"id {i}" for i in range(100)]).drop_columns(["a"]))
    with pytest.raises(DataError, match=r"has no input columns left\. Column 'id' is left out"):
        ingest(source, tmp_path / "data", settings())


def test_a_text_column_with_many_values_is_left_out_unless_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_run, "MOST_VALUES", 20)
    monkeypatch.setattr(ingest_run, "MOST_VALUES", 20)
    source = parquet(tmp_path, table(100, 1, w=[f"w{i % 30}" for i in range(100)]))
    data = ingest(source, tmp_path / "data", settings()).dataset
    assert data.schema.features == ("a",)
    assert "Column 'w' is left out: it is text with more than 20" in data.warnings[0]
    with pytest.raises(DataError, match=r"'w' was named as a category, but has more than 20 values"):
        ingest(source, tmp_path / "other", settings(categories=("w",)))


def test_suspicious_rows_are_warnings(tmp_path: Path) -> None:
    content = replaced(table(700, 2), "y", np.arange(700) % 25).append_column("split", pa.array(["train"] * 700))
    data = ingest(parquet(tmp_path, content), tmp_path / "data", settings()).dataset
    warnings = " ".join(data.warnings)
    assert "No row is a test row" in warnings
    assert "The 25 whole values of target 'y' were taken as classes" in warnings


@pytest.mark.parametrize("last", ['"a\nb"', "c"])
def test_row_counts_do_not_depend_on_block_ends(last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(csv, "RANGE_BYTES", 4 * 4096)
    path = tmp_path / "s.csv"
    path.write_text("x,w,y\n" + f"1,{last},0\n2,{last},1\n" * 3000)
    plain = open_source(path)
    assert sum(batch.batch.num_rows for batch in plain.batches()) == 6000
    scanned = scan_source(plain, None)
    assert [str(kind) for kind in scanned.schema.types] == ["int64", "string", "int64"]
    assert sum(batch.batch.num_rows for batch in scanned.batches()) == 6000
    assert scanned.rows in ((6000,) if last == "c" else (6000, None))


def test_a_line_end_in_a_name_is_not_a_row(tmp_path: Path) -> None:
    """Compressed files are scanned first; a header counted as a row would make all columns text."""
    source = tmp_path / "s.csv.gz"
    source.write_bytes(gzip.compress(b'"line\nend",y,w\n' + b"0,1,2.5\n1,0,3.5\n" * 30))
    data = ingest(source, tmp_path / "data", settings(missing="mean")).dataset
    assert data.schema.features == ("line\nend", "w")
    assert data.schema.labels == (0, 1)
    again = ingest(source, tmp_path / "again", settings(missing="mean"), reference=data.schema).dataset
    assert [shard.sha256 for shard in again.shards] == [shard.sha256 for shard in data.shards]


def test_a_word_in_a_late_row_is_not_a_regression_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK_BYTES", 4096)
    source = tmp_path / "s.csv"
    source.write_text("a,y\n" + "1,2.5\n2,3.5\n" * 1000 + "3,unknown\n")
    with pytest.raises(DataError, match=r"'y', row 2000 .* expected a number, such as '2.5', but it holds 'unknown'"):
        ingest(source, tmp_path / "data", settings(task="regression"))
    assert not (tmp_path / "data").exists()


def test_a_word_among_many_different_numbers_is_not_a_class(tmp_path: Path) -> None:
    source = tmp_path / "s.csv"
    source.write_text("a,y\n" + "".join(f"{i % 7},{i / 8}\n" for i in range(200)) + "3,oops\n")
    with pytest.raises(DataError, match=r"'y', row 200 .* but it holds 'oops'. Correct the value, or leave it empty"):
        ingest(source, tmp_path / "data", settings())
    source.write_text("a,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(200)) + "3,oops\n")
    assert len(ingest(source, tmp_path / "data", settings()).dataset.schema.labels) == 6


def test_values_that_differ_only_in_case_or_spaces_are_a_warning(tmp_path: Path) -> None:
    plans, labels = ["basic", "Basic ", "premium", "PREMIUM", "gold"], ["yes", "no", "Yes"]
    lines = [f"{index},{plans[index % 5]},{labels[index % 3]}" for index in range(60)]
    source = tmp_path / "plans.csv"
    source.write_text("\n".join(["age,plan,left", *lines]) + "\n")
    ingested = ingest(source, tmp_path / "made", settings(target="left"))
    warnings = [warning for warning in ingested.dataset.warnings if "spaces only" in warning]
    assert warnings == [
        "Some labels of target 'left' differ in case or spaces only: 'Yes' and 'yes'. They are classes of their own; "
        "if they mean the same, write them alike in the source.",
        "Some categories of column 'plan' differ in case or spaces only: 'Basic ' and 'basic'; 'PREMIUM' and "
        "'premium'. They are inputs of their own; if they mean the same, write them alike in the source.",
    ]
    assert ingested.dataset.schema.labels == ("Yes", "no", "yes")


def test_only_rows_without_a_target_are_left_out_and_counted(tmp_path: Path) -> None:
    content, without_target = table(200, 3), [4, 90, 91]
    targets = content["y"].to_numpy().astype(np.float64)
    targets[without_target] = np.nan
    source = parquet(tmp_path, replaced(content, "y", targets))
    data = ingest(source, tmp_path / "data", settings(missing="error")).dataset
    complete_rows = parquet(tmp_path, content.take(np.delete(np.arange(200), without_target)), "kept.parquet")
    expected = ingest(complete_rows, tmp_path / "expected", settings(missing="error")).dataset
    assert [shard.sha256 for shard in data.shards] == [shard.sha256 for shard in expected.shards]
    assert "3 of 200 rows were dropped for a missing target 'y'." in data.warnings
    assert data.rows("train") == 197


def classes_of(n_rows: int, rare: int) -> pa.Table:
    names = np.array(["a", "b", "rare"])[np.r_[np.arange(n_rows - rare) % 2, np.full(rare, 2)]]
    order = np.random.default_rng(1).permutation(n_rows)
    return pa.table({"x": np.arange(n_rows, dtype=float), "y": names[order]})


@pytest.mark.parametrize("rare", [1, 2, 5, 40])
def test_test_rows_of_a_run_are_a_fifth_of_each_class_and_at_least_one(rare: int, tmp_path: Path) -> None:
    source = parquet(tmp_path, classes_of(500, rare))

    def test_classes(seed: int, name: str) -> list[str]:
        data = ingest(source, tmp_path / name, settings(seed=seed), default_holdout=0.2).dataset
        labels = [str(label) for label in data.schema.labels]
        return [labels[int(index)] for index in sample_rows(data, "test", 10**6, 0, "float32").targets]

    first, again, other_seed = (test_classes(seed, name) for seed, name in ((0, "one"), (0, "again"), (1, "other")))
    assert first == again
    counts = {label: first.count(label) for label in ("a", "b", "rare")}
    assert counts["rare"] == (0 if rare == 1 else max(1, round(0.2 * rare)))
    halves = np.bincount(np.arange(500 - rare) % 2)
    assert [counts["a"], counts["b"]] == [round(0.2 * half) for half in halves]
    assert len(other_seed) == len(first)


def test_an_existing_split_and_a_requested_share_override_the_default(tmp_path: Path) -> None:
    split = np.where(np.arange(500) < 50, "test", "train")
    named = parquet(tmp_path, classes_of(500, 5).append_column("split", pa.array(split)), "named.parquet")
    assert ingest(named, tmp_path / "named", settings(), default_holdout=0.2).dataset.rows("test") == 50
    source = parquet(tmp_path, classes_of(500, 5))
    with_default, without_default = (
        ingest(source, tmp_path / name, settings(holdout=0.4), default_holdout=share).dataset
        for name, share in (("asked", 0.2), ("plain", None))
    )
    assert with_default.sha256 == without_default.sha256
    numbers = pa.table({"x": np.arange(40.0), "y": np.random.default_rng(0).normal(size=40)})
    regression = ingest(
        parquet(tmp_path, numbers, "n.parquet"), tmp_path / "n", settings(), default_holdout=0.2
    ).dataset
    assert (regression.rows("train"), regression.rows("test")) == (32, 8)
