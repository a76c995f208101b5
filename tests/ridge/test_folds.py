"""Errors of fifths of the rows by models of the others: which fifths, and against models that never saw them."""

from __future__ import annotations

import numpy as np
import pytest

from okl.errors import ConfigError, DataError
from okl.execution.protocol import Rows
from okl.ridge.folds import folds_of, leave_folds_out
from okl.ridge.gram import Outputs
from okl.ridge.path import Tried
from okl.types import IntArray, Task
from tests.naive import ridge as naive
from tests.ridge.conftest import Problem, problem

PENALTIES = (1e-4, 1e-2, 1.0)


def folds(posed: Problem, seed: int = 0) -> IntArray:
    places = np.random.default_rng(seed).permutation(len(posed.rows.targets))
    return folds_of(posed.rows.targets, places, posed.outputs.task)


def left_out(posed: Problem, n_threads: int = 1) -> list[Tried]:
    return leave_folds_out(posed.basis, posed.rows, posed.outputs, folds(posed), PENALTIES, n_threads)


def test_errors_are_those_of_models_that_never_saw_the_fold(posed: Problem) -> None:
    of, weights, values, columns = folds(posed), posed.weights, posed.values, posed.columns
    for one, penalty in zip(left_out(posed), PENALTIES, strict=True):
        scores, means = np.empty_like(values), np.empty_like(values)
        for fold in range(5):
            kept, out = of != fold, of == fold
            scale = penalty * weights[kept].sum()
            found, offsets = naive.ridge(columns[kept], values[kept], weights[kept], scale, posed.metric, True)
            scores[out] = columns[out] @ found + offsets
            means[out] = weights[kept] @ values[kept] / weights[kept].sum()
        squares, spread = (weights @ ((values - said) ** 2).sum(axis=1) for said in (scores, means))
        assert one.squared_error == pytest.approx(squares / spread, rel=1e-6)
        if posed.outputs.task == "regression":
            assert one.mistake_rate is None
            continue
        said = posed.outputs.classes(scores)
        assert one.mistake_rate == pytest.approx(weights @ (said != posed.outputs.classes(values)) / weights.sum())


def test_bits_do_not_depend_on_the_number_of_threads(posed: Problem) -> None:
    assert left_out(posed) == left_out(posed, n_threads=2) == left_out(posed, n_threads=7)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_fold_has_a_fifth_of_each_class_and_lies_together(task: Task) -> None:
    posed = problem(task, n_rows=403)
    places = np.random.default_rng(1).permutation(403)
    of = folds_of(posed.rows.targets, places, task)
    tenths = np.argsort(np.argsort(posed.rows.targets)) * 10 // 403
    kinds = tenths if task == "regression" else posed.rows.targets
    for kind in np.unique(kinds):
        members = np.flatnonzero(kinds == kind)
        in_place = of[members[np.argsort(places[members])]]
        assert (np.diff(in_place) >= 0).all()
        assert np.ptp(np.bincount(in_place, minlength=5)) <= 1


def test_a_file_sorted_by_class_or_target_has_folds_like_any_other() -> None:
    targets = np.repeat([-1.0, 1.0], 50)
    of = folds_of(targets, np.arange(100), "binary")
    assert all(set(targets[of == fold]) == {-1.0, 1.0} for fold in range(5))
    ascending = np.linspace(0.0, 1.0, 100)
    of = folds_of(ascending, np.arange(100), "regression")
    assert all(np.ptp(ascending[of == fold]) > 0.8 for fold in range(5))


def test_rows_of_one_fold_and_sums_beyond_all_numbers_are_errors() -> None:
    posed = problem("regression", "inputs")
    with pytest.raises(ConfigError, match=r"No class has two rows.*--validation rows"):
        leave_folds_out(posed.basis, posed.rows, posed.outputs, np.zeros(150, dtype=int))
    huge = Rows(posed.rows.inputs, 1e200 * posed.rows.targets)
    with pytest.raises(DataError, match="Sums of squares of the target are not finite"):
        leave_folds_out(posed.basis, huge, Outputs("regression", 1), folds(posed))
