"""Tables of text, dates and missing values in ONNX: each column is an input that the graph encodes."""

from __future__ import annotations

import io
import json
import math
import re
from calendar import isleap
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

import okl
from okl.data.ingest.sources import SourceBatch
from okl.foundation.errors import ConfigError
from okl.models.export import UNSEEN, feeds_of, synthetic_rows
from okl.models.file import Model
from okl.models.inputs import prepare_rows
from okl.models.onnx import to_onnx
from okl.models.sklearn import to_sklearn
from okl.runs.predict import score_stream

N_ROWS = 600


def table() -> pa.Table:
    """Return rows whose label depends on text, time and a number."""
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
    rows = table()
    pq.write_table(rows.append_column("opens", rows["seen"].cast(pa.time32("s"))), folder / "rows.parquet")
    given = {"target": "y", "missing": request.param, "dates": "parts", "categories": ("code",), "scale": "standard"}
    okl.ingest(folder / "rows.parquet", folder / "data", **given)
    made = okl.train(folder / "data", out=str(folder / "run"), frequencies=40, bandwidth=2.0, step_size=0.5)
    return okl.load(made["model"])


def test_scores_of_raw_columns_are_those_of_okl(model: Model) -> None:
    rows = synthetic_rows(model.schema, 300)
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
    rows = synthetic_rows(model.schema, 50)
    feeds = feeds_of(model.schema, rows)
    feeds["kind"][7] = ""
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    scores = session.run(["scores"], feeds)[0]
    assert np.isnan(scores[7]) == (model.schema.missing == "drop")
    assert np.isfinite(np.delete(scores, 7)).all()


@pytest.mark.parametrize("missing", ["mean", "drop"])
@pytest.mark.parametrize("target", ["y", "three", "size"])
def test_target_means_are_those_of_okl_and_survive_saving(target: str, missing: str, tmp_path: Path) -> None:
    random, rows = np.random.default_rng(2), table().drop_columns("kind")
    shops = pa.array(
        np.char.add("shop ", random.integers(0, 150, N_ROWS).astype(str)), mask=random.random(N_ROWS) < 0.1
    )
    rows = rows.append_column("shop", shops).append_column("three", pa.array(random.choice(["a", "b", "c"], N_ROWS)))
    pq.write_table(rows.drop_columns([name for name in ("y", "three") if name != target]), tmp_path / "rows.parquet")
    given: dict[str, Any] = {"target": target, "missing": missing, "scale": "standard"}
    okl.ingest(tmp_path / "rows.parquet", tmp_path / "data", **given)
    made = okl.train(tmp_path / "data", out=str(tmp_path / "run"), solver="ridge", n_landmarks=60, bandwidth=2.0)
    model = okl.load(made["model"])
    (encoding,) = (one for one in model.schema.encodings if one.column == "shop")
    assert len(encoding.means) == (3 if target == "three" else 1)
    assert json.loads((Path(made["model"]) / "model.json").read_text())["format_version"] == 7
    made_rows = synthetic_rows(model.schema, 300)
    expected = model.predictor.scores(prepare_rows(model.schema, SourceBatch("rows", 0, made_rows), "float32").inputs)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    scores = session.run(["scores"], feeds_of(model.schema, made_rows))[0]
    assert len(np.unique(expected)) > 200
    np.testing.assert_allclose(scores, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))
    if missing == "drop":
        feeds = feeds_of(model.schema, made_rows)
        feeds["shop"][7] = ""
        assert np.isnan(session.run(["scores"], feeds)[0][7]).all()
    with pytest.raises(ConfigError, match="Export to ONNX"):
        to_sklearn(model)


def test_categories_that_are_numbers_are_taken_as_text_only(model: Model) -> None:
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    categories = json.loads(session.get_modelmeta().custom_metadata_map["categories"])
    assert categories == {"kind": ["a", "b", "ü"], "code": ["0", "1", "2"]}
    rows = synthetic_rows(model.schema, 50)
    codes = np.arange(50) % 3
    numbers = rows.set_column(rows.column_names.index("code"), "code", pa.array(codes, pa.float64()))
    expected = model.predictor.scores(prepare_rows(model.schema, SourceBatch("rows", 0, numbers), "float32").inputs)
    feeds = feeds_of(model.schema, rows) | {"code": codes.astype(str).astype(object)}
    np.testing.assert_allclose(session.run(["scores"], feeds)[0], expected, atol=1e-5 * np.abs(expected).max())
    with pytest.raises(InvalidArgument, match="Unexpected input data type"):
        session.run(["scores"], feeds | {"code": codes})


def test_the_file_describes_parts_of_dates_and_missing_values(model: Model) -> None:
    meta = onnxruntime.InferenceSession(to_onnx(model).SerializeToString()).get_modelmeta()
    formulas = json.loads(meta.custom_metadata_map["dates"])
    rows = synthetic_rows(model.schema, 200)
    clock = pa.array([time.time() for time in rows.column("seen").to_pylist()], rows.schema.field("opens").type)
    rows = rows.set_column(rows.schema.get_field_index("opens"), "opens", clock)
    days = [time - datetime(2000, 1, 1) for time in rows.column("seen").to_pylist()]
    for at, time in enumerate(rows.column("seen").to_pylist()):
        terms = {
            "days": days[at] / timedelta(days=1),
            "day_of_year": time.timetuple().tm_yday - 1,
            "days_of_year": 365 + isleap(time.year),
            "weekday": time.weekday(),
            "share_of_day": days[at] / timedelta(days=1) % 1.0,
        }
        for name, formula in formulas.items():
            value = eval(formula, {"sin": math.sin, "cos": math.cos, "pi": math.pi}, terms)
            assert value == pytest.approx(feeds_of(model.schema, rows.slice(at, 1))[name][0], abs=1e-9)
    assert len(formulas) == 9
    settled = {
        "mean": "becomes the mean of the training rows",
        "zero": "becomes 0",
        "drop": "scores of a row with NaN are",
    }
    assert settled[model.schema.missing] in meta.description
    assert '"" stands for missing text' in meta.description


@pytest.mark.parametrize(
    ("target", "form", "dates"), [("y", "%Y-%m-%d %H:%M:%S", "calendar"), ("size", "%Y-%m-%d", "parts")]
)
def test_the_documented_code_from_raw_rows_to_scores_gives_those_of_okl(
    target: str, form: str, dates: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = table().to_pandas().rename(columns={"seen": "since"})
    raw["since"] = (raw["since"] + pd.to_timedelta(7 * raw.index, unit="h")).dt.strftime(form).where(raw.index % 9 != 4)
    raw["kind"] = raw["kind"].where(raw.index % 7 != 3, "n/a")
    raw.to_csv(tmp_path / "rows.csv", index=False)
    source: dict[str, Any] = {
        "target": target,
        "missing": "mean",
        "dates": dates,
        "scale": "standard",
        "holdout": 0.2,
    }
    okl.ingest(tmp_path / "rows.csv", tmp_path / "data", **source)
    made = okl.train(tmp_path / "data", frequencies=40, bandwidth=2.0, step_size=0.5, out=str(tmp_path / "run"))
    okl.export(made["model"], tmp_path / "churn.onnx")
    raw.drop(columns=target).to_csv(tmp_path / "new.csv", index=False)
    page = (Path(__file__).parents[2] / "infra" / "docs" / "how-to" / "export.md").read_text()
    *_, code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for of_page, own in (("data/flights.csv", "new.csv"), ("flights.onnx", "churn.onnx"), ("scheduled", "since")):
        assert of_page in code
        code = code.replace(of_page, own)
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(code, found)
    out = io.BytesIO()
    score_stream(made["model"], io.BytesIO((tmp_path / "new.csv").read_bytes()), out)
    expected = pd.read_csv(io.BytesIO(out.getvalue()))
    outputs = found["outputs"]
    assert raw.isna().any().sum() == 3
    np.testing.assert_allclose(outputs["scores"], expected["score"], atol=1e-5)
    if target == "size":
        np.testing.assert_allclose(outputs["predictions"], expected["prediction"], atol=1e-5)
        return
    assert list(outputs["labels"]) == list(expected["prediction"])
    probabilities = expected[["probability_no", "probability_yes"]]
    np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=1e-5)


def test_columns_may_have_the_names_of_graph_outputs(tmp_path: Path) -> None:
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
    assert [one.name for one in session.get_outputs()] == ["scores_", "labels_", "probabilities"]


def test_a_pipeline_of_numbers_is_refused(model: Model) -> None:
    with pytest.raises(ConfigError, match="Export to ONNX"):
        to_sklearn(model)
