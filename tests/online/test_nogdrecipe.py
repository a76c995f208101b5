from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from okl.errors import ConfigError, DivergedError
from okl.execution.local import LocalExecution
from okl.execution.protocol import Execution
from okl.kernels import CustomKernel
from okl.losses import make_loss
from okl.online.learner import LinearLearner
from okl.online.nogd import NOGDLearner
from okl.online.nogdrecipe import NOGDRecipe
from okl.online.recipe import Mode
from okl.online.solver import OnlineSolver
from okl.store.dataset import Dataset
from okl.types import FloatArray, Task
from tests.solver_cases import LOSSES, MODES, last_state


@pytest.fixture(scope="module")
def here() -> Iterator[Execution]:
    with LocalExecution(2) as execution:
        yield execution


def cosine(left: FloatArray, right: FloatArray) -> FloatArray:
    values: FloatArray = np.cos(left[:, None, :] - right[None, :, :]).mean(axis=2)
    return values


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loss", list(LOSSES))
def test_every_mode_beats_the_baseline(loss: str, mode: Mode, learnable: dict[Task, Dataset], here: Execution) -> None:
    data = learnable[LOSSES[loss]]
    rank = 15 if loss == "multiclass-hinge" else 20
    solver = OnlineSolver(NOGDRecipe(make_loss(loss), budget=60, rank=rank), 2, rounds=20, mode=mode)
    state = last_state(solver, data, here)
    standing, chosen = solver.standing(state), solver.chosen(state)
    assert standing.done_rows == 2 * data.rows("train")
    assert standing.error < standing.baseline_error
    assert isinstance(state.learner, NOGDLearner if mode == "stream" else LinearLearner)
    assert (chosen["landmarks"], chosen["rank"]) == (60, rank)
    assert chosen["step_size"] == state.learner.step_size
    assert {"bandwidth_reason", "rank_reason", "step_size_reason"} < set(chosen)
    assert ("landmarks_reason" in chosen) == (mode != "stream")


def test_a_kernel_of_the_users_own_learns_with_what_was_given(learnable: dict[Task, Dataset], here: Execution) -> None:
    recipe = NOGDRecipe(make_loss("hinge"), CustomKernel("cosine", cosine), budget=30, rank=6, step_size=0.5)
    state = last_state(OnlineSolver(recipe), learnable["binary"], here)
    assert state.learner.step_size == 0.5
    assert state.chosen["step_size_reason"] == "as given"
    assert state.learned.feature_map.n_columns == 6


def test_landmarks_of_a_sample_that_does_not_fill_the_budget_are_those_there_are(
    learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable["binary"]
    recipe = NOGDRecipe(make_loss("hinge"), budget=data.rows("train"), rank=25, step_size=1.0)
    state = OnlineSolver(recipe, mode="mix").start(data, here)
    assert 25 <= state.chosen["landmarks"] < data.rows("train")
    assert state.chosen["rank"] == 25


def test_data_on_which_every_step_diverges_are_told(learnable: dict[Task, Dataset], here: Execution) -> None:
    recipe = NOGDRecipe(make_loss("thresholded-half-squared"), "polynomial", 0.01, budget=40)
    with pytest.raises(DivergedError, match="Every step size down to"):
        OnlineSolver(recipe).start(learnable["regression"], here)


def test_settings_that_do_not_fit_the_data_are_refused(learnable: dict[Task, Dataset], here: Execution) -> None:
    data = learnable["binary"]
    for recipe, message in [
        (NOGDRecipe(make_loss("hinge"), budget=100_000), "training rows to take support vectors from"),
        (NOGDRecipe(make_loss("hinge"), budget=10, rank=20), "rank = 20, but 10 landmarks"),
        (NOGDRecipe(make_loss("multiclass-hinge")), "makes this a binary task"),
    ]:
        with pytest.raises(ConfigError, match=message):
            OnlineSolver(recipe).start(data, here)
    blind = NOGDRecipe(make_loss("thresholded-half-squared", 1e9))
    with pytest.raises(ConfigError, match="finds no landmarks"):
        OnlineSolver(blind, mode="mix").start(learnable["regression"], here)
