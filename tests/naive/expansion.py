"""A kernel expansion as plain lists, and the evaluation of a row; shared by the naive twins of budget learners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from okl.foundation.types import FloatArray, Task
from okl.kernels import Kernel


class RowResult(NamedTuple):
    """scores (K,); mistake; loss: hinge with margin 1, or |y - f| for regression; direction (K,): steepest descent."""

    scores: FloatArray
    mistake: bool
    loss: float
    direction: FloatArray


class Expansion:
    """f_c(x) = sum_i coefficients[i][c] k(supports[i], x), for every class c; one for two classes and regression."""

    def __init__(self, kernel: Kernel, task: Task, n_outputs: int, budget: int) -> None:
        self.kernel, self.task, self.n_outputs, self.budget = kernel, task, n_outputs, budget
        self.supports: list[FloatArray] = []
        self.coefficients: list[FloatArray] = []
        self.births: list[int] = []
        self.rows = 0

    @property
    def full(self) -> bool:
        return len(self.supports) >= self.budget

    def row(self, x: FloatArray) -> FloatArray:
        return self.kernel.matrix(np.stack(self.supports), x[None])[:, 0] if self.supports else np.empty(0)

    def self_kernel(self, x: FloatArray) -> float:
        return float(self.kernel.matrix(x[None], x[None])[0, 0])

    def scores(self, x: FloatArray) -> FloatArray:
        scores = np.zeros(self.n_outputs)
        for k, a in zip(self.row(x), self.coefficients, strict=True):
            scores = scores + k * a
        return scores

    def pairs(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        return zip(self.supports, self.coefficients, strict=True)

    def judge(self, x: FloatArray, y: float) -> RowResult:
        """Score a row and count its errors."""
        scores = self.scores(x)
        self.rows += 1
        if self.task == "regression":
            residual = y - scores[0]
            return RowResult(scores, False, abs(residual), np.array([np.sign(residual)]))
        if self.task == "binary":
            return RowResult(scores, (scores[0] >= 0) != (y > 0), 1.0 - y * scores[0], np.array([y]))
        true = int(y)
        wrong = max((c for c in range(self.n_outputs) if c != true), key=lambda c: (scores[c], -c))
        direction = np.zeros(self.n_outputs)
        direction[true], direction[wrong] = 1.0, -1.0
        return RowResult(scores, int(np.argmax(scores)) != true, 1.0 - (scores[true] - scores[wrong]), direction)

    def add(self, x: FloatArray, coefficients: FloatArray) -> None:
        self.supports.append(np.array(x))
        self.coefficients.append(np.array(coefficients, dtype=np.float64))
        self.births.append(self.rows)

    def remove(self, index: int) -> None:
        del self.supports[index], self.coefficients[index], self.births[index]

    def gram(self) -> FloatArray:
        return self.kernel.matrix(np.stack(self.supports), np.stack(self.supports))
