from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset, Schema
from okl.data.reading import sample_rows
from okl.foundation.errors import ConfigError, DataError, LocationError
from okl.foundation.types import FloatArray, Split
from okl.lifecycle.contract import baseline_of
from okl.lifecycle.intake import validate_file
from okl.lifecycle.profile import ColumnTally, merged_statistics
from okl.lifecycle.settings import ContractSettings
from okl.lifecycle.shard_store import (
    FileState,
    Finding,
    ShardRecord,
    ShardStore,
    arrivals,
    content_sha256,
    find_quarantined,
    record_from,
    record_text,
)
from tests.lifecycle.shards import ROWS, SETTINGS, arrival, content, land, validated


def hours(data: Dataset, split: str) -> FloatArray:
    return np.concatenate(
        [pq.read_table(data.path(one))["hour"].to_numpy() for one in data.shards if one.split == split]
    )


def test_every_row_is_learnt_or_reserved_the_same_way_each_time(tmp_path: Path, schema: Schema) -> None:
    path = land(tmp_path / "in", "day-1.parquet", content(1))
    one, other = (ShardStore(tmp_path / name) for name in ("one", "other"))
    first, second = validated(one, path, schema), validated(other, path, schema)
    assert first == second
    assert first.train_rows + first.test_rows == ROWS
    assert 0.12 < first.test_rows / ROWS < 0.28
    train, test = (hours(one.dataset(first), split) for split in ("train", "test"))
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), content(1)["hour"].to_numpy())
    np.testing.assert_array_equal(test, hours(other.dataset(second), "test"))


def test_shards_reserve_other_rows(tmp_path: Path, schema: Schema) -> None:
    store, reserved = ShardStore(tmp_path / "data"), []
    for day in (1, 2):
        table = content(day).set_column(4, "hour", [np.arange(ROWS, dtype=np.float64)])
        record = validated(store, land(tmp_path / "in", f"day-{day}.parquet", table), schema)
        reserved.append(set(hours(store.dataset(record), "test")))
    shared = len(reserved[0] & reserved[1]) / len(reserved[0])
    assert 0.1 < shared < 0.3  # a random number


def test_a_storage_error_does_not_quarantine_the_shard(tmp_path: Path, schema: Schema) -> None:
    store, path = ShardStore(tmp_path / "data"), land(tmp_path / "in", "day-1.parquet", content(1))
    in_the_way = tmp_path / "data" / content_sha256(path)[:16]
    in_the_way.parent.mkdir()
    in_the_way.write_text("somebody else's")
    with pytest.raises(LocationError, match="is not a data set; okl does not replace it"):
        validated(store, path, schema)
    assert store.records() == {}, "it is held again, not quarantined"
    in_the_way.unlink()
    assert validated(store, path, schema).status == "accepted"


def test_data_left_by_a_killed_process_under_other_settings_are_ingested_again(tmp_path: Path, schema: Schema) -> None:
    store, path = ShardStore(tmp_path / "data"), land(tmp_path / "in", "day-1.parquet", content(1))
    before = validated(store, path, schema)
    (tmp_path / "data" / "records" / f"{before.key}.json").unlink()
    known, half = baseline_of(schema, []), SETTINGS.model_copy(update={"holdout": 0.5})
    after = validate_file(store, arrival(path), before.sha256, known, ContractSettings(), half)
    assert after is not None
    assert after.status == "accepted"
    assert store.dataset(after).rows("test") == after.test_rows > 2 * before.test_rows


def test_a_union_is_the_rows_of_its_parts_in_order(tmp_path: Path, schema: Schema) -> None:
    store = ShardStore(tmp_path / "data")
    records = [validated(store, land(tmp_path / "in", f"day-{d}.parquet", content(d)), schema) for d in (1, 2, 3)]
    parts, whole = [store.dataset(record) for record in records], store.union(records)
    assert [shard.index for shard in whole.shards] == list(range(6))
    splits: tuple[Split, ...] = ("train", "test")
    for split in splits:
        rows = sample_rows(whole, split, 10**6, 0, "float32")
        each = [sample_rows(part, split, 10**6, 0, "float32") for part in parts]
        np.testing.assert_array_equal(rows.inputs, np.concatenate([one.inputs for one in each]))
        np.testing.assert_array_equal(rows.targets, np.concatenate([one.targets for one in each]))
    assert sum(whole.schema.class_counts) == whole.rows("train")
    assert store.union(records[:2]).sha256 != whole.sha256 != store.union(records[::-1]).sha256


def test_a_union_of_other_references_is_refused(tmp_path: Path, schema: Schema) -> None:
    store = ShardStore(tmp_path / "data")
    others: tuple[Schema, ...] = (schema, replace(schema, scale="minmax"))
    paths = [land(tmp_path / "in", f"day-{day}.parquet", content(day)) for day in (1, 2)]
    records = [validated(store, path, other) for path, other in zip(paths, others, strict=True)]
    with pytest.raises(DataError, match="different references"):
        store.union(records)
    with pytest.raises(DataError, match="expected at least one shard, got none"):
        store.union([])


def test_records_survive_being_written(tmp_path: Path, schema: Schema) -> None:
    store = ShardStore(tmp_path / "data")
    record = validated(store, land(tmp_path / "in", "day-1.parquet", content(1)), schema)
    assert record_from(record_text(record), "here") == record
    bad = store.quarantine_accepted(record, Finding("contradiction", "It does.", {"p_value": 0.0}))
    assert store.accepted() == []
    assert store.records()[record.sha256] == bad
    assert store.release(bad).released
    assert [one.key for one in store.accepted()] == [record.key]
    twice = store.add_name(bad, "other.parquet")
    assert store.records()[record.sha256].names == twice.names == ("day-1.parquet", "other.parquet")
    assert find_quarantined(store.records(), record.key) == twice
    held = rf"Quarantined shards: {record.key} \(day-1\.parquet\)\."
    with pytest.raises(DataError, match=f"release = 'ffff0000' names no shard; .* {held}"):
        find_quarantined(store.records(), "ffff0000")
    store.put(record)
    with pytest.raises(DataError, match=r"names day-1\.parquet, which is accepted; .* No shard is quarantined\."):
        find_quarantined(store.records(), record.key)
    (tmp_path / "data" / "records" / f"{record.key}.json").write_text("{")
    with pytest.raises(DataError, match="is damaged"):
        store.records()


@pytest.mark.parametrize(
    "fault",
    [
        {"sha256": "../../up" + "0" * 56}, {"sha256": 1}, {"names": []}, {"names": [1.5]}, {"columns": [None]},
        {"class_counts": ["/etc/passwd"]}, {"target": 10**30}, {"status": "learnt"}, {"unknown": 1}, {"rows": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_record_that_was_edited_is_refused_in_one_sentence(fault: dict[str, Any]) -> None:
    good = {"format_version": 1, "sha256": "0" * 64, "names": ["a.csv"], "size_bytes": 1, "status": "accepted"}
    assert record_from(json.dumps(good), "here").name == "a.csv"
    with pytest.raises(
        DataError, match=r"^here is damaged \(.+\)\. Remove it; the next run validates the file again\.$"
    ):
        record_from(json.dumps(good | fault), "here")


def test_a_record_under_the_name_of_another_is_refused(tmp_path: Path) -> None:
    store = ShardStore(tmp_path)
    store.put(ShardRecord("0" * 64, ("a.csv",), 1, "accepted"))
    (tmp_path / "records" / f"{'0' * 16}.json").rename(tmp_path / "records" / f"{'1' * 16}.json")
    with pytest.raises(DataError, match=r"1111\.json is damaged: it is the record of the shard 0000"):
        store.records()


def test_the_reference_is_set_once(tmp_path: Path, schema: Schema) -> None:
    store = ShardStore(tmp_path / "data")
    assert store.reference() is None
    assert store.set_reference(schema) == schema
    assert store.set_reference(replace(schema, scale="none")) == schema
    assert ShardStore(tmp_path / "data").reference() == schema
    (tmp_path / "data" / "reference.json").write_text("[]")
    with pytest.raises(DataError, match="is damaged"):
        store.reference()


def test_only_findings_that_rows_can_be_learnt_with_are_released(tmp_path: Path, schema: Schema) -> None:
    store = ShardStore(tmp_path / "data")
    few = land(tmp_path / "in", "few.parquet", content(1).slice(0, 20))
    assert validated(store, few, schema).status == "quarantined"
    released = validated(store, few, schema, released=True)
    assert (released.status, released.released, released.findings[0].kind) == ("accepted", True, "too-few-rows")
    well = validated(store, land(tmp_path / "in", "well.parquet", content(3)), schema, released=True)
    assert (well.status, well.findings) == ("accepted", ())
    assert find_quarantined(store.records(), well.key) == well, "a release that was said is not refused the next night"
    cut = land(tmp_path / "in", "cut.parquet", content(2))
    cut.write_bytes(cut.read_bytes()[:1000])
    assert validated(store, cut, schema, released=True).status == "quarantined"


HOLDING = """
import os, sys
from pathlib import Path
from okl.lifecycle.settings import ContractSettings
from okl.lifecycle.shard_store import ShardStore
from tests.lifecycle.shards import validated
store = ShardStore(sys.argv[1])
for _ in sys.stdin:  # a process for each line: importing takes seconds
    if child := os.fork():
        print(child, flush=True)
        os.waitpid(child, 0)
        continue
    schema = store.reference()
    while True:
        for path in sorted(Path(sys.argv[2]).glob("day-*")):
            validated(store, path, schema)
"""


def test_a_store_whose_writer_is_killed_at_any_moment_loses_nothing(tmp_path: Path, schema: Schema) -> None:
    store, landing, counts = ShardStore(tmp_path / "data"), tmp_path / "in", []
    store.set_reference(schema)
    paths = [land(landing, f"day-{day}.parquet", content(day)) for day in range(1, 7)]
    random = np.random.default_rng(11)
    arguments = [sys.executable, "-c", HOLDING, str(store.location), str(landing)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holding:
        assert holding.stdin is not None
        assert holding.stdout is not None
        for _ in range(8):
            holding.stdin.write("\n")
            holding.stdin.flush()
            child = int(holding.stdout.readline())
            time.sleep(0.1 * random.random())
            os.kill(child, signal.SIGKILL)
            for record in store.accepted():  # every accepted shard is complete
                assert store.dataset(record).rows("train") == record.train_rows > 0
            counts.append(len(store.records()))
        holding.stdin.close()
    assert counts == sorted(counts)
    records = [validated(store, path, schema) for path in paths]
    clean = ShardStore(tmp_path / "clean")
    clean.set_reference(schema)
    again = [validated(clean, path, schema) for path in paths]
    assert {record.status for record in (*records, *again)} == {"accepted"}
    assert [record.sha256 for record in store.accepted()] == [record.sha256 for record in records]
    for one, other in zip(records, again, strict=True):
        assert (one.train_rows, one.test_rows) == (other.train_rows, other.test_rows)
        assert store.dataset(one).sha256 == clean.dataset(other).sha256


def test_arrivals_are_data_files_at_any_depth(tmp_path: Path) -> None:
    for name in ("b.parquet", "2026/a.csv", ".hidden.parquet", "_part.parquet", "notes.md", "x.parquet.partial"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("rows")
    assert [one.name for one in arrivals(str(tmp_path))[0]] == ["2026/a.csv", "b.parquet"]
    assert [one.name for one in arrivals(f"{tmp_path}/*.parquet")[0]] == ["b.parquet"]
    assert arrivals(f"{tmp_path}/*.svm") == ([], [], [])
    settled_ones, fresh, _ = arrivals(str(tmp_path), settle_seconds=60.0)
    assert (settled_ones, [one.name for one in fresh]) == ([], ["2026/a.csv", "b.parquet"])
    os.utime(tmp_path / "b.parquet", (0, time.time() + 3600))  # by a clock that was set back meanwhile
    assert [one.name for one in arrivals(str(tmp_path), settle_seconds=60.0)[0]] == ["b.parquet"]
    with pytest.raises(ConfigError, match="does not exist"):
        arrivals(str(tmp_path / "nowhere"))


def test_a_file_is_hashed_once_unless_it_may_have_changed(tmp_path: Path) -> None:
    path, seen = tmp_path / "a.csv", FileState()
    path.write_text("1")
    (fresh,), *_ = arrivals(str(tmp_path))
    assert (fresh.stamp, seen.sha256(fresh)) == ("", content_sha256(path))
    path.write_text("0")
    assert seen.sha256(fresh) == content_sha256(path) == seen.entries["a.csv"][-1]
    os.utime(path, (0, 1000))
    (old,), *_ = arrivals(str(tmp_path))
    digest = seen.sha256(old)
    path.write_text("2")
    os.utime(path, (0, 2000))
    (changed,), *_ = arrivals(str(tmp_path))
    assert seen.sha256(changed) == content_sha256(path) != digest
    assert FileState.from_text(seen.text()).entries == seen.entries
    assert FileState.from_text('{"a.csv": [1]}').entries == {}
    seen.keep_only([])
    assert seen.entries == {}


def test_statistics_of_columns_do_not_depend_on_blocks() -> None:
    values = np.random.default_rng(5).normal(3.0, 2.0, (3, 1000)).astype(np.float32)
    values[1, ::7], values[2, 5] = np.nan, np.inf
    limits = np.full(3, -1.0), np.full(3, 7.0)
    whole, parts = ColumnTally(*limits), ColumnTally(*limits)
    whole.add(values)
    for first, last in ((0, 1), (1, 400), (400, 400), (400, 1000)):
        parts.add(values[:, first:last])
    assert parts.digest() == whole.digest()
    assert whole.missing.tolist() == [0, 143, 0]
    assert whole.infinite.tolist() == [0, 0, 1]
    finite = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    np.testing.assert_array_equal(whole.beyond, ((finite < -1) | (finite > 7)).sum(axis=1))
    halves = ColumnTally(*limits), ColumnTally(*limits)
    halves[0].add(values[:, :300])
    halves[1].add(values[:, 300:])
    for found in (whole.statistics(), parts.statistics(), merged_statistics([one.statistics() for one in halves])):
        for index, column in enumerate(found):
            assert column.count == np.isfinite(finite[index]).sum()
            assert column.mean == pytest.approx(np.nanmean(finite[index]))
            assert column.standard_deviation == pytest.approx(np.nanstd(finite[index]))
            assert (column.minimum, column.maximum) == (np.nanmin(finite[index]), np.nanmax(finite[index]))
