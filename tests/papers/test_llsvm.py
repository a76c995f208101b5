from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from okl.data.executor import Rows
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian, Polynomial
from okl.papers.lu2016.llsvm import LowRankLinearSVM


def ring_rows(n_rows: int = 600, n_classes: int = 2) -> Rows:
    """Classes are rings around each other: no linear function of the inputs separates them."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((n_rows, 2)).astype(np.float32)
    radius = np.hypot(inputs[:, 0], inputs[:, 1]) + 0.05 * rng.standard_normal(n_rows)
    if n_classes == 2:
        return Rows(inputs, np.where(radius > 1.2, 1.0, -1.0))
    return Rows(inputs, np.digitize(radius, [0.8, 1.5]).astype(np.float64))


def mistakes(scores: FloatArray, targets: FloatArray) -> float:
    predictions = np.where(scores >= 0, 1.0, -1.0) if scores.ndim == 1 else np.argmax(scores, axis=1)
    return float(np.mean(predictions != targets))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_weights_minimise_the_primal_objective(loss: str) -> None:
    rows = ring_rows()
    machine = LowRankLinearSVM(Gaussian(1.0), 20, 0.5, loss, precision="float64", most_iterations=100_000)
    predictor = machine.fit(rows)
    features = predictor.feature_map.transform(rows.inputs)
    power = 1 if loss == "hinge" else 2

    def objective(w: FloatArray) -> float:
        lost = np.maximum(0.0, 1.0 - rows.targets * (features @ w)) ** power
        return float(0.5 * w @ w + 0.5 * lost.sum())

    w = predictor.weights[0]
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-2, 1e-1, 1.0):
        for _ in range(20):
            assert objective(w) <= objective(w + size * rng.standard_normal(len(w))) + 1e-3
    assert objective(w) < 0.5 * objective(np.zeros_like(w))


@pytest.mark.parametrize(("task", "n_outputs"), [("binary", 1), ("multiclass", 3)])
def test_rings_are_separated(task: Any, n_outputs: int) -> None:
    rows = ring_rows(n_classes=max(2, n_outputs))
    predictor = LowRankLinearSVM(Gaussian(1.0), 40, 10.0).fit(rows, task, n_outputs)
    assert predictor.weights.shape == (n_outputs, predictor.feature_map.n_columns)
    majority = 1.0 - max(np.mean(rows.targets == value) for value in np.unique(rows.targets))
    assert mistakes(predictor.scores(rows.inputs), rows.targets) < 0.25 * majority


def test_same_seed_gives_the_same_bits_on_any_number_of_threads() -> None:
    rows = ring_rows()
    machine = LowRankLinearSVM(Polynomial(2), 12, most_rows=500, seed=3)
    first, second = machine.fit(rows), machine.fit(rows, n_threads=2)
    np.testing.assert_array_equal(first.weights, second.weights)
    other = LowRankLinearSVM(Polynomial(2), 12, most_rows=500, seed=4).fit(rows)
    assert not np.array_equal(first.weights, other.weights)


def test_no_more_rows_than_allowed_are_learnt() -> None:
    rows = ring_rows(400)
    sample = np.sort(np.random.default_rng((0, 0x115)).choice(400, size=100, replace=False))
    expected = LowRankLinearSVM(Gaussian(1.0), 10).fit(Rows(rows.inputs[sample], rows.targets[sample]))
    got = LowRankLinearSVM(Gaussian(1.0), 10, most_rows=100).fit(rows)
    np.testing.assert_array_equal(got.weights, expected.weights)


def test_too_few_passes_still_give_weights_without_a_warning() -> None:
    predictor = LowRankLinearSVM(Gaussian(1.0), 30, 1e4, most_iterations=1).fit(ring_rows())
    assert np.isfinite(predictor.weights).all()


def test_rows_it_cannot_learn_are_refused() -> None:
    rows = ring_rows(50)
    machine = LowRankLinearSVM(Gaussian(1.0), 5)
    with pytest.raises(DataError, match="side of class"):
        machine.fit(Rows(rows.inputs, np.ones(50)))
    with pytest.raises(DataError, match="side of class 3"):
        machine.fit(ring_rows(50, 3), "multiclass", 4)
    with pytest.raises(ConfigError, match="regression"):
        machine.fit(rows, "regression")
    with pytest.raises(ConfigError, match="landmarks"):
        LowRankLinearSVM(Gaussian(1.0), 60).fit(rows)


@pytest.mark.parametrize(
    "wrong", [{"n_landmarks": 0}, {"penalty": 0.0}, {"loss": "logistic"}, {"most_rows": 1}, {"most_iterations": 0}]
)
def test_parameters_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        LowRankLinearSVM(Gaussian(1.0), **({"n_landmarks": 5} | wrong))
