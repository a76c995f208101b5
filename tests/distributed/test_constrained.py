"""Training on shards with constraints: the same bits on any workers; violations are those of the averaged model."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.manifest import open_dataset
from okl.distributed.in_process import LocalExecution
from okl.features.predictors import LinearPredictor
from okl.foundation.settings import settings_from
from okl.foundation.types import Task
from okl.solvers.factory import training_columns
from okl.solvers.online.constrained import ConstrainedLearner
from okl.solvers.online.constraints import measure_constraints, parse_constraints
from okl.solvers.online.solver import OnlineSolver
from okl.solvers.settings import TrainSettings
from tests.solver_cases import last_state, make_online_solver
from tests.solvers.online.constraints_cases import sensitive_data

TEXTS = ("abs(covariance(s)) <= 0.001", "mean(s=1) >= 0.8", "norm <= 8")
CASES: list[tuple[Task, dict[str, Any]]] = [
    *((task, {"frequencies": 20}) for task in get_args(Task)),
    ("multiclass", {"solver": "nogd", "budget": 30}),
]


@pytest.fixture(scope="module", params=CASES, ids=str)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[OnlineSolver, Dataset, Any]:
    """Return the solver, its data and the state after training with one thread of one process."""
    task, values = request.param
    folder = sensitive_data(tmp_path_factory.mktemp("constrained"), task).folder
    options = {"data": str(folder), "constraints": TEXTS, "mode": "mix", "rounds": 3} | values
    options |= {"constraint_gain": 0.01}  # slow enough that the average violates constraints
    settings = settings_from(TrainSettings, options, "test")
    data = training_columns(settings, open_dataset(folder))
    solver = make_online_solver(settings, data)
    with LocalExecution(1) as execution:
        return solver, data, last_state(solver, data, execution)


@pytest.mark.parametrize("backend", ["local-2", "dask-3"], indirect=True)
def test_constrained_training_gives_the_same_bits_on_every_backend(
    trained: tuple[OnlineSolver, Dataset, Any], backend: Execution
) -> None:
    solver, data, local = trained
    state = last_state(solver, data, backend)
    for name in ("last", "averaged", "queues"):
        np.testing.assert_array_equal(getattr(state.learned, name), getattr(local.learned, name))
    assert state.learned.progress == local.learned.progress
    assert state.learner.kept.rows.tobytes() == local.learner.kept.rows.tobytes()
    assert state.learned.queues.max() > 0.0, "constraints were violated during training"


def test_reported_violation_is_that_of_the_averaged_model(trained: tuple[OnlineSolver, Dataset, Any]) -> None:
    solver, data, state = trained
    learner = state.learner
    assert isinstance(learner, ConstrainedLearner)
    average = LinearPredictor(learner.feature_map, learner.raw(state.learned))
    constraints, _ = parse_constraints(TEXTS)
    with LocalExecution(1) as execution:
        measured = measure_constraints(data, data.split("train"), constraints, average, "float32", execution)
    reported, worst = solver.chosen(state)["violation_as_learnt"], [constraint["excess"] for constraint in measured]
    if data.schema.task == "multiclass":  # the report uses the class with the largest violation
        assert max(worst) * (1 - 1e-3) <= reported <= np.linalg.norm(worst) * (1 + 1e-3)
    else:
        assert reported == pytest.approx(np.linalg.norm(worst), rel=1e-3)
    assert reported > 1e-3
    assert np.linalg.norm(learner.raw(state.learned)) <= 8.0 * (1 + 1e-6)
