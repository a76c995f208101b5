"""Slow, obvious twin of okl/compiled/gradients.py, by the definitions in okl/losses.py."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import Block
from okl.compiled.gradients import Summed
from okl.compiled.updates import Rule
from okl.types import FloatArray
from tests.naive.updates import loss_of


def sum_block(summed: Summed, block: Block, scores: FloatArray, targets: NDArray[np.float64], rule: Rule) -> None:
    loss = loss_of(rule.code, rule.epsilon)
    rows, mistakes, updates = 0, 1, 3
    squared_error, loss_sum = 0, 1
    features = np.concatenate([block.left, block.right], axis=1).astype(np.float64)
    f = scores.astype(np.float64)
    if loss.task == "multiclass":
        values, slopes = loss.value(f, targets), loss.derivative(f, targets)
        labels = targets.astype(int)
        summed.counts[mistakes] += np.sum(np.argmax(f, axis=1) != labels)
    else:
        values, slopes = loss.value(f[:, 0], targets), loss.derivative(f[:, 0], targets)[:, None]
        labels = (targets > 0).astype(int) if loss.task == "binary" else np.zeros(len(targets), dtype=int)
    if loss.task == "binary":
        summed.counts[mistakes] += np.sum(np.where(f[:, 0] >= 0, 1.0, -1.0) != targets)
    if loss.task == "regression":
        summed.sums[squared_error] += np.sum((f[:, 0] - targets) ** 2)
    weights = rule.class_weights[labels]
    summed.counts[rows] += len(targets)
    summed.counts[updates] += np.sum(np.any(weights[:, None] * slopes != 0, axis=1))
    summed.sums[loss_sum] += np.sum(weights * values)
    summed.gradient[...] += (weights[:, None] * slopes).T @ features
