"""Sums of products over rows: all that least squares know of them, in one round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

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
        """Class indices (rows,) that scores (rows, n_outputs) say."""
        if self.n_outputs > 1:
            return np.asarray(scores.argmax(axis=1))
        return np.asarray(scores[:, 0] > 0.0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Gram:
    """Sums over rows with columns z, values y and weights v, in float64.

    count : sum of v; sums : of v z, (n_columns,); products : of v z z', (n_columns, n_columns)
    value_sums : of v y, (n_outputs,); cross : of v z y', (n_columns, n_outputs); squares : of v y^2, (n_outputs,)
    """

    count: float
    sums: NDArray[np.float64]
    products: NDArray[np.float64]
    value_sums: NDArray[np.float64]
    cross: NDArray[np.float64]
    squares: NDArray[np.float64]

    def merged(self, other: Gram) -> Gram:
        """Of both sets of rows."""
        return Gram(
            self.count + other.count,
            self.sums + other.sums,
            self.products + other.products,
            self.value_sums + other.value_sums,
            self.cross + other.cross,
            self.squares + other.squares,
        )

    @property
    def finite(self) -> bool:
        """Whether no sum ran over."""
        return all(bool(np.isfinite(sums).all()) for sums in (self.products, self.cross, self.squares))


def gram_of(basis: Basis, outputs: Outputs, blocks: Iterable[Rows]) -> Gram:
    """Sums over blocks of rows, each cut into pieces of BLOCK rows, in their order."""
    n, k = basis.n_columns, outputs.n_outputs
    products = np.zeros((n, n), order="F")
    sums, cross = np.zeros(n), np.zeros((n, k))
    value_sums, squares, count = np.zeros(k), np.zeros(k), 0.0
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):  # whoever solves asks whether it is finite
        for rows in blocks:
            for first in range(0, len(rows.targets), BLOCK):
                cut = slice(first, first + BLOCK)
                columns = np.asarray(basis.columns(rows.inputs[cut]), dtype=np.float64)
                values, weights = outputs.of(rows.targets[cut]), outputs.weights(rows.targets[cut])
                weighted = values
                count += float(len(values) if weights is None else weights.sum())
                if weights is not None:
                    weighted = values * weights[:, np.newaxis]
                sums += columns.sum(axis=0) if weights is None else weights @ columns
                value_sums += weighted.sum(axis=0)
                squares += (weighted * values).sum(axis=0)
                cross += columns.T @ weighted
                if weights is not None:
                    columns = columns * np.sqrt(weights)[:, np.newaxis]
                products = dsyrk(1.0, columns.T, beta=1.0, c=products, overwrite_c=1, lower=1)
    products += np.tril(products, -1).T  # only what is below the diagonal was summed
    return Gram(count, sums, products, value_sums, cross, squares)


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
