"""The default of `okl train`: what a race chooses, that data, budget and seed alone decide it, and what is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from okl.applicable import check_options
from okl.choosing.candidates import Candidate
from okl.choosing.choice import Choice, _sized, choose
from okl.choosing.costs import Shape, rounds_of_race
from okl.choosing.race import Race, Ran
from okl.configuration import TrainSettings, settings_from
from okl.errors import ConfigError
from okl.store.dataset import Dataset
from okl.store.ingest import ingest
from okl.store.model import load_model
from okl.store.report import text_summary
from okl.training import TRAIN_STAGES, train
from okl.trainingrun import TrainingRun
from okl.types import Task
from tests.store.sources import settings as ingest_settings

ROWS, SECONDS = 400, 0.5
TIMES = ("seconds",)


def circles(random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Two rings, in units that are far apart."""
    labels, angle = random.integers(0, 2, ROWS), random.uniform(0.0, 2.0 * np.pi, ROWS)
    radius = 1.0 + labels + 0.1 * random.normal(size=ROWS)
    return np.column_stack([1000.0 * radius * np.cos(angle), radius * np.sin(angle)]), labels


def half_spaces(random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Noise about a plane, in many columns."""
    inputs = random.normal(size=(ROWS, 12))
    return inputs, (inputs.sum(axis=1) + 3.0 * random.normal(size=ROWS) > 0).astype(int)


def wave(random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """A target far from 0."""
    inputs = random.uniform(-3.0, 3.0, size=(ROWS, 2))
    return inputs, 50.0 + 10.0 * np.sin(2.0 * inputs[:, 0]) + inputs[:, 1]


def stored(folder: Path, inputs: NDArray[np.float64], target: NDArray[Any], task: Task, **options: Any) -> Dataset:
    names = {f"x{j}": column for j, column in enumerate(inputs.T)}
    folder.mkdir(parents=True)
    pq.write_table(pa.table(names | {"y": target}), folder / "rows.parquet")
    asked = ingest_settings(task=task, holdout=0.2, rows_per_shard=300, **options)
    return ingest(folder / "rows.parquet", folder / "set", asked).dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder, random = tmp_path_factory.mktemp("chosen"), np.random.default_rng(5)
    return {
        "circles": stored(folder / "circles", *circles(random), "binary"),
        "half spaces": stored(folder / "half", *half_spaces(random), "binary"),
        "wave": stored(folder / "wave", *wave(random), "regression"),
    }


def asked(data: Dataset, **values: Any) -> TrainSettings:
    return settings_from(TrainSettings, {"data": str(data.folder), "budget_seconds": SECONDS} | values, "test")


def without_times(choice: Choice) -> dict[str, Any]:
    record = {name: value for name, value in choice.record.items() if name not in TIMES}
    ran = [{name: value for name, value in one.items() if name not in TIMES} for one in record["candidates"]]
    return record | {"candidates": ran}


@pytest.fixture(scope="module")
def of_circles(data: dict[str, Dataset]) -> Choice:
    return choose(asked(data["circles"], threads=1), data["circles"])


def test_nothing_of_a_choice_but_its_times_depends_on_when_and_where_it_is_made(
    of_circles: Choice, data: dict[str, Dataset]
) -> None:
    again = choose(asked(data["circles"], threads=2), data["circles"])
    assert again.settings.model_copy(update={"threads": 1}) == of_circles.settings
    assert without_times(again) == without_times(of_circles)
    assert again.record["seconds"] != of_circles.record["seconds"]
    assert len({one["seconds"] for one in again.record["candidates"]}) > 1


def test_circles_get_a_kernel_and_inputs_of_like_scale(of_circles: Choice) -> None:
    settings, record = of_circles.settings, of_circles.record
    assert settings.solver == "ridge"
    assert settings.kernel != "linear"
    assert record["candidates"][0]["name"].startswith(f"{settings.kernel} kernel")
    assert settings.rescale in ("standard", "minmax")
    best, linear = record["candidates"][0], [one for one in record["candidates"] if one["name"].startswith("linear")]
    assert best["score"] > 0.97
    assert max(one["score"] for one in linear) < 0.65
    assert best["kept"]
    assert any("linear model" in sentence for sentence in record["why"])


def test_the_settings_of_a_choice_can_be_given(of_circles: Choice) -> None:
    settings = of_circles.settings
    check_options(settings)
    assert settings_from(TrainSettings, settings.model_dump(mode="json"), "test") == settings
    assert of_circles.record["budget_seconds"] == SECONDS


def test_a_linear_problem_gets_a_linear_model(data: dict[str, Dataset]) -> None:
    choice = choose(asked(data["half spaces"]), data["half spaces"])
    assert (choice.settings.solver, choice.settings.kernel) == ("ridge", "linear")
    check_options(choice.settings)


def test_a_regression_is_judged_by_what_is_left_of_the_variance(data: dict[str, Dataset]) -> None:
    choice = choose(asked(data["wave"]), data["wave"])
    assert choice.settings.kernel != "linear"
    assert choice.record["candidates"][0]["score"] > 0.95
    assert "of the variance is left" in choice.record["why"][0]


def test_rounds_are_those_that_the_time_allows(of_circles: Choice, data: dict[str, Dataset]) -> None:
    rounds = rounds_of_race(SECONDS, data["circles"].rows("train"))
    assert rounds != rounds_of_race(60.0, data["circles"].rows("train"))
    told = {(one["rows"], one["landmarks"]) for one in of_circles.record["candidates"] if "kernel" in one["name"]}
    assert told <= set(rounds)
    assert of_circles.record["rows"] == rounds[-1][0]


@pytest.mark.parametrize("rescale", ["none", "minmax"])
def test_a_scaling_that_was_asked_for_is_the_only_one(rescale: str, data: dict[str, Dataset]) -> None:
    scaled = replace(data["circles"], schema=replace(data["circles"].schema, scale=rescale))  # type: ignore[arg-type]
    choice = choose(asked(data["circles"], rescale=rescale, budget_seconds=0.1), scaled)
    assert choice.settings.rescale == rescale
    words = {"none": "unscaled inputs", "minmax": "0 .. 1"}[rescale]
    assert all(words in one["name"] for one in choice.record["candidates"])


def of_few_kinds(random: np.random.Generator) -> NDArray[np.float64]:
    return np.column_stack([random.integers(0, 2, 60), np.full(60, 7.0)]).astype(float)


@pytest.mark.parametrize(
    ("task", "targets"),
    [
        ("regression", np.full(60, 0.1)),
        ("regression", np.arange(60.0)),
        ("multiclass", np.r_[np.zeros(30), np.ones(29), 2]),
        ("binary", np.r_[np.zeros(59), 1]),
    ],
    ids=["constant", "unlearnable", "a class of one row", "two classes, one of one row"],
)
def test_rows_that_there_is_little_to_learn_from_get_a_model_all_the_same(
    task: Task, targets: NDArray[np.float64], tmp_path: Path
) -> None:
    few = stored(tmp_path / "few", of_few_kinds(np.random.default_rng(0)), targets, task)
    assert task == "regression" or min(few.schema.class_counts) == 1
    choice = choose(asked(few, budget_seconds=0.1), few)
    assert choice.settings.solver == "ridge"
    assert all(np.isfinite(one["score"]) for one in choice.record["candidates"])


def race_of(coarse: float) -> Race:
    """A Gaussian kernel that is ahead of a linear model; coarse : error with half of the landmarks."""
    curved = Ran(Candidate("minmax", "gaussian", 0.5), 0.2, 0.5, 1e-6, 8192, 1024, 0.4, 1.0, True)
    linear = Ran(Candidate("minmax", "linear"), 0.3, 0.7, 1e-3, 8192, 11, None, 0.1, True)
    return Race((curved, linear), coarse)


@pytest.mark.parametrize(
    ("rows", "coarse", "task", "solver"),
    [
        (800, 0.25, "binary", "ridge"),
        (100_000, 0.25, "binary", "ridge"),
        (600_000, 0.25, "binary", "fogd"),
        (600_000, 0.2, "binary", "ridge"),  # more landmarks would not help
        (600_000, 0.25, "regression", "ridge"),
        (100_000_000, 0.25, "regression", "fogd"),
    ],
)
def test_many_rows_are_learnt_online_where_landmarks_would_be_too_few(
    rows: int, coarse: float, task: Task, solver: str, data: dict[str, Dataset]
) -> None:
    schema = data["wave" if task == "regression" else "circles"].schema
    update, why = _sized(race_of(coarse), "rows", Shape(rows, 50, 1), 60.0, schema)
    assert (update["solver"], update["kernel"], update["bandwidth"]) == (solver, "gaussian", 0.4)
    assert ("online" in why[-1]) == (solver == "fogd") == ("frequencies" in update)
    if solver == "fogd":
        assert f"{update['frequencies']:,} frequencies" in why[-1]
        assert f"{rows:,} rows are too many" in why[-1]


def test_a_single_row_is_refused(tmp_path: Path) -> None:
    one = stored(tmp_path / "one", np.eye(2), np.array([1.0, 2.0]), "regression")
    shards = one.split("train")[:1]
    alone = replace(one, shards=tuple(replace(shard, row_groups=(1,)) for shard in shards))
    with pytest.raises(ConfigError, match=r"1 training rows, but a choice takes two at least\. Name a solver"):
        choose(asked(one), alone)


def test_an_option_of_a_learner_leaves_nothing_to_a_race() -> None:
    assert TrainSettings(data="rows").solver == "auto"
    assert settings_from(TrainSettings, {"data": "rows", "seed": 3, "workers": 2}, "test").solver == "auto"
    for given in ({"frequencies": 400}, {"passes": 2}, {"kernel": "gaussian"}, {"landmarks": "uniform"}):
        assert settings_from(TrainSettings, {"data": "rows"} | given, "test").solver == "fogd"
    stored_settings = TrainSettings(data="rows").model_dump(mode="json")
    assert TrainSettings.model_validate(stored_settings).solver == "auto"
    assert TrainSettings.model_validate(stored_settings | {"passes": 2}).solver == "fogd"


def test_a_run_that_breaks_off_chooses_the_same_again(data: dict[str, Dataset], tmp_path: Path) -> None:
    settings = asked(data["circles"], out=str(tmp_path / "run"), threads=1, checkpoint_seconds=0.0, checkpoint_rounds=1)
    whole = train(settings.model_copy(update={"out": str(tmp_path / "whole")}))
    broken = TrainingRun(settings)
    for stage in ("ingest", "plan", "learn"):
        getattr(broken, stage)()
    broken.close()
    [unfinished] = [path for path in tmp_path.iterdir() if path.name.startswith(".run")]
    resumed = TrainingRun(settings, resume=unfinished)
    for stage in TRAIN_STAGES:
        getattr(resumed, stage)()
    resumed.close()
    result = resumed.result()
    assert result["resumed"] > 0
    assert result["weights_sha256"] == whole["weights_sha256"]
    assert result["choice"]["why"] == whole["choice"]["why"]
    assert result["test"]["accuracy"] > 0.95
    assert result["chosen"]["bandwidth_reason"] == "by the race"
    assert load_model(result["model"]).provenance["chosen"] == result["chosen"]
    summary = text_summary(result)
    assert "\nChosen  " in summary
    assert all(f"  {sentence}\n" in summary for sentence in result["choice"]["why"])
    kept = json.loads((tmp_path / "run" / "result.json").read_text())
    assert kept["choice"] == result["choice"]
    assert (kept["settings"]["solver"], kept["settings"]["budget_seconds"]) == ("ridge", 60.0)
