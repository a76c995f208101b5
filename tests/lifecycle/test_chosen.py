"""The automatic choice of a retraining: made as in `okl train` for the first shards, then kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from okl.foundation.errors import DataError
from okl.foundation.settings import IngestSettings
from okl.foundation.telemetry import NullObserver
from okl.lifecycle.retrain import retrain
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.report.retraining import summary_text
from tests.lifecycle.shards import content, land
from tests.lifecycle.stories import champion, settings, shards
from tests.runs.small_choice import make_choice_small


@pytest.fixture
def root(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_choice_small(monkeypatch)
    return root


def automatic_settings(root: Path, **values: Any) -> RetrainSettings:
    """Return settings without a solver, for a short automatic choice."""
    given = {"name": "m", "source": str(root / "in"), "registry": str(root / "registry"), "settle_seconds": 0}
    more = {"ingest": {"keys": ["hour"]}, "publish_if": "not worse"}
    return RetrainSettings.model_validate(given | more | {"train": {"threads": 1, "budget_seconds": 0.2} | values})


class Stages(NullObserver):
    def __init__(self) -> None:
        self.progress, self.seen = dict[str, int](), list[str]()

    def stage(self, name: str) -> None:
        self.current = name
        self.seen.append(name)

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        self.progress[self.current] = total


def test_a_new_model_is_chosen_as_in_training_and_later_nights_keep_it(root: Path) -> None:
    shards(root, 1)
    stages = Stages()
    first = retrain(automatic_settings(root), observer=stages)
    assert "choose" in stages.progress, "a stage of its own"
    assert first["outcome"] == "published"
    summary = " ".join(summary_text(first).split())
    assert "chosen: " in summary
    assert "8 candidates" in summary or "of the median distance" in summary
    assert "Later retrainings keep this choice until drift, more errors, or four times the rows" in summary
    first_version = champion(root)
    model = first_version.load()
    assert model.configuration["solver"] == "ridge"
    assert model.schema.scale != "none"
    assert first["metrics"]["challenger"]["accuracy"] > 0.9
    shards(root, 2)
    stages = Stages()
    second = retrain(automatic_settings(root), observer=stages)
    assert "choose" not in stages.progress
    assert second["chosen"] == []
    assert "chosen: " not in summary_text(second)
    assert second["how"] == "solved on the latest 2 shards"
    then = champion(root).load()
    kept_options = ("solver", "kernel", "bandwidth", "n_landmarks", "precision")
    reasons = [{why for name, why in one.provenance["chosen"].items() if "_reason" in name} for one in (model, then)]
    assert all("by the automatic choice" in why and "as given" not in why for why in reasons), reasons
    assert [then.configuration[name] for name in kept_options] == [model.configuration[name] for name in kept_options]
    assert (then.schema.scale, then.schema.metric) == (model.schema.scale, model.schema.metric)
    given = retrain(automatic_settings(root, seed=3))
    assert given["settings"]["train"]["seed"] == 3


def test_a_choice_outlives_a_run_that_ends_before_the_first_version_and_is_refused_if_damaged(root: Path) -> None:
    shards(root, 1)
    assert retrain(automatic_settings(root).model_copy(update={"dry_run": True}))["outcome"] == "dry run"
    file = root / "registry" / "m" / "data" / "choice.json"
    right = file.read_text()
    file.write_text("{")
    with pytest.raises(DataError, match=r"choice\.json is damaged: .* Remove it, and name a solver"):
        retrain(automatic_settings(root))
    file.write_text(right)
    chosen = ShardStore(root / "registry" / "m" / "data").choice()
    assert chosen["solver"] == "ridge"
    result = retrain(automatic_settings(root))
    assert result["outcome"] == "published"
    assert {name: result["settings"]["train"][name] for name in chosen} == chosen


def test_options_of_the_choice_hold_for_a_new_model_and_may_be_repeated(root: Path) -> None:
    first_settings = automatic_settings(root, validation="blocks", optimise="log-loss")
    shards(root, 1)
    first = retrain(first_settings)
    assert "5 contiguous folds" in " ".join(first["chosen"])
    assert "log loss" in " ".join(first["chosen"])
    shards(root, 2)
    assert retrain(first_settings)["outcome"] == first["outcome"] == "published"


def test_a_model_continues_with_its_original_solver(root: Path) -> None:
    shards(root, 1)
    retrain(settings(root))
    weights = champion(root).load().predictor.arrays()["weights"]
    shards(root, 2)
    result = retrain(automatic_settings(root))
    assert result["how"] == "continued with 1 new shards"
    assert result["settings"]["train"]["solver"] == "fogd"
    assert not np.array_equal(champion(root).load().predictor.arrays()["weights"], weights)


def test_a_quarantined_first_file_does_not_affect_later_ones(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setenv("OKL_HOME", "home")  # a relative folder
    shards(root, 1, rows=12)
    result = retrain(automatic_settings(root))
    assert result["outcome"] == "nothing new"
    assert [shard["kinds"] for shard in result["shards"]["rejected"]] == [["too-few-rows"]]
    assert not result["chosen"]
    shards(root, 2)
    later = retrain(settings(root, ingest={"scale": "minmax", "keys": ["hour"]}))
    assert [shard["name"] for shard in later["shards"]["learnt"]] == ["day-02.parquet"]
    reference = ShardStore(root / "registry" / "m" / "data").reference()
    assert reference is not None
    assert reference.scale == "minmax"


def test_the_choice_reads_equal_labels_in_all_first_files(root: Path) -> None:
    """Text labels are numbered in order of appearance; the second file begins with the other label."""
    first, second = (content(day, text=True) for day in (1, 2))
    label = first["y"][0].as_py()
    land(root / "in", "day-01.parquet", first)
    same_label = second.filter(pc.equal(second["y"], label))
    other_label = second.filter(pc.not_equal(second["y"], label))
    land(root / "in", "day-02.parquet", pa.concat_tables([other_label, same_label]))
    errors = re.findall(
        r"([\d.]+)% mistakes on 600 sampled rows", " ".join(retrain(automatic_settings(root))["chosen"])
    )
    assert [float(error) < 15.0 for error in errors] == [True], errors


def test_a_file_with_other_dates_and_labels_is_left_to_the_contract(root: Path) -> None:
    rows, others = content(1, text=True), content(2, text=True)
    days = [f"2026-03-{1 + row % 28:02d}" for row in range(rows.num_rows)]
    word = rows["y"][0].as_py()
    others = pa.concat_tables(
        [others.filter(pc.not_equal(others["y"], word)), others.filter(pc.equal(others["y"], word))]
    )
    (root / "in").mkdir(exist_ok=True)
    csv.write_csv(rows.append_column("day", [days]), root / "in" / "1.csv")
    other_days = [".".join(reversed(day.split("-"))) for day in days]
    csv.write_csv(others.append_column("day", [other_days]), root / "in" / "2.csv")
    result = retrain(settings(root, train={"frequencies": 10}))
    assert result["outcome"] == "published"
    assert [shard["name"] for shard in result["shards"]["learnt"]] == ["1.csv"]


@pytest.mark.parametrize("days", [3, 400])
def test_dates_of_a_short_period_in_the_first_files_are_named_once(root: Path, days: int) -> None:
    rows = content(1)
    dates = np.datetime64("2026-03-01T12:00", "s") + np.arange(rows.num_rows) * (days * 86_400 // rows.num_rows)
    land(root / "in", "day-01.parquet", rows.append_column("at", pa.array(dates)))
    summary = " ".join(summary_text(retrain(settings(root, train={"frequencies": 10}))).split())
    assert ("Dates of a short period: 'at' (3 days). Later files have later dates" in summary) == (days == 3)
    land(root / "in", "day-02.parquet", content(2).append_column("at", pa.array(dates)))
    assert "short period" not in summary_text(retrain(settings(root, train={"frequencies": 10})))


@pytest.mark.parametrize("dates", ["auto", "parts"])
def test_the_first_files_decide_whether_hours_and_weekdays_are_inputs(
    root: Path, dates: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("okl.runs.encodings.LEAST_BUDGET", 0.0)
    random = np.random.default_rng(2)
    at = np.datetime64("2024-01-01", "s") + 3600 * np.arange(1500)
    hour, day = np.arange(1500) % 24, np.arange(1500) // 24 % 7
    is_open = np.isin(hour, [3, 8, 9, 12, 17]) & (day != 2)
    number = random.standard_normal(1500)
    target = is_open + 0.3 * number + 0.05 * random.standard_normal(1500)
    rows = pa.table({"at": at, "number": number, "y": target})
    for part in range(2):
        land(root / "in", f"{part}.parquet", rows.slice(700 * part, 700))
    given = automatic_settings(root, budget_seconds=3.0).model_copy(update={"ingest": IngestSettings(dates=dates)})
    stages = Stages()
    result = retrain(given, observer=stages)
    assert result["outcome"] == "published"
    (encoding,) = (one for one in champion(root).load().schema.encodings if one.column == "at")
    assert encoding.has_calendar == (dates == "auto")
    assert ("encode" in stages.seen) == (dates == "auto")
    assert stages.seen[stages.seen.index("confirm") + 1] == "hold"
    land(root / "in", "2.parquet", rows.slice(1400))
    later = retrain(given)
    assert [shard["name"] for shard in later["shards"]["learnt"]] == ["2.parquet"]
    if dates == "auto":
        assert later["metrics"]["champion"]["rmse"] < 0.2


def test_a_text_column_that_a_new_model_leaves_out_is_named_in_the_summary(root: Path) -> None:
    rows = content(1)
    notes = [f"the {number} customer wrote about order {7 * number}" for number in range(rows.num_rows)]
    land(root / "in", "day-01.parquet", rows.append_column("note", [notes]))
    first = retrain(settings(root, train={"frequencies": 10}))
    assert "Column 'note' is left out" in summary_text(first)
    assert "--text note" in summary_text(first)
    shards(root, 2)
    assert retrain(settings(root, train={"frequencies": 10}))["data_warnings"] == []


def test_a_shard_with_duplicate_rows_gives_a_warning_each_night(root: Path) -> None:
    shards(root, 1)
    assert retrain(settings(root))["data_warnings"] == []
    land(root / "in", "day-02.parquet", pa.concat_tables([content(2, rows=300)] * 2))
    (warning,) = retrain(settings(root))["data_warnings"]
    assert warning.startswith("day-02.parquet: 300 of 600 rows are copies of others")


def test_groups_are_reserved_as_a_whole_in_all_shards(root: Path) -> None:
    def night(number: int) -> dict[str, Any]:
        random = np.random.default_rng(number)
        person = random.integers(0, 60, 400)
        inputs = np.random.default_rng(9).normal(size=(60, 3))[person] + 0.1 * random.normal(size=(400, 3))
        return {"a": inputs[:, 0], "b": inputs[:, 1], "c": inputs[:, 2], "person": person, "y": person % 2}

    chosen = []
    for number in range(2):
        table = pa.table(night(number))
        land(root / "in", f"day{number}.parquet", table)
        given = automatic_settings(root, budget_seconds=1.0).model_copy(
            update={"ingest": IngestSettings(group="person")}
        )
        chosen.append(retrain(given))
    assert "5 folds of whole groups of 'person'" in chosen[0]["chosen"][0]
    store = ShardStore(root / "registry" / "m" / "data")
    persons: dict[str, set[int]] = {"train": set(), "test": set()}
    for record in store.records().values():
        data = store.dataset(record)
        for split, seen in persons.items():
            for shard in data.split(split):  # type: ignore[arg-type]
                seen.update(pq.read_table(str(data.path(shard)))["person"].to_pylist())
    assert len(persons["train"] | persons["test"]) == 60
    assert persons["test"]
    assert not persons["train"] & persons["test"]
