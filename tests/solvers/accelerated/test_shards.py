from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.data.reading import read_rows, sample_rows
from okl.distributed.cache import process_cache
from okl.features.predictors import LinearPredictor
from okl.foundation.errors import ConfigError
from okl.foundation.settings import IngestSettings
from okl.solvers import worker_rounds
from okl.solvers.accelerated import solver as accelerated_solver
from okl.solvers.accelerated.choice import MethodChoice
from okl.solvers.accelerated.fapg import Fapg, FapgState, solve
from okl.solvers.accelerated.fitting import ModelTask, fit_binary
from okl.solvers.accelerated.models import MODEL_NAMES, make_model, parameter_of
from okl.solvers.accelerated.newton import NewtonState
from okl.solvers.accelerated.newton_problem import held_arrays
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.settings import NEWTON_MODELS
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.online.maps import FourierChoice
from tests.solver_cases import last_state
from tests.solvers.accelerated.sharded_cases import (
    PARAMETERS,
    Watched,
    bits,
    sharded,
    solver,
    vectors_lost,
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return sharded(tmp_path_factory.mktemp("binary"))


def parameter(name: str, fit_intercept: bool) -> float:
    """Return a parameter at which the optimum is not 0, also without a bias."""
    return 0.95 if name == "nu-svm" and not fit_intercept else PARAMETERS[parameter_of(name)]


@cache
def in_memory(name: str, data: Dataset, fit_intercept: bool, tolerance: float) -> Any:
    """Return the same problem on the inputs of all shards in memory."""
    parts = [read_rows(data, shard, range(len(shard.row_groups)), "float32") for shard in data.split("train")]
    rows = DenseRows(np.concatenate([part.inputs for part in parts]), np.concatenate([part.targets for part in parts]))
    problem = make_model(
        name, **{parameter_of(name): parameter(name, fit_intercept)}, fit_intercept=fit_intercept
    ).problem(rows)
    method = Fapg(tolerance=tolerance)
    state, outcome = solve(problem, method)
    assert outcome.kind == "done"
    return method.solution(state, problem)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_shards_reach_the_optimum_of_one_memory(name: str, fit_intercept: bool, data: Dataset, here: Execution) -> None:
    value = parameter(name, fit_intercept)
    learning = solver(name, 1e-8, kernel=False, fit_intercept=fit_intercept, value=value)
    state = last_state(learning, data, here)
    certificate, expected = learning.certificate(state), in_memory(name, data, fit_intercept, 1e-8)
    assert certificate["objective"] == pytest.approx(expected.certificate.primal, rel=1e-7, abs=1e-12)
    assert certificate["dual_objective"] == pytest.approx(expected.certificate.dual, rel=1e-7, abs=1e-12)
    assert certificate["gap"] >= -1e-12 * abs(certificate["objective"])
    weights = state.solved[0].weights
    scale = np.linalg.norm(expected.weights)
    assert scale > 1e-6
    assert np.linalg.norm(weights[:-1] - expected.weights) < 1e-3 * scale
    assert state.solved[0].bias == pytest.approx(expected.bias, abs=2e-3 * (1.0 + abs(expected.bias)))


@pytest.mark.parametrize(("name", "norm"), [("l2-svm", 1.0), ("logistic", np.inf)])
def test_shards_reach_the_optimum_in_a_ball_after_losing_vectors(
    name: str, norm: float, data: Dataset, here: Execution, tmp_path: Path
) -> None:
    learning = solver(name, 1e-7, kernel=False, norm=norm, radius=0.2)
    whole = last_state(learning, data, here)
    watched = Watched(here, range(5, 400, 19), vectors_lost)
    assert bits(learning, last_state(replace(learning, scratch=tmp_path), data, watched)) == bits(learning, whole)
    parts = [read_rows(data, shard, range(len(shard.row_groups)), "float32") for shard in data.split("train")]
    inputs, signs = (np.concatenate([getattr(part, what) for part in parts]) for what in ("inputs", "targets"))
    expected = fit_binary(learning.task.model(), DenseRows(inputs, signs), learning.method)
    certificate = learning.certificate(whole)
    assert certificate["objective"] == pytest.approx(expected.certificate.primal, rel=2e-7)
    assert certificate["dual_objective"] == pytest.approx(expected.certificate.dual, rel=2e-7)
    assert certificate["relative_gap"] <= 1e-7
    assert np.linalg.norm(whole.solved[0].weights, norm) == pytest.approx(0.2, rel=1e-9)
    # a given solution is not replaced by a worse one
    predictor = learning.predictor(whole)
    assert isinstance(predictor, LinearPredictor)
    warm = learning.start(data, here, predictor)
    assert warm.current is not None
    assert warm.current.method_state.history[0].certificate.relative_gap < 1e-5


@pytest.mark.parametrize("name", ["nu-svm", "dwd", "l1-logistic", "l2-svm"])
def test_lost_vectors_are_recomputed_with_the_same_bits(
    name: str, data: Dataset, here: Execution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_rounds, "CHECKPOINT_STEPS", 7)
    learning = replace(solver(name, 1e-6, iterations=31), scratch=tmp_path)
    whole = last_state(learning, data, here)
    watched = Watched(here, range(5, 400, 19), vectors_lost)
    assert bits(learning, last_state(learning, data, watched)) == bits(learning, whole)
    assert watched.done > 30
    assert name.startswith("l1") or any(tmp_path.glob("*.npy"))
    # without a checkpoint folder all steps are repeated
    again = Watched(here, [20, 31], vectors_lost)
    assert bits(learning, last_state(replace(learning, scratch=None), data, again)) == bits(learning, whole)


def newton(name: str, fit_intercept: bool = True, kernel: bool = True, tolerance: float = 1e-8) -> AcceleratedSolver:
    value = parameter(name, fit_intercept)
    learning = solver(name, tolerance, kernel=kernel, fit_intercept=fit_intercept, value=value)
    return replace(learning, method=MethodChoice("newton", tolerance))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", NEWTON_MODELS)
def test_newton_over_shards_reaches_the_optimum_of_one_memory(
    name: str, fit_intercept: bool, data: Dataset, here: Execution
) -> None:
    learning = newton(name, fit_intercept, kernel=False)
    state = last_state(learning, data, here)
    certificate, expected = learning.certificate(state), in_memory(name, data, fit_intercept, 1e-8)
    assert certificate["converged"]
    assert certificate["objective"] == pytest.approx(expected.certificate.primal, rel=3e-8, abs=1e-12)
    assert certificate["dual_objective"] == pytest.approx(expected.certificate.dual, rel=3e-8, abs=1e-12)
    distance = np.linalg.norm(state.solved[0].weights[:-1] - expected.weights)
    assert distance < 1e-3 * np.linalg.norm(expected.weights)
    assert state.solved[0].bias == pytest.approx(expected.bias, abs=2e-3 * (1.0 + abs(expected.bias)))


@pytest.mark.parametrize("name", ["c-svm", "l1-logistic"])
def test_newton_recomputes_lost_vectors_with_the_same_bits(name: str, data: Dataset, here: Execution) -> None:
    def lose(work: Any, _: int) -> Any:
        held_arrays.forget()
        return work

    lost = Watched(here, range(5, 60, 4), lose)
    assert bits(newton(name), last_state(newton(name), data, lost)) == bits(
        newton(name), last_state(newton(name), data, here)
    )
    assert lost.done > 12


@pytest.mark.parametrize("learning", [solver("c-svm", 1e-2), newton("nu-svm", tolerance=1e-2)], ids=["fapg", "newton"])
def test_rows_that_do_not_fit_give_the_same_bits(learning: AcceleratedSolver, data: Dataset, here: Execution) -> None:
    held = last_state(learning, data, here)
    assert process_cache().used_bytes > 0
    process_cache().limit(0)
    try:
        read_again = last_state(learning, data, here)
        assert process_cache().used_bytes == 0
    finally:
        process_cache().limit(256 * 2**20)
    assert bits(learning, read_again) == bits(learning, held)


def test_a_state_is_a_value(data: Dataset, here: Execution) -> None:
    learning = solver("nu-svm", 1e-4)
    state = learning.advance(learning.start(data, here), data, here)
    copy = pickle.loads(pickle.dumps(state))
    ends = []
    for start in (state, copy, state):  # the worker vectors have advanced by the second call
        current = start
        for _ in range(2):
            current = learning.advance(current, data, here)
        assert current.current is not None
        assert isinstance(current.current.method_state, FapgState)
        ends.append((current.current.method_state.current.image.tobytes(), learning.progress(current)))
    assert ends[0] == ends[1] == ends[2]


def test_several_classes_are_one_against_the_rest(here: Execution, tmp_path: Path) -> None:
    data = sharded(tmp_path, classes=3)
    learning = solver("l2-svm", 1e-4)
    state = last_state(learning, data, here)
    predictor = learning.predictor(state)
    rows = [read_rows(data, shard, range(len(shard.row_groups)), "float32") for shard in data.split("train")]
    right = np.mean(
        [np.argmax(predictor.scores(part.inputs), axis=1) == part.targets for part in rows[:3]], dtype=np.float64
    )
    assert right > 0.6 > max(data.schema.class_counts) / data.rows("train")
    certificate = learning.certificate(state)
    assert certificate["gap"] == pytest.approx(sum(one.certificate.gap for one in state.solved))
    assert certificate["relative_gap"] <= 1e-4
    assert len(state.solved) == 3


def test_bias_of_fewest_errors_makes_fewer_errors_than_the_own_bias(data: Dataset, here: Execution) -> None:
    mistakes = {}
    parts = [read_rows(data, shard, range(len(shard.row_groups)), "float32") for shard in data.split("train")]
    for bias in ("own", "errors"):
        learning = solver("dwd", 1e-3, bias=bias)
        predictor = learning.predictor(last_state(learning, data, here))
        wrong = [np.sign(predictor.scores(part.inputs)) != part.targets for part in parts]
        mistakes[bias] = int(np.concatenate(wrong).sum())
    assert mistakes["errors"] < mistakes["own"]


def test_a_parameter_out_of_its_range_is_refused_with_the_range(data: Dataset, here: Execution) -> None:
    with pytest.raises(ConfigError, match=r"nu = 0.99 is outside \(0, 0\.\d+\], the valid range"):
        solver("nu-svm", 1e-3, value=0.99).check(data.schema)
    with pytest.raises(ConfigError, match=r"kappa = 50 is outside \(0, [\d.]+\), the valid range"):
        solver("mm-mpm", 1e-3, value=50).start(data, here)
    with pytest.raises(ConfigError, match=r"nu = 0.2 is below .* weights are all 0. .* above 0.2, up to 0\.\d+"):
        last_state(solver("nu-svm", 1e-3, kernel=False, value=0.2), data, here)
    free = solver("nu-svm", 1e-3, value=None)
    state = free.start(data, here)
    counts = data.schema.class_counts
    assert free.chosen(state)["nu"] == pytest.approx(min(counts) / sum(counts))
    assert ModelTask("c-svm").model() == make_model("c-svm")


def test_a_nu_that_is_not_given_grows_until_it_has_weights(tmp_path: Path, here: Execution) -> None:
    random = np.random.default_rng(1)
    inputs = random.normal(size=(600, 3)).astype(np.float32)
    labels = (inputs[:, 0] + 3.0 * random.normal(size=600) > 0.0).astype(int)
    pq.write_table(pa.table({f"x{j}": inputs[:, j] for j in range(3)} | {"y": labels}), tmp_path / "source.parquet")
    data = ingest(tmp_path / "source.parquet", tmp_path / "data", IngestSettings()).dataset
    learning = solver("nu-svm", 1e-3, kernel=False, value=None)
    counts = data.schema.class_counts
    highest = 2.0 * min(counts) / sum(counts)
    with pytest.raises(ConfigError, match="below the valid range"):
        last_state(replace(learning, task=replace(learning.task, value=0.5 * highest)), data, here)
    state = last_state(learning, data, here)
    assert 0.5 * highest < learning.chosen(state)["nu"] <= highest
    assert "more where" in learning.chosen(state)["nu_reason"]
    assert learning.certificate(state)["objective"] < 0.0


def test_weights_that_are_nearly_none_do_not_end_the_growth_of_nu(
    data: Dataset, here: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    learning = solver("nu-svm", 0.3, value=None)
    counts = data.schema.class_counts
    highest = 2.0 * min(counts) / sum(counts)
    state = last_state(learning, data, here)
    assert learning.chosen(state)["nu"] == pytest.approx(0.5 * highest)
    history = state.solved[0].method_state.history
    share = abs(history[-1].certificate.primal / history[0].certificate.dual)
    monkeypatch.setattr(accelerated_solver, "NO_WEIGHTS", 1.01 * share)
    state = last_state(learning, data, here)
    assert learning.chosen(state)["nu"] == pytest.approx(0.75 * highest)


@pytest.mark.parametrize("name", ["c-svm", "logistic", "l2-svm"])
def test_a_small_c_uses_accelerated_gradients_over_shards(name: str, data: Dataset, here: Execution) -> None:
    methods = []
    for value in (1e-4, 100.0):
        model = replace(solver(name, 1e-4, value=value), maps=FourierChoice(n_frequencies=40), method=MethodChoice())
        state = model.start(data, here)
        assert state.current is not None
        methods.append(type(state.current.method_state))
    assert methods == [FapgState, NewtonState]


def test_rows_are_sampled_once_for_auto_and_never_for_a_named_method(
    data: Dataset, here: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(*given: Any) -> Any:
        read.append("sample")
        return sample_rows(*given)

    monkeypatch.setattr(accelerated_solver, "sample_rows", counted)
    counts = {}
    for name in ("auto", "newton", "fapg"):
        read.clear()
        choice = MethodChoice(name)
        model = replace(solver("c-svm", 1e-4, value=1.0), maps=FourierChoice(n_frequencies=40), method=choice)
        state = model.start(data, here)
        model._begin(state, data, here)  # as for another class
        counts[name] = len(read)
    assert counts == {"auto": 2, "newton": 1, "fapg": 1}  # one of these reads is for the map
