"""Bad input and failures: each is reported, and the champion does not change."""

from __future__ import annotations

import os
import resource
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from okl.foundation.errors import ConfigError, DataError, ModelError, RegistryError
from okl.lifecycle import contract
from okl.lifecycle.retrain import RETRAIN_STAGES, RetrainingRun, retrain
from okl.models.registry import Registry
from tests.lifecycle import odd_arrivals as odd
from tests.lifecycle.shards import content, land
from tests.lifecycle.stories import arrays, champion, lineage, settings, shards


def test_each_bad_file_is_reported_and_the_rest_is_learnt(root: Path) -> None:
    timed = settings(root, time_column="hour")
    shards(root, 5, 6)
    assert retrain(timed)["version"] == 1
    landing = root / "in"
    shutil.copy(landing / "day-05.parquet", landing / "another-name.parquet")
    land(landing, "again.parquet", content(5), compression="gzip")
    land(landing, "older.parquet", content(2))
    land(landing, "schema.parquet", content(7).drop_columns(["x1"]))
    land(landing, "no-rows.parquet", content(7).slice(0, 0))
    (landing / "no-bytes.parquet").touch()
    (landing / "corrupt.parquet").write_bytes(land(landing, "day-08.parquet", content(8)).read_bytes()[:-900])
    result = retrain(timed)
    assert {one["name"]: one["kinds"] for one in result["shards"]["rejected"]} == {
        "again.parquet": ["repeated", "late"], "corrupt.parquet": ["unreadable"], "no-bytes.parquet": ["empty"],
        "no-rows.parquet": ["empty"], "older.parquet": ["late"], "schema.parquet": ["missing-column"],
    }  # fmt: skip
    assert all(one["reason"] for one in result["shards"]["rejected"])
    assert result["shards"]["under_another_name"] == [
        {"name": "another-name.parquet", "same_as": "day-05.parquet", "status": "already trained on"}
    ]
    assert (result["outcome"], lineage(root)[0]) == ("published", "day-08.parquet")
    assert len(list(landing.iterdir())) == 10, "files stay where they arrived"
    again = retrain(timed)
    assert (again["outcome"], again["shards"]["rejected"]) == ("nothing new", [])


def test_a_holdout_without_a_class_is_reported_with_the_decision(root: Path) -> None:
    table = content(1)
    rare = np.where(np.arange(table.num_rows) < 2, 1, -1)
    land(root / "in", "day-01.parquet", table.set_column(table.schema.names.index("y"), "y", pa.array([*rare])))
    reasons = []
    for seed in range(4):  # which rows are reserved depends on it
        given = {"name": f"m{seed}", "ingest": {"scale": "standard", "keys": ["hour"], "seed": seed}}
        result = retrain(settings(root, **given))
        reasons.append(result["reason"])
    assert any("No reserved row has the label 1." in reason for reason in reasons), reasons


@pytest.mark.parametrize("fault", ["damaged", "gone"])
def test_a_champion_that_does_not_load_stops_the_run_until_a_rollback(root: Path, fault: str) -> None:
    for day in (1, 2):
        shards(root, day)
        retrain(settings(root))
    shards(root, 3)
    folder = champion(root).folder
    weights = folder / "model" / "weights.safetensors"
    if fault == "damaged":
        whole = bytearray(weights.read_bytes())
        whole[-3] ^= 1
        weights.write_bytes(whole)
    else:
        shutil.rmtree(folder)
    with pytest.raises((ModelError, RegistryError), match=r"damaged|cannot be read|not.*there|missing|no model"):
        retrain(settings(root))
    model = Registry(root / "registry").model("m")
    assert model.state().champion == 2
    model.rollback()
    result = retrain(settings(root))
    assert (result["outcome"], result["parent"]) == ("published", 1)
    assert sorted(lineage(root)) == ["day-01.parquet", "day-02.parquet", "day-03.parquet"], (
        "the lost version's is learnt again"
    )


def test_a_full_disk_at_publish_leaves_the_champion_and_the_next_run_publishes(root: Path) -> None:
    shards(root, 1)
    retrain(settings(root))
    shards(root, 2)
    before = arrays(root)
    run = RetrainingRun(settings(root))
    for stage in RETRAIN_STAGES[: RETRAIN_STAGES.index("publish")]:
        run.perform_stage(stage)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limit[1]))
    try:
        with pytest.raises((RegistryError, DataError), match=r"cannot be written: .*(Free disk space|Check disk)"):
            run.publish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        run.close()
    assert champion(root).number == 1
    for key, array in before.items():
        np.testing.assert_array_equal(arrays(root)[key], array)
    assert retrain(settings(root))["version"] == 2
    assert sorted(lineage(root)) == ["day-01.parquet", "day-02.parquet"]


def test_a_clock_that_was_set_back_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards(root, 1)
    retrain(settings(root, settle_seconds=2.0))  # files written just now are left for the next run
    assert Registry(root / "registry").model("m").state().champion is None
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() - 86_400.0)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() - 86_400 * 10**9)
    first = retrain(settings(root, settle_seconds=2.0))  # now all files have times in the future
    shards(root, 2)
    os.utime(root / "in" / "day-02.parquet", (0, real() - 7 * 86_400))  # changed before the rows that were learnt
    second = retrain(settings(root, settle_seconds=2.0))
    assert (first["version"], second["version"], second["parent"]) == (1, 2, 1)
    assert sorted(lineage(root)) == ["day-01.parquet", "day-02.parquet"]
    assert [entry.number for entry in Registry(root / "registry").model("m").entries()] == [1, 2]


def test_a_backfill_over_past_windows_equals_single_nights(root: Path) -> None:
    for day in range(1, 5):
        land(root / "in", f"2026-11-{day:02d}.parquet", content(day))
    for number, (first, last) in enumerate((("01", "03"), ("03", "05")), start=1):
        window = settings(root, window_from=f"2026-11-{first}", window_to=f"2026-11-{last}")
        result = retrain(window)
        assert (result["outcome"], result["version"]) == ("published", number)
        assert [one["name"][8:10] for one in result["shards"]["learnt"]] == [first, f"{int(first) + 1:02d}"]
        assert retrain(window)["outcome"] == "nothing new"
    backfilled, nightly = arrays(root), settings(root, name="n", max_shards=2)
    while retrain(nightly)["outcome"] == "published":
        pass
    other = Registry(root / "registry").model("n").version()
    assert other.number == 2
    for key, array in other.load().predictor.arrays().items():
        np.testing.assert_array_equal(backfilled[key], array)


def test_unusual_files_are_named_with_a_reason_and_the_valid_one_is_learnt(root: Path) -> None:
    timed = settings(root)
    land(root / "in", odd.GOOD, content(1))
    assert retrain(timed)["version"] == 1
    for make in odd.QUICK.values():
        make(root / "in", 7)
    odd.wide(root / "in", 7, columns=400_000)
    odd.bomb(root / "in", 7, megabytes=10)
    land(root / "in", "next.parquet", content(2))
    result = retrain(timed)
    unread = {one["name"]: one["why"] for one in result["shards"]["unread"]}
    assert unread == {
        "dangling-7.parquet": "it is a broken link (No such file or directory)",
        "loop-7.parquet": "it is a broken link (Too many levels of symbolic links)",
        "pipe-7.csv": "it is a named pipe", "device-7.csv": "it is a device",
        "\\udcff\\udcfe-7.parquet": "its name is not UTF-8",
    }  # fmt: skip
    rejected = {one["name"]: one for one in result["shards"]["rejected"]}
    assert {one["kinds"][0] for one in rejected.values()} == {"unreadable", "empty"}
    assert all(one["reason"] for one in rejected.values())
    for name in ("wide-7.csv", "bomb-7.csv.gz"):
        assert "has a line of more than 2 MiB. Expected rows" in rejected[name]["reason"]
    learnt = lineage(root)
    assert {odd.GOOD, "next.parquet", "new\nline-7.parquet", "<b>x&amp;-7.parquet", "木é-7.parquet"} <= set(learnt)
    assert len(learnt) == len(set(learnt)) == 2 + 9 + 1
    assert retrain(timed)["outcome"] == "nothing new"


def test_a_file_that_changes_while_it_is_read_is_left_for_the_next_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly = settings(root)
    shards(root, 1, 2)
    growing, whole = root / "in" / "day-02.parquet", (root / "in" / "day-02.parquet").read_bytes()
    run = RetrainingRun(nightly)
    check = contract.check_contract

    def grown(location: Path, *rest: Any) -> Any:
        if location == growing:
            growing.write_bytes(whole + b" ")
        return check(location, *rest)

    monkeypatch.setattr("okl.lifecycle.intake.check_contract", grown)
    result = run.perform()
    assert (lineage(root), result["shards"]["still_written"]) == (["day-01.parquet"], ["day-02.parquet"])
    monkeypatch.undo()
    growing.write_bytes(whole)
    assert retrain(nightly)["outcome"] == "published"
    assert lineage(root) == ["day-02.parquet", "day-01.parquet"]


@pytest.mark.parametrize("denied", ["file", "folder"])
def test_unreadable_files_and_folders_are_named(root: Path, monkeypatch: pytest.MonkeyPatch, denied: str) -> None:
    """Root could read it without this patch."""
    shards(root, 1, 2)
    closed = root / "in" / ("day-02.parquet" if denied == "file" else "")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed)
    if denied == "folder":
        with pytest.raises(ConfigError, match=r"in cannot be listed: no permission"):
            retrain(settings(root))
        return
    result = retrain(settings(root))
    assert result["shards"]["unread"] == [{"name": "day-02.parquet", "why": "no permission to read it"}]
    assert lineage(root) == ["day-01.parquet"]
