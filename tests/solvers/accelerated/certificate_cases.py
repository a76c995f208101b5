"""Checks of the certificates of random problems, for the tests on a few and for a benchmark on five hundred."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import lambertw

from okl.solvers.accelerated.base import CompositeProblem
from okl.solvers.accelerated.dual import DualProblem, MinimaxProblem, SparseProblem
from okl.solvers.accelerated.fapg import GROWTH, Fapg, FapgState, solve
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import BoxHyperplane, EuclideanNorm, Quadratic, SimplexPair
from tests.solvers.accelerated.model_cases import MAKERS, Doubles, feasible_point, image_of, pulled_of, two_classes


class Case(NamedTuple):
    """A random problem, its rows, and a run of the proven method on it that recorded every iteration."""

    rows: DenseRows
    problem: CompositeProblem
    run: FapgState


def random_case(name: str, seed: int) -> Case:
    """Return a problem of twenty rows, solved to the precision of float64 or two thousand iterations."""
    rows = two_classes(100 + seed, n_rows=20, n_columns=3)
    problem = MAKERS[name](rows)
    return Case(rows, problem, solve(problem, Fapg(method="proven", tolerance=1e-9, max_iterations=2000))[0])


def is_solved(case: Case) -> bool:
    """Return whether the gap is at most 1e-4 of the objective, or 1e-9 of the first one if w = 0 is optimal."""
    best, first = case.run.best_record.certificate, case.run.history[0].certificate
    vanished = best.dual <= 0.0 <= best.primal and best.gap <= 1e-9 * max(abs(first.primal), abs(first.dual))
    return best.relative_gap < 1e-4 or vanished


def gap_violation(case: Case, seed: int) -> float:
    """Return by how much a certified gap is below the true one, relative to the objective; rounding if it is valid.

    The points are those of the run at its checks, and random ones; the optimum is between the best dual and the best
    primal objective of all.
    """
    problem, rng = case.problem, np.random.default_rng(seed)
    seen = [record.certificate for record in case.run.history]
    for _ in range(3):
        point = feasible_point(problem, rng)
        image = image_of(problem, point)
        seen.append(problem.certificate(point, image, pulled_of(problem, image)))
    highest_dual, least_primal = max(one.dual for one in seen), min(one.primal for one in seen)
    # of the points, w and dual: a true gap is at most the distance to the best bound of the other side
    worst = max(max(one.primal - least_primal, highest_dual - one.dual) - one.gap for one in seen)
    return max(worst, highest_dual - least_primal) / max(abs(one.primal) for one in seen)


class Proof(NamedTuple):
    """Relative violation of Lemma 5 by the proven method, and its largest share of the bound of Theorem 7."""

    above_ceiling: float
    share_of_bound: float
    lipschitz_share: float


class OneLevel(EuclideanNorm):
    """A norm with a fixed smoothness."""

    def at_level(self, level: int) -> EuclideanNorm:
        """Return the norm itself."""
        return self


def proof_of(case: Case, n_iterations: int = 50) -> Proof:
    """Run the proven method and check every iteration against Lemma 5 and Theorem 7.

    Source: Ito et al., 2017, Lemma 5, Theorem 7, and L_k <= eta_u L_f.
    """
    problem = case.problem
    if isinstance(problem, DualProblem) and isinstance(problem.outer, EuclideanNorm):
        problem = replace(problem, outer=OneLevel(problem.outer.width))  # the bound is about one objective
    method = Fapg(method="proven", tolerance=1e-300, max_iterations=n_iterations, check_every=1)
    state = solve(problem, method)[0]
    longer = solve(problem, replace(method, max_iterations=8 * n_iterations, check_every=60))[0]
    least = min(record.objective for record in (*state.history, *longer.history))
    values = np.array([record.objective for record in state.history])
    restarts = np.array([record.restarts for record in state.history])
    above = max(float((values[restarts == r] - values[restarts == r][0]).max()) for r in range(restarts.max() + 1))
    lipschitz = max(lipschitz_constant(problem, case.rows), problem.first_lipschitz)
    k = np.arange(3, len(values))
    w = lambertw(2.0 * k * np.log(2.0)).real
    bound = 2.0 * GROWTH * lipschitz * radius(problem, values[0] - least) ** 2
    shares = (values[3:] - least) / (bound * (w / (k * np.log(2.0) - w)) ** 2)
    steepest = max(record.lipschitz for record in state.history)
    return Proof(above / np.abs(values).max(), float(shares.max(initial=0.0)), steepest / (GROWTH * lipschitz))


def lipschitz_constant(problem: CompositeProblem, rows: DenseRows) -> float:
    """Return L_f from singular values."""
    if isinstance(problem, MinimaxProblem):
        return float(np.linalg.norm(problem.roots, 2)) ** 2
    if isinstance(problem, SparseProblem):
        return problem.curvature * float(np.linalg.norm(np.sqrt(problem.weights)[:, None] * rows.rows, 2)) ** 2
    assert isinstance(problem, DualProblem)
    steepest = float(np.linalg.norm(rows.rows, 2)) ** 2
    outer = 1.0 / problem.outer.width if isinstance(problem.outer, EuclideanNorm) else 1.0
    return outer * steepest + problem.curvature


def radius(problem: CompositeProblem, above: float) -> float:
    """Return the largest distance to an optimum of points as good as the start, which is `above` the optimum."""
    if isinstance(problem, MinimaxProblem):
        return 2.0 * problem.kappa * float(np.sqrt(problem.n_balls))
    if isinstance(problem, SparseProblem):  # the penalty alone bounds both weights
        return 2.0 * problem.smooth(problem.start(), np.zeros(problem.n_image))
    assert isinstance(problem, DualProblem)
    if isinstance(problem.separable, Quadratic):  # strongly convex
        return float(np.sqrt(2.0 * above / problem.separable.curvatures.min()))
    upper: Doubles = np.asarray(problem.region.upper)
    simplex = isinstance(problem.region, SimplexPair) or (
        isinstance(problem.region, BoxHyperplane) and problem.region.total == 1.0
    )
    return min(float(np.sqrt(2.0)), float(np.linalg.norm(upper))) if simplex else float(np.linalg.norm(upper))
