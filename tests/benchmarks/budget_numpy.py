"""Tight numpy versions of learners with support vectors, for two classes: what a careful user would write.

Supports are rows in one preallocated array with their squared norms; a row costs one matrix-vector product, one
exponential of a vector and one dot product, on one thread of BLAS, in the precision of the inputs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from okl.types import FloatArray


class NumpySupports:
    """Supports, coefficients and what strategies keep beside them."""

    def __init__(self, capacity: int, n_inputs: int, bandwidth: float, precision: np.dtype[np.floating[Any]]) -> None:
        self.rows = np.zeros((capacity, n_inputs), dtype=precision)
        self.squares = np.zeros(capacity, dtype=precision)
        self.coefficients = np.zeros(capacity, dtype=precision)
        self.labels = np.zeros(capacity)
        self.scores = np.zeros(capacity)  # of the supports themselves
        self.gamma = precision.type(0.5 / bandwidth**2)
        self.count = self.next = 0
        self.scale, self.cost, self.mistakes = 1.0, 0.0, 0
        self.rng = np.random.default_rng(0)

    def kernel(self, x: FloatArray) -> FloatArray:
        n = self.count
        squares = self.squares[:n] + np.dot(x, x)
        distances = squares - 2 * np.dot(self.rows[:n], x)
        values: FloatArray = np.exp(-self.gamma * np.maximum(distances, 0))
        return values

    def put(self, slot: int, x: FloatArray, y: float, coefficient: float) -> None:
        self.rows[slot], self.squares[slot] = x, np.dot(x, x)
        self.coefficients[slot], self.labels[slot] = coefficient / self.scale, y
        self.count = max(self.count, slot + 1)

    def oldest(self) -> int:
        slot = self.next
        self.next = (slot + 1) % len(self.rows)
        return slot


def run(kind: str, inputs: FloatArray, targets: FloatArray, budget: int, bandwidth: float) -> int:
    """Learn all rows; returns the mistakes. budget : the rows for kinds without one."""
    supports = NumpySupports(budget, inputs.shape[1], bandwidth, inputs.dtype)
    update, mistakes = UPDATES[kind], 0
    for x, y in zip(inputs, targets.tolist(), strict=True):
        k = supports.kernel(x)
        f = supports.scale * float(np.dot(supports.coefficients[: supports.count], k))
        mistakes += (f >= 0) != (y > 0)
        update(supports, x, y, f, k)
    return mistakes


def _free(supports: NumpySupports) -> int:
    return supports.count if supports.count < len(supports.rows) else -1


def _perceptron(s: NumpySupports, x: FloatArray, y: float, f: float, k: FloatArray) -> None:
    if (f >= 0) != (y > 0):
        s.put(s.count, x, y, y)


def _ogd(s: NumpySupports, x: FloatArray, y: float, f: float, k: FloatArray) -> None:
    if y * f < 1:
        s.put(s.count, x, y, 0.4 * y)


def _rbp(s: NumpySupports, x: FloatArray, y: float, f: float, k: FloatArray) -> None:
    if (f >= 0) != (y > 0):
        slot = _free(s)
        s.put(slot if slot >= 0 else int(s.rng.integers(len(s.rows))), x, y, y)


def _shrink(s: NumpySupports, factor: float) -> None:
    s.scale *= factor
    if s.scale < 1e-6:
        s.coefficients *= s.scale
        s.scale = 1.0


def _bogd(s: NumpySupports, x: FloatArray, y: float, f: float, k: FloatArray) -> None:
    _shrink(s, 1 - 0.5 * 0.01)
    if y * f < 1:
        slot = _free(s)
        s.put(slot if slot >= 0 else int(s.rng.integers(len(s.rows))), x, y, 0.5 * y)


def _sampled(s: NumpySupports, x: FloatArray, y: float, f: float, k: FloatArray) -> None:
    _shrink(s, 1 - 0.5 * 0.01)
    if y * f < 1:
        slot = _free(s)
        if slot < 0:
            sizes = np.abs(s.coefficients)
            chances = np.maximum(0, 1 - (len(sizes) - 1) * sizes / sizes.sum())
            chances /= chances.sum()
            slot = int(np.searchsorted(np.cumsum(chances), s.rng.random()))
            s.coefficients /= 1 - chances
        s.put(slot, x, y, 0.5 * y)
        np.clip(s.coefficients, -0.5 / s.scale, 0.5 / s.scale, out=s.coefficients)


def _norma(s: NumpySupports, x: FloatArray, y: float, f: float, k: FloatArray) -> None:
    _shrink(s, 1 - 0.03 * 0.01)
    if y * f < 1:
        slot = _free(s)
        s.put(slot if slot >= 0 else s.oldest(), x, y, 0.03 * y)


def _forgetron(s: NumpySupports, x: FloatArray, y: float, f: float, k: FloatArray) -> None:
    if y * f > 0:
        return
    s.mistakes += 1
    slot, step = _free(s), y
    if slot < 0:
        slot = s.oldest()
        size, sign = s.scale * abs(s.coefficients[slot]), math.copysign(1.0, s.coefficients[slot])
        mu = sign * (s.scale * float(np.dot(s.coefficients, s.kernel(s.rows[slot]))) + y * float(k[slot]))
        square, twice, rest = size * size - 2 * size * mu, 2 * size, s.cost - 15 / 32 * s.mistakes
        phi = 1.0
        if square + twice + rest > 0:
            phi = -2 * rest / (twice + math.sqrt(max(0.0, twice * twice - 4 * square * rest)))
        s.cost += (size * phi) ** 2 + 2 * size * phi * (1 - phi * mu)
        _shrink(s, phi)
        step = y * phi
    s.put(slot, x, y, step)


def _budget_perceptron(s: NumpySupports, x: FloatArray, y: float, f: float, k: FloatArray) -> None:
    if y * f > 0:
        return
    slot = _free(s)
    if slot < 0:
        slot = int(np.argmax(s.labels * (s.scores - s.coefficients)))
        a = float(s.coefficients[slot])
        s.scores -= a * s.kernel(s.rows[slot])
        f -= a * float(k[slot])
    s.scores[: s.count] += y * k
    s.put(slot, x, y, y)
    s.scores[slot] = f + y


UPDATES = {
    "perceptron": _perceptron,
    "ogd": _ogd,
    "rbp": _rbp,
    "bogd": _bogd,
    "bogd++": _sampled,
    "norma": _norma,
    "forgetron": _forgetron,
    "budget-perceptron": _budget_perceptron,
}
