"""One contract suite for every solver; tests of workers are in test_every_solver."""

from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.reading import read_rows
from okl.distributed.in_process import LocalExecution
from okl.features.predictors import predictor_from_stored
from okl.foundation.types import Task
from okl.runs.baselines import ConstantPredictor
from okl.runs.evaluate import predictor_tallies
from okl.solvers.base import Solver, SolverProgress
from tests.solver_cases import PASSES, SOLVERS, Make, bits, last_state, states

# not all pairs of modes and losses are needed: modes do not depend on losses
EXCLUDED = ("fogd-mix-logistic", "fogd-mix-thresholded-half-squared", "fogd-sum-hinge", "fogd-sum-multiclass-hinge")
NAMES = [name for name in SOLVERS if name not in EXCLUDED]


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def make(name: str) -> Make:
    return SOLVERS[name][0]


@pytest.fixture(scope="module")
def data(name: str, learnable: dict[Task, Dataset]) -> Dataset:
    return learnable[SOLVERS[name][1]]


@pytest.fixture(scope="module")
def visited(make: Make, data: Dataset, here: Execution) -> list[Any]:
    """Return all states of one run."""
    return list(states(make(), data, here))


def test_configuration_is_frozen(make: Make) -> None:
    solver = make()
    with pytest.raises(FrozenInstanceError):
        setattr(solver, fields(solver)[0].name, None)  # type: ignore[arg-type]


def test_advance_leaves_its_input_state_unchanged_and_depends_on_it_alone(
    make: Make, data: Dataset, here: Execution, visited: list[Any]
) -> None:
    solver = make()
    assert len(visited) > 2
    for k in {0, len(visited) // 2, len(visited) - 2}:
        before, after = visited[k : k + 2]
        stored = pickle.dumps(before)
        again = solver.advance(before, data, here)
        assert pickle.dumps(before) == stored
        assert bits(solver, again) == bits(solver, after) != bits(solver, before)


def test_pickled_states_continue_and_one_thread_gives_the_bits_of_two(
    make: Make, data: Dataset, visited: list[Any]
) -> None:
    resumed = pickle.loads(pickle.dumps(make()))
    with LocalExecution(1) as alone:
        state = resumed.start(data, alone)
    while resumed.finished(state) is None:
        with LocalExecution(1) as fresh:  # as in another process, without data of the previous steps
            state = pickle.loads(pickle.dumps(resumed.advance(state, data, fresh)))
    assert bits(resumed, state) == bits(make(), visited[-1])


def test_another_seed_gives_other_bits(make: Make, data: Dataset, here: Execution, visited: list[Any]) -> None:
    other = make(seed=4)
    first = other.advance(other.start(data, here), data, here)
    assert bits(other, first)[0] != bits(make(), visited[1])[0]


def progress_of(solver: Solver[Any], state: Any) -> SolverProgress:
    progress = solver.progress(state)
    assert isinstance(progress, SolverProgress)
    return progress


def test_finished_returns_none_until_all_passes_are_done(make: Make, data: Dataset, visited: list[Any]) -> None:
    solver = make()
    done = [progress_of(solver, state).done_rows for state in visited]
    assert [solver.finished(state) for state in visited[:-1]] == [None] * (len(visited) - 1)
    outcome = solver.finished(visited[-1])
    assert outcome is not None
    assert outcome.kind == "done"
    assert done[0] == 0
    assert (np.diff(done) > 0).all()
    assert done[-1] == progress_of(solver, visited[-1]).total_rows == PASSES * data.rows("train")


def test_every_solver_beats_the_majority_class_or_the_mean(make: Make, data: Dataset, here: Execution) -> None:
    solver = make(passes=3, rounds=16)
    state = last_state(solver, data, here)
    progress = progress_of(solver, state)
    assert progress.error < progress.baseline_error
    predictors = {"learnt": solver.predictor(state), "constant": ConstantPredictor(data.schema)}
    tallies = predictor_tallies(data, data.split("test"), predictors, "float32", here)
    reports = {which: tally.report() for which, tally in tallies.items()}
    metric = "mse" if data.schema.task == "regression" else "mistake_rate"
    assert 0 < reports["learnt"][metric] < 0.75 * reports["constant"][metric]


def test_predictor_fits_the_schema_and_is_the_same_when_stored(make: Make, data: Dataset, visited: list[Any]) -> None:
    predictor = make().predictor(visited[-1])
    assert (predictor.n_inputs, predictor.n_outputs) == (data.schema.n_features, data.schema.n_outputs)
    rows = read_rows(data, data.split("test")[0], (0, 1), "float32")
    scores = predictor.scores(rows.inputs)
    assert scores.shape == ((len(rows.targets), predictor.n_outputs) if predictor.n_outputs > 1 else (300,))
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) > 250
    description = json.loads(json.dumps(predictor.describe()))
    again = predictor_from_stored(description, dict(predictor.arrays()), "here")
    assert again.scores(rows.inputs).tobytes() == scores.tobytes()


def test_chosen_values_are_plain_json_with_reasons(make: Make, visited: list[Any]) -> None:
    chosen = make().chosen(visited[0])
    assert json.loads(json.dumps(chosen)) == chosen
    reasons = {name.removesuffix("_reason"): why for name, why in chosen.items() if name.endswith("_reason")}
    assert "bandwidth" in reasons
    for choice, why in reasons.items():
        assert isinstance(chosen[choice], str) or chosen[choice] > 0 or "so far" in why
        assert why
