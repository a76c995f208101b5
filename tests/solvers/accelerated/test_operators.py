from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, Precision
from okl.kernels import CustomKernel, Gaussian, Kernel, Laplacian, Polynomial
from okl.solvers.accelerated.fapg import Fapg, solve
from okl.solvers.accelerated.models.svm import CSVM
from okl.solvers.accelerated.operators import TILE_ROWS, DenseRows, KernelTiles, SparseRows, TiledKernel

N_ROWS = 2 * TILE_ROWS + 37  # three tile rows, the last one a part
TILE_BYTES = 8 * TILE_ROWS**2


def rows(n_rows: int = N_ROWS) -> tuple[FloatArray, FloatArray]:
    inputs = np.random.default_rng(0).standard_normal((n_rows, 7))
    return inputs, np.where(inputs[:, 0] * inputs[:, 1] > 0.0, 1.0, -1.0)


def minimum(left: FloatArray, right: FloatArray) -> FloatArray:
    values: FloatArray = np.minimum(np.abs(left[:, None, :]), np.abs(right[None, :, :])).sum(axis=2)
    return values


KERNELS = [Gaussian(3.0), Laplacian(5.0), Polynomial(2, 0.1), CustomKernel("minimum", minimum)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_product_is_that_of_the_whole_matrix(kernel: Kernel) -> None:
    inputs, labels = rows()
    vector = np.random.default_rng(1).standard_normal(N_ROWS)
    out, pulled = np.empty(N_ROWS), np.empty(N_ROWS)
    tiled = TiledKernel(KernelTiles(kernel, inputs), labels)
    tiled.apply(out, vector)
    tiled.adjoint(pulled, out)
    whole = kernel.matrix(inputs, inputs)
    np.testing.assert_allclose(out, labels * (whole @ (labels * vector)), rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(pulled, out)
    np.testing.assert_allclose(tiled.squared_lengths(), np.diagonal(whole), rtol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bits_depend_neither_on_the_budget_nor_on_threads(precision: Precision) -> None:
    inputs, _ = rows()
    vector = np.random.default_rng(1).standard_normal(N_ROWS)
    found = []
    for budget, n_threads in ((0, 1), (2 * TILE_BYTES, 2), (2**30, 1), (2**30, 2)):
        tiles = KernelTiles(Gaussian(3.0), inputs, precision, budget, n_threads)
        for _ in range(2):  # tiles are cached from the first product on
            found.append(np.empty(N_ROWS))
            tiles.multiply(found[-1], vector)
    assert all((out == found[0]).all() for out in found)
    assert KernelTiles(Gaussian(3.0), inputs, budget_bytes=2 * TILE_BYTES).n_held == 2 < tiles.n_tiles == tiles.n_held


def test_solution_is_that_of_explicit_rows_and_labels_share_tiles() -> None:
    inputs, labels = rows(300)
    tiles = KernelTiles(Gaussian(3.0), inputs, budget_bytes=TILE_BYTES)
    factor = np.linalg.cholesky(Gaussian(3.0).matrix(inputs, inputs) + 1e-12 * np.eye(len(inputs)))
    for signs in (labels, np.sign(inputs[:, 2])):
        objectives = []
        for operator in (TiledKernel(tiles, signs), DenseRows(factor, signs)):
            problem = CSVM(1.0).problem(operator)
            state, _ = solve(problem, Fapg(tolerance=1e-7))
            objectives.append(Fapg().solution(state, problem).certificate.primal)
        assert objectives[0] == pytest.approx(objectives[1], rel=1e-6)


def test_bad_tiles_are_named() -> None:
    inputs, labels = rows(10)
    with pytest.raises(ConfigError, match="budget_bytes = -1"):
        KernelTiles(Gaussian(1.0), inputs, budget_bytes=-1)
    with pytest.raises(DataError, match=r"shape \(10,\)"):
        KernelTiles(Gaussian(1.0), labels)
    with pytest.raises(DataError, match="NaN or infinite"):
        KernelTiles(Polynomial(30), 1e20 * inputs)
    with pytest.raises(DataError, match="NaN or infinite"):
        KernelTiles(Gaussian(1.0), np.where(inputs > 1.0, np.nan, inputs))
    with pytest.raises(DataError, match="10 inputs, but 9 labels"):
        TiledKernel(KernelTiles(Gaussian(1.0), inputs), labels[:9])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [[0, 3, 4], [5], [], list(range(7))])
def test_curvature_over_some_columns_of_sparse_rows_is_that_of_dense_ones(columns: list[int], dtype: type) -> None:
    inputs, labels = rows()
    inputs[np.abs(inputs) < 0.8] = 0.0
    weights = np.maximum(np.random.default_rng(1).standard_normal(N_ROWS), 0.0)
    matrix, chosen = sparse.csr_array(inputs.astype(dtype)), np.array(columns, dtype=np.intp)
    expected = DenseRows(matrix.toarray(), labels).curvature(weights, np.empty((0, N_ROWS)), chosen)
    found = SparseRows(matrix, labels).curvature(weights, np.empty((0, N_ROWS)), chosen)
    np.testing.assert_allclose(np.tril(found), np.tril(expected), rtol=1e-12, atol=1e-12)
