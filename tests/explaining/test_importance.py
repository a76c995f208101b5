"""Permutation importance: columns that decide matter, others do not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.inspection import permutation_importance as peers

from okl.errors import DataError
from okl.explaining.importance import permutation_importance
from okl.explaining.wording import importance_lines
from okl.exporting.sklearnmodel import to_sklearn
from okl.features.linear import StandardisedLinear
from okl.predictors import LinearPredictor
from okl.store.dataset import Schema
from okl.store.encodings import Encoding
from okl.store.model import Model
from okl.types import FloatArray

N_ROWS = 3000


def linear(weights: list[float], schema: Schema) -> Model:
    plain = StandardisedLinear(np.zeros(len(weights)), np.ones(len(weights)), 1.0)
    return Model(schema, LinearPredictor(plain, np.array([[*weights, 0.0]])))


def rows() -> FloatArray:
    drawn: FloatArray = np.random.default_rng(3).standard_normal((N_ROWS, 3))
    return drawn


def test_columns_come_by_what_they_decide() -> None:
    model = linear([0.5, 0.0, 2.0], Schema(("a", "b", "c"), "y", "binary", labels=(0, 1)))
    inputs = rows()
    targets = np.where(inputs @ [0.5, 0.0, 2.0] > 0, 1.0, -1.0)
    found = permutation_importance(model, inputs, targets)
    assert [one.column for one in found.columns] == ["c", "a", "b"]
    assert found.error == 0.0
    assert found.columns[-1].rise == 0.0
    theirs = peers(to_sklearn(model), inputs, (targets > 0).astype(int), n_repeats=5, random_state=1)
    for one, expected in zip(found.columns, theirs.importances_mean[[2, 0, 1]], strict=True):
        assert one.rise == pytest.approx(expected, abs=0.02)


def test_mistakes_that_cancel_add_nothing_and_are_told_as_0() -> None:
    """A mean of rates would leave 1e-17 of them."""
    model, inputs = linear([0.02, 0.0, 2.0], Schema(("a", "b", "c"), "y", "binary", labels=(0, 1))), rows()[:700]
    noise = np.random.default_rng(4).standard_normal(700)
    found = permutation_importance(model, inputs, np.where(2.0 * inputs[:, 2] + noise > 0, 1.0, -1.0), seed=23)
    weak = next(one for one in found.columns if one.column == "a")
    assert weak.rise == 0.0
    assert weak.spread > 0.0
    lines = importance_lines(found.as_json() | {"on": "rows"}, "mistake rate", "float32")
    assert [line.split()[:2] for line in lines if line.startswith(("a ", "b "))] == [["a", "0"], ["b", "0"]]
    tiny = {"column": "b", "rise": -3e-9, "spread": 3e-9}  # the scores of other rows, rounded otherwise
    lines = importance_lines(found.as_json() | {"on": "rows", "columns": [tiny]}, "squared error", "float32")
    assert lines[-1].split() == ["b", "0", "+-", "0"]


def test_rise_of_a_squared_error_is_twice_the_variance_that_a_column_brings() -> None:
    """Of a linear model without error: E (w x - w x')^2 = 2 w^2 Var x, in the target's own unit."""
    model = linear([3.0, 0.0, 1.0], Schema(("a", "b", "c"), "y", "regression"))
    inputs = rows()
    found = permutation_importance(model, inputs, inputs @ [3.0, 0.0, 1.0], repeats=20)
    rises = {one.column: one.rise for one in found.columns}
    assert rises["a"] == pytest.approx(18.0 * inputs[:, 0].var(), rel=0.03)
    assert rises["c"] == pytest.approx(2.0 * inputs[:, 2].var(), rel=0.03)
    assert rises["b"] == pytest.approx(0.0, abs=1e-12)


def test_inputs_of_one_source_column_move_together() -> None:
    """Permuted alone, each of two inputs that are always opposite would seem to matter; together they cancel."""
    encoding = Encoding("kind", "category", ("kind=a", "kind=b"), ("a", "b"))
    model = linear([1.0, 1.0, 1.0], Schema(("kind=a", "kind=b", "x"), "y", "regression", encodings=(encoding,)))
    inputs = rows()
    inputs[:, 0] = inputs[:, 0] > 0
    inputs[:, 1] = 1.0 - inputs[:, 0]
    found = permutation_importance(model, inputs, inputs.sum(axis=1))
    assert {one.column for one in found.columns} == {"kind", "x"}
    assert {one.column: one.rise for one in found.columns}["kind"] == pytest.approx(0.0, abs=1e-12)


def test_inputs_stay_as_they_are_and_the_seed_decides() -> None:
    model = linear([1.0, 2.0, 3.0], Schema(("a", "b", "c"), "y", "regression"))
    inputs, before = rows(), rows()
    one, same, other = (permutation_importance(model, inputs, inputs.sum(axis=1), seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(inputs, before)
    assert one == same
    assert one != other


def test_a_single_row_is_refused() -> None:
    model = linear([1.0, 2.0, 3.0], Schema(("a", "b", "c"), "y", "regression"))
    with pytest.raises(DataError, match="at least two"):
        permutation_importance(model, rows()[:1], np.ones(1))
