"""Stochastic conjugate subgradients: the method, and its solution of one sample."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from okl.checks import check_at_least, check_choice, check_positive
from okl.errors import ConfigError
from okl.subgradient.descent import Descent, Reason, Record, Watch
from okl.subgradient.directions import BundleDirections, ConjugateDirections, Directions, Point
from okl.subgradient.linesearch import BracketingSearch, ExactSearch, LineSearch
from okl.subgradient.losses import Hinge, PiecewiseLinear
from okl.subgradient.vectors import Space, Vector
from okl.types import FloatArray

Bias = Literal["none", "regularised", "free"]


@dataclass(frozen=True, eq=False)
class Sampled:
    """The solution of a sampled problem.

    point : weights, their scores on the sample, and the bias if it is free
    objective, lower_bound : the sampled optimum lies between
    descent : the run, from which one on more rows goes on
    reason : "gap" reached; "rounding" or "stalled", nothing more can be told apart; "iterations" used up
    """

    point: Point
    objective: float
    lower_bound: float
    iterations: int
    reason: Reason
    history: tuple[Record, ...] = field(repr=False)
    descent: Descent = field(repr=False)

    @property
    def gap(self) -> float:
        """Objective less lower bound, >= 0."""
        return max(0.0, self.objective - self.lower_bound)


@dataclass(frozen=True)
class Scs:
    """Minimise lam/2 ||w||^2 + mean_i loss(y_i, <w, phi(x_i)> + b).

    Parameters
    ----------
    lam : float > 0
    loss : PiecewiseLinear
    gap : float > 0, of the objective, absolute
    directions : "bundle" of up to bundle_size cuts; "conjugate", the paper's pair; "subgradient", its lambda* = 0
    bundle_size : int >= 2
    line_search : "exact", or "bracketing", the paper's, for its own directions
    bias : "none"; "regularised", b is one more weight, of a column of ones or of k + 1, which whoever makes the space
        puts there; "free", b is not in the regulariser, with a bundle and one output only
    max_iterations : int >= 1, on one sample
    ahead : in [0, 1), how far towards the bundle's proposal beyond the new point the next cut is taken

    Raises
    ------
    ConfigError : a number outside its range, a combination that there is not

    Source: Zhang & Sen, "The stochastic conjugate subgradient algorithm for kernel support vector machines",
    Algorithm 1, with lam for the printed 1.
    """

    lam: float = 1e-3
    loss: PiecewiseLinear = field(default_factory=Hinge)
    gap: float = 1e-4
    directions: Literal["bundle", "conjugate", "subgradient"] = "bundle"
    bundle_size: int = 100
    line_search: Literal["exact", "bracketing"] = "exact"
    bias: Bias = "none"
    max_iterations: int = 1000
    ahead: float = 0.1

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("gap", self.gap)
        check_choice("directions", self.directions, ("bundle", "conjugate", "subgradient"))
        check_choice("line_search", self.line_search, ("exact", "bracketing"))
        check_choice("bias", self.bias, ("none", "regularised", "free"))
        check_at_least("bundle_size", self.bundle_size, 2)
        check_at_least("max_iterations", self.max_iterations, 1)
        if not 0.0 <= self.ahead < 1.0:
            raise ConfigError(f"ahead = {self.ahead!r}, but it takes a number from 0 on, below 1.")
        if self.line_search == "bracketing" and self.directions == "bundle":
            raise ConfigError(
                'line_search = "bracketing" measures steps by the length of a subgradient: '
                'use directions = "conjugate" or "subgradient" with it, or the exact search.'
            )
        if self.bias == "free" and (self.directions != "bundle" or self.loss.task == "multiclass"):
            raise ConfigError(
                'bias = "free" takes directions = "bundle" and one output: use bias = "regularised" or "none".'
            )

    def new_directions(self) -> Directions:
        """Directions of a new sample."""
        if self.directions == "bundle":
            return BundleDirections(self.lam, self.bundle_size, self.ahead)
        return ConjugateDirections(self.lam, self.directions == "conjugate")

    def new_search(self) -> LineSearch:
        """The line search."""
        return ExactSearch() if self.line_search == "exact" else BracketingSearch()

    @property
    def problem(self) -> str:
        """The problem that is solved, in words."""
        scores = "<w, phi(x)>" if self.bias == "none" else "<w, phi(x)> + b"
        length = "||w||^2 + b^2" if self.bias == "regularised" else "||w||^2"
        return f"least {self.lam:g}/2 ({length}) + mean {self.loss.name} loss of {scores}"


def solve_sample(
    space: Space,
    targets: FloatArray,
    method: Scs,
    start: Vector | None = None,
    until: float | None = None,
    begun: float | None = None,
    watch: Watch | None = None,
    before: Descent | None = None,
) -> Sampled:
    """Minimise the objective on the rows of a space.

    Parameters
    ----------
    space : rows
    targets : (n_rows,), float64
    method : Scs
    start : where to begin, None for 0
    until : the gap to stop at, None for the method's
    begun : time.perf_counter() that seconds of the history count from, None for now
    watch : called with the run before every iteration and after the last one
    before : a run on the first of these rows that ended at the start, whose cuts are of use here, too

    Returns
    -------
    Sampled
    """
    begun = time.perf_counter() if begun is None else begun
    descent = Descent(space, targets, method, space.zero() if start is None else start, before)
    gap = method.gap if until is None else until
    history = [descent.record(begun)]
    while (reason := descent.finished(gap, method.max_iterations)) is None:
        if watch is not None:
            watch(descent)
        descent.iterate()
        history.append(descent.record(begun))
    if watch is not None:
        watch(descent)
    found = descent.point, descent.objective, descent.lower_bound, descent.iterations
    return Sampled(*found, reason, tuple(history), descent)
