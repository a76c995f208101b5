"""Data operators of dual objectives: dense, sparse, mapped and kernel matrices."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from threading import Lock, local
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.compiled import products as compiled
from okl.compiled.descent import add_rows, gather_rows
from okl.compiled.dual_steps import distance_product, inner, squared_distance
from okl.compiled.jit import as_compiled, one_blas_thread
from okl.compiled.kernels import kernel_block
from okl.compiled.threads import rows_of_segment, run_tasks, run_threads
from okl.features.base import FeatureMap, check_inputs
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray, IntArray, Precision
from okl.kernels import Kernel
from okl.solvers.accelerated.base import RowOperator, signs_of

Result = TypeVar("Result")


class SignedRows:
    """Base of operators of rows with labels (m,), -1 or +1."""

    labels: FloatArray

    @property
    def signs(self) -> FloatArray:
        return self.labels

    @property
    def n_points(self) -> int:
        return len(self.labels)


class ExplicitRows(SignedRows, RowOperator):
    """Base of operators whose image is A a (n_columns,), so that w = scale A a."""

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        return float(inner(image, image))

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        return float(squared_distance(image, other_image))

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        return scale * image

    def margins(self, weights: FloatArray) -> Doubles:
        """Return s_i <w, z_i>, a new array (m,)."""
        margins = np.empty(self.n_points)
        self.adjoint(margins, weights)
        return margins

    def image(self, point: FloatArray) -> Doubles:
        """Return A a, a new array (n_columns,)."""
        image = np.empty(self.n_image)
        self.apply(image, point)
        return image

    def scores(self, weights: FloatArray) -> Doubles:
        scores = self.margins(weights)
        scores *= self.signs
        return scores

    def blocks(self) -> Iterable[tuple[slice, Any]]:
        """Return blocks of the rows z_i with their place."""
        raise NotImplementedError

    def curvature(
        self, weights: FloatArray, border: FloatArray, columns: IntArray | None = None, least: float = 0.0
    ) -> Doubles:
        """Return sum_i weight_i x_i x_i', x_i = (s_i z_i, border_i), for weights (m,) >= 0 and border (k, m).

        Of sparse rows the lower triangle alone, and of those of weights below `least` the diagonal alone.

        columns : of z_i, ascending, or None for all
        """
        n = self.n_image if columns is None else len(columns)
        total = np.zeros((n + len(border),) * 2)
        for cut, rows in self.blocks():
            part = (total, rows, self.signs[cut], weights[cut], border[:, cut], columns)
            if sparse.issparse(rows):
                _add_sparse_curvature(*part, least)
            else:
                _add_curvature(*part)
        return total

    def squared_columns(self, weights: FloatArray) -> Doubles:
        """Return sum_i weight_i z_ij^2, (n_columns,)."""
        total = np.zeros(self.n_image)
        for cut, rows in self.blocks():
            if sparse.issparse(rows):
                total += _squares(rows).T @ weights[cut]
                continue
            of_block, own = np.zeros(self.n_image), weights[cut]
            for first in range(0, len(rows), _GATHERED):
                part = slice(first, first + _GATHERED)
                of_block += own[part] @ np.square(rows[part], dtype=np.float64)
            total += of_block
        return total


class MatrixRows(ExplicitRows):
    """Base of operators of a matrix in memory, dense or sparse: rows (m, n_columns) with labels (m,)."""

    rows: Any

    def check(self, kind: str, is_matrix: bool, values: Any) -> None:
        """Raise DataError unless there is a label for each row of a matrix, and its values are finite."""
        if not is_matrix or self.rows.shape[0] != len(self.labels) or self.rows.shape[1] == 0:
            raise DataError(
                f"Rows have shape {np.shape(self.rows)} and type {type(self.rows).__name__}, but there are "
                f"{len(self.labels)} labels. Give a {kind} (rows, columns) and one label for each row."
            )
        # a sum is finite only if its terms are, and costs no array
        if not np.isfinite(values.sum(dtype=np.float64)):
            raise DataError("The rows hold NaN or infinite values. Drop or fill them.")
        object.__setattr__(self, "labels", signs_of(self.labels))

    @property
    def n_image(self) -> int:
        return int(self.rows.shape[1])

    def blocks(self) -> Iterable[tuple[slice, Any]]:
        return ((slice(None), self.rows),)

    def squared_lengths(self) -> Doubles:
        return squared_lengths(self.rows)

    def products(self, left: IntArray, right: IntArray) -> Any:
        first, second = self.rows[left].astype(np.float64), self.rows[right].astype(np.float64)
        return first @ second.T


def _floats(values: NDArray[Any]) -> NDArray[Any]:
    """Return float32 and float64 as they are, others as float64, in the form of compiled code."""
    return as_compiled(values, values.dtype if values.dtype in (np.float32, np.float64) else np.float64)


class SegmentedRows(ExplicitRows):
    """Base of operators of mapped rows that come segment by segment, and are summed in the order of the segments."""

    is_sparse = False

    def over_segments(self, work: Callable[[slice, FloatArray], Result]) -> list[Result]:
        """Return work(place, features) of each segment, in their order."""
        raise NotImplementedError

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        if self.is_sparse:
            out[:] = 0.0
            self.over_segments(
                lambda cut, rows: compiled.add_sparse_rows(out, *_arrays(rows), self.signs[cut], point[cut])
            )
            return

        def image_of(cut: slice, features: FloatArray) -> FloatArray:
            part = np.zeros(self.n_image)
            compiled.add_rows(part, features, self.signs[cut], point[cut])
            return part

        parts = self.over_segments(image_of)
        out[:] = 0.0
        for part in parts:
            out += part

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        if self.is_sparse:
            self.over_segments(
                lambda cut, rows: compiled.multiply_sparse_rows(out[cut], *_arrays(rows), self.signs[cut], image)
            )
            return
        self.over_segments(lambda cut, features: compiled.multiply_rows(out[cut], features, self.signs[cut], image))

    def squared_lengths(self) -> Doubles:
        return np.concatenate(self.over_segments(lambda _, rows: squared_lengths(rows)))


def squared_lengths(rows: Any) -> Doubles:
    """Return ||z_i||^2 of rows, dense or sparse, (m,).

    Raises DataError : one is not finite
    """
    with np.errstate(over="ignore"):
        if sparse.issparse(rows):
            lengths: Doubles = np.asarray(_squares(rows).sum(axis=1), dtype=np.float64)
        else:
            lengths = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    if not np.isfinite(lengths).all():
        largest = float(np.abs(rows.data if sparse.issparse(rows) else rows).max())
        raise DataError(
            f"The squared length of a row is beyond float64: the largest value is {largest:g}. Scale the columns, such "
            "as by --scale standard."
        )
    return lengths


def _arrays(rows: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return rows.data, rows.indices, rows.indptr


def _squares(rows: Any) -> Any:
    squares = rows.data.astype(np.float64) ** 2
    return sparse.csr_array((squares, rows.indices, rows.indptr), shape=rows.shape)


# Dense rows, with or without a feature map.

ClaimedWork = Callable[[compiled.Claims], None]


@stored("dense-rows")
@dataclass(frozen=True, eq=False)
class DenseRows(MatrixRows):
    """A = [s_1 z_1, ..., s_m z_m] of a matrix in memory; sums are float64 whatever the matrix is.

    rows : (m, n_columns), C-contiguous float32 or float64 (anything else is copied), finite; labels : (m,), -1 or +1
    n_threads : int >= 1; the same bits for any
    Raises DataError : shapes that do not fit, values that are not finite, labels that are not both -1 and +1
    """

    rows: FloatArray
    labels: FloatArray
    n_threads: int = 1

    def __post_init__(self) -> None:
        self.check("matrix", self.rows.ndim == 2, self.rows)
        object.__setattr__(self, "rows", _floats(self.rows))

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        parts, size = self._parts, self.segment_rows
        self.in_threads(lambda claims: compiled.add_segments(parts, claims, self.rows, self.signs, point, size))
        self.add_parts(out, parts)

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        size = self.segment_rows
        self.in_threads(lambda claims: compiled.multiply_segments(out, claims, self.rows, self.signs, image, size))

    def in_threads(self, work: ClaimedWork) -> None:
        """Call work in every thread, each with the same fresh claims on segments."""
        claims = compiled.new_claims()
        run_threads(min(self.n_threads, self.n_segments), lambda _: work(claims))

    def add_parts(self, out: FloatArray, parts: FloatArray) -> None:
        """Overwrite out (n_columns,) by the sum of images of segments (n_segments, n_columns), in their order."""
        np.add.reduce(parts, axis=0, out=out)

    @cached_property
    def segment_rows(self) -> int:
        """Return the number of rows in a segment."""
        return rows_of_segment(self.n_points)

    @property
    def n_segments(self) -> int:
        """Return the number of segments that the rows are cut into."""
        return -(-self.n_points // self.segment_rows)

    @cached_property
    def _parts(self) -> Doubles:
        return np.empty((self.n_segments, self.n_image))


_GATHERED = 2048  # rows that are copied at a time


def _add_curvature(
    total: FloatArray,
    rows: FloatArray,
    signs: FloatArray,
    weights: FloatArray,
    border: FloatArray,
    columns: IntArray | None,
) -> None:
    """Add the `curvature` of a block to total; rows of weight 0 are not read."""
    chosen = np.flatnonzero(weights)
    n = len(total) - len(border)
    columns = None if columns is None or n == rows.shape[1] else columns
    block = np.empty((min(_GATHERED, len(chosen)), n + len(border)))
    for first in range(0, len(chosen), _GATHERED):
        some = chosen[first : first + _GATHERED]
        part, roots = block[: len(some)], np.sqrt(weights[some])
        if columns is None:
            np.multiply(rows[some], (roots * signs[some])[:, np.newaxis], out=part[:, :n])
        else:
            compiled.gather_columns(part[:, :n], rows, some, columns, roots * signs[some])
        np.multiply(border[:, some].T, roots[:, np.newaxis], out=part[:, n:])
        total += part.T @ part


def _add_sparse_curvature(
    total: FloatArray,
    rows: Any,
    signs: FloatArray,
    weights: FloatArray,
    border: FloatArray,
    columns: IntArray | None,
    least: float,
) -> None:
    """Add the lower triangle of the same of sparse rows."""
    if columns is not None and len(columns) < rows.shape[1]:
        assert not len(border), "some columns are of problems without a bias"
        places = np.full(rows.shape[1], -1)
        places[columns] = np.arange(len(columns))
        compiled.add_some_sparse_products(total, places, *_arrays(rows), weights, least)
        return
    n = rows.shape[1]
    products = total if not len(border) else np.zeros((n, n))
    compiled.add_sparse_products(products, np.zeros(n), *_arrays(rows), weights, least)
    if len(border):
        total[:n, :n] += products
        for line, values in enumerate(border):
            compiled.add_sparse_rows(total[n + line, :n], *_arrays(rows), signs, weights * values)
        total[n:, n:] += (border * weights) @ border.T


@dataclass(frozen=True)
class ClassGroups:
    """Groups of like rows: how many there are, and what one of them weighs; first all of +1, then those of -1.

    -1 is one group, or, where the rest of several classes weigh differently, one a class in the order of the labels.
    """

    rows: tuple[int, ...]
    weights: tuple[float, ...] = (1.0, 1.0)

    @property
    def signs(self) -> Doubles:
        return np.array([1.0] + [-1.0] * (len(self.rows) - 1))

    @property
    def totals(self) -> Doubles:
        totals: Doubles = np.array(self.rows, dtype=np.float64) * np.array(self.weights)
        return totals

    @property
    def one_row_each(self) -> DenseRows:
        return DenseRows(np.ones((len(self.rows), 1)), self.signs)


@dataclass(frozen=True, eq=False)
class SparseRows(MatrixRows):
    """A = [s_1 z_1, ..., s_m z_m] of a scipy.sparse matrix; sums are float64 whatever the matrix is.

    rows : (m, n_columns), any scipy.sparse matrix or array; converted to CSR without duplicates
    labels : (m,), -1 or +1
    Raises DataError : shapes that do not fit, values that are not finite, labels that are not both -1 and +1
    """

    rows: Any
    labels: FloatArray

    def __post_init__(self) -> None:
        is_sparse = sparse.issparse(self.rows)
        self.check("scipy.sparse matrix", is_sparse, self.rows.data if is_sparse else self.rows)
        matrix = sparse.csr_array(self.rows, copy=True)
        matrix.sum_duplicates()
        matrix.data = _floats(matrix.data)
        object.__setattr__(self, "rows", matrix)

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        out[:] = 0.0
        compiled.add_sparse_rows(out, *_arrays(self.rows), self.signs, point)

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        compiled.multiply_sparse_rows(out, *_arrays(self.rows), self.signs, image)

    def some(self, chosen: IntArray | slice, factor: float = 1.0) -> SparseRows:
        """Return the operator of some rows times a factor; they may be of one class."""
        rows = copy(self)
        object.__setattr__(rows, "rows", self.rows[chosen] if factor == 1.0 else factor * self.rows[chosen])
        object.__setattr__(rows, "labels", self.labels[chosen])
        return rows


def matrix_rows(rows: Any, labels: FloatArray, n_threads: int = 1) -> DenseRows | SparseRows:
    """Return the operator of a matrix in memory, dense or sparse; n_threads : of dense rows."""
    return SparseRows(rows, labels) if sparse.issparse(rows) else DenseRows(rows, labels, n_threads)


@dataclass(frozen=True, eq=False)
class MappedInputs(SegmentedRows):
    """A = [s_1 z(x_1), ..., s_m z(x_m)] of inputs in memory and a map: slower reads than DenseRows', of the same bits.

    inputs : (m, n_inputs), finite; labels : (m,), -1 or +1
    feature_map : z; n_threads : int >= 1; the same bits for any
    Raises DataError : inputs that are not of the map, labels that are not both -1 and +1
    """

    inputs: FloatArray
    labels: FloatArray
    feature_map: FeatureMap
    n_threads: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", as_compiled(self.inputs, self.feature_map.precision))
        object.__setattr__(self, "labels", signs_of(self.labels))
        check_inputs(self.feature_map, self.inputs)

    @property
    def n_image(self) -> int:
        return self.feature_map.n_columns

    def over_segments(self, work: Callable[[slice, FloatArray], Result]) -> list[Result]:
        """Map and visit each segment, several at once."""
        rows = rows_of_segment(self.n_points)

        def run(index: int) -> Result:
            cut = slice(index * rows, (index + 1) * rows)
            return work(cut, self.feature_map.transform(self.inputs[cut]))

        with one_blas_thread():
            return run_tasks(run, -(-self.n_points // rows), self.n_threads)


# Kernel matrices in tiles, cached within a memory budget.

TILE_ROWS = 256  # a tile of float64 values stays in the second-level cache while it is used twice
_GROUPS = 16  # of tile rows, each with sums of its own: fixed, so that bits do not depend on the number of threads


@dataclass(frozen=True, eq=False)
class KernelTiles:
    """The lower half of (k(x_i, x_j)) in square tiles; each is used for itself and for its mirror image.

    A product with a vector has the same bits whatever the budget and the number of threads: tiles that are not held are
    computed as they were the first time, and sums are added in one order.

    inputs : (m, n_inputs), finite; precision : of kernel values; sums are float64
    budget_bytes : int >= 0, what held tiles may take; the whole half takes m^2 / 2 numbers; n_threads : int >= 1
    Raises ConfigError : a budget below 0
    Raises DataError : inputs that are no matrix, kernel values that are not finite
    """

    kernel: Kernel
    inputs: FloatArray
    precision: Precision = "float64"
    budget_bytes: int = 2**30
    n_threads: int = 1

    def __post_init__(self) -> None:
        if self.budget_bytes < 0:
            raise ConfigError(f"budget_bytes = {self.budget_bytes}; expected an integer of at least 0.")
        if self.inputs.ndim != 2 or len(self.inputs) == 0:
            raise DataError(
                f"Inputs have shape {self.inputs.shape}. Give a matrix (rows, columns) with at least one row."
            )
        object.__setattr__(self, "inputs", as_compiled(self.inputs, self.precision))
        # |k(x, x')|^2 <= k(x, x) k(x', x'): the diagonal speaks for all
        if not (np.isfinite(self.diagonal).all() and np.isfinite(self.inputs.sum(dtype=np.float64))):
            raise DataError("The kernel matrix holds NaN or infinite values. Drop or fill such inputs, or scale them.")

    @property
    def n_rows(self) -> int:
        return len(self.inputs)

    @property
    def n_tiles(self) -> int:
        return self._n_parts * (self._n_parts + 1) // 2

    @cached_property
    def n_held(self) -> int:
        """Return the number of tiles that the budget holds, the first ones."""
        return min(self.n_tiles, self.budget_bytes // (TILE_ROWS**2 * np.dtype(self.precision).itemsize))

    @cached_property
    def diagonal(self) -> Doubles:
        """Return k(x_i, x_i), (m,)."""
        values = np.empty(self.n_rows)
        for part in range(self._n_parts):
            values[_cut(part)] = np.diagonal(self._computed(part, part))
        return values

    def multiply(self, out: FloatArray, vector: FloatArray) -> None:
        """Overwrite out (m,) by the matrix times vector (m,), both float64."""
        sums = np.zeros((min(_GROUPS, self._n_parts), self.n_rows))

        def add_group(group: int) -> None:
            for part in range(group, self._n_parts, _GROUPS):
                self._add_tile_row(sums[group], part, vector)

        run_tasks(add_group, len(sums), self.n_threads)
        out[:] = 0.0
        for group in sums:  # in order, for any threads
            out += group

    def _add_tile_row(self, sums: FloatArray, part: int, vector: FloatArray) -> None:
        row_cut = _cut(part)
        ones, products = np.ones(len(vector[row_cut])), np.empty(len(vector[row_cut]))
        for other in range(part + 1):
            tile, column_cut = self._tile(part, other), _cut(other)
            compiled.multiply_rows(products, tile, ones, vector[column_cut])
            sums[row_cut] += products
            if other < part:
                compiled.add_rows(sums[column_cut], tile, ones, vector[row_cut])

    def _tile(self, part: int, other: int) -> FloatArray:
        index = part * (part + 1) // 2 + other
        if index >= self.n_held:
            return self._computed(part, other)
        if self._held[index] is None:  # by one thread only: tile rows belong to groups
            self._held[index] = self._computed(part, other)
        tile = self._held[index]
        assert tile is not None
        return tile

    def _computed(self, part: int, other: int) -> FloatArray:
        inputs = self.inputs[_cut(part)]
        if self.kernel.rule is None:
            matrix = self.kernel.matrix(inputs, self.inputs[_cut(other)])
            return as_compiled(matrix, self.precision)
        values = np.empty((len(inputs), len(self.inputs[_cut(other)])), dtype=self.precision)
        kernel_block(values, inputs, self._panels[other], self.kernel.rule)
        return values

    @cached_property
    def row_cache(self) -> KernelRows:
        """Return the rows of the matrix, for methods that need some of them; the kernel has a rule."""
        return KernelRows(self)

    @property
    def _n_parts(self) -> int:
        return -(-self.n_rows // TILE_ROWS)

    @cached_property
    def _panels(self) -> list[FloatArray]:
        return [compiled.panels_of(self.inputs[_cut(part)].T) for part in range(self._n_parts)]

    @cached_property
    def _held(self) -> list[FloatArray | None]:
        return [None] * self.n_held


class KernelRows:
    """Rows (m,) of a kernel matrix; the last ones used are held in a budget, or a tile of them; same bits if not."""

    def __init__(self, tiles: KernelTiles) -> None:
        self._tiles, self._panels = tiles, compiled.panels_of(tiles.inputs.T)
        most = max(TILE_ROWS, tiles.budget_bytes // (tiles.n_rows * tiles.inputs.itemsize))
        self._rows = np.empty((min(most, tiles.n_rows), tiles.n_rows), dtype=tiles.inputs.dtype)
        self._places: OrderedDict[int, int] = OrderedDict()  # of held rows, those used last at the end
        self._lock, self._scratch = Lock(), local()

    def block(self, values: FloatArray, indices: IntArray) -> None:
        """Overwrite values (n_indices, n_indices) by those between some rows."""
        with self._lock:
            places = np.array([self._places.get(index, -1) for index in indices.tolist()])
            gather_rows(values, self._rows, places, indices)
        missing = np.flatnonzero(places < 0)
        if len(missing):
            inputs = self._tiles.inputs[indices]
            computed = np.empty((len(missing), len(indices)), dtype=self._rows.dtype)
            values[missing] = self._compute(computed, inputs[missing], compiled.panels_of(inputs.T))

    def add(self, out: FloatArray, indices: IntArray, coefficients: FloatArray) -> None:
        """Add some rows times coefficients to out (m,), one after the other."""
        for first in range(0, len(indices), TILE_ROWS):
            part = slice(first, first + TILE_ROWS)
            self._add_part(out, indices[part], coefficients[part])

    def _add_part(self, out: FloatArray, indices: IntArray, coefficients: FloatArray) -> None:
        missing: list[int] = []
        if not hasattr(self._scratch, "rows"):  # of this thread: a new array costs more than the copy from an old one
            self._scratch.rows = np.empty((TILE_ROWS, self._tiles.n_rows), dtype=self._rows.dtype)
        while True:  # once or twice, unless other threads take the places of rows meanwhile
            with self._lock:
                self._hold(indices, missing, self._scratch.rows)
                places = np.array([self._places.get(index, -1) for index in indices.tolist()])
                if np.all(places >= 0):
                    add_rows(out, self._rows, places, coefficients)
                    return
            missing = indices[places < 0].tolist()
            self._compute(self._scratch.rows[: len(missing)], self._tiles.inputs[missing], self._panels)

    def _compute(self, values: FloatArray, inputs: FloatArray, panels: FloatArray) -> FloatArray:
        """Overwrite and return values (n, m) by the kernel of some inputs and those of panels."""
        rule = self._tiles.kernel.rule
        assert rule is not None, "kernels without a rule have no row cache"
        kernel_block(values, inputs, panels, rule)
        return values

    def _hold(self, indices: IntArray, computed: list[int], values: FloatArray) -> None:
        """Mark rows as used last, and hold those computed in the places of the rows used first."""
        for index in indices.tolist():
            if index in self._places:
                self._places.move_to_end(index)
        for index, row in zip(computed, values, strict=False):
            if index not in self._places:
                full = len(self._places) == len(self._rows)
                place = self._places.popitem(last=False)[1] if full else len(self._places)
                self._rows[place] = row
                self._places[index] = place


@dataclass(frozen=True, eq=False)
class TiledKernel(SignedRows):
    """A'A = (s_i s_j k(x_i, x_j)) of tiles, which problems with other labels may share; the image is A'A a itself.

    tiles : KernelTiles of m rows; labels : (m,), -1 or +1
    Raises DataError : shapes that do not fit, labels that are not both -1 and +1
    """

    tiles: KernelTiles
    labels: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", signs_of(self.labels))
        if len(self.labels) != self.tiles.n_rows:
            raise DataError(
                f"There are {self.tiles.n_rows} inputs, but {len(self.labels)} labels. Give one label for each row."
            )

    @property
    def n_image(self) -> int:
        """Return the number of rows: the image is as long as the point."""
        return self.tiles.n_rows

    def apply(self, out: FloatArray, point: FloatArray) -> None:
        self.tiles.multiply(out, self.signs * point)
        out *= self.signs

    def adjoint(self, out: FloatArray, image: FloatArray) -> None:
        """Copy the image, which is A'A a already."""
        out[:] = image

    def squared_norm(self, point: FloatArray, image: FloatArray) -> float:
        """Return a'A'A a; rounding may not make it negative."""
        return max(0.0, float(inner(point, image)))

    def squared_gap(self, point: FloatArray, image: FloatArray, other: FloatArray, other_image: FloatArray) -> float:
        """Return (a - b)'A'A (a - b); rounding may not make it negative."""
        return max(0.0, float(distance_product(point, other, image, other_image)))

    def squared_lengths(self) -> Doubles:
        return self.tiles.diagonal

    def weights(self, point: FloatArray, image: FloatArray, scale: float) -> FloatArray:
        """Return coefficients scale s_i a_i of the rows, (m,): f(x) = sum_i coefficient_i k(x_i, x) - b."""
        return scale * self.signs * point

    def scores(self, weights: FloatArray) -> Doubles:
        scores = np.empty(self.n_points)
        self.tiles.multiply(scores, weights)
        return scores

    def products(self, left: IntArray, right: IntArray) -> Any:
        return self.tiles.kernel.matrix(self.tiles.inputs[left], self.tiles.inputs[right])


def _cut(part: int) -> slice:
    return slice(part * TILE_ROWS, (part + 1) * TILE_ROWS)
