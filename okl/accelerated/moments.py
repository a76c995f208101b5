"""Means and covariances of two classes: all that the minimax models know of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.operators import DenseRows
from okl.accelerated.weighting import weights_of
from okl.compiled.door import one_blas_thread
from okl.errors import DataError
from okl.types import FloatArray

_BLOCK = 4096
_ADDED = 1e-6  # of the mean variance
_OUTSIDE = 1e-9  # of the length of a vector: that of rounding


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight, mean (n,) and scatter (n, n), the sum of outer products of deviations from the mean, of some rows.

    count : how many rows, or what they weigh together: a row of weight 2 counts as two
    """

    count: float
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    def merged(self, other: Moments) -> Moments:
        """Moments of both sets of rows. Source: Chan, Golub & LeVeque, COMPSTAT 1982, (2.1)."""
        if self.count == 0 or other.count == 0:
            return other if self.count == 0 else self
        count = self.count + other.count
        apart = other.mean - self.mean
        outer = (self.count * other.count / count) * np.outer(apart, apart)
        return Moments(count, self.mean + (other.count / count) * apart, self.scatter + other.scatter + outer)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Scatter over count, (n, n): with count - 1 Table 10 of Ito et al., 2017, is met to two digits only."""
        return self.scatter / self.count


def moments_of(rows: FloatArray, weights: NDArray[np.float64] | None = None) -> Moments:
    """Moments of a block of rows (m, n), each weighing weights (m,) or 1, in float64."""
    block = np.asarray(rows, dtype=np.float64)
    count = float(len(block) if weights is None else weights.sum())
    if count == 0.0:
        return Moments(0.0, np.zeros(block.shape[1]), np.zeros((block.shape[1], block.shape[1])))
    with one_blas_thread():
        mean = block.mean(axis=0) if weights is None else np.asarray(weights @ block / count, dtype=np.float64)
        deviations = block - mean
        weighted = deviations if weights is None else deviations * weights[:, np.newaxis]
        scatter: NDArray[np.float64] = weighted.T @ deviations
    return Moments(count, mean, scatter)


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Moments of the rows of either class.

    added : >= 0, to the diagonal of both covariances

    Raises
    ------
    DataError : a class has no rows, or none of any weight
    """

    positive: Moments
    negative: Moments
    added: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if min(self.positive.count, self.negative.count) <= 0.0:
            raise DataError(
                f"The rows of the classes weigh {self.positive.count:g} and {self.negative.count:g}, but a covariance "
                "takes rows: give some of either class, with weights above 0."
            )

    @property
    def difference(self) -> NDArray[np.float64]:
        """Mean of the positives minus mean of the negatives, (n,)."""
        return self.positive.mean - self.negative.mean

    @property
    def covariances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of the positives and of the negatives, (n, n), with what is added."""
        ridge = self.added * np.eye(len(self.positive.mean))
        return self.positive.covariance + ridge, self.negative.covariance + ridge

    @property
    def total_covariance(self) -> NDArray[np.float64]:
        """The sum of both, (n, n)."""
        positive, negative = self.covariances
        return positive + negative

    def mended(self) -> ClassMoments:
        """The same where the means differ only in directions in which rows spread; else with a millionth of their
        mean variance added, as kappa_max is infinite where it does not.
        """
        total = self.total_covariance
        if inverse_form(total, self.difference) < math.inf:
            return self
        variance = 0.5 * float(np.trace(total)) / len(total)
        return replace(self, added=self.added + _ADDED * (variance if variance > 0.0 else 1.0))

    @property
    def note(self) -> str:
        """What was added and why, for the user; empty where nothing was."""
        if self.added == 0.0:
            return ""
        return (
            f"The covariances are singular in a direction in which the means of the classes differ: {self.added:.3g} "
            "was added to their diagonals."
        )


def class_moments(rows: DenseRows, sample_weight: FloatArray | None = None) -> ClassMoments:
    """Moments of either class, each row weighing sample_weight (m,) or 1, block by block, merged in order."""
    weights = None if sample_weight is None else weights_of(rows, sample_weight)
    found = []
    for sign in (1.0, -1.0):
        total = moments_of(rows.rows[:0])
        for first in range(0, rows.n_points, _BLOCK):
            block = slice(first, first + _BLOCK)
            chosen = rows.signs[block] == sign
            counted = None if weights is None else weights[block][chosen]
            total = total.merged(moments_of(rows.rows[block][chosen], counted))
        found.append(total)
    return ClassMoments(found[0], found[1])


def square_root(covariance: FloatArray) -> NDArray[np.float64]:
    """The symmetric square root of a positive semidefinite matrix (n, n), by its eigenvalues."""
    with one_blas_thread():
        values, vectors = np.linalg.eigh(covariance)
        root: NDArray[np.float64] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.ascontiguousarray(root)


def inverse_form(matrix: FloatArray, vector: FloatArray) -> float:
    """v'M^(-1) v of a positive semidefinite matrix; infinite where v leaves its range."""
    with one_blas_thread():
        values, vectors = np.linalg.eigh(matrix)
        parts = vectors.T @ vector
    kept = values > len(values) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
    if np.linalg.norm(parts[~kept]) > _OUTSIDE * np.linalg.norm(parts):
        return math.inf
    return float(np.sum(parts[kept] ** 2 / values[kept]))
