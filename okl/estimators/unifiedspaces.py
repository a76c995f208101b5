"""Where a model's weights live: the inputs' own columns, those of a feature map, or the rows of a kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.accelerated.operators import DenseRows, KernelTiles, RowOperator, SparseRows, TiledKernel
from okl.compiled.blocks import MOST_ROWS, as_compiled, run_threads
from okl.compiled.door import one_blas_thread
from okl.compiled.rowpasses import multiply_rows
from okl.expansions import KernelExpansion
from okl.features.protocol import FeatureMap
from okl.features.scoring import transform_rows
from okl.kernels import Kernel
from okl.types import FloatArray, IntArray, Precision

Inputs = Any  # (rows, n_features), an array of floats or a CSR matrix of them
_CHUNK_ROWS = 16 * MOST_ROWS  # mapped and scored at once


class Space(Protocol):
    """How rows become an operator to learn from, and how they are scored later."""

    def operator(self, inputs: Inputs, labels: FloatArray, n_threads: int) -> RowOperator:
        """Rows with labels (rows,) of -1 and +1; others may be set to it, and share what was computed."""
        ...

    def training_scores(self, rows: Any, weights: FloatArray) -> FloatArray:
        """f (rows,) of the rows of an operator, without a bias, for weights as its solution has them."""
        ...

    def distance_of_classes(self, rows: Any) -> float:
        """Median distance of rows of one class from rows of the other, of a thousand of them."""
        ...

    def scores(self, inputs: Inputs, supports: Inputs, weights: FloatArray, n_threads: int) -> NDArray[np.float64]:
        """Scores (rows, n_outputs) of weights (n_outputs, n_columns or n_supports), a row's bits its own.

        supports : the rows that weights belong to, where they do
        """
        ...


@dataclass(frozen=True, eq=False)
class ColumnSpace:
    """A weight a column: of the inputs, dense or sparse, or of a feature map of dense ones."""

    feature_map: FeatureMap | None = None

    def operator(self, inputs: Inputs, labels: FloatArray, n_threads: int) -> RowOperator:
        """Rows in memory, mapped once."""
        if sparse.issparse(inputs):
            return SparseRows(inputs, labels)
        rows = inputs if self.feature_map is None else transform_rows(self.feature_map, inputs, n_threads)
        return DenseRows(rows, labels, n_threads)

    def training_scores(self, rows: Any, weights: FloatArray) -> FloatArray:
        """<w, z_i> of every row."""
        margins = np.empty(rows.n_points)
        rows.pull(margins, weights)
        margins *= rows.signs
        return margins

    def distance_of_classes(self, rows: Any) -> float:
        """Median Euclidean distance of columns."""
        left, right = _some_of_classes(rows.signs)
        with one_blas_thread():
            products = rows.rows[left] @ rows.rows[right].T
        return _median_distance(rows.squared_lengths(), left, right, products)

    def scores(self, inputs: Inputs, supports: Inputs, weights: FloatArray, n_threads: int) -> NDArray[np.float64]:
        """Products of rows and weights, summed in float64."""
        weights = as_compiled(weights, np.float64)
        scores = np.empty((len(weights), inputs.shape[0]))
        n_threads = max(1, min(n_threads, -(-inputs.shape[0] // _CHUNK_ROWS)))

        def score(thread: int) -> None:
            for first in range(thread * _CHUNK_ROWS, inputs.shape[0], n_threads * _CHUNK_ROWS):
                part = slice(first, first + _CHUNK_ROWS)
                self._score_chunk(scores[:, part], inputs[part], weights)

        run_threads(n_threads, score)
        return np.ascontiguousarray(scores.T)

    def _score_chunk(self, scores: FloatArray, inputs: Inputs, weights: FloatArray) -> None:
        if sparse.issparse(inputs):
            scores[:] = (inputs @ weights.T).T
            return
        mapped = inputs if self.feature_map is None else transform_rows(self.feature_map, inputs)
        rows, ones = as_compiled(mapped, mapped.dtype), np.ones(len(mapped))
        for output, vector in zip(scores, weights, strict=True):
            multiply_rows(output, rows, ones, vector)


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """A coefficient a row of the training set, by an exact kernel.

    budget_bytes : what kernel values may take in memory; those beyond are computed again in every iteration
    """

    kernel: Kernel
    budget_bytes: int

    def operator(self, inputs: Inputs, labels: FloatArray, n_threads: int) -> RowOperator:
        """Kernel values in the precision of the inputs."""
        precision: Precision = "float32" if inputs.dtype == np.float32 else "float64"
        return TiledKernel(KernelTiles(self.kernel, inputs, precision, self.budget_bytes, n_threads), labels)

    def training_scores(self, rows: Any, weights: FloatArray) -> FloatArray:
        """sum_i weights_i k(x_i, x) of every row x."""
        scores = np.empty(rows.n_points)
        rows.tiles.multiply(scores, weights)
        return scores

    def distance_of_classes(self, rows: Any) -> float:
        """Median distance in the space of the kernel."""
        left, right = _some_of_classes(rows.signs)
        products = self.kernel.matrix(rows.tiles.inputs[left], rows.tiles.inputs[right])
        return _median_distance(rows.squared_lengths(), left, right, products)

    def scores(self, inputs: Inputs, supports: Inputs, weights: FloatArray, n_threads: int) -> NDArray[np.float64]:
        """Sums of kernel values with the supports."""
        if self.kernel.rule is None:
            parts = [
                self.kernel.matrix(inputs[first : first + MOST_ROWS], supports) @ weights.T
                for first in range(0, len(inputs), MOST_ROWS)
            ]
            return np.concatenate(parts)
        expansion = KernelExpansion(self.kernel, supports, as_compiled(weights, supports.dtype))
        found = expansion.scores(inputs, n_threads).astype(np.float64)
        return found.reshape(len(inputs), len(weights))


def _some_of_classes(signs: FloatArray) -> tuple[IntArray, IntArray]:
    """Numbers of up to 500 rows of either class, evenly over the rows."""
    found = [np.flatnonzero(signs * sign > 0.0) for sign in (1.0, -1.0)]
    left, right = (rows[np.linspace(0, len(rows) - 1, min(len(rows), 500)).astype(int)] for rows in found)
    return left, right


def _median_distance(squared_lengths: FloatArray, left: IntArray, right: IntArray, products: Any) -> float:
    shared = products.toarray() if sparse.issparse(products) else products
    squared = squared_lengths[left][:, np.newaxis] + squared_lengths[right] - 2.0 * shared
    return float(np.sqrt(np.median(np.maximum(squared, 0.0))))
