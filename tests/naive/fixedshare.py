"""Slow, obvious twin of okl/compiled/fixedshare.py: Herbster & Warmuth, 1998, by the definitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.types import Task


def shared(
    words: NDArray[np.float64],
    targets: NDArray[np.float64],
    task: Task,
    class_weights: NDArray[np.float64],
    eta: float,
    alpha: float,
) -> tuple[list[float], NDArray[np.float64], NDArray[np.float64]]:
    """What the mixture says of every row; the weights after each, (rows, E); and what experts lost, (E,)."""
    n_experts = words.shape[1]
    p, total, seen = np.full(n_experts, 1.0 / n_experts), np.zeros(n_experts), [0.0]
    predictions: list[float] = []
    weights: list[NDArray[np.float64]] = []
    for said, y in zip(words, targets, strict=True):
        if task == "regression":
            clipped = np.clip(said, min(seen), max(seen))
            seen.append(y)
            predictions.append(float(p @ clipped))
            losses = (clipped - y) ** 2 / (max(seen) - min(seen)) ** 2
            weight = 1.0
        elif task == "binary":
            predictions.append(float(p @ said))
            losses, weight = (np.where(said >= 0, 1.0, -1.0) != y).astype(float), class_weights[int(y > 0)]
        else:
            votes = np.bincount(said.astype(int), weights=p, minlength=len(class_weights))
            predictions.append(float(np.argmax(votes)))
            losses, weight = (said != y).astype(float), class_weights[int(y)]
        total += losses
        v = p * np.exp(-eta * weight * losses)
        v /= v.sum()
        pool = alpha * v / (n_experts - 1)
        p = (1.0 - alpha) * v + pool.sum() - pool
        weights.append(p)
    return predictions, np.array(weights), total
