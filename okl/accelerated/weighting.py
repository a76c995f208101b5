"""How much each row counts, checked at the edge of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from okl.accelerated.operators import RowOperator
from okl.errors import ConfigError, DataError
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


def class_weighted(
    labels: NDArray[Any],
    class_weight: Mapping[Any, float] | Literal["balanced"] | None,
    sample_weight: FloatArray | None = None,
) -> NDArray[np.float64] | None:
    """Weights of rows times those of their classes, (m,), or None where nothing is weighted.

    Parameters
    ----------
    labels : (m,), any classes
    class_weight : a number for a class, 1 for classes that are not in it; "balanced": all classes weigh the same
        together, and all rows as much as before; None: 1 each
    sample_weight : (m,) or None

    Raises
    ------
    ConfigError : a class weight that is negative or not finite, a class that no row has, another word
    """
    if class_weight is None:
        return None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    weights = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    classes, places = np.unique(labels, return_inverse=True)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ConfigError(f"class_weight = {class_weight!r}, but it takes 'balanced', a weight a class, or None.")
        totals = np.bincount(places, weights=weights)
        factors = weights.sum() / (len(classes) * totals)
    else:
        factors = _given_factors(class_weight, classes)
    weighted: NDArray[np.float64] = weights * factors[places]
    return weighted


def _given_factors(class_weight: Mapping[Any, float], classes: NDArray[Any]) -> NDArray[np.float64]:
    unknown = [name for name in class_weight if not np.any(classes == name)]
    wrong = [name for name, weight in class_weight.items() if not (np.isfinite(weight) and weight >= 0.0)]
    if unknown or wrong:
        named = ", ".join(map(repr, unknown or wrong))
        fault = "which no row has" if unknown else "which is not a finite number of at least 0"
        raise ConfigError(
            f"class_weight names {named}, {fault}: give weights of classes {', '.join(map(str, classes))}."
        )
    return np.array([float(class_weight.get(name, 1.0)) for name in classes.tolist()])
