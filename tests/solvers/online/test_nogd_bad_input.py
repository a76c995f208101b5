from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from okl.data.execution import Rows
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.types import FloatArray
from okl.kernels import CustomKernel, Polynomial
from okl.losses import Hinge, Logistic, ThresholdedHalfSquared
from okl.solvers.online.nystrom import check_budget
from tests.solvers.online.nogd_cases import BUDGET, make_learner, make_rows


def test_duplicates_reduce_the_rank_with_a_reason() -> None:
    learner, rows = make_learner(Logistic()), make_rows(Logistic(), rows=500)
    few = Rows(rows.inputs[np.arange(500) % 7], rows.targets)
    state = learner.learn(learner.start(), few)
    assert state.feature_map is not None
    assert state.feature_map.n_columns == 7
    assert learner.chosen(state)["rank"] == 7
    assert "7 positive eigenvalues" in learner.chosen(state)["rank_reason"]
    assert learner.chosen(learner.start())["rank"] == 0


def minus_distance(left: FloatArray, right: FloatArray) -> FloatArray:
    values: FloatArray = 1.0 - np.sum((left[:, None, :] - right[None, :, :]) ** 2, axis=2)
    return values


def endless(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.full((len(left), len(right)), np.inf)


def test_a_kernel_that_is_not_positive_definite_reports_the_possible_rank() -> None:
    learner, rows = make_learner(Hinge(), CustomKernel("minus", minus_distance)), make_rows(Hinge())
    with pytest.raises(DataError, match=r"not positive definite.*allows rank \d"):
        learner.learn(learner.start(), rows)


def test_values_that_are_not_finite_raise() -> None:
    learner = make_learner(Hinge(), CustomKernel("endless", endless))
    with pytest.raises(DataError, match="not finite"):
        learner.learn(learner.start(), make_rows(Hinge()))
    learner = make_learner(Hinge(), Polynomial(100, 5.0, 1.0), "float32")
    with pytest.raises(DataError, match="not finite in float32"):
        learner.learn(learner.start(), make_rows(Hinge(), "float32"))


def test_divergence_raises_at_once() -> None:
    loss = ThresholdedHalfSquared(0.1)
    for budget in (BUDGET, 1400):
        learner = replace(make_learner(loss), step_size=1e3, budget=budget)
        with pytest.raises(DivergedError, match="Use a smaller value, such as"):
            learner.learn(learner.start(), make_rows(loss))


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="rank = 41 is more than the 40 landmarks"):
        replace(make_learner(Hinge()), rank=41)
    with pytest.raises(ConfigError, match="step_size"):
        replace(make_learner(Hinge()), step_size=0.0)
    with pytest.raises(ConfigError, match="one output"):
        replace(make_learner(Hinge()), n_outputs=3)
    with pytest.raises(ConfigError, match="only 20 training rows"):
        check_budget(21, 20)
    check_budget(20, 20)
