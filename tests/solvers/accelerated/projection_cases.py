"""Random boxes and hyperplanes, some with ties, degenerate or empty, and two checks of a projection."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.foundation.types import FloatArray
from okl.solvers.accelerated.projections import Projected, hyperplane_set

Doubles = NDArray[np.float64]


class Case(NamedTuple):
    """argmin ||a - point||^2 over lower <= a <= upper, signs'a = total; pair totals for the two classes instead."""

    point: Doubles
    signs: NDArray[np.int8]
    lower: float | Doubles
    upper: float | Doubles
    total: float
    pair: tuple[float, float]
    empty: bool

    @property
    def bounds(self) -> tuple[Doubles, Doubles]:
        shape = self.point.shape
        return np.broadcast_to(self.lower, shape), np.broadcast_to(self.upper, shape)


def random_case(seed: int, most_entries: int = 40) -> Case:
    """Draw a case: a third on a coarse grid with equal bends, some with boxes of one point or totals beyond an end."""
    rng = np.random.default_rng([seed, 4])
    size = int(rng.integers(1, most_entries))
    point = rng.standard_normal(size) * rng.choice([0.1, 1.0, 10.0])
    signs = np.where(rng.random(size) < rng.choice([0.0, 0.1, 0.5, 1.0]), -1, 1).astype(np.int8)
    lower, upper = _random_bounds(rng, size)
    if seed % 3 == 0:
        point, lower, upper = np.round(2 * point) / 2, np.round(2 * lower) / 2, np.round(2 * upper) / 2
    low, high = np.broadcast_to(lower, size), np.minimum(np.broadcast_to(upper, size), np.abs(lower) + 3.0)
    shares = (rng.random(size), np.round(rng.random(size)), (signs < 0) * 1.0, (signs > 0) * 1.0)
    inside = low + (high - low) * shares[rng.integers(4)]
    total = float(signs @ inside)
    pair = (float(inside[signs > 0].sum()), float(inside[signs < 0].sum()))
    empty = bool(rng.random() < 0.1 and np.all(np.isfinite(upper)))
    if empty:
        ends = np.where(signs > 0, np.broadcast_to(upper, size), -low)
        total = float(ends.sum() + 0.1 + rng.random())
        sign = signs[0]
        beyond = float(np.broadcast_to(upper, size)[signs == sign].sum()) + 0.3
        pair = (beyond, pair[1]) if sign > 0 else (pair[0], beyond)
    arrays = isinstance(lower, np.ndarray) and lower.ndim
    return Case(point, signs, lower if arrays else float(lower), upper if arrays else float(upper), total, pair, empty)


def _random_bounds(rng: np.random.Generator, size: int) -> tuple[Doubles, Doubles]:
    kind = rng.integers(4)
    if kind == 0:
        lower = np.array(-rng.random())
        return lower, lower + rng.choice([0.0, 1e-5, 0.5, 1.0, 3.0])
    if kind == 1:
        return np.array(0.0), np.array(np.inf)
    lower = -rng.random(size)
    upper = lower + rng.choice([0.0, 0.5, 1.0], size) * (1 if kind == 2 else rng.random(size))
    return lower, np.where(rng.random(size) < 0.1, np.inf, upper)


def assert_optimal(out: Doubles, case: Case, members: NDArray[np.bool_], weights: NDArray[Any], total: float) -> None:
    """Assert the Karush-Kuhn-Tucker conditions over some of the entries, for any returned multiplier.

    An entry inside its box determines the multiplier, one at a bound limits it from one side.
    """
    low, high = (bound[members] for bound in case.bounds)
    a, p, y = out[members], case.point[members], weights[members]
    assert np.all((low <= a) & (a <= high))
    scale = 1.0 + np.abs(a).sum() + np.abs(p).max(initial=0.0)
    assert abs(float(y @ a) - total) <= 1e-12 * scale
    multipliers = (p - a) * y
    at_low, at_high = a == low, a == high
    may_rise = np.where(y > 0, at_low, at_high)  # a larger multiplier does not change the entry
    may_fall = np.where(y > 0, at_high, at_low)
    least = np.max(multipliers[~may_fall], initial=-math.inf)
    most = np.min(multipliers[~may_rise], initial=math.inf)
    assert least <= most + 1e-12 * scale


def solve_program(case: Case, pair: bool = False) -> Doubles | None:
    """Project by an interior-point solver of quadratic programs; return None if it proves that the set is empty."""
    size = len(case.point)
    low, high = case.bounds
    rows, totals = [case.signs], [case.total]
    if pair:
        labels = np.unique(case.signs)
        rows, totals = [case.signs == label for label in labels], [case.pair[0 if label > 0 else 1] for label in labels]
    finite = np.isfinite(high)
    identity = sparse.identity(size, format="csr")
    matrix = sparse.vstack([sparse.csr_matrix(np.array(rows, dtype=float)), -identity, identity[finite]], format="csc")
    limits = np.concatenate([totals, -low, high[finite]])
    cones = [clarabel.ZeroConeT(len(rows)), clarabel.NonnegativeConeT(len(limits) - len(rows))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    quadratic = sparse.identity(size, format="csc")
    solution = clarabel.DefaultSolver(quadratic, -case.point, matrix, limits, cones, settings).solve()
    if solution.status == clarabel.SolverStatus.PrimalInfeasible:
        return None
    assert solution.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved), solution.status
    return np.array(solution.x)


def project_box_hyperplane(
    out: FloatArray, point: FloatArray, signs: Any, lower: Any, upper: Any, total: float = 0.0, theta: float = 0.0,
    n_threads: int = 1,
) -> Projected:  # fmt: skip
    """Project onto a set that is prepared for this call, as the methods do."""
    return hyperplane_set(signs, lower, upper, total).project(out, point, (theta, -theta), n_threads)
