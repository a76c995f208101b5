"""The spaces of weights: explicit rows, feature maps and exact kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.compiled.bundle import add_sloped_rows, add_sloped_rows_of_classes, score_rows, score_rows_of_classes
from okl.compiled.dual_steps import inner
from okl.compiled.jit import as_compiled
from okl.compiled.threads import rows_of_segment, run_threads
from okl.data.dataset import Schema
from okl.features.bandwidth import kernel_of_bandwidth, kernel_with_bandwidth
from okl.features.base import FeatureMap, check_inputs, transform_rows
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray, IntArray, Precision
from okl.kernels import Kernel, NamedKernel
from okl.solvers.base import DrawnMap

Inputs = Any  # (rows, n), an array of floats or a CSR matrix of them

# Segments of rows, independent of the number of threads.

_WORTH_A_THREAD = 2**21  # numbers read; fewer are read before a thread has started


def by_segments(n_rows: int, n_threads: int, work: Callable[[int, slice], None], backwards: bool = False) -> None:
    """Call work(index, rows) for every segment; each free thread takes the next one."""
    rows = rows_of_segment(n_rows)
    order = range(-(-n_rows // rows))
    waiting = iter(reversed(order) if backwards else order)

    def run(_: int) -> None:
        for index in waiting:
            work(index, slice(index * rows, min((index + 1) * rows, n_rows)))

    run_threads(min(n_threads, len(order)), run)


def sum_sloped_rows(rows: Inputs, slopes: FloatArray, n_columns: int, n_threads: int) -> FloatArray:
    """Return float64 sums of slope_i z_i, (n_columns,) or (K, n_columns) for slopes (m, K), of the first columns."""
    if sparse.issparse(rows):
        return np.ascontiguousarray((rows.T @ slopes).T)
    add = add_sloped_rows if slopes.ndim == 1 else add_sloped_rows_of_classes
    shape = (n_columns,) if slopes.ndim == 1 else (slopes.shape[1], n_columns)
    parts = np.zeros((-(-len(rows) // rows_of_segment(len(rows))), *shape))
    # from the end, where the scores have just been made: what was read last is still in cache
    threads = threads_for(len(rows) * n_columns, n_threads)
    by_segments(len(rows), threads, lambda index, cut: add(parts[index], rows[cut], slopes[cut]), backwards=True)
    total = np.zeros(shape)
    for part in parts:  # in the order of the segments, not of the threads
        total += part
    return total


def scores_of_rows(rows: Inputs, weights: FloatArray, n_threads: int) -> FloatArray:
    """Return <w, z_i> of rows (m, n): (m,) for weights (n,), (m, K) for weights (K, n); float64."""
    if sparse.issparse(rows):
        return np.ascontiguousarray(rows @ weights.T)
    score = score_rows if weights.ndim == 1 else score_rows_of_classes
    out = np.empty(len(rows) if weights.ndim == 1 else (len(rows), len(weights)))
    by_segments(len(rows), threads_for(rows.size, n_threads), lambda _, cut: score(out[cut], rows[cut], weights))
    return out


def threads_for(n_numbers: int, n_threads: int) -> int:
    """Return the number of threads for a task on this many numbers."""
    return min(n_threads, max(1, n_numbers // _WORTH_A_THREAD))


@stored("coefficient-vector")
class Vector(NamedTuple):
    """An element of the space of functions.

    coefficients : of the columns, (n_columns,) or (n_outputs, n_columns); or of the rows' kernels, (n_rows,) or
        (n_rows, n_outputs)
    dual : <v, v'> = sum coefficients * dual': the coefficients themselves for columns, K coefficients for kernels
    """

    coefficients: FloatArray
    dual: FloatArray

    def moved(self, step: float, direction: Vector) -> Vector:
        """Return this + step * direction."""
        coefficients = self.coefficients + step * direction.coefficients
        if self.dual is self.coefficients:
            return Vector(coefficients, coefficients)
        return Vector(coefficients, self.dual + step * direction.dual)

    def scaled(self, factor: float) -> Vector:
        """Return factor * this."""
        coefficients = factor * self.coefficients
        return Vector(coefficients, coefficients if self.dual is self.coefficients else factor * self.dual)


def inner_product(left: Vector, right: Vector) -> float:
    """Return <left, right>."""
    return float(inner(left.coefficients.ravel(), right.dual.ravel()))


@dataclass(frozen=True, eq=False)
class ExplicitRows:
    """Rows z_i of a matrix in memory; sums are float64 whatever the matrix is.

    rows : (n_rows, n_columns), C-contiguous float32 or float64 (anything else is copied), or CSR float64; finite
    n_outputs : int >= 1; n_threads : int >= 1; the same bits for any
    Raises DataError : not a matrix with rows and columns
    """

    rows: Inputs
    n_outputs: int = 1
    n_threads: int = 1

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or 0 in self.rows.shape:
            raise DataError(
                f"Rows have shape {self.rows.shape}. Give a matrix (rows, columns) with at least one row and one "
                "column."
            )
        if sparse.issparse(self.rows):
            return
        dtype = self.rows.dtype if self.rows.dtype in (np.float32, np.float64) else np.float64
        object.__setattr__(self, "rows", as_compiled(self.rows, dtype))

    @property
    def n_rows(self) -> int:
        return int(self.rows.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        n_columns = int(self.rows.shape[1])
        return (n_columns,) if self.n_outputs == 1 else (self.n_outputs, n_columns)

    def zero(self) -> Vector:
        """Return the point 0."""
        return self.vector(np.zeros(self.shape))

    def vector(self, coefficients: FloatArray) -> Vector:
        return Vector(coefficients, coefficients)

    def gather(self, slopes: FloatArray) -> Vector:
        """Return mean_i slope_i (x) z_i, summed segment by segment in their order; rows of slope 0 are not read."""
        total = sum_sloped_rows(self.rows, slopes, self.shape[-1], self.n_threads)
        return self.vector(total / self.n_rows)

    def scores(self, vector: Vector, first: int = 0) -> FloatArray:
        """Return <v, phi(x_i)> of all rows from the first one on, (rows,) or (rows, n_outputs)."""
        return scores_of_rows(self.rows[first:], vector.coefficients, self.n_threads)

    def lifted(self, vector: Vector) -> Vector:
        """Return the vector unchanged: columns do not depend on the rows."""
        return vector


# Exact kernels.

_BLOCK = 256  # rows of kernel values computed at once, in float64
_CHECKED = 256  # rows whose kernel values are checked for being those of a kernel
_BELOW = 1e-7  # of the largest eigenvalue


@dataclass(eq=False)
class KernelValues:
    """k(x_i, x_j) + constant of rows in the order they are drawn, computed when they are requested.

    kernel : positive semidefinite; inputs : (rows, n_inputs), finite, in the order of drawing
    constant : added to every value: 1 is a regularised bias, 0 none; budget_bytes : what the values may take, float64
    Raises ConfigError : the values would take more than their budget, or the kernel is indefinite on the first rows
    Raises DataError : values that are not finite
    """

    kernel: Kernel
    inputs: FloatArray
    constant: float = 0.0
    budget_bytes: int = 2**31
    n_known: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.inputs = as_compiled(self.inputs, np.float64)
        self._held = np.zeros((0, 0))

    def among(self, n_rows: int) -> FloatArray:
        """Return kernel values among the first rows, in the first columns of (n_rows, n_rows or more)."""
        if n_rows > self.n_known:
            self._reserve(n_rows)
            for first in range(self.n_known, n_rows, _BLOCK):
                self._compute(first, min(first + _BLOCK, n_rows))
            self._check(n_rows)
            self.n_known = n_rows
        return self._held[:n_rows]

    def _reserve(self, n_rows: int) -> None:
        if n_rows**2 * 8 > self.budget_bytes:
            raise ConfigError(
                f"The kernel values of {n_rows} rows take {n_rows**2 / 2**17:.0f} MiB, above the budget of "
                f"{self.budget_bytes / 2**20:.0f} MiB. Raise memory_budget or gap, or use a feature map."
            )
        if n_rows > len(self._held):
            doubled = min(2 * n_rows, len(self.inputs))
            room = doubled if doubled**2 * 8 <= self.budget_bytes else n_rows
            values = np.zeros((room, room))  # unwritten pages take no memory
            values[: self.n_known, : self.n_known] = self._held[: self.n_known, : self.n_known]
            self._held = values

    def _compute(self, first: int, last: int) -> None:
        values = self.kernel.matrix(self.inputs[first:last], self.inputs[:last]) + self.constant
        if not np.isfinite(values.sum()):
            raise DataError("The kernel values are NaN or infinite. Drop or fill such inputs, or scale them.")
        self._held[first:last, :last] = values
        self._held[:first, first:last] = values[:, :first].T

    def _check(self, n_rows: int) -> None:
        n_checked, fresh = min(self.n_known, _CHECKED), min(n_rows, _CHECKED)
        if fresh > n_checked:
            eigenvalues = np.linalg.eigvalsh(self._held[:fresh, :fresh])
            if eigenvalues[0] < -_BELOW * max(abs(eigenvalues[0]), eigenvalues[-1]):
                raise indefinite(self.kernel, f"an eigenvalue {eigenvalues[0]:.3g} on {fresh} rows")


def indefinite(kernel: Kernel, sign: str) -> ConfigError:
    """Return the error of a kernel whose squared lengths may be negative."""
    return ConfigError(
        f"The kernel {kernel.name!r} is indefinite: it has {sign}, so the problem is not convex. Use a "
        "positive semidefinite kernel."
    )


@dataclass(frozen=True, eq=False)
class KernelRows:
    """The first rows of kernel values as a space: <u, v> = sum u_i (K v)_i.

    values : KernelValues, which smaller samples share; n_rows : of the sample
    n_outputs, n_threads : int >= 1; the same bits for any number of threads
    Raises ConfigError : the kernel is found to be indefinite
    """

    values: KernelValues
    n_rows: int
    n_outputs: int = 1
    n_threads: int = 1

    def zero(self) -> Vector:
        shape = (self.n_rows,) if self.n_outputs == 1 else (self.n_rows, self.n_outputs)
        return Vector(np.zeros(shape), np.zeros(shape))

    def vector(self, coefficients: FloatArray) -> Vector:
        matrix = self.values.among(self.n_rows)
        # the matrix is symmetric: rows of coefficient 0 need not be read
        sums = sum_sloped_rows(matrix, coefficients, self.n_rows, self.n_threads)
        dual = sums if coefficients.ndim == 1 else np.ascontiguousarray(sums.T)
        squared, size = float(np.vdot(coefficients, dual)), float(np.abs(coefficients).ravel() @ np.abs(dual).ravel())
        if squared < -_BELOW * size:
            raise indefinite(self.values.kernel, f"a vector of squared length {squared:.3g}")
        return Vector(coefficients, dual)

    def gather(self, slopes: FloatArray) -> Vector:
        """Return mean_i slope_i (x) phi(x_i)."""
        return self.vector(slopes / self.n_rows)

    def scores(self, vector: Vector, first: int = 0) -> FloatArray:
        """Return K coefficients of all rows from the first one on, which are stored."""
        return vector.dual[first:]

    def lifted(self, vector: Vector) -> Vector:
        """Lift a vector from a space of the first rows into this space."""
        have = len(vector.coefficients)
        if have == self.n_rows:
            return vector
        lifted, matrix = self.zero(), self.values.among(self.n_rows)
        lifted.coefficients[:have], lifted.dual[:have] = vector.coefficients, vector.dual
        padded = np.zeros((self.n_outputs, matrix.shape[1]))
        padded[:, :have] = vector.coefficients.T
        for output, weights in enumerate(padded):
            scores = np.empty(self.n_rows - have)
            score_rows(scores, matrix[have:], weights)
            lifted.dual.reshape(self.n_rows, -1)[have:, output] = scores
        return lifted


SampleSpace = ExplicitRows | KernelRows
"""Space of the points, with the rows of a sample in it."""


@stored("exact-kernel-inputs")
@dataclass(frozen=True, eq=False)
class KernelInputs:
    """Inputs with their kernel k, in place of a feature map, with their columns and precision."""

    kernel: NamedKernel
    n_inputs: int
    precision: Precision

    @property
    def n_columns(self) -> int:
        return self.n_inputs

    def transform(self, inputs: FloatArray) -> FloatArray:
        """Return the inputs, copied. Raises DataError (the inputs have other columns)."""
        check_inputs(self, inputs)
        return np.array(inputs, dtype=self.precision, order="C")  # copy: what was read may be a buffer that is lent

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}

    def describe(self) -> dict[str, Any]:
        """Describe the exact kernel, which has no map."""
        return {"kind": "inputs"}


@dataclass(frozen=True)
class ExactChoice:
    """The exact kernel, a name of okl.kernels; bandwidth : scaled, None for the median distance; or ConfigError."""

    kernel: str = "gaussian"
    bandwidth: float | None = None
    degree: int = 3
    offset: float = 1.0

    def __post_init__(self) -> None:
        kernel_of_bandwidth(self.kernel, 1.0, self.degree, self.offset)

    def draw(self, schema: Schema, sample: FloatArray, seed: int, precision: Precision) -> DrawnMap:
        kernel, chosen = kernel_with_bandwidth(self.kernel, self.bandwidth, sample, self.degree, self.offset)
        return KernelInputs(kernel, schema.n_features, precision), chosen


class SeparateRows(NamedTuple):
    """Rows outside a sample: their space, a vector's scores on them, and its start there."""

    space: SampleSpace
    scores: FloatArray
    start: Vector | None


@dataclass(eq=False)
class ColumnSource:
    """Columns of the inputs, or of a map of them, computed row by row once.

    inputs : (rows, n_inputs); or CSR, without a map; order : (rows,), the rows in the order of drawing
    feature_map : None for the inputs as they are; constant : whether a column of ones comes last, a regularised bias
    n_outputs, n_threads : int >= 1; the same bits for any number of threads
    """

    inputs: Inputs
    order: IntArray
    feature_map: FeatureMap | None = None
    constant: bool = False
    n_outputs: int = 1
    n_threads: int = 1
    _known: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        width = self.inputs.shape[1] if self.feature_map is None else self.feature_map.n_columns
        precision = self.inputs.dtype if self.feature_map is None else np.dtype(self.feature_map.precision)
        precision = precision if precision in (np.float32, np.float64) else np.dtype(np.float64)
        self._rows: Inputs
        if sparse.issparse(self.inputs):
            columns = [self.inputs[self.order], *([np.ones((len(self.order), 1))] if self.constant else [])]
            self._rows, self._known = sparse.hstack(columns, format="csr", dtype=np.float64), len(self.order)
        else:  # unwritten pages take no memory
            self._rows = np.empty((len(self.order), width + self.constant), dtype=precision)

    @property
    def n_rows(self) -> int:
        return len(self.order)

    def space(self, n_rows: int) -> ExplicitRows:
        """Return the space of the first rows; a larger space lifts the vectors of a smaller one."""
        self._know(n_rows)
        return ExplicitRows(self._rows[:n_rows], self.n_outputs, self.n_threads)

    def apart(self, vector: Vector, first: int, last: int) -> SeparateRows:
        """Return rows first to last as a separate space, with scores and start of a vector of the first rows."""
        self._know(last)
        space = ExplicitRows(self._rows[first:last], self.n_outputs, self.n_threads)
        return SeparateRows(space, space.scores(vector), vector)

    def _know(self, n_rows: int) -> None:
        if n_rows <= self._known:
            return
        fresh = slice(self._known, n_rows)
        inputs = self.inputs[self.order[fresh]]
        columns = inputs if self.feature_map is None else transform_rows(self.feature_map, inputs, self.n_threads)
        self._rows[fresh, : columns.shape[1]] = columns
        if self.constant:
            self._rows[fresh, -1] = 1.0
        self._known = n_rows


@dataclass(eq=False)
class KernelSource:
    """Rows known by an exact kernel.

    kernel : positive semidefinite; inputs, order, n_outputs, n_threads : as in ColumnSource
    constant : whether 1 is added to the kernel, a regularised bias; budget_bytes : what kernel values may take
    """

    kernel: Kernel
    inputs: FloatArray
    order: IntArray
    constant: bool = False
    n_outputs: int = 1
    n_threads: int = 1
    budget_bytes: int = 2**31

    def __post_init__(self) -> None:
        self._values = self._of(self.inputs[self.order])

    @property
    def n_rows(self) -> int:
        return len(self.order)

    def space(self, n_rows: int) -> KernelRows:
        self._values.among(n_rows)
        return KernelRows(self._values, n_rows, self.n_outputs, self.n_threads)

    def apart(self, vector: Vector, first: int, last: int) -> SeparateRows:
        others = self._values.inputs[first:last]
        support = self._values.inputs[: len(vector.coefficients)]
        scores = (self.kernel.matrix(others, support) + float(self.constant)) @ vector.coefficients
        return SeparateRows(KernelRows(self._of(others), last - first, self.n_outputs, self.n_threads), scores, None)

    def _of(self, inputs: FloatArray) -> KernelValues:
        return KernelValues(self.kernel, inputs, float(self.constant), self.budget_bytes)


RowSource = ColumnSource | KernelSource
"""Rows in the order of drawing; a sample's kernel values are computed when they are requested."""
