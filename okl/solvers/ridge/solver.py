"""The least squares solver over shards, and sums over sparse rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from okl.compiled.jit import as_compiled, one_blas_thread
from okl.compiled.products import add_sparse_products
from okl.compiled.threads import run_tasks
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution, Rows
from okl.data.reading import MANY_GROUPS, sample_rows
from okl.features.bandwidth import kernel_of_bandwidth, kernel_with_bandwidth
from okl.features.landmarks import Landmarks, choose_landmarks
from okl.features.linear import StandardisedLinear
from okl.features.nystrom import fit_nystrom_map
from okl.features.predictors import Predictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import Criterion, Doubles, FloatArray, Integers, Precision
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.kernels import shift_invariant_kernels
from okl.solvers.base import Convergence, Outcome
from okl.solvers.ridge.gram import (
    Basis,
    Clip,
    Gram,
    LandmarkBasis,
    MapBasis,
    Outputs,
    SomeRows,
    cuts,
    gram_of_pieces,
    part_of,
    pieces_of,
    read_pieces,
    row_chunks,
    weights_of,
)
from okl.solvers.ridge.penalty_path import HUBER_ROUNDS, SAMPLE_ROWS, RidgeSolution, fit_rows, solve

N_LANDMARKS = 1000
STRETCHES_AT_ONCE = 8  # between two checkpoints; their sums may all be in memory


@stored("ridge-state")
@dataclass(frozen=True, eq=False)
class RidgeState:
    """State of the solver: the basis and its choice, sums of the chunks so far, and the solution.

    done : chunks of all rounds; clip : of the targets in this round of Huber's loss; None in the first
    """

    basis: Basis
    chosen: dict[str, Any]
    done: int
    gram: Gram | None
    solution: RidgeSolution | None = None
    clip: Clip | None = None


@dataclass(frozen=True, kw_only=True)
class LeastSquaresSolver:
    """Base of the solvers of kernel least squares.

    kernel : gaussian, laplacian, matern32 or matern52
    bandwidth : in units of the scaled inputs, None for the median distance of a sample
    penalty : > 0, None for that of least leave-one-out error of sampled training rows
    class_weights : of each class, in the order of the labels, None for all 1
    seed, precision : of the sample and of kernel values; sums are float64
    criterion : by which leave-one-out errors of classes choose the penalty
    Raises ConfigError : a number outside its range, or an unknown name
    """

    kernel: str = "gaussian"
    bandwidth: float | None = None
    penalty: float | None = None
    class_weights: tuple[float, ...] | None = None
    seed: int = 0
    precision: Precision = "float32"
    criterion: Criterion = "accuracy"

    mode = "sum"

    def __post_init__(self) -> None:
        for name in ("bandwidth", "penalty"):
            if (given := getattr(self, name)) is not None:
                check_positive(name, given)

    def check_shift_invariant(self, name: str) -> None:
        """Raise ConfigError unless the kernel is one of those that the solver of this name takes."""
        if self.kernel not in (able := shift_invariant_kernels()):
            raise ConfigError(f"kernel = {self.kernel!r}: {name} takes {', '.join(able[:-1])} or {able[-1]}.")

    def outputs_of(self, schema: Schema) -> Outputs:
        """Return the targets of the scores, their class weights and the criterion."""
        return Outputs(schema.task, schema.n_outputs, self.class_weights, self.criterion)


@dataclass(frozen=True, kw_only=True)
class LandmarkSolver(LeastSquaresSolver):
    """Base of those on landmarks, at most the training rows: uniform, kmeans or rpcholesky, from a sample of these."""

    n_landmarks: int | None = None
    landmarks: Landmarks = "uniform"

    def __post_init__(self) -> None:
        check_choice("landmarks", self.landmarks, ("uniform", "kmeans", "rpcholesky"))
        if self.n_landmarks is not None:
            check_at_least("n_landmarks", self.n_landmarks, 1)
        super().__post_init__()


def certificate_of(progress: Convergence, gap: float, iterations: int, outcome: str) -> dict[str, Any]:
    """Return a bound on the gap of a solution as JSON."""
    return {
        "kind": "duality gap",
        "gap": gap,
        "relative_gap": progress.relative_gap,
        "objective": progress.objective,
        "dual_objective": progress.dual_objective,
        "floor": float(np.finfo(np.float64).eps) * progress.objective,
        "iterations": iterations,
        "outcome": outcome,
    }


@dataclass(frozen=True, kw_only=True)
class RidgeSolver(LandmarkSolver):
    """Minimise, exactly, penalty / 2 ||f||^2 + 1/2 mean_i (y_i - f(x_i) - b)^2, f = sum_j w_j k(., l_j).

    Classes are learned as +1 and -1, several against the rest at once: the sums are the same for all. One round over
    the rows, O(rows n_landmarks^2), whatever the penalty; the solution is O(n_landmarks^3).

    kernel, bandwidth, .. : see LeastSquaresSolver and LandmarkSolver; polynomial is a kernel, too, and linear: the
        inputs themselves; 1,000 landmarks by default
    degree, offset : of the polynomial kernel; standardise : a linear kernel's inputs, by the training rows' statistics
    fit_intercept : whether there is a bias b
    huber : of a regression, threshold of Huber's loss in robust standard deviations of the residuals; None: squares
    Source: Rifkin, Yeo & Poggio, Regularized least-squares classification, 2003; Rudi, Carratino & Rosasco, NIPS 2017,
    (8), solved directly.
    """

    precision: Precision = "float64"
    degree: int = 3
    offset: float = 1.0
    standardise: bool = False
    fit_intercept: bool = True
    huber: float | None = None

    def __post_init__(self) -> None:
        kernel_of_bandwidth(self.kernel, 1.0, self.degree, self.offset)
        super().__post_init__()
        if self.huber is not None:
            check_positive("huber", self.huber)

    def check(self, schema: Schema, rows: int | None) -> None:
        """Raise ConfigError or DataError before rows are read. rows : to train on, None if unknown."""
        check_landmarks(schema, rows, self.n_landmarks)
        if self.huber is not None and schema.task != "regression":
            raise ConfigError(f"huber = {self.huber:g} is for a regression, but the task is {schema.task}. Remove it.")

    def start(self, data: Dataset, execution: Execution) -> RidgeState:
        """Choose bandwidth and landmarks from a sample; ConfigError or DataError as `check` raises."""
        self.check(data.schema, data.rows("train"))
        sample = self._sample(data)
        clip = None if self.huber is None else Clip.of_far_targets(data.schema, sample.targets)
        return RidgeState(*self.basis_of(sample.inputs, sample.inputs, data.schema), 0, None, clip=clip)

    def basis_of(self, sample: Any, candidates: Any, schema: Schema | None = None) -> tuple[Basis, dict[str, Any]]:
        """Return the basis for sampled inputs and candidates (rows, n_inputs), and the choice with its reason."""
        if self.kernel == "linear":
            if self.standardise and schema is not None:
                return MapBasis(StandardisedLinear.of_schema(schema, self.precision)), {}
            return MapBasis(plain_inputs(sample.shape[1], self.precision)), {}
        kernel, chosen = kernel_with_bandwidth(self.kernel, self.bandwidth, sample, self.degree, self.offset)
        n_landmarks = min(candidates.shape[0], self.n_landmarks or N_LANDMARKS)
        landmarks = choose_landmarks(kernel, candidates, n_landmarks, self.landmarks, self.seed)
        chosen = chosen | {"n_landmarks": n_landmarks}
        if sparse.issparse(landmarks):  # the same functions and penalty, in coordinates of length ||f||
            return MapBasis(fit_nystrom_map(kernel, landmarks, n_landmarks, self.precision)), chosen
        return LandmarkBasis(kernel, np.ascontiguousarray(landmarks)), chosen

    def advance(self, state: RidgeState, data: Dataset, execution: Execution) -> RidgeState:
        """Sum some more chunks of rows; after the last one, solve. Rows fewer than a map's columns are solved at once.

        Huber's loss takes HUBER_ROUNDS more rounds, each with targets clipped around the solution of the one before; in
        the first one, targets that are far from all others are clipped around the median.
        """
        stretches = row_chunks(data)
        number, done = divmod(state.done, len(stretches))
        coming = stretches[done : done + STRETCHES_AT_ONCE]
        outputs = self.outputs_of(data.schema)
        gram, n_rows = state.gram, data.rows("train")
        wide = isinstance(state.basis, MapBasis) and data.schema.sparse is None and n_rows < state.basis.n_columns
        if not wide:
            work = partial(gram_of_pieces, data, state.basis, outputs, self.precision, state.clip)
            for part in execution.map(work, coming):
                gram = part if gram is None else gram.merged(part)
            state = replace(state, done=state.done + len(coming), gram=gram)
            if done + len(coming) < len(stretches):
                return state
        threads = execution.n_threads

        def sample() -> Rows:
            rows = self._sample(data)
            return rows if state.clip is None else state.clip.of(state.basis, rows)

        if wide:  # rows that are fewer than the columns take less memory than the sums
            state = replace(state, done=state.done - done + len(stretches))
            rows = Rows(*map(np.concatenate, zip(*read_pieces(data, pieces_of(data), self.precision), strict=True)))
            rows = rows if state.clip is None else state.clip.of(state.basis, rows)
            some = sample() if self.penalty is None else None
            options = self.penalty, self.fit_intercept, threads
            solution = fit_rows(state.basis, rows, outputs, *options, some, calibrate=True)
        else:
            assert gram is not None, "there are rows"
            solution = solve(state.basis, gram, outputs, sample, self.penalty, self.fit_intercept, threads, True)
        if (
            self.huber is None
            or number == HUBER_ROUNDS
            or not (solution.solved and np.isfinite(solution.weights).all())
        ):
            return replace(state, gram=None, solution=solution)
        clip = Clip.around(state.basis, solution.weights, solution.offsets, self._sample(data), self.huber)
        return replace(state, gram=None, clip=clip)

    def finished(self, state: RidgeState) -> Outcome | None:
        """Done once it is solved; diverged where the solution is not finite, or worse than weights that are 0."""
        if state.solution is None:
            return None
        if not np.isfinite(state.solution.weights).all():
            return Outcome("diverged", "the solution is not finite")
        if not state.solution.solved:
            return Outcome(
                "diverged", (f"rounding errors exceed the tolerance for {state.basis.n_columns:,} columns of this size")
            )
        if state.solution.rounded:
            return Outcome("not converged", self._rounded(state.solution)["outcome"])
        return Outcome("done", f"solved{self._clipped}; relative gap {state.solution.proof.relative_gap:.2g}")

    def progress(self, state: RidgeState) -> Convergence:
        """Return the progress in chunks; before the last one weights are 0, and the gap is the whole objective."""
        if state.solution is None:
            return Convergence(state.done, 1.0, 0.0, 0.0)
        proof = state.solution.proof
        return Convergence(state.done, proof.relative_gap, proof.objective, proof.objective - proof.gap)

    def predictor(self, state: RidgeState) -> Predictor:
        assert state.solution is not None, "it has finished"
        return state.solution.predictor(state.basis)

    def chosen(self, state: RidgeState) -> dict[str, Any]:
        if state.solution is None:
            return dict(state.chosen)
        why = "as given" if self.penalty is not None else "least leave-one-out error of sampled training rows"
        return state.chosen | {"penalty": state.solution.penalty, "penalty_reason": why}

    def certificate(self, state: RidgeState) -> dict[str, Any]:
        assert state.solution is not None, "it has finished"
        proof = state.solution.proof
        outcome = f"solved directly{self._clipped}; relative gap {proof.relative_gap:.2g}"
        found = certificate_of(self.progress(state), proof.gap, state.done, outcome)
        return found | self._rounded(state.solution)

    @staticmethod
    def _rounded(solution: RidgeSolution) -> dict[str, Any]:
        if not solution.rounded:
            return {}
        outcome = f"rounding errors exceed a penalty of {solution.penalty:g}; gap {solution.proof.gap:.2g}"
        return {"outcome": outcome, "converged": False, "advice": "use a larger penalty, or leave it out"}

    @property
    def _clipped(self) -> str:
        return "" if self.huber is None else f" for targets clipped in {HUBER_ROUNDS} rounds of Huber's loss"

    def _sample(self, data: Dataset) -> Rows:
        wanted = max(SAMPLE_ROWS, self.n_landmarks or N_LANDMARKS)
        return sample_rows(data, "train", wanted, self.seed, self.precision, MANY_GROUPS)


def check_landmarks(schema: Schema, rows: int | None, n_landmarks: int | None) -> None:
    """Refuse more landmarks (if known) than training rows by ConfigError, a class without rows by DataError."""
    schema.refuse_empty_classes()
    if rows is not None and n_landmarks is not None and n_landmarks > rows:
        raise ConfigError(
            f"n_landmarks = {n_landmarks:,} is more than the {rows:,} training rows. Set a smaller number, or auto."
        )


def plain_inputs(n_inputs: int, precision: Precision) -> StandardisedLinear:
    """Return the map of inputs as they are."""
    return StandardisedLinear(np.zeros(n_inputs, dtype=precision), np.ones(n_inputs, dtype=precision), 0.0)


# Sparse rows.

MOST_COLUMNS = 8192  # products of more would take above half a gigabyte
_MOST_STRETCHES, _LEAST_ROWS = 8, 4096  # fixed, so that bits depend on nothing else


def fit_sparse_rows(
    rows: SomeRows,
    outputs: Outputs,
    sample: Integers,
    penalty: float | None = None,
    fit_intercept: bool = True,
    n_threads: int = 1,
) -> RidgeSolution:
    """Solve linear least squares of sparse rows, at most 8,192 columns; bits do not depend on the number of threads.

    rows : CSR, with targets; sample : indices of rows on which a penalty is found, made dense; ConfigError or DataError
        if it cannot be
    """
    inputs: Any = rows.inputs
    n_columns = inputs.shape[1]
    if n_columns > MOST_COLUMNS:
        raise ConfigError(
            f"The data have {n_columns:,} columns, but least squares take at most "
            f"{MOST_COLUMNS:,}. Use L2SVMClassifier or LogisticClassifier, which have no such "
            "limit."
        )
    if not inputs.has_canonical_format:
        inputs = inputs.copy()  # the user's own, perhaps
        inputs.sum_duplicates()
    basis = MapBasis(plain_inputs(n_columns, "float64"))
    gram = _gram(inputs, basis.n_columns, outputs.of(rows.targets), weights_of(rows, outputs), n_threads)

    def sampled() -> SomeRows:
        dense = inputs[sample].toarray().astype(np.float64)
        return part_of(rows, sample)._replace(inputs=dense)

    return solve(basis, gram, outputs, sampled, penalty, fit_intercept, n_threads)


def _gram(rows: sparse.csr_matrix, n: int, values: Doubles, weights: Doubles | None, n_threads: int) -> Gram:
    """Return sums over rows in a few chunks, added in their order. n : columns, of which the map may have added some"""
    counted = np.ones(len(values)) if weights is None else weights
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # the solver checks that it is finite
        shift = _shift(rows)
        data = rows.data - shift[rows.indices] if shift.any() else as_compiled(rows.data, rows.dtype)
        products, sums = _sums(rows, data, n, counted, n_threads)
        count, value_mean = float(counted.sum()), counted @ values / counted.sum()
        mean = sums / count
        products -= count * np.outer(mean, mean)
        mean[: rows.shape[1]] += shift
        values = values - value_mean
        weighted, cross = values * counted[:, np.newaxis], np.zeros((n, values.shape[1]))
        cross[: rows.shape[1]] = sparse.csr_matrix((data, rows.indices, rows.indptr), rows.shape).T @ weighted
        return Gram(count, mean, products, value_mean, cross, (weighted * values).sum(axis=0))


def _shift(rows: sparse.csr_matrix) -> Doubles:
    """Return the mean of each column that has a value in every row, else 0.

    Sums of a column far from 0 would lose digits. One that has zeros, too, spreads about as far as its mean is.
    """
    full = np.bincount(rows.indices, minlength=rows.shape[1]) == rows.shape[0]
    return np.where(full, np.asarray(rows.mean(axis=0, dtype=np.float64)).ravel(), 0.0)


def _sums(
    rows: sparse.csr_matrix, data: FloatArray, n: int, counted: Doubles, n_threads: int
) -> tuple[Doubles, Doubles]:
    """Return sums of products (n, n), symmetric, and of rows (n,) with data for values and weights counted (rows,)."""
    stretches = cuts(max(1, rows.shape[0] // _LEAST_ROWS), _MOST_STRETCHES)
    ends = np.linspace(0, rows.shape[0], len(stretches) + 1).astype(int)

    def of_stretch(index: int) -> tuple[Doubles, Doubles]:
        products, sums, cut = np.zeros((n, n)), np.zeros(n), slice(ends[index], ends[index + 1])
        starts = rows.indptr[ends[index] : ends[index + 1] + 1]
        add_sparse_products(products, sums, data, rows.indices, starts, np.ascontiguousarray(counted[cut]), 0.0)
        return products, sums

    products, sums = np.zeros((n, n)), np.zeros(n)
    for part in run_tasks(of_stretch, len(stretches), n_threads):
        products += part[0]
        sums += part[1]
    products += np.tril(products, -1).T  # only what is below the diagonal was summed
    return products, sums
