from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import okl
from okl.data.manifest import read_manifest
from okl.estimators.automatic import KernelClassifier, KernelRegressor
from okl.foundation.settings import IngestSettings
from okl.models.export import export
from okl.runs import encodings
from okl.runs.train import TrainingRun
from okl.solvers.settings import TrainSettings
from tests.rows import train
from tests.runs.small_choice import make_choice_small

ROWS = 900
LEAST_BUDGET = encodings.LEAST_BUDGET


@pytest.fixture(autouse=True)
def any_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "LEAST_BUDGET", 0.0)


def rows_of(slopes: bool) -> tuple[pd.DataFrame, pd.Series]:
    """Return rows of 90 shops, which shift the score or, with slopes, determine the effect of a number."""
    random = np.random.default_rng(0)
    shop, numbers = random.integers(0, 90, ROWS), random.normal(size=(ROWS, 2))
    effect = 2.0 * random.normal(size=90)[shop] * (numbers[:, 0] if slopes else 1.0)
    table = pd.DataFrame(numbers, columns=["a", "b"]).assign(shop=np.char.add("s", shop.astype(str)))
    return table, pd.Series(np.where(effect + numbers[:, 1] > 0.3 * random.normal(size=ROWS), "yes", "no"), name="y")


@pytest.mark.parametrize("slopes", [False, True])
def test_target_means_are_used_where_they_are_better_on_held_out_rows(
    slopes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if slopes:  # few candidates suffice
        make_choice_small(monkeypatch)
    table, target = rows_of(slopes)
    fitted = KernelClassifier(budget_seconds=3.0).fit(table, target)
    assert bool(fitted.model_.schema.encodings[-1].means) != slopes
    table.assign(y=target).to_parquet(tmp_path / "rows.parquet")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), out=str(tmp_path / "run"), ingest=IngestSettings())
    train(settings.replaced(budget_seconds=3.0))
    made = read_manifest(tmp_path / "run" / "data")
    assert made.settings.get("many_values", "auto") in (("auto", "inputs") if slopes else ("means",))
    assert bool(made.dataset.schema.encodings[-1].means) != slopes


def test_all_values_have_an_input_where_their_effects_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    make_choice_small(monkeypatch)
    random = np.random.default_rng(1)
    shop, town = random.integers(0, 250, (2, 1200))
    table = pd.DataFrame({"shop": np.char.add("s", shop.astype(str)), "town": np.char.add("t", town.astype(str))})
    effects = 3.0 * random.normal(size=(2, 250))
    target = effects[0][shop] + effects[1][town] + 0.3 * random.normal(size=1200)
    fitted = KernelRegressor(budget_seconds=8.0).fit(table[:1000], target[:1000])
    assert sum(len(encoding.categories) for encoding in fitted.model_.schema.encodings) > 450
    assert fitted.score(table[1000:], target[1000:]) > 0.9


@pytest.mark.parametrize("given", [{"many_values": "inputs"}, {"max_categories": 20}])
def test_settings_that_decide_are_not_tried(
    given: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, target = rows_of(slopes=False)
    table.assign(y=target).to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr("okl.runs.encodings.choose_solver", None)
    ingest = IngestSettings.model_validate(given)
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), out=str(tmp_path / "run"), ingest=ingest)
    train(settings.replaced(budget_seconds=0.5))
    schema = read_manifest(tmp_path / "run" / "data").dataset.schema
    assert {encoding.means for encoding in schema.encodings} == {()}


def hours(steps: bool) -> tuple[pd.DataFrame, pd.Series]:
    """Return 1,500 hourly rows whose target has steps at opening hours and weekends, or is smooth."""
    random = np.random.default_rng(2)
    at = pd.Series(pd.date_range("2024-01-01", periods=1500, freq="h"))
    number = random.normal(size=1500)
    is_open = at.dt.hour.isin([3, 8, 9, 12, 17]) & (at.dt.day_of_week != 2)
    level = np.where(is_open, 1.0, 0.0) if steps else np.sin(2.0 * np.pi * at.dt.hour / 24.0)
    target = pd.Series(level + 0.3 * number + 0.05 * random.normal(size=1500), name="y")
    return pd.DataFrame({"at": at, "number": number}), target


@pytest.mark.parametrize("steps", [False, True])
def test_hours_have_inputs_where_the_target_has_steps(
    steps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_choice_small(monkeypatch)
    table, target = hours(steps)
    fitted = KernelRegressor(budget_seconds=8.0).fit(table, target)
    (at,) = (encoding for encoding in fitted.model_.schema.encodings if encoding.column == "at")
    assert at.has_calendar == steps
    assert len(at.inputs) == (38 if steps else 7)
    assert fitted.score(table, target) > 0.9
    if not steps:
        return
    fitted.model_.save(str(tmp_path / "model"))
    model = okl.load(str(tmp_path / "model"))
    np.testing.assert_array_equal(model.predict(table), fitted.predict(table))
    export(tmp_path / "model", tmp_path / "model.onnx")  # which compares scores of drawn times with those of the file
    properties = onnxruntime.InferenceSession(tmp_path / "model.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(properties["dates"])["at:hour_17"] == "floor(24 * share_of_day) == 17"
    plain = KernelRegressor(budget_seconds=8.0, metric="none").fit(table.drop(columns="at"), target)
    assert plain.score(table.drop(columns="at"), target) < 0.5


def test_inputs_of_hours_are_tried_beside_words(tmp_path: Path) -> None:
    table, target = hours(steps=True)
    words = [f"word{number}" for number in np.random.default_rng(0).integers(0, 50, len(target))]
    table.assign(body=words, y=target > np.median(target)).to_parquet(tmp_path / "rows.parquet")
    given = {"text": ("body",)}
    okl.train(str(tmp_path / "rows.parquet"), ingest=given, out=str(tmp_path / "run"), budget_seconds=20.0)
    encodings = read_manifest(tmp_path / "run" / "data").dataset.schema.encodings
    assert any(encoding.has_calendar for encoding in encodings)


def test_given_parts_of_dates_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_choice_small(monkeypatch)
    table, target = hours(steps=True)
    table.assign(y=target).to_parquet(tmp_path / "rows.parquet")
    given = IngestSettings(dates="parts")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), out=str(tmp_path / "run"), ingest=given)
    train(settings.replaced(budget_seconds=3.0))
    assert not any(
        encoding.has_calendar for encoding in read_manifest(tmp_path / "run" / "data").dataset.schema.encodings
    )


class Stages:
    """Observer that records the progress of each stage."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[tuple[int, int]]]] = []

    def stage(self, name: str) -> None:
        self.calls.append((name, []))

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        self.calls[-1][1].append((done, total))

    def finish(self) -> None: ...


def test_the_trial_reports_its_choices_and_the_choice_its_last_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_choice_small(monkeypatch)
    table, target = rows_of(slopes=False)
    table.assign(y=target).to_parquet(tmp_path / "rows.parquet")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), out=str(tmp_path / "run"), ingest=IngestSettings())
    observer = Stages()
    TrainingRun(settings.replaced(budget_seconds=3.0), observer).perform()
    calls = dict(observer.calls)
    assert [name for name, _ in observer.calls][:6] == ["ingest", "encode", "ingest", "plan", "confirm", "learn"]
    done, totals = zip(*calls["encode"], strict=True)
    assert list(dict.fromkeys(done)) == [0, 1]  # inputs of all values are no more than those of the frequent ones
    assert set(totals) == {3}
    done, totals = zip(*calls["confirm"], strict=True)
    assert done == tuple(range(1, 1 + len(done)))
    assert set(totals) == {0}


def test_a_small_budget_makes_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "LEAST_BUDGET", LEAST_BUDGET)
    monkeypatch.setattr(encodings, "choose_solver", None)
    table, target = rows_of(slopes=False)
    table = table.assign(day=pd.date_range("2024-01-01", periods=ROWS, freq="D"))
    table.assign(y=target).to_parquet(tmp_path / "rows.parquet")
    settings = TrainSettings(data=str(tmp_path / "rows.parquet"), out=str(tmp_path / "run"), ingest=IngestSettings())
    train(settings.replaced(budget_seconds=2.0))
    with pytest.raises(TypeError, match="not callable"):
        train(settings.replaced(budget_seconds=LEAST_BUDGET, out=str(tmp_path / "other")))
