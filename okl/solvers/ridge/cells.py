"""Kernel least squares in cells of neighbouring rows: exact in each cell, averaged over several partitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from okl.compiled.jit import one_blas_thread
from okl.compiled.threads import run_tasks
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution, Rows
from okl.data.order import mix_bits
from okl.data.reading import MANY_GROUPS, sample_rows
from okl.features.bandwidth import kernel_of_bandwidth, kernel_with_bandwidth
from okl.features.cells import CellTree
from okl.features.predictors import LocalExpansion, Partition
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray, Integers, Precision
from okl.foundation.validation import check_at_least
from okl.kernels import NamedKernel
from okl.solvers.base import Convergence, Outcome
from okl.solvers.ridge.gram import LandmarkBasis, Outputs, cuts, pieces_of, read_pieces, rounded
from okl.solvers.ridge.penalty_path import SAMPLE_ROWS, PenaltyErrors, ScoresLeftOut, apart, errors_of_scores
from okl.solvers.ridge.solver import LeastSquaresSolver, certificate_of, check_landmarks

# One cell: a kernel matrix of its rows, solved directly.


@dataclass(frozen=True, eq=False)
class CellSolution:
    """Coefficients (rows, n_outputs), offsets (n_outputs,), and scores of some rows by models without each of them.

    objective : ridge / 2 ||f||^2 + 1/2 sum of weighted squared residuals, summed over outputs; gap : to the optimum
    left_out : (some rows, n_outputs)
    """

    coefficients: Doubles
    offsets: Doubles
    objective: float
    gap: float
    left_out: Doubles


def solve_cell(
    matrix: Doubles, values: Doubles, weights: Doubles | None, ridge: float, some: Integers, without: Doubles
) -> CellSolution:
    """Minimise ridge / 2 a'Ka + 1/2 sum_i w_i (y_i - (K a)_i - b)^2 over a with sum a = 0, and b.

    (K + ridge W^(-1)) a = y - b. With residuals r of this equation the objective exceeds its dual by 1/2 r'W r. The
    score of a row by the model without it is y_i - a_i / P_ii, P = A^(-1) - A^(-1) 1 1'A^(-1) / (1'A^(-1) 1) for
    A = K + ridge W^(-1).

    matrix : K, (rows, rows), symmetric and positive semidefinite; values : y, (rows, n_outputs); weights : w, (rows,)
    some : rows that are scored without themselves; without : (n_outputs,), the score of the only row of a cell
    Raises ConfigError : A is not positive definite, because of rounding

    Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, (5.12), and (2.41) for the bias.
    """
    noise = ridge / (np.ones(len(values)) if weights is None else weights)
    shifted = matrix.copy()
    shifted[np.diag_indices(len(values))] += noise
    try:
        factor = cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise ConfigError(
            f"The kernel matrix of a cell of {len(values):,} rows is not positive definite with penalty times rows = "
            f"{ridge:.3g}. Set a larger penalty, or a smaller bandwidth."
        ) from None
    ones = cho_solve(factor, np.ones(len(values)), check_finite=False)
    total = float(ones.sum())
    coefficients = cho_solve(factor, values, check_finite=False)
    coefficients -= np.outer(ones, coefficients.sum(axis=0) / total)
    coefficients -= coefficients.mean(axis=0)  # what rounding has left of the sum
    scores = matrix @ coefficients
    missing = values - scores - noise[:, np.newaxis] * coefficients
    offsets = missing.mean(axis=0)
    counted = ridge / noise[:, np.newaxis]
    objective = 0.5 * (
        ridge * float(np.sum(coefficients * scores)) + float(np.sum(counted * (values - scores - offsets) ** 2))
    )
    gap = 0.5 * float(np.sum(counted * (missing - offsets) ** 2))
    slack = _diagonal_of_inverse(factor[0], some) - ones[some] ** 2 / total
    close = slack > np.finfo(np.float64).eps / ridge  # else it is the only row
    left_out = values[some] - coefficients[some] / np.where(close, slack, 1.0)[:, np.newaxis]
    left_out[~close] = without
    return CellSolution(coefficients, offsets, objective, gap, left_out)


def solve_rows(
    kernel: NamedKernel,
    inputs: FloatArray,
    values: Doubles,
    weights: Doubles | None,
    ridge: float,
    some: Integers,
    without: Doubles,
    precision: Precision,
) -> CellSolution:
    """Solve the cell of some rows, and score them by coefficients and kernel values of a precision.

    Large coefficients that cancel are accurate in float64 only: scores without a row have the error of its own score.

    inputs : (rows, n_inputs); others as for `solve_cell`
    Raises ConfigError : as for `solve_cell`; DataError : coefficients beyond what the precision holds
    """
    wide = inputs.astype(np.float64)
    matrix = np.asarray(LandmarkBasis(kernel, wide).columns(wide), dtype=np.float64)
    solution = solve_cell(matrix, values, weights, ridge, some, without)
    if precision == "float64" or not len(some):
        return solution
    narrow = inputs.astype(precision)
    stored = LandmarkBasis(kernel, narrow).predictor(solution.coefficients.T, solution.offsets)
    exact = matrix[some] @ solution.coefficients + solution.offsets
    rounding = np.asarray(stored.scores(narrow[some]), dtype=np.float64).reshape(exact.shape) - exact
    return replace(solution, left_out=solution.left_out + rounding)


def _diagonal_of_inverse(factor: Doubles, some: Integers) -> Doubles:
    """Return diagonal entries of the inverse of a matrix. factor : lower Cholesky factor"""
    if len(some) == len(factor):
        inverse, _ = dpotri(factor, lower=1)
        return np.asarray(np.diag(inverse)[some])
    units = np.zeros((len(factor), len(some)))
    units[some, np.arange(len(some))] = 1.0
    solved = cho_solve((factor, True), units, check_finite=False)
    return np.asarray(solved[some, np.arange(len(some))])


# The rows of some cells, and the solutions of all of these.


@stored("cell-members")
@dataclass(frozen=True, eq=False)
class Members:
    """Rows of some cells, sorted by cell, then in the data set's order, with their cells and positions (rows,)."""

    cells: Integers
    positions: Integers
    rows: Rows

    def of(self, cell: int) -> slice:
        return slice(*np.searchsorted(self.cells, (cell, cell + 1)).tolist())


def read_members(data: Dataset, tree: CellTree, precision: Precision, cells: Sequence[int]) -> Members:
    """Read all training rows once, and return those of some cells."""
    wanted = np.zeros(tree.n_cells, dtype=bool)
    wanted[list(cells)] = True
    position, found = 0, [(np.empty(0, np.int64), np.empty(0, np.int64))]
    inputs, targets = [np.empty((0, data.schema.n_features), dtype=precision)], [np.empty(0)]
    for rows in read_pieces(data, pieces_of(data), precision):
        cells_of_rows = tree.cells_of(rows.inputs)
        taken = np.flatnonzero(wanted[cells_of_rows])
        found.append((cells_of_rows[taken], position + taken))
        inputs.append(rows.inputs[taken])
        targets.append(rows.targets[taken])
        position += len(rows.targets)
    of_cells, positions = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(of_cells, kind="stable")
    rows = Rows(np.concatenate(inputs)[order], np.concatenate(targets)[order])
    return Members(of_cells[order], positions[order], rows)


def drawn(positions: Integers, seed: int) -> Doubles:
    """Return a number of 0 .. 1 for each row, which depends on its position and the seed alone."""
    start = mix_bits(np.array([seed], dtype=np.uint64))
    return mix_bits(positions.astype(np.uint64) + start).astype(np.float64) / 2.0**64


@stored("cell-solutions")
@dataclass(frozen=True, eq=False)
class CellSolutions:
    """Solutions of consecutive cells.

    positions : (members,), of the rows that a cell learned from, sorted by cell; counts : (cells,), how many
    coefficients : (n_outputs, members); offsets : (cells, n_outputs)
    judged : positions of rows that judge; targets, scores : theirs, (rows,) and (rows, n_outputs)
    objective, gap : sums
    """

    positions: Integers
    counts: Integers
    coefficients: FloatArray
    offsets: FloatArray
    judged: Integers
    targets: Doubles
    scores: Doubles
    objective: float
    gap: float


@dataclass(frozen=True, eq=False)
class CellWork:
    """Work that solves consecutive cells.

    solver : whose settings hold; of more than twice the rows of a cell, which are alike, some are drawn
    ridge : penalty times the rows of a cell; without : (n_outputs,), the score where nothing is known
    """

    solver: LocalSolver
    data: Dataset
    tree: CellTree
    kernel: NamedKernel
    ridge: float
    without: Doubles

    @property
    def outputs(self) -> Outputs:
        return self.solver.outputs_of(self.data.schema)

    def __call__(self, cells: tuple[int, int]) -> CellSolutions:
        """Read all rows and solve cells first .. last - 1; DataError for damaged shards or too large coefficients."""
        seed, precision, most_rows = self.solver.seed, self.solver.precision, 2 * self.solver.cell_rows
        members = read_members(self.data, self.tree, precision, range(*cells))
        judges = drawn(members.positions, seed) < min(1.0, MOST_JUDGED / self.data.rows("train"))
        solved, taken = [], list[Integers]()
        scores = np.empty((len(judges), self.outputs.n_outputs))
        with one_blas_thread():
            for cell in range(*cells):
                place = np.arange(len(judges))[members.of(cell)]
                if len(place) > most_rows:
                    order = np.argsort(drawn(members.positions[place], seed + 1), kind="stable")
                    kept = np.sort(place[order[:most_rows]])
                else:
                    kept = place
                solved.append(self._solve(members, place, kept, judges, scores))
                taken.append(kept)
        kept = np.concatenate(taken)
        coefficients, offsets = rounded(
            np.concatenate([each.coefficients for each in solved]).T,
            np.array([each.offsets for each in solved]),
            np.dtype(precision),
        )
        return CellSolutions(
            members.positions[kept],
            np.array([len(each) for each in taken]),
            coefficients,
            offsets,
            members.positions[judges],
            members.rows.targets[judges],
            scores[judges],
            sum(each.objective for each in solved),
            sum(each.gap for each in solved),
        )

    def _solve(self, members: Members, place: Integers, kept: Integers, judges: Any, scores: Doubles) -> CellSolution:
        """Solve one cell by the `kept` rows of its `place`, and write the scores of the rows that judge."""
        if not len(kept):
            nothing = np.empty((0, self.outputs.n_outputs))
            return CellSolution(nothing, self.without, 0.0, 0.0, nothing)
        inputs, some = members.rows.inputs[kept], np.flatnonzero(judges[kept])
        targets = members.rows.targets[kept]
        values, weights = self.outputs.of(targets), self.outputs.weights(targets)
        given = self.kernel, inputs, values, weights, self.ridge, some, self.without, self.solver.precision
        solution = solve_rows(*given)
        scores[kept[some]] = solution.left_out
        others = np.setdiff1d(place[judges[place]], kept)
        if len(others):
            basis = LandmarkBasis(self.kernel, inputs.astype(np.float64))
            columns = basis.columns(members.rows.inputs[others].astype(np.float64))
            scores[others] = columns @ solution.coefficients + solution.offsets
        return solution


# Bandwidth and penalty: those of least leave-one-out error in some small cells.

TUNED_CELLS, TUNED_ROWS, COMPARED_CELLS = 16, 512, 128
_FIRST_FACTOR, _FIRST_RIDGE = 0.5, 10.0**-1.5  # of the median distance; penalty times rows
_BANDWIDTH_STEP, _RIDGE_STEP, _MOST_MOVES = 2.0, 10.0**0.5, 12


@dataclass(frozen=True, eq=False)
class Tuning:
    """Search of the bandwidth and of the penalty times the rows of a cell, of which either may be given."""

    cells: tuple[Rows, ...]
    kernel: str
    outputs: Outputs
    without: Doubles
    precision: Precision
    n_threads: int

    def errors(self, bandwidth: float, ridge: float) -> PenaltyErrors:
        """Return the leave-one-out errors of all rows of the cells."""
        kernel = kernel_of_bandwidth(self.kernel, bandwidth)

        def scores_of(index: int) -> Doubles:
            rows = self.cells[index]
            values, weights = self.outputs.of(rows.targets), self.outputs.weights(rows.targets)
            every = np.arange(len(values))
            fit = rows.inputs, values, weights, ridge, every, self.without, self.precision
            return solve_rows(kernel, *fit).left_out

        try:
            with one_blas_thread():
                scores = np.concatenate(run_tasks(scores_of, len(self.cells), self.n_threads))
        except ConfigError:  # rounding: another bandwidth or ridge may do
            return PenaltyErrors(ridge, np.inf, None)
        targets = np.concatenate([rows.targets for rows in self.cells])
        return errors_of_scores(scores, targets, self.outputs, ridge)

    def best(self, bandwidth: float, ridge: float, free: tuple[bool, bool]) -> tuple[float, float, PenaltyErrors]:
        """Return bandwidth and ridge after moves, where free, to better neighbours, and their errors."""
        tried: dict[tuple[int, int], PenaltyErrors] = {}

        def values_at(point: tuple[int, int]) -> tuple[float, float]:
            return bandwidth * _BANDWIDTH_STEP ** point[0], ridge * _RIDGE_STEP ** point[1]

        def error_at(point: tuple[int, int]) -> tuple[float, float]:
            if point not in tried:
                tried[point] = self.errors(*values_at(point))
            return tried[point].error, tried[point].squared_error

        at = (0, 0)
        for _ in range(_MOST_MOVES):
            moves = [(1, 0), (-1, 0)] * free[0] + [(0, 1), (0, -1)] * free[1]
            near = [at, *((at[0] + move[0], at[1] + move[1]) for move in moves)]
            best = min(near, key=error_at)
            if best == at:
                break
            at = best
        return *values_at(at), tried[at]


@dataclass(frozen=True, eq=False)
class Tuned:
    """Bandwidth, and the penalty times the rows of a cell; what was chosen, with the reasons, and the errors.

    without : (n_outputs,), the mean of sampled targets; errors : None where both were given
    """

    bandwidth: float
    ridge: float
    without: Doubles
    chosen: dict[str, Any]
    errors: PenaltyErrors | None

    @property
    def error(self) -> float:
        """Return the error by the criterion."""
        assert self.errors is not None, "something was chosen"
        return self.errors.error


# The solver.

CELL_ROWS, PARTITIONS = 500, 4
_SAMPLED_OF_CELL, _LEAST_SAMPLE = 64, 1 << 14  # rows that a tree is drawn from
# of a task, which reads all rows and takes those of its cells: their bytes, and their number times the rows of a cell^2
TASK_BYTES, _TASK_SQUARES = 1 << 26, 1e11
_LEAST_TASKS, _MOST_TASKS, TASKS_AT_ONCE = 4, 32, 8  # the last: between two checkpoints
MOST_JUDGED = 16_384  # rows that judge
_WORTH = 0.25  # of the difference by chance: another partition that gains less is the last one


@stored("local-state")
@dataclass(frozen=True, eq=False)
class LocalState:
    """State of the solver.

    ridge : penalty times the rows of a cell; trees : of all partitions
    done : tasks, of all partitions; solved : of the present partition
    positions : (n_supports,), ascending, of the rows that are supports; supports : (n_supports, n_inputs)
    targets, scores : (rows,) and (rows, n_outputs), of the rows that judge, in their order; scores are summed over the
        partitions
    errors : of the mean scores, after each partition; objective, gap : sums over the partitions
    """

    kernel: NamedKernel
    chosen: dict[str, Any]
    ridge: float
    trees: tuple[CellTree, ...]
    without: Doubles
    done: int
    solved: tuple[CellSolutions, ...]
    positions: Integers
    supports: FloatArray
    partitions: tuple[Partition, ...] = ()
    targets: Doubles | None = None
    scores: Doubles | None = None
    errors: tuple[PenaltyErrors, ...] = ()
    objective: float = 0.0
    gap: float = 0.0

    @property
    def left_out(self) -> ScoresLeftOut | None:
        """Return leave-one-out scores of the rows that judge; None before the first partition is solved."""
        if self.targets is None or self.scores is None:
            return None
        return ScoresLeftOut(self.targets, self.scores / len(self.partitions), self.errors[-1])


@dataclass(frozen=True, kw_only=True)
class LocalSolver(LeastSquaresSolver):
    """Minimise ridge / 2 ||f||^2 + 1/2 sum_i (y_i - f(x_i) - b)^2 over the rows of each cell, f = sum_i a_i k(., x_i).

    Cells are the leaves of a tree of hyperplanes that splits the rows at medians. Scores are averaged over several such
    partitions, which smooths the borders of cells. Each cell is solved directly: O(rows cell_rows^2) a partition, with
    as many supports as there are rows.

    kernel, class_weights, criterion : see LeastSquaresSolver
    bandwidth, penalty : None for those of least leave-one-out error in sampled cells; a penalty is ridge over cell_rows
    cell_rows : rows of a cell, at most but for chance; of more than twice as many, which are alike, some are drawn
    partitions : at most; they end when one does not reduce the leave-one-out error beyond chance
    seed, precision : of trees and samples, and of supports and coefficients; cells are solved in float64
    Source: Meister & Steinwart, Optimal learning rates for localized SVMs, JMLR 17(194), 2016, section 2.
    """

    kernel: str = "laplacian"
    cell_rows: int = CELL_ROWS
    partitions: int = PARTITIONS

    def __post_init__(self) -> None:
        self.check_shift_invariant("local")
        check_at_least("cell_rows", self.cell_rows, 2)
        check_at_least("partitions", self.partitions, 1)
        super().__post_init__()

    def check(self, schema: Schema, rows: int | None) -> None:
        """Raise DataError for a class without rows, before rows are read."""
        check_landmarks(schema, rows, None)

    def start(self, data: Dataset, execution: Execution) -> LocalState:
        """Draw trees, choose bandwidth and penalty by leave-one-out errors in sampled cells; or DataError."""
        self.check(data.schema, data.rows("train"))
        tuned = self.tuned(data, execution.n_threads)
        sample = self._sample(data, self.cell_rows)
        most = self.cell_rows * len(sample.targets) / data.rows("train")
        random = np.random.default_rng((self.seed, 0x10CA1))
        trees = tuple(CellTree.drawn(sample.inputs, most, random) for _ in range(self.partitions))
        chosen = tuned.chosen | {"penalty": tuned.ridge / self.cell_rows, "cells": trees[0].n_cells}
        nothing = np.empty((0, data.schema.n_features), dtype=self.precision)
        kernel, positions = kernel_of_bandwidth(self.kernel, tuned.bandwidth), np.empty(0, dtype=np.int64)
        return LocalState(kernel, chosen, tuned.ridge, trees, tuned.without, 0, (), positions, nothing)

    def tuned(self, data: Dataset, n_threads: int, compared: bool = False) -> Tuned:
        """Choose bandwidth and penalty by leave-one-out errors in sampled cells; read all rows once; or DataError.

        compared : whether the errors will be compared with those of other solvers, which takes those of more cells
        """
        few = min(self.cell_rows, TUNED_ROWS)
        sample = self._sample(data, few)
        random, outputs = np.random.default_rng((self.seed, 0x70ED)), self.outputs_of(data.schema)
        order = random.permutation(len(sample.targets))[:SAMPLE_ROWS]
        without = outputs.of(sample.targets).mean(axis=0)
        _, chosen = kernel_with_bandwidth(self.kernel, self.bandwidth, sample.inputs[order])
        bandwidth, ridge = float(chosen["bandwidth"]), None if self.penalty is None else self.penalty * self.cell_rows
        if self.bandwidth is not None and ridge is not None:
            return Tuned(bandwidth, ridge, without, chosen | {"penalty_reason": "as given"}, None)
        tree = CellTree.drawn(sample.inputs, few * len(sample.targets) / data.rows("train"), random)
        number = min(tree.n_cells, COMPARED_CELLS if compared else TUNED_CELLS)
        # evenly over the leaves: classes and errors of distant cells differ far more than those of neighbours
        places = (np.arange(number) + random.random()) * tree.n_cells / number
        cells = random.permutation(places.astype(int)).tolist()
        rows = _cells_of(read_members(data, tree, self.precision, cells), cells, 2 * few)
        free = self.bandwidth is None, ridge is None
        search = Tuning(rows[:TUNED_CELLS], self.kernel, outputs, without, self.precision, n_threads)
        bandwidth, ridge, errors = search.best(
            bandwidth * (_FIRST_FACTOR if free[0] else 1.0), _FIRST_RIDGE if ridge is None else ridge, free
        )
        if len(rows) > TUNED_CELLS:
            errors = replace(search, cells=rows).errors(bandwidth, ridge)
        count = sum(len(some.targets) for some in search.cells)
        why = f"least leave-one-out error of {count:,} training rows in {len(search.cells)} cells"
        names = ("bandwidth_reason", "penalty_reason")
        reasons = {name: why if is_free else "as given" for name, is_free in zip(names, free, strict=True)}
        return Tuned(bandwidth, ridge, without, {"bandwidth": bandwidth} | reasons, errors)

    def advance(self, state: LocalState, data: Dataset, execution: Execution) -> LocalState:
        """Solve some more cells; after the last one of a partition, add it to the model."""
        number = len(state.partitions)
        tree = state.trees[number]
        tasks = self._tasks(tree, data)
        first = state.done - sum(len(self._tasks(before, data)) for before in state.trees[:number])
        coming = tasks[first : first + TASKS_AT_ONCE]
        work = CellWork(self, data, tree, state.kernel, state.ridge, state.without)
        solved = (*state.solved, *execution.map(work, coming))
        state = replace(state, done=state.done + len(coming), solved=solved)
        return state if first + len(coming) < len(tasks) else self._added(state, data)

    def _tasks(self, tree: CellTree, data: Dataset) -> list[tuple[int, int]]:
        """Return ranges of cells, which depend on the data and the settings only."""
        item, n_rows = 4 if self.precision == "float32" else 8, data.rows("train")
        by_bytes = n_rows * data.schema.n_features * item / TASK_BYTES
        by_work = min(n_rows * self.cell_rows**2 / _TASK_SQUARES, _MOST_TASKS)
        return cuts(tree.n_cells, max(_LEAST_TASKS, math.ceil(max(by_bytes, by_work))))

    def _added(self, state: LocalState, data: Dataset) -> LocalState:
        """Return the state with the partition whose cells are all solved."""
        solved = state.solved
        members = np.concatenate([each.positions for each in solved])
        counts = np.concatenate([each.counts for each in solved])
        positions = np.union1d(state.positions, members)
        supports = state.supports
        if len(positions) > len(supports):
            supports = _rows_at(data, positions, self.precision)
        partition = Partition(
            state.trees[len(state.partitions)],
            np.searchsorted(positions, members),
            np.concatenate([[0], np.cumsum(counts)]),
            np.ascontiguousarray(np.concatenate([each.coefficients for each in solved], axis=1)),
            np.concatenate([each.offsets for each in solved]),
        )
        if state.partitions and len(positions) > len(state.positions):
            moved = np.searchsorted(positions, state.positions)
            before = tuple(replace(each, order=moved[each.order]) for each in state.partitions)
        else:
            before = state.partitions
        judged = np.argsort(np.concatenate([each.judged for each in solved]))
        scores = np.concatenate([each.scores for each in solved])[judged]
        if state.scores is not None:
            scores += state.scores
        targets = np.concatenate([each.targets for each in solved])[judged]
        outputs, number = self.outputs_of(data.schema), len(state.partitions) + 1
        errors = errors_of_scores(scores / number, targets, outputs, state.ridge / self.cell_rows)
        return replace(
            state,
            solved=(),
            positions=positions,
            supports=supports,
            partitions=(*before, partition),
            targets=targets,
            scores=scores,
            errors=(*state.errors, errors),
            objective=state.objective + sum(each.objective for each in solved) / data.rows("train"),
            gap=state.gap + sum(each.gap for each in solved) / data.rows("train"),
        )

    def finished(self, state: LocalState) -> Outcome | None:
        """Done after all partitions, or when another one gains nothing; diverged if errors are not finite."""
        if not state.errors or state.solved:
            return None
        if not np.isfinite(state.errors[-1].squared_error):
            return Outcome("diverged", "the scores are not finite")
        if state.trees[0].n_cells == 1:
            return Outcome("done", "all rows are in one cell")
        n_partitions = len(state.partitions)
        if n_partitions == self.partitions:
            return Outcome("done", f"all {n_partitions} partition{'s' * (n_partitions > 1)} were solved")
        if n_partitions > 1:
            before, now = state.errors[-2:]
            chance = now.chance
            if chance == 0.0 and now.mistake_rate is not None:
                chance = apart(now.mistake_rate, MOST_JUDGED)
            if now.error > before.error - max(_WORTH * chance, 1e-3 * before.error):
                return Outcome("done", "the last partition did not reduce the leave-one-out error beyond chance")
        return None

    def progress(self, state: LocalState) -> Convergence:
        if not state.partitions:
            return Convergence(state.done, 1.0, 0.0, 0.0)
        objective, gap = (value / len(state.partitions) for value in (state.objective, state.gap))
        return Convergence(state.done, gap / objective if objective else 0.0, objective, objective - gap)

    def predictor(self, state: LocalState) -> LocalExpansion:
        return LocalExpansion(state.kernel, state.supports, state.partitions)

    def chosen(self, state: LocalState) -> dict[str, Any]:
        """Return the choices of bandwidth and penalty, and what the partitions reached."""
        if not state.errors:
            return dict(state.chosen)
        reached = {"partitions": len(state.partitions), "n_supports": len(state.positions)}
        assert state.targets is not None
        judged = {"left_out_rows": len(state.targets), "left_out_error": state.errors[-1].error}
        return state.chosen | reached | judged

    def certificate(self, state: LocalState) -> dict[str, Any]:
        """Return the proof as JSON: the mean over partitions of what all cells together are above their optimum."""
        progress, outcome = self.progress(state), self.finished(state)
        gap = progress.objective - progress.dual_objective
        return certificate_of(progress, gap, state.done, "" if outcome is None else outcome.reason)

    def _sample(self, data: Dataset, cell_rows: int) -> Rows:
        """Return rows that a tree with cells of a given size is drawn from."""
        wanted = max(_LEAST_SAMPLE, _SAMPLED_OF_CELL * (data.rows("train") // cell_rows + 1))
        return sample_rows(data, "train", wanted, self.seed, self.precision, MANY_GROUPS)


def _cells_of(members: Members, cells: Sequence[int], most_rows: int) -> tuple[Rows, ...]:
    """Return the rows of each cell, the first ones of a cell with more; empty cells are left out."""
    parts = [members.of(cell) for cell in cells]
    parts = [slice(part.start, min(part.stop, part.start + most_rows)) for part in parts if part.stop > part.start]
    return tuple(Rows(members.rows.inputs[part], members.rows.targets[part]) for part in parts)


def _rows_at(data: Dataset, positions: Integers, precision: Precision) -> FloatArray:
    """Return the inputs (rows, n_inputs) of training rows at ascending positions, or raise DataError."""
    inputs = np.empty((len(positions), data.schema.n_features), dtype=precision)
    first, filled = 0, 0
    for rows in read_pieces(data, pieces_of(data), precision):
        last = first + len(rows.targets)
        some = positions[filled : filled + int(np.searchsorted(positions[filled:], last))]
        inputs[filled : filled + len(some)] = rows.inputs[some - first]
        filled, first = filled + len(some), last
    if not np.isfinite(inputs).all():
        raise DataError("Inputs are not finite. Remove such rows, or ingest with --missing mean.")
    return inputs
