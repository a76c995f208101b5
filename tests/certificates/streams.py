"""Random streams for FOGD and NOGD in a ball, with optima in hindsight from a cone solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.certificates.certify import LearnerLosses, StepSizes, constrained_bound, map_space_bound, nystrom_floor
from okl.certificates.hindsight import HindsightSolution, MemoryRows, solve_in_ball, solve_least_squares, solve_within
from okl.data.execution import Rows
from okl.features.base import transform_rows
from okl.features.fourier import draw_fourier_map
from okl.features.nystrom import NystromFeatures
from okl.kernels import Gaussian
from okl.losses import Hinge, Loss, MulticlassHinge, ThresholdedHalfSquared
from okl.solvers.accelerated.base import Certificate
from okl.solvers.online.constrained import ConstrainedLearner
from okl.solvers.online.constraints import LinearLimits
from okl.solvers.online.linear import LinearLearner, longest_subgradient
from okl.solvers.online.nystrom import NOGDLearner

Doubles = NDArray[np.float64]
LOSSES: dict[str, Loss] = {
    "binary": Hinge(),
    "multiclass": MulticlassHinge(),
    "regression": ThresholdedHalfSquared(0.1),
}
N_CLASSES = 3


def least_loss(
    loss: Loss,
    features: Doubles,
    targets: Doubles,
    radius: float,
    weights: Doubles,
    limits: LinearLimits | None = None,
) -> tuple[float, float]:
    """Return the least sum of losses in the ball and within limits by an interior-point method, and its norm.

    Of a regression, half squared errors without a threshold. Variables: the weights, then one a row, its loss or error.
    """
    m, n = features.shape
    outputs = N_CLASSES if loss.task == "multiclass" else 1
    size, rows = outputs * n, []
    if loss.task == "regression":
        rows.append((sparse.csc_matrix(np.hstack([features, -np.eye(m)])), targets, clarabel.ZeroConeT(m)))
    else:
        for rival in range(outputs) if outputs > 1 else [0]:
            margins = np.zeros((m, outputs, n))
            if outputs == 1:
                margins[:, 0] = targets[:, None] * features
            else:
                margins[np.arange(m), targets.astype(int)] += features
                margins[:, rival] -= features
            one = np.ones(m) if outputs == 1 else (targets != rival).astype(float)
            matrix = np.hstack([-margins.reshape(m, size), -np.eye(m)])  # loss >= 1 - margin
            rows.append((sparse.csc_matrix(matrix), -one, clarabel.NonnegativeConeT(m)))
        rows.append(
            (sparse.hstack([sparse.csc_matrix((m, size)), -sparse.eye(m)]), np.zeros(m), clarabel.NonnegativeConeT(m))
        )
    ball = sparse.vstack(
        [sparse.csc_matrix((1, size + m)), sparse.hstack([-sparse.eye(size), sparse.csc_matrix((size, m))])]
    )
    if limits is not None:
        sides = np.kron(np.eye(outputs), limits.sides.matrix)
        rows.append(
            (
                sparse.hstack([sparse.csc_matrix(sides), sparse.csc_matrix((len(sides), m))]),
                np.tile(limits.sides.bounds, outputs),
                clarabel.NonnegativeConeT(len(sides)),
            )
        )
    rows.append((ball, np.concatenate([[radius], np.zeros(size)]), clarabel.SecondOrderConeT(size + 1)))
    regression = loss.task == "regression"
    quadratic = sparse.diags(np.concatenate([np.zeros(size), np.full(m, float(regression))])).tocsc()
    linear = np.concatenate([np.zeros(size), np.zeros(m) if regression else weights])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    matrix = sparse.vstack([part for part, _, _ in rows]).tocsc()
    solved = clarabel.DefaultSolver(
        quadratic,
        linear,
        matrix,
        np.concatenate([part for _, part, _ in rows]),
        [cone for _, _, cone in rows],
        settings,
    ).solve()
    assert str(solved.status) in ("Solved", "AlmostSolved")
    return float(solved.obj_val), float(np.linalg.norm(np.array(solved.x)[:size]))


@dataclass(frozen=True)
class Stream:
    """A stream and the results of a learner on it."""

    loss: Loss
    inputs: Doubles
    targets: Doubles
    weights: Doubles
    kernel: Gaussian
    learner: Any
    linear: LinearLearner
    played: LearnerLosses

    @property
    def radius(self) -> float:
        return float(self.learner.radius)

    @property
    def steps(self) -> StepSizes:
        return StepSizes(self.learner.step_size, self.learner.decaying)

    @property
    def features(self) -> Doubles:
        return transform_rows(self.linear.feature_map, self.inputs).astype(np.float64)

    def hindsight(
        self, enough: float = 1e-4, limits: LinearLimits | None = None, near: HindsightSolution | None = None
    ) -> tuple[MemoryRows, HindsightSolution]:
        feature_map = self.linear.feature_map
        residuals = None
        if isinstance(feature_map, NystromFeatures):
            residuals = feature_map.residuals(self.inputs, self.features)
        held = MemoryRows(self.features, self.targets, self.linear, True, 1, residuals)
        if self.loss.task == "regression":
            return held, solve_least_squares(held, self.radius, limits)
        count = len(self.targets)

        def close(certificate: Certificate, iterations: int) -> bool:
            return certificate.relative_gap <= enough or iterations > 3000

        rows, weights = held.between(0, count), held.weights_between(0, count)
        if limits is not None:
            return held, solve_within(rows, "hinge", limits, weights, near, close)
        return held, solve_in_ball(rows, "hinge", self.radius, weights, enough=close)


def limits_about(inputs: Doubles, features: Doubles, shares: Doubles, radius: float, outputs: int) -> LinearLimits:
    """Return limits of the covariances of scores with two groups, one two-sided: shares of their maxima."""
    sides = (inputs[:, :2] > 0.0).astype(np.float64)
    matrix = (sides - sides.mean(axis=0)).T @ features / len(features)
    high = shares * np.linalg.norm(matrix, axis=1) * radius
    return LinearLimits(matrix, np.array([-high[0], -np.inf]), high, ("one", "two"), radius, n_outputs=outputs)


def play_stream(task: str, seed: int, nystrom: bool, rows: int = 100, limited: bool = False) -> Stream:
    """Return a nonlinear stream with wrong labels, a random kernel, radius and step, with or without class weights."""
    rng, loss = np.random.default_rng(seed), LOSSES[task]
    inputs = rng.standard_normal((rows, 3))
    curve = np.sin(2.0 * inputs[:, 0]) + 0.5 * inputs[:, 1] + rng.uniform(0.0, 0.8) * rng.standard_normal(rows)
    targets = {
        "binary": np.where(curve > 0.1, 1.0, -1.0),
        "multiclass": np.digitize(curve, [-0.5, 0.5]).astype(np.float64),
        "regression": curve,
    }[task]
    outputs, classes = (N_CLASSES, N_CLASSES) if task == "multiclass" else (1, 2)
    weighted = task != "regression" and seed % 2 == 1
    class_weights = tuple(rng.uniform(0.5, 2.0, classes)) if weighted else None
    kernel, radius = Gaussian(float(np.exp(rng.uniform(-0.3, 1.5)))), float(np.exp(rng.uniform(-1.0, 1.5)))
    step = min(radius, 1.0) * float(np.exp(rng.uniform(-3.0, 0.3)))
    decaying = seed % 4 >= 2
    if nystrom:
        budget = int(rng.integers(5, 25))
        sizes = budget, int(rng.integers(2, budget + 1)), outputs
        learner: Any = NOGDLearner(kernel, 3, loss, step, *sizes, class_weights, False, "float64", radius, decaying)
    else:
        # with limits, use the default precision of runs, whose machine code is compiled already
        feature_map = draw_fourier_map(kernel, 3, 10, seed, "float32" if limited else "float64")
        learner = LinearLearner(feature_map, loss, step, outputs, class_weights, False, radius, decaying)
    if limited:
        features = transform_rows(feature_map, inputs).astype(np.float64)
        limits = limits_about(inputs, features, rng.uniform(0.01, 0.2, 2), radius, outputs)
        learner = ConstrainedLearner(
            feature_map,
            loss,
            step,
            outputs,
            class_weights,
            False,
            radius,
            decaying,
            limits=limits,
            rectified=seed % 3 > 1,
        )
    state = learner.learn(learner.start(), Rows(inputs, targets))
    if nystrom:
        assert state.feature_map is not None
    linear = learner.linear(state.feature_map) if nystrom else learner
    progress = state.progress
    played = LearnerLosses(rows, progress.surrogate, progress.stepped_gradients)
    index = (targets if task == "multiclass" else targets > 0).astype(int)
    weights = np.ones(rows) if class_weights is None else np.array(class_weights)[index]
    return Stream(loss, inputs, targets, weights, kernel, learner, linear, played)


@dataclass(frozen=True)
class Checked:
    """Regret of a stream and its proved bounds; all values but the bounds come from a cone solver."""

    regret: float
    bound: float
    covered: bool
    kernel_vacuous: bool | None = None


def check_stream(task: str, seed: int, nystrom: bool, limited: bool = False) -> Checked:
    """Compare bound and certificate with the true regret, and the floor with the optimum of the kernel's functions.

    limited : within limits, as is the best of hindsight
    """
    stream = play_stream(task, seed, nystrom, 50 if nystrom else 70, limited)
    given = stream.targets, stream.radius, stream.weights
    limits = stream.learner.kept if limited else None
    least, norm = least_loss(stream.loss, stream.features, *given, limits)
    held, hindsight = stream.hindsight(limits=limits)
    slack = 1e-5 * max(1.0, least)
    regret = stream.played.loss - least
    bound_of = constrained_bound if limited and not stream.learner.rectified else map_space_bound
    bound = bound_of(stream.played, stream.steps, stream.radius, min(norm, stream.radius))
    proof = hindsight.certificate
    covered = regret <= bound + slack and proof.dual <= least + slack and least <= proof.primal + slack
    covered = covered and proof.gap <= 1e-3 * max(1.0, least)
    if held.residuals is None:
        return Checked(regret, bound, covered)
    lipschitz = longest_subgradient(stream.loss)
    floor = nystrom_floor(max(0.0, proof.dual), held.residuals, stream.radius, lipschitz, stream.weights)
    values, vectors = np.linalg.eigh(stream.kernel.matrix(stream.inputs, stream.inputs))
    exact, _ = least_loss(stream.loss, vectors * np.sqrt(np.maximum(values, 0.0)), *given)
    return Checked(regret, bound, covered and floor <= exact + slack and exact <= least + slack, floor == 0.0)
