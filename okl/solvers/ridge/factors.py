"""Triangular factors by tiles, with the same bits on any number of threads: the preconditioner of kernel expansions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from okl.compiled.jit import one_blas_thread
from okl.compiled.threads import run_tasks
from okl.foundation.types import Doubles, FloatArray

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
    """Overwrite the tiles below the diagonal by those of the Cholesky factor L, array = L L', and return it.

    diagonal : the tiles on the diagonal, which are replaced

    Raises numpy.linalg.LinAlgError : the matrix is not positive definite
    """
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
    """Overwrite the kernel matrix (m, m) of landmarks by both factors: 2/3 m^3 multiply-adds.

    matrix : symmetric, with what is added to its diagonal

    Raises numpy.linalg.LinAlgError : rounding has made it indefinite
    """
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
