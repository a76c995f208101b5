"""Solutions for any penalty, leave-one-out errors and errors of contiguous folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from okl.compiled.jit import one_blas_thread
from okl.compiled.threads import run_tasks
from okl.data.execution import Rows
from okl.features.predictors import Predictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, IntArray, Task
from okl.metrics.calibration import ScoreCalibration, fit_calibration
from okl.metrics.criterion import criterion_error, standard_error
from okl.solvers.ridge.gram import (
    BLOCK,
    MOST_STRETCHES,
    Basis,
    Clip,
    Gram,
    MapBasis,
    MetricFactor,
    Outputs,
    RowSpace,
    SomeRows,
    cuts,
    gram_of,
    part_of,
    weights_of,
)

# One penalty: one Cholesky factor.

_CLOSE = 1e-7  # relative gap: beyond it rounding matters, and eigenvalues are more accurate


@stored("ridge-residual-bound")
@dataclass(frozen=True)
class RidgeProof:
    """Objective of weights, per unit of weight of the rows, and how far above the optimum it is at most.

    objective : penalty / 2 ||f||^2 + 1/2 mean of squared residuals, summed over outputs; gap : >= 0
    """

    objective: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """Return the gap over the objective."""
        return self.gap / max(self.objective, np.finfo(float).tiny)


def proof_of(count: float, scale: float, residual_norm: float, norm: float, slope: float) -> RidgeProof:
    """Bound P(w) - P* = 1/2 g' H^(-1) g <= ||g||^2 / (2 scale) by strong convexity, g the gradient.

    scale : count * penalty; residual_norm : sum of squared residuals; norm : ||f||^2; slope : ||g||^2, where the
    penalty is the squared length

    Source: Boyd & Vandenberghe, Convex Optimization, 2004, (9.9).
    """
    return RidgeProof(0.5 * (scale * norm + residual_norm) / count, slope / (2.0 * scale) / count)


def residual(squares: Doubles, cross: Doubles, weights: Doubles, moved: Doubles) -> float:
    """Return the sum of squared residuals of weights (n, n_outputs). moved : products @ weights"""
    return max(0.0, float(np.sum(squares) - 2.0 * np.sum(weights * cross) + np.sum(weights * moved)))


@dataclass(frozen=True, eq=False)
class Direct:
    """Weights (n, n_outputs) of the columns, offsets (n_outputs,), and the proof that they are the optimum's."""

    weights: Doubles
    offsets: Doubles
    proof: RidgeProof


def solve_directly(turn: MetricFactor, gram: Gram, penalty: float, fit_intercept: bool) -> Direct | None:
    """Solve (products + count penalty P) w = cross by a Cholesky factor, None where rounding is in the way."""
    about, scale = gram if fit_intercept else gram.about_origin(), gram.count * penalty
    pull = scale * (np.eye(len(gram.mean)) if turn.matrix is None else turn.matrix)
    with one_blas_thread():
        try:
            factor = cho_factor(about.products + pull, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        weights = cho_solve(factor, about.cross, check_finite=False)
        # once more for what rounding has left: the matrix is as ill-conditioned as that of the landmarks
        weights += cho_solve(factor, about.cross - about.products @ weights - pull @ weights, check_finite=False)
        moved, pulled = about.products @ weights, pull @ weights
        gradient = moved + pulled - about.cross
        if turn.factor is not None:
            gradient = solve_triangular(turn.factor, gradient, lower=True, check_finite=False)
    norm, slope = float(np.sum(weights * pulled)) / scale, float(np.sum(gradient**2))
    proof = proof_of(gram.count, scale, residual(about.squares, about.cross, weights, moved), norm, slope)
    if not proof.relative_gap <= _CLOSE:
        return None
    return Direct(weights, about.value_mean - about.mean @ weights, proof)


# Any penalty, and leave-one-out errors.

PENALTIES = tuple(10.0 ** (0.5 * k) for k in range(-18, 3))
"Penalties that are tried if none is given: 1e-9 to 10, half a decade apart."

_FEW = 1000
_LEAST_SLACK = 1e-10  # of 1 - h, which is accurate far above it; a larger one shows the classes of large weights
_MOST_SCORES = 1 << 26  # that are kept to judge and to calibrate by; of very many classes, of fewer rows


@stored("ridge-path-point")
@dataclass(frozen=True)
class PenaltyErrors:
    """A penalty and the leave-one-out errors of the sampled rows.

    squared_error : mean of squares, summed over outputs, over that of the mean; mistake_rate : None for a regression
    judged : error by a criterion other than accuracy and squared error, else None; chance : difference of errors below
        which squared errors decide
    """

    penalty: float
    squared_error: float
    mistake_rate: float | None
    judged: float | None = None
    chance: float = 0.0

    @property
    def error(self) -> float:
        """Return the error by the criterion."""
        if self.judged is not None:
            return self.judged
        return self.squared_error if self.mistake_rate is None else self.mistake_rate


@dataclass(frozen=True, eq=False)
class Centred:
    """The sums about their means, in coordinates in which the penalty is the squared length.

    products (n, n) symmetric, cross (n, n_outputs), squares (n_outputs,); means of columns (n,) and of values
    (n_outputs,): 0 without a bias; eigenvalues and vectors of products; noise : what rounding has made of eigenvalues
    that are 0, as the lowest one shows: with landmarks that are nearly alike it is much more than that of the sums
    """

    count: float
    turn: MetricFactor
    products: Doubles
    cross: Doubles
    squares: Doubles
    mean: Doubles
    value_mean: Doubles
    values: Doubles
    vectors: Doubles
    fit_intercept: bool
    noise: float

    def weights(self, penalty: float) -> Doubles:
        """Return weights (n, n_outputs) in these coordinates: (products + count penalty I)^(-1) cross."""
        with one_blas_thread():
            shrunk = (self.vectors.T @ self.cross) / (self.values + self.count * penalty)[:, np.newaxis]
            weights: Doubles = self.vectors @ shrunk
        return weights


def centred(turn: MetricFactor, gram: Gram, fit_intercept: bool = True) -> Centred:
    """Take the means out, turn (as the basis), and find the eigenvalues: O(n_columns^3), once for all penalties."""
    about = gram if fit_intercept else gram.about_origin()
    with one_blas_thread():
        products, cross = turn.of_products(about.products), turn.of_columns(about.cross.T).T
        values, vectors = np.linalg.eigh(products)
    return Centred(
        gram.count,
        turn,
        products,
        cross,
        about.squares,
        about.mean,
        about.value_mean,
        np.maximum(values, 0.0),
        vectors,
        fit_intercept,
        max(0.0, -float(values[0])),
    )


def above_rounding(sums: Sequence[Centred], penalties: tuple[float, ...] = PENALTIES) -> tuple[float, ...]:
    """Return the penalties above the rounding errors of all sums: with smaller ones no certificate would hold."""
    above = tuple(penalty for penalty in penalties if all(some.count * penalty > some.noise for some in sums))
    return above or penalties[-1:]


class LeftOut(NamedTuple):
    """Errors and scores of rows by models that did not learn from them.

    totals : weights of rows, their squares about the mean, and for each penalty its residuals and mistakes
    classes : (some rows,) indices; scores : (some rows, n_outputs, n_penalties); weights : (some rows,), without those
        of classes; all empty for a regression
    """

    totals: Doubles
    classes: IntArray
    scores: NDArray[np.float32]
    weights: Doubles

    @staticmethod
    def of_parts(parts: Sequence[LeftOut]) -> LeftOut:
        """Return the same of the rows of all parts, in their order."""
        totals, *of_rows = zip(*parts, strict=True)
        return LeftOut(np.sum(totals, axis=0), *map(np.concatenate, of_rows))

    def of_penalty(self, index: int) -> Doubles:
        """Return scores (rows,) or (rows, n_outputs) by the models of one penalty."""
        scores = self.scores[:, :, index].astype(np.float64)
        return scores[:, 0] if scores.shape[1] == 1 else scores


def leave_one_out(
    basis: Basis,
    sums: Centred,
    outputs: Outputs,
    sample: Rows,
    penalties: tuple[float, ...] = PENALTIES,
    n_threads: int = 1,
) -> list[PenaltyErrors]:
    """Return errors of each sampled row by the model of all rows but this one, for each penalty, without solving again.

    y - f_(-i)(x) = (y - f(x)) / (1 - h),    h = v (z'(products + count penalty I)^(-1) z + 1 / count)

    where count penalty stays what it is without the row. A row with h = 1 but for rounding is predicted by the mean.

    sample : rows that are among those of the sums; n_threads : bits do not depend on it

    Source: Cook & Weisberg, Residuals and Influence in Regression, 1982, (2.2.8); Rifkin & Lippert,
    MIT-CSAIL-TR-2007-025.
    """
    return errors_of(left_out(basis, sums, outputs, sample, penalties, n_threads, among=True), penalties, outputs)


def left_out(
    basis: Basis,
    sums: Centred,
    outputs: Outputs,
    sample: SomeRows,
    penalties: tuple[float, ...],
    n_threads: int,
    among: bool,
) -> LeftOut:
    """Return errors and scores of rows for each penalty; among : they are in the sums, and each is taken out."""
    inverses = 1.0 / (sums.values[:, np.newaxis] + sums.count * np.array(penalties))
    constant = 1.0 / sums.count if sums.fit_intercept else 0.0
    firsts = range(0, len(sample.targets), BLOCK)
    of_row = len(penalties) * outputs.n_outputs
    kept_rows = 0 if outputs.task == "regression" else max(1, _MOST_SCORES // max(1, of_row * len(firsts)))
    with one_blas_thread():
        aimed = sums.vectors.T @ sums.cross
        turn = sums.turn.back(sums.vectors)

        def of_block(first: int) -> LeftOut:
            rows = part_of(sample, slice(first, first + BLOCK))
            values, weights = outputs.of(rows.targets), weights_of(rows, outputs)
            counted = np.ones(len(values)) if weights is None else weights
            columns = np.asarray(basis.columns(rows.inputs), dtype=np.float64) - sums.mean
            turned = columns @ turn
            slacks = np.ones((len(values), len(penalties)))
            if among:
                slacks -= counted[:, np.newaxis] * (turned**2 @ inverses + constant)
            classes = outputs.classes(values)
            scores = np.empty((len(values[:kept_rows]), outputs.n_outputs, len(penalties)), dtype=np.float32)
            errors = [float(counted.sum()), float(counted @ ((values - sums.value_mean) ** 2).sum(axis=1))]
            for k in range(len(penalties)):
                about_mean, slack = values - sums.value_mean, slacks[:, k, np.newaxis]
                residuals = about_mean - turned @ (aimed * inverses[:, k, np.newaxis])
                without = np.where(slack > _LEAST_SLACK, residuals / np.maximum(slack, _LEAST_SLACK), about_mean)
                wrong = outputs.classes(values - without) != classes
                errors += [float(counted @ (without**2).sum(axis=1)), float(counted @ wrong)]
                scores[:, :, k] = (values - without)[:kept_rows]
            own = np.ones(len(values)) if isinstance(rows, Rows) else rows.weights
            return LeftOut(np.array(errors), classes[:kept_rows], scores, own[:kept_rows])

        blocks = run_tasks(lambda index: of_block(firsts[index]), len(firsts), n_threads)
    return LeftOut.of_parts(blocks)


def errors_of(found: LeftOut, penalties: tuple[float, ...], outputs: Outputs) -> list[PenaltyErrors]:
    """Return the errors of each penalty."""
    totals = found.totals
    count, spread = totals[0], max(totals[1], np.finfo(np.float64).tiny)
    errors = [
        PenaltyErrors(penalty, float(squares / spread), None if outputs.task == "regression" else float(wrong / count))
        for penalty, squares, wrong in zip(penalties, totals[2::2], totals[3::2], strict=True)
    ]
    if outputs.task == "regression" or outputs.criterion == "accuracy":
        return errors
    return [_judged(fit, found.of_penalty(k), found.classes, outputs) for k, fit in enumerate(errors)]


class ScoresLeftOut(NamedTuple):
    """Rows that a model did not learn from: targets (rows,), scores (rows, n_outputs), and the errors of these."""

    targets: Doubles
    scores: Doubles
    errors: PenaltyErrors

    def calibration(self, least: int = 0) -> ScoreCalibration | None:
        """Return the calibration of the scores of classes; None for a regression, or rows of one class.

        least : rows of the second most frequent class, below which there is none
        """
        if self.errors.mistake_rate is None:
            return None
        two = self.scores.shape[1] == 1
        classes = np.asarray(self.targets > 0.0 if two else self.targets).astype(np.int64)
        counts = np.bincount(classes, minlength=2 if two else self.scores.shape[1])
        if np.sort(counts)[-2] < max(least, 1):
            return None
        return fit_calibration(self.scores[:, 0] if two else self.scores, classes, mixes=True)


def errors_of_scores(
    scores: Doubles, targets: Doubles, outputs: Outputs, penalty: float, mean: Doubles | None = None
) -> PenaltyErrors:
    """Return errors of scores (rows, n_outputs) of rows not learned from; mean : of values, None for theirs."""
    values, weights = outputs.of(targets), outputs.weights(targets)
    counted = np.ones(len(values)) if weights is None else weights
    mean = counted @ values / counted.sum() if mean is None else mean
    classes = outputs.classes(values)
    totals = [
        counted.sum(),
        counted @ ((values - mean) ** 2).sum(axis=1),
        counted @ ((values - scores) ** 2).sum(axis=1),
        counted @ (outputs.classes(scores) != classes),
    ]
    n_kept = 0 if outputs.task == "regression" else len(scores)
    kept = scores[:n_kept].astype(np.float32)[:, :, np.newaxis]
    (errors,) = errors_of(LeftOut(np.array(totals), classes[:n_kept], kept, np.ones(n_kept)), (penalty,), outputs)
    return errors


def _judged(fit: PenaltyErrors, scores: Doubles, classes: IntArray, outputs: Outputs) -> PenaltyErrors:
    if not np.isfinite(scores).all():
        return replace(fit, squared_error=np.inf, judged=np.inf)
    error = criterion_error(outputs.criterion, scores, classes)
    counts = np.bincount(classes, minlength=max(2, outputs.n_outputs)).tolist()
    spread = standard_error(outputs.criterion, error, counts)
    return replace(fit, judged=error, chance=spread * min(1.0, _FEW / len(classes)) ** 0.5)


def best_of(tried: list[PenaltyErrors], n_rows: int) -> PenaltyErrors:
    """Return the least error, or least squared error of those not clearly worse; DataError if rounding spoils all."""
    finite = [fit for fit in tried if np.isfinite(fit.squared_error)]
    if not finite:
        raise DataError(
            "Leave-one-out errors are not finite for any penalty. Scale the columns (okl ingest --scale standard)."
        )
    best = min(finite, key=lambda fit: (fit.error, fit.squared_error))
    if best.mistake_rate is None:
        return best
    chance = best.chance if best.judged is not None else apart(best.mistake_rate, n_rows)
    alike = [fit for fit in finite if fit.error <= best.error + chance]
    return min(alike, key=lambda fit: fit.squared_error)


def apart(mistake_rate: float, n_rows: int) -> float:
    """Return the difference of mistake rates below which squared errors decide between models.

    A standard error of 1,000 rows or fewer; on more rows less of it, as models err on the same rows.
    """
    spread = max(mistake_rate * (1.0 - mistake_rate), 1.0 / n_rows) / n_rows
    return float(np.sqrt(spread * min(1.0, _FEW / n_rows)))


def prove(sums: Centred, weights: Doubles, penalty: float) -> RidgeProof:
    """Return the gap of weights (n, n_outputs) in turned coordinates by strong convexity; see proof_of."""
    scale = sums.count * penalty
    with one_blas_thread():
        moved = sums.products @ weights
    gradient = moved + scale * weights - sums.cross
    residuals = residual(sums.squares, sums.cross, weights, moved)
    return proof_of(sums.count, scale, residuals, float(np.sum(weights**2)), float(np.sum(gradient**2)))


SAMPLE_ROWS = 8192  # whose leave-one-out errors choose a penalty
_ROUNDED = 1e-12
_VACUOUS = 1e-2  # of the objective without weights


@stored("ridge-solution")
@dataclass(frozen=True, eq=False)
class RidgeSolution:
    """Weights (n_outputs, n_columns) of the basis' columns and offsets (n_outputs,), float64; how they were found.

    proof : of the optimum; tried : penalties and their leave-one-out errors, () where it was given
    solved : False where rounding has left weights that are worse than none
    rounded : whether rounding leaves a gap that bounds nothing, under a penalty that was given: it is too small
    calibration : of leave-one-out scores of classes, if requested; None for a given penalty, or rows of one class
    """

    weights: Doubles
    offsets: Doubles
    penalty: float
    proof: RidgeProof
    tried: tuple[PenaltyErrors, ...] = ()
    solved: bool = True
    calibration: ScoreCalibration | None = None
    rounded: bool = False

    @property
    def best(self) -> PenaltyErrors | None:
        """Return errors of the penalty that was chosen; None where it was given."""
        return next((fit for fit in self.tried if fit.penalty == self.penalty), None)

    def predictor(self, basis: Basis) -> Predictor:
        """Return the predictor of the solution; DataError for weights beyond the basis's precision."""
        return basis.predictor(self.weights, self.offsets)


def solve(
    basis: Basis,
    gram: Gram,
    outputs: Outputs,
    sample: Callable[[], SomeRows],
    penalty: float | None = None,
    fit_intercept: bool = True,
    n_threads: int = 1,
    calibrate: bool = False,
) -> RidgeSolution:
    """Return the solution of all sums, for the penalty given or found; the same bits for any threads; or DataError.

    sample : some of the summed rows, on which an open penalty is chosen; calibrate : whether scores are calibrated
    """
    refuse_infinite(gram)
    turn, sums, calibration = basis.turn(), None, None
    tried: list[PenaltyErrors] = []
    if penalty is None:
        rows, sums = sample(), centred(turn, gram, fit_intercept)
        above = above_rounding([sums])
        found = left_out(basis, sums, outputs, rows, above, n_threads, among=True)
        tried = errors_of(found, above, outputs)
        best = best_of(tried, len(rows.targets))
        penalty = best.penalty
        if calibrate and len(np.unique(found.classes)) > 1:
            scores = found.of_penalty(tried.index(best))
            calibration = fit_calibration(scores, found.classes, found.weights, mixes=True)
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # what is not finite is not solved
        solution = solve_directly(turn, gram, penalty, fit_intercept)
        if solution is None:
            solution = _by_eigenvalues(sums or centred(turn, gram, fit_intercept), penalty)
        proof, without = solution.proof, _without_weights(gram, fit_intercept)
        proved = bool(proof.objective <= without and np.isfinite(proof.gap))
        rounded = not tried and proof.gap > max(proof.objective, _VACUOUS * without)
    return RidgeSolution(
        solution.weights.T.copy(), solution.offsets, penalty, proof, tuple(tried), proved, calibration, bool(rounded)
    )


def _by_eigenvalues(sums: Centred, penalty: float) -> Direct:
    turned = sums.weights(penalty)
    weights = sums.turn.back(turned)
    return Direct(weights, sums.value_mean - sums.mean @ weights, prove(sums, turned, penalty))


def _without_weights(gram: Gram, fit_intercept: bool) -> float:
    """Return the objective of weights that are 0, and what rounding of the values may add to it."""
    spread, mean = float(gram.squares.sum()) / gram.count, float((gram.value_mean**2).sum())
    return 0.5 * (spread if fit_intercept else spread + mean) + _ROUNDED * (spread + mean)


def refuse_infinite(gram: Gram) -> None:
    """Raise DataError that names the sums that are not finite."""
    if not np.isfinite(gram.products).all():
        raise DataError(
            "Sums of products of the inputs are not finite. Scale the columns (okl ingest --scale standard)."
        )
    if not (np.isfinite(gram.cross).all() and np.isfinite(gram.squares).all()):
        raise DataError(
            "Sums of squares of the target are not finite, as it has values of about 1e150. Use "
            "a larger unit of the target."
        )


def fit_rows(
    basis: Basis,
    rows: SomeRows,
    outputs: Outputs,
    penalty: float | None = None,
    fit_intercept: bool = True,
    n_threads: int = 1,
    sample: SomeRows | None = None,
    calibrate: bool = False,
) -> RidgeSolution:
    """Return the same of rows in memory; bits do not depend on the number of threads.

    Where a map has more columns than there are rows, the sums are of coordinates in what the rows span.

    sample : of these rows, on which a penalty is found; None for the first 8,192; calibrate : as in `solve`
    """
    if isinstance(basis, MapBasis) and len(rows.targets) < basis.n_columns:
        space = RowSpace.of(basis, rows.inputs, fit_intercept)
        found = fit_rows(space, rows, outputs, penalty, fit_intercept, n_threads, sample, calibrate)
        weights = found.weights @ space.directions.T
        return replace(found, weights=weights, offsets=found.offsets - weights @ space.mean)
    stretches = cuts(-(-len(rows.targets) // BLOCK), MOST_STRETCHES)
    at_once = max(1, min(n_threads, len(stretches)))

    def of_stretch(first: int, last: int) -> Gram:
        return gram_of(basis, outputs, (part_of(rows, slice(first * BLOCK, last * BLOCK)),))

    gram: Gram | None = None
    for start in range(0, len(stretches), at_once):  # no more sums are held at once than there are threads
        some = stretches[start : start + at_once]
        for part in run_tasks(lambda index, some=some: of_stretch(*some[index]), len(some), at_once):  # type: ignore[misc]
            gram = part if gram is None else gram.merged(part)
    assert gram is not None, "there are rows"
    taken = sample or part_of(rows, slice(SAMPLE_ROWS))
    return solve(basis, gram, outputs, lambda: taken, penalty, fit_intercept, n_threads, calibrate)


# Errors of contiguous folds.
#
# Where rows are like their neighbours (readings of a sensor by the minute, patients with several visits), a model
# that knows the rows on both sides of one predicts it too easily: leave-one-out errors flatter, most of all those of
# narrow kernels. Models of other fifths of the rows estimate the error on rows of another day.
#
# Source: Roberts et al., Ecography 40(8), 2017, of blocks in cross-validation.

FOLDS = 5
_STRATA = 10  # of a regression: tenths of the rows by their target


def folds_of(targets: Doubles, places: IntArray, task: Task, n_folds: int = FOLDS) -> IntArray:
    """Return the fold (rows,) of each row: of each class the first fifth by its place, then the second, and so on.

    Classes are cut apart, a regression's rows by tenths of the target: a file that is sorted by it has folds, too.

    targets : (rows,), as `Rows` has them; places : (rows,), all different, such as positions in a file
    """
    kinds = _tenths(targets, places) if task == "regression" else targets
    _, strata, sizes = np.unique(kinds, return_inverse=True, return_counts=True)
    order = np.lexsort((places, strata))
    within = np.arange(len(targets)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    folds = np.empty(len(targets), dtype=np.intp)
    folds[order] = within * n_folds // np.repeat(sizes, sizes)
    return folds


def _tenths(targets: Doubles, places: IntArray) -> IntArray:
    ranks = np.empty(len(targets), dtype=np.intp)
    ranks[np.lexsort((places, targets))] = np.arange(len(targets))
    return ranks * _STRATA // max(1, len(targets))


def leave_folds_out(
    basis: Basis,
    rows: Rows,
    outputs: Outputs,
    folds: IntArray,
    penalties: tuple[float, ...] = PENALTIES,
    n_threads: int = 1,
) -> list[PenaltyErrors]:
    """Return errors of the rows of each fold by the model of all other folds, for each penalty.

    Only penalties above the rounding of every fold's sums are tried. Squared errors are over those of the other folds'
    mean.

    folds : (rows,), at least two different ones; n_threads : bits do not depend on it
    Raises ConfigError : all rows are of one fold
    Raises DataError : sums that are not finite
    """
    found, above = _folds_left_out(basis, rows, outputs, folds, penalties, n_threads)
    return errors_of(found, above, outputs)


def calibration_of_folds(
    basis: Basis, rows: Rows, outputs: Outputs, folds: IntArray, penalty: float, n_threads: int = 1
) -> ScoreCalibration | None:
    """Return the calibration of the scores of each fold's rows by the model of all others; see `leave_folds_out`.

    None for rows of one class.
    """
    found, _ = _folds_left_out(basis, rows, outputs, folds, (penalty,), n_threads)
    if len(np.unique(found.classes)) < 2:
        return None
    return fit_calibration(found.of_penalty(0), found.classes, found.weights, mixes=True)


def _folds_left_out(
    basis: Basis, rows: Rows, outputs: Outputs, folds: IntArray, penalties: tuple[float, ...], n_threads: int
) -> tuple[LeftOut, tuple[float, ...]]:
    """Return errors and scores of the rows by the models of all other folds, and the penalties that were tried."""
    parts = [Rows(rows.inputs[folds == fold], rows.targets[folds == fold]) for fold in np.unique(folds)]
    if len(parts) < 2:
        raise ConfigError(
            "No class has two rows, one to train on and one to predict. Validate by rows (--validation rows)."
        )
    grams = run_tasks(lambda k: gram_of(basis, outputs, (parts[k],)), len(parts), n_threads)
    turn = basis.turn()

    def of_others(k: int) -> Centred:
        gram = reduce(Gram.merged, [penalty for other, penalty in enumerate(grams) if other != k])
        refuse_infinite(gram)
        return centred(turn, gram)

    sums = run_tasks(of_others, len(parts), n_threads)
    above = above_rounding(sums, penalties)
    found = [
        left_out(basis, some, outputs, part, above, n_threads, among=False)
        for some, part in zip(sums, parts, strict=True)
    ]
    return LeftOut.of_parts(found), above


# Huber's loss, compared with squares.

HUBER = 1.345  # robust standard deviations: 95% of the efficiency of least squares for normal errors
HUBER_ROUNDS = 2  # the share of clipped rows is the rate of convergence; further ones change R2 by less than .0005
_LEAST_KURTOSIS = 4.5  # of residuals; 3 if they are normal, 6 of Laplace's distribution


@dataclass(frozen=True)
class LossComparison:
    """Squared errors of Huber's loss and of least squares on held-out folds, over that of the mean.

    huber, squared : errors; gain : squared less huber; chance : standard error of the gain over the rows
    """

    huber: float
    squared: float
    gain: float
    chance: float

    @property
    def is_better(self) -> bool:
        """Return whether Huber's loss is better beyond a standard error."""
        return self.gain > self.chance


def compare_losses(
    basis: Basis, rows: Rows, outputs: Outputs, folds: IntArray, n_threads: int = 1
) -> LossComparison | None:
    """Compare Huber's loss with least squares on held-out folds; None where the residuals have light tails.

    Leave-one-out errors would flatter Huber's loss, as the targets of other rows are clipped around a model that knows
    the row. Each loss has the penalty of its least leave-one-out error on the other folds.

    rows : rows in memory of a regression; folds : (rows,), the fold of each row
    """
    errors = np.empty((2, len(rows.targets)))
    for fold in np.unique(folds):
        held = folds == fold
        known = part_of(rows, np.flatnonzero(~held))
        assert isinstance(known, Rows), "they have no weights"
        fits = huber_path(basis, known, outputs, n_threads)
        errors[0, held] = rows.targets[held] - next(fits).scores(basis, rows.inputs[held])
        with np.errstate(over="ignore", invalid="ignore"):
            apart = errors[0, held] - errors[0, held].mean()
            if not np.mean(apart**4) > _LEAST_KURTOSIS * np.mean(apart**2) ** 2:
                return None
        for fit in fits:
            errors[1, held] = rows.targets[held] - fit.scores(basis, rows.inputs[held])
    squared, huber = np.square(errors) / max(float(np.var(rows.targets)), np.finfo(np.float64).tiny)
    gains = squared - huber
    chance = float(gains.std() / len(gains) ** 0.5)
    return LossComparison(float(huber.mean()), float(squared.mean()), float(gains.mean()), chance)


SKEWED = 2.0
"""Skewness of positive targets, or of counts, from which on their logarithm is tried."""
_CLOSER = 0.8  # times the squared error of logarithms: they are predicted much better


class LogarithmComparison(NamedTuple):
    """Squared errors on held-out folds of models of log(target) and of the target, over those of the mean.

    log, plain : errors of targets; is_better : whether the logarithm is better beyond two standard errors
    relative, plain_relative : the same errors of logarithms, that is of relative errors
    added : 1 for counts some of which are 0, whose logarithm is that of 1 + target, otherwise 0
    """

    log: float
    plain: float
    is_better: bool
    relative: float
    plain_relative: float
    added: int

    @property
    def is_closer(self) -> bool:
        """Return whether relative errors of models of the logarithm are much smaller."""
        return self.relative < _CLOSER * min(1.0, self.plain_relative)  # 1: a constant has no smaller error


def compare_logarithm(
    basis: Basis, rows: Rows, outputs: Outputs, folds: IntArray, n_threads: int = 1
) -> LogarithmComparison | None:
    """Compare models of log(target) with those of the target; None where targets are not positive and skewed.

    Predictions from logarithms are scaled to the mean of the training targets. The logarithm of a prediction is at
    least that of the least target.
    """
    targets = rows.targets.astype(np.float64)
    spread, added = float(targets.std()), int(targets.min() == 0.0 and bool((targets == np.rint(targets)).all()))
    if targets.min() + added <= 0.0 or not np.mean((targets - targets.mean()) ** 3) > SKEWED * spread**3:
        return None
    logs = np.log(targets + added)
    errors, relative = np.empty((2, 2, len(targets)))
    for fold in np.unique(folds):
        held = folds == fold
        for number, values in enumerate((logs, targets)):
            known = Rows(rows.inputs[~held], values[~held])
            fit = next(huber_path(basis, known, outputs, n_threads))
            predicted = [np.asarray(fit.scores(basis, rows.inputs[some]), dtype=np.float64) for some in (held, ~held)]
            if number == 0:
                relative[number, held] = logs[held] - predicted[0]
                most = float(logs.max()) + 1.0  # an extrapolation in logarithms would be no rival
                scores, fitted = (np.exp(np.minimum(each, most)) for each in predicted)
                predicted[0] = scores * ((targets[~held] + added).mean() / fitted.mean()) - added
            else:
                relative[number, held] = logs[held] - np.log(np.maximum(predicted[0], targets.min()) + added)
            errors[number, held] = targets[held] - predicted[0]
    log, plain = np.square(errors / spread)
    gains = plain - log
    better = bool(gains.mean() > 2.0 * gains.std() / len(gains) ** 0.5)
    of_log, of_plain = np.square(relative / logs.std()).mean(axis=1).tolist()
    return LogarithmComparison(float(log.mean()), float(plain.mean()), better, of_log, of_plain, added)


def huber_path(basis: Basis, rows: Rows, outputs: Outputs, n_threads: int = 1) -> Iterator[Clip]:
    """Yield the least squares model of rows in memory, then that of each round of Huber's loss."""
    sums = centred(basis.turn(), gram_of(basis, outputs, (rows,)))
    penalties = above_rounding([sums])
    clipped = rows
    for number in range(HUBER_ROUNDS + 1):
        if number:  # the products stay as they are
            gram = gram_of(basis, outputs, (clipped,))
            cross = sums.turn.of_columns(gram.cross.T).T
            sums = replace(sums, cross=cross, squares=gram.squares, value_mean=gram.value_mean)
        sample = Rows(clipped.inputs[:SAMPLE_ROWS], clipped.targets[:SAMPLE_ROWS])
        tried = leave_one_out(basis, sums, outputs, sample, penalties, n_threads)
        direct = _by_eigenvalues(sums, best_of(tried, len(sample.targets)).penalty)
        fit = Clip.around(basis, direct.weights.T, direct.offsets, rows, HUBER)
        yield fit
        clipped = fit.of(basis, rows)
