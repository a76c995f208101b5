"""Steps with a certificate at each check: how they end, the best of their points, and the linear systems they solve."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import linalg

from okl.foundation.class_tags import stored
from okl.foundation.errors import DivergedError
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_at_least, check_positive
from okl.solvers.accelerated.base import Certificate, Solution
from okl.solvers.accelerated.fapg import rounded_ending
from okl.solvers.base import Outcome

NO_WEIGHTS = 1e-6
"""Objective, as a share of that of the first dual point, about the means of the classes: weights are nearly 0."""

# checks, in which the gap does not fall to such a share, and the objective not by such a share of itself: of steps that
# go on, the gap of some problems stays what it is for dozens, as the dual point moves last
_MOST_IDLE, _IDLE, _STILL = 12, 0.99, 1e-9


@stored("newton-record")
@dataclass(frozen=True)
class NewtonRecord:
    """The method at one of its checks.

    iteration : Newton steps done; objective : negated dual objective; certificate : its gap
    residual : ||w - A a||; reads : requests to all rows so far; free : rows whose dual entry has a slope
    """

    iteration: int
    objective: float
    certificate: Certificate
    residual: float
    reads: int
    free: int


@dataclass(frozen=True)
class CertifiedState:
    """Base of the states of such methods; values.

    best_record : of the point of least primal objective at a check, with the gap between it and the best dual objective
    history : a record a check
    """

    best_record: NewtonRecord
    history: tuple[NewtonRecord, ...]

    @property
    def reads(self) -> int:
        """Return how often all rows were read."""
        return self.history[-1].reads


@dataclass(frozen=True)
class CertifiedSteps:
    """A method of steps with a certificate at each check, up to max_iterations, or a relative gap; or ConfigError."""

    tolerance: float = 1e-6
    max_iterations: int = 1000

    STEPS: ClassVar[str] = "Newton steps"
    REASON: ClassVar[str] = "the columns are of very different or very large size"
    """Why steps may make no progress in float64."""

    def __post_init__(self) -> None:
        check_positive("tolerance", self.tolerance)
        check_at_least("max_iterations", self.max_iterations, 1)

    def finished(self, state: Any) -> Outcome | None:
        record, certificate = state.history[-1], state.best_record.certificate
        if not (math.isfinite(record.certificate.gap) and self._is_finite(state)):
            return Outcome("diverged", f"the objective is {record.objective} after {record.iteration} {self.STEPS}")
        if certificate.relative_gap <= self.tolerance:
            return Outcome("done", f"relative duality gap {certificate.relative_gap:.2g}, tolerance {self.tolerance:g}")
        if (ending := rounded_ending(certificate, state.best_record is record, self.tolerance)) is not None:
            return ending
        reached = f"relative gap {certificate.relative_gap:.2g}"
        if record.iteration >= self.max_iterations:
            return Outcome("not converged", f"{record.iteration} {self.STEPS}, {reached}")
        gaps, primals = zip(*((one.certificate.gap, one.certificate.primal) for one in state.history), strict=True)
        if len(gaps) <= _MOST_IDLE or min(gaps[-_MOST_IDLE:]) <= _IDLE * min(gaps[:-_MOST_IDLE]):
            return None
        least = min(primals[:-_MOST_IDLE])
        if least - min(primals[-_MOST_IDLE:]) > _STILL * abs(least):
            return None
        steps, reason = f"{self.STEPS[0].upper()}{self.STEPS[1:]}", self.REASON
        if abs(certificate.primal) < NO_WEIGHTS * abs(state.history[0].certificate.dual):
            reason = (
                "the best objective is nearly 0 beside the first one: nu-SVM is close to its least valid nu, choose a "
                "larger one; with other models, costs or columns are of very different size"
            )
        return Outcome(
            "not converged", f"{steps} make no progress in float64 after {record.iteration}, {reached}: {reason}"
        )

    def solution(self, state: Any, problem: Any) -> Solution:
        """Return the weights of the best point, with its certificate."""
        certificate = state.best_record.certificate
        return Solution(state.best_point.weights.copy(), certificate.bias, certificate)

    def _is_finite(self, state: Any) -> bool:
        return bool(np.isfinite(state.point.weights).all())


def compared(
    record: NewtonRecord, before: CertifiedState | None
) -> tuple[NewtonRecord, tuple[NewtonRecord, ...], bool]:
    """Return the best record, the history, and whether the best point is this one; both get the better bound."""
    if before is None:
        return record, (record,), True
    best = before.best_record
    bound = min(max(record.certificate.dual, best.certificate.dual), record.certificate.primal, best.certificate.primal)
    record, best = (replace(one, certificate=replace(one.certificate, dual=bound)) for one in (record, best))
    better = record.certificate.primal < best.certificate.primal
    return record if better else best, (*before.history, record), better


def positive_solution(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve a definite system (n, n), given its lower triangle, for (n,) or (n, k); or raise DivergedError."""
    scale = 1.0 / np.sqrt(np.einsum("ii->i", matrix))
    scaled = matrix * scale * scale[:, np.newaxis]
    if not np.isfinite(np.tril(scaled)).all():
        raise DivergedError(
            "A Newton system is not finite: squares of the columns leave the range of float64. Scale the columns, such "
            "as by --scale standard."
        )
    added_share = 0.0
    while True:
        try:
            factor = linalg.cho_factor(scaled, lower=True, check_finite=False)
            break
        except linalg.LinAlgError:  # positive definite but for rounding
            added_share = max(10.0 * added_share, 1e-14)
            np.einsum("ii->i", scaled)[:] = 1.0 + added_share
    solution: FloatArray = (scale * linalg.cho_solve(factor, (scale * right.T).T, check_finite=False).T).T
    return solution
