"""A comparison from a data set to a saved model and a report."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Rows
from okl.data.manifest import open_dataset, read_manifest
from okl.data.reading import sample_rows
from okl.features.fourier import DRAWS
from okl.features.predictors import CalibratedPredictor
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.settings import settings_from
from okl.foundation.types import Criterion
from okl.metrics.calibration import log_losses
from okl.metrics.criterion import criterion_error
from okl.models.file import load_model
from okl.report.blocks import Figure, Table
from okl.report.comparison import (
    ComparisonResult,
    comparison_page,
    linear_note,
    notes,
    sentences,
    table_rows,
    text_summary,
    warning_sentences,
)
from okl.runs.api import evaluate
from okl.runs.compare_grids import Sample
from okl.runs.compare_models import ONLINE_NAMES, check_models, model_names
from okl.runs.compare_search import train_ridge
from okl.runs.compare_settings import CompareSettings
from okl.solvers.accelerated.models import MODEL_NAMES
from okl.solvers.settings import TrainSettings
from tests.rows import Breaker, compare
from tests.runs.small_choice import make_choice_small

QUICK = {"folds": 3, "grid": 3, "rows": 300, "iterations": 60, "tolerance": 1e-2, "threads": 2}


def settings(data: Dataset, out: Path, **values: Any) -> CompareSettings:
    return settings_from(CompareSettings, {"data": str(data.folder), "out": str(out), **QUICK, **values}, "test")


@pytest.fixture(scope="module")
def result(cancer: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        make_choice_small(patch)
        return compare(settings(cancer, tmp_path_factory.mktemp("run") / "run", models="all,nogd"))


def test_the_winner_predicts_as_reported(result: dict[str, Any], cancer: Dataset) -> None:
    measured = evaluate(result["model"], cancer.folder)["metrics"]
    assert measured["accuracy"] == result["test"]["accuracy"] > 0.9
    assert result["test"]["accuracy"] > result["baselines"]["majority"]["test"]["accuracy"] + 0.2
    model, source = load_model(result["model"]), pq.read_table(f"{cancer.folder}.parquet")
    values = np.column_stack([source[name].to_numpy() for name in cancer.schema.features])
    assert (model.predict(values) == source["y"].to_numpy()).mean() > 0.9
    assert model.provenance["chosen"]["model"] == result["winner"]["model"] == result["models"][0]["model"]


def test_the_table_has_spread_proof_and_test_of_every_model(result: dict[str, Any]) -> None:
    rows = result["models"]
    assert len(rows) == 12
    assert [row["mean"] for row in rows] == sorted((row["mean"] for row in rows), reverse=True)
    assert rows[0]["best"]
    assert sum(row["best"] for row in rows) == 1
    assert max(row["spread"] for row in rows) > 0
    for row in rows:
        assert row["spread"] == pytest.approx(np.std(row["scores"], ddof=1))
        assert row["seconds"] > 0
        assert np.isclose(np.mean(row["scores"]), row["mean"])
        assert 0 <= row["p_value"] <= 1
        assert 0 <= row["log_loss_p_value"] <= 1
        assert 0 < row["log_loss"] < 0.3
        if row["kind"] == "certified":
            assert row["relative_gap"] >= 0
            assert {"C", "nu", "kappa"} >= {row["parameter"]}
            assert row["bias"] in row["biases"]
            assert {"error-minimising"} < set(row["biases"])
            assert len(row["path"]) == 3
    assert "Nadeau & Bengio" in result["test_name"]
    certificate = result["certificate"]
    assert certificate is None or 0 <= certificate["relative_gap"] < 0.2


def test_unfinished_solutions_are_marked_and_a_number_of_iterations_is_suggested(result: dict[str, Any]) -> None:
    strict = result | {"settings": result["settings"] | {"tolerance": 1e-9, "iterations": 40}}
    # a solution may be optimal to the last digit
    certified = [(row["relative_gap"] or 0.0) > 1e-9 for row in result["models"]]
    assert sum(certified) > 4
    assert [cells[5].endswith("*") for cells in table_rows(strict)] == certified
    tested = [one or certified[0] for one in certified[1:]]  # an unfinished best model makes all tests unfinished
    assert [cells[8].endswith("*") for cells in table_rows(strict)][1:] == tested
    assert "Marked *: not solved to the relative gap of 1e-09 within 40 iterations" in " ".join(notes(strict))
    assert any(
        "c-svm" in warning and "--iterations, for example to 400" in warning for warning in warning_sentences(strict)
    )
    proof = {"certificate": {"relative_gap": 0.1}}
    ending = "but not solved to the relative gap of 1e-09 (continue with --iterations 400)"
    assert f"certified within 1.0e-01 of the least objective, {ending}" in sentences(strict | proof)[1]
    solved = result | {"settings": result["settings"] | {"tolerance": 1.0}}
    assert not any("*" in cell for cells in table_rows(solved) for cell in cells)
    assert "not solved" not in " ".join([*sentences(solved | proof), *notes(solved), *warning_sentences(solved)])


def test_the_summary_says_which_models_are_linear(result: dict[str, Any]) -> None:
    lines = [line for line in text_summary(result).splitlines() if "linear in the inputs" in line]
    assert lines == [
        "Models with a gap are linear in the inputs; --frequencies 400 compares them on random Fourier features."
    ]
    certified = [row for row in result["models"] if row["kind"] == "certified"]
    assert linear_note(result | {"models": certified})[0].startswith("All are linear")
    online = [row for row in result["models"] if row["kind"] != "certified"]
    assert linear_note(result | {"models": [certified[0], *online]})[0].startswith(f"{certified[0]['model']} is linear")
    assert linear_note(result | {"models": online}) == []
    mapped = result | {"settings": result["settings"] | {"frequencies": 30}}
    assert "linear in the inputs" not in text_summary(mapped)


def test_the_folder_holds_result_report_and_model(result: dict[str, Any]) -> None:
    folder = Path(result["run"])
    assert sorted(path.name for path in folder.iterdir()) == ["model", "report.html", "result.json"]
    assert json.loads((folder / "result.json").read_text()) == result
    page = (folder / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 2
    assert "http://" not in page
    assert "https://" not in page
    assert "error-minimising" in page
    assert page.index("The best model is") < page.index("<table") < page.index("±: ")


def test_the_report_has_scores_in_their_unit_and_no_empty_columns(result: dict[str, Any]) -> None:
    section = next(one for one in comparison_page(result).sections if one.key == "models")
    scores = next(block for block in section.blocks if isinstance(block, Figure))
    assert ">accuracy<" in scores.svg
    assert re.search(r">\d+%<", scores.svg)
    by_loss = comparison_page({**result, "criterion": "log-loss"}).sections[0].blocks
    assert not any("%<" in block.svg for block in by_loss if isinstance(block, Figure))
    online = [row for row in result["models"] if row["kind"] != "certified"]
    table = comparison_page({**result, "models": [online[0] | {"best": True}]}).sections[0].blocks[0]
    assert isinstance(table, Table)
    assert {"Bias", "Gap", "p"}.isdisjoint(table.header)


def test_a_result_has_its_model_and_names_winner_scores_and_folder_in_a_few_lines(result: ComparisonResult) -> None:
    assert type(pickle.loads(pickle.dumps(result))) is ComparisonResult
    assert result.model.provenance["chosen"]["model"] == result.winner["model"] == result.models[0]["model"]
    best = result.models[0]
    title, winner, scores, folder = repr(result).splitlines()
    assert title == f"ComparisonResult: predicting {result.target}"
    assert winner.startswith(f"  Winner    {best['model']} ")
    assert scores.startswith(f"  Accuracy  {best['model']} {100 * best['mean']:.2f} ± ")
    assert folder == f"  Folder    {result.run}"


def test_a_class_without_sampled_rows_is_named(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    labels = np.where(np.arange(3000) % 500 == 7, "rare", np.where(random.random(3000) < 0.4, "a", "b"))
    pq.write_table(pa.table({"x": random.standard_normal(3000), "y": labels}), tmp_path / "rows.parquet")
    with pytest.raises(
        DataError, match=r"^Class rare has [01] of the 100 sampled rows; .* Raise --rows, up to 3,000\.$"
    ):
        compare(
            CompareSettings(data=str(tmp_path / "rows.parquet"), models="c-svm", rows=100, out=str(tmp_path / "run"))
        )


def test_several_classes_are_learnt_one_against_the_rest_in_a_fourier_map(wine: Dataset, tmp_path: Path) -> None:
    options = {"models": "logistic,mm-mpm", "frequencies": 30, "holdout": "test"}
    result = compare(settings(wine, tmp_path / "run", **options))
    assert result["parts"] == 1
    assert "McNemar" in result["test_name"]
    assert result["models"][0]["spread"] is None
    assert len(result["winner"]["values"]) == 3
    assert result["winner"]["chosen"]["bandwidth"] > 0
    # the winner is judged on the same rows with the same training rows: the same fit but for the tolerance
    assert result["test"]["accuracy"] == pytest.approx(result["models"][0]["mean"], abs=0.06)
    assert result["test"]["accuracy"] > 0.9
    assert evaluate(result["model"], wine.folder)["metrics"]["accuracy"] == result["test"]["accuracy"]


def test_every_name_of_a_group_is_compared(cancer: Dataset) -> None:
    group_settings = CompareSettings(data=str(cancer.folder), models=("all", "online"))
    check_models(group_settings, cancer)
    assert set(model_names(group_settings)) == {"auto", "ridge", *MODEL_NAMES, *ONLINE_NAMES}
    assert model_names(group_settings, "regression") == ("auto", "ridge", "fogd", "nogd")
    with pytest.raises(
        ConfigError, match=r"models = scs: not available in okl compare\. Choose from all \(.*\) or online \(.*\)\.$"
    ):
        model_names(group_settings.model_copy(update={"models": ("fogd", "scs")}))
    with pytest.raises(ConfigError, match=r"models = dwd: for classes only, .* regression task\. Choose from auto"):
        model_names(group_settings.model_copy(update={"models": ("fogd", "dwd")}), "regression")


def test_an_online_winner_is_learnt_as_okl_train_does(cancer: Dataset, tmp_path: Path) -> None:
    # one frequency is too few for the other model, which does not win
    options = {"models": "perceptron,mm-fda", "frequencies": 1, "map": "auto"}
    result = compare(settings(cancer, tmp_path / "run", **options))
    assert (result["winner"]["model"], result["certificate"]) == ("perceptron", None)
    assert result["winner"]["chosen"]["support_vectors"] > 1
    for chosen in (result["winner"]["chosen"], load_model(result["model"]).provenance["chosen"]):
        assert "map" not in chosen
    assert evaluate(result["model"], cancer.folder)["metrics"]["accuracy"] == result["test"]["accuracy"]


@pytest.mark.parametrize(
    ("models", "optimise"), [("auto", "accuracy"), ("c-svm", "balanced-accuracy"), ("fogd", "auto")]
)
def test_a_winner_is_calibrated_on_the_folds_and_predicts_as_its_scores_did(
    models: str, optimise: str, cancer: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_choice_small(monkeypatch)
    result = compare(settings(cancer, tmp_path / "run", models=models, optimise=optimise))
    predictor = load_model(result["model"]).predictor
    assert isinstance(predictor, CalibratedPredictor)
    rows = sample_rows(cancer, "test", 300, 0, "float32")
    scores, right = predictor.scores(rows.inputs), rows.targets > 0.0
    assert float(log_losses(predictor.logits(scores), right.astype(np.int64)).mean()) < 0.35
    assert result["test"]["log_loss"] < 0.35
    if models != "auto":  # which okl train calibrates
        base = predictor.base.scores(rows.inputs)
        assert np.array_equal(base >= 0.0, scores >= 0.0)
        assert 0.0 < right.mean() < 1.0


@pytest.mark.parametrize("stage", ["search", "report"])
def test_an_interrupted_comparison_leaves_nothing(stage: str, cancer: Dataset, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        compare(settings(cancer, tmp_path / "deep" / "run", models="mm-fda"), Breaker(stage))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"models": "c-svm,svm"}, "models = svm: not available in okl compare. Choose from all"),
        ({"models": "boosting"}, "models = boosting: it is no model of okl. okl train --beside boosting compares"),
        ({"models": ","}, "models is empty"),
        ({"holdout": 1.5}, "holdout = 1.5"),
        ({"holdout": "tset"}, "holdout = 'tset'"),
        ({"folds": 1}, "folds = 1"),
        (
            {"bandwidth": 2.0, "models": "c-svm"},
            "bandwidth = 2.0 is set, but certified models are linear in the inputs without a map",
        ),
        ({"frequencies": 9, "kernel": "linear"}, "kernel = 'linear' has no Fourier map"),
        ({"frequencies": 9, "kernel": "linear", "models": "rbp,c-svm"}, "kernel = 'linear' has no Fourier map"),
        ({"frequencies": 9, "map": "exact"}, "map = 'exact'"),
        ({"frequencies": 9, "kernel": "laplacian", "map": "orthogonal"}, "orthogonal"),
        ({"frequencies": 9, "models": "rbp"}, "frequencies = 9 is set, but the solver rbp does not use frequencies: "),
        (
            {"frequencies": 9, "models": "nogd,rbp"},
            "but nogd and rbp do not use frequencies: fogd and certified models use it",
        ),
        ({"map": "orthogonal", "models": "nogd,rbp"}, "map = 'orthogonal' is set, but nogd and rbp do not use map: "),
        (
            {"map": "orthogonal", "models": "nogd,c-svm"},
            "map = 'orthogonal' is set, but certified models .* Set frequencies",
        ),
        ({"kernel": "linear", "models": "fogd"}, "linear"),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, "exclude each other"),
    ],
)
def test_invalid_settings_raise_before_any_work(
    values: dict[str, Any], sentence: str, cancer: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        compare(settings(cancer, tmp_path / "run", **values))
    assert list(tmp_path.iterdir()) == []


def test_wrong_data_are_refused(learnable: dict[str, Dataset], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="optimise = 'auc' is for classification, but"):
        compare(settings(learnable["regression"], tmp_path / "run", optimise="auc"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty"):
        compare(CompareSettings(data=str(tmp_path / "empty"), out=str(tmp_path / "run")))
    with pytest.raises(ConfigError, match="is already a data set"):
        compare(settings(learnable["binary"], tmp_path / "run", ingest={"target": "y"}))


def test_a_source_is_compared_as_the_data_set_that_it_makes(cancer: Dataset, tmp_path: Path) -> None:
    options = {"models": "mm-fda", "seed": 3}
    source, run = f"{cancer.folder}.parquet", tmp_path / "rows"
    ingested = compare(settings(cancer, tmp_path / "data-set", **options))
    given = read_manifest(cancer.folder).settings
    source_settings = settings_from(
        CompareSettings, {"data": source, "out": str(run), "ingest": dict(given), **QUICK, **options}, ""
    )
    made = compare(source_settings)
    assert made["weights_sha256"] == ingested["weights_sha256"]
    assert made["models"][0]["scores"] == ingested["models"][0]["scores"]
    assert open_dataset(made["dataset"]["folder"]).sha256 == ingested["dataset"]["sha256"]
    assert made["dataset"]["folder"] == str(run / "data")


def test_an_error_in_a_source_names_the_source(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("a,y\n" + "".join(f"{i},{i / 7}\n" for i in range(40)))
    source_settings = CompareSettings(data=str(source), holdout="test", out=str(tmp_path / "run"))
    with pytest.raises(ConfigError, match=r"holdout = test, but .*rows\.csv has no test rows"):
        compare(source_settings)
    assert list(tmp_path.iterdir()) == [source]


# Criteria, scaling, kernel least squares and regressions


def test_a_regression_is_compared_by_the_variance_that_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_choice_small(monkeypatch)
    random = np.random.default_rng(4)
    x = random.uniform(-3.0, 3.0, size=(400, 2)) * [1.0, 1000.0]
    y = np.sin(2.0 * x[:, 0]) + x[:, 1] / 1000.0 + 0.1 * random.normal(size=400)
    pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1], "y": y}), tmp_path / "wave.parquet")
    values = {"data": str(tmp_path / "wave.parquet"), "out": str(tmp_path / "run"), **QUICK, "rows": 400, "folds": 2}
    result = compare(settings_from(CompareSettings, values | {"ingest": {"target": "y", "holdout": 0.2}}, "test"))
    by_name = {row["model"]: row for row in result["models"]}
    assert set(by_name) == {"auto", "ridge", "fogd", "nogd"}
    assert result["winner"]["model"] == "auto"
    assert result["winner"]["chosen"]["solver"] == "ridge"
    assert by_name["auto"]["mean"] > by_name["ridge"]["mean"]
    assert result["test"]["r2"] == pytest.approx(by_name["auto"]["mean"], abs=0.03)
    assert by_name["ridge"]["mean"] > 0.95
    assert by_name["ridge"]["spread"] == pytest.approx(np.std(by_name["ridge"]["scores"], ddof=1))
    assert "inputs are standardised (--rescale)" in result["assumptions"]
    summary = text_summary(result)
    assert "explained variance" in summary
    assert "for the mean" in summary
    assert evaluate(result["model"], tmp_path / "wave.parquet")["metrics"]["r2"] > 0.95


def test_an_automatic_winner_reads_rows_as_it_was_trained_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_choice_small(monkeypatch)
    random = np.random.default_rng(5)
    x = random.normal(size=(200, 2)) * [1.0, 1000.0]
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": x[:, 0], "b": x[:, 1], "y": x[:, 0] * x[:, 1] > 0.0}), file)
    values = {"data": str(file), "out": str(tmp_path / "run"), "models": "auto", "rescale": "none", "folds": 2}
    result = compare(settings_from(CompareSettings, values | {"ingest": {"target": "y", "holdout": 0.25}}, "test"))
    model, data = load_model(result["model"]), open_dataset(result["dataset"]["folder"])
    assert model.schema.scale != data.schema.scale == "none"
    assert result["winner"]["chosen"]["bandwidth_reason"] == "by the automatic choice"
    assert f"Winner    auto {result['winner']['chosen']['solver']}\n" in repr(ComparisonResult(result))
    assert result["test"]["accuracy"] > 0.8
    assert evaluate(result["model"], data.folder)["metrics"]["accuracy"] == pytest.approx(result["test"]["accuracy"])


@pytest.mark.parametrize("optimise", ["log-loss", "auc", "balanced-accuracy"])
def test_a_comparison_is_judged_by_the_criterion(optimise: Criterion, cancer: Dataset, tmp_path: Path) -> None:
    options = {"models": "ridge,logistic,mm-fda", "optimise": optimise, "holdout": "test"}
    result = compare(settings(cancer, tmp_path / "run", **options))
    assert result["criterion"] == optimise
    rows = {row["model"]: row for row in result["models"]}
    assert [row["mean"] for row in result["models"]] == sorted((row["mean"] for row in rows.values()), reverse=True)
    assert all(row["mean"] > result["constant"] + 0.3 for row in rows.values())
    assert all(0.0 <= row["p_value"] <= 1.0 for row in rows.values())
    ridge = rows["ridge"]
    sample = Sample(cancer, 300, 0, "float32", 3, "test").part(0)
    ridge_settings = TrainSettings(data="x", solver="ridge", optimise=optimise)
    trained, penalty = train_ridge(ridge_settings, cancer.schema, Rows(sample.inputs, sample.targets))
    classes = (sample.test_targets > 0).astype(np.int64)
    error = criterion_error(optimise, np.asarray(trained(sample.test_inputs), dtype=np.float64), classes)
    assert ridge["mean"] == pytest.approx(1.0 - error)
    assert ridge["chosen"] == [penalty]
    assert penalty.startswith("penalty ")
    assert {"log-loss": "log loss", "auc": "ROC AUC"}.get(optimise, "balanced accuracy") in text_summary(result)


def test_maps_of_a_comparison_are_those_that_can_be_drawn() -> None:
    assert {*get_args(CompareSettings.model_fields["map"].annotation)} == {"auto", *DRAWS}
