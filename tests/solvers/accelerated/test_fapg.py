"""Shrinking: the optimum, its certificate and its bits do not depend on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from okl.solvers.accelerated.base import ActiveRows, CompositeProblem
from okl.solvers.accelerated.fapg import Fapg, FapgState, solve
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.svm import CSVM, L2SVM
from okl.solvers.accelerated.operators import DenseRows
from tests.solvers.accelerated.model_cases import two_classes

# Shrinking: the optimum, its certificate and its bits do not depend on it.

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
def test_shrinking_changes_neither_optimum_nor_certificate(name: str) -> None:
    problem, method = MODELS[name].problem(ROWS), Fapg(tolerance=1e-9)
    states, (whole, _) = states_of(problem, method), solve(problem, replace(method, shrinking=False))
    parts = [len(state.active) for state in states if state.active is not None]
    assert len(parts) > 1
    assert min(parts) < 0.5 * ROWS.n_points
    found, wanted = states[-1].best_record.certificate, whole.best_record.certificate
    assert found.relative_gap <= 1e-9
    # without shrinking it may not finish, but its gap still contains the optimum
    allowed = 1e-9 * abs(found.primal)
    assert wanted.dual - allowed <= found.primal <= wanted.primal + allowed
    for state in states:
        image, pulled = np.empty(problem.n_image), np.empty(problem.n_points)
        problem.apply(image, state.current.point)
        problem.adjoint(pulled, image)
        np.testing.assert_allclose(state.current.image, image, rtol=1e-11, atol=1e-13)
        exact, record = problem.certificate(state.current.point, image, pulled), state.history[-1]
        assert exact.primal == pytest.approx(record.certificate.primal, rel=1e-11)
        assert exact.dual <= record.certificate.dual + 1e-13 * abs(exact.dual)
        assert record.objective == pytest.approx(-exact.dual, rel=1e-12)


def test_bits_do_not_depend_on_threads_with_inactive_rows() -> None:
    rows = two_classes(5, n_rows=1200, n_columns=6, distance=6.0)
    states = [
        states_of(NuSVM(0.6).problem(DenseRows(rows.rows, rows.labels, n_threads)), Fapg(tolerance=1e-7))
        for n_threads in (1, 2, 3)
    ]
    assert any(state.active is not None for state in states[0])
    for other in states[1:]:
        np.testing.assert_array_equal(other[-1].current.point, states[0][-1].current.point)
        np.testing.assert_array_equal(other[-1].current.image, states[0][-1].current.image)


@pytest.mark.parametrize("name", MODELS)
def test_slopes_are_gradients_less_a_multiplier_of_each_class(name: str) -> None:
    problem, method = MODELS[name].problem(ROWS), Fapg(tolerance=1e-6)
    state = states_of(problem, method)[-1]
    progress, point = state.standing, state.current.point
    assert progress is not None
    pulled = np.empty(problem.n_points)
    problem.adjoint(pulled, state.current.image)
    problem.gradient(pulled, point, state.current.image, pulled)
    for sign in (-1.0, 1.0):
        multipliers = (pulled - progress.slopes)[ROWS.signs == sign]
        assert np.ptp(multipliers) <= 1e-8 * (1.0 + np.abs(pulled).max())
    firm = progress.firm > 0.0
    assert 10 < firm.sum() < ROWS.n_points
    assert (np.abs(progress.slopes[firm]) == progress.firm[firm]).all()
    assert np.isin(point[firm], [0.0, point.max()]).all()


def test_active_rows_have_a_slack_that_is_small_relative_to_its_change() -> None:
    slopes, firm = np.zeros(100), np.full(100, 10.0)
    firm[:20] = 0.0
    slopes[50] = 6.0
    before = ActiveRows(slopes, firm)
    assert before.active_since(None) is None
    active = ActiveRows(np.zeros(100), firm).active_since(before)
    assert active is not None
    np.testing.assert_array_equal(active, [*range(20), 50])
    assert ActiveRows(np.zeros(100), np.zeros(100)).active_since(before) is None


def test_shrinking_is_not_used_by_the_proven_method_and_barriers() -> None:
    proven = states_of(CSVM(0.7).problem(ROWS), Fapg(method="proven", tolerance=1e-4))
    barrier = states_of(LogisticRegression(0.7).problem(ROWS), Fapg(tolerance=1e-4))
    assert all(state.active is None and state.standing is None for state in proven + barrier)


def test_few_steps_need_a_second_read_after_a_rejected_estimate() -> None:
    problem = CSVM(1.0).problem(two_classes(2, n_rows=300, n_columns=30))
    state, outcome = solve(problem, Fapg(tolerance=1e-4, shrinking=False))
    assert outcome.converged
    assert 1.0 < state.reads / (state.pace.iteration - 1) < 1.25
