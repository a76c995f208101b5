"""Slow, obvious twins of okl/compiled/nogd.py and of NOGD, by the definitions in the paper."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from okl.compiled.nogd import Filling
from okl.compiled.updates import Rule
from okl.execution.protocol import Rows
from okl.kernels import Kernel
from okl.losses import Loss
from okl.types import FloatArray
from tests.naive.updates import loss_of


def count(filling: Filling, loss: Loss, f: FloatArray, y: float) -> int:
    rows, mistakes, baseline_mistakes = range(3)
    squared_error, baseline_squared_error, target_sum = range(3)
    counts, sums, class_counts = filling.counts, filling.sums, filling.class_counts
    label = 0
    if loss.task == "binary":
        label = int(y > 0)
        counts[mistakes] += (f[0] >= 0) != (y > 0)
        counts[baseline_mistakes] += (class_counts[1] >= class_counts[0]) != (y > 0)
    elif loss.task == "multiclass":
        label = int(y)
        counts[mistakes] += int(np.argmax(f)) != label
        counts[baseline_mistakes] += int(np.argmax(class_counts)) != label
    else:
        mean = sums[target_sum] / max(1, counts[rows])
        sums[squared_error] += (f[0] - y) ** 2
        sums[baseline_squared_error] += (mean - y) ** 2
        sums[target_sum] += y
    class_counts[label] += 1
    counts[rows] += 1
    return label


def slopes_of(loss: Loss, f: FloatArray, y: float) -> FloatArray:
    """Derivative by every score."""
    if loss.task == "multiclass":
        slopes: FloatArray = loss.derivative(f[None, :], np.array([y]))[0]
        return slopes
    return loss.derivative(f, np.array([y]))


def fill_budget(
    filling: Filling, known: FloatArray, among: FloatArray, targets: NDArray[np.float64], rule: Rule
) -> int:
    loss = loss_of(rule.code, rule.epsilon)
    before, budget = known.shape[1], filling.coefficients.shape[1]
    for row, y in enumerate(targets):
        size = int(filling.size[0])
        values = np.concatenate([known[row], among[row, filling.added[before:size]]]).astype(np.float64)
        f = filling.coefficients[:, :size].astype(np.float64) @ values
        slopes = slopes_of(loss, f, y)
        if np.any(slopes != 0) and size == budget:
            return row
        label = count(filling, loss, f, y)
        if np.any(slopes != 0):
            filling.coefficients[:, size] = -rule.step_size * rule.class_weights[label] * slopes
            filling.added[size] = row
            filling.size[0] += 1
            filling.counts[3] += 1
    return len(targets)


@dataclass
class NaiveNOGD:
    """NOGD row by row, in float64, with its trace: Algorithm 2, 4 or 6 of Lu et al., JMLR 17(47), 2016."""

    kernel: Kernel
    loss: Loss
    step_size: float
    budget: int
    rank: int
    n_outputs: int = 1
    supports: list[FloatArray] = field(default_factory=list)
    coefficients: list[FloatArray] = field(default_factory=list)
    scores: list[FloatArray] = field(default_factory=list)
    updated: list[bool] = field(default_factory=list)
    projection: FloatArray | None = None
    weights: FloatArray | None = None

    def learn(self, rows: Rows) -> NaiveNOGD:
        for x, y in zip(rows.inputs.astype(np.float64), rows.targets, strict=True):
            self._learn_row(x, float(y))
        return self

    def _learn_row(self, x: FloatArray, y: float) -> None:
        f = self.score(x)
        slopes = slopes_of(self.loss, f, y)
        updates = bool(np.any(slopes != 0))
        if updates and self.weights is None and len(self.supports) == self.budget:
            self._switch()
            f = self.score(x)
            slopes = slopes_of(self.loss, f, y)
            updates = bool(np.any(slopes != 0))
        self.scores.append(f)
        self.updated.append(updates)
        if updates and self.weights is None:
            self.supports.append(x)
            self.coefficients.append(-self.step_size * slopes)
        elif updates:
            assert self.weights is not None
            self.weights = self.weights - self.step_size * np.outer(slopes, self._features(x))

    def score(self, x: FloatArray) -> FloatArray:
        scores: FloatArray = np.zeros(self.n_outputs)
        if self.weights is not None:
            scores = self.weights @ self._features(x)
        elif self.supports:
            scores = np.array(self.coefficients).T @ self._values(x)
        return scores

    def _values(self, x: FloatArray) -> FloatArray:
        values: FloatArray = self.kernel.matrix(x[None, :], np.array(self.supports))[0]
        return values

    def _features(self, x: FloatArray) -> FloatArray:
        assert self.projection is not None
        features: FloatArray = self.projection @ self._values(x)
        return features

    def _switch(self) -> None:
        eigenvalues, vectors = np.linalg.eigh(self.kernel.matrix(np.array(self.supports), np.array(self.supports)))
        keep = [i for i in range(self.budget)[::-1][: self.rank] if eigenvalues[i] > 1e-10 * eigenvalues[-1]]
        self.projection = np.array([vectors[:, i] / np.sqrt(eigenvalues[i]) for i in keep])
        self.weights = np.array(self.coefficients).T @ np.linalg.pinv(self.projection)
