"""Errors of rows that lie together, by models of the rows that lie elsewhere.

Where rows are like their neighbours (readings of a sensor by the minute, patients with several visits), a model that
knows the rows on both sides of one predicts it too easily: leave-one-out errors flatter, most of all those of narrow
kernels. Models of other fifths of the rows tell what is to be expected of rows of another day.

Source: Roberts et al., Ecography 40(8), 2017, of blocks in cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from okl.compiled.blocks import run_threads
from okl.errors import ConfigError
from okl.execution.protocol import Rows
from okl.ridge.basis import Basis
from okl.ridge.gram import Gram, Outputs, gram_of
from okl.ridge.path import PENALTIES, Centred, Tried, centred, errors_of, totals_of
from okl.ridge.solution import refuse_infinite
from okl.types import IntArray, Task

Result = TypeVar("Result")
FOLDS = 5
_STRATA = 10  # of a regression: tenths of the rows by their target


def folds_of(targets: NDArray[np.float64], places: IntArray, task: Task, n_folds: int = FOLDS) -> IntArray:
    """The fold (rows,) of each row: of each class the first fifth by its place, then the second, and so on.

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


def _tenths(targets: NDArray[np.float64], places: IntArray) -> IntArray:
    ranks = np.empty(len(targets), dtype=np.intp)
    ranks[np.lexsort((places, targets))] = np.arange(len(targets))
    tenths: IntArray = ranks * _STRATA // max(1, len(targets))
    return tenths


def leave_folds_out(
    basis: Basis,
    rows: Rows,
    outputs: Outputs,
    folds: IntArray,
    penalties: tuple[float, ...] = PENALTIES,
    n_threads: int = 1,
) -> list[Tried]:
    """Errors of the rows of each fold by the model of all other folds, for each penalty.

    Only penalties above the rounding of every fold's sums are tried. Squared errors are over those of the other folds'
    mean.

    folds : (rows,), at least two different ones; n_threads : bits do not depend on it

    Raises
    ------
    ConfigError : all rows are of one fold
    DataError : sums that are not finite
    """
    parts = [Rows(rows.inputs[folds == fold], rows.targets[folds == fold]) for fold in np.unique(folds)]
    if len(parts) < 2:
        raise ConfigError(
            "No class has two rows, one to learn from and one to predict: choose by rows (--validation rows)."
        )
    grams = _each(len(parts), n_threads, lambda k: gram_of(basis, outputs, (parts[k],)))
    turn = basis.turn()

    def of_others(k: int) -> Centred:
        gram = reduce(Gram.merged, [one for other, one in enumerate(grams) if other != k])
        refuse_infinite(gram)
        return centred(turn, gram)

    sums = _each(len(parts), n_threads, of_others)
    above = tuple(one for one in penalties if all(some.count * one > some.noise for some in sums)) or penalties[-1:]
    totals = [
        totals_of(basis, some, outputs, part, above, n_threads, among=False)
        for some, part in zip(sums, parts, strict=True)
    ]
    return errors_of(np.sum(totals, axis=0), above, outputs)


def _each(n: int, n_threads: int, work: Callable[[int], Result]) -> list[Result]:
    """work(0) .. work(n - 1), in order; several at once."""
    n_threads = max(1, min(n_threads, n))
    done = run_threads(n_threads, lambda thread: [work(k) for k in range(thread, n, n_threads)])
    return [done[k % n_threads][k // n_threads] for k in range(n)]
