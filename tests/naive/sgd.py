"""Slow, obvious twins of okl.compiled.sgd."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from okl.compiled.sgd import (
    LATER_MORE,
    NO_AVERAGE,
    FillingSupports,
    LearnerArrays,
    PegasosSteps,
    SummedGradients,
    UpdateRule,
)
from okl.compiled.threads import Block
from okl.data.execution import Rows
from okl.foundation.types import FloatArray
from okl.kernels import Kernel
from okl.losses import Hinge, Logistic, Loss, MulticlassHinge, ThresholdedHalfSquared

# Pegasos: unscaled weights, and their average summed step by step.

Doubles = NDArray[np.float64]


def step_rows(
    n_outputs: int, rows: FloatArray, targets: Doubles, picks: NDArray[np.int64], steps: PegasosSteps
) -> tuple[Doubles, Doubles, int]:
    """Return the last weights, their average, and the number of rows that violated the margin."""
    w = np.zeros((n_outputs, rows.shape[1]))
    total, counted, updates = np.zeros_like(w), 0.0, 0
    for t, first in enumerate(range(0, len(picks), steps.batch), start=1):
        batch = picks[first : first + steps.batch]
        descent = np.zeros_like(w)
        for i in batch:
            z, scores = rows[i].astype(np.float64), w @ rows[i]
            if n_outputs == 1:
                violated = targets[i] * scores[0] < 1.0
                descent[0] += violated * targets[i] * z
            else:
                true = int(targets[i])
                others = np.where(np.arange(n_outputs) == true, -np.inf, scores)
                violated = scores[true] - others.max() < 1.0
                descent[true] += violated * z
                descent[int(np.argmax(others))] -= violated * z
            updates += int(violated)
        w = (1.0 - 1.0 / t) * w + descent / (len(batch) * steps.lam * t)
        if steps.project and np.linalg.norm(w) > steps.lam**-0.5:
            w *= steps.lam**-0.5 / np.linalg.norm(w)
        share = float(t) if steps.average == LATER_MORE else 1.0
        total += share * w
        counted += share
    return w, w if steps.average == NO_AVERAGE else total / counted, updates


def step_kernel(
    matrix: FloatArray, targets: Doubles, picks: NDArray[np.int64], steps: PegasosSteps
) -> tuple[Doubles, Doubles, int]:
    """Return the same with a kernel matrix (m, m): coefficients (1, m) of the rows."""
    values, vectors = np.linalg.eigh(matrix.astype(np.float64))
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    last, averaged, updates = step_rows(1, features, targets, picks, steps)
    return np.linalg.solve(features.T, last[0])[None], np.linalg.solve(features.T, averaged[0])[None], updates


# Updates, by the definitions of the losses.


def loss_of(code: int, epsilon: float) -> Loss:
    losses: list[Loss] = [Hinge(), Logistic(), MulticlassHinge(), ThresholdedHalfSquared(epsilon)]
    return next(loss for loss in losses if loss.code == code)


def loss_slope(code: int, epsilon: float, f: float, y: float) -> float:
    return float(loss_of(code, epsilon).derivative(np.array([f]), np.array([y]))[0])


def loss_value(code: int, epsilon: float, f: float, y: float) -> float:
    return float(loss_of(code, epsilon).value(np.array([f]), np.array([y]))[0])


def best_wrong(scores: FloatArray, true: int) -> int:
    others = [k for k in range(len(scores)) if k != true]
    return max(others, key=lambda k: (scores[k], -k))


def add_scaled(w: FloatArray, z: FloatArray, factor: float) -> None:
    w += factor * z


def learn_block(learnt: LearnerArrays, block: Block, targets: NDArray[np.float64], rule: UpdateRule) -> None:
    if rule.radius > 0:
        learn_block_in_ball(learnt, block, targets, rule)
        return
    loss = loss_of(rule.code, rule.epsilon)
    rows, mistakes, baseline_mistakes, updates, sampled = range(5)
    squared_error, baseline_squared_error, target_sum = range(3)
    for z, y in zip(np.concatenate([block.left, block.right], axis=1), targets, strict=True):
        f = learnt.weights.astype(np.float64) @ z.astype(np.float64)
        if loss.task == "multiclass":
            label = int(y)
            slopes = loss.derivative(f[None, :], np.array([y]))[0]
            learnt.counts[mistakes] += int(np.argmax(f)) != label
            learnt.counts[baseline_mistakes] += int(np.argmax(learnt.class_counts)) != label
        else:
            slopes = loss.derivative(f, np.array([y]))
        if loss.task == "binary":
            label = int(y > 0)
            majority = 1.0 if learnt.class_counts[1] >= learnt.class_counts[0] else -1.0
            learnt.counts[mistakes] += (1.0 if f[0] >= 0 else -1.0) != y
            learnt.counts[baseline_mistakes] += majority != y
        if loss.task == "regression":
            label = 0
            mean = learnt.sums[target_sum] / max(1, learnt.counts[rows])
            learnt.sums[squared_error] += (f[0] - y) ** 2
            learnt.sums[baseline_squared_error] += (mean - y) ** 2
            learnt.sums[target_sum] += y
        learnt.class_counts[label] += 1
        learnt.counts[rows] += 1
        if np.any(slopes != 0):
            learnt.counts[updates] += 1
            learnt.weights[...] -= rule.step_size * rule.class_weights[label] * np.outer(slopes, z)
        if rule.sample_every and learnt.counts[rows] % rule.sample_every == 0:
            number = learnt.counts[rows] // rule.sample_every
            learnt.total[...] += number * learnt.weights.astype(np.float64)
            learnt.counts[sampled] += number


def learn_block_in_ball(learnt: LearnerArrays, block: Block, targets: NDArray[np.float64], rule: UpdateRule) -> None:
    loss = loss_of(rule.code, rule.epsilon)
    for z, y in zip(np.concatenate([block.left, block.right], axis=1).astype(np.float64), targets, strict=True):
        f = learnt.weights.astype(np.float64) @ z
        weight = rule.class_weights[count(learnt, loss, f, y)]
        rows = int(learnt.counts[0])
        gradient = weight * np.outer(slopes_of(loss, f, y), z)
        step = rule.step_size / np.sqrt(rows) if rule.decaying else rule.step_size
        learnt.sums[3] += weight * value_of(loss, f, y)
        learnt.sums[4] += step * np.sum(gradient**2)
        learnt.counts[3] += bool(np.any(gradient != 0))
        moved = learnt.weights.astype(np.float64) - step * gradient
        learnt.weights[...] = moved * min(1.0, rule.radius / max(float(np.linalg.norm(moved)), 1e-300))
        if rule.sample_every and rows % rule.sample_every == 0:
            learnt.total[...] += rows // rule.sample_every * learnt.weights.astype(np.float64)
            learnt.counts[4] += rows // rule.sample_every


# Gradients, by the definitions of the losses.


def sum_block(
    summed: SummedGradients, block: Block, scores: FloatArray, targets: NDArray[np.float64], rule: UpdateRule
) -> None:
    loss = loss_of(rule.code, rule.epsilon)
    rows, mistakes, updates = 0, 1, 3
    squared_error = 0
    features = np.concatenate([block.left, block.right], axis=1).astype(np.float64)
    f = scores.astype(np.float64)
    if loss.task == "multiclass":
        slopes = loss.derivative(f, targets)
        labels = targets.astype(int)
        summed.counts[mistakes] += np.sum(np.argmax(f, axis=1) != labels)
    else:
        slopes = loss.derivative(f[:, 0], targets)[:, None]
        labels = (targets > 0).astype(int) if loss.task == "binary" else np.zeros(len(targets), dtype=int)
    if loss.task == "binary":
        summed.counts[mistakes] += np.sum(np.where(f[:, 0] >= 0, 1.0, -1.0) != targets)
    if loss.task == "regression":
        summed.sums[squared_error] += np.sum((f[:, 0] - targets) ** 2)
    weights = rule.class_weights[labels]
    summed.counts[rows] += len(targets)
    summed.counts[updates] += np.sum(np.any(weights[:, None] * slopes != 0, axis=1))
    summed.gradient[...] += (weights[:, None] * slopes).T @ features


# NOGD, by the definitions of the paper.


def count(learnt: FillingSupports | LearnerArrays, loss: Loss, f: FloatArray, y: float) -> int:
    rows, mistakes, baseline_mistakes = range(3)
    squared_error, baseline_squared_error, target_sum = range(3)
    counts, sums, class_counts = learnt.counts, learnt.sums, learnt.class_counts
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
    """Return the derivative by every score."""
    if loss.task == "multiclass":
        slopes: FloatArray = loss.derivative(f[None, :], np.array([y]))[0]
        return slopes
    return loss.derivative(f, np.array([y]))


def value_of(loss: Loss, f: FloatArray, y: float) -> float:
    return float(loss.value(f[None, :] if loss.task == "multiclass" else f, np.array([y]))[0])


def fill_budget(
    filling: FillingSupports, known: FloatArray, among: FloatArray, targets: NDArray[np.float64], rule: UpdateRule
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
        weight = rule.class_weights[count(filling, loss, f, y)]
        step = rule.step_size / np.sqrt(filling.counts[0]) if rule.decaying else rule.step_size
        moves = -step * weight * slopes
        if rule.radius > 0:
            squared_gradient = weight**2 * float(np.sum(slopes**2)) * float(among[row, row])
            filling.sums[3:] += [weight * value_of(loss, f, y), step * squared_gradient]
        if np.any(slopes != 0):
            filling.coefficients[:, size] = moves
            filling.added[size] = row
            filling.size[0] += 1
            filling.counts[3] += 1
        if rule.radius > 0:  # ||f + moves k(x, .)||^2, of all outputs together
            filling.squared_norm[0] += float(2.0 * moves @ f + moves @ moves * float(among[row, row]))
            longest = max(rule.radius, np.sqrt(filling.squared_norm[0]))
            filling.coefficients[...] *= rule.radius / longest
            filling.squared_norm[0] *= (rule.radius / longest) ** 2
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
