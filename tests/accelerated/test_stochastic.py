"""A stochastic start: feasible, no worse than the own start, and of no consequence for the solution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from okl.accelerated.blocksteps import objective
from okl.accelerated.catalogue import MODEL_NAMES, make_model, parameter_of
from okl.accelerated.fapg import Fapg
from okl.accelerated.fitting import Fitted, fit_one
from okl.accelerated.operators import DenseRows, KernelMatrix, SparseRows
from okl.accelerated.protocol import Problem
from okl.accelerated.stochastic import StochasticStart
from okl.errors import ConfigError
from okl.estimators.unified import UnifiedClassifier
from okl.kernels import Linear
from okl.types import FloatArray

N_ROWS, TOLERANCE = 1200, 1e-5
START = StochasticStart(rounds=3, steps=6, block_rows=150, seed=5)


def drawn() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Overlapping classes of unequal size and spread; a third of the inputs 0."""
    random = np.random.default_rng(0)
    labels = np.where(random.random(N_ROWS) < 0.4, 1.0, -1.0)
    inputs = random.normal(size=(N_ROWS, 7)) * (1.0 + 0.5 * (labels > 0)[:, np.newaxis]) + 0.4 * labels[:, np.newaxis]
    inputs[random.random(inputs.shape) < 1.0 / 3.0] = 0.0
    assert 0.3 < np.mean(labels > 0) < 0.5
    return inputs, labels


INPUTS, LABELS = drawn()
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, N_ROWS)


def model_of(name: str, fit_intercept: bool = True) -> Any:
    value = {"C": 0.1, "nu": 0.6 if fit_intercept else 0.9, "kappa": 0.2}[parameter_of(name)]
    return make_model(name, **{parameter_of(name): value}, fit_intercept=fit_intercept)


def value_at(problem: Problem, point: FloatArray) -> float:
    image = np.empty(problem.n_image)
    problem.image(image, point)
    return objective(problem, point, image)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_a_start_is_feasible_and_lower_than_the_own_one(name: str, fit_intercept: bool) -> None:
    rows = DenseRows(INPUTS, LABELS)
    problem = model_of(name, fit_intercept).problem(rows, WEIGHTS)
    point = START.point(problem, rows, WEIGHTS)
    brought = np.empty_like(point)
    problem.prox(brought, point, 1e9 * problem.first_lipschitz)
    np.testing.assert_allclose(brought, point, atol=1e-7 * (1.0 + np.abs(point).max()))
    assert value_at(problem, point) <= value_at(problem, problem.start())
    if name != "dwd":  # whose own start solves it where the classes' means are far from 0
        assert value_at(problem, point) < value_at(problem, problem.start())


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_a_start_leads_to_the_same_optimum_with_the_same_bits_for_any_threads(name: str) -> None:
    def found(n_threads: int, start: StochasticStart | None) -> Fitted:
        rows = DenseRows(INPUTS.astype(np.float32), LABELS, n_threads)
        return fit_one(model_of(name), rows, Fapg(tolerance=TOLERANCE), WEIGHTS, start)

    own, one, two = found(1, None), found(1, START), found(2, START)
    assert one.weights.tobytes() == two.weights.tobytes()
    assert one.certificate.relative_gap <= TOLERANCE
    assert one.certificate.primal == pytest.approx(own.certificate.primal, rel=2 * TOLERANCE)
    assert one.certificate.dual <= own.certificate.primal + own.certificate.rounding
    assert own.certificate.dual <= one.certificate.primal + one.certificate.rounding


@pytest.mark.parametrize("name", ["c-svm", "nu-svm", "l1-logistic"])
def test_sparse_rows_start_where_dense_ones_do(name: str) -> None:
    dense, thin = DenseRows(INPUTS, LABELS), SparseRows(sparse.csr_array(INPUTS), LABELS)
    points = [START.point(model_of(name).problem(rows)) for rows in (dense, thin)]
    np.testing.assert_allclose(points[1], points[0], rtol=1e-6, atol=1e-9)


def test_a_visit_takes_every_row_once_in_another_order_each_round() -> None:
    blocks = [START.blocks(N_ROWS, number) for number in (0, 1)]
    for found in blocks:
        assert sorted(np.concatenate(found)) == list(range(N_ROWS))
        assert all((np.diff(block) > 0).all() for block in found)
    assert not np.array_equal(blocks[0][0], blocks[1][0])
    sizes = [len(START.sample(10_000, number)) for number in range(3)]
    assert sizes == [156, 625, 2500]


def test_a_kernel_and_numbers_out_of_range_are_refused() -> None:
    matrix = KernelMatrix(Linear(), INPUTS, LABELS)
    with pytest.raises(ConfigError, match="takes explicit rows, but KernelMatrix came"):
        START.point(model_of("c-svm").problem(matrix))
    with pytest.raises(ConfigError, match="rounds"):
        StochasticStart(rounds=0)
    with pytest.raises(ConfigError, match="takes explicit columns"):
        UnifiedClassifier(kernel="gaussian", start="stochastic").fit(INPUTS, LABELS)


@pytest.mark.parametrize("model", ["nu-svm", "mm-mpm"])
def test_an_estimator_with_a_stochastic_start_is_the_same_classifier(model: str) -> None:
    fits = [
        UnifiedClassifier(model=model, start=start, random_state=0).fit(INPUTS, LABELS)
        for start in ("own", "stochastic")
    ]
    assert fits[1].objective_ == pytest.approx(fits[0].objective_, rel=2e-6)
    np.testing.assert_allclose(fits[1].coef_, fits[0].coef_, atol=2e-3 * np.abs(fits[0].coef_).max())
