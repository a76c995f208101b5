"""Invalid parameters and rows of estimators raise clear errors and leave fitted models unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from okl.estimators.accelerated import CSVMClassifier
from okl.estimators.online import ConstrainedFOGDClassifier, FOGDClassifier, FOGDRegressor
from okl.estimators.ridge import KernelRidgeClassifier, LocalRidgeClassifier
from okl.foundation.errors import ConfigError, DataError, DivergedError
from tests.estimators.cases import CASE, moons, prepare, waves


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bandwidth": 0}, "FOGD.*: bandwidth = 0: input should be greater than 0, or input should be 'auto'"),
        ({"bandwidth": "wide"}, "bandwidth = 'wide'"),
        ({"step_size": float("inf")}, "step_size = inf"),
        ({"step_size": True}, "step_size = True"),
        ({"n_frequencies": 2.5}, "n_frequencies = 2.5: input should be a valid integer"),
        ({"passes": 0}, "passes = 0"),
        ({"precision": "float16"}, "precision = 'float16'; expected one of float32, float64"),
    ],
)
@CASE
def test_parameters_out_of_range_are_named(case: str, parameters: dict[str, Any], message: str) -> None:
    estimator, inputs, targets = prepare(case, **parameters)
    with pytest.raises(ConfigError, match=message):
        estimator.fit(inputs, targets)


def test_bad_use_of_the_classifier_is_named() -> None:
    inputs, labels = moons()
    with pytest.raises(ConfigError, match="loss = 'multiclass-hinge'; expected one of hinge, logistic"):
        FOGDClassifier(loss="multiclass-hinge").fit(inputs, labels)
    with pytest.raises(DataError, match="requires at least two classes, but y holds one class: 1"):
        FOGDClassifier().fit(inputs, np.ones(len(labels)))
    mixed = np.full(len(labels), "yes", dtype=object)
    mixed[:2] = None, 1.0
    with pytest.raises(
        DataError, match=r"Unknown label type.*objects of type NoneType, float, str\. Convert them.*astype\(str"
    ):
        FOGDClassifier().fit(inputs, mixed)
    with pytest.raises(ConfigError, match=r"first call of partial_fit requires classes"):
        FOGDClassifier().partial_fit(inputs, labels)
    with pytest.raises(ConfigError, match="all rows at once"):
        FOGDClassifier(class_weight="balanced").partial_fit(inputs, labels, classes=[0, 1])
    model = FOGDClassifier(random_state=0).partial_fit(inputs, labels, classes=[0, 1])
    with pytest.raises(ConfigError, match=r"classes = \[0, 2\] differ from those of the first call, \[0, 1\]"):
        model.partial_fit(inputs, labels, classes=[0, 2])
    with pytest.raises(DataError, match=r"y holds 2, but the classes are \[0, 1\]"):
        model.partial_fit(inputs, labels + 1)


@pytest.mark.parametrize("kind", [FOGDClassifier, KernelRidgeClassifier, LocalRidgeClassifier, CSVMClassifier])
def test_text_and_dates_are_named_with_the_estimators_that_take_them(kind: Any) -> None:
    inputs, labels = moons()
    rows = pd.DataFrame(inputs, columns=["a", "b"])
    dates = pd.to_datetime(pd.Series(["2020-01-01"] * len(rows)))
    integers = pd.array([1] * len(rows), dtype="Int64")
    texts = pd.Categorical(["x"] * len(rows))
    for table in (
        rows.assign(a_column_with_a_name_that_is_long="x"),
        rows.assign(a_column_with_a_name_that_is_long=texts, b=integers),
        rows.assign(a_column_with_a_name_that_is_long=dates),
    ):
        with pytest.raises(
            DataError, match=r"text or dates in column 'a_column_.* use okl\.KernelClassifier"
        ) as caught:
            kind().fit(table, labels)
        assert len(str(caught.value)) <= 200
    with pytest.raises(DataError, match=f"text or dates, but {kind.__name__} takes numbers"):
        kind().fit(np.full((len(labels), 2), "x"), labels)
    with pytest.raises(DataError, match="contains text or dates in column 'b'"):
        kind().fit(rows, labels).predict(rows.assign(b="x"))
    with pytest.raises(ConfigError, match=r"kernel = 'rbf'.*did you mean '?gaussian'?"):
        kind(kernel="rbf").fit(rows, labels)


def test_a_column_of_constraints_that_was_not_passed_is_named() -> None:
    inputs, labels = moons()
    made = ConstrainedFOGDClassifier(constraints=["abs(covariance(paid)) <= 0.01"])
    with pytest.raises(DataError, match=r"'paid', which is not taken .*fit\(X, y, sensitive=table\[\['paid'\]\]\)"):
        made.fit(pd.DataFrame(inputs, columns=["paid", "b"]), labels)
    with pytest.raises(DataError, match=r"no column 'paid', which a constraint uses\. It holds sex\."):
        made.fit(inputs, labels, {"sex": labels})


def test_bad_use_of_the_regressor_is_named() -> None:
    inputs, targets = waves()
    with pytest.raises(ConfigError, match=r"epsilon = -1"):
        FOGDRegressor(epsilon=-1).fit(inputs, targets)
    with pytest.raises(DataError, match=r"no finite standard deviation"):
        FOGDRegressor().fit(inputs, targets * 1e300)
    with pytest.raises(DivergedError, match=r"step_size = 50.*such as 5\."):
        FOGDRegressor(step_size=50).fit(inputs, targets)
    with pytest.raises(ValueError, match="too large for dtype"):
        FOGDRegressor().fit(inputs * 1e60, targets)


def test_failed_partial_fit_keeps_what_was_learnt() -> None:
    inputs, targets = waves()
    model = FOGDRegressor(random_state=0).fit(inputs, targets)
    before = model.predict(inputs)
    with pytest.raises(DivergedError):
        model.partial_fit(inputs, targets * 1e305)
    np.testing.assert_array_equal(model.predict(inputs), before)
