from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution, Rows
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.types import FloatArray, Mode, Precision, Task
from okl.kernels import CustomKernel, Gaussian, Kernel, Laplacian, Linear
from okl.losses import Hinge, Logistic, Loss, make_loss
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.nystrom import NOGDFactory, NOGDLearner, NOGDState
from okl.solvers.online.solver import OnlineSolver
from tests.naive.sgd import NaiveNOGD
from tests.solver_cases import LOSSES, MODES, last_state
from tests.solvers.online.cases import EVERY_LOSS, LOSS, part
from tests.solvers.online.nogd_cases import BUDGET, KERNELS, N_INPUTS, ROWS, make_learner, make_rows


def twin_of(learner: NOGDLearner) -> NaiveNOGD:
    return NaiveNOGD(learner.kernel, learner.loss, learner.step_size, learner.budget, learner.rank, learner.n_outputs)


def bits(state: NOGDState) -> tuple[object, ...]:
    mapped = state.feature_map
    return (
        state.supports.inputs.tobytes(),
        state.supports.coefficients.tobytes(),
        None if mapped is None else (mapped.landmarks.tobytes(), mapped.projection.tobytes()),
        None if state.weights is None else (state.weights.last.tobytes(), state.weights.summed.tobytes()),
        state.progress,
    )


def assert_equals_twin(learner: NOGDLearner, rows: Rows, state: NOGDState) -> None:
    twin = twin_of(learner).learn(rows)
    probe = make_rows(learner.loss, rows=50, seed=1).inputs
    expected = np.array([twin.score(x) for x in probe])
    scores = learner.predictor(state).scores(probe).reshape(len(probe), -1)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10)
    assert (state.progress.rows, state.progress.updates) == (len(rows.targets), sum(twin.updated))
    if learner.task == "binary":
        mistakes = np.sum((np.array(twin.scores)[:, 0] >= 0) != (rows.targets > 0))
        assert state.progress.mistakes == mistakes
    elif learner.task == "multiclass":
        assert state.progress.mistakes == np.sum(np.argmax(twin.scores, axis=1) != rows.targets)
    else:
        squares = np.sum((np.array(twin.scores)[:, 0] - rows.targets) ** 2)
        np.testing.assert_allclose(state.progress.squared_error, squares, rtol=1e-10)
    np.testing.assert_array_equal(state.supports.inputs, np.array(twin.supports))


@pytest.mark.parametrize(
    ("loss", "kernel"),
    [*((loss, KERNELS[0]) for loss in EVERY_LOSS), *zip(cycle(EVERY_LOSS), KERNELS[1:], strict=False)],
    ids=lambda one: one.name,
)
def test_learning_matches_naive_row_by_row(loss: Loss, kernel: Kernel) -> None:
    learner, rows = make_learner(loss, kernel), make_rows(loss, rows=600)
    if isinstance(kernel, Linear):
        learner = replace(learner, rank=N_INPUTS - 1, step_size=0.02)
    state = learner.learn(learner.start(), rows, 2)
    assert state.feature_map is not None
    assert state.feature_map.n_columns == learner.rank
    assert state.filled.rows < len(rows.targets) - 256
    assert state.progress.error < state.progress.baseline_error
    assert_equals_twin(learner, rows, state)


@LOSS
def test_duplicates_and_ties_match_naive(loss: Loss) -> None:
    learner = replace(make_learner(loss), rank=10)
    rows = make_rows(loss, rows=400)
    again = np.random.default_rng(3).integers(0, 40, 400)
    repeated = Rows(np.round(rows.inputs[again], 1), rows.targets[again])
    state = learner.learn(learner.start(), repeated)
    assert len(np.unique(state.supports.inputs, axis=0)) < BUDGET
    assert_equals_twin(learner, repeated, state)


def test_kernel_values_of_zero_match_naive() -> None:
    # rank 1 is that of the repeated row: the other eigenvalues are 1, and rounding decides their order
    learner, rows = replace(make_learner(Hinge(), Gaussian(0.01)), rank=1), make_rows(Hinge(), rows=300)
    rows.inputs[::3] = rows.inputs[0]
    state = learner.learn(learner.start(), rows)
    assert state.filled.rows < 100
    assert_equals_twin(learner, rows, state)


@LOSS
def test_before_the_budget_is_full_scores_match_naive(loss: Loss) -> None:
    learner = replace(make_learner(loss), budget=2000)
    rows = make_rows(loss, rows=400)
    state = learner.learn(learner.start(), rows)
    assert state.feature_map is None
    assert len(state.supports.inputs) > 100
    assert_equals_twin(learner, rows, state)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@LOSS
def test_splits_and_threads_give_the_same_bits(loss: Loss, precision: Precision) -> None:
    learner = replace(make_learner(loss, precision=precision), average=True, budget=300)
    rows = make_rows(loss, precision)
    whole = learner.learn(learner.start(), rows, 1)
    assert whole.weights is not None
    assert whole.weights.n_sampled > 0
    assert 256 < whole.filled.rows < ROWS - 300
    for n_threads in (1, 3):
        state = learner.learn(learner.start(), part(rows, 0, 0), n_threads)
        for first, last in [(0, 256), (256, 512), (512, 1024), (1024, ROWS)]:
            state = learner.learn(state, part(rows, first, last), n_threads)
        assert bits(state) == bits(whole)
    assert whole.weights.last.dtype == precision


@pytest.mark.parametrize("rows", [0, 100, 1000])
def test_learn_leaves_its_inputs_unchanged(rows: int) -> None:
    learner, all_rows = make_learner(Hinge()), make_rows(Hinge())
    state = learner.learn(learner.start(), part(all_rows, 0, rows))
    before = bits(state), all_rows.inputs.tobytes()
    learner.learn(state, all_rows)
    assert (bits(state), all_rows.inputs.tobytes()) == before
    assert bits(pickle.loads(pickle.dumps(state))) == bits(state)


def test_scores_are_continuous_at_the_change_to_the_map_with_full_rank() -> None:
    learner = replace(make_learner(Hinge(), Laplacian(1.0)), rank=BUDGET)
    rows = make_rows(Hinge())
    full = learner.learn(learner.start(), rows)
    filled = full.filled.rows
    before = learner.learn(learner.start(), part(rows, 0, filled))
    after = learner.learn(before, part(rows, filled, filled + 1))
    assert before.feature_map is None
    assert after.feature_map is not None
    assert after.weights is not None
    switched = replace(after, weights=replace(after.weights, last=after.weights.last))
    probe = make_rows(Hinge(), seed=2).inputs
    step = learner.step_size * Laplacian(1.0).matrix(probe, rows.inputs[filled : filled + 1])[:, 0]
    moved = learner.predictor(switched).scores(probe) - learner.predictor(before).scores(probe)
    # the row itself was learnt in the new space: one step along its projected kernel function
    assert 0.2 * np.abs(step).max() < np.abs(moved).max() < 1.001 * np.abs(step).max()


def test_the_initial_state_predicts_zero() -> None:
    for loss in EVERY_LOSS:
        learner = make_learner(loss)
        assert not learner.predictor(learner.start()).scores(make_rows(loss).inputs[:5]).any()


def test_rounding_of_eigenvectors_decides_no_score() -> None:
    """A row near an unused support gets the score of the remaining landmarks, not one from rounding noise."""
    rng = np.random.default_rng(4)
    centres = 3.0 * rng.standard_normal((15, N_INPUTS))
    inputs = np.concatenate([np.repeat(centres[:5], 6, axis=0), centres[5:]])
    inputs += 0.01 * rng.standard_normal(inputs.shape)
    rows = Rows(inputs, np.where(np.arange(40) % 2 == 0, 1.0, -1.0))
    learner = replace(make_learner(Logistic(), Gaussian(0.2)), rank=5)
    more = Rows(centres[:1], np.ones(1))
    state = learner.learn(learner.learn(learner.start(), rows), more)
    assert state.feature_map is not None
    far = learner.kernel.matrix(centres[5:], centres[:5])
    assert far.max() < 1e-20
    scores = learner.predictor(state).scores(inputs)
    assert np.abs(scores[:30]).max() > 0.01
    assert np.abs(scores[30:]).max() < 1e-19


def test_shards_are_averaged_in_an_existing_map() -> None:
    learner, rows = make_learner(Hinge()), make_rows(Hinge())
    base = learner.learn(learner.start(), part(rows, 0, 512))
    parts = [learner.learn(learner.shard_start(base), part(rows, *span)) for span in [(512, 800), (800, 1500)]]
    joined = learner.average_shards(base, parts)
    assert joined.weights is not None
    linear = learner.linear(base.feature_map) if base.feature_map else None
    assert linear is not None
    assert base.weights is not None
    expected = linear.average_shards(base.weights, [part.weights for part in parts if part.weights])
    np.testing.assert_array_equal(joined.weights.last, expected.last)
    assert joined.progress.rows == ROWS
    assert joined.progress.error < joined.progress.baseline_error


def test_shards_cannot_be_averaged_before_there_is_a_map() -> None:
    learner = make_learner(Hinge())
    few = learner.learn(learner.start(), make_rows(Hinge(), rows=20))
    with pytest.raises(ConfigError, match="no map yet"):
        learner.shard_start(few)
    with pytest.raises(ConfigError, match="no map yet"):
        learner.average_shards(few, [few])


def cosine(left: FloatArray, right: FloatArray) -> FloatArray:
    values: FloatArray = np.cos(left[:, None, :] - right[None, :, :]).mean(axis=2)
    return values


@pytest.mark.parametrize(
    ("loss", "mode"),
    [
        *(("hinge", mode) for mode in MODES),
        ("logistic", "sum"),
        *(("multiclass-hinge", mode) for mode in ("stream", "mix")),
        *(("thresholded-half-squared", mode) for mode in ("stream", "sum")),
    ],
)
def test_every_mode_beats_the_baseline(loss: str, mode: Mode, learnable: dict[Task, Dataset], here: Execution) -> None:
    data = learnable[LOSSES[loss]]
    rank = 15 if loss == "multiclass-hinge" else 20
    solver = OnlineSolver(NOGDFactory(make_loss(loss), budget=60, rank=rank), 2, rounds=20, mode=mode)
    state = last_state(solver, data, here)
    progress, chosen = solver.progress(state), solver.chosen(state)
    assert progress.done_rows == 2 * data.rows("train")
    assert progress.error < progress.baseline_error
    assert isinstance(state.learner, NOGDLearner if mode == "stream" else LinearLearner)
    assert (chosen["landmarks"], chosen["rank"]) == (60, rank)
    assert chosen["step_size"] == state.learner.step_size
    assert {"bandwidth_reason", "rank_reason", "step_size_reason"} < set(chosen)
    assert ("landmarks_reason" in chosen) == (mode != "stream")


def test_a_custom_kernel_is_trained_with_the_given_settings(learnable: dict[Task, Dataset], here: Execution) -> None:
    factory = NOGDFactory(make_loss("hinge"), CustomKernel("cosine", cosine), budget=30, rank=6, step_size=0.5)
    state = last_state(OnlineSolver(factory), learnable["binary"], here)
    assert state.learner.step_size == 0.5
    assert state.chosen["step_size_reason"] == "as given"
    assert state.learned.feature_map.n_columns == 6


def test_a_sample_smaller_than_the_budget_gives_fewer_landmarks(
    learnable: dict[Task, Dataset], here: Execution
) -> None:
    data = learnable["binary"]
    factory = NOGDFactory(make_loss("hinge"), budget=data.rows("train"), rank=25, step_size=1.0)
    state = OnlineSolver(factory, mode="mix").start(data, here)
    assert 25 <= state.chosen["landmarks"] < data.rows("train")
    assert state.chosen["rank"] == 25


def test_data_on_which_every_step_size_diverges_raise(learnable: dict[Task, Dataset], here: Execution) -> None:
    factory = NOGDFactory(make_loss("thresholded-half-squared"), "polynomial", 0.01, budget=40)
    with pytest.raises(DivergedError, match="Every step size down to"):
        OnlineSolver(factory).start(learnable["regression"], here)


def test_settings_that_do_not_fit_the_data_are_refused(learnable: dict[Task, Dataset], here: Execution) -> None:
    data = learnable["binary"]
    for factory, message in [
        (NOGDFactory(make_loss("hinge"), budget=100_000), "training rows to take support vectors from"),
        (NOGDFactory(make_loss("hinge"), budget=10, rank=20), "rank = 20 is more than the 10 landmarks"),
        (NOGDFactory(make_loss("multiclass-hinge")), "makes this a binary task"),
    ]:
        with pytest.raises(ConfigError, match=message):
            OnlineSolver(factory).start(data, here)
    insensitive = NOGDFactory(make_loss("thresholded-half-squared", 1e9))
    with pytest.raises(ConfigError, match="finds no landmarks"):
        OnlineSolver(insensitive, mode="mix").start(learnable["regression"], here)
