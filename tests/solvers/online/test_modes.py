"""The three modes of the online learner: order of rows and definition of one step."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution, Rows
from okl.data.order import Order, plan_windows
from okl.data.reading import load_window, read_rows
from okl.features.predictors import Predictor
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.types import Mode, Task
from okl.losses import make_loss
from okl.runs.baselines import ConstantPredictor
from okl.runs.evaluate import predictor_tallies
from okl.solvers.online.base import BuildContext, balanced_class_weights
from okl.solvers.online.linear import LinearFactory, LinearLearner, round_rows
from okl.solvers.online.maps import FourierChoice, LinearChoice
from okl.solvers.online.solver import OnlineSolver, OnlineState
from okl.solvers.online.step_size_experts import ExpertFactory, ExpertLearner, Round, draw_candidates
from tests.conftest import make_learnable
from tests.solver_cases import LOSSES, MODES, PASSES, ROUNDS, last_state, online, states
from tests.solvers.online.conftest import SMALL_WINDOW

MODE = pytest.mark.parametrize("mode", MODES)
LOSS = pytest.mark.parametrize("loss", list(LOSSES))


def all_rows(data: Dataset) -> Rows:
    """Return the training rows in stored order."""
    parts = [read_rows(data, shard, range(len(shard.row_groups)), "float32") for shard in data.split("train")]
    return Rows(np.concatenate([part.inputs for part in parts]), np.concatenate([part.targets for part in parts]))


def same_weights(state: OnlineState, learner: LinearLearner, parts: list[Rows]) -> bool:
    """Return whether the weights of a state equal, to the bit, those of learning parts in memory in order."""
    weights = learner.start()
    for part in parts:
        weights = learner.learn(weights, part)
    learned = state.learned
    return (learned.last.tobytes(), learned.summed.tobytes(), learned.n_sampled, learned.progress) == (
        weights.last.tobytes(),
        weights.summed.tobytes(),
        weights.n_sampled,
        weights.progress,
    )


@pytest.mark.usefixtures("small_windows")
@MODE
@LOSS
def test_every_row_is_visited_exactly_once_a_pass(
    mode: Mode, loss: str, learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable[LOSSES[loss]]
    solver, n_rows = online(loss, mode), data.rows("train")
    over = [state for state in states(solver, data, here) if state.pass_index and state.step == 0]
    assert [state.pass_index for state in over] == list(range(1, PASSES + 1))
    for state in over:
        progress = state.learned.progress
        assert progress.rows == state.pass_index * n_rows
        if data.schema.task == "regression":
            assert progress.target_sum == pytest.approx(state.pass_index * all_rows(data).targets.sum(), abs=1e-6)
        else:
            assert progress.class_counts == tuple(state.pass_index * count for count in data.schema.class_counts)
    if mode == "stream":
        assert len(over[-1].windows) == 4 * PASSES
        assert over[-1].steps_per_pass > 4  # segments: progress within a window
    else:
        assert over[-1].steps_per_pass == ROUNDS


@LOSS
def test_stream_in_stored_order_equals_learning_the_same_rows_in_memory(
    loss: str, learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable[LOSSES[loss]]
    state = last_state(online(loss, "stream", order="stored"), data, here)
    assert same_weights(state, state.learner, [all_rows(data)] * PASSES)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("order", ["stored", "shuffle"])
def test_stream_learns_window_after_window_in_the_planned_order(
    order: Order, learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable["multiclass"]
    state = last_state(online("multiclass-hinge", "stream", order=order), data, here)
    parts = [
        load_window(data, window, "float32")
        for pass_index in range(PASSES)
        for window in plan_windows(data.split("train"), 4, order, (3, pass_index), SMALL_WINDOW)
    ]
    assert len(parts) == 2 * 4
    assert same_weights(state, state.learner, parts)


@LOSS
def test_mix_of_one_shard_in_one_round_equals_learning_its_rows(
    loss: str, learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable[LOSSES[loss]]
    shard = data.split("train")[0]
    alone = replace(data, shards=(shard, *data.split("test")))
    state = last_state(online(loss, "mix", rounds=1, passes=1), alone, here)
    assert same_weights(state, state.learner, [round_rows(data, shard, "shuffle", (3, 0), (0, 1), "float32")])


@LOSS
def test_mix_averages_shard_weights_by_rows_from_the_same_start(
    loss: str, learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable[LOSSES[loss]]
    solver = online(loss, "mix", rounds=1, passes=1)
    start = solver.start(data, here)
    shards = data.split("train")
    parts = [round_rows(data, shard, "shuffle", (3, 0), (0, 1), "float32") for shard in shards]
    alone = [start.learner.learn(start.learned, part).last for part in parts]
    expected = np.average(alone, axis=0, weights=[shard.rows for shard in shards])
    mixed = solver.advance(start, data, here).learned.last
    np.testing.assert_allclose(mixed, expected, atol=1e-6)
    assert np.abs(mixed - alone[0]).max() > 1e-3


@LOSS
def test_plain_sum_in_one_round_is_one_step_along_the_mean_subgradient_of_all_rows(
    loss: str, learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable[LOSSES[loss]]
    solver = online(loss, "sum", rounds=1, passes=1, adaptive=False, step_size=0.5, precision="float64")
    state = last_state(solver, data, here)
    rows, learner = all_rows(data), state.learner
    features = learner.feature_map.transform(rows.inputs)
    scores = features @ learner.start().last.T
    slopes = learner.loss.derivative(scores if scores.shape[1] > 1 else scores[:, 0], rows.targets)
    gradient = slopes.reshape(len(features), -1).T @ features / len(features)
    np.testing.assert_allclose(state.learned.last, -0.5 * gradient, atol=1e-7)
    assert state.optimiser is None


@MODE
def test_stored_and_shuffled_orders_give_different_results(
    mode: Mode, learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable["binary"]
    learnt = {
        (order, seed): last_state(online("hinge", mode, order=order, seed=seed, passes=1), data, here).learned
        for order in ("stored", "shuffle")
        for seed in (3, 4)
    }
    assert len({weights.last.tobytes() for weights in learnt.values()}) == 4  # the map differs by the seed, too
    mistakes = {key: weights.progress.mistakes for key, weights in learnt.items()}
    assert mistakes["stored", 3] != mistakes["shuffle", 3]


def share_of_constant_error(solver: OnlineSolver, data: Dataset, execution: Execution) -> float:
    """Return the test error of a solver relative to that of the majority class or the mean."""
    predictors: dict[str, Predictor] = {
        "learnt": solver.predictor(last_state(solver, data, execution)),
        "constant": ConstantPredictor(data.schema),
    }
    tallies = predictor_tallies(data, data.split("test"), predictors, "float32", execution)
    metric = "mse" if data.schema.task == "regression" else "mistake_rate"
    return float(tallies["learnt"].report()[metric] / tallies["constant"].report()[metric])


@pytest.fixture(scope="module")
def by_target(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, Dataset]:
    return {task: make_learnable(tmp_path_factory.mktemp(task), task, by_target=True) for task in get_args(Task)}


@pytest.mark.parametrize(
    ("loss", "mode"),
    [
        *((loss, "stream") for loss in ("hinge", "multiclass-hinge", "thresholded-half-squared")),
        *((loss, "sum") for loss in ("logistic", "multiclass-hinge")),
    ],
)
def test_rows_sorted_by_target_are_learnt(
    mode: Mode, loss: str, here: Execution, by_target: dict[Task, Dataset]
) -> None:
    data = by_target[LOSSES[loss]]
    assert share_of_constant_error(online(loss, mode, passes=3, rounds=25), data, here) < 0.75


@pytest.fixture(scope="module")
def in_units(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Dataset]:
    return {unit: make_learnable(tmp_path_factory.mktemp("unit"), "regression", unit=unit) for unit in (1e-6, 1e4)}


@pytest.mark.parametrize("unit", [1e-6, 1e4])
@MODE
def test_regression_targets_of_any_unit_are_learnt_without_scaling(
    mode: Mode, unit: float, here: Execution, in_units: dict[float, Dataset]
) -> None:
    data = in_units[unit]
    assert data.schema.target_shift_and_factor == (0.0, 1.0)
    loss = make_loss("thresholded-half-squared", epsilon=0.0)
    solver = OnlineSolver(LinearFactory(FourierChoice(n_frequencies=60), loss), 4, seed=3, mode=mode, rounds=25)
    assert share_of_constant_error(solver, data, here) < 0.75


@pytest.mark.parametrize(
    ("loss", "mode"),
    [
        ("hinge", "stream"),
        ("hinge", "mix"),
        ("logistic", "sum"),
        ("multiclass-hinge", "stream"),
        ("multiclass-hinge", "sum"),
    ],
)
def test_class_weights_favour_their_class(
    mode: Mode, loss: str, learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable[LOSSES[loss]]
    counts = data.schema.class_counts
    balanced = balanced_class_weights(data.schema)
    assert np.dot(balanced, counts) == pytest.approx(sum(counts))
    assert np.ptp(np.multiply(balanced, counts)) == pytest.approx(0)
    shares = []
    for factor in (0.1, 10.0):
        weights = (1.0,) * (len(counts) - 1) + (factor,)
        solver = online(loss, mode, class_weights=weights, step_size=0.5, rounds=20)
        scores = solver.predictor(last_state(solver, data, here)).scores(all_rows(data).inputs)
        shares.append(float(np.mean(scores >= 0 if scores.ndim == 1 else scores.argmax(axis=1) == len(counts) - 1)))
    assert shares[0] < shares[1] - 0.05


def test_chosen_values_are_reported(learnable: dict[Task, Dataset], here: Execution) -> None:
    data = learnable["binary"]
    chosen = {mode: online("hinge", mode).start(data, here).chosen for mode in MODES}
    assert chosen["stream"]["mixing_share"] == 1.0
    assert "median distance of 2," in chosen["stream"]["bandwidth_reason"]
    assert "2,257 sampled rows" in chosen["stream"]["step_size_reason"]
    given = OnlineSolver(LinearFactory(FourierChoice(bandwidth=2.0), make_loss("hinge"), step_size=0.3), order="stored")
    reported = given.start(data, here).chosen
    assert (reported["bandwidth"], reported["step_size"], reported["mixing_share"]) == (2.0, 0.3, 0.0)
    assert reported["bandwidth_reason"] == reported["step_size_reason"] == "as given"


@pytest.mark.usefixtures("small_windows")
def test_mixing_share_is_that_of_the_largest_window(learnable: dict[Task, Dataset], here: Execution) -> None:
    share = online("hinge", "stream").start(learnable["binary"], here).chosen["mixing_share"]
    assert 0.25 < share < 0.35


@MODE
def test_a_linear_map_replaces_the_kernel(mode: Mode, learnable: dict[Task, Dataset], here: Execution) -> None:
    data = learnable["regression"]
    factory = LinearFactory(LinearChoice(), make_loss("thresholded-half-squared"))
    solver = replace(online("thresholded-half-squared", mode, rounds=20), factory=factory)
    state = last_state(solver, data, here)
    assert solver.predictor(state).describe()["map"]["kind"] == "standardised-linear"
    assert np.isfinite(state.learned.progress.error)


@MODE
def test_step_that_diverges_ends_in_a_clear_error(mode: Mode, learnable: dict[Task, Dataset], here: Execution) -> None:
    solver = online("thresholded-half-squared", mode, step_size=60.0, adaptive=False, rounds=100, passes=3)
    with pytest.raises(DivergedError, match=r"(?i)rows.*no longer finite.*step_size = 60.*such as 6\."):
        last_state(solver, learnable["regression"], here)


@MODE
def test_loss_of_another_task_is_refused(mode: Mode, learnable: dict[Task, Dataset], here: Execution) -> None:
    with pytest.raises(ConfigError, match=r"'multiclass-hinge' is for multiclass tasks, but 'y' makes this a binary"):
        online("multiclass-hinge", mode).start(learnable["binary"], here)


@pytest.mark.parametrize("mode", ["mix", "sum"])
def test_shards_learn_in_the_map_that_leads_after_all_of_the_sample(mode: Mode, learnable: dict[Task, Dataset]) -> None:
    data, loss = learnable["binary"], make_loss("hinge")
    sample = all_rows(data)
    context = BuildContext(data.schema, sample, len(sample.targets), len(data.split("train")), mode, 3, "float32")
    built = ExpertFactory(loss, n_frequencies=16).build(context)
    keep_all = Round(None, 100, 100)
    experts = ExpertLearner(draw_candidates(sample.inputs, 16, 3), loss, rounds=(keep_all,))
    learnt = experts.learn(experts.start(), sample)
    assert learnt.n_maps > 6  # no candidate was removed
    feature_map, _, _ = experts.leader(learnt)
    assert isinstance(built.learner, LinearLearner)
    learned_map = built.learner.feature_map
    assert type(learned_map) is type(feature_map)
    assert all(np.array_equal(learned_map.arrays()[name], array) for name, array in feature_map.arrays().items())
