"""Tables of text, dates and missing values, as ONNX: each column an input, encoded inside."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

import okl
from okl.errors import ConfigError
from okl.exporting.madeup import UNSEEN, feeds_of, made_up
from okl.exporting.onnxmodel import to_onnx
from okl.exporting.sklearnmodel import to_sklearn
from okl.store.model import Model
from okl.store.piecereading import SourceBatch
from okl.store.rawrows import prepare_rows

N_ROWS = 600


def table() -> pa.Table:
    """Rows whose label lies in the text, the time and a number together."""
    random = np.random.default_rng(1)
    kinds, size = random.choice(["a", "b", "ü"], N_ROWS), random.standard_normal(N_ROWS)
    times = random.integers(0, 30 * 365 * 86_400, N_ROWS)
    label = (kinds == "a") ^ (size > 0) ^ (times % 86_400 > 43_200)
    absent = random.random(N_ROWS) < 0.1
    return pa.table(
        {
            "size": pa.array(size, mask=absent),
            "kind": pa.array(kinds, mask=random.random(N_ROWS) < 0.1),
            "seen": pa.array(times).cast(pa.timestamp("s")),
            "code": pa.array(random.integers(0, 3, N_ROWS)),
            "y": np.where(label, "yes", "no"),
        }
    )


@pytest.fixture(scope="module", params=["mean", "zero", "drop"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("mixed")
    pq.write_table(table(), folder / "rows.parquet")
    given = {"target": "y", "missing": request.param, "dates": "parts", "categories": ("code",), "scale": "standard"}
    okl.ingest(folder / "rows.parquet", folder / "data", **given)
    made = okl.train(folder / "data", out=str(folder / "run"), frequencies=40, bandwidth=2.0, step_size=0.5)
    return okl.load(made["model"])


def test_scores_of_raw_columns_are_those_of_okl(model: Model) -> None:
    rows = made_up(model.schema, 300)
    words = rows.column("kind").to_pylist()
    assert {"a", "b", "ü", UNSEEN} <= set(words)
    assert rows.column("size").null_count == 0 or model.schema.missing != "drop"
    expected = model.predictor.scores(prepare_rows(model.schema, SourceBatch("rows", 0, rows), "float32").inputs)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    assert {one.name for one in session.get_inputs()} >= {"size", "kind", "code"}
    scores, labels = session.run(None, feeds_of(model.schema, rows))
    assert len(np.unique(expected)) > 200
    np.testing.assert_allclose(scores, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))
    assert set(labels) == {"no", "yes"}


def test_a_missing_category_has_no_score_where_such_rows_are_dropped(model: Model) -> None:
    rows = made_up(model.schema, 50)
    feeds = feeds_of(model.schema, rows)
    feeds["kind"][7] = ""
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    scores = session.run(["scores"], feeds)[0]
    assert np.isnan(scores[7]) == (model.schema.missing == "drop")
    assert np.isfinite(np.delete(scores, 7)).all()


def test_categories_that_are_numbers_are_taken_as_text_only(model: Model) -> None:
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    told = json.loads(session.get_modelmeta().custom_metadata_map["categories"])
    assert told == {"kind": ["a", "b", "ü"], "code": ["0", "1", "2"]}
    rows = made_up(model.schema, 50)
    codes = np.arange(50) % 3
    numbers = rows.set_column(rows.column_names.index("code"), "code", pa.array(codes, pa.float64()))
    expected = model.predictor.scores(prepare_rows(model.schema, SourceBatch("rows", 0, numbers), "float32").inputs)
    feeds = feeds_of(model.schema, rows) | {"code": codes.astype(str).astype(object)}
    np.testing.assert_allclose(session.run(["scores"], feeds)[0], expected, atol=1e-5 * np.abs(expected).max())
    with pytest.raises(InvalidArgument, match="Unexpected input data type"):
        session.run(["scores"], feeds | {"code": codes})


def test_columns_may_be_called_as_what_a_graph_makes(tmp_path: Path) -> None:
    own = dict(zip(["scores", "labels", "constant_0", "sum", "y"], table().to_pydict().values(), strict=True))
    pq.write_table(pa.table(own), tmp_path / "rows.parquet")
    okl.ingest(
        tmp_path / "rows.parquet", tmp_path / "data", target="y", missing="mean", dates="parts", scale="standard"
    )
    made = okl.train(tmp_path / "data", solver="ridge", kernel="laplacian", n_landmarks=20, out=str(tmp_path / "run"))
    written = okl.export(made["model"], tmp_path / "model.onnx")
    assert written["largest_difference"] < 1e-9
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert {one.name for one in session.get_inputs()} > {"scores", "labels", "sum"}
    assert [one.name for one in session.get_outputs()] == ["scores_", "labels_"]


def test_a_pipeline_of_numbers_is_refused(model: Model) -> None:
    with pytest.raises(ConfigError, match="Export to ONNX"):
        to_sklearn(model)
