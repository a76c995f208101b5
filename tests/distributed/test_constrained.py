"""Shards that learn under constraints: the same bits on any workers, and the average is what is measured."""

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
def learnt(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[OnlineSolver, Dataset, Any]:
    """What one thread of one process learns."""
    task, values = request.param
    folder = sensitive_data(tmp_path_factory.mktemp("constrained"), task).folder
    given = {"data": str(folder), "constraints": TEXTS, "mode": "mix", "rounds": 3} | values
    given |= {"constraint_gain": 0.01}  # slowly, so that the average is outside
    settings = settings_from(TrainSettings, given, "test")
    data = training_columns(settings, open_dataset(folder))
    solver = make_online_solver(settings, data)
    with LocalExecution(1) as execution:
        return solver, data, last_state(solver, data, execution)


@pytest.mark.parametrize("backend", ["local-2", "dask-3"], indirect=True)
def test_shards_learn_the_same_within_limits_wherever_they_are(
    learnt: tuple[OnlineSolver, Dataset, Any], backend: Execution
) -> None:
    solver, data, alone = learnt
    state = last_state(solver, data, backend)
    for name in ("last", "averaged", "queues"):
        np.testing.assert_array_equal(getattr(state.learned, name), getattr(alone.learned, name))
    assert state.learned.progress == alone.learned.progress
    assert state.learner.kept.rows.tobytes() == alone.learner.kept.rows.tobytes()
    assert state.learned.queues.max() > 0.0, "limits were overstepped on the way"


def test_violation_told_is_that_of_the_averaged_model(learnt: tuple[OnlineSolver, Dataset, Any]) -> None:
    solver, data, state = learnt
    learner = state.learner
    assert isinstance(learner, ConstrainedLearner)
    average = LinearPredictor(learner.feature_map, learner.raw(state.learned))
    constraints, _ = parse_constraints(TEXTS)
    with LocalExecution(1) as execution:
        found = measure_constraints(data, data.split("train"), constraints, average, "float32", execution)
    told, worst = solver.chosen(state)["violation_as_learnt"], [one["excess"] for one in found]
    if data.schema.task == "multiclass":  # the report has the class that is farthest outside
        assert max(worst) * (1 - 1e-3) <= told <= np.linalg.norm(worst) * (1 + 1e-3)
    else:
        assert told == pytest.approx(np.linalg.norm(worst), rel=1e-3)
    assert told > 1e-3
    assert np.linalg.norm(learner.raw(state.learned)) <= 8.0 * (1 + 1e-6)
