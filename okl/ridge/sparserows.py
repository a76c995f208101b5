"""Sums of products over sparse rows, which pay for the values that they have, and the linear solution from these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.compiled.blocks import as_compiled, run_threads
from okl.compiled.door import one_blas_thread
from okl.compiled.rowpasses import add_sparse_products
from okl.errors import ConfigError
from okl.execution.protocol import Rows
from okl.ridge.basis import MapBasis
from okl.ridge.gram import Gram, Outputs, cuts
from okl.ridge.solution import RidgeSolution, solve
from okl.ridge.solver import plain_inputs
from okl.types import FloatArray

MOST_COLUMNS = 8192  # products of more would take above half a gigabyte
_MOST_STRETCHES, _LEAST_ROWS = 8, 4096  # fixed, so that bits depend on nothing else


def fit_sparse_rows(
    rows: sparse.csr_matrix,
    targets: NDArray[np.float64],
    outputs: Outputs,
    sample: NDArray[np.int64],
    penalty: float | None = None,
    fit_intercept: bool = True,
    n_threads: int = 1,
) -> RidgeSolution:
    """Linear least squares of sparse rows; bits do not depend on the number of threads.

    Parameters
    ----------
    rows : (rows, columns), at most 8,192 columns; targets : (rows,) as `Rows` has them
    sample : indices of rows on which a penalty is found; they are made dense

    Raises
    ------
    ConfigError : too many columns; DataError : sums that are not finite
    """
    n_columns = rows.shape[1]
    if n_columns > MOST_COLUMNS:
        raise ConfigError(
            f"{n_columns:,} columns came, but least squares keep a product of each with each, at most of "
            f"{MOST_COLUMNS:,}. L2SVMClassifier and LogisticClassifier take as many as there are."
        )
    if not rows.has_canonical_format:
        rows = rows.copy()  # the user's own, perhaps
        rows.sum_duplicates()
    basis = MapBasis(plain_inputs(n_columns, "float64"))
    gram = _gram(rows, basis.n_columns, outputs.of(targets), outputs.weights(targets), n_threads)

    def sampled() -> Rows:
        return Rows(rows[sample].toarray().astype(np.float64), targets[sample])

    return solve(basis, gram, outputs, sampled, penalty, fit_intercept, n_threads)


def _gram(
    rows: sparse.csr_matrix,
    n: int,
    values: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    n_threads: int,
) -> Gram:
    """Sums over rows in a few stretches, added in their order. n : columns, of which the map may have added some"""
    counted = np.ones(len(values)) if weights is None else weights
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # whoever solves asks if it is finite
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


def _shift(rows: sparse.csr_matrix) -> NDArray[np.float64]:
    """The mean of each column that has a value in every row, else 0; sums of a column far from 0 would lose digits.

    A column that has zeros, too, spreads about as far as its mean is from 0.
    """
    full = np.bincount(rows.indices, minlength=rows.shape[1]) == rows.shape[0]
    return np.where(full, np.asarray(rows.mean(axis=0, dtype=np.float64)).ravel(), 0.0)


def _sums(
    rows: sparse.csr_matrix, data: FloatArray, n: int, counted: NDArray[np.float64], n_threads: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of products (n, n), symmetric, and of rows (n,) with data for values and weights counted (rows,)."""
    stretches = cuts(max(1, rows.shape[0] // _LEAST_ROWS), _MOST_STRETCHES)
    ends = np.linspace(0, rows.shape[0], len(stretches) + 1).astype(int)
    n_threads = max(1, min(n_threads, len(stretches)))

    def of_stretch(index: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        products, sums, cut = np.zeros((n, n)), np.zeros(n), slice(ends[index], ends[index + 1])
        starts = rows.indptr[ends[index] : ends[index + 1] + 1]
        add_sparse_products(products, sums, data, rows.indices, starts, np.ascontiguousarray(counted[cut]))
        return products, sums

    parts = run_threads(
        n_threads, lambda thread: [of_stretch(index) for index in range(len(stretches))[thread::n_threads]]
    )
    products, sums = np.zeros((n, n)), np.zeros(n)
    for index in range(len(stretches)):
        part = parts[index % n_threads][index // n_threads]
        products += part[0]
        sums += part[1]
    products += np.tril(products, -1).T  # only what is below the diagonal was summed
    return products, sums
