from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.data.reading import sample_rows
from okl.foundation.errors import DataError
from tests.data.sources import inputs_of, parquet, replaced, settings, table


@pytest.fixture
def first(tmp_path: Path) -> Dataset:
    """Return a scaled data set of 2000 rows."""
    source = parquet(tmp_path, table(2000), "first.parquet")
    return ingest(source, tmp_path / "first", settings(scale="standard")).dataset


def ingest_with_reference(folder: Path, content: pa.Table, first: Dataset, **values: Any) -> Dataset:
    source = parquet(folder, content, "later.parquet")
    return ingest(source, folder / "later", settings(**values), reference=first.schema).dataset


def test_rows_with_a_reference_get_its_scaling(tmp_path: Path, first: Dataset) -> None:
    content = table(300, seed=1)
    moved = replaced(content, "a", content["a"].to_numpy() + 100)
    later = ingest_with_reference(tmp_path, moved, first)
    rows = sample_rows(later, "train", 300, 0, "float64")
    shift, factor = first.schema.shift_and_factor
    np.testing.assert_allclose(rows.inputs, (inputs_of(moved) - shift) * factor, rtol=1e-6)
    assert rows.inputs[:, 0].mean() > 50
    assert later.schema.feature_statistics == first.schema.feature_statistics
    assert replace(later.schema, class_counts=()) == replace(first.schema, class_counts=())
    assert sum(later.schema.class_counts) == 300


def test_order_of_columns_and_additional_columns_do_not_matter(tmp_path: Path, first: Dataset) -> None:
    content = table(300, seed=1)
    other = content.select(["y", "c", "b", "e", "d", "a"]).append_column("more", pa.array(["word"] * 300))
    later = ingest_with_reference(tmp_path, other, first)
    np.testing.assert_array_equal(inputs_of(pq.read_table(later.path(later.shards[0]))), inputs_of(content))


def test_a_share_as_text_holds_out_the_same_rows_as_the_number(tmp_path: Path, first: Dataset) -> None:
    counts = []
    for name, share in (("number", 0.3), ("text", "0.3")):
        (tmp_path / name).mkdir()
        counts.append(ingest_with_reference(tmp_path / name, table(200, seed=1), first, holdout=share).rows("test"))
    assert counts[0] == counts[1] > 0


def test_a_single_class_keeps_its_position_among_the_labels(tmp_path: Path, first: Dataset) -> None:
    later = ingest_with_reference(tmp_path, replaced(table(40), "y", np.ones(40, dtype=np.int64)), first)
    assert (later.schema.labels, later.schema.class_counts) == ((-1, 1), (0, 40))
    assert (sample_rows(later, "train", 40, 0, "float32").targets == 1).all()


def test_text_labels_keep_the_codes_of_the_reference(tmp_path: Path) -> None:
    words = np.array(["red", "green", "blue"])
    source = parquet(tmp_path, replaced(table(60), "y", words[np.arange(60) % 3]), "first.parquet")
    first = ingest(source, tmp_path / "first", settings()).dataset
    later = ingest_with_reference(tmp_path, replaced(table(60), "y", words[2 - np.arange(60) % 3][:60]), first)
    assert later.schema.stored_labels == first.schema.stored_labels
    names = [first.schema.labels[int(index)] for index in sample_rows(later, "train", 60, 0, "float32").targets]
    assert names[:3] == ["blue", "green", "red"]


@pytest.mark.parametrize(("unit", "separator"), [("D", "T"), ("s", " "), ("m", "T")])
def test_dates_as_text_equal_those_of_a_csv_file(tmp_path: Path, unit: Any, separator: str) -> None:
    times = np.datetime64("2024-03-01T12:30:00") + np.arange(60).astype("timedelta64[h]")
    days = table(60).append_column("at", pa.array(times.astype("datetime64[D]")))
    first = ingest(parquet(tmp_path, days, "first.parquet"), tmp_path / "first", settings()).dataset
    texts = [text.replace("T", separator) for text in np.datetime_as_string(times, unit)]
    content = days.set_column(days.num_columns - 1, "at", pa.array(texts))
    (tmp_path / "text").mkdir()
    later = ingest_with_reference(tmp_path / "text", content, first)
    write_csv(content, tmp_path / "later.csv")
    of_csv = ingest(tmp_path / "later.csv", tmp_path / "csv", settings(), reference=first.schema).dataset
    assert later.schema == of_csv.schema
    tables = [pq.read_table(data.path(data.shards[0])) for data in (later, of_csv)]
    assert len(set(tables[0]["at:years"].to_pylist())) == 3
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: replaced(content, "y", np.full(40, 7)), "holds 7, a label that the reference does not have"),
        (lambda content: content.drop_columns(["b"]), "no input column 'b'"),
        (lambda content: replaced(content, "b", ["word"] * 40), "column 'b' is of type string"),
        (lambda content: replaced(content, "y", ["word"] * 40), "target 'y' is of type string"),
    ],
)
def test_rows_that_do_not_fit_the_reference_are_refused(
    tmp_path: Path, first: Dataset, change: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        ingest_with_reference(tmp_path, change(table(40)), first)
    assert not (tmp_path / "later").exists()


def test_a_data_set_with_a_reference_is_not_replaced_for_another_reference(tmp_path: Path, first: Dataset) -> None:
    ingest_with_reference(tmp_path, table(300, seed=1), first)
    source = tmp_path / "later.parquet"
    assert not ingest(source, tmp_path / "later", settings(), reference=first.schema).changed
    other = replace(first.schema, scale="none")
    with pytest.raises(DataError, match=r"other settings|another reference"):
        ingest(source, tmp_path / "later", settings(), reference=other)


def test_columns_absent_from_svmlight_are_zero_columns_of_the_reference(tmp_path: Path) -> None:
    (tmp_path / "first.svm").write_text("1 1:0.5 2:1 3:2\n-1 1:1 2:3 3:1\n" * 20)
    (tmp_path / "later.svm").write_text("1 1:0.25\n-1 1:2\n" * 20)
    first = ingest(tmp_path / "first.svm", tmp_path / "first", settings()).dataset
    later = ingest(tmp_path / "later.svm", tmp_path / "later", settings(), reference=first.schema).dataset
    assert later.schema.features == first.schema.features == ("f0", "f1", "f2")
    assert (sample_rows(later, "train", 40, 0, "float32").inputs[:, 1:] == 0).all()
