from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.data.execution import Rows
from okl.features.fourier import draw_map
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian
from okl.losses import make_loss
from okl.solvers.online.maps import FourierChoice
from okl.solvers.subgradient.pegasos import Pegasos, PegasosFactory, PegasosLearner, PegasosState
from tests.solvers.subgradient.exact import hinge_optimum

ROWS, COLUMNS, LAM = 400, 6, 0.01


def rows_of(n_outputs: int = 1) -> Rows:
    rng = np.random.default_rng(4)
    inputs = rng.standard_normal((ROWS, COLUMNS))
    signal = inputs[:, 0] - inputs[:, 1] + 0.5 * rng.standard_normal(ROWS)
    targets = np.where(signal > 0, 1.0, -1.0) if n_outputs == 1 else np.digitize(signal, [-1.0, 1.0]).astype(float)
    return Rows(inputs, targets)


def learner_of(n_outputs: int = 1, **parameters: Any) -> PegasosLearner:
    feature_map = draw_map("independent", Gaussian(2.0), COLUMNS, 40, 1, "float64")
    loss = make_loss("hinge" if n_outputs == 1 else "multiclass-hinge")
    return PegasosLearner(feature_map, Pegasos(LAM, **parameters), loss, n_outputs)


@cache
def least_objective() -> float:
    rows = rows_of()
    return float(hinge_optimum(LAM, rows.inputs, rows.targets).objective)


def objective(weights: NDArray[np.float64], rows: FloatArray, targets: NDArray[np.float64]) -> float:
    return float(0.5 * LAM * (weights**2).sum() + np.maximum(0.0, 1.0 - targets * (rows @ weights[0])).mean())


@pytest.mark.parametrize(
    "parameters", [{}, {"project": True}, {"batch": 16}, {"average": "uniform"}, {"in_turn": True}]
)
def test_many_steps_approach_the_optimum_from_above(parameters: dict[str, Any]) -> None:
    rows = rows_of()
    best = least_objective()
    states = list(islice(Pegasos(LAM, **parameters).run_rows(rows.inputs, rows.targets), 40))
    values = [objective(state.averaged(LAM), rows.inputs, rows.targets) for state in states]
    assert best * (1 - 1e-7) <= min(values)
    assert values[-1] < best + 0.01
    assert values[-1] < values[0]


def test_kernel_steps_are_those_on_a_factor_of_the_matrix() -> None:
    rows = rows_of()
    matrix = Gaussian(2.0).matrix(rows.inputs, rows.inputs)
    factor = np.linalg.cholesky(matrix + 1e-11 * np.eye(ROWS))
    method = Pegasos(LAM, project=True)
    with_kernel, explicit = method.run_kernel(matrix, rows.targets), method.run_rows(factor, rows.targets)
    for kernel_state, explicit_state in islice(zip(with_kernel, explicit, strict=True), 12):
        assert kernel_state.progress == explicit_state.progress
        np.testing.assert_allclose(
            factor.T @ method.weights(kernel_state)[0], method.weights(explicit_state)[0], atol=1e-6
        )


def test_draws_are_the_same_however_they_are_cut() -> None:
    method = Pegasos(LAM, seed=9)
    whole = method.picks(0, 1000, ROWS)
    np.testing.assert_array_equal(np.concatenate([method.picks(0, 300, ROWS), method.picks(300, 700, ROWS)]), whole)
    assert len(np.unique(whole)) > 0.8 * ROWS
    assert (whole != Pegasos(LAM, seed=8).picks(0, 1000, ROWS)).any()
    cyclic = Pegasos(LAM, in_turn=True)
    np.testing.assert_array_equal(cyclic.picks(ROWS - 2, 4, ROWS), [ROWS - 2, ROWS - 1, 0, 1])


def test_states_are_one_stretch_apart() -> None:
    rows = rows_of()
    states = Pegasos(LAM).run_kernel(Gaussian(2.0).matrix(rows.inputs, rows.inputs), rows.targets, stretch=50)
    assert [state.progress.rows for state in islice(states, 5)] == [50, 100, 150, 200, 250]


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_learner_leaves_its_state_unchanged_and_blocks_of_256_change_no_bit(n_outputs: int) -> None:
    learner, rows = learner_of(n_outputs, batch=8), rows_of(n_outputs)
    start = learner.start()
    whole = learner.learn(start, rows)
    assert not start.points.any()
    assert start.progress.rows == 0
    part = learner.learn(start, Rows(rows.inputs[:256], rows.targets[:256]), n_threads=2)
    part = learner.learn(part, Rows(rows.inputs[256:], rows.targets[256:]))
    assert bits(part) == bits(whole)
    assert whole.progress.rows == ROWS
    assert 0 < whole.progress.error < whole.progress.baseline_error


def test_joined_states_are_averaged_by_rows() -> None:
    learner, rows = learner_of(), rows_of()
    base = learner.learn(learner.start(), Rows(rows.inputs[:100], rows.targets[:100]))
    cuts = (slice(100, 200), slice(200, 400))
    parts = [learner.learn(learner.shard_start(base), Rows(rows.inputs[cut], rows.targets[cut])) for cut in cuts]
    joined = learner.average_shards(base, parts)
    expected = parts[0].last(LAM) / 3 + 2 * parts[1].last(LAM) / 3
    np.testing.assert_allclose(joined.last(LAM), expected, rtol=1e-12)
    assert joined.progress.rows == ROWS
    counted = [state.numbers[3] for state in (base, *parts)]
    sums = [state.averaged(LAM) * count for state, count in zip((base, *parts), counted, strict=True)]
    np.testing.assert_allclose(joined.averaged(LAM), np.sum(sums, axis=0) / np.sum(counted), rtol=1e-9)
    further = learner.learn(joined, rows)
    assert np.isfinite(further.averaged(LAM)).all()
    assert learner.average_shards(base, []) is base


def test_a_batch_that_blocks_would_cut_and_another_loss_are_refused() -> None:
    with pytest.raises(ConfigError, match="batch = 3"):
        learner_of(batch=3)
    with pytest.raises(ConfigError, match="logistic"):
        PegasosFactory(FourierChoice(), make_loss("logistic"))
    with pytest.raises(ConfigError, match=r"pegasos is for classes, but .* makes this a regression\. Use --solver scs"):
        PegasosFactory(FourierChoice(), make_loss("thresholded-half-squared"))
    with pytest.raises(ConfigError, match="lam"):
        PegasosFactory(FourierChoice(), make_loss("hinge"), lam=0.0)
    with pytest.raises(ConfigError, match="average"):
        Pegasos(LAM, average="some")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="-1 and \\+1"):
        learner_of().learn(learner_of().start(), Rows(np.zeros((2, COLUMNS)), np.array([0.0, 1.0])))


def bits(state: PegasosState) -> tuple[Any, ...]:
    return state.points.tobytes(), state.behind.tobytes(), state.numbers.tobytes(), state.progress
