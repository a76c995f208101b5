"""The solution of kernel least squares, from sums of shards or from rows in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import run_threads
from okl.compiled.door import one_blas_thread
from okl.errors import DataError
from okl.execution.protocol import Rows
from okl.predictors import Predictor
from okl.ridge.basis import Basis
from okl.ridge.direct import Direct, Proof, solve_directly
from okl.ridge.gram import BLOCK, MOST_STRETCHES, Gram, Outputs, cuts, gram_of
from okl.ridge.path import PENALTIES, Centred, Tried, best_of, centred, leave_one_out, prove

SAMPLE_ROWS = 8192  # whose leave-one-out errors choose a penalty
_ROUNDED = 1e-12


@dataclass(frozen=True, eq=False)
class RidgeSolution:
    """Weights (n_outputs, n_columns) of the basis' columns and offsets (n_outputs,), float64; how they were found.

    proof : of the optimum; tried : penalties and their leave-one-out errors, () where it was given
    solved : False where rounding has left weights that are worse than none
    """

    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    penalty: float
    proof: Proof
    tried: tuple[Tried, ...] = ()
    solved: bool = True

    @property
    def best(self) -> Tried | None:
        """Errors of the penalty that was chosen; None where it was given."""
        return next((one for one in self.tried if one.penalty == self.penalty), None)

    def predictor(self, basis: Basis) -> Predictor:
        """What scores rows by it.

        Raises
        ------
        DataError : weights beyond what the precision of the basis holds
        """
        return basis.predictor(self.weights, self.offsets)


def solve(
    basis: Basis,
    gram: Gram,
    outputs: Outputs,
    sample: Callable[[], Rows],
    penalty: float | None = None,
    fit_intercept: bool = True,
    n_threads: int = 1,
) -> RidgeSolution:
    """The solution of all sums, for the penalty given or found; bits do not depend on the number of threads.

    sample : gives some of the rows that were summed, on which a penalty is found; asked only if none is given

    Raises
    ------
    DataError : sums that are not finite
    """
    refuse_infinite(gram)
    turn, sums = basis.turn(), None
    tried: list[Tried] = []
    if penalty is None:
        rows, sums = sample(), centred(turn, gram, fit_intercept)
        # smaller ones would be of nothing but rounding, and no certificate would hold
        above = tuple(one for one in PENALTIES if sums.count * one > sums.noise) or PENALTIES[-1:]
        tried = leave_one_out(basis, sums, outputs, rows, above, n_threads)
        penalty = best_of(tried, len(rows.targets)).penalty
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # what is not finite is not solved
        found = solve_directly(turn, gram, penalty, fit_intercept)
        if found is None:
            found = _by_eigenvalues(sums or centred(turn, gram, fit_intercept), penalty)
        proved = found.proof.objective <= _without_weights(gram, fit_intercept) and np.isfinite(found.proof.gap)
    return RidgeSolution(found.weights.T.copy(), found.offsets, penalty, found.proof, tuple(tried), bool(proved))


def _by_eigenvalues(sums: Centred, penalty: float) -> Direct:
    turned = sums.weights(penalty)
    weights = sums.turn.back(turned)
    return Direct(weights, sums.value_mean - sums.mean @ weights, prove(sums, turned, penalty))


def _without_weights(gram: Gram, fit_intercept: bool) -> float:
    """Objective of weights that are 0, and what rounding of the values may add to it."""
    spread, mean = float(gram.squares.sum()) / gram.count, float((gram.value_mean**2).sum())
    return 0.5 * (spread if fit_intercept else spread + mean) + _ROUNDED * (spread + mean)


def refuse_infinite(gram: Gram) -> None:
    """Raise DataError that says which of the sums are not finite."""
    if not np.isfinite(gram.products).all():
        raise DataError(
            "Sums of products of the inputs are not finite. Scale the columns (okl ingest --scale standard)."
        )
    if not (np.isfinite(gram.cross).all() and np.isfinite(gram.squares).all()):
        raise DataError(
            "Sums of squares of the target are not finite: it has values of 1e150 or so. Give it in a larger unit."
        )


def fit_rows(
    basis: Basis,
    rows: Rows,
    outputs: Outputs,
    penalty: float | None = None,
    fit_intercept: bool = True,
    n_threads: int = 1,
    sample: Rows | None = None,
) -> RidgeSolution:
    """The same of rows in memory; bits do not depend on the number of threads.

    sample : of these rows, on which a penalty is found; None for the first 8,192
    """
    stretches = cuts(-(-len(rows.targets) // BLOCK), MOST_STRETCHES)
    at_once = max(1, min(n_threads, len(stretches)))

    def of_stretch(first: int, last: int) -> Gram:
        cut = slice(first * BLOCK, last * BLOCK)
        return gram_of(basis, outputs, (Rows(rows.inputs[cut], rows.targets[cut]),))

    gram: Gram | None = None
    for begun in range(0, len(stretches), at_once):  # no more sums are held at once than there are threads
        some = stretches[begun : begun + at_once]
        for part in run_threads(len(some), lambda thread, some=some: of_stretch(*some[thread])):  # type: ignore[misc]
            gram = part if gram is None else gram.merged(part)
    assert gram is not None, "there are rows"
    sample = sample or Rows(rows.inputs[:SAMPLE_ROWS], rows.targets[:SAMPLE_ROWS])
    return solve(basis, gram, outputs, lambda: sample, penalty, fit_intercept, n_threads)
