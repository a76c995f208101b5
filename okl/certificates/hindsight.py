"""The best weights of a ball in hindsight, with and without limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import brentq, nnls

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.features.base import transform_rows
from okl.features.nystrom import NystromFeatures
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.foundation.validation import check_positive
from okl.solvers.accelerated.base import Certificate, RowOperator, Solution
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.fapg import Fapg
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.svm import CSVM
from okl.solvers.accelerated.operators import DenseRows, MappedInputs
from okl.solvers.accelerated.problem import BoxRegion, EuclideanNorm, HalfSquare, LinearTerm, Region, Risk, Separable
from okl.solvers.base import SolverProgress
from okl.solvers.online.constrained import ConstrainedLearner
from okl.solvers.online.constraints import LinearLimits
from okl.solvers.online.linear import LinearLearner

if TYPE_CHECKING:
    from okl.solvers.online.solver import OnlineState

# The best weights of a ball in hindsight, with a proof.
#
# Minimise sum_i c_i loss(y_i <w, z_i>) over ||w|| <= radius. Its dual is that of the model with 1/2 ||w||^2 and C = 1
# but for the outer function, radius ||A a|| in place of 1/2 ||A a||^2: the same box, conjugates and method.

MarginLossName = Literal["hinge", "logistic"]

METHOD = Fapg("proven", tolerance=1e-6, max_iterations=20_000)  # the norm is steep where A a is short: prove each step
TOLERANCE = 0.01

_KINK = 0.25  # width of margins about the hinge's kink, in which a guess at the dual goes from one end to the other


@dataclass(frozen=True, eq=False)
class HindsightSolution:
    """Weights of a ball with the least loss in hindsight, up to a certified gap.

    weights : (n_columns,), of several classes one after the other, ||w|| <= radius
    certificate : loss of the weights, and a bound that no weights of the ball fall below
    point : (m,), the dual point, empty for a regression
    l1_norm : sum of |alpha_i|, where w = sum_i alpha_i z_i; of several classes the sum of max_r |alpha_ir|
    iterations : of the method; reason : why it stopped
    """

    weights: FloatArray
    certificate: Certificate
    point: FloatArray
    l1_norm: float
    iterations: int
    reason: str


def in_ball(problem: DualProblem, radius: float, first: FloatArray) -> DualProblem:
    """Return the dual over ||w|| <= radius of a problem with 1/2 ||w||^2, from `first` (m,); or raise ConfigError."""
    check_positive("radius", radius)
    image = np.empty(problem.n_image)
    problem.apply(image, first)
    longest = float(np.sqrt(problem.rows.squared_lengths().max())) * float(first.max())
    length = math.sqrt(problem.rows.squared_norm(first, image))
    # never below what one row adds: where the sum happens to vanish, the norm would have no slope
    return replace(problem, outer=EuclideanNorm(1.0, radius).of_length(length, longest), first=first)


@one_blas_thread()  # bits depend on the number of threads
def solve_in_ball(
    rows: RowOperator,
    loss: MarginLossName,
    radius: float,
    sample_weight: FloatArray | None = None,
    near: HindsightSolution | None = None,
    enough: Callable[[Certificate, int], bool] | None = None,
) -> HindsightSolution:
    """Minimise sum_i sample_weight_i loss(y_i <w, z_i>) over ||w|| <= radius.

    rows : signed rows y_i z_i, m of them, or ClassRows for the hinge loss of several classes
    sample_weight : (m,) >= 0, None for 1
    near : the solution of fewer of these rows, the first ones: where to start from
    enough : whether a certificate is good enough after so many iterations; None for a relative gap of 1%
    Raises ConfigError : the radius is not a positive finite number
    """
    problem = _dual(loss, rows, sample_weight)
    first = _upper(rows, sample_weight) * _dual_guess(loss, _margins(rows, near))
    if near is not None:
        first[: len(near.point)] = near.point
    if isinstance(rows, ClassRows):
        problem.region.prox(first, first.copy(), 1.0)
    return _solve(in_ball(problem, radius, first), first, enough, rows.n_points)


def _dual(loss: MarginLossName, rows: RowOperator, sample_weight: FloatArray | None) -> DualProblem:
    if isinstance(rows, ClassRows):
        return rows.problem(sample_weight)
    model = CSVM(1.0, fit_intercept=False) if loss == "hinge" else LogisticRegression(1.0, fit_intercept=False)
    return model.problem(rows, sample_weight)


def _upper(rows: RowOperator, sample_weight: FloatArray | None) -> Doubles:
    upper = np.ones(rows.n_points) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    return np.repeat(upper, rows.n_points // len(upper))  # a row of several classes has an entry for each


def _solve(
    problem: DualProblem, first: FloatArray, enough: Callable[[Certificate, int], bool] | None, n_rows: int
) -> HindsightSolution:
    """Solve a problem whose point begins with the variables of n_rows rows."""
    enough = enough or (lambda certificate, _: certificate.relative_gap <= TOLERANCE)
    state, reason = METHOD.start(problem, first), ""
    while not enough(state.best_record.certificate, state.history[-1].iteration):
        if (outcome := METHOD.finished(state)) is not None:
            reason = outcome.reason
            break
        state = METHOD.advance(state, problem)
    solution, best = METHOD.solution(state, problem), state.best
    slope = problem.at_level(state.best_record.level).outer.slope(problem.rows.squared_norm(best.point, best.image))
    return HindsightSolution(
        weights=solution.weights,
        certificate=solution.certificate,
        point=best.point,
        l1_norm=slope * float(np.abs(best.point[:n_rows]).sum()),
        iterations=state.history[-1].iteration,
        reason=reason or f"relative duality gap {solution.certificate.relative_gap:.2g}",
    )


def _margins(rows: RowOperator, near: HindsightSolution | None) -> FloatArray:
    margins = np.zeros(rows.n_points)
    if near is not None:
        rows.adjoint(margins, near.weights)
    return margins


def _dual_guess(loss: MarginLossName, margins: FloatArray) -> FloatArray:
    """Return the dual point for optimal margins: minus the loss's slope, with the hinge's kink widened."""
    if loss == "hinge":
        guess: FloatArray = np.clip(0.5 + (1.0 - margins) / _KINK, 0.0, 1.0)
        return guess
    shares: FloatArray = 0.5 * (1.0 - np.tanh(0.5 * margins))
    return shares


class _ImagesAreWeights:
    """Lengths and weights for operators whose images are the weights themselves."""

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """Return ||v||^2."""
        return float(image @ image)

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """Return ||v - v'||^2."""
        apart = image - other_image
        return float(apart @ apart)

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """Return w = scale v, in the shape of an image."""
        return scale * image


# The best weights of several classes together.
#
# Minimise sum_i c_i max(0, max_(r != y_i) 1 - <w_(y_i) - w_r, z_i>) over ||W|| <= radius, with the Frobenius norm. Its
# dual has a_ir >= 0 for every wrong class r, whose sums over r are at most c_i:
#
#     minimise radius ||sum_ir a_ir (e_(y_i) - e_r) z_i'|| - sum_ir a_ir
#
# Source: Crammer & Singer, JMLR 2, 2001, section 3, with a ball in place of the regulariser.


@dataclass(frozen=True, eq=False)
class ClassRows(_ImagesAreWeights):
    """Differences of classes (e_(y_i) - e_r) z_i' for the row i and the class r, as one operator; 0 for r = y_i.

    A point is (m n_classes,), the classes of a row one after the other; an image (n_classes n_columns,).
    """

    rows: MemoryRows
    n_classes: int

    @property
    def signs(self) -> FloatArray:
        """Return 1 for every entry of a point."""
        return np.ones(self.n_points)

    @property
    def n_points(self) -> int:
        return len(self.rows.labels) * self.n_classes

    @property
    def n_image(self) -> int:
        return self.n_classes * self.rows.n_columns

    @cached_property
    def true(self) -> tuple[IntArray, IntArray]:
        """Return the indices of the true classes in an array (m, n_classes)."""
        return np.arange(len(self.rows.labels)), self.rows.labels.astype(np.int64)

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out by the image of a point."""
        shares = point.reshape(-1, self.n_classes)
        coefficients = -shares
        coefficients[self.true] += shares.sum(axis=1)
        image = out.reshape(self.n_classes, -1)
        image[:] = 0.0
        for part, features in self.rows.blocks():
            image += coefficients[part].T @ features

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out by <v_(y_i) - v_r, z_i>: 0 for the true class."""
        scores = out.reshape(-1, self.n_classes)
        for part, features in self.rows.blocks():
            scores[part] = features @ image.reshape(self.n_classes, -1).T
        np.subtract(scores[self.true][:, np.newaxis], scores, out=scores)

    def squared_lengths(self) -> Doubles:
        """Return 2 ||z_i||^2 for every entry of a point; the true class's are 0, as bounds do not depend on them."""
        lengths = [np.einsum("ij,ij->i", features, features) for _, features in self.rows.blocks()]
        return np.repeat(2.0 * np.concatenate(lengths), self.n_classes)

    def problem(self, sample_weight: FloatArray | None) -> DualProblem:
        """Return the dual with 1/2 ||W||^2 and C = 1."""
        upper = np.ones(len(self.rows.labels)) if sample_weight is None else sample_weight
        return DualProblem(
            rows=self,
            outer=HalfSquare(),
            separable=LinearTerm(-1.0),
            region=_Shares(upper, self.true),
            risk=_BestWrong(upper, self.true),
            first=np.zeros(self.n_points),
            intercept=False,
        )


@dataclass(frozen=True, eq=False)
class _Shares(Region):
    """a_ir >= 0 with sum_r a_ir <= upper_i, and 0 for the true class."""

    upper: FloatArray
    true: tuple[IntArray, IntArray]

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        """Overwrite out by the nearest point. Source: Held, Wolfe & Crowder, Mathematical Programming 6, 1974."""
        shares = out.reshape(len(self.upper), -1)
        np.maximum(point.reshape(shares.shape), 0.0, out=shares)
        shares[self.true] = 0.0
        over = np.flatnonzero(shares.sum(axis=1) > self.upper)
        falling = -np.sort(-shares[over], axis=1)
        counts = np.arange(1, shares.shape[1] + 1)
        thresholds = (np.cumsum(falling, axis=1) - self.upper[over, np.newaxis]) / counts
        last = np.maximum(np.count_nonzero(falling > thresholds, axis=1), 1) - 1
        shares[over] = np.maximum(shares[over] - thresholds[np.arange(len(over)), last, np.newaxis], 0.0)


@dataclass(frozen=True, eq=False)
class _BestWrong(Risk):
    """sum_i weight_i max(0, max_r 1 - margin_ir) over wrong classes r."""

    weights: FloatArray
    true: tuple[IntArray, IntArray]

    def value(self, margins: FloatArray, bias: float) -> float:
        losses = 1.0 - margins.reshape(len(self.weights), -1)
        losses[self.true] = 0.0
        return float(self.weights @ losses.max(axis=1))

    def best_bias(self, margins: FloatArray) -> float:
        return 0.0


# The best weights of a regression.


@one_blas_thread()  # bits depend on the number of threads
def solve_least_squares(rows: MemoryRows, radius: float, limits: LinearLimits | None = None) -> HindsightSolution:
    """Minimise 1/2 sum_i (<w, z_i> - y_i)^2 over ||w|| <= radius, within limits S w <= h if any, less their margins.

    The minimiser solves (Z'Z + shift) w = Z'y - S'p with the least shift that keeps it in the ball, and multipliers
    p >= 0 of the limits. Whatever w and p >= 0 are, convexity gives the lower bound loss(w) - <gradient, w> -
    radius ||gradient + S'p|| - h'p.
    """
    gram, pulled = np.zeros((rows.n_columns, rows.n_columns)), np.zeros(rows.n_columns)
    for part, features in rows.blocks():
        gram += features.T @ features
        pulled += features.T @ rows.labels[part]
    values, vectors = np.linalg.eigh(gram)
    values, turned = np.maximum(values, 0.0), vectors.T @ pulled
    bounds = np.empty(0) if limits is None else limits.sides.bounds
    sides = np.empty((0, len(values))) if limits is None else limits.sides.matrix @ vectors

    def solve(shift: float) -> tuple[Doubles, Doubles]:
        weights = turned / (values + shift)
        if not len(bounds):
            return weights, bounds
        pulls = sides / (values + shift)
        multipliers = _nonnegative(pulls @ sides.T, sides @ weights - bounds)
        return weights - multipliers @ pulls, multipliers

    def excess(shift: float) -> float:
        return float(np.linalg.norm(solve(shift)[0])) - radius

    low = max(_EPSILON * len(values) * float(values.max()), float(np.finfo(np.float32).tiny))
    high = low + float(np.linalg.norm(turned)) / radius
    for _ in range(_DOUBLINGS if len(bounds) else 0):  # limits may keep weights long
        high *= 2.0 if excess(high) > 0.0 else 1.0
    shift = low
    if excess(low) > 0.0:
        shift = brentq(excess, low, high, rtol=1e-12) if excess(high) <= 0.0 else high
    weights, multipliers = solve(shift)
    weights = vectors @ weights
    weights *= min(1.0, radius / max(float(np.linalg.norm(weights)), radius))
    if limits is not None:
        weights = limits.nearest(weights)
    loss, gradient = 0.0, np.zeros(rows.n_columns)
    for part, features in rows.blocks():
        errors = features @ weights - rows.labels[part]
        loss += 0.5 * float(errors @ errors)
        gradient += features.T @ errors
    pulled_back = gradient if limits is None else gradient + multipliers @ limits.sides.matrix
    inner, longest = float(gradient @ weights), radius * float(np.linalg.norm(pulled_back))
    priced = float(multipliers @ bounds)
    rounding = 8.0 * _EPSILON * (loss + abs(inner) + longest + abs(priced) + float(rows.labels @ rows.labels))
    certificate = Certificate(loss, min(loss, loss - inner - longest - priced) - rounding, 0.0, 0.0, rounding)
    return HindsightSolution(
        weights, certificate, np.empty(0), 0.0, 1, f"relative duality gap {certificate.relative_gap:.2g}"
    )


def _nonnegative(matrix: Doubles, pulls: Doubles) -> Doubles:
    """Return the p >= 0 (k,) of least p'matrix p / 2 - p'pulls.

    Source: Lawson & Hanson, Solving Least Squares Problems, 1974, chapter 23, on the Cholesky factor.
    """
    factor = np.linalg.cholesky(matrix + 1e-12 * np.trace(matrix) * np.eye(len(matrix)))
    found: Doubles = nnls(factor.T, np.linalg.solve(factor, pulls))[0]
    return found


_DOUBLINGS = 60
_EPSILON = float(np.finfo(np.float64).eps)


# The best weights of a ball within limits, in hindsight.
#
# Minimise sum_i c_i loss(y_i <w, z_i>) over ||w|| <= radius and S w <= h. Its dual has the variables a of the losses
# in their box, or shares of several classes, and one p_j >= 0 for each row of S, which joins the rows of the data as
# one more; of several classes, S has the rows of each class, with zeros for the others:
#
#     minimise radius ||A a - S'p|| + sum of conjugates(a) + h'p

_LIMIT_SHARE = 0.3  # of the square root of the rows: how long rows of limits are made, so that p is of the size of a


@dataclass(frozen=True, eq=False)
class RowsAndSides(_ImagesAreWeights):
    """Signed rows of data (m), then rows -S of limits, S (k, n_image) float64, as one operator; a point is (m + k,)."""

    data: RowOperator
    sides: Doubles

    @property
    def signs(self) -> FloatArray:
        """Return the signs of the data's rows, and 1 for limits, (m + k,)."""
        return np.concatenate([self.data.signs, np.ones(len(self.sides))])

    @property
    def n_points(self) -> int:
        return self.data.n_points + len(self.sides)

    @property
    def n_image(self) -> int:
        return self.data.n_image

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        """Overwrite out (n_columns,) by A a - S'p."""
        self.data.apply(out, point[: self.data.n_points])
        out -= point[self.data.n_points :] @ self.sides

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        """Overwrite out (m + k,) by A'v, -S v."""
        self.data.adjoint(out[: self.data.n_points], image)
        out[self.data.n_points :] = -(self.sides @ image)

    def squared_lengths(self) -> Doubles:
        """Return ||z_i||^2 and ||S_j||^2, (m + k,)."""
        return np.concatenate([self.data.squared_lengths(), np.einsum("ij,ij->i", self.sides, self.sides)])


@dataclass(frozen=True, eq=False)
class _WithLimits(Separable):
    """A sum over the data's entries, and h'p."""

    data: Separable
    count: int
    limits: Doubles

    def value(self, point: FloatArray) -> float:
        return self.data.value(point[: self.count]) + float(self.limits @ point[self.count :])

    def add_slopes(self, gradient: FloatArray, point: FloatArray) -> None:
        self.data.add_slopes(gradient[: self.count], point[: self.count])
        gradient[self.count :] += self.limits

    def excess(self, point: FloatArray, at: FloatArray) -> float:
        return self.data.excess(point[: self.count], at[: self.count])


@dataclass(frozen=True, eq=False)
class LimitedProblem(DualProblem):
    """The dual above; a certificate is about the nearest weights to w = slope v that are within all limits.

    within : the limits, with the radius
    """

    within: LinearLimits | None = None

    def certificate(self, point: FloatArray, image: FloatArray, pulled: FloatArray) -> Certificate:
        """Return loss of feasible weights, and the dual objective: no feasible weights lose less than that."""
        of_dual = super().certificate(point, image, pulled)
        rows = self.rows
        assert isinstance(rows, RowsAndSides)
        margins = np.empty(rows.data.n_points)
        rows.data.adjoint(margins, self.weights(point, image))
        return replace(of_dual, primal=self.risk.value(margins, 0.0))

    def solution(self, point: FloatArray, image: FloatArray, certificate: Certificate) -> Solution:
        return Solution(self.weights(point, image), 0.0, certificate)

    def weights(self, point: FloatArray, image: FloatArray) -> Doubles:
        """Return the nearest feasible weights to slope v, (n_columns,)."""
        assert self.within is not None
        return self.within.nearest(self.outer.slope(self.rows.squared_norm(point, image)) * image)


@dataclass(frozen=True, eq=False)
class _DataRisk(Risk):
    """The risk of the data's margins, whatever follows them."""

    data: Risk
    count: int

    def value(self, margins: FloatArray, bias: float) -> float:
        return self.data.value(margins[: self.count], bias)

    def best_bias(self, margins: FloatArray) -> float:
        return 0.0


@dataclass(frozen=True, eq=False)
class _RegionWithLimits(Region):
    """The region of the data's entries, and p >= 0."""

    data: Region
    count: int

    def prox(self, out: FloatArray, point: FloatArray, lipschitz: float) -> None:
        self.data.prox(out[: self.count], point[: self.count], lipschitz)
        np.maximum(point[self.count :], 0.0, out=out[self.count :])


@one_blas_thread()  # bits depend on the number of threads
def solve_within(
    rows: RowOperator,
    loss: MarginLossName,
    limits: LinearLimits,
    sample_weight: FloatArray | None = None,
    near: HindsightSolution | None = None,
    enough: Callable[[Certificate, int], bool] | None = None,
) -> HindsightSolution:
    """Minimise sum_i sample_weight_i loss(y_i <w, z_i>) over weights within limits, less their margins, in their ball.

    rows : signed rows y_i z_i, m of them, or ClassRows; sample_weight : (m,) >= 0, None for 1
    near : the solution of fewer of these rows, the first ones; enough : as in solve_in_ball
    Returns the weights, which are feasible; the point (m + k,) ends with the multipliers of the limits.
    """
    plain, upper = _dual(loss, rows, sample_weight), _upper(rows, sample_weight)
    longer = max(1.0, _LIMIT_SHARE * np.sqrt(rows.n_points))
    sides = longer * np.kron(np.eye(limits.n_outputs), limits.sides.matrix)
    region: Region = BoxRegion(0.0, np.concatenate([upper, np.full(len(sides), np.inf)]))
    if isinstance(rows, ClassRows):
        region = _RegionWithLimits(plain.region, rows.n_points)
    both = RowsAndSides(rows, sides)
    problem = LimitedProblem(
        rows=both,
        outer=plain.outer,
        separable=_WithLimits(plain.separable, rows.n_points, longer * limits.stacked_sides.bounds),
        region=region,
        risk=_DataRisk(plain.risk, rows.n_points),
        first=np.zeros(both.n_points),
        intercept=False,
        curvature=plain.curvature,
        within=limits,
    )
    if near is None:
        free = solve_in_ball(rows, loss, limits.radius, sample_weight)
        first = np.concatenate([free.point, np.zeros(len(sides))])
    else:
        old = len(near.point) - len(sides)
        first = np.concatenate([upper * _dual_guess("hinge", _margins(rows, near)), near.point[old:]])
        first[:old] = near.point[:old]
        if isinstance(rows, ClassRows):
            region.prox(first, first.copy(), 1.0)
    return _solve(in_ball(problem, limits.radius, first), first, enough, rows.n_points)


# Horizons of an online run: its rows again, in the order in which they were learned.

HORIZONS = (16, 8, 4, 2, 1)  # parts of the rows at whose end regret is reported
SHARPNESS, MOST_SHARPENING = 0.2, 500  # gap over regret; iterations after which a gap of 1% is enough
_BLOCK = 4096
MOST_BYTES = 4 * 2**30  # of what is held of the rows: their features, or else their inputs


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """The rows of a run in the order they were learned, in memory.

    rows : features (rows, n_columns) if mapped, otherwise inputs (rows, n_inputs)
    labels : (rows,), -1 or +1, the class index, or the real target; learner : whose map it is, and whose class weights
    residuals : (rows,), as of `NystromFeatures.residuals`; None for other maps
    """

    rows: FloatArray
    labels: Doubles
    learner: LinearLearner
    mapped: bool
    n_threads: int
    residuals: Doubles | None = None

    @property
    def n_columns(self) -> int:
        """Return the number of columns of the features."""
        return self.learner.feature_map.n_columns

    def blocks(self) -> Iterator[tuple[slice, Doubles]]:
        """Return blocks of the features in float64 with their place."""
        for first in range(0, len(self.labels), _BLOCK):
            part = slice(first, first + _BLOCK)
            features = self.rows[part]
            if not self.mapped:
                features = transform_rows(self.learner.feature_map, features, self.n_threads)
            yield part, features.astype(np.float64)

    def first(self, count: int) -> MemoryRows:
        """Return the first rows."""
        return replace(self, rows=self.rows[:count], labels=self.labels[:count])

    def between(self, first: int, last: int) -> RowOperator:
        """Return the rows from first to last, without it, as the operator of a margin model."""
        rows, labels = self.rows[first:last], self.labels[first:last]
        if self.learner.n_outputs > 1:
            return ClassRows(replace(self, rows=rows, labels=labels), self.learner.n_outputs)
        if self.mapped:
            return DenseRows(rows, labels, self.n_threads)
        return MappedInputs(rows, labels, self.learner.feature_map, self.n_threads)

    def weights_between(self, first: int, last: int) -> Doubles | None:
        """Return the class weights of rows, None for 1."""
        if self.learner.class_weights is None:
            return None
        labels = self.labels[first:last]
        index = labels if self.learner.n_outputs > 1 else labels > 0.0
        return np.array(self.learner.class_weights)[index.astype(np.int64)]


@dataclass
class HindsightProgress:
    """Progress so far and in all: rows read again, then the rows of each horizon that is solved."""

    observer: Observer = field(default_factory=NullObserver)
    total: int = 0
    done: int = 0

    @classmethod
    def of(cls, observer: Observer, recorded: Sequence[SolverProgress]) -> HindsightProgress:
        """Return the progress before any row is read."""
        rows = recorded[-1].done_rows
        return cls(observer, rows + sum(progress.done_rows for progress in _nearest(recorded)))

    def read(self, rows: int) -> None:
        """Report the number of further rows that were read or certified."""
        self.done += rows
        self.observer.advance(min(self.done, self.total), self.total, {})

    def solving(self, rows: int, share: float, certificate: Certificate) -> None:
        """Report the share of the work on the certificate of a horizon that is done."""
        done = min(self.done + int(share * rows), self.total)
        self.observer.advance(done, self.total, {"relative_gap": certificate.relative_gap})


def read_all_rows(
    learner: LinearLearner, state: OnlineState, data: Dataset, execution: Execution, progress: HindsightProgress
) -> MemoryRows | None:
    """Read all rows again, in the order they were learned; None if inputs, or sparse features, exceed MOST_BYTES."""
    feature_map, count = learner.feature_map, state.total_rows
    itemsize = np.dtype(learner.precision).itemsize
    mapped = count * feature_map.n_columns * itemsize <= MOST_BYTES
    if not mapped and (data.schema.sparse or count * feature_map.n_inputs * itemsize > MOST_BYTES):
        return None
    inputs = np.empty((count, feature_map.n_columns if mapped else feature_map.n_inputs), dtype=learner.precision)
    labels, done = np.empty(count), 0
    residuals = np.empty(count) if isinstance(feature_map, NystromFeatures) else None
    for rows in execution.stream(data, state.windows, 0, len(state.windows), learner.precision):
        part = slice(done, done + len(rows.targets))
        if mapped or residuals is not None:
            features = transform_rows(feature_map, rows.inputs, execution.n_threads)
        inputs[part] = features if mapped else rows.inputs
        if residuals is not None and isinstance(feature_map, NystromFeatures):
            residuals[part] = feature_map.residuals(rows.inputs, features)
        labels[part] = rows.targets
        done = part.stop
        progress.read(len(rows.targets))
    return MemoryRows(inputs, labels, learner, mapped, execution.n_threads, residuals)


def solve_hindsights(
    learner: LinearLearner, memory_rows: MemoryRows, recorded: Sequence[SolverProgress], progress: HindsightProgress
) -> list[tuple[SolverProgress, HindsightSolution]]:
    """Return the best weights at each horizon, within the learner's limits, each warm-started from the last one."""
    loss: Literal["hinge", "logistic"] = "logistic" if learner.loss.name == "logistic" else "hinge"
    limits = learner.kept if isinstance(learner, ConstrainedLearner) else None
    assert learner.radius is not None
    solved: list[tuple[SolverProgress, HindsightSolution]] = []
    near: HindsightSolution | None = None
    both = int(np.argmax(memory_rows.labels != memory_rows.labels[0]))  # the first row of another class
    for horizon in _nearest(recorded):
        if (count := horizon.done_rows) <= both:
            continue
        if learner.task == "regression":
            near = solve_least_squares(memory_rows.first(count), learner.radius, limits)
        else:
            rows, weights = memory_rows.between(0, count), memory_rows.weights_between(0, count)
            enough = _RegretGapReached(horizon, progress)
            if limits is None:
                near = solve_in_ball(rows, loss, learner.radius, weights, near, enough)
            else:
                near = solve_within(rows, loss, limits, weights, near, enough)
        progress.read(count)
        solved.append((horizon, near))
    return solved


@dataclass
class _RegretGapReached:
    """A gap of 1%, and of a fifth of the regret, which is a small difference of two losses, where that is not too far.

    Where hardly any loss is left in hindsight, a gap of 1% of the regret suffices. At every check, it reports how
    far the gap has come, on a logarithmic scale.
    """

    standing: SolverProgress
    progress: HindsightProgress
    first: float | None = None
    share: float = 0.0

    def __call__(self, certificate: Certificate, iterations: int) -> bool:
        regret = abs(self.standing.surrogate - certificate.primal)
        gap = certificate.gap
        certified = certificate.relative_gap <= TOLERANCE or gap <= TOLERANCE * regret
        enough = certified and (gap <= SHARPNESS * regret or iterations >= MOST_SHARPENING)
        loss = max(abs(certificate.primal), abs(certificate.dual))
        due = max(TOLERANCE * regret, min(TOLERANCE * loss, SHARPNESS * regret))
        self.first = gap if self.first is None else self.first
        if self.first > due > 0.0 and gap > 0.0:
            share = math.log(self.first / gap) / math.log(self.first / due)
            self.share = min(max(self.share, share), 1.0)  # gaps do not fall at every check
        self.progress.solving(self.standing.done_rows, self.share, certificate)
        return enough


def _nearest(recorded: Sequence[SolverProgress]) -> list[SolverProgress]:
    """Return the recorded states nearest to a sixteenth of the rows, an eighth, ..., all."""
    total = recorded[-1].done_rows
    chosen = [min(recorded, key=lambda progress: abs(progress.done_rows - total / part)) for part in HORIZONS]
    return list(dict.fromkeys(chosen))
