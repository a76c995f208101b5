"""Newton's method for margin models, with the same certificate as the accelerated method.

The dual problem is to minimise outer(||A a||) + separable(a) + region(a). Its primal problem is a function of the
weights w and of one threshold t for each hyperplane n_k'a = total_k of the region,

    P(w, t) = 1/2 ||w||^2 + sum_i loss_i(z_i) - total't,    z_i = s_i <w, z_i> - (N't)_i.

A loss whose slope is continuous (squared hinge, logistic, DWD) implies a dual entry a_i = -loss_i'(z_i), and Newton's
method minimises P itself. The hinge loss is made smooth by a proximal step on the dual from an anchor b,

    a_i = clip(b_i + pace u_i (1 - z_i), 0, u_i),    u_i the upper bound,

and anchors and paces follow each other as in the method of multipliers. The gap of any (w, t) to the dual entries it
implies is 1/2 ||w - A a||^2 plus what the proximal step leaves, so that the certificate needs no other read.

What is as long as the rows stays with them and follows from the points so far: partitions evaluate requests, and may
forget everything between two of them.

Source: Niu, Wang, Tang, Wang & Song, arXiv 1910.01312, for hinge losses; Yin & Li, COAP 2019, for squared ones.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.special import xlog1py, xlogy

from okl.compiled.newton import box_duals, entropy_duals, roots_duals
from okl.data.dataset import Shard
from okl.data.executor import Execution
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray
from okl.foundation.validation import check_at_least, check_positive
from okl.solvers.accelerated.base import Certificate, CompositeProblem, Iterate, Solution
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.method import rounded_ending
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import (
    BoxSet,
    EntropyBarrier,
    EuclideanNorm,
    HalfSquare,
    LinearTerm,
    Quadratic,
    Region,
    RootsBarrier,
    Separable,
    SumOfLosses,
)
from okl.solvers.accelerated.shards import (
    MappedRows,
    RootSearch,
    ShardRows,
    WarmStart,
    find_roots,
    groups_of_class,
    signs_of_class,
    spread,
)
from okl.solvers.base import Outcome

# Points, and requests to partitions.


@stored("newton-point")
@dataclass(frozen=True, eq=False)
class Point:
    """Weights (n_columns,) and thresholds (n_hyperplanes,), and how far the proximal step may go.

    serial : name of the weights in this run, by which partitions keep margins; pace : in units of the upper bounds
    """

    serial: int
    weights: FloatArray
    thresholds: FloatArray
    pace: float


@dataclass(frozen=True, eq=False)
class Place:
    """A point with the points before it that were made anchors, in their order."""

    point: Point
    anchors: tuple[Point, ...]


class Gradient(NamedTuple):
    """A partition's part of the first derivatives and of the certificate.

    image : A a of the dual entries, (n_columns,); balance : N a, (n_hyperplanes,)
    risk : losses at the point's thresholds; value : separable part and region at a; along : sum_i a_i z_i
    size : sum_i |a_i|; terms : sum_i |a_i| ||z_i||, at most; free : rows whose dual entry has a slope
    margin : the largest |z_i|
    """

    image: FloatArray
    balance: FloatArray
    risk: float
    value: float
    along: float
    size: float
    terms: float
    free: int
    margin: float


def added(parts: Sequence[Gradient]) -> Gradient:
    """Add the parts of all partitions, in their order."""
    total = parts[0]
    for part in parts[1:]:
        total = Gradient(
            image=total.image + part.image,
            balance=total.balance + part.balance,
            risk=total.risk + part.risk,
            value=total.value + part.value,
            along=total.along + part.along,
            size=total.size + part.size,
            terms=total.terms + part.terms,
            free=total.free + part.free,
            margin=max(total.margin, part.margin),
        )
    return total


Cache = Callable[[Hashable, Callable[[], FloatArray]], FloatArray]

# Dual entries as functions of margins.


class _Response:
    """Dual entries a (m,) of margins, and their slopes -a'(z); anchored : whether they depend on an anchor."""

    anchored = False

    def write(self, out: FloatArray, slopes: FloatArray, at: _Shifted) -> None:
        raise NotImplementedError

    def value(self, problem: DualProblem, duals: FloatArray) -> float:
        """Return the separable part and the region at dual entries."""
        return problem.separable.value(duals) + problem.region.value(duals)


class _Shifted(NamedTuple):
    """Margins (m,), the thresholds of rows of either sign, anchors (m,) and pace."""

    margins: FloatArray
    plus: float
    minus: float
    anchors: FloatArray
    pace: float


@dataclass(frozen=True, eq=False)
class _BoxResponse(_Response):
    """Entries of a box.

    widths : of its sides, in which steps from an anchor are counted; or the steps that curvatures allow, which those
        from an anchor are no longer than; anchored : whether entries of the sides are
    """

    signs: FloatArray
    widths: FloatArray
    targets: FloatArray
    lower: FloatArray
    upper: FloatArray
    anchored: bool

    def write(self, out: FloatArray, slopes: FloatArray, at: _Shifted) -> None:
        steps, anchors = self.widths, at.anchors
        if self.anchored:
            steps = at.pace * steps
        elif at.pace > 0.0:  # a prox of 1 / 2 a^2 / width - a target + 1 / 2 (a - anchor)^2 / (pace width)
            steps, anchors = (at.pace / (1.0 + at.pace)) * steps, anchors / (1.0 + at.pace)
        box = (self.targets, self.lower, self.upper)
        box_duals(out, slopes, at.margins, self.signs, anchors, steps, *box, at.plus, at.minus)


@dataclass(frozen=True, eq=False)
class _EntropyResponse(_Response):
    signs: FloatArray
    upper: FloatArray

    def write(self, out: FloatArray, slopes: FloatArray, at: _Shifted) -> None:
        entropy_duals(out, slopes, at.margins, self.signs, self.upper, at.plus, at.minus)

    def value(self, problem: DualProblem, duals: FloatArray) -> float:
        """Return the sum with all digits where entries are small beside their bounds."""
        shares = np.divide(duals, self.upper, out=np.zeros(len(duals)), where=self.upper > 0.0)
        return float(np.sum(xlogy(duals, shares) + xlog1py(self.upper - duals, -shares)))


@dataclass(frozen=True, eq=False)
class _RootsResponse(_Response):
    signs: FloatArray
    upper: FloatArray
    scales: FloatArray

    def write(self, out: FloatArray, slopes: FloatArray, at: _Shifted) -> None:
        roots_duals(out, slopes, at.margins, self.signs, self.scales, self.upper, at.plus, at.minus)


def _response_of(separable: Separable, region: Region, signs: FloatArray) -> _Response | None:
    """Return how dual entries follow from margins; None where this method does not know."""
    if isinstance(region, EntropyBarrier) and separable == LinearTerm(0.0):
        return _EntropyResponse(signs, region.upper)
    if isinstance(region, RootsBarrier) and separable == LinearTerm(0.0):
        return _RootsResponse(signs, region.upper, region.scales)
    if not isinstance(region, BoxSet):
        return None
    lower, upper = (_spread(bound, len(signs)) for bound in (region.lower, region.upper))
    if isinstance(separable, LinearTerm):
        if not np.isfinite(upper - lower).all():
            return None
        targets = np.full(len(signs), -separable.slope)
        return _BoxResponse(signs, upper - lower, targets, lower, upper, True)
    if isinstance(separable, Quadratic):
        curvatures, counted = separable.curvatures, separable.curvatures > 0.0
        if not np.all(counted | (upper == lower)):
            return None
        steps = np.divide(1.0, curvatures, out=np.zeros(len(signs)), where=counted)
        return _BoxResponse(signs, steps, _spread(separable.targets, len(signs)), lower, upper, False)
    return None


def _spread(value: float | FloatArray, size: int) -> NDArray[np.float64]:
    return np.array(np.broadcast_to(value, size), dtype=np.float64)


# A partition of the rows.


class NewtonPart:
    """Rows of a partition: pure functions of a place, whose margins and anchors are kept while there is room.

    problem : of these rows; longest : at least their largest squared length
    first : anchor before all others, (m,); cache : of arrays by name
    """

    def __init__(self, problem: DualProblem, longest: float, first: FloatArray, cache: Cache) -> None:
        self._problem, self._length, self._first, self._cache = problem, math.sqrt(longest), first, cache
        region: Any = problem.region
        self._signs: FloatArray = getattr(region, "signs", problem.rows.signs)
        response = _response_of(problem.separable, region, self._signs)
        assert response is not None, "the problem was checked"
        self._response = response
        if not response.anchored:
            self._first = np.zeros(len(first))

    @cached_property
    def _normals(self) -> NDArray[np.float64]:
        """Normals of the hyperplanes, (n_hyperplanes, m)."""
        normals: NDArray[np.float64] = np.where(
            self._signs > 0.0, self._problem.region.normals[:, :1], self._problem.region.normals[:, 1:]
        )
        return normals

    def gradient(self, at: Place) -> Gradient:
        """Return sums at the point."""
        problem, margins = self._problem, self._margins(at.point.serial, at.point.weights)
        duals, slopes = self._respond(at, margins, at.point.thresholds)
        image = np.empty(problem.rows.n_image)
        problem.rows.image(image, duals)
        size = float(np.abs(duals).sum())
        balance = self._normals @ duals
        return Gradient(
            image=image,
            balance=balance,
            risk=problem.risk.sum_at(margins, at.point.thresholds),
            value=self._response.value(problem, duals),
            along=float(duals @ margins) - float(balance @ at.point.thresholds),
            size=size,
            terms=self._length * size,
            free=int(np.count_nonzero(slopes)),
            margin=float(np.abs(margins).max()),
        )

    def curvature(self, at: Place) -> FloatArray:
        """Return sum_i slope_i x_i x_i', x_i = (s_i z_i, -n_i), at least its lower triangle."""
        slopes = self._respond(at, self._margins(at.point.serial, at.point.weights), at.point.thresholds)[1]
        rows: Any = self._problem.rows
        curvature: FloatArray = rows.curvature(slopes, -self._normals)
        return curvature

    def product(self, at: Place, vector: FloatArray) -> FloatArray:
        """Return sum_i slope_i x_i <x_i, v> of a vector v (n_columns + n_hyperplanes,), x_i as of `curvature`."""
        rows, n = self._problem.rows, self._problem.rows.n_image
        slopes = self._respond(at, self._margins(at.point.serial, at.point.weights), at.point.thresholds)[1]
        moved, image = np.empty(rows.n_points), np.empty(n)
        rows.pull(moved, vector[:n])
        moved -= vector[n:] @ self._normals
        moved *= slopes
        rows.image(image, moved)
        return np.concatenate([image, -(self._normals @ moved)])

    def diagonal(self, at: Place) -> FloatArray:
        """Return the diagonal of the curvature, (n_columns + n_hyperplanes,)."""
        slopes = self._respond(at, self._margins(at.point.serial, at.point.weights), at.point.thresholds)[1]
        rows: Any = self._problem.rows
        return np.concatenate([rows.squared_columns(slopes), np.square(self._normals) @ slopes])

    def step_by_rows(self, at: Place, gradient: FloatArray, reach: float) -> FloatArray:
        """Return the Newton step (n_columns + n_hyperplanes,) by the products of the free rows with each other.

        With X the free rows s_i z_i, N their normals and D their slopes, and q = D (X w - N't) for a step (w, t):
        w = -g_w - X'q, where (D^(-1) + X X') q + N't = -X g_w and N q = g_t.

        gradient : g = (g_w, g_t); reach : of the margins, see _Run._direction
        """
        problem, n = self._problem, self._problem.rows.n_image
        slopes = self._respond(at, self._margins(at.point.serial, at.point.weights), at.point.thresholds)[1]
        free = np.flatnonzero(slopes)
        rows: Any = problem.rows
        matrix = self._products(free)
        np.einsum("ii->i", matrix)[:] += 1.0 / slopes[free]
        moved = np.empty(rows.n_points)
        rows.pull(moved, gradient[:n])
        normals = self._normals[:, free]
        solved = positive_solution(matrix, np.column_stack([-moved[free], normals.T]))
        inner = normals @ solved
        # a threshold that no free row depends on: see _Run._direction
        stuck = np.einsum("ii->i", inner[:, 1:]) <= 0.0
        inner[stuck, 1:] = np.eye(len(inner))[stuck] * (1.0 + reach)
        inner[stuck, 0] = 0.0
        scale = np.where(stuck, np.abs(gradient[n:]), 1.0)
        thresholds = np.linalg.solve(inner[:, 1:], inner[:, 0] - np.where(stuck, 0.0, gradient[n:]))
        thresholds = np.where(stuck, -np.sign(gradient[n:]) * (1.0 + reach) * (scale > 0.0), thresholds)
        duals = np.zeros(rows.n_points)
        duals[free] = solved[:, 0] - solved[:, 1:] @ thresholds
        image = np.empty(n)
        rows.image(image, duals)
        return np.concatenate([-gradient[:n] - image, thresholds])

    def _products(self, free: NDArray[np.intp]) -> FloatArray:
        """Return the signed products of some rows with each other, a new array (n_free, n_free)."""
        rows: Any = self._problem.rows

        def multiplied(some: NDArray[np.intp]) -> FloatArray:
            products = rows.products(some, some)
            products = products.toarray() if sparse.issparse(products) else products
            signed: FloatArray = np.asarray(products, dtype=np.float64) * rows.signs[some]
            signed *= rows.signs[some][:, np.newaxis]
            return signed

        if rows.n_points > MOST_COLUMNS:
            return multiplied(free)
        products = self._cache("products", lambda: multiplied(np.arange(rows.n_points)))
        of_free: FloatArray = products[np.ix_(free, free)].copy()
        return of_free

    def line(self, at: Place, direction: Point, steps: Sequence[float]) -> FloatArray:
        """Return first and second derivative of the losses at steps along a direction, (n_steps, 2)."""
        margins = self._margins(at.point.serial, at.point.weights)
        change = self._margins(direction.serial, direction.weights)
        moved = change - direction.thresholds @ self._normals
        found = np.empty((len(steps), 2))
        for index, step in enumerate(steps):
            thresholds = at.point.thresholds + step * direction.thresholds
            duals, slopes = self._respond(at, margins + step * change, thresholds)
            found[index] = -(duals @ moved), slopes @ np.square(moved)
        return found

    def balances(self, at: Place, candidates: FloatArray) -> FloatArray:
        """Return -N a, how fast it falls, and its size, at candidate thresholds (n_hyperplanes, K): (.., K, 3)."""
        margins, normals = self._margins(at.point.serial, at.point.weights), self._normals
        found = np.empty((*candidates.shape, 3))
        for column, thresholds in enumerate(candidates.T):
            duals, slopes = self._respond(at, margins, thresholds)
            found[:, column, 0] = -(normals @ duals)
            found[:, column, 1] = np.square(normals) @ slopes
            found[:, column, 2] = np.abs(normals) @ np.abs(duals)
        return found

    def spread(self, at: Place) -> FloatArray:
        """Return count, sum and sum of squares of the margins of either sign, (2, 3)."""
        margins = self._margins(at.point.serial, at.point.weights)
        chosen = (margins[self._problem.rows.signs * sign > 0.0] for sign in (1.0, -1.0))
        return np.array([[len(some), some.sum(), some @ some] for some in chosen])

    def duals(self, at: Place) -> FloatArray:
        """Return the dual entries, (m,)."""
        return self._respond(at, self._margins(at.point.serial, at.point.weights), at.point.thresholds)[0]

    def _margins(self, serial: int, weights: FloatArray) -> FloatArray:
        def multiplied() -> FloatArray:
            margins = np.empty(self._problem.rows.n_points)
            self._problem.rows.pull(margins, weights)
            return margins

        return self._cache(("margins", serial), multiplied)

    def _respond(self, at: Place, margins: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        duals, slopes = np.empty(len(margins)), np.empty(len(margins))
        plus, minus = thresholds @ self._problem.region.normals if len(thresholds) else (0.0, 0.0)
        anchor = self._anchor(at.anchors)
        self._response.write(duals, slopes, _Shifted(margins, float(plus), float(minus), anchor, at.point.pace))
        return duals, slopes

    def _anchor(self, anchors: tuple[Point, ...]) -> FloatArray:
        if not anchors:
            return self._first
        name = ("anchor", len(anchors), anchors[-1].serial, anchors[-1].pace)
        return self._cache(name, lambda: self.duals(Place(anchors[-1], anchors[:-1])))


MOST_COLUMNS = 1000  # of a Newton system that is solved directly
_KEPT = 8  # labels, margins of the point, of the direction and of the point before, and the last anchors


class LastArrays:
    """A cache that keeps the values that were used last; threads may share it."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = Lock()

    def __call__(self, name: Hashable, load: Callable[[], Any]) -> Any:
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        value = load()
        with self._lock:
            self._held[name] = value
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)
        return value


# Problems.

Request = tuple[Any, ...]
"""A method of NewtonPart, and its arguments."""


@dataclass(frozen=True, eq=False)
class NewtonProblem:
    """A problem as Newton's method sees it, with its rows in this process or in partitions.

    prototype : the terms that do not depend on rows; n_columns : of w
    evaluate : returns the results of all partitions to a request, in order
    start : first weights and thresholds of a warm start, or None; holds_rows : whether there is one partition, here
    rough : whether rows are sparse and of like length: rough steps are good for squared losses, too
    """

    prototype: DualProblem
    n_columns: int
    evaluate: Callable[[Request], list[Any]]
    start: tuple[FloatArray, FloatArray] | None = None
    holds_rows: bool = False
    rough: bool = False

    @property
    def anchored(self) -> bool:
        """Return whether the losses have kinks, so that dual entries depend on an anchor."""
        return isinstance(self.prototype.region, BoxSet) and isinstance(self.prototype.separable, LinearTerm)

    @property
    def has_unit(self) -> bool:
        """Return whether margins have a fixed size in a problem whose dual entries may depend on an anchor."""
        return isinstance(self.prototype.region, BoxSet) and self.prototype.separable != LinearTerm(0.0)

    @property
    def in_ball(self) -> bool:
        """Return whether the weights are bound by a ball instead of a penalty."""
        return isinstance(self.prototype.outer, EuclideanNorm)


def is_supported(problem: CompositeProblem) -> bool:
    """Return whether Newton's method solves a problem: explicit rows, and losses of margins that it knows."""
    if type(problem) is not DualProblem or type(problem.rows) not in (DenseRows, SparseRows):
        return False
    if not isinstance(problem.outer, HalfSquare | EuclideanNorm):
        return False
    return _response_of(problem.separable, problem.region, problem.rows.signs) is not None


def is_smooth(problem: Any) -> bool:
    """Return whether the losses of a supported problem bend evenly, so that rough steps are good: the logistic ones."""
    return isinstance(problem.region, EntropyBarrier) and isinstance(problem.outer, HalfSquare)


def bends(problem: Any) -> bool:
    """Return whether the losses of a supported problem are squares, or smooth: dual entries need no anchor."""
    smooth = isinstance(problem.separable, Quadratic) or isinstance(problem.region, EntropyBarrier)
    return smooth and isinstance(problem.outer, HalfSquare)


def in_memory(problem: DualProblem, point: FloatArray | None = None) -> NewtonProblem:
    """Return the problem of rows in this process, from its own start or near a dual point (m,).

    Raises
    ------
    ConfigError : a problem that Newton's method does not solve
    DataError : the point has another length, or is not finite
    """
    if not is_supported(problem):
        raise ConfigError(
            'method = "newton" requires explicit columns and one of the models c-svm, l2-svm, logistic, nu-svm and '
            'dwd. Use method = "auto".'
        )
    first: FloatArray = np.zeros(problem.n_points)
    start: tuple[FloatArray, FloatArray] | None = None
    if point is not None:
        near = problem.first_iterate(point, problem.first_lipschitz)
        slope = problem.outer.slope(float(near.image @ near.image))
        first, start = near.point, (slope * near.image, np.zeros(len(problem.region.totals)))
    longest = float(problem.rows.squared_lengths().max())
    rough = isinstance(problem.rows, SparseRows) and longest <= _UNIT
    part = NewtonPart(problem, longest, first, LastArrays())

    def evaluate(request: Request) -> list[Any]:
        method, *given = request
        return [method(part, *given)]

    return NewtonProblem(problem, problem.n_image, evaluate, start, holds_rows=True, rough=rough)


# Rows over shards.


@stored("newton-work")
@dataclass(frozen=True, eq=False)
class NewtonWork:
    """Work on a shard: the results of its rows to a request.

    rows : of all shards; prototype : of the model, see Classifier.prototype
    positive : class, None for +1; n_groups : of rows of one weight
    run : name of the run, unlike any other; warm : a solution for other rows, or None
    """

    rows: MappedRows
    prototype: Any
    positive: int | None
    n_groups: int
    run: str
    warm: WarmStart | None = None

    def __call__(self, shard: Shard, request: Request) -> list[Any]:
        """Return the one result."""
        method, *given = request
        return [method(self._part(shard), *given)]

    def problem(self, execution: Execution, shards: Sequence[Shard]) -> Any:
        """Return the problem of all shards."""

        def evaluate(request: Request) -> list[Any]:
            results: list[list[Any]] = execution.sum(self, shards, request, in_order)
            return [result for (result,) in results]

        start = None
        if self.warm is not None and len(self.prototype.region.totals) < 2:
            start = (self.warm.weights, np.full(len(self.prototype.region.totals), self.warm.bias))
        sparse = self.rows.data.schema.sparse if self.rows.is_sparse else None
        rough = sparse is not None and (sparse.unit_length or bool(sparse.texts))
        return NewtonProblem(self.prototype, self.rows.n_columns, evaluate, start, rough=rough)

    def _part(self, shard: Shard) -> Any:
        cached = _of_shard(self.run, shard.index)

        def read() -> tuple[FloatArray, FloatArray]:
            targets, longest = self.rows.targets(shard)
            return targets, np.array([longest])

        targets, longest = cached("targets", read)
        groups = groups_of_class(targets, self.positive, self.n_groups)
        rows = ShardRows(self.rows, shard, signs_of_class(targets, self.positive))
        problem = self.prototype.part(rows, lambda values: spread(values, groups))
        return self.part_of(problem, float(longest[0]), cached)

    def part_of(self, problem: Any, longest: float, cached: Cache) -> Any:
        """Return the part of a shard's rows."""
        first, warm = np.zeros(problem.rows.n_points), self.warm
        if warm is not None and isinstance(problem.risk, SumOfLosses):
            first = cached("first", lambda: _implied(problem, warm))
        return NewtonPart(problem, longest, first, cached)


_MOST_RUNS = 2
_runs: OrderedDict[str, dict[int, LastArrays]] = OrderedDict()
_lock = Lock()


def _of_shard(run: str, shard: int) -> LastArrays:
    """Return the vectors that this process holds of a shard; those of abandoned runs are dropped."""
    with _lock:
        of_run = _runs.setdefault(run, {})
        _runs.move_to_end(run)
        while len(_runs) > _MOST_RUNS:
            _runs.popitem(last=False)
        return of_run.setdefault(shard, LastArrays())


def forget_vectors() -> None:
    """Drop the vectors of all runs, as another process would not have them."""
    with _lock:
        _runs.clear()


def _implied(problem: DualProblem, warm: WarmStart) -> FloatArray:
    """Return the dual entries (m,) that the margins of a solution for other rows imply."""
    margins = np.empty(problem.rows.n_points)
    problem.rows.pull(margins, warm.weights)
    risk: Any = problem.risk
    duals: FloatArray = risk.duals_at(margins - warm.bias * problem.rows.signs)
    return duals


def in_order(results: list[list[Any]]) -> list[Any]:
    """Return the results of the shards: they are added by the driver."""
    return results


# The method.


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


@stored("newton-state")
@dataclass(frozen=True, eq=False)
class NewtonState:
    """State of a run; a value.

    point : the current one; anchors : those before it
    best_point : the one of least primal objective at a check; best : its dual point, if rows are here, and A a
    best_record : with the gap between it and the best dual objective; history : a record a check
    """

    point: Point
    anchors: tuple[Point, ...]
    best_point: Point
    best: Iterate
    best_record: NewtonRecord
    history: tuple[NewtonRecord, ...]

    @property
    def reads(self) -> int:
        """Return the number of requests to all rows."""
        return self.history[-1].reads


_FIRST_PACE, _FASTER, _MOST_PACE = 0.5, 3.0, 1e10
_SHARE = 0.1  # of what the proximal step leaves of the gap: the residual of an inner problem
_OF_TOLERANCE = 0.2
_MOST_STEPS, _STEPS_A_CHECK = 50, 3  # of an inner problem; of the only one
_MOST_TRIALS, _MOST_STANDING = 40, 2  # of a line search; steps that stand still
_FLAT, _TOO_SHORT = 0.1, 0.5  # slopes along a line, in that at its start, after which a step is taken
_BALANCED = 1e-8  # of the sum of the dual entries
_CANDIDATES = 3
_LOOSEST, _TIGHT, _MOST_PRODUCTS = 0.1, 1e-4, 1000  # shares of the right side that are left; products with a vector
_MOST_IDLE, _IDLE = 12, 0.99  # checks, in which the gap does not fall to such a share
_RESOLVED, _LONGER = 1e-11, 1e-9  # of the objective of no weights: losses that may be rounding; of the weights
_SLOWER, _FIRST_SLOW, _STANDING = 1e-4, 1e-6, 1e-12  # of the pace; of the weights: a step that is rounding
_HALVED, _WIDE = 8, 16.0  # trials before a line search halves its logarithm; the ratio of bounds in which it does
_UNIT = 1.01  # squared length of sparse rows that were divided by their lengths
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class CertifiedSteps:
    """A method of steps with a certificate at each check.

    Parameters
    ----------
    tolerance : of the gap, relative to the objective; > 0
    max_iterations : int >= 1, steps

    Raises
    ------
    ConfigError : a number outside its range
    """

    tolerance: float = 1e-6
    max_iterations: int = 1000

    STEPS: ClassVar[str] = "Newton steps"
    REASON: ClassVar[str] = "the columns are of very different or very large size"
    """Why steps may make no progress in float64."""

    def __post_init__(self) -> None:
        check_positive("tolerance", self.tolerance)
        check_at_least("max_iterations", self.max_iterations, 1)

    def finished(self, state: Any) -> Outcome | None:
        """Return why the run is over, or None."""
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
        gaps = [one.certificate.gap for one in state.history]
        if len(gaps) <= _MOST_IDLE or min(gaps[-_MOST_IDLE:]) <= _IDLE * min(gaps[:-_MOST_IDLE]):
            return None
        steps = f"{self.STEPS[0].upper()}{self.STEPS[1:]}"
        return Outcome(
            "not converged",
            f"{steps} make no progress in float64 after {record.iteration}, {reached}: {self.REASON}",
        )

    def _is_finite(self, state: Any) -> bool:
        return bool(np.isfinite(state.point.weights).all())


def better_of(record: NewtonRecord, best: NewtonRecord) -> tuple[NewtonRecord, NewtonRecord, bool]:
    """Return a record and the best one with the better dual bound, and whether the first has the lower objective.

    The gaps may differ by less than they round; a bound above an objective is so by rounding.
    """
    bound = min(max(record.certificate.dual, best.certificate.dual), record.certificate.primal, best.certificate.primal)
    record, best = (replace(one, certificate=replace(one.certificate, dual=bound)) for one in (record, best))
    return record, best, record.certificate.primal < best.certificate.primal


@dataclass(frozen=True)
class Newton(CertifiedSteps):
    """Newton's method on weights and thresholds, with proximal steps on the dual where losses have kinks."""

    def opened(self, problem: DualProblem, point: FloatArray | None = None) -> NewtonProblem:
        """Return what the other methods take, for rows in this process; see `in_memory`."""
        return in_memory(problem, point)

    def start(self, problem: NewtonProblem, point: FloatArray | None = None) -> NewtonState:
        """Return the state at the first point of an open problem, with a check."""
        run = _Run(problem, self.tolerance, 0, 0)
        weights, thresholds = problem.start or (
            np.zeros(problem.n_columns),
            np.zeros(len(problem.prototype.region.totals)),
        )
        pace = _FIRST_PACE / run.unit(weights) if problem.anchored else 0.0
        return run.checked(Place(Point(0, weights, thresholds, pace), ()), None)

    def advance(self, state: NewtonState, problem: NewtonProblem) -> NewtonState:
        """Return the state after an inner problem, or after some steps of the only one."""
        largest = state.history[0].certificate.primal
        run = _Run(problem, self.tolerance, state.history[-1].iteration, state.reads, largest)
        place = Place(state.point, state.anchors)
        if state.point.pace > 0.0:
            faster = min(_FASTER * state.point.pace, _MOST_PACE) if state.anchors else state.point.pace
            place = Place(replace(state.point, pace=faster), (*state.anchors, state.point))
        place = run.minimised(place, self.max_iterations)
        run.iteration = max(run.iteration, state.history[-1].iteration + 1)
        return run.checked(place, state)

    def solution(self, state: NewtonState, problem: NewtonProblem) -> Solution:
        """Return the primal solution of least gap so far, with its certificate."""
        return Solution(
            state.best_point.weights.copy(), state.best_record.certificate.bias, state.best_record.certificate
        )


@dataclass
class _Run:
    """An inner problem under way.

    iteration : Newton steps so far; reads : requests so far; largest : objective of the first point
    """

    problem: NewtonProblem
    tolerance: float
    iteration: int
    reads: int
    largest: float = 0.0
    serial: int = field(init=False)

    def __post_init__(self) -> None:
        self.serial = 2 * self.iteration

    def evaluate(self, *request: Any) -> list[Any]:
        """Return the results of all partitions."""
        self.reads += 1
        return self.problem.evaluate(request)

    def unit(self, weights: FloatArray) -> float:
        """Return the size of the differences of margins that matter: 1 for the hinge, whose kink is at 1.

        nu-SVM has margins of any size: they spread as those of the difference of the class means, at first.
        """
        prototype = self.problem.prototype
        if not isinstance(prototype.separable, LinearTerm) or prototype.separable.slope != 0.0:
            return 1.0
        place = Place(Point(-1, weights, np.zeros(len(prototype.region.totals)), 1.0), ())
        place = self.balanced(place)
        image = added(self.evaluate(NewtonPart.gradient, place)).image
        sums = np.sum(
            self.evaluate(NewtonPart.spread, Place(replace(place.point, serial=-2, weights=image), ())), axis=0
        )
        counts = np.maximum(sums[:, 0], 1.0)
        variance = float(np.sum(sums[:, 2] - sums[:, 1] ** 2 / counts) / counts.sum())
        return math.sqrt(variance) if variance > 0.0 else 1.0

    def minimised(self, place: Place, max_iterations: int) -> Place:
        """Return where the losses' sum and the penalty are least, to a share of the gap."""
        standing, least = 0, math.inf
        for _ in range(_MOST_STEPS if place.point.pace > 0.0 else _STEPS_A_CHECK):
            gradient = added(self.evaluate(NewtonPart.gradient, place))
            if self._is_near(place, gradient) or self.iteration >= max_iterations:
                break
            direction = self._direction(place, gradient)
            step = self._step(place, gradient, direction)
            residual = self._residual(place.point.weights, gradient.image)
            standing = standing + 1 if _stands(place.point, direction, step) and residual >= 0.5 * least else 0
            least = min(least, residual)
            if step == 0.0 or standing >= _MOST_STANDING:
                return self._slower(place)
            self.iteration += 1
            self.serial = 2 * self.iteration
            point = place.point
            moved = replace(
                point,
                serial=self.serial,
                weights=point.weights + step * direction.weights,
                thresholds=point.thresholds + step * direction.thresholds,
            )
            place = replace(place, point=moved)
        return place

    def _slower(self, place: Place) -> Place:
        """Return the place with a smaller pace and without anchors, which may be far larger than the dual optimum.

        Margins are rounded, and dual entries move by the pace times their error.
        """
        if not self.problem.has_unit:
            return place
        return Place(replace(place.point, pace=_SLOWER * place.point.pace or _FIRST_SLOW), ())

    def _is_near(self, place: Place, gradient: Gradient) -> bool:
        point, prototype = place.point, self.problem.prototype
        rounded = self._is_rounded(gradient)
        size = self._regulariser(point.weights) + (0.0 if rounded else abs(gradient.risk))
        left = 0.0 if rounded else max(gradient.risk + gradient.value + gradient.along, 0.0)
        unbalanced = np.abs(gradient.balance - prototype.region.totals).max(initial=0.0)
        enough = _SHARE * max(left, _OF_TOLERANCE * self.tolerance * size)
        return self._residual(point.weights, gradient.image) <= enough and unbalanced <= _BALANCED * gradient.size

    def _is_rounded(self, gradient: Gradient) -> bool:
        """Return whether hinge losses may be those of margins of 1 that are rounded."""
        return self.problem.anchored and gradient.risk <= _RESOLVED * self.largest

    def _stretched(self, point: Point) -> Point:
        """Return weights that are longer by a share of the tolerance, so that margins of 1 are above it."""
        longer = 1.0 + min(_LONGER, 1e-2 * self.tolerance)
        return replace(
            point, serial=-3 - self.iteration, weights=longer * point.weights, thresholds=longer * point.thresholds
        )

    def _regulariser(self, weights: FloatArray) -> float:
        return 0.0 if self.problem.in_ball else 0.5 * float(weights @ weights)

    def _residual(self, weights: FloatArray, image: FloatArray) -> float:
        """Return what w and A a add to the gap: 1/2 ||w - A a||^2, or radius ||A a|| - <w, A a>."""
        outer = self.problem.prototype.outer
        if isinstance(outer, EuclideanNorm):
            return outer.radius * float(np.linalg.norm(image)) - float(weights @ image)
        return 0.5 * float(np.sum(np.square(weights - image)))

    def _slopes(self, place: Place, gradient: Gradient) -> FloatArray:
        """Return the gradient over weights and thresholds, (n_columns + n_hyperplanes,)."""
        of_weights = -gradient.image if self.problem.in_ball else place.point.weights - gradient.image
        return np.concatenate([of_weights, gradient.balance - self.problem.prototype.region.totals])

    def _direction(self, place: Place, gradient: Gradient) -> Point:
        slopes, n = self._slopes(place, gradient), self.problem.n_columns
        few = 0 < gradient.free < min(n, MOST_COLUMNS + 1)
        if few and self.problem.holds_rows and not self.problem.in_ball:
            (step,) = self.evaluate(NewtonPart.step_by_rows, place, slopes, gradient.margin)
            return Point(self.serial + 1, step[:n], step[n:], 0.0)
        if n > MOST_COLUMNS and not self.problem.in_ball:
            step = self._by_products(place, gradient, slopes)
            return Point(self.serial + 1, step[:n], step[n:], 0.0)
        curvature = self.evaluate(NewtonPart.curvature, place)
        matrix = curvature[0]
        for part in curvature[1:]:
            matrix = matrix + part
        diagonal = np.einsum("ii->i", matrix)
        # a threshold that no free row depends on: as far as the margins reach, at most
        stuck = np.flatnonzero(diagonal[n:] <= 0.0) + n
        diagonal[stuck] = np.maximum(np.abs(slopes[stuck]), _EPSILON) / (1.0 + gradient.margin)
        if self.problem.in_ball:
            outer: Any = self.problem.prototype.outer
            step = _step_in_ball(matrix, slopes, place.point.weights, outer.radius)
        else:
            diagonal[:n] += 1.0
            step = -positive_solution(matrix, slopes)
        return Point(self.serial + 1, step[:n], step[n:], 0.0)

    def _by_products(self, place: Place, gradient: Gradient, slopes: FloatArray) -> FloatArray:
        """Return a step that solves the Newton system to a share of its right side, by conjugate gradients.

        The diagonal preconditions them: columns may be of any size.

        Source: Dembo & Steihaug, Mathematical Programming 26, 1983, for the share.
        """
        n = self.problem.n_columns
        scale = np.sum(self.evaluate(NewtonPart.diagonal, place), axis=0)
        scale[:n] += 1.0
        stuck = np.flatnonzero(scale <= 0.0)
        scale[stuck] = np.maximum(np.abs(slopes[stuck]), _EPSILON) / (1.0 + gradient.margin)

        def times(vector: FloatArray) -> FloatArray:
            total: FloatArray = np.sum(self.evaluate(NewtonPart.product, place, vector), axis=0)
            total[:n] += vector[:n]
            total[stuck] += scale[stuck] * vector[stuck]
            return total

        step, left = np.zeros(len(slopes)), -slopes
        direction = left / scale
        size = first = float(left @ direction)
        length = math.sqrt(first)
        share = min(_LOOSEST, math.sqrt(length / (1.0 + float(np.linalg.norm(place.point.weights)))))
        if not is_smooth(self.problem.prototype):  # rows become free on the way: a rough step may lead astray
            share = _LOOSEST if self.problem.rough and bends(self.problem.prototype) else _TIGHT
        for _ in range(_MOST_PRODUCTS):
            moved = times(direction)
            along = size / float(direction @ moved)
            step += along * direction
            left = left - along * moved
            before, size = size, float(left @ (left / scale))
            if size <= share**2 * first:
                break
            direction = left / scale + (size / before) * direction
        return step

    def _step(self, place: Place, gradient: Gradient, direction: Point) -> float:
        """Return how far to go: to where the slope along the direction is nearly 0; 0 where it does not fall."""
        weights, totals = place.point.weights, self.problem.prototype.region.totals
        penalty = 0.0 if self.problem.in_ball else 1.0
        along = np.concatenate([direction.weights, direction.thresholds])
        first = float(self._slopes(place, gradient) @ along)
        if not first < 0.0:
            return 0.0
        low, high, step = 0.0, math.inf, 1.0
        for trial in range(_MOST_TRIALS):
            sums = np.sum(self.evaluate(NewtonPart.line, place, direction, (step,)), axis=0)[0]
            slope = penalty * float((weights + step * direction.weights) @ direction.weights) + float(sums[0])
            slope -= float(totals @ direction.thresholds)
            fall = penalty * float(direction.weights @ direction.weights) + float(sums[1])
            if -_TOO_SHORT * first >= -slope >= _FLAT * first or (self.problem.in_ball and step == 1.0 and slope < 0.0):
                break
            low, high = (step, high) if slope < 0.0 else (low, step)
            following = step - slope / fall if fall > 0.0 else math.inf
            if math.isinf(high):
                step = min(max(following, 2.0 * step), 10.0 * step)
            elif low < following < high:
                step = following
            elif low == 0.0 and trial >= _HALVED:  # steps may be of any size
                step = high * 0.5 ** (trial - _HALVED + 2)
            else:
                wide = trial >= _HALVED and high > _WIDE * low
                step = math.sqrt(low * high) if wide else 0.5 * (low + high)
        return step

    def balanced(self, place: Place) -> Place:
        """Return the same weights with the thresholds at which the dual entries meet the hyperplanes."""
        region, point = self.problem.prototype.region, place.point
        totals = region.totals
        if not len(totals):
            return place

        def evaluate(candidates: FloatArray) -> FloatArray:
            sums = np.sum(self.evaluate(NewtonPart.balances, place, candidates), axis=0)
            sums[:, :, 0] += totals[:, np.newaxis]
            sums[:, :, 2] += np.abs(totals)[:, np.newaxis]
            return np.asarray(sums)

        searches = [RootSearch(float(guess), 1e-3 * (1.0 + abs(guess)), _CANDIDATES) for guess in point.thresholds]
        return replace(place, point=replace(point, thresholds=find_roots(searches, evaluate)))

    def checked(self, place: Place, before: NewtonState | None) -> NewtonState:
        """Return the state at a place, whose thresholds are made those of a dual point."""
        place = self.balanced(place)
        gradient, prototype = added(self.evaluate(NewtonPart.gradient, place)), self.problem.prototype
        point, of_losses = place.point, gradient.risk
        residual = float(np.linalg.norm(point.weights - gradient.image))
        if of_losses > 0.0 and self._is_rounded(gradient):
            longer = self._stretched(point)
            of_longer = added(self.evaluate(NewtonPart.gradient, replace(place, point=longer))).risk
            if of_longer + self._regulariser(longer.weights) < of_losses + self._regulariser(point.weights):
                point, of_losses = longer, of_longer
        squared = float(gradient.image @ gradient.image)
        risk = of_losses - float(prototype.region.totals @ point.thresholds)
        bias = prototype.risk.bias_at(point.thresholds) if prototype.intercept else 0.0
        certificate = prototype.proof(squared, risk, gradient.value, bias, gradient.terms, point.weights)
        certificate = replace(certificate, dual=min(certificate.dual, certificate.primal))
        record = NewtonRecord(
            iteration=self.iteration,
            objective=-certificate.dual,
            certificate=certificate,
            residual=residual,
            reads=self.reads,
            free=gradient.free,
        )
        if before is None:
            return NewtonState(place.point, place.anchors, point, self._dual_point(place, gradient), record, (record,))
        record, best, better = better_of(record, before.best_record)
        return NewtonState(
            point=place.point,
            anchors=place.anchors,
            best_point=point if better else before.best_point,
            best=self._dual_point(place, gradient) if better else before.best,
            best_record=record if better else best,
            history=(*before.history, record),
        )

    def _dual_point(self, place: Place, gradient: Gradient) -> Iterate:
        duals = self.evaluate(NewtonPart.duals, place)[0] if self.problem.holds_rows else np.empty(0)
        return Iterate(duals, gradient.image)


def _stands(point: Point, direction: Point, step: float) -> bool:
    """Return whether a step changes weights and thresholds by no more than rounding."""
    of_weights = step * float(np.linalg.norm(direction.weights)) <= _STANDING * float(np.linalg.norm(point.weights))
    changes = step * np.abs(direction.thresholds) <= _STANDING * (1.0 + np.abs(point.thresholds))
    return of_weights and bool(changes.all())


def positive_solution(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Return the solution of a positive definite system (n, n) for one or more right sides (n,) or (n, k).

    The lower triangle is read.

    Raises
    ------
    DivergedError : it is not finite
    """
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


def _step_in_ball(matrix: FloatArray, slopes: FloatArray, weights: FloatArray, radius: float) -> FloatArray:
    """Return the step to the least of a quadratic model over ||w|| <= radius and any thresholds.

    Source: More & Sorensen, SIAM Journal on Scientific and Statistical Computing 4, 1983, by eigenvalues.
    """
    n = len(weights)
    lower = np.tril(matrix)
    full = lower + np.tril(matrix, -1).T
    inner, cross, corner = full[:n, :n], full[:n, n:], full[n:, n:]
    moved = np.linalg.solve(corner, np.column_stack([cross.T, slopes[n:]])) if n < len(full) else np.zeros((0, n + 1))
    reduced, right = inner - cross @ moved[:, :n], cross @ moved[:, n] - slopes[:n]
    values, vectors = np.linalg.eigh(reduced)
    values = np.maximum(values, 0.0)
    right = vectors.T @ (right + reduced @ weights)

    def length(shift: float) -> float:
        return float(np.linalg.norm(right / (values + shift)))

    least = _EPSILON * max(float(values[-1]), float(np.linalg.norm(right)) / radius)
    shift = least
    if length(least) > radius:
        low, high = least, float(np.linalg.norm(right)) / radius
        shift = max(low, high - float(values[-1]))
        for _ in range(100):
            place = right / (values + shift)
            norm = float(np.linalg.norm(place))
            low, high = (shift, high) if norm > radius else (low, shift)
            if abs(norm - radius) <= 4.0 * _EPSILON * radius:
                break
            fall = float(np.sum(place**2 / (values + shift)))
            following = shift + (norm - radius) / radius * norm**2 / fall if fall > 0.0 else high
            shift = following if low < following < high else math.sqrt(low * high)
    target = vectors @ (right / (values + shift))
    target *= min(1.0, radius / max(float(np.linalg.norm(target)), _EPSILON))
    step = target - weights
    return np.concatenate([step, -moved[:, n] - moved[:, :n] @ step])
