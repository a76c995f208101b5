"""Rows of Newton's method: dual entries as functions of margins, and the sums over a partition of the rows.

What is as long as the rows stays with them and follows from the points so far: partitions evaluate requests, and may
forget everything between two of them. The formulas are those of okl.solvers.accelerated.newton.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import xlog1py, xlogy

from okl.compiled.newton import box_duals, entropy_duals, square_root_duals
from okl.foundation.class_tags import stored
from okl.foundation.types import Doubles, FloatArray
from okl.solvers.accelerated.certified_steps import positive_solution
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.operators import SparseRows
from okl.solvers.accelerated.problem import (
    BoxSet,
    EntropyBarrier,
    LinearTerm,
    Quadratic,
    Region,
    Separable,
    SquareRootBarrier,
    filled,
)


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
    *sums, margins = zip(*parts, strict=True)
    totals: list[Any] = [*(reduce(add, of_parts) for of_parts in sums), max(margins)]
    return Gradient(*totals)


Cache = Callable[[Hashable, Callable[[], FloatArray]], FloatArray]

Request = tuple[Any, ...]
"""A method of a part, and its arguments."""


@np.errstate(over="ignore", invalid="ignore")  # on workers, too
def result_of(part: Any, request: Request) -> list[Any]:
    """Return the one result of a part to a request."""
    method, *given = request
    return [method(part, *given)]


class Shifted(NamedTuple):
    """Margins (m,), anchors (m,), pace, and the thresholds of rows of sign +1 and of sign -1."""

    margins: FloatArray
    anchors: FloatArray
    pace: float
    plus: float
    minus: float


Response = Callable[[FloatArray, FloatArray, Shifted], None]
"""Function of margins that overwrites dual entries a (m,) and their slopes -a'(z) (m,)."""


def is_anchored(problem: Any) -> bool:
    """Return whether the losses of a problem have kinks, so that dual entries depend on an anchor."""
    return isinstance(problem.region, BoxSet) and isinstance(problem.separable, LinearTerm)


def response_of(separable: Separable, region: Region, signs: FloatArray) -> Response | None:
    """Return how dual entries follow from margins; None where this method does not apply."""
    if isinstance(region, EntropyBarrier) and separable == LinearTerm(0.0):
        bounds = region.upper
        return lambda out, slopes, at: entropy_duals(out, slopes, at.margins, signs, bounds, at.plus, at.minus)
    if isinstance(region, SquareRootBarrier) and separable == LinearTerm(0.0):
        numbers = (signs, region.scales, region.upper)
        return lambda out, slopes, at: square_root_duals(out, slopes, at.margins, *numbers, at.plus, at.minus)
    if not isinstance(region, BoxSet):
        return None
    lower, upper = (filled(bound, len(signs)) for bound in (region.lower, region.upper))
    if isinstance(separable, LinearTerm):
        widths, targets = upper - lower, np.full(len(signs), -separable.slope)
        is_known = np.isfinite(widths).all()
    elif isinstance(separable, Quadratic):
        curvatures, counted = separable.curvatures, separable.curvatures > 0.0
        widths = np.divide(1.0, curvatures, out=np.zeros(len(signs)), where=counted)
        targets = filled(separable.targets, len(signs))
        is_known = np.all(counted | (upper == lower))
    else:
        return None
    anchored = isinstance(separable, LinearTerm)

    def write(out: FloatArray, slopes: FloatArray, at: Shifted) -> None:
        """Count steps from an anchor in widths of the box; or take those that curvatures allow, or shorter ones."""
        steps, anchors = widths, at.anchors
        if anchored:
            steps = at.pace * widths
        elif at.pace > 0.0:  # a prox of 1 / 2 a^2 / width - a target + 1 / 2 (a - anchor)^2 / (pace width)
            steps, anchors = (at.pace / (1.0 + at.pace)) * widths, anchors / (1.0 + at.pace)
        box_duals(out, slopes, at.margins, signs, anchors, steps, targets, lower, upper, at.plus, at.minus)

    return write if is_known else None


def _is_same(at: Place, other: Place) -> bool:
    return at.point is other.point and at.anchors == other.anchors


class NewtonPart:
    """Rows of a partition: pure functions of a place, whose margins and anchors are kept while there is room.

    problem : of these rows; longest : at least their largest squared length
    first : anchor before all others, (m,); cache : of arrays by name
    """

    def __init__(self, problem: DualProblem, longest: float, first: FloatArray, cache: Cache) -> None:
        self._problem, self._length, self._first, self._cache = problem, math.sqrt(longest), first, cache
        region: Any = problem.region
        self._signs: FloatArray = getattr(region, "signs", problem.rows.signs)
        response = response_of(problem.separable, region, self._signs)
        assert response is not None, "the problem was checked"
        self._response = response
        self._anchored = is_anchored(problem)
        if not self._anchored:
            self._first = np.zeros(len(first))
        self._last: tuple[Place, FloatArray, FloatArray] | None = None
        self._last_gradient: tuple[Place, Gradient] | None = None

    @cached_property
    def _normals(self) -> Doubles:
        """Return the normals of the hyperplanes, (n_hyperplanes, m)."""
        return np.where(self._signs > 0.0, self._problem.region.normals[:, :1], self._problem.region.normals[:, 1:])

    def gradient(self, at: Place) -> Gradient:
        """Return sums at the point."""
        if self._last_gradient is not None and _is_same(at, self._last_gradient[0]):
            return self._last_gradient[1]
        problem, margins = self._problem, self._margins(at.point.serial, at.point.weights)
        duals, slopes = self._at(at)
        rows: Any = problem.rows
        size = float(np.abs(duals).sum())
        balance = self._normals @ duals
        gradient = Gradient(
            image=rows.image(duals),
            balance=balance,
            risk=problem.risk.sum_at(margins, at.point.thresholds),
            value=self._value(duals),
            along=float(duals @ margins) - float(balance @ at.point.thresholds),
            size=size,
            terms=self._length * size,
            free=int(np.count_nonzero(slopes)),
            margin=float(np.abs(margins).max()),
        )
        self._last_gradient = at, gradient
        return gradient

    def _value(self, duals: FloatArray) -> float:
        """Return the separable part and the region at dual entries."""
        region = self._problem.region
        if not isinstance(region, EntropyBarrier):
            return self._problem.separable.value(duals) + region.value(duals)
        # with all digits where entries are small beside their bounds
        shares = np.divide(duals, region.upper, out=np.zeros(len(duals)), where=region.upper > 0.0)
        return float(np.sum(xlogy(duals, shares) + xlog1py(region.upper - duals, -shares)))

    def curvature(self, at: Place) -> FloatArray:
        """Return sum_i slope_i x_i x_i', x_i = (s_i z_i, -n_i), at least its lower triangle."""
        rows: Any = self._problem.rows
        curvature: FloatArray = rows.curvature(self._at(at)[1], -self._normals)
        return curvature

    def product(self, at: Place, vector: FloatArray) -> FloatArray:
        """Return sum_i slope_i x_i <x_i, v> of a vector v (n_columns + n_hyperplanes,), x_i as of `curvature`."""
        rows: Any = self._problem.rows
        n, slopes = rows.n_image, self._at(at)[1]
        moved = rows.margins(vector[:n])
        moved -= vector[n:] @ self._normals
        moved *= slopes
        return np.concatenate([rows.image(moved), -(self._normals @ moved)])

    def diagonal(self, at: Place) -> FloatArray:
        """Return the diagonal of the curvature, (n_columns + n_hyperplanes,)."""
        slopes = self._at(at)[1]
        rows: Any = self._problem.rows
        return np.concatenate([rows.squared_columns(slopes), np.square(self._normals) @ slopes])

    def step_by_rows(self, at: Place, gradient: FloatArray, reach: float) -> FloatArray:
        """Return the Newton step (n_columns + n_hyperplanes,) by the products of the free rows with each other.

        With X the free rows s_i z_i, N their normals and D their slopes, and q = D (X w - N't) for a step (w, t):
        w = -g_w - X'q, where (D^(-1) + X X') q + N't = -X g_w and N q = g_t.

        gradient : g = (g_w, g_t); reach : of the margins: how far a threshold may go
        """
        rows: Any = self._problem.rows
        n, slopes = rows.n_image, self._at(at)[1]
        free = np.flatnonzero(slopes)
        matrix = self._products(free)
        np.einsum("ii->i", matrix)[:] += 1.0 / slopes[free]
        moved = rows.margins(gradient[:n])
        normals = self._normals[:, free]
        solved = positive_solution(matrix, np.column_stack([-moved[free], normals.T]))
        inner = normals @ solved
        # a threshold that no free row depends on: as far as the margins reach, at most
        stuck = np.einsum("ii->i", inner[:, 1:]) <= 0.0
        inner[stuck, 1:] = np.eye(len(inner))[stuck] * (1.0 + reach)
        inner[stuck, 0] = 0.0
        scale = np.where(stuck, np.abs(gradient[n:]), 1.0)
        thresholds = np.linalg.solve(inner[:, 1:], inner[:, 0] - np.where(stuck, 0.0, gradient[n:]))
        thresholds = np.where(stuck, -np.sign(gradient[n:]) * (1.0 + reach) * (scale > 0.0), thresholds)
        duals = np.zeros(rows.n_points)
        duals[free] = solved[:, 0] - solved[:, 1:] @ thresholds
        return np.concatenate([-gradient[:n] - rows.image(duals), thresholds])

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
        return products[np.ix_(free, free)].copy()

    def narrowed(self, at: Place) -> NewtonPart | None:
        """Return the part of the sparse rows with a dual entry, and of half as many that are nearest to one.

        None where these are most of the rows, or where entries do not depend on an anchor.
        """
        problem, rows = self._problem, self._problem.rows
        if not (self._anchored and isinstance(rows, SparseRows)):
            return None
        duals, slopes = self._at(at)
        active = (duals != 0.0) | (slopes > 0.0)
        count = int(_NEAR * np.count_nonzero(active))
        if count > _MOST_NARROWED * len(active):
            return None
        distances = self._margins(at.point.serial, at.point.weights) - at.point.thresholds @ self._normals
        chosen = np.flatnonzero(active | (distances <= np.partition(distances, count)[count]))
        part = problem.part(rows.some(chosen), lambda values: np.asarray(values)[chosen])
        return NewtonPart(part, self._length**2, self._anchor(at.anchors)[chosen], LastArrays())

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
        return self._at(at)[0]

    def _at(self, at: Place) -> tuple[FloatArray, FloatArray]:
        """Return dual entries and slopes at a place; those of the last place are at hand."""
        if self._last is None or not _is_same(at, self._last[0]):
            margins = self._margins(at.point.serial, at.point.weights)
            self._last = at, *self._respond(at, margins, at.point.thresholds)
        return self._last[1:]

    def _margins(self, serial: int, weights: FloatArray) -> FloatArray:
        rows: Any = self._problem.rows
        return self._cache(("margins", serial), lambda: rows.margins(weights))

    def _respond(self, at: Place, margins: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        duals, slopes = np.empty(len(margins)), np.empty(len(margins))
        plus, minus = thresholds @ self._problem.region.normals if len(thresholds) else (0.0, 0.0)
        anchor = self._anchor(at.anchors)
        self._response(duals, slopes, Shifted(margins, anchor, at.point.pace, float(plus), float(minus)))
        return duals, slopes

    def _anchor(self, anchors: tuple[Point, ...]) -> FloatArray:
        if not anchors:
            return self._first
        name = ("anchor", len(anchors), anchors[-1].serial, anchors[-1].pace)
        return self._cache(name, lambda: self.duals(Place(anchors[-1], anchors[:-1])))


MOST_COLUMNS = 1000  # of a Newton system that is solved directly
_NEAR = 1.5  # rows in a narrowed part for each with a dual entry
_MOST_NARROWED = 0.5  # of the rows
_KEPT = 8  # arrays of rows in memory
ARRAYS_OF_SHARD = 3  # labels, margins of the point and of the direction: no more was used in any run but for anchors


class LastArrays:
    """A cache that keeps the values that were used last; threads may share it."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
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
            while len(self._held) > self._kept:
                self._held.popitem(last=False)
        return value
