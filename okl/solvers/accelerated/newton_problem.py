"""Problems of Newton's method, with their rows in this process or over shards."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from okl.data.dataset import Shard
from okl.data.execution import Execution
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.base import CompositeProblem
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.dual_descent import descended, is_descended
from okl.solvers.accelerated.newton_parts import (
    ARRAYS_OF_SHARD,
    Cache,
    LastArrays,
    NewtonPart,
    Request,
    is_anchored,
    response_of,
    result_of,
)
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import (
    BoxSet,
    EntropyBarrier,
    EuclideanNorm,
    HalfSquare,
    LinearTerm,
    Quadratic,
    SumOfLosses,
)
from okl.solvers.accelerated.shards import MappedRows, WarmStart, part_of_shard
from okl.solvers.worker_rounds import RunVectors


@dataclass(frozen=True, eq=False)
class PartsProblem:
    """A problem as a method of Newton's sees it, with its rows in this process or in partitions.

    prototype : the terms that do not depend on rows; n_columns : of w
    evaluate : returns the results of all partitions to a request, in order
    start : first weights of a warm start, for margin models with the thresholds, or None
    reuses_curvature : whether steps may take second derivatives of an earlier point
    """

    prototype: Any
    n_columns: int
    evaluate: Callable[[Request], list[Any]]
    start: Any = None
    reuses_curvature: bool = True


@dataclass(frozen=True, eq=False)
class NewtonProblem(PartsProblem):
    """The problem of a margin model.

    holds_rows : whether there is one partition, here
    rough : whether rows are sparse and of like length: rough steps are good for squared losses, too
    reads : of all rows so far, by passes over dual entries; 0 where the start is not their result
    """

    holds_rows: bool = False
    rough: bool = False
    reads: int = 0

    @property
    def anchored(self) -> bool:
        return is_anchored(self.prototype)

    @property
    def has_unit(self) -> bool:
        """Return whether margins have a fixed size in a problem whose dual entries may depend on an anchor."""
        return isinstance(self.prototype.region, BoxSet) and self.prototype.separable != LinearTerm(0.0)

    @property
    def in_ball(self) -> bool:
        """Return whether the weights are bound by a ball instead of a penalty."""
        return isinstance(self.prototype.outer, EuclideanNorm)


def is_supported(problem: CompositeProblem) -> bool:
    """Return whether Newton's method solves a problem: explicit rows, and losses of margins with a response."""
    if type(problem) is not DualProblem or type(problem.rows) not in (DenseRows, SparseRows):
        return False
    if not isinstance(problem.outer, HalfSquare | EuclideanNorm):
        return False
    return response_of(problem.separable, problem.region, problem.rows.signs) is not None


def is_smooth(problem: Any) -> bool:
    """Return whether the losses of a supported problem bend evenly, so that rough steps are good: the logistic ones."""
    return isinstance(problem.region, EntropyBarrier) and isinstance(problem.outer, HalfSquare)


def bends(problem: Any) -> bool:
    """Return whether the losses of a supported problem are squares, or smooth: dual entries need no anchor."""
    smooth = isinstance(problem.separable, Quadratic) or isinstance(problem.region, EntropyBarrier)
    return smooth and isinstance(problem.outer, HalfSquare)


_UNIT = 1.01  # squared length of sparse rows that were divided by their lengths


def in_memory(problem: DualProblem, point: FloatArray | None = None, tolerance: float = math.inf) -> NewtonProblem:
    """Return the problem of rows in this process, from its own start or near a dual point (m,).

    tolerance : of passes over dual entries, where these come first

    Raises ConfigError : a problem that Newton's method does not solve
    Raises DataError : the point has another length, or is not finite
    """
    if not is_supported(problem):
        raise ConfigError(
            'method = "newton" requires explicit columns and one of the models c-svm, l2-svm, logistic, nu-svm and '
            'dwd. Use method = "auto".'
        )
    first: FloatArray = np.zeros(problem.n_points)
    start: tuple[FloatArray, FloatArray] | None = None
    reads = 0
    if point is not None:
        near = problem.first_iterate(point, problem.first_lipschitz)
        slope = problem.outer.slope(float(near.image @ near.image))
        first, start = near.point, (slope * near.image, np.zeros(len(problem.region.totals)))
    elif tolerance < math.inf and is_descended(problem):
        near, thresholds, reads = descended(problem, tolerance)
        first, start = near.point, (near.image, thresholds)
    longest = float(problem.rows.squared_lengths().max())
    rough = isinstance(problem.rows, SparseRows) and longest <= _UNIT
    part = NewtonPart(problem, longest, first, LastArrays())
    evaluate = partial(result_of, part)
    return NewtonProblem(problem, problem.n_image, evaluate, start, holds_rows=True, rough=rough, reads=reads)


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
        return result_of(self._part(shard), request)

    def problem(self, execution: Execution) -> Any:
        """Return the problem, whose partitions are the shards."""
        shards = self.rows.data.split("train")

        def evaluate(request: Request) -> list[Any]:
            results: list[list[Any]] = execution.sum(self, shards, request, in_order)
            return [result for (result,) in results]

        return self.problem_of(evaluate)

    def problem_of(self, evaluate: Callable[[Request], list[Any]]) -> Any:
        """Return the problem of partitions that evaluate requests."""
        start = None
        if self.warm is not None and len(self.prototype.region.totals) < 2:
            start = (self.warm.weights, np.full(len(self.prototype.region.totals), self.warm.bias))
        sparse = self.rows.data.schema.sparse if self.rows.is_sparse else None
        rough = sparse is not None and (sparse.unit_length or bool(sparse.texts))
        return NewtonProblem(self.prototype, self.rows.n_columns, evaluate, start, rough=rough)

    def _part(self, shard: Shard) -> Any:
        anchored = not (isinstance(self.prototype, DualProblem) and bends(self.prototype))
        held = LastArrays(ARRAYS_OF_SHARD + anchored + (self.warm is not None))  # the last anchor, and the first
        cached: LastArrays = held_arrays.of(self.run).setdefault(shard.index, held)

        def read() -> tuple[FloatArray, FloatArray]:
            targets, longest = self.rows.targets(shard)
            return targets.astype(np.float32), np.array([longest])  # classes: exact in half the memory

        targets, longest = cached("targets", read)
        problem, _ = part_of_shard(self.prototype, self.rows, shard, targets, self.positive, self.n_groups)
        return self.part_of(problem, float(longest[0]), cached)

    def part_of(self, problem: Any, longest: float, cached: Cache) -> Any:
        """Return the part of a shard's rows."""
        first, warm = np.zeros(problem.rows.n_points), self.warm
        if warm is not None and isinstance(problem.risk, SumOfLosses):
            first = cached("first", lambda: _implied(problem, warm))
        return NewtonPart(problem, longest, first, cached)


held_arrays = RunVectors()


def _implied(problem: Any, warm: WarmStart) -> FloatArray:
    """Return the dual entries (m,) that the margins of a solution for other rows imply."""
    risk, rows = problem.risk, problem.rows
    duals: FloatArray = risk.duals_at(rows.margins(warm.weights) - warm.bias * rows.signs)
    return duals


def in_order(results: list[list[Any]]) -> list[Any]:
    """Return the results of the shards: they are added by the driver."""
    return results
