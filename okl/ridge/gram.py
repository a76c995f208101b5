"""Sums of products over rows: all that least squares know of them, in one round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger, dsyr, dsyrk

from okl.compiled.door import one_blas_thread
from okl.execution.protocol import Rows
from okl.ridge.basis import Basis
from okl.store.dataset import Dataset, Shard
from okl.store.reading import read_rows
from okl.types import IntArray, Precision, Task

BLOCK = 2048  # rows whose products are summed in one go: fixed, so that bits depend on nothing else
MOST_STRETCHES = 32


@dataclass(frozen=True)
class Outputs:
    """What a score is fitted to: +1 and -1 for two classes, one column of these for each of several, or the target.

    class_weights : of a row of each class, in the order of the labels; None for all 1
    """

    task: Task
    n_outputs: int
    class_weights: tuple[float, ...] | None = None

    def of(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values (rows, n_outputs) of targets (rows,) as `Rows` has them."""
        if self.task != "multiclass":
            return targets[:, np.newaxis]
        values = np.full((len(targets), self.n_outputs), -1.0)
        values[np.arange(len(targets)), targets.astype(np.intp)] = 1.0
        return values

    def weights(self, targets: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Weights (rows,) of rows; None where all are 1."""
        if self.class_weights is None:
            return None
        indices = targets if self.task == "multiclass" else targets > 0.0
        return np.asarray(self.class_weights)[indices.astype(np.intp)]

    def classes(self, scores: NDArray[np.float64]) -> IntArray:
        """Class indices (rows,) that scores (rows, n_outputs) say; a score of 0 is the second of two classes."""
        if self.n_outputs > 1:
            return np.asarray(scores.argmax(axis=1))
        return np.asarray(scores[:, 0] >= 0.0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Gram:
    """Sums over rows with columns z, values y, weights v, about their means: rows far from 0 would lose their digits.

    count : sum of v; mean : of z, (n_columns,); value_mean : of y, (n_outputs,)
    products : of v z z', (n_columns, n_columns), symmetric; cross : of v z y', (n_columns, n_outputs); squares : of
        v y^2, (n_outputs,); z and y less their means. All float64

    Source: Chan, Golub & LeVeque, The American Statistician 37(3), 1983, (2.1).
    """

    count: float
    mean: NDArray[np.float64]
    products: NDArray[np.float64]
    value_mean: NDArray[np.float64]
    cross: NDArray[np.float64]
    squares: NDArray[np.float64]

    def merged(self, other: Gram) -> Gram:
        """Of both sets of rows."""
        count = self.count + other.count
        share = other.count / count
        # other threads may hold BLAS to one thread, or just not any more: without the limit here, bits would tell
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # whoever solves asks if it is finite
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
        """The same sums of z and y as they are; both means are 0."""
        return Gram(
            self.count,
            0.0 * self.mean,
            self.products + self.count * np.outer(self.mean, self.mean),
            0.0 * self.value_mean,
            self.cross + self.count * np.outer(self.mean, self.value_mean),
            self.squares + self.count * self.value_mean**2,
        )


def gram_of(basis: Basis, outputs: Outputs, blocks: Iterable[Rows]) -> Gram:
    """Sums over blocks of rows, each cut into pieces of BLOCK rows, in their order."""
    n, k = basis.n_columns, outputs.n_outputs
    products, cross, squares = np.zeros((n, n), order="F"), np.zeros((n, k)), np.zeros(k)
    mean, value_mean, count = np.zeros(n), np.zeros(k), 0.0
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # whoever solves asks whether it is finite
        for rows in blocks:
            for first in range(0, len(rows.targets), BLOCK):
                cut = slice(first, first + BLOCK)
                one = _about_means(basis, outputs, Rows(rows.inputs[cut], rows.targets[cut]))
                products = dsyrk(1.0, one.columns.T, beta=1.0, c=products, overwrite_c=1, lower=1)
                cross += one.columns.T @ one.values
                squares += (one.values**2).sum(axis=0)
                share = one.count / (count + one.count)
                apart, values_apart = one.mean - mean, one.value_mean - value_mean
                along, values_along = (np.sqrt(count * share) * step for step in (apart, values_apart))
                products = dsyr(1.0, along, a=products, overwrite_a=1, lower=1)
                cross += np.outer(along, values_along)
                squares += values_along**2
                count, mean, value_mean = count + one.count, mean + share * apart, value_mean + share * values_apart
    products += np.tril(products, -1).T  # only what is below the diagonal was summed
    return Gram(count, mean, products, value_mean, cross, squares)


@dataclass(frozen=True, eq=False)
class _AboutMeans:
    """Weight of some rows, means of columns and values, and both about these, times the roots of the rows' weights."""

    count: float
    mean: NDArray[np.float64]
    value_mean: NDArray[np.float64]
    columns: NDArray[np.float64]
    values: NDArray[np.float64]


def _about_means(basis: Basis, outputs: Outputs, rows: Rows) -> _AboutMeans:
    columns = np.asarray(basis.columns(rows.inputs), dtype=np.float64)
    values, weights = outputs.of(rows.targets), outputs.weights(rows.targets)
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
    return _AboutMeans(count, mean, value_mean, columns, values)


@dataclass(frozen=True)
class Piece:
    """Rows start .. stop - 1 of a row group of a shard."""

    shard: Shard
    group: int
    start: int
    stop: int


Stretch = tuple[Piece, ...]


def stretches_of(data: Dataset) -> list[Stretch]:
    """The training rows in at most 32 stretches of about one length, which depend on nothing but the shards."""
    pieces = [
        Piece(shard, group, start, min(start + BLOCK, rows))
        for shard in data.split("train")
        for group, rows in enumerate(shard.row_groups)
        for start in range(0, rows, BLOCK)
    ]
    return [tuple(pieces[first:last]) for first, last in cuts(len(pieces), MOST_STRETCHES)]


def cuts(n: int, most: int) -> list[tuple[int, int]]:
    """Cut 0 .. n - 1 into at most so many stretches of about one length: (first, last) of each, last excluded."""
    return [(int(first), int(last)) for first, last in pairwise(np.linspace(0, n, min(most, n) + 1).astype(int))]


@dataclass(frozen=True, eq=False)
class GramWork:
    """Work on a stretch of rows: their sums. Cheap to send, but for the landmarks."""

    data: Dataset
    basis: Basis
    outputs: Outputs
    precision: Precision

    def __call__(self, stretch: Stretch) -> Gram:
        """Read each row group once, in order."""
        return gram_of(self.basis, self.outputs, self._rows(stretch))

    def _rows(self, stretch: Stretch) -> Iterable[Rows]:
        held: tuple[str, int] | None = None
        for piece in stretch:
            if held != (piece.shard.sha256, piece.group):
                read = read_rows(self.data, piece.shard, (piece.group,), self.precision)
                held = (piece.shard.sha256, piece.group)
            yield Rows(read.inputs[piece.start : piece.stop], read.targets[piece.start : piece.stop])
