"""Fast numpy versions of learners with support vectors, for two classes, as a careful user would write them.

Supports are rows in one preallocated array with their squared norms; a row costs one matrix-vector product, one
exponential of a vector and one dot product, on one thread of BLAS, in the precision of the inputs. This file has the
loop and the updates that touch one support; `online_numpy_costly` those that use all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.data.execution import Rows
from okl.foundation.types import FloatArray


class NumpySupports:
    """Supports, coefficients before the scale, and arrays of updates; one slot more than the budget."""

    def __init__(self, budget: int, n_inputs: int, bandwidth: float, precision: np.dtype[np.floating[Any]]) -> None:
        self.budget, self.count, self.next = budget, 0, 0
        self.rows = np.zeros((budget + 1, n_inputs), dtype=precision)
        self.norms = np.zeros(budget + 1, dtype=precision)
        self.a = np.zeros(budget + 1, dtype=precision)
        self.gamma = 0.5 / bandwidth**2
        self.scale, self.cost, self.seen, self.mistakes = 1.0, 0.0, 0, 0
        self.labels = np.zeros(budget + 1)
        self.scores = np.zeros(budget + 1)  # of the supports themselves
        self.rng = np.random.default_rng(0)

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """Return a matrix of supports by supports, for updates that need one."""
        return np.zeros((self.budget + 1, self.budget + 1))

    @cached_property
    def twins(self) -> NDArray[np.float64]:
        """Return the numbers of rows of the positive and of the negative class that each support represents."""
        return np.zeros((2, self.budget + 1))

    @cached_property
    def nearest(self) -> NDArray[np.int64]:
        """Return the slot of the nearest neighbour of each support."""
        return np.zeros(self.budget + 1, dtype=np.int64)

    def kernel(self, x: FloatArray, norm: float) -> FloatArray:
        """Return Gaussian kernel values of all supports, with as few temporary arrays as possible."""
        values: FloatArray = self.rows[: self.count] @ x
        values *= 2.0
        values -= self.norms[: self.count]
        values -= norm
        np.minimum(values, 0.0, out=values)
        values *= self.gamma
        return np.exp(values, out=values)

    def put(self, slot: int, x: FloatArray, norm: float, y: float, coefficient: float) -> None:
        self.rows[slot], self.norms[slot] = x, norm
        self.a[slot], self.labels[slot] = coefficient / self.scale, y
        self.count = max(self.count, slot + 1)

    def free_or(self, choose: Callable[[], int]) -> int:
        return self.count if self.count < self.budget else choose()

    def any_slot(self) -> int:
        return int(self.rng.integers(self.budget))

    def oldest(self) -> int:
        slot = self.next
        self.next = (slot + 1) % self.budget
        return slot

    def shrink(self, factor: float) -> None:
        self.scale *= factor
        if self.scale < 1e-6:
            self.a *= self.scale
            self.scale = 1.0


Update = Callable[[NumpySupports, FloatArray, float, float, float, FloatArray], None]


def run_numpy(update: Update, rows: Rows, budget: int, bandwidth: float) -> int:
    """Train on all rows and return the mistakes. budget : the number of rows for updates without a budget."""
    supports, mistakes = NumpySupports(budget, rows.inputs.shape[1], bandwidth, rows.inputs.dtype), 0
    norms = np.einsum("ij,ij->i", rows.inputs, rows.inputs)
    for x, norm, y in zip(rows.inputs, norms.tolist(), rows.targets.tolist(), strict=True):
        k = supports.kernel(x, norm)
        f = supports.scale * float(supports.a[: supports.count] @ k)
        mistakes += (f >= 0) != (y > 0)
        update(supports, x, norm, y, f, k)
    return mistakes


def perceptron(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    if (f >= 0) != (y > 0):
        s.put(s.count, x, norm, y, y)


def gradient(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    if y * f < 1:
        s.put(s.count, x, norm, y, 0.4 * y)


def rbp(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    if (f >= 0) != (y > 0):
        s.put(s.free_or(s.any_slot), x, norm, y, y)


def bogd(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    s.shrink(1 - 0.5 * 0.01)
    if y * f < 1:
        s.put(s.free_or(s.any_slot), x, norm, y, 0.5 * y)


def bogd_sampled(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    s.shrink(1 - 0.5 * 0.01)
    if y * f < 1:
        slot, a = s.count, s.a[: s.budget]
        if slot == s.budget:
            sizes = np.abs(a)
            probabilities = np.maximum(0, 1 - (len(a) - 1) * sizes / sizes.sum())
            probabilities /= probabilities.sum()
            slot = min(int(np.searchsorted(np.cumsum(probabilities), s.rng.random())), s.budget - 1)
            a /= 1 - np.minimum(probabilities, 0.999)
        s.put(slot, x, norm, y, 0.5 * y)
        np.clip(a, -0.5 / s.scale, 0.5 / s.scale, out=a)


def norma(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    s.shrink(1 - 0.03 * 0.01)
    if y * f < 1:
        s.put(s.free_or(s.oldest), x, norm, y, 0.03 * y)


def bsgd_removal(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    s.seen += 1
    s.scale = 1.0 / (REGULARISATION * s.seen)
    if y * f < 1:  # all coefficients are +-1: the oldest is removed
        s.put(s.free_or(s.oldest), x, norm, y, y * s.scale)


def forgetron(s: NumpySupports, x: FloatArray, norm: float, y: float, f: float, k: FloatArray) -> None:
    if (f >= 0) == (y > 0):
        return
    s.mistakes += 1
    slot, step = s.count, y
    if slot == s.budget:
        slot = s.oldest()
        size, sign = s.scale * abs(float(s.a[slot])), math.copysign(1.0, s.a[slot])
        score_there = s.scale * float(s.a[: s.count] @ s.kernel(s.rows[slot], float(s.norms[slot])))
        mu = sign * (score_there + y * float(k[slot]))
        square, twice, rest = size * size - 2 * size * mu, 2 * size, s.cost - 15 / 32 * s.mistakes
        phi = 1.0
        if square + twice + rest > 0:
            phi = -2 * rest / (twice + math.sqrt(max(0.0, twice * twice - 4 * square * rest)))
        s.cost += (size * phi) ** 2 + 2 * size * phi * (1 - phi * mu)
        s.shrink(phi)
        step = y * phi
    s.put(slot, x, norm, y, step)


REGULARISATION = 1e-4  # of BSGD
SIMPLE: dict[str, Update] = {
    "perceptron": perceptron,
    "ogd": gradient,
    "rbp": rbp,
    "bogd": bogd,
    "bogd++": bogd_sampled,
    "norma": norma,
    "forgetron": forgetron,
    "bsgd-removal": bsgd_removal,
}
