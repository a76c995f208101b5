"""`okl explain`, as a user types it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.inspection import permutation_importance as peers

import okl
from okl.data.dataset import Encoding, Schema
from okl.features.linear import StandardisedLinear
from okl.features.predictors import CalibratedPredictor, LinearPredictor
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, Optimise
from okl.lifecycle.retrain import retrain
from okl.metrics.calibration import ScoreCalibration
from okl.models.file import Model
from okl.models.quality import MOST_PERMUTED, Importances, permutation_importance, rows_to_permute
from okl.models.registry import Registry
from okl.models.sklearn import to_sklearn
from okl.report.explanation import importance_blocks
from okl.report.render import text
from tests.flows.commandline import Terminal
from tests.lifecycle.stories import settings, shards

# `okl explain`, as a user types it.


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run on rows whose labels depend only on `decides`, and of further rows."""
    folder = tmp_path_factory.mktemp("explained")
    for name, seed in (("rows", 1), ("more", 2)):
        draw = np.random.default_rng(seed).standard_normal((2000, 3))
        columns = {"idle": draw[:, 0], "decides": draw[:, 1], "too": draw[:, 2]}
        labels = np.where(draw[:, 1] > 0, "yes", "no")
        pq.write_table(pa.table(columns | {"y": labels}), folder / f"{name}.parquet")
    okl.ingest(folder / "rows.parquet", folder / "data", target="y", holdout=0.25)
    okl.train(folder / "data", out=str(folder / "run"), solver="c-svm", kernel="linear", C=1.0)
    return folder


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Terminal:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    return Terminal(capsys, monkeypatch)


def test_a_run_is_explained_on_its_own_test_rows(terminal: Terminal, run: Path) -> None:
    explanation = terminal.okl_json("explain", run / "run" / "model", "--rows", "400")
    assert explanation["importance"]["columns"][0]["column"] == "decides"
    assert explanation["importance"]["columns"][0]["rise"] > 0.3
    assert explanation["importance"]["rows"] == 400
    assert "test rows of" in explanation["importance"]["on"]
    assert explanation["certificate"]["relative_gap"] <= 1e-4
    text = terminal.okl("explain", run / "run" / "model").out
    assert "solver c-svm" in text
    assert re.search(r"a linear model of the inputs: 4 weights, .*6 numbers that scale the inputs; float32", text)
    assert "Test rows" in text
    assert re.search(r"model .*; score below 0: \w+, otherwise \w+\n", text)
    assert text.splitlines()[-3].startswith("decides ")


def test_the_vectors_of_a_model_have_the_name_of_its_solver(terminal: Terminal, run: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"solver": "ridge", "n_landmarks": 20}, "landmarks"),
        ({"solver": "rbp", "budget": 20}, "support vectors"),
    ]
    for options, vectors in cases:
        solver = options["solver"]
        okl.train(run / "data", out=str(run / solver), bandwidth=2.0, **options)
        text = terminal.okl("explain", run / solver / "model").out
        assert f"model       20 {vectors}, gaussian kernel" in text


def test_the_result_of_a_run_has_the_importances_of_its_test_rows(run: Path) -> None:
    result = json.loads((run / "run" / "result.json").read_text())
    found = okl.explain(run / "run" / "model", rows=MOST_PERMUTED, repeats=3)["importance"]
    assert result["importance"] | {"on": found["on"]} == found | {"fractions": ["idle", "decides", "too"]}
    assert len(result["importance"]["columns"]) > 1
    assert "Which columns matter?" in (run / "run" / "report.html").read_text()


def test_a_large_model_has_fewer_repeats_before_fewer_rows() -> None:
    schema = Schema(tuple(f"x{k}" for k in range(10)), "y", "regression")

    def permuted(numbers: int, n_rows: int) -> tuple[int, int]:
        predictor: Any = SimpleNamespace(arrays=lambda: {"weights": np.empty(numbers)})
        return rows_to_permute(schema, predictor, n_rows)

    assert permuted(100, 1000) == (MOST_PERMUTED, 3)
    assert permuted(850_000, 1_000_000) == (MOST_PERMUTED, 3)
    assert permuted(850_000, 200_000) == (MOST_PERMUTED, 2)
    assert permuted(850_000, 50_000) == (588, 2)
    assert permuted(10_000_000, 10_000)[0] == 0


def test_a_registered_version_is_explained_with_its_lineage(terminal: Terminal, run: Path, tmp_path: Path) -> None:
    shown = terminal.okl_json("models", "publish", "m", run / "run", "--promote", "--registry", tmp_path / "registry")
    explanation = terminal.okl_json("explain", "m@champion", run / "more.parquet", "--registry", tmp_path / "registry")
    assert explanation["lineage"]["version"] == shown["version"] == 1
    assert explanation["model"] == "m@1"
    assert explanation["importance"]["rows"] == 2000
    assert explanation["importance"]["columns"][0]["column"] == "decides"
    assert explanation["importance"]["on"].endswith("more.parquet")
    learnt = terminal.okl_json("explain", run / "run" / "model", run / "rows.parquet", "--rows", "40", "--repeats", "1")
    assert re.search(r"rows.parquet \(the model was trained on 1,[45]\d\d of them\)$", learnt["importance"]["on"])
    assert Registry(tmp_path / "registry").model("m").state().aliases["champion"] == 1


def test_a_retrained_version_is_explained_by_its_comparison(terminal: Terminal, tmp_path: Path) -> None:
    train = {"solver": "c-svm", "frequencies": 20, "tol": 1e-2, "step_size": "auto", "order": "shuffle"}
    retrain_settings = settings(tmp_path, train=train, window_shards=1)
    shards(tmp_path, 1)
    retrain(retrain_settings)
    shards(tmp_path, 2)
    result = retrain(retrain_settings)
    registry = ("--registry", tmp_path / "registry")
    explanation = terminal.okl_json("explain", "m", *registry)
    assert (explanation["test"], explanation["progressive"], explanation["dataset"]) == (None, None, None)
    assert explanation["judged"] == {
        "rows": result["decision"]["overall"]["rows"],
        "shards": result["judged_on"],
        "against": "m@1",
        **result["metrics"],
    }
    assert explanation["certificate"] == result["certificate"]
    (learnt,) = explanation["lineage"]["shards"]
    # of a window of one shard
    assert explanation["lineage"]["learnt_rows"] == explanation["provenance"]["train_rows"] == learnt["rows"]
    lines = terminal.okl("explain", "m@2", tmp_path / "in" / "day-02.parquet", "--rows", "100", *registry).out
    rates = [f"{result['metrics'][name]['mistake_rate']:.4f}" for name in ("challenger", "champion")]
    assert re.search(rf"on {explanation['judged']['rows']} held-out rows of 2 shards +this model +m@1\n", lines)
    assert re.search(rf"Mistake rate +{rates[0]} +{rates[1]}\n", lines)
    assert re.search(r"how +solved on the latest 1 shard\b", lines)
    assert re.search(
        r"on \d+ held-out rows of 1 shard +this model +majority class\n", terminal.okl("explain", "m@1", *registry).out
    )
    folder = Registry(tmp_path / "registry").model("m").version(2).folder
    copied = terminal.okl_json("models", "publish", "copy", folder, *registry)
    shown = terminal.okl_json("models", "show", "copy", *registry)
    assert copied["new"]
    assert shown["versions"][0]["metrics"].keys() == {"champion", "challenger"}
    assert (Path(copied["folder"]) / "report.html").read_bytes() == (Path(folder) / "report.html").read_bytes()
    assert terminal.okl_json("explain", "copy@1", *registry)["judged"]["against"] == "m@1"


def test_a_model_without_rows_is_still_described(terminal: Terminal, run: Path, tmp_path: Path) -> None:
    (run / "run" / "model").rename(tmp_path / "elsewhere")
    try:
        explanation = terminal.okl_json("explain", tmp_path / "elsewhere")
    finally:
        (tmp_path / "elsewhere").rename(run / "run" / "model")
    assert explanation["importance"] is None
    assert "give a SOURCE with the target column" in explanation["no_importance"]
    assert explanation["what"]["map"]["kind"] == "standardised-linear"


def test_rows_without_the_target_are_an_error(terminal: Terminal, run: Path, tmp_path: Path) -> None:
    pq.write_table(pq.read_table(run / "more.parquet").drop_columns(["y"]), tmp_path / "unlabelled.parquet")
    refused = terminal.okl("explain", run / "run" / "model", tmp_path / "unlabelled.parquet")
    assert refused.code == 2
    assert "has no target column 'y'" in refused.sentence


# Permutation importance: columns that decide matter, others do not.

N_ROWS = 3000


def linear(weights: list[float], schema: Schema) -> Model:
    plain = StandardisedLinear(np.zeros(len(weights)), np.ones(len(weights)), 1.0)
    return Model(schema, LinearPredictor(plain, np.array([[*weights, 0.0]])))


def rows() -> FloatArray:
    drawn: FloatArray = np.random.default_rng(3).standard_normal((N_ROWS, 3))
    return drawn


def importance(model: Model, inputs: FloatArray, targets: FloatArray, **options: Any) -> Importances:
    criterion = options.pop("criterion", None) or model.criterion()
    return permutation_importance(model.schema, model.predictor, inputs, targets, criterion, **options)


def test_columns_are_sorted_by_importance() -> None:
    model = linear([0.5, 0.0, 2.0], Schema(("a", "b", "c"), "y", "binary", labels=(0, 1)))
    inputs = rows()
    targets = np.where(inputs @ [0.5, 0.0, 2.0] > 0, 1.0, -1.0)
    found = importance(model, inputs, targets)
    assert [one.column for one in found.columns] == ["c", "a", "b"]
    assert found.error == 0.0
    assert found.columns[-1].rise == 0.0
    peer = peers(to_sklearn(model), inputs, (targets > 0).astype(int), n_repeats=5, random_state=1)
    for one, expected in zip(found.columns, peer.importances_mean[[2, 0, 1]], strict=True):
        assert one.rise == pytest.approx(expected, abs=0.02)


def test_mistakes_that_cancel_have_importance_0() -> None:
    """A mean of rates would be about 1e-17 instead of 0."""
    model, inputs = linear([0.02, 0.0, 2.0], Schema(("a", "b", "c"), "y", "binary", labels=(0, 1))), rows()[:700]
    noise = np.random.default_rng(4).standard_normal(700)
    found = importance(model, inputs, np.where(2.0 * inputs[:, 2] + noise > 0, 1.0, -1.0), seed=23)
    weak = next(one for one in found.columns if one.column == "a")
    assert weak.rise == 0.0
    assert weak.spread > 0.0
    lines = text(importance_blocks(found.as_json() | {"on": "rows"}, "float32")).splitlines()
    assert [line.split()[:2] for line in lines if line.startswith(("a ", "b "))] == [["a", "0"], ["b", "0"]]
    tiny = {"column": "b", "rise": -3e-9, "spread": 3e-9}  # scores of other rows, rounded differently
    blocks = importance_blocks(found.as_json() | {"on": "rows", "columns": [tiny]}, "float32")
    lines = text(blocks).splitlines()
    assert lines[-1].split() == ["b", "0", "+-", "0"]


@pytest.mark.parametrize("optimise", ["auto", "auc", "average-precision", "balanced-accuracy", "accuracy"])
def test_columns_of_a_rare_class_matter_by_every_criterion_but_mistakes(optimise: Optimise) -> None:
    """No row is predicted as the class of 2%, so mistakes contain no information."""
    schema = Schema(("a", "b", "c"), "y", "binary", labels=(0, 1), class_counts=(2940, 60))
    plain, inputs = linear([0.5, 0.0, 2.0], schema), rows()
    scores = inputs @ [0.5, 0.0, 2.0]
    targets = np.where(scores > np.quantile(scores, 0.98), 1.0, -1.0)
    assert isinstance(plain.predictor, LinearPredictor)
    shift = 50.0 if optimise != "balanced-accuracy" else np.quantile(scores, 0.98)
    calibration = ScoreCalibration(1.0, (-float(shift),))
    model = replace(plain, predictor=CalibratedPredictor(plain.predictor, calibration, (0.0,)))
    criterion = model.criterion(optimise)
    assert criterion == ("log-loss" if optimise == "auto" else optimise)
    found = importance(model, inputs, targets, criterion=criterion)
    by_name = {one.column: one.rise for one in found.columns}
    if optimise == "accuracy":
        assert set(by_name.values()) == {0.0}
        return
    assert by_name["c"] > by_name["a"] > abs(by_name["b"])
    page = text(importance_blocks(found.as_json() | {"on": "rows"}, "float32"))
    falls = optimise in ("auc", "average-precision", "balanced-accuracy")
    assert page.startswith(f"{'Decrease' if falls else 'Increase'} of the ")
    without = replace(model, predictor=plain.predictor)
    assert without.criterion() == "auc"
    with pytest.raises(ConfigError, match=r"'log-loss' needs probabilities\. The model has no probabilities"):
        without.criterion("log-loss")


def test_rise_of_a_squared_error_is_twice_the_variance_that_a_column_brings() -> None:
    """For a linear model without error, E (w x - w x')^2 = 2 w^2 Var x, in the unit of the target."""
    model = linear([3.0, 0.0, 1.0], Schema(("a", "b", "c"), "y", "regression"))
    inputs = rows()
    found = importance(model, inputs, inputs @ [3.0, 0.0, 1.0], repeats=20)
    rises = {one.column: one.rise for one in found.columns}
    assert rises["a"] == pytest.approx(18.0 * inputs[:, 0].var(), rel=0.03)
    assert rises["c"] == pytest.approx(2.0 * inputs[:, 2].var(), rel=0.03)
    assert rises["b"] == pytest.approx(0.0, abs=1e-12)


def test_inputs_of_one_source_column_move_together() -> None:
    """Permuted alone, each of two inputs that are always opposite would seem to matter; together they cancel."""
    encoding = Encoding("kind", "category", ("kind=a", "kind=b"), ("a", "b"))
    model = linear([1.0, 1.0, 1.0], Schema(("kind=a", "kind=b", "x"), "y", "regression", encodings=(encoding,)))
    inputs = rows()
    inputs[:, 0] = inputs[:, 0] > 0
    inputs[:, 1] = 1.0 - inputs[:, 0]
    found = importance(model, inputs, inputs.sum(axis=1))
    assert {one.column for one in found.columns} == {"kind", "x"}
    assert {one.column: one.rise for one in found.columns}["kind"] == pytest.approx(0.0, abs=1e-12)


def test_inputs_stay_as_they_are_and_the_seed_decides() -> None:
    model = linear([1.0, 2.0, 3.0], Schema(("a", "b", "c"), "y", "regression"))
    inputs, before = rows(), rows()
    one, same, other = (importance(model, inputs, inputs.sum(axis=1), seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(inputs, before)
    assert one == same
    assert one != other


def test_a_single_row_is_refused() -> None:
    model = linear([1.0, 2.0, 3.0], Schema(("a", "b", "c"), "y", "regression"))
    with pytest.raises(DataError, match="at least two"):
        importance(model, rows()[:1], np.ones(1))


def test_few_rows_are_explained_by_the_log_loss() -> None:
    """With 24 rows, no permutation may cause a mistake: mistakes then contain no information."""
    draw = np.random.default_rng(5).standard_normal((424, 2))
    classes = np.where(draw[:, 0] > 0, "yes", "no")
    model = okl.train(pa.table({"a": draw[:400, 0], "b": draw[:400, 1], "y": classes[:400]}), target="y").model
    few = pa.table({"a": draw[400:, 0], "b": draw[400:, 1], "y": classes[400:]})
    found = model.explain(few)
    assert found.criterion == "log-loss"
    assert found.columns[0].column == "a"
    assert found.columns[0].rise > 0.1
    assert model.explain(pa.concat_tables([few] * 25)).criterion == "accuracy", "600 rows have enough mistakes"
