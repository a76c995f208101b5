"""Every solver by name: its stored model and its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.reading import sample_rows
from okl.distributed import open_execution
from okl.foundation.errors import ConfigError
from okl.foundation.types import Task
from okl.models.file import Model, load_model, save_model
from okl.solvers.accelerated.models import MODEL_NAMES
from okl.solvers.factory import make_solver
from okl.solvers.online.base import LearnerFactory
from okl.solvers.online.linear import LinearFactory
from okl.solvers.online.settings import OnlineSettings
from okl.solvers.online.solver import OnlineSolver
from okl.solvers.online.step_size_experts import ExpertFactory
from okl.solvers.online.strategies import STRATEGIES, BudgetFactory
from okl.solvers.settings import SOLVER_NAMES, solver_settings
from tests.solver_cases import last_state, make_online_solver
from tests.solvers.factory.cases import ONLINE, OPTIONS, SCHEMAS, SMALL, defined, re_escaped, settings_of


def test_every_strategy_and_model_is_a_solver_of_its_own_name() -> None:
    assert {*STRATEGIES, *MODEL_NAMES} < set(SOLVER_NAMES) == set(OPTIONS)
    assert all(name == solver_settings(name).SOLVER for name in SOLVER_NAMES)


CASES = [(solver, task) for solver in (*ONLINE, "ridge", "local") for task in defined(solver)]


@pytest.mark.parametrize(("solver", "task"), CASES)
def test_a_stored_model_of_any_solver_scores_as_the_one_that_was_learnt(
    solver: str, task: Task, data: dict[Task, Dataset], tmp_path: Path
) -> None:
    several = {"passes": 2, "order": "stored"} if solver in ONLINE else {}
    learning = make_solver(settings_of(solver, **several), data[task])
    with open_execution() as execution:
        state = last_state(learning, data[task], execution)
    predictor, schema = learning.predictor(state), data[task].schema
    save_model(Model(schema, predictor), tmp_path / "model")
    stored = load_model(tmp_path / "model")
    inputs = sample_rows(data[task], "test", 100, 0, "float32").inputs
    scores = predictor.scores(inputs)
    np.testing.assert_array_equal(stored.predictor.scores(inputs), scores)
    assert scores.shape == ((len(inputs), 3) if task == "multiclass" else (len(inputs),))
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    assert stored.precision == predictor.precision == ("float64" if solver in ("ridge", "local") else "float32")
    if isinstance(learning, OnlineSolver):
        progress = learning.progress(state)
        assert progress.error < 1.7 * progress.baseline_error


@pytest.mark.parametrize("solver", ["nogd", "projectron", "perceptron"])
def test_precision_reaches_the_model(solver: str, data: dict[Task, Dataset]) -> None:
    task = defined(solver)[-1]
    learning = make_online_solver(settings_of(solver, precision="float64"), data[task])
    with open_execution() as execution:
        assert learning.predictor(last_state(learning, data[task], execution)).precision == "float64"


def factory_of(solver: str, task: Task, **values: Any) -> LearnerFactory:
    """Return the online learner of a solver for synthetic data of a task."""
    options = settings_of(solver, **values).options
    assert isinstance(options, OnlineSettings)
    return options.factory(SCHEMAS[task])


def test_experts_are_used_without_a_given_bandwidth_and_step_size() -> None:
    given: dict[str, dict[str, Any]] = {
        "nothing": {},
        "a bandwidth": {"bandwidth": 2.0},
        "a step": {"step_size": 0.5},
        "a map": {"map": "auto"},
        "no average": {"average": False},
    }
    factories = {name: factory_of("fogd", "binary", **values) for name, values in given.items()}
    assert isinstance(factories.pop("nothing"), ExpertFactory)
    assert {type(factory) for factory in factories.values()} == {LinearFactory}


@pytest.mark.parametrize("solver", STRATEGIES)
def test_shards_of_support_vectors_are_mixed_and_gradients_not_summed(solver: str, data: dict[Task, Dataset]) -> None:
    learning = make_online_solver(settings_of(solver, mode="mix", rounds=3), data["binary"])
    with open_execution() as execution:
        state = last_state(learning, data["binary"], execution)
    held = learning.chosen(state)["support_vectors"]
    assert 0 < held <= (SMALL["budget"] if "budget" in OPTIONS[solver] else data["binary"].rows("train"))
    with pytest.raises(ConfigError, match=rf"but {re_escaped(solver)} supports stream and mix only"):
        make_online_solver(settings_of(solver, mode="sum"), data["binary"])
    assert settings_of(solver, workers=2).training_mode == "mix"


def test_a_step_size_that_changes_no_decision_is_not_searched() -> None:
    def race(task: Task, **values: Any) -> bool:
        factory = factory_of("rbp", task, **values)
        assert isinstance(factory, BudgetFactory)
        return factory.race

    assert (race("binary"), race("multiclass"), race("regression")) == (False, False, True)
    assert not race("regression", step_size=0.5)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("solver", ["perceptron", "rbp", "projectron", "budget-perceptron"])
def test_no_step_size_changes_the_decisions_of_a_perceptron(solver: str, task: Task, data: dict[Task, Dataset]) -> None:
    errors = set()
    for step_size in (0.25, 1.0, 8.0):
        learning = make_online_solver(settings_of(solver, step_size=step_size), data[task])
        with open_execution() as execution:
            errors.add(learning.progress(last_state(learning, data[task], execution)).error)
    assert len(errors) == 1
