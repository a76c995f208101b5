from __future__ import annotations

import math
from typing import Any

import clarabel
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from okl.foundation.errors import ConfigError, DataError
from okl.kernels import Gaussian, Polynomial
from okl.solvers.accelerated.choice import MethodChoice
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.fitting import ModelTask, fit_binary, fit_task, path, solve_problem
from okl.solvers.accelerated.models import MODEL_NAMES, make_model, model_class, parameter_of
from okl.solvers.accelerated.models.nusvm import NuSVM, nu_min
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import class_moments
from tests.solvers.accelerated.model_cases import cone_optimum, kernel_matrix, two_classes

METHOD = Fapg(method="proven", tolerance=1e-6)


def least_hinge(rows: DenseRows, weights: np.ndarray, bias: bool) -> float:
    """Return the least mean hinge loss over w and b by the linear program whose dual nu_min solves."""
    m, n = rows.rows.shape
    share = weights / weights.sum()
    signed = rows.rows * rows.signs[:, np.newaxis]
    columns = [signed, rows.signs[:, np.newaxis] if bias else np.zeros((m, 1)), np.eye(m)]
    free = [(None, None)] * (n + 1) + [(0, None)] * m
    costs = np.concatenate([np.zeros(n + 1), share])
    return float(linprog(costs, A_ub=-np.hstack(columns), b_ub=-np.ones(m), bounds=free).fun)


def largest_sum(rows: DenseRows, weights: np.ndarray) -> float:
    """Return the largest sum of a point with equal sums in both classes, by a linear program."""
    share = weights / weights.sum()
    bounds = np.stack([np.zeros_like(share), share], axis=1)
    return -float(linprog(-np.ones(len(share)), A_eq=rows.signs[np.newaxis], b_eq=[0.0], bounds=bounds).fun)


@pytest.mark.parametrize("weighted", [False, True])
def test_range_of_nu_is_that_of_linear_programs(weighted: bool) -> None:
    rows, rng = two_classes(8, n_rows=60, n_columns=3, distance=1.0), np.random.default_rng(8)
    weights = rng.integers(1, 4, 60).astype(float) if weighted else np.ones(60)
    low, high = model_class("nu-svm").valid_range(rows, weights)
    assert 0.05 < low < high < 1.0
    assert low == pytest.approx(least_hinge(rows, weights, True), rel=1e-6)
    assert high == pytest.approx(largest_sum(rows, weights), rel=1e-6)
    alone = model_class("nu-svm").valid_range(
        SparseRows(sparse.csr_array(rows.rows), rows.signs), weights, fit_intercept=False
    )
    assert alone[0] == pytest.approx(least_hinge(rows, weights, False), rel=1e-6)
    assert alone[1] == 1.0


def test_separable_classes_allow_any_small_nu() -> None:
    rows = two_classes(9, n_rows=30, n_columns=40)
    assert nu_min(rows) == pytest.approx(0.0, abs=1e-9)
    assert nu_min(kernel_matrix(Gaussian(1.0), rows.rows, rows.signs)) == 0.0


def test_weights_vanish_below_nu_min_and_not_above_it() -> None:
    rows = two_classes(8, n_rows=60, n_columns=3, distance=1.0)
    low, high = model_class("nu-svm").valid_range(rows)
    above = fit_binary(NuSVM(1.02 * low), rows, METHOD)
    assert above.certificate.primal < -1e-9
    with pytest.raises(ConfigError, match=r"outside \(0\.\d+, 0\.\d+\].*all 0"):
        fit_binary(NuSVM(0.98 * low), rows, METHOD)
    with pytest.raises(ConfigError, match=r"outside \(0, 0\.\d+\]"):
        fit_binary(NuSVM(1.02 * high), rows, METHOD)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_kernel_of_low_rank_has_no_weights_below_nu_min(intercept: bool) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(20, 1))
    labels = np.where(inputs[:, 0] + rng.normal(size=20) > 0.0, 1.0, -1.0)
    rows = kernel_matrix(Polynomial(degree=2), inputs, labels)
    with pytest.raises(ConfigError, match="below the valid range for these rows, so the optimal weights are all 0"):
        fit_binary(NuSVM(0.1, intercept), rows, MethodChoice(tolerance=1e-4, max_iterations=100))
    assert fit_binary(NuSVM(0.9, intercept), rows, MethodChoice(tolerance=1e-4)).certificate.primal < 0.0


@pytest.mark.parametrize("name", ["mm-fda", "mm-mpm"])
def test_weights_vanish_at_kappa_max(name: str) -> None:
    rows = two_classes(10, n_rows=80, n_columns=4)
    low, high = model_class(name).valid_range(rows)
    assert low == 0.0
    near = fit_binary(make_model(name, kappa=0.99 * high), rows, METHOD)
    assert 0.0 < np.linalg.norm(near.weights) < 0.1 * np.linalg.norm(class_moments(rows).difference)
    for kappa in (high, 2.0 * high):
        with pytest.raises(ConfigError, match=r"outside \(0, \d+\.\d+\)"):
            fit_binary(make_model(name, kappa=kappa), rows, METHOD)


def factors(rows: DenseRows) -> list[np.ndarray]:
    """Return square roots (rows of a class, n) of the covariances: deviations from the means."""
    classes = [rows.rows[rows.signs == sign].astype(float) for sign in (1.0, -1.0)]
    return [(of_class - of_class.mean(axis=0)) / math.sqrt(len(of_class)) for of_class in classes]


@pytest.mark.parametrize("name", ["mm-fda", "mm-mpm"])
@pytest.mark.parametrize(("n_rows", "n_columns"), [(80, 4), (30, 120)])
def test_kappa_max_is_the_least_length_that_minimises_the_dual(name: str, n_rows: int, n_columns: int) -> None:
    rows = two_classes(10, n_rows=n_rows, n_columns=n_columns)
    span = np.vstack(factors(rows))
    roots = [span] if name == "mm-fda" else factors(rows)
    _, sizes, right = np.linalg.svd(span, full_matrices=False)
    basis = right[sizes > 1e-9 * sizes[0]]
    # the least length of vectors, one for each root, that sum up to the part of the difference in the range
    n, cones, limits = len(span), [clarabel.ZeroConeT(len(basis))], [basis @ class_moments(rows).difference]
    matrix = [np.hstack([basis @ span.T, np.zeros((len(basis), 1))])]
    for of_root in np.split(np.arange(n), np.cumsum([len(root) for root in roots])[:-1]):
        matrix.append(-np.eye(n + 1)[np.append(n, of_root)])
        limits.append(np.zeros(len(of_root) + 1))
        cones.append(clarabel.SecondOrderConeT(len(of_root) + 1))
    least = cone_optimum(np.zeros((n + 1, n + 1)), np.eye(n + 1)[n], np.vstack(matrix), np.concatenate(limits), cones)
    assert model_class(name).valid_range(rows)[1] == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("name", ["mm-fda", "mm-mpm"])
def test_more_columns_than_rows_allow_every_kappa_with_equal_weights_from_kappa_max(name: str) -> None:
    rows = two_classes(10, n_rows=30, n_columns=60)
    high, apart = model_class(name).valid_range(rows)[1], class_moments(rows).difference
    span = np.vstack(factors(rows)).T
    outside = apart - span @ (np.linalg.pinv(span, 1e-9) @ apart)
    for kappa in (high, 1e3 * high):
        found = fit_binary(make_model(name, kappa=kappa), rows, METHOD)
        assert found.certificate.relative_gap <= METHOD.tolerance
        np.testing.assert_allclose(found.weights, outside, atol=2e-3 * float(np.linalg.norm(outside)))
    value, below = fit_task(ModelTask(name), rows, METHOD)
    assert value == 0.5 * high
    assert np.linalg.norm(below.weights - outside) > 0.1 * np.linalg.norm(outside)
    # a column of labels, and one row of each class: no spread towards the other class at all
    for flat in (rows.rows[:, :3] * 0.0 + rows.signs[:, np.newaxis], None):
        few = DenseRows(np.array([[1.0, 2.0], [0.0, 4.0]]), np.array([1.0, -1.0]))
        without = few if flat is None else DenseRows(flat, rows.signs)
        value, found = fit_task(ModelTask(name), without, METHOD)
        assert model_class(name).valid_range(without)[1] == 0.0 < value
        np.testing.assert_allclose(found.weights, class_moments(without).difference)


@pytest.mark.parametrize("name", ["mm-fda", "mm-mpm"])
def test_fewer_rows_than_columns_are_solved_in_the_span_of_the_rows(name: str) -> None:
    rows, weights = two_classes(11, n_rows=30, n_columns=90), np.random.default_rng(11).uniform(0.5, 2.0, 30)
    rows.rows[20:] = rows.rows[:10] + 3.0  # the span has fewer dimensions than there are rows
    kind: Any = model_class(name)
    moments, narrow = class_moments(rows, weights), MethodChoice(tolerance=1e-8)
    high = kind.valid_range(rows, weights)[1]
    assert high == pytest.approx(kind.kappa_max(moments), rel=1e-9)
    model = kind(0.7 * high)
    problem = model.problem(rows, weights)
    assert problem.n_image == 30
    found, expected = solve_problem(problem, narrow), solve_problem(model.problem_of(moments), narrow)
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-4 * float(np.linalg.norm(expected.weights)))
    assert found.bias == pytest.approx(expected.bias, rel=1e-4)
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-7)


@pytest.mark.parametrize("name", ["mm-fda", "mm-mpm"])
def test_minimax_row_counts_as_often_as_it_weighs(name: str) -> None:
    rows, rng = two_classes(12, n_rows=60, n_columns=3), np.random.default_rng(12)
    weights = rng.integers(0, 3, 60)
    repeated = np.repeat(np.arange(60), weights)
    again = DenseRows(rows.rows[repeated], rows.signs[repeated])
    model = make_model(name, kappa=0.2)
    one, other = fit_binary(model, rows, METHOD, weights.astype(float)), fit_binary(model, again, METHOD)
    assert one.certificate.primal == pytest.approx(other.certificate.primal)
    assert one.certificate.primal != pytest.approx(fit_binary(model, rows, METHOD).certificate.primal)


def test_catalogue_has_nine_models_in_the_order_of_the_paper() -> None:
    assert (
        *("c-svm", "l2-svm", "logistic", "nu-svm", "dwd"),
        *("mm-fda", "mm-mpm", "l1-logistic", "l1-l2-svm"),
    ) == MODEL_NAMES
    assert [name for name in MODEL_NAMES if not model_class(name).TAKES_KERNEL] == [
        "mm-fda",
        "mm-mpm",
        "l1-logistic",
        "l1-l2-svm",
    ]
    assert [name for name in MODEL_NAMES if not model_class(name).HAS_OWN_BIAS] == ["l1-logistic", "l1-l2-svm"]
    for name in MODEL_NAMES:
        assert ModelTask(name, 0.25, fit_intercept=False).model() is not None
        assert model_class(name).valid_range(two_classes(0))[0] < 0.5


def test_parameters_of_other_models_and_invalid_values_are_refused() -> None:
    for name in MODEL_NAMES:
        with pytest.raises(ConfigError, match=f"takes {parameter_of(name)}"):
            make_model(name, nu=0.5) if parameter_of(name) != "nu" else make_model(name, C=0.5)
        for value in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(ConfigError, match=parameter_of(name)):
                ModelTask(name, value).model()
    with pytest.raises(ConfigError, match="one of c-svm"):
        make_model("svm")
    with pytest.raises(DataError, match="both -1 and"):
        DenseRows(np.ones((3, 2)), np.ones(3))


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_a_warm_started_path_equals_single_fits(name: str) -> None:
    rows = two_classes(13, n_rows=80, n_columns=4, distance=1.5)
    low, high = model_class(name).valid_range(rows, fit_intercept=False)
    grid = [low + share * (min(high, 2.0) - low) for share in (0.2, 0.3, 0.5)]
    steps = path(name, rows, grid, METHOD, fit_intercept=False)
    for step, value in zip(steps, grid, strict=True):
        alone = fit_binary(ModelTask(name, value, fit_intercept=False).model(), rows, METHOD)
        size = abs(alone.certificate.primal)
        assert step.parameter == value
        assert step.solution.certificate.primal == pytest.approx(alone.certificate.primal, abs=3e-6 * size)
        assert step.solution.bias == 0.0
    assert np.linalg.norm(steps[-1].solution.weights) > 1e-6
