"""A step size without tuning: a race of a few on a sample, within what is safe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from okl.errors import DivergedError
from okl.execution.protocol import Rows
from okl.online.learner import LinearLearner
from okl.online.rounds import AdaGrad, Gradient

PLAIN_STEPS = tuple(2.0**k for k in range(-6, 5))
ADAGRAD_STEPS = tuple(2.0**k for k in range(-6, 4))
RACE_BATCHES = 32


def race_step_sizes(learner: LinearLearner, sample: Rows, adaptive: bool) -> tuple[float, str]:
    """Choose the step size whose progressive error on a sample is least; the smaller one on a tie.

    Rows of the scaled map have norm 1, so that a step of at most 1 on a squared residual never overshoots it: larger
    ones do not take part in regression. AdaGrad's steps do not grow with the gradients, so that in regression they are
    measured in the root mean square of the targets: weights for house prices could never be reached by steps of 8.

    Parameters
    ----------
    learner : whose step size is to be chosen; sample : rows in a random order
    adaptive : for AdaGrad's mini-batch steps

    Returns
    -------
    the step size, and a sentence that says why
    """
    steps = _adagrad_steps(learner, sample) if adaptive else _safe_steps(learner)
    errors = [_adagrad_error(learner, sample, step) if adaptive else _error(learner, sample, step) for step in steps]
    best = int(np.argmin(errors))
    return steps[best], f"least progressive error of {len(steps)} step sizes on {len(sample.targets):,} sampled rows"


def _safe_steps(learner: LinearLearner) -> tuple[float, ...]:
    if learner.loss.task != "regression":
        return PLAIN_STEPS
    return tuple(step for step in PLAIN_STEPS if step <= 1.0)


def _adagrad_steps(learner: LinearLearner, sample: Rows) -> tuple[float, ...]:
    if learner.loss.task != "regression" or not sample.targets.any():
        return ADAGRAD_STEPS
    unit = float(np.sqrt(np.mean(sample.targets**2)))
    return tuple(step * unit for step in ADAGRAD_STEPS)


def _error(learner: LinearLearner, sample: Rows, step: float) -> float:
    racer = replace(learner, step_size=step)
    try:
        return racer.learn(racer.start(), sample, n_threads=1).progress.error
    except DivergedError:
        return np.inf


def _adagrad_error(learner: LinearLearner, sample: Rows, step: float) -> float:
    racer = replace(learner, step_size=step)
    weights, optimiser = racer.start(), AdaGrad.start(learner.n_outputs, learner.feature_map.n_columns)
    try:
        batches = np.array_split(np.arange(len(sample.targets)), min(RACE_BATCHES, len(sample.targets)))
        for number, part in enumerate(batches, start=1):
            inside = slice(part[0], part[-1] + 1)
            gradient = Gradient.of(racer, weights.last, Rows(sample.inputs[inside], sample.targets[inside]))
            weights, stepped = gradient.step(racer, weights, optimiser, number)
            assert stepped is not None
            optimiser = stepped
    except DivergedError:
        return np.inf
    return weights.progress.error
