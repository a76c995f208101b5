"""Stochastic conjugate subgradients: the method, and its solution of one sample."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from okl.checks import check_at_least, check_choice, check_positive
from okl.subgradient.directions import BundleDirections, ConjugateDirections, Direction, Directions, Point
from okl.subgradient.linesearch import ExactSearch, LineSearch, Ray
from okl.subgradient.losses import Hinge, PiecewiseLinear
from okl.subgradient.vectors import Space, Vector, inner_product
from okl.types import FloatArray

Reason = Literal["gap", "rounding", "iterations"]
_EPSILON = float(np.finfo(np.float64).eps)
_STALLED = 10  # iterations without a fall or a rise, at the end of what float64 can tell apart


@dataclass(frozen=True)
class Record:
    """After an iteration: seconds since the start, rows in the sample, objective and lower bound on it."""

    seconds: float
    n_rows: int
    objective: float
    lower_bound: float


@dataclass(frozen=True, eq=False)
class Sampled:
    """The solution of a sampled problem.

    point : weights and their scores on the sample
    objective, lower_bound : the sampled optimum lies between
    reason : "gap" reached; "rounding", nothing more can be told apart; "iterations" used up
    """

    point: Point
    objective: float
    lower_bound: float
    iterations: int
    reason: Reason
    history: tuple[Record, ...] = field(repr=False)

    @property
    def gap(self) -> float:
        """Objective less lower bound, >= 0."""
        return max(0.0, self.objective - self.lower_bound)


@dataclass(frozen=True)
class Scs:
    """Minimise lam/2 ||w||^2 + mean_i loss(y_i, <w, phi(x_i)>).

    Parameters
    ----------
    lam : float > 0
    loss : PiecewiseLinear
    gap : float > 0, of the objective, absolute
    directions : "bundle" of up to bundle_size cuts; "conjugate", the paper's pair; "subgradient", its lambda* = 0
    bundle_size : int >= 2
    max_iterations : int >= 1
    ahead : in [0, 1), how far towards the bundle's proposal beyond the new point the next cut is taken

    Raises
    ------
    ConfigError : a number outside its range

    Source: Zhang & Sen, "The stochastic conjugate subgradient algorithm for kernel support vector machines",
    Algorithm 1, with lam for the printed 1.
    """

    lam: float = 1e-3
    loss: PiecewiseLinear = field(default_factory=Hinge)
    gap: float = 1e-4
    directions: Literal["bundle", "conjugate", "subgradient"] = "bundle"
    bundle_size: int = 100
    max_iterations: int = 1000
    ahead: float = 0.1

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("gap", self.gap)
        check_choice("directions", self.directions, ("bundle", "conjugate", "subgradient"))
        check_at_least("bundle_size", self.bundle_size, 2)
        check_at_least("max_iterations", self.max_iterations, 1)

    def new_directions(self) -> Directions:
        """Directions of a new sample."""
        if self.directions == "bundle":
            return BundleDirections(self.lam, self.bundle_size, self.ahead)
        return ConjugateDirections(self.lam, self.directions == "conjugate")

    def new_search(self) -> LineSearch:
        """The line search."""
        return ExactSearch()


def point_of(space: Space, vector: Vector) -> Point:
    """A point with its scores; one read of the rows."""
    return Point(vector, space.scores(vector), inner_product(vector, vector))


def solve_sample(
    space: Space,
    targets: FloatArray,
    method: Scs,
    start: Vector | None = None,
    until: float | None = None,
    begun: float | None = None,
) -> Sampled:
    """Minimise the objective on the rows of the space.

    Parameters
    ----------
    space : rows
    targets : (n_rows,), float64
    method : Scs
    start : where to begin, None for 0
    until : the gap to stop at, None for the method's
    begun : time.perf_counter() that seconds of the history count from, None for now

    Returns
    -------
    Sampled
    """
    begun = time.perf_counter() if begun is None else begun
    descent = Descent(space, targets, method, space.zero() if start is None else start)
    gap = method.gap if until is None else until
    history = [descent.record(begun)]
    while (reason := descent.finished(gap, method.max_iterations)) is None:
        descent.iterate()
        history.append(descent.record(begun))
    return Sampled(descent.point, descent.objective, descent.lower_bound, descent.iterations, reason, tuple(history))


class Descent:
    """A run on one sample: a point that only descends, a bound that only rises."""

    def __init__(self, space: Space, targets: FloatArray, method: Scs, start: Vector) -> None:
        self.space, self.targets, self.method = space, targets, method
        self.point = point_of(space, start)
        self.lower_bound, self.iterations = -math.inf, 0
        self._directions, self._search = method.new_directions(), method.new_search()
        self._slopes = np.empty_like(self.point.scores)
        self._idle = 0
        self._cut(self.point.scores, np.zeros_like(self.point.scores), at_point=True)

    @property
    def gap(self) -> float:
        """Objective less lower bound."""
        return self.objective - self.lower_bound

    def record(self, begun: float) -> Record:
        """Where the run stands."""
        return Record(time.perf_counter() - begun, self.space.n_rows, self.objective, self.lower_bound)

    def finished(self, gap: float, max_iterations: int) -> Reason | None:
        """Why to stop, or None."""
        floor = 16.0 * _EPSILON * (abs(self.objective) + abs(self.lower_bound))
        if self.gap <= max(gap, floor):
            return "gap" if self.gap <= gap else "rounding"
        if self._idle >= _STALLED:
            return "rounding"
        return "iterations" if self.iterations >= max_iterations else None

    def iterate(self) -> None:
        """One direction, one step, one cut: two reads of the rows."""
        before = self.objective, self.lower_bound
        direction = self._directions.propose(self.point, self.space)
        step = self.step_along(direction)
        self._move(direction, step)
        ahead = self._directions.ahead * (1.0 - step)
        at = self.point.scores + ahead * direction.scores if ahead > 0.0 else self.point.scores
        self._cut(at, direction.scores, at_point=at is self.point.scores)
        self.iterations += 1
        self._idle = self._idle + 1 if (self.objective, self.lower_bound) == before else 0

    def step_along(self, direction: Direction, longest: float = math.inf) -> float:
        """The step of the line search."""
        lam, squared = self.method.lam, inner_product(direction.vector, direction.vector)
        slope = lam * inner_product(self.point.vector, direction.vector)
        ray = Ray(self.point.scores, direction.scores, self.targets, slope, lam * squared, squared)
        return self._search.step(ray, self.method.loss, longest)

    def _move(self, direction: Direction, step: float) -> None:
        if step > 0.0:
            vector = self.point.vector.moved(step, direction.vector)
            scores = self.point.scores + step * direction.scores
            self.point = Point(vector, scores, inner_product(vector, vector))

    def _cut(self, scores: FloatArray, along: FloatArray, at_point: bool) -> None:
        n, loss = self.space.n_rows, self.method.loss
        losses, intercepts = loss.slopes_into(self._slopes, scores, along, self.targets)
        if not at_point:
            losses = loss.line(self.point.scores, along, self.targets, 0.0)[0]
        self.objective = losses / n + 0.5 * self.method.lam * self.point.squared_length
        bound = self._directions.add(self.space.gather(self._slopes), intercepts / n, self.point)
        self.lower_bound = max(self.lower_bound, bound)
