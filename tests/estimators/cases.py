"""Small data for scikit-learn estimators, and an estimator for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons

from okl.estimators.online import FOGDClassifier, FOGDRegressor
from okl.foundation.types import FloatArray

Fitted = FOGDClassifier | FOGDRegressor


def moons(rows: int = 1000) -> tuple[FloatArray, FloatArray]:
    inputs, labels = make_moons(rows, noise=0.15, random_state=0)
    return inputs, labels


def several(rows: int = 900) -> tuple[FloatArray, FloatArray]:
    made = make_classification(rows, 30, n_informative=8, n_classes=4, class_sep=2.0, random_state=0)
    return made[0], made[1]


def waves(rows: int = 1000) -> tuple[FloatArray, FloatArray]:
    inputs = np.random.default_rng(0).uniform(-3, 3, (rows, 2))
    return inputs, np.sin(inputs[:, 0]) + inputs[:, 1] ** 2 / 3


CASES: dict[str, tuple[Callable[..., Fitted], Callable[..., tuple[FloatArray, FloatArray]]]] = {
    "two classes": (FOGDClassifier, moons),
    "four classes": (FOGDClassifier, several),
    "regression": (FOGDRegressor, waves),
}
CASE = pytest.mark.parametrize("case", list(CASES))


def outputs(fitted: Fitted, inputs: FloatArray) -> FloatArray:
    return fitted.decision_function(inputs) if isinstance(fitted, FOGDClassifier) else fitted.predict(inputs)


def prepare(case: str, **parameters: Any) -> tuple[Fitted, FloatArray, FloatArray]:
    make, data = CASES[case]
    inputs, targets = data()
    return make(random_state=3, **parameters), inputs, targets


def classes_of(estimator: Fitted, targets: FloatArray) -> dict[str, Any]:
    return {"classes": np.unique(targets)} if isinstance(estimator, FOGDClassifier) else {}
