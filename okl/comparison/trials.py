"""What came of one value in one part: how many rows were named rightly, by either bias, and what proves the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.bias import error_minimising_bias
from okl.compiled.rowpasses import multiply_rows
from okl.types import FloatArray

Bias = Literal["own", "none", "error-minimising"]
Signs = list[NDArray[np.float64]]


@dataclass(frozen=True)
class Trial:
    """A fit and its judgement on rows that it has not seen.

    right : for each bias, which test rows were named rightly, packed into bytes; n_rows : how many there are
    value : of the parameter, None for online solvers and for several classes, each of which has its own
    relative_gap : certified, None for online solvers; iterations; seconds : of the fit
    failure : why there is nothing, else ""
    """

    right: dict[str, bytes]
    n_rows: int
    value: float | None = None
    relative_gap: float | None = None
    iterations: int = 0
    seconds: float = 0.0
    failure: str = ""

    def rightly(self, bias: str) -> NDArray[np.bool_]:
        """Which rows were named rightly, (n_rows,)."""
        packed = np.frombuffer(self.right[bias], dtype=np.uint8)
        return np.unpackbits(packed, count=self.n_rows).astype(bool)

    def accuracy(self, bias: str) -> float:
        """Share of rows named rightly."""
        return float(self.rightly(bias).mean())


@dataclass(frozen=True, eq=False)
class Fitted:
    """Weights (n_columns,) of each class against the rest, and the bias of each kind for each class; <w, x> - bias."""

    weights: list[FloatArray]
    biases: dict[str, list[float]]


def signs_of_classes(targets: NDArray[np.float64], n_classes: int) -> Signs:
    """Signs (rows,) of each class against the rest; of two classes one array, the targets themselves."""
    if n_classes == 2:
        return [np.asarray(targets, dtype=np.float64)]
    return [np.where(targets == index, 1.0, -1.0) for index in range(n_classes)]


def raw_scores(features: FloatArray, weights: FloatArray) -> NDArray[np.float64]:
    """<w, x> of every row, summed in float64."""
    scores = np.empty(len(features))
    multiply_rows(scores, features, np.ones(len(features)), weights)
    return scores


def with_biases(
    weights: list[FloatArray], own: list[float], has_own: bool, features: FloatArray, signs: Signs
) -> Fitted:
    """Weights with both biases: the model's own (or none), and the one of fewest errors on these training rows."""
    minimising = [
        error_minimising_bias(raw_scores(features, some), sign) for some, sign in zip(weights, signs, strict=True)
    ]
    return Fitted(weights, {"own" if has_own else "none": own, "error-minimising": minimising})


def judged(fitted: Fitted, features: FloatArray, targets: NDArray[np.float64]) -> dict[str, bytes]:
    """For each bias, which rows are named rightly, packed."""
    raw = [raw_scores(features, weights) for weights in fitted.weights]
    return {
        name: packed_right([some - bias for some, bias in zip(raw, biases, strict=True)], targets)
        for name, biases in fitted.biases.items()
    }


def packed_right(scores: Sequence[FloatArray], targets: NDArray[np.float64]) -> bytes:
    """Which rows are named rightly by scores of each class (rows,), one array for two classes; 0 is the second one."""
    if len(scores) == 1:
        right = (scores[0] >= 0.0) == (targets > 0.0)
    else:
        right = np.argmax(np.column_stack(scores), axis=1) == targets
    return np.packbits(right).tobytes()
