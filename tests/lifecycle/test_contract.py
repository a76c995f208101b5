from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from okl.data.dataset import ColumnStatistics, Schema
from okl.data.ingest.run import ingest
from okl.foundation.settings import IngestSettings
from okl.lifecycle import profile
from okl.lifecycle.contract import (
    KINDS,
    baseline_of,
    has_vanished,
    label_distance,
    stopped_changing,
    two_valued,
    unreadable,
)
from okl.lifecycle.profile import MOST_HASHES, RowHashes
from okl.lifecycle.settings import ContractSettings
from okl.lifecycle.shard_store import ShardStore
from tests.data.mixed import mixed
from tests.data.sources import replaced
from tests.lifecycle.shards import LIMITS, ROWS, SETTINGS, content, first_schema, land, validated


def moved(name: str, change: Callable[[Any], Any]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: replaced(table, name, change(table[name].to_numpy().copy()))


def with_holes(share: float) -> Callable[[Any], Any]:
    return lambda values: np.where(np.random.default_rng(0).random(len(values)) < share, np.nan, values)


BAD: list[tuple[str, Callable[[pa.Table], pa.Table], str]] = [
    ("missing-column", lambda table: table.drop_columns(["x1"]), r"lacks 1 of 6 columns: x1\.$"),
    (
        "missing-column",
        lambda table: table.rename_columns(["x" if name == "x1" else name for name in table.column_names]),
        r"lacks 1 of 6 columns: x1\. Others are unknown, perhaps renamed: x\.$",
    ),
    ("other-type", lambda table: replaced(table, "x1", ["word"] * table.num_rows), "x1 is string .*'word' in row 0,"),
    ("other-type", lambda table: replaced(table, "x1", [None, "7", "1,5"] * 200), "'1,5' in row 2, counted"),
    ("other-type", lambda table: replaced(table, "x1", ["", "7", "NA", "1,5"] * 150), "'1,5' in row 3, counted"),
    ("other-type", lambda table: replaced(table, "x1", ["7"] * table.num_rows), "x1 is string\\.$"),
    ("other-type", lambda table: replaced(table, "y", ["word"] * table.num_rows), "y is string"),
    ("too-few-rows", lambda table: table.slice(0, 20), "20 rows; expected at least 50"),
    ("unknown-label", moved("y", lambda y: np.where(np.arange(len(y)) < 3, 7, y)), "'7'|7 \\(3 rows\\)"),
    ("label-shares", lambda table: table.filter(pa.compute.greater(table["y"], 0)), "-1 was .* and is 0.0%"),
    ("out-of-range", moved("x0", lambda x: np.where(np.arange(len(x)) % 5 == 0, -999, x)), "x0 in 20.0% of rows"),
    ("mean-shift", moved("x1", lambda x: x + 273.15), r"x1 by \+\d+"),
    ("missing-values", moved("x2", with_holes(0.1)), "x2 in 9.0% of rows; expected none"),
    ("missing-targets", moved("y", lambda y: np.where(np.arange(len(y)) < 3, np.nan, y)), "in 3 of 600 rows"),
    ("infinite-values", moved("x2", lambda x: np.where(np.arange(len(x)) == 5, np.inf, x)), "x2 in 1 row"),
    ("constant-column", moved("x0", lambda x: np.full(len(x), 0.25)), "x0 is always 0.25"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spoil", "pattern"), BAD, ids=[f"{kind}-{i}" for i, (kind, _, _) in enumerate(BAD)])
def test_a_bad_shard_is_quarantined_for_the_right_reason(
    tmp_path: Path, schema: Schema, kind: str, spoil: Callable[[pa.Table], pa.Table], pattern: str
) -> None:
    assert kind in KINDS
    store = ShardStore(tmp_path / "data")
    rows = 3 * ROWS if kind == "label-shares" else ROWS
    limits = ContractSettings(label_distance=0.3)
    record = validated(store, land(tmp_path / "landing", "day-1.parquet", spoil(content(1, rows))), schema, limits)
    assert record.status == "quarantined"
    assert kind in [finding.kind for finding in record.findings]
    (finding,) = [finding for finding in record.findings if finding.kind == kind]
    assert re.search(pattern, finding.sentence), finding.sentence
    assert finding.figures
    assert not (tmp_path / "data" / record.key).exists()
    assert store.records() == {record.sha256: record}


@pytest.mark.parametrize(
    ("name", "spoil", "kind"),
    [
        ("cut.parquet", lambda whole: whole[: len(whole) // 2], "unreadable"),
        ("other.parquet", lambda whole: b"hello" * 100, "unreadable"),
        ("changed.parquet", lambda whole: whole[:400] + bytes(60) + whole[460:], "unreadable"),
        ("nothing.parquet", lambda whole: b"", "empty"),
        ("header.csv", lambda whole: b"x0,x1,x2,x3,hour,y\n", "empty"),
        ("words.csv", lambda whole: b"x0,x1,x2,x3,hour,y\n1,2,3,4,5,1\n" * 2, "other-type"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_finding_and_no_error(
    tmp_path: Path, schema: Schema, name: str, spoil: Callable[[bytes], bytes], kind: str
) -> None:
    path = land(tmp_path / "landing", name, content(1), compression="gzip")
    path.write_bytes(spoil(path.read_bytes()))
    record = validated(ShardStore(tmp_path / "data"), path, schema)
    assert (record.status, [finding.kind for finding in record.findings]) == ("quarantined", [kind])


def test_a_vanished_label_is_a_finding_unless_chance_explains_it(tmp_path: Path, schema: Schema) -> None:
    rare, whole = np.array([980, 20]), np.array([4000, 0])
    assert has_vanished(rare, whole, 1, 1e-6)
    assert not has_vanished(rare, whole, 0, 1e-6)
    assert not has_vanished(rare, whole // 20, 1, 1e-6)  # 4 of 200 rows were expected
    assert not has_vanished(np.array([1000, 0]), whole, 1, 1e-6)
    table = content(1).filter(pa.compute.greater(content(1)["y"], 0))
    path, limits = land(tmp_path / "landing", "day-1.parquet", table), ContractSettings(label_distance=0.9)
    (finding,) = validated(ShardStore(tmp_path / "data"), path, schema, limits).findings
    assert finding.kind == "label-shares"
    assert re.search(r"no row has the label -1 \(\d\d\.\d\d% of the rows so far\)", finding.sentence)


def test_a_file_that_cannot_be_read_is_named_once() -> None:
    found = unreadable("a b.csv.gz", "/in/a b.csv.gz cannot be unpacked as gzip: cut. Write it again.")
    assert found.sentence == "a b.csv.gz cannot be unpacked as gzip: cut. Write it again."
    other = unreadable("day.csv", "Column 'x' of /in/day.csv holds words.")
    assert other.sentence == "day.csv cannot be read: Column 'x' of /in/day.csv holds words."


def test_a_shard_without_rows_is_empty(tmp_path: Path, schema: Schema) -> None:
    record = validated(
        ShardStore(tmp_path / "data"), land(tmp_path / "in", "day.parquet", content(1).slice(0, 0)), schema
    )
    assert [finding.kind for finding in record.findings] == ["empty"]


def test_the_same_rows_in_other_bytes_are_a_duplicate(tmp_path: Path, schema: Schema) -> None:
    store, table = ShardStore(tmp_path / "data"), content(1)
    first = validated(store, land(tmp_path / "in", "day-1.parquet", table), schema)
    again = validated(store, land(tmp_path / "in", "day-1-again.parquet", table, compression="gzip"), schema)
    pacsv.write_csv(table, tmp_path / "in" / "day-1.csv")
    text = validated(store, tmp_path / "in" / "day-1.csv", schema)
    assert first.status == "accepted"
    assert (again.status, again.of, text.status, text.of) == ("duplicate", first.sha256) * 2
    assert len({first.sha256, again.sha256, text.sha256}) == 3
    assert [record.key for record in store.accepted()] == [first.key]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_times_that_are_not_finite_are_ignored(value: float, tmp_path: Path, schema: Schema) -> None:
    store, table = ShardStore(tmp_path / "data"), content(1)
    none = replaced(table, "hour", np.full(ROWS, value))
    known = validated(store, land(tmp_path / "in", "day-1.parquet", none), schema, time_column="hour")
    assert (known.first_time, known.last_time) == (None, None)
    some = replaced(table, "hour", np.where(np.arange(ROWS) < 9, value, table["hour"].to_numpy()))
    known = validated(store, land(tmp_path / "in", "day-2.parquet", some), schema, time_column="hour")
    assert 24 < known.first_time < known.last_time < 48  # type: ignore[operator]


def test_a_shard_older_than_the_learnt_rows_is_late(tmp_path: Path, schema: Schema) -> None:
    store, path = ShardStore(tmp_path / "data"), land(tmp_path / "in", "day-1.parquet", content(1))
    baseline = replace(baseline_of(schema, []), watermark=72.0)
    late = validated(store, path, schema, baseline=baseline, time_column="hour")
    assert [finding.kind for finding in late.findings] == ["late"]
    assert 24 < late.first_time < late.last_time < 48  # type: ignore[operator]
    allowed = validated(store, path, schema, ContractSettings(late=True), baseline=baseline, time_column="hour")
    assert allowed.status == "accepted"
    named = land(tmp_path / "in", "2026-11-20.parquet", content(2))
    dated = validated(store, named, schema, baseline=replace(baseline, watermark="2026-11-21"))
    assert ([finding.kind for finding in dated.findings], dated.last_time) == (["late"], "2026-11-20")


def test_extra_columns_are_ignored_unless_the_contract_forbids_them(tmp_path: Path, schema: Schema) -> None:
    store, more = ShardStore(tmp_path / "data"), content(1).append_column("more", pa.array(np.arange(ROWS)))
    path = land(tmp_path / "in", "day-1.parquet", more)
    strict = validated(store, path, schema, ContractSettings(extra_columns=False))
    assert [finding.kind for finding in strict.findings] == ["extra-column"]
    assert validated(store, path, schema).status == "accepted"


def test_too_many_rows_are_a_finding(tmp_path: Path, schema: Schema) -> None:
    path = land(tmp_path / "in", "day-1.parquet", content(1))
    record = validated(ShardStore(tmp_path / "data"), path, schema, ContractSettings(max_rows=100))
    assert [finding.kind for finding in record.findings] == ["too-many-rows"]


@pytest.mark.parametrize(
    ("column", "missing", "finding"), [("x2", "drop", "missing-values"), ("y", "mean", "missing-targets")]
)
def test_few_incomplete_rows_are_left_out_and_many_are_refused(
    column: str, missing: Any, finding: str, tmp_path: Path, schema: Schema
) -> None:
    store, lenient = ShardStore(tmp_path / "data"), replace(schema, missing=missing)
    few = land(tmp_path / "in", "few.parquet", moved(column, with_holes(0.03))(content(1)))
    many = land(tmp_path / "in", "many.parquet", moved(column, with_holes(0.3))(content(2)))
    accepted, quarantined = validated(store, few, lenient), validated(store, many, lenient)
    assert accepted.status == "accepted"
    assert 0 < ROWS - accepted.train_rows - accepted.test_rows < 0.05 * ROWS
    assert [one.kind for one in quarantined.findings] == [finding]
    assert "expected at most 5.0%" in quarantined.reason


def test_valid_shards_are_accepted_with_any_compression(tmp_path: Path) -> None:
    words = first_schema(tmp_path, text=True)
    store = ShardStore(tmp_path / "data")
    for day in range(1, 13):
        path = land(tmp_path / "in", f"day-{day:02d}.parquet", content(day, text=True), compression="gzip")
        record = validated(store, path, words)
        assert (record.status, record.findings) == ("accepted", ()), record.reason
    assert sum(sum(record.class_counts) for record in store.accepted()) == 12 * ROWS


def test_a_column_of_two_values_is_recognised_by_its_statistics() -> None:
    random = np.random.default_rng(3)
    for share in (0.001, 0.3, 0.97):
        values = np.where(random.random(5000) < share, 7.0, -2.0)
        assert two_valued(statistics(values))
    assert not two_valued(statistics(random.random(5000)))
    assert not two_valued(statistics(random.integers(0, 3, 5000).astype(float)))


def test_a_missing_rare_value_is_no_column_that_stopped_changing() -> None:
    random = np.random.default_rng(4)
    rare = np.where(random.random(20_000) < 0.003, random.random(20_000), 0.0)
    assert not stopped_changing(statistics(rare), statistics(np.zeros(500)), 1e-6)
    assert stopped_changing(statistics(random.random(500)), statistics(np.full(500, 0.5)), 1e-6)


def test_label_distance_is_half_the_sum_of_differences() -> None:
    distance, p_value = label_distance(np.array([600, 400]), np.array([20, 80]))
    assert distance == pytest.approx(0.4)
    assert p_value < 1e-12
    assert label_distance(np.array([6, 4]), np.array([0, 0])) == (0.0, 1.0)


def statistics(values: Any) -> ColumnStatistics:
    low, high = float(values.min()), float(values.max())
    return ColumnStatistics(len(values), float(values.mean()), float(values.std()), low, high)


def test_a_compressed_csv_file_is_quarantined(tmp_path: Path, schema: Schema) -> None:
    path = land(tmp_path / "in", "day.parquet", content(1)).with_suffix(".csv")
    path.write_bytes(gzip.compress(b"x0,x1,x2,x3,hour,y\n1,2,3,4,5,1\n"))
    record = validated(ShardStore(tmp_path / "data"), path, schema)
    assert record.status == "quarantined"
    assert record.findings[0].kind in ("unreadable", "missing-column")


@pytest.fixture(scope="module")
def table_schema(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    """Return the schema of a table of text, dates and numbers with 5% of cities and 10% of ages missing."""
    folder, asked = tmp_path_factory.mktemp("table"), SETTINGS.model_copy(update=TABLE | {"holdout": None})
    return ingest(land(folder, "first.parquet", table_of(0)), folder / "first", asked).dataset.schema


TABLE = {"target": "label", "dates": "parts", "missing": "mean", "max_categories": 8}


def table_of(seed: int, **changed: Any) -> pa.Table:
    rows = mixed(ROWS, seed).drop(columns="split")
    return pa.Table.from_pandas(rows.assign(**{name: change(rows[name]) for name, change in changed.items()}))


def emptied(values: Any) -> Any:
    return values.where(np.arange(len(values)) % 5 > 0)


@pytest.mark.parametrize(
    ("changed", "kind", "pattern"),
    [
        ({}, "", ""),
        ({"at": lambda at: at.dt.floor("h").where(at.isna(), pd.Timestamp("2027-05-03 06:00"))}, "", ""),
        ({"at": lambda at: at - pd.Timedelta(days=36525)}, "out-of-range", r"at:years in 100\.0% of rows; expected"),
        (
            {"age": emptied},
            "missing-values",
            r"age in 2\d\.\d% of rows \(\d+\.\d% so far\); expected at most 5.0% more",
        ),
        ({"at": emptied}, "missing-values", r"at in 20\.0% of rows; expected at most 5.0% more than so far"),
        ({"city": emptied}, "missing-values", r"city in 2\d\.\d% of rows \(\d\.\d% so far\)"),
        ({"member": lambda values: emptied(values.astype(object))}, "missing-values", "member in 20.0% of rows;"),
        ({"age": lambda age: age * np.nan}, "missing-values", r"age in 100\.0% of rows \(\d+\.\d% so far\)"),
        (
            {"label": lambda label: label.str.title() + " "},
            "unknown-label",
            r"'(Yes|No) ' \(\d+ rows\); they differ from known ones in case or blanks only\.",
        ),
        ({"city": lambda city: city.str.upper()}, "unseen-values", r"city in 9\d\.\d% of rows \(0\.0% so far\)"),
        ({"job": lambda job: "new " + job}, "unseen-values", r"job in 100\.0% of rows \(\d+\.\d% so far\)"),
        (
            {"city": lambda city: city.where(np.arange(len(city)) % 2 > 0, "Atlantis")},
            "unseen-values",
            "The model has no input for 'Atlantis'; one of another name would.$",
        ),
    ],
    ids=[
        "honest",
        "one day",
        "wrong century",
        "age",
        "at",
        "city",
        "member",
        "empty",
        "labels",
        "recoded",
        "renamed",
        "new",
    ],
)
def test_changes_hidden_by_encoding_are_found(
    tmp_path: Path, table_schema: Schema, changed: dict[str, Any], kind: str, pattern: str
) -> None:
    store = ShardStore(tmp_path / "data")
    for day in (1, 2):
        path = land(tmp_path / "in", f"honest-{day}.parquet", table_of(day))
        assert validated(store, path, table_schema, ingesting=TABLE).status == "accepted"
    record = validated(
        store, land(tmp_path / "in", "day.parquet", table_of(3, **changed)), table_schema, ingesting=TABLE
    )
    assert [finding.kind for finding in record.findings] == [kind][: bool(kind)], record.reason
    assert re.search(pattern, record.reason), record.reason


def test_a_few_unknown_values_are_accepted_with_a_warning(tmp_path: Path, table_schema: Schema) -> None:
    store = ShardStore(tmp_path / "data")
    few = {"city": lambda city: city.where(np.arange(len(city)) % 20 > 0, "Atlantis")}
    for name, rows in (("honest", table_of(3)), ("few", table_of(4, **few))):
        record = validated(store, land(tmp_path / "in", f"{name}.parquet", rows), table_schema, ingesting=TABLE)
        assert record.status == "accepted"
        assert bool(record.unseen) == (name == "few")
    assert record.unseen.startswith("few.parquet has values that were not in the training data: city in 5.")
    assert record.unseen.endswith("Such a value counts as none; check the spelling.")


def test_rows_of_earlier_files_are_found_unless_few_values_make_rows_equal(tmp_path: Path, schema: Schema) -> None:
    store, night = ShardStore(tmp_path / "data"), content(1)
    assert validated(store, land(tmp_path / "in", "1.parquet", night), schema).status == "accepted"
    for name, rows, status in (
        ("again.parquet", pa.concat_tables([content(2, rows=10), night.slice(20)]), "quarantined"),
        ("5-of-100.parquet", pa.concat_tables([content(2, rows=95), night.slice(0, 5)]), "accepted"),
        ("begun.parquet", content(3).slice(0, 400), "accepted"),  # read before the file was complete
        ("whole.parquet", content(3), "quarantined"),
    ):
        record = validated(store, land(tmp_path / "in", name, rows), schema)
        assert record.status == status, record.reason
        assert [finding.kind for finding in record.findings] == ["seen-rows"] * (status == "quarantined")
    assert re.fullmatch(
        r"whole\.parquet: \d\d% of the \d+ rows were in earlier files, most in begun\.parquet; expected at most 10%\. "
        r"Training rows would be reserved rows, too\. Deliver new rows only\.",
        record.reason,
    )
    lenient = LIMITS.model_copy(update={"seen_share": 1.0})
    assert validated(store, tmp_path / "in" / "whole.parquet", schema, lenient).status == "accepted"
    assert validated(store, tmp_path / "in" / "again.parquet", schema, released=True).status == "accepted"


@pytest.mark.parametrize("rows", [3_000, 300_000])
def test_rows_of_another_file_are_counted_in_large_files_by_a_sample(rows: int) -> None:
    earlier, later = RowHashes(), RowHashes()
    numbers = np.arange(2 * rows, dtype=np.uint64)
    for part in np.array_split(profile.mixed(numbers[:rows]), 7):
        earlier.add(part)
    for part in np.array_split(profile.mixed(numbers[rows - rows // 4 : rows + rows // 4]), 3):
        later.add(part)
    share, counted = later.shared(earlier.values)
    assert counted == 2 * (rows // 4) or 10_000 < counted < 70_000
    assert share == pytest.approx(0.5, abs=0.0 if rows < MOST_HASHES else 0.01)
    assert earlier.repeated == later.repeated == 0.0
    later.add(later.values[:100])
    assert later.repeated == pytest.approx(200 / later.counts.sum())


def test_rows_of_few_values_are_no_repeats(tmp_path: Path) -> None:
    def night(seed: int) -> pa.Table:
        random = np.random.default_rng(seed)
        columns = {f"x{i}": random.integers(0, 3, 300).astype(np.float32) for i in range(4)}
        return pa.table(columns | {"y": np.where(random.random(300) < 0.5, 1, -1)})

    store = ShardStore(tmp_path / "data")
    path = land(tmp_path / "in", "0.parquet", night(0))
    few = ingest(path, tmp_path / "few", IngestSettings()).dataset.schema
    for seed in range(4):
        record = validated(store, land(tmp_path / "in", f"{seed}.parquet", night(seed)), few)
        assert record.status == "accepted", record.reason


def test_missing_values_that_chance_explains_are_accepted(tmp_path: Path, schema: Schema) -> None:
    store, lenient = ShardStore(tmp_path / "data"), replace(schema, missing="zero")
    usual = land(tmp_path / "in", "usual.parquet", moved("x2", with_holes(0.3))(content(1)))
    validated(store, usual, lenient, released=True)
    few = land(tmp_path / "in", "few.parquet", moved("x2", with_holes(0.4))(content(2)).slice(0, 80))
    assert validated(store, few, lenient).status == "accepted"
    many = land(tmp_path / "in", "many.parquet", moved("x2", with_holes(0.5))(content(3)))
    assert [finding.kind for finding in validated(store, many, lenient).findings] == ["missing-values"]


def test_a_column_may_have_as_many_missing_values_as_before(tmp_path: Path, schema: Schema) -> None:
    store, lenient = ShardStore(tmp_path / "data"), replace(schema, missing="zero")
    paths = [land(tmp_path / "in", f"{day}.parquet", moved("x2", with_holes(0.3))(content(day))) for day in (1, 2)]
    kept = validated(store, paths[0], lenient)
    assert [finding.kind for finding in kept.findings] == ["missing-values"]
    validated(store, paths[0], lenient, released=True)
    assert validated(store, paths[1], lenient).status == "accepted"
