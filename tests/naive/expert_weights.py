"""Slow, obvious twins of okl.compiled.expert_weights, by the definitions of the papers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.foundation.types import Task

# Fixed Share: Herbster & Warmuth, 1998.


def shared(
    predictions: NDArray[np.float64],
    targets: NDArray[np.float64],
    task: Task,
    class_weights: NDArray[np.float64],
    eta: float,
    alpha: float,
) -> tuple[list[float], NDArray[np.float64], NDArray[np.float64]]:
    """Return the predictions of the mixture, the weights after each row (rows, E), and the losses of experts (E,)."""
    n_experts = predictions.shape[1]
    p, total, seen = np.full(n_experts, 1.0 / n_experts), np.zeros(n_experts), [0.0]
    mixtures: list[float] = []
    weights: list[NDArray[np.float64]] = []
    for predicted, y in zip(predictions, targets, strict=True):
        if task == "regression":
            clipped = np.clip(predicted, min(seen), max(seen))
            seen.append(y)
            mixtures.append(float(p @ clipped))
            losses = (clipped - y) ** 2 / (max(seen) - min(seen)) ** 2
            weight = 1.0
        elif task == "binary":
            mixtures.append(float(p @ predicted))
            losses, weight = (np.where(predicted >= 0, 1.0, -1.0) != y).astype(float), class_weights[int(y > 0)]
        else:
            votes = np.bincount(predicted.astype(int), weights=p, minlength=len(class_weights))
            mixtures.append(float(np.argmax(votes)))
            losses, weight = (predicted != y).astype(float), class_weights[int(y)]
        total += losses
        v = p * np.exp(-eta * weight * losses)
        v /= v.sum()
        pool = alpha * v / (n_experts - 1)
        p = (1.0 - alpha) * v + pool.sum() - pool
        weights.append(p)
    return mixtures, np.array(weights), total


# AdaHedge: de Rooij et al., JMLR 15, 2014.


class AdaHedge:
    """Weights, mixture and rate of E experts whose losses come row by row."""

    def __init__(self, n_experts: int) -> None:
        self.losses, self.gap = np.zeros(n_experts), 0.0

    @property
    def weights(self) -> NDArray[np.float64]:
        behind = self.losses - self.losses.min()
        if self.gap == 0:
            best: NDArray[np.float64] = (behind == 0).astype(np.float64)
            best /= best.sum()
            return best
        unnormalised = np.exp(-np.log(len(behind)) / self.gap * behind)
        weights: NDArray[np.float64] = unnormalised / unnormalised.sum()
        return weights

    def suffer(self, losses: NDArray[np.float64]) -> None:
        p = self.weights
        if self.gap == 0:
            mix = (self.losses + losses).min() - self.losses.min()
        else:
            eta = np.log(len(p)) / self.gap
            mix = -np.log(np.sum(p * np.exp(-eta * losses))) / eta
        alive = p > 0
        self.gap += max(0.0, float(p[alive] @ losses[alive]) - mix)
        self.losses = self.losses + losses


def mixed(
    predictions: NDArray[np.float64], targets: NDArray[np.float64], task: Task, class_weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], AdaHedge]:
    """Return the predictions of the mixture for every row, and the state after the last."""
    hedge, mixtures = AdaHedge(predictions.shape[1]), []
    seen, together = [0.0], np.zeros(predictions.shape[1])
    for row, (predicted, y) in enumerate(zip(predictions, targets, strict=True)):
        p = hedge.weights
        if task == "regression":
            clipped = np.clip(predicted, min(seen), max(seen))
            mixtures.append(float(p @ clipped))
            together += (clipped - y) ** 2
            seen.append(y)
            if row % 8 == 7 or row == len(targets) - 1:
                hedge.suffer(together)
                together = np.zeros(predictions.shape[1])
        elif task == "binary":
            mixtures.append(1.0 if p @ np.where(predicted >= 0, 1.0, -1.0) >= 0 else -1.0)
            hedge.suffer(class_weights[int(y > 0)] * (np.where(predicted >= 0, 1.0, -1.0) != y))
        else:
            votes = np.bincount(predicted.astype(int), weights=p, minlength=len(class_weights))
            mixtures.append(float(np.argmax(votes)))
            hedge.suffer(class_weights[int(y)] * (predicted != y))
    return np.array(mixtures), hedge
