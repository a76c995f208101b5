from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.errors import ConfigError
from okl.kernels import Gaussian
from okl.subgradient.dualdescent import DualDescent
from okl.subgradient.explicit import ExplicitRows
from okl.subgradient.kernelspace import KernelRows, KernelValues
from okl.subgradient.scs import Scs, solve_sample
from okl.subgradient.wolfe import Wolfe

ROWS, LAM = 400, 0.003


def rows_of() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((ROWS, 8))
    return rows, np.where(rows[:, 0] - rows[:, 1] ** 2 + 0.5 + 0.5 * rng.standard_normal(ROWS) > 0, 1.0, -1.0)


def test_it_comes_to_the_optimum_and_its_bound_stays_below() -> None:
    rows, targets = rows_of()
    best = DualDescent(LAM, relative_gap=1e-9).solve_rows(rows, targets)
    found = Wolfe(LAM, gap=1e-5, max_iterations=2000).solve(ExplicitRows(rows), targets)
    assert found.reason == "gap"
    assert -1e-9 <= found.objective - best.bound <= 1e-5
    assert all(record.lower_bound <= best.objective + 1e-9 for record in found.history)
    values = [record.objective for record in found.history]
    assert all(after <= before + 1e-15 for before, after in pairwise(values))
    np.testing.assert_allclose(found.point.vector.coefficients, best.weights, atol=0.1)


def test_it_comes_to_the_optimum_with_a_kernel() -> None:
    rows, targets = rows_of()
    kernel = Gaussian(2.0)
    best = DualDescent(LAM, relative_gap=1e-9).solve_matrix(kernel.matrix(rows, rows), targets)
    space = KernelRows(KernelValues(kernel, rows), ROWS)
    found = Wolfe(LAM, gap=1e-4, max_iterations=2000).solve(space, targets)
    assert found.reason == "gap"
    assert found.objective == pytest.approx(best.objective, abs=1e-4)


def test_restarts_come_nearer_in_as_many_iterations_and_either_nearer_than_plain_subgradients() -> None:
    rows, targets = rows_of()
    space = ExplicitRows(rows)
    settings = {"lam": LAM, "gap": 1e-12, "max_iterations": 150}
    plain = (Scs(directions="conjugate", **settings), Scs(directions="subgradient", **settings))  # type: ignore[arg-type]
    methods = (Wolfe(**settings), *plain)  # type: ignore[arg-type]
    gaps = [solve_sample(space, targets, method).gap for method in methods]
    assert gaps == sorted(gaps)
    assert gaps[0] < 0.5 * gaps[1] < 0.2 * gaps[2]


def test_lam_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="lam"):
        Wolfe(0.0)
