"""Linear least squares of sparse rows: the same solution as of dense ones, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from okl.errors import ConfigError
from okl.estimators import KernelRidgeClassifier, KernelRidgeRegressor
from okl.ridge.gram import Outputs
from okl.ridge.sparserows import MOST_COLUMNS
from okl.store.dataset import Schema
from okl.store.predictions import predictions

ROWS = 9000  # more than one stretch


def sparse_rows(dtype: str = "float64") -> tuple[Any, NDArray[np.float64]]:
    """Rows of which one value in eight is not zero, and a linear target with noise."""
    random = np.random.default_rng(3)
    rows = sparse.random_array((ROWS, 24), density=0.125, format="csr", dtype=dtype, random_state=random)
    return rows, rows @ random.normal(size=24) + 0.1 * random.normal(size=ROWS)


@pytest.mark.parametrize("penalty", [1e-3, "auto"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_regression_is_that_of_dense_rows(penalty: Any, fit_intercept: bool) -> None:
    rows, targets = sparse_rows()
    options: dict[str, Any] = {"kernel": "linear", "penalty": penalty, "fit_intercept": fit_intercept}
    found, dense = (KernelRidgeRegressor(**options, random_state=0) for _ in range(2))
    found.fit(rows, targets)
    dense.fit(rows.toarray(), targets)
    assert found.penalty_ == dense.penalty_
    np.testing.assert_allclose(found.predict(rows), dense.predict(rows.toarray()), atol=1e-10)
    np.testing.assert_allclose(found.predict(rows.toarray()), dense.predict(rows.toarray()), atol=1e-10)
    assert found.certificate_.objective == pytest.approx(dense.certificate_.objective)
    assert found.score(rows, targets) > 0.8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_with_weights_are_those_of_dense_rows(n_classes: int, dtype: Any) -> None:
    rows, targets = sparse_rows(dtype)
    labels = np.digitize(targets, np.quantile(targets, np.arange(1, n_classes) / n_classes))
    options: dict[str, Any] = {"kernel": "linear", "penalty": 1e-3, "class_weight": {0: 2.0, 1: 1.0, 2: 0.5}}
    found, dense = (KernelRidgeClassifier(**options, precision=dtype) for _ in range(2))
    scores = found.fit(rows, labels).decision_function(rows)
    expected = dense.fit(rows.toarray(), labels).decision_function(rows.toarray())
    np.testing.assert_allclose(scores, expected, atol=1e-5 if dtype == "float32" else 1e-10)
    assert scores.shape == ((ROWS,) if n_classes == 2 else (ROWS, 3))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_column_far_from_zero_is_learnt_like_one_near_it(fit_intercept: bool) -> None:
    rows, targets = sparse_rows()
    full = np.random.default_rng(4).normal(size=(ROWS, 1))
    near = sparse.csr_array(sparse.hstack([rows, full]))
    far = sparse.csr_array(sparse.hstack([rows, full + (1e8 if fit_intercept else 0.0)]))
    weights = {0: 1.0, 1: 3.0}
    models = [
        KernelRidgeClassifier(kernel="linear", penalty=1e-3, class_weight=weights, fit_intercept=fit_intercept)
        for _ in range(3)
    ]
    labels = (targets + full[:, 0] > 0).astype(int)
    scores = [
        model.fit(inputs, labels).decision_function(inputs)
        for model, inputs in zip(models, (near, far, near.toarray()), strict=True)
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-6)
    np.testing.assert_allclose(scores[2], scores[0], atol=1e-9)
    assert models[1].certificate_.objective == pytest.approx(models[0].certificate_.objective, rel=1e-6)


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    rows, targets = sparse_rows()
    found = [KernelRidgeRegressor(kernel="linear", penalty=1e-3, n_jobs=n).fit(rows, targets) for n in (1, 2, 3)]
    scores = [one.predict(rows).tobytes() for one in found]
    assert scores[0] == scores[1] == scores[2]


def test_values_of_one_place_are_added_and_the_rows_given_stay() -> None:
    rows, targets = sparse_rows()
    twice = sparse.coo_array(
        (np.concatenate([rows.data, rows.data]), (np.tile(rows.nonzero()[0], 2), np.tile(rows.nonzero()[1], 2))),
        shape=rows.shape,
    )
    loose = sparse.csr_array(
        (twice.data[order := np.argsort(twice.row, kind="stable")], twice.col[order], 2 * rows.indptr), rows.shape
    )
    assert not loose.has_canonical_format
    given = loose.data.copy()
    found = KernelRidgeRegressor(kernel="linear", penalty=1e-3).fit(loose, targets)
    expected = KernelRidgeRegressor(kernel="linear", penalty=1e-3).fit(2.0 * rows, targets)
    np.testing.assert_allclose(found.predict(rows), expected.predict(rows), atol=1e-12)
    assert np.array_equal(loose.data, given)


def test_what_it_cannot_take_is_refused() -> None:
    wide = sparse.csr_array((3, MOST_COLUMNS + 1))
    with pytest.raises(ConfigError, match=r"8,193 columns came.*L2SVMClassifier"):
        KernelRidgeClassifier(kernel="linear").fit(wide, [0, 1, 1])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        KernelRidgeClassifier(kernel="gaussian").fit(*_few())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bandwidth": -1}, 'bandwidth = -1, but it takes a finite number above 0, or "auto"'),
        ({"bandwidth": 2}, "bandwidth = 2 was given, but the kernel 'linear' has none"),
        ({"n_landmarks": 0}, "n_landmarks = 0"),
        ({"landmarks": "nearest"}, "landmarks = 'nearest'"),
    ],
)
def test_parameters_of_other_kernels_are_looked_at_beside_the_linear_one(
    parameters: dict[str, Any], message: str
) -> None:
    rows, labels = _few()
    for given in (rows, rows.toarray()):
        with pytest.raises(ConfigError, match=message):
            KernelRidgeClassifier(kernel="linear", **parameters).fit(given, labels)


def test_a_score_of_zero_is_the_second_class_as_everywhere() -> None:
    rows, labels = _few()
    found = KernelRidgeClassifier(kernel="linear", penalty=1e-3, fit_intercept=False).fit(rows, labels)
    nothing = np.zeros((1, rows.shape[1]))
    assert found.decision_function(nothing).tolist() == [0.0]
    schema = Schema(("x",), "y", "binary", (0, 1))
    said = predictions(schema, np.zeros(1)).tolist()
    assert said == found.predict(nothing).tolist() == Outputs("binary", 1).classes(np.zeros((1, 1))).tolist() == [1]


def _few() -> tuple[Any, NDArray[np.int64]]:
    rows, targets = sparse_rows()
    return rows[:50], (targets[:50] > 0).astype(int)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_class_weights_that_are_no_weights_are_named(weight: float) -> None:
    rows, targets = sparse_rows()
    with pytest.raises(ConfigError, match="weight of a class is a finite number above 0"):
        KernelRidgeClassifier(kernel="linear", class_weight={0: weight, 1: 1.0}).fit(rows, (targets > 0).astype(int))
