from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Task
from okl.losses import (
    Hinge,
    Logistic,
    Loss,
    MulticlassHinge,
    ScalarLoss,
    ThresholdedHalfSquared,
    make_loss,
    online_losses,
)


@dataclass(frozen=True)
class Exponential(ScalarLoss):
    """An added loss without a conjugate, whose derivative is never 0."""

    name: str = "exponential"
    task: Task = "binary"

    @staticmethod
    def of_score(f: float, y: float) -> float:
        return math.exp(-y * f)

    @staticmethod
    def slope(f: float, y: float) -> float:
        return -y * math.exp(-y * f)


LOSSES: list[Loss] = [*map(make_loss, online_losses()), ThresholdedHalfSquared(0.0)]
WITH_CONJUGATE = [loss for loss in LOSSES if type(loss).conjugate is not ScalarLoss.conjugate]
TABLE = [loss for loss in LOSSES if isinstance(loss, Hinge | Logistic | MulticlassHinge | ThresholdedHalfSquared)]
N_CLASSES = 4
ROWS = 400


def scores_and_targets(loss: Loss) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(11)
    if loss.task == "multiclass":
        return rng.standard_normal((ROWS, N_CLASSES)), rng.integers(N_CLASSES, size=ROWS).astype(np.float64)
    targets = rng.standard_normal(ROWS) if loss.task == "regression" else rng.choice([-1.0, 1.0], size=ROWS)
    return 2.0 * rng.standard_normal(ROWS), targets


@pytest.mark.parametrize("loss", [*LOSSES, Exponential()], ids=repr)
def test_derivative_matches_finite_difference(loss: Loss) -> None:
    scores, targets = scores_and_targets(loss)
    derivative = loss.derivative(scores, targets)
    step = 1e-6
    for output in range(scores.shape[1] if scores.ndim == 2 else 1):
        shift = np.zeros_like(scores)
        shift[..., output] = step
        if scores.ndim == 1:
            shift = np.full_like(scores, step)
        above, below = loss.value(scores + shift, targets), loss.value(scores - shift, targets)
        middle = loss.value(scores, targets)
        kink = np.abs(above + below - 2 * middle) > 1e-9  # a random score hits one with probability 1e-6
        slope = (above - below) / (2 * step)
        expected = derivative[:, output] if derivative.ndim == 2 else derivative
        np.testing.assert_allclose(slope[~kink], expected[~kink], atol=1e-6)
        assert kink.mean() < 0.01
    assert np.mean(derivative == 0) < 0.9
    without_flat_parts = loss.name == "logistic" or loss == ThresholdedHalfSquared(0.0) or isinstance(loss, ScalarLoss)
    assert np.mean(derivative == 0) > 0.02 or without_flat_parts
    assert np.ptp(derivative) > 0.5


@pytest.mark.parametrize("loss", WITH_CONJUGATE, ids=repr)
def test_fenchel_young_holds_with_equality_at_the_derivative(loss: Loss) -> None:
    scores, targets = scores_and_targets(loss)
    dual = loss.derivative(scores, targets)
    inner = np.sum(scores * dual, axis=1) if scores.ndim == 2 else scores * dual
    conjugate = loss.conjugate(dual, targets)
    assert np.isfinite(conjugate).all()
    gap = loss.value(scores, targets) + conjugate - inner
    assert gap.min() > -1e-9
    if isinstance(loss, ThresholdedHalfSquared):
        # not convex at the threshold: equality only where the convex hull touches the loss
        gap = gap[np.abs(scores - targets) > 2 * loss.epsilon]
    np.testing.assert_allclose(gap, 0.0, atol=1e-9)


@pytest.mark.parametrize("loss", WITH_CONJUGATE, ids=repr)
def test_fenchel_young_inequality_holds_for_any_dual(loss: Loss) -> None:
    scores, targets = scores_and_targets(loss)
    rng = np.random.default_rng(12)
    if loss.task == "multiclass":
        shares = rng.dirichlet(np.ones(N_CLASSES), size=ROWS) * rng.uniform(0, 1, size=(ROWS, 1))
        rows = np.arange(ROWS)
        dual = shares.copy()
        dual[rows, targets.astype(int)] = 0.0
        dual[rows, targets.astype(int)] = -dual.sum(axis=1)
    else:
        dual = rng.uniform(-1.5, 1.5, size=ROWS)
    inner = np.sum(scores * dual, axis=1) if scores.ndim == 2 else scores * dual
    conjugate = loss.conjugate(dual, targets)
    assert np.isfinite(conjugate).mean() > 0.2
    assert (loss.value(scores, targets) + conjugate - inner >= -1e-9).all()


@pytest.mark.parametrize("loss", TABLE, ids=repr)
def test_values_match_a_loop_over_rows(loss: Loss) -> None:
    scores, targets = scores_and_targets(loss)
    naive = []
    for f, y in zip(scores, targets, strict=True):
        if loss.task == "multiclass":
            wrong = max(f[k] for k in range(N_CLASSES) if k != int(y))
            naive.append(max(0.0, 1.0 - (f[int(y)] - wrong)))
        elif isinstance(loss, ThresholdedHalfSquared):
            naive.append(0.5 * (f - y) ** 2 if abs(f - y) > loss.epsilon else 0.0)
        else:
            naive.append(max(0.0, 1.0 - y * f) if loss.name == "hinge" else np.log(1.0 + np.exp(-y * f)))
    np.testing.assert_allclose(loss.value(scores, targets), naive, atol=1e-12)


def test_logistic_survives_scores_of_any_size() -> None:
    scores, targets = np.array([-1e4, 1e4, -1e4, 1e4]), np.array([1.0, 1.0, -1.0, -1.0])
    np.testing.assert_allclose(Logistic().value(scores, targets), [1e4, 0.0, 0.0, 1e4])
    np.testing.assert_allclose(Logistic().derivative(scores, targets), [-1.0, 0.0, 0.0, 1.0])


def test_table_contains_exactly_the_losses() -> None:
    for loss in LOSSES:
        assert type(make_loss(loss.name)) is type(loss)
    with pytest.raises(ConfigError, match=r"loss = 'squared'; expected one of hinge"):
        make_loss("squared")
    with pytest.raises(ConfigError, match="epsilon = -1"):
        make_loss("thresholded-half-squared", -1.0)


@pytest.mark.parametrize("loss", [Hinge(), Logistic()], ids=repr)
def test_conjugates_of_margins_are_finite_up_to_their_edges(loss: Loss) -> None:
    target = np.array([1.0, -1.0, 1.0, -1.0])
    share = np.array([0.0, 0.0, 1.0, 1.0])
    expected = -share if loss.name == "hinge" else np.zeros(4)
    np.testing.assert_array_equal(loss.conjugate(-target * share, target), expected)
    for outside in (-1e-3, 1.001):
        assert np.isposinf(loss.conjugate(-target * outside, target)).all()


def test_conjugate_of_classes_is_finite_up_to_its_edges() -> None:
    inside = np.array([[-1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 0.5, 0.5]])
    np.testing.assert_array_equal(MulticlassHinge().conjugate(inside, np.zeros(3)), [-1.0, 0.0, -1.0])
    outside = np.array([[-0.5, 1.0, 0.0], [0.5, -0.5, 0.0], [-1.5, 1.0, 0.5], [0.0, 0.5, -0.5]])
    assert np.isposinf(MulticlassHinge().conjugate(outside, np.zeros(4))).all()


def test_a_margin_of_exactly_one_and_a_residual_of_exactly_epsilon_have_no_loss() -> None:
    one = np.array([1.0])
    assert Hinge().derivative(one, one) == 0.0
    assert (MulticlassHinge().derivative(np.array([[1.0, 0.0]]), np.array([0.0])) == 0.0).all()
    at_epsilon = ThresholdedHalfSquared(0.5)
    assert at_epsilon.derivative(np.array([1.5]), one) == at_epsilon.value(np.array([1.5]), one) == 0.0
