"""Cross-validated errors of five folds: the folds, and a comparison with models trained without each fold."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from okl.data.execution import Rows
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, IntArray, Task
from okl.kernels import Gaussian, Polynomial
from okl.metrics.calibration import fit_calibration, probabilities_of
from okl.solvers.ridge.gram import BLOCK, LandmarkBasis, MapBasis, Outputs, WeightedRows, gram_of
from okl.solvers.ridge.penalty_path import (
    PenaltyErrors,
    best_of,
    calibration_of_folds,
    centred,
    fit_rows,
    folds_of,
    leave_folds_out,
    leave_one_out,
    prove,
    solve,
)
from okl.solvers.ridge.solver import plain_inputs
from tests.naive import ridge as naive
from tests.solvers.ridge.conftest import Problem, curved_rows, problem

# Cross-validated errors of five folds: the folds, and a comparison with models trained without each fold.

PENALTIES = (1e-4, 1e-2, 1.0)


def folds(posed: Problem, seed: int = 0) -> IntArray:
    places = np.random.default_rng(seed).permutation(len(posed.rows.targets))
    return folds_of(posed.rows.targets, places, posed.outputs.task)


def left_out(posed: Problem, n_threads: int = 1) -> list[PenaltyErrors]:
    return leave_folds_out(posed.basis, posed.rows, posed.outputs, folds(posed), PENALTIES, n_threads)


def test_errors_are_those_of_models_trained_without_the_fold(posed: Problem) -> None:
    of, weights, values, columns = folds(posed), posed.weights, posed.values, posed.columns
    for one, penalty in zip(left_out(posed), PENALTIES, strict=True):
        scores, means = np.empty_like(values), np.empty_like(values)
        for fold in range(5):
            kept, out = of != fold, of == fold
            scale = penalty * weights[kept].sum()
            found, offsets = naive.ridge(columns[kept], values[kept], weights[kept], scale, posed.metric, True)
            scores[out] = columns[out] @ found + offsets
            means[out] = weights[kept] @ values[kept] / weights[kept].sum()
        squares, spread = (weights @ ((values - predicted) ** 2).sum(axis=1) for predicted in (scores, means))
        assert one.squared_error == pytest.approx(squares / spread, rel=1e-6)
        if posed.outputs.task == "regression":
            assert one.mistake_rate is None
            continue
        predicted = posed.outputs.classes(scores)
        assert one.mistake_rate == pytest.approx(weights @ (predicted != posed.outputs.classes(values)) / weights.sum())
        made = calibration_of_folds(posed.basis, posed.rows, posed.outputs, of, penalty, n_threads=2)
        order = np.argsort(of, kind="stable")
        of_scores = (scores if scores.shape[1] > 1 else scores[:, 0])[order]
        twin = fit_calibration(of_scores, posed.outputs.classes(values)[order], mixes=True)
        assert made is not None
        probabilities = probabilities_of(made.apply(of_scores))
        np.testing.assert_allclose(probabilities, probabilities_of(twin.apply(of_scores)), atol=1e-3)


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


# The solution of kernel least squares: against the normal equations and scikit-learn, and invariances.


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_weights_solve_the_normal_equations(posed: Problem, penalty: float, fit_intercept: bool) -> None:
    found = fit_rows(posed.basis, posed.rows, posed.outputs, penalty, fit_intercept)
    scale = penalty * posed.weights.sum()
    weights, offsets = naive.ridge(posed.columns, posed.values, posed.weights, scale, posed.metric, fit_intercept)
    expected = posed.columns @ weights + offsets
    np.testing.assert_allclose(posed.columns @ found.weights.T + found.offsets, expected, atol=1e-7)
    np.testing.assert_allclose(found.offsets, offsets, atol=1e-6)
    scores = found.predictor(posed.basis).scores(posed.rows.inputs)
    np.testing.assert_allclose(scores.reshape(expected.shape), expected, atol=1e-7)
    assert np.ptp(expected) > 0.01


def exact_predictions(inputs: Doubles, targets: Doubles, scale: float, fit_intercept: bool, others: Doubles) -> Doubles:
    """Return predictions with weights A'a, where (A A' + scale I) a = y is solved with 60 digits."""
    with localcontext(prec=60):
        rows, new, values = (np.vectorize(Decimal, otypes=[object])(part) for part in (inputs, others, targets))
        means = (rows.sum(axis=0), values.sum()) if fit_intercept else (0 * rows[0], Decimal(0))
        mean, value_mean = (total / len(values) for total in means)
        rows, new, values = rows - mean, new - mean, values - value_mean
        system = np.column_stack([rows @ rows.T + Decimal(scale) * np.eye(len(rows), dtype=int), values])
        for k in range(len(rows)):
            system[k] = system[k] / system[k, k]
            for j in set(range(len(rows))) - {k}:
                system[j] = system[j] - system[j, k] * system[k]
        return np.asarray(new @ (rows.T @ system[:, -1]) + value_mean, dtype=np.float64)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("large", [1.0, 1e6])
def test_rows_fewer_than_columns_have_all_digits_next_to_a_large_column(large: float, fit_intercept: bool) -> None:
    random, scale = np.random.default_rng(4), 1e-5
    inputs, others = random.normal(size=(14, 40)) + 3.0, random.normal(size=(9, 40)) + 3.0
    for part in (inputs, others):
        part[:, 7] *= large
    targets, twice = inputs[:, 1] + inputs[:, 7] / large + random.normal(size=14), np.append(np.arange(14), [0, 3])
    rows = WeightedRows(inputs, targets, np.bincount(twice).astype(np.float64))
    basis, outputs = MapBasis(plain_inputs(40, "float64")), Outputs("regression", 1)
    found = fit_rows(basis, rows, outputs, scale / len(twice), fit_intercept)
    expected = exact_predictions(inputs[twice], targets[twice], scale, fit_intercept, others)
    np.testing.assert_allclose(found.predictor(basis).scores(others), expected, atol=1e-9 * np.abs(expected).max())
    assert found.weights.shape == (1, 41)
    assert found.proof.relative_gap < 1e-9
    assert np.ptp(expected) > 1.0


def test_penalty_search_with_fewer_rows_than_columns_matches_column_sums() -> None:
    random = np.random.default_rng(5)
    inputs = random.normal(size=(30, 50))
    rows = Rows(inputs, np.where(inputs[:, 0] + 0.5 * random.normal(size=30) > 0.0, 1.0, -1.0))
    basis, outputs = MapBasis(plain_inputs(50, "float64")), Outputs("binary", 1, (1.0, 3.0))
    whole = solve(basis, gram_of(basis, outputs, (rows,)), outputs, lambda: rows, calibrate=True)
    found = fit_rows(basis, rows, outputs, calibrate=True)
    assert found.penalty == whole.penalty
    assert found.best is not None
    assert whole.best is not None
    assert found.best.squared_error == pytest.approx(whole.best.squared_error, rel=1e-7)
    assert found.calibration is not None
    assert whole.calibration is not None
    assert found.calibration.slope == pytest.approx(whole.calibration.slope, rel=1e-5)
    np.testing.assert_allclose(found.weights, whole.weights, atol=1e-10)
    assert found.proof.objective == pytest.approx(whole.proof.objective, rel=1e-9)


def test_all_rows_as_landmarks_are_the_ridge_of_scikit_learn() -> None:
    rows, penalty = curved_rows("regression"), 1e-2
    found = fit_rows(LandmarkBasis(Gaussian(0.8), rows.inputs), rows, Outputs("regression", 1), penalty, False)
    peer = KernelRidge(alpha=penalty * len(rows.targets), kernel="rbf", gamma=0.5 / 0.8**2)
    expected = peer.fit(rows.inputs, rows.targets).predict(rows.inputs)
    scores = found.predictor(LandmarkBasis(Gaussian(0.8), rows.inputs)).scores(rows.inputs)
    np.testing.assert_allclose(scores, expected, atol=2e-5)  # 2e-7 of the kernel matrix's diagonal stays added


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leave_one_out_errors_match_explicit_removal_of_rows(posed: Problem, fit_intercept: bool) -> None:
    sums = centred(posed.basis.turn(), gram_of(posed.basis, posed.outputs, (posed.rows,)), fit_intercept)
    errors = leave_one_out(posed.basis, sums, posed.outputs, posed.rows, PENALTIES)
    weights, values = posed.weights, posed.values
    mean = weights @ values / weights.sum() if fit_intercept else 0.0
    spread = weights @ ((values - mean) ** 2).sum(axis=1)
    for one, penalty in zip(errors, PENALTIES, strict=True):
        scale = penalty * weights.sum()
        scores = naive.left_out(posed.columns, values, weights, scale, posed.metric, fit_intercept)
        squares = weights @ ((values - scores) ** 2).sum(axis=1)
        assert one.squared_error == pytest.approx(squares / spread, rel=1e-6)
        if posed.outputs.task == "regression":
            assert one.mistake_rate is None
            continue
        predicted, true = (
            (scores.argmax(axis=1), posed.rows.targets)
            if posed.outputs.n_outputs > 1
            else (np.where(scores[:, 0] >= 0.0, 1.0, -1.0), posed.rows.targets)
        )
        assert one.mistake_rate == pytest.approx(weights @ (predicted != true) / weights.sum())
    assert len({one.squared_error for one in errors}) == len(PENALTIES)


@pytest.mark.parametrize("bandwidth", [0.05, 0.3, 1.0])
def test_random_labels_are_not_learnt_by_leave_one_out(bandwidth: float) -> None:
    random = np.random.default_rng(1)
    rows = Rows(random.normal(size=(300, 20)), np.where(np.arange(300) % 2, 1.0, -1.0)[random.permutation(300)])
    found = fit_rows(LandmarkBasis(Gaussian(bandwidth), rows.inputs), rows, Outputs("binary", 1))
    assert min(one.mistake_rate for one in found.tried if one.mistake_rate is not None) > 0.4
    assert min(one.squared_error for one in found.tried) > 0.99


@pytest.mark.parametrize("n_rows", [300, 700])
def test_leave_one_out_errors_do_not_reveal_classes_by_their_weights(n_rows: int) -> None:
    random = np.random.default_rng(1)
    targets = np.where(np.arange(n_rows) % 8, -1.0, 1.0)[random.permutation(n_rows)]
    rows = Rows(random.normal(size=(n_rows, 20)), targets)
    found = fit_rows(LandmarkBasis(Gaussian(2.0), rows.inputs), rows, Outputs("binary", 1, (1.0, 10.0), "log-loss"))
    assert min(one.error for one in found.tried) > 0.36  # of the shares alone .38
    assert min(one.squared_error for one in found.tried) > 0.99


def test_the_gap_bounds_the_gain_of_other_weights(posed: Problem) -> None:
    penalty, random = 1e-2, np.random.default_rng(0)
    sums = centred(posed.basis.turn(), gram_of(posed.basis, posed.outputs, (posed.rows,)))
    best, count = sums.weights(penalty), posed.weights.sum()
    least = prove(sums, best, penalty)
    assert least.relative_gap < 1e-12
    for size in (1e-3, 1e-1, 1.0):
        moved = best + size * random.normal(size=best.shape)
        proof, weights = prove(sums, moved, penalty), sums.turn.back(moved)
        parts = posed.columns, posed.values, posed.weights, penalty * count, posed.metric
        stated = naive.objective(*parts, weights, sums.value_mean - sums.mean @ weights)
        assert proof.objective == pytest.approx(stated / count, rel=1e-6)
        assert 0.0 < proof.objective - least.objective <= proof.gap * (1.0 + 1e-9)


def test_class_weights_are_repeated_rows() -> None:
    posed = problem("binary")
    weights = np.array([1.0, 3.0])
    again = np.repeat(np.arange(150), weights[(posed.rows.targets > 0).astype(int)].astype(int))
    repeated = Rows(posed.rows.inputs[again], posed.rows.targets[again])
    weighted = fit_rows(posed.basis, posed.rows, posed.outputs, 1e-3)
    plain = fit_rows(posed.basis, repeated, replace(posed.outputs, class_weights=None), 1e-3)
    unweighted = fit_rows(posed.basis, posed.rows, replace(posed.outputs, class_weights=None), 1e-3)
    scores = [posed.columns @ one.weights.T + one.offsets for one in (weighted, plain, unweighted)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-7)
    assert np.abs(scores[0] - scores[2]).max() > 0.01
    assert weighted.proof.objective == pytest.approx(plain.proof.objective)


def test_solution_has_the_same_bits_on_any_number_of_threads() -> None:
    posed = problem("multiclass", n_rows=10_000)
    one, several = (fit_rows(posed.basis, posed.rows, posed.outputs, n_threads=n) for n in (1, 3))
    assert one.weights.tobytes() == several.weights.tobytes()
    assert one.offsets.tobytes() == several.offsets.tobytes()
    assert one.tried == several.tried


def test_the_penalty_is_that_of_least_error() -> None:
    found = fit_rows(*(getattr(problem("regression"), name) for name in ("basis", "rows", "outputs")))
    assert found.best is not None
    assert found.best.error == min(one.error for one in found.tried) < 0.5
    assert found.tried[0].penalty < found.penalty < found.tried[-1].penalty
    of_classes = fit_rows(*(getattr(problem("binary"), name) for name in ("basis", "rows", "outputs")))
    assert of_classes.best == best_of(list(of_classes.tried), 150)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_a_class_without_sampled_rows_is_never_predicted(task: str) -> None:
    inputs = curved_rows("binary").inputs
    rows = Rows(inputs, np.ones(150))
    outputs = Outputs("binary", 1) if task == "binary" else Outputs("multiclass", 3)
    basis = LandmarkBasis(Gaussian(0.8), inputs[:12])
    found = fit_rows(basis, rows, outputs)
    scores = np.asarray(found.predictor(basis).scores(inputs), dtype=np.float64).reshape(150, -1)
    np.testing.assert_allclose(scores, np.broadcast_to(outputs.of(rows.targets), scores.shape), atol=1e-6)
    assert np.unique(outputs.classes(scores)).tolist() == [1]


def one_column_the_same(rows: Rows) -> Rows:
    return Rows(np.column_stack([rows.inputs[:, 0], np.full(len(rows.targets), 3.0)]), rows.targets)


def each_row_four_times(rows: Rows) -> Rows:
    return Rows(np.repeat(rows.inputs[:40], 4, axis=0), np.repeat(rows.targets[:40], 4))


@pytest.mark.parametrize("change", [one_column_the_same, each_row_four_times])
@pytest.mark.parametrize("n_landmarks", [1, 150])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_rows_that_repeat_themselves_are_learnt(change: object, n_landmarks: int, precision: str) -> None:
    assert callable(change)
    rows = change(curved_rows("regression"))
    inputs = rows.inputs.astype(precision)
    basis = LandmarkBasis(Gaussian(0.8), np.ascontiguousarray(inputs[:n_landmarks]))
    found = fit_rows(basis, Rows(inputs, rows.targets), Outputs("regression", 1))
    left = np.mean((found.predictor(basis).scores(inputs) - rows.targets) ** 2) / rows.targets.var()
    assert left < (0.99 if n_landmarks == 1 else 0.8)
    assert found.best is not None
    assert 0.0 < found.best.error < 1.05
    assert found.proof.relative_gap < 1.0  # penalties below the rounding error are skipped


def test_a_constant_target_gives_a_constant_model() -> None:
    rows = Rows(curved_rows("regression").inputs, np.full(150, 0.1))
    basis = LandmarkBasis(Gaussian(0.8), rows.inputs[:12])
    found = fit_rows(basis, rows, Outputs("regression", 1))
    np.testing.assert_allclose(found.predictor(basis).scores(rows.inputs), 0.1, atol=1e-12)


@pytest.mark.parametrize("far", [1e6, 1e9])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rows_and_targets_far_from_zero_are_learnt_like_those_near_it(far: float, fit_intercept: bool) -> None:
    posed = problem("regression", "inputs", 3 * BLOCK)
    moved = Rows(posed.rows.inputs + far, posed.rows.targets + far) if fit_intercept else posed.rows
    basis = MapBasis(plain_inputs(2, "float64"))
    near, away = (fit_rows(basis, rows, posed.outputs, None, fit_intercept, 2) for rows in (posed.rows, moved))
    assert away.penalty == near.penalty
    np.testing.assert_allclose(away.weights, near.weights, rtol=1e-5)
    assert away.proof.objective == pytest.approx(near.proof.objective, rel=1e-5)
    assert away.proof.relative_gap < 1e-12
    scale = near.penalty * float(posed.weights.sum())
    inputs = posed.rows.inputs.astype(np.float64)
    expected, _ = naive.ridge(inputs, posed.values, posed.weights, scale, np.eye(2), fit_intercept)
    np.testing.assert_allclose(near.weights[:, :2].T, expected, rtol=1e-9)


def test_landmarks_in_two_distant_clusters_are_distinguished() -> None:
    rows = curved_rows("regression")
    clusters = rows.inputs + np.where(np.arange(150) % 2, 1e6, -1e6)[:, np.newaxis]
    basis = LandmarkBasis(Gaussian(0.8), clusters[:40])
    matrix = basis.turn().matrix
    assert matrix is not None
    found = fit_rows(basis, Rows(clusters, rows.targets), Outputs("regression", 1), 1e-5)
    inner = np.abs(np.subtract.outer(np.arange(40) % 2, np.arange(40) % 2)) == 0
    expected = Gaussian(0.8).matrix(rows.inputs[:40], rows.inputs[:40]) * inner
    np.testing.assert_allclose(matrix, expected, atol=2e-8)
    assert found.proof.relative_gap < 1e-3


@pytest.mark.parametrize("penalty", [1e-30, 5e-324])
def test_a_penalty_below_rounding_error_leaves_the_problem_unsolved(penalty: float) -> None:
    rows = curved_rows("regression")
    basis = LandmarkBasis(Gaussian(3.0), rows.inputs)
    assert not fit_rows(basis, rows, Outputs("regression", 1), penalty).solved
    assert fit_rows(basis, rows, Outputs("regression", 1), 1e-5).solved
    weighted = Outputs("binary", 1, (1e300, 1.0))  # whose squares overflow
    assert not fit_rows(basis, curved_rows("binary"), weighted, 1e-5).solved


def test_weights_that_the_precision_cannot_hold_are_refused() -> None:
    rows = curved_rows("regression")
    basis = LandmarkBasis(Gaussian(0.8), rows.inputs[:12].astype(np.float32))
    found = fit_rows(basis, Rows(rows.inputs, rows.targets * 1e60), Outputs("regression", 1))
    with pytest.raises(DataError, match=r"do not fit float32\. Set the precision to float64, or scale the target"):
        found.predictor(basis)


def test_huge_values_are_refused_with_advice() -> None:
    rows = curved_rows("regression")
    huge_inputs = rows.inputs.copy()
    huge_inputs[3, 0] = 1e200
    basis = LandmarkBasis(Polynomial(3), huge_inputs[:12])
    with pytest.raises(DataError, match=r"not finite\. Scale the columns"):
        fit_rows(basis, Rows(huge_inputs, rows.targets), Outputs("regression", 1))
    near = LandmarkBasis(Gaussian(0.8), rows.inputs[:12])
    with pytest.raises(DataError, match=r"squares of the target are not finite"):
        fit_rows(near, Rows(rows.inputs, rows.targets * 1e200), Outputs("regression", 1))


def test_a_matrix_that_is_not_positive_definite_is_refused() -> None:
    landmarks = np.zeros((3, 2))
    with pytest.raises(ConfigError, match="kernel matrix of 3 landmarks is not positive definite"):
        LandmarkBasis(Polynomial(3, 1.0, 0.0), landmarks).turn()
