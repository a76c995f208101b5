"""Newton's method for the minimax models, whose problems are the moments of the classes.

Where columns are of very different size, the accelerated method needs more iterations than anyone waits for; a Newton
step does not depend on the size of columns. The spreads have no derivative where they are 0: they are smoothed, and
ten times less as often as a step gains less than the smoothing may hide.

Source: Nocedal & Wright, Numerical Optimization, 2006, section 3.3; Chen, Qi & Sun, Mathematics of Computation 67,
1998, for the smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from okl.foundation.class_tags import stored
from okl.foundation.types import FloatArray
from okl.solvers.accelerated import certified_steps
from okl.solvers.accelerated.base import EPSILON, CompositeProblem, Iterate, Solution, check_start
from okl.solvers.accelerated.dual import MinimaxProblem


def is_supported(problem: CompositeProblem) -> bool:
    """Return whether this method solves a problem."""
    return isinstance(problem, MinimaxProblem)


@stored("minimax-newton-state")
@dataclass(frozen=True)
class MinimaxState(certified_steps.CertifiedState):
    """weights : w (n,); smoothing : of the spreads, in their unit; best : a dual point, and the w of least gap."""

    weights: FloatArray
    smoothing: float
    best: Iterate


_WARM = 1e-3  # share of the first smoothing where a point is given
_LESS_SMOOTH, _ENOUGH, _MOST_HALVINGS = 0.1, 1e-4, 60  # at a time; share of the slope along a step that it must gain


@dataclass(frozen=True)
class MinimaxNewton(certified_steps.CertifiedSteps):
    """Newton's method on the smoothed objective -<w, d> + kappa sum_k sqrt(||S_k'w||^2 + smoothing^2) + 1/2 ||w||^2."""

    def opened(self, problem: MinimaxProblem, point: FloatArray | None = None) -> MinimaxProblem:
        """Return the problem. Raises DataError (the point has another length, or is not finite)."""
        if point is not None:
            check_start(point, problem.n_points)
        return problem

    def start(self, problem: MinimaxProblem, point: FloatArray | None = None) -> MinimaxState:
        weights = problem.difference.copy()
        if point is not None:
            problem.apply(weights, point)
        smoothing = float(_spreads(problem, weights).max())
        smoothing *= 1.0 if point is None else _WARM
        return _checked(problem, weights, smoothing or 1.0, None)

    def advance(self, state: MinimaxState, problem: MinimaxProblem) -> MinimaxState:
        weights, smoothing = state.weights, state.smoothing
        slopes, hessian = derivatives(problem, weights, smoothing)
        change = -certified_steps.positive_solution(hessian, slopes)
        along, before = float(slopes @ change), objective(problem, weights, smoothing)
        # the objective is the difference of terms that may be far larger
        step, allowed = 1.0, 16.0 * EPSILON * (abs(before) + 2.0 * abs(float(weights @ problem.difference)))
        for _ in range(_MOST_HALVINGS):
            moved = weights + step * change
            if objective(problem, moved, smoothing) <= before + _ENOUGH * step * along + allowed:
                break
            step *= 0.5
        near = step == 1.0 and -along <= problem.kappa * problem.n_balls * smoothing
        return _checked(problem, moved, smoothing * (_LESS_SMOOTH if near else 1.0), state)

    def solution(self, state: MinimaxState, problem: MinimaxProblem) -> Solution:
        return problem.solution(state.best.point, state.best.image, state.best_record.certificate)

    def _is_finite(self, state: MinimaxState) -> bool:
        return bool(np.isfinite(state.weights).all())


def _spreads(problem: MinimaxProblem, weights: FloatArray) -> FloatArray:
    """Return the lengths of S_k'w, (k,)."""
    pulled = np.empty(problem.n_points)
    problem.adjoint(pulled, weights)
    return np.array([np.linalg.norm(pulled[ball]) for ball in problem.balls])


def objective(problem: MinimaxProblem, weights: FloatArray, smoothing: float) -> float:
    """Return the smoothed objective."""
    spreads = float(np.hypot(_spreads(problem, weights), smoothing).sum())
    return problem.kappa * spreads - float(weights @ problem.difference) + 0.5 * float(weights @ weights)


def derivatives(problem: MinimaxProblem, weights: FloatArray, smoothing: float) -> tuple[FloatArray, FloatArray]:
    """Return the first (n,) and second (n, n) derivatives of the smoothed objective."""
    slopes, hessian = weights - problem.difference, np.eye(len(weights))
    sizes = np.hypot(_spreads(problem, weights), smoothing)
    for size, covariance in zip(sizes, problem.covariances, strict=True):
        pulled = covariance @ weights
        slopes += problem.kappa / size * pulled
        hessian += problem.kappa / size * (covariance - np.outer(pulled / size, pulled / size))
    return slopes, hessian


def _checked(
    problem: MinimaxProblem, weights: FloatArray, smoothing: float, before: MinimaxState | None
) -> MinimaxState:
    """Return the state at weights, whose dual point is the gradient of the smoothed spreads."""
    pulled, image = np.empty(problem.n_points), np.empty(problem.n_image)
    problem.adjoint(pulled, weights)
    sizes = np.hypot(np.linalg.norm(pulled.reshape(problem.n_balls, -1), axis=1), smoothing)
    point = pulled * np.repeat(-problem.kappa / sizes, problem.n_image)
    problem.apply(image, point)
    certificate = problem.certificate(point, weights, pulled)
    certificate = replace(certificate, dual=min(-problem.smooth(point, image), certificate.primal))
    record = certified_steps.NewtonRecord(
        iteration=0 if before is None else before.history[-1].iteration + 1,
        objective=problem.smooth(point, image),
        certificate=certificate,
        residual=float(np.linalg.norm(weights - image)),
        reads=1,
        free=problem.n_balls,
    )
    best_record, history, better = certified_steps.compared(record, before)
    best = Iterate(point, weights) if before is None or better else before.best
    return MinimaxState(best_record, history, weights, smoothing, best)
