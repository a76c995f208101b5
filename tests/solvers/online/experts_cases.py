"""Learners and rows that the tests of experts share."""

from __future__ import annotations

from typing import Any

import numpy as np

from okl.data.execution import Rows
from okl.foundation.types import Precision
from okl.losses import Loss
from okl.solvers.online.step_size_experts import Candidates, ExpertLearner, Experts, Round, draw_candidates
from tests.solvers.online.cases import n_outputs_of, targets_of

ROWS, N_INPUTS = 1600, 5
SPREADS = np.array([1.0, 1.0, 30.0, 0.1, 1.0])
ROUNDS = (Round(96, 100, 100), Round(320, 4, 2), Round(800, 2, 1), Round(None, 1, 1))


def make_rows(loss: Loss, precision: Precision = "float32", rows: int = ROWS) -> Rows:
    """Return columns of mixed scales with the signal in two small ones."""
    rng = np.random.default_rng(9)
    inputs = rng.standard_normal((rows, N_INPUTS))
    signal = np.sin(2 * inputs[:, 0]) + inputs[:, 1] ** 2 - 1 + 0.2 * rng.standard_normal(rows)
    return Rows((inputs * SPREADS).astype(precision), targets_of(signal, loss.task, 0.1))


def make_candidates(precision: Precision = "float32", seed: int = 3) -> Candidates:
    sample = np.random.default_rng(1).standard_normal((300, N_INPUTS)) * SPREADS
    return draw_candidates(sample.astype(precision), 40, seed, precision)


def make_learner(loss: Loss, precision: Precision = "float32", **options: Any) -> ExpertLearner:
    settings: dict[str, Any] = {"rounds": ROUNDS} | options
    return ExpertLearner(make_candidates(precision), loss, n_outputs_of(loss), **settings)


def bits(state: Experts) -> tuple[Any, ...]:
    groups = [
        (group.kind, group.candidates, group.steps.tobytes(), group.weights.tobytes(), group.pulls.tobytes())
        for group in state.groups
    ]
    numbers = state.losses.tobytes(), state.recent.tobytes(), state.numbers.tobytes()
    return state.round, groups, numbers, state.progress
