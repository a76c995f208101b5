"""Kernel least squares on very many landmarks by preconditioned conjugate gradients, stopped by held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from okl.compiled.jit import as_compiled, one_blas_thread
from okl.compiled.threads import run_tasks
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution, Rows
from okl.data.reading import MANY_GROUPS, sample_rows
from okl.features.bandwidth import kernel_with_bandwidth
from okl.features.landmarks import choose_landmarks
from okl.features.predictors import Predictor
from okl.foundation.class_tags import lasting_attributes, stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray, Precision
from okl.foundation.validation import check_at_least
from okl.solvers.base import Convergence, Outcome
from okl.solvers.ridge import gram
from okl.solvers.ridge.penalty_path import SAMPLE_ROWS, PenaltyErrors, ScoresLeftOut, apart, errors_of_scores, fit_rows
from okl.solvers.ridge.solver import LandmarkSolver, certificate_of, check_landmarks

# Triangular factors by tiles, with the same bits on any number of threads: the preconditioner of kernel expansions.

TILE = 1024  # fixed, so that bits depend on nothing else


@dataclass(frozen=True, eq=False)
class TiledFactor:
    """Lower triangular matrix in the lower triangle of a square array, whose tiles on the diagonal are apart.

    Two factors share one array: that of one is below the diagonal, that of the other below the diagonal of its
    transpose.

    array : (n, n), of which only tiles below the diagonal are read; diagonal : tiles on the diagonal, lower triangular
    """

    array: FloatArray
    diagonal: tuple[FloatArray, ...]

    def solve(self, values: FloatArray) -> FloatArray:
        """Return L^(-1) values (n, n_outputs)."""
        solution = np.array(values, dtype=self.array.dtype)
        with one_blas_thread():
            for k, tile in enumerate(self.diagonal):
                own = _tile(k)
                solution[own] -= self.array[own, : own.start] @ solution[: own.start]
                solution[own] = solve_triangular(tile, solution[own], lower=True, check_finite=False)
        return solution

    def solve_transposed(self, values: FloatArray) -> FloatArray:
        """Return L^(-T) values (n, n_outputs)."""
        solution = np.array(values, dtype=self.array.dtype)
        with one_blas_thread():
            for k in reversed(range(len(self.diagonal))):
                own = _tile(k)
                solution[own] -= self.array[own.stop :, own].T @ solution[own.stop :]
                solution[own] = solve_triangular(
                    self.diagonal[k], solution[own], lower=True, trans="T", check_finite=False
                )
        return solution

    def times(self, values: FloatArray) -> FloatArray:
        """Return L values (n, n_outputs)."""
        values = np.asarray(values, dtype=self.array.dtype)
        product = np.empty_like(values)
        with one_blas_thread():
            for k, tile in enumerate(self.diagonal):
                own = _tile(k)
                product[own] = self.array[own, : own.start] @ values[: own.start] + tile @ values[own]
        return product


def factorise(array: FloatArray, diagonal: list[FloatArray], n_threads: int) -> TiledFactor:
    """Overwrite the tiles below the diagonal by the Cholesky factor L, array = L L', or raise LinAlgError."""
    n_tiles = len(diagonal)
    with one_blas_thread():
        for k in range(n_tiles):
            own, before = _tile(k), slice(0, k * TILE)

            def subtract(index: int, k: int = k, own: slice = own, before: slice = before) -> None:
                i = k + index
                product = array[_tile(i), before] @ array[own, before].T
                if i == k:
                    diagonal[k] = diagonal[k] - product
                else:
                    array[_tile(i), own] -= product

            if k:
                run_tasks(subtract, n_tiles - k, n_threads)
            diagonal[k] = cholesky(diagonal[k], lower=True, check_finite=False)

            def divide(index: int, k: int = k, own: slice = own) -> None:
                i = _tile(k + 1 + index)
                divided = solve_triangular(diagonal[k], array[i, own].T, lower=True, check_finite=False)
                array[i, own] = divided.T

            if k + 1 < n_tiles:
                run_tasks(divide, n_tiles - k - 1, n_threads)
    return TiledFactor(array, tuple(diagonal))


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """Coordinates x in which least squares on landmarks are well conditioned: w = T^(-1) A^(-1) x.

    T' T is the kernel matrix of m landmarks; A' A = T T' / m + penalty I. The mean over the rows of k k' is about that
    over the landmarks, so that the Hessian is about the identity. T = L', A = C', both in one array.

    Source: Rudi, Carratino & Rosasco, NIPS 2017, (15) and Algorithm 1; in one array: Meanti, Carratino, Rosasco &
    Rudi, NeurIPS 2020, section 3.1.
    """

    lower: TiledFactor
    upper: TiledFactor

    def to_function(self, x: Doubles) -> Doubles:
        """Return T w (m, n_outputs), whose squared length is the squared norm of f."""
        return self.upper.solve_transposed(x).astype(np.float64)

    def to_weights(self, function: Doubles) -> Doubles:
        """Return w (m, n_outputs) of T w."""
        return self.lower.solve_transposed(function).astype(np.float64)

    def of_products(self, products: Doubles) -> Doubles:
        """Return T^(-T) products: a gradient by w becomes one by T w."""
        return self.lower.solve(products).astype(np.float64)

    def of_gradient(self, gradient: Doubles) -> Doubles:
        """Return A^(-T) gradient: one by T w becomes one by x."""
        return self.upper.solve(gradient).astype(np.float64)

    def to_gradient(self, gradient: Doubles) -> Doubles:
        """Return A' gradient: one by x becomes one by T w."""
        return self.upper.times(gradient).astype(np.float64)


def preconditioner(matrix: FloatArray, penalty: float, n_threads: int) -> Preconditioner:
    """Overwrite the symmetric kernel matrix (m, m) by both factors: 2/3 m^3 multiply-adds; or LinAlgError."""
    m = len(matrix)
    diagonal = [matrix[_tile(k), _tile(k)].copy() for k in range(-(-len(matrix) // TILE))]
    lower = factorise(matrix, diagonal, n_threads)
    pairs = [(i, j) for i in range(len(lower.diagonal)) for j in range(i + 1)]
    squares: list[FloatArray] = list(lower.diagonal)

    def multiply(index: int) -> None:
        """Write L' L / m, tile by tile, above the diagonal, where nothing of L is."""
        i, j = pairs[index]
        rows, columns = _tile(i), _tile(j)
        below = matrix[rows.stop :, columns].T @ matrix[rows.stop :, rows]
        left = lower.diagonal[i] if i == j else matrix[rows, columns]
        product = (left.T @ lower.diagonal[i] + below) / matrix.dtype.type(m)
        if i == j:
            squares[i] = product + matrix.dtype.type(penalty) * np.eye(len(product), dtype=matrix.dtype)
        else:
            matrix[columns, rows] = product

    with one_blas_thread():
        run_tasks(multiply, len(pairs), n_threads)
    return Preconditioner(lower, factorise(matrix.T, squares, n_threads))


def _tile(k: int) -> slice:
    return slice(k * TILE, (k + 1) * TILE)


# Sums over rows. A row of kernel values is made, used twice, and gone: nothing as large as rows times landmarks exists.

_KERNEL_ROWS = 256  # whose kernel values exist at once: fixed, so that bits depend on nothing else
MOST_HELD, HELD_SHARE = 8192, 0.1  # training rows that judge the iterations


Chunk = tuple[tuple[int, gram.GramPart], ...]
"""Pieces of row groups and their numbers, in the order of the data set."""


def chunks_of(data: Dataset, thin: int) -> list[Chunk]:
    """Return every thin-th piece of the training rows, in chunks of about one length, by the shards only."""
    taken = list(enumerate(gram.pieces_of(data)))[::thin]
    return [tuple(taken[first:last]) for first, last in gram.cuts(len(taken), gram.MOST_STRETCHES)]


class ExpansionSums(NamedTuple):
    """Sums over rows with kernel values k, weights v, and t = k'w - y, or k'w where there are no targets.

    products : of v k t, (m, n_outputs)
    columns, values, residuals, squares, total_weight : of v k, (m,), v y, v t, v t^2, (n_outputs,), and v; with targets
        only
    held : rows that were left out; with targets only
    """

    products: Doubles
    total_weight: float
    columns: Doubles
    values: Doubles
    residuals: Doubles
    squares: Doubles
    held: Rows

    def merged(self, other: ExpansionSums) -> ExpansionSums:
        totals: list[Any] = list(map(add, self[:-1], other[:-1]))
        totals.append(Rows(*(np.concatenate(both) for both in zip(self.held, other.held, strict=True))))
        return ExpansionSums(*totals)


@dataclass(frozen=True, eq=False)
class ExpansionWork:
    """Work that sums a chunk of rows.

    weights : (m, n_outputs), in the precision of the basis; targets : whether they are taken off
    held_share : of the rows of each piece, which are left out
    """

    data: Dataset
    basis: gram.LandmarkBasis
    outputs: gram.Outputs
    weights: FloatArray
    targets: bool
    held_share: float
    seed: int
    centre: float = 0.0  # of targets: far from 0, float32 would round away how they differ

    def __call__(self, chunk: Chunk) -> ExpansionSums:
        """Read each row group once, in order."""
        m, k = self.weights.shape
        products, columns = np.zeros((m, k)), np.zeros(m)
        count, values, residuals, squares = 0.0, np.zeros(k), np.zeros(k), np.zeros(k)
        buffer = np.empty((_KERNEL_ROWS, m), dtype=self.weights.dtype)
        held: list[Rows] = []
        with one_blas_thread():
            for rows, left_out in self._rows(chunk):
                if self.targets:
                    held.append(left_out)
                for first in range(0, len(rows.targets), _KERNEL_ROWS):
                    some = gram.part_of(rows, slice(first, first + _KERNEL_ROWS))
                    kernel_values = self.basis.write_columns(buffer[: len(some.targets)], some.inputs)
                    counted = self.outputs.weights(some.targets)
                    scores = np.asarray(kernel_values @ self.weights, dtype=np.float64)
                    if self.targets:
                        target_values = self.outputs.of(some.targets) - self.centre
                        scores -= target_values
                        ones = np.ones(len(scores)) if counted is None else counted
                        count += float(ones.sum())
                        columns += ones.astype(kernel_values.dtype) @ kernel_values
                        values += ones @ target_values
                        residuals += ones @ scores
                        squares += ones @ scores**2
                    if counted is not None:
                        scores *= counted[:, np.newaxis]
                    products += kernel_values.T @ scores.astype(kernel_values.dtype)
        return ExpansionSums(
            products, count, columns, values, residuals, squares, _joined(held, self.data, buffer.dtype)
        )

    def _rows(self, chunk: Chunk) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows of each piece, and those of it that are left out."""
        precision: Precision = "float32" if self.weights.dtype == np.float32 else "float64"
        numbers, pieces = zip(*chunk, strict=True)
        for number, rows in zip(numbers, gram.read_pieces(self.data, pieces, precision), strict=True):
            out = np.random.default_rng((self.seed, 0xFA1C, number)).random(len(rows.targets)) < self.held_share
            yield Rows(rows.inputs[~out], rows.targets[~out]), Rows(rows.inputs[out], rows.targets[out])


def _centre(schema: Schema) -> float:
    """Return the mean of the targets as they are read, by the reference; 0 for classes."""
    (shift, factor), statistics = schema.target_shift_and_factor, schema.target_statistics
    return 0.0 if statistics is None else (statistics.mean - shift) * factor


def _joined(held: Sequence[Rows], data: Dataset, dtype: np.dtype[Any]) -> Rows:
    if not held:
        return Rows(np.empty((0, data.schema.n_features), dtype=dtype), np.empty(0))
    return Rows(np.concatenate([rows.inputs for rows in held]), np.concatenate([rows.targets for rows in held]))


N_LANDMARKS, ITERATIONS = 8192, 20
THIN, THIN_ROWS, THIN_ITERATIONS = 8, 1 << 17, 6  # of many rows, first iterations over every eighth piece
_PATIENCE = 2  # iterations
_WORTH = 0.25  # of the difference by chance: a gain of less does not count
_PENALTY_LANDMARKS = 1024
_LEAST_PENALTY = {"float32": 1e-8, "float64": 1e-12}
_CLOSE = 1e-6  # relative gap


@stored("falkon-problem")
@dataclass(frozen=True, eq=False)
class ExpansionProblem:
    """Least squares over a basis of landmarks: penalty / 2 ||f||^2 + 1/2 mean of squared residuals."""

    basis: gram.LandmarkBasis
    penalty: float
    n_threads: int = 1

    __getstate__ = lasting_attributes

    @cached_property
    def preconditioner(self) -> Preconditioner:
        """Return the preconditioner, made once in a process; ConfigError for a kernel matrix not definite."""
        dtype = self.basis.landmarks.dtype
        for factor in (1.0, 1e1, 1e2, 1e3, 1e4):
            matrix = np.empty((self.basis.n_columns, self.basis.n_columns), dtype=dtype)
            for first in range(0, len(matrix), _KERNEL_ROWS):
                some = slice(first, first + _KERNEL_ROWS)
                self.basis.write_columns(matrix[some], self.basis.landmarks[some])
            matrix[np.diag_indices(len(matrix))] += dtype.type(gram.ADDED[dtype.name] * factor)
            try:
                return preconditioner(matrix, self.penalty, self.n_threads)
            except np.linalg.LinAlgError:
                continue
        raise ConfigError(
            f"The {self.basis.kernel.name!r} kernel matrix of {self.basis.n_columns:,} landmarks is not positive "
            "definite. Use fewer landmarks, a smaller bandwidth, or precision = 'float64'."
        )


@stored("falkon-best")
@dataclass(frozen=True, eq=False)
class BestIteration:
    """Weights (m, n_outputs), offsets (n_outputs,) and held-out scores (rows, n_outputs) of the best iteration."""

    iteration: int
    weights: Doubles
    offsets: Doubles
    scores: NDArray[np.float32]
    errors: PenaltyErrors | None
    objective: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """Return the gap as a share of the objective; 1 if rounding leaves no objective above 0."""
        return self.gap / self.objective if self.objective > 0.0 else float(self.gap > 0.0)


@stored("falkon-state")
@dataclass(frozen=True, eq=False)
class FalkonState:
    """State of the solver.

    stage : the next entry of the stages; iteration : of all stages
    x, residual, direction : (m, n_outputs) in the coordinates of the preconditioner; the last two are None at the start
        of a stage
    means : of kernel values (m,), and of targets (n_outputs,), about which the bias is free
    held : rows that judge, of the last stage; best : the best iteration of the last stage; improved : the last one that
        was better by more than chance
    """

    problem: ExpansionProblem
    chosen: dict[str, Any]
    stage: int
    iteration: int
    x: Doubles
    residual: Doubles | None = None
    direction: Doubles | None = None
    count: float = 0.0
    means: tuple[Doubles, Doubles] | None = None
    objective: float = float("nan")
    held: Rows | None = None
    best: BestIteration | None = None
    improved: int = 0
    least: float = float("inf")
    ended: str = ""

    @property
    def left_out(self) -> ScoresLeftOut | None:
        """Return the held-out rows by the best iteration; None without any."""
        best, held = self.best, self.held
        if best is None or held is None or best.errors is None:
            return None
        return ScoresLeftOut(held.targets, best.scores.astype(np.float64), best.errors)


@dataclass(frozen=True, kw_only=True)
class FalkonSolver(LandmarkSolver):
    """Kernel least squares on very many landmarks, by conjugate gradients with a preconditioner of the landmarks.

    Minimises what RidgeSolver minimises. An iteration reads all rows once, O(rows n_landmarks), and holds no more than
    the n_landmarks^2 numbers of the preconditioner; sums of products of all landmarks, O(rows n_landmarks^2), are not
    needed. A tenth of the rows, at most about 8,192, is left out and judges the iterations: the best one is the model,
    and iterations end when the last two did not improve on it by more than chance. Of very many rows, the first
    iterations read every eighth piece.

    kernel, bandwidth, .. : see LeastSquaresSolver and LandmarkSolver; 8,192 landmarks by default
    penalty : None for that of least leave-one-out error of a sample, times its share of the rows
    iterations : at most, over all rows; criterion : by which held-out errors of classes are compared
    Source: Rudi, Carratino & Rosasco, NIPS 2017, Algorithm 1; Yao, Rosasco & Caponnetto, Constructive Approximation 26,
    2007, of stopping early.
    """

    iterations: int = ITERATIONS

    def __post_init__(self) -> None:
        self.check_shift_invariant("falkon")
        super().__post_init__()
        check_at_least("iterations", self.iterations, 1)

    def check(self, schema: Schema, rows: int | None) -> None:
        """Raise ConfigError or DataError before rows are read. rows : to train on, None if unknown."""
        check_landmarks(schema, rows, self.n_landmarks)

    def start(self, data: Dataset, execution: Execution) -> FalkonState:
        """Choose bandwidth, landmarks and penalty from a sample; ConfigError or DataError as `check` raises."""
        rows = data.rows("train")
        self.check(data.schema, rows)
        m = min(rows, self.n_landmarks or N_LANDMARKS)
        sample = sample_rows(data, "train", max(SAMPLE_ROWS, m), self.seed, self.precision, MANY_GROUPS)
        kernel, chosen = kernel_with_bandwidth(
            self.kernel, self.bandwidth, gram.part_of(sample, slice(SAMPLE_ROWS)).inputs
        )
        landmarks = np.ascontiguousarray(choose_landmarks(kernel, sample.inputs, m, self.landmarks, self.seed))
        basis = gram.LandmarkBasis(kernel, landmarks)
        penalty, why = self.penalty, "as given"
        if penalty is None:
            penalty, why = self._penalty(basis, sample, rows, data.schema, execution.n_threads)
        chosen |= {"n_landmarks": m, "penalty": penalty, "penalty_reason": why}
        problem = ExpansionProblem(basis, penalty, execution.n_threads)
        x = np.zeros((m, data.schema.n_outputs))
        return FalkonState(problem, chosen, 0 if rows >= THIN_ROWS else 1, 0, x)

    def _penalty(
        self, basis: gram.LandmarkBasis, sample: Rows, n_rows: int, schema: Schema, n_threads: int
    ) -> tuple[float, str]:
        """Return the penalty of least leave-one-out error of a sample, times its share of the rows, and the reason."""
        order = np.random.default_rng((self.seed, 0xFA1C)).permutation(len(sample.targets))[:SAMPLE_ROWS]
        wide = Rows(sample.inputs[order].astype(np.float64), sample.targets[order])
        few = gram.LandmarkBasis(basis.kernel, np.ascontiguousarray(wide.inputs[:_PENALTY_LANDMARKS]))
        found = fit_rows(few, wide, self.outputs_of(schema), n_threads=n_threads, sample=wide)
        share = len(wide.targets) / n_rows
        return (
            max(_LEAST_PENALTY[self.precision], found.penalty * share),
            f"least leave-one-out error of {len(wide.targets):,} sampled rows, times their share of all rows",
        )

    def advance(self, state: FalkonState, data: Dataset, execution: Execution) -> FalkonState:
        """Read the rows of the stage once: find the gradient at its start, or take a step."""
        if state.direction is None:
            return self._begun(state, data, execution)
        return self._stepped(state, data, execution)

    def _begun(self, state: FalkonState, data: Dataset, execution: Execution) -> FalkonState:
        """Return the state with the gradient over the rows of its stage."""
        problem = state.problem
        function = problem.preconditioner.to_function(state.x)
        sums = self._sums(state, problem.preconditioner.to_weights(function), True, data, execution)
        if not (np.isfinite(sums.squares).all() and np.isfinite(sums.products).all()):
            raise DataError("Sums over the rows are not finite. Scale the columns (okl ingest --scale standard).")
        means = sums.columns / sums.total_weight, sums.values / sums.total_weight + _centre(data.schema)
        products = sums.products - np.outer(means[0], sums.residuals)
        gradient = self._gradient(problem, products / sums.total_weight, function)
        spread = float((sums.squares - sums.residuals**2 / sums.total_weight).sum()) / sums.total_weight
        begun = replace(
            state,
            residual=-gradient,
            direction=-gradient,
            count=sums.total_weight,
            means=means,
            objective=0.5 * (problem.penalty * float((function**2).sum()) + spread),
            held=sums.held,
        )
        return self._judged(begun, data.schema)

    def _stepped(self, state: FalkonState, data: Dataset, execution: Execution) -> FalkonState:
        """Return the state after one step of conjugate gradients, of each output on its own."""
        assert state.direction is not None
        assert state.residual is not None
        assert state.means is not None
        problem, direction, residual = state.problem, state.direction, state.residual
        function = problem.preconditioner.to_function(direction)
        weights = problem.preconditioner.to_weights(function)
        sums = self._sums(state, weights, False, data, execution)
        products = sums.products / state.count - np.outer(state.means[0], state.means[0] @ weights)
        curved = self._gradient(problem, products, function)
        square, curvature = (residual**2).sum(axis=0), (direction * curved).sum(axis=0)
        going = (square > 0.0) & (curvature > 0.0)  # an output that is solved stays
        length = np.divide(square, curvature, out=np.zeros_like(square), where=going)
        left = residual - length * curved
        turn = np.divide((left**2).sum(axis=0), square, out=np.zeros_like(square), where=going)
        stepped = replace(
            state,
            iteration=state.iteration + 1,
            x=state.x + length * direction,
            residual=left,
            direction=left + turn * direction,
            objective=max(0.0, state.objective - 0.5 * float(length @ square)),
            ended="" if going.any() else "no step reduces the objective any more",
        )
        if state.stage == 0 and stepped.iteration == THIN_ITERATIONS:
            return replace(stepped, stage=1, iteration=0, residual=None, direction=None, held=None, best=None)
        return self._judged(stepped, data.schema)

    def _judged(self, state: FalkonState, schema: Schema) -> FalkonState:
        """Return the state with the best iteration so far by the held-out rows; without any, the last one."""
        if state.stage == 0:
            return state
        assert state.means is not None
        assert state.residual is not None
        problem, (columns, values) = state.problem, state.means
        made = problem.preconditioner
        weights = made.to_weights(made.to_function(state.x))
        offsets = values - columns @ weights
        gap = float((made.to_gradient(state.residual) ** 2).sum()) / (2.0 * problem.penalty)
        scores, errors = self._validated(state, weights, offsets, schema)
        now = BestIteration(state.iteration, weights, offsets, scores, errors, state.objective, gap)
        best, improved, least = state.best, state.improved, state.least
        if errors is None or best is None or best.errors is None:
            return replace(state, best=now, improved=state.iteration, least=np.inf if errors is None else errors.error)
        if (errors.error, errors.squared_error) < (best.errors.error, best.errors.squared_error):
            best = now
        chance = errors.chance
        if chance == 0.0 and errors.mistake_rate is not None:
            chance = apart(errors.mistake_rate, len(scores))
        if errors.error < least - max(_WORTH * chance, 1e-3 * least):
            improved, least = state.iteration, errors.error
        return replace(state, best=best, improved=improved, least=least)

    def _validated(
        self, state: FalkonState, weights: Doubles, offsets: Doubles, schema: Schema
    ) -> tuple[NDArray[np.float32], PenaltyErrors | None]:
        """Return scores (rows, n_outputs) of the held-out rows, and the errors; None without held-out rows."""
        held, outputs = state.held, self.outputs_of(schema)
        assert held is not None
        assert state.means is not None
        if not len(held.targets):
            return np.empty((0, outputs.n_outputs), dtype=np.float32), None
        expansion = weights.astype(state.problem.basis.landmarks.dtype)
        scores = np.empty((len(held.targets), outputs.n_outputs))
        buffer = np.empty((_KERNEL_ROWS, len(weights)), dtype=expansion.dtype)
        with one_blas_thread():
            for first in range(0, len(scores), _KERNEL_ROWS):
                some = slice(first, first + _KERNEL_ROWS)
                inputs = held.inputs[some]
                scores[some] = state.problem.basis.write_columns(buffer[: len(inputs)], inputs) @ expansion + offsets
        errors = errors_of_scores(scores, held.targets, outputs, state.problem.penalty, state.means[1])
        return scores.astype(np.float32), errors

    def _sums(
        self, state: FalkonState, weights: Doubles, targets: bool, data: Dataset, execution: Execution
    ) -> ExpansionSums:
        """Sum over the rows of the stage."""
        basis = state.problem.basis
        work = ExpansionWork(
            data,
            basis,
            self.outputs_of(data.schema),
            as_compiled(weights, basis.landmarks.dtype),
            targets,
            min(HELD_SHARE, MOST_HELD / data.rows("train")),
            self.seed,
            _centre(data.schema),
        )
        total: ExpansionSums | None = None
        for part in execution.map(work, chunks_of(data, THIN if state.stage == 0 else 1)):
            total = part if total is None else total.merged(part)
        assert total is not None, "there are rows"
        return total

    def _gradient(self, problem: ExpansionProblem, products: Doubles, function: Doubles) -> Doubles:
        """Return the gradient in the coordinates of the preconditioner. products : mean of k t about the means"""
        made = problem.preconditioner
        return made.of_gradient(made.of_products(products) + problem.penalty * function)

    def finished(self, state: FalkonState) -> Outcome | None:
        """Done when held-out rows say so, at the optimum, or after all iterations; diverged if it is not finite."""
        if not np.isfinite(state.x).all():
            return Outcome("diverged", "the weights are not finite")
        if state.best is None:
            return None
        if state.iteration - state.improved >= _PATIENCE and state.best.errors is not None:
            return Outcome("done", "the last iterations did not reduce the error of held-out rows beyond chance")
        if state.ended:
            return Outcome("done", state.ended)
        if state.best.gap <= _CLOSE * state.best.objective:
            return Outcome("done", "solved")
        if state.iteration >= self.iterations:
            return Outcome("done", f"all {self.iterations} iterations were taken")
        return None

    def progress(self, state: FalkonState) -> Convergence:
        if state.best is None:
            return Convergence(state.iteration, 1.0, 0.0, 0.0)
        best = state.best
        return Convergence(state.iteration, best.relative_gap, best.objective, best.objective - best.gap)

    def predictor(self, state: FalkonState) -> Predictor:
        assert state.best is not None, "it has finished"
        return state.problem.basis.predictor(state.best.weights.T.copy(), state.best.offsets)

    def chosen(self, state: FalkonState) -> dict[str, Any]:
        """Return the choices of kernel and penalty, the iteration, and how many training rows were held out for it."""
        if state.best is None:
            return dict(state.chosen)
        judged = {"iteration": state.best.iteration, "held_out_rows": len(state.best.scores)}
        error = {} if state.best.errors is None else {"held_out_error": state.best.errors.error}
        return state.chosen | judged | error

    def certificate(self, state: FalkonState) -> dict[str, Any]:
        """Return the proof as JSON, of the iteration that is the model; a model that stopped early has a wide gap."""
        assert state.best is not None, "it has finished"
        best, outcome = state.best, self.finished(state)
        vacuous = "The training stopped early, by held-out rows: the bound on the gap exceeds the objective."
        reason = "" if outcome is None else outcome.reason
        found = certificate_of(self.progress(state), best.gap, best.iteration, reason)
        return found | ({"reason": vacuous} if best.gap > best.objective else {})
