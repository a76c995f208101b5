"""Bases and sums of products over rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular
from scipy.linalg.blas import dger, dsyr, dsyrk

from okl.compiled.jit import as_compiled, one_blas_thread
from okl.compiled.kernels import kernel_block
from okl.compiled.products import panels_of
from okl.compiled.threads import rows_per_block
from okl.data.dataset import Dataset, Schema, Shard
from okl.data.execution import Rows
from okl.data.reading import read_rows
from okl.features.base import FeatureMap
from okl.features.predictors import KernelExpansion, LinearPredictor, Predictor
from okl.foundation.class_tags import lasting_attributes, stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Criterion, Doubles, FloatArray, IntArray, Precision, Task
from okl.kernels import Kernel

# Bases: kernel values with landmarks, or a feature map.

ADDED = {"float32": 2e-7, "float64": 1e-8}  # to the diagonal of the landmarks' kernel matrix, of its mean


@dataclass(frozen=True, eq=False)
class MetricFactor:
    """Coordinates in which ||f||^2 is the square of the length: weights are factor^(-T) times these.

    factor : (n_columns, n_columns) lower triangular, P = factor factor' being the penalty's matrix; None for P = I
    matrix : P itself; None for P = I
    """

    factor: Doubles | None
    matrix: Doubles | None

    def of_columns(self, columns: Doubles) -> Doubles:
        """Return columns (rows, n_columns) in these coordinates: columns @ factor^(-T)."""
        if self.factor is None:
            return columns
        turned: Doubles = solve_triangular(self.factor, columns.T, lower=True, check_finite=False).T
        return turned

    def of_products(self, products: Doubles) -> Doubles:
        """Return sums of products of columns (n_columns, n_columns) in these coordinates, symmetric."""
        if self.factor is None:
            return products
        half = solve_triangular(self.factor, products, lower=True, check_finite=False)
        turned = solve_triangular(self.factor, half.T, lower=True, check_finite=False)
        symmetric: Doubles = 0.5 * (turned + turned.T)
        return symmetric

    def back(self, weights: Doubles) -> Doubles:
        """Return weights of the columns (n_columns, n_outputs) from those in these coordinates."""
        if self.factor is None:
            return weights
        solution: Doubles = solve_triangular(self.factor, weights, lower=True, trans="T", check_finite=False)
        return solution


@stored("landmark-basis")
@dataclass(frozen=True, eq=False)
class LandmarkBasis:
    """Columns k(x, l) for landmarks l; the penalty is w'K w, K their kernel matrix, the norm of f in its space.

    kernel : with a rule for compiled code; landmarks : (n_landmarks, n_inputs), float32 or float64
    Raises ConfigError : a kernel of the user's own, which compiled code does not know

    Source: Williams & Seeger, NIPS 2000; the subset of regressors as in Rudi, Carratino & Rosasco, NIPS 2017, (8).
    """

    kernel: Kernel
    landmarks: FloatArray

    def __post_init__(self) -> None:
        if self.kernel.rule is None:
            raise ConfigError(f"The kernel {self.kernel.name!r} has no compiled code. Use another kernel.")

    __getstate__ = lasting_attributes

    @property
    def n_columns(self) -> int:
        return len(self.landmarks)

    def columns(self, inputs: FloatArray) -> FloatArray:
        """Return new columns (rows, n_columns) of inputs (rows, n_inputs), in the precision of the basis."""
        values = np.empty((len(inputs), self.n_columns), dtype=self.landmarks.dtype)
        step = rows_per_block(self.n_columns, values.itemsize)
        for first in range(0, len(inputs), step):
            self.write_columns(values[first : first + step], inputs[first : first + step])
        return values

    def write_columns(self, values: FloatArray, inputs: FloatArray) -> FloatArray:
        """Overwrite values (rows, n_landmarks) by the columns of inputs (rows, n_inputs), and return them."""
        assert self.kernel.rule is not None
        kernel_block(values, as_compiled(inputs, self.landmarks.dtype), self._panels, self.kernel.rule)
        return values

    def turn(self) -> MetricFactor:
        """Return the factor that makes the penalty of the weights their squared length."""
        wide = np.ascontiguousarray(self.landmarks, dtype=np.float64)
        # by differences, as columns are: squares of landmarks far from each other leave no digits of those close by
        matrix = LandmarkBasis(self.kernel, wide).columns(wide)
        matrix = 0.5 * (matrix + matrix.T)
        mean = float(np.trace(matrix)) / len(matrix)
        with one_blas_thread():
            least = ADDED[self.landmarks.dtype.name]
            for added in (least, 1e2 * least, 1e4 * least):
                try:
                    shifted = matrix + added * mean * np.eye(len(matrix))
                    return MetricFactor(cholesky(shifted, lower=True, check_finite=False), shifted)
                except np.linalg.LinAlgError:  # rounding has made an eigenvalue more negative than that
                    continue
        raise ConfigError(
            f"The {self.kernel.name!r} kernel matrix of {self.n_columns:,} landmarks is not positive definite. Scale "
            "the inputs, or use another kernel."
        )

    def predictor(self, weights: Doubles, offsets: Doubles) -> Predictor:
        """Return scores columns @ weights' + offsets, of weights (n_outputs, n_columns); or DataError."""
        return KernelExpansion(self.kernel, self.landmarks, *rounded(weights, offsets, self.landmarks.dtype))

    @cached_property
    def _panels(self) -> FloatArray:
        return panels_of(self.landmarks.T)


@stored("feature-map-basis")
@dataclass(frozen=True, eq=False)
class MapBasis:
    """Columns of an explicit feature map, such as the inputs themselves; the penalty is the weights' squared length."""

    feature_map: FeatureMap

    @property
    def n_columns(self) -> int:
        return self.feature_map.n_columns

    def columns(self, inputs: FloatArray) -> FloatArray:
        return self.feature_map.transform(inputs)

    def turn(self) -> MetricFactor:
        return MetricFactor(None, None)

    def predictor(self, weights: Doubles, offsets: Doubles) -> Predictor:
        return LinearPredictor(self.feature_map, *rounded(weights, offsets, np.dtype(self.feature_map.precision)))


@dataclass(frozen=True, eq=False)
class RowSpace(MapBasis):
    """Coordinates of a map's columns in what some rows span about their mean, of which weights have no other part.

    Rows that are fewer than columns have the same least squares solution in it, and the penalty is the same.

    mean : (columns of the map,) of the rows; 0 without a bias
    directions : (columns of the map, n_columns), orthonormal
    """

    mean: Doubles
    directions: Doubles

    @staticmethod
    def of(basis: MapBasis, inputs: FloatArray, fit_intercept: bool) -> RowSpace:
        """Return the coordinates for inputs (rows, n_inputs). Pivots leave small columns their digits next to large."""
        apart = np.asarray(basis.columns(inputs), dtype=np.float64)
        mean = apart.mean(axis=0) if fit_intercept else np.zeros(apart.shape[1])
        with one_blas_thread():
            directions, *_ = qr((apart - mean).T, mode="economic", pivoting=True, check_finite=False)
        return RowSpace(basis.feature_map, mean, directions)

    @property
    def n_columns(self) -> int:
        return int(self.directions.shape[1])

    def columns(self, inputs: FloatArray) -> FloatArray:
        coordinates: Doubles = (super().columns(inputs) - self.mean) @ self.directions
        return coordinates


Basis = LandmarkBasis | MapBasis
"""Columns that a row becomes, cheap to send; and the penalty that goes with them."""


def rounded(weights: Doubles, offsets: Doubles, precision: np.dtype[Any]) -> tuple[FloatArray, FloatArray]:
    """Return weights and offsets in a precision, or raise DataError where they are beyond what it holds."""
    with np.errstate(over="ignore"):  # infinity is refused
        parts = np.ascontiguousarray(weights, dtype=precision), offsets.astype(precision)
    if not all(np.isfinite(part).all() for part in parts):
        largest = max(float(np.abs(part).max(initial=0.0)) for part in (weights, offsets))
        raise DataError(
            f"Weights up to {largest:.2g} do not fit {precision}. Set the precision to float64, or scale the target."
        )
    return parts


# Sums of products over rows.

BLOCK = 2048  # rows whose products are summed in one go: fixed, so that bits depend on nothing else
MOST_STRETCHES = 32


@dataclass(frozen=True)
class Outputs:
    """Targets of the scores: +1 and -1 for two classes, one such column for each of several, or the target itself.

    class_weights : of a row of each class, in the order of the labels; None for all 1
    criterion : by which models of classes are compared; a regression is judged by its squared error
    """

    task: Task
    n_outputs: int
    class_weights: tuple[float, ...] | None = None
    criterion: Criterion = "accuracy"

    def of(self, targets: Doubles) -> Doubles:
        if self.task != "multiclass":
            return targets[:, np.newaxis]
        values = np.full((len(targets), self.n_outputs), -1.0)
        values[np.arange(len(targets)), targets.astype(np.intp)] = 1.0
        return values

    def weights(self, targets: Doubles) -> Doubles | None:
        """Return weights (rows,) of rows; None where all are 1."""
        if self.class_weights is None:
            return None
        indices = targets if self.task == "multiclass" else targets > 0.0
        return np.asarray(self.class_weights)[indices.astype(np.intp)]

    def classes(self, scores: Doubles) -> IntArray:
        """Return class indices (rows,) of scores (rows, n_outputs); a score of 0 is the second of two classes."""
        if self.n_outputs > 1:
            return np.asarray(scores.argmax(axis=1))
        return np.asarray(scores[:, 0] >= 0.0, dtype=np.intp)


class WeightedRows(NamedTuple):
    """Rows in memory as in `Rows`, and the weight of each one, (rows,), above 0."""

    inputs: FloatArray
    targets: Doubles
    weights: Doubles


SomeRows: TypeAlias = Rows | WeightedRows


def part_of(rows: SomeRows, cut: slice | IntArray) -> SomeRows:
    """Return some of the rows, with their weights if they have any."""
    some = Rows(rows.inputs[cut], rows.targets[cut])
    return some if isinstance(rows, Rows) else WeightedRows(*some, rows.weights[cut])


def weights_of(rows: SomeRows, outputs: Outputs) -> Doubles | None:
    """Return weights (rows,) of rows, their own times those of their classes; None where all are 1."""
    of_classes = outputs.weights(rows.targets)
    if isinstance(rows, Rows):
        return of_classes
    return rows.weights if of_classes is None else rows.weights * of_classes


@stored("gram-matrix")
@dataclass(frozen=True, eq=False)
class Gram:
    """Sums over rows with columns z, values y, weights v, about their means: rows far from 0 would lose their digits.

    count : sum of v; mean : of z, (n_columns,); value_mean : of y, (n_outputs,)
    products : of v z z', (n_columns, n_columns), symmetric; cross : of v z y', (n_columns, n_outputs); squares : of
        v y^2, (n_outputs,); z and y less their means. All float64

    Source: Chan, Golub & LeVeque, The American Statistician 37(3), 1983, (2.1).
    """

    count: float
    mean: Doubles
    products: Doubles
    value_mean: Doubles
    cross: Doubles
    squares: Doubles

    def merged(self, other: Gram) -> Gram:
        count = self.count + other.count
        share = other.count / count
        # other threads may hold BLAS to one thread, or just not any more: without the limit here, bits would tell
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # the solver checks that it is finite
            apart, values_apart = other.mean - self.mean, other.value_mean - self.value_mean
            along, values_along = (np.sqrt(self.count * share) * step for step in (apart, values_apart))
            products = np.asfortranarray(self.products + other.products)
            return Gram(
                count,
                self.mean + share * apart,
                dger(1.0, along, along, a=products, overwrite_a=1),
                self.value_mean + share * values_apart,
                self.cross + other.cross + np.outer(along, values_along),
                self.squares + other.squares + values_along**2,
            )

    def about_origin(self) -> Gram:
        """Return the same sums of z and y as they are; both means are 0."""
        return Gram(
            self.count,
            0.0 * self.mean,
            self.products + self.count * np.outer(self.mean, self.mean),
            0.0 * self.value_mean,
            self.cross + self.count * np.outer(self.mean, self.value_mean),
            self.squares + self.count * self.value_mean**2,
        )


def gram_of(basis: Basis, outputs: Outputs, blocks: Iterable[SomeRows]) -> Gram:
    """Return sums over blocks of rows, each cut into pieces of BLOCK rows, in their order."""
    n, k = basis.n_columns, outputs.n_outputs
    products, cross, squares = np.zeros((n, n), order="F"), np.zeros((n, k)), np.zeros(k)
    mean, value_mean, count = np.zeros(n), np.zeros(k), 0.0
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # the solver checks that it is finite
        for rows in blocks:
            for first in range(0, len(rows.targets), BLOCK):
                block = part_of(rows, slice(first, first + BLOCK))
                more, block_mean, block_value_mean, columns, values = _about_means(basis, outputs, block)
                products = dsyrk(1.0, columns.T, beta=1.0, c=products, overwrite_c=1, lower=1)
                cross += columns.T @ values
                squares += (values**2).sum(axis=0)
                share = more / (count + more)
                apart, values_apart = block_mean - mean, block_value_mean - value_mean
                along, values_along = (np.sqrt(count * share) * step for step in (apart, values_apart))
                products = dsyr(1.0, along, a=products, overwrite_a=1, lower=1)
                cross += np.outer(along, values_along)
                squares += values_along**2
                count, mean, value_mean = count + more, mean + share * apart, value_mean + share * values_apart
    products += np.tril(products, -1).T  # only what is below the diagonal was summed
    return Gram(count, mean, products, value_mean, cross, squares)


def _about_means(basis: Basis, outputs: Outputs, rows: SomeRows) -> tuple[float, Doubles, Doubles, Doubles, Doubles]:
    """Return the weight of some rows, means of columns and values, and both about these, times roots of weights."""
    columns = np.asarray(basis.columns(rows.inputs), dtype=np.float64)
    values, weights = outputs.of(rows.targets), weights_of(rows, outputs)
    if weights is None:
        count, mean, value_mean = float(len(values)), columns.mean(axis=0), values.mean(axis=0)
    else:
        count = float(weights.sum())
        mean, value_mean = weights @ columns / count, weights @ values / count
    columns -= mean
    values = values - value_mean
    if weights is not None:
        columns *= np.sqrt(weights)[:, np.newaxis]
        values *= np.sqrt(weights)[:, np.newaxis]
    return count, mean, value_mean, columns, values


FAR, FAR_LOGS, CLIPPED = 100.0, 10.0, 10.0  # robust standard deviations
MOST_FAR = 0.01  # of the rows
ROBUST_SCALE = 1.4826  # times the median absolute deviation: the standard deviation of normal errors


@stored("huber-clip")
@dataclass(frozen=True, eq=False)
class Clip:
    """Clipping of targets at a distance from a model, whose least squares solution is the next step of Huber's loss.

    y' = f(x) + min(max(y - f(x), -threshold), threshold); a fixed point minimises Huber's loss with this threshold.

    weights : (n_outputs, n_columns) of the model f, or (1, 0) of a constant
    offsets : (n_outputs,); threshold : in the target's unit

    Source: Huber, Robust Statistics, 1981, section 7.8 (modified residuals).
    """

    weights: Doubles
    offsets: Doubles
    threshold: float

    @staticmethod
    def around(basis: Basis, weights: Doubles, offsets: Doubles, sample: Rows, huber: float) -> Clip:
        """Return the clipping around weights and offsets, in robust standard deviations of a sample's residuals."""
        residuals = sample.targets - Clip(weights, offsets, np.inf).scores(basis, sample.inputs)
        deviation = float(np.median(np.abs(residuals - np.median(residuals))))
        return Clip(weights, offsets, huber * ROBUST_SCALE * deviation)

    @staticmethod
    def of_far_targets(schema: Schema, targets: Doubles) -> Clip | None:
        """Return the clipping around the median of sampled targets, where a few are far from all others, or None.

        Far are those beyond FAR robust standard deviations; where none is negative, in logarithms, too.

        targets : (rows,), as they are read with the schema, whose statistics know the least and largest of all rows
        """
        center = float(np.median(targets))
        deviation = ROBUST_SCALE * float(np.median(np.abs(targets - center)))
        (shift, factor), known = schema.target_shift_and_factor, schema.target_statistics
        ends = np.array([targets.min(), targets.max()])
        if known is not None:
            ends = (np.array([known.minimum, known.maximum]) - shift) * factor
        if deviation == 0.0 or np.abs(ends - center).max() <= FAR * deviation:
            return None
        if np.mean(np.abs(targets - center) > FAR * deviation) > MOST_FAR:
            return None
        if ends[0] >= 0.0:
            logs = np.log(targets + deviation)
            spread = ROBUST_SCALE * float(np.median(np.abs(logs - np.median(logs))))
            if float(np.log(ends[1] + deviation) - np.median(logs)) <= FAR_LOGS * spread:
                return None
        return Clip(np.empty((1, 0)), np.array([center]), CLIPPED * deviation)

    def scores(self, basis: Basis, inputs: FloatArray) -> Doubles:
        scores = np.empty(inputs.shape[0])
        if not self.weights.size:
            scores[:] = self.offsets[0]
            return scores
        for first in range(0, len(scores), BLOCK):
            block = slice(first, first + BLOCK)
            columns = np.asarray(basis.columns(inputs[block]), dtype=np.float64)
            scores[block] = columns @ self.weights[0] + self.offsets[0]
        return scores

    def of(self, basis: Basis, rows: Rows) -> Rows:
        """Return rows with clipped targets; a threshold of 0 leaves them as they are."""
        if self.threshold == 0.0:
            return rows
        scores = self.scores(basis, rows.inputs)
        return Rows(rows.inputs, scores + np.clip(rows.targets - scores, -self.threshold, self.threshold))


@dataclass(frozen=True)
class GramPart:
    """Rows start .. stop - 1 of a row group of a shard."""

    shard: Shard
    group: int
    start: int
    stop: int


Stretch = tuple[GramPart, ...]


def pieces_of(data: Dataset) -> list[GramPart]:
    """Return the training rows in pieces of at most BLOCK rows of a row group, in order."""
    return [
        GramPart(shard, group, start, min(start + BLOCK, rows))
        for shard in data.split("train")
        for group, rows in enumerate(shard.row_groups)
        for start in range(0, rows, BLOCK)
    ]


def read_pieces(data: Dataset, pieces: Iterable[GramPart], precision: Precision) -> Iterator[Rows]:
    """Yield the rows of pieces; a row group is read once for pieces that follow each other."""
    current: tuple[str, int] | None = None
    for piece in pieces:
        if current != (piece.shard.sha256, piece.group):
            read = read_rows(data, piece.shard, (piece.group,), precision)
            current = (piece.shard.sha256, piece.group)
        yield Rows(read.inputs[piece.start : piece.stop], read.targets[piece.start : piece.stop])


def row_chunks(data: Dataset) -> list[Stretch]:
    """Return the training rows in at most 32 chunks of about one length, which depend on the shards only."""
    pieces = pieces_of(data)
    return [tuple(pieces[first:last]) for first, last in cuts(len(pieces), MOST_STRETCHES)]


def cuts(n: int, most: int) -> list[tuple[int, int]]:
    """Cut 0 .. n - 1 into at most so many chunks of about one length: (first, last) of each, last excluded."""
    return [(int(first), int(last)) for first, last in pairwise(np.linspace(0, n, min(most, n) + 1).astype(int))]


def gram_of_pieces(
    data: Dataset, basis: Basis, outputs: Outputs, precision: Precision, clip: Clip | None, stretch: Stretch
) -> Gram:
    """Return the sums over a chunk of rows, with clipped targets if there is a clip; each row group is read once."""
    rows = read_pieces(data, stretch, precision)
    if clip is not None:
        rows = map(partial(clip.of, basis), rows)
    return gram_of(basis, outputs, rows)
