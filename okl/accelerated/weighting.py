"""How much each row counts, checked at the edge of a model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.operators import RowOperator
from okl.errors import DataError
from okl.types import FloatArray


def weights_of(rows: RowOperator, sample_weight: FloatArray | None) -> NDArray[np.float64]:
    """Weights (m,) float64, ones if None, or DataError unless finite, >= 0 and above 0 for some row of either class."""
    if sample_weight is None:
        return np.ones(rows.n_points)
    weights: NDArray[np.float64] = np.array(sample_weight, dtype=np.float64)
    if weights.shape != (rows.n_points,) or not np.isfinite(weights).all() or weights.min() < 0.0:
        raise DataError(
            f"sample_weight of shape {weights.shape} came for {rows.n_points} rows: "
            "give one finite number of at least 0 a row."
        )
    if min(weights[rows.signs > 0].sum(), weights[rows.signs < 0].sum()) == 0.0:
        raise DataError("Every row of one class has sample_weight 0: give some row of either class a weight above 0.")
    return weights
