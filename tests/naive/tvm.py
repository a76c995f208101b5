"""Slow, obvious twin of the twin vector machine: lists of locations and counts, new kernel matrices for every row."""

from __future__ import annotations

import numpy as np

from okl.foundation.types import FloatArray
from okl.kernels import Scaled
from tests.naive.expansion import Expansion, RowResult


class Twins(Expansion):
    """An expansion whose supports represent counts of positive and negative rows."""

    counts: list[FloatArray]

    def learn(
        self,
        inputs: FloatArray,
        targets: FloatArray,
        aggressiveness: float = 1.0,
        unlike: float = 10.0,
        tolerance: float = 1e-2,
        sweeps: int = 10,
    ) -> list[RowResult]:
        self.counts, results = [], []
        for x, y in zip(inputs, targets, strict=True):
            results.append(self.judge(x, y))
            if results[-1].loss <= tolerance or self.self_kernel(x) <= 0.0:
                continue
            self.add(x, np.zeros(1))
            self.counts.append(np.array([y > 0, y < 0], dtype=np.float64))
            if len(self.supports) > self.budget:
                self.make_room(aggressiveness, unlike, tolerance)
            self.solve(aggressiveness, tolerance, sweeps)
        return results

    @property
    def values(self) -> FloatArray:
        return np.concatenate(self.coefficients)

    def row(self, x: FloatArray) -> FloatArray:
        # by differences: norms minus products do not detect equality of distant rows
        supports = np.stack(self.supports) if self.supports else np.empty((0, len(x)))
        if isinstance(self.kernel, Scaled):
            return self.kernel.matrix(supports - x, np.zeros((1, len(x))))[:, 0]
        return self.kernel.matrix(supports, x[None])[:, 0]

    def gram(self) -> FloatArray:
        return np.stack([self.row(x) for x in self.supports])

    def solve(self, aggressiveness: float, tolerance: float, sweeps: int) -> None:
        gram = self.gram()
        for _ in range(sweeps):
            largest = 0.0
            for i, (positive, negative) in enumerate(self.counts):
                before = float(self.coefficients[i][0])
                others = gram[i] @ self.values - gram[i, i] * before
                after = staircase(others, gram[i, i], -aggressiveness * negative, aggressiveness * positive)
                self.coefficients[i] = np.array([after])
                largest = max(largest, abs(after - before) * gram[i, i])
            if largest <= tolerance:
                return

    def make_room(self, aggressiveness: float, unlike: float, tolerance: float) -> None:
        gram = self.gram()
        leads = gram @ self.values
        leads = np.array([f if s[0] > 0 else -f for f, s in zip(leads, self.counts, strict=True)])
        idle = [
            i
            for i, s in enumerate(self.counts)
            if min(s) == 0 and abs(self.values[i]) < 1e-9 * aggressiveness and leads[i] > 1 + tolerance
        ]
        if idle:
            self.drop(next(i for i in idle if leads[i] >= leads[idle].max() - 1e-11))
            return
        first, second = self.cheapest_pair(gram, unlike)
        sizes = self.counts[first].sum(), self.counts[second].sum()
        location = (sizes[0] * self.supports[first] + sizes[1] * self.supports[second]) / sum(sizes)
        self.supports[first] = location
        self.counts[first] = self.counts[first] + self.counts[second]
        self.coefficients[first] = self.coefficients[first] + self.coefficients[second]
        self.drop(second)

    def cheapest_pair(self, gram: FloatArray, unlike: float) -> tuple[int, int]:
        counts = np.stack(self.counts)
        sizes, squared_norms = counts.sum(axis=1), np.diag(gram)
        pairs_of_rows = counts @ counts.T + unlike * counts @ counts[:, ::-1].T
        distances = squared_norms[:, None] + squared_norms[None] - 2 * gram
        costs = pairs_of_rows / (sizes[:, None] + sizes[None]) * distances
        pairs = [(i, j) for j in range(len(gram)) for i in range(j)]
        least = min(costs[pair] for pair in pairs)
        return next(pair for pair in pairs if costs[pair] <= least + 1e-11 * gram.max())

    def drop(self, index: int) -> None:
        """Remove a support; the last one takes its position."""
        x, a, s = self.supports.pop(), self.coefficients.pop(), self.counts.pop()
        if index < len(self.supports):
            self.supports[index], self.coefficients[index], self.counts[index] = x, a, s


def staircase(others: float, own: float, low: float, high: float) -> float:
    """Return the coefficient that is consistent with its own score, case by case."""
    if own <= 0.0:
        return low + high
    if others + own * low >= 1.0:
        return low
    if others + own * (low + high) >= 1.0:
        return (1.0 - others) / own
    if others + own * (low + high) >= -1.0:
        return low + high
    return min(high, (-1.0 - others) / own)
