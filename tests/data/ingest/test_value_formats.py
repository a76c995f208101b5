"""Numbers and dates in text give the same shards as plain ones, on any number of workers and by stored formats."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest import csv
from okl.data.ingest.run import check_source, ingest
from okl.data.ingest.value_formats import FormatTally, described, parse_dates, parse_numbers, tally_of
from okl.data.manifest import open_dataset
from okl.foundation.errors import DataError
from okl.models.inputs import inputs_of
from okl.models.pieces import read_table, table_pieces
from okl.runs.results import assumptions
from tests.data.sources import settings

SETTINGS = settings(missing="mean", dates="parts", rows_per_shard=100, rows_per_group=50)
ROWS = 600


def plain_rows() -> pd.DataFrame:
    random = np.random.default_rng(5)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 12, ROWS), unit="D")
    # only the last row shows the order of day and month
    days = days.where(np.arange(ROWS) < ROWS - 1, pd.Timestamp("2024-01-31"))
    price = (random.normal(0, 9000, ROWS)).round(2)
    price[7] = np.nan
    return pd.DataFrame(
        {
            "day": days.date,
            "price": price,
            "share": random.integers(0, 1000, ROWS) / 8,
            "size": random.normal(size=ROWS).round(3),
            "word": np.where(random.random(ROWS) < 0.5, "u", "v"),
            "y": (price > 0).astype(int),
        }
    )


def formatted_rows(points: bool) -> pd.DataFrame:
    """Return the same rows with numbers and dates formatted as in spreadsheets."""
    rows = plain_rows()
    mark = str.maketrans({}) if points else str.maketrans(",.", ".,")
    rows["price"] = ["" if np.isnan(value) else f"{value:,.2f} €".translate(mark) for value in rows["price"]]
    rows["share"] = [f"{value:g}%".translate(mark) for value in rows["share"]]
    rows["day"] = [f"{day:%m/%d/%Y}" if points else f"{day:%d.%m.%Y}" for day in rows["day"]]
    return rows


def as_lines(rows: pd.DataFrame) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows.to_dict("records"))


SOURCES: dict[str, tuple[str, Callable[[], str]]] = {
    "points": ("s.csv", lambda: formatted_rows(points=True).to_csv(index=False)),
    "commas": ("s.csv", lambda: formatted_rows(points=False).to_csv(index=False, sep=";", decimal=",")),
    "quoted": ("s.csv", lambda: formatted_rows(points=True).to_csv(index=False, quoting=1)),
    "packed": ("s.csv.gz", lambda: formatted_rows(points=False).to_csv(index=False, sep=";", decimal=",")),
    "json": ("s.jsonl", lambda: as_lines(formatted_rows(points=True))),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("plain")
    plain_rows().to_csv(folder / "s.csv", index=False)
    return ingest(folder / "s.csv", folder / "data", SETTINGS).dataset


def digests(data: Dataset) -> list[str]:
    return [shard.sha256 for shard in data.shards]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK_BYTES", 12_000)
    monkeypatch.setattr(csv, "RANGE_BYTES", 24_000)


@pytest.mark.parametrize(
    ("case", "reader"),
    [
        *((case, reader) for case in ("points", "commas", "json") for reader in ("one block", "small blocks")),
        *(("quoted", "small blocks"), ("packed", "one block"), ("json", "workers")),
    ],
)
def test_shards_equal_those_of_plain_numbers_and_dates(
    case: str, reader: str, expected: Dataset, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name, write = SOURCES[case]
    content = write().encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    execution: Execution | None = request.getfixturevalue("two_workers") if reader == "workers" else None
    if reader != "one block":
        request.getfixturevalue("small_blocks")
    data = ingest(tmp_path / name, tmp_path / "data", SETTINGS, execution=execution).dataset
    assert digests(data) == digests(expected)
    if reader == "one block":  # sums for means depend on the blocks
        assert data.schema.encodings == expected.schema.encodings
    formats = {form.column: (form.decimal, form.unit, form.order) for form in data.schema.formats}
    mark = "." if case in ("points", "quoted", "json") else ","
    order = "month" if mark == "." else "day"
    assert formats == {"price": (mark, "€", "year"), "share": (mark, "%", "year"), "day": (".", "", order)}
    again = ingest(tmp_path / name, tmp_path / "again", SETTINGS, reference=data.schema).dataset
    assert digests(again) == digests(expected)
    assert open_dataset(data.folder).schema == data.schema


def test_new_rows_are_read_by_the_stored_formats(tmp_path: Path) -> None:
    """Without stored formats, a single row would be read differently: 1.234 as a fraction, 3.4.2024 in any order."""
    rows = formatted_rows(points=False)
    rows.to_csv(tmp_path / "s.csv", index=False, sep=";", decimal=",")
    schema = ingest(tmp_path / "s.csv", tmp_path / "data", SETTINGS).dataset.schema
    new = {"day": "03/04/2024", "price": "1.234", "share": "5%", "size": 1.5, "word": "u"}
    (tmp_path / "new.csv").write_text(",".join(new) + "\n" + ",".join(map(str, new.values())) + "\n")
    (tmp_path / "new.jsonl").write_text(json.dumps(new) + "\n")
    value = {"day": datetime(2024, 4, 3).date(), "price": 1234.0, "share": 5.0, "size": 1.5, "word": "u"}
    for name in ("new.csv", "new.jsonl"):
        (piece,) = table_pieces(tmp_path / name, schema)
        assert [row for part in read_table(piece) for row in part.batch.to_pylist()] == [value]
    with pytest.warns(UserWarning, match="Dates are later than all training dates: 'day'"):
        from_text, from_values = (inputs_of(schema, pd.DataFrame([row]), "float32") for row in (new, value))
    np.testing.assert_array_equal(from_text, from_values)
    (tmp_path / "new.csv").write_text("day,price,share,size,word\n3.4.2024,1,5%,1,u\n4/31/2024,2,6%,1,v\n")
    with pytest.raises(DataError, match=r"'2\.5'\. The column seems to have decimal points: write its numbers as"):
        inputs_of(schema, pd.DataFrame([new | {"price": "2.5"}]), "float32")
    wrong = r"column 'day', row 1 .*: expected a date written day first, such as '.*', but it holds '4/31/2024'\."
    with pytest.raises(DataError, match=wrong):
        [*read_table(table_pieces(tmp_path / "new.csv", schema)[0])]


ZONED = ("2024-01-01T00:30:00+01:00", "2023-12-31T23:30:00Z", "2023-12-31 23:30:00 UTC", "2023-12-31 18:00:00.0-0530")


def test_times_with_a_zone_are_read_alike_from_text_and_csv(tmp_path: Path) -> None:
    day = [f"2024-0{1 + row % 9}-15T0{row % 7}:10:00{('+05:30', 'Z')[row % 2]}" for row in range(40)]
    rows = pd.DataFrame({"at": day, "a": np.arange(40.0), "y": np.arange(40) % 2})
    rows.to_csv(tmp_path / "s.csv", index=False)
    by_csv = ingest(tmp_path / "s.csv", tmp_path / "of csv", SETTINGS).dataset
    rows.to_parquet(text := tmp_path / "s.parquet")
    data = ingest(text, tmp_path / "of text", SETTINGS).dataset
    assert (digests(data), data.schema.encodings) == (digests(by_csv), by_csv.schema.encodings)
    again = ingest(text, tmp_path / "again", SETTINGS, reference=by_csv.schema).dataset
    assert digests(again) == digests(by_csv)
    zoned = pd.DataFrame({"at": ZONED, "a": 1.0})
    inputs = inputs_of(data.schema, zoned, "float32")
    np.testing.assert_array_equal(inputs, np.repeat(inputs[:1], 4, axis=0))
    np.testing.assert_array_equal(inputs, inputs_of(data.schema, zoned.assign(at=pd.Timestamp(ZONED[1])), "float32"))
    rows.loc[3, "at"] = "2024-01-01T00:30:00"
    rows.to_parquet(tmp_path / "mixed.parquet")
    with pytest.raises(DataError, match=r"'at', row 3 .*: expected a time with a zone .*, but it holds"):
        check_source(tmp_path / "mixed.parquet", SETTINGS)


def clocks(form: Callable[[int], Any]) -> pd.DataFrame:
    minutes = np.arange(0, 1440, 7)
    return pd.DataFrame({"at": map(form, minutes.tolist()), "a": np.arange(len(minutes)) / 2, "y": minutes % 2})


CLOCKS: dict[str, Callable[[int], Any]] = {
    "plain.csv": lambda at: f"{at // 60:02}:{at % 60:02}",
    "seconds.csv": lambda at: f"{at // 60:02}:{at % 60:02}:00",
    "halves.csv": lambda at: f"{(at // 60 + 11) % 12 + 1}:{at % 60:02} {'ap'[at // 720]}m",
    "mixed.csv": lambda at: f"{at // 60:02}:{at % 60:02}" if at < 700 else f"{at // 60:2}:{at % 60:02}",
    "lines.jsonl": lambda at: f"{at // 60:02}:{at % 60:02}:00.000",
    "text.parquet": lambda at: f"{at // 60}:{at % 60:02}",
    "typed.parquet": lambda at: time(at // 60, at % 60),
}


def write(rows: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".jsonl":
        path.write_text(as_lines(rows))
    else:
        rows.to_parquet(path) if path.suffix == ".parquet" else rows.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("calendar", [False, True])
def test_times_of_day_are_the_same_cycle_in_every_file(calendar: bool, tmp_path: Path) -> None:
    asked = settings(missing="mean", dates="calendar" if calendar else "parts")
    files = {name: write(clocks(form), tmp_path / name) for name, form in CLOCKS.items()}
    datas = {name: ingest(file, tmp_path / f"of {name}", asked).dataset for name, file in files.items()}
    first = datas["plain.csv"]
    turns = 2 * np.pi * np.arange(0, 1440, 7) / 1440
    inputs = inputs_of(first.schema, clocks(CLOCKS["plain.csv"]), "float64")
    np.testing.assert_allclose(inputs[:, :2], np.column_stack([np.sin(turns), np.cos(turns)]), atol=1e-6)
    assert first.schema.features[:3] == ("at:day_sin", "at:day_cos", "at:hour_00" if calendar else "a")
    assert open_dataset(first.folder).schema.format_version == 9
    for name, data in datas.items():
        assert digests(data) == digests(first), name
        for form in CLOCKS.values():
            np.testing.assert_array_equal(inputs_of(data.schema, clocks(form), "float64"), inputs)
    for name in ("plain.csv", "typed.parquet"):
        for other, file in files.items():
            again = ingest(file, tmp_path / f"{name} by {other}", asked, reference=datas[name].schema).dataset
            assert digests(again) == digests(first)
    with pytest.raises(
        DataError, match=r"'at', row 1 .*: expected a time of day, such as '00:00', but it holds '25:00'"
    ):
        inputs_of(first.schema, pd.DataFrame({"at": ["23:59", "25:00"], "a": 1.0}), "float64")
    with pytest.raises(DataError, match=r"the model requires times of day\. In pandas: rows\['at'\]\.dt\.time\."):
        inputs_of(first.schema, pd.DataFrame({"at": [pd.Timestamp("2026-01-01 08:30")], "a": 1.0}), "float64")


@pytest.mark.parametrize(
    ("texts", "seconds"),
    [(["1:25:15", "0:20:01", "12:00:00"], [5115, 1201, 43200]), (["125:30", "00:45", "23:59"], [7530, 45, 1439])],
)
def test_durations_are_numbers_in_units_of_their_last_part(
    texts: list[str], seconds: list[int], tmp_path: Path
) -> None:
    rows = pd.DataFrame({"took": texts * 20, "a": np.arange(60.0), "y": [0, 1] * 30})
    data = ingest(write(rows, tmp_path / "s.csv"), tmp_path / "data", SETTINGS).dataset
    assert data.schema.features == ("took", "a")
    assert data.schema.format_version == 9
    np.testing.assert_array_equal(inputs_of(data.schema, rows[:3], "float64")[:, 0], seconds)
    assert described(data.schema.formats[0]) == (
        f"text of took is read as durations in units of the last part: {texts[0]!r} is {seconds[0]}"
    )
    with pytest.raises(DataError, match=r"expected a duration, such as '.*', but it holds '90 minutes'"):
        inputs_of(data.schema, pd.DataFrame({"took": ["90 minutes"], "a": 1.0}), "float64")


def test_options_decide_ambiguous_formats(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text('d,a,y\n01/02/2026,"1,234",0\n03/04/2026,"5,678",1\n')

    def read(**options: Any) -> list[Any]:
        ingest_settings = settings(**options)
        data = ingest(tmp_path / "s.csv", tmp_path / "data", ingest_settings, overwrite=True).dataset
        return [(form.decimal, form.order) for form in data.schema.formats]

    assert read() == [(".", "year"), (".", "month")]
    assert read(decimal="comma", date_order="day") == [(".", "day"), (",", "year")]
    assert read(categories=("a", "d")) == []
    (tmp_path / "s.csv").write_text("d,y\n31/12/2026,0\n01/02/2026,1\n")
    with pytest.raises(DataError, match=r"row 0 .*expected a date written month first.*Write all dates alike"):
        check_source(tmp_path / "s.csv", settings(date_order="month"))


def test_line_ends_in_quotes_do_not_depend_on_block_boundaries(tmp_path: Path, small_blocks: None) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "parquet").mkdir()
    for number, row in enumerate((3, 1900, None)):  # in the first block, in a later block, in no block
        words = ["plain"] * 2000
        if row is not None:
            words[row] = "two\nlines,\n\nor three"
        rows = pd.DataFrame({"a": np.arange(2000.0), "word": words, "y": np.arange(2000) % 2})
        rows.to_csv(tmp_path / "csv" / f"{number}.csv", index=False)
        rows.to_parquet(tmp_path / "parquet" / f"{number}.parquet")
    datasets = [ingest(tmp_path / kind, tmp_path / f"of {kind}", settings()).dataset for kind in ("csv", "parquet")]
    assert digests(datasets[0]) == digests(datasets[1])


# Parsing compared with naive implementations.


def test_numbers_match_decimal() -> None:
    random = np.random.default_rng(0)
    drawn = zip(random.integers(-(10**12), 10**12, 300).tolist(), random.integers(0, 6, 300).tolist(), strict=True)
    values = [Decimal(value).scaleb(-places) for value, places in drawn]
    for decimal, group in ((".", ","), (",", "."), (".", "'"), (",", "\u202f"), (".", "")):
        shown = [f"{value:,}" if group else str(value) for value in values]
        swap = str.maketrans({",": group, ".": decimal})
        texts = [text.translate(swap) for text in shown]
        numbers, units = parse_numbers(pa.array([f"{text} %" for text in texts]), decimal)
        assert numbers.to_pylist() == [float(value) for value in values]
        assert set(units.to_pylist()) == {"%"}


def test_dates_match_datetime() -> None:
    random = np.random.default_rng(1)
    days, years = random.integers(0, 33, (2000, 2)).tolist(), random.integers(1890, 2110, 2000).tolist()
    texts = [f"{first}/{second}/{year}" for (first, second), year in zip(days, years, strict=True)]

    def naive(text: str, form: str) -> datetime | None:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            return None

    for order, form in (("day", "%d/%m/%Y"), ("month", "%m/%d/%Y")):
        dates = parse_dates(pa.array(texts), order).to_pylist()
        naive_dates = [naive(text, form) for text in texts]
        assert dates == naive_dates
        assert 0.2 < sum(value is not None for value in naive_dates) / len(texts) < 0.8


WORDS = settings(missing="mean", missing_words=("unknown", "-999"))


def rows_with_missing(word: Any, number: Any) -> pd.DataFrame:
    """Return rows with missing values in columns of numbers, prices and dates, and a text column with unknown."""
    rows = formatted_rows(points=True).head(200)
    rows["share"] = rows["share"].astype(object)
    rows.loc[rows.index % 9 == 0, ["share", "price", "day"]] = word
    rows.loc[rows.index % 7 == 0, "size"] = number
    rows.loc[rows.index % 5 == 0, "word"] = "unknown"
    return rows


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_words_and_numbers_that_mean_a_missing_value_are_missing(ending: str, tmp_path: Path) -> None:
    def write_rows(name: str, rows: pd.DataFrame) -> Path:
        path = tmp_path / f"{name}.{ending}"
        if ending == "csv":
            rows.to_csv(path, index=False)
        elif ending == "jsonl":
            rows.to_json(path, orient="records", lines=True)
        else:
            rows.to_parquet(path)
        return path

    with_nulls, with_words = rows_with_missing(None, np.nan), rows_with_missing("unknown", -999.0)
    expected = ingest(write_rows("plain", with_nulls), tmp_path / "expected", settings(missing="mean")).dataset
    data = ingest(write_rows("worded", with_words), tmp_path / "data", WORDS).dataset
    assert digests(data) == digests(expected)
    assert "unknown" in data.schema.encodings[-1].categories, "a text column keeps its values"
    assert open_dataset(data.folder).schema.missing_words == ("unknown", "-999")
    assert data.schema.format_version == 8
    assert expected.schema.format_version == 4, "older versions of okl read data sets without missing words"
    reingested = ingest(tmp_path / f"worded.{ending}", tmp_path / "again", WORDS, reference=data.schema).dataset
    assert digests(reingested) == digests(expected)
    inputs = inputs_of(expected.schema, with_nulls.drop(columns="y"), "float64")
    np.testing.assert_array_equal(inputs_of(data.schema, with_words.drop(columns="y"), "float64"), inputs)


def test_a_later_file_may_have_missing_words_in_new_columns(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": np.arange(60) / 8, "b": np.arange(60) % 7, "y": np.arange(60) % 2})
    rows.to_csv(tmp_path / "s.csv", index=False)
    schema = ingest(tmp_path / "s.csv", tmp_path / "data", WORDS).dataset.schema
    rows["a"] = ["unknown" if row % 3 == 0 else f"{row / 8}" for row in range(60)]
    rows.to_csv(tmp_path / "later.csv", index=False)
    rows.to_parquet(tmp_path / "later.parquet")
    numbers = rows.assign(a=pd.to_numeric(rows["a"], errors="coerce"))
    with pytest.warns(UserWarning, match=r"'a' \(20 rows\)"):
        inputs = [inputs_of(schema, table[["a", "b"]], "float64") for table in (rows, numbers)]
    np.testing.assert_array_equal(*inputs)
    for name in ("later.csv", "later.parquet"):
        (piece,) = table_pieces(tmp_path / name, schema)
        (batch,) = read_table(piece)
        assert batch.batch["a"].null_count == 20
    with pytest.raises(DataError, match="column 'a'"):
        ingest(tmp_path / "later.csv", tmp_path / "refused", SETTINGS, reference=replace(schema, missing_words=()))


def test_format_tallies_do_not_depend_on_batches() -> None:
    column = pa.array([*formatted_rows(points=True)["price"][:50], "x", None, "NA", "1,5", "", "31/12/2026"])
    total = tally_of(column, "f", 0)
    for cut in (1, 20, 51):
        parts = tally_of(column[:cut], "f", 0).plus(tally_of(column[cut:], "f", cut))
        assert parts == total
    assert FormatTally().plus(total) == total
    assert total.counts["value"] == len(column) - 4


def test_all_columns_with_words_among_numbers_are_named_at_once(tmp_path: Path) -> None:
    lines = ["q 1,q2,d,a,y", *(f"{row},{row},2026-01-0{1 + row % 9},{row},{row % 2}" for row in range(30))]
    lines[5] = "don't know,4,2026-01-05,4,0"
    lines[7] = "6,?,never,6,0"
    lines[8] = "7,none of these,2026-01-07,7,1"
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(
        DataError,
        match=r"'q 1', row 4 .*or use --category 'q 1' or --drop 'q 1'\. If it means a missing value: "
        r"--missing-word 'don.*\. Refused, too: q2, d\.$",
    ):
        check_source(tmp_path / "s.csv", settings())


def test_numbers_with_one_unit_are_numbers(tmp_path: Path) -> None:
    rows = pd.DataFrame({"mass": [f"{row / 2} kg" for row in range(60)], "y": [0, 1] * 30})
    rows["age"] = ["NA", *(f"{row % 40} day{'s' * (row % 40 != 1)}" for row in range(1, 60))]
    rows["speed"] = [f"{row},5km/h" for row in range(60)]
    rows["flat"] = [f"{row % 5}{'abb'[row % 3]}" for row in range(60)]
    rows["size"] = [f"{row % 5} kg" for row in range(59)] + ["500 g"]
    rows.to_csv(tmp_path / "s.csv", index=False)
    data = ingest(tmp_path / "s.csv", tmp_path / "data", SETTINGS).dataset
    kinds = {encoding.column: encoding.kind for encoding in data.schema.encodings}
    assert {name for name, kind in kinds.items() if kind == "category"} == {"flat", "size"}
    assert open_dataset(data.folder).schema.format_version == 9
    told = "text of mass is read as numbers with decimal points: '0.0 kg' is 0 (--category)"
    assert told in assumptions(data, SETTINGS)
    place = [data.schema.features.index(name) for name in ("mass", "age", "speed")]
    np.testing.assert_array_equal(inputs_of(data.schema, rows[1:3], "float64")[:, place], [[0.5, 1, 1.5], [1, 2, 2.5]])
    for odd in ("3.5 lb", "3.5", "3.5 KG"):
        wrong = rf"'mass', row 0 .*: expected a number with kg, such as '0.0 kg', but it holds '{odd}'. Correct"
        with pytest.raises(DataError, match=wrong):
            inputs_of(data.schema, rows[:1].assign(mass=odd), "float64")


def test_digits_with_leading_zeros_are_categories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_workers: Execution
) -> None:
    """Postal codes; but padded counters, which differ in all rows, and digits of several widths are numbers."""
    monkeypatch.setattr(csv, "BLOCK_BYTES", 4_000)  # the last row is in another one
    zips = [f"{1000 + row % 7:05}" for row in range(ROWS - 1)] + ["10115"]
    rows = pd.DataFrame({"zip": zips, "count": [f"{row:04}" for row in range(ROWS)], "y": np.arange(ROWS) % 2})
    rows["late"] = [*["0501"] * (ROWS - 1), "12"]
    rows.to_csv(tmp_path / "s.csv", index=False)
    data = ingest(tmp_path / "s.csv", tmp_path / "data", SETTINGS).dataset
    on_workers = ingest(tmp_path / "s.csv", tmp_path / "on workers", SETTINGS, execution=two_workers).dataset
    assert digests(on_workers) == digests(data)
    categories = {encoding.column: encoding.categories for encoding in data.schema.encodings if encoding.categories}
    assert categories == {"zip": tuple(sorted({*zips}))}
    assert data.schema.features[-2:] == ("count", "late")
    told = "digits of zip have leading zeros, so they are categories (numbers have none)"
    assert told in assumptions(data, SETTINGS)
    new = rows[:9].astype({"count": int, "late": int})
    inputs = [inputs_of(data.schema, table, "float32") for table in (new, new.astype({"zip": int}))]
    np.testing.assert_array_equal(*inputs)
    asked = SETTINGS.model_copy(update={"categories": ("zip",)})
    assert told not in assumptions(ingest(tmp_path / "s.csv", tmp_path / "given", asked).dataset, asked)


def test_a_column_of_numbers_stored_as_text_is_named_as_such(tmp_path: Path) -> None:
    random = np.random.default_rng(2).normal(size=300)
    rows = pd.DataFrame({"t": [f"{value:.4f}" for value in random], "a": random, "y": np.arange(300) % 2})
    rows.to_parquet(tmp_path / "s.parquet")
    (warning,) = ingest(tmp_path / "s.parquet", tmp_path / "data", settings()).dataset.warnings
    assert warning.startswith("Column 't' is left out: its 299 different values are numbers stored as text. Store them")
