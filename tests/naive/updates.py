"""Slow, obvious twins of okl/compiled/updates.py, by the definitions in okl/losses.py."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.updates import Learnt, Rule
from okl.losses import Hinge, Logistic, Loss, MulticlassHinge, ThresholdedHalfSquared
from okl.types import FloatArray


def loss_of(code: int, epsilon: float) -> Loss:
    losses: list[Loss] = [Hinge(), Logistic(), MulticlassHinge(), ThresholdedHalfSquared(epsilon)]
    return next(loss for loss in losses if loss.code == code)


def slope(code: int, epsilon: float, f: float, y: float) -> float:
    return float(loss_of(code, epsilon).derivative(np.array([f]), np.array([y]))[0])


def loss_value(code: int, epsilon: float, f: float, y: float) -> float:
    return float(loss_of(code, epsilon).value(np.array([f]), np.array([y]))[0])


def best_wrong(scores: FloatArray, true: int) -> int:
    others = [k for k in range(len(scores)) if k != true]
    return max(others, key=lambda k: (scores[k], -k))


def add_scaled(w: FloatArray, z: FloatArray, factor: float) -> None:
    w += factor * z


def learn_block(learnt: Learnt, block: Block, targets: NDArray[np.float64], rule: Rule) -> None:
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


def learn_block_in_ball(learnt: Learnt, block: Block, targets: NDArray[np.float64], rule: Rule) -> None:
    loss = loss_of(rule.code, rule.epsilon)
    for z, y in zip(np.concatenate([block.left, block.right], axis=1).astype(np.float64), targets, strict=True):
        f = learnt.weights[0].astype(np.float64) @ z
        majority = 1.0 if learnt.class_counts[1] >= learnt.class_counts[0] else -1.0
        learnt.counts[:3] += [1, (1.0 if f >= 0 else -1.0) != y, majority != y]
        learnt.class_counts[int(y > 0)] += 1
        weight, rows = rule.class_weights[int(y > 0)], int(learnt.counts[0])
        gradient = weight * loss.derivative(np.array([f]), np.array([y]))[0] * z
        step = rule.step_size / np.sqrt(rows) if rule.decaying else rule.step_size
        learnt.sums[3] += weight * loss.value(np.array([f]), np.array([y]))[0]
        learnt.sums[4] += gradient @ gradient
        learnt.sums[5] += step * (gradient @ gradient)
        learnt.counts[3] += bool(np.any(gradient != 0))
        moved = learnt.weights[0].astype(np.float64) - step * gradient
        learnt.weights[0] = moved * min(1.0, rule.radius / max(float(np.linalg.norm(moved)), 1e-300))
        if rule.sample_every and rows % rule.sample_every == 0:
            learnt.total[...] += rows // rule.sample_every * learnt.weights.astype(np.float64)
            learnt.counts[4] += rows // rule.sample_every
