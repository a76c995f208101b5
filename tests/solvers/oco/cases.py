"""Random steps and problems, and a cone solver for steps."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from okl.compiled.oco import ConstraintRows, make_rows, make_work, proximal_step
from okl.solvers.oco.problem import LinearConstraints, Matrix, Problem, QuadraticLosses
from okl.solvers.oco.sets import Ball, Box, Simplex, Vector

Set = Box | Ball | Simplex


def online_programme(seed: int, n_rounds: int = 5000) -> tuple[Problem, QuadraticLosses]:
    """Draw constraints and linear losses as Yi et al., section 4.1, with breaks at the same shares of the rounds."""
    rng = np.random.default_rng(seed)
    matrix, bounds = rng.uniform(0, 2, (3, 2)), rng.uniform(0, 5, 3)
    at = np.arange(1, n_rounds + 1) * (5000 / n_rounds)
    low = (at <= 1500) | ((at >= 2000) & (at <= 3500)) | (at >= 4000)
    theta = rng.uniform(-1, 1, (n_rounds, 2)) * (at**0.1)[:, None] + rng.uniform(0, 1, (n_rounds, 2)) - low[:, None]
    theta += (1.0 - 2.0 * (rng.permutation(n_rounds) % 2 == 0))[:, None]
    return Problem(square(), LinearConstraints(matrix, bounds)), QuadraticLosses(0.0, theta)


def square() -> Box:
    """Return [-1, 1]^2."""
    return Box(-np.ones(2), np.ones(2))


def random_step(rng: np.random.Generator, index: int) -> tuple[Vector, Matrix, Vector, Set, Vector]:
    """Draw c, matrix, bounds, set and limits; rows are parallel in every third case and nearly so in another."""
    size, n_rows = int(rng.integers(2, 9)), int(rng.integers(1, 7))
    matrix, bounds = rng.normal(size=(n_rows, size)), 0.5 * rng.normal(size=n_rows)
    near = 10.0 ** -int(rng.integers(4, 13))
    if index % 3 == 1 and n_rows > 1:
        matrix[1] = matrix[0] + near * rng.normal(size=size)
        bounds[1] = bounds[0] + near * rng.normal()
    elif index % 3 == 2 and n_rows > 2:
        matrix[1:3], bounds[1:3] = matrix[0], bounds[0]
        matrix[1] *= 1.0 + 1e-9
    limits = rng.exponential(size=n_rows) * rng.choice([0.3, 3.0, 30.0]) * (rng.random(n_rows) > 0.2)
    centre = rng.normal(size=size) * rng.choice([0.5, 2.0])
    return centre, matrix, bounds, random_set(rng, index // 3 % 3, size), limits


def random_set(rng: np.random.Generator, kind: int, size: int) -> Set:
    """Draw a box, a ball or a simplex."""
    if kind == 0:
        return Box(-rng.random(size), rng.random(size))
    if kind == 1:
        return Ball(0.3 * rng.normal(size=size), 0.2 + rng.random())
    return Simplex(size, 0.5 + rng.random())


def take_step(
    centre: Vector, matrix: Matrix, bounds: Vector, region: Set, limits: Vector
) -> tuple[Vector, Vector, float]:
    """Return the solution of a step, its multipliers and its gap."""
    solution, work = centre.copy(), make_work(bounds.size, centre.size)
    gap = proximal_step(solution, work, rows_over(region, matrix, bounds), region.region, limits)
    return solution, work.multipliers.copy(), gap


def rows_over(region: Set, matrix: Matrix, bounds: Vector) -> ConstraintRows:
    """Return the rows of linear constraints over a set, read-only as in a run, so that steps are compiled once."""
    constraints = LinearConstraints(matrix, bounds)
    return make_rows(constraints.matrix, constraints.bounds, region.region)


def solve_cone(centre: Vector, matrix: Matrix, bounds: Vector, region: Set, limits: Vector) -> tuple[Vector, bool]:
    """Return argmin over the set of 1/2 ||x - c||^2 + limits' [A x - b]_+ by clarabel, and whether it is solved.

    A second-order cone ends 1e-5 from the solution. For a ball, 1/2 weight ||x - its centre||^2 is added instead, with
    the weight that makes its length the radius.
    """
    size, none, one = centre.size, np.zeros((centre.size, bounds.size)), np.eye(centre.size)
    if isinstance(region, Box):
        sides = np.vstack([np.hstack([one, none]), np.hstack([-one, none])])
        return _solve(centre, 1.0, matrix, bounds, limits, sides, np.append(region.high, -region.low))
    if isinstance(region, Simplex):
        sides = np.vstack([np.hstack([-one, none]), np.append(np.ones(size), np.zeros(bounds.size))[None, :]])
        return _solve(centre, 1.0, matrix, bounds, limits, sides, np.append(np.zeros(size), region.total), n_equal=1)
    empty, zero = np.zeros((0, size + bounds.size)), np.zeros(0)

    def weighted(weight: float) -> tuple[Vector, bool]:
        target = centre + weight * region.centre
        return _solve(target, 1.0 + weight, matrix, bounds, limits, empty, zero)

    def beyond(weight: float) -> float:
        return float(np.linalg.norm(weighted(weight)[0] - region.centre)) - region.radius

    if beyond(0.0) <= 0.0:
        return weighted(0.0)
    most = 1.0
    while beyond(most) > 0.0:
        most *= 4.0
    return weighted(brentq(beyond, 0.0, most, xtol=1e-14, rtol=1e-14))


def solve_quadratic(centre: Vector, region: Set, matrix: Matrix, bound: float, price: float) -> Vector:
    """Return argmin over the set of 1/2 ||x - c||^2 + price [x' A x - b]_+ by its multiplier, with clarabel."""

    def at(multiplier: float) -> Vector:
        hessian = np.eye(centre.size) + 2.0 * multiplier * matrix
        if not isinstance(region, Ball):
            return _lowest(hessian, centre, region)

        def pulled(weight: float) -> Vector:
            right = centre + weight * region.centre
            return np.linalg.solve(hessian + weight * np.eye(centre.size), right).astype(np.float64)

        def beyond(weight: float) -> float:
            return float(np.linalg.norm(pulled(weight) - region.centre)) - region.radius

        return pulled(0.0 if beyond(0.0) <= 0.0 else brentq(beyond, 0.0, 1e9, xtol=1e-14, rtol=1e-14))

    def over(multiplier: float) -> float:
        point = at(multiplier)
        return float(point @ matrix @ point) - bound

    if over(0.0) <= 0.0 or over(price) >= 0.0:
        return at(0.0 if over(0.0) <= 0.0 else price)
    return at(brentq(over, 0.0, price, xtol=1e-14, rtol=1e-14))


def _lowest(hessian: Matrix, centre: Vector, region: Box | Simplex) -> Vector:
    """Return argmin over a box or simplex of 1/2 x' H x - <c, x> by clarabel."""
    size, one = centre.size, np.eye(centre.size)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    if isinstance(region, Box):
        rows, ends = np.vstack([one, -one]), np.append(region.high, -region.low)
        cones = [clarabel.NonnegativeConeT(2 * size)]
    else:
        rows, ends = np.vstack([-one, np.ones((1, size))]), np.append(np.zeros(size), region.total)
        cones = [clarabel.NonnegativeConeT(size), clarabel.ZeroConeT(1)]
    system = sparse.csc_matrix(rows)
    solver = clarabel.DefaultSolver(sparse.csc_matrix(np.triu(hessian)), -centre, system, ends, cones, settings)
    return np.array(solver.solve().x)


def _solve(
    linear: Vector,
    curvature: float,
    matrix: Matrix,
    bounds: Vector,
    limits: Vector,
    sides: Matrix,
    ends: Vector,
    n_equal: int = 0,
) -> tuple[Vector, bool]:
    """Solve min curvature/2 ||x||^2 - <linear, x> + limits' h, A x - b <= h, h >= 0, sides (x, h) <= or = ends."""
    size, n_rows = linear.size, bounds.size
    quadratic = sparse.csc_matrix(np.diag(np.append(np.full(size, curvature), np.zeros(n_rows))))
    hinge = np.vstack([np.hstack([matrix, -np.eye(n_rows)]), np.hstack([np.zeros((n_rows, size)), -np.eye(n_rows)])])
    cones = [clarabel.NonnegativeConeT(2 * n_rows + ends.size - n_equal)]
    if n_equal:
        cones.append(clarabel.ZeroConeT(n_equal))
    system, right = sparse.csc_matrix(np.vstack([hinge, sides])), np.concatenate([bounds, np.zeros(n_rows), ends])
    solved, point = False, np.empty(0)
    for tolerance in (1e-14, 1e-12):  # the first one sometimes exceeds its rounding error
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        solver = clarabel.DefaultSolver(quadratic, np.append(-linear, limits), system, right, cones, settings)
        solution = solver.solve()
        point, solved = np.array(solution.x)[:size], str(solution.status) == "Solved"
        if solved:
            break
    return point, solved
