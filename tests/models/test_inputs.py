from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.ingest import csv
from okl.data.ingest.run import ingest
from okl.data.ingest.sources import SourceBatch
from okl.data.order import plan_windows
from okl.data.reading import load_window
from okl.foundation.errors import DataError
from okl.foundation.types import Precision
from okl.models.inputs import NO_TARGET, RawRows, check_columns, inputs_of, prepare_rows, replaced_sentences
from okl.models.pieces import TablePiece, read_table, table_pieces
from tests.data.sources import parquet, replaced, settings, table


def make_data(folder: Path, content: pa.Table, **values: Any) -> Dataset:
    return ingest(parquet(folder, content), folder / "data", settings(scale="standard", **values)).dataset


def batch(content: pa.Table) -> SourceBatch:
    return SourceBatch("new.parquet", 40, content.combine_chunks().to_batches()[0])


def prepared(data: Dataset, content: pa.Table, precision: Precision = "float32") -> RawRows:
    check_columns(data.schema, content.schema, "new.parquet", with_targets=True)
    return prepare_rows(data.schema, batch(content), precision, with_targets=True)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("labels", [["u", "v"], [3, 5, 4], [True, False], None])
def test_raw_rows_give_the_same_bits_as_a_data_set(
    tmp_path: Path, labels: list[Any] | None, precision: Precision
) -> None:
    content = table(400)
    values = np.linspace(-3, 9, 400) if labels is None else [labels[i * i % len(labels)] for i in range(400)]
    if labels is not None and len(labels) == 3:
        values = [labels[i % 3] for i in range(400)]
    content = replaced(content, "y", values)
    data = make_data(tmp_path, content)
    rows = load_window(data, plan_windows(data.shards, 5, "stored", ())[0], precision)
    raw = prepared(data, content.append_column("more", pa.array(["x"] * 400)).select([5, 6, 4, 3, 2, 1, 0]), precision)
    np.testing.assert_array_equal(raw.inputs, rows.inputs)
    assert raw.targets is not None
    np.testing.assert_array_equal(raw.targets, rows.targets)
    assert raw.inputs.dtype == precision
    assert raw.complete is None


def test_missing_columns_are_named(tmp_path: Path) -> None:
    data = make_data(tmp_path, table(100))
    content = table(100).rename_columns(["a", "b", "cc", "d", "ee", "y"])
    with pytest.raises(DataError, match=r"new: the model requires 5 columns, and 2 of them are missing: 'c', 'e'"):
        check_columns(data.schema, content.schema, "new")
    spelled = table(100).rename_columns(["a", "b", " C", "d", "e", "y"])
    with pytest.raises(DataError, match=r"1 of them is missing: 'c'\. Did you mean ' C'\?"):
        check_columns(data.schema, spelled.schema, "new")
    unnamed = table(100).rename_columns(["0.35", "0.41", "-2", "7", "1", "0"])
    with pytest.raises(DataError, match=r"Its columns are 0.35, 0.41, -2, 7, 1. If 0.35 is a value, add a header line"):
        check_columns(data.schema, unnamed.schema, "new")
    with pytest.raises(DataError, match=r"no target column 'y', .* The other 5 columns exist"):
        check_columns(data.schema, table(100).drop_columns(["y"]).schema, "new", with_targets=True)
    check_columns(data.schema, table(100).drop_columns(["y"]).schema, "new")
    with pytest.raises(DataError, match=r"column 'b' is of type string"):
        check_columns(data.schema, replaced(table(100), "b", ["x"] * 100).schema, "new")


def with_missing_values() -> pa.Table:
    values = table(100).column("b").to_pylist()
    values[3] = None
    return replaced(table(100), "b", values)


def test_a_missing_value_follows_the_policy_of_the_model(tmp_path: Path) -> None:
    filled = make_data(tmp_path, table(100))
    data = replace(filled, schema=replace(filled.schema, missing="error"))
    with pytest.raises(DataError, match=r"new\.parquet: column 'b' has no value \(null or NaN\) in row 43 "):
        prepared(data, with_missing_values())
    more = replaced(with_missing_values(), "c", [*table(100).column("c").to_pylist()[:99], None])
    with pytest.raises(
        DataError, match=r"column 'b' has .* row 43 .* rows read, .*% miss 'b', .*% miss 'c'\. Fill .* --missing drop"
    ):
        prepared(data, more)
    zero = replace(data, schema=replace(data.schema, missing="zero"))
    shift, factor = data.schema.shift_and_factor
    assert prepared(zero, with_missing_values(), "float64").inputs[3, 1] == (0 - shift[1]) * factor[1]
    assert (filled.schema.missing, filled.schema.encodings) == ("mean", ())
    mean = np.float32(filled.schema.feature_statistics[1].mean)
    assert prepared(filled, with_missing_values(), "float64").inputs[3, 1] == pytest.approx(
        (mean - shift[1]) * factor[1]
    )
    gap = np.column_stack([table(100)[name].to_numpy() for name in filled.schema.features])
    gap[3, 1] = np.nan
    with pytest.warns(UserWarning, match=r"replaced by training means .* 'b' \(1 row\)"):
        inputs = inputs_of(filled.schema, gap, "float64")
    np.testing.assert_array_equal(inputs[3], prepared(filled, with_missing_values(), "float64").inputs[3])
    drop = replace(data, schema=replace(data.schema, missing="drop"))
    raw = prepared(drop, with_missing_values())
    assert raw.complete is not None
    assert np.flatnonzero(~raw.complete).tolist() == [3]
    assert len(raw.inputs) == 100
    assert np.isfinite(raw.inputs).all()


@pytest.mark.parametrize("policy", ["error", "zero", "drop"])
def test_an_infinite_value_is_an_error_under_every_policy(tmp_path: Path, policy: Any) -> None:
    data = make_data(tmp_path, table(100))
    data = replace(data, schema=replace(data.schema, missing=policy))
    values = table(100).column("b").to_numpy().copy()
    values[9] = np.inf
    with pytest.raises(DataError, match=r"new\.parquet: column 'b' is infinite or beyond float32 .* in row 49 "):
        prepared(data, replaced(table(100), "b", values))


@pytest.mark.parametrize(
    ("labels", "new", "remedy"),
    [
        (["u", "v"], "w", "Remove such rows"),
        (["u", "v"], "V ", "It differs from 'v' in case or spaces only: write labels as in training"),
        ([1, 2, 4], 3, "Remove such rows"),
        ([1, 2], 1.5, "Remove such rows"),
    ],
)
def test_a_label_never_seen_in_training_is_named(tmp_path: Path, labels: list[Any], new: Any, remedy: str) -> None:
    values = [labels[i % len(labels)] for i in range(100)]
    data = make_data(tmp_path, replaced(table(100), "y", values))
    later = pa.array([*values[:-1], new])
    with pytest.raises(
        DataError,
        match=rf"new\.parquet: target 'y' is '?{new}'? in row 139 .* which is not a label of training: .*\. {remedy}",
    ):
        prepared(data, replaced(table(100), "y", later))


def test_targets_of_another_kind_are_an_error_and_rows_without_one_are_incomplete(tmp_path: Path) -> None:
    data = make_data(tmp_path, table(100))
    with pytest.raises(DataError, match=r"target 'y' is of type string, but the model was trained on numbers"):
        check_columns(data.schema, replaced(table(100), "y", ["1"] * 100).schema, "new", with_targets=True)
    absent = replaced(table(100), "y", [1, None] * 50)
    for schema in (data.schema, replace(data.schema, missing="drop")):
        raw = prepared(replace(data, schema=schema), absent)
        assert raw.complete is not None
        assert raw.complete.tolist() == [True, False] * 50
        assert raw.replaced == {NO_TARGET: 50}


def rows_of(pieces: tuple[TablePiece, ...], columns: list[str]) -> pa.Table:
    return pa.Table.from_batches([part.batch for piece in pieces for part in read_table(piece, columns, 70)])


def test_pieces_of_a_source_hold_all_rows_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("okl.models.pieces.PIECE_ROWS", 250)
    content = table(1000, id=np.arange(1000))
    pieces = table_pieces(parquet(tmp_path, content, row_group_size=100))
    assert [piece.rows for piece in pieces] == [200] * 5
    assert [piece.index for piece in pieces] == [0, 1, 2, 3, 4]
    assert rows_of(pieces, ["id", "c"]).equals(content.select(["id", "c"]))
    pacsv.write_csv(content, tmp_path / "s.csv")
    (piece,) = table_pieces(tmp_path / "s.csv")
    assert piece.kind == "csv"
    assert rows_of((piece,), ["id"]).num_rows == 1000


def test_a_long_csv_file_is_read_in_pieces_by_types_that_fit_all_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = table(600, id=[str(row) if row < 300 else f"row {row}" for row in range(600)])
    pacsv.write_csv(content, tmp_path / "s.csv")
    whole = table_pieces(tmp_path / "s.csv")
    assert len(whole) == 1
    for name, size in (("BLOCK_BYTES", 4000), ("RANGE_BYTES", 16_000)):
        monkeypatch.setattr(csv, name, size)
    pieces = table_pieces(tmp_path / "s.csv")
    assert len(pieces) > 2
    assert sum(piece.rows or 0 for piece in pieces) == 600
    assert rows_of(pieces, ["id", "c"]).equals(rows_of(whole, ["id", "c"]))
    firsts = [rows.first_row for piece in pieces for rows in read_table(piece, ["id"])]
    assert firsts == sorted({0, *firsts})
    with pytest.raises(DataError, match="column 'id'"):
        rows_of(table_pieces(tmp_path / "s.csv", look=False), ["id"])
    with (tmp_path / "s.csv").open("a") as file:
        file.write("1,2,3\n")
    with pytest.raises(DataError, match=r"row 600 \(counted from 0\): expected 7 values, got 3"):
        rows_of(table_pieces(tmp_path / "s.csv"), ["a"])


def test_a_file_in_latin_1_is_refused_with_advice(tmp_path: Path) -> None:
    content = pa.table({"city": ["Zürich", "Genf"] * 20, "x": np.arange(40.0), "y": np.arange(40) % 2})
    data = ingest(parquet(tmp_path, content), tmp_path / "data", settings()).dataset
    new = tmp_path / "new.csv"
    new.write_bytes("city,x\nZürich,1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"column 'city', row 0 .* are not UTF-8 text\. Save as CSV UTF-8"):
        rows_of(table_pieces(new, data.schema), ["city"])


def test_pieces_of_a_data_set_carry_keys_and_labels_as_they_were(tmp_path: Path) -> None:
    words = np.array(["late", "early"])[np.arange(500) % 2]
    content = replaced(table(500, id=np.arange(500)), "y", words)
    data = make_data(tmp_path, content, keys=("id",), rows_per_shard=120, rows_per_group=50)
    pieces = table_pieces(data.folder)
    assert pieces == table_pieces(data)
    read = rows_of(pieces, ["id", "y", "a"])
    assert read.cast(content.select(["id", "y", "a"]).schema).equals(content.select(["id", "y", "a"]))
    assert str(pieces[0].schema.field("y").type) == "string"
    assert pq.read_schema(data.path(data.shards[0])).field("y").type == pa.float64()
    rows = load_window(data, plan_windows(data.shards, 5, "stored", ())[0], "float32")
    whole = prepared(data, rows_of(pieces, list(content.column_names)))
    np.testing.assert_array_equal(whole.inputs, rows.inputs)
    np.testing.assert_array_equal(whole.targets, rows.targets)


def test_unknown_values_of_a_text_column_are_named_in_files_and_tables(tmp_path: Path) -> None:
    words = ["red", "blue", "green"] * 40
    content = pa.table({"colour": words, "x": np.arange(120.0), "y": np.arange(120) % 2})
    data = ingest(parquet(tmp_path, content), tmp_path / "data", settings()).dataset

    def warnings_for(colours: Sequence[str | None]) -> list[str]:
        schema, n = data.schema, len(colours)
        rows = pa.table({"colour": pa.array(colours, pa.string()), "x": np.arange(float(n)), "y": np.arange(n) % 2})
        return replaced_sentences(prepare_rows(schema, batch(rows), "float32").replaced, schema)

    assert warnings_for([*words, None]) == []
    assert "'colour' in 1 of 121 rows, such as 'RED'." in warnings_for([*words, "RED"])[0]
    (sentence,) = warnings_for(["RED"] * 3 + ["BLUE"] * 2 + ["A", "B"] + ["red", None, "blue"])
    assert sentence == (
        "Values of text columns are unknown to the model: 'colour' in 7 of 10 rows, such as 'RED', 'BLUE', 'A'. "
        "Such rows are scored without them; check the spelling."
    )
    with pytest.warns(UserWarning, match="'colour' in 1 of 1 rows, such as 'RED'"):
        inputs_of(data.schema, pa.table({"colour": ["RED"], "x": [1.0]}), "float32")


def test_missing_numbers_and_later_dates_that_training_did_not_have_warn_in_memory(tmp_path: Path) -> None:
    days = np.datetime64("2026-01-01", "D") + np.arange(120)
    content = pa.table({"x": np.arange(120.0), "day": pa.array(days), "y": np.arange(120) % 2})
    data = ingest(parquet(tmp_path, content), tmp_path / "data", settings(missing="mean", dates="parts")).dataset
    absent = pa.table({"x": pa.array([None, 1.0]), "day": pa.array(days[:2])})
    with pytest.warns(UserWarning, match=r"replaced by training means .* 'x' \(1 row\)"):
        inputs_of(data.schema, absent, "float32")
    with pytest.warns(UserWarning, match=r"later than all training dates: 'day' \(2 rows\)"):
        inputs_of(data.schema, pa.table({"x": [0.0, 1.0], "day": pa.array(days[:2] + 200)}), "float32")
    (tmp_path / "plain").mkdir()
    plain = ingest(parquet(tmp_path / "plain", content.drop(["day"])), tmp_path / "numbers", settings(missing="mean"))
    with pytest.warns(UserWarning, match=r"replaced by training means .* 'x' \(1 row\)"):
        inputs_of(plain.dataset.schema, np.array([[np.nan], [1.0]]), "float32")


def test_dates_are_named_only_if_more_rows_are_later_than_a_random_split_explains(tmp_path: Path) -> None:
    days = np.datetime64("2026-01-01", "D") + np.arange(120)
    content = pa.table({"day": pa.array(days), "y": np.arange(120) % 2})
    data = ingest(parquet(tmp_path, content), tmp_path / "data", settings(missing="mean", dates="parts")).dataset

    def warnings_for(later: int, rows: int) -> list[str]:
        table = pa.table({"day": pa.array(np.r_[days[:1].repeat(rows - later), days[:later] + 200])})
        parts = [batch(part) for part in (table[: rows // 2], table[rows // 2 :]) if part.num_rows]
        replaced = [prepare_rows(data.schema, part, "float32").replaced for part in parts]
        return replaced_sentences(sum(replaced, Counter()), data.schema)

    assert warnings_for(2, 30) == [], "0.2 ** 2 > 0.01"
    assert "'day' (3 rows)" in warnings_for(3, 30)[0]
    assert "'day' (1 row)" in warnings_for(1, 1)[0]


def test_new_values_give_no_warning_where_training_had_many_values_of_one_row(tmp_path: Path) -> None:
    words = ["red", "blue"] * 55 + [f"w{k}" for k in range(10)]
    content = pa.table({"word": words, "x": np.arange(120.0), "y": np.arange(120) % 2})
    data = ingest(parquet(tmp_path, content), tmp_path / "data", settings()).dataset
    assert not data.schema.encodings[0].other

    def warnings_for(new: int) -> list[str]:
        rows = pa.table({"word": ["new"] * new + ["red"] * (120 - new), "x": np.arange(120.0)})
        return replaced_sentences(prepare_rows(data.schema, batch(rows), "float32").replaced, data.schema)

    assert warnings_for(22) == []
    assert "'word' in 23 of 120 rows" in warnings_for(23)[0]


def test_values_that_were_rare_in_training_give_no_warning(tmp_path: Path) -> None:
    words = [f"w{k // 3:03d}" for k in range(300)]
    content = pa.table({"word": words, "x": np.arange(300.0), "y": np.arange(300) % 2})
    data = ingest(parquet(tmp_path, content), tmp_path / "data", settings(max_categories=10)).dataset
    raw = prepare_rows(data.schema, batch(content), "float32")
    assert raw.replaced
    assert replaced_sentences(raw.replaced, data.schema) == []

    def warnings_for(words: Sequence[str]) -> list[str]:
        rows = pa.table({"word": words, "x": np.arange(float(len(words)))})
        return replaced_sentences(prepare_rows(data.schema, batch(rows), "float32").replaced, data.schema)

    share = data.schema.feature_statistics[data.schema.features.index(data.schema.encodings[0].inputs[10])].mean
    assert 0.5 < share < 0.97
    assert warnings_for(words[:30] + ["new"] * 10) == []
