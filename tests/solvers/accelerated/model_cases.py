"""Small problems of every model, and their optima by a cone solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.foundation.types import FloatArray
from okl.kernels import Kernel
from okl.solvers.accelerated.base import CompositeProblem
from okl.solvers.accelerated.models.dwd import DWD
from okl.solvers.accelerated.models.l1 import L1LogisticRegression, L1SquaredHinge
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.minimax import MMFDA, MMMPM
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.svm import CSVM, L2SVM
from okl.solvers.accelerated.operators import DenseRows, KernelTiles, TiledKernel
from okl.solvers.accelerated.problem import ClassMoments, class_moments, square_root

Doubles = NDArray[np.float64]
Maker = Callable[[DenseRows], CompositeProblem]


def kernel_matrix(kernel: Kernel, inputs: FloatArray, labels: FloatArray, **options: Any) -> TiledKernel:
    """Return the operator of rows with an exact kernel."""
    return TiledKernel(KernelTiles(kernel, inputs, **options), labels)


def two_classes(seed: int, n_rows: int = 40, n_columns: int = 4, distance: float = 1.0) -> DenseRows:
    """Return rows of two overlapping classes with different sizes, spreads and scales."""
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(n_rows) < 0.35 * n_rows, 1.0, -1.0)
    rng.shuffle(labels)
    spread = rng.standard_normal((n_columns, n_columns))
    rows = rng.standard_normal((n_rows, n_columns))
    rows[labels > 0] = rows[labels > 0] @ spread + distance / np.sqrt(n_columns)
    return DenseRows(rows * rng.uniform(0.3, 2.0, n_columns) + rng.standard_normal(n_columns), labels)


def minimax_maker(model: type[MMFDA] | type[MMMPM], share: float) -> Maker:
    kappa_max = model.kappa_max
    return lambda rows: model(share * kappa_max(class_moments(rows))).problem(rows)


MAKERS: dict[str, Maker] = {
    "c-svm": lambda rows: CSVM(0.7).problem(rows),
    "c-svm without bias": lambda rows: CSVM(2.0, fit_intercept=False).problem(rows),
    "l2-svm": lambda rows: L2SVM(0.4).problem(rows),
    "l2-svm without bias": lambda rows: L2SVM(3.0, fit_intercept=False).problem(rows),
    "logistic": lambda rows: LogisticRegression(2.0).problem(rows),
    "logistic without bias": lambda rows: LogisticRegression(0.5, fit_intercept=False).problem(rows),
    "nu-svm": lambda rows: NuSVM(0.6).problem(rows),
    "nu-svm without bias": lambda rows: NuSVM(0.7, fit_intercept=False).problem(rows),
    "dwd": lambda rows: DWD(0.01).problem(rows),
    "dwd without bias": lambda rows: DWD(0.05, fit_intercept=False).problem(rows),
    "mm-fda": minimax_maker(MMFDA, 0.6),
    "mm-mpm": minimax_maker(MMMPM, 0.5),
    "l1-logistic": lambda rows: L1LogisticRegression(0.6).problem(rows),
    "l1-l2-svm": lambda rows: L1SquaredHinge(0.3).problem(rows),
}
WITH_MARGINS: dict[str, Maker] = {
    "logistic with margin": lambda rows: LogisticRegression(2.0, margin=1e-3).problem(rows),
}


def feasible_point(problem: CompositeProblem, rng: np.random.Generator) -> Doubles:
    """Return a point with finite F, near to or far from the start."""
    point = np.empty(problem.n_points)
    size = rng.choice([0.1, 1.0, 10.0])
    problem.prox(point, problem.start() + size * rng.standard_normal(problem.n_points), 1.0 / size)
    return point


def image_of(problem: CompositeProblem, point: Doubles) -> Doubles:
    image = np.empty(problem.n_image)
    problem.apply(image, point)
    return image


def pulled_of(problem: CompositeProblem, image: Doubles) -> Doubles:
    pulled = np.empty(problem.n_points)
    problem.adjoint(pulled, image)
    return pulled


def cone_optimum(quadratic: Doubles, linear: Doubles, rows: Doubles, limits: Doubles, cones: list[object]) -> float:
    """Minimise 1/2 x'Qx + c'x subject to limits - rows x in the cones."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-11
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(quadratic)), linear, sparse.csc_matrix(rows), limits, cones, settings
    )
    solution = solver.solve()
    assert solution.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved), solution.status
    return float(solution.obj_val)


def dwd_optimum(rows: DenseRows, nu: float) -> float:
    """Minimise sum_i t_i + (rho_i - z_i) / (m nu), t_i rho_i >= 1, rho_i >= z_i = s_i (<w, z_i> - b), ||w|| <= 1."""
    m, n = rows.rows.shape
    margins = np.hstack([rows.signs[:, None] * rows.rows, -rows.signs[:, None], np.zeros((m, 2 * m))])
    rho, t = np.zeros((2, m, n + 1 + 2 * m))
    rho[:, n + 1 : n + 1 + m], t[:, n + 1 + m :] = np.eye(m), np.eye(m)
    linear = t.sum(axis=0) + (rho - margins).sum(axis=0) / (m * nu)
    ball = np.vstack([np.zeros(n + 1 + 2 * m), -np.eye(n, n + 1 + 2 * m)])
    # t rho >= 1 where ||(2, t - rho)|| <= t + rho
    products = np.stack([-(t + rho), np.zeros_like(t), rho - t], axis=1).reshape(3 * m, -1)
    limits = np.concatenate([np.zeros(m), [1.0], np.zeros(n), np.tile([0.0, 2.0, 0.0], m)])
    cones = [clarabel.NonnegativeConeT(m), clarabel.SecondOrderConeT(n + 1)] + [clarabel.SecondOrderConeT(3)] * m
    size = n + 1 + 2 * m
    return cone_optimum(np.zeros((size, size)), linear, np.vstack([margins - rho, ball, products]), limits, cones)


def minimax_optimum(difference: Doubles, spreads: list[Doubles], kappa: float) -> float:
    """Minimise 1/2 ||w||^2 - <w, d> + kappa sum_j t_j, ||S_j w|| <= t_j."""
    n, k = len(difference), len(spreads)
    quadratic = np.zeros((n + k, n + k))
    quadratic[:n, :n] = np.eye(n)
    blocks = []
    for j, spread in enumerate(spreads):
        block = np.zeros((n + 1, n + k))
        block[0, n + j], block[1:, :n] = -1.0, -spread
        blocks.append(block)
    linear = np.concatenate([-difference, np.full(k, kappa)])
    cones: list[object] = [clarabel.SecondOrderConeT(n + 1)] * k
    return cone_optimum(quadratic, linear, np.vstack(blocks), np.zeros(k * (n + 1)), cones)


def spreads_of(moments: ClassMoments, together: bool) -> list[Doubles]:
    positive, negative = moments.positive.covariance, moments.negative.covariance
    return [square_root(positive + negative)] if together else [square_root(positive), square_root(negative)]
