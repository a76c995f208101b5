"""Passes over the dual entries of hinge losses, one after the other, before Newton's method.

A few passes solve problems of small C, and of many columns; others start Newton's method closer to the optimum. With a
bias the rows have one more value, the border, whose weight is added to the bias after every pass: the method of
multipliers.

Source: Hsieh, Chang, Lin, Keerthi & Sundararajan, ICML 2008, for the passes.
"""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np

from okl.compiled.descent import descend_rows
from okl.foundation.types import FloatArray
from okl.solvers.accelerated.base import CompositeProblem, Iterate
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import BoxHyperplane, BoxRegion, HalfSquare, LinearTerm, filled

_SEQUENCES = 64  # of rows, in turn
_LEAST_BUDGET, _OF_COLUMNS, _TRIED = 60.0, 0.1, 1 / 15  # reads of all rows; of the columns; before their rate counts
_FIRST_CHECK, _MOST_PASSES = 3, 64  # passes; between two checks: as many as before, at most so many
_FALLS = 0.5  # of the gap, from check to check: else entries that were left out come back
_BORDER = 0.2  # squared, of the mean squared length of rows
_TINY = float(np.finfo(np.float64).tiny)


def is_descended(problem: CompositeProblem) -> TypeGuard[DualProblem]:
    """Return whether passes come before Newton's method: for the hinge loss on sparse rows, and on dense without bias.

    On dense rows with a bias, accelerated gradients are faster.
    """
    if type(problem) is not DualProblem or type(problem.rows) not in (DenseRows, SparseRows):
        return False
    regions = BoxRegion if isinstance(problem.rows, DenseRows) else BoxRegion | BoxHyperplane
    is_hinge = isinstance(problem.region, regions) and problem.separable == LinearTerm(-1.0)
    return is_hinge and isinstance(problem.outer, HalfSquare)


def _values_of(rows: Any) -> tuple[Any, Any, Any]:
    """Return values, columns, none for dense rows, and starts of the rows."""
    matrix = rows.rows
    if isinstance(rows, SparseRows):
        return matrix.data, matrix.indices, matrix.indptr
    return matrix.reshape(-1), np.empty(0, dtype=np.int32), matrix.shape[1] * np.arange(len(matrix) + 1)


def descended(problem: Any, tolerance: float) -> tuple[Iterate, FloatArray, int]:
    """Return a dual point with its image, thresholds (n_hyperplanes,), and how often all rows were read for them.

    The gap is within the tolerance, unless the reads for that, by the rate so far, are above 60 and above a tenth of
    the columns: then Newton's method is likely to need less, whose steps take more with more columns.
    """
    rows, m, positive = problem.rows, problem.n_points, problem.rows.signs > 0.0
    point, weights, thresholds = np.zeros(m), np.zeros(problem.n_image + 1), np.zeros(len(problem.region.totals))
    lengths, upper = rows.squared_lengths(), filled(problem.region.upper, m)
    border = math.sqrt(_BORDER * float(lengths.mean())) if len(thresholds) else 0.0
    arrays = (*_values_of(rows), rows.signs, lengths + border**2, upper)
    budget, random = max(_LEAST_BUDGET, _OF_COLUMNS * problem.n_image), np.random.default_rng(0)
    active, limits, bias, before = np.arange(m), np.array([-np.inf, np.inf]), 0.0, math.inf
    reads, n_passes, following = 0.0, 0, _FIRST_CHECK
    while True:
        reads, n_passes = reads + len(active) / m, n_passes + 1
        shifts = random.random(_SEQUENCES)
        active = active[: descend_rows(point, weights, active, limits, shifts, *arrays, bias, border)]
        bias -= border * weights[-1]
        limits = np.where(limits * [-1.0, 1.0] > 0.0, limits, [-np.inf, np.inf])
        if n_passes < following and len(active):
            continue
        near = Iterate(point, weights[:-1])
        if len(thresholds):
            entries, thresholds[:] = point.copy(), bias
            sums = float(entries[positive].sum()), float(entries[~positive].sum())
            entries[positive == (sums[0] > sums[1])] *= min(sums) / max(*sums, _TINY)
            near = Iterate(entries, rows.image(entries))
        half = 0.5 * float(near.image @ near.image)
        primal = half + problem.risk.sum_at(rows.margins(near.image), thresholds)
        gap = primal + half + problem.separable.value(near.point)
        reads += 1 + len(thresholds)
        if not math.isfinite(gap):  # as if there had been no pass
            return Iterate(np.zeros(m), np.zeros(problem.n_image)), np.zeros(len(thresholds)), n_passes
        if gap <= tolerance * primal or (
            reads >= _TRIED * budget and reads * math.log(tolerance) < budget * math.log(gap / primal)
        ):
            return near, thresholds, math.ceil(reads)
        following = n_passes + min(n_passes, _MOST_PASSES)
        if not len(active) or gap > _FALLS * before:
            active, limits = np.arange(m), np.array([-np.inf, np.inf])
        before = gap
