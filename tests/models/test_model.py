"""A model in Python: rows of any kind, evaluation, explanation and display."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, log_loss, r2_score

import okl
from okl.foundation.errors import ConfigError, DataError, ModelError
from okl.models.file import Model, load_model
from okl.models.quality import Importance, Importances
from okl.report.explanation import importance_blocks


def table_of(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"size": rng.standard_normal(rows), "idle": rng.standard_normal(rows)})
    table["town"] = rng.choice(["Aix", "Bonn"], rows)
    table["stays"] = np.where(table["size"] + 2.0 * (table["town"] == "Bonn") > 1.0, "yes", "no")
    return table


@pytest.fixture(scope="module")
def model() -> Model:
    train = table_of(120, 0)
    found: Model = okl.KernelClassifier().fit(train.drop(columns="stays"), train["stays"]).model_
    return found


def test_rows_of_every_kind_are_predicted_and_evaluated_alike(model: Model, tmp_path: Path) -> None:
    rows = table_of(200, 1)
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    labels, chances, metrics = model.predict(rows), model.predict_proba(rows), model.evaluate(rows)
    assert metrics["accuracy"] == pytest.approx(accuracy_score(rows["stays"], labels))
    assert metrics["log_loss"] == pytest.approx(log_loss(rows["stays"], chances))
    assert metrics["accuracy"] > 0.9
    for path in (tmp_path / "rows.parquet", str(tmp_path / "rows.csv")):
        np.testing.assert_array_equal(model.predict(path), labels)
        np.testing.assert_array_equal(model.predict_proba(path), chances)
        assert model.evaluate(path) == metrics
        assert model.explain(path) == model.explain(rows)
    other = np.where(rows["stays"] == "yes", "no", "yes")
    assert model.evaluate(rows, other)["accuracy"] == pytest.approx(1.0 - metrics["accuracy"])
    assert model.evaluate(rows.drop(columns="stays"), list(other)) == model.evaluate(rows, other)
    inputs = np.column_stack([rows["size"], rows["idle"], rows["town"] == "Aix", rows["town"] == "Bonn"])
    assert model.evaluate(inputs, rows["stays"]) == metrics


def test_data_set_is_evaluated_on_its_test_rows(tmp_path: Path) -> None:
    result = okl.train(
        table_of(200, 2), target="stays", holdout=0.25, solver="ridge", n_landmarks=20, out=tmp_path / "run"
    )
    data = result.dataset["folder"]
    assert result.model.evaluate(data) == okl.evaluate(result["model"], data)["metrics"]
    assert result.model.evaluate(data)["accuracy"] == result["test"]["accuracy"]
    assert len(result.model.predict(data)) == 200


def test_explanation_ranks_the_columns_that_decide(model: Model) -> None:
    found = model.explain(table_of(600, 3))
    assert {item.column for item in found.columns[:2]} == {"size", "town"}
    assert found.columns[1].rise > 0.05 > abs(found.columns[2].rise)
    assert model.explain(table_of(300, 3), most_rows=40).rows == 40
    assert repr(found).splitlines()[0] == "Importance of columns on 600 rows (accuracy)"
    assert len(repr(found).splitlines()) == 4


def test_importances_of_a_regression_are_shown_in_units_of_the_target() -> None:
    shown = Importances(10, 3, 9.0, (Importance("size", 16.0, 1.0),), "squared-error")
    assert repr(shown).splitlines() == [
        "Importance of columns on 10 rows (root mean squared error)",
        "size    2 +- 0.1",
    ]
    (chart,) = importance_blocks(shown.as_json() | {"on": "rows"}, "float64")
    assert [bar.text for bar in chart.bars] == ["+2.00 +- 0.10"]  # type: ignore[union-attr]


def test_metrics_show_their_numbers_without_pictures(model: Model) -> None:
    metrics = model.evaluate(table_of(200, 1))
    assert len(json.dumps(metrics)) > 2000 > 4 * len(repr(metrics))
    assert f"'accuracy': {metrics['accuracy']!r}, " in repr(metrics)
    assert f"'confusion': {metrics['confusion']!r}, " in repr(metrics)
    assert repr(metrics).endswith("'reliability': ..., 'thresholds': ...}")
    assert repr(okl.evaluate(model, table_of(200, 1))["metrics"]) == repr(metrics)
    assert "..." in repr(model.evaluate(table_of(200, 1), recall=0.5))


def test_model_is_shown_in_a_few_lines_without_its_numbers(model: Model) -> None:
    shown = repr(model)
    assert 3 <= len(shown.splitlines()) <= 6
    assert len(shown) < 400
    assert "stays: 'no', 'yes'; probabilities" in shown
    assert "size, idle, town (3 columns)" in shown
    assert "120 rows" in shown
    page = Model(model.schema, model.predictor, {"solver": "<b>"}, model.provenance)._repr_html_()
    assert page.startswith("<table>")
    assert "&lt;b&gt;" in page


def test_saved_model_is_the_same(model: Model, tmp_path: Path) -> None:
    rows = table_of(50, 4)
    np.testing.assert_array_equal(load_model(_saved(model, tmp_path)).predict_proba(rows), model.predict_proba(rows))
    with pytest.raises(ModelError, match="already exists"):
        model.save(tmp_path / "model")


def test_rows_as_dicts_are_scored_as_in_a_table(model: Model) -> None:
    table = table_of(9, 0)
    rows = table.to_dict("records")
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(table))
    np.testing.assert_array_equal(model.predict_proba(rows[0]), model.predict_proba(table[:1]))
    np.testing.assert_array_equal(model.predict_proba(table.to_dict("list")), model.predict_proba(table))
    assert model.evaluate(rows) == model.evaluate(table)
    first = {name: value for name, value in rows[0].items() if name != "town"}
    np.testing.assert_array_equal(
        model.predict_proba([first, rows[1]]), model.predict_proba([first | {"town": None}, rows[1]])
    )
    with pytest.raises(DataError, match="1 of them is missing: 'town'"):
        model.predict(first)


def test_regression_of_an_array() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((80, 2))
    targets = 100.0 * inputs[:, 0]
    model = okl.KernelRegressor().fit(inputs, targets).model_
    fresh = rng.standard_normal((60, 2))
    found = model.evaluate(fresh, 100.0 * fresh[:, 0])
    assert found["r2"] == pytest.approx(r2_score(100.0 * fresh[:, 0], model.predict(fresh)))
    with pytest.raises(ModelError, match="has no probabilities"):
        model.predict_proba(fresh)


@pytest.mark.parametrize(
    ("values", "targets", "error", "message"),
    [
        (table_of(9, 0), ["yes"], DataError, "There are 1 targets, but 9 rows"),
        (table_of(9, 0), ["maybe"] * 9, DataError, "'maybe' in row 0"),
        (table_of(9, 0).drop(columns="stays"), None, DataError, "table has no target column 'stays'"),
        (table_of(9, 0).drop(columns="town"), None, DataError, "1 of them is missing: 'town'"),
        (np.zeros((9, 3)), ["yes"] * 9, ModelError, "takes rows of 4 columns"),
        ("rows.csv", ["yes"], ConfigError, "targets are for rows in memory"),
        (5, None, ModelError, "Expected a table or an array, but got int"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    model: Model, values: Any, targets: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        model.evaluate(values, targets)


def _saved(model: Model, folder: Path) -> Path:
    model.save(folder / "model")
    return folder / "model"
