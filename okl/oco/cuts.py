"""The step with convex constraints: each is replaced by the largest of its cuts until the gap is small.

    min over x in X of  1/2 ||x - c||^2 + sum_j limit_j [g_j(x)]_+,     g_j(x) >= g_j(y) + <dg_j(y), x - y>

The dual of the model has a multiplier a cut, and a constraint's multipliers share its limit; what they leave belongs to
the zero of [.]_+, which is one cut more. The multipliers' face is left one cut at a time: the classical active set.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from okl.oco.constraints import Constraints, Matrix
from okl.oco.sets import Ball, Box, ConvexSet, Vector

TOLERANCE = 1e-15  # of the gap, relative to the model's terms: ||x - x*||^2 is at most twice the gap
_MOST_ROUNDS = 300
_MOST_STEPS = 400
_REGULARISER = 1e-13


@dataclass(eq=False)
class _Model:
    """Cuts normals @ x - offsets, each of a constraint, with multipliers; the first ones are the zero cuts."""

    centre: Vector
    region: ConvexSet
    limits: Vector
    normals: Matrix = field(init=False)
    offsets: Vector = field(init=False)
    owners: NDArray[np.int64] = field(init=False)
    multipliers: Vector = field(init=False)

    def __post_init__(self) -> None:
        self.normals = np.zeros((self.limits.size, self.centre.size))
        self.offsets = np.zeros(self.limits.size)
        self.owners = np.arange(self.limits.size)
        self.multipliers = self.limits.copy()

    def add(self, normals: Matrix, offsets: Vector, owners: NDArray[np.int64]) -> None:
        """Add cuts, and drop those without multiplier that lie below their constraint's best cut."""
        excess = self.excess(self.point(self.multipliers))
        best = self.heights(excess)[self.owners]
        kept = (self.multipliers > 0.0) | (excess >= best) | (np.arange(self.owners.size) < self.limits.size)
        self.normals = np.vstack([self.normals[kept], normals])
        self.offsets = np.append(self.offsets[kept], offsets)
        self.owners = np.append(self.owners[kept], owners)
        self.multipliers = np.append(self.multipliers[kept], np.zeros(owners.size))

    def point(self, multipliers: Vector) -> Vector:
        """Return x(multipliers), (p,)."""
        return self.region.project(self.centre - self.normals.T @ multipliers)

    def excess(self, point: Vector) -> Vector:
        """Return the value of every cut, (n_cuts,)."""
        values: Vector = self.normals @ point - self.offsets
        return values

    def heights(self, excess: Vector) -> Vector:
        """Return the largest cut of every constraint, (m,), at least 0."""
        heights = np.zeros(self.limits.size)
        np.maximum.at(heights, self.owners, excess)
        return heights

    def gaps(self, excess: Vector) -> Vector:
        """Return what each constraint adds to the gap, (m,), all at least 0 but for rounding."""
        lag = self.heights(excess)[self.owners] - excess
        gaps: Vector = np.bincount(self.owners, self.multipliers * lag, self.limits.size).astype(np.float64)
        return gaps

    def jacobian_rows(self, point: Vector, chosen: NDArray[np.int64]) -> Matrix:
        """Return the chosen normals times the Jacobian of the projection that led to point."""
        rows = self.normals[chosen]
        if isinstance(self.region, Box):
            free = (point > self.region.low) & (point < self.region.high)
            return np.where(free, rows, 0.0)
        if isinstance(self.region, Ball):
            pulled = self.centre - self.normals.T @ self.multipliers - self.region.centre
            length = float(np.linalg.norm(pulled))
            if length <= self.region.radius:
                return rows
            along = pulled / length
            turned: Matrix = self.region.radius / length * (rows - np.outer(rows @ along, along))
            return turned
        free = point > 0.0
        means = rows[:, free].mean(axis=1, keepdims=True)
        return np.where(free, rows - means, 0.0)


def _direction(model: _Model, point: Vector, excess: Vector, chosen: NDArray[np.int64]) -> Vector:
    """Return Newton's direction (n_chosen,) in the chosen multipliers, whose sum in every constraint stays."""
    owners = np.unique(model.owners[chosen])
    hessian = model.jacobian_rows(point, chosen) @ model.normals[chosen].T
    size = max(float(np.max(np.einsum("ij,ij->i", model.normals, model.normals))), 1e-300)
    sums = (model.owners[chosen][None, :] == owners[:, None]).astype(np.float64)
    n_chosen, n_sums = chosen.size, owners.size
    system = np.zeros((n_chosen + n_sums, n_chosen + n_sums))
    system[:n_chosen, :n_chosen] = hessian + _REGULARISER * size * np.eye(n_chosen)
    system[n_chosen:, :n_chosen], system[:n_chosen, n_chosen:] = sums, sums.T
    solution = np.linalg.lstsq(system, np.append(excess[chosen], np.zeros(n_sums)), rcond=None)[0]
    direction: Vector = solution[:n_chosen].astype(np.float64)
    return direction


def _search(model: _Model, direction: Vector, first: float) -> float:
    """Return the share of the direction (n_cuts,) to go: all of it unless the dual falls before, to its top then."""
    low, high, share = 0.0, 1.0, 1.0
    for _ in range(50):
        slope = float(direction @ model.excess(model.point(model.multipliers + share * direction)))
        if abs(slope) <= 1e-3 * first or (share == 1.0 and slope > 0.0):
            return share
        low, high = (share, high) if slope > 0.0 else (low, share)
        share = 0.5 * (low + high)
    return low


def _face_step(model: _Model, point: Vector, excess: Vector, entering: int | None) -> bool:
    """Move on the face of positive multipliers, with one cut entering; False if nothing rises."""
    inside = model.multipliers > 0.0
    if entering is not None:
        inside[entering] = True
    chosen = np.flatnonzero(inside)
    moved = _direction(model, point, excess, chosen)
    direction = np.zeros(inside.size)
    falling = moved < 0.0
    shares = -model.multipliers[chosen][falling] / moved[falling]
    most = min(1.0, float(shares.min())) if shares.size else 1.0
    direction[chosen] = most * moved
    first = float(direction @ excess)
    if not first > 0.0:
        return False
    share = _search(model, direction, first)
    met = chosen[falling][shares <= most] if share == 1.0 and most < 1.0 else chosen[:0]
    model.multipliers = np.maximum(model.multipliers + share * direction, 0.0)
    model.multipliers[met] = 0.0
    return True


def _solve_model(model: _Model, enough: float) -> Vector:
    """Improve the multipliers until the model's gap is small or nothing rises; return the point."""
    for _ in range(_MOST_STEPS):
        point = model.point(model.multipliers)
        excess = model.excess(point)
        gaps = model.gaps(excess)
        if gaps.sum() <= enough:
            break
        worst = int(np.argmax(gaps))
        own = np.where(model.owners == worst, excess, -np.inf)
        if not _face_step(model, point, excess, int(np.argmax(own))) and not _face_step(model, point, excess, None):
            break
    return model.point(model.multipliers)


def solve_by_cuts(centre: Vector, region: ConvexSet, constraints: Constraints, limits: Vector) -> tuple[Vector, float]:
    """Return argmin over x in X of 1/2 ||x - c||^2 + limits' [g(x)]_+, (p,), and its gap.

    Parameters
    ----------
    centre : (p,) c
    region : X
    constraints : m convex functions with subgradients
    limits : (m,) >= 0

    Returns
    -------
    point, gap : the squared distance to the solution is at most twice the gap. It is above TOLERANCE times the size of
        the penalty only where rounding or 300 cuts a constraint came first

    Source: Kelley, J. SIAM 8, 1960, with the proximal term that is in the step already.
    """
    model = _Model(centre, region, limits)
    best, least = region.project(centre), np.inf
    point = best
    for _ in range(_MOST_ROUNDS):
        values = constraints.values(point)
        excess = model.excess(point)
        lag = limits * (np.maximum(values, 0.0) - model.heights(excess))
        gap = float(np.maximum(lag, 0.0).sum() + np.maximum(model.gaps(excess), 0.0).sum())
        if gap < least:
            best, least = point, gap
        enough = TOLERANCE * (1.0 + float(limits @ np.abs(values)))
        cut = np.flatnonzero(lag > 0.1 * enough / limits.size)
        if gap <= enough or cut.size == 0:
            break
        rows = constraints.subgradients(point)[cut]
        model.add(rows, rows @ point - values[cut], cut)
        point = _solve_model(model, 0.1 * enough)
    return best, least
