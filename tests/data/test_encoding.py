from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import ColumnStatistics, Dataset, Encoding, Schema, part_names
from okl.data.describe import describe, describe_text
from okl.data.encoder import Encoder, unfit
from okl.data.ingest import csv
from okl.data.ingest.run import ingest
from okl.data.ingest.sources import SourceBatch
from okl.data.ingest.targets import TargetReader
from okl.data.manifest import open_dataset
from okl.data.order import plan_windows
from okl.data.reading import load_window
from okl.data.values import date_parts
from okl.foundation.errors import DataError
from okl.foundation.types import Split
from okl.models.inputs import check_columns, newly_missing, prepare_rows, read_as
from okl.models.pieces import read_table, table_pieces
from tests.data.mixed import mixed
from tests.data.sources import parquet, settings, table

OPTIONS: dict[str, Any] = {"target": "label", "dates": "parts", "missing": "mean", "max_categories": 8}


def stored_rows(data: Dataset, split: Split = "train") -> pd.DataFrame:
    """Return all rows of a split as stored in the part files."""
    parts = [pq.read_table(str(data.path(shard))) for shard in data.split(split)]
    rows: pd.DataFrame = pa.concat_tables(parts).to_pandas()
    return rows


def make_dataset(folder: Path, content: pd.DataFrame, name: str = "source", **values: Any) -> Dataset:
    source = parquet(folder, pa.Table.from_pandas(content, preserve_index=False), f"{name}.parquet")
    return ingest(source, folder / name, settings(**(OPTIONS | values))).dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    data = make_dataset(tmp_path_factory.mktemp("mixed"), mixed(), rows_per_shard=300, scale="standard")
    assert len(data.split("train")) == 3
    return data


def test_categories_equal_pandas_dummies_of_the_training_rows(data: Dataset) -> None:
    content = mixed()
    for split in ("train", "test"):
        split_rows = content[content["split"] == split]
        expected = pd.get_dummies(split_rows["city"], prefix="city", prefix_sep="=", dummy_na=True, dtype=np.float32)
        expected = expected.rename(columns={"city=nan": "city=(missing)"})
        dummies = stored_rows(data, split)[[name for name in data.schema.features if name.startswith("city=")]]
        assert list(dummies.columns) == list(expected.columns)
        np.testing.assert_array_equal(dummies.to_numpy(), expected.to_numpy())


def test_the_most_frequent_values_get_an_input_and_the_others_share_one(data: Dataset) -> None:
    content = mixed()
    train, jobs = content[content["split"] == "train"]["job"], [n for n in data.schema.features if n[:4] == "job="]
    counts = train.value_counts()
    frequent = sorted(sorted(counts.index, key=lambda word: (-counts[word], word))[:8])
    assert jobs == [*(f"job={word}" for word in frequent), "job=(other)"]
    inputs = stored_rows(data)[jobs]
    np.testing.assert_array_equal(inputs["job=(other)"], ~train.isin(frequent))
    assert 0 < inputs["job=(other)"].mean() < 0.5
    assert (inputs.sum(axis=1) == 1).all()


def values_with_input(rows: pa.Table, folder: Path, **values: Any) -> dict[str, set[str]]:
    folder.mkdir()
    data = ingest(parquet(folder, rows), folder / "data", settings(**values), keep_fills=True).dataset
    return {
        encoding.column: {*encoding.categories} for encoding in data.schema.encodings if encoding.kind == "category"
    }


def test_values_in_five_rows_and_the_64_most_frequent_values_have_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `often`, 100 values have 6 rows and 40 have 4; in `seldom`, 200 values have 3 rows and 160 have one."""
    often = [f"o{i:03d}" for i in range(100)] * 6 + [f"p{i:02d}" for i in range(40)] * 4
    seldom = [f"s{i:03d}" for i in range(200)] * 3 + [f"t{i:02d}" for i in range(160)]
    rows = pa.table({"often": often, "seldom": seldom, "x": range(760), "y": [0, 1] * 380})
    seldom_values = {"seldom": {f"s{i:03d}" for i in range(64)}}
    assert values_with_input(rows, tmp_path / "all") == {"often": {*often[:100]}} | seldom_values
    # 134 inputs: for both columns 64 values, one for other values, one for missing values; x and one for missing x
    monkeypatch.setattr("okl.data.ingest.run.MOST_NUMBERS", 760 * (134 + 7))
    assert values_with_input(rows, tmp_path / "few") == {"often": {*often[:71]}} | seldom_values
    monkeypatch.setattr("okl.data.ingest.run.MOST_NUMBERS", 0)
    assert values_with_input(rows, tmp_path / "least") == {"often": {*often[:64]}} | seldom_values
    limited = values_with_input(rows, tmp_path / "given", max_categories=120)
    assert {name: len(words) for name, words in limited.items()} == {"often": 120, "seldom": 120}


def test_a_missing_number_becomes_the_training_mean_and_sets_an_input(data: Dataset) -> None:
    content = mixed()
    train = content[content["split"] == "train"]["age"]
    mean = np.float32(train.astype(np.float32).astype(np.float64).mean())
    for split in ("train", "test"):
        age, inputs = content[content["split"] == split]["age"], stored_rows(data, split)
        assert 20 < age.isna().sum() < 200
        np.testing.assert_array_equal(inputs["age=(missing)"], age.isna())
        np.testing.assert_array_equal(inputs["age"][age.notna().to_numpy()], age.dropna().astype(np.float32))
        np.testing.assert_allclose(inputs["age"][age.isna().to_numpy()], mean, rtol=1e-7)


def test_dates_are_years_and_angles() -> None:
    known = pd.Series(pd.to_datetime(["2000-01-01 00:00:00", "2024-12-31 18:00:00", "1969-07-20 20:17:40"]))
    at = pa.array([*known, None], pa.timestamp("us"))
    parts = date_parts(at, "timestamp")
    turns = [
        (known.dt.day_of_year - 1) / np.where(known.dt.is_leap_year, 366, 365),
        known.dt.day_of_week / 7,
        (known - known.dt.normalize()) / pd.Timedelta("1D"),
    ]
    years = (known - pd.Timestamp("2000-01-01")) / pd.Timedelta("365.2425D")
    angles = [2.0 * np.pi * turn.to_numpy(dtype=np.float64) for turn in turns]
    expected = np.stack([years.to_numpy(), *(wave for turn in angles for wave in (np.sin(turn), np.cos(turn)))])
    np.testing.assert_allclose(parts[:, :3], expected, atol=1e-9)
    assert np.isnan(parts[:, 3]).all()
    dates = date_parts(at.cast(pa.date32(), safe=False), "date")
    np.testing.assert_allclose(dates[1:, :3], parts[1:5, :3], atol=1e-12)
    np.testing.assert_array_equal(date_parts(at, "date"), dates)


def test_a_calendar_has_a_part_for_each_weekday_and_hour() -> None:
    known = pd.Series(pd.date_range("2024-02-26 00:30", periods=400, freq="61min"))
    at = pa.array([*known, None], pa.timestamp("us"))
    parts = date_parts(at, "timestamp", calendar=True)
    np.testing.assert_array_equal(parts[:7], date_parts(at, "timestamp"))
    np.testing.assert_array_equal(parts[7:14, :-1].argmax(axis=0), known.dt.day_of_week)
    np.testing.assert_array_equal(parts[14:, :-1].argmax(axis=0), known.dt.hour)
    np.testing.assert_array_equal(parts[7:14, :-1].sum(axis=0), 1.0)
    np.testing.assert_array_equal(parts[14:, :-1].sum(axis=0), 1.0)
    assert np.isnan(parts[:, -1]).all()
    assert len(parts) == len(part_names("timestamp", True))
    days = date_parts(at.cast(pa.date32(), safe=False), "date", calendar=True)
    np.testing.assert_array_equal(days[5:, :-1], parts[7:14, :-1])
    assert len(days) == len(part_names("date", True))


def test_times_are_converted_to_the_zone_of_training() -> None:
    at = pd.Series(pd.to_datetime(["2026-07-01 22:30", "2026-01-01 23:30"])).dt.tz_localize("UTC")
    berlin = date_parts(pa.array(at.dt.tz_convert("Europe/Berlin").dt.tz_localize(None)), "timestamp")
    for zone in ("UTC", "Asia/Tokyo", "Europe/Berlin"):
        column = pa.array(at.dt.tz_convert(zone))
        np.testing.assert_array_equal(date_parts(column, "timestamp", "Europe/Berlin"), berlin)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 0, 3, 1]])
def test_raw_rows_are_encoded_bit_for_bit_in_any_order_of_columns(
    data: Dataset, tmp_path: Path, order: Sequence[int]
) -> None:
    content = mixed()
    test = content[content["split"] == "test"]
    names = ["city", "job", "age", "at", "member"]
    raw = parquet(tmp_path, pa.Table.from_pandas(test[[names[i] for i in order]], preserve_index=False))
    (piece,) = table_pieces(raw, data.schema)
    check_columns(data.schema, piece.schema, "raw")
    prepared = [
        prepare_rows(data.schema, rows, "float32").inputs for rows in read_table(piece, data.schema.source_columns)
    ]
    rows = load_window(data, plan_windows(data.split("test"), data.schema.n_features, "stored", ())[0], "float32")
    np.testing.assert_array_equal(np.concatenate(prepared), rows.inputs)


def test_csv_and_parquet_files_give_the_same_inputs(data: Dataset, tmp_path: Path) -> None:
    mixed().to_csv(tmp_path / "source.csv", index=False)
    ingest_settings = settings(**OPTIONS, rows_per_shard=300, scale="standard")
    from_csv = ingest(tmp_path / "source.csv", tmp_path / "data", ingest_settings).dataset
    assert from_csv.schema.features == data.schema.features
    pd.testing.assert_frame_equal(stored_rows(from_csv), stored_rows(data))


def test_unseen_and_missing_values_are_not_an_error() -> None:
    names = ("c=a", "c=b", "c=(other)", "c=(missing)")
    encoding = Encoding("c", "category", names, ("a", "b"), other=True, missing=True)
    batch = pa.record_batch({"c": ["b", "never seen", None, "", "a"]})
    out = np.empty((4, 5), dtype=np.float32)
    Encoder(names, (encoding,)).fill(out, batch, "error")
    np.testing.assert_array_equal(out.argmax(axis=0), [1, 2, 3, 3, 0])
    np.testing.assert_array_equal(out.sum(axis=0), 1)
    without_other = Encoding("c", "category", names[:2], ("a", "b"))
    Encoder(names[:2], (without_other,)).fill(out[:2], batch, "error")
    np.testing.assert_array_equal(out[:2].sum(axis=0), [1, 0, 0, 0, 1])
    Encoder(names[:2], (without_other,)).fill(out[:2], batch, "drop")
    np.testing.assert_array_equal(np.isnan(out[0]), [False, False, True, True, False])


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["7", "12", None, "7"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.uint32()), ["7", "12"]),
        pa.array(["7", "12", None, "7"], pa.large_string()),
        pa.array(["7", "12", None, "7"], pa.string_view()),
        pa.array([7, 12, None, 7], pa.int16()),
        pa.array([7.0, 12.0, None, 7.0]),
        pa.array([7.0, 12.0, float("nan"), 7.0]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_a_value_has_one_name_for_any_type(column: pa.Array) -> None:
    encoding = Encoding("c", "category", ("c=12", "c=7", "c=(missing)"), ("12", "7"), missing=True)
    out = np.empty((3, 3), dtype=np.float32)
    Encoder(encoding.inputs, (encoding,)).fill(out, pa.record_batch({"c": column[1:]}), "error")
    np.testing.assert_array_equal(out.argmax(axis=0), [0, 2, 1])


@pytest.mark.parametrize("index_type", [pa.int8(), pa.uint8(), pa.uint64()], ids=str)
def test_text_labels_are_read_with_any_index_type(index_type: pa.DataType) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1], index_type), ["no", "yes"])
    reader = TargetReader("y", column.type, "auto")
    targets = reader.values(SourceBatch("rows", 0, pa.record_batch({"y": column})))
    np.testing.assert_array_equal(targets, [0.0, 1.0, np.nan, 0.0])
    assert reader.codes == {"yes": 0, "no": 1}


def test_a_subset_of_inputs_equals_those_columns_of_all_inputs(data: Dataset) -> None:
    batch = pa.Table.from_pandas(mixed(50), preserve_index=False).combine_chunks().to_batches()[0]
    schema = data.schema
    all_inputs = np.empty((schema.n_features, 50), dtype=np.float32)
    Encoder(schema.features, schema.encodings).fill(all_inputs, batch, "mean")
    indices = [schema.n_features - 1, 2, 0, 7]
    out = np.empty((4, 50), dtype=np.float32)
    Encoder(tuple(schema.features[i] for i in indices), schema.encodings).fill(out, batch, "mean")
    np.testing.assert_array_equal(out, all_inputs[indices])


def test_identifier_and_empty_columns_are_left_out_with_a_warning(tmp_path: Path) -> None:
    content = mixed(300).assign(name=[f"n{i}" for i in range(300)], note=pd.Series([None] * 300, dtype="string"))
    data = make_dataset(tmp_path, content)
    assert not any(feature.startswith(("name", "note")) for feature in data.schema.features)
    assert "name" not in data.schema.source_columns
    text = describe_text(data)
    assert "Column 'name' is left out" in text
    assert "Column 'note' is left out: it holds no value in the training rows" in text
    forced = make_dataset(tmp_path, content, "forced", categories=("name", "member"))
    assert {"name=(other)", "member=true"} <= set(forced.schema.features)


def test_dates_may_be_categories(tmp_path: Path) -> None:
    content = mixed(200).assign(day=[["2026-11-22", "2026-11-23"][i % 2] for i in range(200)])
    content["day"] = pd.to_datetime(content["day"]).dt.date
    data = make_dataset(tmp_path, content[["day", "label", "split"]], categories=("day",), dates="error")
    assert data.schema.features == ("day=2026-11-22", "day=2026-11-23")
    check_columns(data.schema, pa.Table.from_pandas(content[["day"]]).schema, "new")


def test_a_line_end_in_quotes_is_part_of_a_value(tmp_path: Path) -> None:
    lines = ["c,n,y\n", *(f'"{"u" if row % 3 else "v"}\n{row % 2}",{row},{row % 2}\n' for row in range(200))]
    (tmp_path / "source.csv").write_text("".join(lines))
    data = ingest(tmp_path / "source.csv", tmp_path / "data", settings()).dataset
    assert data.schema.features == ("c=u 0", "c=u 1", "c=v 0", "c=v 1", "n")


def test_drop_leaves_out_rows_without_a_category_and_dates(tmp_path: Path) -> None:
    content = mixed(400)
    data = make_dataset(tmp_path, content, dates="drop", missing="drop")
    complete_rows = content.dropna()
    assert data.rows("train") + data.rows("test") == len(complete_rows)
    assert "city=(missing)" not in data.schema.features
    assert "at" not in data.schema.source_columns


def test_numbers_named_as_categories_are_the_same_from_csv_and_parquet(tmp_path: Path) -> None:
    content = mixed(200).assign(code=np.random.default_rng(1).integers(1, 4, 200))[["code", "label", "split"]]
    content.to_csv(tmp_path / "source.csv", index=False)
    ingest_settings = settings(target="label", categories=("code",))
    from_parquet = make_dataset(tmp_path, content, "parquet", categories=("code",), missing="error")
    from_csv = ingest(tmp_path / "source.csv", tmp_path / "csv", ingest_settings).dataset
    assert from_parquet.schema.features == from_csv.schema.features == ("code=1", "code=2", "code=3")
    pd.testing.assert_frame_equal(stored_rows(from_parquet), stored_rows(from_csv))
    (tmp_path / "new.csv").write_text("code\n1\n9\n")
    (piece,) = table_pieces(tmp_path / "new.csv", from_csv.schema)
    (rows,) = read_table(piece, from_csv.schema.source_columns)
    np.testing.assert_array_equal(prepare_rows(from_csv.schema, rows, "float32").inputs, [[1, 0, 0], [0, 0, 0]])


def test_newly_missing_dates_and_numbers_are_counted(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": pd.date_range("2026-01-01", periods=60), "a": np.arange(60.0), "y": np.arange(60) % 2})
    frame.to_parquet(tmp_path / "source.parquet")
    ingest_settings = settings(dates="parts", missing="mean")
    schema = ingest(tmp_path / "source.parquet", tmp_path / "data", ingest_settings).dataset.schema
    frame.loc[[3, 5, 8], "t"] = None
    frame.loc[[3], "a"] = None
    (batch,) = pa.Table.from_pandas(frame, preserve_index=False).to_batches()
    assert newly_missing(schema, batch) == {"t": 3, "a": 1}


def test_dates_of_json_lines_are_read_in_any_iso_spelling(tmp_path: Path) -> None:
    days = pd.date_range("2026-01-01", periods=60)
    frame = pd.DataFrame({"t": days, "y": np.arange(60) % 2})
    frame.to_parquet(tmp_path / "source.parquet")
    schema = ingest(tmp_path / "source.parquet", tmp_path / "data", settings(dates="parts")).dataset.schema
    prepared = []
    for name, spelling in (("day", "%Y-%m-%d"), ("iso", "%Y-%m-%dT%H:%M:%S.000"), ("space", "%Y-%m-%d %H:%M:%S")):
        spelled = frame.assign(t=days.strftime(spelling))
        spelled.to_json(tmp_path / f"{name}.jsonl", orient="records", lines=True)
        (piece,) = table_pieces(tmp_path / f"{name}.jsonl", schema)
        (rows,) = read_table(piece, schema.source_columns)
        prepared.append(prepare_rows(schema, rows, "float64").inputs)
    np.testing.assert_array_equal(prepared[0], prepared[1])
    np.testing.assert_array_equal(prepared[0], prepared[2])
    (tmp_path / "bad.jsonl").write_text((tmp_path / "iso.jsonl").read_text() + '{"t":"soon","y":0}\n')
    with pytest.raises(DataError, match=r"bad\.jsonl, lines up to 61: .*'soon'.*Write dates such as 2026-12-31"):
        [*read_table(table_pieces(tmp_path / "bad.jsonl", schema)[0], schema.source_columns)]


@pytest.mark.parametrize("first", ["3.0", "007"])
def test_numbers_with_another_spelling_in_csv_are_matched_by_value(tmp_path: Path, first: str) -> None:
    words = [(first, "", "5.0")[row % 3] for row in range(120)]
    lines = [f"{word},{row % 2}" for row, word in enumerate(words)]
    (tmp_path / "source.csv").write_text("\n".join(["code,y", *lines]) + "\n")
    data = ingest(tmp_path / "source.csv", tmp_path / "data", settings(categories=("code",), missing="mean")).dataset
    assert data.schema.features == (f"code={first}", "code=5.0", "code=(missing)")
    expected = stored_rows(data)[[*data.schema.features]].to_numpy()
    assert (expected.sum(axis=0) == 40).all()
    read = pd.read_csv(tmp_path / "source.csv")[["code"]]
    assert read["code"].dtype == np.float64
    decimal = pa.table({"code": pa.array(read["code"]).cast(pa.decimal128(9, 4))})
    narrow = pa.table({"code": pa.array(read["code"], pa.float32())})
    for content in (pa.Table.from_pandas(read), decimal, narrow, narrow.cast(pa.schema([("code", pa.int64())]))):
        check_columns(data.schema, content.schema, "new")
        rows = SourceBatch("new", 0, content.combine_chunks().to_batches()[0])
        np.testing.assert_array_equal(prepare_rows(data.schema, rows, "float32").inputs, expected)


@pytest.mark.parametrize(
    ("categories", "column", "expected"),
    [
        (("3.0", "30"), pa.array([3, 30, 300]), [0, 1, 2]),
        (("1.5", "7"), pa.array([1.5, 7.0, 2.0]).cast(pa.decimal128(6, 2)), [0, 1, 2]),
        (
            ("100000000000000000391.00", "100000000000000000866"),  # the same number as float64
            pa.array(["100000000000000000866", "100000000000000000391", "1"]).cast(pa.decimal256(76, 2)),
            [1, 0, 2],
        ),
        (("1e-07", "1E2"), pa.array(["0.0000001", "100", "0"]).cast(pa.decimal128(20, 10)), [0, 1, 2]),
        (("-0.0", "1e999999999999999999"), pa.array(["0.00"]).cast(pa.decimal128(6, 2)), [0]),
        (("0.10", "1e3"), pa.array([0.1, 1000.0, 10.0]), [0, 1, 2]),
        (("0.10", "1e3"), pa.array([0.1, 1000.0], pa.float32()).dictionary_encode(), [0, 1]),
        (("False", "True"), pa.array([True, False]), [1, 0]),
        (("9007199254740992", "9007199254740993"), pa.array([9007199254740993, 9007199254740992]), [1, 0]),
        (("3.0", "7"), pa.array(["3.0", "3", "7", "7.0", "7.5", "x"]), [0, 0, 1, 1, 2, 2]),
        (("00501", "10001"), pa.array(["501", "10001.0"]).dictionary_encode(), [0, 1]),
        (("3", "x"), pa.array(["3.0", "x", "3"]), [2, 1, 0]),  # among words, numbers are words
        (("3", "3.0"), pa.array(["3.00", "3.0", "3"]), [2, 1, 0]),  # and if one number has two names
        (("12345678901234567890", "5"), pa.array(["12345678901234567891", "5"]), [2, 1]),  # the same number as float64
    ],
)
def test_names_of_numbers_are_matched_by_value(categories: Any, column: pa.Array, expected: list[int]) -> None:
    """Also text of a CSV file, because pandas writes 1.0 if the column has a missing value."""
    encoding = Encoding("c", "category", ("c=0", "c=1", "c=(other)"), categories, other=True)
    assert not unfit(schema_with(encoding), "c", column.type)
    out = np.empty((3, len(column)), dtype=np.float32)
    Encoder(encoding.inputs, (encoding,)).fill(out, pa.record_batch({"c": column}), "error")
    np.testing.assert_array_equal(out.argmax(axis=0), expected)


def schema_with(encoding: Encoding) -> Schema:
    columns = (ColumnStatistics(9, 0.0, 1.0, 0.0, 1.0),) * len(encoding.inputs)
    return Schema(encoding.inputs, "y", "binary", labels=(0, 1), feature_statistics=columns, encodings=(encoding,))


def test_numbers_with_two_names_and_ambiguous_missing_values_are_refused() -> None:
    two_spellings = schema_with(Encoding("c", "category", ("c=007", "c=7"), ("007", "7")))
    check_columns(two_spellings, pa.schema([("c", pa.string())]), "new")
    message = (
        r"new: column 'c' is of type int64, but the model requires text, as its values '007' and '7' are one number"
    )
    with pytest.raises(DataError, match=message + r"\. Give the column as text.* dtype=\{'c': str\}\)\.$"):
        check_columns(two_spellings, pa.schema([("c", pa.int64())]), "new")
    with_na = Encoding("c", "category", ("c=7", "c=NA"), ("7", "NA"))
    out = np.empty((2, 2), dtype=np.float32)
    Encoder(with_na.inputs, (with_na,)).fill(out, pa.record_batch({"c": pa.array([7, 8])}), "error")
    np.testing.assert_array_equal(out, [[1, 0], [0, 0]])
    with pytest.raises(DataError, match=r"Column 'c' holds numbers \(double\) and misses a value, which may be 'NA'"):
        Encoder(with_na.inputs, (with_na,)).fill(out, pa.record_batch({"c": [7.0, None]}), "error")


def test_a_csv_column_that_begins_with_numbers_may_be_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK_BYTES", 300)
    lines = [f"{'17' if row < 100 else 'a' if row % 2 else 'b'},{row},{row % 2}\n" for row in range(300)]
    (tmp_path / "source.csv").write_text("".join(["c,n,y\n", *lines]))
    data = ingest(tmp_path / "source.csv", tmp_path / "data", settings()).dataset
    assert data.schema.features == ("c=17", "c=a", "c=b", "n")
    (tmp_path / "source.csv").write_text("".join(["c,n,y\n", *lines[:100], "oops,3,1\n"]))
    message = r"column 'c', row 100 \(counted from 0\): expected a number.* holds 'oops'.*use --category c"
    with pytest.raises(DataError, match=message):
        ingest(tmp_path / "source.csv", tmp_path / "other", settings())


def test_missing_words_are_missing_in_number_and_date_columns_only(tmp_path: Path) -> None:
    rows = [
        f"{row if row % 3 else '?'},{'2024-01-02' if row % 2 else 'NA'},{'a' if row % 5 else '?'},{row % 2}"
        for row in range(60)
    ]
    (tmp_path / "source.csv").write_text("n,day,word,y\n" + "\n".join(rows))
    ingest_settings = settings(missing="mean", dates="parts")
    data = ingest(tmp_path / "source.csv", tmp_path / "data", ingest_settings).dataset
    kinds = {
        encoding.column: (encoding.kind, encoding.missing, encoding.categories) for encoding in data.schema.encodings
    }
    assert kinds == {"n": ("number", True, ()), "day": ("date", True, ()), "word": ("category", False, ("?", "a"))}
    with pytest.raises(DataError, match=r"column 'n' has no value .* in row 0"):
        ingest(tmp_path / "source.csv", tmp_path / "other", settings(missing="error"))


def test_an_empty_column_in_one_csv_file_gets_the_type_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "1.csv").write_text("day,y\n,0\n,1\n")
    (tmp_path / "rows" / "2.csv").write_text("day,y\n2024-01-02,0\n2024-01-03,1\n")
    data = ingest(tmp_path / "rows", tmp_path / "data", settings(missing="drop", dates="parts")).dataset
    assert [(encoding.column, encoding.kind) for encoding in data.schema.encodings] == [("day", "date")]
    assert data.rows("train") == 2


def test_a_table_that_is_too_wide_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    words: dict[str, Any] = {f"c{i}": [f"{(i + row) % 120}" for row in range(240)] for i in range(40)}
    source = parquet(tmp_path, table(240, 2, **words))
    message = r"42 columns would make 4802 inputs \(120 from 'c0', 120 from 'c1'.*at most 4096\. Lower --max-categories"
    with pytest.raises(DataError, match=message):
        ingest(source, tmp_path / "data", settings(max_categories=200))
    assert [path.name for path in tmp_path.iterdir()] == ["source.parquet"]


def test_names_of_inputs_never_collide_and_are_short(tmp_path: Path) -> None:
    words = ["(other)", "(missing)", "x" * 500, "x" * 400, "a\nb", "", None, "z", *map(str, range(60))] * 20
    content = pa.table({"c": words, "c=z": range(len(words)), "y": [0, 1] * (len(words) // 2)})
    data = ingest(parquet(tmp_path, content), tmp_path / "data", settings(max_categories=7)).dataset
    assert len(set(data.schema.features)) == data.schema.n_features == 10
    assert max(map(len, data.schema.features)) < 80
    assert open_dataset(data.folder) == data
    assert stored_rows(data)["c=z"].tolist() == list(range(len(words)))


def test_the_manifest_of_a_table_of_numbers_has_format_1(tmp_path: Path) -> None:
    data = ingest(parquet(tmp_path, table(200)), tmp_path / "data", settings(holdout=0.3, missing="error")).dataset
    content = json.loads((data.folder / "manifest.json").read_text())
    assert content["format_version"] == 1
    assert list(content) == [
        "format_version", "source", "settings", "target", "task", "labels", "stored_labels", "class_counts", "keys",
        "scale", "scale_target", "missing", "target_statistics", "warnings", "features", "shards",
    ]  # fmt: skip
    assert list(content["settings"]) == [
        "target", "task", "split_column", "holdout", "keys", "drop", "scale", "scale_target", "rows_per_shard",
        "rows_per_group", "missing", "compression", "compression_level", "seed",
    ]  # fmt: skip


def test_encodings_are_stored_in_the_manifest_and_described(data: Dataset) -> None:
    assert open_dataset(data.folder) == data
    content = describe(data)
    assert json.loads(json.dumps(content)) == content
    assert [entry["column"] for entry in content["encodings"]] == ["city", "job", "age", "at", "member"]
    text = describe_text(data)
    assert "5 source columns make" in text
    assert "4 categories + missing" in text
    assert "8 categories + other" in text


def test_a_data_set_with_other_categories_is_refused(data: Dataset, tmp_path: Path) -> None:
    assert read_as(data, data.schema).schema.features == data.schema.features
    other = make_dataset(tmp_path, mixed(seed=1), rows_per_shard=300, scale="standard")
    for read in (lambda: read_as(other, data.schema), lambda: table_pieces(other, data.schema)):
        with pytest.raises(DataError, match=r"encoded differently .* Give the original source"):
            read()


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("city", [["a"]], r"column 'city' is of type list<.*requires text"),
        ("age", ["old"], r"column 'age' is of type (large_)?string, but the model requires a number"),
        (
            "at",
            ["soon"],
            r"column 'at' is of type (large_)?string, .* requires times\. Write dates such as 2026-12-31; in",
        ),
        ("at", [pd.Timestamp("2026-01-01", tz="UTC")], r"column 'at' is .*but the model requires times without a zone"),
    ],
)
def test_columns_of_a_wrong_kind_are_named(data: Dataset, column: str, values: list[Any], message: str) -> None:
    content = mixed(1).assign(**{column: values})
    with pytest.raises(DataError, match=message):
        check_columns(data.schema, pa.Table.from_pandas(content).schema, "new")


def test_message_for_a_wrong_kind_in_a_table_names_the_conversion(data: Dataset) -> None:
    for column, values, advice in (
        ("age", ["7"], r"In pandas: to_numeric\(rows\['age'\]\)\."),
        ("at", [pd.Timestamp("2026-01-01", tz="UTC")], r"In pandas: rows\['at'\]\.dt\.tz_localize\(None\)\."),
    ):
        content = mixed(1).assign(**{column: values})
        with pytest.raises(DataError, match=advice):
            check_columns(data.schema, pa.Table.from_pandas(content).schema, "table")


def test_shards_with_a_reference_get_its_inputs(data: Dataset, tmp_path: Path) -> None:
    later = mixed(200, seed=3).assign(city="Lima")
    source = parquet(tmp_path, pa.Table.from_pandas(later, preserve_index=False))
    ingested = ingest(source, tmp_path / "held", settings(target="label"), reference=data.schema).dataset
    assert replace(ingested.schema, class_counts=()) == replace(data.schema, class_counts=())
    cities = [name for name in ingested.schema.features if name.startswith("city=")]
    assert (stored_rows(ingested)[cities].to_numpy() == 0).all()
