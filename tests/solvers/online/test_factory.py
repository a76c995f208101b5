from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from okl.data.execution import Rows
from okl.features.fourier import draw_fourier_map
from okl.features.linear import StandardisedLinear
from okl.features.predictors import LinearPredictor
from okl.kernels import Gaussian
from okl.losses import Hinge, Loss, ThresholdedHalfSquared
from okl.solvers.online.base import PLAIN_STEPS
from okl.solvers.online.linear import ADAGRAD_STEPS, LinearLearner, race_step_sizes
from tests.solvers.online.cases import LOSS, n_outputs_of, targets_of

ADAPTIVE = pytest.mark.parametrize("adaptive", [False, True])


def make_case(loss: Loss, rows: int = 600) -> tuple[LinearLearner, Rows]:
    rng = np.random.default_rng(2)
    inputs = rng.standard_normal((rows, 3)).astype(np.float32)
    signal = np.sin(2 * inputs[:, 0]) + inputs[:, 1] + 0.3 * rng.standard_normal(rows)
    learner = LinearLearner(draw_fourier_map(Gaussian(2.0), 3, 40, 0), loss, 1.0, n_outputs_of(loss))
    return learner, Rows(inputs, targets_of(signal, loss.task, 0.2))


def plain_errors(learner: LinearLearner, sample: Rows) -> dict[float, float]:
    racers = [
        replace(learner, step_size=step) for step in PLAIN_STEPS if learner.loss.task != "regression" or step <= 1
    ]
    return {racer.step_size: racer.learn(racer.start(), sample).progress.error for racer in racers}


@LOSS
def test_step_size_selection_minimises_the_progressive_error(loss: Loss) -> None:
    learner, sample = make_case(loss)
    errors = plain_errors(learner, sample)
    step, why = race_step_sizes(learner, sample, False)
    assert len(set(errors.values())) > 3
    assert errors[step] == min(errors.values())
    assert why == f"least progressive error of {len(errors)} step sizes on 600 sampled rows"


@LOSS
@ADAPTIVE
def test_step_size_selection_does_not_depend_on_the_step_of_the_learner(loss: Loss, adaptive: bool) -> None:
    learner, sample = make_case(loss)
    step = race_step_sizes(learner, sample, adaptive)[0]
    assert race_step_sizes(replace(learner, step_size=123.0), sample, adaptive)[0] == step
    if adaptive and loss.task == "regression":
        step /= float(np.sqrt(np.mean(sample.targets**2)))
    assert min(abs(step - each) for each in (ADAGRAD_STEPS if adaptive else PLAIN_STEPS)) < 1e-9


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("shift", [0.0, 1.0, 1000.0])
def test_selected_step_sizes_of_regression_are_at_most_one(scale: float, shift: float) -> None:
    learner, sample = make_case(ThresholdedHalfSquared(0.1))
    step = race_step_sizes(learner, Rows(sample.inputs, (sample.targets + shift) * scale), False)[0]
    assert 0 < step <= 1


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_regression_with_the_chosen_step_stays_within_the_targets(scale: float) -> None:
    learner, sample = make_case(ThresholdedHalfSquared(0.0))
    targets = (sample.targets + 10) * scale
    learner = replace(learner, step_size=race_step_sizes(learner, Rows(sample.inputs, targets), False)[0])
    weights = learner.learn(learner.start(), Rows(sample.inputs, targets))
    scores = LinearPredictor(learner.feature_map, weights.last).scores(sample.inputs)
    assert np.abs(scores).max() < 2 * np.abs(targets).max()
    assert weights.progress.error < np.mean(targets**2)


@pytest.mark.parametrize("scale", [1e-5, 1e5])
def test_adagrad_steps_of_regression_grow_with_the_targets(scale: float) -> None:
    learner, sample = make_case(ThresholdedHalfSquared(0.0))
    step = race_step_sizes(learner, sample, True)[0]
    scaled = race_step_sizes(learner, Rows(sample.inputs, sample.targets * scale), True)[0]
    assert scaled == pytest.approx(step * scale)
    assert race_step_sizes(learner, Rows(sample.inputs, np.zeros(600)), True)[0] > 0


def test_ties_select_the_smaller_step() -> None:
    learner, sample = make_case(Hinge())
    one_row = Rows(sample.inputs[:1], sample.targets[:1])
    assert set(plain_errors(learner, one_row).values()) in ({0.0}, {1.0})
    assert race_step_sizes(learner, one_row, False)[0] == min(PLAIN_STEPS)


def test_step_sizes_that_diverge_are_not_selected() -> None:
    learner, sample = make_case(ThresholdedHalfSquared(0.0))
    long_rows = StandardisedLinear.of_columns(np.zeros(3), np.full(3, 1e-3), "float64")  # of squared norm 1e6
    step = race_step_sizes(replace(learner, feature_map=long_rows), sample, False)[0]
    assert np.isfinite(step)
    assert step == min(PLAIN_STEPS)
