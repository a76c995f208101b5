"""Slow, obvious twins of okl/compiled/primalsteps.py: weights as they are, and their average summed up step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.compiled.primalsteps import LATER_MORE, NO_AVERAGE, Steps
from okl.types import FloatArray

Doubles = NDArray[np.float64]


def step_rows(
    n_outputs: int, rows: FloatArray, targets: Doubles, picks: NDArray[np.int64], steps: Steps
) -> tuple[Doubles, Doubles, int]:
    """The last weights, their average, and how many rows violated their margin."""
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
    matrix: FloatArray, targets: Doubles, picks: NDArray[np.int64], steps: Steps
) -> tuple[Doubles, Doubles, int]:
    """The same with a kernel matrix (m, m): coefficients (1, m) of the rows."""
    values, vectors = np.linalg.eigh(matrix.astype(np.float64))
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    last, averaged, updates = step_rows(1, features, targets, picks, steps)
    return np.linalg.solve(features.T, last[0])[None], np.linalg.solve(features.T, averaged[0])[None], updates
