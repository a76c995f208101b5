"""Accelerated solvers over shards: messages, rows, worker state and root searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from okl.data.dataset import Dataset, Shard
from okl.data.execution import Execution, Rows
from okl.data.reading import read_rows
from okl.distributed.cache import resident
from okl.features.base import FeatureMap
from okl.features.linear import SparseInputs
from okl.foundation.class_tags import stored
from okl.foundation.telemetry import MAP, Span
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.solvers.accelerated.operators import Result, SegmentedRows, squared_lengths
from okl.solvers.accelerated.problem import ClassMoments, Moments, moments_by_class
from okl.solvers.worker_rounds import added


def signs_of_class(targets: FloatArray, positive: int | None) -> Doubles:
    """Return -1 or +1 a row; targets are that already (None), or class indices, of which one is positive."""
    signs = targets if positive is None else np.where(targets == positive, 1.0, -1.0)
    return np.ascontiguousarray(signs, dtype=np.float64)


def groups_of_class(targets: FloatArray, positive: int | None, n_groups: int) -> IntArray:
    """Return the group of each row in a problem, (m,); see okl.solvers.accelerated.operators.ClassGroups.

    0 is that of +1. Where there are two groups, 1 is that of -1; where there are more, each other class has one.
    """
    if n_groups == 2:
        return np.asarray(signs_of_class(targets, positive) < 0.0, dtype=np.intp)
    assert positive is not None, "two classes have two groups"
    classes = targets.astype(np.intp)
    return np.where(classes == positive, 0, classes + (classes < positive))


# Mapped rows of a shard, cached or computed again.

SEGMENT = 4096  # rows mapped and summed in one go: fixed, so that bits depend on nothing else


@stored("mapped-rows")
@dataclass(frozen=True, eq=False)
class MappedRows:
    """z(x) of the rows of a data set, shard by shard; cheap to send.

    data : whose inputs are mapped; feature_map : z, whose precision the mapped rows have
    tag : names data and map in the process cache (see okl.distributed.cache), whose bound is the memory budget
    """

    data: Dataset
    feature_map: FeatureMap
    tag: str

    @property
    def n_columns(self) -> int:
        return self.feature_map.n_columns

    @property
    def is_sparse(self) -> bool:
        """Return whether mapped rows are sparse."""
        return isinstance(self.feature_map, SparseInputs)

    def blocks(self, shard: Shard) -> Iterator[tuple[slice, Rows]]:
        """Return segments of mapped rows with their targets, in the stored order, and their place in the shard."""
        first = 0
        for group, rows in enumerate(shard.row_groups):
            read: list[Rows] = []  # at most once for the segments of a group
            for start in range(0, rows, SEGMENT):
                key = (self.tag, shard.sha256, group, start)
                block = resident(key, lambda: self._mapped(shard, group, start, read))  # noqa: B023  (called at once)
                yield slice(first + start, first + start + len(block.targets)), block
            first += rows

    def targets(self, shard: Shard) -> tuple[Doubles, float]:
        """Return targets (m,), and the largest ||z_i||^2."""
        targets, longest = np.empty(shard.rows), 0.0
        for cut, block in self.blocks(shard):
            targets[cut] = block.targets
            longest = max(longest, float(squared_lengths(block.inputs).max()))
        return targets, longest

    def _mapped(self, shard: Shard, group: int, start: int, read: list[Rows]) -> Rows:
        if not read:
            read.append(read_rows(self.data, shard, (group,), self.feature_map.precision))
        cut = slice(start, start + SEGMENT)
        with Span(MAP):
            mapped = self.feature_map.transform(read[0].inputs[cut])
        return Rows(mapped, read[0].targets[cut].copy())


@dataclass(frozen=True, eq=False)
class ShardRows(SegmentedRows):
    """A = [s_1 z_1, ..., s_m z_m] of the rows of one shard; labels : (m,), one class may be missing."""

    rows: MappedRows
    shard: Shard
    labels: FloatArray

    @property
    def n_image(self) -> int:
        return self.rows.n_columns

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Return whether the rows are sparse."""
        return self.rows.is_sparse

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        return ((cut, block.inputs) for cut, block in self.rows.blocks(self.shard))

    def over_segments(self, work: Callable[[slice, FloatArray], Result]) -> list[Result]:
        """Visit the segments of the shard one after the other."""
        return [work(cut, rows) for cut, rows in self.blocks()]


@stored("warm-start")
@dataclass(frozen=True, eq=False)
class WarmStart:
    """Weights (n_columns,) and bias of a solution: a row's margin is s_i (<w, z_i> - bias)."""

    weights: FloatArray
    bias: float


# Root searches over sums of shards.

Ask = Callable[[FloatArray], FloatArray]
"""Candidates (n_searches, K) -> values, slopes (how fast it falls, 0 if not known) and sizes, (n_searches, K, 3)."""

_MOST_ROUNDS = 100
_LEAST_ERROR, _ROUNDING = 2e-15, 1e-12  # of a sum, in its size; with 4e-16 a tenth of all rounds chased rounding
_LEAST_WIDTH = 2e-15  # of a bracket, in the size of the root
_STRETCH = 8.0


class RootSearch:
    """One root; a bracket narrows around it from round to round.

    guess : where to look first; reach : how far from it the root may well be, > 0
    n_candidates : int >= 1, evaluated in a round; width : bracket that is narrow enough, unless rounding limits it
    candidates : (n_candidates,), to be evaluated next; root : the best so far; done : whether it is found
    """

    def __init__(self, guess: float, reach: float, n_candidates: int, width: float = 1e-290) -> None:
        self.root, self.done = guess, False
        self._error, self._size = np.inf, 0.0
        self._n, self._reach, self._width = n_candidates, reach, width
        self._low, self._high = (-np.inf, 0.0, 0.0), (np.inf, 0.0, 0.0)  # place, value and slope there
        steps = np.arange(n_candidates) - n_candidates // 2
        self.candidates = guess + np.sign(steps) * reach * _STRETCH ** (np.abs(steps) - n_candidates // 4)

    def update(self, results: FloatArray) -> None:
        """Take in values, slopes and sizes (n_candidates, 3) at the candidates, and choose the next ones."""
        if self.done:
            return
        before, start = self._error, self.root
        for candidate, (value, slope, size) in zip(self.candidates, results, strict=True):
            # of places that are as good, the one that is nearest: where rounding keeps a plateau from 0, the roots of a
            # sequence of searches, each started at the end of the last, would diverge along it
            nearer = abs(value) == self._error and abs(candidate - start) < abs(self.root - start)
            if abs(value) < self._error or nearer:
                self.root, self._error, self._size = float(candidate), abs(value), size
            if value >= 0.0 and candidate > self._low[0]:
                self._low = (float(candidate), float(value), float(slope))
            if value <= 0.0 and candidate < self._high[0]:
                self._high = (float(candidate), float(value), float(slope))
        size = max(abs(self._high[0]), abs(self._low[0]))
        narrow = self._high[0] - self._low[0] <= max(_LEAST_WIDTH * size, self._width)
        stuck = before <= _ROUNDING * self._size and self._error > 0.5 * before
        # an error that is not finite is for the caller's objective to show
        converged = self._error <= _LEAST_ERROR * self._size or not np.isfinite(self._error)
        if narrow and np.isfinite(size) and not converged:  # a jump: its end with the smaller error
            self.root = min(self._low, self._high, key=lambda end: abs(end[1]))[0]
        self.done = bool(converged or stuck or (narrow and np.isfinite(size)))
        if not self.done:
            self._reach *= _STRETCH ** max(1, self._n // 4)
            self.candidates = self._next()

    def _next(self) -> Doubles:
        low, high = self._low[0], self._high[0]
        steps = np.arange(1, self._n + 1)
        if np.isinf(low) or np.isinf(high):
            start, way = (high, -1.0) if np.isinf(low) else (low, 1.0)
            step = start + way * self._reach * _STRETCH ** (steps - 1.0)
            newton = self._newton()
            step[: len(newton)] = newton[: self._n]
            return np.sort(step)
        # even steps make the bracket narrow, Newton's hit the root: one of them where there is room for one only
        newton = [candidate for candidate in self._newton() if low < candidate < high][: self._n]
        n_even = self._n - len(newton)
        even = low + (high - low) * steps[:n_even] / (n_even + 1)
        return np.sort(np.concatenate([newton, even]))

    def _newton(self) -> list[float]:
        places = [candidate + value / slope for candidate, value, slope in (self._low, self._high) if slope > 0.0]
        return [candidate for candidate in dict.fromkeys(places) if np.isfinite(candidate)]


def find_roots(searches: Sequence[RootSearch], evaluate: Ask) -> Doubles:
    """Find the root of each search, (n_searches,), all in the same rounds; no round for no search."""
    for _ in range(_MOST_ROUNDS):
        if all(search.done for search in searches):
            break
        results = evaluate(np.array([search.candidates for search in searches]))
        for search, sums in zip(searches, results, strict=True):
            search.update(sums)
    return np.array([search.root for search in searches])


def spread(values: float | FloatArray, groups: IntArray) -> Doubles:
    """Return one value for each row (m,), from a number or one for each group; groups (m,) of the rows."""
    given = np.ravel(np.asarray(values, dtype=np.float64))
    if len(given) == 1:
        return np.full(len(groups), given[0])
    return given[groups]


def part_of_shard(
    prototype: Any, rows: MappedRows, shard: Shard, targets: FloatArray, positive: int | None, n_groups: int
) -> tuple[Any, IntArray]:
    """Return the terms of a model that the rows of a shard have, and the groups of these rows, (m,)."""
    groups = groups_of_class(targets, positive, n_groups)
    of_shard = ShardRows(rows, shard, signs_of_class(targets, positive))
    return prototype.part(of_shard, lambda values: spread(values, groups)), groups


# Class moments from shards.

_Pair = tuple[Moments, Moments]


def moments_of_shard(rows: MappedRows, positive: int | None, shard: Shard, weights: tuple[float, ...]) -> _Pair:
    """Return the moments of a shard's rows of either class, +1 (positive) first, with weights by group."""

    def of_block(block: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
        groups = groups_of_class(block.targets, positive, len(weights))
        return block.inputs, signs_of_class(block.targets, positive), spread(np.array(weights), groups)

    return moments_by_class((of_block(block) for _, block in rows.blocks(shard)), rows.n_columns)


def sharded_moments(
    execution: Execution, rows: MappedRows, positive: int | None, weights: tuple[float, ...]
) -> ClassMoments:
    """Return moments of all shards' rows, merged in order, O(n_columns^2) numbers a shard; or DataError."""
    work = partial(moments_of_shard, rows, positive)
    return ClassMoments(*execution.sum(work, rows.data.split("train"), weights, merged_moments))


def merged_moments(parts: list[_Pair]) -> _Pair:
    """Merge the moments of all shards, in the order of the shards."""
    positive, negative = (reduce(Moments.merged, of_class) for of_class in zip(*parts, strict=True))
    return positive, negative


# The bias with the fewest errors, by histograms of scores.

_BINS = 4096


def count_scores(
    rows: MappedRows,
    weights: FloatArray,
    positive: int | None,
    counted: tuple[float, ...],
    shard: Shard,
    edges: FloatArray | None,
) -> FloatArray:
    """Return the weight of positives less that of negatives of a shard in each bin of their scores, (n_edges + 1,).

    Without edges, return the lowest and highest score, (2,).

    counted : what an error on a row of each group counts, see okl.solvers.accelerated.operators.ClassGroups
    """
    scores, counts = np.empty(shard.rows), np.empty(shard.rows)
    for cut, block in rows.blocks(shard):
        groups = groups_of_class(block.targets, positive, len(counted))
        counts[cut] = signs_of_class(block.targets, positive) * spread(np.array(counted), groups)
    ShardRows(rows, shard, np.ones(shard.rows)).adjoint(scores, weights)
    if edges is None:
        return np.array([scores.min(), scores.max()])
    places = np.searchsorted(edges, scores)
    return np.bincount(places, weights=counts, minlength=len(edges) + 1).astype(np.float64)


def error_minimising_threshold(
    execution: Execution, rows: MappedRows, weights: FloatArray, positive: int | None, counted: tuple[float, ...]
) -> float:
    """Return the bias b of least weighted errors of sign(<w, z> - b), of 4096^2 candidates in the range of scores.

    The best edge of 4096 bins is found first, then the best of 4096 between its neighbours; no row's score travels.

    Source: Ito et al., 2017, (26), to the resolution of the bins.
    """
    shards, work = rows.data.split("train"), partial(count_scores, rows, weights, positive, counted)
    ends = execution.sum(work, shards, None, _extremes)
    low, high = float(ends[0]), float(ends[1])
    margin = 1e-3 * (high - low) + 1e-12
    low, high = low - margin, high + margin
    best = low
    for _ in range(2):
        edges = np.linspace(low, high, _BINS)
        counts = execution.sum(work, shards, edges, added)
        # with the threshold at an edge, rows below it are predicted -1: positives there are errors, negatives are not
        errors = np.cumsum(counts)[:-1]
        # in the middle of the best run: no score is as near to its edge as to its middle
        least = np.flatnonzero(errors == errors.min())
        first = int(least[0])
        last = first + int(np.argmin(np.append(np.diff(least) == 1, False)))
        best = 0.5 * float(edges[first] + edges[last])
        low, high = float(edges[max(first - 1, 0)]), float(edges[min(last + 1, _BINS - 1)])
    return best


def _extremes(parts: list[FloatArray]) -> FloatArray:
    return np.array([min(part[0] for part in parts), max(part[1] for part in parts)])
