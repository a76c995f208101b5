"""Kernel least squares over shards: the same as of rows in memory, for any division into shards, and when resumed."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from okl.data.dataset import Dataset, Schema
from okl.data.execution import Rows
from okl.data.ingest.run import ingest
from okl.data.reading import sample_rows
from okl.distributed import open_execution
from okl.distributed.rpc import pack
from okl.estimators.ridge import KernelRidgeClassifier, KernelRidgeRegressor
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.types import Task
from okl.kernels import Gaussian
from okl.models.inputs import predictions
from okl.runs.checkpoint import DecodedTree, EncodedTree
from okl.solvers.ridge import solver as ridge_solver
from okl.solvers.ridge.gram import (
    BLOCK,
    MOST_STRETCHES,
    Gram,
    LandmarkBasis,
    Outputs,
    gram_of,
    gram_of_pieces,
    row_chunks,
)
from okl.solvers.ridge.penalty_path import (
    HUBER_ROUNDS,
    compare_logarithm,
    compare_losses,
    fit_rows,
    folds_of,
    huber_path,
    solve_directly,
)
from okl.solvers.ridge.solver import MOST_COLUMNS, STRETCHES_AT_ONCE, RidgeSolver
from tests.data.sources import settings as ingest_settings
from tests.solver_cases import bits, last_state, states
from tests.solvers.ridge.conftest import curved_rows

# Kernel least squares over shards: the same as of rows in memory, for any division into shards, and when resumed.

ROWS = 9 * BLOCK + 300
SOLVER = RidgeSolver(n_landmarks=30, penalty=1e-4, seed=2)
AUTO = RidgeSolver(n_landmarks=30, seed=2)


def make_data(folder: Path, name: str, shard_rows: int, task: Task = "binary") -> Dataset:
    rows = curved_rows(task, ROWS)
    table = pa.table({"a": rows.inputs[:, 0], "b": rows.inputs[:, 1], "y": rows.targets})
    pq.write_table(table, folder / "rows.parquet")
    options = ingest_settings(task=task, scale="standard", rows_per_shard=shard_rows, rows_per_group=BLOCK)
    return ingest(folder / "rows.parquet", folder / name, options).dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Return a data set with more chunks than are summed between two checkpoints."""
    found = make_data(tmp_path_factory.mktemp("rows"), "set", 4 * BLOCK)
    assert STRETCHES_AT_ONCE < len(row_chunks(found)) <= MOST_STRETCHES
    return found


def test_shards_give_the_solution_of_all_rows_in_memory(data: Dataset) -> None:
    with open_execution() as execution:
        state = last_state(AUTO, data, execution)
    rows = sample_rows(data, "train", ROWS, 0, "float64")
    assert len(rows.targets) == ROWS
    assert state.solution is not None
    whole = fit_rows(state.basis, rows, AUTO.outputs_of(data.schema), state.solution.penalty)
    scores = [np.asarray(one.predictor(state.basis).scores(rows.inputs)) for one in (state.solution, whole)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)
    assert state.solution.proof.objective == pytest.approx(whole.proof.objective, rel=1e-4)
    assert AUTO.certificate(state)["relative_gap"] < 1e-2
    assert AUTO.chosen(state)["penalty"] == state.solution.penalty


def test_bits_do_not_depend_on_shards_with_the_same_row_groups(data: Dataset, tmp_path: Path) -> None:
    # the sums depend on the blocks of a row group, and these on nothing else; shards are files of whole row groups
    other = make_data(tmp_path, "other", 2 * BLOCK)
    assert len(other.split("train")) > len(data.split("train"))
    with open_execution(threads=2) as execution:
        one, cut = (last_state(SOLVER, rows, execution) for rows in (data, other))
    assert bits(SOLVER, one) == bits(SOLVER, cut)


@pytest.mark.parametrize("huber", [None, 1.345])
def test_shards_of_rows_fewer_than_columns_give_the_solution_of_rows_in_memory(
    huber: float | None, tmp_path: Path
) -> None:
    random = np.random.default_rng(6)
    inputs = random.normal(size=(30, 50))
    table = pa.table({f"x{k}": column for k, column in enumerate(inputs.T)} | {"y": inputs[:, 0] + inputs[:, 1] ** 3})
    pq.write_table(table, tmp_path / "rows.parquet")
    options = ingest_settings(task="regression", rows_per_shard=12, rows_per_group=6)
    found = ingest(tmp_path / "rows.parquet", tmp_path / "set", options).dataset
    solver = RidgeSolver(kernel="linear", penalty=1e-2, huber=huber)
    with open_execution(threads=1) as execution, open_execution(threads=2) as workers:
        state, state_of_workers = (last_state(solver, found, where) for where in (execution, workers))
    assert bits(solver, state) == bits(solver, state_of_workers)
    rows = sample_rows(found, "train", 30, 0, "float64")
    sums = gram_of(
        state.basis,
        solver.outputs_of(found.schema),
        (rows if state.clip is None else state.clip.of(state.basis, rows),),
    )
    expected = solve_directly(state.basis.turn(), sums, 1e-2, fit_intercept=True)
    assert expected is not None
    assert state.solution is not None
    np.testing.assert_allclose(state.solution.weights, expected.weights.T, atol=1e-10)
    assert (state.clip is None) == (huber is None)
    assert solver.progress(state).iterations == len(row_chunks(found)) * (1 if huber is None else HUBER_ROUNDS + 1)


def test_blocks_of_another_size_change_sums_by_rounding_alone(data: Dataset) -> None:
    rows = sample_rows(data, "train", 4 * BLOCK, 0, "float32")
    basis, outputs = LandmarkBasis(Gaussian(0.8), rows.inputs[:30].copy()), Outputs("binary", 1, (1.0, 3.0))
    blocks = [Rows(rows.inputs[k : k + 999], rows.targets[k : k + 999]) for k in range(0, 4 * BLOCK, 999)]
    one, cut = (gram_of(basis, outputs, of) for of in ((rows,), blocks))
    for field in fields(Gram):
        np.testing.assert_allclose(getattr(one, field.name), getattr(cut, field.name), rtol=1e-9, atol=1e-9)
    assert one.products.tobytes() != cut.products.tobytes()
    np.testing.assert_array_equal(one.products, one.products.T)


@pytest.mark.parametrize(("solver", "samples"), [(SOLVER, 1), (AUTO, 2)])
def test_a_sample_is_read_again_only_to_search_a_penalty(
    solver: RidgeSolver, samples: int, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def reading(*arguments: Any) -> Rows:
        read.append(arguments)
        return sample_rows(*arguments)

    monkeypatch.setattr(ridge_solver, "sample_rows", reading)
    with open_execution() as execution:
        last_state(solver, data, execution)
    assert len(read) == samples


def test_training_resumes_from_a_stored_state(data: Dataset) -> None:
    with open_execution() as execution:
        *_, whole = states(SOLVER, data, execution)
        middle = SOLVER.advance(SOLVER.start(data, execution), data, execution)
        assert middle.gram is not None
        assert 0 < middle.done < len(row_chunks(data))
        assert SOLVER.progress(middle).relative_gap == 1.0
        encoded = EncodedTree(middle, {"data": data})
        again = DecodedTree(encoded.tree, encoded.arrays, {"data": data}).value
        resumed = SOLVER.advance(again, data, execution)
    assert bits(SOLVER, resumed) == bits(SOLVER, whole)


def test_work_is_sent_without_layouts_packed_for_compiled_code(data: Dataset) -> None:
    with open_execution() as execution:
        basis = SOLVER.start(data, execution).basis
    work = partial(gram_of_pieces, data, basis, SOLVER.outputs_of(data.schema), "float32", None)
    before = len(pack(work).content)
    list(map(work, row_chunks(data)[:1]))
    assert len(pack(work).content) == before < 30 * 2 * 4 + 6000


def test_invalid_settings_and_data_are_refused(data: Dataset) -> None:
    refused = {"n_landmarks": 0, "penalty": 0.0, "bandwidth": -1.0, "landmarks": "corners", "kernel": "tanh"}
    for name, value in refused.items():
        with pytest.raises(ConfigError, match=name):
            RidgeSolver(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"n_landmarks = 50,000 is more than the 18,732 training rows"):
        RidgeSolver(n_landmarks=50_000).check(data.schema, ROWS)
    schema = replace(data.schema, class_counts=(ROWS, 0))
    with pytest.raises(DataError, match=r"No training row has the label"):
        SOLVER.check(schema, ROWS)


@pytest.mark.parametrize("solver", [RidgeSolver(n_landmarks=8, kernel="laplacian"), RidgeSolver(kernel="linear")])
def test_a_class_of_a_single_row_is_learnt(solver: RidgeSolver, tmp_path: Path) -> None:
    rows = curved_rows("binary", 60)
    labels = np.where(rows.targets > 0, 1, 0)
    labels[7] = 2
    pq.write_table(pa.table({"a": rows.inputs[:, 0], "b": rows.inputs[:, 1], "y": labels}), tmp_path / "rows.parquet")
    few = ingest(tmp_path / "rows.parquet", tmp_path / "set", ingest_settings(task="multiclass")).dataset
    assert few.schema.class_counts[2] == 1
    with open_execution() as execution:
        predictor = solver.predictor(last_state(solver, few, execution))
    scores = predictor.scores(sample_rows(few, "train", 60, 0, "float32").inputs)
    assert scores.shape == (60, 3)
    assert np.isfinite(scores).all()
    assert (scores.argmax(axis=1) == labels).mean() > 0.6


def test_columns_that_leave_only_rounding_errors_end_without_a_model(tmp_path: Path) -> None:
    rows = curved_rows("regression", 600)
    table = pa.table({"a": 1e5 + rows.inputs[:, 0], "b": rows.inputs[:, 1], "y": rows.targets})
    pq.write_table(table, tmp_path / "rows.parquet")
    wide = ingest(tmp_path / "rows.parquet", tmp_path / "set", ingest_settings(task="regression")).dataset
    solver = RidgeSolver(kernel="polynomial", n_landmarks=64, bandwidth=1.5)
    with open_execution() as execution:
        outcome = solver.finished(last_state(solver, wide, execution))
    assert outcome is not None
    assert outcome.kind == "diverged"
    assert "rounding errors exceed the tolerance for 64 columns" in outcome.reason
    estimator = KernelRidgeRegressor(kernel="polynomial", n_landmarks=64, bandwidth=1.5, random_state=0)
    inputs = rows.inputs + np.array([1e5, 0.0])
    with pytest.raises(DivergedError, match="Put a StandardScaler before it"):
        estimator.fit(inputs, rows.targets)
    near = inputs - inputs.mean(axis=0)
    assert estimator.fit(near, rows.targets).score(near, rows.targets) > 0.6


def test_a_penalty_below_rounding_has_not_converged(data: Dataset) -> None:
    with open_execution() as execution:
        for penalty, kind in ((1e-6, "done"), (1e-11, "not converged")):
            solver = replace(SOLVER, n_landmarks=400, bandwidth=5.0, penalty=penalty)
            state = last_state(solver, data, execution)
            outcome, certificate = solver.finished(state), solver.certificate(state)
            assert outcome is not None
            assert outcome.kind == kind, (penalty, certificate)
            assert certificate.get("converged", True) == (kind == "done")
            assert (certificate["gap"] > certificate["objective"]) == (kind != "done")
    rows = curved_rows("regression", 300)
    with pytest.warns(ConvergenceWarning, match="rounding errors exceed a penalty of 1e-11"):
        KernelRidgeRegressor(penalty=1e-11, bandwidth=5.0, random_state=0).fit(rows.inputs, rows.targets)


# Linear least squares of sparse rows: the same solution as of dense ones, and invalid input.

SPARSE_ROWS = 9000  # more than one chunk


def sparse_rows(dtype: str = "float64") -> tuple[Any, NDArray[np.float64]]:
    """Return rows with one nonzero value in eight, and a linear target with noise."""
    random = np.random.default_rng(3)
    rows = sparse.random_array((SPARSE_ROWS, 24), density=0.125, format="csr", dtype=dtype, random_state=random)
    return rows, rows @ random.normal(size=24) + 0.1 * random.normal(size=SPARSE_ROWS)


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
    assert scores.shape == ((SPARSE_ROWS,) if n_classes == 2 else (SPARSE_ROWS, 3))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_column_far_from_zero_is_learnt_like_one_near_it(fit_intercept: bool) -> None:
    rows, targets = sparse_rows()
    full = np.random.default_rng(4).normal(size=(SPARSE_ROWS, 1))
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


def test_duplicate_entries_are_added_without_changing_the_input() -> None:
    rows, targets = sparse_rows()
    duplicated = sparse.coo_array(
        (np.concatenate([rows.data, rows.data]), (np.tile(rows.nonzero()[0], 2), np.tile(rows.nonzero()[1], 2))),
        shape=rows.shape,
    )
    loose = sparse.csr_array(
        (duplicated.data[order := np.argsort(duplicated.row, kind="stable")], duplicated.col[order], 2 * rows.indptr),
        rows.shape,
    )
    assert not loose.has_canonical_format
    given = loose.data.copy()
    found = KernelRidgeRegressor(kernel="linear", penalty=1e-3).fit(loose, targets)
    expected = KernelRidgeRegressor(kernel="linear", penalty=1e-3).fit(2.0 * rows, targets)
    np.testing.assert_allclose(found.predict(rows), expected.predict(rows), atol=1e-12)
    assert np.array_equal(loose.data, given)


def test_unsupported_rows_are_refused() -> None:
    wide = sparse.csr_array((3, MOST_COLUMNS + 1))
    with pytest.raises(ConfigError, match=r"have 8,193 columns.*L2SVMClassifier"):
        KernelRidgeClassifier(kernel="linear").fit(wide, [0, 1, 1])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        KernelRidgeClassifier(kernel="gaussian").fit(*_few())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bandwidth": -1}, "bandwidth = -1: input should be greater than 0"),
        ({"bandwidth": 2}, "bandwidth = 2 is set, but the kernel 'linear' has no bandwidth"),
        ({"n_landmarks": 0}, "n_landmarks = 0"),
        ({"landmarks": "nearest"}, "landmarks = 'nearest'"),
    ],
)
def test_invalid_kernel_parameters_are_refused_even_for_a_linear_kernel(
    parameters: dict[str, Any], message: str
) -> None:
    rows, labels = _few()
    for given in (rows, rows.toarray()):
        with pytest.raises(ConfigError, match=message):
            KernelRidgeClassifier(kernel="linear", **parameters).fit(given, labels)


def test_a_score_of_zero_predicts_the_second_class() -> None:
    rows, labels = _few()
    found = KernelRidgeClassifier(kernel="linear", penalty=1e-3, fit_intercept=False).fit(rows, labels)
    zero_row = np.zeros((1, rows.shape[1]))
    assert found.decision_function(zero_row).tolist() == [0.0]
    schema = Schema(("x",), "y", "binary", (0, 1))
    predicted = predictions(schema, np.zeros(1)).tolist()
    assert (
        predicted == found.predict(zero_row).tolist() == Outputs("binary", 1).classes(np.zeros((1, 1))).tolist() == [1]
    )


def _few() -> tuple[Any, NDArray[np.int64]]:
    rows, targets = sparse_rows()
    return rows[:50], (targets[:50] > 0).astype(int)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_class_weights_that_are_no_weights_are_named(weight: float) -> None:
    rows, targets = sparse_rows()
    with pytest.raises(ConfigError, match="each weight must be a finite number above 0"):
        KernelRidgeClassifier(kernel="linear", class_weight={0: weight, 1: 1.0}).fit(rows, (targets > 0).astype(int))


def huber_threshold(residuals: NDArray[np.float64]) -> float:
    """Return 1.345 standard deviations of residuals, by their median absolute deviation."""
    return 1.345 * 1.4826 * float(np.median(np.abs(residuals - np.median(residuals))))


def test_huber_rounds_are_least_squares_of_clipped_targets_and_approach_the_minimum_of_the_loss(tmp_path: Path) -> None:
    draw = np.random.default_rng(11)
    x = draw.normal(size=(600, 2)).astype(np.float32)
    y = np.sin(2 * x[:, 0]) + x[:, 1] + 0.4 * draw.standard_t(1.5, 600)
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})
    pq.write_table(table, tmp_path / "rows.parquet")
    data = ingest(tmp_path / "rows.parquet", tmp_path / "set", ingest_settings(rows_per_group=100)).dataset
    solver = RidgeSolver(n_landmarks=25, penalty=1e-3, bandwidth=1.0, huber=1.345, seed=2)
    with open_execution() as here:
        state = last_state(solver, data, here)
    assert state.solution is not None
    assert state.clip is not None
    rows = sample_rows(data, "train", 10_000, 0, "float64")
    columns, threshold = state.basis.columns(rows.inputs), state.clip.threshold
    assert isinstance(state.basis, LandmarkBasis)
    metric = state.basis.columns(state.basis.landmarks)

    def objective(values: NDArray[np.float64]) -> float:
        sizes = np.abs(rows.targets - columns @ values[:-1] - values[-1])
        losses = np.where(sizes <= threshold, sizes**2 / 2, threshold * (sizes - threshold / 2))
        return float(losses.mean() + 0.5e-3 * values[:-1] @ metric @ values[:-1])

    def slope(values: NDArray[np.float64]) -> NDArray[np.float64]:
        pulls = -np.clip(rows.targets - columns @ values[:-1] - values[-1], -threshold, threshold) / len(columns)
        return np.append(columns.T @ pulls + 1e-3 * metric @ values[:-1], pulls.sum())

    turn = np.eye(26)  # change to coordinates with a spherical penalty, which saves thousands of iterations
    turn[:25, :25] = np.linalg.inv(np.linalg.cholesky(metric + 1e-9 * np.eye(25))).T
    least = minimize(
        lambda values: objective(turn @ values),
        np.zeros(26),
        jac=lambda values: turn.T @ slope(turn @ values),
        method="L-BFGS-B",
        options={"maxiter": 20_000},
    )
    found = np.append(state.solution.weights[0], state.solution.offsets)
    plain = fit_rows(state.basis, rows, Outputs("regression", 1), 1e-3)
    before, after = (objective(one) - least.fun for one in (np.append(plain.weights[0], plain.offsets), found))
    assert before > 0.01 * least.fun
    assert abs(after) < 0.02 * before
    again, scores = state.clip.of(state.basis, rows), state.clip.scores(state.basis, rows.inputs)
    residuals = rows.targets - scores
    assert threshold == pytest.approx(huber_threshold(residuals), rel=1e-6)
    assert 0.05 < np.mean(np.abs(residuals) > threshold) < 0.5
    np.testing.assert_allclose(again.targets - scores, np.sign(residuals) * np.minimum(np.abs(residuals), threshold))
    repeated = fit_rows(state.basis, again, Outputs("regression", 1), 1e-3)
    np.testing.assert_allclose(state.solution.weights, repeated.weights, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("tail", "better"), [(1.8, True), (np.inf, False)])
def test_huber_is_chosen_only_for_heavy_tails(tail: float, better: bool) -> None:
    draw = np.random.default_rng(5)
    inputs = draw.normal(size=(1500, 3))
    noise = draw.normal(size=1500) if np.isinf(tail) else draw.standard_t(tail, 1500)
    rows = Rows(inputs, np.sin(2 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] + noise)
    basis = LandmarkBasis(Gaussian(2.0), np.ascontiguousarray(inputs[:100]))
    folds = folds_of(rows.targets, np.arange(1500), "regression")
    found = compare_losses(basis, rows, Outputs("regression", 1), folds)
    assert (found is not None and found.is_better) == better
    assert found is None or found.gain == pytest.approx(found.squared - found.huber)
    for fit in huber_path(basis, rows, Outputs("regression", 1)):
        assert fit.threshold == pytest.approx(huber_threshold(rows.targets - fit.scores(basis, inputs)))


@pytest.mark.parametrize(
    ("kind", "better", "closer"),
    [
        ("lognormal", True, True),
        ("counts", False, True),
        ("heavy", False, True),
        ("noise", False, False),
        ("skewed", False, False),
        ("negative", False, False),
    ],
)
def test_logarithms_are_better_only_for_products(kind: str, better: bool, closer: bool) -> None:
    draw = np.random.default_rng(6)
    inputs = draw.uniform(-1.5, 1.5, size=(1200, 3))
    signal = np.sin(2 * inputs[:, 0]) + inputs[:, 1]
    targets = 1e9 * np.exp(1.5 * signal + 0.3 * draw.normal(size=1200))
    if kind == "counts":
        targets = draw.poisson(np.exp(1.5 * signal)).astype(np.float64)
        assert targets.min() == 0.0
    if kind == "heavy":  # squared errors depend on few rows
        targets = np.exp(2.0 * signal + draw.normal(size=1200))
    if kind == "noise":
        targets = np.exp(1.5 * draw.normal(size=1200))
    if kind == "skewed":
        targets = np.where(draw.random(1200) < 0.5, 1e-6, 5.0 + np.maximum(signal, 0.0) ** 4)
        assert targets.min() > 0.0
    if kind == "negative":
        targets -= 2.0 * targets.min()
    rows = Rows(inputs, targets)
    basis = LandmarkBasis(Gaussian(1.0), np.ascontiguousarray(inputs[:100]))
    folds = folds_of(targets, np.arange(1200), "regression")
    found = compare_logarithm(basis, rows, Outputs("regression", 1), folds)
    assert (found is not None) == (kind != "negative")
    if found is not None:
        assert (found.is_better, found.is_closer, found.added) == (better, closer, int(kind == "counts"))
        assert not better or found.log < 0.9 * found.plain < 0.3
