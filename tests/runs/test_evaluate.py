"""Evaluation gives the figures that the run reported, and they match the predictions."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from okl.data.ingest.run import ingest
from okl.data.manifest import open_dataset
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.locations import Place
from okl.foundation.settings import settings_from
from okl.metrics.definitions import MOST_LARGEST, LargestLosses
from okl.models.file import load_model
from okl.report.training import text_evaluation
from okl.runs.baselines import ConstantPredictor
from okl.runs.evaluate import EvaluateSettings, evaluate_model
from okl.runs.explain import sample_source
from okl.runs.predict import ScoreSettings, ScoringRun
from okl.runs.results import largest_errors
from tests.data.sources import settings as ingest_settings
from tests.rows import curved, inputs_of, train, train_settings, write

TASKS = ["binary", "multiclass", "regression"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("runs")
    found: dict[str, dict[str, Any]] = {}
    for task in TASKS:
        source = write(folder, curved(900, task), f"{task}.parquet")  # type: ignore[arg-type]
        found[task] = train(train_settings(source, folder / task, {"scale": "minmax"}, passes=3))
    return found


def evaluate(result: dict[str, Any], source: Place, **values: Any) -> dict[str, Any]:
    given = {"model": result["model"], "source": str(source)} | values
    return evaluate_model(settings_from(EvaluateSettings, given, "test"))


def close(metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        name: pytest.approx(value, rel=1e-9) for name, value in metrics.items() if not isinstance(value, (dict, list))
    }


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_of_the_training_data_has_the_figures_of_the_run(task: str, split: str, runs: dict[str, Any]) -> None:
    found = evaluate(runs[task], Path(runs[task]["run"]) / "data", split=split)
    assert (found["split"], found["rows"]) == (split, runs[task]["dataset"][f"{split}_rows"])
    assert found["metrics"] == runs[task][split]


@pytest.mark.parametrize("task", TASKS)
def test_a_source_of_the_same_rows_has_the_same_figures(task: Any, runs: dict[str, Any], tmp_path: Path) -> None:
    rows = curved(900, task)
    source = write(tmp_path, rows.filter(pc.equal(rows.column("split"), "test")).select(["y", "c", "b", "a"]))
    found = evaluate(runs[task], source)
    assert found["split"] == "all"
    assert found["rows"] == runs[task]["dataset"]["test_rows"]
    expected = close(runs[task]["test"])
    assert {name: found["metrics"][name] for name in expected} == expected


def test_all_rows_and_a_set_without_a_split(runs: dict[str, Any], tmp_path: Path) -> None:
    rows = curved(900)
    predicted = load_model(runs["binary"]["model"]).predict(inputs_of(rows))
    accuracy = pytest.approx(np.mean(predicted == rows.column("y").to_numpy()), abs=1e-12)
    found = evaluate(runs["binary"], Path(runs["binary"]["run"]) / "data", split="all")
    assert (found["split"], found["rows"], found["metrics"]["accuracy"]) == ("all", 900, accuracy)
    bare = ingest(write(tmp_path, rows.drop_columns(["split"])), tmp_path / "set", ingest_settings()).dataset
    found = evaluate(runs["binary"], bare.folder)
    assert (found["split"], found["rows"], found["metrics"]["accuracy"]) == ("all", 900, accuracy)


def test_other_scaling_and_order_of_columns_of_a_data_set_do_not_matter(runs: dict[str, Any], tmp_path: Path) -> None:
    reordered = write(tmp_path, curved(900).select(["split", "c", "y", "a", "b"]))
    other = ingest(reordered, tmp_path / "set", ingest_settings(scale="standard")).dataset
    assert evaluate(runs["binary"], other.folder)["metrics"] == runs["binary"]["test"]


def test_another_target_or_missing_columns_are_refused(runs: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"the target 'y' \(regression\) differs from the model's target 'y' \(binary\)"
    ):
        evaluate(runs["binary"], Path(runs["regression"]["run"]) / "data")
    without = ingest(write(tmp_path, curved(100).drop_columns(["b"])), tmp_path / "set", ingest_settings()).dataset
    with pytest.raises(DataError, match="the data set lacks input columns of the model: 'b'"):
        evaluate(runs["binary"], without.folder)
    with pytest.raises(DataError, match=r"has no target column 'y'.* The other 3 columns exist: okl predict"):
        evaluate(runs["binary"], write(tmp_path, curved(100).drop_columns(["y"]), "bare.parquet"))


def test_a_set_with_fewer_labels_is_measured_by_its_own(runs: dict[str, Any], tmp_path: Path) -> None:
    rows = curved(900, "multiclass")
    two = rows.filter(pc.not_equal(rows.column("y"), pa.scalar(6)))
    made = ingest(write(tmp_path, two), tmp_path / "set", ingest_settings()).dataset
    assert made.schema.task == "binary"
    found = evaluate(runs["multiclass"], made.folder, split="all")
    predicted = load_model(runs["multiclass"]["model"]).predict(inputs_of(two))
    assert found["metrics"]["accuracy"] == pytest.approx(np.mean(predicted == two.column("y").to_numpy()), abs=1e-12)
    assert found["metrics"]["confusion"][1] == [0, 0, 0]


def emptied(rows: pa.Table, name: str, places: list[int]) -> pa.Table:
    """Return rows with missing values in a column."""
    column = rows.column(name)
    present = pa.array(~np.isin(np.arange(len(rows)), places))
    values = pc.if_else(present, column.combine_chunks(), pa.scalar(None, column.type))
    return rows.set_column(rows.column_names.index(name), name, values)


@pytest.mark.parametrize("task", TASKS)
def test_rows_without_a_target_are_left_out_and_counted(task: Any, runs: dict[str, Any], tmp_path: Path) -> None:
    rows, places = curved(200, task), [0, 7, 199]
    source = write(tmp_path, emptied(rows, "y", places))
    whole = write(tmp_path, rows.take(np.setdiff1d(np.arange(200), places)), "whole.parquet")
    found, expected = evaluate(runs[task], source), evaluate(runs[task], whole)
    assert found["rows"] == expected["rows"] == 197
    assert found["warnings"] == ["3 rows were left out, because the target 'y' has no value."]
    assert expected["warnings"] == []
    figures = close(expected["metrics"])
    assert {name: found["metrics"][name] for name in figures} == figures
    model = load_model(runs[task]["model"])
    sampled, warnings = sample_source(model, str(source), 1000, 0)
    np.testing.assert_array_equal(sampled.inputs, sample_source(model, str(whole), 1000, 0)[0].inputs)
    assert warnings == found["warnings"]
    with pytest.raises(DataError, match=r"none\.parquet: no row has a value of the target 'y' and of every column"):
        evaluate(runs[task], write(tmp_path, emptied(rows, "y", list(range(200))), "none.parquet"))


def test_values_that_training_did_not_miss_are_reported(runs: dict[str, Any], tmp_path: Path) -> None:
    model = load_model(runs["binary"]["model"])
    assert model.schema.missing == "mean"
    rows = curved(200, "binary")
    mean = model.schema.feature_statistics[model.schema.features.index("a")].mean
    source = write(tmp_path, emptied(rows, "a", [3, 5]))
    a = np.where(np.isin(np.arange(200), [3, 5]), np.float32(mean), rows.column("a").to_numpy())
    filled = rows.set_column(rows.column_names.index("a"), "a", pa.array(a))
    found = evaluate(runs["binary"], source)
    reason = (
        "Missing values were replaced by training means in columns that had none missing in training: 'a' (2 rows)."
    )
    assert found["warnings"] == [reason]
    assert found["metrics"] == evaluate(runs["binary"], write(tmp_path, filled, "filled.parquet"))["metrics"]
    settings = ScoreSettings(model=runs["binary"]["model"], source=str(source), out=str(tmp_path / "scores"))
    assert ScoringRun(settings).perform()["warnings"] == [reason]


def test_a_column_that_is_missing_far_more_often_than_in_training_is_named(tmp_path: Path) -> None:
    some = emptied(curved(400, "binary"), "a", list(range(0, 400, 20)))
    result = train(train_settings(write(tmp_path, some), tmp_path / "run", {"missing": "mean"}, passes=1))
    for places, warnings in (
        (range(0, 400, 10), []),
        (range(400), ["Values are missing far more often than in training: 'a' in 100% of 400 rows, in training 4%."]),
    ):
        source = write(tmp_path, emptied(curved(400, "binary"), "a", list(places)), "new.parquet")
        out = tmp_path / f"scores{len(places)}"
        settings = ScoreSettings(model=result["model"], source=str(source), out=str(out))
        assert ScoringRun(settings).perform()["warnings"] == warnings


@pytest.mark.parametrize("task", TASKS)
def test_the_constant_predictor_depends_on_training_targets_only(task: str, runs: dict[str, Any]) -> None:
    schema = open_dataset(Path(runs[task]["run"]) / "data").schema
    predictor = ConstantPredictor(schema)
    assert (predictor.n_inputs, predictor.n_outputs, predictor.arrays()) == (3, schema.n_outputs, {})
    first, second = predictor.scores(np.zeros((5, 3))), predictor.scores(np.full((5, 3), 7.0))
    np.testing.assert_array_equal(first, second)
    constant = "mean" if task == "regression" else "majority"
    metrics = runs[task]["baselines"][constant]["train"]
    if task == "regression":
        assert metrics["r2"] == pytest.approx(0.0, abs=1e-6)
    else:
        assert metrics["accuracy"] == pytest.approx(max(schema.class_counts) / sum(schema.class_counts))


def test_a_scaled_target_may_be_as_small_as_the_least_float(tmp_path: Path) -> None:
    rows = curved(300, "regression")
    tiny = rows.set_column(rows.column_names.index("y"), "y", pc.multiply(rows.column("y"), 1e-160))
    scaled = {"scale": "standard", "scale_target": True}
    found = [
        train(train_settings(write(tmp_path, content, f"{name}.parquet"), tmp_path / name, scaled, bandwidth=2.0))
        for name, content in (("own", rows), ("tiny", tiny))
    ]
    losses = [result["test"]["squared_loss"] for result in found]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)  # squares of 1e-160 have few digits
    assert losses[0] > 0.01


@pytest.mark.parametrize("task", TASKS)
def test_the_largest_errors_of_a_run_are_those_of_all_its_test_rows(task: Any, runs: dict[str, Any]) -> None:
    result, rows = runs[task], curved(900, task)
    rows = rows.filter(pc.equal(rows.column("split"), "test"))
    model, targets = load_model(result["model"]), rows.column("y").to_numpy()
    predicted = model.predict(inputs_of(rows))
    if task == "regression":
        losses = np.abs(predicted - targets)
    else:
        chances = model.predict_proba(inputs_of(rows))
        losses = -np.log(chances[np.arange(len(rows)), np.searchsorted(model.schema.labels, targets)])
    order = np.argsort(-losses, kind="stable")[:MOST_LARGEST]
    found = result["largest_errors"]
    assert found["on"] == "test rows"
    assert [row["loss"] for row in found["rows"]] == pytest.approx(losses[order].tolist(), rel=1e-4)
    for row, index in zip(found["rows"], order.tolist(), strict=True):
        assert row["target"] == pytest.approx(targets[index])
        assert row["prediction"] == pytest.approx(predicted[index], rel=1e-4)
        assert row["values"] == {name: pytest.approx(rows.column(name)[index].as_py()) for name in row["values"]}
        assert set(row["values"]) == {"a", "b", "c"}
        assert row.get("probability", np.exp(-row["loss"])) == pytest.approx(np.exp(-row["loss"]))


def test_values_of_largest_errors_are_those_of_the_source(tmp_path: Path) -> None:
    moments = [None if k % 5 == 0 else datetime(1990 + 3 * k, 1 + k, 2 + k, k, 17 + k) for k in range(11)]
    columns: dict[str, list[Any]] = {
        "key": [f"k{k}" for k in range(11)],
        "text": [None if k % 4 == 0 else "ab"[k % 2] for k in range(11)],
        "day": [None if at is None else at.date() for at in moments],
        "time": moments,
        "number": [None if k % 3 == 0 else 0.1 * k for k in range(11)],
        "y": [k % 2 for k in range(11)],
    }
    source = write(tmp_path, pa.table(columns))
    options = {"keys": ["key"], "missing": "mean", "dates": "parts", "rows_per_shard": 4, "rows_per_group": 2}
    data = ingest(source, tmp_path / "set", ingest_settings(**options)).dataset
    places = [(shard.index, row) for shard in data.shards for row in range(shard.rows)]
    shards, inside = np.array(places).T
    every = LargestLosses(np.ones(len(places)), shards, inside)
    names = ["text", "day", "time", "number"]
    found = largest_errors(data, ConstantPredictor(data.schema), every, names, "float32")
    assert len(found) == 11
    for row in found:
        k = int(row["keys"]["key"][1:])
        at = moments[k]
        expected = {"text": columns["text"][k], "number": columns["number"][k] and pytest.approx(columns["number"][k])}
        expected |= {"day": at and f"{at:%Y-%m-%d}", "time": at and f"{at:%Y-%m-%d %H:%M}"}
        assert row["values"] == expected
        assert row["target"] == columns["y"][k]


def test_dates_beyond_those_of_python_are_named_among_the_largest_errors(tmp_path: Path) -> None:
    far = ["0001-01-01 00:00:00", "9999-12-31 23:59:59"]
    columns = {"time": [far[k % 2] if k % 3 == 0 else "2020-01-02 10:00:00" for k in range(12)], "y": [0, 1] * 6}
    source = tmp_path / "far.csv"
    pd.DataFrame(columns).to_csv(source, index=False)
    data = ingest(source, tmp_path / "set", ingest_settings(dates="parts")).dataset
    shards, inside = np.zeros(12, dtype=np.int64), np.arange(12)
    every = LargestLosses(np.ones(12), shards, inside)
    found = largest_errors(data, ConstantPredictor(data.schema), every, ["time"], "float32")
    values = {row["values"]["time"] for row in found}
    assert values >= {"2020-01-02 10:00", "after the year 9999"}


def test_the_constant_of_the_training_rows_is_a_baseline_of_the_model(runs: dict[str, Any]) -> None:
    for task, name in (("binary", "majority"), ("multiclass", "majority"), ("regression", "mean")):
        found = evaluate(runs[task], Path(runs[task]["run"]) / "data")["baselines"]
        of_run = runs[task]["baselines"][name]["test"]
        assert list(found) == [name]
        assert found[name] == {key: of_run[key] for key in found[name]}


@pytest.mark.parametrize("wanted", [{"recall": 0.9}, {"precision": 0.8}])
def test_a_threshold_is_chosen_for_a_recall_or_precision_and_predicts_so(
    wanted: dict[str, Any], runs: dict[str, Any], tmp_path: Path
) -> None:
    data = Path(runs["binary"]["run"]) / "data"
    found = evaluate(runs["binary"], data, **wanted)
    assert found["wanted"] == wanted
    (name, value), confusion = next(iter(wanted.items())), np.array(found["metrics"]["confusion"])
    of = confusion.sum(axis=1)[1] if name == "recall" else confusion.sum(axis=0)[1]
    assert confusion[1, 1] / of >= value
    again = evaluate(runs["binary"], data, threshold=found["threshold"])
    assert again["metrics"]["confusion"] == found["metrics"]["confusion"]
    assert again["metrics"]["accuracy"] == found["metrics"]["accuracy"]
    summary = text_evaluation(found)
    assert f"was chosen on these rows: {name} at least {value:g}. To predict: okl predict" in summary
    assert "(in use)" in summary
    rows = curved(900)
    source = write(tmp_path, rows)
    assert evaluate(runs["binary"], source, **wanted)["rows"] == 900
    model = load_model(runs["binary"]["model"])
    assert model.evaluate(data, **wanted) == found["metrics"] | {"threshold": found["threshold"]}
    assert model.evaluate(data, threshold=found["threshold"])["confusion"] == found["metrics"]["confusion"]


def test_impossible_thresholds_are_refused(runs: dict[str, Any]) -> None:
    data = Path(runs["binary"]["run"]) / "data"
    with pytest.raises(ConfigError, match=r"recall and precision both determine the threshold\. Remove one"):
        evaluate(runs["binary"], data, recall=0.5, precision=0.5)
    several = Path(runs["multiclass"]["run"]) / "data"
    refused = r"^recall = 0\.5 is for two classes, but the model is for multiclass targets"
    with pytest.raises(ConfigError, match=refused):
        evaluate(runs["multiclass"], several, recall=0.5)
    with pytest.raises(ConfigError, match=refused):
        load_model(runs["multiclass"]["model"]).evaluate(several, recall=0.5)
    with pytest.raises(ConfigError, match="threshold and precision both determine"):
        load_model(runs["binary"]["model"]).evaluate(data, threshold=0.5, precision=0.5)
