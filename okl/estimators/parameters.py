"""Parameters of estimators as people give them: numbers of any type, "auto", a source of randomness."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from okl.errors import ConfigError, DataError

SAMPLE_ROWS = 4096  # rows that "auto" parameters are settled on
Auto = Literal["auto"]
RandomState = int | np.random.RandomState | None


def draw_seed(rng: np.random.RandomState) -> int:
    """Seed of a map: drawn first, so that it does not depend on the number of rows."""
    return int(rng.randint(2**31 - 1))


def number_or_auto(name: str, value: Any) -> float | None:
    """The number above 0 that was given, of any numeric type, or None for "auto"; ConfigError for anything else."""
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise ConfigError(f'{name} = {value!r}, but it takes a finite number above 0, or "auto".')
    return float(value)


def whole_number(name: str, value: Any) -> int:
    """The whole number from 1 on that was given, of any integer type; ConfigError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise ConfigError(f"{name} = {value!r}, but it takes a whole number of at least 1.")
    return int(value)


def classes_of(estimator: Any, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Labels in order (classes,), and the place of each row's among them (rows,), as floats.

    Raises
    ------
    DataError : one class only, in words that name the estimator; ValueError of scikit-learn : these are no classes
    """
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"{type(estimator).__name__} takes two classes or more, but got one class: {classes.tolist()[0]!r}."
        )
    return classes, codes.astype(np.float64)


def weights_of_classes(
    given: dict[Any, float] | Literal["balanced"] | None, classes: NDArray[Any], labels: NDArray[Any]
) -> tuple[float, ...] | None:
    """The parameter class_weight as a weight of each class, in their order; None where all are 1.

    Raises
    ------
    ConfigError : a weight that is not a finite number above 0; ValueError of scikit-learn : no class of the labels
    """
    if given is None:
        return None
    weights = tuple(float(weight) for weight in compute_class_weight(given, classes=classes, y=labels))
    if not all(0.0 < weight < float("inf") for weight in weights):
        raise ConfigError(f"class_weight = {given!r}, but the weight of a class is a finite number above 0.")
    return weights
