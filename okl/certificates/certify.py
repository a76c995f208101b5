"""The certificate of a run.

A proof is stored in the result of a run as "certificate", with its kind; a vacuous one is not shown, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from okl.certificates.hindsight import (
    MOST_BYTES,
    TOLERANCE,
    HindsightProgress,
    HindsightSolution,
    MemoryRows,
    read_all_rows,
    solve_hindsights,
    solve_in_ball,
)
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution
from okl.features.fourier import FourierFeatures
from okl.features.predictors import LinearPredictor
from okl.foundation.telemetry import Observer
from okl.foundation.types import Doubles, Integers
from okl.kernels import Scaled
from okl.solvers.accelerated.base import Certificate
from okl.solvers.base import CertifiedSolver, SolverProgress
from okl.solvers.online.constrained import ConstrainedLearner
from okl.solvers.online.linear import LinearLearner, longest_subgradient
from okl.solvers.online.nystrom import NOGDLearner
from okl.solvers.online.solver import OnlineSolver, OnlineState
from okl.solvers.online.tracking import TrackingFactory, TrackingLearner
from okl.solvers.subgradient.losses import make_piecewise
from okl.solvers.subgradient.pegasos import PegasosFactory
from okl.solvers.subgradient.solver import GapBounder

# Regret bounds of projected gradient descent.
#
# Legend: T rows played, w_t the weights that row t was predicted with, g_t the subgradient of its loss there, u
# weights of the ball to compare with, eta_t the step at row t.

CERTAINTY = 0.95
_LARGEST_ERROR = 2.0  # of inner products of rows of length 1 as a kernel's values in [0, 1]: 2 holds for certain


@dataclass(frozen=True)
class StepSizes:
    """eta_t = size, or size / sqrt(t)."""

    size: float
    decaying: bool

    def at(self, row: int) -> float:
        """Return eta_t; row : t, from 1."""
        return self.size / math.sqrt(row) if self.decaying else self.size


@dataclass(frozen=True)
class LearnerLosses:
    """Losses of a learner on its first rows (T >= 1): their sum, and stepped_gradients, sum of eta_t ||g_t||^2."""

    rows: int
    loss: float
    stepped_gradients: float


def map_space_bound(played: LearnerLosses, steps: StepSizes, radius: float, comparator_norm: float) -> float:
    """Return the upper bound of the regret against weights u of the ball.

    Constant steps:  ||u||^2 / (2 eta) + eta / 2 sum ||g_t||^2
    decaying steps:  ||u||^2 / (2 eta_1) + (radius + ||u||)^2 / 2 (1 / eta_T - 1 / eta_1) + 1/2 sum eta_t ||g_t||^2

    as <g_t, w_t - u> <= (||w_t - u||^2 - ||w_(t+1) - u||^2) / (2 eta_t) + eta_t / 2 ||g_t||^2, where projecting onto a
    ball that holds u brings w no further from it. Summed, ||w_1 - u|| = ||u|| and every other ||w_t - u|| is at most
    radius + ||u||, in place of the diameter.

    radius : of the ball; comparator_norm : ||u|| <= radius

    Source: Zinkevich, ICML 2003, Theorem 1 and its proof; Lu et al., JMLR 17(47), 2016, (5).
    """
    first, last = steps.at(1), steps.at(played.rows)
    start = comparator_norm**2 / (2.0 * first)
    shrinking = 0.5 * (radius + comparator_norm) ** 2 * (1.0 / last - 1.0 / first)
    return start + shrinking + 0.5 * played.stepped_gradients


def constrained_bound(played: LearnerLosses, steps: StepSizes, radius: float, comparator_norm: float) -> float:
    """Return the bound of Algorithm 1 of Yi et al. against weights within its limits, with alpha_t = 2 eta_t.

    Its regret is at most the sum of (||u - w_t||^2 - ||u - w_(t+1)||^2) / alpha_t and of alpha_t / 2 ||g_t||^2, which
    replaces (1 / 2) G^2 alpha_t, as (41) needs no more of G than that: half of the way of a step belongs to its
    constraints. The first sum is that of map_space_bound, with 2 eta_t for alpha_t.

    Source: Yi et al., ICML 2021, Lemma 1, (13), and Lemma 4 in its proof; stated for gamma_0 <= 1 / (sqrt(2) G) and
    constraints that stay, which it is claimed for. Weights u keep to the limits less their margins, as g has them.
    """
    return map_space_bound(played, steps, radius, comparator_norm) + 0.5 * played.stepped_gradients


def growth_exponent(rows: Doubles, regrets: Doubles) -> float | None:
    """Return the slope of log(regret) against log(rows); None with fewer than two horizons or a regret <= 0."""
    if len(rows) < 2 or (regrets <= 0.0).any():
        return None
    slope, _ = np.polyfit(np.log(rows), np.log(regrets), 1)
    return float(slope)


@dataclass(frozen=True)
class KernelSetting:
    """Constants of the bound in the space of the kernel, other than the steps.

    n_inputs : d; n_frequencies : D; diameter : of a ball that holds the data, in units of the inputs
    second_moment : sigma_p^2 = E ||u||^2 of the spectral density, infinite where it has none
    lipschitz : L of the loss by the score; l1_norm : sum of |alpha_t|, f = sum_t alpha_t k(x_t, .) to compare with, of
        several classes the sum of max_r |alpha_{r,t}|; n_classes : m, 1 for two classes
    """

    n_inputs: int
    n_frequencies: int
    diameter: float
    second_moment: float
    lipschitz: float
    l1_norm: float
    n_classes: int = 1


@dataclass(frozen=True)
class KernelBound:
    """Theorem 1, or 3 for several classes, at T rows.

    The bound holds with at least this probability, with kernel values off by epsilon at most.

    vacuous : whether the bound exceeds the learner's own loss, which bounds the regret anyway
    """

    bound: float
    epsilon: float
    probability: float
    vacuous: bool


def kernel_space_bound(played: LearnerLosses, step: float, setting: KernelSetting) -> KernelBound:
    """Return the bound of the least epsilon that is 95% certain.

    two classes:      (1 + epsilon) ||f||_1^2 / (2 eta) + eta / 2 L^2 T + epsilon L T ||f||_1
    several classes:  m (1 + epsilon) ||f||_1^2 / (2 eta) + eta L^2 T + 2 epsilon L T ||f||_1

    as a step of several classes changes the weights of two. The map is scaled to ||z|| = 1 here. The theorem's
    probability is 1 - 2^8 (sigma_p diameter / epsilon)^2 exp(-D epsilon^2 / (4 (d + 2))). An epsilon of 2 holds for
    certain, whatever the map.

    step : eta; where steps decay the last one, the longest for which no step was smaller

    Source: Lu et al., JMLR 17(47), 2016, Theorems 1 and 3 (||z||^2 = D); Rahimi & Recht, NIPS 2007, Claim 1.
    """
    epsilon = _least_error(setting)
    rows, norm, lipschitz = played.rows, setting.l1_norm, setting.lipschitz
    changed = 2.0 if setting.n_classes > 1 else 1.0
    start = setting.n_classes * (1.0 + epsilon) * norm**2 / (2.0 * step)
    bound = start + changed * (0.5 * step * lipschitz**2 + epsilon * lipschitz * norm) * rows
    certain = epsilon >= _LARGEST_ERROR
    return KernelBound(bound, epsilon, 1.0 if certain else CERTAINTY, not bound < played.loss)


def _least_error(setting: KernelSetting) -> float:
    """Return the smallest epsilon of probability CERTAINTY, by bisection: the probability grows with it; at most 2."""
    low, high = 0.0, _LARGEST_ERROR
    if _log_failure(high, setting) > math.log(1.0 - CERTAINTY):
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _log_failure(middle, setting) > math.log(1.0 - CERTAINTY) else (low, middle)
    return high


def _log_failure(epsilon: float, setting: KernelSetting) -> float:
    spread = math.sqrt(setting.second_moment) * setting.diameter
    if epsilon <= 0.0 or math.isinf(spread):
        return math.inf
    if spread == 0.0:
        return -math.inf
    decay = setting.n_frequencies * epsilon**2 / (4.0 * (setting.n_inputs + 2))
    return 8.0 * math.log(2.0) + 2.0 * math.log(spread / epsilon) - decay


def nystrom_floor(
    least: float, residuals: Doubles, radius: float, lipschitz: float, class_weights: Doubles | None = None
) -> float:
    """Return a lower bound of the loss of functions of the kernel with ||f|| <= radius, from that of Nystrom features.

    The orthogonal projection of f onto the functions w'z is no longer than f, and at x_t it differs from f by at most
    radius sqrt(r_t), r_t = k(x_t, x_t) - ||z(x_t)||^2. Summed over the rows,

    Lipschitz losses :   loss(f) >= least - lipschitz radius sum_t c_t sqrt(r_t)
    half squared loss :  sqrt(2 loss(f)) >= sqrt(2 least) - radius sqrt(sum_t r_t), by Minkowski's inequality

    This holds for certain, with r_t computed exactly; sum_t r_t is the trace of K - K_hat. It takes the place of
    Lemmas 1 and 2, whose optimum has a regulariser in place of the ball, and whose cost of the projection is
    ||K - K_hat|| / (2 lambda), n_classes times that for several classes.

    least : sum of losses that no w with ||w|| <= radius falls below; residuals : r (rows,) >= 0; radius : > 0
    lipschitz : of the loss by the scores, in the Euclidean norm; infinite for the half squared loss
    class_weights : c (rows,), None for 1
    Source: Lu et al., JMLR 17(47), 2016, Theorems 2 and 4 and Lemmas 1 and 2; Yang et al., NIPS 2012, Lemma 1.
    """
    if math.isinf(lipschitz):
        return 0.5 * max(0.0, math.sqrt(2.0 * least) - radius * math.sqrt(float(residuals.sum()))) ** 2
    weights = 1.0 if class_weights is None else class_weights
    return max(0.0, least - lipschitz * radius * float(np.sum(weights * np.sqrt(residuals))))


def fourier_error(rows: int, n_frequencies: int) -> float:
    """Return the largest difference of inner products of mapped rows from kernel values, with probability CERTAINTY.

    Each of the rows (rows - 1) / 2 products is a mean of n_frequencies independent cosines: by Hoeffding's inequality,
    none is off by more than sqrt(2 log(rows^2 / (1 - CERTAINTY)) / n_frequencies), or 2.

    Source: Hoeffding, Journal of the American Statistical Association 58, 1963, Theorem 2.
    """
    return min(_LARGEST_ERROR, math.sqrt(2.0 * math.log(rows**2 / (1.0 - CERTAINTY)) / n_frequencies))


@dataclass(frozen=True, eq=False)
class RegretAtHorizon:
    """Learner and comparator on the first rows."""

    played: LearnerLosses
    learner: LinearLearner
    hindsight: HindsightSolution

    @property
    def regret(self) -> float:
        """Return the loss in excess of that of the weights found in hindsight."""
        return self.played.loss - self.hindsight.certificate.primal

    @property
    def steps(self) -> StepSizes:
        return StepSizes(self.learner.step_size, self.learner.decaying)

    @property
    def radius(self) -> float:
        """Return the radius of the ball."""
        assert self.learner.radius is not None
        return self.learner.radius

    def _bound(self, norm: float) -> float | None:
        """Return the theoretical bound of the regret against weights of a norm, None where no theorem applies."""
        if not isinstance(self.learner, ConstrainedLearner):
            return map_space_bound(self.played, self.steps, self.radius, norm)
        if not self.learner.covered or self.learner.n_experts > 1:
            return None
        # RECOO's step minimises with a term >= 0 that is 0 at u: the bound without limits holds
        bound = map_space_bound if self.learner.rectified else constrained_bound
        return bound(self.played, self.steps, self.radius, norm)

    def figures(self) -> dict[str, Any]:
        """Return the regret against the weights found, and regret_at_most, its bound against the best ones."""
        norm = float(np.linalg.norm(self.hindsight.weights))
        return {
            "rows": self.played.rows,
            "loss": self.played.loss,
            "regret": self.regret,
            "regret_at_most": self.played.loss - self.hindsight.certificate.dual,
            "average_regret": self.regret / self.played.rows,
            "bound": self._bound(norm),
        }

    def comparator(self) -> dict[str, Any]:
        """Return the loss of the best weights found in hindsight, their distance from the optimum, and constraints."""
        proof, weights = self.hindsight.certificate, self.hindsight.weights
        figures = {
            "objective": proof.primal,
            "dual_objective": proof.dual,
            "relative_gap": proof.relative_gap,
            "radius": self.radius,
            "norm": float(np.linalg.norm(weights)),
            "iterations": self.hindsight.iterations,
            "reason": self.hindsight.reason,
        }
        if isinstance(self.learner, ConstrainedLearner):
            values = self.learner.kept.values(weights)
            figures["values"] = (values[0] if len(values) == 1 else values).tolist()
            figures["excess"] = float(self.learner.kept.excess(weights).max())
        return figures

    def kernel_bound(self, schema: Schema, rows: MemoryRows, independent: bool) -> dict[str, Any] | None:
        """Return the bound against functions of the kernel itself; None where none applies.

        independent : whether frequencies are independent draws, as the theorems and Hoeffding's inequality need them

        Fourier maps : Theorem 1 or 3 against f = sum_t alpha_t k(x_t, .) with the comparator's own alpha; of a
            regression, and of sparse rows, whose extent is unknown, see `_floor_bound`
        Nystrom maps : see `nystrom_floor`, for certain
        """
        feature_map = self.learner.feature_map
        if isinstance(self.learner, ConstrainedLearner):  # a projection of a function within limits may be outside
            return None
        if rows.residuals is not None:
            return self._floor_bound(rows)
        if not (isinstance(feature_map, FourierFeatures) and independent):
            return None
        if self.learner.task == "regression" or schema.sparse is not None:  # the theorems take a Lipschitz loss
            return self._floor_bound(rows, fourier_error(self.played.rows, feature_map.n_frequencies))
        # the training rows' inputs are in a box; frequencies of the Laplacian kernel have no moments
        sides = np.array([column.maximum - column.minimum for column in schema.input_statistics])
        sides, kernel = sides * schema.shift_and_factor[1], feature_map.kernel
        setting = KernelSetting(
            n_inputs=feature_map.n_inputs,
            n_frequencies=feature_map.n_frequencies,
            diameter=float(np.linalg.norm(sides)),
            second_moment=kernel.second_moment(feature_map.n_inputs) if isinstance(kernel, Scaled) else math.inf,
            lipschitz=max(self.learner.class_weights or (1.0,)),
            l1_norm=self.hindsight.l1_norm,
            n_classes=self.learner.n_outputs,
        )
        step = self.steps.at(self.played.rows)
        bound = kernel_space_bound(self.played, step, setting)
        return {
            "theorem": f"Lu et al., JMLR 17(47), 2016, Theorem {3 if setting.n_classes > 1 else 1}",
            "bound": bound.bound,
            "epsilon": bound.epsilon,
            "probability": bound.probability,
            "step": step,
            "l1_norm": setting.l1_norm,
            "diameter": setting.diameter,
            "second_moment": setting.second_moment if math.isfinite(setting.second_moment) else None,
            "vacuous": bound.vacuous,
        }

    def _floor_bound(self, rows: MemoryRows, epsilon: float | None = None) -> dict[str, Any]:
        """Return the bound by `nystrom_floor` as JSON.

        epsilon : None for a Nystrom map. With a Fourier map, the error of kernel values: a function
            f = sum_t alpha_t k(x_t, .) with sum_t |alpha_t| <= s differs at every row by at most epsilon s from w'z,
            w = sum_t alpha_t z(x_t), whose length is at most s sqrt(1 + epsilon). s is the largest for which w lies in
            the ball; of several classes, it bounds the root of the sum of the squares of their sums
        """
        count, loss = self.played.rows, self.learner.loss
        weights, classes = rows.weights_between(0, count), self.learner.n_outputs > 1
        if epsilon is None:
            assert rows.residuals is not None
            residuals, norm, number = rows.residuals[:count], self.radius, 4 if classes else 2
            own = {"residual_trace": float(residuals.sum()), "probability": 1.0}
        else:
            residuals, number = np.full(count, epsilon**2), 3 if classes else 1
            norm = self.radius / math.sqrt(1.0 + epsilon)
            own = {"epsilon": epsilon, "l1_norm": norm, "probability": CERTAINTY}
        least = max(0.0, self.hindsight.certificate.dual)
        floor = nystrom_floor(least, residuals, norm, longest_subgradient(loss), weights)
        return own | {
            "theorem": f"Lu et al., JMLR 17(47), 2016, Theorem {number}",
            "bound": self.played.loss - floor,
            "least_loss": floor,
            "vacuous": floor <= 0.0,
        }


# Tracking regret: comparators that change k times.
#
# The rows are cut into windows. For every run of them, one window after the other, the best fixed weights of the ball
# are found with a proof: a loss, and a number that no weights of the ball fall below. Dynamic programming over the
# borders then gives the best k changes,
#
#     best_k(j) = min over i < j of best_(k-1)(i) + loss(i, j),
#
# of losses for the comparator that was found, of lower bounds for what none that changes at k borders falls below. A
# change at any other row lies inside a window: with the losses of k windows left out, which are not negative, the
# same recursion bounds comparators that change at any k rows.
#
# Source: Herbster & Warmuth, Machine Learning 32, 1998, section 1 (the best partition of the trials into k + 1
# parts).

PIECES = 10  # windows, whose runs number 55
ENOUGH = 0.01  # of the tracker's loss in a run, for the gap of the run's optimum


@dataclass(frozen=True, eq=False)
class WindowRuns:
    """The best weights of a ball in every run of windows i, ..., j - 1, at [i, j] for i < j <= n.

    borders : (n + 1,) rows at which windows begin, and their number in all
    losses, floors : (n + 1, n + 1), of the weights found, and what no weights of the ball fall below
    played : (n,), the tracker's loss in each window
    """

    borders: Integers
    losses: Doubles
    floors: Doubles
    played: Doubles


@dataclass(frozen=True)
class RegretComparison:
    """Comparison of the tracker with models of at most k changes.

    changes : k; loss, floor : of the best found, and what none falls below that changes at k borders of windows
    floor_anywhere : what none falls below that changes at any k rows; rows : where the best found changes
    """

    changes: int
    loss: float
    floor: float
    floor_anywhere: float
    rows: tuple[int, ...]

    def as_json(self, played: float) -> dict[str, Any]:
        """Return the comparison with the tracker's loss as JSON values."""
        return {
            "changes": self.changes,
            "comparator_loss": self.loss,
            "regret": played - self.loss,
            "regret_at_most": played - self.floor,
            "regret_at_most_anywhere": played - self.floor_anywhere,
            "rows": list(self.rows),
        }


def window_boundaries(
    recorded: Sequence[SolverProgress], labels: Doubles, pieces: int = PIECES
) -> list[SolverProgress]:
    """Return the recorded states nearest to the ends of windows of equal lengths; the last one is the end.

    Without rows of both classes, labels (rows,) of -1 and +1, a window is one with the next, the last with the one
    before it; empty if there is only one class.
    """
    total = recorded[-1].done_rows
    ends = [total * (piece + 1) / pieces for piece in range(pieces)]
    near = [min(recorded, key=lambda progress: abs(progress.done_rows - end)) for end in ends]
    chosen: list[SolverProgress] = []
    first = 0
    for progress in dict.fromkeys([*near[:-1], recorded[-1]]):
        if np.ptp(labels[first : progress.done_rows]) > 0.0:
            chosen.append(progress)
            first = progress.done_rows
    return [*chosen[:-1], recorded[-1]] if chosen else []


def solve_runs(
    memory_rows: MemoryRows, recorded: Sequence[SolverProgress], radius: float, progress: HindsightProgress
) -> WindowRuns:
    """Solve every run, each from where the one that is a window shorter ended.

    memory_rows : rows in the order they were learned; recorded : at the ends of the windows, the last row's the last
    """
    borders = np.array([0, *(window_end.done_rows for window_end in recorded)], dtype=np.int64)
    sums = np.array([0.0, *(window_end.surrogate for window_end in recorded)])
    n = len(recorded)
    losses, floors = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    name: Literal["hinge", "logistic"] = "hinge" if memory_rows.learner.loss.name == "hinge" else "logistic"
    for i in range(n):
        near: HindsightSolution | None = None
        for j in range(i + 1, n + 1):
            first, last = int(borders[i]), int(borders[j])
            enough = _LossGapReached(float(sums[j] - sums[i]))
            near = solve_in_ball(
                memory_rows.between(first, last), name, radius, memory_rows.weights_between(first, last), near, enough
            )
            losses[i, j], floors[i, j] = near.certificate.primal, max(0.0, near.certificate.dual)
            progress.read(last - first)
    return WindowRuns(borders, losses, floors, np.diff(sums))


def compare_regret(runs: WindowRuns) -> list[RegretComparison]:
    """Return comparators of at most 0, 1, 2, 4, ... changes, as many as there are borders between windows."""
    n = len(runs.played)
    best, borders = _best_partitions(runs.losses, n)
    floors, _ = _best_partitions(runs.floors, n)
    anywhere = _floors_anywhere(runs.floors, n)
    counts = sorted(
        {0, n - 1} | {2**power for power in range(math.ceil(math.log2(n))) if 2**power < n} if n > 1 else {0}
    )
    return [
        RegretComparison(
            k, float(best[k]), float(floors[k]), float(anywhere[k]), tuple(int(runs.borders[i]) for i in borders[k])
        )
        for k in counts
    ]


def _best_partitions(losses: Doubles, n: int) -> tuple[Doubles, list[list[int]]]:
    """Return the least sums over at most k + 1 successive runs, k = 0 .. n - 1, and the windows where runs begin."""
    best = np.full((n, n + 1), math.inf)
    begin = np.zeros((n, n + 1), dtype=np.int64)
    best[0, 1:] = losses[0, 1:]
    for k in range(1, n):
        best[k] = best[k - 1]  # at most k changes: a change may stay unused
        begin[k] = -1
        for j in range(2, n + 1):
            sums = best[k - 1, 1:j] + losses[1:j, j]
            i = int(sums.argmin())
            if sums[i] < best[k, j]:
                best[k, j], begin[k, j] = sums[i], i + 1
    partitions: list[list[int]] = []
    for changes in range(n):
        borders = [n]
        for k in range(changes, 0, -1):
            if begin[k, borders[0]] > 0:
                borders.insert(0, int(begin[k, borders[0]]))
        partitions.append(borders[:-1])
    return best[:, n], partitions


def _floors_anywhere(floors: Doubles, n: int) -> Doubles:
    """Return lower bounds for weights that change at any k rows, k = 0 .. n - 1: a window with a change counts 0.

    best(k, j) bounds the loss in the windows before j, with k changes within them.
    """
    best = np.full((n, n + 1), math.inf)
    best[0] = floors[0]
    for k in range(1, n):
        best[k] = best[k - 1]
        for j in range(1, n + 1):
            # the last change lies in window c, and a run of whole windows follows it; others may lie in c too
            after = [best[k - 1, c] + floors[c + 1, j] for c in range(j)]
            best[k, j] = min(best[k, j], *after)
    return best[:, n]


@dataclass(frozen=True)
class _LossGapReached:
    """A gap of 1%, or of a hundredth of the figure that it is compared with."""

    played: float

    def __call__(self, certificate: Certificate, iterations: int) -> bool:
        return certificate.relative_gap <= TOLERANCE or certificate.gap <= ENOUGH * self.played


# Certificates as results store them.


@dataclass(frozen=True)
class Certification:
    """Certificate of a run: kind, figures as JSON, and the reason why they mean nothing, or ""."""

    kind: Literal["duality gap", "gap over all rows", "regret", "tracking regret"]
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the entry "certificate" of a run's result."""
        return {"kind": self.kind, "shown": not self.reason, "reason": self.reason, **self.figures}


def gap_proof(solver: CertifiedSolver[Any], state: Any) -> Certification:
    """Return the proved gap of a finished state. Source: Ito et al., JMLR 18(16), 2017, section 4.4.3."""
    figures = solver.certificate(state)
    kind = figures["kind"]
    assert kind in ("duality gap", "gap over all rows")
    reason = figures.get("reason", "")
    return Certification(
        kind, {name: value for name, value in figures.items() if name not in ("kind", "reason")}, reason
    )


def excess_proof(
    solver: OnlineSolver, state: OnlineState, data: Dataset, confidence: float, execution: Execution
) -> Certification:
    """Return the largest possible gap of a Pegasos model over all rows, exactly or at a confidence level.

    Source: as in okl.solvers.subgradient.sampling.
    """
    factory, predictor = solver.factory, solver.predictor(state)
    assert isinstance(factory, PegasosFactory)
    assert isinstance(predictor, LinearPredictor)
    prover = GapBounder(make_piecewise(factory.loss.name), factory.lam, confidence, seed=solver.seed)
    weights = predictor.weights[0] if predictor.n_outputs == 1 else predictor.weights
    bound = prover.bound(data, predictor.feature_map, weights, execution)
    sure = "" if bound.confidence is None else f" at {100.0 * bound.confidence:g}% confidence"
    figures = {
        "rows_sampled": bound.rows,
        "bytes_read": bound.bytes_read,
        "outcome": f"gap {bound.gap:.3g} over all rows{sure}",
    }
    return Certification("gap over all rows", bound.as_json() | figures)


def regret_proof(
    state: OnlineState,
    recorded: Sequence[SolverProgress],
    data: Dataset,
    execution: Execution,
    observer: Observer,
    independent: bool = True,
) -> Certification:
    """Compute the regret of a learner in a ball against the best weights of that ball and the same map in hindsight.

    NOGD has the same bound as a learner in a fixed map from its first row: the steps of its first phase are those of
    gradient descent in the space of the kernel, where weights w of the map are the function w'z of norm ||w||, and the
    projection onto these functions brings the learner no further from any of them. In a regression the learner's loss
    is 1/2 (f - y)^2 beyond epsilon and 0 up to there, and the weights' loss is 1/2 (f - y)^2 of every row: with no step
    up to epsilon, convexity gives the same bound.

    state : of an exact run of one pass that has finished; recorded : on its way, the last one at its end
    observer : notified of rows read and of rows of certified horizons; independent : see `kernel_bound`
    Returns regret, average_regret, bound and comparator of all rows, the same at five horizons, and how regret grew;
        without a ball, or with more rows than memory holds, only the reason why there is none.
    """
    learner = state.learner
    if isinstance(learner, NOGDLearner) and learner.radius is not None:
        if state.learned.feature_map is None:
            return Certification(
                "regret",
                reason=f"{learner.chosen(state.learned)['rank_reason'].capitalize()}, so there is no Nystrom map to "
                "compare in. Set a smaller budget.",
            )
        learner = learner.linear(state.learned.feature_map)
    if not isinstance(learner, LinearLearner) or learner.radius is None:
        return Certification(
            "regret",
            reason="Regret requires a comparison class, but the weights are unbounded. "
            "Set a radius, so that they stay in a ball.",
        )
    progress = HindsightProgress.of(observer, recorded)
    if (rows := read_all_rows(learner, state, data, execution, progress)) is None:
        return Certification("regret", reason=_unheld(data))
    horizons = [
        RegretAtHorizon(
            LearnerLosses(horizon.done_rows, horizon.surrogate, horizon.stepped_gradients), learner, hindsight
        )
        for horizon, hindsight in solve_hindsights(learner, rows, recorded, progress)
    ]
    last = horizons[-1]
    grown = growth_exponent(
        np.array([horizon.played.rows for horizon in horizons]), np.array([horizon.regret for horizon in horizons])
    )
    return Certification(
        "regret",
        last.figures()
        | {
            "comparator": last.comparator(),
            "horizons": [horizon.figures() | {"comparator": horizon.comparator()} for horizon in horizons],
            "growth_exponent": grown,
            "kernel_bound": last.kernel_bound(data.schema, rows, independent),
        },
    )


def _unheld(data: Dataset) -> str:
    what = "inputs" if data.schema.sparse is None else "features"
    return (
        f"The best models in hindsight require the {what} of all {data.rows('train'):,} rows in memory, more than "
        f"{MOST_BYTES / 2**30:g} GiB."
    )


def tracking_proof(
    solver: OnlineSolver,
    state: OnlineState,
    recorded: Sequence[SolverProgress],
    data: Dataset,
    execution: Execution,
    observer: Observer,
) -> Certification:
    """Compute the regret of a tracker against models of a ball in the same map that change at most 0, 1, 2, ... times.

    solver, state, recorded, observer : as of `regret_proof`
    Returns loss (of the mean of scores that is predicted with, by the loss that its experts step by), mistakes and, for
        each number of changes, the comparator's loss and what the regret is at most; or only the reason why there is
        none.
    """
    learner, factory = state.learner, solver.factory
    assert isinstance(learner, TrackingLearner)
    assert isinstance(factory, TrackingFactory)
    if factory.radius is None:
        return Certification(
            "tracking regret",
            reason="Regret requires a comparison class. Set a radius, which bounds the norm of the weights.",
        )
    rows = recorded[-1].done_rows
    # rows are read once, and those of every run of windows are solved
    reporting = HindsightProgress(observer, rows + rows * (PIECES + 1) * (PIECES + 2) // 6)
    alone = LinearLearner(learner.feature_map, learner.loss, 1.0, 1, learner.class_weights, radius=factory.radius)
    if (rows_in_memory := read_all_rows(alone, state, data, execution, reporting)) is None:
        return Certification("tracking regret", reason=_unheld(data))
    if not (borders := window_boundaries(recorded, rows_in_memory.labels)):
        return Certification(
            "tracking regret", reason="All rows belong to one class, so there is no model to compare with."
        )
    runs = solve_runs(rows_in_memory, borders, factory.radius, reporting)
    progress = state.learned.progress
    return Certification(
        "tracking regret",
        {
            "rows": progress.rows,
            "loss": progress.surrogate,
            "loss_name": learner.loss.name,
            "mistakes": progress.mistakes,
            "radius": factory.radius,
            "borders": runs.borders.tolist(),
            "comparisons": [comparison.as_json(progress.surrogate) for comparison in compare_regret(runs)],
        },
    )
