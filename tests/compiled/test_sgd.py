from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

import tests.naive.sgd as naive
from okl.compiled.sgd import (
    BASELINE_MISTAKES,
    HINGE,
    LATER_MORE,
    LOGISTIC,
    MISTAKES,
    MULTICLASS_HINGE,
    NO_AVERAGE,
    SAMPLED,
    THRESHOLDED_HALF_SQUARED,
    UNIFORM,
    UPDATES,
    FillingSupports,
    PegasosSteps,
    UpdateRule,
    add_scaled,
    best_wrong,
    fill_budget,
    learn_block,
    loss_slope,
    loss_value,
    step_kernel,
    step_rows,
    sum_block,
)
from okl.compiled.threads import Block
from okl.foundation.types import FloatArray, Precision
from okl.kernels import Gaussian
from okl.solvers.subgradient.pegasos import Pegasos, PegasosState, state_from
from tests.compiled.cases import (
    PRECISIONS,
    TOLERANCE,
    assert_same,
    fresh_learnt,
    fresh_summed,
    make_case,
    n_labels,
    n_outputs,
    some_weights,
)
from tests.naive import sgd as naive_sgd
from tests.naive.constrained import mapped
from tests.naive.fourier import score_block


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_sums_match_naive_in_double_precision(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    block, weights = mapped(case.inputs, case.waves), some_weights(case)
    scores = np.empty((len(case.inputs), len(weights)), dtype=precision)
    score_block(scores, block, weights)
    summed, expected = fresh_summed(case), fresh_summed(case)
    sum_block(summed, block, scores, case.targets, case.rule)
    naive_sgd.sum_block(expected, block, scores, case.targets, case.rule)
    assert_same(summed, expected, 1e-12)
    assert expected.counts[UPDATES] > 10


@pytest.mark.parametrize("code", [HINGE, LOGISTIC, MULTICLASS_HINGE])
def test_scores_that_tie_are_counted_as_naive_does(code: int) -> None:
    case = make_case(code, "float64")
    block, weights = mapped(case.inputs, case.waves), some_weights(case)
    summed, expected = fresh_summed(case), fresh_summed(case)
    sum_block(summed, block, np.zeros((len(case.inputs), len(weights))), case.targets, case.rule)
    naive_sgd.sum_block(expected, block, np.zeros((len(case.inputs), len(weights))), case.targets, case.rule)
    assert_same(summed, expected, 1e-12)
    assert 0 < expected.counts[MISTAKES] < len(case.inputs)


CODES = [HINGE, LOGISTIC, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED]
N_KNOWN, ROWS = 7, 83


def fresh(code: int, budget: int, dtype: str) -> FillingSupports:
    filling = FillingSupports(
        np.zeros((n_outputs(code), budget), dtype=dtype),
        np.array([N_KNOWN]),
        np.full(budget, -1),
        np.zeros(5, dtype=np.int64),
        np.zeros(5),
        np.zeros(n_labels(code), dtype=np.int64),
        np.zeros(1),
    )
    rng = np.random.default_rng(1)
    filling.coefficients[:, :N_KNOWN] = 0.3 * rng.standard_normal((n_outputs(code), N_KNOWN))
    return filling


def values(code: int, precision: Precision) -> tuple[FloatArray, FloatArray, NDArray[np.float64], UpdateRule]:
    case = make_case(code, precision, N_KNOWN + ROWS)
    matrix = Gaussian(2.0).matrix(case.inputs[N_KNOWN:], case.inputs).astype(precision)
    known, among = np.ascontiguousarray(matrix[:, :N_KNOWN]), np.ascontiguousarray(matrix[:, N_KNOWN:])
    return known, among, case.targets[N_KNOWN:], case.rule


@pytest.mark.parametrize("budget", [N_KNOWN, 20, 200])
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", CODES)
def test_filling_matches_naive(code: int, precision: Precision, budget: int) -> None:
    known, among, targets, rule = values(code, precision)
    compiled, twin = fresh(code, budget, precision), fresh(code, budget, precision)
    rows = fill_budget(compiled, known, among, targets, rule)
    assert rows == naive_sgd.fill_budget(twin, known, among, targets, rule)
    assert_same(compiled, twin, TOLERANCE[precision])
    assert (rows < ROWS) == (budget < 30)
    assert compiled.counts[0] == rows
    assert compiled.counts[3] == compiled.size[0] - N_KNOWN
    assert code == LOGISTIC or compiled.counts[3] < ROWS


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("decaying", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_filling_in_a_ball_matches_naive_and_keeps_the_norm_of_the_function(
    code: int, decaying: bool, precision: Precision
) -> None:
    case = make_case(code, precision, N_KNOWN + ROWS)
    kernel = Gaussian(2.0).matrix(case.inputs, case.inputs)
    known, among, targets, rule = values(code, precision)
    rule = rule._replace(radius=0.8, decaying=decaying)
    compiled, twin = fresh(code, 200, precision), fresh(code, 200, precision)
    first = compiled.coefficients[:, :N_KNOWN].astype(np.float64)
    compiled.squared_norm[0] = twin.squared_norm[0] = np.sum((first @ kernel[:N_KNOWN, :N_KNOWN]) * first)
    assert fill_budget(compiled, known, among, targets, rule) == ROWS
    assert naive_sgd.fill_budget(twin, known, among, targets, rule) == ROWS
    assert_same(compiled, twin, TOLERANCE[precision])
    size = int(compiled.size[0])
    supports = np.concatenate([np.arange(N_KNOWN), N_KNOWN + compiled.added[N_KNOWN:size]])
    last = compiled.coefficients[:, :size].astype(np.float64)
    squared = float(np.sum((last @ kernel[np.ix_(supports, supports)]) * last))
    assert squared == pytest.approx(compiled.squared_norm[0], rel=10 * TOLERANCE[precision])
    assert squared <= 0.64 * (1 + 10 * TOLERANCE[precision])
    assert (compiled.sums[3:] > 0).all()


@pytest.mark.parametrize("code", CODES)
def test_ties_and_zero_kernels_match_naive(code: int) -> None:
    known, among, targets, rule = values(code, "float64")
    known[:], among[:] = 0.0, 0.0
    among[40:, :40] = np.round(2 * np.random.default_rng(0).random((43, 40))) / 2
    compiled, twin = fresh(code, 60, "float64"), fresh(code, 60, "float64")
    assert fill_budget(compiled, known, among, targets, rule) == naive_sgd.fill_budget(
        twin, known, among, targets, rule
    )
    assert_same(compiled, twin, 1e-12)


PEGASOS_ROWS, COLUMNS = 60, 7
AVERAGES = {"none": NO_AVERAGE, "uniform": UNIFORM, "later": LATER_MORE}


def rows_of(precision: str, n_outputs: int) -> tuple[FloatArray, NDArray[np.float64]]:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((PEGASOS_ROWS, COLUMNS))
    signal = rows[:, 0] + 0.7 * rng.standard_normal(PEGASOS_ROWS)
    targets = np.where(signal > 0, 1.0, -1.0) if n_outputs == 1 else np.digitize(signal, [-0.5, 0.5]).astype(float)
    return rows.astype(precision), targets


def learnt(
    method: Pegasos, start: PegasosState, rows: FloatArray, targets: NDArray[np.float64], picks: NDArray[np.int64]
) -> PegasosState:
    carried = start.carried()
    scores, changes = np.zeros(len(start.points), dtype=rows.dtype), np.zeros(method.batch)
    step_rows(carried, scores, changes, np.zeros(method.batch, dtype=np.int64), rows, targets, picks, method.steps)
    return state_from(carried, start.progress.task)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_steps_match_naive(precision: str, n_outputs: int) -> None:
    rows, targets = rows_of(precision, n_outputs)
    picks = np.random.default_rng(3).integers(0, PEGASOS_ROWS, 150)
    for batch, project, average in itertools.product((1, 4), (False, True), AVERAGES):
        method = Pegasos(0.02, batch, project, average)  # type: ignore[arg-type]
        after = learnt(method, method.start(COLUMNS, n_outputs, precision), rows, targets, picks)
        steps = PegasosSteps(0.02, batch, project, AVERAGES[average])
        last, averaged, updates = naive.step_rows(n_outputs, rows, targets, picks, steps)
        tolerance = {"rtol": 0, "atol": (1e-4 if precision == "float32" else 1e-11) * np.abs(last).max()}
        np.testing.assert_allclose(after.last(0.02), last, **tolerance)
        np.testing.assert_allclose(after.averaged(0.02), averaged, **tolerance)
        assert after.progress.updates == updates
        assert 30 < updates < 140


def test_projection_moves_the_weights_and_ends_in_the_ball() -> None:
    rows, targets = rows_of("float64", 1)
    picks = np.arange(1)
    plain, projected = (Pegasos(0.02, project=project, average="none") for project in (False, True))
    far, near = (learnt(m, m.start(COLUMNS), rows, targets, picks).last(0.02) for m in (plain, projected))
    assert np.linalg.norm(far) > 0.02**-0.5
    assert np.linalg.norm(near) == pytest.approx(0.02**-0.5)


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("batch", [1, 4])
def test_steps_with_a_kernel_match_naive(batch: int, project: bool) -> None:
    rows, targets = rows_of("float64", 1)
    matrix = Gaussian(1.0).matrix(rows, rows)
    picks = np.random.default_rng(3).integers(0, PEGASOS_ROWS, 150)
    method = Pegasos(0.02, batch, project)
    last, averaged, updates = naive.step_kernel(matrix, targets, picks, method.steps)
    carried = method.start(PEGASOS_ROWS).carried()
    step_kernel(carried, np.zeros(PEGASOS_ROWS), np.zeros(batch), matrix, targets, picks, method.steps)
    after = state_from(carried, "binary")
    np.testing.assert_allclose(after.last(0.02), last, atol=1e-7)
    np.testing.assert_allclose(after.averaged(0.02), averaged, atol=1e-7)
    assert after.progress.updates == updates


UPDATE_CODES = [0, 1, 2, 3]


@pytest.mark.parametrize("code", [0, 1, 3])
def test_slopes_and_values_match_naive(code: int) -> None:
    for f in [-800.0, -3.0, -1.05, -1.0, -0.2, 0.0, 0.3, 1.0, 1.1, 1.2, 800.0]:
        for y in [-1.0, 1.0]:
            assert loss_slope(code, 0.1, f, y) == pytest.approx(naive_sgd.loss_slope(code, 0.1, f, y), abs=1e-14)
            assert loss_value(code, 0.1, f, y) == pytest.approx(naive_sgd.loss_value(code, 0.1, f, y), abs=1e-14)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_best_wrong_class_matches_naive_and_is_the_first_on_a_tie(precision: Precision) -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        scores = rng.integers(-2, 3, size=5).astype(precision)
        true = int(rng.integers(5))
        assert best_wrong(scores, true) == naive_sgd.best_wrong(scores, true)
    assert best_wrong(np.zeros(3, dtype=precision), 0) == 1
    assert best_wrong(np.zeros(3, dtype=precision), 2) == 0


@pytest.mark.parametrize("precision", PRECISIONS)
def test_add_scaled_matches_naive(precision: Precision) -> None:
    w, z = np.random.default_rng(0).standard_normal((2, 77)).astype(precision)
    expected = w.copy()
    add_scaled(w, z, w.dtype.type(0.37))
    naive_sgd.add_scaled(expected, z, 0.37)
    np.testing.assert_allclose(w, expected, atol=TOLERANCE[precision])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", UPDATE_CODES)
def test_updates_match_naive(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    block = mapped(case.inputs, case.waves)
    learnt, expected = fresh_learnt(case), fresh_learnt(case)
    learn_block(learnt, block, case.targets, case.rule)
    naive_sgd.learn_block(expected, block, case.targets, case.rule)
    assert_same(learnt, expected, TOLERANCE[precision])
    assert 0 < expected.counts[UPDATES] <= len(case.inputs)
    samples = len(case.inputs) // 16
    assert expected.counts[SAMPLED] == samples * (samples + 1) // 2
    if code != 3:
        assert 0 < expected.counts[MISTAKES] < expected.counts[BASELINE_MISTAKES] < len(case.inputs)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("code", UPDATE_CODES)
def test_features_in_one_part_give_the_steps_of_two(code: int, precision: Precision) -> None:
    case = make_case(code, precision)
    block = mapped(case.inputs, case.waves)
    empty = np.empty((len(case.inputs), 0), dtype=precision)
    joined = Block(np.concatenate([block.left, block.right], axis=1), empty)
    learnt, expected = fresh_learnt(case), fresh_learnt(case)
    learn_block(learnt, joined, case.targets, case.rule)
    learn_block(expected, block, case.targets, case.rule)
    assert_same(learnt, expected, TOLERANCE[precision])


@pytest.mark.parametrize("code", UPDATE_CODES)
def test_no_weights_are_sampled_without_average(code: int) -> None:
    case = make_case(code, "float32")
    learnt = fresh_learnt(case)
    learn_block(learnt, mapped(case.inputs, case.waves), case.targets, case.rule._replace(sample_every=0))
    assert learnt.counts[SAMPLED] == 0
    assert not learnt.total.any()
    assert learnt.weights.any()


def test_a_residual_at_the_threshold_has_no_loss_and_no_gradient() -> None:
    for residual, cost, push in ((0.5, 0.0, 0.0), (-0.5, 0.0, 0.0), (0.75, 0.28125, 0.75), (-0.75, 0.28125, -0.75)):
        assert loss_value(THRESHOLDED_HALF_SQUARED, 0.5, 1.0 + residual, 1.0) == cost
        assert loss_slope(THRESHOLDED_HALF_SQUARED, 0.5, 1.0 + residual, 1.0) == push
