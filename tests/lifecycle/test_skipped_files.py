"""Files that a run does not learn are reported: too new, duplicate, or impossible to release."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from okl.foundation.errors import DataError
from okl.lifecycle.lineage_checks import check_arrivals
from okl.lifecycle.report import quarantined, report_page
from okl.lifecycle.retrain import retrain
from okl.models.registry import RegisteredModel, Registry
from okl.report.model_listing import quarantined_text
from okl.report.render import markdown
from okl.report.retraining import summary_text
from tests.lifecycle.shards import content, land
from tests.lifecycle.stories import lineage, refused_by_both, settings, shards
from tests.models.registered import publish


def test_files_that_are_too_new_are_reported_unless_they_were_ingested_before(root: Path) -> None:
    landing, small = root / "in", {"frequencies": 10}
    shards(root, 1)
    land(landing, "few.parquet", content(2, rows=10))
    assert retrain(settings(root, train=small))["outcome"] == "published"
    shards(root, 3)
    for name in ("day-01.parquet", "few.parquet"):  # copied again, or touched
        os.utime(landing / name)
    waiting = retrain(settings(root, train=small, settle_seconds=3600))
    assert (
        waiting["reason"] == "No shard is new. Left for the next run, because it has just been changed: day-03.parquet."
    )
    assert waiting["shards"]["still_written"] == ["day-03.parquet"]
    assert [one["name"] for one in waiting["shards"]["standing"]] == ["few.parquet"]
    assert summary_text(waiting).count("day-03.parquet") == 1
    assert "day-03.parquet" in markdown(report_page(waiting))
    (landing / "few.parquet").write_bytes((landing / "few.parquet").read_bytes()[:-9])  # is being written anew
    too_new = retrain(settings(root, train=small, settle_seconds=3600))["shards"]["still_written"]
    assert too_new == ["day-03.parquet", "few.parquet"]


def test_duplicate_files_are_reported_once_with_the_original_name(root: Path) -> None:
    landing, nightly = root / "in", settings(root, train={"frequencies": 10})
    shards(root, 1)
    land(landing, "few.parquet", content(2, rows=10))
    shutil.copy(landing / "day-01.parquet", landing / "twin.parquet")
    first = retrain(nightly)
    assert lineage(root) == ["day-01.parquet"]
    assert "twin.parquet is the same as day-01.parquet: already trained on." in summary_text(first).splitlines()
    assert "twin.parquet is the same as day-01.parquet" in markdown(report_page(first))
    assert retrain(nightly)["reason"] == "No shard is new."
    for name in ("a", "b"):
        shutil.copy(landing / "day-01.parquet", landing / f"{name}.parquet")
    shutil.copy(landing / "few.parquet", landing / "less.parquet")
    assert retrain(nightly)["reason"] == (
        "No shard is new. Already trained on: a.parquet (the same as day-01.parquet), b.parquet (the same as "
        "day-01.parquet). less.parquet is the same as few.parquet: quarantined."
    )
    released = retrain(nightly.model_copy(update={"release": (quarantined(model(root))[0]["sha256"],)}))
    assert [one["rows"] for one in released["shards"]["learnt"]] == [10]
    assert retrain(nightly)["shards"]["under_another_name"] == [], "not even of what was held again"


def test_shards_that_cannot_be_learnt_cannot_be_released(root: Path) -> None:
    landing, nightly = root / "in", settings(root, train={"frequencies": 10})
    shards(root, 1)
    land(landing, "narrow.parquet", content(2).drop_columns(["x1"]))
    first = retrain(nightly)
    (bad,) = first["shards"]["rejected"]
    remedy = "narrow.parquet lacks 1 of 6 columns: x1. Correct the file and add it again."
    assert f"Warning: quarantined: {remedy}" in summary_text(first).splitlines()
    assert "--release" not in summary_text(first) + quarantined_text(quarantined(model(root)))
    with pytest.raises(DataError, match=r"on_bad = stop\)\. Remove the file, or correct it"):
        retrain(nightly.model_copy(update={"on_bad": "stop"}))

    releasing = nightly.model_copy(update={"release": (bad["sha256"][:16],)})
    with pytest.raises(
        DataError, match=r"has no effect, because the rows cannot be trained on\. narrow\.parquet lacks 1"
    ):
        check_arrivals(releasing)
    no_effect = f"--release {bad['sha256'][:16]} has no effect: "
    result = retrain(releasing)
    assert summary_text(result).splitlines()[1:] == [f"Warning: {no_effect}the rows cannot be trained on. {remedy}"]
    assert f"{no_effect}the rows cannot be trained on. {remedy}" in markdown(report_page(result))
    land(landing, "narrow.parquet", content(2))
    assert [one["name"] for one in quarantined(model(root))] == ["narrow.parquet"]
    corrected = retrain(releasing)
    assert quarantined(model(root)) == []
    assert corrected["outcome"] == "published", "a night does not fail for a release that was said before"
    assert f"{no_effect}narrow.parquet was changed or removed" in summary_text(corrected)


def test_new_columns_are_reported_once_and_columns_left_out_at_first_never(root: Path) -> None:
    landing, small = root / "in", {"frequencies": 10}
    nightly = settings(root, train=small)
    land(landing, "day-01.parquet", with_columns(content(1), "note"))
    assert "ignored" not in summary_text(
        retrain(
            settings(root, train=small, ingest={"target": "y", "keys": ["hour"], "scale": "standard", "drop": ["note"]})
        )
    )
    land(landing, "day-02.parquet", with_columns(content(2), "note", "age", "size"))
    result = retrain(nightly)
    line = "day-02.parquet has 2 new columns, which are ignored: age, size."
    assert [one.partition(" To use")[0] for one in result["data_warnings"]] == [line]
    assert line in summary_text(result)
    assert line in markdown(report_page(result))
    land(landing, "day-03.parquet", with_columns(content(3), "age", "size"))
    assert retrain(nightly)["data_warnings"] == []


def with_columns(table: pa.Table, *names: str) -> pa.Table:
    for name in names:
        table = table.append_column(name, pa.array(np.arange(table.num_rows)))
    return table


def test_a_similar_model_name_is_suggested_if_files_do_not_fit_a_new_model(root: Path) -> None:
    publish(Registry(root / "registry").model("churn"), 1, promote=True)
    land(root / "in", "day.parquet", content(1).rename_columns(["x0", "x1", "x2", "x3", "hour", "churned"]))
    there = r"no target column 'y'.* No model 'churnn' is registered \(similar names: churn\)\. For a new model, add"
    refused_by_both(settings(root, name="churnn"), there)
    with pytest.raises(DataError) as other:
        check_arrivals(settings(root, name="churnn", ingest={"target": "z"}))
    assert "is registered" not in str(other.value)


def model(root: Path) -> RegisteredModel:
    return Registry(root / "registry").model("m")


def test_an_inbox_without_files_is_reported(root: Path) -> None:
    (root / "in").mkdir()
    nightly = settings(root, train={"frequencies": 10})
    assert retrain(nightly)["reason"] == f"There is no file in {root / 'in'}."
