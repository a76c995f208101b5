"""Exports of models of texts and of svmlight text score raw rows as okl does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import okl
from okl.foundation.errors import ConfigError
from okl.models import export as exporting
from tests.runs.test_sparse import documents, drawn, written

UNUSUAL_TEXTS = [
    "",
    "nothing known",
    "W1 w1 w1 W2",
    "w1,w2;w3 (w4)",
    "a b c w30 É été",
    "ß ẞ İI w5",
    "w7\nw8\tw9",
    "_x_ w10_ 12",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    frame = documents(500)
    frame["title"] = frame["body"].str[:8]
    frame.loc[::9, "price"] = np.nan
    options: dict[str, Any] = {"target": "label", "scale": "standard", "threads": 1}
    okl.train(frame, text=("body", "title"), out=str(folder / "mixed"), **options)
    okl.train(frame[["body", "label"]], text=("body",), out=str(folder / "text"), **options)
    numbers = frame[["body", "price", "label"]]
    okl.train(numbers, text=("body",), out=str(folder / "numbers"), precision="float64", **options)
    inputs, targets = drawn(600, 6000, 2)
    okl.train(str(written(folder / "rows.svm", inputs, targets)), out=str(folder / "svmlight"), threads=1)
    return folder


def new_rows() -> pd.DataFrame:
    frame = documents(60, seed=1)
    frame["title"] = frame["body"].str[:8]
    frame.loc[: len(UNUSUAL_TEXTS) - 1, "body"] = UNUSUAL_TEXTS
    frame.loc[20:30, "price"] = np.nan
    return frame


@pytest.mark.parametrize("name", ["text", "numbers", "mixed"])
def test_a_graph_scores_the_words_of_texts(trained: Path, tmp_path: Path, name: str) -> None:
    import onnxruntime

    model, rows = okl.load(str(trained / name / "model")), new_rows()
    assert okl.export(str(trained / name / "model"), tmp_path / "model.onnx")["largest_difference"] < 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    taken = {one.name for one in session.get_inputs()}
    expected = {"text": {"body"}, "numbers": {"body", "price"}, "mixed": {"body", "title", "price", "kind"}}
    assert taken == expected[name]
    assert (r'"(?u)\b\w\w+\b"' in session.get_modelmeta().description) is True
    feeds = {
        text.column: exporting.words_of(pa.array(rows[text.column], from_pandas=True)) for text in model.schema.texts
    }
    feeds |= {column: rows[column].to_numpy() for column in taken - feeds.keys()}
    outputs = dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds), strict=True))
    scores = model.scores(rows)
    np.testing.assert_allclose(outputs["scores"], scores, rtol=0, atol=1e-5 * np.abs(scores).max())
    np.testing.assert_array_equal(outputs["labels"], model.predict(rows))
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(rows), atol=1e-5)
    assert len(np.unique(scores[:, 0])) > 50


@pytest.mark.parametrize("name", ["text", "numbers"])
def test_a_pipeline_scores_texts(trained: Path, tmp_path: Path, name: str) -> None:
    import skops.io

    model, rows = okl.load(str(trained / name / "model")), new_rows()
    okl.export(str(trained / name / "model"), tmp_path / "model.skops", "skops")
    pipeline = skops.io.load(tmp_path / "model.skops")
    columns = rows[list(model.schema.source_columns)].assign(body=rows["body"].fillna(""))
    expected = model.scores(rows)
    for given in (columns, columns.to_numpy(dtype=object)):
        scores = pipeline.decision_function(given)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
        np.testing.assert_array_equal(pipeline.predict(given), model.predict(rows))
    again = pipeline.decision_function(columns)  # the vocabulary is fitted once
    np.testing.assert_array_equal(again, pipeline.decision_function(columns))


@pytest.mark.parametrize("form", ["onnx", "skops"])
def test_heavy_tails_are_squashed_in_exported_files_with_text(form: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    numbers, words = draw.standard_t(1.2, 300), draw.choice(["red", "green", "blue"], (300, 3))
    labels = np.where(np.tanh(numbers) + (words[:, 0] == "red") > 0.3, "yes", "no")
    columns = {"x": numbers, "words": [" ".join(row) for row in words], "y": labels}
    options: dict[str, Any] = {"target": "y", "text": ("words",), "rescale": "robust", "solver": "c-svm", "threads": 1}
    result = okl.train(pd.DataFrame(columns), kernel="linear", out=str(tmp_path / "run"), **options)
    assert [column.name for column in okl.load(result["model"]).schema.squashed] == ["x"]
    assert okl.export(result["model"], tmp_path / f"model.{form}")["largest_difference"] < 1e-5


def test_svmlight_rows_are_a_matrix(trained: Path, tmp_path: Path) -> None:
    import onnxruntime
    import skops.io

    model = okl.load(str(trained / "svmlight" / "model"))
    rows = sparse.vstack(
        [drawn(40, model.schema.n_features, 2, seed=5)[0], sparse.csr_matrix((1, model.schema.n_features))]
    )
    expected = model.scores(rows.tocsr())
    for form in ("onnx", "skops"):
        okl.export(str(trained / "svmlight" / "model"), tmp_path / f"model.{form}", form)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    scores, labels, *_ = session.run(None, {"rows": rows.toarray()})
    pipeline = skops.io.load(tmp_path / "model.skops")
    for found in (scores, pipeline.decision_function(rows.tocsr())):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(labels, model.predict(rows.tocsr()))


def test_unsupported_models_of_a_format_are_refused(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="the model takes text, dates or hashed indices"):
        okl.export(str(trained / "mixed" / "model"), tmp_path / "model.skops", "skops")
    monkeypatch.setattr(exporting, "MOST_DENSE", 100)
    with pytest.raises(ConfigError, match=r"sparse rows of \S+ columns, but ONNX holds rows dense, of at most 100"):
        okl.export(str(trained / "svmlight" / "model"), tmp_path / "model.onnx")
    assert not any(tmp_path.iterdir())
