"""Dual coordinate descent with a certified gap."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from okl.compiled.bundle import CoefficientBounds, descend_computed, descend_kernel, descend_rows
from okl.compiled.jit import as_compiled
from okl.compiled.kernels import LANES
from okl.compiled.products import add_rows, multiply_rows
from okl.foundation.errors import ConfigError
from okl.foundation.types import Doubles, FloatArray, Integers
from okl.foundation.validation import check_at_least, check_positive
from okl.kernels import Kernel

_CHECK_EVERY = 4  # passes' worth of visits between two gaps, each of which costs about one


class GapCheck(NamedTuple):
    """Result of a gap check: seconds so far, rows visited, primal and dual objective."""

    seconds: float
    visits: int
    primal: float
    dual: float


@dataclass(eq=False)
class CoordinateState:
    """State of one descent: coefficients change in place."""

    method: DualDescent
    box: CoefficientBounds
    coefficients: Doubles
    history: list[GapCheck] = field(default_factory=list)

    def result(
        self,
        visit: Callable[[Doubles, Integers], None],
        measure: Callable[[Doubles], float],
        weights: Doubles | None = None,
    ) -> CoordinateResult:
        """Return what `run` leads to; weights : (n_columns,), which visits change, None with a kernel."""
        scores = self.run(visit, measure)
        return CoordinateResult(
            self.coefficients, np.zeros(0) if weights is None else weights, scores, tuple(self.history)
        )

    def run(self, visit: Callable[[Doubles, Integers], None], measure: Callable[[Doubles], float]) -> Doubles:
        """Visit rows in random orders until the gap is reached; the scores (m,) of the rows.

        visit : gives rows their best coefficients and overwrites pulls by y - s; measure : overwrites scores, |w|^2
        """
        m, rng, started_at = len(self.coefficients), np.random.default_rng(self.method.seed), time.perf_counter()
        pulls, scores, active = np.zeros(m), np.zeros(m), np.arange(m)
        visits, since, at_rest = 0, 0, False
        while True:
            rng.shuffle(active)
            before = self.coefficients[active]
            visit(pulls, active)
            visits, since = visits + len(active), since + len(active)
            if since >= (_CHECK_EVERY if self.history else 1) * m or at_rest:
                square = measure(scores)
                seconds = time.perf_counter() - started_at
                self.history.append(GapCheck(seconds, visits, *self._objectives(scores, square)))
                if self._over(seconds, visits):
                    return scores
                since, pulls, active, before = 0, self.box.targets - scores, np.arange(m), self.coefficients.copy()
            active, largest = self._worth_visiting(active, pulls, before)
            # no row then adds more than this to the gap, unless it is not visited: then check all rows
            at_rest = bool(self.history) and largest <= 0.5 * self.method.relative_gap * abs(self.history[-1].primal)

    def _objectives(self, scores: Doubles, square: float) -> tuple[float, float]:
        box, half = self.box, 0.5 * self.method.lam * square
        lost = np.maximum(0.0, 1.0 - box.targets * scores)
        return half + float(lost.mean()), float(np.mean(box.targets * self.coefficients)) - half

    def _over(self, seconds: float, visits: int) -> bool:
        last, method = self.history[-1], self.method
        reached = last.primal - last.dual <= method.relative_gap * abs(last.primal)
        return reached or seconds >= method.most_seconds or visits >= method.most_passes * len(self.coefficients)

    def _worth_visiting(self, active: Integers, pulls: Doubles, before: Doubles) -> tuple[Integers, float]:
        """Active rows but for those held at a bound harder than any other one was moved; how hard that was.

        before : coefficients of these rows when the pulls were measured
        """
        up = np.where(before < self.box.upper[active], pulls[active], -np.inf)
        down = np.where(before > self.box.lower[active], -pulls[active], -np.inf)
        rise = np.maximum(up, down)  # the slope of the dual where it rises most: below 0 at rest
        largest = max(float(rise.max(initial=0.0)), 0.0)
        visited = active[rise >= -largest]
        return (visited if len(visited) else active), largest


@dataclass(frozen=True, eq=False)
class CoordinateResult:
    """Result of the descent.

    coefficients : (m,), b with w = sum_i b_i z_i / (lam m); weights : (n_columns,), empty with a kernel
    scores : (m,), of the rows
    history : checks of the gap, the last one of this solution
    """

    coefficients: Doubles
    weights: Doubles
    scores: Doubles
    history: tuple[GapCheck, ...]

    @property
    def objective(self) -> float:
        return self.history[-1].primal

    @property
    def bound(self) -> float:
        return self.history[-1].dual

    @property
    def gap(self) -> float:
        return self.objective - self.bound


@dataclass(frozen=True)
class DualDescent:
    """min lam / 2 |w|^2 + mean hinge, each row's dual coefficient in turn at its own best value, in random orders.

    Parameters
    ----------
    lam : > 0; C of LIBLINEAR is 1 / (lam m)
    relative_gap : > 0, of the primal objective; where it is reached the descent ends
    most_passes : visits at most, in units of the rows; most_seconds : of the descent

    Raises
    ------
    ConfigError : a parameter is out of range

    Source: Hsieh et al., ICML 2008, Algorithm 3 (permutations, shrinking).
    """

    lam: float
    relative_gap: float = 1e-6
    most_passes: int = 10_000
    most_seconds: float = float("inf")
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("relative_gap", self.relative_gap)
        check_at_least("most_passes", self.most_passes, 1)

    def solve_rows(self, rows: FloatArray, targets: Doubles) -> CoordinateResult:
        """Solve on explicit rows (m, n_columns), float32 or float64; sums are float64."""
        rows = as_compiled(rows, rows.dtype)
        ones, weights = np.ones(len(rows)), np.zeros(rows.shape[1])
        descent = self.descent(targets, np.einsum("ij,ij->i", rows, rows, dtype=np.float64))

        def visit(pulls: Doubles, order: Integers) -> None:
            descend_rows(descent.coefficients, weights, pulls, order, rows, descent.box)

        def measure(scores: Doubles) -> float:
            weights[:] = 0.0  # afresh: no rounding of the steps is left in it
            add_rows(weights, rows, ones, descent.coefficients / descent.box.scale)
            multiply_rows(scores, rows, ones, weights)
            return float(weights @ weights)

        return descent.result(visit, measure, weights)

    def solve_matrix(self, matrix: FloatArray, targets: Doubles) -> CoordinateResult:
        """Solve on a kernel matrix (m, m), symmetric and positive semi-definite, float32 or float64."""
        matrix = as_compiled(matrix, matrix.dtype)
        ones, carried = np.ones(len(matrix)), np.zeros(len(matrix))
        descent = self.descent(targets, np.diagonal(matrix))

        def visit(pulls: Doubles, order: Integers) -> None:
            descend_kernel(descent.coefficients, carried, pulls, order, matrix, descent.box)

        def measure(scores: Doubles) -> float:
            # afresh: no rounding of the steps is left in it
            multiply_rows(carried, matrix, ones, descent.coefficients / descent.box.scale)
            scores[:] = carried
            return float(descent.coefficients @ carried) / descent.box.scale

        return descent.result(visit, measure)

    def solve_kernel(self, kernel: Kernel, inputs: FloatArray, targets: Doubles) -> CoordinateResult:
        """Solve for inputs whose kernel matrix does not fit in memory: rows of it are computed as they are needed.

        Raises
        ------
        ConfigError : the kernel is not compiled
        """
        if kernel.rule is None:
            raise ConfigError(f"The kernel {kernel.name!r} is not compiled. Compute its matrix and call solve_matrix.")
        supports, room = as_columns(inputs), np.zeros(as_columns(inputs).shape[1], dtype=inputs.dtype)
        parts = [inputs[first : first + 256] for first in range(0, len(inputs), 256)]
        squares = np.concatenate([np.diagonal(kernel.matrix(part, part)) for part in parts])
        carried, descent, rule = np.zeros(len(targets)), self.descent(targets, squares), kernel.rule

        def visit(pulls: Doubles, order: Integers) -> None:
            descend_computed(descent.coefficients, carried, pulls, order, room, supports, rule, descent.box)

        def measure(scores: Doubles) -> float:
            scores[:] = carried
            return float(descent.coefficients @ carried) / descent.box.scale

        return descent.result(visit, measure)

    def descent(self, targets: Doubles, squares: FloatArray) -> CoordinateState:
        """Return a descent from coefficients of 0; squares : (m,), squared lengths of the rows."""
        targets = as_compiled(targets, np.float64)
        bounds = np.minimum(targets, 0), np.maximum(targets, 0)
        box = CoefficientBounds(targets, *bounds, as_compiled(squares, np.float64), self.lam * len(targets))
        return CoordinateState(self, box, np.zeros(len(targets)))


def as_columns(inputs: FloatArray) -> FloatArray:
    """Return inputs (m, n_inputs) transposed and padded with zeros, as the kernel rows require."""
    columns = np.zeros((inputs.shape[1], -(-len(inputs) // LANES) * LANES), dtype=inputs.dtype)
    columns[:, : len(inputs)] = inputs.T
    return columns
