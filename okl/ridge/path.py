"""Least squares for any penalty from the sums, and the penalty of least leave-one-out error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import run_threads
from okl.compiled.door import one_blas_thread
from okl.errors import DataError
from okl.execution.protocol import Rows
from okl.ridge.basis import Basis, Turn
from okl.ridge.direct import Proof, proof_of, residual
from okl.ridge.gram import BLOCK, Gram, Outputs

PENALTIES = tuple(10.0 ** (0.5 * k) for k in range(-18, 3))
"""Tried where none is given: 1e-9 to 10, half a decade apart."""

_FEW = 1000
_LEAST_SLACK = 1e-6  # of 1 - h: below it there is only rounding of kernel values; others say nothing of the row


@dataclass(frozen=True)
class Tried:
    """A penalty and the leave-one-out errors of the sampled rows.

    squared_error : mean of squares, summed over outputs, over that of the mean; mistake_rate : None for a regression
    """

    penalty: float
    squared_error: float
    mistake_rate: float | None

    @property
    def error(self) -> float:
        """What matters to the task."""
        return self.squared_error if self.mistake_rate is None else self.mistake_rate


@dataclass(frozen=True, eq=False)
class Centred:
    """The sums about their means, in coordinates in which the penalty is the squared length.

    products (n, n) symmetric, cross (n, n_outputs), squares (n_outputs,); means of columns (n,) and of values
    (n_outputs,): 0 without a bias; eigenvalues and vectors of products; noise : what rounding has made of eigenvalues
    that are 0, as the lowest one tells: with landmarks that are nearly alike it is much more than that of the sums
    """

    count: float
    turn: Turn
    products: NDArray[np.float64]
    cross: NDArray[np.float64]
    squares: NDArray[np.float64]
    mean: NDArray[np.float64]
    value_mean: NDArray[np.float64]
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    fit_intercept: bool
    noise: float

    def weights(self, penalty: float) -> NDArray[np.float64]:
        """Weights (n, n_outputs) in these coordinates: (products + count penalty I)^(-1) cross."""
        with one_blas_thread():
            shrunk = (self.vectors.T @ self.cross) / (self.values + self.count * penalty)[:, np.newaxis]
            found: NDArray[np.float64] = self.vectors @ shrunk
        return found


def centred(turn: Turn, gram: Gram, fit_intercept: bool = True) -> Centred:
    """Take the means out, turn, and find the eigenvalues: O(n_columns^3), once for all penalties.

    turn : of the basis that the sums are of
    """
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


def leave_one_out(
    basis: Basis,
    sums: Centred,
    outputs: Outputs,
    sample: Rows,
    penalties: tuple[float, ...] = PENALTIES,
    n_threads: int = 1,
) -> list[Tried]:
    """Errors of each sampled row by the model of all rows but this one, for each penalty, without solving again.

    y - f_(-i)(x) = (y - f(x)) / (1 - h),    h = v (z'(products + count penalty I)^(-1) z + 1 / count)

    where count penalty stays what it is without the row. A row with h = 1 but for rounding is predicted by the mean.

    sample : rows that are among those of the sums; n_threads : bits do not depend on it

    Source: Cook & Weisberg, Residuals and Influence in Regression, 1982, (2.2.8); Rifkin & Lippert,
    MIT-CSAIL-TR-2007-025.
    """
    return errors_of(totals_of(basis, sums, outputs, sample, penalties, n_threads, among=True), penalties, outputs)


def totals_of(
    basis: Basis,
    sums: Centred,
    outputs: Outputs,
    sample: Rows,
    penalties: tuple[float, ...],
    n_threads: int,
    among: bool,
) -> NDArray[np.float64]:
    """Weights of rows, their squares about the mean, and of each penalty the squares and the mistakes that are left.

    among : whether the rows are among those of the sums, which are then to be without each; (2 + 2 len(penalties),)
    """
    inverses = 1.0 / (sums.values[:, np.newaxis] + sums.count * np.array(penalties))
    constant = 1.0 / sums.count if sums.fit_intercept else 0.0
    firsts = range(0, len(sample.targets), BLOCK)
    with one_blas_thread():
        aimed = sums.vectors.T @ sums.cross
        turn = sums.turn.back(sums.vectors)

        def of_block(first: int) -> NDArray[np.float64]:
            targets = sample.targets[first : first + BLOCK]
            values, weights = outputs.of(targets), outputs.weights(targets)
            counted = np.ones(len(values)) if weights is None else weights
            columns = np.asarray(basis.columns(sample.inputs[first : first + BLOCK]), dtype=np.float64) - sums.mean
            turned = columns @ turn
            slacks = np.ones((len(values), len(penalties)))
            if among:
                slacks -= counted[:, np.newaxis] * (turned**2 @ inverses + constant)
            errors = [float(counted.sum()), float(counted @ ((values - sums.value_mean) ** 2).sum(axis=1))]
            for k in range(len(penalties)):
                about_mean, slack = values - sums.value_mean, slacks[:, k, np.newaxis]
                residuals = about_mean - turned @ (aimed * inverses[:, k, np.newaxis])
                left = np.where(slack > _LEAST_SLACK, residuals / np.maximum(slack, _LEAST_SLACK), about_mean)
                wrong = outputs.classes(values - left) != outputs.classes(values)
                errors += [float(counted @ (left**2).sum(axis=1)), float(counted @ wrong)]
            return np.array(errors)

        n_threads = max(1, min(n_threads, len(firsts)))
        parts = run_threads(n_threads, lambda thread: [of_block(first) for first in firsts[thread::n_threads]])
    totals: NDArray[np.float64] = np.sum(
        [parts[index % n_threads][index // n_threads] for index in range(len(firsts))], axis=0
    )
    return totals


def errors_of(totals: NDArray[np.float64], penalties: tuple[float, ...], outputs: Outputs) -> list[Tried]:
    """What totals say of each penalty."""
    count, spread = totals[0], max(totals[1], np.finfo(np.float64).tiny)
    return [
        Tried(penalty, float(squares / spread), None if outputs.task == "regression" else float(wrong / count))
        for penalty, squares, wrong in zip(penalties, totals[2::2], totals[3::2], strict=True)
    ]


def best_of(tried: list[Tried], n_rows: int) -> Tried:
    """The least error; of mistake rates that chance does not tell apart, that of the least squared error.

    Raises
    ------
    DataError : no penalty has errors that rounding leaves right
    """
    known = [one for one in tried if np.isfinite(one.squared_error)]
    if not known:
        raise DataError(
            "Leave-one-out errors are not finite for any penalty. Scale the columns (okl ingest --scale standard)."
        )
    best = min(known, key=lambda one: (one.error, one.squared_error))
    if best.mistake_rate is None:
        return best
    alike = [one for one in known if one.error <= best.error + apart(best.mistake_rate, n_rows)]
    return min(alike, key=lambda one: one.squared_error)


def apart(mistake_rate: float, n_rows: int) -> float:
    """By how much mistake rates of models of the same rows have to differ, not to be told apart by squared errors.

    A standard error of 1,000 rows or fewer; on more rows less of it, as models err on the same rows.
    """
    spread = max(mistake_rate * (1.0 - mistake_rate), 1.0 / n_rows) / n_rows
    return float(np.sqrt(spread * min(1.0, _FEW / n_rows)))


def prove(sums: Centred, weights: NDArray[np.float64], penalty: float) -> Proof:
    """The gap of weights (n, n_outputs) in the turned coordinates, by strong convexity.

    g = (products + count penalty I) w - cross; see proof_of.
    """
    scale = sums.count * penalty
    with one_blas_thread():
        moved = sums.products @ weights
    gradient = moved + scale * weights - sums.cross
    left = residual(sums.squares, sums.cross, weights, moved)
    return proof_of(sums.count, scale, left, float(np.sum(weights**2)), float(np.sum(gradient**2)))
