from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC, NuSVC

from okl.foundation.errors import DataError
from okl.foundation.types import IntArray
from okl.kernels import Gaussian, Polynomial
from okl.solvers.accelerated import operators, working_sets
from okl.solvers.accelerated.choice import solve
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.svm import CSVM, L2SVM
from okl.solvers.accelerated.working_sets import WorkingSets
from tests.solvers.accelerated.model_cases import Doubles, kernel_matrix, two_classes

KERNEL = Gaussian(1.5)
MODELS: list[Any] = [
    CSVM(0.7),
    CSVM(100.0),
    CSVM(2.0, fit_intercept=False),
    L2SVM(0.4),
    L2SVM(20.0, fit_intercept=False),
    NuSVM(0.4),
    NuSVM(0.5, fit_intercept=False),
]


def image_of(problem: Any, point: Doubles) -> Doubles:
    image = np.empty(problem.n_image)
    problem.apply(image, point)
    return image


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_working_sets_and_fapg_reach_the_same_optimum(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_sets, "_SIZE", 12)  # many rounds
    monkeypatch.setattr(working_sets, "_MOST", 40)
    rows = two_classes(1, n_rows=150)
    weights = np.random.default_rng(0).integers(1, 4, 150).astype(np.float64)
    problem = model.problem(kernel_matrix(KERNEL, rows.rows, rows.labels), weights)
    expected = solve(problem, Fapg(tolerance=1e-6))[0].best_record.certificate
    state, outcome, _ = solve(problem, WorkingSets(1e-9))
    found, point = state.best_record.certificate, state.best.point
    assert outcome.kind == "done"
    assert found.primal == pytest.approx(expected.primal, abs=expected.gap + found.gap)
    # the certificate is that of the problem, and the point is feasible
    image = image_of(problem, point)
    again = problem.certificate(point, image, image)
    assert again.primal == pytest.approx(found.primal, rel=1e-9)
    assert again.gap <= found.gap + 1e-10 * abs(found.primal)
    nearest = np.empty_like(point)
    problem.region.prox(nearest, point, 1.0)
    np.testing.assert_allclose(point, nearest, atol=1e-12 * point.max())
    assert state.history[-1].iteration > 3


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_optimum_is_that_of_libsvm(C: float) -> None:
    rows = two_classes(3, n_rows=400, n_columns=3)
    scale = KERNEL.rule.scale
    problem = CSVM(C).problem(kernel_matrix(KERNEL, rows.rows, rows.labels))
    state, outcome, method = solve(problem, WorkingSets(1e-6))
    solution = method.solution(state, problem)
    peer = SVC(C=C, gamma=scale, tol=1e-6).fit(rows.rows, rows.labels)
    point = np.zeros(400)
    point[peer.support_] = np.abs(peer.dual_coef_[0])
    assert outcome.kind == "done"
    assert -problem.smooth(point, image_of(problem, point)) == pytest.approx(solution.certificate.dual, rel=1e-6)
    scores = problem.rows.scores(solution.weights) - solution.bias  # type: ignore[attr-defined]
    np.testing.assert_allclose(scores, peer.decision_function(rows.rows), atol=0.05)
    nu = NuSVM(0.4).problem(kernel_matrix(KERNEL, rows.rows, rows.labels))
    certificate = solve(nu, WorkingSets(1e-6))[0].best_record.certificate
    peer_dual = np.zeros(400)
    fitted = NuSVC(nu=0.4, gamma=scale, tol=1e-7).fit(rows.rows, rows.labels)
    peer_dual[fitted.support_] = np.abs(fitted.dual_coef_[0])
    peer_dual /= peer_dual.sum()
    assert -nu.smooth(peer_dual, image_of(nu, peer_dual)) == pytest.approx(certificate.dual, rel=1e-4)


def test_bits_do_not_depend_on_the_memory_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_sets, "_SIZE", 16)
    monkeypatch.setattr(operators, "TILE_ROWS", 16)  # least number of rows in the cache
    rows = two_classes(5, n_rows=300)
    for kernel in (KERNEL, Polynomial(2)):
        points = []
        for budget in (0, 20 * 300 * 8, 2**30):
            operator = kernel_matrix(kernel, rows.rows, rows.labels, budget_bytes=budget)
            state, outcome, _ = solve(CSVM(5.0).problem(operator), WorkingSets(1e-5))
            assert outcome.kind == "done"
            points.append(state.best.point)
        assert np.array_equal(points[0], points[1])
        assert np.array_equal(points[0], points[2])


def test_threads_that_share_a_small_cache_add_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "TILE_ROWS", 8)
    rows, rng = two_classes(6, n_rows=120), np.random.default_rng(0)
    requests = [rng.permutation(120)[:40] for _ in range(64)]
    matrix = KERNEL.matrix(rows.rows, rows.rows)
    shared = kernel_matrix(KERNEL, rows.rows, rows.labels, budget_bytes=12 * 120 * 8).tiles.row_cache

    def added(indices: IntArray) -> tuple[Doubles, Doubles]:
        out, block = np.zeros(120), np.empty((40, 40))
        shared.add(out, indices, np.ones(40))
        shared.block(block, indices)
        return out, block

    with ThreadPoolExecutor(4) as pool:
        for indices, (out, block) in zip(requests, pool.map(added, requests), strict=True):
            assert out == pytest.approx(matrix[indices].sum(axis=0), abs=1e-12)
            assert block == pytest.approx(matrix[np.ix_(indices, indices)], abs=1e-12)
            assert np.array_equal(out, added(indices)[0])


def test_a_warm_start_begins_near_the_optimum() -> None:
    rows = two_classes(7, n_rows=200)
    operator = kernel_matrix(KERNEL, rows.rows, rows.labels)
    state, _, method = solve(CSVM(1.0).problem(operator), WorkingSets(1e-8))
    again, outcome, _ = solve(CSVM(1.05).problem(operator), method, 1.05 * state.best.point)
    assert outcome.kind == "done"
    assert again.history[0].certificate.relative_gap < 0.2 * state.history[0].certificate.relative_gap
    with pytest.raises(DataError, match="warm start"):
        method.opened(CSVM(1.0).problem(operator), np.ones(3))
