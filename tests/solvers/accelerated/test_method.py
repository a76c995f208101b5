"""Laws of rows that rest: nothing about the optimum, its proof or its bits depends on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from okl.estimators.accelerated import UnifiedClassifier
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.kernels import Linear
from okl.solvers.accelerated.base import CompositeProblem
from okl.solvers.accelerated.catalogue import MODEL_NAMES, make_model, parameter_of
from okl.solvers.accelerated.dual import ActiveRows, objective, rows_awake
from okl.solvers.accelerated.fitting import Fitted, fit_one
from okl.solvers.accelerated.method import Fapg, FapgState, StochasticStart, solve
from okl.solvers.accelerated.models.csvm import CSVM
from okl.solvers.accelerated.models.l2svm import L2SVM
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.operators import DenseRows, KernelMatrix, SparseRows
from tests.solvers.accelerated.model_cases import two_classes

# Laws of rows that rest: nothing about the optimum, its proof or its bits depends on them.

MODELS = {
    "c-svm": CSVM(0.7),
    "c-svm without bias": CSVM(0.7, fit_intercept=False),
    "l2-svm": L2SVM(0.4),
    "nu-svm": NuSVM(0.6),
    "nu-svm without bias": NuSVM(0.6, fit_intercept=False),
}
ROWS = two_classes(3, n_rows=400, n_columns=6, distance=6.0)


def states_of(problem: CompositeProblem, method: Fapg) -> list[FapgState]:
    states = [method.start(problem)]
    while method.finished(states[-1]) is None:
        states.append(method.advance(states[-1], problem))
    return states


@pytest.mark.parametrize("name", MODELS)
def test_resting_rows_change_neither_optimum_nor_proof(name: str) -> None:
    problem, method = MODELS[name].problem(ROWS), Fapg(tolerance=1e-9)
    states, (whole, _) = states_of(problem, method), solve(problem, replace(method, resting=False))
    parts = [len(state.awake) for state in states if state.awake is not None]
    assert len(parts) > 1
    assert min(parts) < 0.5 * ROWS.n_points
    found, wanted = states[-1].best_record.certificate, whole.best_record.certificate
    assert found.relative_gap <= 1e-9
    # without rest it may take too long: its gap holds the optimum all the same
    allowed = 1e-9 * abs(found.primal)
    assert wanted.dual - allowed <= found.primal <= wanted.primal + allowed
    for state in states:
        image, pulled = np.empty(problem.n_image), np.empty(problem.n_points)
        problem.image(image, state.current.point)
        problem.pull(pulled, image)
        np.testing.assert_allclose(state.current.image, image, rtol=1e-11, atol=1e-13)
        exact, record = problem.certificate(state.current.point, image, pulled), state.history[-1]
        assert exact.primal == pytest.approx(record.certificate.primal, rel=1e-11)
        assert exact.dual <= record.certificate.dual + 1e-13 * abs(exact.dual)
        assert record.objective == pytest.approx(-exact.dual, rel=1e-12)


def test_bits_do_not_depend_on_threads_where_rows_rest() -> None:
    rows = two_classes(5, n_rows=1200, n_columns=6, distance=6.0)
    states = [
        states_of(NuSVM(0.6).problem(DenseRows(rows.rows, rows.labels, n_threads)), Fapg(tolerance=1e-7))
        for n_threads in (1, 2, 3)
    ]
    assert any(state.awake is not None for state in states[0])
    for other in states[1:]:
        np.testing.assert_array_equal(other[-1].current.point, states[0][-1].current.point)
        np.testing.assert_array_equal(other[-1].current.image, states[0][-1].current.image)


@pytest.mark.parametrize("name", MODELS)
def test_slopes_are_gradients_less_a_multiplier_of_each_class(name: str) -> None:
    problem, method = MODELS[name].problem(ROWS), Fapg(tolerance=1e-6)
    state = states_of(problem, method)[-1]
    standing, point = state.standing, state.current.point
    assert standing is not None
    pulled = np.empty(problem.n_points)
    problem.pull(pulled, state.current.image)
    problem.gradient(pulled, point, state.current.image, pulled)
    for sign in (-1.0, 1.0):
        multipliers = (pulled - standing.slopes)[ROWS.signs == sign]
        assert np.ptp(multipliers) <= 1e-8 * (1.0 + np.abs(pulled).max())
    firm = standing.firm > 0.0
    assert 10 < firm.sum() < ROWS.n_points
    assert (np.abs(standing.slopes[firm]) == standing.firm[firm]).all()
    assert np.isin(point[firm], [0.0, point.max()]).all()


def test_rows_awake_are_those_whose_slack_is_small_beside_its_change() -> None:
    slopes, firm = np.zeros(100), np.full(100, 10.0)
    firm[:20] = 0.0
    slopes[50] = 6.0
    before = ActiveRows(slopes, firm)
    assert rows_awake(before, None) is None
    assert rows_awake(None, before) is None
    awake = rows_awake(ActiveRows(np.zeros(100), firm), before)
    assert awake is not None
    np.testing.assert_array_equal(awake, [*range(20), 50])
    assert rows_awake(ActiveRows(np.zeros(100), np.zeros(100)), before) is None


def test_neither_the_proven_method_nor_barriers_let_rows_rest() -> None:
    proven = states_of(CSVM(0.7).problem(ROWS), Fapg(method="proven", tolerance=1e-4))
    barrier = states_of(LogisticRegression(0.7).problem(ROWS), Fapg(tolerance=1e-4))
    assert all(state.awake is None and state.standing is None for state in proven + barrier)


# A stochastic start: feasible, no worse than the own start, and of no consequence for the solution.

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


def value_at(problem: CompositeProblem, point: FloatArray) -> float:
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
