from __future__ import annotations

import numpy as np
import pytest

from okl.errors import ConfigError, DataError
from okl.estimators.constrained import ConstrainedFOGDClassifier
from okl.types import FloatArray
from tests.estimators.cases import moons

BOUND = 0.01


def covariance(scores: FloatArray, column: FloatArray) -> float:
    return float(np.cov(scores.astype(np.float64), column, bias=True)[0, 1])


def test_fit_keeps_its_constraints_and_more_rows_refresh_them() -> None:
    inputs, labels = moons()
    side = np.where(inputs[:, 0] > 0.5, "right", "left")
    right = (side == "right").astype(np.float64)
    texts = [f"abs(covariance(x)) <= {BOUND}", "difference(side=right, side=left) <= 0.2"]
    sensitive = {"x": right, "side": side}
    fair = ConstrainedFOGDClassifier(constraints=texts, n_frequencies=50, passes=1, random_state=0)
    fair.fit(inputs, labels, sensitive)
    assert abs(covariance(fair.decision_function(inputs), right)) <= BOUND
    assert fair.claims_theorem_
    assert fair.score(inputs, labels) > 0.7
    drawn = np.random.default_rng(0).permutation(len(labels))
    parts = np.split(drawn, [256, 512])
    fair = ConstrainedFOGDClassifier(constraints=texts, n_frequencies=50, random_state=0)
    for part in parts:
        beside = {name: values[part] for name, values in sensitive.items()}
        fair.partial_fit(inputs[part], labels[part], classes=[0, 1], sensitive=beside)
    assert abs(covariance(fair.decision_function(inputs), right)) <= BOUND
    assert not fair.claims_theorem_


def test_missing_columns_and_constraints_are_told() -> None:
    inputs, labels = moons(100)
    with pytest.raises(DataError, match="no column 'x'"):
        ConstrainedFOGDClassifier(constraints=["mean(x=1) <= 1"]).fit(inputs, labels, {"z": labels})
    with pytest.raises(ConfigError, match="constraints are none"):
        ConstrainedFOGDClassifier().fit(inputs, labels)
    with pytest.raises(DataError, match="other lengths"):
        ConstrainedFOGDClassifier(constraints=["mean(x=1) <= 1"]).fit(inputs, labels, {"x": labels[:7]})
