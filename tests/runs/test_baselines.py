"""The linear baseline is scikit-learn's logistic regression with a penalty chosen for the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import okl
from okl.data.dataset import Schema
from okl.data.manifest import open_dataset
from okl.metrics.calibration import log_losses
from okl.runs import baselines
from okl.runs.baselines import BoostingPredictor, fit_logistic, train_boosting
from okl.solvers.settings import TrainSettings


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("cost", [0.01, 100.0])
def test_logistic_regression_is_that_of_scikit_learn(n_classes: int, cost: float) -> None:
    random = np.random.default_rng(0)
    columns = random.normal(size=(600, 8))
    classes = (columns[:, :n_classes] + random.normal(size=(600, n_classes))).argmax(axis=1)
    weights = random.uniform(0.5, 2.0, 600)
    slopes, offsets = fit_logistic(columns, classes, cost, weights)
    peer = LogisticRegression(C=cost, max_iter=2000, tol=1e-9).fit(columns, classes, weights)
    assert np.abs(peer.coef_).max() > 0.05
    np.testing.assert_allclose(slopes, peer.coef_, atol=1e-3)
    if n_classes == 2:
        np.testing.assert_allclose(offsets, peer.intercept_, atol=1e-3)
    else:  # equal up to a constant
        np.testing.assert_allclose(offsets - offsets.mean(), peer.intercept_ - peer.intercept_.mean(), atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_of_boosting_are_as_far_from_0_and_1_as_scikit_learns(n_classes: int) -> None:
    labels = np.arange(n_classes)
    schema = Schema(("x",), "y", "binary" if n_classes == 2 else "multiclass", tuple(labels.tolist()))
    predictor = BoostingPredictor(schema, None, (0.0,) * (1 if n_classes == 2 else n_classes))
    scores = np.array([800.0, -800.0]) if n_classes == 2 else np.array([[900.0, 0.0, -50.0], [0.0, -900.0, 5.0]])
    logits = predictor.logits(scores)
    assert logits is not None
    classes = np.array([0, 1])
    chances = np.c_[scores < 0, scores > 0] if n_classes == 2 else np.exp(scores - scores.max(1)[:, None])
    chances = chances / chances.sum(axis=1, keepdims=True)
    assert log_losses(logits, classes).mean() == pytest.approx(log_loss(classes, chances, labels=labels), rel=1e-3)


def test_boosting_is_left_out_for_sparse_rows_and_the_model_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(["red", "dog", "sun"], 5)) for _ in range(80)]
    rows = {"body": texts, "price": [3.0 * text.count("dog") for text in texts]}
    result = okl.train(rows, target="price", ingest={"text": ["body"]}, beside="boosting", out=str(tmp_path / "run"))
    assert "Gradient boosting takes dense rows" in caplog.text
    assert "boosting" not in result["baselines"]
    assert (
        "no model is trained beside this one, which is itself linear: --beside takes dense rows"
        in result["assumptions"]
    )
    assert (tmp_path / "run" / "model").is_dir()
    rows["size"] = [float(number % 7) for number in range(80)]
    result = okl.train(rows, target="price", ingest={"text": ["body"]}, beside="boosting", out=str(tmp_path / "more"))
    assert {"linear-without-words", "boosting-without-words"} < {*result["baselines"]}
    assert result["baselines"]["boosting-without-words"]["test"]["accuracy"] < result["test"]["accuracy"]


def test_boosting_is_trained_with_one_row_of_a_class_and_left_out_with_a_message_without_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    random = np.random.default_rng(0)
    labels = np.r_[random.integers(0, 2, 10_500), 2]  # beyond 10,000 rows, scikit-learn holds out rows of each class
    table = pa.table({"x": random.normal(size=len(labels)) + labels, "y": labels})
    parquet.write_table(table, tmp_path / "rows.parquet")
    okl.ingest(str(tmp_path / "rows.parquet"), str(tmp_path / "data"), target="y")
    data = open_dataset(tmp_path / "data")
    settings = TrainSettings(data=str(tmp_path / "data"))
    boosting = train_boosting(settings, data)
    assert boosting is not None
    assert boosting.scores(np.array([[0.0], [1.0]])).shape == (2, 3)
    monkeypatch.setattr(baselines, "BOOSTED_ROWS", 50)
    assert train_boosting(settings, data) is None
    assert "lack the class 2" in caplog.text
