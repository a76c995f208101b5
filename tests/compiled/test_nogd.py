from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.compiled.nogd import Filling, fill_budget
from okl.compiled.steplosses import HINGE, LOGISTIC, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED
from okl.compiled.updates import Rule
from okl.kernels import Gaussian
from okl.types import FloatArray, Precision
from tests.compiled.cases import PRECISIONS, TOLERANCE, assert_same, make_case, n_labels, n_outputs
from tests.naive import nogd as naive

CODES = [HINGE, LOGISTIC, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED]
KNOWN, ROWS = 7, 83


def fresh(code: int, budget: int, dtype: str) -> Filling:
    filling = Filling(
        np.zeros((n_outputs(code), budget), dtype=dtype),
        np.array([KNOWN]),
        np.full(budget, -1),
        np.zeros(5, dtype=np.int64),
        np.zeros(3),
        np.zeros(n_labels(code), dtype=np.int64),
    )
    rng = np.random.default_rng(1)
    filling.coefficients[:, :KNOWN] = 0.3 * rng.standard_normal((n_outputs(code), KNOWN))
    return filling


def values(code: int, precision: Precision) -> tuple[FloatArray, FloatArray, NDArray[np.float64], Rule]:
    case = make_case(code, precision, KNOWN + ROWS)
    matrix = Gaussian(2.0).matrix(case.inputs[KNOWN:], case.inputs).astype(precision)
    known, among = np.ascontiguousarray(matrix[:, :KNOWN]), np.ascontiguousarray(matrix[:, KNOWN:])
    return known, among, case.targets[KNOWN:], case.rule


@pytest.mark.parametrize("budget", [KNOWN, 20, 200])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", CODES)
def test_filling_matches_naive(code: int, precision: Precision, budget: int) -> None:
    known, among, targets, rule = values(code, precision)
    ours, twin = fresh(code, budget, precision), fresh(code, budget, precision)
    rows = fill_budget(ours, known, among, targets, rule)
    assert rows == naive.fill_budget(twin, known, among, targets, rule)
    assert_same(ours, twin, TOLERANCE[precision])
    assert (rows < ROWS) == (budget < 30)
    assert ours.counts[0] == rows
    assert ours.counts[3] == ours.size[0] - KNOWN
    assert code == LOGISTIC or ours.counts[3] < ROWS


@pytest.mark.parametrize("code", CODES)
def test_ties_and_zero_kernels_match_naive(code: int) -> None:
    known, among, targets, rule = values(code, "float64")
    known[:], among[:] = 0.0, 0.0
    among[40:, :40] = np.round(2 * np.random.default_rng(0).random((43, 40))) / 2
    ours, twin = fresh(code, 60, "float64"), fresh(code, 60, "float64")
    assert fill_budget(ours, known, among, targets, rule) == naive.fill_budget(twin, known, among, targets, rule)
    assert_same(ours, twin, 1e-12)
