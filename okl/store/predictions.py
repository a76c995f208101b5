"""What scores say: labels or targets in their own unit, and which of them say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.store.dataset import Schema
from okl.store.values import Mask
from okl.types import FloatArray


def predictions(schema: Schema, scores: FloatArray) -> NDArray[Any]:
    """What scores say: labels (a score of 0 is the second of two classes), or targets with their scaling undone."""
    if schema.task == "regression":
        shift, factor = schema.target_shift_and_factor
        return np.asarray(scores, dtype=np.float64) / (factor or 1.0) + shift
    labels = np.array(schema.labels)
    chosen = np.argmax(scores, axis=1) if schema.task == "multiclass" else (scores >= 0).astype(np.int64)
    named: NDArray[Any] = labels[chosen]
    return named


def first_without_score(
    schema: Schema, scores: FloatArray, predicted: NDArray[Any], absent: Mask | None = None
) -> int | None:
    """The first row whose score, or predicted target, is NaN or infinite and which is not `absent` (rows,), or None.

    Parameters
    ----------
    scores : (rows,), or (rows, n_classes); predicted : (rows,), what `predictions` makes of them
    """
    told = predicted if schema.task == "regression" else scores
    unfit = ~np.isfinite(told) if told.ndim == 1 else ~np.isfinite(told).all(axis=1)
    if absent is not None:
        unfit &= ~absent
    return int(unfit.argmax()) if unfit.any() else None
