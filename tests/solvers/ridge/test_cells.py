"""Least squares in cells: the normal equations of each cell, explicit leave-one-out, and unusual cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.spatial.distance import cdist

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset
from okl.data.execution import Rows
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.features.cells import CellTree
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Task
from okl.solvers.ridge import cells
from okl.solvers.ridge.cells import CellSolution, LocalSolver, LocalState, solve_cell
from okl.solvers.ridge.gram import Outputs, pieces_of, read_pieces
from okl.solvers.ridge.penalty_path import errors_of_scores
from tests.data.sources import settings as ingest_settings
from tests.naive import ridge as naive
from tests.solver_cases import bits, last_state, states
from tests.solvers.ridge.conftest import CLASS_WEIGHTS, curved_rows

Array = NDArray[Any]
ROWS, CELL_ROWS, LEFT_OUT_STEP = 900, 120, 9  # the last: a naive twin leaves out one row of this many
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


def laplacian(rows: Array, others: Array, bandwidth: float) -> Array:
    return np.asarray(np.exp(-cdist(rows, others, "cityblock") / bandwidth))


# One cell.

RIDGE, WIDTH, WITHOUT = 0.05, 1.5, np.array([0.25, -0.5, 0.75])


class Cell:
    """Rows of a task for `solve_cell`, with class weights for classes."""

    def __init__(self, task: Task, n_rows: int = 50) -> None:
        rows = curved_rows(task)
        outputs = Outputs(task, 3 if task == "multiclass" else 1, CLASS_WEIGHTS[task])
        inputs, targets = rows.inputs[:n_rows], rows.targets[:n_rows]
        self.matrix, self.values = laplacian(inputs, inputs, WIDTH), outputs.of(targets)
        self.given = outputs.weights(targets)
        self.weights = np.ones(n_rows) if self.given is None else self.given
        self.without = WITHOUT[: outputs.n_outputs]

    def solve(self, some: Any = None, kept: Any = slice(None)) -> CellSolution:
        values = self.values[kept]
        given = None if self.given is None else self.given[kept]
        some = np.arange(len(values)) if some is None else np.asarray(some, dtype=np.int64)
        return solve_cell(self.matrix[kept][:, kept], values, given, RIDGE, some, self.without)

    def primal(self, coefficients: Array, offsets: Array) -> float:
        return naive.objective(self.matrix, self.values, self.weights, RIDGE, self.matrix, coefficients, offsets)

    def dual(self, coefficients: Array) -> float:
        """Return ridge a'y - ridge / 2 a'(K + ridge W^(-1)) a for coefficients a with sum 0."""
        shifted = self.matrix + RIDGE * np.diag(1.0 / self.weights)
        return RIDGE * float(np.sum(coefficients * (self.values - 0.5 * shifted @ coefficients)))


@pytest.fixture(params=TASKS)
def cell(request: pytest.FixtureRequest) -> Cell:
    return Cell(request.param)


def test_a_solution_satisfies_its_equation_and_equals_that_of_the_normal_equations(cell: Cell) -> None:
    found = cell.solve()
    coefficients, offsets = naive.ridge(cell.matrix, cell.values, cell.weights, RIDGE, cell.matrix)
    np.testing.assert_allclose(found.coefficients, coefficients, atol=1e-9)
    np.testing.assert_allclose(found.offsets, offsets, atol=1e-10)
    np.testing.assert_allclose(found.coefficients.sum(axis=0), 0.0, atol=1e-12)
    residuals = cell.values - cell.matrix @ found.coefficients - found.offsets
    np.testing.assert_allclose(RIDGE * found.coefficients, cell.weights[:, np.newaxis] * residuals, atol=1e-12)
    assert np.abs(residuals).max() > 0.01
    assert found.objective == pytest.approx(cell.primal(coefficients, offsets), rel=1e-12)
    assert found.objective == pytest.approx(cell.dual(coefficients), rel=1e-12)
    assert 0.0 <= found.gap < 1e-20 * found.objective


def test_objective_has_no_slope_at_a_solution(cell: Cell) -> None:
    found, random = cell.solve(), np.random.default_rng(1)
    step = 1e-4
    for _ in range(5):
        turn, shift = random.normal(size=found.coefficients.shape), random.normal(size=found.offsets.shape)

        def at(times: float, turn: Array = turn, shift: Array = shift) -> float:
            return cell.primal(found.coefficients + times * step * turn, found.offsets + times * step * shift)

        assert abs(at(1.0) - at(-1.0)) / (2.0 * step) < 1e-7
        assert abs(at(2.0) - at(0.0)) / (2.0 * step) > 1e-4
        assert min(at(1.0), at(-1.0)) > found.objective


def test_gap_of_wrong_coefficients_is_primal_minus_dual(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(2).normal(size=cell.values.shape)
    best = cell.solve().objective

    def wrong(factor: Any, right: Array, **options: Any) -> Array:
        return np.asarray(cho_solve(factor, right, **options) + (0.3 * noise if right.ndim == 2 else 0.0))

    monkeypatch.setattr(cells, "cho_solve", wrong)
    found = cell.solve()
    np.testing.assert_allclose(found.coefficients.sum(axis=0), 0.0, atol=1e-12)
    assert found.objective == pytest.approx(cell.primal(found.coefficients, found.offsets), rel=1e-12)
    assert found.gap == pytest.approx(found.objective - cell.dual(found.coefficients), rel=1e-9)
    assert found.gap > found.objective - best > 0.01 * best


def test_leave_one_out_scores_match_solutions_without_each_row(cell: Cell) -> None:
    expected = naive.left_out(cell.matrix, cell.values, cell.weights, RIDGE, cell.matrix)
    every = cell.solve().left_out
    np.testing.assert_allclose(every, expected, atol=1e-8)
    some = np.array([3, 17, 41])
    np.testing.assert_allclose(cell.solve(some).left_out, every[some], atol=1e-11)
    assert cell.solve([]).left_out.shape == (0, cell.values.shape[1])
    for row in some:
        others = np.delete(np.arange(len(cell.values)), row)
        again = cell.solve([], others)
        np.testing.assert_allclose(every[row], cell.matrix[row, others] @ again.coefficients + again.offsets, atol=1e-9)
    assert np.abs(every - (cell.matrix @ cell.solve().coefficients + cell.solve().offsets)).max() > 0.1


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_small_cells_are_solved_and_a_single_row_scores_the_given_mean(cell: Cell, n_rows: int) -> None:
    found = cell.solve(kept=slice(n_rows))
    if n_rows == 1:
        np.testing.assert_array_equal(found.left_out, cell.without[np.newaxis])
        np.testing.assert_array_equal(found.coefficients, 0.0)
        np.testing.assert_allclose(found.offsets, cell.values[0])
    else:
        small = cell.matrix[:n_rows, :n_rows]
        expected = naive.left_out(small, cell.values[:n_rows], cell.weights[:n_rows], RIDGE, small)
        np.testing.assert_allclose(found.left_out, expected, atol=1e-9)


def test_equal_rows_with_a_tiny_penalty_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"cell of 60 rows is not positive definite .* = 1e-18\. Set a larger"):
        solve_cell(np.ones((60, 60)), np.ones((60, 1)), None, 1e-18, np.arange(60), np.zeros(1))


# Data sets.


def make_data(folder: Path, inputs: Array, targets: Array, **options: Any) -> Dataset:
    columns = {f"x{column}": inputs[:, column] for column in range(inputs.shape[1])}
    pq.write_table(pa.table(columns | {"y": targets}), folder / "rows.parquet")
    given = ingest_settings(**({"scale": "standard", "rows_per_shard": 250, "rows_per_group": 100} | options))
    return ingest(folder / "rows.parquet", folder / "set", given).dataset


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, Dataset]:
    found: dict[Task, Dataset] = {}
    for task in TASKS:
        rows = curved_rows(task, ROWS)
        found[task] = make_data(tmp_path_factory.mktemp(task), rows.inputs, rows.targets, task=task)
        assert len(found[task].shards) == 4
    return found


def solver(task: Task, **options: Any) -> LocalSolver:
    given: dict[str, Any] = {"cell_rows": CELL_ROWS, "precision": "float64", "class_weights": CLASS_WEIGHTS[task]}
    return LocalSolver(**(given | {"bandwidth": 2.0, "penalty": 1e-3, "partitions": 3} | options))


def train_cells(local_solver: LocalSolver, data: Dataset, threads: int = 1) -> LocalState:
    with open_execution(threads=threads) as execution:
        state = last_state(local_solver, data, execution)
    assert isinstance(state, LocalState)
    return state


def rows_of(data: Dataset) -> Rows:
    """Return all training rows in stored order."""
    parts = list(read_pieces(data, pieces_of(data), "float64"))
    return Rows(np.concatenate([rows.inputs for rows in parts]), np.concatenate([rows.targets for rows in parts]))


def scores_of(local_solver: LocalSolver, state: LocalState, inputs: Array) -> Array:
    return np.asarray(local_solver.predictor(state).scores(inputs)).reshape(len(inputs), -1)


def in_cells(local_solver: LocalSolver, state: LocalState, data: Dataset) -> tuple[Array, Array]:
    """Return mean scores of all rows, and leave-one-out scores of some, by the normal equations of each cell."""
    rows, outputs = rows_of(data), local_solver.outputs_of(data.schema)
    values, weights = outputs.of(rows.targets), outputs.weights(rows.targets)
    weights = np.ones(len(values)) if weights is None else weights
    assert local_solver.bandwidth is not None
    assert local_solver.penalty is not None
    scores, left_out = np.zeros((2, *values.shape))
    trees = state.trees[: len(state.partitions)]
    for tree in trees:
        cells = tree.cells_of(rows.inputs)
        assert np.bincount(cells, minlength=tree.n_cells).min() > 0
        for cell in range(tree.n_cells):
            here = np.flatnonzero(cells == cell)
            matrix = laplacian(rows.inputs[here], rows.inputs[here], local_solver.bandwidth)
            ridge = local_solver.penalty * local_solver.cell_rows
            coefficients, offsets = naive.ridge(matrix, values[here], weights[here], ridge, matrix)
            scores[here] += (matrix @ coefficients + offsets) / len(trees)
            for position in np.flatnonzero(here % LEFT_OUT_STEP == 0):
                others = np.delete(np.arange(len(here)), position)
                without = naive.ridge(
                    matrix[np.ix_(others, others)],
                    values[here[others]],
                    weights[here[others]],
                    ridge,
                    matrix[np.ix_(others, others)],
                )
                left_out[here[position]] += (matrix[position, others] @ without[0] + without[1]) / len(trees)
    return scores, left_out[::LEFT_OUT_STEP]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("cell_rows", "n_cells"), [(ROWS // 5, 8), (ROWS, 1)], ids=["several-cells", "one-cell"])
def test_scores_are_means_of_exact_solutions_and_errors_are_leave_one_out(
    sets: dict[Task, Dataset], task: Task, cell_rows: int, n_cells: int
) -> None:
    data, local_solver = sets[task], solver(task, cell_rows=cell_rows, partitions=2 if n_cells > 1 else 3)
    state = train_cells(local_solver, data)
    if n_cells == 1:
        rows, outputs = rows_of(data), local_solver.outputs_of(data.schema)
        values, weights = outputs.of(rows.targets), outputs.weights(rows.targets)
        matrix = laplacian(rows.inputs, rows.inputs, 2.0)
        weights = np.ones(ROWS) if weights is None else weights
        coefficients, offsets = naive.ridge(matrix, values, weights, 1e-3 * ROWS, matrix)
        scores, left_out = matrix @ coefficients + offsets, None
    else:
        with one_blas_thread():  # with such small matrices threads would mostly wait
            scores, left_out = in_cells(local_solver, state, data)
    assert local_solver.chosen(state)["cells"] == n_cells
    assert len(state.partitions) == (1 if n_cells == 1 else 2)
    assert local_solver.chosen(state)["n_supports"] == ROWS
    np.testing.assert_allclose(scores_of(local_solver, state, rows_of(data).inputs), scores, atol=1e-8)
    assert state.left_out is not None
    np.testing.assert_array_equal(state.left_out.targets, rows_of(data).targets)
    if left_out is not None:
        np.testing.assert_allclose(state.left_out.scores[::LEFT_OUT_STEP], left_out, atol=1e-7)
        outputs, targets = local_solver.outputs_of(data.schema), rows_of(data).targets
        errors = errors_of_scores(state.left_out.scores, targets, outputs, 1.0)
        assert state.left_out.errors.error == pytest.approx(errors.error, rel=1e-6)
        assert state.left_out.errors.squared_error == pytest.approx(errors.squared_error, rel=1e-6)
    assert (state.left_out.calibration() is None) == (task == "regression")
    certificate = local_solver.certificate(state)
    assert 0.0 <= certificate["gap"] < 1e-20 * certificate["objective"]
    assert certificate["objective"] > 1e-3


def test_errors_of_the_automatic_criterion_are_those_of_leave_one_out_scores(sets: dict[Task, Dataset]) -> None:
    found = {
        criterion: train_cells(solver("binary", criterion=criterion, penalty=None), sets["binary"]).errors[-1]
        for criterion in ("accuracy", "log-loss")
    }
    assert found["accuracy"].error == found["accuracy"].mistake_rate
    assert found["log-loss"].judged is not None
    assert 0.0 < found["log-loss"].error < np.log(2.0)


# Choices.


@pytest.mark.parametrize("task", TASKS)
def test_chosen_values_have_no_better_neighbour_and_depend_on_rows_only(
    sets: dict[Task, Dataset], task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_solver, data = solver(task, bandwidth=None, penalty=None), sets[task]
    tried: dict[tuple[float, float], tuple[float, float]] = {}
    judge = cells.Tuning.errors

    def recording(self: cells.Tuning, bandwidth: float, ridge: float) -> Any:
        found = judge(self, bandwidth, ridge)
        tried[bandwidth, ridge] = found.error, found.squared_error
        return found

    monkeypatch.setattr(cells.Tuning, "errors", recording)
    tuned = local_solver.tuned(data, 1)
    monkeypatch.undo()
    for bandwidth, ridge in ((2.0, 1.0), (0.5, 1.0), (1.0, 10.0**0.5), (1.0, 10.0**-0.5)):
        (near,) = [
            at for at in tried if at == pytest.approx((tuned.bandwidth * bandwidth, tuned.ridge * ridge), rel=1e-9)
        ]
        assert tried[near] >= tried[tuned.bandwidth, tuned.ridge]
    assert tuned.errors is not None
    assert (tuned.error, tuned.errors.squared_error) == min(tried.values()) < max(tried.values())
    again = replace(local_solver, partitions=7).tuned(data, 3)
    assert (again.bandwidth, again.ridge, again.chosen) == (tuned.bandwidth, tuned.ridge, tuned.chosen)
    state = train_cells(local_solver, data)
    chosen = local_solver.chosen(state)
    assert (chosen["bandwidth"], chosen["penalty"] * CELL_ROWS) == (tuned.bandwidth, pytest.approx(tuned.ridge))
    assert "least leave-one-out error of 900 training rows in 8 cells" in chosen["penalty_reason"]


def test_sampled_cells_are_spread_evenly_over_the_rows(tmp_path: Path) -> None:
    """Classes are noise in one half of the rows, so the mistakes show which cells were sampled."""
    random = np.random.default_rng(4)
    inputs = random.random((16_000, 1))
    targets = np.where(inputs[:, 0] < 0.5, random.random(16_000) < 0.5, 1.0)
    data = make_data(tmp_path, inputs, targets.astype(int))
    solvers = (LocalSolver(cell_rows=50, bandwidth=0.05, seed=seed) for seed in range(8))
    errors = [one.tuned(data, 1, compared=True).error for one in solvers]
    assert 0.15 < np.mean(errors) < 0.3, "half of the mistakes of one half"
    assert np.std(errors) < 0.011


@pytest.mark.parametrize("given", [{"bandwidth": 0.7}, {"penalty": 0.01}, {"bandwidth": 0.7, "penalty": 0.01}])
def test_given_values_are_kept(sets: dict[Task, Dataset], given: dict[str, float]) -> None:
    local_solver = solver("binary", **({"bandwidth": None, "penalty": None} | given))
    chosen = local_solver.tuned(sets["binary"], 1).chosen
    state = train_cells(local_solver, sets["binary"])
    assert local_solver.chosen(state)["bandwidth"] == chosen["bandwidth"]
    for name in ("bandwidth", "penalty"):
        assert (chosen[f"{name}_reason"] == "as given") == (name in given)
        if name in given:
            assert local_solver.chosen(state)[name] == pytest.approx(given[name], rel=1e-15)


def test_a_search_skips_matrices_that_are_not_positive_definite() -> None:
    rows = curved_rows("regression")
    search = cells.Tuning((rows,), "gaussian", Outputs("regression", 1), np.zeros(1), "float64", 1)
    ridge = 1e-15
    assert search.errors(1000.0, ridge).error == np.inf
    bandwidth, kept, errors = search.best(0.01, ridge, (True, False))
    assert 0.01 < bandwidth < 1000.0
    assert kept == ridge
    assert errors.error < search.errors(0.01, ridge).error
    assert search.errors(2.0 * bandwidth, ridge).error > errors.error


def test_partitions_are_added_until_one_does_not_improve(sets: dict[Task, Dataset], tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    noise = make_data(tmp_path, random.normal(size=(600, 2)), random.normal(size=600), task="regression")
    several = {"partitions": 6, "penalty": 10.0}
    ended = solver("regression", **several)
    state = train_cells(ended, noise)
    outcome = ended.finished(state)
    assert outcome is not None
    assert outcome.reason == "the last partition did not reduce the leave-one-out error beyond chance"
    assert len(state.partitions) == len(state.errors) < 6
    gaining = solver("regression", cell_rows=30, partitions=3)
    state = train_cells(gaining, sets["regression"])
    outcome = gaining.finished(state)
    assert outcome is not None
    assert outcome.reason == "all 3 partitions were solved"
    errors = [each.error for each in state.errors]
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) == 3


# Bits.


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_threads_and_the_number_of_tasks_change_no_bit(
    sets: dict[Task, Dataset], task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_solver, data = solver(task, bandwidth=None, penalty=None, precision="float32"), sets[task]
    whole = train_cells(local_solver, data)
    arrays = local_solver.predictor(whole).arrays()
    monkeypatch.setattr(cells, "_LEAST_TASKS", 7)
    monkeypatch.setattr(cells, "TASKS_AT_ONCE", 2)
    with open_execution(threads=3) as execution:
        steps = list(states(local_solver, data, execution))
    assert len(steps) > 2 * len(whole.partitions)
    for name, array in local_solver.predictor(steps[-1]).arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
    assert local_solver.chosen(steps[-1]) == local_solver.chosen(whole)
    again = train_cells(replace(local_solver, seed=1), data)
    assert bits(local_solver, again)[0] != bits(local_solver, whole)[0]
    drawn = [tree.thresholds.tobytes() for state in (whole, again) for tree in state.trees]
    assert len(set(drawn)) == 2 * local_solver.partitions


# Unusual rows and cells.


def test_a_cell_of_equal_rows_is_sampled(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    targets = random.normal(size=500)
    data = make_data(tmp_path, np.full((500, 2), 4.0), targets, task="regression")
    odd = LocalSolver(cell_rows=100, precision="float64")
    state = train_cells(odd, data)
    assert odd.chosen(state)["cells"] == odd.chosen(state)["partitions"] == 1
    assert odd.chosen(state)["n_supports"] == 200
    kept = state.positions
    assert len(np.unique(kept)) == 200
    assert kept.max() > 400  # they are drawn from all rows
    expected = rows_of(data).targets[kept].mean()
    np.testing.assert_allclose(scores_of(odd, state, rows_of(data).inputs), expected, atol=1e-9)
    assert state.left_out is not None
    others = np.setdiff1d(np.arange(500), kept)
    np.testing.assert_allclose(state.left_out.scores[others, 0], expected, atol=1e-9)
    left_out = (200 * expected - rows_of(data).targets[kept]) / 199
    np.testing.assert_allclose(state.left_out.scores[kept, 0], left_out, atol=1e-9)


@pytest.mark.parametrize("n_inputs", [2, 7, 36])
def test_a_cell_that_is_too_large_holds_equal_rows(n_inputs: int) -> None:
    random = np.random.default_rng(n_inputs)
    kinds, shares = random.normal(size=(30, n_inputs)).astype(np.float32), random.dirichlet(np.full(30, 0.3))
    rows = kinds[random.choice(30, size=6000, p=shares)]
    tree = CellTree.drawn(rows, 150, random)
    cells, most = tree.cells_of(rows), []
    for cell in range(tree.n_cells):
        here = rows[cells == cell]
        assert len(here) > 0
        if len(here) > 150:
            most.append(len(here))
            assert (here == here[0]).all()
    assert len(most) > 3


def test_partitions_that_draw_other_rows_share_their_supports(sets: dict[Task, Dataset]) -> None:
    local_solver, data, rows = (
        solver("regression", cell_rows=100, partitions=2),
        sets["regression"],
        rows_of(sets["regression"]),
    )
    trees = tuple(CellTree(direction[np.newaxis], np.zeros(1), np.array([[-1, -2]])) for direction in np.eye(2))
    with open_execution() as execution:
        state = replace(local_solver.start(data, execution), trees=trees)
        while local_solver.finished(state) is None:
            state = local_solver.advance(state, data, execution)
    assert len(state.partitions) == 2
    assert 400 < len(state.positions) < 800
    np.testing.assert_array_equal(state.supports, rows.inputs[state.positions])
    expected = np.zeros((ROWS, 1))
    for tree, partition in zip(trees, state.partitions, strict=True):
        cells = tree.cells_of(rows.inputs)
        for cell in range(2):
            kept = state.positions[partition.order[partition.members(cell)]]
            assert len(kept) == 200
            assert (cells[kept] == cell).all()
            matrix = laplacian(rows.inputs[kept], rows.inputs[kept], 2.0)
            coefficients, offsets = naive.ridge(matrix, rows.targets[kept, np.newaxis], np.ones(200), 0.1, matrix)
            here = cells == cell
            expected[here] += 0.5 * (laplacian(rows.inputs[here], rows.inputs[kept], 2.0) @ coefficients + offsets)
    np.testing.assert_allclose(scores_of(local_solver, state, rows.inputs), expected, atol=1e-8)


def test_an_empty_cell_predicts_the_mean(sets: dict[Task, Dataset]) -> None:
    local_solver, data = solver("multiclass", partitions=1), sets["multiclass"]
    # there is no row right of 50, and right of 100 only a second empty cell
    tree = CellTree(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([50.0, 100.0]), np.array([[-1, 1], [-2, -3]]))
    with open_execution() as execution:
        state = replace(local_solver.start(data, execution), trees=(tree,))
        while local_solver.finished(state) is None:
            state = local_solver.advance(state, data, execution)
    partition = state.partitions[0]
    assert partition.starts.tolist() == [0, 2 * CELL_ROWS, 2 * CELL_ROWS, 2 * CELL_ROWS]
    shares = np.bincount(rows_of(data).targets.astype(int)) / ROWS
    found = scores_of(local_solver, state, np.array([[60.0, 0.0], [101.0, 0.0]]))
    np.testing.assert_allclose(found, [2.0 * shares - 1.0] * 2, atol=1e-12)
    assert state.left_out is not None
    assert np.isfinite(state.left_out.scores).all()


def test_a_class_that_is_missing_in_a_cell_is_not_predicted_there(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    group = np.arange(400) % 2
    inputs = random.normal(size=(400, 2)) * 0.1 + 5.0 * group[:, np.newaxis]
    targets = np.where(group == 0, (inputs[:, 0] > 0.0).astype(int), 2)
    data = make_data(tmp_path, inputs, targets, task="multiclass", scale="none")
    apart = solver("multiclass", cell_rows=200, partitions=1, bandwidth=1.0)
    state = train_cells(apart, data)
    assert state.trees[0].n_cells == 2
    scores = scores_of(apart, state, inputs)
    np.testing.assert_allclose(scores[group == 1], [[-1.0, -1.0, 1.0]] * 200, atol=1e-12)
    np.testing.assert_allclose(scores[group == 0, 2], -1.0, atol=1e-12)
    assert (scores.argmax(axis=1) == targets).mean() > 0.98


@pytest.mark.parametrize("n_rows", [2, 5, 40])
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_fewer_rows_than_a_cell_has_are_one_cell_solved_once(task: Task, n_rows: int, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    inputs = random.normal(size=(n_rows, 3))
    targets = (np.arange(n_rows) % 2) if task == "binary" else inputs[:, 0]
    data = make_data(tmp_path, inputs, targets, task=task)
    few = LocalSolver(partitions=4)
    state = train_cells(few, data)
    assert few.chosen(state)["cells"] == few.chosen(state)["partitions"] == 1
    assert few.chosen(state)["n_supports"] == few.chosen(state)["left_out_rows"] == n_rows
    outcome = few.finished(state)
    assert outcome is not None
    assert outcome.reason == "all rows are in one cell"
    assert np.isfinite(scores_of(few, state, rows_of(data).inputs.astype(np.float32))).all()


def test_a_constant_column_changes_only_the_trees(tmp_path: Path) -> None:
    rows = curved_rows("regression", 400)
    found = []
    for folder, inputs in (("with", np.column_stack([rows.inputs, np.full(400, 7.0)])), ("without", rows.inputs)):
        (tmp_path / folder).mkdir()
        data = make_data(tmp_path / folder, inputs, rows.targets, task="regression")
        plain = solver("regression", bandwidth=None, penalty=None, cell_rows=400)
        state = train_cells(plain, data)
        found.append(scores_of(plain, state, rows_of(data).inputs))
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)
    assert np.std(found[0]) > 0.5


# Invalid input.


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "polynomial"}, "kernel = 'polynomial': local takes gaussian, laplacian, matern32 or matern52"),
        ({"kernel": "linear"}, "kernel = 'linear': local takes gaussian"),
        ({"cell_rows": 1}, "cell_rows = 1"),
        ({"partitions": 0}, "partitions = 0"),
        ({"bandwidth": 0.0}, "bandwidth = 0"),
        ({"penalty": -1.0}, "penalty = -1"),
    ],
)
def test_bad_settings_are_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LocalSolver(**given)


def test_a_class_without_rows_is_refused(sets: dict[Task, Dataset]) -> None:
    data = sets["multiclass"]
    counts = (*data.schema.class_counts[:2], 0)
    empty = replace(data, schema=replace(data.schema, class_counts=counts))
    with open_execution() as execution, pytest.raises(DataError, match="No training row has the label 2"):
        solver("multiclass").start(empty, execution)


def test_coefficients_beyond_the_precision_are_refused(tmp_path: Path) -> None:
    rows = curved_rows("regression", 200)
    data = make_data(tmp_path, rows.inputs, 1e60 * rows.targets, task="regression")
    with pytest.raises(DataError, match=r"do not fit float32\. Set the precision to float64, or scale the target"):
        train_cells(solver("regression", precision="float32"), data)
    assert len(train_cells(solver("regression"), data).partitions) > 0


def test_leave_one_out_scores_use_the_rounded_coefficients(sets: dict[Task, Dataset]) -> None:
    data, wide = sets["regression"], {"kernel": "gaussian", "bandwidth": 300.0}
    found = {}
    for precision in ("float32", "float64"):
        local_solver = solver("regression", **wide, precision=precision, penalty=1e-14, partitions=1)
        state = train_cells(local_solver, data)
        assert state.left_out is not None
        inputs = rows_of(data).inputs.astype(precision)
        found[precision] = np.asarray(local_solver.predictor(state).scores(inputs)), state.left_out
    (narrow, left_out), (exact, exact_left_out) = found["float32"], found["float64"]
    assert np.abs(narrow - exact).max() > 10.0
    assert exact_left_out.errors.error < 0.5
    assert left_out.errors.error > 100.0
    np.testing.assert_allclose(left_out.scores - exact_left_out.scores, (narrow - exact)[:, np.newaxis], rtol=0.02)
    tuned = {
        precision: solver("regression", **wide, precision=precision, penalty=None).tuned(data, 1)
        for precision in ("float32", "float64")
    }
    assert tuned["float32"].ridge > 10.0 * tuned["float64"].ridge
    assert tuned["float32"].error < 1.0
