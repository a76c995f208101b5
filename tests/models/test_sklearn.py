"""Pipelines of scikit-learn's own estimators score raw rows as okl does, and skops loads them without trust."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

import okl
from okl.foundation.errors import ConfigError, ModelError
from okl.models.file import Model
from okl.models.sklearn import to_sklearn
from tests.data.sources import parquet
from tests.models.models import CASES, Case, of_times, raw_rows, schema_of


def through_skops(pipeline: Any) -> Any:
    from skops.io import dumps, loads  # takes most of a second, which other test processes can save

    return loads(dumps(pipeline))


@pytest.mark.parametrize("case", [case for case in CASES if "matern" not in case.kind], ids=str)
def test_loaded_pipeline_scores_as_okl_does(case: Case) -> None:
    model, rows = case.model(), raw_rows()
    pipeline = through_skops(to_sklearn(model))
    expected = model.scores(rows)
    if case.task == "regression":
        expected = model.predict(rows)
        np.testing.assert_allclose(pipeline.predict(rows), expected, atol=1e-5 * np.abs(expected).max())
        return
    rounding = 1e-5 if case.precision == "float32" else 1e-12
    scores = pipeline.decision_function(rows)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=rounding * max(1.0, np.abs(expected).max()))
    np.testing.assert_array_equal(pipeline.predict(rows), model.predict(rows))


def test_values_are_rounded_to_float32_as_those_of_training_were() -> None:
    model, rows = of_times()
    expected = model.scores(rows)
    scores = through_skops(to_sklearn(model)).decision_function(rows)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))


def test_missing_values_are_zero_if_the_model_requires_it() -> None:
    model = Model(schema_of("binary", missing="zero"), Case("fourier").model().predictor)
    rows = raw_rows()
    rows[::3, 1] = np.nan
    pipeline = through_skops(to_sklearn(model))
    np.testing.assert_allclose(pipeline.decision_function(rows), model.scores(rows), atol=1e-5)


@pytest.mark.parametrize(("solver", "n_classes"), [("logistic", 2), ("ridge", 2), ("ridge", 3)])
def test_probabilities_are_those_of_okl(tmp_path: Path, solver: Literal["logistic", "ridge"], n_classes: int) -> None:
    random = np.random.default_rng(3)
    rows = random.standard_normal((300, 3))
    labels = np.digitize(rows[:, 0] + rows[:, 1] ** 2 + 0.5 * random.standard_normal(300), [0.5, 1.5][: n_classes - 1])
    source = parquet(tmp_path, pa.table({f"x{i}": rows[:, i].astype(np.float32) for i in range(3)} | {"y": labels}))
    model = okl.load(okl.train(source, solver=solver, out=tmp_path / "run")["model"])
    pipeline, expected = through_skops(to_sklearn(model)), model.predict_proba(rows)
    assert expected.shape == (300, n_classes)
    np.testing.assert_allclose(pipeline.predict_proba(rows), expected, atol=1e-6)
    np.testing.assert_array_equal(pipeline.predict(rows), model.predict(rows))
    predictor: Any = model.predictor
    shifted = replace(model, predictor=replace(predictor, shifts=(0.3,) * len(predictor.shifts)))
    assert not hasattr(to_sklearn(shifted), "predict_proba")


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_missing_values_are_means_with_an_indicator_input(tmp_path: Path, scale: str) -> None:
    random = np.random.default_rng(2)
    rows = random.standard_normal((400, 3)) + np.array([0.0, 5.0, -2.0])
    label = rows[:, 0] * (rows[:, 1] - 5.0) > 0
    rows[random.random(rows.shape) < [0.2, 0.0, 0.1]] = np.nan
    source = parquet(tmp_path, pa.table({f"x{i}": rows[:, i].astype(np.float32) for i in range(3)} | {"y": label}))
    result = okl.train(source, ingest={"missing": "mean", "scale": scale}, frequencies=20, out=tmp_path / "run")
    model = okl.load(result["model"])
    assert model.schema.n_features == 5
    pipeline = through_skops(to_sklearn(model))
    table = {f"x{i}": rows[:, i].astype(np.float32) for i in range(3)}
    np.testing.assert_allclose(
        pipeline.decision_function(np.stack([*table.values()], axis=1)), model.scores(pa.table(table)), atol=1e-5
    )
    assert okl.export(result["model"], tmp_path / "model.skops", "skops")["largest_difference"] < 1e-5


def test_kernel_without_a_name_in_scikit_learn_is_refused() -> None:
    with pytest.raises(ConfigError, match="scikit-learn has no kernel named 'matern32'"):
        to_sklearn(Case("nystrom matern32").model())


def test_expansions_in_cells_are_refused() -> None:
    with pytest.raises(ModelError, match=r"kind 'local' cannot be exported to scikit-learn\. Export to ONNX"):
        to_sklearn(Case("cells gaussian").model())
