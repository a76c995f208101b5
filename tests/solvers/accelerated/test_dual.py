from __future__ import annotations

from dataclasses import replace

import clarabel
import numpy as np
import pytest
from scipy.optimize import minimize

from okl.foundation.errors import ConfigError
from okl.kernels import Gaussian
from okl.solvers.accelerated.dual import dual_power, norm_of, project_norm_ball
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.fitting import fit_binary
from okl.solvers.accelerated.models.dwd import DWD
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.minimax import MMFDA
from okl.solvers.accelerated.models.normconstrained import NormConstrained
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.svm import CSVM, L2SVM
from tests.solvers.accelerated.model_cases import cone_optimum, kernel_matrix, two_classes

METHOD = Fapg(method="proven", tolerance=1e-6, max_iterations=20_000)
POWERS = (1.0, 1.1, 1.5, 2.0, 3.0, 8.0, np.inf)


@pytest.mark.parametrize("power", POWERS)
def test_projection_onto_norm_ball_is_the_nearest_point(power: float) -> None:
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 30.0, 1e6):
        vector = scale * rng.standard_normal(7)
        vector[2] = 0.0
        found = project_norm_ball(vector, power, 1.5)
        if norm_of(vector, power) <= 1.5:
            assert np.array_equal(found, vector)
            continue
        assert norm_of(found, power) == pytest.approx(1.5, rel=1e-12)
        # z - w is normal to the ball at w: no other point of the ball goes further along it
        normal = vector - found
        support = 1.5 * norm_of(normal, dual_power(power))
        assert normal @ found == pytest.approx(support, rel=1e-9)
    inside = project_norm_ball(vector, power, 1.5)
    assert project_norm_ball(inside, power, 1.5) == pytest.approx(inside, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "power"),  # all models and all powers, but not all pairs: projection and models are independent
    [
        (L2SVM(0.3), 1.1),
        (L2SVM(0.3), 3.0),
        (LogisticRegression(0.5), 1.5),
        (LogisticRegression(0.5), 8.0),
        (CSVM(0.3), 1.1),
        (CSVM(0.3), 3.0),
        (NuSVM(0.5), 2.0),
        (NuSVM(0.5), 8.0),
        (L2SVM(0.3), 1.0),
        (DWD(0.05), np.inf),
    ],
)
def test_constrained_optimum_is_certified(model: CSVM | DWD | L2SVM | LogisticRegression | NuSVM, power: float) -> None:
    rows = two_classes(20, n_rows=40, n_columns=4, distance=1.5)
    found = fit_binary(NormConstrained(model, power, 0.4), rows, replace(METHOD, tolerance=1e-4))
    assert found.certificate.relative_gap <= 1e-4, found.outcome.reason
    assert norm_of(found.weights, power) <= 0.4 * (1.0 + 1e-12)
    assert norm_of(found.weights, power) > 0.39
    problem = model.problem(rows)
    margins = rows.signs * (rows.rows @ found.weights)
    assert problem.risk.value(margins, found.bias) == pytest.approx(found.certificate.primal, rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = rng.standard_normal(4)
        other *= 0.4 / norm_of(other, power)
        margins = rows.signs * (rows.rows @ other)
        assert problem.risk.value(margins, problem.risk.best_bias(margins)) >= found.certificate.dual


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_constrained_logistic_matches_a_general_solver(power: float) -> None:
    rows = two_classes(21, n_rows=40, n_columns=3, distance=1.5)
    found = fit_binary(NormConstrained(LogisticRegression(0.5), power, 0.5), rows, METHOD)

    def loss(at: np.ndarray) -> float:
        return float(0.5 * np.logaddexp(0, -rows.signs * (rows.rows @ at[:3] - at[3])).sum())

    bound = {"type": "ineq", "fun": lambda at: 0.5**power - np.sum(np.abs(at[:3]) ** power)}
    other = minimize(loss, np.full(4, 0.1), constraints=bound, method="SLSQP", options={"ftol": 1e-12})
    assert other.success
    assert found.certificate.primal == pytest.approx(other.fun, rel=1e-6)


@pytest.mark.parametrize("power", [1.0, np.inf])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_squared_hinge_in_a_ball_that_is_not_smooth_matches_a_quadratic_program(
    power: float, fit_intercept: bool
) -> None:
    rows, radius = two_classes(21, n_rows=40, n_columns=6, distance=1.5), 0.3
    found = fit_binary(NormConstrained(L2SVM(0.5, fit_intercept), power, radius), rows, METHOD)
    assert found.certificate.relative_gap <= 1e-6
    # (w, t, b, x): least sum 1/2 x^2 over x >= 1 - s (<w, z> - b), x >= 0, |w| <= t, and sum t or each t <= radius
    m, n = rows.rows.shape
    margins = np.hstack(
        [-rows.signs[:, np.newaxis] * rows.rows, np.zeros((m, n)), rows.signs[:, np.newaxis], -np.eye(m)]
    )
    eye, nothing = np.eye(n), np.zeros((n, m + 1))
    above = np.vstack([np.hstack([eye, -eye, nothing]), np.hstack([-eye, -eye, nothing])])
    each = np.hstack([np.zeros((n, n)), eye, nothing])
    bound = each.sum(axis=0, keepdims=True) if power == 1.0 else each
    free = np.zeros((0 if fit_intercept else 2, 2 * n + 1 + m))
    free[:, 2 * n] = (1.0, -1.0)[: len(free)]
    positive = np.hstack([np.zeros((m, 2 * n + 1)), -np.eye(m)])
    limits = np.r_[-np.ones(m), np.zeros(2 * n), np.full(len(bound), radius), np.zeros(len(free) + m)]
    optimum = cone_optimum(
        np.diag(np.r_[np.zeros(2 * n + 1), np.ones(m)]), np.zeros(2 * n + 1 + m),
        np.vstack([margins, above, bound, free, positive]), limits,
        [clarabel.NonnegativeConeT(len(limits))],
    )  # fmt: skip
    assert found.certificate.primal == pytest.approx(optimum, rel=2e-6)
    assert found.certificate.dual <= optimum * (1.0 + 1e-8)
    assert norm_of(found.weights, power) == pytest.approx(radius, rel=1e-9)
    assert power == np.inf or (found.weights == 0.0).any()


def test_euclidean_ball_of_radius_1_is_dwd_itself() -> None:
    rows = two_classes(22, n_rows=40, n_columns=3, distance=2.0)
    one, other = (fit_binary(model, rows, METHOD) for model in (DWD(0.05), NormConstrained(DWD(0.05))))
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=3e-6)
    assert one.weights == pytest.approx(other.weights, abs=1e-2)


def test_meaningless_constraints_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"power = 0\.5"):
        NormConstrained(CSVM(), 0.5)
    for power in (1.0, np.inf):
        with pytest.raises(ConfigError, match="requires a smooth loss"):
            NormConstrained(CSVM(), power)
    with pytest.raises(ConfigError, match="radius"):
        NormConstrained(CSVM(), 2.0, 0.0)
    with pytest.raises(ConfigError, match="cannot be combined with a bound on a norm"):
        NormConstrained(MMFDA())
    rows = two_classes(0)
    with pytest.raises(ConfigError, match="explicit rows"):
        NormConstrained(CSVM()).problem(kernel_matrix(Gaussian(1.0), rows.rows, rows.signs))  # type: ignore[arg-type]
