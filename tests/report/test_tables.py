"""Any table, from a file to predictions: text, dates and missing values, encoded alike in training and prediction."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.features.predictors import base_of
from okl.foundation.errors import DataError, ModelError
from okl.foundation.settings import IngestSettings, settings_from
from okl.models.file import Model, load_model, save_model
from okl.runs.evaluate import EvaluateSettings, evaluate_model
from okl.runs.predict import SCORE_STAGES, ScoreSettings, ScoringRun
from okl.solvers.online.constraints import check_columns, parse_constraints
from okl.solvers.settings import TrainSettings
from tests.data.mixed import mixed
from tests.rows import train

TEXT_AND_DATES = ("city", "job", "at")


def trained(source: Path, out: Path, **ingest: Any) -> dict[str, Any]:
    ingest_settings = settings_from(
        IngestSettings, {"target": "label", "missing": "mean", "dates": "parts"} | ingest, "test"
    )
    options = {"bandwidth": 4.0, "step_size": 1.0, "frequencies": 50, "passes": 4}
    return train(
        settings_from(
            TrainSettings, {"data": str(source), "ingest": ingest_settings, "out": str(out)} | options, "test"
        )
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    mixed(2000).to_csv(folder / "rows.csv", index=False)
    trained(folder / "rows.csv", folder / "run", scale="standard")
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load_model(folder / "run" / "model")


def test_text_and_dates_improve_a_model(folder: Path) -> None:
    all_columns = json.loads((folder / "run" / "result.json").read_text())
    only_numbers = trained(folder / "rows.csv", folder / "numbers", scale="standard", drop=TEXT_AND_DATES)
    assert only_numbers["test"]["accuracy"] < 0.75
    assert all_columns["test"]["accuracy"] > only_numbers["test"]["accuracy"] + 0.1


def test_a_stored_model_encodes_inputs_like_the_original(model: Model, tmp_path: Path) -> None:
    rows = mixed(300, seed=5).drop(columns="label")
    save_model(model, tmp_path / "copy")
    loaded = load_model(tmp_path / "copy")
    assert loaded.schema == model.schema
    np.testing.assert_array_equal(loaded.scores(rows), model.scores(rows))
    assert json.loads((tmp_path / "copy" / "model.json").read_text())["format_version"] == 3
    uncalibrated = replace(model, predictor=base_of(model.predictor))
    save_model(uncalibrated, tmp_path / "uncalibrated")
    assert json.loads((tmp_path / "uncalibrated" / "model.json").read_text())["format_version"] == 2
    assert not load_model(tmp_path / "uncalibrated").has_probabilities
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    plain = replace(uncalibrated, schema=replace(model.schema, encodings=(), missing="zero"))
    save_model(plain, tmp_path / "plain")
    stored = json.loads((tmp_path / "plain" / "model.json").read_text())
    assert stored["format_version"] == 1
    assert not {"encodings", "svmlight"} & set(stored["schema"])
    assert load_model(tmp_path / "plain").schema == plain.schema


def test_pandas_arrow_csv_and_parquet_get_the_same_scores(folder: Path, model: Model, tmp_path: Path) -> None:
    rows = mixed(400, seed=6).assign(more=1).drop(columns=["label", "split"]).sample(frac=1, random_state=1, axis=1)
    scores = np.asarray(model.scores(rows))
    assert len(np.unique(model.predict(rows))) == 2
    arrow = pa.Table.from_pandas(rows, preserve_index=False)
    categorical = rows.assign(city=rows["city"].astype("category"), job=rows["job"].astype("category"))
    for same in (arrow, arrow.slice(7).to_batches()[0], categorical):
        np.testing.assert_array_equal(model.scores(same), scores[len(scores) - len(same) :])
    pq.write_table(arrow, tmp_path / "rows.parquet")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for source in ("rows.parquet", "rows.csv"):
        given = {
            "model": str(folder / "run/model"),
            "source": str(tmp_path / source),
            "out": str(tmp_path / "out" / source),
        }
        run = ScoringRun(settings_from(ScoreSettings, given, "test"))
        for stage in SCORE_STAGES:
            run.perform_stage(stage)
        np.testing.assert_array_equal(pq.read_table(tmp_path / "out" / source)["score"].to_numpy(), scores)


def test_the_source_and_its_data_set_get_equal_metrics(folder: Path) -> None:
    def measured(source: Path) -> dict[str, Any]:
        given = {"model": str(folder / "run" / "model"), "source": str(source), "split": "all"}
        metrics = evaluate_model(settings_from(EvaluateSettings, given, "test"))["metrics"]
        assert np.sum(metrics.pop("confusion")) == 2000
        assert sum(one["rows"] for one in metrics.pop("reliability")["bins"]) == 2000
        assert metrics.pop("thresholds")["rows"] == 2000
        return dict(metrics)

    assert measured(folder / "rows.csv") == pytest.approx(measured(folder / "run" / "data"))


def test_message_for_a_constraint_on_a_text_column_names_the_key_option(model: Model) -> None:
    constraints, _ = parse_constraints(("abs(difference(city=Paris, city=Berlin)) <= 0.1",))
    with pytest.raises(DataError, match=r"constrained column 'city' was encoded as inputs .* with --key city"):
        check_columns(model.schema, constraints, "data")


def test_a_table_that_does_not_fit_the_model_is_an_error(model: Model) -> None:
    rows = mixed(5)
    with pytest.raises(ModelError, match=r"but got shape \(5, 3\).*or a table, .* with the columns city, job, age"):
        model.scores(np.zeros((5, 3)))
    with pytest.raises(ModelError, match=r"but got type object"):
        model.scores(rows[["city", "job"]].to_numpy())
    with pytest.raises(DataError, match=r"1 of them is missing: 'city'\. Did you mean 'City'"):
        model.scores(rows.rename(columns={"city": "City"}))
    as_text = rows.assign(at=rows["at"].astype(str))
    np.testing.assert_array_equal(model.scores(as_text), model.scores(rows))
    with pytest.raises(DataError, match=r"column 'at', row 2 .*: expected a time written year first, .* 'soon'\."):
        model.scores(as_text.assign(at=[*as_text["at"][:2], "soon", *as_text["at"][3:]]))
    with pytest.raises(ModelError, match=r"Expected a table or an array, but got int"):
        model.scores(3)
    dropping = replace(model, schema=replace(model.schema, missing="drop"))
    with pytest.raises(ModelError, match=r"Row \d of the table has a missing value"):
        dropping.scores(mixed(5).assign(city=pd.Series(["Paris", "Paris", "Paris", None, "Paris"])))
