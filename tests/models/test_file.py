"""A model directory: loading returns the saved model, and every changed byte is detected."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from okl.data.dataset import ColumnStatistics, Schema
from okl.features.fourier import draw_fourier_map
from okl.features.predictors import LinearPredictor
from okl.foundation.errors import DivergedError, ModelError
from okl.kernels import Gaussian
from okl.models.file import DESCRIPTION, WEIGHTS, Model, load_model, save_model
from okl.models.inputs import predictions

COLUMN = ColumnStatistics(count=10, mean=2.0, standard_deviation=4.0, minimum=-1.0, maximum=9.0)


def make_model(task: str = "multiclass") -> Model:
    labels: tuple[str, ...] = {"binary": ("no", "yes"), "multiclass": ("a", "b", "ü")}.get(task, ())
    schema = Schema(
        features=("width", "height"),
        target="kind",
        task=task,  # type: ignore[arg-type]
        labels=labels,
        stored_labels=tuple(float(i) for i in range(len(labels))),
        class_counts=(5, 3, 2)[: len(labels)],
        keys=("id",),
        scale="standard",
        scale_target=task == "regression",
        feature_statistics=(COLUMN, replace(COLUMN, mean=0.1)),
        target_statistics=COLUMN if task == "regression" else None,
    )
    rng = np.random.default_rng(3)
    feature_map = draw_fourier_map(Gaussian(1.5), 2, 16, seed=4)
    weights = rng.standard_normal((schema.n_outputs, 32)).astype(np.float32)
    return Model(schema, LinearPredictor(feature_map, weights), {"seed": 4}, {"data_sha256": "abc"})


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((50, 2)) * 4.0


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_loaded_model_scores_the_same_bits(task: str, tmp_path: Path, rows: np.ndarray) -> None:
    model = make_model(task)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.schema == model.schema
    assert loaded.configuration == model.configuration
    assert len(np.unique(model.scores(rows))) > 10
    np.testing.assert_array_equal(loaded.scores(rows), model.scores(rows))
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_the_name_of_a_run_instead_of_its_folder_gives_its_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    runs = tmp_path / "home" / "runs"
    for run in ("first-20260101-101010-7", "first-20260102-101010-7", "first-aid-20260103-101010-7"):
        save_model(make_model(), runs / run / "model")
    with pytest.raises(ModelError, match=r"The newest run named first is .+/first-20260102-101010-7; its model"):
        load_model(tmp_path / "first")
    with pytest.raises(ModelError, match=r"The model of this run is .+/first-20260101-101010-7/model"):
        load_model(runs / "first-20260101-101010-7")
    with pytest.raises(
        ModelError, match=r"Give the folder of a trained model, the name of a run \(okl runs .* NAME@champion"
    ):
        load_model(tmp_path / "fir")
    (tmp_path / "rows.csv").touch()
    with pytest.raises(ModelError, match=r"This is a file: give the model first, then the rows\.$"):
        load_model(tmp_path / "rows.csv")


def test_same_model_is_stored_in_the_same_bytes(tmp_path: Path) -> None:
    digests = {save_model(make_model(), tmp_path / name) for name in ("one", "two")}
    assert len(digests) == 1
    assert (tmp_path / "one" / DESCRIPTION).read_bytes() == (tmp_path / "two" / DESCRIPTION).read_bytes()


@pytest.mark.parametrize("name", [DESCRIPTION, WEIGHTS])
def test_any_changed_byte_is_noticed(name: str, tmp_path: Path) -> None:
    save_model(make_model(), tmp_path / "model")
    path = tmp_path / "model" / name
    whole = path.read_bytes()
    for position in np.random.default_rng(6).integers(0, len(whole), 60):
        changed = bytearray(whole)
        changed[position] ^= 1 << int(position) % 7
        path.write_bytes(bytes(changed))
        with pytest.raises(ModelError, match=r"damaged|not JSON|format|okl model"):
            load_model(tmp_path / "model")
    path.write_bytes(whole)
    load_model(tmp_path / "model")


def test_white_space_added_to_the_description_is_noticed(tmp_path: Path) -> None:
    save_model(make_model(), tmp_path / "model")
    path = tmp_path / "model" / DESCRIPTION
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(ModelError, match="damaged"):
        load_model(tmp_path / "model")


def test_a_later_format_version_requires_an_upgrade(tmp_path: Path) -> None:
    save_model(make_model(), tmp_path / "model")
    path = tmp_path / "model" / DESCRIPTION
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 99}))
    with pytest.raises(ModelError, match=r"format 99 was written by a later okl version.*Upgrade okl"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("missing", [DESCRIPTION, WEIGHTS])
def test_missing_file_is_named(missing: str, tmp_path: Path) -> None:
    save_model(make_model(), tmp_path / "model")
    (tmp_path / "model" / missing).unlink()
    with pytest.raises(ModelError, match=missing):
        load_model(tmp_path / "model")


def test_a_model_is_never_overwritten_and_no_other_file_is_left(tmp_path: Path) -> None:
    save_model(make_model(), tmp_path / "model")
    with pytest.raises(ModelError, match="already exists, and models are not overwritten"):
        save_model(make_model("binary"), tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_rows_that_do_not_fit_are_refused(rows: np.ndarray) -> None:
    model = make_model()
    with pytest.raises(ModelError, match=r"2 columns.*\(50, 1\)"):
        model.predict(rows[:, :1])
    rows[7, 1] = np.nan
    with pytest.raises(ModelError, match="'height' holds nan in row 7"):
        model.predict(rows)


def test_an_array_is_rounded_to_float32_as_a_table_is(rows: np.ndarray) -> None:
    model = make_model()
    time = replace(COLUMN, mean=1.7e9, standard_deviation=3600.0)
    model = replace(model, schema=replace(model.schema, feature_statistics=(time, COLUMN)))
    rows[:, 0] = 1.7e9 + 3600.0 * rows[:, 0]
    table = pa.table({"width": rows[:, 0], "height": rows[:, 1]})
    assert len(np.unique(rows[:, 0].astype(np.float32))) > 40
    np.testing.assert_array_equal(model.prepare(rows), model.prepare(table))
    rows[3, 1] = 1e39
    with pytest.raises(ModelError, match=r"'height' holds 1e\+39 in row 3, but .* within float32"):
        model.predict(rows)


def test_missing_values_are_zero_if_the_model_requires_it(rows: np.ndarray) -> None:
    model = make_model()
    model = replace(model, schema=replace(model.schema, missing="zero"))
    holes = rows.copy()
    holes[7, 1], rows[7, 1] = np.nan, 0.0
    np.testing.assert_array_equal(model.scores(holes), model.scores(rows))


def test_score_of_zero_is_the_second_class_and_scaling_is_undone() -> None:
    assert predictions(make_model("binary").schema, np.array([-0.1, 0.0])).tolist() == ["no", "yes"]
    regression = make_model("regression").schema
    np.testing.assert_allclose(predictions(regression, np.array([0.0, 1.0])), [2.0, 6.0])


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_score_that_is_not_finite_is_an_error_and_no_label(task: str, rows: np.ndarray) -> None:
    model = make_model(task)
    weights = np.full((model.schema.n_outputs, 32), np.inf, dtype=np.float32)
    diverged = replace(model, predictor=LinearPredictor(model.predictor.feature_map, weights))  # type: ignore[attr-defined]
    with pytest.raises(DivergedError, match=r"score of row 0 .* smaller step size"):
        diverged.predict(rows)
    assert len(model.predict(rows)) == len(rows)
