"""ONNX files score raw rows as okl does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from okl.data.dataset import Label
from okl.features.nystrom import fit_nystrom_map
from okl.features.predictors import CalibratedPredictor, KernelExpansion, LinearPredictor, LocalExpansion
from okl.foundation.errors import ConfigError, ModelError
from okl.foundation.types import FloatArray, Task
from okl.kernels import CustomKernel, Gaussian
from okl.metrics.calibration import ScoreCalibration
from okl.models import onnx
from okl.models.file import Model, load_model, save_model
from okl.models.onnx import to_onnx
from tests.features.cells import draw_partition
from tests.models.models import CASES, CELL_CASES, N_INPUTS, Case, of_times, raw_rows, schema_of


def run(model: Model, rows: FloatArray) -> tuple[Any, Any]:
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    scores, labels = session.run(None, {"rows": rows})
    return scores, labels


@pytest.mark.parametrize("case", [*CASES, *CELL_CASES], ids=str)
def test_scores_and_labels_are_those_of_okl(case: Case) -> None:
    model, rows = case.model(), raw_rows()
    expected = model.scores(rows)
    assert len(np.unique(expected)) > 300
    scores, labels = run(model, rows)
    assert scores.shape == expected.shape
    assert scores.dtype == case.precision
    rounding = 1e-5 if case.precision == "float32" else 1e-12
    np.testing.assert_allclose(scores, expected, rtol=0, atol=rounding * max(1.0, np.abs(expected).max()))
    if case.task == "regression":
        np.testing.assert_allclose(labels, model.predict(rows), atol=1e-5 * np.abs(labels).max())
    else:
        np.testing.assert_array_equal(labels, model.predict(rows))


@pytest.mark.parametrize("kind", ["fourier", "cells laplacian"])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_probabilities_are_those_of_okl_and_determine_the_label(task: Task, kind: str, tmp_path: Path) -> None:
    plain = Case(kind, task).model()
    assert isinstance(plain.predictor, LinearPredictor | LocalExpansion)
    n_outputs = plain.predictor.n_outputs
    shifts = (0.8,) if task == "binary" else tuple(np.linspace(-0.2, 0.3, n_outputs))
    added = np.linspace(-0.3, 0.2, n_outputs**2).reshape(n_outputs, n_outputs)
    mixing = tuple((*row,) for row in added.tolist()) if task == "multiclass" else ()
    calibration = ScoreCalibration(0.7, tuple(np.linspace(0.1, 0.4, n_outputs)), mixing)
    predictor = CalibratedPredictor(plain.predictor, calibration, shifts)
    model, rows = replace(plain, predictor=predictor), raw_rows()
    expected = model.predict_proba(rows)
    weighted = expected * np.exp([0.0, -0.8] if task == "binary" else -np.array(shifts))
    clear = np.abs(np.diff(np.sort(weighted, axis=1)[:, -2:], axis=1)[:, 0]) > 1e-4
    likeliest = np.array(model.schema.labels)[weighted.argmax(axis=1)]
    np.testing.assert_array_equal(model.predict(rows)[clear], likeliest[clear])
    assert not np.array_equal(weighted.argmax(axis=1), expected.argmax(axis=1))
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    scores, labels, probabilities = session.run(None, {"rows": rows})
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(labels)[clear], likeliest[clear])
    np.testing.assert_allclose(scores, model.scores(rows), atol=1e-4)
    np.testing.assert_allclose(predictor.plain().scores(model.prepare(rows)), model.scores(rows), atol=1e-4)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(rows), expected)
    if task == "binary":
        sure = again.with_threshold(0.9).predict(rows)
        np.testing.assert_array_equal(sure == model.schema.labels[1], expected[:, 1] >= 0.9)


@pytest.mark.parametrize("labels", [(False, True), (0.5, 1.5), ("no", "yes"), (3, 7)])
def test_labels_keep_their_type(labels: tuple[Label, ...]) -> None:
    model = Model(schema_of("binary", labels), Case("fourier").model().predictor)
    _, predicted = run(model, raw_rows())
    assert sorted(set(np.asarray(predicted).tolist())) == sorted(labels)  # both labels occur


def test_missing_values_are_zero_if_the_model_requires_it() -> None:
    model = Model(schema_of("binary", missing="zero"), Case("fourier").model().predictor)
    rows = raw_rows()
    rows[::3, 1] = np.nan
    scores, _ = run(model, rows)
    np.testing.assert_allclose(scores, model.scores(rows), atol=1e-5)
    untouched, _ = run(Case("fourier").model(), rows)
    assert np.isnan(untouched[::3]).all()
    assert np.isfinite(np.delete(untouched, np.s_[::3])).all()


def test_a_graph_takes_nan_in_place_of_numbers_that_mean_a_missing_value() -> None:
    model = Model(schema_of("binary", missing="zero", missing_words=("n/k", "-999")), Case("fourier").model().predictor)
    rows, worded = raw_rows(), raw_rows()
    rows[::3, 1], worded[::3, 1] = np.nan, -999.0
    np.testing.assert_array_equal(model.scores(worded), model.scores(rows))
    scores, _ = run(model, rows)
    np.testing.assert_allclose(scores, model.scores(worded), atol=1e-5)
    advice = "Write NaN in place of 'n/k' and '-999', which mean a missing value in rows for okl."
    assert advice in to_onnx(model).doc_string


def test_values_are_rounded_to_float32_as_those_of_training_were() -> None:
    model, rows = of_times()
    scores, _ = run(model, rows)
    expected = model.scores(rows)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("kind", ["expansion laplacian", "cells laplacian"])
def test_number_of_rows_is_free(kind: str) -> None:
    model = Case(kind).model()
    one, _ = run(model, raw_rows()[:1])
    none, _ = run(model, raw_rows()[:0])
    np.testing.assert_allclose(one, model.scores(raw_rows()[:1]), atol=1e-5)
    assert none.shape == (0,)


def test_a_custom_kernel_is_refused() -> None:
    kernel = CustomKernel("mine", lambda left, right: 1.0 + left @ right.T)
    landmarks = np.random.default_rng(1).standard_normal((N_INPUTS + 5, N_INPUTS))
    mapped = fit_nystrom_map(kernel, landmarks, 4, "float64")
    model = Model(schema_of("binary"), LinearPredictor(mapped, np.ones((1, 4))))
    with pytest.raises(ConfigError, match=r"'mine' cannot be exported to ONNX. Train with one of gaussian, "):
        to_onnx(model)


@pytest.mark.parametrize("form", ["expansion", "cells"])
def test_large_weights_that_cancel_are_summed_in_double_precision(form: str) -> None:
    supports = np.random.default_rng(5).standard_normal((20, N_INPUTS)).astype(np.float32)
    near = np.concatenate([supports, supports + np.float32(0.01)])
    weights = np.repeat(np.array([500.0, -500.0], dtype=np.float32), 20)[None, :]
    predictor: KernelExpansion | LocalExpansion = KernelExpansion(Gaussian(2.0), near, weights)
    if form == "cells":
        one_cell = draw_partition(near, 1, 40, np.random.default_rng(6))
        no_offsets = np.zeros((1, 1), dtype=np.float32)
        partition = replace(one_cell, coefficients=weights[:, one_cell.order], offsets=no_offsets)
        predictor = LocalExpansion(Gaussian(2.0), near, (partition,))
    scores, _ = run(Model(schema_of("binary"), predictor), raw_rows())
    inputs = Model(schema_of("binary"), predictor).prepare(raw_rows()).astype(np.float64)
    distances = ((inputs[:, None, :] - near[None].astype(np.float64)) ** 2).sum(axis=2)
    expected = np.exp(-0.5 * distances / 4.0) @ weights[0]
    assert scores.dtype == np.float32
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(scores, expected, rtol=0, atol=3e-7 * np.abs(expected).max())


def test_supports_that_partitions_share_are_in_the_file_once() -> None:
    model = Case("cells gaussian").model()
    assert isinstance(model.predictor, LocalExpansion)
    assert len(model.predictor.partitions) == 3
    assert to_onnx(model).SerializeToString().count(model.predictor.supports.tobytes()) == 1


def test_model_that_no_file_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Case("cells gaussian").model()
    size = sum(array.nbytes for array in model.predictor.arrays().values())
    monkeypatch.setattr(onnx, "MOST_BYTES", size)
    to_onnx(model)
    monkeypatch.setattr(onnx, "MOST_BYTES", size - 1)
    with pytest.raises(ModelError, match=r"ONNX file holds less than 2 GB\. Score rows with okl predict"):
        to_onnx(model)
